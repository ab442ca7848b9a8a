//! The pages of a root with a thousand groups and many messages: short, whatever there is.

use rusqlite::Connection;

use super::Paged;

/// Fills a store with groups, chats, messages, runs, texts and commands.
pub(super) fn fill(paged: &Paged, groups: i64, messages: i64) {
    let c = Connection::open(paged.root.data("g2.sqlite")).unwrap();
    let numbers = |most: i64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {most})")
    };
    let of_group = |i: &str| format!("'g' || (({i}) % {groups} + 1)");
    let hour = 3_600_000_i64;
    c.execute_batch("BEGIN").unwrap();
    c.execute_batch(&format!(
        "{n} INSERT INTO groups (folder, name, trigger, created_at) SELECT 'g' || i, 'Group ' || i, '@G2', i FROM n;
         {n} INSERT INTO chats (jid, channel, name, kind, created_at) SELECT 'local:g' || i, 'local', 'g' || i, 'group', i FROM n;
         {n} INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, created_at) SELECT 'g' || i, 'local:g' || i, 'pattern', '.', i FROM n;
         {n} INSERT INTO lanes (group_folder, chat_jid) SELECT 'g' || i, 'local:g' || i FROM n;
         {n} INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
           SELECT 't' || i, 'g' || i, 'local:g' || i, 'do something', 'cron', '0 9 * * *', 'isolated', 'active', 4102477200000 + i, i FROM n;",
        n = numbers(groups),
    ))
    .unwrap();
    c.execute_batch(&format!(
        "{n} INSERT INTO messages (chat_jid, replay_key, id, sender, sender_name, text, received_at, from_me, bot, mentioned)
           SELECT 'local:' || {group}, 'k' || i, 'k' || i, 'local:me', 'me', 'message number ' || i, i * 1000, 0, 0, 0 FROM n;
         INSERT INTO inbox (lane_id, seq, verdict, rule) SELECT l.id, m.seq, 'wake', 'pattern' FROM messages m JOIN lanes l ON l.chat_jid = m.chat_jid;
         UPDATE lanes SET cursor = (SELECT coalesce(max(n), 0) FROM inbox);
         {tenth} INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at, started_at, ended_at)
           SELECT {group}, 'local:' || {group}, 'message', 1, 'succeeded', 'process', 0, i * 10000, i * 10000, i * 10000 + 5000 FROM n;
         {n} INSERT INTO outbox (chat_jid, text, status, cause, created_at, sent_at) SELECT 'local:' || {group}, 'answer number ' || i, 'sent', 'notice', i * 1000 + 500, i * 1000 + 700 FROM n;
         {tenth} INSERT INTO receipts (claim_id, group_folder, box, name, type, origin, digest, outcome, code, reason, at)
           SELECT i, {group}, 'messages', i || '.json', 'send_message', CAST('o' || i AS BLOB), CAST('d' || i AS BLOB), iif(i % 10 = 0, 'refused', 'applied'), iif(i % 10 = 0, 'invalid_field', NULL), iif(i % 10 = 0, 'no', NULL), i * 1000 FROM n;
         {tenth} INSERT INTO usage SELECT r.id, r.group_folder, 'm' || (r.id % 3), ({now} - r.id * {hour} / 200) / 900000 * 900000, 3, 0, 0, 1000, 0, 5000, 200 FROM runs r WHERE r.id IN (SELECT i FROM n);",
        n = numbers(messages),
        tenth = numbers(messages / 10),
        group = of_group("i"),
        now = 1_900_000_000_000_i64,
    ))
    .unwrap();
    c.execute_batch("COMMIT").unwrap();
}

/// The pages whose lists grow.
const PAGES: [&str; 13] = [
    "/",
    "/chats",
    "/chats?find=group+77",
    "/chats/g7?chat=local:g7",
    "/runs",
    "/runs?group=g7",
    "/tasks",
    "/mailbox",
    "/mailbox?state=refused",
    "/outbox",
    "/people",
    "/usage?days=30",
    "/doctor",
];

#[test]
fn a_thousand_groups_make_no_page_long() {
    let paged = Paged::new("");
    let messages =
        std::env::var("G2_PAGE_MESSAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    fill(&paged, 1_000, messages);
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    for path in PAGES {
        let mut best = std::time::Duration::MAX;
        let mut length = 0;
        for _ in 0..3 {
            let begun = std::time::Instant::now();
            let answer = paged.get(path, &[("Cookie", &cookie)]);
            best = best.min(begun.elapsed());
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            length = answer.body.len();
        }
        eprintln!("{path}: {best:?}, {length} bytes");
        assert!(length < 300 << 10, "{path} has {length} bytes");
    }
}
