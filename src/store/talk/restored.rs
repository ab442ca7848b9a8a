//! Texts and messages that a restore holds back: shown, taken up, given up.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::engage::Rule,
    kept::held_back::{HeldCount, HeldKind, HeldRow},
};
use crate::store::{Result, Store, StoreError, columns::Columns as _};

/// Why a message wakes nobody that is of before the restore.
pub(in crate::store) const WHY: &str =
    "it is of before a backup was restored, and may be answered already; `g2 restored resume` takes it up";

/// How much is taken up or given up in one transaction.
const AT_A_TIME: i64 = 500;

/// Which of what is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldWhich {
    /// The oldest, as much as goes into one transaction.
    Oldest,
    /// These texts and messages, all of them or none.
    These { texts: Vec<i64>, messages: Vec<i64> },
}

/// What is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldThen {
    /// Texts are sent, messages are judged as if they came now.
    Resume,
    /// Texts are not sent, messages wake nobody; why.
    Drop(String),
}

impl Store {
    /// Returns what is held back, oldest first, texts before messages; at most `limit` of each.
    pub async fn held_back(&self, limit: usize) -> Result<Vec<HeldRow>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.ask(move |c| {
            let mut rows = texts(c, limit)?;
            rows.extend(messages(c, limit)?);
            Ok(rows)
        })
        .await
    }

    /// Counts what is held back.
    pub async fn count_held_back(&self) -> Result<HeldCount> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT (SELECT count(*) FROM outbox INDEXED BY outbox_held_back WHERE held_back = 1) AS texts,
                        (SELECT count(*) FROM inbox INDEXED BY inbox_restored WHERE rule = 'restored') AS messages",
            )?
            .query_row([], |r| Ok(HeldCount { texts: r.get("texts")?, messages: r.get("messages")? }))?)
        })
        .await
    }

    /// Takes up or gives up what is held back, in one transaction; returns it.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where one of those that are named is not held back; nothing is changed then.
    pub async fn decide_held(&self, which: HeldWhich, then: HeldThen) -> Result<Vec<HeldRow>> {
        self.write(move |c| {
            let rows = match which {
                HeldWhich::Oldest => {
                    let mut rows = texts(c, AT_A_TIME)?;
                    rows.extend(messages(c, AT_A_TIME)?);
                    rows
                }
                HeldWhich::These { texts, messages } => {
                    let named = texts.iter().map(|id| (HeldKind::Text, *id));
                    let named = named.chain(messages.iter().map(|id| (HeldKind::Message, *id)));
                    let rows: Result<Vec<Vec<HeldRow>>> =
                        named.map(|(kind, id)| called(c, kind, id)).collect();
                    rows?.concat()
                }
            };
            for row in &rows {
                decide(c, row, &then)?;
            }
            Ok(rows)
        })
        .await
    }
}

