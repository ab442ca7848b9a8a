//! What becomes of each slot of a task: it runs, is made up for, is skipped or missed; and tasks that can't run.

use g2::{
    domain::{
        rows::TaskSlot,
        states::{SandboxName, SlotOutcome, SlotReason},
    },
    store::{Started, TaskClock, TaskStart},
};
use ipc_handlers::TaskStatus;
use serde_json::{Value, json};

use super::*;

pub(super) const HOUR: i64 = 3_600_000;

/// Gives main a command in its own name.
pub(super) async fn tell(world: &World, claim: i64, now: Time, command_json: Value) {
    let file = command("main", claim, command_json.to_string().as_bytes());
    let settled = world.store.settle(file, Zones::utc(), now).await.unwrap();
    assert_eq!(settled.receipt.outcome.as_str(), "applied", "{settled:?}");
}

pub(super) async fn make(world: &World, kind: &str, value: &str, more: Value) {
    let mut task = json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": kind, "schedule_value": value});
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    tell(world, 1, NOW, task).await;
}

/// Starts the task as a daemon does that is up since then.
pub(super) async fn start(world: &World, up_since: Time, now: Time) -> TaskStart {
    let clock = TaskClock { up_since, ..TaskClock::from(Zones::utc()) };
    world.store.start_task(&folder("main"), "t", SandboxName::Process, "me", clock, now).await.unwrap()
}

