//! Searches the index, one volume of the group after the other. Order and snippets are SQLite's own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ipc_handlers::{Folder, shown::FoundSession};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::{
    super::{Result, StoreError, sessions::session_row},
    file::{Index, PART_BITS, Version, version},
    of_store,
};
use crate::domain::mailbox::search::{Words, in_one};

/// After how many steps of SQLite's machine a search asks whether it must stop.
const ASKED_EVERY: i32 = 1000;
/// How many words decide which session fits best: the longest ones.
const RANKED: usize = 4;
/// In a volume of at most this many rows the piece that is shown is read while its row is found.
const FEW: usize = 64;
/// For how many rows of a volume one statement costs no more than a statement for one of them.
const WALKED: usize = 32;
/// How many sessions are shown of a search that was stopped.
const OF_STOPPED: usize = 8;
/// How much of a text is shown around its words, characters.
const SHOWN: usize = 64;

/// A session of a volume in which all words occur.
struct Hit {
    id: i64,
    version: Version,
    volume: i64,
    /// The row that fits best.
    row: i64,
    /// The less, the better.
    score: f64,
    /// The piece of that row that is shown; `None`: not read yet.
    piece: Option<String>,
}

/// A volume of a group, and how many rows it has.
#[derive(Clone, Copy)]
struct Volume {
    number: i64,
    rows: usize,
}

impl Index {
    /// Finds the sessions with all words, best first. If it is stopped, those that it found until then.
    pub(super) fn look(
        &mut self,
        store: &Connection,
        group: &Folder,
        query: &str,
        limit: usize,
        stop: impl Fn() -> bool + Send + Sync + Clone + 'static,
    ) -> Result<Vec<FoundSession>> {
        let words = Words::of(query);
        if words.is_everything() {
            return newest(store, group, limit);
        }
        let shows = Arc::new(AtomicBool::new(false));
        let (is_over, asks) = (stop.clone(), Arc::clone(&shows));
        self.c.progress_handler(ASKED_EVERY, Some(move || !asks.load(Ordering::Relaxed) && is_over()))?;
        let found = look(&self.c, store, group, &words, limit, &stop, &shows);
        self.c.progress_handler(0, None::<fn() -> bool>)?;
        found
    }
}

/// Looks for words, a volume after the other. Of a search that is stopped it `shows` what was found, which nothing stops.
fn look(
    index: &Connection,
    store: &Connection,
    group: &Folder,
    words: &Words,
    limit: usize,
    stop: &dyn Fn() -> bool,
    shows: &AtomicBool,
) -> Result<Vec<FoundSession>> {
    // Sessions that are indexed meanwhile change nothing of the answer.
    let index = &*index.unchecked_transaction()?;
    let mut volumes: Vec<Volume> = index
        .prepare_cached("SELECT volume, parts FROM filled WHERE group_folder = ?1 ORDER BY volume DESC")?
        .query_map([group.as_str()], |r| Ok(Volume { number: r.get("volume")?, rows: r.get("parts")? }))?
        .collect::<rusqlite::Result<_>>()?;
    let mut hits = Vec::new();
    for volume in &volumes {
        match unless_stopped(hits_in(index, *volume, words, limit))? {
            Some(some) if !stop() => hits.extend(some),
            Some(_) | None => break,
        }
    }
    let newest = |hit: &Hit| std::cmp::Reverse((hit.version.1, hit.id));
    hits.sort_by(|a, b| a.score.total_cmp(&b.score).then_with(|| newest(a).cmp(&newest(b))));
    let mut session = of_store(|| {
        store.prepare_cached(
            "SELECT id, name, session_id, archived_at FROM archives WHERE id = ?1 AND group_folder = ?2 AND revision = ?3 AND archived_at = ?4",
        )
    })?;
    let mut best = Vec::new();
    for hit in hits {
        if best.len() >= limit {
            break;
        }
        // It may have been deleted, or archived anew, since.
        let of = params![hit.id, group.as_str(), hit.version.0, hit.version.1];
        let Some(session) = of_store(|| session.query_row(of, session_row).optional())? else { continue };
        best.push((hit, session));
    }
    if stop() {
        best.truncate(OF_STOPPED);
        shows.store(true, Ordering::Relaxed);
    }
    // In the order of their best hits: what a stop leaves out is mostly of what fits less.
    volumes.sort_by_cached_key(|volume| {
        best.iter().position(|(hit, _)| hit.volume == volume.number).unwrap_or(usize::MAX)
    });
    let mut pieces = BTreeMap::new();
    'volumes: for volume in volumes {
        let in_it = best.iter().filter(|(hit, _)| hit.volume == volume.number && hit.piece.is_none());
        let rows: Vec<i64> = in_it.map(|(hit, _)| hit.row).collect();
        let at_once = if is_dense(volume, rows.len()) { rows.len() } else { 1 };
        for some in rows.chunks(at_once) {
            if unless_stopped(snippets(index, volume.number, some, words, &mut pieces))?.is_none() {
                break 'volumes;
            }
        }
    }
    let shown = |(hit, session): (Hit, _)| {
        let snippet = hit.piece.or_else(|| pieces.remove(&(hit.volume, hit.row)))?;
        Some(FoundSession { group: group.clone(), session, snippet })
    };
    Ok(best.into_iter().filter_map(shown).collect())
}

/// Whether a volume has few rows for each of those that are wanted: to walk past them costs less then than a statement for each.
fn is_dense(volume: Volume, wanted: usize) -> bool {
    wanted > 1 && volume.rows <= WALKED * wanted
}

