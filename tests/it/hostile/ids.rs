//! Ids of tasks that a group takes before those of others are made.
use serde_json::json;

use super::{neighbour::Neighbour, place::Place};

/// How many ids it takes, and how many tasks it then has made under ids of the host's.
const TAKEN: usize = 700;
const WANTED: usize = 40;

#[test]
fn ids_that_a_group_has_taken_beforehand_cost_nobody_and_are_no_other_groups() {
    for place in Place::all("") {
        let (root, daemon) = (place.root(), place.serve());
        let attacker = place.attacker();
        let neighbour = Neighbour::of(root, &daemon);
        let attack = place.named("taken ids");
        let task = |id: Option<&str>, request: &str| {
            json!({"type": "schedule_task", "taskId": id, "prompt": "x".repeat(8 << 10), "schedule_type": "cron",
                "schedule_value": "0 0 1 1 *", "requestId": request})
            .to_string()
        };
        // As if it knew the number that comes next.
        attacker.commands("taken", TAKEN, &[&task(Some("task-#"), "taken-#")]);
        assert_eq!(root.reply("evil", &format!("taken-{}", TAKEN - 1))["ok"], true);
        attacker.commands("wanted", WANTED, &[&task(None, "wanted-#")]);
        let last = root.data("ipc/evil/responses").join(format!("wanted-{}.json", WANTED - 1));
        neighbour.beside(&attack, |_| !last.exists());
        neighbour.assert_no_more_memory(&attack, &daemon);
        for n in 0..WANTED {
            assert_eq!(root.reply("evil", &format!("wanted-{n}"))["ok"], true);
        }
        // What is taken there is free here, and can't be found out.
        let made = json!({"type": "schedule_task", "taskId": "task-7", "prompt": "p", "schedule_type": "cron",
            "schedule_value": "0 0 1 1 *", "requestId": "made"});
        root.put_command("good", "tasks", "made.json", &made);
        assert_eq!(root.reply("good", "made")["result"]["taskId"], "task-7");
        let [taken, absent] = ["task-8", "nobody-has-it"].map(|id| {
            let request = format!("about-{id}");
            let cancel = json!({"type": "cancel_task", "taskId": id, "requestId": request});
            root.put_command("good", "tasks", &format!("{request}.json"), &cancel);
            root.reply("good", &request)["error"].to_string().replace(id, "ID")
        });
        assert!(taken.contains("not_found"), "{taken}");
        assert_eq!(taken, absent);
        assert_eq!(root.rows(&["tasks", "list", "--group", "evil"]).len(), TAKEN + WANTED);
    }
}
