//! Files that came in with a message: what is still to be done with them, and which rows of the inbox wait for that.
//!
//! | on disk | a restart |
//! |---|---|
//! | work without `until` | has nothing to do until the message is heard |
//! | work with `until`, and a hold | goes on with the work; the row waits |
//! | no work, and no hold | the row is judged |

use ipc_handlers::{Time, file::MediaKind, words};
use rusqlite::{Connection, Row, params};

use crate::domain::platforms::attachments::Attachment;
use crate::store::{Result, Store, columns::Columns as _, talk::attachments::FILE};

words! {
    /// What is to be done with a file.
    pub enum FileStep: "step of a file" {
        Fetch = "fetch",
        Read = "read",
    }
}

/// What came of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRead {
    /// It read this.
    Words(String),
    /// It did not, for this reason.
    Unread(String),
    /// There is no hook for such files.
    Nobody,
}

/// A message that is heard, and has files with which something is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesWanted {
    pub seq: i64,
    /// When it is given up.
    pub until: Time,
    /// The row of the inbox and the lane that wait for them, if they do.
    pub held: Option<(i64, i64)>,
}

/// What is to be done with a file, and is wanted.
#[derive(Clone, Debug)]
pub struct FileWork {
    /// The number of the file's row.
    pub id: i64,
    pub seq: i64,
    pub chat_jid: String,
    /// A group that waits for it, or the chat's own address where none does.
    pub whose: String,
    pub step: FileStep,
    /// What fetches it.
    pub what: String,
    pub until: Time,
    pub tries: u32,
    pub next_at: Option<Time>,
    pub file: Attachment,
}

/// How many files of one chat are wanted at a time; those of later messages are not fetched.
const MOST_WANTED: i64 = 256;

impl Store {
    /// Has what is to be done with the files of messages done in time, and holds the rows of the inbox that wait for it. What
    /// is beyond a chat's bound is given up at once.
    pub async fn want_files(&self, wanted: Vec<FilesWanted>) -> Result<()> {
        self.write(move |c| {
            for FilesWanted { seq, until, held } in wanted {
                let before: i64 = c
                    .prepare_cached(
                        "SELECT count(*) FROM file_work f INDEXED BY file_work_wanted JOIN attachments a ON a.id = f.attachment
                         WHERE f.until IS NOT NULL AND f.seq <> ?1 AND a.chat_jid = (SELECT chat_jid FROM messages WHERE seq = ?1)",
                    )?
                    .query_row([seq], |r| r.get(0))?;
                if before >= MOST_WANTED {
                    let why = format!("not fetched: {MOST_WANTED} other files of this chat wait");
                    give_up(c, seq, &why)?;
                    continue;
                }
                c.prepare_cached("UPDATE file_work SET until = min(coalesce(until, ?2), ?2) WHERE seq = ?1
                       AND (until IS NULL OR NOT EXISTS (SELECT 1 FROM file_holds h WHERE h.seq = ?1 AND h.lane_id <> ?3))")?
                    .execute(params![seq, until.0, held.map(|(_, lane)| lane)])?;
                if let Some((n, lane)) = held {
                    // Nobody would end the wait for files with which everything is done by now.
                    c.prepare_cached(
                        "INSERT INTO file_holds (n, lane_id, seq) SELECT ?1, ?2, ?3
                         WHERE EXISTS (SELECT 1 FROM file_work WHERE seq = ?3) ON CONFLICT DO NOTHING",
                    )?
                    .execute([n, lane, seq])?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Returns the newest message of a lane that is context of what comes with the inbox row `before`, and with whose files
    /// something is still to be done.
    pub async fn files_of_context(&self, lane: i64, before: i64) -> Result<Option<i64>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT max(f.seq) FROM file_work f INDEXED BY file_work_wanted
                 CROSS JOIN inbox i INDEXED BY inbox_by_message ON i.seq = f.seq JOIN lanes l ON l.id = i.lane_id
                 WHERE f.until IS NOT NULL AND i.lane_id = ?1 AND i.n < ?2 AND i.n > l.cursor AND i.verdict = 'context'",
            )?
            .query_row([lane, before], |r| r.get(0))?)
        })
        .await
    }

    /// Returns what is to be done now or later, of each chat the oldest `most`.
    pub async fn file_work(&self, most: usize) -> Result<Vec<FileWork>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!(
                "SELECT w.*, coalesce((SELECT min(l.group_folder) FROM file_holds h JOIN lanes l ON l.id = h.lane_id WHERE h.seq = w.seq), w.chat_jid) AS whose FROM (
                   SELECT f.attachment, f.seq, f.step, f.what, f.until, f.tries, f.next_at, a.chat_jid, {FILE},
                          row_number() OVER (PARTITION BY a.chat_jid ORDER BY f.attachment) AS nth
                   FROM file_work f INDEXED BY file_work_wanted JOIN attachments a ON a.id = f.attachment WHERE f.until IS NOT NULL) w
                 WHERE w.nth <= ?1 ORDER BY w.attachment"
            ))?
            .query_map([most], work_row)?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// A file was fetched. `reads`: a hook reads it next.
    pub async fn file_fetched(&self, id: i64, file: Attachment, reads: bool) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE attachments SET digest = ?2, size = ?3, type = ?4, claimed = ?5, problem = NULL WHERE id = ?1 AND digest IS NULL",
            )?
            .execute(params![id, file.digest, file.size, file.mime, file.claimed])?;
            if reads {
                c.prepare_cached("UPDATE file_work SET step = 'read', tries = 0, next_at = NULL WHERE attachment = ?1")?
                    .execute([id])?;
                return Ok(());
            }
            over(c, id)
        })
        .await
    }

    /// A file is not fetched, for this reason.
    pub async fn file_missing(&self, id: i64, why: String) -> Result<()> {
        self.write(move |c| {
            missing(c, id, &why)?;
            over(c, id)
        })
        .await
    }

    /// A hook is through with a file, or there is none.
    pub async fn file_read(&self, id: i64, read: FileRead) -> Result<()> {
        self.write(move |c| {
            let (words, unread) = match read {
                FileRead::Words(words) => (Some(words), None),
                FileRead::Unread(why) => (None, Some(cut(&why))),
                FileRead::Nobody => (None, None),
            };
            c.prepare_cached("UPDATE attachments SET words = ?2, unread = ?3 WHERE id = ?1")?
                .execute(params![id, words, unread])?;
            over(c, id)
        })
        .await
    }

    /// A try failed; the next one is not before `next_at`.
    pub async fn file_again(&self, id: i64, next_at: Time, counts: bool) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE file_work SET tries = tries + ?3, next_at = ?2 WHERE attachment = ?1")?
                .execute(params![id, next_at.0, counts])?;
            Ok(())
        })
        .await
    }
}

