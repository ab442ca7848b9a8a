//! The story: messages, commands, tasks and texts, from their arrival to their end.

use std::{collections::BTreeMap, sync::Arc};

use g2_text::Rendered;
use ipc_handlers::{
    Folder, Refusal, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
    wire::{Kind, Record},
};
use rusqlite::Connection;

use super::{super::*, growth, heard_with_writes};
use crate::domain::{
    heard::{
        access,
        engage::{EngageVerdict, Rule},
        origin::Origin,
    },
    platforms::{
        attachments::Attachment,
        channels::{Connection as Connected, Mark, MarkKind, Then},
        chats::{ChatInfo, ChatKind},
    },
    rows::Inbound,
    runs::{
        budget::{Day, Part, Prices},
        judge::{Cause, End},
        usage::{Page, Sum},
    },
    shown::feed::EventKind,
    states::{BudgetState, SandboxName},
    time::zone::Zones,
};

mod questions;

pub(super) const NOW: Time = Time(1_800_000_000_000);
const LIMITS: HandoverLimits = HandoverLimits { messages: 200, bytes: 256 << 10, context: 1 };

pub(super) fn main_folder() -> Folder {
    Folder::parse("main").unwrap()
}

fn wiring() -> NewWiring {
    NewWiring {
        group: main_folder(),
        chat_jid: "local:main".into(),
        engage_mode: EngageMode::Pattern,
        engage_pattern: Some(".".into()),
        sender_scope: SenderScope::All,
        ignored_message_policy: IgnoredMessages::Accumulate,
    }
}

/// A message with a file.
pub(super) fn inbound(key: &str) -> Inbound {
    Inbound {
        chat_jid: "local:main".into(),
        replay_key: key.into(),
        id: key.into(),
        sender: "local:me".into(),
        sender_name: "me".into(),
        text: "hello".into(),
        at: Some(NOW),
        attachments: vec![Attachment {
            name: "a".into(),
            mime: "b/c".into(),
            size: 1,
            digest: Some([0; 32]),
            ..Attachment::default()
        }],
        ..Inbound::default()
    }
}

/// Stores messages and judges them: the last one wakes.
async fn messages(store: &Store, keys: &[&str]) {
    for key in keys {
        store.accept(inbound(key), NOW).await.unwrap();
    }
    let rows = store.unjudged(100).await.unwrap();
    let last = rows.last().unwrap().n;
    let judged = rows.iter().map(|row| Judged {
        n: row.n,
        read_as: row.read_as(),
        verdict: if row.n == last { EngageVerdict::Wake } else { EngageVerdict::Context },
        rule: Rule::Pattern,
        reason: "test".into(),
        sticks: true,
        refused: None,
        answers: None,
    });
    store.judge(judged.collect(), NOW).await.unwrap();
}

/// A command of main.
pub(super) fn file(claim: i64, json: &serde_json::Value, run: Option<i64>) -> CommandFile {
    CommandFile {
        claim,
        group: main_folder(),
        box_name: "tasks".into(),
        name: format!("{claim}.json"),
        origin: claim.to_le_bytes().to_vec(),
        run,
        written: Some(NOW),
        taken: Some(NOW),
        proof: Proof::None,
        digest: digest(json.to_string().as_bytes()),
        body: Ok(Arc::new(Body::of(json.to_string().as_bytes()))),
        refused: None,
        transcripts: Transcripts::new(),
        files: Ok(Vec::new()),
        found: None,
    }
}

async fn lane_run(store: &Store, lane: i64) -> Handed {
    let handed = store.start_run(lane, SandboxName::Process, "me", LIMITS, NOW).await.unwrap().unwrap();
    store.run_created(handed.run, "c").await.unwrap();
    store.run_started(handed.run, NOW).await.unwrap();
    let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
    store.record(handed.run, 1, ready, NOW).await.unwrap();
    handed
}

