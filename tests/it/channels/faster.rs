//! A chat that writes faster than its agent reads: many messages are read at once, each of them once.

use std::fs;

use serde_json::json;

use super::{bots::table, python};
use crate::support::{Root, wait_for};

const MESSAGES: i64 = 1000;
/// The bound of one prompt, `limits.batch_messages`.
const AT_ONCE: i64 = 200;

/// Asks the store for a number.
fn count(root: &Root, sql: &str) -> i64 {
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_thousand_messages_of_a_chat_are_read_at_once_each_exactly_once_over_a_death_too() {
    let root = Root::new("");
    let room = root.path().join("room");
    let line =
        |n: i64| json!({"from": "ada", "bot": false, "text": format!("number {n}")}).to_string() + "\n";
    fs::write(&room, (0..MESSAGES).map(line).collect::<String>()).unwrap();
    root.close_gate(&table(&room, "ann", &python()));
    root.g2(&["groups", "add", "ann", "--chat", "ann:room"]);
    root.g2(&["wirings", "set", "--group", "ann", "--chat", "ann:room", "engage=pattern", "pattern=."]);
    root.g2(&["chats", "set", "ann:room", "policy=public"]);
    let daemon = root.serve();
    let heard = "SELECT count(*) FROM inbox WHERE verdict = 'wake'";
    wait_for("all to be heard", || (count(&root, heard) == MESSAGES).then_some(()));
    daemon.kill();
    let daemon = root.serve();
    root.open_gate();
    let unread = "SELECT count(*) FROM inbox i WHERE NOT EXISTS
        (SELECT 1 FROM batches b WHERE b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last AND b.state = 'done')";
    wait_for("all to be read", || (count(&root, unread) == 0).then_some(()));
    let read = "SELECT count(*) FROM inbox i JOIN batches b ON b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last AND b.state = 'done'";
    assert_eq!(count(&root, read), MESSAGES, "some are in two prompts");
    let largest = "SELECT max((SELECT count(*) FROM inbox i WHERE i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last)) FROM batches b";
    assert_eq!(count(&root, largest), AT_ONCE);
    // Five full ones, and few more for what was handed over while the first were heard.
    let batches = count(&root, "SELECT count(*) FROM batches WHERE state = 'done'");
    assert!((5..=30).contains(&batches), "{batches}");
    // Each prompt is answered once, the last one with the last message.
    let said = || super::bots::said_by(&root, "ann");
    wait_for("the answers", || (said().len() >= usize::try_from(batches).unwrap()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let said = said();
    assert_eq!(said.len(), usize::try_from(batches).unwrap());
    assert_eq!(said.last().unwrap(), &format!("echo: number {}", MESSAGES - 1));
}
