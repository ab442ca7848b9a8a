//! Archived sessions, found by what was said in them: newest first those are read that their sketches do not rule out.

use ipc_handlers::{Folder, NotApplied, shown::FoundSession};
use rusqlite::{Connection, Row, params};

use super::{Result, Store, sessions::session_row};
use crate::domain::search::{Wanted, best, sketch};

/// So long a text is read with its row, bytes: it has no sketch.
const SHORT: usize = 2048;

/// How much a search reads at most, bytes. What is older than that is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Names and sketches.
    pub sketches: usize,
    /// What was said, but for the last one of it.
    pub said: usize,
}

impl Default for Bounds {
    /// All sketches of a group that has as many archived sessions as it may, and what is ranked in a tenth of a second.
    fn default() -> Self {
        Self { sketches: 128 << 20, said: 8 << 20 }
    }
}

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

impl Store {
    /// Finds archived sessions of a group in which all words occur, best first; without words, newest first. Beside the
    /// writer, so that nobody waits for it.
    ///
    /// # Errors
    /// The store's. [`NotApplied::SearchTooWide`] is part of the result.
    pub fn search(&self, target: Folder, query: String, limit: i64, bounds: Bounds) -> Result<Searched> {
        let found = self.read(|c| search(c, &target, &query, limit, bounds))?;
        Ok(Searched { target, query, limit, found })
    }
}

/// Finds archived sessions of a group. What is newest is read first, and no more than the bounds allow: when nothing was
/// found by then, the search was too wide.
pub(super) fn search(
    c: &Connection,
    group: &Folder,
    query: &str,
    limit: i64,
    bounds: Bounds,
) -> Result<std::result::Result<Vec<FoundSession>, NotApplied>> {
    let wanted = Wanted::new(query);
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut newest = c.prepare_cached(
        "SELECT a.id, a.name, a.session_id, a.archived_at, s.sketch, CASE WHEN octet_length(a.content) < ?2 THEN a.content END
         FROM archives a LEFT JOIN archive_sketches s ON s.archive_id = a.id
         WHERE a.group_folder = ?1 ORDER BY a.archived_at DESC, a.id DESC",
    )?;
    let mut rows = newest.query(params![group.as_str(), SHORT])?;
    let Bounds { mut sketches, mut said } = bounds;
    let mut found = Vec::new();
    let mut all = true;
    while let Some(row) = rows.next()? {
        let everything = wanted.is_everything();
        if everything && found.len() >= limit {
            break;
        }
        if !everything && (sketches == 0 || said == 0) {
            all = false;
            break;
        }
        let (name, sketch, short) = known(row)?;
        sketches = sketches.saturating_sub(name.len() + sketch.len());
        if !wanted.may_be(name, sketch) {
            continue;
        }
        let long: String;
        let content = match short {
            Some(short) => short,
            // Everything is found, whatever was said: only the piece of it that is shown is missing.
            None if said == 0 => "",
            None => {
                long = content(c, row.get(0)?)?;
                &long
            }
        };
        said = said.saturating_sub(content.len());
        if let Some(hit) = wanted.look(name, content) {
            found.push((session_row(row)?, hit));
        }
    }
    if found.is_empty() && !all {
        return Ok(Err(NotApplied::SearchTooWide));
    }
    let shown = |(session, hit): (_, crate::domain::search::Hit)| FoundSession {
        group: group.clone(),
        session,
        snippet: hit.snippet,
    };
    Ok(Ok(best(found, limit).into_iter().map(shown).collect()))
}

/// A session's name, its sketch, and what was said if that is short.
fn known<'a>(row: &'a Row<'_>) -> rusqlite::Result<(&'a str, &'a [u8], Option<&'a str>)> {
    let sketch = row.get_ref(4)?.as_blob_or_null()?.unwrap_or_default();
    Ok((row.get_ref(1)?.as_str()?, sketch, row.get_ref(5)?.as_str_or_null()?))
}

fn content(c: &Connection, id: i64) -> rusqlite::Result<String> {
    c.prepare_cached("SELECT content FROM archives WHERE id = ?1")?.query_row([id], |r| r.get(0))
}

/// Keeps the sketch of an archived session, in the place of an older one.
pub(super) fn keep_sketch(c: &Connection, archive: i64, sketch: &[u8]) -> rusqlite::Result<()> {
    let sql = if sketch.is_empty() {
        "DELETE FROM archive_sketches WHERE archive_id = ?1 AND ?2 IS NOT NULL"
    } else {
        "INSERT INTO archive_sketches (archive_id, sketch) VALUES (?1, ?2) ON CONFLICT (archive_id) DO UPDATE SET sketch = excluded.sketch"
    };
    c.prepare_cached(sql)?.execute(params![archive, sketch]).map(drop)
}

