//! The promises, checked: what people saw, and what the store says of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use g2::{domain::platforms::channels::SentTwice, ipc::twin::Twin, store::Store};
use ipc_handlers::Time;
use rusqlite::Connection;

use crate::{
    Asked, Platform, Shown, Wants,
    agent::tokens,
    hostile::names,
    plan::{GROUPS, Plan},
};

/// What was found.
#[derive(Default)]
pub(crate) struct Judged {
    pub broken: Vec<String>,
    pub feed: String,
}

fn count(c: &Connection, sql: &str) -> i64 {
    c.query_row(sql, [], |row| row.get(0)).unwrap_or(-1)
}

/// Returns what is still to be done; `None`: nothing.
pub(crate) fn unfinished(
    c: &Connection,
    root: &Path,
    twin: &Twin,
    platforms: &[Platform],
    asked: &[Asked],
) -> Option<String> {
    let waiting: usize = platforms.iter().map(Platform::waiting).sum();
    if waiting > 0 {
        return Some(format!("{waiting} messages are with their platform"));
    }
    for (what, sql) in [
        ("messages are not judged", "SELECT count(*) FROM inbox WHERE verdict IS NULL"),
        (
            "messages wait for an agent",
            "SELECT count(*) FROM inbox i JOIN lanes l ON l.id = i.lane_id WHERE i.verdict = 'wake' AND i.n > l.cursor",
        ),
        (
            "batches are not done",
            "SELECT count(*) FROM batches WHERE state IN ('handed', 'claimed', 'returned')",
        ),
        (
            "tasks are to be done",
            "SELECT count(*) FROM tasks WHERE status = 'active' AND next_run IS NOT NULL",
        ),
        ("texts are not sent", "SELECT count(*) FROM outbox WHERE status IN ('pending', 'sending')"),
    ] {
        let n = count(c, sql);
        if n != 0 {
            return Some(format!("{n} {what}"));
        }
    }
    for (group, _) in GROUPS {
        for place in ["messages", "tasks"] {
            let mut left = names(twin, &root.join("data/ipc").join(group).join(place));
            // What the host has in hand and can't remove is settled: its receipt says so.
            left.retain(|name| !name.starts_with(".g2-"));
            if let Some(name) =
                left.iter().find(|name| asked.iter().any(|asked| name.ends_with(&asked.file())))
            {
                return Some(format!("the command {group}/{place}/{name} is not taken in"));
            }
        }
    }
    let claimed = names(twin, &root.join("data/claimed"));
    claimed.first().map(|name| format!("data/claimed/{name} is not settled"))
}

/// Looks for promises that were broken, once all is done.
pub(crate) fn judge(
    plan: &Plan,
    store: &Store,
    c: &Connection,
    platforms: &[Platform],
    asked: &[Asked],
    now: Time,
) -> Judged {
    let mut broken = Vec::new();
    let shown: Vec<(SentTwice, Shown)> = platforms
        .iter()
        .flat_map(|platform| platform.shown().into_iter().map(|shown| (platform.sent_twice(), shown)))
        .collect();
    texts(plan, c, &shown, &mut broken);
    commands(plan, c, asked, &shown, &mut broken);
    messages(plan, store, c, &shown, now, &mut broken);
    let feed = feed(c);
    Judged { broken, feed }
}

/// Whether a platform that shows twice what is sent twice is never sent a text that it may have.
fn counts(plan: &Plan, twice: SentTwice) -> bool {
    !(plan.resends && twice == SentTwice::Never)
}

/// No part is shown twice; what is sent is shown; of a chat in the order of the rows.
fn texts(plan: &Plan, c: &Connection, shown: &[(SentTwice, Shown)], broken: &mut Vec<String>) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, shown) in shown.iter().filter(|(twice, _)| counts(plan, *twice)) {
        *times.entry(&shown.key).or_default() += 1;
    }
    for (key, n) in times.iter().filter(|(_, n)| **n > 1) {
        broken.push(format!("the part {key} is shown {n} times"));
    }
    let mut rows = c.prepare("SELECT id, chat_jid, status, cause FROM outbox ORDER BY id").expect("outbox");
    let rows: Vec<(i64, String, String, String)> = rows
        .query_map([], |r| Ok((r.get("id")?, r.get("chat_jid")?, r.get("status")?, r.get("cause")?)))
        .and_then(Iterator::collect)
        .unwrap_or_default();
    for (id, chat, status, cause) in &rows {
        let is_shown = shown.iter().any(|(_, shown)| shown.row == *id);
        if status == "sent" && !is_shown && chat.starts_with("sim") {
            broken.push(format!("the text {id} for {chat} ({cause}) counts as sent, and nobody saw it"));
        }
    }
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, shown) in shown {
        let before = last.entry(&shown.chat).or_default();
        if shown.row < *before {
            broken.push(format!("in {} the text {} is shown after {before}", shown.chat, shown.row));
        }
        *before = shown.row.max(*before);
    }
}

