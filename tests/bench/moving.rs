//! Moving in: messages of another root a second, and the memory that it takes.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    process::Stdio,
    time::Instant,
};

use rusqlite::Connection;
use serde_json::json;

use crate::{
    Effort,
    report::{Reached, Table},
    rig::{self, Root},
};

/// As many messages an import takes in a transaction, and so the floor does.
const BATCH: usize = 1_000;
const AT: &str = "2025-05-01T10:00:00.000Z";

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let (few, many) = effort.pick((20_000, 100_000), (100_000, 1_000_000));
    let floor = floor(many);
    let (_, small) = import(few);
    let (rate, large) = import(many);
    let mib = |kib: u64| kib as f64 / 1024.0;
    table.row(
        format!("{many} messages move in, with their verdicts and the index for searches"),
        format!("{rate:.0} /s"),
        format!("{floor:.0} /s (one thread: a text under two unique keys, {BATCH} to a durable commit)"),
        format!("{:.2}", rate / floor),
        "≥ 20 000 /s",
        Reached::when(rate >= 20_000.0),
    );
    table.row(
        format!("most resident memory meanwhile: {few} messages / {many}"),
        format!("{:.1} / {:.1} MiB", mib(small), mib(large)),
        "",
        "",
        "flat (≤ 10 MiB more)",
        Reached::when(mib(large) <= mib(small) + 10.0),
    );
}

/// Returns how many messages a second an import takes in, and its most memory, KiB.
fn import(messages: usize) -> (f64, u64) {
    let (root, export) = (Root::new(1), rig::temporary());
    write(export.path(), messages);
    let arguments = ["import", "export", export.path().to_str().unwrap()];
    let began = Instant::now();
    let mut child = root.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let told = fs::read_to_string(&status).unwrap_or_default();
        let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        most = most.max(line.trim().trim_end_matches(" kB").parse().unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let took = began.elapsed();
    assert!(ended.success());
    let count: i64 = root.look().query_row("SELECT count(*) FROM messages", [], |r| r.get(0)).unwrap();
    assert_eq!(count, messages as i64);
    (messages as f64 / took.as_secs_f64(), most)
}

/// Writes an export of a group with this number of messages.
fn write(folder: &Path, messages: usize) {
    fs::create_dir(folder.join("rows")).unwrap();
    let file = |part: &str| BufWriter::new(File::create(folder.join(format!("rows/{part}.jsonl"))).unwrap());
    for part in ["settings", "people", "runs", "sessions", "tasks", "audit"] {
        file(part);
    }
    let mut groups = file("groups");
    for row in [
        json!({"key": "family", "row": "group", "folder": "family", "name": "Family", "trigger": "@Bo", "created_at": AT}),
        json!({"key": "tg:-1", "row": "chat", "jid": "tg:-1", "channel": "telegram", "name": "Us", "kind": "group", "unknown_senders": "public", "created_at": AT}),
        json!({"key": "w", "row": "wiring", "group": "family", "chat": "tg:-1", "engage_mode": "mention", "sender_scope": "all", "ignored_messages": "accumulate", "created_at": AT}),
    ] {
        writeln!(groups, "{row}").unwrap();
    }
    let mut rows = file("messages");
    for n in 0..messages {
        let fate = if n % 10 == 0 { "answered" } else { "given" };
        let row = json!({"key": n.to_string(), "row": "message", "chat": "tg:-1", "replay_key": n.to_string(), "id": n.to_string(), "sender": format!("tg:{}", n % 50),
            "sender_name": "Ada", "text": format!("message {n}, {}", "of usual length ".repeat(6)), "at": AT, "received_at": AT, "heard": [{"group": "family", "fate": fate}]});
        writeln!(rows, "{row}").unwrap();
    }
    let manifest = json!({"format": 1, "made_by": "a bench", "made_at": AT, "root": "bench", "rows": {"message": messages}, "files": 0});
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

/// Returns how many texts a second one thread writes.
fn floor(messages: usize) -> f64 {
    let dir = rig::temporary();
    let store = Connection::open(dir.path().join("floor.sqlite")).unwrap();
    store
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE texts (seq INTEGER PRIMARY KEY, chat TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL, sender TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (chat, key), UNIQUE (chat, id, seq))",
        )
        .unwrap();
    let began = Instant::now();
    for batch in 0..messages / BATCH {
        store.execute_batch("BEGIN").unwrap();
        for n in batch * BATCH..(batch + 1) * BATCH {
            store
                .prepare_cached(
                    "INSERT INTO texts (chat, key, id, sender, text) VALUES ('tg:-1', ?1, ?1, 'tg:7', ?2)",
                )
                .unwrap()
                .execute((n.to_string(), format!("message {n}, {}", "of usual length ".repeat(6))))
                .unwrap();
        }
        store.execute_batch("COMMIT").unwrap();
    }
    messages as f64 / began.elapsed().as_secs_f64()
}