async fn end(store: &Store, run: i64, code: i64, cause: Cause) {
    let end = EndOfRun {
        run,
        end: End::Exited { code, oom: false },
        cause,
        input: Some(Vec::new()),
        files_bytes: 0,
        retry_base_ms: 1,
        tell_retry_ms: None,
    };
    store.end_run(end, Zones::utc(), NOW).await.unwrap();
}

/// From messages to what is said, with a follow-up, a failure and a second try.
async fn of_messages(store: &Store) {
    messages(store, &["1", "2", "3"]).await;
    let moved = Inbound { origin: Origin::Edited, quiet: true, id: "1".into(), ..inbound("1 moved") };
    store.accept(Inbound { text: "moved".into(), ..moved }, NOW).await.unwrap();
    store.quoted("local:main", "1").await.unwrap().unwrap();
    assert!(store.quoted("local:main", "unknown").await.unwrap().is_none());
    store.run_adopted(1, "me").await.unwrap();
    let lane = store.waiting_lanes_of(&main_folder()).unwrap()[0].lane;
    assert_eq!(store.lanes(&[lane]).unwrap().len(), 1);
    store.wake_lane(lane).await.unwrap();
    let first = lane_run(store, lane).await;
    store.group(&main_folder()).await.unwrap();
    store.group_uid(&main_folder()).unwrap();
    store.has_group(&main_folder()).unwrap();
    store.set_group_uid(main_folder(), Some(200_001)).await.unwrap();
    store.folder_had_files(&main_folder()).unwrap();
    store.fallback_of(&main_folder(), NOW).unwrap();
    let zones = Zones::utc();
    store.falls_back((&main_folder(), 1), "small".into(), zones, NOW).await.unwrap();
    store.note_folders(vec![(main_folder(), true)]).await.unwrap();
    store.requests_by_hand(&main_folder(), first.run, NOW, 64).unwrap();
    store.zone_of(&main_folder(), &Zones::utc()).await.unwrap();
    assert!(
        store.active_run(first.run).unwrap().is_some()
            && store.active_run_of(&main_folder()).unwrap().is_some()
    );
    messages(store, &["4"]).await;
    let second = store.pipe(first.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    store.take_back(first.run, second.batch).await.unwrap();
    let second = store.pipe(first.run, lane, LIMITS, NOW).await.unwrap().unwrap();
    store.batches_claimed(first.run, vec![second.batch]).await.unwrap();
    store.batch_content(second.batch, LIMITS).unwrap().unwrap();
    assert!(store.place_of_batch(second.batch).unwrap().is_some());
    assert_eq!(store.in_hand().unwrap().len(), 2);
    assert!(
        store.amends(None).await.unwrap().is_empty() && store.amends(Some("c")).await.unwrap().is_empty()
    );
    let sign = store.put_sign(second.batch, "c", "m").await.unwrap();
    store.name_sign(sign, "s".into()).await.unwrap();
    store.drop_amend(sign).await.unwrap();
    let answer = Record {
        result: Some("hi".into()),
        new_session_id: Some("s".into()),
        handled: vec![batch_name(first.batch)],
        ..Record::default()
    };
    store.record(first.run, 2, answer, NOW).await.unwrap();
    store.record(first.run, 3, Record { kind: Kind::Deferred, ..Record::default() }, NOW).await.unwrap();
    store.run_closing(first.run, NOW).await.unwrap();
    store.rules_outside(&main_folder(), &[]).unwrap();
    store
        .add_usage(
            [(
                first.run,
                Page {
                    refused: 1,
                    models: [("m".into(), Sum::default())].into(),
                    kept_in: [("a.example:443".into(), ("not allowed".into(), 1))].into(),
                    ..Page::default()
                },
            )]
            .into(),
            NOW,
        )
        .await
        .unwrap();
    end(store, first.run, 3, Cause::Itself).await;
    let again = store.start_run(lane, SandboxName::Process, "me", LIMITS, NOW).await.unwrap().unwrap();
    store.run_created(again.run, "c").await.unwrap();
    store.run_ready_without_saying_so(again.run, NOW).await.unwrap();
    // Killed three times, so that it rests.
    for _ in 0..3 {
        let run = store.active_run_of(&main_folder()).unwrap().unwrap();
        end(store, run, 137, Cause::Unwell { reason: "is stuck".into() }).await;
        lane_run(store, lane).await;
    }
    let run = store.active_run_of(&main_folder()).unwrap().unwrap();
    end(store, run, 0, Cause::Closed).await;
    store.standing("local:me", &main_folder()).await.unwrap();
}

async fn of_commands(store: &Store) {
    let commands = [
        serde_json::json!({"type": "send_message", "requestId": "a", "chatJid": "local:main", "text": "x"}),
        serde_json::json!({"type": "send_message", "requestId": "a", "chatJid": "local:main", "text": "x"}),
        serde_json::json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "interval", "schedule_value": "60000"}),
        serde_json::json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "* * * * *"}),
        serde_json::json!({"type": "update_task", "taskId": "t", "prompt": "q"}),
        serde_json::json!({"type": "pause_task", "taskId": "t"}),
        serde_json::json!({"type": "resume_task", "taskId": "t"}),
        serde_json::json!({"type": "cancel_task", "taskId": "task-2"}),
        serde_json::json!({"type": "list_tasks"}),
        serde_json::json!({"type": "archive_session", "sessionId": "s", "name": "n", "content": "words"}),
        serde_json::json!({"type": "search_sessions", "query": "words"}),
        serde_json::json!({"type": "resume_session", "sessionHistoryId": 1}),
        serde_json::json!({"type": "clear_session", "name": "n"}),
        serde_json::json!({"type": "register_group", "jid": "local:new", "name": "New", "folder": "new", "trigger": "@New"}),
        serde_json::json!({"type": "nonsense"}),
    ];
    for (claim, command) in (1..).zip(&commands) {
        let file = file(claim, command, None);
        store.settle_all(vec![file], Zones::utc(), NOW).await.unwrap()[0].as_ref().unwrap();
        store.receipt(claim).unwrap().unwrap();
    }
    store.settle(file(20, &commands[0], None), Zones::utc(), NOW).await.unwrap();
    store.refuse(file(21, &commands[0], None), Refusal::internal(), NOW).await.unwrap();
    let (search, reply) = (11, Arc::new(vec![b'x'; 20_000]));
    store.answered(search, main_folder(), reply, None).await.unwrap().unwrap();
    for group in [None, Some(&main_folder())] {
        store.each_shown_task(group, 1 << 20, &Zones::utc(), |_| true).unwrap();
    }
    store.main_group().unwrap().unwrap();
    store.is_main(&main_folder()).unwrap().unwrap();
    assert!(store.is_of(1, &main_folder()).unwrap());
    let mut indexer = store.indexer().unwrap();
    while indexer.work().unwrap() {}
    for query in ["words", "w", ""] {
        store.indexed(&main_folder()).await.unwrap();
        assert!(store.is_indexed(&main_folder()).unwrap());
        store.search(&main_folder(), query, 1, true, &(Arc::new(|| false) as Stop)).unwrap();
    }
    store.chat_of_main().await.unwrap();
    store.session_history(&main_folder(), 1 << 20).unwrap();
    store.put_out_archives(main_folder(), Some(0), Some(0)).await.unwrap();
}

