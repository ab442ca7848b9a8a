//! What channels are asked to say, and for whom.

use ipc_handlers::Time;
use rusqlite::OptionalExtension;

use crate::{
    domain::{
        platforms::{channels::LONGEST_WAIT_MS, signs::Sign},
        runs::retry::{self, Rest},
    },
    store::{Result, Store, columns::Columns as _},
};

/// The next text for a chat, before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextToSay {
    /// `for_people`: it is no task's.
    Now {
        for_people: bool,
    },
    /// The oldest row rests until then; later rows wait behind it.
    NotBefore(Time),
    Nothing,
}

impl Store {
    /// Returns the reaction that the newest message of a batch is to have, where its group wants one.
    pub async fn sign_of(&self, batch: i64) -> Result<Option<Sign>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT m.chat_jid, m.id, g.config ->> '$.seen' AS sign
                 FROM batches b JOIN sessions s ON s.lane_id = b.lane_id JOIN groups g ON g.folder = s.group_folder
                   JOIN inbox i ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                   JOIN messages m ON m.seq = i.seq
                 WHERE b.id = ?1 AND g.config ->> '$.seen' IS NOT NULL ORDER BY i.n DESC LIMIT 1",
            )?
            .query_row([batch], |r| {
                Ok(Sign { chat_jid: r.get("chat_jid")?, message_id: r.get("id")?, sign: r.get("sign")?, sign_id: None })
            })
            .optional()?)
        })
        .await
    }

    /// Returns what is to be said next to a chat. Nothing is marked.
    pub async fn next_to_say(&self, chat: &str, now: Time) -> Result<NextToSay> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            let next = c
                .prepare_cached(
                    "SELECT next_try_at, NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = outbox.run_id AND runs.kind <> 'message') AS for_people
                     FROM outbox INDEXED BY outbox_open WHERE chat_jid = ?1 AND (status = 'pending' OR status = 'sending' OR status = 'unknown') ORDER BY id LIMIT 1",
                )?
                .query_row([chat], |r| Ok((r.time_or_null("next_try_at")?, r.get("for_people")?)))
                .optional()?;
            let Some((next_try_at, for_people)) = next else { return Ok(NextToSay::Nothing) };
            let rests = |at: &Time| retry::rest(*at, now, LONGEST_WAIT_MS) != Rest::Over;
            Ok(next_try_at.filter(rests).map_or(NextToSay::Now { for_people }, NextToSay::NotBefore))
        })
        .await
    }
}
