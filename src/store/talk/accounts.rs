//! How the accounts on platforms stand, and where their adapters go on.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time, effect::EngageMode};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    domain::{
        platforms::{
            accounts::Myself,
            channels::{Connection as Connected, Lamp, Lights, OLD_MS, waited},
        },
        rows::ChannelState,
    },
    store::{
        Result, Store,
        columns::Columns as _,
        meta::forget_meta,
        talk::{
            chats::LISTED,
            outbox::{Say, TextCause, say},
        },
    },
};

/// How many values an adapter may keep here.
const MOST_KEYS: i64 = 4096;
/// The longest name of an account that is kept, characters.
const LONGEST_NAME: usize = 512;
/// How many chats an adapter is told the newest message of.
const MOST_CHATS: i64 = 4096;

/// Values by their keys.
type Values = BTreeMap<String, String>;

/// A wiring of a chat of which the platform tells the account only a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldLittle {
    pub channel: String,
    pub group: Folder,
    pub chat: String,
    pub mode: EngageMode,
    pub threaded: bool,
}

impl Store {
    /// Stores whether a platform is connected. Since when, is when that last changed.
    pub async fn set_connection(
        &self,
        channel: String,
        state: Connected,
        why: Option<String>,
        now: Time,
    ) -> Result<()> {
        let (inbound, outbound) = (Lamp::Unknown, Lamp::Unknown);
        self.set_lights(
            channel,
            Lights { transport: state, inbound, outbound, why, hint: None, hears_all: None },
            now,
        )
        .await
    }

    /// Stores how an account stands. Since when, is when its connection last changed.
    pub async fn set_lights(&self, channel: String, lights: Lights, now: Time) -> Result<()> {
        self.write(move |c| {
            if lights.transport == Connected::Connected {
                tell_of_wait(c, &channel, now)?;
            }
            c.prepare_cached(
                "INSERT INTO channel_states (channel, state, inbound, outbound, why, hint, since, hears_all) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (channel) DO UPDATE SET state = excluded.state, inbound = excluded.inbound, outbound = excluded.outbound,
                   why = excluded.why, hint = excluded.hint, hears_all = coalesce(excluded.hears_all, hears_all), since = CASE WHEN state = excluded.state THEN since ELSE excluded.since END",
            )?
            .execute(params![
                channel, lights.transport.as_str(), lights.inbound.as_str(), lights.outbound.as_str(), lights.why,
                lights.hint, now.0, lights.hears_all
            ])?;
            Ok(())
        })
        .await
    }

    /// Notes who an account is on its platform.
    pub async fn note_myself(&self, channel: &str, myself: Myself) -> Result<()> {
        let channel = channel.to_owned();
        self.write(move |c| {
            let kept = |text: &str| {
                let text: String = text.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
                Some(text).filter(|text| !text.is_empty())
            };
            c.prepare_cached(
                "UPDATE channel_states SET own_id = ?2, own_name = ?3, own_handle = ?4 WHERE channel = ?1",
            )?
            .execute(params![
                channel,
                kept(&myself.id),
                kept(&myself.name),
                kept(&myself.handle)
            ])?;
            Ok(())
        })
        .await
    }

