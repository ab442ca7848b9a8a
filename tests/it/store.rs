//! The store's steps, one transaction each: what a replay, a race or a wrong order must not change.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::{
    domain::{
        judge::{Cause, End},
        rows::Inbound,
        zone::Zones,
    },
    store::{
        CommandFile, EndOfRun, Handed, HandoverLimits, Judged, NewGroup, NewWiring, NextDelivery, Recorded,
        Store, StoreError, Transcripts, Unjudged,
    },
};
use ipc_handlers::{
    Folder, Time,
    wire::{Kind, Record, Status},
};

const NOW: Time = Time(1_800_000_000_000);
const LIMITS: HandoverLimits = HandoverLimits { messages: 200, bytes: 256 << 10, context: 10 };

struct World {
    _dir: tempfile::TempDir,
    store: Store,
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

async fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    for (name, is_main) in [("main", true), ("family", false)] {
        let group = NewGroup { folder: folder(name), name: name.into(), is_main, trigger: "@G2".into() };
        let wiring = NewWiring {
            group: folder(name),
            chat_jid: format!("local:{name}"),
            engage_mode: "pattern".into(),
            engage_pattern: Some(".".into()),
            sender_scope: "all".into(),
            ignored_message_policy: "drop".into(),
        };
        store.add_group(group, vec![wiring], NOW).await.unwrap();
    }
    World { _dir: dir, store }
}

impl World {
    /// Stores a message and judges every row that waits to be.
    async fn message(&self, chat: &str, key: &str, text: &str, verdict: &'static str) -> i64 {
        let inbound = Inbound {
            chat_jid: chat.into(),
            replay_key: key.into(),
            id: key.into(),
            sender: "local:me".into(),
            sender_name: "me".into(),
            text: text.into(),
            at: Some(NOW),
            ..Inbound::default()
        };
        let seq = self.store.accept(inbound, NOW).await.unwrap().seq;
        let judged = self
            .store
            .unjudged(100)
            .unwrap()
            .into_iter()
            .map(|row| Judged {
                n: row.n,
                verdict,
                rule: "pattern",
                reason: "test".into(),
                sticks: false,
                refused: None,
            })
            .collect();
        self.store.judge(judged, NOW).await.unwrap();
        seq
    }

    fn lane(&self) -> i64 {
        self.store.waiting_lanes().unwrap()[0].lane
    }

    async fn start(&self, lane: i64) -> Handed {
        self.store.start_run(lane, "process", "me", LIMITS, NOW).await.unwrap().unwrap()
    }

    async fn ready(&self, run: i64) {
        self.store.run_created(run, "c").await.unwrap();
        self.store.run_started(run, NOW).await.unwrap();
        let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
        self.store.record(run, 1, ready, NOW).await.unwrap();
    }

    async fn end(&self, run: i64, end: End, cause: Cause) {
        let end = EndOfRun { run, end, cause, input: None, retry_base_ms: 5000 };
        self.store.end_run(end, Zones::utc(), NOW).await.unwrap();
    }

    fn texts(&self, chat: &str) -> Vec<String> {
        self.store.outbox(Some(chat), None).unwrap().into_iter().map(|row| row.text).collect()
    }

    fn prompt(&self, batch: i64) -> String {
        self.store.batch_content(batch, LIMITS).unwrap().unwrap().prompt(&Zones::utc().of(None))
    }
}

fn say(text: &str, handled: &[i64]) -> Record {
    Record {
        result: Some(text.into()),
        handled: handled.iter().map(ToString::to_string).collect(),
        ..Record::default()
    }
}

#[tokio::test]
async fn a_held_message_is_judged_anew_after_the_cursor_when_its_wiring_is_changed() {
    let world = world().await;
    let held = world.message("local:family", "1", "puzzle", "held").await;
    let ignored = world.message("local:family", "2", "noise", "ignore").await;
    world.message("local:family", "3", "first", "wake").await;
    let first = world.start(world.lane()).await;
    assert!(world.store.unjudged(100).unwrap().is_empty());

    world.store.set_wiring(folder("family"), "local:family", "pattern", "^p").await.unwrap();
    let anew: Vec<i64> = world.store.unjudged(100).unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(anew, [held], "not {ignored}, which was decided, and not what was handed over");
    // With the next one, everything that is not judged yet is.
    world.message("local:family", "4", "second", "wake").await;
    world.ready(first.run).await;
    let next = world.store.pipe(first.run, first.lane, LIMITS, NOW).await.unwrap().unwrap();
    let prompt = world.prompt(next.batch);
    assert!(prompt.contains(">puzzle<") && prompt.contains(">second<"), "{prompt}");
    assert!(!prompt.contains(">first<") && !prompt.contains(">noise<"), "{prompt}");
    world.store.set_wiring(folder("family"), "local:family", "pattern", ".").await.unwrap();
    assert!(world.store.unjudged(100).unwrap().is_empty(), "nothing is handed over twice");
}

