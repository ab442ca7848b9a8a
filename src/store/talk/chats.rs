//! Chats: their facts, and how strangers are treated there.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::access::UnknownSenders,
    platforms::{
        addresses::{LOCAL, Platform, user_in},
        channels::{Mark, MarkKind},
        chats::{ChatInfo, ChatKind},
    },
    rows::{Chat, ChatChanges},
};
use crate::store::{
    Result, Store, StoreError, at_most,
    columns::Columns as _,
    oldest_first,
    talk::{addresses, questions},
};

/// What came of the chats that an account has listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// They were not known before.
    pub new: usize,
    /// They are not known now, either: the account tells of too many that nobody uses.
    pub no_room: usize,
}

impl Store {
    /// Returns one chat.
    pub async fn chat(&self, jid: &str) -> Result<Option<Chat>> {
        let jid = jid.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!("{CHAT} WHERE jid = ?1"))?.query_row([jid], chat_row).optional()?)
        })
        .await
    }

    /// Returns chats in the order in which they were first heard of; with `limit`, the newest ones.
    pub async fn chats(&self, limit: Option<usize>) -> Result<Vec<Chat>> {
        self.ask(move |c| {
            let newest = &format!("{CHAT} ORDER BY created_at DESC, rowid DESC LIMIT ?1");
            oldest_first(c.prepare_cached(newest)?.query_map([at_most(limit)], chat_row)?)
        })
        .await
    }

    /// Takes in what a channel knows of a chat.
    pub async fn know_chat(&self, jid: String, info: ChatInfo, now: Time) -> Result<()> {
        self.write(move |c| {
            ensure_chat(c, &jid, now)?;
            learn(c, &jid, &info)
        })
        .await
    }

    /// Takes in chats that an account has listed, a few hundred at most. New ones are taken in as long as it has room for chats that
    /// nobody uses.
    pub async fn know_chats(
        &self,
        channel: &str,
        chats: Vec<(String, ChatInfo)>,
        now: Time,
    ) -> Result<Learned> {
        let channel = channel.to_owned();
        self.write(move |c| {
            let (mut learned, mut has_space) = (Learned::default(), None);
            for (jid, info) in &chats {
                if !is_known(c, jid)? {
                    let has_space = match has_space {
                        Some(known) => known,
                        None => *has_space.insert(has_room(c, &channel, now)?),
                    };
                    if !has_space {
                        learned.no_room += 1;
                        continue;
                    }
                    ensure_chat(c, jid, now)?;
                    learned.new += 1;
                }
                learn(c, jid, info)?;
            }
            Ok(learned)
        })
        .await
    }

    /// Notes that an account has listed its chats.
    pub async fn note_listed(&self, channel: &str, now: Time) -> Result<()> {
        self.set_meta(&format!("{LISTED}{channel}"), &now.0.to_string()).await
    }

    /// Returns when an account listed its chats last.
    pub fn listed(&self, channel: &str) -> Result<Option<Time>> {
        let at = self.meta(&format!("{LISTED}{channel}"))?;
        Ok(at.and_then(|ms| ms.parse().ok()).map(Time))
    }

    /// Returns the chats of an account that are known, at most `most` and the newest first, and how many there are.
    pub async fn chats_of(&self, channel: &str, most: usize) -> Result<(Vec<Chat>, usize)> {
        let channel = channel.to_owned();
        self.ask(move |c| {
            let of = "WHERE channel = ?1 AND alias_of IS NULL";
            let count = c
                .prepare_cached(&format!("SELECT count(*) FROM chats {of}"))?
                .query_row([&channel], |r| r.get(0))?;
            let chats = c
                .prepare_cached(&format!("{CHAT} {of} ORDER BY created_at DESC, rowid DESC LIMIT ?2"))?
                .query_map(params![channel, at_most(Some(most))], chat_row)?
                .collect::<rusqlite::Result<_>>()?;
            Ok((chats, count))
        })
        .await
    }

    /// Notes that an account tells of more chats that nobody uses than are kept.
    pub async fn note_too_many_chats(&self, channel: &str, now: Time) -> Result<()> {
        self.set_meta(&format!("{TOO_MANY}{channel}"), &now.0.to_string()).await
    }

    /// Returns the accounts that did so since an instant.
    pub async fn too_many_chats(&self, since: Time) -> Result<Vec<String>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT substr(key, length(?1) + 1) AS channel FROM meta
                 WHERE key >= ?1 AND key < ?1 || char(1114111) AND CAST(value AS INTEGER) >= ?2 ORDER BY key",
            )?
            .query_map(params![TOO_MANY, since.0], |r| r.get("channel"))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Stores what somebody did to a message afterwards; the same event again changes nothing. Returns whether it is new.
    pub async fn mark_message(&self, mark: Mark, now: Time) -> Result<bool> {
        self.write(move |c| put_mark(c, mark, now)).await
    }

    /// Returns what was done to a message afterwards, in order: what, by whom, and the reaction.
    pub async fn marks_of(&self, chat: &str, message_id: &str) -> Result<Vec<(MarkKind, String, String)>> {
        let chat = chat.to_owned();
        let message_id = message_id.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT kind, sender, reaction FROM message_marks INDEXED BY message_marks_by_message WHERE chat_jid = ?1 AND message_id = ?2 ORDER BY id",
            )?
            .query_map([chat, message_id], |r| {
                Ok((r.word("message_marks", "kind")?, r.get("sender")?, r.get("reaction")?))
            })?
            .collect::<rusqlite::Result<_>>()?)
        }).await
    }

    /// Changes a chat. All of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for an empty name; [`StoreError::NotFound`] for a chat that nobody has spoken in and no group
    /// is wired to.
    pub async fn set_chat(&self, jid: &str, changes: ChatChanges) -> Result<()> {
        let jid = jid.to_owned();
        let ChatChanges { policy, name, kind, threaded } = changes;
        if name.as_deref() == Some("") {
            return Err(StoreError::refused("name can't be \"\": it is any text but none", ""));
        }
        let columns = [
            ("unknown_sender_policy", policy.map(|policy| rusqlite::types::Value::from(policy.to_string()))),
            ("name", name.map(Into::into)),
            ("kind", kind.map(|kind| kind.to_string().into())),
            ("threaded", threaded.map(Into::into)),
        ];
        self.write(move |c| {
            for (column, value) in &columns {
                let Some(value) = value else { continue };
                let sql = format!("UPDATE chats SET {column} = ?2 WHERE jid = ?1");
                if c.execute(&sql, params![jid, value])? == 0 {
                    return Err(StoreError::NotFound { what: "chat", id: jid.clone() });
                }
            }
            Ok(())
        })
        .await
    }
}

