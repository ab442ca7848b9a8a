//! A property: what any rows are in one root, they are in another one after they went out and in again.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::{
    domain::moved::rows::{Keyed, Kind, Row},
    store::{Arriving, Store},
};
use ipc_handlers::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: Time = Time(1_750_000_000_000);

/// The kinds that are rows of the store, as they go in.
const KINDS: [Kind; 15] = [
    Kind::Group,
    Kind::Chat,
    Kind::Wiring,
    Kind::User,
    Kind::Role,
    Kind::Member,
    Kind::Approval,
    Kind::Run,
    Kind::Usage,
    Kind::Message,
    Kind::Mark,
    Kind::Text,
    Kind::Lane,
    Kind::Archive,
    Kind::Task,
];

/// Draws from what proptest has made.
struct Drawn<'a> {
    numbers: std::slice::Iter<'a, u32>,
    texts: std::iter::Cycle<std::slice::Iter<'a, String>>,
}

impl Drawn<'_> {
    fn below(&mut self, most: usize) -> usize {
        self.numbers.next().map_or(0, |n| *n as usize % most)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn text(&mut self) -> String {
        self.texts.next().cloned().unwrap_or_default()
    }

    fn at(&mut self) -> String {
        Time(1_600_000_000_000 + self.below(1 << 30) as i64 * 100).to_string()
    }

    fn maybe(&mut self, value: Value) -> Value {
        if self.below(2) == 0 { Value::Null } else { value }
    }
}

