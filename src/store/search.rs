//! Archived sessions, found by what was said in them.
//!
//! Each group has a full-text index (FTS5) of its own, a file beside the store: a search never walks through what others
//! have, and no index is ever written by the writer that everybody waits for. It is written when somebody searches, from
//! what is archived by then. So nothing in it needs to last: a file that is removed or broken is made anew.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ipc_handlers::{
    Folder, NotApplied,
    shown::{ArchivedSession, FoundSession},
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

use super::{Result, Store, StoreError, sessions::session_row};

/// How many words of a query are looked for.
const WORDS: usize = 32;
/// How much of one word, characters.
const LONGEST_WORD: usize = 100;
/// The shortest word that the index knows, characters.
const INDEXED: usize = 3;
/// How many groups' indexes are held open.
const HELD: usize = 8;
/// So much is indexed in one transaction, bytes.
const PIECE: u64 = 256 << 10;
/// So many are removed in one transaction.
const REMOVED_AT_ONCE: usize = 64;
/// What the tables of an index look like; one of another version is made anew.
const VERSION: i64 = 1;
/// Three letters at a time, so that a part of a word is found too, in any script.
const TABLES: &str =
    "CREATE VIRTUAL TABLE said USING fts5 (name, content, tokenize = 'trigram remove_diacritics 1');
    CREATE TABLE seen (id INTEGER PRIMARY KEY, archived_at INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;";

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
    idle: Mutex<Vec<(Folder, Connection)>>,
}

impl Store {
    /// Finds archived sessions of a group in which all words occur, best first; without words, newest first. Beside the
    /// writer, on a thread that may block. Of what is not indexed yet it indexes `at_once` bytes first, the newest.
    ///
    /// # Errors
    /// The store's. [`NotApplied::NotIndexed`] is part of the result: nothing was found so far, and there is more to index.
    pub fn search(&self, target: Folder, query: String, limit: i64, at_once: u64) -> Result<Searched> {
        let wanted = Wanted::new(&query);
        let found = self.read(|c| {
            if wanted.indexed.is_empty() {
                return Ok(Ok(short_words(c, &target, &wanted, limit)?));
            }
            self.indexes.with(&target, |index| {
                let whole = catch_up(index, c, &target, at_once)?;
                let found = look(index, c, &target, &wanted, limit)?;
                Ok(if found.is_empty() && !whole { Err(NotApplied::NotIndexed) } else { Ok(found) })
            })
        })?;
        Ok(Searched { target, query, limit, found })
    }

    /// What was deleted leaves the index of a group at once. Best effort: no search finds it in any case.
    pub(super) fn unindex_deleted(&self, group: &Folder) {
        if self.indexes.file(group).exists() {
            let trimmed = self.read(|c| self.indexes.with(group, |index| catch_up(index, c, group, 0)));
            if let Err(error) = trimmed {
                tracing::warn!(group = %group, %error, "what was deleted is in the index until the next search");
            }
        }
    }

    /// Removes the index of a group that is gone.
    pub(super) fn drop_index(&self, group: &Folder) {
        self.indexes
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(folder, _)| folder != group);
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
            idle.iter().position(|(folder, _)| folder == group).map(|at| idle.remove(at).1)
        };
        let index = match idle {
            Some(index) => Ok(index),
            None => self.open(group),
        };
        let (index, outcome) = match index.and_then(|index| Ok((work(&index)?, index))) {
            Err(error) if is_broken(&error) => {
                tracing::warn!(group = %group, %error, "the index of archived sessions is broken and made anew");
                self.remove_file(group);
                let index = self.open(group)?;
                let outcome = work(&index);
                (index, outcome)
            }
            Err(error) => return Err(error),
            Ok((value, index)) => (index, Ok(value)),
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((group.clone(), index));
        let oldest = (idle.len() > HELD).then(|| idle.remove(0));
        drop(idle);
        // Closing takes a while.
        drop(oldest);
        outcome
    }

    #[expect(clippy::disallowed_methods, reason = "makes the folder of the indexes, beside the store")]
    fn open(&self, group: &Folder) -> Result<Connection> {
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
        Ok(index)
    }

    #[expect(clippy::disallowed_methods, reason = "removes the files of an index, beside the store")]
    fn remove_file(&self, group: &Folder) {
        // The log first: without it the index is an older one, and a new one must not find it.
        for end in ["-wal", "-shm", ""] {
            let path = self.dir.join(format!("{group}.sqlite{end}"));
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "an index can't be removed");
            }
        }
    }
}

