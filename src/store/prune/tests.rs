//! That a step is as short as it is meant to be. What is removed and what is kept: `tests/it/store/prune.rs`.

use rusqlite::Connection;

use super::*;

/// The steps of a statement's plan that walk through a table from end to end.
fn walks(c: &Connection, sql: &str) -> Vec<String> {
    let mut plan = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps: Vec<String> = plan.raw_query().mapped(|r| r.get(3)).collect::<rusqlite::Result<_>>().unwrap();
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