/// Makes rows of all kinds that name one another.
fn rows(numbers: &[u32], texts: &[String]) -> Vec<Keyed> {
    let mut d = Drawn { numbers: numbers.iter(), texts: texts.iter().cycle() };
    let (groups, chats) = (["main", "a", "b-2"], ["local:main", "tg:-1", "dc:9", "x@g.us"]);
    let mut all: Vec<Value> = Vec::new();
    for (n, group) in groups.iter().enumerate() {
        all.push(json!({"row": "group", "folder": group, "name": format!("N{n}"), "is_main": n == 0, "trigger": format!("@{}", d.text()), "config": d.of(&[json!({}), json!({"timeout": 60_000})].each_ref()),
            "held": if n == 2 { json!({"since": d.at()}) } else { Value::Null }, "hosts": if n == 1 { json!([{"host": "a.example", "allowed": true, "at": d.at()}]) } else { json!([]) }, "created_at": d.at()}));
    }
    for chat in chats {
        all.push(json!({"row": "chat", "jid": chat, "channel": "c", "name": d.text(), "kind": d.of(&["direct", "group"]), "unknown_senders": d.of(&["strict", "public", "request_approval"]),
            "threaded": d.below(2) == 1, "members": d.maybe(json!(3)), "wired_before": true, "created_at": d.at()}));
    }
    for (n, chat) in chats.iter().enumerate() {
        let is_pattern = d.below(2) == 1;
        all.push(json!({"row": "wiring", "group": groups[n % 3], "chat": chat, "engage_mode": if is_pattern { "pattern" } else { d.of(&["mention", "mention-sticky"]) },
            "engage_pattern": if is_pattern { json!(d.text()) } else { Value::Null }, "sender_scope": d.of(&["all", "known"]), "ignored_messages": d.of(&["drop", "accumulate"]), "trigger": d.maybe(json!("@x")), "created_at": d.at()}));
    }
    for n in 0..3 {
        let id = format!("tg:{n}");
        all.push(json!({"row": "user", "id": id, "name": d.text(), "dm_chat": d.maybe(json!("tg:5")), "created_at": d.at()}));
    }
    all.push(
        json!({"row": "role", "user": "tg:0", "role": "owner", "granted_by": d.text(), "granted_at": d.at()}),
    );
    all.push(json!({"row": "role", "user": "tg:1", "role": "admin", "group": "a", "granted_by": "x", "granted_at": d.at()}));
    all.push(
        json!({"row": "member", "user": "tg:2", "group": d.of(&groups), "added_by": "x", "added_at": d.at()}),
    );
    all.push(json!({"row": "approval", "about": "channel", "chat": "dc:9", "sender": "dc:1", "sender_name": d.text(), "approver": "tg:0", "card_chat": "tg:5", "yes": true, "group": "a",
        "decision": "connect", "decided_by": "tg:0", "created_at": d.at(), "decided_at": d.at(), "expires_at": d.at()}));
    for n in 0..4_usize {
        let task = d.below(2) == 1;
        all.push(json!({"row": "run", "key": n.to_string(), "group": d.of(&groups), "chat": d.of(&chats), "kind": if task { "task" } else { "message" }, "task": if task { json!("t") } else { Value::Null },
            "slot": if task { json!(Time(n as i64).to_string()) } else { Value::Null }, "attempt": 1, "status": d.of(&["succeeded", "failed", "cancelled"]), "sandbox": "docker", "created_at": d.at(),
            "started_at": d.maybe(json!(Time(5).to_string())), "ended_at": d.at(), "error": d.maybe(json!("e")), "result": json!(d.text())}));
        all.push(json!({"row": "usage", "run": if n == 3 { "gone".to_owned() } else { n.to_string() }, "group": "a", "model": d.of(&["", "m"]), "quarter": Time(900_000 * n as i64).to_string(), "requests": 3,
            "errors": d.below(3), "refused": 0, "input_tokens": d.below(100), "cache_creation_tokens": 0, "cache_read_tokens": 1, "output_tokens": 2}));
    }
    for n in 0..12 {
        let chat = n % 4;
        let heard =
            json!([{"group": groups[chat % 3], "fate": d.of(&["answered", "given", "ignored", "waits"])}]);
        all.push(json!({"row": "message", "chat": chats[chat], "replay_key": format!("k{n}"), "id": format!("i{n}"), "thread": d.of(&["", "", "7"]), "sender": d.of(&["", "8", "8:9"]), "sender_name": d.text(), "text": d.text(),
            "at": d.maybe(json!(Time(7).to_string())), "received_at": d.at(), "from_me": d.below(2) == 1, "bot": d.below(2) == 1, "mentioned": d.below(2) == 1, "late": d.below(2) == 1,
            "reply": d.maybe(json!({"id": "q", "text": "was", "own": true, "kind": "image"})), "origin": d.maybe(json!("forwarded")), "forwarded_from": d.maybe(json!("f")), "comment": d.maybe(json!("c")),
            "edited_at": d.maybe(json!(Time(9).to_string())), "heard": heard}));
        all.push(json!({"row": "text", "chat": chats[chat], "group": d.maybe(json!("a")), "text": format!("t{}", d.text()), "sender": d.maybe(json!("s")), "reply_to": d.maybe(json!("i1")), "state": "sent", "cause": "run 1 record 1",
            "run": if d.below(2) == 1 { json!("1") } else { Value::Null }, "created_at": d.at(), "sent_at": d.at(), "ids": if d.below(2) == 1 { json!([format!("p{n}")]) } else { json!([]) }}));
        let state = d.of(&["failed", "unsent"]);
        all.push(json!({"row": "text", "chat": chats[chat], "text": "u", "state": state, "cause": "by hand", "created_at": d.at()}));
    }
    all.push(json!({"row": "mark", "chat": "tg:-1", "replay_key": "m", "message_id": "i1", "act": "reaction", "sender": "8", "reaction": "+", "at": d.at()}));
    all.push(json!({"row": "lane", "group": "a", "chat": "tg:-1", "thread": "9", "sticky_at": d.maybe(json!(Time(3).to_string())), "session": "ab-12", "active_at": d.maybe(json!(Time(4).to_string()))}));
    all.push(json!({"row": "archive", "group": "a", "session": "s", "name": d.text(), "content": d.text(), "archived_at": d.at()}));
    all.push(json!({"row": "task", "id": "t", "group": d.of(&groups), "chat": d.of(&chats), "prompt": d.text(), "script": d.maybe(json!("exit 0")), "schedule_type": "cron", "schedule_value": "0 9 * * *", "context_mode": d.of(&["group", "isolated"]),
        "catch_up": d.of(&["latest", "all", "skip"]), "output": d.of(&["history", "chat"]), "status": d.of(&["active", "paused"]), "origin": "asked", "next_run": Time(1_800_000_000_000).to_string(), "created_at": d.at()}));
    let keyed = all.into_iter().enumerate().map(|(n, mut row)| {
        if row["key"].is_null() {
            row["key"] = n.to_string().into();
        }
        serde_json::from_value::<Keyed>(row.clone()).unwrap_or_else(|error| panic!("{error}: {row}"))
    });
    let mut keyed: Vec<Keyed> = keyed.collect();
    let place = |row: &Row| KINDS.iter().position(|kind| *kind == row.kind());
    keyed.sort_by_key(|keyed| place(&keyed.row));
    keyed
}

