//! The file of the index: how it is made, and how a session comes into it and out of it, a bounded piece at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::SystemTime,
};

use ipc_handlers::Folder;
use rusqlite::{Connection, OptionalExtension as _, Row, config::DbConfig, params};

use super::{
    super::{Result, StoreError, columns::Columns as _, log::keep_log},
    of_store,
};
use crate::domain::mailbox::search::apart;

/// What the tables look like; a file of another version is made anew.
const VERSION: i64 = 2;
/// `seen` are the sessions that are in the index, with how they were then and how many rows of theirs are there. A session's rows are
/// in one volume, which is a table of its own, from `id * PARTS` on: its name, then the parts of its text. `filled` says how many rows
/// each volume has, so that nobody counts them for each session of a group that has thousands.
const TABLES: &str = "CREATE TABLE seen (id INTEGER PRIMARY KEY, group_folder TEXT NOT NULL, volume INTEGER NOT NULL, revision INTEGER NOT NULL,
      archived_at INTEGER NOT NULL, parts INTEGER NOT NULL, is_whole INTEGER NOT NULL) STRICT;
    CREATE INDEX seen_by_volume ON seen (group_folder, volume);
    CREATE TABLE filled (group_folder TEXT NOT NULL, volume INTEGER NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (group_folder, volume)) STRICT,
      WITHOUT ROWID;
    CREATE TRIGGER filled_by_new AFTER INSERT ON seen BEGIN
      INSERT INTO filled VALUES (new.group_folder, new.volume, new.parts) ON CONFLICT DO UPDATE SET parts = parts + excluded.parts;
    END;
    CREATE TRIGGER filled_by_parts AFTER UPDATE OF parts ON seen BEGIN
      UPDATE filled SET parts = parts + new.parts - old.parts WHERE group_folder = new.group_folder AND volume = new.volume;
    END;
    CREATE TRIGGER filled_by_gone AFTER DELETE ON seen BEGIN
      UPDATE filled SET parts = parts - old.parts WHERE group_folder = old.group_folder AND volume = old.volume;
    END;";
/// How much of a session is searched, bytes: of a longer one its end.
const SEARCHED: usize = 1 << 20;
/// How much of a text is a row, bytes: to show where a word is takes the square of how often it is said in a row.
const PART: usize = 2 << 10;
/// By how much rows overlap, bytes: no word that is asked for is in two of them only.
const OVERLAP: usize = 256;
/// By how many bits a row's number is longer than its session's.
pub(super) const PART_BITS: u32 = 12;
const PARTS: i64 = 1 << PART_BITS;
// With its letters and their accents apart a text is four times as long at most.
const _: () = assert!(4 * SEARCHED / (PART - OVERLAP - 8) + 2 < PARTS as usize);
/// How many rows a group has: 64 MiB of text, the newest. A session may be put in whole beyond it.
const MOST: i64 = if cfg!(test) { 8192 } else { (64 << 20) / PART as i64 };
/// What a row takes in the file, bytes: its text, and where in it each three letters are. Text of few letters takes less, random
/// text a little more.
const ROW: u64 = 16 << 10;
/// If a file is replaced while it is opened, it is opened again, this many times in all.
const OPENED_AT_MOST: usize = 5;
/// When a volume of a group is full, rows: no statement can be stopped before it is through with one.
const VOLUME: i64 = 2048;

/// Which file it is, by device, inode and when it was made; `None`: it is not there, or in memory.
pub(super) type FileId = Option<(u64, u64, Option<SystemTime>)>;

/// A connection to the index.
pub(super) struct Index {
    pub(super) c: Connection,
    pub(super) file: FileId,
}

/// Which of the texts that a session was archived with: its revision, and when that was archived.
pub(super) type Version = (i64, i64);

/// What is in the index of a session.
struct Seen {
    volume: i64,
    version: Version,
    parts: i64,
    is_whole: bool,
}

/// Reads which version a row is about.
pub(super) fn version(r: &Row<'_>) -> rusqlite::Result<Version> {
    Ok((r.get("revision")?, r.get("archived_at")?))
}

