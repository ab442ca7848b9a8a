//! That a step is as short as it is meant to be. What is removed and what is kept: `tests/it/store/prune.rs`.

use rusqlite::Connection;

use super::*;

/// The steps of a statement's plan that walk through a table from end to end.
fn walks(c: &Connection, sql: &str) -> Vec<String> {
    let mut plan = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps: Vec<String> =
        plan.raw_query().mapped(|r| r.get("detail")).collect::<rusqlite::Result<_>>().unwrap();
    steps.into_iter().filter(|step| step.starts_with("SCAN ")).collect()
}

#[test]
fn no_statement_that_holds_the_writer_up_walks_through_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    // The ids, what lies in `claimed/`, the groups.
    let given = ["SCAN json_each VIRTUAL TABLE", "SCAN g VIRTUAL TABLE"];
    let check = |c: &Connection| {
        for what in History::ALL {
            for sql in removals(what) {
                let long: Vec<String> = walks(c, &sql)
                    .into_iter()
                    .filter(|step| !given.iter().any(|short| step.starts_with(short)))
                    .collect();
                assert!(long.is_empty(), "{what:?}: {long:?}\n{sql}");
            }
        }
        Ok(())
    };
    store.read(check).unwrap();
}

/// A store with one run that was given `n` messages one by one and answered each, all of it at instant 1.
fn busy_run(c: &Connection, n: i64) {
    let numbers = format!("WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < {n})");
    c.execute_batch(&format!(
        "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('g', 'g', '@g', 1);
         INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('c:1', 'c', 'c', 'group', 1);
         INSERT INTO lanes (id, group_folder, chat_jid, cursor) VALUES (1, 'g', 'c:1', {n});
         INSERT INTO runs (id, group_folder, lane_id, chat_jid, kind, for_lane, status, sandbox, generation, created_at, ended_at)
           VALUES (1, 'g', 1, 'c:1', 'message', 1, 'succeeded', 'x', 0, 1, 1);
         INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, received_at, from_me, bot, mentioned)
           {numbers} SELECT 'c:1', a, a, 'c:p', 'p', 'x', 1, 0, 0, 0 FROM n;
         INSERT INTO inbox (n, lane_id, seq, verdict, rule) {numbers} SELECT a, 1, a, 'wake', 'x' FROM n;
         INSERT INTO batches (id, lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at, ended_at)
           {numbers} SELECT a, 1, 1, a, a, 'done', 'input', 0, 0, 1, 1 FROM n;
         INSERT INTO outbox (chat_jid, text, status, cause, run_id, created_at, sent_at)
           {numbers} SELECT 'c:1', 'x', 'sent', 'x', 1, 1, 1 FROM n;
         INSERT INTO receipts (claim_id, group_folder, box, name, run_id, origin, digest, outcome, at)
           {numbers} SELECT a, 'g', 'tasks', 'x', 1, CAST(a AS BLOB), x'', 'applied', 1 FROM n;
         INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, received_at, from_me, bot, mentioned)
           VALUES ('c:1', 'new', 'new', 'c:p', 'p', 'x', 9, 0, 0, 0);",
    ))
    .unwrap();
}

/// The steps of SQLite's machine that a statement takes, run to its end.
fn steps(c: &Connection, sql: &str, values: &[&dyn ToSql]) -> i64 {
    let mut statement = c.prepare(sql).unwrap();
    let mut rows = statement.query(values).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(rusqlite::StatementStatus::VmStep).into()
}

/// What is older than instant 5 goes.
fn keep() -> Keep {
    let at = Time(5);
    Keep {
        horizon: crate::domain::kept::prune::Horizon { before: at, receipts: at, denied: at, audit: at },
        claimed: Vec::new(),
        origins: Vec::new(),
        working: Vec::new(),
        groups: std::collections::BTreeMap::new(),
    }
}

/// The steps of all looks of a dry run.
fn dry_work(c: &Connection) -> i64 {
    let values = Values::of(&keep());
    let mut dry = 0;
    for what in History::ALL {
        dry += steps(c, &search(what, Left::Noted), &values.and(&[&0, &i64::MAX]));
        if let Some((make, fill)) = notes(what) {
            c.execute_batch(&make).unwrap();
            let ids = found(c, &search(what, Left::Noted), &values.and(&[&0, &i64::MAX])).unwrap();
            dry += steps(c, &fill, &[&serde_json::json!(ids).to_string()]);
        }
    }
    dry
}

/// The steps of all looks of a dry run, and of all statements that find and remove, 250 rows at a time.
fn work(n: i64) -> (i64, i64) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let keep = keep();
    let c = Connection::open(dir.path().join("g2.sqlite")).unwrap();
    busy_run(&c, n);
    let values = Values::of(&keep);
    let dry = dry_work(&c);
    let mut real = 0;
    for what in History::ALL {
        let mut after = 0;
        loop {
            let ids = store.next_history(what, &keep, after, 250).unwrap();
            real += steps(&c, &search(what, Left::InTables), &values.and(&[&after, &250]));
            let Some(last) = ids.last() else { break };
            after = *last;
            let ids = serde_json::json!(ids).to_string();
            for statement in removals(what) {
                real += steps(&c, &statement, &values.and(&[&ids]));
            }
        }
    }
    assert_eq!(c.query_row("SELECT count(*) FROM outbox", [], |r| r.get::<_, i64>(0)).unwrap(), 0);
    (dry, real)
}

#[test]
fn twice_the_messages_of_one_run_are_twice_the_work() {
    let (once, twice) = (work(1000), work(2000));
    assert!(twice.0 * 10 < once.0 * 22, "dry: {once:?} {twice:?}");
    assert!(twice.1 * 10 < once.1 * 22, "{once:?} {twice:?}");
}

#[test]
fn a_dry_run_does_not_walk_through_the_rows_that_stay_for_each_row_that_goes() {
    let (old, young) = (500, 1000);
    let dir = tempfile::tempdir().unwrap();
    Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let c = Connection::open(dir.path().join("g2.sqlite")).unwrap();
    busy_run(&c, old);
    let numbers =
        format!("WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < {young})");
    c.execute_batch(&format!(
        "INSERT INTO runs (id, group_folder, lane_id, chat_jid, kind, for_lane, status, sandbox, generation, created_at, ended_at)
           VALUES (2, 'g', 1, 'c:1', 'message', 1, 'succeeded', 'x', 0, 9, 9);
         INSERT INTO batches (lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at, ended_at)
           {numbers} SELECT 1, 2, {old} + a, {old} + a, 'done', 'input', 0, 0, 9, 9 FROM n;
         INSERT INTO outbox (chat_jid, text, status, cause, run_id, created_at, sent_at)
           {numbers} SELECT 'c:1', 'x', 'sent', 'x', 2, 9, 9 FROM n;",
    ))
    .unwrap();
    let steps = dry_work(&c);
    assert!(steps < old * young, "{steps}");
}
