//! Edits of messages, as `domain/heard/edits.rs` decides: the rows that nobody has read get the new words where they stand, who has
//! read the old ones gets a message of its own. The keys of edits that made no message are kept beside the message that they
//! changed, so that the same event again changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::Time;
use rusqlite::{Connection, params};

use super::{
    attachments, files,
    messages::{count_files, judge_anew, reword},
};
use crate::domain::{
    heard::{
        edits::{Becomes, Change, FileLook, Look, Standing, compare, decide, has_other_files},
        engage::{EngageVerdict, Rule},
        origin::{Author, Origin},
    },
    platforms::attachments::Attachment,
    rows::Inbound,
};
use crate::store::{Result, columns::Columns as _};

/// How many messages that a platform calls alike are looked at, and how many keys of edits are kept of each.
const NEWEST: i64 = 64;

/// What an edit is about.
pub(in crate::store) enum Edited {
    /// A message that is not known.
    Unknown,
    /// Nothing changes: it came before, was made before the last edit, has the words that stand there, or moves or empties something
    /// that is not known. The number of the message, if there is one.
    Nothing(Option<i64>),
    Known(Known),
}

/// A message that is known, and its rows in the inbox.
pub(in crate::store) struct Known {
    /// The newest message that the platform calls so.
    pub(in crate::store) newest: i64,
    /// The thread that it was written in.
    pub(in crate::store) thread: String,
    change: Change,
    /// Its files are others than those of before.
    other_files: bool,
    /// Messages whose words a person does not change any more: a lane has read them, or a person is asked about them.
    kept: BTreeSet<i64>,
    /// The newest row of each wiring, by its group; `None`: there is none.
    rows: Vec<(String, Option<Row>)>,
}

/// A row of the inbox.
struct Row {
    n: i64,
    lane: i64,
    seq: i64,
    standing: Standing,
    wakes: bool,
}

impl Known {
    /// Whether the edit has other files than those of before.
    pub(in crate::store) const fn has_other_files(&self) -> bool {
        self.other_files
    }

    /// Returns how many groups hear its chat.
    pub(in crate::store) fn groups(&self) -> usize {
        self.rows.len()
    }
}

