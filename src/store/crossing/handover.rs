//! From talk to work: messages of the inbox become a batch, with the cursor and the run row in one transaction; a task that is
//! due becomes a run (`due.rs`). A batch is made once: the unique index of `batches (lane_id, first)` holds it, and the cursor moves
//! behind it in the same commit. A slot of a task is run once by `runs_slot_once`.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::wake;
use crate::domain::{
    heard::origin::{Author, Origin},
    platforms::attachments::{Attachment, Digest, shown_at},
    rows::{Message, Task},
    runs::{
        prompt::{
            EditOf, Forward, Limits, PromptFile, PromptMessage, Row, Selection, Waking, format_selection,
            select,
        },
        wake::Line,
    },
    states::{SandboxName, Via},
    time::zone::Zone,
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{attachments::beside_message, messages::message_row, outbox::said_as},
};

/// How much goes into one batch.
#[derive(Clone, Copy, Debug)]
pub struct HandoverLimits {
    /// Messages in a batch, at most.
    pub messages: usize,
    /// Bytes of message text in a batch, at most (a single longer message goes alone).
    pub bytes: usize,
    /// Context messages beside the waking ones, the newest ones.
    pub context: usize,
}

/// A batch on its way to an agent.
#[derive(Clone, Debug)]
pub struct Handed {
    pub run: i64,
    pub batch: i64,
    pub group: Folder,
    pub is_main: bool,
    pub lane: i64,
    pub chat_jid: String,
    pub thread: String,
    pub generation: i64,
    pub session_id: Option<String>,
    /// What was said before, oldest first, for an agent that does not know it. Nothing in a first session.
    pub earlier: Vec<Line>,
    pub content: Content,
}

/// What a batch says.
#[derive(Clone, Debug)]
pub struct Content {
    rows: Vec<Row>,
    first: i64,
    last: i64,
    /// How many context messages did not fit.
    left_out: usize,
}

impl Content {
    /// Whether files are beside its messages, be they there or missing.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.shown_files().next().is_some()
    }

    /// Returns the files that are shown to the agent: where, below the folder of its group's media, and which.
    #[must_use]
    pub fn files(&self) -> Vec<(String, Digest)> {
        self.shown_files().filter_map(|file| Some((file.path.clone(), file.file.digest?))).collect()
    }

    /// The files beside its messages, and those that these answer.
    fn shown_files(&self) -> impl Iterator<Item = &PromptFile> {
        self.rows.iter().flat_map(|row| row.message.files.iter().chain(&row.message.answered_file))
    }

    /// Returns the same, of an agent that sees its group's files in the folder `media`; `missing` says which are not there, and
    /// why.
    #[must_use]
    pub fn seen_at(mut self, media: &str, missing: &BTreeMap<String, String>) -> Self {
        self.rows.iter_mut().for_each(|row| row.message.seen_at(media, missing));
        self
    }

    /// Returns the prompt, in v1's format.
    #[must_use]
    pub fn prompt(&self, zone: &Zone) -> String {
        let rows = self.rows.iter().collect();
        let selection = Selection { rows, first: self.first, last: self.last, left_out: self.left_out };
        format_selection(&selection, &zone.name, &zone.zone)
    }
}

/// A due task on its way to an agent.
#[derive(Clone, Debug)]
pub struct HandedTask {
    pub run: i64,
    pub task: Task,
    pub is_main: bool,
    pub lane: i64,
    pub generation: i64,
    pub session_id: Option<String>,
    /// What was said before, oldest first, for an agent that does not know it. Nothing in a first session.
    pub earlier: Vec<Line>,
}

/// The generation of a run that never writes a session back. No lane has it.
pub(super) const NO_GENERATION: i64 = -1;

impl Store {
    /// Starts a run for a lane, and gives it the oldest batch. `None`: nothing waits there any more, or the wiring is gone.
    pub async fn start_run(
        &self,
        lane: i64,
        sandbox: SandboxName,
        owner: &str,
        limits: HandoverLimits,
        now: Time,
    ) -> Result<Option<Handed>> {
        let (owner, fresh_after_ms) = (owner.to_owned(), self.bounds_now().fresh_after_ms);
        self.write(move |c| {
            let Some(mut seat) = seat(c, lane)?.filter(|seat| seat.wired) else { return Ok(None) };
            let Some(taken) = take(c, lane, limits)? else { return Ok(None) };
            c.prepare_cached(
                "INSERT INTO runs (group_folder, lane_id, chat_jid, thread, kind, for_lane, status, owner, sandbox, generation, created_at)
                 VALUES (?1, ?2, ?3, ?4, 'message', ?2, 'queued', ?5, ?6, ?7, ?8)",
            )?
            .execute(params![seat.group.as_str(), lane, seat.chat_jid, seat.thread, owner, sandbox.as_str(), seat.generation, now.0])?;
            let run = c.last_insert_rowid();
            let decided = wake::decide(c, &seat, fresh_after_ms, now)?;
            let earlier = wake::keep(c, &mut seat, run, decided, taken.content.first, now)?;
            Ok(Some(Handed { earlier, ..hand(c, seat, taken, run, Via::Stdin, now)? }))
        })
        .await
    }

