//! The store is two halves in one file: talk and work. No SQL of one names a table of the other, but where they cross and where
//! people look at both. Which table is whose is said by the rooms of `migrations/0001_init.sql`.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{files, layers::named};

/// Files and folders beside the halves that may name any table: what is told of both, what is removed of both, and the schema.
const OF_BOTH: [&str; 7] = [
    "src/store/migrate.rs",
    "src/store/moving/",
    "src/store/prune.rs",
    "src/store/restored.rs",
    "src/store/search.rs",
    "src/store/search/",
    "src/store/stored.rs",
];
/// Files of tests only.
const TESTS: [&str; 3] = ["src/store/plans", "/tests.rs", "/broken.rs"];

/// Whose a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Talk,
    Work,
    Neither,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    In(Half),
    /// Where one half goes over into the other.
    Crossing,
    /// What people look at.
    Views,
    Both,
}

fn place(path: &str) -> Place {
    match path.trim_start_matches("src/store/").split('/').next() {
        _ if OF_BOTH.iter().any(|both| path.starts_with(both)) => Place::Both,
        Some("talk") => Place::In(Half::Talk),
        Some("work") => Place::In(Half::Work),
        Some("crossing") => Place::Crossing,
        Some("views") => Place::Views,
        Some(_) | None => Place::In(Half::Neither),
    }
}

/// What the schema says of a table.
#[derive(Clone, Debug)]
struct Table {
    half: Half,
    /// The comment before it, in one line.
    comment: String,
}

/// The tables that there are after the last migration, with the rooms in which they were made.
fn tables() -> BTreeMap<String, Table> {
    let room = Regex::new(r"^-- == (talk|work|neither): .+ ==$").unwrap();
    let change = Regex::new(r"^(CREATE|DROP|ALTER) TABLE (\w+)(?: RENAME TO (\w+))?").unwrap();
    let mut tables = BTreeMap::new();
    for (path, sql) in files("migrations", "sql") {
        let (mut half, mut comment) = (None, Vec::new());
        for line in sql.lines() {
            if let Some(found) = room.captures(line) {
                half = Some(match &found[1] {
                    "talk" => Half::Talk,
                    "work" => Half::Work,
                    _ => Half::Neither,
                });
            }
            if let Some(text) = line.strip_prefix("-- ") {
                comment.push(text.to_owned());
                continue;
            }
            let said = std::mem::take(&mut comment).join(" ");
            let Some(found) = change.captures(line) else { continue };
            let name = found[2].to_owned();
            match (&found[1], found.get(3)) {
                ("CREATE", _) => {
                    let half =
                        half.unwrap_or_else(|| panic!("{name} stands in no room of {}", path.display()));
                    tables.insert(name, Table { half, comment: said });
                }
                ("DROP", _) => drop(tables.remove(&name)),
                (_, Some(to)) => {
                    let table = tables.remove(&name).unwrap();
                    tables.insert(to.as_str().to_owned(), table);
                }
                (_, None) => {}
            }
        }
    }
    tables
}

/// Whose each table is.
fn halves() -> BTreeMap<String, Half> {
    tables().into_iter().map(|(name, table)| (name, table.half)).collect()
}

/// The texts in double quotes of a file, without those of its tests.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let comment = Regex::new(r"(?m)^\s*//.*$").unwrap();
    let text = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let source = comment.replace_all(source, "").replace("'\"'", "");
    text.captures_iter(&source).map(|found| found[1].to_owned()).collect()
}

