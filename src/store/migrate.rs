//! Brings a database file to this program's schema: forward only, one transaction a step.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// Every migration, in order; the version is the position plus one.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_init", include_str!("../../migrations/0001_init.sql")),
    ("0002_usage", include_str!("../../migrations/0002_usage.sql")),
    ("0003_sessions", include_str!("../../migrations/0003_sessions.sql")),
    ("0004_holds", include_str!("../../migrations/0004_holds.sql")),
    ("0005_people", include_str!("../../migrations/0005_people.sql")),
    ("0006_plans", include_str!("../../migrations/0006_plans.sql")),
    ("0007_unsaid", include_str!("../../migrations/0007_unsaid.sql")),
    ("0008_search", include_str!("../../migrations/0008_search.sql")),
    ("0009_prune", include_str!("../../migrations/0009_prune.sql")),
    ("0010_revisions", include_str!("../../migrations/0010_revisions.sql")),
    ("0011_uids", include_str!("../../migrations/0011_uids.sql")),
];

/// The schema version that this program writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// Applies what is missing. A copy of a store that holds something is kept beside it first.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let at: usize = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if at > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: at, known: VERSION });
    }
    if at == VERSION {
        return Ok(());
    }
    if at > 0 {
        let copy = path.with_extension(format!("sqlite.before-{:04}", VERSION));
        connection.backup("main", &copy, None::<fn(rusqlite::backup::Progress)>)?;
    }
    for (step, (name, sql)) in MIGRATIONS.iter().enumerate().skip(at) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        let now_at: usize = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if now_at > step {
            continue;
        }
        transaction.execute_batch(sql).map_err(|source| StoreError::Migration { name, source })?;
        transaction.pragma_update(None, "user_version", step + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", VERSION + 1).unwrap();
        let refused = migrate(&mut connection, &path);
        assert!(matches!(refused, Err(StoreError::Newer { .. })), "{refused:?}");
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)).unwrap();
        assert_eq!(tables, 0);
    }

    #[test]
    fn a_store_of_the_first_schema_keeps_its_rows_and_a_copy_is_kept_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch(MIGRATIONS[0].1).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        connection.execute("INSERT INTO meta (key, value) VALUES ('instance', 'x')", []).unwrap();
        migrate(&mut connection, &path).unwrap();
        let kept =
            |c: &Connection| c.query_row("SELECT value FROM meta", [], |r| r.get::<_, String>(0)).unwrap();
        let copy = Connection::open(dir.path().join(format!("g2.sqlite.before-{VERSION:04}"))).unwrap();
        assert_eq!((kept(&connection), kept(&copy)), ("x".to_owned(), "x".to_owned()));
        assert!(connection.prepare("SELECT requests FROM usage").is_ok());
        assert!(copy.prepare("SELECT requests FROM usage").is_err());
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path).unwrap();
        migrate(&mut connection, &path).unwrap();
        let at: usize = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
        assert_eq!(at, VERSION);
    }
}
