//! Archived sessions, found by what was said in them.
//!
//! Each group has a full-text index (FTS5) of its own, a file beside the store: a search never walks through what others
//! have, and no index is ever written by the writer that everybody waits for. It is written when somebody searches, from
//! what is archived by then. So nothing in it needs to last: a file that is removed or broken is made anew.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use ipc_handlers::{Folder, NotApplied, shown::FoundSession};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Result, Store, StoreError, sessions::session_row};
use crate::domain::{
    host::errors::chain,
    mailbox::search::{Tally, Wanted, fold, scores},
};

/// How many groups' indexes are held open.
const HELD: usize = 8;
/// How often a statement that is at work is asked for whether it is to stop.
const ASKED_AGAIN: Duration = Duration::from_millis(20);
/// So much is indexed in one transaction, bytes.
const PIECE: u64 = 256 << 10;
/// So many are removed in one transaction.
const REMOVED_AT_ONCE: usize = 64;
/// What the tables of an index look like; one of another version is made anew.
const VERSION: i64 = 2;
/// Three letters at a time, so that a part of a word is found too, in any script. Texts are there without case and accents, by
/// our own rules. A session has a row for its name and one
/// for each part of its text, from `id * PARTS` on.
const TABLES: &str = "CREATE VIRTUAL TABLE said USING fts5 (text, tokenize = 'trigram case_sensitive 1');
    CREATE TABLE seen (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, archived_at INTEGER NOT NULL) STRICT;";
/// So much of a session is searched, bytes: a longer one's end. One is indexed and looked through in one go.
const SEARCHED: usize = 1 << 20;
/// How much of a text is a row of the index, bytes: to find something in a row takes memory, a few times this.
const PART: usize = 32 << 10;
/// By how much rows overlap, bytes: no word that is asked for is in two of them only.
const OVERLAP: usize = 256;
/// How many rows a session can have.
const PARTS: i64 = 64;
const _: () = assert!(SEARCHED / (PART - OVERLAP - 8) + 2 < PARTS as usize);

/// How much one search writes into the index before it looks, bytes of what was said: a second or three of ordinary text.
pub const INDEXED_AT_ONCE: u64 = 8 << 20;

/// A search, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    pub target: Folder,
    pub query: String,
    pub limit: i64,
    pub found: std::result::Result<Vec<FoundSession>, NotApplied>,
}

impl Searched {
    /// Returns how much was found, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let found = self.found.as_deref().unwrap_or_default();
        found.iter().map(|found| found.session.name.len() + found.snippet.len()).sum()
    }
}

/// The indexes of all groups.
pub(super) struct Indexes {
    /// `data/search`.
    dir: PathBuf,
    idle: Mutex<Vec<Held>>,
}

/// An index that is held open.
struct Held {
    group: Folder,
    index: Connection,
    /// Which file it is.
    file: Option<FileId>,
}

/// Device and inode.
type FileId = (u64, u64);

impl Store {
    /// Finds archived sessions of a group in which all words occur, best first; without words, newest first. Beside the
    /// writer, on a thread that may block. Of what is not indexed yet it indexes `at_once` bytes first, the newest. It asks
    /// whether it is to stop before it begins and before each session, and while a statement looks for one, every 20 ms.
    ///
    /// # Errors
    /// The store's. Part of the result are [`NotApplied::NotIndexed`] (nothing was found so far, and there is more to index)
    /// and [`NotApplied::TooMuchToSearch`] (it was to stop).
    pub fn search(
        &self,
        target: Folder,
        query: String,
        limit: i64,
        at_once: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Searched> {
        let wanted = Wanted::new(&query);
        let most = usize::try_from(limit).unwrap_or(0);
        let too_much = |found: Option<Vec<FoundSession>>| found.ok_or(NotApplied::TooMuchToSearch);
        let found = self.read(|c| {
            // No file is made for what nobody has, whoever asks.
            let has_any: bool = c
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM groups JOIN archives ON group_folder = folder WHERE folder = ?1)",
                )?
                .query_row([target.as_str()], |r| r.get(0))?;
            if !has_any {
                return Ok(Ok(Vec::new()));
            }
            if wanted.for_the_index.is_empty() {
                return Ok(too_much(short_words(c, &target, &wanted, most, stop)?));
            }
            // Before the index is opened, too.
            if stop() {
                return Ok(Err(NotApplied::NotIndexed));
            }
            self.indexes.with(&target, |index| {
                let whole = catch_up(index, c, &target, at_once, stop)?;
                if stop() {
                    return Ok(Err(NotApplied::NotIndexed));
                }
                let found = interrupted_by(index, stop, || look(index, c, &target, &wanted, most, stop))?;
                let none = found.as_ref().is_none_or(Vec::is_empty);
                Ok(if none && !whole { Err(NotApplied::NotIndexed) } else { too_much(found) })
            })
        })?;
        Ok(Searched { target, query, limit, found })
    }

    /// What was deleted leaves the index of a group at once. Best effort: no search finds it in any case.
    pub(super) fn unindex_deleted(&self, group: &Folder) {
        if self.indexes.file(group).exists() {
            let trimmed =
                self.read(|c| self.indexes.with(group, |index| catch_up(index, c, group, 0, &|| false)));
            if let Err(error) = trimmed {
                tracing::warn!(group = %group, error = %chain(&error), "what was deleted is in the index until the next search");
            }
        }
    }

    /// Removes the index of a group that is gone.
    pub(super) fn drop_index(&self, group: &Folder) {
        self.indexes.idle.lock().unwrap_or_else(PoisonError::into_inner).retain(|held| held.group != *group);
        self.indexes.remove_file(group);
    }
}

