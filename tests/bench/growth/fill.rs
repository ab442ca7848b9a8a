//! A store as it is after years: conversations that are over, their runs and commands, and tasks that are not due.

use rusqlite::{Connection, params};

use crate::rig::{Root, wait_until, wall_ms};

/// How many messages a run was given, one by one; each is answered, and the agent gives a command.
const TURNS: usize = 4;
/// How many runs are older than a year; those are what a removal removes.
pub(super) const OLD_RUNS: usize = 250;
/// When those were, and since when the others were, days ago.
const OLD: i64 = 400;
const YOUNG: i64 = 60;
const DAY_MS: i64 = 86_400_000;
/// How many rows come to one task, and to one slot that did not run.
const ROWS_A_TASK: usize = 200;
const ROWS_A_SLOT: usize = 100;
/// The rows that a run leaves: itself, its use of the model, two tools, and five a turn.
const ROWS_A_RUN: usize = 4 + 5 * TURNS;

/// Run `r` of ?1: half of all runs are main's, the others belong to the other ?2 groups. Its start is `at`.
const RUNS: &str = "WITH RECURSIVE
    n (r) AS (SELECT 0 UNION ALL SELECT r + 1 FROM n WHERE r + 1 < ?1),
    x AS (SELECT r, iif(r % 2 = 0 OR ?2 = 0, 1, 2 + (r / 2) % max(?2, 1)) AS lane,
            iif(r < ?3, ?4 + r * 60000, ?5 + (r - ?3) * (?6 - ?5 - 3600000) / max(?1 - ?3, 1)) AS at FROM n),
    run AS (SELECT x.*, l.group_folder AS g, l.chat_jid AS chat FROM x CROSS JOIN lanes l ON l.id = x.lane)";
/// Turn `t` of those runs, the first one is 1.
const TURNS_OF: &str = ", k (k) AS (VALUES (0), (1), (2), (3)),
    turn AS (SELECT run.*, k, r * 4 + k + 1 AS t, at + k * 5000 AS said FROM run CROSS JOIN k)";

/// What one kind of rows is made of: the table with its columns, of turns or of runs, and the values.
const ROWS: [(&str, bool, &str); 8] = [
    (
        "runs (id, group_folder, lane_id, chat_jid, kind, for_lane, status, sandbox, container, generation, protocol, last_seq, created_at, started_at, ready_at, handled_at, ended_at, error, wake)",
        false,
        "r + 1, g, lane, chat, 'message', lane, iif(r % 1000 = 7, 'failed', 'succeeded'), 'process', 'g2-' || r, 0, 2, 6, at, at + 300, at + 400, at + 25000, at + 30000,
         iif(r % 1000 = 7, 'the agent ended without a word', NULL), 'resume' FROM run",
    ),
    (
        "messages (seq, chat_jid, replay_key, id, sender, sender_name, text, at, received_at, from_me, bot, mentioned)",
        true,
        "t, chat, 'm' || t, 'm' || t, 'local:you', 'you', 'message ' || t || ', of usual length, with a question that somebody has in the middle of a day', said, said, 0, 0, 0 FROM turn",
    ),
    ("inbox (n, lane_id, seq, verdict, rule, reason)", true, "t, lane, t, 'wake', 'pattern', 'the pattern . matches' FROM turn"),
    (
        "batches (id, lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at, ended_at, said_from, said_to)",
        true,
        "t, lane, r + 1, t, t, 'done', iif(k = 0, 'stdin', 'input'), t - 1, t - 1, said, said + 4000, t - 1, t FROM turn",
    ),
    (
        "outbox (id, chat_jid, text, status, attempts, cause, run_id, created_at, sent_at, group_folder, said_key, cause_kind, cause_id)",
        true,
        "t, chat, 'answer ' || t || ', with what an agent writes when it was asked something in the middle of a day, in two sentences or in three', 'sent', 1, 'run ' || (r + 1), r + 1, said + 3000, said + 3010, g, 'run ' || (r + 1) || ' ' || k, 'record', r + 1 FROM turn",
    ),
    (
        "receipts (claim_id, group_folder, box, name, type, request_id, run_id, origin, digest, outcome, reply, at, written_at, claimed_at)",
        true,
        "t, g, 'tasks', 'c-' || t || '.json', 'list_tasks', 'c-' || t, r + 1, CAST(printf('%016x', t) AS BLOB), randomblob(32), 'applied', CAST('{\"requestId\":\"c-' || t || '\",\"ok\":true,\"result\":[]}' AS BLOB), said + 2000, said + 1999, said + 2000 FROM turn",
    ),
    (
        "usage (run_id, group_folder, model, quarter, requests, errors, refused, input_tokens, cache_creation_tokens, cache_read_tokens, output_tokens)",
        false,
        "r + 1, g, 'claude-sonnet', at - at % 900000, 4, 0, 0, 900, 100, 8000, 700 FROM run",
    ),
    ("tools (run_id, n, group_folder, name, at)", false, "r + 1, k.n, g, iif(k.n = 1, 'Bash', 'Read'), at + 1000 * k.n FROM run CROSS JOIN (SELECT 1 AS n UNION SELECT 2) k"),
];