    /// Returns who each account is on its platform, as it said last; those that never said it are left out.
    pub async fn accounts_known(&self) -> Result<Vec<(String, Myself)>> {
        self.ask(|c| {
            let all = c
                .prepare_cached(
                    "SELECT channel, own_id, own_name, own_handle FROM channel_states
                     WHERE coalesce(own_id, own_name, own_handle) IS NOT NULL ORDER BY channel",
                )?
                .query_map([], |r| {
                    let text =
                        |column: &str| r.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
                    let myself =
                        Myself { id: text("own_id")?, name: text("own_name")?, handle: text("own_handle")? };
                    Ok((r.get("channel")?, myself))
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(all)
        })
        .await
    }

    /// Counts a start of an adapter.
    pub async fn note_start(&self, channel: &str, now: Time) -> Result<()> {
        let channel = channel.to_owned();
        self.write(move |c| {
            ensure_state(c, &channel, now)?;
            c.prepare_cached("UPDATE channel_states SET starts = starts + 1 WHERE channel = ?1")?
                .execute([channel])?;
            Ok(())
        })
        .await
    }

    /// Notes when a platform took a text last.
    pub async fn note_out(&self, channel: &str, now: Time) -> Result<()> {
        let channel = channel.to_owned();
        self.write(move |c| {
            c.prepare_cached("UPDATE channel_states SET last_out = ?2 WHERE channel = ?1")?
                .execute(params![channel, now.0])?;
            Ok(())
        })
        .await
    }

    /// Notes that a person wants an adapter started anew. Returns how it stands.
    pub async fn want_start(&self, channel: &str, now: Time) -> Result<ChannelState> {
        let channel = channel.to_owned();
        self.write(move |c| {
            ensure_state(c, &channel, now)?;
            c.prepare_cached("UPDATE channel_states SET wanted = wanted + 1 WHERE channel = ?1")?
                .execute([&channel])?;
            Ok(c.prepare_cached(&format!("{STATE} WHERE channel = ?1"))?.query_row([channel], state_row)?)
        })
        .await
    }

    /// Forgets how an account stood, and where its adapter would go on.
    pub async fn forget_channel(&self, channel: &str) -> Result<()> {
        let channel = channel.to_owned();
        self.write(move |c| {
            c.execute("DELETE FROM channel_states WHERE channel = ?1", [&channel])?;
            c.execute("DELETE FROM channel_cursors WHERE instance = ?1", [&channel])?;
            forget_meta(c, &format!("{LISTED}{channel}"))
        })
        .await
    }

    /// Returns how each account stands.
    pub async fn connections(&self) -> Result<Vec<ChannelState>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!("{STATE} ORDER BY channel"))?
                .query_map([], state_row)?
                .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the wirings of groups' chats of which their platform tells the account only a part: account, group, chat, and to what the
    /// agent listens.
    pub async fn told_little(&self) -> Result<Vec<ToldLittle>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT s.channel, w.group_folder, w.chat_jid, w.engage_mode, c.threaded FROM channel_states s
                   JOIN chats c ON c.channel = s.channel JOIN wirings w ON w.chat_jid = c.jid
                 WHERE s.hears_all = 0 AND c.kind = 'group' AND c.hears_all IS NOT 1 ORDER BY s.channel, w.id",
            )?
            .query_map([], |r| {
                Ok(ToldLittle {
                    channel: r.get("channel")?,
                    group: r.folder("group_folder")?,
                    chat: r.get("chat_jid")?,
                    mode: r.word("wirings", "engage_mode")?,
                    threaded: r.get("threaded")?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns how one account stands.
    pub async fn connection_of(&self, channel: &str) -> Result<Option<ChannelState>> {
        let channel = channel.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!("{STATE} WHERE channel = ?1"))?
                .query_row([channel], state_row)
                .optional()?)
        })
        .await
    }

    /// Returns the values that came with an adapter's events last.
    pub async fn cursor_of(&self, channel: &str) -> Result<Values> {
        let channel = channel.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached("SELECT key, value FROM channel_cursors WHERE instance = ?1")?
                .query_map([channel], |r| Ok((r.get("key")?, r.get("value")?)))?
                .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the chats of an account with the platform's id of the newest message of each; the newest chats, where there are
    /// very many.
    pub async fn newest_ids(&self, channel: &str) -> Result<Values> {
        let channel = channel.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT jid, newest FROM (SELECT jid, (SELECT m.id FROM messages m WHERE m.chat_jid = jid ORDER BY m.seq DESC LIMIT 1) AS newest
                   FROM chats WHERE channel = ?1 AND alias_of IS NULL ORDER BY created_at DESC LIMIT ?2) WHERE newest IS NOT NULL",
            )?
            .query_map(params![channel, MOST_CHATS], |r| Ok((r.get("jid")?, r.get("newest")?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns since when the oldest text of an account waits that is to be said, and how many wait.
    pub async fn unsent(&self, channel: &str) -> Result<(i64, Option<Time>)> {
        let channel = channel.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT count(*) AS count, min(o.created_at) AS oldest FROM outbox o INDEXED BY outbox_open JOIN chats c ON c.jid = o.chat_jid
                 WHERE (o.status = 'pending' OR o.status = 'sending' OR o.status = 'unknown') AND c.channel = ?1",
            )?
            .query_row([channel], |r| Ok((r.get("count")?, r.time_or_null("oldest")?)))?)
        })
        .await
    }
}

const STATE: &str = "SELECT channel, state, inbound, outbound, why, hint, since, last_in, last_out, starts, wanted, unknown_kinds, passed_over, passed_over_at, hears_all FROM channel_states";

