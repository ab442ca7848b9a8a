//! Brings a database file to this program's schema: forward only, one transaction a step.

#![expect(clippy::disallowed_methods, reason = "keeps copies beside the store, where no container can write")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
use crate::system::failpoint;

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
    ("0011_task_ids", include_str!("../../migrations/0011_task_ids.sql")),
    ("0012_stored", include_str!("../../migrations/0012_stored.sql")),
    ("0013_visits", include_str!("../../migrations/0013_visits.sql")),
    ("0014_archives", include_str!("../../migrations/0014_archives.sql")),
    ("0015_aside", include_str!("../../migrations/0015_aside.sql")),
    ("0016_told", include_str!("../../migrations/0016_told.sql")),
    ("0017_replies", include_str!("../../migrations/0017_replies.sql")),
    ("0018_uids", include_str!("../../migrations/0018_uids.sql")),
    ("0019_decisions", include_str!("../../migrations/0019_decisions.sql")),
    ("0020_said_parts", include_str!("../../migrations/0020_said_parts.sql")),
    ("0021_events", include_str!("../../migrations/0021_events.sql")),
    ("0022_archives", include_str!("../../migrations/0022_archives.sql")),
    ("0023_channels", include_str!("../../migrations/0023_channels.sql")),
    ("0024_halves", include_str!("../../migrations/0024_halves.sql")),
    ("0025_answers", include_str!("../../migrations/0025_answers.sql")),
    ("0026_rests", include_str!("../../migrations/0026_rests.sql")),
    ("0027_slots", include_str!("../../migrations/0027_slots.sql")),
    ("0028_results", include_str!("../../migrations/0028_results.sql")),
    ("0029_heartbeat", include_str!("../../migrations/0029_heartbeat.sql")),
    ("0030_lighter", include_str!("../../migrations/0030_lighter.sql")),
    ("0031_tasks_and_files", include_str!("../../migrations/0031_tasks_and_files.sql")),
    ("0032_media", include_str!("../../migrations/0032_media.sql")),
    ("0033_adapters", include_str!("../../migrations/0033_adapters.sql")),
    ("0034_platform_ids", include_str!("../../migrations/0034_platform_ids.sql")),
    ("0036_looks", include_str!("../../migrations/0036_looks.sql")),
    ("0037_signs", include_str!("../../migrations/0037_signs.sql")),
    ("0038_files_out", include_str!("../../migrations/0038_files_out.sql")),
    ("0039_files_in", include_str!("../../migrations/0039_files_in.sql")),
    ("0040_stops", include_str!("../../migrations/0040_stops.sql")),
    ("0041_wake", include_str!("../../migrations/0041_wake.sql")),
    ("0042_bots", include_str!("../../migrations/0042_bots.sql")),
    ("0043_amends", include_str!("../../migrations/0043_amends.sql")),
    ("0047_egress", include_str!("../../migrations/0047_egress.sql")),
    ("0050_bots", include_str!("../../migrations/0050_bots.sql")),
    ("0053_budgets", include_str!("../../migrations/0053_budgets.sql")),
    ("0054_slots", include_str!("../../migrations/0054_slots.sql")),
    ("0055_rules", include_str!("../../migrations/0055_rules.sql")),
    ("0056_housekeeping", include_str!("../../migrations/0056_housekeeping.sql")),
    ("0057_tools", include_str!("../../migrations/0057_tools.sql")),
    ("0061_web", include_str!("../../migrations/0061_web.sql")),
    ("0062_page_lists", include_str!("../../migrations/0062_page_lists.sql")),
    ("0063_held_back", include_str!("../../migrations/0063_held_back.sql")),
    ("0065_audit", include_str!("../../migrations/0065_audit.sql")),
    ("0066_totals", include_str!("../../migrations/0066_totals.sql")),
    ("0090_usage_sums", include_str!("../../migrations/0090_usage_sums.sql")),
    ("0092_lighter_receipts", include_str!("../../migrations/0092_lighter_receipts.sql")),
    ("0093_task_sums", include_str!("../../migrations/0093_task_sums.sql")),
    ("0094_media_minutes", include_str!("../../migrations/0094_media_minutes.sql")),
    ("0095_lighter_events", include_str!("../../migrations/0095_lighter_events.sql")),
    ("0096_lighter_states", include_str!("../../migrations/0096_lighter_states.sql")),
    ("0097_mailbox_owners", include_str!("../../migrations/0097_mailbox_owners.sql")),
    ("0098_leaving", include_str!("../../migrations/0098_leaving.sql")),
    ("0099_origin_order", include_str!("../../migrations/0099_origin_order.sql")),
    ("0102_web_tokens", include_str!("../../migrations/0102_web_tokens.sql")),
    ("0105_lost_and_kept", include_str!("../../migrations/0105_lost_and_kept.sql")),
    ("0106_hindrances", include_str!("../../migrations/0106_hindrances.sql")),
    ("0107_lines_and_origins", include_str!("../../migrations/0107_lines_and_origins.sql")),
];