/// Returns what SQLite was not told to stop over.
fn unless_stopped<T>(outcome: rusqlite::Result<T>) -> Result<Option<T>> {
    match outcome.map_err(StoreError::from) {
        Err(StoreError::Sqlite(fault)) if fault.is_interrupted() => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Finds the sessions of a volume in which all words occur, at most `limit`, each by the row of it that fits best.
fn hits_in(index: &Connection, volume: Volume, words: &Words, limit: usize) -> rusqlite::Result<Vec<Hit>> {
    let (number, shows) = (volume.number, volume.rows <= FEW);
    let said = format!("said_{number}");
    let piece = if shows { piece(&said, words) } else { "NULL".into() };
    let session = format!("rowid >> {PART_BITS}");
    let is_short = "instr(lower(name || ' ' || text), ?) > 0";
    let is_long = format!("{said} MATCH ?");
    let phrases = words.long.iter().map(|word| phrase(word));
    let mut asked: Vec<String> = Vec::new();
    let (first, score) = match words.short.first() {
        Some(short) if words.long.is_empty() => {
            asked.push(short.clone());
            (is_short, "0.0")
        }
        Some(_) | None => {
            asked.push(any(words));
            (is_long.as_str(), "rank")
        }
    };
    let mut sql = format!(
        "SELECT id, revision, archived_at, best, score, piece FROM (
           SELECT session, best, min(score) AS score, piece FROM (
             SELECT {session} AS session, rowid AS best, {score} AS score, {piece} AS piece FROM {said} WHERE {first}"
    );
    let all = phrases
        .map(|word| (is_long.as_str(), word))
        .chain(words.short.iter().map(|word| (is_short, word.clone())));
    if words.long.len() + words.short.len() > 1 {
        for (which, word) in all {
            sql.push_str(&format!(" AND {session} IN (SELECT {session} FROM {said} WHERE {which})"));
            asked.push(word);
        }
    }
    // With a limit of its own the innermost question stays one: a piece can only be taken where the words are looked up.
    sql.push_str(" LIMIT -1) GROUP BY session) JOIN seen ON id = session ORDER BY score, archived_at DESC, id DESC LIMIT ");
    sql.push_str(&limit.to_string());
    let mut found = index.prepare_cached(&sql)?;
    let hits = found.query_map(params_from_iter(&asked), |r| {
        let (id, version, piece) = (r.get("id")?, version(r)?, r.get::<_, Option<String>>("piece")?);
        let piece = piece.as_deref().map(shown);
        Ok(Hit { id, version, volume: number, row: r.get("best")?, score: r.get("score")?, piece })
    })?;
    hits.collect()
}

/// Finds for rows of a volume the piece in which the words are, marked `**so**`; how it begins, where all words are too short for
/// the index. In one statement, which walks past all rows between them.
fn snippets(
    index: &Connection,
    volume: i64,
    rows: &[i64],
    words: &Words,
    pieces: &mut BTreeMap<(i64, i64), String>,
) -> rusqlite::Result<()> {
    let said = format!("said_{volume}");
    let numbers = rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let (wanted, first, last) = (format!("[{numbers}]"), rows.iter().min(), rows.iter().max());
    let of =
        format!("FROM {said} WHERE rowid BETWEEN ?1 AND ?2 AND +rowid IN (SELECT value FROM json_each(?3))");
    let piece = piece(&said, words);
    let (sql, phrases) = if words.long.is_empty() {
        (format!("SELECT rowid AS row, {piece} AS piece {of}"), None)
    } else {
        (format!("SELECT rowid AS row, {piece} AS piece {of} AND {said} MATCH ?4"), Some(any(words)))
    };
    let mut statement = index.prepare_cached(&sql)?;
    let mut found = match phrases {
        Some(phrases) => statement.query(params![first, last, wanted, phrases])?,
        None => statement.query(params![first, last, wanted])?,
    };
    while let Some(row) = found.next()? {
        pieces.insert((volume, row.get("row")?), shown(&row.get::<_, String>("piece")?));
    }
    Ok(())
}

/// Returns the SQL expression for the piece that is shown of a row of `said`.
fn piece(said: &str, words: &Words) -> String {
    if words.long.is_empty() {
        format!("substr(name || text, 1, {SHOWN})")
    } else {
        format!("snippet({said}, -1, '**', '**', '…', {SHOWN})")
    }
}

/// Returns a piece as people see it.
fn shown(piece: &str) -> String {
    // Pieces of one word.
    in_one(&piece.replace("****", "")).into_owned()
}

/// Returns a word as the index is asked for it: nothing in it is part of the syntax.
fn phrase(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

/// Asks the index for rows with any of the words that decide what fits best.
fn any(words: &Words) -> String {
    words.long.iter().take(RANKED).map(|word| phrase(word)).collect::<Vec<_>>().join(" OR ")
}

/// Returns the newest sessions with how they begin.
fn newest(store: &Connection, group: &Folder, limit: usize) -> Result<Vec<FoundSession>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    of_store(|| {
        store
            .prepare_cached(
                "SELECT id, name, session_id, archived_at, substr(content, 1, ?3) AS begins FROM archives
                 WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC LIMIT ?2",
            )?
            .query_map(params![group.as_str(), limit, i64::try_from(SHOWN).unwrap_or(0)], |r| {
                Ok(FoundSession { group: group.clone(), session: session_row(r)?, snippet: r.get("begins")? })
            })?
            .collect()
    })
}