/// See [`Store::mark_message`].
pub(in crate::store) fn put_mark(c: &Connection, mut mark: Mark, now: Time) -> Result<bool> {
    at_new_address(c, &mut mark.chat_jid)?;
    ensure_chat(c, &mark.chat_jid, now)?;
    let new = c
        .prepare_cached(
            "INSERT INTO message_marks (chat_jid, replay_key, message_id, kind, sender, reaction, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (chat_jid, replay_key) DO NOTHING",
        )?
        .execute(params![
            mark.chat_jid, mark.replay_key, mark.message_id, mark.kind.as_str(),
            user_in(&mark.chat_jid, &mark.sender), mark.reaction, now.0
        ])?;
    Ok(new == 1)
}

/// Puts the new address of a chat in the place of one that it had before.
pub(in crate::store) fn at_new_address(c: &Connection, jid: &mut String) -> Result<()> {
    let moved: Option<Option<String>> = c
        .prepare_cached("SELECT alias_of FROM chats WHERE jid = ?1")?
        .query_row([&*jid], |r| r.get(0))
        .optional()?;
    if let Some(new) = moved.flatten() {
        *jid = new;
    }
    Ok(())
}

/// A chat has a new address: its wirings, its lanes and what is still to be said there go with it. What is for the old one from
/// now on is for the new one.
pub(in crate::store) fn move_chat(c: &Connection, from: &str, to: &str, now: Time) -> Result<()> {
    let mut to = to.to_owned();
    at_new_address(c, &mut to)?;
    if from == to {
        return Ok(());
    }
    ensure_chat(c, from, now)?;
    ensure_chat(c, &to, now)?;
    c.execute(
        "UPDATE chats SET (name, kind, threaded, members, unknown_sender_policy) =
           (SELECT CASE WHEN name = jid THEN ?2 ELSE name END, kind, threaded, members, unknown_sender_policy FROM chats WHERE jid = ?1)
         WHERE jid = ?2 AND alias_of IS NULL",
        [from, &to],
    )?;
    // Addresses that led to the old one lead to the new one at once, so that none has to be followed twice.
    c.execute("UPDATE chats SET alias_of = ?2 WHERE jid = ?1 OR (alias_of = ?1 AND jid <> ?2)", [from, &to])?;
    c.execute("UPDATE OR IGNORE wirings SET chat_jid = ?2 WHERE chat_jid = ?1", [from, &to])?;
    c.execute("DELETE FROM wirings WHERE chat_jid = ?1", [from])?;
    c.execute("UPDATE OR IGNORE lanes SET chat_jid = ?2 WHERE chat_jid = ?1", [from, &to])?;
    c.execute("UPDATE users SET dm_chat = ?2 WHERE dm_chat = ?1", [from, &to])?;
    questions::moved(c, from, &to)?;
    c.execute(
        "UPDATE outbox SET chat_jid = ?2, next_try_at = NULL WHERE chat_jid = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown')",
        [from, &to],
    )?;
    Ok(())
}

