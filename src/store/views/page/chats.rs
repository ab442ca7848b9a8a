//! Chats that groups listen to, and a chat with both its sides.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, Row, params};

use crate::domain::{platforms::attachments::Attachment, states::DeliveryStatus};
use crate::store::{
    Result, Store, at_most,
    columns::Columns as _,
    talk::attachments::{beside_message, beside_said},
};

/// How much of the newest message is shown, and how much of each in a chat, characters.
const PREVIEW: usize = 120;
const LONGEST: usize = 4096;

/// A chat that a group listens to, with its newest message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatShown {
    pub group: Folder,
    pub name: String,
    pub is_main: bool,
    pub chat: String,
    pub newest: Option<i64>,
    pub at: Option<Time>,
    pub by: Option<String>,
    /// The beginning of its text.
    pub text: Option<String>,
}

/// A piece of the list of chats, and how many there are in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chats {
    pub rows: Vec<ChatShown>,
    pub all: usize,
}

/// Whose line it is, and its number: of a message, or of a row of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    Message(i64),
    Outbox(i64, DeliveryStatus),
}

/// A line of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utterance {
    pub whence: Whence,
    pub at: Time,
    pub thread: String,
    /// Who said it; `None`: the host.
    pub name: Option<String>,
    /// The user's id.
    pub sender: String,
    pub text: String,
    /// The text goes on.
    pub cut: bool,
    /// It is markdown: an agent's words.
    pub is_markdown: bool,
    /// The files beside it.
    pub files: Vec<Attachment>,
    pub error: Option<String>,
}

/// A piece of a chat, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    pub lines: Vec<Utterance>,
    /// The number of a message and that of a row of the outbox: what comes before both is older.
    pub older: Option<(i64, i64)>,
}

/// The chats that a group listens to, narrowed by a part of a name.
const WIRED: &str = "FROM wirings w JOIN groups g ON g.folder = w.group_folder
  WHERE ?1 = '' OR instr(lower(g.name || ' ' || w.group_folder || ' ' || w.chat_jid), ?1) > 0";

const SIDES: &str = "SELECT * FROM (
   SELECT * FROM (SELECT 0 AS ours, seq AS id, thread, sender, sender_name AS name, substr(shown, 1, ?5) AS text, length(shown) > ?5 AS cut, received_at AS at, files, 0 AS is_markdown, NULL AS status, NULL AS error
                  FROM messages WHERE chat_jid = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?4)
   UNION ALL
   SELECT * FROM (SELECT 1, o.id, o.thread, '', coalesce(o.sender, (SELECT ltrim(g.trigger, '@') FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = o.run_id)),
                         substr(o.text, 1, ?5), length(o.text) > ?5, coalesce(o.sent_at, o.created_at), o.files, o.group_folder IS NOT NULL, iif(o.growth = 'growing' AND o.status = 'pending', 'sent', o.status), o.error
                  FROM outbox o WHERE o.chat_jid = ?1 AND o.id < ?3 ORDER BY o.id DESC LIMIT ?4)
 ) ORDER BY at DESC, ours DESC, id DESC LIMIT ?4";

impl Store {
    /// Returns the chats that groups listen to, those with the newest messages first; those alone in whose names `part` stands.
    pub async fn chats_on_page(&self, part: &str, skip: usize, most: usize) -> Result<Chats> {
        let part = part.to_lowercase();
        self.ask(move |c| {
            let all = c.prepare_cached(&format!("SELECT count(*) {WIRED}"))?.query_row([&part], |r| r.get(0))?;
            let mut rows = c.prepare_cached(&format!(
                "SELECT q.*, m.received_at AS at, m.sender_name, substr(m.shown, 1, ?4) AS text FROM (
                   SELECT w.group_folder, g.name, g.is_main, w.chat_jid, (SELECT max(seq) FROM messages WHERE chat_jid = w.chat_jid) AS newest
                   {WIRED} ORDER BY newest DESC, w.group_folder, w.chat_jid LIMIT ?2 OFFSET ?3
                 ) q LEFT JOIN messages m ON m.seq = q.newest ORDER BY q.newest DESC, q.group_folder, q.chat_jid"
            ))?;
            let rows = rows.query_map(params![part, at_most(Some(most)), at_most(Some(skip)), PREVIEW], chat_row)?;
            Ok(Chats { rows: rows.collect::<rusqlite::Result<_>>()?, all })
        })
        .await
    }

    /// Returns the newest lines of a chat, unsent ones too; with `before`, those before its numbers.
    pub async fn transcript(
        &self,
        chat: &str,
        before: Option<(i64, i64)>,
        most: usize,
    ) -> Result<Transcript> {
        let chat = chat.to_owned();
        self.ask(move |c| transcript(c, &chat, before, most)).await
    }
}

fn chat_row(r: &Row<'_>) -> rusqlite::Result<ChatShown> {
    Ok(ChatShown {
        group: r.folder("group_folder")?,
        name: r.get("name")?,
        is_main: r.get("is_main")?,
        chat: r.get("chat_jid")?,
        newest: r.get("newest")?,
        at: r.time_or_null("at")?,
        by: r.get("sender_name")?,
        text: r.get("text")?,
    })
}

fn transcript(c: &Connection, chat: &str, before: Option<(i64, i64)>, most: usize) -> Result<Transcript> {
    let (message, outbox) = before.unwrap_or((i64::MAX, i64::MAX));
    let mut newest = c.prepare_cached(SIDES)?;
    let rows = newest.query_map(params![chat, message, outbox, at_most(Some(most)), LONGEST], |r| {
        let id = r.get("id")?;
        let has_files = r.get::<_, u32>("files")? > 0;
        Ok((
            has_files,
            Utterance {
                whence: match r.word_or_null("outbox", "status")? {
                    Some(status) => Whence::Outbox(id, status),
                    None => Whence::Message(id),
                },
                at: r.time("at")?,
                thread: r.get("thread")?,
                name: r.get("name")?,
                sender: r.get("sender")?,
                text: r.get("text")?,
                cut: r.get("cut")?,
                is_markdown: r.get("is_markdown")?,
                files: Vec::new(),
                error: r.get("error")?,
            },
        ))
    })?;
    let mut lines = Vec::new();
    for row in rows {
        let (has_files, mut line) = row?;
        if has_files {
            line.files = match line.whence {
                Whence::Message(seq) => beside_message(c, seq)?,
                Whence::Outbox(id, _) => beside_said(c, id)?,
            };
        }
        lines.push(line);
    }
    lines.reverse();
    // Of a side that has no line here, nothing was passed over.
    let first = |of: fn(&Utterance) -> Option<i64>, none: i64| lines.iter().find_map(of).unwrap_or(none);
    let older = (lines.len() == most).then(|| {
        (
            first(|line| if let Whence::Message(id) = line.whence { Some(id) } else { None }, message),
            first(|line| if let Whence::Outbox(id, _) = line.whence { Some(id) } else { None }, outbox),
        )
    });
    Ok(Transcript { lines, older })
}
