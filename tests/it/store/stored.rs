//! How much a group has put into the store: counted wherever a row comes from or goes.

use g2::domain::kept::prune::{DAY_MS, History, Horizon, Keep};
use g2::domain::states::CommandOutcome;
use ipc_handlers::Code;
use ipc_handlers::{Command, commands::ListTasks};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A person who asks in the name of a group, with main's rights.
fn main_for(group: &str) -> ipc_handlers::Caller {
    ipc_handlers::Caller { group: folder(group), is_main: true, run: None }
}

#[derive(Clone, Debug)]
enum Step {
    /// A command of one of the two groups, with a text of this many letters.
    Ask(usize, Asked, usize),
    /// A message that is answered by a run, which says so much and ends so.
    Run(usize, usize, i64),
    Prune,
    PutOutArchives,
    /// The group's `HEARTBEAT.md` has this number of tasks, with prompts of this many letters.
    Heartbeat(usize, usize, usize),
    RemoveFamily,
    AddFamily,
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Say,
    Schedule,
    Update,
    /// To a schedule that is longer or shorter, without the script.
    Reschedule,
    Pause,
    Resume,
    Cancel,
    List,
    Archive,
    Nonsense,
    /// By a person: their message is nobody's.
    Person,
}

fn step() -> impl Strategy<Value = Step> {
    use Asked::{Archive, Cancel, List, Nonsense, Pause, Person, Reschedule, Resume, Say, Schedule, Update};
    let asked = prop::sample::select(vec![
        Say, Schedule, Schedule, Update, Reschedule, Pause, Resume, Cancel, List, Archive, Nonsense, Person,
    ]);
    prop_oneof![
        12 => (0..2_usize, asked, 1..5_000_usize).prop_map(|(who, asked, size)| Step::Ask(who, asked, size)),
        3 => (0..2_usize, 1..5_000_usize, 0..2_i64).prop_map(|(who, size, code)| Step::Run(who, size, code)),
        1 => Just(Step::Prune),
        1 => Just(Step::PutOutArchives),
        2 => (0..2_usize, 0..4_usize, 1..500_usize).prop_map(|(who, tasks, size)| Step::Heartbeat(who, tasks, size)),
        1 => Just(Step::RemoveFamily),
        1 => Just(Step::AddFamily),
        1 => Just(Step::Restart),
    ]
}

fn asks(asked: Asked, n: usize, size: usize) -> Value {
    let (text, id) = ("ä".repeat(size), format!("r{n}"));
    match asked {
        Asked::Say | Asked::Person => {
            json!({"type": "send_message", "requestId": id, "chatJid": "local:family", "text": text})
        }
        Asked::Schedule => {
            json!({"type": "schedule_task", "requestId": id, "taskId": format!("t{}", n % 7), "prompt": text,
            "script": "echo", "schedule_type": "interval", "schedule_value": "3600000", "targetJid": "local:family"})
        }
        Asked::Update => json!({"type": "update_task", "taskId": format!("t{}", n % 7), "prompt": text}),
        Asked::Reschedule => {
            let value = if size.is_multiple_of(2) { "0 9 1 1 *" } else { "*/5 0,1,2,3,4,5,6,7,8,9 * * *" };
            json!({"type": "update_task", "taskId": format!("t{}", n % 7), "script": "", "schedule_type": "cron", "schedule_value": value})
        }
        Asked::Pause => json!({"type": "pause_task", "taskId": format!("t{}", n % 7)}),
        Asked::Resume => json!({"type": "resume_task", "taskId": format!("t{}", n % 7)}),
        Asked::Cancel => json!({"type": "cancel_task", "requestId": id, "taskId": format!("t{}", n % 7)}),
        Asked::List => json!({"type": "list_tasks", "requestId": id}),
        Asked::Archive => {
            json!({"type": "archive_session", "sessionId": format!("s{}", n % 4), "name": "n", "content": text})
        }
        Asked::Nonsense => json!({"type": text}),
    }
}