    /// Gives the lane's next batch to its live run. `None`: nothing waits, or the run takes no more.
    pub async fn pipe(
        &self,
        run: i64,
        lane: i64,
        limits: HandoverLimits,
        now: Time,
    ) -> Result<Option<Handed>> {
        self.write(move |c| {
            let Some(seat) = seat(c, lane)?.filter(|seat| seat.wired) else { return Ok(None) };
            let takes_more: bool = c
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND lane_id = ?2 AND kind = 'message' AND status = 'running'
                       AND ready_at IS NOT NULL AND closing_at IS NULL AND generation = ?3)",
                )?
                .query_row(params![run, lane, seat.generation], |r| r.get(0))?;
            if !takes_more {
                return Ok(None);
            }
            let Some(taken) = take(c, lane, limits)? else { return Ok(None) };
            hand(c, seat, taken, run, Via::Input, now).map(Some)
        })
        .await
    }

    /// Returns a batch's content again, as it was handed over: for a prompt that has to be written once more.
    pub fn batch_content(&self, batch: i64, limits: HandoverLimits) -> Result<Option<Content>> {
        self.read(|c| {
            let found: Option<(i64, i64, i64)> = c
                .prepare_cached("SELECT lane_id, first, last FROM batches WHERE id = ?1")?
                .query_row([batch], |r| Ok((r.get("lane_id")?, r.get("first")?, r.get("last")?)))
                .optional()?;
            let Some((lane, first, last)) = found else { return Ok(None) };
            let taken = within(c, lane, first, Some(last), limits)?;
            Ok(taken.map(|taken| taken.content))
        })
    }
}

/// A lane as a run needs it.
pub(super) struct Seat {
    pub(super) lane: i64,
    pub(super) group: Folder,
    pub(super) is_main: bool,
    pub(super) chat_jid: String,
    pub(super) thread: String,
    pub(super) generation: i64,
    pub(super) session_id: Option<String>,
    /// Whether the chat is wired to the group still.
    pub(super) wired: bool,
}

pub(super) fn seat(c: &Connection, lane: i64) -> Result<Option<Seat>> {
    c.prepare_cached(
        "INSERT INTO sessions (lane_id, group_folder, chat_jid, thread)
         SELECT id, group_folder, chat_jid, thread FROM lanes WHERE id = ?1 ON CONFLICT DO NOTHING",
    )?
    .execute([lane])?;
    Ok(c.prepare_cached(
        "SELECT l.group_folder, g.is_main, l.chat_jid, l.thread, s.generation, s.session_id,
                EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid) AS wired
         FROM lanes l JOIN groups g ON g.folder = l.group_folder JOIN sessions s ON s.lane_id = l.id WHERE l.id = ?1",
    )?
    .query_row([lane], |r| {
        Ok(Seat {
            lane,
            group: r.folder("group_folder")?,
            is_main: r.get("is_main")?,
            chat_jid: r.get("chat_jid")?,
            thread: r.get("thread")?,
            generation: r.get("generation")?,
            session_id: r.get("session_id")?,
            wired: r.get("wired")?,
        })
    })
    .optional()?)
}

/// The rows of one batch.
struct Taken {
    /// Set for a batch that came back.
    batch: Option<i64>,
    content: Content,
}

/// Takes the lane's oldest returned batch; if there is none, messages after the cursor.
fn take(c: &Connection, lane: i64, limits: HandoverLimits) -> Result<Option<Taken>> {
    let returned: Option<(i64, i64, i64)> = c
        .prepare_cached("SELECT id, first, last FROM batches INDEXED BY batches_open WHERE lane_id = ?1 AND state = 'returned' ORDER BY id LIMIT 1")?
        .query_row([lane], |r| Ok((r.get("id")?, r.get("first")?, r.get("last")?)))
        .optional()?;
    if let Some((batch, first, last)) = returned {
        let taken = within(c, lane, first, Some(last), limits)?;
        return Ok(taken
            .map(|taken| Taken { batch: Some(batch), content: Content { first, last, ..taken.content } }));
    }
    let cursor: i64 =
        c.prepare_cached("SELECT cursor FROM lanes WHERE id = ?1")?.query_row([lane], |r| r.get(0))?;
    within(c, lane, cursor + 1, None, limits)
}

