//! Messages, later acts on them, and texts that move in.

use std::fmt::Write as _;

use channel_protocol::LONGEST_TITLE;
use ipc_handlers::file::MediaKind;
use rusqlite::params;
use sha2::{Digest as _, Sha256};

use super::{Came, Door, moved_as};
use crate::{
    domain::{
        heard::engage::Rule,
        moved::rows::{Fate, Heard, Kind, Mark, Message, Moved, Reply, Said, Text},
        platforms::{addresses::user_in, attachments::Attachment},
    },
    store::{
        Result,
        talk::attachments::{Beside, add},
    },
};

/// Why a message wakes nobody that was unanswered elsewhere.
const UNANSWERED: &str = "it was unanswered where it was imported from, and may be answered there; `g2 restored resume` takes it up";
/// The error of a text that was unsent elsewhere.
const UNSENT: &str = "it was unsent where it was imported from; `g2 restored resume` sends it";
/// A message with more words than this is not taken, bytes.
const LONGEST_TEXT: usize = 1 << 20;

impl Door<'_> {
    pub(super) fn message(&mut self, message: &Message, files: &[Attachment]) -> Result<Came> {
        let m = message;
        if m.text.len() > LONGEST_TEXT {
            return Came::left(format!("it has more than {LONGEST_TEXT} bytes of text"));
        }
        self.ensure_chat(&m.chat, m.received_at)?;
        let none = Reply::default();
        let reply = m.reply.as_ref().unwrap_or(&none);
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO messages (chat_jid, replay_key, id, thread, sender, sender_name, text, at, received_at, from_me, bot, mentioned, late, files, origin,
                   forwarded_from, comment, edited_at, reply_to_id, reply_to_text, reply_to_sender, reply_to_self, reply_to_quote, reply_to_kind, reply_to_chat, title)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26)
                 ON CONFLICT (chat_jid, replay_key) DO NOTHING",
            )?
            .execute(params![
                m.chat, m.replay_key, m.id, m.thread, user_in(&m.chat, &m.sender), m.sender_name, m.text, m.at.map(|at| at.0),
                m.received_at.0, m.from_me, m.bot, m.mentioned, m.late, files.len(), m.origin.map(Moved::as_str), m.forwarded_from,
                m.comment, m.edited_at.map(|at| at.0), reply.id, reply.text, reply.sender, reply.own, reply.quote,
                reply.kind.map(MediaKind::as_str), reply.chat,
                m.title.as_ref().filter(|title| (1..=LONGEST_TITLE).contains(&title.chars().count()))
            ])?;
        if inserted == 0 {
            return Ok(Came::Again);
        }
        let seq = self.c.last_insert_rowid();
        add(self.c, Beside::Message(seq), &m.chat, files, m.received_at)?;
        if files.iter().any(|file| file.words.is_some()) {
            self.put_words("seq", seq, files)?;
        }
        for heard in &m.heard {
            self.heard(seq, m, heard)?;
        }
        Ok(Came::New(seq.to_string()))
    }

    /// Notes what a hook read in files.
    fn put_words(&self, column: &str, row: i64, files: &[Attachment]) -> Result<()> {
        let mut put = self
            .c
            .prepare_cached(&format!("UPDATE attachments SET words = ?3 WHERE {column} = ?1 AND n = ?2"))?;
        for (n, file) in (1_i64..).zip(files) {
            put.execute(params![row, n, file.words])?;
        }
        Ok(())
    }

    /// Notes what became of a message in a group.
    fn heard(&mut self, seq: i64, message: &Message, heard: &Heard) -> Result<()> {
        let Some(lane) = self.lane(&heard.group, &message.chat, &message.thread)? else {
            self.changes.push(format!("there is no group {}, which it was for", heard.group));
            return Ok(());
        };
        let told = heard.rule.as_deref().and_then(Rule::from_name).unwrap_or(Rule::None);
        let (verdict, rule, reason) = match heard.fate {
            Fate::Answered => ("wake", told, heard.reason.as_deref()),
            Fate::Given | Fate::Kept => ("context", told, heard.reason.as_deref()),
            Fate::Ignored => ("ignore", told, heard.reason.as_deref()),
            Fate::Waits => ("ignore", Rule::Restored, Some(UNANSWERED)),
        };
        self.c
            .prepare_cached(
                "INSERT INTO inbox (lane_id, seq, verdict, rule, reason) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![lane, seq, verdict, rule.as_str(), reason])?;
        if matches!(heard.fate, Fate::Answered | Fate::Given) {
            let n = self.c.last_insert_rowid();
            self.c
                .prepare_cached("UPDATE lanes SET cursor = max(cursor, ?2) WHERE id = ?1")?
                .execute([lane, n])?;
        }
        Ok(())
    }

    pub(super) fn mark(&mut self, mark: &Mark) -> Result<Came> {
        self.ensure_chat(&mark.chat, mark.at)?;
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO message_marks (chat_jid, replay_key, message_id, kind, sender, reaction, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (chat_jid, replay_key) DO NOTHING",
            )?
            .execute(params![
                mark.chat,
                mark.replay_key,
                mark.message_id,
                mark.act.as_str(),
                user_in(&mark.chat, &mark.sender),
                mark.reaction,
                mark.at.0
            ])?;
        Ok(if inserted == 0 { Came::Again } else { Came::New(String::new()) })
    }

    pub(super) fn text(&mut self, key: &str, text: &Text, files: &[Attachment]) -> Result<Came> {
        let t = text;
        if t.text.is_empty() && files.is_empty() {
            return Came::left("it has no words and no files");
        }
        if (t.state == Said::Sent) != t.sent_at.is_some() {
            return Came::left("its state and the time at which it was sent contradict each other");
        }
        let run: Option<i64> = match &t.run {
            Some(run) => moved_as(self.c, self.source, Kind::Run, run)?.and_then(|own| own.parse().ok()),
            None => None,
        };
        // The run is told by its number here.
        let cause = match (&t.run, run) {
            (Some(theirs), Some(ours)) => {
                t.cause.replacen(&format!("run {theirs} "), &format!("run {ours} "), 1)
            }
            _ => t.cause.clone(),
        };
        let kind = if run.is_some() { "record" } else { "notice" };
        let (status, error, held) = match t.state {
            Said::Sent => ("sent", t.error.as_deref(), false),
            Said::Failed => ("failed", t.error.as_deref(), false),
            Said::Unsent => ("failed", Some(UNSENT), true),
        };
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO outbox (chat_jid, thread, text, sender, reply_to, status, attempts, cause, run_id, created_at, sent_at, error, group_folder, said_key, files, cause_kind, cause_id, held_back)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?8, ?16)
                 ON CONFLICT (said_key) WHERE said_key IS NOT NULL DO NOTHING",
            )?
            .execute(params![
                t.chat, t.thread, t.text, t.sender, t.reply_to, status, cause, run, t.created_at.0, t.sent_at.map(|at| at.0), error,
                t.group.as_ref().map(ipc_handlers::Folder::as_str), said_key(self.source, key), files.len(), kind, held
            ])?;
        if inserted == 0 {
            return Ok(Came::Again);
        }
        let id = self.c.last_insert_rowid();
        let group = t.group.as_ref().map(ipc_handlers::Folder::as_str);
        add(self.c, Beside::Said(id, group), &t.chat, files, t.created_at)?;
        if files.iter().any(|file| file.words.is_some()) {
            self.put_words("outbox_id", id, files)?;
        }
        let Some(sent_at) = t.sent_at else { return Ok(Came::New(id.to_string())) };
        for (n, platform_id) in t.ids.iter().enumerate() {
            match n {
                0 => self
                    .c
                    .prepare_cached(
                        "INSERT INTO outbox_parts (outbox_id, part, chat_jid, platform_id, sent_at) VALUES (?1, 1, ?2, ?3, ?4)",
                    )?
                    .execute(params![id, t.chat, platform_id, sent_at.0])?,
                _ => self
                    .c
                    .prepare_cached(
                        "INSERT OR IGNORE INTO outbox_more_ids (chat_jid, platform_id, outbox_id) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![t.chat, platform_id, id])?,
            };
        }
        Ok(Came::New(id.to_string()))
    }
}

/// Returns the key by which a text is known that was taken: a source's name is as long as a path.
fn said_key(source: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{source}\0{key}"));
    let mut text = "moved ".to_owned();
    for byte in &digest[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
