//! Lists of large tasks, asked for all at once: a store of a version that had no bounds is where they come from.
#![expect(clippy::disallowed_methods, reason = "looks at what the daemon wrote")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use super::{
    neighbour::Neighbour,
    place::{Attacker, Place},
    scene::ask,
};
use crate::support::{Root, wait_for};

/// How many tasks of 1 MiB the group has, and how many lists of them it wants.
const TASKS: usize = 100;
const LISTS: usize = 40;

/// Gives the group `evil` what its version let it have.
fn give_heavy_tasks(root: &Root) {
    let connection = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for n in 0..TASKS {
        connection
            .execute(
                "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, created_at)
                 VALUES (?1, 'evil', 'local:evil', ?2, 'interval', '60000', 'isolated', 'paused', 0)",
                (format!("task-{n}"), "x".repeat(1 << 20)),
            )
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn want_lists(attacker: &Attacker, called: &str) {
    attacker.commands(called, LISTS, &[&format!(r#"{{"type":"list_tasks","requestId":"{called}-#"}}"#)]);
}

fn all_are_answered(root: &Root, called: &str) {
    for n in 0..LISTS {
        let reply: Value = root.reply("evil", &format!("{called}-{n}"));
        assert!(reply["result"]["next"].is_i64(), "a page, with the way to the next");
        assert!(reply.to_string().len() <= 1 << 20);
    }
}

#[test]
fn lists_of_large_tasks_cost_neither_memory_nor_a_neighbour_and_a_restart_goes_on_with_them() {
    for place in Place::all("") {
        let root = place.root();
        // Measured before they are there, as main is shown them too.
        let daemon = place.serve();
        let neighbour = Neighbour::of(root, &daemon);
        let attack = place.named("lists of large tasks");
        assert_eq!(daemon.terminate(), Some(0));
        give_heavy_tasks(root);
        let daemon = place.serve();
        let attacker = place.attacker();

        want_lists(&attacker, "first");
        let last = root.data("ipc/evil/responses").join(format!("first-{}.json", LISTS - 1));
        neighbour.beside(&attack, |asked| asked < 5 || !last.exists());
        neighbour.assert_no_more_memory(&attack, &daemon);
        all_are_answered(root, "first");

        // What main is shown has its own way with it.
        let shown = std::fs::metadata(root.data("ipc/main/current_tasks.json")).unwrap().len();
        assert!(shown < 8 << 20, "{shown}");
        // Killed while they wait: the next one takes them in as any other.
        let stopped = daemon.hold();
        want_lists(&attacker, "second");
        daemon.kill();
        drop(stopped);
        let daemon = place.serve();
        ask(root, "good", "after-the-start");
        all_are_answered(root, "second");
        neighbour.assert_no_more_memory(&attack, &daemon);
        // By hand everything is there.
        assert_eq!(root.rows(&["tasks", "list", "--group", "evil"]).len(), TASKS);
        let list = json!({"type": "list_tasks", "requestId": "main", "limit": 2, "targetFolder": "evil"});
        root.put_command("main", "tasks", "main.json", &list);
        assert_eq!(root.reply("main", "main")["result"]["tasks"].as_array().map(Vec::len), Some(2));
        wait_for("nothing to stay claimed", || {
            std::fs::read_dir(root.data("claimed")).unwrap().next().is_none().then_some(())
        });
    }
}

/// How many lists are wanted where they are far more than a minute may have, and how large each is, about.
const FLOOD: usize = 400;

#[test]
fn short_lists_before_long_ones_overdraw_the_bytes_of_a_minute_by_a_bound() {
    let root = super::host::two_groups_with("[limits]\ncommands_mib_per_minute = 2\nmin_free_mib = 1\n");
    root.serve().terminate();
    give_heavy_tasks(&root);
    for n in 0..FLOOD {
        let behind = if n < 100 { i64::MAX } else { 0 };
        let list = json!({"type": "list_tasks", "requestId": format!("same-{n:03}"), "after": behind});
        root.put_command("evil", "tasks", &format!("{n:03}.json"), &list);
        // A command of this length ends what is claimed together.
        if n % 31 == 30 {
            let long = format!("{}{}", json!({"type": "clear_session"}), " ".repeat(256 << 10));
            root.put_bytes("evil", "tasks", &format!("{n:03}-long.json"), long.as_bytes());
        }
    }
    replies_end_by(&root, 2 + 40);
}

/// Takes in what waits. The replies have at least 2 MiB when the gate shuts, and at most `most_mib`.
fn replies_end_by(root: &Root, most_mib: u64) {
    let _daemon = root.serve();
    wait_for("the gate to shut", || root.log().contains("more commands than the limits allow").then_some(()));
    // Those that are taken are answered, and a neighbour is.
    ask(root, "good", "beside");
    let replies = std::fs::read_dir(root.data("ipc/evil/responses")).unwrap();
    let bytes: u64 = replies.map(|reply| reply.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes >= 2 << 20, "{bytes}");
    assert!(bytes <= most_mib << 20, "{bytes} bytes were written");
}

#[test]
fn lists_beyond_the_bytes_of_a_minute_wait_and_hardly_any_more_are_written() {
    // Two MiB a minute, and 1 MiB a list.
    let root = super::host::two_groups_with("[limits]\ncommands_mib_per_minute = 2\nmin_free_mib = 1\n");
    root.serve().terminate();
    give_heavy_tasks(&root);
    for n in 0..FLOOD {
        // Half of them hide what they are from a look at their bytes.
        let kind = if n % 2 == 0 { "list_tasks" } else { r"list\u005ftasks" };
        let text = format!(r#"{{"type":"{kind}","requestId":"same-{n:03}"}}"#);
        root.put_bytes("evil", "tasks", &format!("{n:03}.json"), text.as_bytes());
    }
    replies_end_by(&root, 2 + 12);
}