/// Reads what an edit is about. `files`: those that are told with it. An edit of a forward that does not say so stays one, with the
/// author and the comment that are known.
pub(in crate::store) fn look(
    c: &Connection,
    edit: &mut Inbound,
    files: &[Attachment],
    now: Time,
) -> Result<Edited> {
    let called: Vec<(i64, String, Look)> = c
        .prepare_cached(
            "SELECT seq, thread, text, origin, forwarded_from, comment FROM messages INDEXED BY messages_by_id
             WHERE chat_jid = ?1 AND id = ?2 AND sender IN (SELECT ?3 UNION ALL SELECT other FROM same_person WHERE id = ?3) ORDER BY seq DESC LIMIT ?4",
        )?
        .query_map(params![edit.chat_jid, edit.id, edit.sender, NEWEST], |r| {
            let origin: Origin = r.word_or_null("messages", "origin")?.unwrap_or_default();
            let from: Option<String> = r.get("forwarded_from")?;
            let is_forward = Author::of(origin, from.as_deref()) == Author::Other;
            let look = Look {
                text: r.get("text")?,
                forwarded_from: is_forward.then(|| from.unwrap_or_default()),
                comment: r.get::<_, Option<String>>("comment")?.unwrap_or_default(),
                files: Vec::new(),
            };
            Ok((r.get("seq")?, r.get("thread")?, look))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let Some((newest, thread, mut look)) = called.first().cloned() else {
        let says_nothing = edit.text.trim().is_empty() && edit.comment.trim().is_empty() && files.is_empty();
        return Ok(if edit.quiet || says_nothing { Edited::Nothing(None) } else { Edited::Unknown });
    };
    if edit.forwarded_from.is_none() {
        edit.forwarded_from.clone_from(&look.forwarded_from);
        edit.comment.clone_from(&look.comment);
    }
    let mut came_before =
        c.prepare_cached("SELECT EXISTS (SELECT 1 FROM message_edits WHERE seq = ?1 AND replay_key = ?2)")?;
    for (seq, ..) in &called {
        if came_before.query_row(params![seq, edit.replay_key], |r| r.get(0))? {
            return Ok(Edited::Nothing(Some(*seq)));
        }
    }
    for (seq, ..) in &called {
        look.files = looks_beside(c, *seq)?;
        if !look.files.is_empty() {
            break;
        }
    }
    if let (Some(at), Some(last)) = (edit.at, last_edit(c, &called)?)
        && at < last
    {
        return Ok(Edited::Nothing(Some(newest)));
    }
    let told = Look {
        text: edit.text.clone(),
        forwarded_from: edit.forwarded_from.clone(),
        comment: edit.comment.clone(),
        files: files.iter().map(file_look).collect(),
    };
    let change = compare(&look, &told, edit.quiet);
    if change == Change::None {
        remember(c, newest, edit, now)?;
        return Ok(Edited::Nothing(Some(newest)));
    }
    let other_files = has_other_files(&look.files, &told.files);
    let (rows, kept) = rows(c, &edit.chat_jid, &called)?;
    Ok(Edited::Known(Known { newest, thread, change, other_files, kept, rows }))
}

/// The message of its own that an edit is.
pub(in crate::store) struct OwnMessage<'a> {
    /// The groups whose inboxes are still to get it.
    pub(in crate::store) groups: Vec<String>,
    /// Rows of lanes that have not read the message before, and get this one in its place; and whether they are judged anew.
    moved: Vec<(&'a Row, bool)>,
}

/// Gives the rows that nobody has read the new words, and has those judged anew that engaged nobody. Returns the message that is to
/// be made for others; `None`: none is.
pub(in crate::store) fn apply<'a>(
    c: &Connection,
    known: &'a Known,
    edit: &Inbound,
    files: &[Attachment],
    now: Time,
) -> Result<Option<OwnMessage<'a>>> {
    let mut own = OwnMessage { groups: Vec::new(), moved: Vec::new() };
    let by_person = known.change == Change::ByPerson;
    let stays = |seq: i64| by_person && known.kept.contains(&seq);
    let mut replaced = BTreeSet::new();
    let mut anew = Vec::new();
    for (group, row) in &known.rows {
        let standing = row.as_ref().map_or(Standing::Absent, |row| row.standing);
        let (row, is_anew) = match (decide(known.change, standing), row) {
            (Becomes::Message, _) => {
                own.groups.push(group.clone());
                continue;
            }
            // Its new files are still to be fetched.
            (Becomes::Replaced, Some(row)) => (row, row.wakes && known.other_files && by_person),
            (Becomes::JudgedAnew, Some(row)) => (row, true),
            (Becomes::Replaced | Becomes::JudgedAnew, None) | (Becomes::Nothing, _) => continue,
        };
        if stays(row.seq) {
            own.moved.push((row, is_anew));
            continue;
        }
        replaced.insert(row.seq);
        if is_anew {
            anew.push(row);
        }
    }
    let is_own = !own.groups.is_empty() || !own.moved.is_empty() || stays(known.newest);
    // What is shown last of a message are its newest words.
    if !is_own {
        replaced.insert(known.newest);
    }
    for seq in replaced {
        replace(c, seq, known, edit, files, now)?;
    }
    for row in anew {
        judge_anew(c, row.lane, row.n, row.seq)?;
    }
    Ok(is_own.then_some(own))
}

impl OwnMessage<'_> {
    /// Puts the message `seq` in the place of the one before, where that was not read. `with_files`: the edit told none, so those of
    /// before are beside it.
    pub(in crate::store) fn take_over(&self, c: &Connection, seq: i64, with_files: bool) -> Result<()> {
        if let Some((row, _)) = self.moved.first().filter(|_| with_files) {
            let files = attachments::copy(c, row.seq, seq)?;
            count_files(c, seq, files)?;
        }
        for (row, is_anew) in &self.moved {
            files::wait_no_more_at(c, row.n)?;
            if *is_anew {
                judge_anew(c, row.lane, row.n, seq)?;
            } else {
                c.prepare_cached("UPDATE inbox SET seq = ?2 WHERE n = ?1")?.execute([row.n, seq])?;
            }
        }
        Ok(())
    }
}

/// Returns when the last edit of messages that are called alike was made; `None`: there is none.
fn last_edit(c: &Connection, called: &[(i64, String, Look)]) -> Result<Option<Time>> {
    let mut last = c.prepare_cached(
        "SELECT max(coalesce((SELECT max(at) FROM message_edits WHERE seq = m.seq), 0),
                    CASE WHEN m.origin = 'edited' THEN min(coalesce(m.at, 0), m.received_at) ELSE 0 END) AS last
         FROM messages m WHERE m.seq = ?1",
    )?;
    let mut newest = 0;
    for (seq, ..) in called {
        newest = last.query_row([seq], |r| r.get("last")).map(|at: i64| at.max(newest))?;
    }
    Ok((newest > 0).then_some(Time(newest)))
}

