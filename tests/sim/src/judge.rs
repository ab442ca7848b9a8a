//! The promises, checked: what people saw, and what the store says of it.

mod commands;
mod messages;
mod people;
mod questions;
mod tasks;
mod texts;

use std::{collections::BTreeMap, path::Path};

use g2::{
    domain::{platforms::channels::SentTwice, time::zone::Zone},
    ipc::twin::Twin,
    store::Store,
};
use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, Params, Row};

use crate::{
    Asked, Kind, Platform, Shown,
    hostile::names,
    people::{Answer, Reply},
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

/// Returns the groups that are set aside.
pub(crate) fn set_aside(c: &Connection) -> Vec<Folder> {
    let folder = |r: &Row<'_>| Ok(Folder::parse(&r.get::<_, String>(0)?).ok());
    rows(c, "SELECT group_folder FROM holds WHERE aside = 1", [], folder).into_iter().flatten().collect()
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
        return Some(format!("{waiting} deeds are with their platform"));
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
        ("questions of agents are open", "SELECT count(*) FROM questions WHERE state = 'open'"),
        ("texts are not sent", "SELECT count(*) FROM outbox WHERE status IN ('pending', 'sending')"),
        // A card that may have arrived waits until a person says whether it has, one that another stands for until its question is closed.
        (
            "cards and reactions are to be changed",
            "SELECT count(*) FROM amends a LEFT JOIN outbox o ON o.id = a.outbox_id LEFT JOIN approvals q ON q.id = a.approval_id
             WHERE a.batch IS NOT NULL OR (o.status <> 'unknown' AND (a.outcome IS NOT NULL OR q.state <> 'pending'))",
        ),
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

/// Returns the rows of a query; none where it fails.
fn rows<T>(
    c: &Connection,
    sql: &str,
    with: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    c.prepare(sql).and_then(|mut rows| rows.query_map(with, row)?.collect()).unwrap_or_default()
}

/// What there is to judge by.
struct Case<'a> {
    plan: &'a Plan,
    store: &'a Store,
    c: &'a Connection,
    /// What people saw, in order, and on what kind of platform.
    shown: Vec<(Kind, Shown)>,
    asked: &'a [Asked],
    answers: Vec<Answer>,
    replies: Vec<Reply>,
    /// How many reactions of ours the platforms show.
    signs: usize,
    /// The clocks of groups.
    zones: &'a BTreeMap<Folder, Zone>,
    /// When the daemon died, ms since the simulation began.
    deaths: &'a [i64],
    now: Time,
}

impl Case<'_> {
    /// Whether a platform is never sent a text that it may have and would show twice.
    fn counts(&self, kind: &Kind) -> bool {
        !(self.plan.resends && kind.twice == SentTwice::Never)
    }
}

/// Looks for promises that were broken, once all is done.
pub(crate) fn judge(
    plan: &Plan,
    store: &Store,
    c: &Connection,
    platforms: &[Platform],
    asked: &[Asked],
    (zones, deaths): (&BTreeMap<Folder, Zone>, &[i64]),
    now: Time,
) -> Judged {
    let shown = platforms
        .iter()
        .flat_map(|platform| platform.shown().into_iter().map(|shown| (platform.kind(), shown)));
    let case = Case {
        plan,
        store,
        c,
        shown: shown.collect(),
        asked,
        answers: platforms.iter().flat_map(Platform::answers).collect(),
        replies: platforms.iter().flat_map(Platform::replies).collect(),
        signs: platforms.iter().map(Platform::signs).sum(),
        zones,
        deaths,
        now,
    };
    let mut broken = Vec::new();
    texts::judge(&case, &mut broken);
    commands::judge(&case, &mut broken);
    messages::judge(&case, &mut broken);
    people::judge(&case, &mut broken);
    tasks::judge(&case, &mut broken);
    Judged { broken, feed: feed(c) }
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