async fn of_tasks(store: &Store) {
    let due = NOW.plus_ms(120_000);
    assert!(store.next_due(NOW).unwrap().is_some() && store.task(&main_folder(), "t").unwrap().is_some());
    assert_eq!(store.due_tasks(due).unwrap().len(), 1);
    assert!(store.due_task_of(&main_folder(), due).unwrap().is_some());
    for code in [3, 0] {
        let handed = store
            .start_task(&main_folder(), "t", SandboxName::Process, "me", Zones::utc(), due)
            .await
            .unwrap()
            .run()
            .unwrap();
        let clock = TaskClock::from(Zones::utc());
        let passed = store.skip_slots(&main_folder(), "t", &clock, due.plus_ms(600_000)).await.unwrap();
        assert!(!passed.is_empty() && store.kept_result(handed.run).unwrap().is_some());
        store.run_created(handed.run, "c").await.unwrap();
        let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
        store.record(handed.run, 1, ready, NOW).await.unwrap();
        if code == 0 {
            let handled = vec![task_batch(handed.run)];
            let done = Record { result: Some("done".into()), handled, ..Record::default() };
            store.record(handed.run, 2, done, NOW).await.unwrap();
        }
        end(store, handed.run, code, Cause::Itself).await;
        store.run_task_now(&main_folder(), "t", due).await.unwrap();
    }
}