impl Index {
    /// Opens the index, making it where it is missing, broken or of another version.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            let c = Connection::open_in_memory()?;
            c.execute_batch(TABLES)?;
            return Ok(Self { c, file: None });
        };
        if let Some(index) = Self::open_file(path)? {
            return Ok(index);
        }
        tracing::warn!("the index of archived sessions is broken, or of another version; it is made anew");
        remove(path)?;
        let odd = || std::io::Error::other("it is none of ours, and can't be removed");
        Self::open_file(path)?.ok_or_else(|| StoreError::Index { path: path.to_owned(), error: odd() })
    }

    /// Opens a file, making it where it is missing. `None`: it is no index of this version with all its tables.
    fn open_file(path: &Path) -> Result<Option<Self>> {
        for _ in 0..OPENED_AT_MOST {
            if is_cut(path) {
                return Ok(None);
            }
            make(path)?;
            let lies = lying(path);
            let c = connect(path)?;
            let is_whole = is_whole(&c)?;
            // Another process may have made it anew meanwhile: this connection is to a file that nobody finds any more.
            if lying(path) == lies {
                return Ok(is_whole.then_some(Self { c, file: lies }));
            }
        }
        let odd = std::io::Error::other("another process makes it anew again and again");
        Err(StoreError::Index { path: path.to_owned(), error: odd })
    }

    /// Compares the index with the store: returns the sessions that are not in it as they are now, or not any more.
    pub(super) fn due(&self, store: &Connection) -> Result<BTreeMap<Folder, BTreeSet<i64>>> {
        let mut due: BTreeMap<Folder, BTreeSet<i64>> = BTreeMap::new();
        let mut seen: BTreeMap<i64, (Folder, Option<Version>)> = self
            .c
            .prepare_cached("SELECT id, group_folder, revision, archived_at, is_whole FROM seen")?
            .query_map([], |r| {
                let is_whole: bool = r.get("is_whole")?;
                Ok((r.get("id")?, (r.folder("group_folder")?, is_whole.then_some(version(r)?))))
            })?
            .collect::<rusqlite::Result<_>>()?;
        // Nobody can search the sessions of a group that is gone.
        let archived = of_store(|| {
            store
                .prepare_cached(
                    "SELECT id, group_folder, revision, archived_at FROM groups JOIN archives ON group_folder = folder",
                )?
                .query_map([], |r| Ok((r.get("id")?, r.folder("group_folder")?, version(r)?)))?
                .collect::<rusqlite::Result<Vec<(i64, Folder, Version)>>>()
        })?;
        for (id, group, version) in archived {
            if seen.remove(&id).and_then(|(_, seen)| seen) != Some(version) {
                due.entry(group).or_default().insert(id);
            }
        }
        for (id, (group, _)) in seen {
            due.entry(group).or_default().insert(id);
        }
        Ok(due)
    }

    /// Returns what the index takes on the disk for each group of which it has something, bytes.
    pub(super) fn weights(&self) -> Result<BTreeMap<Folder, u64>> {
        Ok(self
            .c
            .prepare_cached("SELECT group_folder, sum(parts) AS parts FROM filled GROUP BY group_folder")?
            .query_map([], |r| Ok((r.folder("group_folder")?, weight(r.get("parts")?))))?
            .collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the same of one group.
    pub(super) fn weight_of(&self, group: &Folder) -> Result<u64> {
        rows_of(&self.c, group.as_str()).map(weight)
    }

    /// Whether old sessions of a group are not in the index, as it would be too large.
    pub(super) fn lacks_old(&self, store: &Connection, group: &Folder) -> Result<bool> {
        if rows_of(&self.c, group.as_str())? + PARTS <= MOST {
            return Ok(false);
        }
        let seen: i64 = self
            .c
            .prepare_cached("SELECT count(*) FROM seen WHERE group_folder = ?1")?
            .query_row([group.as_str()], |r| r.get(0))?;
        let archived: i64 = of_store(|| {
            store
                .prepare_cached("SELECT count(*) FROM archives WHERE group_folder = ?1")?
                .query_row([group.as_str()], |r| r.get(0))
        })?;
        Ok(seen < archived)
    }

    /// Makes the index of sessions agree with the store, in this order, until about `bytes` are indexed. Returns how many
    /// sessions agree now.
    pub(super) fn work_off(&self, store: &Connection, sessions: &[i64], bytes: usize) -> Result<usize> {
        let (mut done, mut left) = (0, bytes.div_ceil(PART));
        in_one(&self.c, || {
            while left > 0
                && let Some(session) = sessions.get(done)
            {
                let (rows, is_done) = step(&self.c, store, *session, left)?;
                left = left.saturating_sub(rows.max(1));
                done += usize::from(is_done);
            }
            Ok(())
        })?;
        Ok(done)
    }
}

/// Opens a file that is there, and makes its tables where it has none.
fn connect(path: &Path) -> Result<Connection> {
    let c = Connection::open(path)?;
    c.busy_timeout(std::time::Duration::from_secs(5))?;
    // SQLite removes the log by name when the last connection is closed. If the file is replaced at that moment, the log of the new
    // file would go.
    c.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    keep_log(&c)?;
    // What a power cut takes is indexed anew.
    c.pragma_update(None, "synchronous", "NORMAL")?;
    c.pragma_update(None, "journal_size_limit", super::super::LOG_BYTES)?;
    c.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if is_empty(&c)? {
        in_one(&c, || {
            // Unless somebody else has made it meanwhile.
            if is_empty(&c)? {
                c.execute_batch(TABLES)?;
                c.pragma_update(None, "user_version", VERSION)?;
            }
            Ok(())
        })?;
    }
    Ok(c)
}

/// Whether nothing was made in it yet.
fn is_empty(c: &Connection) -> Result<bool> {
    Ok(c.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |r| r.get(0))?)
}