const CHAT: &str = "SELECT jid, channel, name, kind, unknown_sender_policy, threaded FROM chats";

fn chat_row(r: &Row<'_>) -> rusqlite::Result<Chat> {
    Ok(Chat {
        jid: r.get("jid")?,
        channel: r.get("channel")?,
        name: r.get("name")?,
        kind: r.word("chats", "kind")?,
        unknown_sender_policy: r.word("chats", "unknown_sender_policy")?,
        threaded: r.get("threaded")?,
    })
}

/// Whether there is such a chat.
pub(in crate::store) fn is_known(c: &Connection, jid: &str) -> Result<bool> {
    Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM chats WHERE jid = ?1)")?
        .query_row([jid], |r| r.get(0))?)
}

/// How many addresses a chat may have had before. A platform gives a chat a new one once or twice.
const MOST_MOVES: i64 = 8;

/// Whether a chat has had too many addresses to move once more.
pub(in crate::store) fn has_moved_often(c: &Connection, jid: &str) -> Result<bool> {
    let count: i64 =
        c.prepare_cached("SELECT count(*) FROM chats WHERE alias_of = ?1")?.query_row([jid], |r| r.get(0))?;
    Ok(count >= MOST_MOVES)
}

/// How the key of a note begins that an account told of too many chats.
const TOO_MANY: &str = "too_many_chats:";
/// How the key of a note begins that says when an account listed its chats.
pub(in crate::store) const LISTED: &str = "chats_listed:";
/// How many chats an account may have told of that nobody uses: no group was ever wired to them, and nobody wrote there.
pub(in crate::store) const MOST_UNUSED: i64 = if cfg!(test) { 20 } else { 5_000 };
/// How old such a chat is before it makes room for newer ones, ms.
const UNUSED_MS: i64 = 7 * 86_400_000;