#[tokio::test]
async fn the_same_event_twice_is_one_message() {
    let world = world().await;
    let first = world.message("local:main", "k", "hello", "wake").await;
    let again = world.message("local:main", "k", "hello", "wake").await;
    assert_eq!(first, again);
    assert_eq!(world.store.messages(None, None).unwrap().len(), 1);
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
}

#[tokio::test]
async fn a_hand_over_moves_the_cursor_and_takes_everything_that_wakes() {
    let world = world().await;
    for n in 0..3 {
        world.message("local:main", &format!("k{n}"), &format!("m{n}"), "wake").await;
    }
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    assert!((0..3).all(|n| prompt.contains(&format!(">m{n}</message>"))), "{prompt}");
    assert!(world.store.waiting_lanes().unwrap().is_empty());
}

#[tokio::test]
async fn context_reaches_the_prompt_only_beside_what_wakes() {
    let world = world().await;
    for n in 0..12 {
        world.message("local:main", &format!("c{n}"), &format!("context {n}"), "context").await;
    }
    assert!(world.store.waiting_lanes().unwrap().is_empty());
    world.message("local:main", "w", "now", "wake").await;
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    assert!(
        !prompt.contains("context 1<") && prompt.contains("context 2<") && prompt.contains(">now<"),
        "{prompt}"
    );
    assert!(prompt.contains(r#"<left_out count="2">"#), "{prompt}");
}

#[tokio::test]
async fn a_group_has_one_active_run_whatever_races() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    world.start(lane).await;
    world.message("local:main", "k2", "two", "wake").await;
    let refused = world.store.start_run(lane, "process", "me", LIMITS, NOW).await;
    assert!(matches!(refused, Err(StoreError::Sqlite(_))), "{refused:?}");
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1, "what it would have taken still waits");
}

#[tokio::test]
async fn a_record_is_applied_once_and_a_gap_is_told() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    let record = say("answer <internal>hidden</internal>", &[handed.batch]);
    let applied = world.store.record(handed.run, 2, record.clone(), NOW).await.unwrap();
    assert_eq!(applied, Recorded::Applied { said: true, idle: true });
    assert_eq!(world.store.record(handed.run, 2, record.clone(), NOW).await.unwrap(), Recorded::Known);
    assert_eq!(world.store.record(handed.run, 4, record, NOW).await.unwrap(), Recorded::Gap { expected: 3 });
    assert_eq!(world.texts("local:main"), ["answer"]);
}

#[tokio::test]
async fn a_batch_that_comes_back_holds_the_same_messages() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    let first = world.start(lane).await;
    let before = world.prompt(first.batch);
    world.end(first.run, End::NeverCreated, Cause::OwnerGone).await;
    world.message("local:main", "k2", "two", "wake").await;
    let again = world.start(lane).await;
    assert_eq!((again.batch, world.prompt(again.batch)), (first.batch, before));
    world.ready(again.run).await;
    let next = world.store.pipe(again.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert!(world.prompt(next.batch).contains(">two<"));
}

#[tokio::test]
async fn nothing_is_piped_into_a_run_that_is_not_ready_or_closes() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.message("local:main", "k2", "two", "wake").await;
    assert!(world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().is_none());
    world.ready(handed.run).await;
    world.store.run_closing(handed.run, NOW).await.unwrap();
    assert!(world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().is_none());
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_that_spoke_and_died_is_told_of_once_and_not_tried_again() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    world.store.record(handed.run, 2, say("half", &[]), NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
    world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
    let texts = world.texts("local:main");
    assert_eq!((texts.len(), texts[0].as_str()), (2, "half"), "{texts:?}");
    assert!(world.store.waiting_lanes().unwrap().is_empty());
}