/// Keeps so few replies that some are let go of.
fn bounded(store: Store) -> Store {
    store.bounded(g2::store::Bounds { replies: 40_000, ..g2::store::Bounds::NONE })
}

async fn run(steps: Vec<Step>) {
    let mut world = world().await;
    world.store = bounded(world.store);
    let groups = ["main", "family"];
    for (n, step) in steps.into_iter().enumerate() {
        let claim = i64::try_from(n).unwrap() + 1;
        match step {
            Step::Ask(who, asked, size) => {
                let bytes = asks(asked, n, size).to_string().into_bytes();
                match asked {
                    Asked::Person => {
                        let command = ipc_handlers::parse(&bytes).unwrap().command;
                        let (said, zones) = (Transcripts::new(), Zones::utc());
                        world
                            .store
                            .act(main_for(groups[who]), command, said, zones, NOW)
                            .await
                            .unwrap()
                            .unwrap();
                    }
                    _ => {
                        let file = command(groups[who], claim, &bytes);
                        world.store.settle(file, Zones::utc(), NOW).await.unwrap();
                    }
                }
            }
            Step::Run(who, size, code) => {
                if !world
                    .store
                    .groups()
                    .await
                    .unwrap()
                    .iter()
                    .any(|group| group.folder.as_str() == groups[who])
                {
                    continue;
                }
                world
                    .message(&format!("local:{}", groups[who]), &n.to_string(), "hi", EngageVerdict::Wake)
                    .await;
                let handed = world.start(world.lane()).await;
                world.ready(handed.run).await;
                world.store.record(handed.run, 2, say(&"x".repeat(size), &[]), NOW).await.unwrap();
                let failed =
                    Record { status: Status::Error, error: Some("é".repeat(size)), ..Record::default() };
                world.store.record(handed.run, 3, failed, NOW).await.unwrap();
                world.store.record(handed.run, 4, say("over", &[handed.batch]), NOW).await.unwrap();
                world.end(handed.run, End::Exited { code, oom: false }, Cause::Itself).await;
            }
            Step::Prune => {
                for chat in ["local:main", "local:family"] {
                    while let NextDelivery::Now(row) = world.store.begin_delivery(chat, NOW).await.unwrap() {
                        world.store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap();
                    }
                }
                let keep = Keep {
                    horizon: Horizon::new(NOW.plus_ms(60 * DAY_MS), 30, 0),
                    claimed: Vec::new(),
                    origins: Vec::new(),
                    groups: std::collections::BTreeMap::new(),
                    working: Vec::new(),
                };
                for what in History::ALL {
                    let ids = world.store.next_history(what, &keep, 0, usize::MAX).unwrap();
                    world.store.remove_history(what, keep.clone(), ids).await.unwrap();
                }
            }
            Step::PutOutArchives => {
                world.store.put_out_archives(folder("family"), Some(1), None).await.unwrap();
            }
            Step::Heartbeat(who, tasks, size) => {
                let clock = Zones::utc().of(None);
                let item = |n: usize| {
                    format!("- name: h{n}\n  interval: {}h\n  prompt: {}\n", size, "ö".repeat(size))
                };
                let text = format!("tasks:\n{}", (0..tasks).map(item).collect::<String>());
                let file = g2::domain::runs::heartbeat::read(&text, &clock.zone, NOW);
                assert!(file.tasks.len() == tasks, "{:?}", file.faults);
                world.store.set_heartbeat(folder(groups[who]), file.tasks, clock, NOW).await.unwrap();
            }
            // Its tasks go with it.
            Step::RemoveFamily => {
                drop(world.store.remove_group(folder("family")).await);
                world.store.has_left(folder("family")).await.unwrap();
            }
            // It may be there.
            Step::AddFamily => drop(add_group(&world.store, "family").await),
            Step::Restart => {
                world.store = bounded(Store::open(&world._dir.path().join("g2.sqlite")).unwrap());
            }
        }
        let counted = world.store.counted().unwrap();
        assert_eq!(counted, world.store.recounted().unwrap(), "after step {n}");
        // Of a group that was removed, nothing holds anybody up.
        let there = world.store.groups().await.unwrap();
        let of_groups =
            there.iter().filter_map(|group| Some((&group.folder, counted.get(&group.folder)?.bytes)));
        let of_groups: std::collections::BTreeMap<_, _> = of_groups
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(group, bytes)| (group.clone(), bytes as u64))
            .collect();
        assert_eq!(world.store.stored().unwrap(), of_groups, "after step {n}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_counted_bytes_and_tasks_of_each_group_equal_its_rows(steps in prop::collection::vec(step(), 1..50)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run(steps));
    }
}

