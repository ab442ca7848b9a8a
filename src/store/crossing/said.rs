//! From work to talk: texts of an agent's work go into the outbox, each [`Key`] once; the unique index `outbox_once` sees to it.
//! Work also reads here what it has said.

use std::fmt;

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension};

use crate::store::{
    Result,
    talk::outbox::{Say, TextCause, grow, growing, grown, say},
};

/// The source of a text. Each says its text once.
pub(in crate::store) enum Key {
    /// A part of a record of a run: the first is 0.
    Record { run: i64, n: u64, part: usize },
    /// A command of a file, by its claim.
    Command(i64),
    /// A batch that was given up.
    GivenUp { batch: i64 },
    /// A batch that is tried again, of which an owner is told.
    Retried { batch: i64 },
    /// A run of a task, the slot of which was given up.
    TaskFailed { run: i64 },
    /// A run that was killed, after which its lane rests.
    Killed { run: i64 },
    /// A word that somebody said in a lane.
    Word { lane: i64, seq: i64 },
    /// A run that begins a new session.
    Fresh { run: i64 },
    /// A run that a person stopped, and whose messages are handed out again.
    Stopped { run: i64 },
    /// The model's host has refused a group's runs since then, and a message waits in a lane of it.
    Hindered { lane: i64, since: Time },
    /// A group has used most of its budget of the day.
    BudgetNear { group: Folder, day: Time },
    /// It has used up all of it, and something waits in a chat of it.
    BudgetOut { group: Folder, day: Time, wiring: i64 },
    /// A chat, or a thread of one, went; the row that was for it.
    Gone { row: i64 },
    /// A task that can't run any more, or has missed its only time.
    Task { group: Folder, id: String, what: &'static str, at: Time },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { run, n, part } => write!(f, "run {run} record {n} part {part}"),
            Self::Command(claim) => write!(f, "command {claim}"),
            Self::GivenUp { batch } => write!(f, "batch {batch} given up"),
            Self::Retried { batch } => write!(f, "batch {batch} retried"),
            Self::TaskFailed { run } => write!(f, "run {run} task failed"),
            Self::Killed { run } => write!(f, "run {run} killed"),
            Self::Word { lane, seq } => write!(f, "lane {lane} word {seq}"),
            Self::Fresh { run } => write!(f, "run {run} fresh"),
            Self::Stopped { run } => write!(f, "run {run} stopped"),
            Self::Hindered { lane, since } => write!(f, "lane {lane} hindered {}", since.0),
            Self::BudgetNear { group, day } => write!(f, "budget near {} {group}", day.0),
            Self::BudgetOut { group, day, wiring } => write!(f, "budget out {} {wiring} {group}", day.0),
            Self::Gone { row } => write!(f, "gone {row}"),
            // Ids have 128 characters at most, folders 64: what is longer than a key may be is cut.
            Self::Task { group, id, what, at } => write!(f, "task {what} {} {group} {id:.128}", at.0),
        }
    }
}

/// Puts the text of `key` into the outbox, unless it is there already; returns its row.
pub(in crate::store) fn said(c: &Connection, key: &Key, what: &Say<'_>, now: Time) -> Result<i64> {
    let key = key.to_string();
    let known: Option<i64> = c
        .prepare_cached("SELECT id FROM outbox INDEXED BY outbox_once WHERE said_key = ?1")?
        .query_row([&key], |r| r.get(0))
        .optional()?;
    match known {
        Some(row) => Ok(row),
        None => say(c, &Say { key: Some(&key), ..*what }, now),
    }
}

/// Whether the beginning of a text is said: where the group wants that.
pub(in crate::store) fn may_grow(c: &Connection, run: i64) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT coalesce(g.config ->> '$.say', '') = 'stream' AS wanted FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = ?1",
    )?
    .query_row([run], |r| r.get("wanted"))?)
}

/// A run has said the beginning of a text: it is the text that grows already, or a new one.
pub(in crate::store) fn said_so_far(
    c: &Connection,
    run: i64,
    key: &Key,
    what: &Say<'_>,
    now: Time,
) -> Result<()> {
    match growing(c, run)? {
        Some(row) => grow(c, row, what.text),
        None => said(c, key, &Say { growing: true, ..*what }, now).map(drop),
    }
}

/// A run has said a whole text: it takes the place of the one that grows.
pub(in crate::store) fn said_whole(
    c: &Connection,
    run: i64,
    key: &Key,
    what: &Say<'_>,
    now: Time,
) -> Result<i64> {
    match growing(c, run)? {
        Some(row) => grown(c, row, Some((what.text, what.cause))).map(|()| row),
        None => said(c, key, what, now),
    }
}

/// What a run has said so far stays as it is.
pub(in crate::store) fn says_no_more(c: &Connection, run: i64) -> Result<()> {
    growing(c, run)?.map_or(Ok(()), |row| grown(c, row, None))
}

/// Returns the newest row of the outbox that a run said; 0 where there is none.
pub(in crate::store) fn newest_of(c: &Connection, run: i64) -> Result<i64> {
    Ok(c.prepare_cached("SELECT coalesce(max(id), 0) FROM outbox WHERE run_id = ?1")?
        .query_row([run], |r| r.get(0))?)
}

/// Whether a run said something after the row `mark`.
pub(in crate::store) fn said_after(c: &Connection, run: i64, mark: i64) -> Result<bool> {
    Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox WHERE run_id = ?1 AND id > ?2)")?
        .query_row([run, mark], |r| r.get(0))?)
}

/// Whether a run said something between the rows `mark` and `row`, for another cause than this one.
pub(in crate::store) fn said_between(
    c: &Connection,
    run: i64,
    (mark, row): (i64, i64),
    cause: TextCause<'_>,
) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM outbox WHERE run_id = ?1 AND id > ?2 AND id < ?3 AND cause <> ?4)",
    )?
    .query_row((run, mark, row, cause.to_string()), |r| r.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn what_is_said_again_under_one_key_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let tell = |key: Key| {
            store.write(move |c| {
                let what = Say::notice("local:main", "", "x", "a test");
                said(c, &key, &what, Time(1))
            })
        };
        let part = |part| Key::Record { run: 5, n: 3, part };
        let first = tell(part(0)).await.unwrap();
        let others = [part(1), Key::Command(5), Key::GivenUp { batch: 5 }, Key::TaskFailed { run: 5 }];
        let mut rows = vec![first];
        for other in others {
            rows.push(tell(other).await.unwrap());
        }
        rows.push(tell(Key::Killed { run: 5 }).await.unwrap());
        assert_eq!(rows, [1, 2, 3, 4, 5, 6], "each key says something");
        assert_eq!(tell(part(0)).await.unwrap(), first);
        let twice = store.write(|c| {
            let what = Say {
                chat_jid: "c",
                text: "x",
                cause: TextCause::Person,
                key: Some("command 5"),
                ..Say::default()
            };
            say(c, &what, Time(1))
        });
        assert!(twice.await.is_err(), "the index holds it");
    }
}