/// Makes the sketches of all archived sessions.
pub(super) fn sketch_archives(c: &Connection) -> rusqlite::Result<()> {
    let mut all = c.prepare("SELECT id FROM archives")?;
    let all: Vec<i64> = all.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    all.into_iter().try_for_each(|id| keep_sketch(c, id, &sketch(&content(c, id)?)))
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Time;

    use super::{
        super::{Said, sessions::archive},
        *,
    };

    fn folder(name: &str) -> Folder {
        Folder::parse(name).unwrap()
    }

    /// Archives of `group`, one after the other: session, name, what was said.
    async fn keep(store: &Store, group: &str, archives: &[(&str, &str, &str)]) {
        let group = folder(group);
        let archives: Vec<(String, String, Said)> = archives
            .iter()
            .map(|(session, name, text)| {
                ((*session).to_owned(), (*name).to_owned(), Said::new((*text).to_owned()))
            })
            .collect();
        store
            .write(move |c| {
                for (n, (session, name, said)) in (1..).zip(&archives) {
                    archive(c, &group, session, name, said, Time(n))?;
                }
                Ok(())
            })
            .await
            .unwrap();
    }

    /// The sessions that are found, best first, with the pieces that are shown.
    fn found(store: &Store, group: &str, query: &str, bounds: Bounds) -> Option<Vec<(String, String)>> {
        let found = store.search(folder(group), query.into(), 10, bounds).unwrap().found.ok()?;
        Some(found.into_iter().map(|found| (found.session.session_id, found.snippet)).collect())
    }

    fn open() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        (dir, store)
    }

    #[tokio::test]
    async fn what_others_archive_changes_neither_what_is_found_nor_its_order() {
        let (_dir, store) = open();
        let long = format!("{} a word of Lisbon at the end", "by train ".repeat(1_000));
        let own = [
            ("a", "misc", long.as_str()),
            ("b", "Lisbon", "by train"),
            ("c", "x", "Lisbon, Lisbon!"),
            ("d", "y", "no"),
        ];
        keep(&store, "family", &own).await;
        let before = found(&store, "family", "lisbon", Bounds::default()).unwrap();
        let order: Vec<&str> = before.iter().map(|(session, _)| session.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
        assert!(before[2].1.ends_with("a word of **Lisbon** at the end"), "{}", before[2].1);
        let others: Vec<(String, String)> =
            (0..50).map(|n| (format!("o-{n}"), "Lisbon ".repeat(n * 20 + 1))).collect();
        let others: Vec<(&str, &str, &str)> =
            others.iter().map(|(session, said)| (session.as_str(), "Lisbon", said.as_str())).collect();
        keep(&store, "other", &others).await;
        assert_eq!(found(&store, "family", "lisbon", Bounds::default()).unwrap(), before);
        assert_eq!(found(&store, "nobody", "lisbon", Bounds::default()).unwrap(), []);
    }

    #[tokio::test]
    async fn a_session_that_is_archived_again_is_found_by_what_was_said_then() {
        let (_dir, store) = open();
        let talk = |word: &str| format!("{} {word}", "on and on ".repeat(1_000));
        let sessions = |query: &str| found(&store, "family", query, Bounds::default()).unwrap().len();
        keep(&store, "family", &[("a", "x", &talk("Lisbon"))]).await;
        assert_eq!((sessions("lisbon"), sessions("porto")), (1, 0));
        keep(&store, "family", &[("a", "x", &talk("Porto"))]).await;
        assert_eq!((sessions("lisbon"), sessions("porto")), (0, 1));
        keep(&store, "family", &[("a", "Faro", "")]).await;
        assert_eq!((sessions("faro"), sessions("porto")), (1, 1), "nothing said takes nothing away");
        keep(&store, "family", &[("a", "x", "Braga")]).await;
        assert_eq!((sessions("braga"), sessions("porto")), (1, 0));
        store.delete_archive(1).await.unwrap();
        let left: i64 = store
            .read(|c| Ok(c.query_row("SELECT count(*) FROM archive_sketches", [], |r| r.get(0))?))
            .unwrap();
        assert_eq!((sessions("braga"), left), (0, 0));
    }

    #[tokio::test]
    async fn a_search_reads_the_newest_within_its_bounds_and_is_refused_where_that_finds_nothing() {
        let (_dir, store) = open();
        let talk = |word: &str| format!("{} {word}", "on and on ".repeat(1_000));
        keep(
            &store,
            "family",
            &[("old", "x", &talk("Lisbon")), ("new", "x", &talk("Porto")), ("newest", "x", &talk("Porto"))],
        )
        .await;
        let names = |query: &str, sketches: usize, said: usize| -> Option<Vec<String>> {
            let found = found(&store, "family", query, Bounds { sketches, said })?;
            Some(found.into_iter().map(|(session, _)| session).collect())
        };
        let all = usize::MAX;
        assert_eq!(names("and", all, all).unwrap(), ["newest", "new", "old"]);
        assert_eq!(names("and", all, 1).unwrap(), ["newest"], "one is read in any case");
        assert_eq!(names("lisbon", all, 1).unwrap(), ["old"], "what its sketch rules out is not read");
        assert_eq!(names("lisbon", 1, all), None, "not everything was looked at, and nothing was found");
        assert_eq!(names("", 1, 1).unwrap(), ["newest", "new", "old"], "everything needs no reading");
    }
}
