//! The store is no longer what the daemon needs: another program holds its lock, or a part of it can't be read.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use super::unwell;
use crate::support::{Root, wait_for};

/// The problems that `status` names, by their codes and what they are about.
fn named(status: &Value) -> Vec<(&str, &str)> {
    let findings = status["findings"].as_array().unwrap_or_else(|| panic!("{status}"));
    findings
        .iter()
        .map(|finding| (finding["code"].as_str().unwrap(), finding["about"].as_str().unwrap()))
        .collect()
}

#[test]
fn while_another_program_holds_the_lock_of_the_store_commands_wait_and_status_names_it_until_it_ends() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    let other = root.lock_store();
    for group in ["main", "family"] {
        for n in 0..5 {
            let say =
                json!({"type": "send_message", "chatJid": format!("local:{group}"), "text": n.to_string()});
            root.put_command(group, "messages", &format!("{n}.json"), &say);
        }
    }
    let status = wait_for("status to name it", || {
        let status = root.json(&["status"]);
        (status["state"] != "healthy").then_some(status)
    });
    assert_eq!(named(&status), [("store_writer", "")]);
    assert_eq!(root.run(&["status"]).status.code(), Some(1));
    let finding = &status["findings"][0];
    assert!(finding["text"].as_str().unwrap().starts_with("another program holds the lock"), "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("sqlite3"), "{finding}");
    assert_eq!(unwell(&root).iter().map(|(check, _)| check.as_str()).collect::<Vec<_>>(), ["store_writer"]);
    let figures = root.g2(&["metrics"]);
    assert!(figures.contains("g2_problems{severity=\"fail\"} 1"), "{figures}");
    assert_eq!(root.rows(&["ipc", "list", "--state", "applied"]), Vec::<Value>::new());

    other.execute_batch("ROLLBACK").unwrap();
    for group in ["main", "family"] {
        wait_for("all to be said, in order", || {
            (root.said(&format!("local:{group}")) == ["0", "1", "2", "3", "4"]).then_some(())
        });
    }
    wait_for("it to be gone", || (root.json(&["status"])["state"] == "healthy").then_some(()));
    assert_eq!(root.run(&["status"]).status.code(), Some(0));
    assert_eq!(root.log().matches("a problem is gone: another program").count(), 1, "{}", root.log());
}

#[test]
fn what_can_not_be_read_is_named_and_unknown_and_never_nought() {
    let root = Root::new("");
    let _daemon = root.serve();
    for (table, what, unknown) in [
        ("approvals", "the questions", "approvals_pending"),
        ("holds", "the holds", "held"),
        ("groups", "the groups", "groups"),
        ("runs", "the runs", "running"),
        ("lanes", "waiting conversations", "waiting"),
        ("outbox", "the outbox", "outbox_pending"),
        ("receipts", "the receipts", "dead"),
    ] {
        assert_eq!(root.json(&["status"])["state"], "healthy", "before {table}");
        let away = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
        // Nothing that refers to it is to follow it.
        away.execute_batch(&format!(
            "PRAGMA legacy_alter_table = ON; PRAGMA foreign_keys = OFF; ALTER TABLE {table} RENAME TO away"
        ))
        .unwrap();
        let (status, page) = (root.json(&["status"]), root.run(&["status"]));
        let rows = unwell(&root);
        away.execute_batch(&format!("ALTER TABLE away RENAME TO {table}")).unwrap();
        assert_eq!(status["state"], "degraded", "{table}: {status}");
        assert!(named(&status).contains(&("store", what)), "{table}: {status}");
        assert_eq!(status[unknown], Value::Null, "{table}: {status}");
        assert_eq!(page.status.code(), Some(1), "{table}");
        let page = String::from_utf8(page.stdout).unwrap();
        let says = format!("{what} can't be read: ");
        assert!(page.contains(&says) && page.contains("no such table: "), "{table}: {page}");
        assert!(
            rows.iter().any(|(check, detail)| check == "store" && detail.starts_with(&says)),
            "{table}: {rows:?}"
        );
    }
}