async fn of_platforms(store: &Store) {
    let mark = Mark {
        chat_jid: "local:main".into(),
        replay_key: "m".into(),
        message_id: "1".into(),
        sender: "me".into(),
        kind: MarkKind::Reaction,
        reaction: "+".into(),
    };
    assert!(store.mark_message(mark, NOW).await.unwrap());
    assert_eq!(store.marks_of("local:main", "1").await.unwrap().len(), 1);
    let info = ChatInfo {
        name: "Main".into(),
        kind: ChatKind::Direct,
        threaded: false,
        members: Some(2),
        hears_all: None,
    };
    store.know_chat("local:main".into(), info, NOW).await.unwrap();
    store.set_connection("local".into(), Connected::Connected, None, NOW).await.unwrap();
    assert_eq!(store.connections().await.unwrap().len(), 1);
}

/// What a group used of a day, and how its budget stands while something waits.
async fn of_budgets(store: &Store) {
    let day = Day { start: Time(0), end: NOW.plus_ms(1) };
    let used = store.used_of_day(&main_folder(), day, &Prices::default(), NOW).unwrap();
    assert!(used.ran_ms == 0 && used.requests == 0);
    let what = Some((Part::Requests, "1 of 1 requests".to_owned()));
    let row = BudgetRow { group: main_folder(), day, state: BudgetState::Out, what };
    let news = BudgetNews { row, warning: Some("nearly".into()), notice: Some("used up".into()) };
    store.note_budget(news, NOW).await.unwrap();
}

async fn of_the_feed(store: &Store) {
    let mut feed = store.follow().await.unwrap();
    let mut questions = store.follow_kinds(&[EventKind::Question]).await;
    messages(store, &["for the feed"]).await;
    assert!(questions.look().await.unwrap().events.is_empty());
    assert!(feed.look().await.unwrap().any(&[EventKind::Judged]));
    let newest = store.newest_event().await.unwrap();
    assert!(store.events_after(newest - 3, 2).await.unwrap().len() == 2);
    store.look_at_feed().await.unwrap();
    while store.trim_events(Time(i64::MAX)).await.unwrap() {}
    let left: Vec<i64> = store.events_after(0, 2).await.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(left, [newest], "the newest event stays");
    assert_eq!(*store.bell().borrow(), newest, "no number is given again");
}