/// The migration of the program that comes next, which tests play.
const NEXT: (&str, &str) =
    ("next", "-- A table that nobody uses.\nCREATE TABLE next_version (n INTEGER) STRICT;");

/// Every migration of this program: name and SQL.
fn migrations() -> impl Iterator<Item = (&'static str, &'static str)> {
    MIGRATIONS.iter().copied().chain(failpoint::is_next_version().then_some(NEXT))
}

/// The schema version that this program writes.
pub(super) fn version() -> usize {
    MIGRATIONS.len() + usize::from(failpoint::is_next_version())
}

/// What a migration is about: the first sentence of its comment.
fn about(sql: &'static str) -> String {
    let lines = sql.lines().map_while(|line| line.strip_prefix("-- "));
    let text = lines.collect::<Vec<_>>().join(" ");
    let end = text.find([';', ':']).into_iter().chain(text.find(". ")).min().unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// Applies what is missing. A copy of a store that holds something is kept beside it first.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let at: usize = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if at > version() {
        return Err(StoreError::Newer { path: path.to_owned(), found: at, known: version() });
    }
    if at == version() {
        return Ok(());
    }
    if at > 0 {
        keep_copy(connection, path, at)?;
    }
    for (step, (name, sql)) in migrations().enumerate().skip(at) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        let now_at: usize = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if now_at > step {
            continue;
        }
        transaction
            .execute_batch(sql)
            .map_err(|error| StoreError::Migration { name, source: error.into() })?;
        transaction.pragma_update(None, "user_version", step + 1)?;
        transaction.commit()?;
        failpoint::reach("store.migrated");
        if at > 0 {
            tracing::info!(name, about = about(sql), "the store is changed for this version");
        }
    }
    if at > 0 {
        note(connection, at)?;
    }
    Ok(())
}

/// Notes what was changed, for `status`.
fn note(connection: &Connection, from: usize) -> Result<(), StoreError> {
    let changes: Vec<String> = migrations().skip(from).map(|(_, sql)| about(sql)).collect();
    let noted = serde_json::json!({"from": from, "to": version(), "changes": changes}).to_string();
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('upgraded', json_insert(?1, '$.at', CAST(unixepoch('subsec') * 1000 AS INTEGER)))
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [noted],
    )?;
    Ok(())
}

/// How many copies of older stores are kept.
const COPIES: usize = 2;

/// Copies of the store as it was before a newer program changed its schema, the oldest first.
pub(super) fn kept_copies(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let beginning = format!("{}.before-", name.to_string_lossy());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_copy = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&beginning).is_some_and(|version| version.parse::<usize>().is_ok())
    };
    let mut copies: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_copy).collect();
    copies.sort();
    copies
}

/// Keeps a copy of the store as it is, checked before it gets its name, and removes the oldest copies. One that a death in the
/// middle of these migrations left is the whole store as it was before them, and stays.
fn keep_copy(connection: &Connection, path: &Path, at: usize) -> Result<(), StoreError> {
    let copy = path.with_extension(format!("sqlite.before-{:04}", version()));
    let version_of = |path: &Path| -> rusqlite::Result<usize> {
        Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?.query_row(
            "PRAGMA user_version",
            [],
            |r| r.get(0),
        )
    };
    if copy.exists() && version_of(&copy).is_ok_and(|kept| (1..at).contains(&kept)) {
        return Ok(());
    }
    let failed = |error: std::io::Error| StoreError::KeptCopy { path: copy.clone(), error };
    let unfinished = path.with_extension("sqlite.before");
    let none = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    std::fs::remove_file(&unfinished)
        .or_else(|error| if none(&error) { Ok(()) } else { Err(error) })
        .map_err(failed)?;
    connection.backup("main", &unfinished, None::<fn(rusqlite::backup::Progress)>)?;
    let check = Connection::open(&unfinished)?;
    let told: String = check.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    drop(check);
    if told != "ok" {
        return Err(StoreError::Refused(format!(
            "the store is damaged ({told}), so it is not changed to the schema of this g2; `g2 doctor` says how to go on"
        )));
    }
    std::fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(failed)?;
    failpoint::reach("store.copied");
    std::fs::rename(&unfinished, &copy).map_err(failed)?;
    let copies = kept_copies(path);
    for old in copies.iter().take(copies.len().saturating_sub(COPIES)) {
        std::fs::remove_file(old).map_err(failed)?;
    }
    Ok(())
}

