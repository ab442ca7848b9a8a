//! No statement of the hot path takes longer in a larger store: not by a walk from end to end, and not by one through the
//! part of an index that one chat, lane or group has. The story is told twice, on stores of two sizes, and SQLite counts the
//! steps of each statement.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::json;

use super::{
    heard_with_writes,
    story::{NOW, file, inbound, main_folder, with_main},
    the_story,
};
use crate::domain::{platforms::attachments::BLOCK, runs::heartbeat, time::zone::Zones};

/// How many old messages there are, each with its answer, its batch, a command and a run of its own.
pub(super) const FEW: i64 = 1_000;
pub(super) const MANY: i64 = 4_000;

/// Everything that a chat, a lane and a group have seen before the story begins. The rows have negative ids: those of the
/// story are the same with them and without.
pub(super) fn history(c: &Connection, rows: i64) {
    let numbers =
        format!("WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < {rows})");
    // The story has a day that begins with the epoch.
    let at = "-a - 1000000000";
    c.execute_batch(&format!(
        "BEGIN;
         INSERT INTO lanes (id, group_folder, chat_jid) VALUES (1, 'main', 'local:main');
         INSERT INTO runs (id, group_folder, lane_id, chat_jid, kind, for_lane, status, sandbox, generation, created_at, started_at, ended_at)
           {numbers} SELECT -a, 'main', 1, 'local:main', 'message', 1, 'succeeded', 'process', 0, {at}, {at}, {at} FROM n;
         INSERT INTO messages (seq, chat_jid, replay_key, id, sender, sender_name, text, received_at, from_me, bot, mentioned)
           {numbers} SELECT -a, 'local:main', 'old ' || a, 'old ' || a, 'local:me', 'me', 'x', {at}, 0, 0, 0 FROM n;
         INSERT INTO inbox (n, lane_id, seq, verdict, rule) {numbers} SELECT -a, 1, -a, 'wake', 'pattern' FROM n;
         INSERT INTO batches (id, lane_id, run_id, first, last, state, via, outbox_mark, claim_mark, handed_at, ended_at, said_from, said_to)
           {numbers} SELECT -a, 1, -a, -a, -a, 'done', 'stdin', -a - 1, -a - 1, {at}, {at}, -a - 1, -a FROM n;
         INSERT INTO outbox (id, chat_jid, text, status, cause, run_id, created_at, sent_at, group_folder, said_key, cause_kind, cause_id)
           {numbers} SELECT -a, 'local:main', 'x', 'sent', 'run ' || a, -a, {at}, {at}, 'main', 'old ' || a, 'record', a FROM n;
         INSERT INTO outbox_parts (outbox_id, part, chat_jid, platform_id, sent_at) {numbers} SELECT -a, 1, 'local:main', 'old ' || a, {at} FROM n;
         INSERT INTO receipts (claim_id, group_folder, box, name, type, request_id, run_id, origin, digest, outcome, reply, at)
           {numbers} SELECT -a, 'main', 'tasks', 'old', 'list_tasks', 'old ' || a, -a, CAST(a AS BLOB), x'', 'applied', x'', {at} FROM n;
         INSERT INTO usage (run_id, group_folder, model, quarter, requests, errors, refused, input_tokens, cache_creation_tokens, cache_read_tokens, output_tokens)
           {numbers} SELECT -a, 'main', 'm', -a * 900000, 1, 0, 0, 1, 1, 1, 1 FROM n;
         INSERT INTO slots (id, group_folder, task, first, last, count, outcome, reason, after_run, at)
           {numbers} SELECT -a, 'main', 'old', {at}, {at}, 1, 'skipped', 'paused', 0, {at} FROM n;
         DELETE FROM events;
         UPDATE sqlite_sequence SET seq = 0 WHERE seq < 0;
         COMMIT;"
    ))
    .unwrap();
}

#[tokio::test]
async fn no_statement_of_the_hot_path_takes_longer_in_a_larger_store() {
    let (_small, _, few) = the_story(FEW).await;
    let (_large, _, many) = the_story(MANY).await;
    assert!(many.values().any(|steps| *steps > 0), "no steps were counted");
    takes_no_longer(&few, &many);
}