/// Has a run begin, say what `handled` says and end well at `NOW`.
pub(super) async fn succeed(world: &World, run: i64) {
    begin(world, run, NOW).await;
    let done = Record { handled: vec![g2::store::task_batch(run)], ..Record::default() };
    world.store.record(run, 2, done, NOW).await.unwrap();
    world.end(run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
}

pub(super) async fn begin(world: &World, run: i64, now: Time) {
    world.store.run_created(run, "c").await.unwrap();
    world.store.run_started(run, now).await.unwrap();
    let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
    world.store.record(run, 1, ready, now).await.unwrap();
}

pub(super) fn history(world: &World) -> Vec<TaskSlot> {
    world.store.task_history(&folder("main"), "t", None).unwrap()
}

pub(super) fn task(world: &World) -> g2::domain::rows::Task {
    world.store.task(&folder("main"), "t").unwrap().unwrap()
}

/// Of each row of the history: when it was due, how many slots it is about, and why they did not run.
fn told(world: &World) -> Vec<(i64, u64, Option<SlotReason>)> {
    let hours = |slot: &TaskSlot| slot.due.unwrap().ms_since(NOW) / HOUR;
    history(world).iter().map(|slot| (hours(slot), slot.slots, slot.reason)).collect()
}

pub(super) fn hours(hours: i64) -> Time {
    NOW.plus_ms(hours * HOUR)
}

#[tokio::test]
async fn of_thirty_missed_hours_skip_runs_none_latest_one_and_all_24_a_minute_apart() {
    use SlotReason::{HostDown, TooMany};
    let up = hours(30).plus_ms(1);
    let hourly = |catch_up: &str| ("interval", "3600000", json!({"catchUp": catch_up}));

    let world = world().await;
    let (kind, value, more) = hourly("skip");
    make(&world, kind, value, more).await;
    assert!(matches!(start(&world, up, up).await.what, Started::Passed));
    assert_eq!(told(&world), [(1, 30, Some(HostDown))]);
    assert_eq!((task(&world).next_run, task(&world).status), (Some(hours(31)), TaskStatus::Active));
    assert!(matches!(start(&world, up, up).await.what, Started::NotDue), "once");

    let world = super::world().await;
    let (kind, value, more) = hourly("latest");
    make(&world, kind, value, more).await;
    let run = start(&world, up, up).await.run().unwrap().run;
    assert_eq!(told(&world), [(1, 29, Some(HostDown)), (30, 1, None)]);
    succeed(&world, run).await;
    assert_eq!(task(&world).next_run, Some(hours(31)));

    let world = super::world().await;
    let (kind, value, more) = hourly("all");
    make(&world, kind, value, more).await;
    let mut now = up;
    let mut ran = Vec::new();
    loop {
        let run = start(&world, up, now).await.run().unwrap().run;
        assert!(
            world
                .store
                .skip_slots(&folder("main"), "t", &TaskClock::from(Zones::utc()), now.plus_ms(HOUR / 2))
                .await
                .unwrap()
                .is_empty()
        );
        succeed(&world, run).await;
        ran.push(run);
        let next = task(&world).next_run.unwrap();
        if next == hours(31) {
            break;
        }
        assert_eq!(next.ms_since(now), 60_000);
        now = next;
    }
    let due: Vec<i64> = history(&world).iter().map(|slot| slot.due.unwrap().ms_since(NOW) / HOUR).collect();
    assert_eq!((ran.len(), due), (24, [1].into_iter().chain(7..=30).collect()));
    assert_eq!(told(&world)[0], (1, 6, Some(TooMany)));
}

#[tokio::test]
async fn a_window_ends_what_is_made_up_for_and_a_missed_once_is_told() {
    let world = world().await;
    make(&world, "once", "2027-01-16T08:00:00Z", json!({"catchUpWindowMs": 86_400_000})).await;
    let due = task(&world).next_run.unwrap();
    let up = due.plus_ms(25 * HOUR);
    assert!(matches!(start(&world, up, up).await.what, Started::Passed));
    let over = task(&world);
    assert_eq!(
        (over.status, over.next_run, over.last_result.as_deref()),
        (TaskStatus::Completed, None, Some("Missed: outside the window"))
    );
    let told = "Scheduled task t (“p”) was missed: I was not running when it was due (outside the window).";
    assert_eq!(world.texts("local:main").await, [told]);
    let slot = &history(&world)[0];
    assert_eq!(
        (slot.outcome, slot.due, slot.reason),
        (Some(SlotOutcome::Missed), Some(due), Some(SlotReason::OutsideWindow))
    );
}

#[tokio::test]
async fn what_somebody_asked_for_runs_however_long_the_daemon_was_down() {
    for more in [json!({"catchUp": "skip"}), json!({})] {
        let world = world().await;
        make(&world, "once", "2027-01-15T08:00:00Z", more).await;
        assert!(start(&world, hours(1), hours(1)).await.run().is_some());
    }
    let world = world().await;
    make(&world, "interval", "3600000", json!({"catchUp": "skip"})).await;
    world.store.run_task_now(&folder("main"), "t", hours(5)).await.unwrap();
    let up = hours(7).plus_ms(1);
    assert!(start(&world, up, up).await.run().is_some());
    assert_eq!(told(&world), [(5, 1, None), (6, 2, Some(SlotReason::HostDown))]);
}

#[tokio::test]
async fn thousands_of_slots_during_a_run_are_one_row_and_the_next_one_keeps_to_the_grid() {
    let world = world().await;
    make(&world, "interval", "1000", json!({})).await;
    let due = NOW.plus_ms(1_000);
    let run = start(&world, NOW, due).await.run().unwrap().run;
    begin(&world, run, due.plus_ms(40)).await;
    let clock = TaskClock::from(Zones::utc());
    for seconds in [2, 3, 4_000, 5_000] {
        let now = NOW.plus_ms(seconds * 1_000 + 7);
        let passed = world.store.skip_slots(&folder("main"), "t", &clock, now).await.unwrap();
        assert_eq!(passed[0].reason, SlotReason::PreviousRun);
        assert!(world.store.skip_slots(&folder("main"), "t", &clock, now).await.unwrap().is_empty());
    }
    let rows = history(&world);
    let [ran, skipped] = rows.as_slice() else { panic!("two rows: {rows:?}") };
    assert_eq!((ran.due, ran.waited_ms, ran.outcome), (Some(due), Some(40), Some(SlotOutcome::Ran)));
    assert_eq!((skipped.due, skipped.last_due), (Some(NOW.plus_ms(2_000)), Some(NOW.plus_ms(5_000_000))));
    assert_eq!((skipped.slots, skipped.outcome), (4_999, Some(SlotOutcome::Skipped)));
    assert_eq!(task(&world).next_run, Some(NOW.plus_ms(5_001_000)));
    // What passes after a failure, until the slot is tried again, has a reason of its own.
    world.end(run, End::Exited { code: 1, oom: false }, Cause::Itself).await;
    assert_eq!(world.store.counted().unwrap(), world.store.recounted().unwrap());
}

#[tokio::test]
async fn slots_of_a_rest_and_of_a_pause_are_skipped_for_that() {
    let world = world().await;
    make(&world, "interval", "3600000", json!({})).await;
    let run = start(&world, NOW, hours(1)).await.run().unwrap().run;
    begin(&world, run, hours(1)).await;
    let end = EndOfRun {
        run,
        end: End::Exited { code: 1, oom: false },
        cause: Cause::Itself,
        input: None,
        files_bytes: 0,
        retry_base_ms: 5_000,
        tell_retry_ms: None,
    };
    world.store.end_run(end, Zones::utc(), hours(1)).await.unwrap();
    assert_eq!(task(&world).next_run, Some(hours(1).plus_ms(5_000)));
    let again = start(&world, NOW, hours(3).plus_ms(1)).await.run().unwrap().run;
    succeed(&world, again).await;
    assert_eq!(told(&world), [(1, 1, None), (1, 1, None), (2, 2, Some(SlotReason::Rest))]);
    tell(&world, 2, hours(3), json!({"type": "pause_task", "taskId": "t"})).await;
    tell(&world, 3, hours(10), json!({"type": "resume_task", "taskId": "t"})).await;
    assert_eq!(told(&world).last(), Some(&(4, 7, Some(SlotReason::Paused))));
    assert_eq!(task(&world).next_run, Some(hours(11)));
}

#[tokio::test]
async fn a_once_that_was_paused_during_its_run_is_over_after_it_and_can_be_run_again() {
    let world = world().await;
    make(&world, "once", "2027-01-15T08:00:00Z", json!({})).await;
    let run = start(&world, NOW, NOW).await.run().unwrap().run;
    tell(&world, 2, NOW, json!({"type": "pause_task", "taskId": "t"})).await;
    tell(&world, 3, NOW, json!({"type": "resume_task", "taskId": "t"})).await;
    tell(&world, 4, NOW, json!({"type": "pause_task", "taskId": "t"})).await;
    succeed(&world, run).await;
    assert_eq!((task(&world).status, task(&world).next_run), (TaskStatus::Completed, None));
    world.store.run_task_now(&folder("main"), "t", NOW).await.unwrap();
    assert!(start(&world, NOW, NOW).await.run().is_some());
}

#[tokio::test]
async fn a_task_that_can_not_run_is_paused_with_the_reason_and_its_chat_is_told() {
    for (break_it, reason) in [
        (
            "UPDATE tasks SET schedule_value = 'every day', schedule_type = 'cron'",
            "its schedule can't be read: cron \"every day\"",
        ),
        (
            "DELETE FROM wirings WHERE chat_jid = 'local:main'",
            "its chat local:main is not wired to group main any more",
        ),
    ] {
        let world = world().await;
        make(&world, "interval", "60000", json!({})).await;
        rusqlite::Connection::open(world.store.path()).unwrap().execute(break_it, []).unwrap();
        let due = NOW.plus_ms(60_000);
        assert_eq!(world.store.due_task_of(&folder("main"), due).unwrap().as_deref(), Some("t"));
        let Started::Paused { reason: told } = start(&world, NOW, due).await.what else { panic!("paused") };
        assert!(told.starts_with(reason), "{told}");
        let paused = task(&world);
        assert_eq!((paused.status, paused.paused_for.as_deref()), (TaskStatus::Paused, Some(told.as_str())));
        assert_eq!(world.texts("local:main").await, [format!("Scheduled task t (“p”) is paused: {told}.")]);
        assert_eq!(world.store.due_task_of(&folder("main"), due).unwrap(), None);
        tell(&world, 2, NOW, json!({"type": "update_task", "taskId": "t", "schedule_type": "interval", "schedule_value": "1000"})).await;
        tell(&world, 3, NOW, json!({"type": "resume_task", "taskId": "t"})).await;
        assert_eq!(task(&world).paused_for, None);
    }
}

#[tokio::test]
async fn a_history_has_what_a_run_said_and_what_it_sent() {
    let world = world().await;
    make(&world, "once", "2027-01-15T08:00:00Z", json!({"output": "chat"})).await;
    let run = start(&world, NOW, NOW).await.run().unwrap().run;
    begin(&world, run, NOW).await;
    let handled = vec![g2::store::task_batch(run)];
    let said = Record { result: Some("all is well".into()), handled, ..Record::default() };
    world.store.record(run, 2, said, NOW).await.unwrap();
    world.end(run, End::Exited { code: 0, oom: false }, Cause::Closed).await;
    let rows = history(&world);
    assert_eq!(
        (rows.len(), rows[0].result.as_deref(), rows[0].duration_ms),
        (1, Some("all is well"), Some(0))
    );
    assert_eq!((rows[0].sent.len(), rows[0].sent[0].text.as_str()), (1, "all is well"));
    assert!(world.store.task_history(&folder("main"), "t", Some(0)).unwrap().is_empty());
}

/// Ends a run in this way at `now`, with a first rest of 5 s.
async fn end_at(world: &World, run: i64, end: End, cause: Cause, now: Time) {
    let end =
        EndOfRun { run, end, cause, input: None, files_bytes: 0, retry_base_ms: 5_000, tell_retry_ms: None };
    world.store.end_run(end, Zones::utc(), now).await.unwrap();
}

fn no_image() -> End {
    End::NoImage { image: "g2-agent".into() }
}

/// Starts the task at its next time.
async fn start_next(world: &World) -> (i64, Time) {
    let now = task(world).next_run.unwrap().max(NOW);
    (start(world, NOW, now).await.run().unwrap().run, now)
}

#[tokio::test]
async fn what_the_host_can_not_begin_costs_no_try_is_told_once_and_waits_longer_each_time() {
    let away = || End::NotNow { why: "the engine does not answer".into() };
    let fails = || End::Engine { doing: "launching".into(), why: "no such device".into() };
    for (end, why) in [
        (no_image(), "my container image is missing"),
        (away(), "my container could not be started"),
        (fails(), "my container could not be started"),
    ] {
        let world = world().await;
        make(&world, "interval", "1000", json!({})).await;
        let mut rests = Vec::new();
        let first = NOW.plus_ms(1_000);
        for _ in 0..12 {
            let (run, now) = start_next(&world).await;
            end_at(&world, run, end.clone(), Cause::Itself, now).await;
            let waiting = task(&world);
            assert_eq!((waiting.status, waiting.failures), (TaskStatus::Active, 0));
            rests.push(waiting.next_run.unwrap().ms_since(now) / 1_000);
        }
        assert_eq!(rests, [5, 5, 10, 20, 40, 80, 160, 320, 640, 640, 640, 640], "{why}");
        let told = format!("Scheduled task t (“p”) can't run now because {why}. I try again by myself.");
        assert_eq!(world.texts("local:main").await, [told]);
        // The host can again: the occurrence runs, and the later ones that came meanwhile are skipped for the rest.
        let (run, now) = start_next(&world).await;
        begin(&world, run, now).await;
        succeed_at(&world, run, now).await;
        let rows = history(&world);
        assert!(rows.iter().all(|row| row.run.is_none() || row.due == Some(first)), "{rows:?}");
        let skipped: u64 =
            rows.iter().filter(|row| row.reason == Some(SlotReason::Rest)).map(|row| row.slots).sum();
        assert_eq!(skipped, u64::try_from(now.ms_since(first) / 1_000).unwrap());
        assert!(task(&world).next_run.unwrap().ms_since(now) <= 1_000);
        // Another fault begins anew.
        let (run, now) = start_next(&world).await;
        end_at(&world, run, no_image(), Cause::Itself, now).await;
        assert_eq!(task(&world).next_run, Some(now.plus_ms(5_000)));
    }
}

/// Has a run that has begun end well.
async fn succeed_at(world: &World, run: i64, now: Time) {
    let done = Record { handled: vec![g2::store::task_batch(run)], ..Record::default() };
    world.store.record(run, 2, done, now).await.unwrap();
    end_at(world, run, End::Exited { code: 0, oom: false }, Cause::Closed, now).await;
}

#[tokio::test]
async fn a_once_that_the_host_can_not_begin_is_given_up_after_its_window_and_told() {
    let world = world().await;
    make(&world, "once", "2027-01-15T08:00:00Z", json!({"catchUpWindowMs": 60_000})).await;
    for _ in 0..5 {
        let (run, now) = start_next(&world).await;
        end_at(&world, run, no_image(), Cause::Itself, now).await;
    }
    assert_eq!(task(&world).next_run, Some(NOW.plus_ms(80_000)));
    let (run, now) = start_next(&world).await;
    end_at(&world, run, no_image(), Cause::Itself, now).await;
    let over = task(&world);
    assert_eq!((over.status, over.next_run), (TaskStatus::Completed, None));
    assert!(over.last_result.unwrap().starts_with("Error: image g2-agent is not there"));
    let named = "Scheduled task t (“p”)";
    let why = "because my container image is missing.";
    let told = [
        format!("{named} can't run now {why} I try again by myself."),
        format!("{named} could not run {why} I do not try any more."),
    ];
    assert_eq!(world.texts("local:main").await, told);
}

#[tokio::test]
async fn the_daemons_own_death_costs_a_task_neither_a_try_nor_a_rest_twice_and_then_a_try() {
    let world = world().await;
    make(&world, "once", "2027-01-15T08:00:00Z", json!({})).await;
    let killed = || End::Exited { code: 137, oom: false };
    for _ in 0..2 {
        let (run, now) = start_next(&world).await;
        begin(&world, run, now).await;
        end_at(&world, run, killed(), Cause::OwnerGone, now).await;
        assert_eq!((task(&world).next_run, task(&world).failures), (Some(now), 0));
    }
    for rest_ms in [5_000, 10_000, 20_000] {
        let (run, now) = start_next(&world).await;
        begin(&world, run, now).await;
        end_at(&world, run, killed(), Cause::OwnerGone, now).await;
        assert_eq!(task(&world).next_run, Some(now.plus_ms(rest_ms)));
    }
    let (run, now) = start_next(&world).await;
    begin(&world, run, now).await;
    end_at(&world, run, killed(), Cause::OwnerGone, now).await;
    assert_eq!((task(&world).status, task(&world).failures), (TaskStatus::Completed, 0));
    // Each try is in the ledger, with its start.
    let rows = history(&world);
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row.started_at.is_some()), "{rows:?}");
    assert_eq!(world.texts("local:main").await.len(), 1);
}