impl Indexes {
    /// Those that lie beside the store at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        Self { dir: path.with_file_name("search"), idle: Mutex::default() }
    }

    fn file(&self, group: &Folder) -> PathBuf {
        self.dir.join(format!("{group}.sqlite"))
    }

    /// Works on a group's index; on a new one, once more, where it turns out to be broken.
    fn with<T>(&self, group: &Folder, mut work: impl FnMut(&Connection) -> Result<T>) -> Result<T> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.iter().position(|held| held.group == *group).map(|at| idle.remove(at))
        };
        let index = match idle {
            // Unless somebody has removed it or put another in its place.
            Some(held) if held.file.is_some() && held.file == self.file_id(group) => Ok(held),
            Some(_) | None => self.open(group),
        };
        let (held, outcome) = match index.and_then(|held| Ok((work(&held.index)?, held))) {
            Err(error) if is_broken(&error) => {
                tracing::warn!(group = %group, error = %chain(&error), "the index of archived sessions is broken and made anew");
                self.remove_file(group);
                let held = self.open(group)?;
                let outcome = work(&held.index);
                (held, outcome)
            }
            Err(error) => return Err(error),
            Ok((value, held)) => (held, Ok(value)),
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(held);
        let oldest = (idle.len() > HELD).then(|| idle.remove(0));
        drop(idle);
        // Closing takes a while.
        drop(oldest);
        outcome
    }

    #[expect(clippy::disallowed_methods, reason = "looks at an index, beside the store")]
    fn file_id(&self, group: &Folder) -> Option<FileId> {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(self.file(group)).ok().map(|is| (is.dev(), is.ino()))
    }

    #[expect(clippy::disallowed_methods, reason = "makes the folder of the indexes, beside the store")]
    fn open(&self, group: &Folder) -> Result<Held> {
        let path = self.file(group);
        std::fs::create_dir_all(&self.dir)
            .map_err(|error| StoreError::Index { path: path.clone(), error })?;
        let index = Connection::open(&path)?;
        index.busy_timeout(std::time::Duration::from_secs(5))?;
        // What a power cut takes is indexed anew: nobody waits for the disk, neither to make the file nor to close it.
        index.pragma_update(None, "synchronous", "OFF")?;
        index.pragma_update(None, "journal_mode", "WAL")?;
        index.pragma_update(None, "synchronous", "NORMAL")?;
        index.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        index.pragma_update(None, "cache_size", -1024)?;
        // Plans are made once, for any values.
        index.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let version = |c: &Connection| c.pragma_query_value(None, "user_version", |r| r.get::<_, i64>(0));
        if version(&index)? != VERSION {
            index.execute_batch("BEGIN IMMEDIATE")?;
            // Somebody else may have made it meanwhile.
            if version(&index)? != VERSION {
                index.execute_batch("DROP TABLE IF EXISTS said; DROP TABLE IF EXISTS seen")?;
                index.execute_batch(TABLES)?;
                index.pragma_update(None, "user_version", VERSION)?;
            }
            index.execute_batch("COMMIT")?;
        }
        Ok(Held { group: group.clone(), index, file: self.file_id(group) })
    }

    #[expect(clippy::disallowed_methods, reason = "removes the files of an index, beside the store")]
    fn remove_file(&self, group: &Folder) {
        // The log first: without it the index is an older one, and a new one must not find it.
        for end in ["-wal", "-shm", ""] {
            let path = self.dir.join(format!("{group}.sqlite{end}"));
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), error = %chain(&error), "an index can't be removed");
            }
        }
    }
}

fn is_broken(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlite(fault) if fault.is_broken())
}

