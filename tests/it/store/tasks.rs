//! When tasks are due, and what their runs make of them.

use g2::domain::states::CommandOutcome;
use g2::domain::states::SandboxName;
use g2::{domain::runs::tasks::TaskLimits, store::Bounds};
use ipc_handlers::Code;
use ipc_handlers::TaskStatus;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_group_can_not_cancel_anothers_task() {
    let world = world().await;
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"interval","schedule_value":"60000","taskId":"mine"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    let cancel = br#"{"type":"cancel_task","taskId":"mine"}"#;
    let foreign = world.store.settle(command("family", 2, cancel), Zones::utc(), NOW).await.unwrap();
    assert_eq!(foreign.receipt.code, Some(Code::NotFound));
    assert_eq!(world.store.tasks(None, None).unwrap().len(), 1);
    let own = world.store.settle(command("main", 3, cancel), Zones::utc(), NOW).await.unwrap();
    assert_eq!((own.receipt.outcome.as_str(), world.store.tasks(None, None).unwrap().len()), ("applied", 0));
}

fn schedule(id: Option<&str>, prompt: &str) -> Vec<u8> {
    let mut json = json!({"type": "schedule_task", "prompt": prompt, "schedule_type": "interval", "schedule_value": "60000"});
    if let Some(id) = id {
        json["taskId"] = id.into();
    }
    json.to_string().into_bytes()
}

