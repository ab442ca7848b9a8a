//! Slots of tasks that are put off, made up for or asked for again, while people and clocks interfere.

use g2::domain::{
    states::{SlotOutcome, SlotReason},
    time::{clocks::Clocks, zone::ZoneData},
};
use g2::store::Started;
use ipc_handlers::TaskStatus;
use serde_json::json;

use super::{
    slots::{HOUR, begin, history, hours, make, start, succeed, task, tell},
    *,
};

/// Has a run fail.
async fn fail(world: &World, run: i64, now: Time) {
    begin(world, run, now).await;
    let end = EndOfRun {
        files_bytes: 0,
        run,
        end: End::Exited { code: 1, oom: false },
        cause: Cause::Itself,
        input: None,
        retry_base_ms: 5_000,
        tell_retry_ms: None,
    };
    world.store.end_run(end, Zones::utc(), now).await.unwrap();
}

async fn set_back(world: &World, now: Time) {
    let after = world.store.read_clocks(Clocks::SetBack, Zones::utc(), 0, now).await.unwrap();
    assert_eq!(after, None);
}

#[tokio::test]
async fn a_time_that_is_asked_for_again_is_another_attempt() {
    let world = world().await;
    make(&world, "once", "2027-01-15T08:00:00Z", json!({})).await;
    succeed(&world, start(&world, NOW, NOW).await.run().unwrap().run).await;
    tell(
        &world,
        2,
        NOW,
        json!({"type": "update_task", "taskId": "t", "schedule_value": "2027-01-15T08:00:00Z"}),
    )
    .await;
    succeed(&world, start(&world, NOW, NOW).await.run().unwrap().run).await;
    tell(&world, 3, NOW, json!({"type": "cancel_task", "taskId": "t"})).await;
    tell(&world, 4, NOW, json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "once", "schedule_value": "2027-01-15T08:00:00Z"})).await;
    succeed(&world, start(&world, NOW, NOW).await.run().unwrap().run).await;
    let rows = history(&world);
    let ran: Vec<_> = rows.iter().map(|slot| (slot.outcome, slot.attempt)).collect();
    assert_eq!(ran, [1, 2, 3].map(|attempt| (Some(SlotOutcome::Ran), Some(attempt))));
    assert_eq!(task(&world).status, TaskStatus::Completed);
}

/// A clock that is a year ahead.
fn ahead(ms: i64) -> Time {
    hours(365 * 24).plus_ms(ms)
}