/// Gives each command that makes, changes or removes a task, of a group that has `others` already; returns the steps of each
/// statement.
async fn of_tasks(others: i64) -> BTreeMap<String, i64> {
    let (_dir, store) = with_main().await;
    Connection::open(store.path())
        .unwrap()
        .execute_batch(&format!(
            "WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < {others})
             INSERT INTO tasks (n, id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, created_at)
               SELECT -a, 'old ' || a, 'main', 'local:main', 'x', 'once', '0', 'group', 'completed', 0 FROM n;"
        ))
        .unwrap();
    heard_with_writes(&store, async {
        let commands = [
            json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "interval", "schedule_value": "60000"}),
            json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "* * * * *"}),
            json!({"type": "update_task", "taskId": "t", "prompt": "q"}),
            json!({"type": "pause_task", "taskId": "t"}),
            json!({"type": "resume_task", "taskId": "t"}),
            json!({"type": "cancel_task", "taskId": "t"}),
        ];
        for (claim, command) in (1..).zip(&commands) {
            let settled = store.settle(file(claim, command, None), Zones::utc(), NOW).await.unwrap();
            assert_eq!(settled.receipt.reason, None, "{command}");
        }
        for hours in 1..=2 {
            let clock = Zones::utc().of(None);
            let text = format!("tasks:\n- name: a\n  interval: {hours}h\n  prompt: look\n");
            let tasks = heartbeat::read(&text, &clock.zone, NOW).tasks;
            assert_eq!(store.set_heartbeat(main_folder(), tasks, clock, NOW).await.unwrap().changed, 1);
        }
    })
    .await
}

#[tokio::test]
async fn no_command_about_a_task_takes_longer_where_its_group_has_more_tasks() {
    takes_no_longer(&of_tasks(FEW).await, &of_tasks(MANY).await);
}

/// Takes in a file for a chat that had `others` in the hour before, and counts them; returns the steps of each statement.
async fn of_files(others: i64) -> BTreeMap<String, i64> {
    let (_dir, store) = with_main().await;
    let c = Connection::open(store.path()).unwrap();
    // No more of an hour's minutes have rows, however many files there were.
    c.execute_batch(&format!(
        "BEGIN;
         INSERT INTO outbox (id, chat_jid, text, status, cause, created_at, sent_at, said_key, files)
           VALUES (-1, 'local:main', 'x', 'sent', 'test', 0, 0, 'old', 1);
         WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < {others})
         INSERT INTO attachments (outbox_id, n, name, kind, type, size, digest, chat_jid, at)
           SELECT -1, a, 'x', 'image', 'image/png', 1, zeroblob(32), 'local:main', {} + ((a - 1) * 61 / {others}) * 60000 FROM n;
         COMMIT;",
        NOW.plus_ms(-3_600_000).0
    ))
    .unwrap();
    heard_with_writes(&store, async {
        let used = store.media_use("local:main", NOW).await.unwrap();
        assert_eq!(used.chat_hour, others.unsigned_abs() * BLOCK);
        let mut inbound = inbound("new");
        inbound.attachments[0].digest = Some([1; 32]);
        store.accept(inbound, NOW).await.unwrap();
    })
    .await
}

#[tokio::test]
async fn no_statement_about_a_file_takes_longer_where_its_chat_had_more_files_in_the_hour() {
    takes_no_longer(&of_files(FEW).await, &of_files(MANY).await);
}

/// Fails for a statement that takes a step for each row more. A walk takes several steps a row.
pub(super) fn takes_no_longer(few: &BTreeMap<String, i64>, many: &BTreeMap<String, i64>) {
    let longer: Vec<_> = many
        .iter()
        .map(|(sql, steps)| (steps - few.get(sql).copied().unwrap_or(0), sql))
        .filter(|(more, _)| *more >= MANY - FEW)
        .collect();
    assert!(longer.is_empty(), "{longer:#?}");
}
