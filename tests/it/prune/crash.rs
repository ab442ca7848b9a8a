//! Pruning that dies at a step, and what a receipt is kept for.

use super::*;
use crate::crash::scene::{all_settled, die_at, names};

/// SIGKILL.
const KILLED: i32 = 9;

/// Everything that the store has of history, as text.
fn left(root: &Root) -> Vec<String> {
    let store = store(root);
    let mut rows = Vec::new();
    for (table, id) in [
        ("messages", "seq"),
        ("inbox", "n"),
        ("batches", "id"),
        ("runs", "id"),
        ("outbox", "id"),
        ("receipts", "claim_id"),
        ("by_hand", "claim_id"),
        ("dropped", "last_seq"),
    ] {
        let mut ids = store.prepare(&format!("SELECT {id} FROM {table} ORDER BY {id}")).unwrap();
        let ids: Vec<i64> = ids.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
        rows.push(format!("{table} {ids:?}"));
    }
    rows.push(format!("folders {}", run_folders(root)));
    rows
}

/// Runs `g2 prune` and has it die at a step; whether it came there.
fn killed_at(root: &Root, point: &str) -> bool {
    let output = root.command(&["prune", "--yes"]).env("G2_FAILPOINT", point).output().unwrap();
    let killed = output.status.signal() == Some(KILLED);
    assert!(killed || output.status.success(), "{point}: {output:?}");
    killed
}

#[test]
fn wherever_pruning_dies_nothing_is_left_half_and_the_next_one_does_the_rest() {
    let whole = lived();
    let copy = || {
        let root = Root::new("");
        for file in ["g2.sqlite", "g2.sqlite-wal", "g2.sqlite-shm"] {
            let _ = fs::remove_file(root.data(file));
        }
        store(&whole).execute("VACUUM INTO ?1", [root.data("g2.sqlite").to_str()]).unwrap();
        for run in fs::read_dir(whole.data("runs")).unwrap() {
            fs::create_dir(root.data("runs").join(run.unwrap().file_name())).unwrap();
        }
        root
    };
    let all_at_once = copy();
    all_at_once.g2(&["prune", "--yes"]);
    let mut died = 0;
    for point in ["prune.removed", "prune.committed", "prune.rows"] {
        for nth in 1.. {
            let root = copy();
            if !killed_at(&root, &format!("{point}:{nth}")) {
                break;
            }
            died += 1;
            sound(&root);
            // Whatever is there still can be asked about.
            for message in root.rows(&["messages", "list"]) {
                let why = root.why(message["seq"].as_i64().unwrap());
                assert!(!why["answer"].as_str().unwrap().contains("waits"), "{point}:{nth}: {why}");
            }
            root.g2(&["prune", "--yes"]);
            assert_eq!(left(&root), left(&all_at_once), "{point}:{nth}");
        }
    }
    assert!(died >= 10, "{died}");
}

#[test]
fn a_claimed_file_whose_receipt_is_old_is_still_settled_once() {
    for point in ["ipc.committed:1", "ipc.set_aside:1"] {
        let root = Root::new("");
        die_at(&root, point, || root.put_command("main", "messages", "it.json", &say("once")));
        assert_eq!(names(&root, "claimed").len(), 1, "{point}");
        // It is not kept for being the newest.
        store(&root)
            .execute_batch("INSERT INTO receipts (claim_id, group_folder, box, name, origin, digest, outcome, at) VALUES (100, 'main', 'tasks', 'x', x'01', x'', 'applied', 1)")
            .unwrap();
        // The daemon may have said it before it died: then that is history too.
        let was_said = root.rows(&["outbox", "list"])[0]["status"] == "sent";
        age(&root, 400);
        let pruned = root.json(&["prune", "--yes"]);
        assert_eq!(removed(&pruned, "receipts"), 0, "{point}: {pruned}");
        let daemon = root.serve();
        all_settled(&root);
        if !was_said {
            wait_for("it to be said", || (root.said("local:main") == ["once"]).then_some(()));
        }
        assert_eq!(root.rows(&["outbox", "list"]).len(), usize::from(!was_said), "{point}");
        assert_eq!(daemon.terminate(), Some(0));
        // Now that its file is gone, the receipt is history.
        assert_eq!(removed(&root.json(&["prune", "--yes"]), "receipts"), 1, "{point}");
    }
}

#[test]
fn a_group_whose_box_cannot_be_looked_at_keeps_its_receipts_and_the_others_are_pruned() {
    let root = lived();
    let settled = |group: &str| root.rows(&["ipc", "list", "--group", group]).len();
    let (main, family) = (settled("main"), settled("family"));
    let the_box = root.data("ipc/main/messages");
    fs::remove_dir(&the_box).unwrap();
    std::os::unix::fs::symlink("/", &the_box).unwrap();
    let pruned = root.json(&["prune", "--yes"]);
    fs::remove_file(&the_box).unwrap();
    assert_eq!(removed(&pruned, "receipts"), i64::try_from(family).unwrap(), "{pruned}");
    assert_eq!((settled("main"), settled("family")), (main, 0));
}

#[test]
fn a_file_that_came_back_and_was_claimed_anew_keeps_its_old_receipt_until_it_is_settled() {
    let root = Root::new("");
    let daemon = root.serve();
    // Two names for one file: what a rename that was lost leaves.
    let (written, back) = (root.data("ipc/main/messages/.it.tmp"), root.data("back"));
    fs::write(&written, say("once").to_string()).unwrap();
    fs::hard_link(&written, &back).unwrap();
    fs::rename(&written, root.data("ipc/main/messages/it.json")).unwrap();
    all_settled(&root);
    root.put_command("main", "messages", "last.json", &json!({"type": "list_tasks"}));
    root.settled(2);
    wait_for("it to be said", || (root.said("local:main") == ["once"]).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    age(&root, 40);
    // It was claimed when the next daemon died.
    fs::rename(&back, root.data("claimed/50-main.json")).unwrap();
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "receipts"), 0);
    let daemon = root.serve();
    all_settled(&root);
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(
        root.rows(&["outbox", "list"]).len(),
        0,
        "what was said is history, and it was not said again"
    );
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "receipts"), 1);
}
