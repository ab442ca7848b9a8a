//! Texts for chats, newest first.

use ipc_handlers::{Time, words};
use rusqlite::params;

use crate::domain::states::DeliveryStatus;
use crate::store::{Result, Store, at_most, columns::Columns as _};

/// How much of a text is shown, characters.
const SHOWN: usize = 240;

words! {
    /// Which texts.
    pub enum OutboxWanted: "texts" {
        All = "all",
        /// Those that are not sent yet.
        Open = "open",
        Failed = "failed",
    }
}

/// A text for a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxShown {
    pub id: i64,
    pub chat: String,
    pub status: DeliveryStatus,
    pub attempts: i64,
    pub cause: String,
    pub run: Option<i64>,
    pub created_at: Time,
    pub sent_at: Option<Time>,
    pub next_try_at: Option<Time>,
    pub error: Option<String>,
    /// Its beginning.
    pub text: String,
    pub files: u32,
    /// Into how many parts it was cut, and how many of them the platform has.
    pub parts: u32,
    pub parts_sent: u32,
}

impl Store {
    /// Returns texts for chats, newest first: those before `before`.
    pub async fn outbox_on_page(
        &self,
        wanted: OutboxWanted,
        before: i64,
        most: usize,
    ) -> Result<Vec<OutboxShown>> {
        self.ask(move |c| {
            let (index, which) = match wanted {
                OutboxWanted::All => ("", ""),
                OutboxWanted::Open => ("INDEXED BY outbox_open", "AND (o.status = 'pending' OR o.status = 'sending' OR o.status = 'unknown')"),
                OutboxWanted::Failed => ("INDEXED BY outbox_failed", "AND o.status = 'failed'"),
            };
            // Numbers and times of making grow together.
            let order = if wanted == OutboxWanted::Failed { "o.created_at" } else { "o.id" };
            let mut rows = c.prepare_cached(&format!(
                "SELECT o.id, o.chat_jid, o.status, o.attempts, o.cause, o.run_id, o.created_at, o.sent_at, o.next_try_at, o.error, substr(o.text, 1, ?3) AS text, o.files,
                        (SELECT count(*) FROM outbox_parts p WHERE p.outbox_id = o.id) AS parts,
                        (SELECT count(*) FROM outbox_parts p WHERE p.outbox_id = o.id AND p.platform_id IS NOT NULL) AS parts_sent
                 FROM outbox o {index} WHERE o.id < ?1 {which} ORDER BY {order} DESC LIMIT ?2"
            ))?;
            let rows = rows.query_map(params![before, at_most(Some(most)), SHOWN], |r| {
                Ok(OutboxShown {
                    id: r.get("id")?,
                    chat: r.get("chat_jid")?,
                    status: r.word("outbox", "status")?,
                    attempts: r.get("attempts")?,
                    cause: r.get("cause")?,
                    run: r.get("run_id")?,
                    created_at: r.time("created_at")?,
                    sent_at: r.time_or_null("sent_at")?,
                    next_try_at: r.time_or_null("next_try_at")?,
                    error: r.get("error")?,
                    text: r.get("text")?,
                    files: r.get("files")?,
                    parts: r.get("parts")?,
                    parts_sent: r.get("parts_sent")?,
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}