/// Chats of an account that nothing refers to.
const UNUSED: &str =
    "channel = ?1 AND wired_before = 0 AND alias_of IS NULL AND unknown_sender_policy = 'request_approval'
    AND NOT EXISTS (SELECT 1 FROM messages WHERE chat_jid = jid)
    AND NOT EXISTS (SELECT 1 FROM message_marks WHERE chat_jid = jid)
    AND NOT EXISTS (SELECT 1 FROM dropped WHERE chat_jid = jid)
    AND jid NOT IN (SELECT chat_jid FROM wirings)
    AND jid NOT IN (SELECT chat_jid FROM lanes)
    AND jid NOT IN (SELECT chat_jid FROM outbox)
    AND jid NOT IN (SELECT chat_jid FROM approvals WHERE chat_jid IS NOT NULL)
    AND jid NOT IN (SELECT dm_chat FROM users WHERE dm_chat IS NOT NULL)
    AND jid NOT IN (SELECT alias_of FROM chats WHERE alias_of IS NOT NULL)";

/// Whether an account may tell of more chats. If it may not, old ones that nobody uses go first. All of its chats are looked at.
pub(in crate::store) fn has_room(c: &Connection, channel: &str, now: Time) -> Result<bool> {
    let unused = || -> rusqlite::Result<i64> {
        c.prepare_cached(&format!("SELECT count(*) FROM chats WHERE {UNUSED}"))?
            .query_row([channel], |r| r.get(0))
    };
    if unused()? < MOST_UNUSED {
        return Ok(true);
    }
    let gone = c
        .prepare_cached(&format!("DELETE FROM chats WHERE {UNUSED} AND created_at < ?2"))?
        .execute(params![channel, now.0 - UNUSED_MS])?;
    Ok(gone > 0 && unused()? < MOST_UNUSED)
}