#[tokio::test]
async fn an_answer_that_comes_later_and_a_reply_that_is_let_go_of_are_counted() {
    let mut world = world().await;
    world.store = bounded(world.store);
    for claim in 1..4_i64 {
        let search = json!({"type": "search_sessions", "requestId": format!("r{claim}"), "query": "x"});
        let file = command("main", claim, search.to_string().as_bytes());
        let settled = world.store.settle(file, Zones::utc(), NOW).await.unwrap();
        assert_eq!(settled.receipt.reply, None);
        let reply = std::sync::Arc::new(vec![b'x'; 30_000]);
        let answered = world.store.answered(claim, folder("main"), reply, None).await.unwrap().unwrap();
        assert_eq!((answered.reply_bytes(), answered.outcome), (30_000, CommandOutcome::Applied));
        // An answer that may have been seen stays.
        let refusal = Some(ipc_handlers::Refusal::internal());
        let again = world.store.answered(claim, folder("main"), std::sync::Arc::default(), refusal).await;
        assert_eq!(again.unwrap().unwrap(), answered);
        assert_eq!(world.store.counted().unwrap(), world.store.recounted().unwrap());
    }
    assert_eq!(world.store.receipt(1).unwrap().unwrap().reply, None, "let go of");
    assert_eq!(world.store.answered(9, folder("main"), std::sync::Arc::default(), None).await.unwrap(), None);
}

#[tokio::test]
async fn a_group_at_its_limit_in_the_store_may_only_end_and_free_things_and_no_other_is_refused() {
    let mut world = world().await;
    world.store = world.store.bounded(g2::store::Bounds { stored: 100_000, ..g2::store::Bounds::NONE });
    let settle = |group, claim, json: Value| {
        let file = command(group, claim, json.to_string().as_bytes());
        let settling = world.store.settle(file, Zones::utc(), NOW);
        async move { settling.await.unwrap().receipt }
    };
    let text = "x".repeat(30_000);
    let task = |id: &str| {
        json!({"type": "schedule_task", "taskId": id, "prompt": text, "schedule_type": "interval",
            "schedule_value": "3600000", "targetJid": "local:family"})
    };
    for (claim, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        assert_eq!(settle("family", claim, task(id)).await.outcome, CommandOutcome::Applied, "{id}");
    }
    let full = world.store.stored_by(&folder("family")).unwrap();
    assert!((100_000..140_000).contains(&full), "{full}");
    for (claim, json) in [(5, task("e")), (6, json!({"type": "list_tasks", "requestId": "r1"}))] {
        let refused = settle("family", claim, json).await;
        assert_eq!(refused.code, Some(Code::NoRoom), "{refused:?}");
        assert!(refused.hint.unwrap().contains("cancel tasks"));
    }
    let say = |n: &str| json!({"type": "send_message", "chatJid": "local:main", "text": n});
    assert_eq!(settle("main", 7, say("main has room")).await.outcome, CommandOutcome::Applied);
    assert_eq!(
        settle("family", 8, json!({"type": "cancel_task", "taskId": "a"})).await.outcome,
        CommandOutcome::Applied
    );
    assert_eq!(settle("family", 9, task("f")).await.outcome, CommandOutcome::Applied, "there is room again");
    // A person is not asked for room.
    let (list, said) =
        (Command::ListTasks(ListTasks { after: None, limit: None, target_folder: None }), Transcripts::new());
    assert!(world.store.act(main_for("family"), list, said, Zones::utc(), NOW).await.unwrap().is_ok());
}
