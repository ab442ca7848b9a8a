//! Chats: what is known of them, and what becomes of strangers there.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Result, Store, StoreError, at_most, columns::Columns as _, oldest_first};
use crate::domain::{
    access::UnknownSenders,
    chats::{ChatInfo, Kind},
    rows::Chat,
};

impl Store {
    /// Returns one chat.
    pub fn chat(&self, jid: &str) -> Result<Option<Chat>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!("{CHAT} WHERE jid = ?1"))?.query_row([jid], chat_row).optional()?)
        })
    }

    /// Returns chats in the order in which they were first heard of; with `limit`, the newest ones.
    pub fn chats(&self, limit: Option<usize>) -> Result<Vec<Chat>> {
        self.read(|c| {
            let newest = &format!("{CHAT} ORDER BY created_at DESC, rowid DESC LIMIT ?1");
            oldest_first(c.prepare_cached(newest)?.query_map([at_most(limit)], chat_row)?)
        })
    }

    /// Changes what is known of a chat. All of it or nothing.
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
            let kind: Kind = value.parse().map_err(|_| refused("direct or group"))?;
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

/// Makes the chat's row when it is new. The channel is the JID's prefix, and the kind what the JID shows.
pub(super) fn ensure_chat(c: &Connection, jid: &str, now: Time) -> Result<()> {
    let channel = channel_of(jid);
    // A local chat is a terminal of this machine's own user.
    let policy = if channel == "local" { UnknownSenders::Public } else { UnknownSenders::Ask };
    c.prepare_cached(
        "INSERT INTO chats (jid, channel, name, kind, unknown_sender_policy, created_at) VALUES (?1, ?2, ?1, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![jid, channel, Kind::of_address(jid).as_str(), policy.as_str(), now.0])?;
    Ok(())
}

/// Takes in what a channel says of a chat. Its policy is a person's to set.
pub(super) fn learn(c: &Connection, jid: &str, info: &ChatInfo) -> Result<()> {
    c.prepare_cached(
        "UPDATE chats SET name = coalesce(NULLIF(?2, ''), name), kind = ?3, threaded = ?4
         WHERE jid = ?1 AND (name <> coalesce(NULLIF(?2, ''), name) OR kind <> ?3 OR threaded <> ?4)",
    )?
    .execute(params![jid, info.name, info.kind.as_str(), info.threaded])?;
    Ok(())
}

/// Returns the name of the channel that owns a JID.
#[must_use]
pub fn channel_of(jid: &str) -> &str {
    match jid.split_once(':') {
        Some(("tg", _)) => "telegram",
        Some(("dc", _)) => "discord",
        Some((prefix, _)) => prefix,
        None if jid.ends_with("@g.us") || jid.ends_with("@s.whatsapp.net") => "whatsapp",
        None => "unknown",
    }
}