/// Whether it is of this version, with the tables of all volumes.
fn is_whole(c: &Connection) -> Result<bool> {
    let version: i64 = c.pragma_query_value(None, "user_version", |r| r.get(0))?;
    let has_both = "SELECT count(*) = 2 FROM sqlite_schema WHERE name = 'seen' OR name = 'filled'";
    if version != VERSION || !c.query_row(has_both, [], |r| r.get(0))? {
        return Ok(false);
    }
    let has_all = "SELECT NOT EXISTS (SELECT 1 FROM filled WHERE 'said_' || volume NOT IN (SELECT name FROM sqlite_schema))";
    Ok(c.query_row(has_all, [], |r| r.get(0))?)
}

/// Whether the file was cut to nothing under a daemon that has it open: SQLite's log is there, which comes after the first page.
/// The log holds it shut for everybody else.
#[expect(clippy::disallowed_methods, reason = "looks at the index, beside the store")]
fn is_cut(path: &Path) -> bool {
    let log = format!("{}-wal", path.display());
    std::fs::metadata(path).is_ok_and(|is| is.is_file() && is.len() == 0) && Path::new(&log).exists()
}

/// Says why the index can't be used, where its place shows that.
pub(super) fn obstacle(path: &Path) -> Option<String> {
    let is = std::fs::symlink_metadata(path).ok()?;
    (!is.is_file()).then(|| format!("{} is no file", path.display()))
}

/// Writes at most `most` rows of one session, so that the index agrees with the store. Returns how many, and whether it agrees
/// now.
fn step(c: &Connection, store: &Connection, id: i64, most: usize) -> Result<(usize, bool)> {
    let seen = c
        .prepare_cached("SELECT volume, revision, archived_at, parts, is_whole FROM seen WHERE id = ?1")?
        .query_row([id], |r| {
            let (volume, version) = (r.get("volume")?, version(r)?);
            Ok(Seen { volume, version, parts: r.get("parts")?, is_whole: r.get("is_whole")? })
        })
        .optional()?;
    let is: Option<(String, Version)> = of_store(|| {
        store
            .prepare_cached("SELECT folder, revision, archived_at FROM archives JOIN groups ON folder = group_folder WHERE id = ?1")?
            .query_row([id], |r| Ok((r.get("folder")?, version(r)?)))
            .optional()
    })?;
    match (seen, is) {
        (None, None) => Ok((0, true)),
        (None, Some((group, version))) => {
            match make_room(c, &group, version, most)? {
                Room::Enough => {}
                Room::Made(rows) => return Ok((rows, false)),
                Room::None => return Ok((0, true)),
            }
            let volume = volume_for(c, &group)?;
            c.prepare_cached("INSERT INTO seen VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)")?
                .execute(params![id, group, volume, version.0, version.1])?;
            put_in(c, store, id, &Seen { volume, version, parts: 0, is_whole: false }, most)
        }
        (Some(seen), Some((_, version))) if seen.version == version => match seen.is_whole {
            true => Ok((0, true)),
            false => put_in(c, store, id, &seen, most),
        },
        (Some(seen), is) => take_out(c, id, &seen, most).map(|(rows, is_out)| (rows, is_out && is.is_none())),
    }
}