fn decide(c: &Connection, row: &HeldRow, then: &HeldThen) -> Result<()> {
    match (row.kind, then) {
        (HeldKind::Text, HeldThen::Resume) => {
            c.prepare_cached("UPDATE outbox SET status = 'pending', held_back = 0, error = NULL WHERE id = ?1 AND held_back = 1")?
                .execute([row.id])?;
        }
        (HeldKind::Text, HeldThen::Drop(why)) => {
            c.prepare_cached("UPDATE outbox SET held_back = 0, error = ?2 WHERE id = ?1 AND held_back = 1")?
                .execute(params![row.id, why])?;
        }
        (HeldKind::Message, HeldThen::Resume) => {
            // It gets a number behind all that its agents were given since, and is judged as if it came now.
            let lanes: Vec<i64> = c
                .prepare_cached("DELETE FROM inbox WHERE seq = ?1 AND rule = 'restored' RETURNING lane_id")?
                .query_map([row.id], |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for lane in lanes {
                c.prepare_cached("INSERT INTO inbox (lane_id, seq) VALUES (?1, ?2)")?
                    .execute([lane, row.id])?;
            }
            c.prepare_cached("UPDATE messages SET late = 0 WHERE seq = ?1")?.execute([row.id])?;
        }
        (HeldKind::Message, HeldThen::Drop(why)) => {
            c.prepare_cached("UPDATE inbox SET rule = ?2, reason = ?3 WHERE seq = ?1 AND rule = 'restored'")?
                .execute(params![row.id, Rule::Skipped.as_str(), why])?;
        }
    }
    Ok(())
}

const TEXT: &str =
    "SELECT id, chat_jid, group_folder, created_at AS at, substr(text, 1, 200) AS text FROM outbox";
/// A message once, however many groups were to answer it.
const MESSAGE: &str = "SELECT m.seq AS id, m.chat_jid, group_concat(l.group_folder, ', ') AS group_folder, m.received_at AS at, substr(m.shown, 1, 200) AS text
     FROM inbox i INDEXED BY inbox_restored JOIN messages m ON m.seq = i.seq JOIN lanes l ON l.id = i.lane_id WHERE i.rule = 'restored'";

fn held_row(kind: HeldKind) -> impl Fn(&Row<'_>) -> rusqlite::Result<HeldRow> {
    move |r| {
        Ok(HeldRow {
            kind,
            id: r.get("id")?,
            chat_jid: r.get("chat_jid")?,
            group: r.get("group_folder")?,
            at: r.time("at")?,
            text: r.get("text")?,
        })
    }
}

fn texts(c: &Connection, limit: i64) -> Result<Vec<HeldRow>> {
    let mut rows = c.prepare_cached(&format!(
        "{TEXT} INDEXED BY outbox_held_back WHERE held_back = 1 ORDER BY id LIMIT ?1"
    ))?;
    Ok(rows.query_map([limit], held_row(HeldKind::Text))?.collect::<rusqlite::Result<_>>()?)
}

fn messages(c: &Connection, limit: i64) -> Result<Vec<HeldRow>> {
    let mut rows = c.prepare_cached(&format!("{MESSAGE} GROUP BY m.seq ORDER BY m.seq LIMIT ?1"))?;
    Ok(rows.query_map([limit], held_row(HeldKind::Message))?.collect::<rusqlite::Result<_>>()?)
}

/// The one that is called so.
fn called(c: &Connection, kind: HeldKind, id: i64) -> Result<Vec<HeldRow>> {
    let sql = match kind {
        HeldKind::Text => format!("{TEXT} WHERE id = ?1 AND held_back = 1"),
        HeldKind::Message => {
            format!("{} AND i.seq = ?1 GROUP BY m.seq", MESSAGE.replace(" INDEXED BY inbox_restored", ""))
        }
    };
    let row = c.prepare_cached(&sql)?.query_row([id], held_row(kind)).optional()?;
    row.map(|row| vec![row]).ok_or_else(|| {
        StoreError::refused(format!("{kind} {id} is not held back"), "`g2 restored list` shows what is")
    })
}

/// Passes over a message that was written before a backup was restored: the old daemon may have answered it. It is held back.
pub(super) fn hold_if_before(c: &Connection, seq: i64, at: Option<Time>) -> Result<()> {
    let Some(at) = at else { return Ok(()) };
    let restored_at: Option<i64> = c
        .prepare_cached("SELECT CAST(value AS INTEGER) AS at FROM meta WHERE key = 'restored_at'")?
        .query_row([], |r| r.get("at"))
        .optional()?;
    if restored_at.is_some_and(|restored_at| at.0 < restored_at) {
        c.prepare_cached(
            "UPDATE inbox SET verdict = 'ignore', rule = ?2, reason = ?3 WHERE seq = ?1 AND verdict IS NULL",
        )?
        .execute(params![seq, Rule::Restored.as_str(), WHY])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ipc_handlers::{
        Folder,
        effect::{EngageMode, IgnoredMessages, SenderScope},
    };

    use super::*;
    use crate::{
        domain::rows::Inbound,
        store::{NewGroup, NewWiring},
    };

    #[tokio::test]
    async fn messages_of_before_a_restore_wait_and_later_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let folder = Folder::parse("main").unwrap();
        let group =
            NewGroup { folder: folder.clone(), name: "M".into(), is_main: true, trigger: "@M".into() };
        let wiring = NewWiring {
            group: folder,
            chat_jid: "tg:1".into(),
            engage_mode: EngageMode::Pattern,
            engage_pattern: Some(".".into()),
            sender_scope: SenderScope::All,
            ignored_message_policy: IgnoredMessages::Drop,
        };
        store.add_group(group, vec![wiring], Time(1)).await.unwrap();
        store.set_meta("restored_at", "1000").await.unwrap();
        for (key, at) in [("a", Some(999)), ("b", Some(1000)), ("c", None)] {
            let inbound = Inbound {
                chat_jid: "tg:1".into(),
                replay_key: key.into(),
                id: key.into(),
                sender: "tg:2".into(),
                sender_name: "x".into(),
                text: key.into(),
                at: at.map(Time),
                late: true,
                ..Inbound::default()
            };
            store.accept(inbound, Time(2000)).await.unwrap();
        }
        let unjudged = |rows: Vec<crate::store::Unjudged>| {
            rows.into_iter().map(|row| (row.text, row.late)).collect::<Vec<_>>()
        };
        let late = |key: &str| (key.to_owned(), true);
        assert_eq!(unjudged(store.unjudged(9).await.unwrap()), [late("b"), late("c")]);
        let held = store.held_back(9).await.unwrap();
        assert_eq!(
            held.iter().map(|row| (row.kind, row.text.as_str())).collect::<Vec<_>>(),
            [(HeldKind::Message, "a")]
        );
        assert_eq!(store.count_held_back().await.unwrap(), HeldCount { texts: 0, messages: 1 });
        store.decide_held(HeldWhich::Oldest, HeldThen::Resume).await.unwrap();
        assert_eq!(
            unjudged(store.unjudged(9).await.unwrap()),
            [late("b"), late("c"), ("a".to_owned(), false)]
        );
        assert!(store.count_held_back().await.unwrap().is_none());
    }
}
