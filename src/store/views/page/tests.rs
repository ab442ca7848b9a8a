//! What the page shows, and that no list of it walks through a table that grows or sorts one.

use rusqlite::{Connection, params};

use super::*;
use crate::{
    domain::{
        heard::approvals::{Approval, ApprovalKind, State},
        states::DeliveryStatus,
    },
    store::Store,
};

/// A store with a group that two chats are wired to, and some lines in one of them.
async fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g2.sqlite");
    let store = Store::open(&path).unwrap();
    let c = Connection::open(&path).unwrap();
    c.execute_batch(
        "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('one', 'First', '@G2', 0);
         INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('local:a', 'local', 'a', 'group', 0), ('local:b', 'local', 'b', 'group', 0);
         INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, created_at) VALUES ('one', 'local:a', 'pattern', '.', 0), ('one', 'local:b', 'pattern', '.', 0);",
    )
    .unwrap();
    for n in 1..=6_i64 {
        c.execute(
            "INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, received_at, from_me, bot, mentioned) VALUES ('local:b', ?1, ?1, 'local:me', 'me', ?2, ?3, 0, 0, 0)",
            params![n.to_string(), format!("m{n}"), n * 10],
        )
        .unwrap();
        c.execute(
            "INSERT INTO outbox (chat_jid, text, status, cause, created_at, sent_at) VALUES ('local:b', ?1, ?2, 'notice', ?3, iif(?2 = 'sent', ?3, NULL))",
            params![format!("o{n}"), if n == 6 { "failed" } else { "sent" }, n * 10 + 5],
        )
        .unwrap();
    }
    (dir, store)
}

#[tokio::test]
async fn chats_are_narrowed_by_a_part_of_a_name_and_the_newest_is_first() {
    let (_dir, store) = store().await;
    let chats = store.chats_on_page("", 0, 10).await.unwrap();
    let shown: Vec<_> = chats.rows.iter().map(|row| (row.chat.as_str(), row.text.as_deref())).collect();
    assert_eq!((shown, chats.all), (vec![("local:b", Some("m6")), ("local:a", None)], 2));
    assert_eq!(store.chats_on_page("LOCAL:A", 0, 10).await.unwrap().rows[0].chat, "local:a");
    assert_eq!(store.chats_on_page("nobody", 0, 10).await.unwrap(), Chats::default());
    let second = store.chats_on_page("first", 1, 1).await.unwrap();
    assert_eq!((second.rows[0].chat.as_str(), second.all), ("local:a", 2));
}

#[tokio::test]
async fn a_text_that_grows_stands_in_its_chat_as_one_that_is_said() {
    let (_dir, store) = store().await;
    let c = Connection::open(store.path()).unwrap();
    for (status, growth, shown) in [
        ("pending", "growing", DeliveryStatus::Sent),
        ("unknown", "growing", DeliveryStatus::Unknown),
        ("pending", "grown", DeliveryStatus::Pending),
    ] {
        c.execute(
            "INSERT INTO outbox (chat_jid, text, status, cause, created_at, growth) VALUES ('local:b', 'One two', ?1, 'run 1', 1000, ?2)",
            [status, growth],
        )
        .unwrap();
        let line = store.transcript("local:b", None, 1).await.unwrap().lines.remove(0);
        assert!(matches!(line.whence, Whence::Outbox(_, is) if is == shown), "{status} {growth}: {line:?}");
        assert_eq!(line.text, "One two");
    }
}

#[tokio::test]
async fn a_chat_is_read_piece_by_piece_and_no_line_is_left_out_or_shown_twice() {
    let (_dir, store) = store().await;
    for most in 1..=13 {
        let (mut all, mut before, mut pieces) = (Vec::new(), None, 0);
        loop {
            let piece = store.transcript("local:b", before, most).await.unwrap();
            let texts: Vec<String> = piece.lines.iter().map(|line| line.text.clone()).collect();
            all.splice(0..0, texts);
            pieces += 1;
            match piece.older {
                Some(older) => before = Some(older),
                None => break,
            }
            assert!(pieces < 20);
        }
        let expected: Vec<String> = (1..=6).flat_map(|n| [format!("m{n}"), format!("o{n}")]).collect();
        assert_eq!(all, expected, "{most}");
    }
    let last = store.transcript("local:b", None, 1).await.unwrap().lines.remove(0);
    assert_eq!(last.whence, Whence::Outbox(6, crate::domain::states::DeliveryStatus::Failed));
}