/// The id that a task was made under.
fn made(settled: &g2::store::Settled) -> String {
    let reply: serde_json::Value = serde_json::from_slice(settled.receipt.reply.as_ref().unwrap()).unwrap();
    reply["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[tokio::test]
async fn ids_that_a_group_has_taken_are_free_for_every_other() {
    let world = world().await;
    let mut claim = 0;
    let mut make = |group: &str, id: Option<&str>| {
        claim += 1;
        world.store.settle(command(group, claim, &schedule(id, "p")), Zones::utc(), NOW)
    };
    // All that we would give, taken beforehand.
    for n in 1..=40 {
        assert_eq!(made(&make("family", Some(&format!("task-{n}"))).await.unwrap()), format!("task-{n}"));
    }
    assert_eq!(made(&make("main", None).await.unwrap()), "task-41");
    assert_eq!(made(&make("main", Some("task-7")).await.unwrap()), "task-7");
    assert_eq!(make("main", Some("task-7")).await.unwrap().receipt.code, Some(Code::Conflict));
    // In its own way alone: its next number is taken by itself.
    make("family", Some("task-44")).await.unwrap();
    let own = made(&make("family", None).await.unwrap());
    assert!(own.starts_with("task-44-") && own.len() == "task-44-".len() + 8, "{own}");
    assert_eq!(world.store.groups_of_task("task-7").unwrap(), [folder("family"), folder("main")]);
    assert_eq!(world.store.tasks(None, None).unwrap().len(), 44);
}

#[tokio::test]
async fn a_task_of_the_same_id_in_another_group_is_another_task() {
    let world = world().await;
    let mut claim = 0;
    let mut tell = |group: &str, json: serde_json::Value| {
        claim += 1;
        world.store.settle(command(group, claim, json.to_string().as_bytes()), Zones::utc(), NOW)
    };
    for group in ["main", "family"] {
        let json = json!({"type": "schedule_task", "taskId": "t", "prompt": group, "schedule_type": "once", "schedule_value": "2027-01-15T08:00:00"});
        assert_eq!(tell(group, json).await.unwrap().receipt.outcome, CommandOutcome::Applied);
    }
    // Both run at the same time, for the same slot.
    let mut runs = Vec::new();
    for group in ["main", "family"] {
        assert_eq!(world.store.due_task_of(&folder(group), NOW).unwrap().as_deref(), Some("t"));
        let handed = world
            .store
            .start_task(&folder(group), "t", SandboxName::Process, "me", Zones::utc(), NOW)
            .await
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(handed.task.prompt, group);
        world.store.run_created(handed.run, "c").await.unwrap();
        world.store.run_started(handed.run, NOW).await.unwrap();
        runs.push(handed.run);
    }
    let said = Record {
        result: Some("of main".into()),
        handled: vec![g2::store::task_batch(runs[0])],
        ..Record::default()
    };
    world.store.record(runs[0], 1, said, NOW).await.unwrap();
    world.end(runs[0], End::Exited { code: 0, oom: false }, Cause::Closed).await;
    let state = |group: &str| {
        let task = world.store.task(&folder(group), "t").unwrap().unwrap();
        (task.status, task.last_result)
    };
    assert_eq!(state("main"), (TaskStatus::Completed, Some("of main".into())));
    assert_eq!(state("family"), (TaskStatus::Active, None));
    let ran = |group: &str| {
        world
            .store
            .task_history(&folder(group), "t", None)
            .unwrap()
            .iter()
            .filter_map(|slot| slot.run)
            .collect::<Vec<_>>()
    };
    assert_eq!((ran("main"), ran("family")), (vec![runs[0]], vec![runs[1]]));
    // Main's own comes first, though others have one; others' it names.
    tell("main", json!({"type": "update_task", "taskId": "t", "targetFolder": "family", "prompt": "new"}))
        .await
        .unwrap();
    tell("main", json!({"type": "cancel_task", "taskId": "t"})).await.unwrap();
    assert!(world.store.task(&folder("main"), "t").unwrap().is_none());
    assert_eq!(world.store.task(&folder("family"), "t").unwrap().unwrap().prompt, "new");
    tell("main", json!({"type": "pause_task", "taskId": "t"})).await.unwrap();
    let trace = world.store.story(5, NOW).unwrap().unwrap();
    assert_eq!(trace.effects[0].state.as_deref(), Some("paused"));
}

/// Gives a group tasks as a version of before let it have them.
fn heavy(world: &World, group: &str, count: usize, bytes: usize) {
    let connection = rusqlite::Connection::open(world.store.path()).unwrap();
    for n in 0..count {
        connection
            .execute(
                "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, created_at)
                 VALUES (?1, ?2, 'local:main', ?3, 'interval', '60000', 'isolated', 'paused', 0)",
                (format!("heavy-{n}"), group, "p".repeat(bytes)),
            )
            .unwrap();
    }
}

fn reply(settled: &g2::store::Settled) -> serde_json::Value {
    serde_json::from_slice(settled.receipt.reply.as_ref().unwrap()).unwrap()
}

#[tokio::test]
async fn a_group_has_at_most_its_limit_of_tasks_and_bytes_and_keeps_old_ones() {
    let world = world().await;
    let tasks = TaskLimits { count: 3, bytes: 1_000, prompt: 600, script: 100 };
    let store = world.store.clone().bounded(Bounds { tasks, ..Bounds::NONE });
    let mut claim = 0;
    let mut tell = |group: &str, json: serde_json::Value| {
        claim += 1;
        let settling = store.settle(command(group, claim, json.to_string().as_bytes()), Zones::utc(), NOW);
        async { settling.await.unwrap().receipt.reason.unwrap_or_default() }
    };
    let make = |id: &str, prompt: usize| json!({"type": "schedule_task", "taskId": id, "prompt": "p".repeat(prompt), "schedule_type": "interval", "schedule_value": "60000"});
    let change =
        |id: &str, prompt: usize| json!({"type": "update_task", "taskId": id, "prompt": "p".repeat(prompt)});
    let too_long = "the prompt of a task has 601 bytes; the limit is 600";
    assert_eq!(tell("family", make("a", 601)).await, too_long);
    assert_eq!(tell("family", make("a", 600)).await, "");
    assert!(tell("family", make("b", 400)).await.contains("more than 1000 bytes together"));
    assert_eq!(tell("family", make("b", 300)).await, "");
    assert_eq!(tell("family", change("b", 601)).await, too_long);
    assert!(tell("family", change("b", 500)).await.contains("more than 1000 bytes together"));
    let mut script = make("c", 1);
    script["script"] = "x".repeat(101).into();
    assert_eq!(tell("family", script).await, "the script of a task has 101 bytes; the limit is 100");
    assert_eq!(tell("family", make("c", 1)).await, "");
    assert_eq!(
        tell("family", make("d", 1)).await,
        "the group \"family\" has as many tasks as it may have, 3"
    );
    // Another group has room of its own.
    assert_eq!(tell("main", make("a", 600)).await, "");
    // What was there before the limits can be made less, and stays otherwise.
    heavy(&world, "main", 5, 700);
    assert!(tell("main", change("a", 601)).await.contains("limit"));
    assert_eq!(tell("main", change("heavy-0", 600)).await, "");
    assert_eq!(tell("main", json!({"type": "resume_task", "taskId": "heavy-1"})).await, "");
    assert_eq!(tell("main", json!({"type": "cancel_task", "taskId": "heavy-1"})).await, "");
    assert!(tell("main", make("e", 1)).await.contains("as many tasks as it may have"));
    assert_eq!(store.tasks(None, None).unwrap().len(), 3 + 5);
}

#[tokio::test]
async fn a_list_is_a_page_of_a_mebibyte_and_its_pages_are_the_whole() {
    let world = world().await;
    heavy(&world, "family", 40, 1 << 20);
    let (mut shown, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        pages += 1;
        let mut list =
            json!({"type": "list_tasks", "requestId": format!("r{pages}"), "targetFolder": "family"});
        if let Some(after) = &after {
            list["after"] = serde_json::Value::clone(after);
        }
        let file = command("main", pages, list.to_string().as_bytes());
        let settled = world.store.settle(file, Zones::utc(), NOW).await.unwrap();
        assert!(settled.receipt.reply.as_ref().unwrap().len() <= 1 << 20);
        let result = &reply(&settled)["result"];
        for task in result["tasks"].as_array().unwrap() {
            assert_eq!((task["prompt"].as_str().unwrap().len(), &task["cut"]), (64 << 10, &json!(true)));
            shown.push(task["id"].as_str().unwrap().to_owned());
        }
        match result.get("next") {
            Some(next) => after = Some(next.clone()),
            None => break,
        }
    }
    let newest_first: Vec<String> = (0..40).rev().map(|n| format!("heavy-{n}")).collect();
    assert_eq!(shown, newest_first);
    assert!(pages > 5, "{pages}");
    let three = br#"{"type":"list_tasks","requestId":"three","limit":3}"#;
    let settled = world.store.settle(command("family", 100, three), Zones::utc(), NOW).await.unwrap();
    assert_eq!(reply(&settled)["result"]["tasks"].as_array().unwrap().len(), 3);
    // A snapshot of the same: a mark says what it leaves out, and another group's are all there.
    heavy(&world, "main", 20, 100);
    let (mut of_main, mut left_out, mut bytes) = (0, 0, 0);
    world
        .store
        .each_shown_task(None, 1 << 20, &Zones::utc(), |row| {
            of_main += usize::from(row.group_folder == "main");
            left_out += row.more;
            bytes += serde_json::to_string_pretty(&row).unwrap().len();
            true
        })
        .unwrap();
    assert_eq!(of_main, 20);
    assert!(left_out > 30 && bytes <= 1 << 20, "{left_out} {bytes}");
}

#[tokio::test]
async fn replies_are_bounded_in_one_commit_and_in_all_and_a_repeated_request_is_answered() {
    let world = world().await;
    let store = world.store.clone().bounded(Bounds { replies: 3 << 20, ..Bounds::NONE });
    heavy(&world, "family", 10, 60_000);
    let list = |claim: i64, request: usize| {
        command("family", claim, format!(r#"{{"type":"list_tasks","requestId":"r{request}"}}"#).as_bytes())
    };
    let mut waiting: Vec<CommandFile> = (0..20).map(|n| list(n + 1, usize::try_from(n).unwrap())).collect();
    let mut commits = 0;
    let mut first = None;
    while !waiting.is_empty() {
        let settled = store.settle_all(waiting.clone(), Zones::utc(), NOW).await.unwrap();
        let bytes: usize = settled.iter().map(|one| one.as_ref().unwrap().receipt.reply_bytes()).sum();
        assert!(bytes < 2 << 20, "{bytes} in one commit");
        first = first.or_else(|| settled.first().map(|one| reply(one.as_ref().unwrap())));
        waiting.drain(..settled.len());
        commits += 1;
    }
    assert!(commits >= 8, "{commits}");
    let kept = || -> (i64, i64) {
        rusqlite::Connection::open(store.path())
            .unwrap()
            .query_row("SELECT count(reply), sum(length(reply)) FROM receipts", [], |r| {
                Ok((r.get(0)?, r.get(1)?))
            })
            .unwrap()
    };
    assert!(kept().1 <= 3 << 20 && kept().0 >= 3, "{:?}", kept());
    // The newest is replied again as it was; the oldest, which is not kept, anew. So is one whose daemon died before it
    // was replied.
    let change = br#"{"type":"cancel_task","taskId":"heavy-0"}"#;
    store.settle(command("family", 50, change), Zones::utc(), NOW).await.unwrap();
    let count = |settled: &g2::store::Settled| reply(settled)["result"]["tasks"].as_array().unwrap().len();
    let newest = store.settle(list(51, 19), Zones::utc(), NOW).await.unwrap();
    let shown = first.unwrap()["result"]["tasks"].as_array().unwrap().len();
    assert_eq!(count(&newest), shown);
    assert_eq!(reply(&newest)["result"]["next"], json!(3));
    let oldest = store.settle(list(52, 0), Zones::utc(), NOW).await.unwrap();
    assert_eq!((count(&oldest), &reply(&oldest)["requestId"]), (shown, &json!("r0")));
    let not_answered_yet = store.settle(list(1, 0), Zones::utc(), NOW).await.unwrap();
    assert!(!not_answered_yet.fresh && count(&not_answered_yet) == shown);
    assert!(kept().1 <= 3 << 20);
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
        assert_eq!(
            world.store.settle(file, Zones::utc(), NOW).await.unwrap().receipt.outcome,
            CommandOutcome::Applied
        );
    }
    let due = NOW.plus_ms(100_000);
    let told = |(group, id): (&str, &str)| (folder(group), id.to_owned());
    assert_eq!(world.store.due_tasks(due).unwrap(), [("main", "early"), ("family", "theirs")].map(told));
    world
        .store
        .start_task(&folder("main"), "early", SandboxName::Process, "me", Zones::utc(), due)
        .await
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(world.store.due_task_of(&folder("main"), due).unwrap().as_deref(), Some("next"));
    assert_eq!(world.store.due_task_of(&folder("main"), NOW).unwrap(), None);
    let mut shown = Vec::new();
    world
        .store
        .each_shown_task(Some(&folder("main")), 1 << 20, &Zones::utc(), |task| {
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
    let handed = world
        .store
        .start_task(&folder("main"), "t", SandboxName::Process, "me", Zones::utc(), due)
        .await
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(world.store.task(&folder("main"), "t").unwrap().unwrap().next_run, Some(NOW.plus_ms(120_000)));
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
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"once","schedule_value":"2027-01-15T08:00:00","taskId":"t"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    let first = world
        .store
        .start_task(&folder("main"), "t", SandboxName::Process, "me", Zones::utc(), NOW)
        .await
        .unwrap()
        .run()
        .unwrap();
    world.store.run_created(first.run, "c").await.unwrap();
    world.store.run_started(first.run, NOW).await.unwrap();
    let failed = Record { status: Status::Error, error: Some("no".into()), ..Record::default() };
    world.store.record(first.run, 1, failed, NOW).await.unwrap();
    world.end(first.run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
    let task = world.store.task(&folder("main"), "t").unwrap().unwrap();
    assert_eq!(task.status, TaskStatus::Active);
    assert!(task.next_run.is_some_and(|at| at > NOW), "{task:?}");
}

/// Makes a `once` task that is due, and starts it.
async fn started_once(world: &World) -> i64 {
    let make = br#"{"type":"schedule_task","prompt":"p","schedule_type":"once","schedule_value":"2027-01-15T08:00:00","taskId":"t"}"#;
    world.store.settle(command("main", 1, make), Zones::utc(), NOW).await.unwrap();
    start_once(world).await
}

async fn start_once(world: &World) -> i64 {
    let handed = start(world, "t", NOW).await.unwrap();
    world.store.run_created(handed.run, "c").await.unwrap();
    world.store.run_started(handed.run, NOW).await.unwrap();
    let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
    world.store.record(handed.run, 1, ready, NOW).await.unwrap();
    handed.run
}

#[tokio::test]
async fn a_run_that_dies_during_its_background_work_has_failed_whatever_it_had_handled() {
    for (dies, error) in [
        (End::Exited { code: 3, oom: false }, "exited with code 3"),
        (End::Exited { code: 0, oom: false }, "ended with a message in hand"),
    ] {
        let world = world().await;
        let run = started_once(&world).await;
        let handled = vec![g2::store::task_batch(run)];
        let deferred = Record { kind: Kind::Deferred, handled, ..Record::default() };
        world.store.record(run, 2, deferred, NOW).await.unwrap();
        world.end(run, dies, Cause::Itself).await;
        let task = world.store.task(&folder("main"), "t").unwrap().unwrap();
        assert_eq!(task.status, TaskStatus::Active, "{task:?}");
        assert!(task.next_run.is_some_and(|at| at > NOW), "{task:?}");
        let history = world.store.runs(None).unwrap();
        assert_eq!(history[0].error.as_deref(), Some(error));
    }
}

#[tokio::test]
async fn background_work_that_reports_an_error_has_failed_and_its_chat_is_told_where_something_was_said() {
    let world = world().await;
    let run = started_once(&world).await;
    let handled = vec![g2::store::task_batch(run)];
    let deferred = Record { kind: Kind::Deferred, handled, ..Record::default() };
    world.store.record(run, 2, deferred, NOW).await.unwrap();
    let say = br#"{"type":"send_message","chatJid":"local:main","text":"begun"}"#;
    let file = CommandFile { run: Some(run), ..command("main", 2, say) };
    world.store.settle(file, Zones::utc(), NOW).await.unwrap();
    let failed = Record { status: Status::Error, error: Some("no".into()), ..Record::default() };
    world.store.record(run, 3, failed, NOW).await.unwrap();
    world.end(run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    let task = world.store.task(&folder("main"), "t").unwrap().unwrap();
    assert_eq!((task.status, task.last_result.as_deref()), (TaskStatus::Completed, Some("Error: no")));
    let told = "Scheduled task t (“p”) was interrupted (there was an error) after it had begun, so it is not started over.";
    assert_eq!(world.texts("local:main").await, ["begun", told]);
}

#[tokio::test]
async fn background_work_that_ends_well_completes_its_task() {
    let world = world().await;
    let run = started_once(&world).await;
    let handled = vec![g2::store::task_batch(run)];
    let deferred = Record { kind: Kind::Deferred, handled, ..Record::default() };
    world.store.record(run, 2, deferred, NOW).await.unwrap();
    let done = Record { result: Some("all done".into()), ..Record::default() };
    world.store.record(run, 3, done, NOW).await.unwrap();
    world.end(run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    let task = world.store.task(&folder("main"), "t").unwrap().unwrap();
    assert_eq!((task.status, task.last_result.as_deref()), (TaskStatus::Completed, Some("all done")));
}

async fn start(world: &World, id: &str, now: Time) -> Option<g2::store::HandedTask> {
    started(world, id, now).await.run()
}

/// Starts a task of main as a daemon does that was never down.
async fn started(world: &World, id: &str, now: Time) -> g2::store::TaskStart {
    let clock = g2::store::TaskClock::from(Zones::utc());
    world.store.start_task(&folder("main"), id, SandboxName::Process, "me", clock, now).await.unwrap()
}

#[tokio::test]
async fn a_task_of_the_heartbeat_file_whose_lines_change_begins_afresh() {
    let world = world().await;
    let clock = Zones::utc().of(None);
    let set = async |schedule: &str| {
        let text = format!("tasks:\n- name: a\n  {schedule}\n  prompt: look\n");
        let file = g2::domain::runs::heartbeat::read(&text, &clock.zone, NOW);
        let set = world.store.set_heartbeat(folder("main"), file.tasks, clock.clone(), NOW).await.unwrap();
        assert_eq!((set.changed, set.faults), (1, vec![]));
    };
    set("interval: 1h").await;
    // As it is while it rests, with a missed slot that is to be made up for.
    let raw = rusqlite::Connection::open(world.store.path()).unwrap();
    raw.execute(
        "UPDATE tasks SET slot = ?1, next_slot = ?1, accounted = ?1, tries = 2, failures = 7, rest_until = ?2, next_run = ?2",
        [NOW.0 - 1, NOW.plus_ms(60_000).0],
    )
    .unwrap();
    set("interval: 2h").await;
    let task = world.store.task(&folder("main"), "heartbeat:a").unwrap().unwrap();
    assert_eq!((task.failures, task.rest_until, task.next_run), (0, None, Some(NOW.plus_ms(7_200_000))));
    let left: (Option<i64>, Option<i64>, i64) = raw
        .query_row("SELECT slot, next_slot, tries FROM tasks", [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
        .unwrap();
    assert_eq!(left, (None, None, 0));
}