/// Each command has one receipt, one effect, and at most one reply.
fn commands(
    plan: &Plan,
    c: &Connection,
    asked: &[Asked],
    shown: &[(SentTwice, Shown)],
    broken: &mut Vec<String>,
) {
    for command in asked {
        let request = &command.request;
        let receipts: Vec<(String, Option<String>)> = c
            .prepare("SELECT outcome, code FROM receipts WHERE request_id = ?1")
            .and_then(|mut rows| {
                rows.query_map([request], |r| Ok((r.get("outcome")?, r.get("code")?)))?.collect()
            })
            .unwrap_or_default();
        if receipts.len() != 1 {
            broken.push(format!("the command {request} has {} receipts: {receipts:?}", receipts.len()));
        }
        if let Some((outcome, code)) = receipts.first().filter(|(outcome, _)| outcome != "applied") {
            broken.push(format!("the command {request} was {outcome}: {code:?}"));
        }
        match &command.wants {
            Wants::Text(text) => {
                let said: i64 = c
                    .query_row("SELECT count(*) FROM outbox WHERE text = ?1", [text], |r| r.get(0))
                    .unwrap_or(-1);
                if said != 1 {
                    broken.push(format!("what the command {request} says is said {said} times"));
                }
                let seen =
                    shown.iter().filter(|(twice, shown)| counts(plan, *twice) && shown.text == *text).count();
                if seen > 1 {
                    broken.push(format!("what the command {request} says is shown {seen} times"));
                }
            }
            Wants::Task(token) => {
                let of_it = |text: &str| tokens(text).any(|word| word == token);
                let seen =
                    shown.iter().filter(|(twice, shown)| counts(plan, *twice) && of_it(&shown.text)).count();
                if seen > 1 {
                    broken.push(format!("the task of the command {request} is answered {seen} times"));
                }
                let runs: i64 = c
                    .query_row(
                        "SELECT count(*) FROM runs WHERE source IN (SELECT 'task:' || id FROM tasks WHERE prompt = ?1)",
                        [format!("do {token}")],
                        |r| r.get(0),
                    )
                    .unwrap_or(-1);
                if runs < 1 {
                    broken.push(format!("the task of the command {request} was begun {runs} times"));
                }
            }
        }
        if command.replies.len() > 1 {
            broken.push(format!("the command {request} has {} replies", command.replies.len()));
        }
    }
}

/// Each message that is for an agent is answered once, or its chat is told; in order.
fn messages(
    plan: &Plan,
    store: &Store,
    c: &Connection,
    shown: &[(SentTwice, Shown)],
    now: Time,
    broken: &mut Vec<String>,
) {
    for (_, message) in plan.messages.iter().flatten() {
        let token = &message.replay_key;
        let seqs: Vec<i64> = c
            .prepare("SELECT seq FROM messages WHERE chat_jid = ?1 AND replay_key = ?2")
            .and_then(|mut rows| rows.query_map([&message.chat_jid, token], |r| r.get("seq"))?.collect())
            .unwrap_or_default();
        let [seq] = seqs[..] else {
            broken.push(format!("the message {token} is there {} times", seqs.len()));
            continue;
        };
        let answered =
            shown.iter().filter(|(_, shown)| tokens(&shown.text).any(|word| word == token)).count();
        let again =
            !shown.iter().all(|(twice, shown)| counts(plan, *twice) || shown.chat != message.chat_jid);
        if answered > 1 && !again {
            broken.push(format!("the message {token} is answered {answered} times"));
        }
        let why = match store.why(seq, now) {
            Ok(Some(why)) => why,
            Ok(None) => {
                broken.push(format!("nothing is known of the message {token}"));
                continue;
            }
            Err(error) => {
                broken.push(format!("why of the message {token} fails: {error}"));
                continue;
            }
        };
        if why.answer.is_empty() {
            broken.push(format!("why of the message {token} says nothing"));
        }
        if !message.mentioned || answered > 0 {
            continue;
        }
        // The chat was told, or a text about it may have arrived, or was given up.
        if why.outbox.is_empty() {
            broken.push(format!(
                "the message {token} has no answer, and its chat was told nothing: {}",
                why.answer
            ));
        }
    }
    let (mut last, mut seen): (BTreeMap<&str, usize>, BTreeSet<&str>) = Default::default();
    // What is shown again comes out of order.
    for (_, shown) in shown.iter().filter(|(_, shown)| seen.insert(&shown.key)) {
        for word in tokens(&shown.text) {
            let Some(n) = word.strip_prefix("tok").and_then(|n| n.strip_suffix('x')?.parse().ok()) else {
                continue;
            };
            let before = last.entry(&shown.chat).or_insert(n);
            if n < *before {
                broken.push(format!("in {} {word} is answered after tok{before}x", shown.chat));
            }
            *before = n.max(*before);
        }
    }
}

fn feed(c: &Connection) -> String {
    let rows = c.prepare("SELECT seq, at, kind, group_folder, chat_jid, subject FROM events ORDER BY seq");
    let rows: Vec<String> = rows
        .and_then(|mut rows| {
            rows.query_map([], |r| {
                let (seq, at): (i64, i64) = (r.get("seq")?, r.get("at")?);
                let (kind, subject): (String, Option<String>) = (r.get("kind")?, r.get("subject")?);
                let (group, chat): (Option<String>, Option<String>) =
                    (r.get("group_folder")?, r.get("chat_jid")?);
                Ok(format!(
                    "{seq} {at} {kind} {} {} {}",
                    group.unwrap_or_default(),
                    chat.unwrap_or_default(),
                    subject.unwrap_or_default()
                ))
            })?
            .collect()
        })
        .unwrap_or_default();
    rows.join("\n")
}