/// Whether a session can come into the index.
enum Room {
    Enough,
    /// This many rows of an older session were removed; more may follow.
    Made(usize),
    /// All other sessions are newer.
    None,
}

/// Keeps a group within [`MOST`] rows: its oldest sessions make room for a newer one.
fn make_room(c: &Connection, group: &str, new: Version, most: usize) -> Result<Room> {
    if rows_of(c, group)? < MOST {
        return Ok(Room::Enough);
    }
    let oldest = c
        .prepare_cached(
            "SELECT id, volume, revision, archived_at, parts, is_whole FROM seen WHERE group_folder = ?1 ORDER BY archived_at, id LIMIT 1",
        )?
        .query_row([group], |r| {
            let (volume, version) = (r.get("volume")?, version(r)?);
            Ok((r.get("id")?, Seen { volume, version, parts: r.get("parts")?, is_whole: r.get("is_whole")? }))
        })
        .optional()?;
    match oldest {
        Some((id, seen)) if seen.version.1 < new.1 => {
            take_out(c, id, &seen, most).map(|(rows, _)| Room::Made(rows))
        }
        Some(_) | None => Ok(Room::None),
    }
}

/// Returns how many rows a group has.
fn rows_of(c: &Connection, group: &str) -> Result<i64> {
    Ok(c.prepare_cached("SELECT coalesce(sum(parts), 0) FROM filled WHERE group_folder = ?1")?
        .query_row([group], |r| r.get(0))?)
}

/// Returns what this many rows take, bytes.
fn weight(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or(0).saturating_mul(ROW)
}

/// Returns the volume that a session is put into: its group's last one, unless that is full.
fn volume_for(c: &Connection, group: &str) -> Result<i64> {
    let last: Option<(i64, i64)> = c
        .prepare_cached(
            "SELECT volume, parts FROM filled WHERE group_folder = ?1 ORDER BY volume DESC LIMIT 1",
        )?
        .query_row([group], |r| Ok((r.get("volume")?, r.get("parts")?)))
        .optional()?;
    if let Some((volume, _)) = last.filter(|(_, parts)| *parts < VOLUME) {
        return Ok(volume);
    }
    let volume: i64 = c.query_row("SELECT coalesce(max(volume), 0) + 1 FROM filled", [], |r| r.get(0))?;
    // Three letters at a time, so that a part of a word is found too, in any script. A word of the name counts more.
    c.execute_batch(&format!(
        "CREATE VIRTUAL TABLE said_{volume} USING fts5 (name, text, tokenize = 'trigram remove_diacritics 1');
         INSERT INTO said_{volume} (said_{volume}, rank) VALUES ('rank', 'bm25(4.0, 1.0)');"
    ))?;
    Ok(volume)
}