#[tokio::test]
async fn an_answer_is_about_the_batches_it_finishes_and_about_the_rest_only_when_it_finishes_none() {
    for (first, second, third, state) in [
        // The follow-up is in hand, and nothing was said of it.
        (("a", true), None, None, "returned"),
        (("a", true), Some(("b", false)), None, "failed"),
        // What was said before it without finishing anything may be about it.
        (("b", false), Some(("a", true)), None, "failed"),
        (("a", true), None, Some("command"), "failed"),
    ] {
        let world = world().await;
        world.message("local:main", "k", "one", "wake").await;
        let lane = world.lane();
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        world.message("local:main", "k2", "two", "wake").await;
        let next = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
        let records = [Some(first), second];
        for (n, (text, finishes)) in (2..).zip(records.into_iter().flatten()) {
            let handled = if finishes { vec![handed.batch] } else { Vec::new() };
            world.store.record(handed.run, n, say(text, &handled), NOW).await.unwrap();
        }
        if third.is_some() {
            let bytes = br#"{"type":"send_message","chatJid":"local:main","text":"by file"}"#;
            let file = CommandFile { run: Some(handed.run), ..command("main", 1, bytes) };
            world.store.settle(file, Zones::utc(), NOW).await.unwrap();
        }
        world.end(handed.run, End::Exited { code: 3, oom: false }, Cause::Itself).await;
        let waits = world.store.waiting_lanes().unwrap().len();
        assert_eq!(waits == 1, state == "returned", "batch {}: {first:?} {second:?} {third:?}", next.batch);
    }
}

#[tokio::test]
async fn tries_rest_longer_each_time_and_end_with_one_notice() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    let mut rests = Vec::new();
    while !world.store.waiting_lanes().unwrap().is_empty() {
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        world.end(handed.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
        rests.extend(
            world
                .store
                .waiting_lanes()
                .unwrap()
                .first()
                .and_then(|w| w.rest_until)
                .map(|at| at.ms_since(NOW)),
        );
    }
    assert_eq!(rests, [5000, 10_000, 20_000, 40_000, 80_000]);
    assert_eq!(world.texts("local:main").len(), 1);
}