async fn of_the_outbox(store: &Store) {
    assert_eq!(store.chats_with_outbox().await.unwrap(), ["local:main"]);
    let NextDelivery::Now(first) = store.next_delivery("local:main", NOW).await.unwrap() else { panic!() };
    assert!(store.mark_delivery(first.id, "local:main", NOW).await.unwrap());
    let NextDelivery::Now(first) = store.begin_delivery("local:main", NOW).await.unwrap() else { panic!() };
    let text = |text: &str| Rendered { text: text.to_owned(), ..Rendered::default() };
    let part = |words: &str| OutboxPart { text: Some(text(words)), files: None, platform_id: None };
    store.lay_parts(first.id, vec![part("a"), part("b")]).await.unwrap();
    store.part_sent(first.id, 1, "p1".into(), NOW).await.unwrap();
    store.part_changed(first.id, 1, text("c")).await.unwrap();
    store.part_removed(first.id, 3).await.unwrap();
    assert_eq!(store.parts_of(first.id).await.unwrap().len(), 2);
    assert!(store.attachments_said(first.id).await.unwrap().is_empty());
    assert_eq!(store.attachments(1).await.unwrap().len(), 1);
    assert_eq!(store.media_use("local:main", NOW).await.unwrap().all, 1);
    assert_eq!(store.room_taken(&main_folder(), "local:main", NOW).unwrap().0.all, 1);
    assert!(store.names_file(&[0; 32]).unwrap());
    store.more_ids(first.id, vec!["p1b".into()]).await.unwrap();
    assert_eq!(store.said_as("local:main", "p1").await.unwrap(), Some(first.id));
    assert_eq!(store.said_as("local:main", "p1b").await.unwrap(), Some(first.id));
    store
        .delivery_failed(first.id, "away", Then::Again { after_ms: 0, counts: true }, None, NOW)
        .await
        .unwrap();
    let NextDelivery::Now(first) = store.begin_delivery("local:main", NOW).await.unwrap() else { panic!() };
    store.delivered(first.id, 2, "p2".into(), NOW).await.unwrap();
    let NextDelivery::Now(next) = store.begin_delivery("local:main", NOW).await.unwrap() else { panic!() };
    store.delivered(next.id, 1, "p3".into(), NOW).await.unwrap();
    store.shown_so_far(&next, NOW, NOW).await.unwrap();
    assert!(!store.said_all("local:main", NOW).await.unwrap());
    assert!(store.last_sent("local:main").await.unwrap() > 0);
    assert!(store.newest_message("local:main").await.unwrap().is_some());
    assert!(!store.heard_since("local:main", 0, 100).await.unwrap().is_empty());
    let said = store.said_since("local:main", 0, 100, 1 << 20).await.unwrap();
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(!store.chat_at_rest("local:main").await.unwrap());
    store.outbox(Some("local:main"), Some(1)).await.unwrap();
    store.tell("local:main".into(), "no room".into(), "no room".into(), NOW).await.unwrap();
    for seq in 1..=4 {
        store.why(seq, NOW).unwrap().unwrap();
    }
}

/// What a start and `status` ask.
async fn of_starts(store: &Store) {
    store.waiting_lanes().unwrap();
    store.messages_waiting().unwrap();
    store.active_runs().unwrap();
    store.last_claim().unwrap();
    store.recover_deliveries(vec!["local".into()]).await.unwrap();
    store.outbox_pending().await.unwrap();
    store.dead_commands().unwrap();
    store.stale_recoveries(NOW).unwrap();
    store.available_groups(1 << 20).unwrap();
    store.holds().unwrap();
    store.held_messages().await.unwrap();
    assert!(store.stored_by(&main_folder()).unwrap() > 0 && !store.stored().unwrap().is_empty());
    store.health(NOW).unwrap();
    store.ledger(NOW).unwrap();
    store.wirings().await.unwrap();
    store.expire_approvals(NOW).await.unwrap();
    store.expire_questions(NOW).await.unwrap();
    assert!(store.approvals(false).await.unwrap().is_empty() && store.who_is_asked().await.unwrap().is_ok());
}

/// A store with a main group that is wired to a chat.
pub(super) async fn with_main() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let group = NewGroup { folder: main_folder(), name: "Main".into(), is_main: true, trigger: "@G2".into() };
    store.add_group(group, vec![wiring()], NOW).await.unwrap();
    (dir, store)
}

/// Tells the story on a store that has seen so much before.
pub(super) async fn the_story(history: i64) -> (tempfile::TempDir, Store, BTreeMap<String, i64>) {
    let (dir, store) = with_main().await;
    if history > 0 {
        growth::history(&Connection::open(store.path()).unwrap(), history);
    }
    let heard = heard_with_writes(&store, async {
        of_messages(&store).await;
        of_commands(&store).await;
        of_tasks(&store).await;
        of_the_outbox(&store).await;
        questions::of_questions(&store).await;
        of_platforms(&store).await;
        of_the_feed(&store).await;
        of_budgets(&store).await;
        of_starts(&store).await;
    })
    .await;
    (dir, store, heard)
}