/// Which rows of the inbox are read, and by which index. The index is named, so that no plan walks through all rows of the lane.
const WAKING: (&str, &str) = ("inbox_waking", "i.verdict = 'wake'");
const CONTEXT: (&str, &str) = ("inbox_by_lane", "i.verdict IN ('wake', 'context') AND i.verdict = 'context'");

/// Selects a batch among the lane's rows from `first` on (to `last`, for one that was selected before).
fn within(
    c: &Connection,
    lane: i64,
    first: i64,
    last: Option<i64>,
    limits: HandoverLimits,
) -> Result<Option<Taken>> {
    let until = last.unwrap_or(i64::MAX);
    // What was selected once is a batch, whatever the limits are now.
    const ALL: usize = usize::MAX >> 2;
    let limits = match last {
        Some(_) => HandoverLimits { messages: ALL, bytes: ALL, context: limits.context },
        None => limits,
    };
    let read = |(index, which): (&str, &str),
                order: &str,
                until: i64,
                limit: usize|
     -> Result<Vec<(i64, Message)>> {
        let sql = format!(
            "SELECT m.*, i.n FROM inbox i INDEXED BY {index} JOIN messages m ON m.seq = i.seq
             WHERE i.lane_id = ?1 AND i.n >= ?2 AND i.n <= ?3 AND {which} ORDER BY i.n {order} LIMIT ?4"
        );
        c.prepare_cached(&sql)?
            .query_map(params![lane, first, until, limit], |r| {
                Ok((r.get("n")?, message_row(r)?, r.get("files")?))
            })?
            .map(|row| {
                let (n, mut message, files): (i64, Message, u32) = row?;
                if files > 0 {
                    message.attachments = beside_message(c, message.seq)?;
                }
                Ok((n, message))
            })
            .collect()
    };
    let waking = read(WAKING, "ASC", until, limits.messages + 1)?;
    let Some((newest_waking, _)) = waking.last() else { return Ok(None) };
    let context = read(CONTEXT, "DESC", *newest_waking, limits.context)?;
    let earlier_context: usize = match context.last() {
        Some((oldest, _)) if context.len() == limits.context => c
            .prepare_cached("SELECT count(*) FROM inbox INDEXED BY inbox_by_lane WHERE lane_id = ?1 AND n >= ?2 AND n < ?3 AND verdict IN ('wake', 'context') AND verdict = 'context'")?
            .query_row(params![lane, first, oldest], |r| r.get(0))?,
        Some(_) | None => 0,
    };
    let all = waking.into_iter().map(|row| (Waking::Wakes, row));
    let all = all.chain(context.into_iter().map(|row| (Waking::Context, row)));
    let mut rows = Vec::new();
    for (waking, (n, message)) in all {
        rows.push(Row { n, waking, message: prompted(c, lane, n, message)? });
    }
    rows.sort_by_key(|row| row.n);
    let limits = Limits { messages: limits.messages, bytes: limits.bytes, context: limits.context };
    let Some(selection) = select(&rows, limits) else { return Ok(None) };
    let content = Content {
        first: selection.first,
        last: selection.last,
        left_out: selection.left_out + earlier_context,
        rows: selection.rows.into_iter().cloned().collect(),
    };
    Ok(Some(Taken { batch: None, content }))
}

/// How much is shown of the words that an edit replaced, characters.
const SHOWN_OF_EDITED: i64 = 500;

/// Returns the message of the inbox row `n` as the prompt shows it.
fn prompted(c: &Connection, lane: i64, n: i64, message: Message) -> Result<PromptMessage> {
    let (seq, author) = (message.seq, message.author());
    let files =
        (1..).zip(message.attachments).map(|(n, file)| prompt_file(seq, message.received_at, n, file));
    let (mut answered, mut answered_file, mut name) = (message.answered, None, message.reply_to_sender);
    if let Some(id) = message.reply_to_id.as_deref().filter(|_| answered.chat.is_none()) {
        answered_file = kept_file(c, &message.chat_jid, id)?;
        if answered.own
            && let Some(other) = other_agent(c, &message.chat_jid, id, lane)?
        {
            (answered.own, name) = (false, Some(other));
        }
    }
    let edit = match message.origin {
        Origin::Edited => {
            Some(EditOf { before: read_before(c, lane, n, &message.chat_jid, &message.id)?, id: message.id })
        }
        Origin::Written | Origin::Forwarded => None,
    };
    let forward = (author == Author::Other)
        .then(|| Forward { from: message.forwarded_from.unwrap_or_default(), comment: message.comment });
    Ok(PromptMessage {
        files: files.collect(),
        sender_name: message.sender_name,
        text: message.text,
        title: message.title,
        at: message.at,
        reply_to_id: message.reply_to_id,
        reply_to_text: message.reply_to_text,
        reply_to_sender: name,
        answered,
        answered_file,
        forward,
        edit,
    })
}

