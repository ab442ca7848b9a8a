//! Files of messages and of texts in the outbox. Their rows go when the message or text goes.

use ipc_handlers::Time;
use rusqlite::{Connection, Row, params};

use super::files::{self, FileStep};
use crate::domain::{
    platforms::attachments::{Attachment, MediaUse, Todo},
    rows::{Message, OutboxRow},
};
use crate::store::{Result, Store, columns::Columns as _, media};

/// For how many minutes before the current one a chat's files count.
const MINUTES: i64 = 60;
const MINUTE_MS: i64 = 60_000;

impl Store {
    /// Returns the files beside a message, in the order in which they came.
    ///
    /// # Errors
    /// As every read.
    pub async fn attachments(&self, seq: i64) -> Result<Vec<Attachment>> {
        self.ask(move |c| beside_message(c, seq)).await
    }

    /// Returns the files of a text in the outbox, in the order in which they are sent.
    ///
    /// # Errors
    /// As every read.
    pub async fn attachments_said(&self, outbox_id: i64) -> Result<Vec<Attachment>> {
        self.ask(move |c| beside_said(c, outbox_id)).await
    }

    /// Whether a message has a file of this number, which is there.
    ///
    /// # Errors
    /// As every read.
    pub async fn has_file(&self, seq: i64, n: i64) -> Result<bool> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM attachments INDEXED BY attachments_in WHERE seq = ?1 AND n = ?2 AND digest IS NOT NULL)",
            )?
            .query_row([seq, n], |r| r.get(0))?)
        })
        .await
    }

    /// Returns how many bytes of files a chat has had in the last hour, which is the current minute and the 60 before it, and how
    /// many are kept of all.
    ///
    /// # Errors
    /// As every read.
    pub async fn media_use(&self, chat: &str, now: Time) -> Result<MediaUse> {
        let chat = chat.to_owned();
        self.ask(move |c| media_use(c, &chat, now)).await
    }
}

/// Returns how many bytes of files a chat has had in the last hour, and how many are kept of all.
pub(in crate::store) fn media_use(c: &Connection, chat: &str, now: Time) -> Result<MediaUse> {
    // Of a chat there are at most 128 rows (`migrations/0001_init.sql`).
    let chat_hour = c
        .prepare_cached(
            "SELECT coalesce(sum(bytes), 0) AS bytes FROM media_minutes WHERE chat_jid = ?1 AND minute >= ?2",
        )?
        .query_row(params![chat, now.0.div_euclid(MINUTE_MS) - MINUTES], |r| r.get("bytes"))?;
    Ok(MediaUse { chat_hour, all: media::bytes(c)? })
}

/// What is known of a file.
pub(in crate::store) const FILE: &str =
    "name, kind, type, claimed, size, digest, problem, caption, seconds, words, unread";
const BESIDE_MESSAGE: &str = "SELECT name, kind, type, claimed, size, digest, problem, caption, seconds, words, unread FROM attachments INDEXED BY attachments_in WHERE seq = ?1 ORDER BY n";
const BESIDE_SAID: &str = "SELECT name, kind, type, claimed, size, digest, problem, caption, seconds, words, unread FROM attachments INDEXED BY attachments_out WHERE outbox_id = ?1 ORDER BY n";

pub(in crate::store) fn beside_message(c: &Connection, seq: i64) -> Result<Vec<Attachment>> {
    beside(c, BESIDE_MESSAGE, seq)
}

pub(in crate::store) fn beside_said(c: &Connection, outbox_id: i64) -> Result<Vec<Attachment>> {
    beside(c, BESIDE_SAID, outbox_id)
}

fn beside(c: &Connection, sql: &str, row: i64) -> Result<Vec<Attachment>> {
    Ok(c.prepare_cached(sql)?.query_map([row], file_row)?.collect::<rusqlite::Result<_>>()?)
}

pub(in crate::store) fn file_row(r: &Row<'_>) -> rusqlite::Result<Attachment> {
    Ok(Attachment {
        name: r.get("name")?,
        kind: r.word("attachments", "kind")?,
        mime: r.get("type")?,
        claimed: r.get("claimed")?,
        size: r.get("size")?,
        digest: r.get("digest")?,
        problem: r.get("problem")?,
        caption: r.get("caption")?,
        seconds: r.get("seconds")?,
        words: r.get("words")?,
        unread: r.get("unread")?,
        todo: None,
    })
}