async fn take(store: &Store, source: &str, rows: &[Keyed]) -> usize {
    let rows = rows.iter().map(|keyed| Arriving { keyed: keyed.clone(), files: Vec::new() }).collect();
    let zones = g2::config::Config::defaults(&g2::config::Environment::default()).unwrap().zones;
    let taken = store.take_in(source, (rows, true), &zones, NOW).await.unwrap();
    let left = taken.findings.iter().filter(|found| found.sort == g2::domain::moved::findings::Sort::Left);
    assert_eq!(left.count(), 0, "{:#?}", taken.findings);
    taken.new.values().sum::<u64>() as usize
}

async fn out(store: &Store) -> Vec<Keyed> {
    let mut all = Vec::new();
    for kind in KINDS {
        let mut after = 0;
        while let Some(next) = {
            let page = store.move_out(kind, after, NOW).await.unwrap();
            all.extend(page.rows);
            page.next
        } {
            after = next;
        }
    }
    all
}

/// Rows as they are the same in each root.
fn comparable(rows: &[Keyed]) -> Vec<Row> {
    let mut runs: Vec<&str> = Vec::new();
    for keyed in rows {
        let key = match &keyed.row {
            Row::Run(_) => &keyed.key,
            Row::Usage(usage) => &usage.run,
            _ => continue,
        };
        if !runs.contains(&key.as_str()) {
            runs.push(key);
        }
    }
    let place = |run: &str| runs.iter().position(|key| *key == run).unwrap().to_string();
    let of = |keyed: &Keyed| match keyed.row.clone() {
        Row::Usage(mut usage) => {
            usage.run = place(&usage.run);
            Row::Usage(usage)
        }
        Row::Text(mut text) => {
            if let Some(run) = &mut text.run {
                text.cause = text.cause.replace(&format!("run {run} "), &format!("run {} ", place(run)));
                *run = place(run);
            }
            Row::Text(text)
        }
        row => row,
    };
    rows.iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_went_out_and_in_again_are_the_same(
        numbers in proptest::collection::vec(any::<u32>(), 600),
        texts in proptest::collection::vec("[a-z\u{e4}\u{1f600}\" \\\\\n]{1,12}", 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let [one, two] = ["1", "2"].map(|name| Store::open(&dir.path().join(name)).unwrap());
            let made = rows(&numbers, &texts);
            assert_eq!(take(&one, "made", &made).await, made.len());
            let went_out = out(&one).await;
            // Those of the new root itself, beside the ones that were made, and lanes of messages and runs.
            assert!(went_out.len() >= made.len());
            take(&two, "one", &went_out).await;
            let again = out(&two).await;
            for (before, after) in comparable(&went_out).iter().zip(&comparable(&again)) {
                assert_eq!(before, after);
            }
            assert_eq!(went_out.len(), again.len());
            // The same again is nothing new.
            assert_eq!(take(&two, "one", &went_out).await, 0);
            assert_eq!(out(&two).await, again);
        });
    }
}