/// Returns a file of a message, with the place at which its group sees it.
fn prompt_file(seq: i64, received_at: Time, n: usize, file: Attachment) -> PromptFile {
    let date = received_at.to_jiff().strftime("%Y-%m-%d").to_string();
    PromptFile { path: shown_at(&date, seq, n, &file.name), file }
}

/// Returns the first kept file of the newest message of a chat that has one and is called so.
fn kept_file(c: &Connection, chat: &str, id: &str) -> Result<Option<PromptFile>> {
    let found: Option<(i64, Time)> = c
        .prepare_cached(
            "SELECT seq, received_at FROM messages INDEXED BY messages_by_id WHERE chat_jid = ?1 AND id = ?2 AND files > 0 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([chat, id], |r| Ok((r.get("seq")?, r.time("received_at")?)))
        .optional()?;
    let Some((seq, at)) = found else { return Ok(None) };
    let mut files = (1..).zip(beside_message(c, seq)?).filter(|(_, file)| file.digest.is_some());
    Ok(files.next().map(|(n, file)| prompt_file(seq, at, n, file)))
}

/// Returns the name of another group's agent, if it and not the lane's own said what the platform calls so.
fn other_agent(c: &Connection, chat: &str, id: &str, lane: i64) -> Result<Option<String>> {
    let Some(row) = said_as(c, chat, id)? else { return Ok(None) };
    Ok(c.prepare_cached(
        "SELECT coalesce(o.sender, ltrim(g.trigger, '@')) AS name FROM outbox o JOIN groups g ON g.folder = o.group_folder
         WHERE o.id = ?1 AND g.folder <> (SELECT group_folder FROM lanes WHERE id = ?2)",
    )?
    .query_row([row, lane], |r| r.get("name"))
    .optional()?)
}

/// Returns the beginning of the words that a lane was given last, before its row `n`, of the message that the platform calls so.
fn read_before(c: &Connection, lane: i64, n: i64, chat: &str, id: &str) -> Result<Option<String>> {
    Ok(c.prepare_cached(
        "SELECT substr(m.shown, 1, ?5) || CASE WHEN length(m.shown) > ?5 THEN '…' ELSE '' END AS text
         FROM messages m INDEXED BY messages_by_id JOIN inbox i INDEXED BY inbox_by_message ON i.seq = m.seq
         WHERE m.chat_jid = ?1 AND m.id = ?2 AND i.lane_id = ?3 AND i.n < ?4 AND i.verdict IN ('wake', 'context') ORDER BY m.seq DESC LIMIT 1",
    )?
    .query_row(params![chat, id, lane, n, SHOWN_OF_EDITED], |r| r.get("text"))
    .optional()?)
}

/// Writes down that `run` has the batch, and moves the cursor, which never moves back.
fn hand(c: &Connection, seat: Seat, taken: Taken, run: i64, via: Via, now: Time) -> Result<Handed> {
    let outbox_mark: i64 = c.query_row("SELECT coalesce(max(id), 0) FROM outbox", [], |r| r.get(0))?;
    let claim_mark: i64 = c.query_row("SELECT coalesce(max(claim_id), 0) FROM receipts", [], |r| r.get(0))?;
    let batch = match taken.batch {
        Some(batch) => {
            c.prepare_cached(
                "UPDATE batches SET state = 'handed', run_id = ?2, via = ?3, outbox_mark = ?4, claim_mark = ?5, handed_at = ?6, unsaid = 0 WHERE id = ?1",
            )?
            .execute(params![batch, run, via.as_str(), outbox_mark, claim_mark, now.0])?;
            batch
        }
        None => {
            c.prepare_cached(
                "INSERT INTO batches (lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at)
                 VALUES (?1, ?2, ?3, ?4, 'handed', ?5, ?6, ?7, ?8)",
            )?
            .execute(params![seat.lane, run, taken.content.first, taken.content.last, via.as_str(), outbox_mark, claim_mark, now.0])?;
            c.last_insert_rowid()
        }
    };
    c.prepare_cached("UPDATE lanes SET cursor = max(cursor, ?2) WHERE id = ?1")?
        .execute([seat.lane, taken.content.last])?;
    c.prepare_cached("UPDATE sessions SET rest_until = NULL WHERE lane_id = ?1 AND rest_until IS NOT NULL")?
        .execute([seat.lane])?;
    Ok(Handed {
        run,
        batch,
        group: seat.group,
        is_main: seat.is_main,
        lane: seat.lane,
        chat_jid: seat.chat_jid,
        thread: seat.thread,
        generation: seat.generation,
        session_id: seat.session_id,
        earlier: Vec::new(),
        content: taken.content,
    })
}
