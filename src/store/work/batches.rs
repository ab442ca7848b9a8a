//! Batches that agents work on.

use rusqlite::{OptionalExtension, Row};

use crate::domain::platforms::typing::ChatThread;
use crate::store::{Result, Store};

impl Store {
    /// Returns where the messages of a batch came from.
    pub fn place_of_batch(&self, batch: i64) -> Result<Option<ChatThread>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT s.chat_jid, s.thread FROM batches b JOIN sessions s ON s.lane_id = b.lane_id WHERE b.id = ?1",
            )?
            .query_row([batch], place_row)
            .optional()?)
        })
    }

    /// Returns the batches that agents work on, each with the chat and thread of its messages.
    pub fn in_hand(&self) -> Result<Vec<(i64, ChatThread)>> {
        // In the index's order of words: by it SQLite sees that the index has all of them.
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT b.id, s.chat_jid, s.thread FROM batches b INDEXED BY batches_open JOIN sessions s ON s.lane_id = b.lane_id
                 WHERE (b.state = 'handed' OR b.state = 'claimed')",
            )?
            .query_map([], |r| Ok((r.get("id")?, place_row(r)?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }
}

fn place_row(r: &Row<'_>) -> rusqlite::Result<ChatThread> {
    Ok(ChatThread { chat_jid: r.get("chat_jid")?, thread: r.get("thread")? })
}
