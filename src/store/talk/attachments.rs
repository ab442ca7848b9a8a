//! Files of messages and of texts in the outbox. Their rows go when the message or text goes.

use rusqlite::{Connection, Row, params};

use crate::domain::{
    platforms::attachments::Attachment,
    rows::{Message, OutboxRow},
};
use crate::store::{Result, Store};

impl Store {
    /// Returns the files beside a message, in the order in which they came.
    ///
    /// # Errors
    /// As every read.
    pub async fn attachments(&self, seq: i64) -> Result<Vec<Attachment>> {
        self.ask(move |c| beside(c, BESIDE_MESSAGE, seq)).await
    }

    /// Returns the files of a text in the outbox, in the order in which they are sent.
    ///
    /// # Errors
    /// As every read.
    pub async fn attachments_said(&self, outbox_id: i64) -> Result<Vec<Attachment>> {
        self.ask(move |c| beside(c, BESIDE_SAID, outbox_id)).await
    }
}

const BESIDE_MESSAGE: &str = "SELECT name, type, size, digest, place FROM attachments INDEXED BY attachments_in WHERE seq = ?1 ORDER BY n";
const BESIDE_SAID: &str = "SELECT name, type, size, digest, place FROM attachments INDEXED BY attachments_out WHERE outbox_id = ?1 ORDER BY n";

fn beside(c: &Connection, sql: &str, row: i64) -> Result<Vec<Attachment>> {
    let file = |r: &Row<'_>| {
        Ok(Attachment {
            name: r.get("name")?,
            kind: r.get("type")?,
            size: r.get("size")?,
            digest: r.get("digest")?,
            place: r.get("place")?,
        })
    };
    Ok(c.prepare_cached(sql)?.query_map([row], file)?.collect::<rusqlite::Result<_>>()?)
}

/// Keeps files beside a message that is new.
pub(in crate::store) fn add(c: &Connection, seq: i64, files: &[Attachment]) -> Result<()> {
    let mut insert = c.prepare_cached(
        "INSERT INTO attachments (seq, n, name, type, size, digest, place) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (n, file) in (1_i64..).zip(files) {
        insert.execute(params![seq, n, file.name, file.kind, file.size, file.digest, file.place])?;
    }
    Ok(())
}

/// Adds to messages the files that are beside them.
pub(in crate::store) fn with_files(c: &Connection, mut messages: Vec<Message>) -> Result<Vec<Message>> {
    for message in &mut messages {
        message.attachments = beside(c, BESIDE_MESSAGE, message.seq)?;
    }
    Ok(messages)
}

/// Adds to rows of the outbox the files that are beside them.
pub(in crate::store) fn with_files_said(c: &Connection, mut rows: Vec<OutboxRow>) -> Result<Vec<OutboxRow>> {
    for row in &mut rows {
        row.attachments = beside(c, BESIDE_SAID, row.id)?;
    }
    Ok(rows)
}
