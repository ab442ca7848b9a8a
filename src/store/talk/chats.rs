//! Chats: their facts, and how strangers are treated there.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::access::UnknownSenders,
    platforms::{
        addresses::{channel_of, kind_of, user_id},
        channels::{Mark, MarkKind},
        chats::{ChatInfo, ChatKind},
    },
    rows::Chat,
};
use crate::store::{Result, Store, StoreError, at_most, columns::Columns as _, oldest_first};

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

    /// Changes the settings of a chat. All of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what is wrong with a key or its value; [`StoreError::NotFound`] for a chat that
    /// nobody has spoken in and no group is wired to.
    pub async fn set_chat(&self, jid: &str, settings: Vec<(String, String)>) -> Result<()> {
        let jid = jid.to_owned();
        self.write(move |c| {
            for (key, value) in &settings {
                let (column, value) = column(key, value)?;
                let changed = c.execute(
                    &format!("UPDATE chats SET {column} = ?2 WHERE jid = ?1"),
                    params![jid, value],
                )?;
                if changed == 0 {
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
            user_id(&mark.chat_jid, &mark.sender), mark.reaction, now.0
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
    c.execute(
        "UPDATE outbox SET chat_jid = ?2, next_try_at = NULL WHERE chat_jid = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown')",
        [from, &to],
    )?;
    Ok(())
}

/// Reads a setting of a chat: the column, and what goes into it.
fn column(key: &str, value: &str) -> Result<(&'static str, rusqlite::types::Value)> {
    let refused = |values: &str| StoreError::Refused(format!("{key} can't be {value:?}: it is {values}"));
    match (key, value) {
        ("policy" | "unknown_sender_policy", _) => {
            let policy: UnknownSenders =
                value.parse().map_err(|_| refused("strict, request_approval or public"))?;
            Ok(("unknown_sender_policy", policy.as_str().to_owned().into()))
        }
        ("kind", _) => {
            let kind: ChatKind = value.parse().map_err(|_| refused("direct or group"))?;
            Ok(("kind", kind.as_str().to_owned().into()))
        }
        ("threaded", "true" | "false") => Ok(("threaded", i64::from(value == "true").into())),
        ("threaded", _) => Err(refused("true or false")),
        ("name", "") => Err(refused("any text but none")),
        ("name", _) => Ok(("name", value.to_owned().into())),
        _ => Err(StoreError::Refused(format!(
            "a chat has no setting {key:?}; there are policy, kind, name and threaded"
        ))),
    }
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

/// Makes the chat's row when it is new. The channel is the JID's prefix, and the kind what the JID shows.
pub(in crate::store) fn ensure_chat(c: &Connection, jid: &str, now: Time) -> Result<()> {
    let channel = channel_of(jid);
    // A local chat is a terminal of this machine's own user.
    let policy = if channel == "local" { UnknownSenders::Public } else { UnknownSenders::Ask };
    c.prepare_cached(
        "INSERT INTO chats (jid, channel, name, kind, unknown_sender_policy, created_at) VALUES (?1, ?2, ?1, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![jid, channel, kind_of(jid).as_str(), policy.as_str(), now.0])?;
    Ok(())
}

/// Takes in what a channel says of a chat. Its policy is a person's to set.
pub(in crate::store) fn learn(c: &Connection, jid: &str, info: &ChatInfo) -> Result<()> {
    c.prepare_cached(
        "UPDATE chats SET name = coalesce(NULLIF(?2, ''), name), kind = ?3, threaded = ?4, members = coalesce(?5, members)
         WHERE jid = ?1 AND (name <> coalesce(NULLIF(?2, ''), name) OR kind <> ?3 OR threaded <> ?4 OR members IS NOT coalesce(?5, members))",
    )?
    .execute(params![jid, info.name, info.kind.as_str(), info.threaded, info.members])?;
    Ok(())
}