/// Tasks and slots that did not run, ?1 of each in turn; none is due for a year.
const TASKS: [&str; 2] = [
    "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
     SELECT 'old-' || i, l.group_folder, l.chat_jid, 'look after thing ' || i, 'interval', '86400000', 'isolated', 'active', ?3 + 365 * 86400000 + i, ?3 - 1000
     FROM n CROSS JOIN lanes l ON l.id = 1 + i % (?2 + 1)",
    "INSERT INTO slots (group_folder, task, first, last, count, outcome, reason, after_run, at)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
     SELECT l.group_folder, 'old-' || i, ?3 - 86400000, ?3 - 86400000, 1, 'skipped', 'paused', 0, ?3 - 86400000 FROM n CROSS JOIN lanes l ON l.id = 1 + i % (?2 + 1)",
];

/// Fills a new root's store with about `rows` rows; returns how many there are.
pub(super) fn fill(root: &Root, rows: usize) -> usize {
    let store = root.store();
    let others = root.groups.len() - 1;
    let runs = rows / ROWS_A_RUN;
    let now = wall_ms() as i64;
    for pragma in ["foreign_keys = OFF", "synchronous = OFF", "cache_size = -500000"] {
        store.execute_batch(&format!("PRAGMA {pragma}")).unwrap();
    }
    // The store that made the groups may be closing still.
    wait_until("the store for itself", || store.execute_batch("PRAGMA journal_mode = OFF").is_ok());
    // What is made row by row for a feed that nobody reads, and in the order of rows for indexes of another order, is put back
    // when all rows are there.
    let later = set_aside(&store);
    store.execute_batch("BEGIN").unwrap();
    for (n, group) in root.groups.iter().enumerate() {
        store
            .execute(
                "INSERT INTO lanes (id, group_folder, chat_jid) VALUES (?1, ?2, ?3)",
                params![n + 1, group, format!("local:{group}")],
            )
            .unwrap();
    }
    let mut made = 0;
    for (into, of_turns, values) in ROWS {
        let turns = if of_turns { TURNS_OF } else { "" };
        let old = params![runs, others, OLD_RUNS, now - OLD * DAY_MS, now - YOUNG * DAY_MS, now];
        made += store.execute(&format!("INSERT INTO {into} {RUNS}{turns} SELECT {values}"), old).unwrap();
    }
    for (statement, share) in TASKS.into_iter().zip([ROWS_A_TASK, ROWS_A_SLOT]) {
        made += store.execute(statement, params![rows / share, others, now]).unwrap();
    }
    store.execute_batch("UPDATE lanes SET cursor = (SELECT max(n) FROM inbox); COMMIT").unwrap();
    store.execute_batch(&later).unwrap();
    store.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    made
}

/// Drops the triggers of the feed and the indexes that hold no rule; returns what makes them again.
fn set_aside(store: &Connection) -> String {
    let mut found = store
        .prepare(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL
               AND (type = 'trigger' AND name GLOB 'events_*' OR type = 'index' AND sql NOT GLOB 'CREATE UNIQUE*')",
        )
        .unwrap();
    let found: Vec<[String; 3]> =
        found.query_map([], |r| Ok([r.get(0)?, r.get(1)?, r.get(2)?])).unwrap().map(Result::unwrap).collect();
    let mut later = String::new();
    for [kind, name, sql] in found {
        store.execute_batch(&format!("DROP {kind} {name}")).unwrap();
        later.push_str(&format!("{sql};\n"));
    }
    later
}