/// Brings the index of a group up to what is archived now: all that is gone, and of what is new the newest, so many bytes,
/// or until it is to stop; returns whether that was all.
fn catch_up(
    index: &Connection,
    store: &Connection,
    group: &Folder,
    at_once: u64,
    stop: &dyn Fn() -> bool,
) -> Result<bool> {
    // Read first: what somebody else indexes meanwhile is not taken for gone.
    let mut seen: BTreeMap<i64, (i64, i64)> = index
        .prepare_cached("SELECT id, revision, archived_at FROM seen")?
        .query_map([], |r| Ok((r.get("id")?, (r.get("revision")?, r.get("archived_at")?))))?
        .collect::<rusqlite::Result<_>>()?;
    let archived: Vec<Archived> = store
        .prepare_cached(
            "SELECT id, revision, archived_at, octet_length(content) AS bytes FROM archives WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC",
        )?
        .query_map([group.as_str()], |r| {
            Ok(Archived { id: r.get("id")?, is: (r.get("revision")?, r.get("archived_at")?), bytes: r.get("bytes")? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    // What is something else by now is replaced when its turn comes: until then its rows lead to a text that does not fit.
    let new: Vec<_> = archived.into_iter().filter(|new| seen.remove(&new.id) != Some(new.is)).collect();
    let gone: Vec<i64> = seen.into_keys().collect();
    for some in gone.chunks(REMOVED_AT_ONCE) {
        if stop() {
            return Ok(false);
        }
        in_one(index, || {
            for gone in some {
                index.prepare_cached("DELETE FROM seen WHERE id = ?1")?.execute([gone])?;
                remove(index, *gone)?;
            }
            Ok(())
        })?;
    }
    let mut left = at_once;
    let mut new = new.into_iter().peekable();
    while left > 0 && new.peek().is_some() && !stop() {
        // What was done stays done, and few pieces are found sooner than many.
        in_one(index, || {
            let mut piece = left.min(PIECE);
            while piece > 0
                && let Some(archived) = new.next()
            {
                add(index, store, &archived)?;
                left = left.saturating_sub(archived.cost());
                piece = piece.saturating_sub(archived.cost());
            }
            Ok(())
        })?;
    }
    Ok(new.peek().is_none())
}

/// An archived session, as far as the index is concerned.
struct Archived {
    id: i64,
    /// Its revision, and when that was archived.
    is: (i64, i64),
    bytes: u64,
}

impl Archived {
    /// What it takes to index it, bytes.
    fn cost(&self) -> u64 {
        self.bytes.clamp(1, SEARCHED as u64)
    }
}

/// Adds an archived session to the index, in place of what it was before.
fn add(index: &Connection, store: &Connection, archived: &Archived) -> rusqlite::Result<()> {
    let said: Option<((i64, i64), String, String)> = store
        .prepare_cached("SELECT revision, archived_at, name, content FROM archives WHERE id = ?1")?
        .query_row([archived.id], |r| {
            Ok(((r.get("revision")?, r.get("archived_at")?), r.get("name")?, r.get("content")?))
        })
        .optional()?;
    let Some(((revision, archived_at), name, content)) = said else { return Ok(()) };
    remove(index, archived.id)?;
    let mut insert = index.prepare_cached("INSERT INTO said (rowid, text) VALUES (?1, ?2)")?;
    for (n, part) in (0_i64..).zip(std::iter::once(name.as_str()).chain(parts(searched(&content)))) {
        insert.execute(params![archived.id * PARTS + n, fold(part)])?;
    }
    index
        .prepare_cached("INSERT OR REPLACE INTO seen (id, revision, archived_at) VALUES (?1, ?2, ?3)")?
        .execute(params![archived.id, revision, archived_at])?;
    Ok(())
}

/// Takes what is indexed of a session out of the index.
fn remove(index: &Connection, id: i64) -> rusqlite::Result<()> {
    index
        .prepare_cached("DELETE FROM said WHERE rowid BETWEEN ?1 AND ?2")?
        .execute([id * PARTS, id * PARTS + PARTS - 1])
        .map(drop)
}

/// Cuts a text into rows of the index.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = text.floor_char_boundary(start + PART);
        next = (end < text.len()).then(|| text.floor_char_boundary(end - OVERLAP));
        Some(&text[start..end])
    })
}

/// Does several things to the index or none.
fn in_one(index: &Connection, work: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    index.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = work().and_then(|()| index.execute_batch("COMMIT"));
    if outcome.is_err() {
        let _ = index.execute_batch("ROLLBACK");
    }
    outcome
}

/// Looks for sessions in which the index knows the longest word; `None` where it was to stop before it was through.
fn look(
    index: &Connection,
    store: &Connection,
    group: &Folder,
    wanted: &Wanted,
    limit: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<FoundSession>>> {
    let mut said = store.prepare_cached(
        "SELECT archived_at, name, content FROM archives WHERE id = ?1 AND group_folder = ?2",
    )?;
    let mut matching = index.prepare_cached("SELECT rowid FROM said WHERE said MATCH ?1")?;
    let mut matching = matching.query([&wanted.for_the_index])?;
    let mut fit: Vec<(Tally, i64, i64)> = Vec::new();
    let mut last = None;
    while let Some(row) = matching.next()? {
        let id = row.get::<_, i64>(0)? / PARTS;
        // Rows come in their order.
        if last.replace(id) == Some(id) {
            continue;
        }
        if stop() {
            return Ok(None);
        }
        let tally = said.query_row(params![id, group.as_str()], |r| {
            let (name, content) = (r.get_ref("name")?.as_str()?, r.get_ref("content")?.as_str()?);
            let at = r.get("archived_at")?;
            Ok(wanted.tally(name, searched(content)).map(|tally| (tally, at, id)))
        });
        fit.extend(tally.optional()?.flatten());
    }
    let scores = scores(&fit.iter().map(|(tally, ..)| tally).collect::<Vec<_>>());
    let mut best: Vec<_> = scores.into_iter().zip(fit.into_iter().map(|(_, at, id)| (at, id))).collect();
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let best = best.into_iter().take(limit).map(|(_, (_, id))| id);
    shown(store, group, wanted, best, stop)
}

/// Looks for words that are too short for the index, in the store itself, newest first; without words, for everything.
/// `None` where it was to stop before it was through.
fn short_words(
    store: &Connection,
    group: &Folder,
    wanted: &Wanted,
    limit: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<FoundSession>>> {
    if stop() {
        return Ok(None);
    }
    // Their order first, by an index: what was said is read one by one.
    let ids: Vec<i64> = store
        .prepare_cached("SELECT id FROM archives WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC")?
        .query_map([group.as_str()], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if wanted.is_everything() {
        return shown(store, group, wanted, ids.into_iter().take(limit), stop);
    }
    let mut said =
        store.prepare_cached("SELECT name, content FROM archives WHERE id = ?1 AND group_folder = ?2")?;
    let mut found = Vec::new();
    for id in ids {
        if found.len() >= limit {
            break;
        }
        if stop() {
            return Ok(None);
        }
        let fits = said.query_row(params![id, group.as_str()], |r| {
            let (name, content) = (r.get_ref("name")?.as_str()?, r.get_ref("content")?.as_str()?);
            Ok(wanted.tally(name, searched(content)).is_some())
        });
        if fits.optional()? == Some(true) {
            found.push(id);
        }
    }
    shown(store, group, wanted, found.into_iter(), stop)
}

/// Works with an index whose statements end when it is to stop, which is `None`: one that finds nothing among much that
/// nearly fits would ask nobody.
fn interrupted_by<T: Send>(
    index: &Connection,
    stop: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let handle = index.get_interrupt_handle();
    std::thread::scope(|threads| {
        let (done, is_done) = mpsc::channel::<()>();
        let watch = move || {
            while is_done.recv_timeout(ASKED_AGAIN) == Err(RecvTimeoutError::Timeout) {
                if stop() {
                    handle.interrupt();
                }
            }
        };
        let watched = std::thread::Builder::new().name("search-stop".into()).spawn_scoped(threads, watch);
        if let Err(error) = watched {
            tracing::warn!(error = %chain(&error), "no thread for a search's end; it is asked between sessions only");
        }
        let outcome = work();
        drop(done);
        match outcome {
            Err(StoreError::Sqlite(fault)) if fault.is_interrupted() => Ok(None),
            outcome => outcome,
        }
    })
}

/// Reads what is shown of sessions that were found; `None` where it was to stop before it was through.
fn shown(
    store: &Connection,
    group: &Folder,
    wanted: &Wanted,
    ids: impl Iterator<Item = i64>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<FoundSession>>> {
    let mut session = store.prepare_cached(
        "SELECT id, name, session_id, archived_at, content FROM archives WHERE id = ?1 AND group_folder = ?2",
    )?;
    let mut found = Vec::new();
    for id in ids {
        if stop() {
            return Ok(None);
        }
        let session = session.query_row(params![id, group.as_str()], |r| {
            let session = session_row(r)?;
            let snippet = wanted.snippet(&session.name, searched(r.get_ref("content")?.as_str()?));
            Ok(FoundSession { group: group.clone(), session, snippet })
        });
        found.extend(session.optional()?);
    }
    Ok(Some(found))
}

/// Returns what is searched of a text: its end, where it is very long.
fn searched(content: &str) -> &str {
    &content[content.ceil_char_boundary(content.len().saturating_sub(SEARCHED))..]
}

#[cfg(test)]
mod tests;