/// Notes that the clock was set back to `now`.
async fn set_back(world: &World, now: Time) {
    let changed = g2::domain::time::clocks::Clocks::SetBack;
    assert_eq!(world.store.read_clocks(changed, Zones::utc(), 0, now).await.unwrap(), None);
}

#[tokio::test]
async fn a_clock_that_is_set_back_gives_a_try_up_and_has_no_slot_noted_or_run_twice() {
    let world = world().await;
    make(&world, "interval", "3600000", json!({})).await;
    let run = start(&world, NOW, hours(1)).await.run().unwrap().run;
    begin(&world, run, hours(1)).await;
    let clock = TaskClock::from(Zones::utc());
    let late = hours(3).plus_ms(60_000);
    world.store.skip_slots(&folder("main"), "t", &clock, late).await.unwrap();
    end_at(&world, run, End::Exited { code: 1, oom: false }, Cause::Itself, late).await;
    assert_eq!(task(&world).next_run, Some(late.plus_ms(5_000)));
    // Its try is an hour and a half ahead of this clock, and what was accounted for is too.
    let back = hours(1).plus_ms(HOUR / 2);
    set_back(&world, back).await;
    assert_eq!(task(&world).next_run, Some(hours(2)), "the try is given up: it goes on by this clock");
    for hour in [2, 3, 4] {
        let run = start(&world, NOW, hours(hour)).await.run().unwrap().run;
        begin(&world, run, hours(hour)).await;
        set_back(&world, hours(hour)).await;
        assert_eq!(task(&world).next_run, Some(hours(hour + 1)), "no slot has two runs");
        succeed_at(&world, run, hours(hour)).await;
    }
    let ran: Vec<i64> = told(&world).iter().filter(|row| row.2.is_none()).map(|row| row.0).collect();
    assert_eq!(ran, [1, 2, 3, 4]);
    assert_eq!(told(&world).iter().filter(|row| row.2.is_some()).count(), 1);
}

#[tokio::test]
async fn a_clock_that_is_set_back_during_a_run_leaves_no_gap_behind_it() {
    let world = world().await;
    make(&world, "interval", "3600000", json!({})).await;
    let run = start(&world, NOW, hours(30)).await.run().unwrap().run;
    begin(&world, run, hours(30)).await;
    assert_eq!(task(&world).next_run, Some(hours(31)));
    let back = hours(2).plus_ms(1);
    set_back(&world, back).await;
    succeed_at(&world, run, back).await;
    assert_eq!(task(&world).next_run, Some(hours(3)));
    let run = start(&world, NOW, hours(3)).await.run().unwrap().run;
    begin(&world, run, hours(3)).await;
    succeed_at(&world, run, hours(3)).await;
    assert_eq!(task(&world).next_run, Some(hours(4)));
}