#[tokio::test]
async fn lists_go_on_where_the_last_piece_ended() {
    let (_dir, store) = store().await;
    let ids = |rows: Vec<OutboxShown>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let wanted = async |wanted, before| ids(store.outbox_on_page(wanted, before, 2).await.unwrap());
    assert_eq!(wanted(OutboxWanted::All, i64::MAX).await, [6, 5]);
    assert_eq!(wanted(OutboxWanted::All, 5).await, [4, 3]);
    assert_eq!(wanted(OutboxWanted::Failed, i64::MAX).await, [6]);
    assert!(wanted(OutboxWanted::Open, i64::MAX).await.is_empty());
}

/// A question about a chat, for which this message waits.
fn question(seq: i64) -> Approval {
    Approval {
        id: 1,
        kind: ApprovalKind::Channel,
        chat_jid: "local:b".into(),
        sender: "tg:42".into(),
        sender_name: "Bob".into(),
        groups: Vec::new(),
        state: State::Pending,
        approver: "local:me".into(),
        card_chat: String::new(),
        options: Vec::new(),
        created_at: ipc_handlers::Time(0),
        expires_at: ipc_handlers::Time(9),
        decided_at: None,
        decided_by: None,
        decision: None,
        messages: vec![seq],
    }
}

#[tokio::test]
async fn a_question_has_the_chats_name_and_the_beginning_of_what_waits() {
    let (_dir, store) = store().await;
    let long = "x".repeat(1_000);
    Connection::open(store.path())
        .unwrap()
        .execute("UPDATE messages SET text = ?1 WHERE seq = 2", [&long])
        .unwrap();
    let words = store.words_of_questions(&[question(1), question(2), question(99)]).await.unwrap();
    let texts: Vec<_> = words.iter().map(|words| words.text.as_deref().map(str::len)).collect();
    assert_eq!(texts, [Some(2), Some(400), None]);
    assert!(words.iter().all(|words| words.chat.as_deref() == Some("b") && words.files == 0));
}

/// What a plan may walk through: what is short, whatever the store has seen.
const SHORT: [&str; 9] = [
    // Rows of its own, which are bounded.
    "SCAN (subquery",
    "SCAN q",
    "SCAN given",
    // The wirings and groups: the list of chats is asked for.
    "SCAN w",
    "SCAN g",
    // What is still to be said.
    "SCAN o USING INDEX outbox_open",
    // From the newest on, and no further than the piece goes.
    "SCAN o USING INDEX outbox_failed",
    "SCAN web_sessions",
    "SCAN web_tokens",
];

#[tokio::test]
async fn no_list_of_the_page_walks_through_a_table_that_grows() {
    let (_dir, store) = store().await;
    let heard = crate::store::plans::heard(async {
        let group = ipc_handlers::Folder::parse("one").unwrap();
        store.chats_on_page("x", 0, 5).await.unwrap();
        store.transcript("local:b", None, 5).await.unwrap();
        for wanted in [OutboxWanted::All, OutboxWanted::Open, OutboxWanted::Failed] {
            store.outbox_on_page(wanted, 5, 5).await.unwrap();
        }
        store.words_of_questions(&[question(7)]).await.unwrap();
        store.runs_on_page(None, 5, 5).unwrap();
        store.runs_on_page(Some(&group), 5, 5).unwrap();
        store.run_story(1).unwrap();
        store.tasks_to_come(5).unwrap();
        store.tasks_at_rest(5).unwrap();
        store.web_session("x", ipc_handlers::Time(0)).unwrap();
        store.web_sessions(ipc_handlers::Time(0)).unwrap();
        store.web_token("x").unwrap();
        store.web_tokens().unwrap();
    })
    .await;
    assert!(heard.len() >= 15, "{heard:?}");
    store
        .read(|c| {
            for sql in &heard {
                let steps = crate::store::plans::steps(c, sql);
                let long: Vec<_> = steps
                    .iter()
                    .filter(|step| {
                        step.starts_with("SCAN ") && !SHORT.iter().any(|short| step.starts_with(short))
                    })
                    .collect();
                assert!(long.is_empty(), "{sql}: {steps:#?}");
            }
            // Lists of one order are never sorted as a whole.
            for sql in
                heard.iter().filter(|sql| sql.contains("FROM runs") && sql.contains("group_folder = ?2"))
            {
                let steps = crate::store::plans::steps(c, sql);
                assert!(steps.iter().all(|step| !step.contains("TEMP B-TREE")), "{sql}: {steps:#?}");
            }
            Ok(())
        })
        .unwrap();
}
