//! Lists of large tasks, asked for all at once: a store of a version that had no bounds is where they come from.
#![expect(clippy::disallowed_methods, reason = "looks at what the daemon wrote")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scene::{ask, held, peak_kib};
use crate::support::{Root, wait_for};

/// How many tasks of 1 MiB the group has, and how many lists of them it wants.
const TASKS: usize = 100;
const LISTS: usize = 40;
/// How much more memory this may take than ordinary work.
const MORE_KIB: u64 = 64 << 10;

/// A root whose group `evil` has what its version let it have.
fn heavy_root() -> Root {
    let root = Root::new("[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.g2(&["init"]);
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
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
    root
}

fn want_lists(root: &Root, called: &str) {
    for n in 0..LISTS {
        let request = format!("{called}-{n}");
        root.put_command(
            "evil",
            "tasks",
            &format!("{request}.json"),
            &json!({"type": "list_tasks", "requestId": request}),
        );
    }
}

fn all_are_answered(root: &Root, called: &str) {
    for n in 0..LISTS {
        let reply: Value = root.reply("evil", &format!("{called}-{n}"));
        assert!(reply["result"]["next"].is_i64(), "a page, with the way to the next");
        assert!(reply.to_string().len() <= 1 << 20);
    }
}

/// How long a neighbour waits for a reply, at the median and at most.
fn neighbour(root: &Root, called: &str, mut goes_on: impl FnMut(usize) -> bool) -> (Duration, Duration) {
    let mut waited = Vec::new();
    while goes_on(waited.len()) {
        let since = Instant::now();
        ask(root, "good", &format!("{called}-{}", waited.len()));
        waited.push(since.elapsed());
    }
    waited.sort();
    (waited[waited.len() / 2], waited[waited.len() - 1])
}

#[test]
fn lists_of_large_tasks_cost_neither_memory_nor_a_neighbour_and_a_restart_goes_on_with_them() {
    let root = heavy_root();
    let daemon = root.serve();
    let (usual, _) = neighbour(&root, "quiet", |asked| asked < 40);
    let quiet_kib = peak_kib(daemon.pid());

    want_lists(&root, "first");
    let last = root.data("ipc/evil/responses").join(format!("first-{}.json", LISTS - 1));
    let (median, longest) = neighbour(&root, "meanwhile", |asked| asked < 5 || !last.exists());
    all_are_answered(&root, "first");
    let more_kib = peak_kib(daemon.pid()) - quiet_kib;
    eprintln!("a neighbour: {usual:?} alone, {median:?} beside it, {longest:?} at most; {more_kib} KiB more");
    assert!(more_kib < MORE_KIB, "{more_kib} KiB more than {quiet_kib}");
    assert!(median < 20 * usual + Duration::from_millis(500), "{median:?}");

    // What main is shown has its own way with it.
    let shown = std::fs::metadata(root.data("ipc/main/current_tasks.json")).unwrap().len();
    assert!(shown < 8 << 20, "{shown}");
    // Killed while they wait: the next one takes them in as any other.
    let stopped = held(&daemon);
    want_lists(&root, "second");
    daemon.kill();
    drop(stopped);
    let daemon = root.serve();
    ask(&root, "good", "after-the-start");
    all_are_answered(&root, "second");
    let peak = peak_kib(daemon.pid());
    assert!(peak < quiet_kib + MORE_KIB, "{peak} KiB after {quiet_kib}");
    // By hand everything is there.
    assert_eq!(root.rows(&["tasks", "list", "--group", "evil"]).len(), TASKS);
    let reply = {
        let list = json!({"type": "list_tasks", "requestId": "main", "limit": 2, "targetFolder": "evil"});
        root.put_command("main", "tasks", "main.json", &list);
        root.reply("main", "main")
    };
    assert_eq!(reply["result"]["tasks"].as_array().map(Vec::len), Some(2));
    wait_for("nothing to stay claimed", || {
        std::fs::read_dir(root.data("claimed")).unwrap().next().is_none().then_some(())
    });
}