#[tokio::test]
async fn a_clock_that_is_set_back_during_a_run_brings_the_next_one_near() {
    for (kind, value) in [("cron", "0 * * * *"), ("interval", "3600000")] {
        for fails in [false, true] {
            let world = world().await;
            let json = json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": kind, "schedule_value": value});
            tell(&world, 1, ahead(0), json).await;
            let slot = task(&world).next_run.unwrap();
            let run = start(&world, ahead(0), slot).await.run().unwrap().run;
            set_back(&world, NOW).await;
            if fails {
                fail(&world, run, NOW).await;
            } else {
                succeed(&world, run).await;
            }
            let next = task(&world).next_run.unwrap();
            assert!(next > NOW && next <= hours(1).plus_ms(1), "{kind}, fails: {fails}: {next}");
            succeed(&world, start(&world, NOW, next).await.run().unwrap().run).await;
            let then = task(&world).next_run.unwrap();
            assert_eq!(then.ms_since(next), HOUR, "{kind}, fails: {fails}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_ends_the_rest_of_a_task() {
    for (kind, value) in [("cron", "0 * * * *"), ("interval", "3600000"), ("once", "2027-01-15T08:00:00Z")] {
        let world = world().await;
        let json = json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": kind, "schedule_value": value});
        tell(&world, 1, if kind == "once" { NOW } else { ahead(0) }, json).await;
        let slot = task(&world).next_run.unwrap().max(ahead(0));
        fail(&world, start(&world, ahead(0), slot).await.run().unwrap().run, slot).await;
        assert_eq!(task(&world).next_run, Some(slot.plus_ms(5_000)));
        set_back(&world, NOW).await;
        let next = task(&world).next_run.unwrap();
        assert!(next >= NOW && next <= hours(1).plus_ms(1), "{kind}: {next}");
        succeed(&world, start(&world, NOW, next).await.run().unwrap().run).await;
        let then = task(&world).next_run.map(|then| then.ms_since(next));
        assert_eq!(then, (kind != "once").then_some(HOUR), "{kind}");
    }
}

#[tokio::test]
async fn by_a_clock_that_shows_the_year_2106_cron_tasks_wait_and_others_run() {
    let far = Time(4_300_000_000_000);
    let due = |world: &World| world.store.due_task_of(&folder("main"), far).unwrap();
    let world = world().await;
    make(&world, "cron", "0 9 * * *", json!({})).await;
    let before = task(&world);
    assert_eq!((due(&world), world.store.due_tasks(far).unwrap()), (None, vec![]));
    // Though somebody starts it.
    assert!(matches!(start(&world, NOW, far).await.what, Started::NotDue));
    let now = task(&world);
    assert_eq!((now.status, now.next_run), (TaskStatus::Active, before.next_run));
    assert!(world.texts("local:main").await.is_empty());
    // The clock is right again.
    set_back(&world, NOW).await;
    let slot = task(&world).next_run.unwrap();
    assert_eq!(Some(slot), before.next_run);
    succeed(&world, start(&world, NOW, slot).await.run().unwrap().run).await;
    let other = world_of_an_interval().await;
    assert_eq!(due(&other).as_deref(), Some("t"));
}

/// A task each hour.
async fn world_of_an_interval() -> World {
    let world = world().await;
    make(&world, "interval", "3600000", json!({})).await;
    world
}

#[tokio::test]
async fn a_clock_that_is_set_back_a_little_runs_no_slot_twice() {
    let world = world().await;
    make(&world, "cron", "0 * * * *", json!({})).await;
    let slot = task(&world).next_run.unwrap();
    let run = start(&world, NOW, slot).await.run().unwrap().run;
    set_back(&world, slot.plus_ms(-60_000)).await;
    assert_eq!(task(&world).next_run, Some(slot.plus_ms(HOUR)), "its run is queued");
    fail(&world, run, slot).await;
    set_back(&world, slot.plus_ms(-60_000)).await;
    assert_eq!(task(&world).next_run, Some(slot.plus_ms(HOUR)), "its run has failed");
}

#[tokio::test]
async fn new_rules_of_a_zone_hold_for_a_task_whose_run_is_under_way() {
    let world = world().await;
    make(&world, "cron", "0 9 * * *", json!({})).await;
    let slot = task(&world).next_run.unwrap();
    let run = start(&world, NOW, slot).await.run().unwrap().run;
    let utc = task(&world).next_run.unwrap();
    let zones = Zones::new(
        ZoneData::newest(None, None),
        &ZoneData::newest(None, None).resolve(&[Some("Asia/Tokyo")]),
    );
    world.store.read_clocks(Clocks::Zone, zones, 0, slot).await.unwrap();
    let tokyo = task(&world).next_run.unwrap();
    assert_eq!(utc.ms_since(tokyo), 9 * HOUR);
    succeed(&world, run).await;
    assert_eq!(task(&world).next_run, Some(tokyo));
}

#[tokio::test]
async fn a_task_that_is_paused_in_its_rest_keeps_to_its_grid_and_accounts_for_each_slot() {
    let world = world().await;
    make(&world, "interval", "3600000", json!({})).await;
    fail(&world, start(&world, NOW, hours(1)).await.run().unwrap().run, hours(1)).await;
    tell(&world, 2, hours(1).plus_ms(10), json!({"type": "pause_task", "taskId": "t"})).await;
    tell(&world, 3, hours(4).plus_ms(10), json!({"type": "resume_task", "taskId": "t"})).await;
    assert_eq!(task(&world).next_run, Some(hours(5)));
    let rows = history(&world);
    let rows: Vec<_> = rows.iter().map(|slot| (slot.due, slot.slots, slot.reason)).collect();
    assert_eq!(rows, [(Some(hours(1)), 1, None), (Some(hours(2)), 3, Some(SlotReason::Paused))]);
}

#[tokio::test]
async fn what_waits_to_be_made_up_for_is_accounted_for_if_somebody_interferes() {
    for interferes in ["run", "pause"] {
        let world = world().await;
        make(&world, "interval", "3600000", json!({"catchUp": "all"})).await;
        let up = hours(4).plus_ms(1);
        succeed(&world, start(&world, up, up).await.run().unwrap().run).await;
        let later = up.plus_ms(120_000);
        if interferes == "run" {
            world.store.run_task_now(&folder("main"), "t", up).await.unwrap();
            succeed(&world, start(&world, up, up).await.run().unwrap().run).await;
        } else {
            tell(&world, 2, up, json!({"type": "pause_task", "taskId": "t"})).await;
            tell(&world, 3, later, json!({"type": "resume_task", "taskId": "t"})).await;
        }
        let rows = history(&world);
        let rows: Vec<_> = rows.iter().map(|slot| (slot.due, slot.slots, slot.reason)).collect();
        let next = task(&world).next_run;
        if interferes == "run" {
            assert_eq!(rows, [(Some(hours(1)), 1, None), (Some(hours(2)), 1, None)]);
            assert_eq!(next, Some(up.plus_ms(60_000)), "the others are made up for as before");
        } else {
            assert_eq!(rows, [(Some(hours(1)), 1, None), (Some(hours(2)), 3, Some(SlotReason::Paused))]);
            assert_eq!(next, Some(hours(5)));
        }
    }
}