/// What is wrong with the SQL of a file.
fn faults(path: &str, source: &str, halves: &BTreeMap<String, Half>) -> Vec<String> {
    let place = place(path);
    let named = Regex::new(
        r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:OR \w+ )?(?:temp\.)?([a-z_]+|\{)((?:\s+[a-z]\w*)?(?:,\s*[a-z_]+(?:\s+[a-z]\w*)?)*)",
    )
    .unwrap();
    let written = Regex::new(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b").unwrap();
    let mut faults = Vec::new();
    for sql in texts(source) {
        if place == Place::Views && written.is_match(&sql) {
            faults.push(format!("{path} writes: {sql}"));
        }
        for found in named.captures_iter(&sql) {
            let others = found[2].split(',').skip(1).filter_map(|other| other.split_whitespace().next());
            for table in std::iter::once(&found[1]).chain(others) {
                let may = match (place, halves.get(table)) {
                    (Place::Both, _) => true,
                    // A name that is put together says nothing here.
                    (Place::In(_), None) => table != "{",
                    (_, None | Some(Half::Neither)) => true,
                    (Place::In(half), Some(of)) => half == *of,
                    (Place::Crossing | Place::Views, Some(_)) => true,
                };
                if !may {
                    faults.push(format!("{path} names {table}: {sql}"));
                }
            }
        }
    }
    faults
}

/// The tables to which the SQL of a file adds rows, or whose rows it changes.
fn written(source: &str) -> BTreeSet<String> {
    let writes = Regex::new(r"\b(?:INSERT(?: OR \w+)? INTO|UPDATE(?: OR \w+)?)\s+([a-z_]+)\b").unwrap();
    let texts = texts(source);
    texts.iter().flat_map(|sql| writes.captures_iter(sql)).map(|found| found[1].to_owned()).collect()
}

#[test]
fn the_schema_says_of_each_table_its_purpose_its_writers_and_its_end() {
    let said = Regex::new(r"^(.+\.) Writer: (.+)\. Pruned: (.+)\.$").unwrap();
    let is_test = |path: &str| TESTS.iter().any(|part| path.contains(part));
    let mut sources: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, source) in files("src/store", "rs") {
        let path = path.to_str().unwrap();
        if !is_test(path) {
            for table in written(&source) {
                sources.entry(table).or_default().insert(path.replacen("src/store/", "", 1));
            }
        }
    }
    let tables = tables();
    assert!(tables.len() > 50, "{}", tables.len());
    for (name, table) in tables {
        let Some(said) = said.captures(&table.comment) else { panic!("{name}: {}", table.comment) };
        let writers: Vec<&str> =
            said[2].split(", ").filter(|writer| !writer.starts_with("the trigger")).collect();
        let found = sources.remove(&name).unwrap_or_default();
        let is_of =
            |file: &str, writer: &str| file == writer || writer.ends_with('/') && file.starts_with(writer);
        for file in &found {
            assert!(writers.iter().any(|writer| is_of(file, writer)), "{file} writes {name}, as nobody says");
        }
        for writer in writers {
            assert!(found.iter().any(|file| is_of(file, writer)), "{writer} does not write {name}");
        }
    }
}

#[test]
fn no_sql_of_one_half_of_the_store_names_a_table_of_the_other() {
    let halves = halves();
    let is_test = |path: &str| TESTS.iter().any(|part| path.contains(part));
    let mut looked_at = 0;
    for (path, source) in files("src/store", "rs") {
        let path = path.to_str().unwrap();
        if is_test(path) {
            continue;
        }
        looked_at += texts(&source).len();
        let faults = faults(path, &source, &halves);
        assert!(faults.is_empty(), "{faults:#?}");
    }
    assert!(looked_at > 300, "{looked_at}");
}

#[test]
fn talk_calls_nobody_who_works() {
    for (path, source) in files("src/store/talk", "rs") {
        let path = path.to_str().unwrap();
        for name in named(path, &source) {
            let is_other = ["work", "crossing", "views", "both"]
                .iter()
                .any(|other| name.get(1).is_some_and(|n| n == other));
            assert!(name.first().is_none_or(|top| top != "store") || !is_other, "{path} names {name:?}");
        }
    }
}