/// Opens a store that somebody else may have made, to look at it: nothing in its schema is trusted.
pub(super) fn open_foreign(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Returns what a store of version `at` has that a store of ours has not, or lacks; `None`: its schema is ours.
pub(super) fn odd_part(store: &Connection, at: usize) -> Result<Option<String>, StoreError> {
    let ours = Connection::open_in_memory()?;
    for (name, sql) in migrations().take(at) {
        ours.execute_batch(sql).map_err(|error| StoreError::Migration { name, source: error.into() })?;
    }
    let (theirs, ours) = (parts(store)?, parts(&ours)?);
    let odd = theirs.symmetric_difference(&ours).next();
    Ok(odd.map(|(kind, name, _)| format!("{kind} {name}")))
}

/// The parts of a schema: kind, name, and its text without blanks and quotes, which versions of SQLite set differently.
fn parts(c: &Connection) -> Result<BTreeSet<(String, String, String)>, StoreError> {
    let mut all = c.prepare(
        "SELECT type, name, coalesce(sql, '') AS sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'",
    )?;
    let parts = all.query_map([], |r| {
        let sql: String = r.get("sql")?;
        Ok((
            r.get("type")?,
            r.get("name")?,
            sql.chars().filter(|c| !c.is_whitespace() && *c != '"').collect(),
        ))
    })?;
    Ok(parts.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::host::feed::EventKind;

    /// Makes the schema that was there before the migration whose name ends so.
    fn apply_before(connection: &Connection, migration: &str) {
        let applied = MIGRATIONS.iter().position(|(name, _)| name.ends_with(migration)).unwrap();
        for (_, sql) in &MIGRATIONS[..applied] {
            connection.execute_batch(sql).unwrap();
        }
        connection.pragma_update(None, "user_version", applied).unwrap();
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", version() + 1).unwrap();
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
        let copy = Connection::open(dir.path().join(format!("g2.sqlite.before-{:04}", version()))).unwrap();
        assert_eq!((kept(&connection), kept(&copy)), ("x".to_owned(), "x".to_owned()));
        assert!(connection.prepare("SELECT requests FROM usage").is_ok());
        assert!(copy.prepare("SELECT requests FROM usage").is_err());
    }

    #[test]
    fn tasks_keep_their_numbers_and_their_runs_when_ids_become_their_group_s() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        for (_, sql) in MIGRATIONS.iter().take(10) {
            connection.execute_batch(sql).unwrap();
        }
        connection.pragma_update(None, "user_version", 10).unwrap();
        connection
            .execute_batch(
                "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0), ('b', 'B', '@B', 0);
                 INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, status, next_run, slot, tries, created_at)
                   VALUES ('t', 'a', 'c', 'zwölf', 'exit', 'interval', '60000', 'group', 'active', 5, 4, 2, 1),
                          ('u', 'a', 'c', 'p', NULL, 'interval', '60000', 'group', 'paused', NULL, NULL, 0, 1),
                          ('v', 'b', 'c', 'p', NULL, 'once', '0', 'group', 'completed', NULL, NULL, 0, 1);
                 INSERT INTO runs (group_folder, chat_jid, kind, source, slot, status, sandbox, generation, created_at, started_at, ended_at)
                   VALUES ('a', 'c', 'task', 'task:t', 4, 'succeeded', 'process', 0, 0, 1, 2);
                 DELETE FROM tasks WHERE id = 'v';",
            )
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let rows: Vec<(i64, String, Option<i64>, i64, i64)> = connection
            .prepare("SELECT n, id, slot, tries, bytes FROM tasks ORDER BY n")
            .unwrap()
            .query_map([], |r| {
                Ok((r.get("n")?, r.get("id")?, r.get("slot")?, r.get("tries")?, r.get("bytes")?))
            })
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(rows, [(1, "t".into(), Some(4), 2, 15), (2, "u".into(), None, 0, 6)]);
        let again = |group: &str, id: &str| {
            connection.execute(
                "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, created_at)
                 VALUES (?2, ?1, 'c', 'p', 'interval', '60000', 'group', 'active', 1)",
                [group, id],
            )
        };
        assert!(again("a", "t").is_err());
        again("b", "t").unwrap();
        assert_eq!(connection.last_insert_rowid(), 4, "the number of what was removed is not given again");
        let ran_again = |group: &str| {
            connection.execute(
                "INSERT INTO runs (group_folder, chat_jid, kind, source, slot, status, sandbox, generation, created_at, started_at, ended_at)
                 VALUES (?1, 'c', 'task', 'task:t', 4, 'succeeded', 'process', 0, 0, 1, 2)",
                [group],
            )
        };
        assert!(ran_again("a").is_err(), "a slot's attempt starts once");
        ran_again("b").unwrap();
        connection.execute("DELETE FROM groups WHERE folder = 'b'", []).unwrap();
        let left: i64 = connection.query_row("SELECT count(*) FROM tasks", [], |r| r.get(0)).unwrap();
        assert_eq!(left, 2, "its tasks go with a group");
    }

    #[test]
    fn each_table_that_is_counted_by_group_has_its_triggers_after_the_last_migration() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path).unwrap();
        let triggers = |table: &str| -> i64 {
            let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 AND name GLOB 'stored_*'";
            connection.query_row(count, [table], |r| r.get(0)).unwrap()
        };
        let counted = ["receipts", "outbox", "tasks", "archives", "runs", "slots"].map(triggers);
        assert_eq!(
            counted,
            [3, 3, 3, 3, 3, 2],
            "a migration that makes such a table anew makes its triggers anew"
        );
    }

    #[test]
    fn what_was_said_of_a_batch_before_that_was_kept_is_what_was_said_until_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_told");
        let said = |id: i64, at: i64| {
            format!(
                "INSERT INTO outbox (id, chat_jid, text, status, cause, run_id, created_at) VALUES ({id}, 'c', 't', 'pending', 'run 1 record {id}', 1, {at});"
            )
        };
        let batch = |id: i64, mark: i64, ended: &str| {
            format!(
                "INSERT INTO batches (id, lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at, ended_at) VALUES ({id}, 1, 1, {id}, {id}, 'done', 'stdin', {mark}, 0, 1, {ended});"
            )
        };
        let rows = [said(5, 10), said(6, 20), batch(1, 4, "10"), batch(2, 5, "15"), batch(3, 6, "NULL")];
        connection
            .execute_batch(&format!("PRAGMA foreign_keys = OFF; {} PRAGMA foreign_keys = ON;", rows.concat()))
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let windows: Vec<(Option<i64>, Option<i64>)> = connection
            .prepare("SELECT said_from, said_to FROM batches ORDER BY id")
            .unwrap()
            .query_map([], |r| Ok((r.get("said_from")?, r.get("said_to")?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(windows, [(Some(4), Some(5)), (Some(5), Some(5)), (None, None)]);
    }

    #[tokio::test]
    async fn the_word_of_an_old_answer_and_the_group_that_it_named_come_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        apply_before(&connection, "_decisions");
        let asked = |id: i64, kind: &str, state: &str, decision: &str| {
            let decided_at = if state == "pending" { "NULL" } else { "2" };
            format!(
                "INSERT INTO approvals (id, kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at, decision)
                 VALUES ({id}, '{kind}', 'tg:1', 'tg:{id}', 'Bob', '{state}', 'local:me', 'local:main', '[]', 1, 9, {decided_at}, {decision});"
            )
        };
        let rows = [
            asked(1, "channel", "approved", "'connect family'"),
            asked(2, "channel", "approved", "'connect connect'"),
            asked(3, "channel", "denied", "'ignore'"),
            asked(4, "sender", "approved", "'allow'"),
            asked(5, "sender", "denied", "'deny'"),
            asked(6, "sender", "expired", "NULL"),
            asked(7, "sender", "pending", "NULL"),
        ];
        connection
            .execute_batch(&format!(
                "INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:1', 'telegram', 'c', 'group', 1); {}
                 INSERT INTO approval_events (approval_id, at, who, what) VALUES (1, 2, 'local:me', 'approved');",
                rows.concat()
            ))
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let row = |decision: Option<&str>, group: Option<&str>| {
            (decision.map(str::to_owned), group.map(str::to_owned))
        };
        let decided: Vec<(Option<String>, Option<String>)> = connection
            .prepare("SELECT decision, decided_group FROM approvals ORDER BY id")
            .unwrap()
            .query_map([], |r| Ok((r.get("decision")?, r.get("decided_group")?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(
            decided,
            [
                row(Some("connect"), Some("family")),
                row(Some("connect"), Some("connect")),
                row(Some("ignore"), None),
                row(Some("allow"), None),
                row(Some("deny"), None),
                row(None, None),
                row(None, None),
            ]
        );
        let events: i64 =
            connection.query_row("SELECT count(*) FROM approval_events", [], |r| r.get(0)).unwrap();
        assert_eq!(events, 1, "what was done about a question stays");
        for wrong in [
            "decision = 'connect family'",
            "decision = 'maybe', decided_group = NULL",
            "decided_group = NULL",
            "decision = 'new'",
        ] {
            let change = format!("UPDATE approvals SET {wrong} WHERE id = 1");
            assert!(connection.execute(&change, []).is_err(), "{wrong}");
        }
        drop(connection);
        let old = crate::store::Store::open(&path).unwrap().approvals(true).await.unwrap();
        assert_eq!(old[0].outcome(), "question 1 was answered by nobody: connect family");
    }

    #[test]
    fn the_sessions_of_lanes_keep_what_they_are_when_they_get_a_table_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        apply_before(&connection, "_halves");
        connection
            .execute_batch(
                "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);
                 INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:1', 'tg', 'c', 'group', 1);
                 INSERT INTO lanes (group_folder, chat_jid, thread, cursor, generation, session_id, rest_until, sticky_at)
                   VALUES ('a', 'tg:1', '', 7, 2, 's-1', 99, 5), ('a', 'tg:1', 't', 0, 0, NULL, NULL, NULL);",
            )
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        type Session = (i64, String, i64, Option<String>, Option<i64>);
        let rows: Vec<Session> = connection
            .prepare(
                "SELECT lane_id, thread, generation, session_id, rest_until FROM sessions ORDER BY lane_id",
            )
            .unwrap()
            .query_map([], |r| {
                Ok((
                    r.get("lane_id")?,
                    r.get("thread")?,
                    r.get("generation")?,
                    r.get("session_id")?,
                    r.get("rest_until")?,
                ))
            })
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(
            rows,
            [(1, String::new(), 2, Some("s-1".into()), Some(99)), (2, "t".into(), 0, None, None)]
        );
        let left: (i64, Option<i64>) = connection
            .query_row("SELECT cursor, sticky_at FROM lanes WHERE id = 1", [], |r| {
                Ok((r.get("cursor")?, r.get("sticky_at")?))
            })
            .unwrap();
        assert_eq!(left, (7, None), "a later step takes the mark from a main line");
        connection.execute("UPDATE sessions SET generation = 3 WHERE lane_id = 1", []).unwrap();
        let told: String = connection
            .query_row(
                "SELECT chat_jid || ' ' || subject AS told FROM events WHERE kind = 'cleared'",
                [],
                |r| r.get("told"),
            )
            .unwrap();
        assert_eq!(told, "tg:1 1");
        connection.execute("DELETE FROM groups", []).unwrap();
        let left: i64 = connection.query_row("SELECT count(*) FROM sessions", [], |r| r.get(0)).unwrap();
        assert_eq!(left, 0, "a session goes with its lane");
    }

    #[test]
    fn numbers_of_events_go_on_where_all_events_were_removed_and_where_some_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let lighter = MIGRATIONS.iter().position(|(name, _)| name.ends_with("_lighter")).unwrap();
        for (name, removed) in [("all", 9), ("some", 4)] {
            let path = dir.path().join(name);
            let mut connection = Connection::open(&path).unwrap();
            for (_, sql) in &MIGRATIONS[..lighter] {
                connection.execute_batch(sql).unwrap();
            }
            connection.pragma_update(None, "user_version", lighter).unwrap();
            for user in 1..=5 {
                connection
                    .execute(
                        "INSERT INTO users (id, name, created_at) VALUES (?1, 'x', 0)",
                        [format!("tg:{user}")],
                    )
                    .unwrap();
            }
            connection.execute("DELETE FROM events WHERE seq <= ?1", [removed]).unwrap();
            migrate(&mut connection, &path).unwrap();
            connection
                .execute("INSERT INTO users (id, name, created_at) VALUES ('tg:6', 'x', 0)", [])
                .unwrap();
            let newest: (i64, String) = connection
                .query_row("SELECT seq, subject FROM events ORDER BY seq DESC LIMIT 1", [], |r| {
                    Ok((r.get("seq")?, r.get("subject")?))
                })
                .unwrap();
            assert_eq!(newest, (6, "tg:6".into()), "{name}");
        }
    }

    #[test]
    fn every_kind_of_event_is_taken_and_no_other() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("unused")).unwrap();
        let tell =
            |kind: &str| connection.execute("INSERT INTO events (kind, subject) VALUES (?1, '1')", [kind]);
        for (kind, _) in EventKind::CHOICES {
            assert_eq!(tell(kind), Ok(1), "{kind}");
        }
        assert!(tell("nonsense").is_err());
    }

    #[test]
    fn the_tasks_of_a_store_from_before_they_were_counted_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        apply_before(&connection, "_task_sums");
        connection
            .execute_batch(
                "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0), ('b', 'B', '@B', 0), ('c', 'C', '@C', 0);
                 INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, status, created_at)
                   VALUES ('t', 'a', 'c', 'zwölf', 'exit', 'interval', '60000', 'group', 'active', 1),
                          ('u', 'a', 'c', 'p', NULL, 'interval', '60000', 'group', 'paused', 1),
                          ('v', 'b', 'c', 'p', NULL, 'once', '0', 'group', 'completed', 1),
                          ('w', 'c', 'c', 'p', NULL, 'once', '0', 'group', 'completed', 1);
                 DELETE FROM groups WHERE folder = 'c';",
            )
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        drop(connection);
        let store = crate::store::Store::open(&path).unwrap();
        let counted = store.counted().unwrap();
        let tasks: Vec<_> =
            counted.iter().map(|(group, of)| (group.as_str(), of.tasks, of.task_bytes)).collect();
        assert_eq!(tasks, [("a", 2, 21), ("b", 1, 2)]);
        assert_eq!(counted, store.recounted().unwrap());
    }

    #[test]
    fn marks_of_main_lines_go_and_those_of_threads_and_of_direct_chats_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        apply_before(&connection, "_lines_and_origins");
        connection
            .execute_batch(
                "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);
                 INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('dc:1', 'discord', 'c', 'group', 1),
                   ('tg:-1', 'telegram', 'c', 'group', 1), ('tg.work:-1', 'telegram.work', 'c', 'group', 1), ('tg:1', 'telegram', 'c', 'direct', 1);
                 INSERT INTO lanes (group_folder, chat_jid, thread, sticky_at) VALUES ('a', 'dc:1', '', 5), ('a', 'dc:1', '1', 5),
                   ('a', 'tg:-1', '', 5), ('a', 'tg:-1', '1', 5), ('a', 'tg:-1', '42', 5), ('a', 'tg.work:-1', '1', 5), ('a', 'tg:1', '', 5);
                 INSERT INTO messages (chat_jid, replay_key, id, thread, sender, sender_name, text, received_at, from_me, bot, mentioned)
                   VALUES ('tg:1', 'k', 'k', '', 'tg:1', 'x', 'x', 1, 0, 0, 0);",
            )
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let marks: Vec<String> = connection
            .prepare("SELECT chat_jid || ' ' || thread AS place FROM lanes WHERE sticky_at IS NOT NULL ORDER BY id")
            .unwrap()
            .query_map([], |r| r.get("place"))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(marks, ["dc:1 1", "tg:-1 42", "tg:1 "]);
        let origin = |word: &str| connection.execute("UPDATE messages SET origin = ?1", [word]);
        assert!(origin("forwarded").is_ok() && origin("edited").is_ok() && origin("written").is_err());
    }

    /// The words that a column may have by its `CHECK`, in a schema of comparisons or of `IN`.
    fn words(sql: &str, column: &str) -> BTreeSet<String> {
        let list = regex::Regex::new(&format!(r"\b{column} IN \([^)]*\)")).unwrap();
        let word = regex::Regex::new("'([^']*)'").unwrap();
        let compared = regex::Regex::new(&format!(r"\b{column} = '([^']*)'")).unwrap();
        let listed = list.find_iter(sql).flat_map(|found| word.captures_iter(found.as_str()));
        listed.chain(compared.captures_iter(sql)).map(|found| found[1].to_owned()).collect()
    }

    #[test]
    fn states_that_are_compared_are_the_states_that_were_listed() {
        const STATES: [(&str, &[&str]); 10] = [
            ("outbox", &["status"]),
            ("outbox_open", &["status"]),
            ("receipts", &["outcome"]),
            ("attachments", &["kind"]),
            ("tasks", &["schedule_type", "catch_up", "status"]),
            ("inbox", &["verdict"]),
            ("batches", &["state"]),
            ("batches_open", &["state"]),
            ("runs", &["kind", "status", "wake", "fresh_why"]),
            ("sessions", &["fresh_why"]),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_lighter_states");
        for (n, status) in ["pending", "sending", "sent", "unknown", "failed"].iter().enumerate() {
            let said = (*status == "sent").then_some(1);
            connection
                .execute(
                    "INSERT INTO outbox (chat_jid, text, cause, status, created_at, sent_at) VALUES (?1, 'x', 'y', ?2, 0, ?3)",
                    (format!("chat {n}"), status, said),
                )
                .unwrap();
        }
        let other = Connection::open(&path).unwrap();
        const OPEN: &str = "SELECT count(*) FROM outbox INDEXED BY outbox_open WHERE";
        let count = |connection: &Connection, of: &str| -> rusqlite::Result<i64> {
            connection.query_row(&format!("{OPEN} {of}"), [], |r| r.get(0))
        };
        assert_eq!(count(&other, "status IN ('pending', 'sending', 'unknown')"), Ok(3));
        let sql = |name: &str| -> String {
            connection
                .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |r| r.get(0))
                .unwrap()
        };
        let before = STATES.map(|(name, _)| sql(name));
        let long = regex::Regex::new(r"IN \('[^']*',[^',]*'[^']*',").unwrap();
        migrate(&mut connection, &path).unwrap();
        let sql = |name: &str| -> String {
            connection
                .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |r| r.get(0))
                .unwrap()
        };
        for ((name, columns), before) in STATES.into_iter().zip(before) {
            assert!(long.is_match(&before), "{name}: {before}");
            let now = sql(name);
            assert!(!long.is_match(&now), "{name}: {now}");
            for column in columns {
                let listed = words(&before, column);
                assert!(listed.len() > 2, "{name}.{column}: {listed:?}");
                assert_eq!(words(&now, column), listed, "{name}.{column}");
            }
        }
        // The connection that changed the schema, and one that was open before.
        for connection in [&connection, &other] {
            assert_eq!(
                count(connection, "status = 'pending' OR status = 'sending' OR status = 'unknown'"),
                Ok(3)
            );
            assert_eq!(count(connection, "status = 'sending'"), Ok(1));
            let sound: String = connection.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
            assert_eq!(sound, "ok");
            assert_eq!(
                connection
                    .execute("UPDATE outbox SET status = 'pending' WHERE status = 'unknown'", [])
                    .map(drop),
                Ok(())
            );
            assert!(
                connection
                    .execute("UPDATE outbox SET status = 'nonsense' WHERE status = 'pending'", [])
                    .is_err()
            );
        }
        assert_eq!(count(&other, "status = 'pending'"), Ok(2));
    }

    #[tokio::test]
    async fn the_files_of_a_chat_s_last_hour_count_in_a_store_from_before_they_were_added_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_media_minutes");
        let file = |chat: &str, n: i64, minute: i64, size: i64| {
            format!(
                "INSERT INTO attachments (seq, n, name, kind, type, size, problem, chat_jid, at) VALUES (1, {n}, 'x', 'image', 'image/png', {size}, 'gone', '{chat}', {minute} * 60000 + 59999);"
            )
        };
        let rows = [
            file("a", 1, 939, 1 << 20),
            file("a", 2, 940, 5000),
            file("a", 3, 1000, 1),
            file("a", 4, 1000, 5000),
            file("b", 5, 7, 6000),
            // What a sender says.
            (6..18).map(|n| file("c", n, 7, 1 << 60)).collect(),
        ];
        connection
            .execute_batch(&format!("PRAGMA foreign_keys = OFF; {} PRAGMA foreign_keys = ON;", rows.concat()))
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        drop(connection);
        let store = crate::store::Store::open(&path).unwrap();
        let at = |minute: i64| ipc_handlers::Time(minute * 60_000);
        for (chat, minute, bytes) in [
            ("a", 1000, 5000 + 4096 + 5000),
            ("a", 1001, 4096 + 5000),
            ("a", 1061, 0),
            ("b", 67, 6000),
            ("b", 68, 0),
            ("c", 7, 12 << 40),
        ] {
            assert_eq!(store.media_use(chat, at(minute)).await.unwrap().chat_hour, bytes, "{chat} {minute}");
        }
    }

    #[test]
    fn the_receipts_of_a_group_stay_its_own_and_the_next_one_of_its_name_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_mailbox_owners");
        let group = "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);";
        connection
            .execute_batch(&format!(
                "{group} INSERT INTO receipts (claim_id, group_folder, box, name, origin, digest, outcome, at)
                   VALUES (7, 'a', 'tasks', 'x.json', x'01', x'02', 'applied', 1);"
            ))
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let folder = ipc_handlers::Folder::parse("a").unwrap();
        let after = |c: &Connection| crate::store::work::by_hand::begun_after(c, &folder).unwrap();
        assert_eq!(after(&connection), 0);
        connection.execute_batch(&format!("DELETE FROM groups; {group}")).unwrap();
        assert_eq!(after(&connection), 7);
    }

    #[test]
    fn no_group_of_an_older_store_is_being_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_leaving");
        let group = "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);";
        connection.execute_batch(group).unwrap();
        migrate(&mut connection, &path).unwrap();
        let folder = ipc_handlers::Folder::parse("a").unwrap();
        let leaves = |c: &Connection| crate::store::talk::groups::leaves(c, &folder).unwrap();
        assert!(!leaves(&connection));
        crate::store::talk::groups::remove(&connection, &folder).unwrap();
        assert!(leaves(&connection));
    }

    #[test]
    fn files_of_an_older_store_are_known_by_the_origins_of_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_origin_order");
        let receipts = [
            (1, "68010000000403020109080706"),
            (200_001, "68010000000403020109080706"),
            (200_002, "688100000008070605040302010a0b0c0d"),
            (200_003, "680100000000000a0000000000"),
            // Of another kind, of another length, without a handle.
            (200_004, "684d0000000403020109080706"),
            (200_005, "680100000004030201"),
            (200_006, "770403020109080706"),
            (300_000, "68810000000807060504030201ffffffff"),
        ];
        for (claim, origin) in receipts {
            connection
                .execute_batch(&format!(
                    "INSERT INTO receipts (claim_id, group_folder, box, name, origin, digest, outcome, at)
                     VALUES ({claim}, 'main', 'messages', 'a.json', x'{origin}', x'{claim:06}', 'applied', 1);"
                ))
                .unwrap();
        }
        migrate(&mut connection, &path).unwrap();
        let now: Vec<(i64, String)> = connection
            .prepare("SELECT claim_id, lower(hex(origin)) AS origin FROM receipts WHERE typeof(origin) = 'blob' ORDER BY claim_id")
            .unwrap()
            .query_map([], |r| Ok((r.get("claim_id")?, r.get("origin")?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let expected = [
            (1, "690102030409080706"),
            (200_001, "690102030409080706"),
            (200_002, "6a01020304050607080a0b0c0d"),
            (200_003, "69000a000000000000"),
            (200_004, "684d0000000403020109080706"),
            (200_005, "680100000004030201"),
            (200_006, "770403020109080706"),
            (300_000, "6a0102030405060708ffffffff"),
        ];
        assert_eq!(now, expected.map(|(claim, origin)| (claim, origin.to_owned())));
    }

    #[test]
    fn the_sessions_of_a_store_from_before_there_were_tokens_stay_and_no_token_is_let_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_web_tokens");
        connection
            .execute(
                "INSERT INTO web_sessions (opened_by, ticket, made_at, ends_at) VALUES ('me', ?1, 1, 2)",
                [[0_u8; 32]],
            )
            .unwrap();
        migrate(&mut connection, &path).unwrap();
        let count = |table: &str| -> i64 {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap()
        };
        assert_eq!((count("web_sessions"), count("web_tokens")), (1, 0));
        for (purpose, digest) in [("all", vec![0_u8; 32]), ("metrics", vec![0; 31])] {
            let odd = "INSERT INTO web_tokens (name, purpose, digest, made_by, made_at) VALUES ('t', ?1, ?2, 'me', 1)";
            assert!(connection.execute(odd, rusqlite::params![purpose, digest]).is_err(), "{purpose}");
        }
    }

    #[test]
    fn of_no_folder_of_an_older_store_it_is_known_whether_it_had_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        apply_before(&connection, "_lost_and_kept");
        let group = "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0);";
        connection.execute_batch(group).unwrap();
        migrate(&mut connection, &path).unwrap();
        let filled = |c: &Connection| -> i64 {
            c.query_row("SELECT count(*) FROM filled_folders", [], |r| r.get(0)).unwrap()
        };
        assert_eq!(filled(&connection), 0);
        connection.execute_batch("INSERT INTO filled_folders VALUES ('a'); DELETE FROM groups;").unwrap();
        assert_eq!(filled(&connection), 0, "it goes with its group");
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g2.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path).unwrap();
        migrate(&mut connection, &path).unwrap();
        let at: usize = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).unwrap();
        assert_eq!(at, version());
    }
}