fn cut(why: &str) -> String {
    why.chars().take(255).collect()
}

fn missing(c: &Connection, id: i64, why: &str) -> Result<()> {
    c.prepare_cached("UPDATE attachments SET problem = ?2 WHERE id = ?1 AND digest IS NULL")?
        .execute(params![id, cut(why)])?;
    Ok(())
}

/// Nothing more is done with the files of a message.
fn give_up(c: &Connection, seq: i64, why: &str) -> Result<()> {
    let ids: Vec<i64> = c
        .prepare_cached("SELECT attachment FROM file_work WHERE seq = ?1")?
        .query_map([seq], |r| r.get("attachment"))?
        .collect::<rusqlite::Result<_>>()?;
    ids.into_iter().try_for_each(|id| {
        missing(c, id, why)?;
        over(c, id)
    })
}

/// Nothing more is done with a file. If it was the last one of its message, that waits no longer.
fn over(c: &Connection, id: i64) -> Result<()> {
    let seqs: Vec<i64> = c
        .prepare_cached("DELETE FROM file_work WHERE attachment = ?1 RETURNING seq")?
        .query_map([id], |r| r.get("seq"))?
        .collect::<rusqlite::Result<_>>()?;
    seqs.into_iter().try_for_each(|seq| let_go(c, seq))
}

/// A message with whose files nothing more is to be done waits no longer.
fn let_go(c: &Connection, seq: i64) -> Result<()> {
    c.prepare_cached(
        "DELETE FROM file_holds WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM file_work WHERE seq = ?1)",
    )?
    .execute([seq])?;
    Ok(())
}

/// No row of the inbox waits for the files of a message any more, whatever is still to be done with them.
pub(in crate::store) fn wait_no_more(c: &Connection, seq: i64) -> Result<()> {
    c.prepare_cached("DELETE FROM file_holds WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}

/// A row of the inbox waits for no files any more.
pub(in crate::store) fn wait_no_more_at(c: &Connection, n: i64) -> Result<()> {
    c.prepare_cached("DELETE FROM file_holds WHERE n = ?1")?.execute([n])?;
    Ok(())
}

fn work_row(r: &Row<'_>) -> rusqlite::Result<FileWork> {
    Ok(FileWork {
        id: r.get("attachment")?,
        seq: r.get("seq")?,
        chat_jid: r.get("chat_jid")?,
        whose: r.get("whose")?,
        step: r.word("file_work", "step")?,
        what: r.get::<_, Option<String>>("what")?.unwrap_or_default(),
        until: r.time("until")?,
        tries: r.get("tries")?,
        next_at: r.time_or_null("next_at")?,
        file: crate::store::talk::attachments::file_row(r)?,
    })
}

/// The work that is left with the files of a message.
pub(in crate::store) fn pending(c: &Connection, seq: i64) -> rusqlite::Result<Vec<MediaKind>> {
    c.prepare_cached(
        "SELECT a.kind FROM file_work f INDEXED BY file_work_by_message JOIN attachments a ON a.id = f.attachment WHERE f.seq = ?1",
    )?
    .query_map([seq], |r| r.word("attachments", "kind"))?
    .collect()
}

/// Notes that with the files of the message `to` the same is to be done as with those of `from`.
pub(in crate::store) fn copy_work(c: &Connection, from: i64, to: i64) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO file_work (attachment, seq, step, what)
         SELECT b.id, ?2, f.step, f.what FROM file_work f INDEXED BY file_work_by_message JOIN attachments a ON a.id = f.attachment
         JOIN attachments b INDEXED BY attachments_in ON b.seq = ?2 AND b.n = a.n WHERE f.seq = ?1",
    )?
    .execute([from, to])?;
    Ok(())
}

/// Notes what is to be done with the file of the row that was just made.
pub(in crate::store) fn add_work(c: &Connection, seq: i64, step: FileStep, what: Option<&str>) -> Result<()> {
    let id = c.last_insert_rowid();
    c.prepare_cached("INSERT INTO file_work (attachment, seq, step, what) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, seq, step.as_str(), what])?;
    Ok(())
}