#[test]
fn talk_is_read_aside() {
    let in_place = Regex::new(r"\b(?:self|store)\s*\.read\(").unwrap();
    let aside = Regex::new(r"\b(?:self|store)\s*\.ask\(").unwrap();
    let mut read = 0;
    for (path, source) in files("src/store/talk", "rs") {
        assert!(!in_place.is_match(&source), "{} reads on the caller's thread", path.display());
        read += aside.find_iter(&source).count();
    }
    assert!(read > 30, "{read}");
    assert!(in_place.is_match("store\n    .read(|c| ())"));
}

#[test]
fn a_table_of_the_other_half_is_found_however_it_is_named() {
    let halves = halves();
    let faults = |path: &str, source: &str| faults(path, source, &halves).len();
    let of_work = [
        r#"c.query("SELECT 1 FROM runs", [])"#,
        "c.query(\"SELECT 1 FROM lanes l\n   JOIN batches b ON b.lane_id = l.id\", [])",
        r#"c.query("SELECT 1 FROM lanes l, batches b", [])"#,
        r#"c.query("UPDATE tasks SET n = 1", [])"#,
        r#"c.query("INSERT OR IGNORE INTO receipts VALUES (1)", [])"#,
        r#"c.query("DELETE FROM holds WHERE \"a\" = 1", [])"#,
        r#"c.query(&format!("SELECT 1 FROM {table}"), [])"#,
    ];
    for source in of_work {
        assert_eq!(faults("src/store/talk/chats.rs", source), 1, "{source}");
    }
    for source in &of_work[..6] {
        assert_eq!(faults("src/store/crossing/said.rs", source), 0, "{source}");
    }
    assert_eq!(faults("src/store/work/runs.rs", r#"c.query("SELECT 1 FROM outbox")"#), 1);
    assert_eq!(faults("src/store/meta.rs", r#"c.query("SELECT 1 FROM outbox")"#), 1);
    assert_eq!(faults("src/store/views/why.rs", r#"c.query("DELETE FROM outbox")"#), 1);
    let fine = [
        "/// What is said FROM runs.\n",
        r#"c.query("SELECT 1 FROM messages JOIN meta")"#,
        r#"r.word("runs", "status")"#,
        "\n#[cfg(test)]\nmod tests {\n    \"SELECT 1 FROM runs\"",
    ];
    for source in fine {
        assert_eq!(faults("src/store/talk/chats.rs", source), 0, "{source}");
    }
}

/// What of SQLite a file shows to everybody: in what a public item is declared with, and in public fields.
fn shown_of_sqlite(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let public = Regex::new(
        r"(?m)^\s*pub (?:(?:async |const |unsafe )*(?:fn|type|trait|static|const)\b[^{;]*|struct [^{;(]*(?:\([^)]*\bpub [^)]*\))?|\w+:.*)",
    )
    .unwrap();
    let variants = Regex::new(r"(?ms)^pub enum .*?^\}").unwrap();
    let of_sqlite = Regex::new(r"\b(?:rusqlite|Connection|Statement|Row|ToSql|Params)\b").unwrap();
    let all = public
        .find_iter(source)
        .chain(variants.find_iter(source))
        .map(|found| found.as_str().trim().to_owned());
    all.filter(|item| of_sqlite.is_match(item)).collect()
}

#[test]
fn nothing_of_sqlite_is_in_a_public_item_of_the_store() {
    let mut public = 0;
    for (path, source) in files("src/store", "rs") {
        public += source.matches("\n    pub ").count();
        let shown = shown_of_sqlite(&source);
        assert!(shown.is_empty(), "{}: {shown:#?}", path.display());
    }
    assert!(public > 300, "{public}");
    for shown in [
        "    pub fn open(\n        c: &Connection,\n    ) -> i64 {",
        "    pub at: rusqlite::Result<i64>,",
        "pub enum E {\n    A(rusqlite::Error),\n}",
        "pub type R = rusqlite::Result<()>;",
    ] {
        assert_eq!(shown_of_sqlite(shown).len(), 1, "{shown}");
    }
    assert_eq!(
        shown_of_sqlite("    pub(super) fn open(c: &Connection) {\npub struct Fault(Arc<rusqlite::Error>);")
            .len(),
        0
    );
}
