//! What channels are asked to say, and for whom.

use ipc_handlers::Time;
use rusqlite::OptionalExtension;

use crate::{
    domain::{
        platforms::channels::LONGEST_WAIT_MS,
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
    /// Returns what is to be said next to a chat. Nothing is marked.
    pub async fn next_to_say(&self, chat: &str, now: Time) -> Result<NextToSay> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            let next = c
                .prepare_cached(
                    "SELECT next_try_at, NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = outbox.run_id AND runs.kind <> 'message') AS for_people
                     FROM outbox INDEXED BY outbox_open WHERE chat_jid = ?1 AND status IN ('pending', 'sending', 'unknown') ORDER BY id LIMIT 1",
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
