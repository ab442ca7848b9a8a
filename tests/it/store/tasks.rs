//! When tasks are due, and what their runs make of them.

use super::*;

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