fn is_broken(error: &StoreError) -> bool {
    let StoreError::Sqlite(error) = error else { return false };
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Brings the index of a group up to what is archived now: all that is gone, and of what is new the newest, so many bytes;
/// returns whether that was all.
fn catch_up(index: &Connection, store: &Connection, group: &Folder, at_once: u64) -> Result<bool> {
    let archived: Vec<(i64, [i64; 2])> = store
        .prepare_cached(
            "SELECT id, archived_at, octet_length(content) FROM archives WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC",
        )?
        .query_map([group.as_str()], |r| Ok((r.get(0)?, [r.get(1)?, r.get(2)?])))?
        .collect::<rusqlite::Result<_>>()?;
    let mut seen: BTreeMap<i64, [i64; 2]> = index
        .prepare_cached("SELECT id, archived_at, bytes FROM seen")?
        .query_map([], |r| Ok((r.get(0)?, [r.get(1)?, r.get(2)?])))?
        .collect::<rusqlite::Result<_>>()?;
    let new: Vec<_> = archived.into_iter().filter(|(id, is)| seen.remove(id).as_ref() != Some(is)).collect();
    // What is left is gone, or something else by now.
    let gone: Vec<i64> = seen.into_keys().chain(new.iter().map(|(id, _)| *id)).collect();
    for some in gone.chunks(REMOVED_AT_ONCE) {
        in_one(index, || {
            for gone in some {
                if index.prepare_cached("DELETE FROM seen WHERE id = ?1")?.execute([gone])? > 0 {
                    index.prepare_cached("DELETE FROM said WHERE rowid = ?1")?.execute([gone])?;
                }
            }
            Ok(())
        })?;
    }
    let mut left = at_once;
    let mut new = new.into_iter().peekable();
    while left > 0 && new.peek().is_some() {
        // What was done stays done, and few pieces are found sooner than many.
        in_one(index, || {
            let mut piece = left.min(PIECE);
            while piece > 0
                && let Some((id, is)) = new.next()
            {
                let bytes = add(index, store, id, is)?;
                (left, piece) = (left.saturating_sub(bytes), piece.saturating_sub(bytes));
            }
            Ok(())
        })?;
    }
    Ok(new.peek().is_none())
}

/// Adds an archived session to the index; returns how large it is, bytes.
fn add(index: &Connection, store: &Connection, id: i64, is: [i64; 2]) -> rusqlite::Result<u64> {
    let said: Option<(String, String)> = store
        .prepare_cached("SELECT name, content FROM archives WHERE id = ?1")?
        .query_row([id], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    let Some((name, content)) = said else { return Ok(1) };
    index
        .prepare_cached("INSERT OR REPLACE INTO said (rowid, name, content) VALUES (?1, ?2, ?3)")?
        .execute(params![id, name, content])?;
    index
        .prepare_cached("INSERT OR REPLACE INTO seen (id, archived_at, bytes) VALUES (?1, ?2, ?3)")?
        .execute(params![id, is[0], is[1]])?;
    Ok((name.len() + content.len()).max(1) as u64)
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

/// Looks into the index for words that it knows.
fn look(
    index: &Connection,
    store: &Connection,
    group: &Folder,
    wanted: &Wanted,
    limit: i64,
) -> Result<Vec<FoundSession>> {
    let best: Vec<i64> = index
        .prepare_cached(&format!(
            "SELECT said.rowid FROM said JOIN seen ON seen.id = said.rowid
             WHERE said MATCH ?3 AND {} ORDER BY bm25(said, 4.0, 1.0), seen.archived_at DESC, said.rowid DESC LIMIT ?1",
            short_words_are_in("said")
        ))?
        .query_map(params![limit, wanted.short, wanted.indexed], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // Only of those that are shown: a snippet is read out of all that was said.
    let mut snippets: BTreeMap<i64, String> = index
        .prepare_cached(
            "SELECT rowid, CASE WHEN rowid IN (SELECT value FROM json_each(?2)) THEN snippet(said, -1, '**', '**', '…', 60) END
             FROM said WHERE said MATCH ?1",
        )?
        .query_map(params![wanted.indexed, serde_json::json!(best).to_string()], |r| {
            Ok((r.get(0)?, r.get::<_, Option<String>>(1)?))
        })?
        .filter_map(|row| row.map(|(id, snippet)| Some((id, snippet?))).transpose())
        .collect::<rusqlite::Result<_>>()?;
    let mut session = store.prepare_cached(
        "SELECT id, name, session_id, archived_at FROM archives WHERE id = ?1 AND group_folder = ?2",
    )?;
    let mut found = Vec::new();
    for id in best {
        let session: Option<ArchivedSession> =
            session.query_row(params![id, group.as_str()], session_row).optional()?;
        if let (Some(session), Some(snippet)) = (session, snippets.remove(&id)) {
            found.push(FoundSession { group: group.clone(), session, snippet });
        }
    }
    Ok(found)
}

/// Finds sessions by words that are too short for the index, in the store itself; without words, all of them.
fn short_words(
    c: &Connection,
    group: &Folder,
    wanted: &Wanted,
    limit: i64,
) -> rusqlite::Result<Vec<FoundSession>> {
    c.prepare_cached(&format!(
        "SELECT a.id, a.name, a.session_id, a.archived_at, substr(a.content, max(1, instr(lower(a.content), lower(?4)) - 40), 120)
         FROM archives a WHERE a.group_folder = ?3 AND {} ORDER BY a.archived_at DESC, a.id DESC LIMIT ?1",
        short_words_are_in("a")
    ))?
    .query_map(params![limit, wanted.short, group.as_str(), wanted.first], |r| {
        Ok(FoundSession { group: group.clone(), session: session_row(r)?, snippet: r.get(4)? })
    })?
    .collect()
}

/// No short word is missing.
fn short_words_are_in(table: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM json_each(?2) w WHERE instr(lower({table}.name || ' ' || {table}.content), lower(w.value)) = 0)"
    )
}

/// What is looked for. No text that anybody writes is part of a query's syntax.
struct Wanted {
    /// For the index: each word in quotes; empty when there is none that it knows.
    indexed: String,
    /// A JSON list of the words that are too short for it.
    short: String,
    /// The first word.
    first: String,
}

impl Wanted {
    fn new(query: &str) -> Self {
        let words: Vec<String> = query
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .take(WORDS)
            .map(|word| word.chars().take(LONGEST_WORD).collect())
            .collect();
        let (indexed, short): (Vec<&String>, Vec<&String>) =
            words.iter().partition(|word| word.chars().count() >= INDEXED);
        let quoted: Vec<String> =
            indexed.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
        Self {
            indexed: quoted.join(" "),
            short: serde_json::to_string(&short).unwrap_or_else(|_| "[]".into()),
            first: words.first().cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