/// What files are beside.
#[derive(Clone, Copy)]
pub(in crate::store) enum Beside<'a> {
    /// A message that came in.
    Message(i64),
    /// A row of the outbox, and whose command it came with.
    Said(i64, Option<&'a str>),
}

/// Keeps files beside a message or a text that is new.
pub(in crate::store) fn add(
    c: &Connection,
    beside: Beside<'_>,
    chat: &str,
    files: &[Attachment],
    now: Time,
) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let (seq, outbox_id, group) = match beside {
        Beside::Message(seq) => (Some(seq), None, None),
        Beside::Said(id, group) => (None, Some(id), group),
    };
    let mut insert = c.prepare_cached(
        "INSERT INTO attachments (seq, outbox_id, n, name, kind, type, claimed, size, digest, problem, caption, seconds, chat_jid, at, group_folder, told_size)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?8)",
    )?;
    for (n, file) in (1_i64..).zip(files) {
        insert.execute(params![
            seq,
            outbox_id,
            n,
            file.name,
            file.kind.as_str(),
            file.mime,
            file.claimed,
            file.size,
            file.digest,
            file.problem,
            file.caption,
            file.seconds,
            chat,
            now.0,
            group
        ])?;
        match (seq, &file.todo) {
            (Some(seq), Some(Todo::Fetch(what))) => files::add_work(c, seq, FileStep::Fetch, Some(what))?,
            (Some(seq), Some(Todo::Read)) => files::add_work(c, seq, FileStep::Read, None)?,
            (_, _) => {}
        }
    }
    Ok(())
}

/// Keeps other files beside a message than those that were there. These still count in their chat's hour. Nobody waits for them
/// any more: a row that did is judged, and asks for the others.
pub(in crate::store) fn replace(
    c: &Connection,
    seq: i64,
    chat: &str,
    others: &[Attachment],
    now: Time,
) -> Result<()> {
    let counted: Vec<(String, i64, i64)> = c
        .prepare_cached(
            "SELECT chat_jid, at / 60000 AS minute, sum(min(max(size, 4096), 1 << 40)) AS bytes
             FROM attachments INDEXED BY attachments_in WHERE seq = ?1 GROUP BY chat_jid, minute",
        )?
        .query_map([seq], |r| Ok((r.get("chat_jid")?, r.get("minute")?, r.get("bytes")?)))?
        .collect::<rusqlite::Result<_>>()?;
    c.prepare_cached("DELETE FROM attachments WHERE seq = ?1")?.execute([seq])?;
    // The trigger has taken them off.
    for (chat, minute, bytes) in counted {
        c.prepare_cached(
            "INSERT INTO media_minutes (chat_jid, minute, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (chat_jid, minute) DO UPDATE SET bytes = min(bytes + excluded.bytes, 1 << 60)",
        )?
        .execute(params![chat, minute, bytes])?;
    }
    files::wait_no_more(c, seq)?;
    add(c, Beside::Message(seq), chat, others, now)
}

/// Keeps the files of a message beside another one, too, with what is still to be done with them. Returns how many they are.
pub(in crate::store) fn copy(c: &Connection, from: i64, to: i64) -> Result<usize> {
    let copied = c
        .prepare_cached(
            "INSERT INTO attachments (seq, n, name, kind, type, claimed, size, digest, problem, caption, seconds, words, unread, chat_jid, at, told_size)
             SELECT ?2, n, name, kind, type, claimed, size, digest, problem, caption, seconds, words, unread, chat_jid, at, told_size
             FROM attachments INDEXED BY attachments_in WHERE seq = ?1 ORDER BY n",
        )?
        .execute([from, to])?;
    files::copy_work(c, from, to)?;
    Ok(copied)
}

/// Adds to messages the files that are beside them.
pub(in crate::store) fn with_files(c: &Connection, mut messages: Vec<Message>) -> Result<Vec<Message>> {
    for message in &mut messages {
        message.attachments = beside_message(c, message.seq)?;
    }
    Ok(messages)
}

/// Adds to rows of the outbox the files that are beside them.
pub(in crate::store) fn with_files_said(c: &Connection, mut rows: Vec<OutboxRow>) -> Result<Vec<OutboxRow>> {
    for row in &mut rows {
        row.attachments = beside_said(c, row.id)?;
    }
    Ok(rows)
}