fn state_row(r: &Row<'_>) -> rusqlite::Result<ChannelState> {
    Ok(ChannelState {
        channel: r.get("channel")?,
        state: r.word("channel_states", "state")?,
        inbound: r.word("channel_states", "inbound")?,
        outbound: r.word("channel_states", "outbound")?,
        why: r.get("why")?,
        hint: r.get("hint")?,
        since: r.time("since")?,
        last_in: r.time_or_null("last_in")?,
        last_out: r.time_or_null("last_out")?,
        starts: r.get("starts")?,
        wanted: r.get("wanted")?,
        unknown_kinds: r.get("unknown_kinds")?,
        passed_over: r.get("passed_over")?,
        passed_over_at: r.time_or_null("passed_over_at")?,
        hears_all: r.get("hears_all")?,
    })
}

/// Where an account is connected again: each chat with texts that waited for long is told so once, after them.
fn tell_of_wait(c: &Connection, channel: &str, now: Time) -> Result<()> {
    let is_back = c
        .prepare_cached("SELECT 1 FROM channel_states WHERE channel = ?1 AND state <> 'connected'")?
        .exists([channel])?;
    if !is_back {
        return Ok(());
    }
    let chats: Vec<(String, String, i64)> = c
        .prepare_cached(
            "SELECT o.chat_jid, o.thread, min(o.created_at) AS oldest FROM outbox o INDEXED BY outbox_open JOIN chats c ON c.jid = o.chat_jid
             WHERE (o.status = 'pending' OR o.status = 'sending' OR o.status = 'unknown') AND c.channel = ?1
             GROUP BY o.chat_jid HAVING oldest <= ?2 AND NOT max(o.cause_kind = 'waited')",
        )?
        .query_map(params![channel, now.0 - OLD_MS], |r| {
            Ok((r.get("chat_jid")?, r.get("thread")?, r.get("oldest")?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (chat_jid, thread, oldest) in chats {
        let text = waited(now.0 - oldest);
        say(
            c,
            &Say {
                chat_jid: &chat_jid,
                thread: &thread,
                text: &text,
                cause: TextCause::Waited,
                ..Say::default()
            },
            now,
        )?;
    }
    Ok(())
}

/// Counts a message of a kind that its adapter does not know.
pub(in crate::store) fn count_unknown_kind(c: &Connection, channel: &str, now: Time) -> Result<()> {
    ensure_state(c, channel, now)?;
    c.prepare_cached("UPDATE channel_states SET unknown_kinds = unknown_kinds + 1 WHERE channel = ?1")?
        .execute([channel])?;
    Ok(())
}

/// Counts something that an adapter told and that can't be taken in.
pub(in crate::store) fn count_passed_over(c: &Connection, channel: &str, now: Time) -> Result<()> {
    ensure_state(c, channel, now)?;
    c.prepare_cached(
        "UPDATE channel_states SET passed_over = passed_over + 1, passed_over_at = ?2 WHERE channel = ?1",
    )?
    .execute(params![channel, now.0])?;
    Ok(())
}

fn ensure_state(c: &Connection, channel: &str, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO channel_states (channel, state, since) VALUES (?1, 'connecting', ?2) ON CONFLICT DO NOTHING",
    )?
    .execute(params![channel, now.0])?;
    Ok(())
}

/// Stores where an adapter goes on, and when its newest event came, to the second.
pub(in crate::store) fn advance(c: &Connection, channel: &str, cursor: &Values, now: Time) -> Result<()> {
    for (key, value) in cursor {
        if value.is_empty() {
            c.prepare_cached("DELETE FROM channel_cursors WHERE instance = ?1 AND key = ?2")?
                .execute([channel, key])?;
            continue;
        }
        c.prepare_cached(
            "INSERT INTO channel_cursors (instance, key, value) SELECT ?1, ?2, ?3
               WHERE (SELECT count(*) FROM channel_cursors WHERE instance = ?1) < ?4 OR EXISTS (SELECT 1 FROM channel_cursors WHERE instance = ?1 AND key = ?2)
             ON CONFLICT (instance, key) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![channel, key, value, MOST_KEYS])?;
    }
    // Where many come, each second once: a commit has a page less to write.
    c.prepare_cached(
        "UPDATE channel_states SET last_in = ?2 WHERE channel = ?1 AND coalesce(last_in NOT BETWEEN ?2 - 999 AND ?2, 1)",
    )?
    .execute(params![channel, now.0])?;
    Ok(())
}