/// Returns the files beside a message, as they were told with it.
fn looks_beside(c: &Connection, seq: i64) -> Result<Vec<FileLook>> {
    Ok(c.prepare_cached(
        "SELECT kind, name, coalesce(told_size, 0) AS told_size FROM attachments INDEXED BY attachments_in WHERE seq = ?1 ORDER BY n",
    )?
    .query_map([seq], |r| {
        Ok(FileLook { kind: r.word("attachments", "kind")?, name: r.get("name")?, size: r.get("told_size")? })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

fn file_look(file: &Attachment) -> FileLook {
    FileLook { kind: file.kind, name: file.name.clone(), size: file.size }
}

/// The newest row of each wiring, by its group, and the messages whose words stay.
type Rows = (Vec<(String, Option<Row>)>, BTreeSet<i64>);

/// Returns of each wiring of a chat the newest row of the messages that are called alike, newest first, and which of these were
/// read or are asked about.
fn rows(c: &Connection, chat: &str, called: &[(i64, String, Look)]) -> Result<Rows> {
    let groups: Vec<String> = c
        .prepare_cached("SELECT group_folder FROM wirings WHERE chat_jid = ?1 ORDER BY id")?
        .query_map([chat], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut newest: BTreeMap<String, Row> = BTreeMap::new();
    let mut of_message = c.prepare_cached(
        "SELECT i.n, i.lane_id, l.group_folder, i.verdict, i.rule, i.n <= l.cursor AS past,
                EXISTS (SELECT 1 FROM approval_messages p JOIN approvals a ON a.id = p.approval_id
                  WHERE p.seq = i.seq AND p.group_folder = l.group_folder AND a.state = 'pending') AS asked
         FROM inbox i INDEXED BY inbox_by_message JOIN lanes l ON l.id = i.lane_id WHERE i.seq = ?1",
    )?;
    let mut kept = BTreeSet::new();
    for (nth, (seq, ..)) in called.iter().enumerate() {
        if nth > 0 && groups.iter().all(|group| newest.contains_key(group)) {
            break;
        }
        if is_asked_about(c, *seq)? {
            kept.insert(*seq);
        }
        let found = of_message.query_map([seq], |r| {
            let verdict: Option<EngageVerdict> = r.word_or_null("inbox", "verdict")?;
            let rule: Option<Rule> = r.word_or_null("inbox", "rule")?;
            let standing = Standing::of(verdict, rule, r.get("past")?, r.get("asked")?);
            let wakes = verdict == Some(EngageVerdict::Wake);
            Ok((
                r.get("group_folder")?,
                Row { n: r.get("n")?, lane: r.get("lane_id")?, seq: *seq, standing, wakes },
            ))
        })?;
        for found in found {
            let (group, row) = found?;
            if row.standing == Standing::Read {
                kept.insert(*seq);
            }
            newest.entry(group).or_insert(row);
        }
    }
    let rows = groups.into_iter().map(|group| {
        let row = newest.remove(&group);
        (group, row)
    });
    Ok((rows.collect(), kept))
}

/// Puts the words of an edit, and its files where they are others, in the place of those of a message.
fn replace(
    c: &Connection,
    seq: i64,
    known: &Known,
    edit: &Inbound,
    files: &[Attachment],
    now: Time,
) -> Result<()> {
    reword(c, seq, edit, known.change, now)?;
    if known.other_files {
        attachments::replace(c, seq, &edit.chat_jid, files, now)?;
        count_files(c, seq, files.len())?;
    }
    remember(c, seq, edit, now)
}

/// Keeps the key of an edit beside the message that it changed.
fn remember(c: &Connection, seq: i64, edit: &Inbound, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO message_edits (seq, replay_key, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute(params![seq, edit.replay_key, edit.at.map_or(now, |at| at.min(now)).0])?;
    c.prepare_cached(
        "DELETE FROM message_edits WHERE seq = ?1 AND replay_key IN (
           SELECT replay_key FROM message_edits WHERE seq = ?1 ORDER BY at DESC, replay_key DESC LIMIT -1 OFFSET ?2)",
    )?
    .execute([seq, NEWEST])?;
    Ok(())
}

/// Whether a message waits for the answer to a question.
fn is_asked_about(c: &Connection, seq: i64) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM approval_messages p JOIN approvals a ON a.id = p.approval_id WHERE p.seq = ?1 AND a.state = 'pending')",
    )?
    .query_row([seq], |r| r.get(0))?)
}