/// Puts the next rows of a session into the index; returns how many, and whether these were the last.
fn put_in(c: &Connection, store: &Connection, id: i64, seen: &Seen, most: usize) -> Result<(usize, bool)> {
    let read: Option<(Vec<[String; 2]>, bool)> = of_store(|| {
        store
            .prepare_cached("SELECT name, content FROM archives WHERE id = ?1")?
            .query_row([id], |r| {
                // A text with a zero byte would be shown up to that byte only.
                let bare = |text: &str| apart(text).replace('\0', " ");
                let text = bare(end_of(r.get_ref("content")?.as_str()?));
                let mut rows = std::iter::once([bare(r.get_ref("name")?.as_str()?), String::new()])
                    .chain(parts(&text).map(|part| [String::new(), part.to_owned()]))
                    .skip(usize::try_from(seen.parts).unwrap_or(0));
                let some = rows.by_ref().take(most).collect();
                Ok((some, rows.next().is_none()))
            })
            .optional()
    })?;
    // It was deleted meanwhile: the next step takes it out.
    let Some((rows, is_last)) = read else { return Ok((0, false)) };
    let mut insert = c.prepare_cached(&format!(
        "INSERT INTO said_{} (rowid, name, text) VALUES (?1, ?2, ?3)",
        seen.volume
    ))?;
    for (n, [name, text]) in (seen.parts..).zip(&rows) {
        insert.execute(params![(id << PART_BITS) + n, name, text])?;
    }
    c.prepare_cached("UPDATE seen SET parts = parts + ?2, is_whole = ?3 WHERE id = ?1")?.execute(params![
        id,
        rows.len(),
        is_last
    ])?;
    Ok((rows.len(), is_last))
}

/// Takes the last rows of a session out of the index; returns how many, and whether none is left.
fn take_out(c: &Connection, id: i64, seen: &Seen, most: usize) -> Result<(usize, bool)> {
    let (volume, first) = (seen.volume, id << PART_BITS);
    let left = (seen.parts - i64::try_from(most).unwrap_or(i64::MAX)).max(0);
    let rows = c
        .prepare_cached(&format!("DELETE FROM said_{volume} WHERE rowid BETWEEN ?1 AND ?2"))?
        .execute([first + left, first + PARTS - 1])?;
    if left > 0 {
        c.prepare_cached("UPDATE seen SET parts = ?2, is_whole = 0 WHERE id = ?1")?.execute([id, left])?;
        return Ok((rows, false));
    }
    let group: String = c
        .prepare_cached("DELETE FROM seen WHERE id = ?1 RETURNING group_folder")?
        .query_row([id], |r| r.get("group_folder"))?;
    let is_used: bool = c
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM seen WHERE group_folder = ?1 AND volume = ?2)")?
        .query_row(params![group, volume], |r| r.get(0))?;
    if !is_used {
        c.prepare_cached("DELETE FROM filled WHERE group_folder = ?1 AND volume = ?2")?
            .execute(params![group, volume])?;
        c.execute_batch(&format!("DROP TABLE said_{volume}"))?;
    }
    Ok((rows, true))
}

/// Returns the part of a text that is searched: of a very long one its end.
fn end_of(content: &str) -> &str {
    &content[content.ceil_char_boundary(content.len().saturating_sub(SEARCHED))..]
}

/// Cuts a text into rows.
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
fn in_one<T>(c: &Connection, work: impl FnOnce() -> Result<T>) -> Result<T> {
    c.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = work().and_then(|value| Ok(c.execute_batch("COMMIT").map(|()| value)?));
    if outcome.is_err() {
        let _ = c.execute_batch("ROLLBACK");
    }
    outcome
}

/// Makes the file, which its owner alone can read. A file that is there is not opened: its closing would end SQLite's locks on it.
fn make(path: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::Index { path: path.to_owned(), error })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "looks at the index, beside the store")]
pub(super) fn id(path: Option<&Path>) -> FileId {
    // One that was cut to nothing is no index any more, even while it is open somewhere.
    std::fs::metadata(path?).ok().filter(|is| is.len() > 0).map(|is| which(&is))
}

/// Which file lies there, be it empty.
#[expect(clippy::disallowed_methods, reason = "looks at the index, beside the store")]
fn lying(path: &Path) -> FileId {
    std::fs::metadata(path).ok().map(|is| which(&is))
}

fn which(is: &std::fs::Metadata) -> (u64, u64, Option<SystemTime>) {
    use std::os::unix::fs::MetadataExt as _;
    (is.dev(), is.ino(), is.created().ok())
}

/// Removes the file.
///
/// # Errors
/// When it is still there.
#[expect(clippy::disallowed_methods, reason = "removes the files of the index, beside the store")]
pub(super) fn remove(path: &Path) -> Result<()> {
    // The log first: without it the index is an older one, and a new one must not find it.
    for end in ["-wal", "-shm", ""] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Index { path: file.into(), error });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