#[tokio::test]
async fn a_lane_whose_runs_are_killed_three_times_in_an_hour_rests_and_says_so_once() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    for _ in 0..4 {
        let handed = world.start(lane).await;
        world.ready(handed.run).await;
        let stuck = Cause::Unwell { reason: "took a message and gave no sign of life".into() };
        world.end(handed.run, End::Exited { code: 137, oom: false }, stuck).await;
    }
    let rest = world.store.waiting_lanes().unwrap()[0].rest_until.unwrap();
    assert_eq!(rest, NOW.plus_ms(3_600_000));
    let told = world.texts("local:main").iter().filter(|text| text.contains("three times")).count();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn a_run_of_a_cleared_session_can_not_write_its_session_back() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.ready(handed.run).await;
    let session = |id: &str| Record { new_session_id: Some(id.into()), ..Record::default() };
    world.store.record(handed.run, 2, session("old"), NOW).await.unwrap();
    world
        .store
        .settle(command("main", 1, br#"{"type":"clear_session","name":"n"}"#), Zones::utc(), NOW)
        .await
        .unwrap();
    world.store.record(handed.run, 3, session("old"), NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    world.message("local:main", "k2", "two", "wake").await;
    assert_eq!(world.start(lane).await.session_id, None);
    assert_eq!(world.store.session_history(&folder("main")).unwrap()[0].session_id, "old");
}

fn command(group: &str, claim: i64, bytes: &[u8]) -> CommandFile {
    CommandFile {
        claim,
        group: folder(group),
        box_name: "tasks".into(),
        name: "x.json".into(),
        origin: format!("file {claim}").into_bytes(),
        run: None,
        written: None,
        taken: None,
        proof: g2::store::Proof::None,
        body: Ok(bytes.to_vec().into()),
        transcripts: Transcripts::new(),
    }
}

#[tokio::test]
async fn a_file_that_comes_back_after_its_receipt_is_not_decided_again() {
    let world = world().await;
    let bytes = br#"{"type":"send_message","requestId":"r","chatJid":"local:main","text":"once"}"#;
    let first = world.store.settle(command("main", 7, bytes), Zones::utc(), NOW).await.unwrap();
    let same_claim = world.store.settle(command("main", 7, bytes), Zones::utc(), NOW).await.unwrap();
    let same_file = CommandFile { claim: 8, ..command("main", 7, bytes) };
    let same_file = world.store.settle(same_file, Zones::utc(), NOW).await.unwrap();
    assert!(first.fresh && !same_claim.fresh && !same_file.fresh);
    assert_eq!(first.receipt.reply, same_file.receipt.reply);
    assert_eq!(world.texts("local:main"), ["once"]);
}

#[tokio::test]
async fn a_file_that_was_rewritten_in_place_is_another_command() {
    let world = world().await;
    let ask = |text: &str| format!(r#"{{"type":"send_message","chatJid":"local:main","text":"{text}"}}"#);
    let linked = |claim, text: &str| CommandFile {
        origin: b"one inode".to_vec(),
        ..command("main", claim, ask(text).as_bytes())
    };
    for (claim, text) in [(1, "a"), (2, "b"), (3, "b")] {
        world.store.settle(linked(claim, text), Zones::utc(), NOW).await.unwrap();
    }
    assert_eq!(world.texts("local:main"), ["a", "b"]);
}

#[tokio::test]
async fn a_batch_that_comes_back_is_whole_whatever_the_limits_are_now() {
    let world = world().await;
    for n in 0..9 {
        world.message("local:main", &format!("k{n}"), &format!("m{n}"), "wake").await;
    }
    let lane = world.lane();
    let first = world.start(lane).await;
    world.end(first.run, End::NeverCreated, Cause::OwnerGone).await;
    let few = HandoverLimits { messages: 2, bytes: 10, context: 1 };
    let again = world.store.start_run(lane, "process", "me", few, NOW).await.unwrap().unwrap();
    let prompt = again.content.prompt(&Zones::utc().of(None));
    assert!((0..9).all(|n| prompt.contains(&format!(">m{n}</message>"))), "{prompt}");
}

#[tokio::test]
async fn a_follow_up_that_could_not_be_placed_waits_again_at_no_cost() {
    let world = world().await;
    world.message("local:main", "k", "one", "wake").await;
    let lane = world.lane();
    let handed = world.start(lane).await;
    world.ready(handed.run).await;
    world.message("local:main", "k2", "two", "wake").await;
    let piped = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert!(world.store.waiting_lanes().unwrap().is_empty());
    world.store.take_back(handed.run, piped.batch).await.unwrap();
    assert_eq!(world.store.waiting_lanes().unwrap().len(), 1);
    let again = world.store.pipe(handed.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    assert_eq!(again.batch, piped.batch);
}

#[tokio::test]
async fn a_request_id_is_answered_once_and_other_bytes_are_a_conflict() {
    let world = world().await;
    let ask = |text: &str| {
        format!(r#"{{"type":"send_message","requestId":"r","chatJid":"local:main","text":"{text}"}}"#)
    };
    let first = world.store.settle(command("main", 1, ask("a").as_bytes()), Zones::utc(), NOW).await.unwrap();
    let again = world.store.settle(command("main", 2, ask("a").as_bytes()), Zones::utc(), NOW).await.unwrap();
    let other = world.store.settle(command("main", 3, ask("b").as_bytes()), Zones::utc(), NOW).await.unwrap();
    assert_eq!(first.receipt.reply, again.receipt.reply);
    assert_eq!(other.receipt.code.as_deref(), Some("conflict"));
    let elsewhere = br#"{"type":"send_message","requestId":"r","chatJid":"local:family","text":"c"}"#;
    let elsewhere = world.store.settle(command("family", 4, elsewhere), Zones::utc(), NOW).await.unwrap();
    assert_eq!(elsewhere.receipt.outcome, "applied", "ids are each group's own");
    let later = NOW.plus_ms(8 * 24 * 3_600_000);
    let forgotten =
        world.store.settle(command("main", 5, ask("b").as_bytes()), Zones::utc(), later).await.unwrap();
    assert_eq!(forgotten.receipt.outcome, "applied", "remembered for seven days");
    assert_eq!(world.texts("local:main"), ["a", "b"]);
}

#[tokio::test]
async fn a_group_can_not_cancel_anothers_task() {
    let world = world().await;
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"interval","schedule_value":"60000","taskId":"mine"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    let cancel = br#"{"type":"cancel_task","taskId":"mine"}"#;
    let foreign = world.store.settle(command("family", 2, cancel), Zones::utc(), NOW).await.unwrap();
    assert_eq!(foreign.receipt.code.as_deref(), Some("not_found"));
    assert_eq!(world.store.tasks(None).unwrap().len(), 1);
    let own = world.store.settle(command("main", 3, cancel), Zones::utc(), NOW).await.unwrap();
    assert_eq!((own.receipt.outcome.as_str(), world.store.tasks(None).unwrap().len()), ("applied", 0));
}

#[tokio::test]
async fn of_each_group_the_task_is_due_that_waits_longest_and_can_be_started() {
    let world = world().await;
    let make = |id: &str, every: i64| {
        format!(
            r#"{{"type":"schedule_task","prompt":"p","schedule_type":"interval","schedule_value":"{every}","taskId":"{id}"}}"#
        )
    };
    for (n, (group, id, every)) in [
        ("main", "late", 90_000),
        ("main", "early", 60_000),
        ("main", "next", 70_000),
        ("family", "theirs", 80_000),
    ]
    .into_iter()
    .enumerate()
    {
        let file = command(group, n as i64 + 1, make(id, every).as_bytes());
        assert_eq!(world.store.settle(file, Zones::utc(), NOW).await.unwrap().receipt.outcome, "applied");
    }
    let due = NOW.plus_ms(100_000);
    let told = |(group, id): (&str, &str)| (folder(group), id.to_owned());
    assert_eq!(world.store.due_tasks(due).unwrap(), [("main", "early"), ("family", "theirs")].map(told));
    world.store.start_task("early", "process", "me", Zones::utc(), due).await.unwrap().unwrap();
    assert_eq!(world.store.due_task_of(&folder("main"), due).unwrap().as_deref(), Some("next"));
    assert_eq!(world.store.due_task_of(&folder("main"), NOW).unwrap(), None);
    let mut shown = Vec::new();
    world
        .store
        .each_task(Some(&folder("main")), |task| {
            shown.push(task.id);
            shown.len() < 2
        })
        .unwrap();
    assert_eq!(shown, ["next", "early"], "newest first, until it is enough");
}

#[tokio::test]
async fn a_slot_of_a_task_runs_once_and_its_next_run_moves_with_the_run_row() {
    let world = world().await;
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"interval","schedule_value":"60000","taskId":"t"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    assert!(world.store.due_tasks(NOW).unwrap().is_empty());
    let due = NOW.plus_ms(60_000);
    assert_eq!(world.store.due_tasks(due).unwrap().len(), 1);
    let handed = world.store.start_task("t", "process", "me", Zones::utc(), due).await.unwrap().unwrap();
    assert_eq!(world.store.task("t").unwrap().unwrap().next_run, Some(NOW.plus_ms(120_000)));
    let later = NOW.plus_ms(120_000);
    assert!(world.store.due_tasks(later).unwrap().is_empty(), "its source has an active run");
    world.store.run_created(handed.run, "c").await.unwrap();
    world.store.run_started(handed.run, due).await.unwrap();
    let done = Record { handled: vec![g2::store::task_batch(handed.run)], ..Record::default() };
    world.store.record(handed.run, 1, done, due).await.unwrap();
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    assert_eq!(world.store.due_tasks(later).unwrap().len(), 1);
}

#[tokio::test]
async fn a_once_task_is_completed_by_success_only() {
    let world = world().await;
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"once","schedule_value":"2020-01-01T00:00:00","taskId":"t"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    let first = world.store.start_task("t", "process", "me", Zones::utc(), NOW).await.unwrap().unwrap();
    world.store.run_created(first.run, "c").await.unwrap();
    world.store.run_started(first.run, NOW).await.unwrap();
    let failed = Record { status: Status::Error, error: Some("no".into()), ..Record::default() };
    world.store.record(first.run, 1, failed, NOW).await.unwrap();
    world.end(first.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
    let task = world.store.task("t").unwrap().unwrap();
    assert_eq!(task.status, "active");
    assert!(task.next_run.is_some_and(|at| at > NOW), "{task:?}");
}

#[tokio::test]
async fn a_chat_is_said_to_in_order_and_rests_when_all_is_said() {
    let world = world().await;
    for (claim, text) in [(1, "a"), (2, "b")] {
        let ask = format!(r#"{{"type":"send_message","chatJid":"local:main","text":"{text}"}}"#);
        world.store.settle(command("main", claim, ask.as_bytes()), Zones::utc(), NOW).await.unwrap();
    }
    let NextDelivery::Now(first) = world.store.begin_delivery("local:main", NOW).await.unwrap() else {
        panic!()
    };
    world.store.delivery_failed(first.id, "away", Some(NOW.plus_ms(1000)), NOW).await.unwrap();
    let next = world.store.begin_delivery("local:main", NOW).await.unwrap();
    assert_eq!(next, NextDelivery::NotBefore(NOW.plus_ms(1000)), "the second waits behind the first");
    assert!(!world.store.chat_at_rest("local:main").unwrap());
    for text in ["a", "b"] {
        let now = NOW.plus_ms(1000);
        let NextDelivery::Now(delivery) = world.store.begin_delivery("local:main", now).await.unwrap() else {
            panic!()
        };
        assert_eq!(delivery.text, text);
        world.store.delivered(delivery.id, now).await.unwrap();
    }
    assert!(world.store.chat_at_rest("local:main").unwrap());
}

#[tokio::test]
async fn a_clock_that_is_set_back_or_forth_loses_no_message_and_changes_no_order() {
    let world = world().await;
    let year = 365 * 86_400_000;
    for (n, now) in [NOW, NOW.plus_ms(-year), NOW.plus_ms(10 * year), Time(0), NOW].into_iter().enumerate() {
        let inbound = Inbound {
            chat_jid: "local:main".into(),
            replay_key: n.to_string(),
            id: n.to_string(),
            sender: "local:me".into(),
            sender_name: "me".into(),
            text: format!("message {n}"),
            at: Some(now),
            ..Inbound::default()
        };
        world.store.accept(inbound, now).await.unwrap();
    }
    world.message("local:main", "last", "message 5", "wake").await;
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    let order: Vec<Option<usize>> = (0..6).map(|n| prompt.find(&format!("message {n}<"))).collect();
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "{prompt}");
}

#[tokio::test]
async fn what_failed_to_be_said_while_the_clock_was_ahead_does_not_wait_for_that_time() {
    let world = world().await;
    let say = br#"{"type":"send_message","chatJid":"local:main","text":"hi"}"#;
    world.store.settle(command("main", 1, say), Zones::utc(), NOW).await.unwrap();
    let next = |now: Time| world.store.begin_delivery("local:main", now);
    let NextDelivery::Now(row) = next(NOW).await.unwrap() else { panic!() };
    let again = NOW.plus_ms(2_000);
    world.store.delivery_failed(row.id, "away", Some(again), NOW).await.unwrap();
    assert_eq!(next(NOW).await.unwrap(), NextDelivery::NotBefore(again));
    world.store.delivery_failed(row.id, "away", Some(NOW.plus_ms(365 * 86_400_000)), NOW).await.unwrap();
    assert!(matches!(next(NOW).await.unwrap(), NextDelivery::Now(_)));
}

#[tokio::test]
async fn a_chat_that_was_unwired_is_given_to_nobody_until_it_is_wired_again() {
    let world = world().await;
    world.message("local:main", "k", "hello", "wake").await;
    let lane = world.lane();
    world.store.remove_wiring(folder("main"), "local:main").await.unwrap();
    assert!(world.store.start_run(lane, "process", "me", LIMITS, NOW).await.unwrap().is_none());
    assert!(
        world.store.waiting_lanes().unwrap().is_empty() && world.store.chat_at_rest("local:main").unwrap()
    );
}

#[tokio::test]
async fn a_mark_that_was_decided_on_before_its_wiring_changed_is_none() {
    let w = world().await;
    for (mode, marked) in [("mention-sticky", true), ("mention", false)] {
        w.store.set_wiring(folder("family"), "local:family", "engage", "mention-sticky").await.unwrap();
        let inbound = Inbound {
            chat_jid: "local:family".into(),
            replay_key: mode.into(),
            id: mode.into(),
            sender: "local:me".into(),
            text: "@G2 hi".into(),
            ..Inbound::default()
        };
        w.store.accept(inbound, NOW).await.unwrap();
        let rows = w.store.unjudged(100).unwrap();
        w.store.set_wiring(folder("family"), "local:family", "engage", mode).await.unwrap();
        let mark = |row: &Unjudged| Judged {
            n: row.n,
            verdict: "wake",
            rule: "trigger",
            reason: "test".into(),
            sticks: true,
            refused: None,
        };
        w.store.judge(rows.iter().map(mark).collect(), NOW).await.unwrap();
        w.store.set_wiring(folder("family"), "local:family", "engage", "mention-sticky").await.unwrap();
        let sticky = w.store.wirings().unwrap().into_iter().any(|wiring| !wiring.sticky.is_empty());
        assert_eq!(sticky, marked, "{mode}");
    }
}