/// Makes the chat's row when it is new. Channel and kind are what its address shows, as far as its account has told.
pub(in crate::store) fn ensure_chat(c: &Connection, jid: &str, now: Time) -> Result<()> {
    if is_known(c, jid)? {
        return Ok(());
    }
    let accounts = addresses::known(c)?;
    let (channel, kind) = (accounts.channel_of(jid), accounts.kind_of(jid));
    // A local chat is a terminal of this machine's own user.
    let policy = if channel == LOCAL.channel { UnknownSenders::Public } else { UnknownSenders::Ask };
    c.prepare_cached(
        "INSERT INTO chats (jid, channel, name, kind, unknown_sender_policy, created_at) VALUES (?1, ?2, ?1, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![jid, channel, kind.as_str(), policy.as_str(), now.0])?;
    Ok(())
}

/// How many chats are looked at for what their addresses show, once an account has told it for the first time.
const MOST_KINDS: i64 = 10_000;

/// Chats that were known before their account was are its own.
pub(in crate::store) fn take_over(c: &Connection, account: &Platform) -> Result<()> {
    let (channel, prefix) = (&*account.channel, account.prefix());
    if prefix != channel {
        c.prepare_cached(
            "UPDATE chats SET channel = ?1 WHERE channel = ?2 AND substr(jid, 1, length(?2) + 1) = ?2 || ':'",
        )?
        .execute([channel, prefix])?;
    }
    for ending in account.forms().endings() {
        c.prepare_cached(
            "UPDATE chats SET channel = ?1 WHERE channel = 'unknown' AND instr(jid, ':') = 0 AND substr(jid, -length(?2)) = ?2 AND length(jid) > length(?2)",
        )?
        .execute([channel, ending])?;
    }
    Ok(())
}

/// Chats of which nothing was known but their address have the kind that it shows.
pub(in crate::store) fn know_kinds(c: &Connection, account: &Platform) -> Result<()> {
    let unknown: Vec<String> = c
        .prepare_cached(
            "SELECT jid FROM chats WHERE channel = ?1 AND kind = 'group' AND name = jid AND members IS NULL AND NOT threaded LIMIT ?2",
        )?
        .query_map(params![account.channel, MOST_KINDS], |r| r.get("jid"))?
        .collect::<rusqlite::Result<_>>()?;
    for jid in unknown.iter().filter(|jid| account.kind_of(jid) == ChatKind::Direct) {
        c.prepare_cached("UPDATE chats SET kind = 'direct' WHERE jid = ?1")?.execute([jid])?;
    }
    Ok(())
}

/// Takes in what a channel says of a chat. Its policy is a person's to set.
pub(in crate::store) fn learn(c: &Connection, jid: &str, info: &ChatInfo) -> Result<()> {
    c.prepare_cached(
        "UPDATE chats SET name = coalesce(NULLIF(?2, ''), name), kind = ?3, threaded = ?4, members = coalesce(?5, members), hears_all = coalesce(?6, hears_all)
         WHERE jid = ?1 AND (name <> coalesce(NULLIF(?2, ''), name) OR kind <> ?3 OR threaded <> ?4 OR members IS NOT coalesce(?5, members)
           OR hears_all IS NOT coalesce(?6, hears_all))",
    )?
    .execute(params![jid, info.name, info.kind.as_str(), info.threaded, info.members, info.hears_all])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::{Arrival, Arrived, UnknownChat};

    const DAY: i64 = 86_400_000;

    async fn told(store: &Store, n: i64, unknown: UnknownChat, now: i64) -> Arrived {
        let info = ChatInfo {
            name: format!("chat {n}"),
            kind: ChatKind::Group,
            threaded: false,
            members: None,
            hears_all: None,
        };
        let arrival = Arrival::Chat { jid: format!("tg:{n}"), info, unknown };
        store.arrive("telegram", BTreeMap::new(), arrival, Time(now)).await.unwrap()
    }

    #[tokio::test]
    async fn a_chat_that_nobody_knows_does_not_move_and_a_known_one_only_so_often() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().with_accounts().await;
        let moves = async |from: i64, to: i64| {
            let moved = Arrival::Moved { from: format!("tg:{from}"), to: format!("tg:{to}") };
            store.arrive("telegram", BTreeMap::new(), moved, Time(1)).await.unwrap()
        };
        let count = async || i64::try_from(store.chats(None).await.unwrap().len()).unwrap();
        assert!(matches!(moves(1, 2).await, Arrived::Stored));
        assert_eq!(count().await, 0);
        told(&store, 0, UnknownChat::Taken, 1).await;
        for n in 0..MOST_MOVES {
            assert!(matches!(moves(n, n + 1).await, Arrived::Stored), "{n}");
        }
        let before = count().await;
        assert!(matches!(moves(MOST_MOVES, 99).await, Arrived::TooManyChats));
        assert_eq!(count().await, before);
        let stays: Option<String> = store
            .ask(|c| Ok(c.query_row("SELECT alias_of FROM chats WHERE jid = 'tg:0'", [], |r| r.get(0))?))
            .await
            .unwrap();
        assert_eq!(stays, Some(format!("tg:{MOST_MOVES}")));
    }

    #[tokio::test]
    async fn an_account_can_tell_of_so_many_chats_that_nobody_uses_and_old_ones_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().with_accounts().await;
        let know = async |n, now| told(&store, n, UnknownChat::Counted, now).await;
        for n in 0..MOST_UNUSED {
            assert!(matches!(know(n, n).await, Arrived::NewChat), "{n}");
        }
        let count = async || i64::try_from(store.chats(None).await.unwrap().len()).unwrap();
        assert!(matches!(know(100, 100).await, Arrived::TooManyChats));
        assert!(matches!(know(3, 100).await, Arrived::Stored), "it is known");
        assert!(matches!(told(&store, 101, UnknownChat::PassedOver, 100).await, Arrived::Stored));
        assert_eq!(count().await, MOST_UNUSED);
        let events = store.newest_event().await.unwrap();
        know(3, 200).await;
        assert_eq!(store.newest_event().await.unwrap(), events, "the same facts again are no change");
        // Chats of another account count for that one.
        let info = ChatInfo {
            name: String::new(),
            kind: ChatKind::Group,
            threaded: false,
            members: None,
            hears_all: None,
        };
        let other = Arrival::Chat { jid: "dc:1".into(), info, unknown: UnknownChat::Counted };
        assert!(matches!(
            store.arrive("discord", BTreeMap::new(), other, Time(100)).await.unwrap(),
            Arrived::NewChat
        ));
        // Somebody has written in one of them.
        let mark = Mark {
            chat_jid: "tg:0".into(),
            replay_key: "k".into(),
            message_id: "m".into(),
            kind: MarkKind::Reaction,
            sender: "tg:1".into(),
            reaction: "x".into(),
        };
        assert!(store.mark_message(mark, Time(100)).await.unwrap());
        assert!(matches!(know(100, 100).await, Arrived::NewChat));
        assert!(matches!(know(102, 7 * DAY).await, Arrived::TooManyChats), "none is old");
        assert!(matches!(know(102, 7 * DAY + 50).await, Arrived::NewChat));
        let left: Vec<String> = store.chats(None).await.unwrap().into_iter().map(|chat| chat.jid).collect();
        assert_eq!(left, ["tg:0", "dc:1", "tg:100", "tg:102"]);

        assert_eq!(store.too_many_chats(Time(0)).await.unwrap(), [""; 0]);
        store.note_too_many_chats("tg", Time(500)).await.unwrap();
        assert_eq!(store.too_many_chats(Time(500)).await.unwrap(), ["tg"]);
        assert_eq!(store.too_many_chats(Time(501)).await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn chats_that_an_account_lists_are_known_by_their_newest_names_and_none_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap().with_accounts().await;
        let listed = |all: &[(i64, &str)]| -> Vec<(String, ChatInfo)> {
            let info = |name: &str| ChatInfo {
                name: name.into(),
                kind: ChatKind::Group,
                threaded: false,
                members: None,
                hears_all: None,
            };
            all.iter().map(|(n, name)| (format!("tg:{n}"), info(name))).collect()
        };
        let know = async |all: &[(i64, &str)], now| {
            store.know_chats("telegram", listed(all), Time(now)).await.unwrap()
        };
        let names = async || -> Vec<String> {
            store.chats(None).await.unwrap().into_iter().map(|chat| chat.name).collect()
        };
        assert_eq!(know(&[(-1, "Team"), (-2, "")], 1).await, Learned { new: 2, no_room: 0 });
        assert_eq!(names().await, ["Team", "tg:-2"]);
        let events = store.newest_event().await.unwrap();
        assert_eq!(know(&[(-1, "Team"), (-2, "")], 2).await, Learned::default());
        assert_eq!(store.newest_event().await.unwrap(), events, "the same list again is no change");
        // One has another name; the other one is not listed any more.
        assert_eq!(know(&[(-1, "The team")], 3).await, Learned::default());
        assert_eq!(names().await, ["The team", "tg:-2"]);
        let crowd: Vec<(i64, &str)> = (0..MOST_UNUSED).map(|n| (100 + n, "x")).collect();
        assert_eq!(know(&crowd, 4).await.no_room, 0, "a piece is let in as a whole");
        let more = [(-1, "Renamed"), (999, "new")];
        assert_eq!(know(&more, 5).await, Learned { new: 0, no_room: 1 });
        assert_eq!(names().await[0], "Renamed");
        let (newest, all) = store.chats_of("telegram", 1).await.unwrap();
        assert_eq!((newest.len(), all), (1, 22));

        assert_eq!(store.listed("telegram").unwrap(), None);
        store.note_listed("telegram", Time(7)).await.unwrap();
        assert_eq!((store.listed("telegram").unwrap(), store.listed("x").unwrap()), (Some(Time(7)), None));
        store.forget_channel("telegram").await.unwrap();
        assert_eq!((store.listed("telegram").unwrap(), names().await.len()), (None, 22));
    }
}
