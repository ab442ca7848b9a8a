//! A day of a busy group, hour by hour, with a clock that is driven by hand: two tasks every 30 seconds, three every minute,
//! runs that take longer than there is time for, people who write, and a daemon that is killed every hour.
//!
//! The lanes decide, the store keeps; what dispatch does in between is done here, without a container and without waiting.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZeroUsize,
};

use g2::domain::runs::lanes::{Action, Event, LaneId, Lanes, WaitingLane, Work};
use serde_json::json;

use super::*;

const HOUR: i64 = 3_600_000;
/// How many runs of its group end at most before it is somebody's turn.
const ENDED_BEFORE_A_TURN: usize = 2;
/// How long an agent is kept that has nothing to do, ms.
const IDLE: i64 = 120_000;
/// The tasks: id, schedule, how long a run takes, ms.
const TASKS: [(&str, &str, &str, i64); 5] = [
    ("beat-a", "interval", "30000", 22_000),
    ("beat-b", "interval", "30000", 9_000),
    ("cron-a", "cron", "* * * * *", 31_000),
    ("cron-b", "cron", "* * * * *", 14_000),
    ("cron-c", "cron", "* * * * *", 47_000),
];

/// A run that is under way.
struct Live {
    run: i64,
    work: Work,
    /// What it has in hand, and when it is done with it.
    batches: Vec<i64>,
    done: Option<Time>,
    /// When it leaves.
    leaves: Time,
    records: u64,
}

/// One who waits: since when, and how many runs have ended since.
#[derive(Default)]
struct Waiter {
    ended: usize,
}

struct Day {
    world: World,
    lanes: Lanes,
    now: Time,
    live: Option<Live>,
    actions: VecDeque<Action>,
    /// Who waits for a turn: people under `None`, and each task that is due.
    waiters: BTreeMap<Option<String>, Waiter>,
    most_waited: usize,
    started: BTreeMap<String, usize>,
    messages: usize,
}

impl Day {
    async fn new() -> Self {
        // Some twenty thousand commits: where there is memory for them, they wait for no disk.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let world = world_in(dir).await;
        let now = Time(NOW.0 / HOUR * HOUR);
        for (claim, (id, kind, value, _)) in (1..).zip(TASKS) {
            let task = json!({"type": "schedule_task", "taskId": id, "prompt": id, "schedule_type": kind, "schedule_value": value});
            let file = command("main", claim, task.to_string().as_bytes());
            assert_eq!(world.store.settle(file, Zones::utc(), now).await.unwrap().receipt.code, None);
        }
        let mut day = Self {
            world,
            lanes: Lanes::new(NonZeroUsize::MIN),
            now,
            live: None,
            actions: VecDeque::new(),
            waiters: BTreeMap::new(),
            most_waited: 0,
            started: BTreeMap::new(),
            messages: 0,
        };
        day.perform().await;
        day
    }

    fn tell(&mut self, event: Event) {
        self.actions.extend(self.lanes.on(event, self.now));
    }

    /// Tells which tasks are due, and notes that they wait.
    fn look_for_due_tasks(&mut self) {
        for (group, task) in self.world.store.due_tasks(self.now).unwrap() {
            self.waiters.entry(Some(task.clone())).or_default();
            self.tell(Event::TaskDue { group, task });
        }
    }

    fn waiting(&self) -> Vec<WaitingLane> {
        let all = self.world.store.waiting_lanes_of(&folder("main")).unwrap();
        all.iter().map(WaitingLane::from).collect()
    }

    async fn person_writes(&mut self) {
        self.messages += 1;
        let key = format!("m{}", self.messages);
        self.world.message("local:main", &key, &key, EngageVerdict::Wake).await;
        // What goes into a run that is there waits for nobody.
        for waiting in self.waiting() {
            self.waiters.entry(None).or_default();
            self.tell(Event::Waiting { group: folder("main"), waiting });
        }
        self.perform().await;
    }

    async fn perform(&mut self) {
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Start { group, work: Work::Lane(lane) } => {
                    let handed = self
                        .world
                        .store
                        .start_run(lane.0, SandboxName::Process, "me", LIMITS, self.now)
                        .await;
                    match handed.unwrap() {
                        Some(handed) => {
                            self.turn(None);
                            self.begin(handed.run, Work::Lane(lane), vec![handed.batch], 12_000).await;
                        }
                        None => self.nothing_to_start(group, Some(lane)),
                    }
                }
                Action::Start { group, work: Work::Task(task) } => {
                    let zones = Zones::utc();
                    let started = self.world.store.start_task(
                        &group,
                        &task,
                        SandboxName::Process,
                        "me",
                        zones,
                        self.now,
                    );
                    match started.await.unwrap().run() {
                        Some(handed) => {
                            self.turn(Some(task.clone()));
                            *self.started.entry(task.clone()).or_default() += 1;
                            let takes = TASKS.iter().find(|(id, ..)| *id == task).unwrap().3;
                            self.begin(handed.run, Work::Task(task), Vec::new(), takes).await;
                        }
                        None => self.nothing_to_start(group, None),
                    }
                }
                Action::Pipe { group, lane } => {
                    let run = self.live.as_ref().unwrap().run;
                    match self.world.store.pipe(run, lane.0, LIMITS, self.now).await.unwrap() {
                        Some(handed) => {
                            self.turn(None);
                            let done = self.now.plus_ms(8_000);
                            let live = self.live.as_mut().unwrap();
                            live.batches.push(handed.batch);
                            live.done = Some(done);
                            live.leaves = done.plus_ms(IDLE);
                            self.tell(Event::Busy { group });
                        }
                        None => self.tell(Event::PipeEmpty { group, lane }),
                    }
                }
                Action::Close { .. } => {
                    let live = self.live.as_mut().unwrap();
                    self.world.store.run_closing(live.run, self.now).await.unwrap();
                    live.leaves = live.done.unwrap_or(self.now);
                }
            }
        }
    }

    /// It is somebody's turn.
    fn turn(&mut self, who: Option<String>) {
        if let Some(waiter) = self.waiters.remove(&who) {
            self.most_waited = self.most_waited.max(waiter.ended);
            assert!(
                waiter.ended <= ENDED_BEFORE_A_TURN * TASKS.len(),
                "{who:?} waited for {} runs",
                waiter.ended
            );
            assert!(
                who.is_some() || waiter.ended <= ENDED_BEFORE_A_TURN,
                "people waited for {} runs",
                waiter.ended
            );
        }
    }

    async fn begin(&mut self, run: i64, work: Work, batches: Vec<i64>, takes: i64) {
        let store = &self.world.store;
        store.run_created(run, "c").await.unwrap();
        store.run_started(run, self.now).await.unwrap();
        let ready = Record { kind: Kind::Ready, protocol: Some(2), ..Record::default() };
        store.record(run, 1, ready, self.now).await.unwrap();
        let done = self.now.plus_ms(takes);
        let leaves = if matches!(work, Work::Task(_)) { done } else { done.plus_ms(IDLE) };
        self.live = Some(Live { run, work, batches, done: Some(done), leaves, records: 1 });
        self.tell(Event::Ready { group: folder("main") });
    }

    fn nothing_to_start(&mut self, group: Folder, lane: Option<LaneId>) {
        if let Some(lane) = lane {
            self.tell(Event::Emptied { group: group.clone(), lane });
        }
        self.ended(group);
    }

    /// As dispatch does: what is due in the group is told before, for the turn that follows, and after, for the task itself.
    fn ended(&mut self, group: Folder) {
        let due = self.world.store.due_task_of(&group, self.now).unwrap();
        let waiting = self.waiting();
        let due = due.map(|task| Event::TaskDue { group: group.clone(), task });
        due.clone().into_iter().for_each(|due| self.tell(due));
        self.tell(Event::Ended { group, waiting });
        due.into_iter().for_each(|due| self.tell(due));
    }

    /// The run finishes what it has in hand, or leaves.
    async fn go_on(&mut self) {
        let Some(live) = &mut self.live else { return };
        if live.done.is_some_and(|done| done <= self.now) {
            live.done = None;
            live.records += 1;
            let handled: Vec<String> = match &live.work {
                Work::Task(_) => vec![g2::store::task_batch(live.run)],
                Work::Lane(_) => live.batches.drain(..).map(|batch| batch.to_string()).collect(),
            };
            let record = Record { result: Some("done".into()), handled, ..Record::default() };
            self.world.store.record(live.run, live.records, record, self.now).await.unwrap();
            self.tell(Event::Idle { group: folder("main") });
            self.perform().await;
        }
        if self.live.as_ref().is_some_and(|live| live.done.is_none() && live.leaves <= self.now) {
            self.end(End::Exited { code: 0, oom: false }, Cause::Closed).await;
            self.ended(folder("main"));
            self.perform().await;
        }
    }

    async fn end(&mut self, end: End, cause: Cause) {
        let Some(live) = self.live.take() else { return };
        let end = EndOfRun {
            run: live.run,
            end,
            cause,
            input: None,
            files_bytes: 0,
            retry_base_ms: 5000,
            tell_retry_ms: None,
        };
        self.world.store.end_run(end, Zones::utc(), self.now).await.unwrap();
        for waiter in self.waiters.values_mut() {
            waiter.ended += 1;
        }
    }

    /// The daemon dies with its agents, and another one begins with what the store says.
    async fn kill(&mut self) {
        self.actions.clear();
        self.lanes = Lanes::new(NonZeroUsize::MIN);
        self.end(End::Exited { code: 137, oom: false }, Cause::OwnerGone).await;
        for waiting in self.waiting() {
            self.waiters.entry(None).or_default();
            self.tell(Event::Waiting { group: folder("main"), waiting });
        }
        self.look_for_due_tasks();
        self.perform().await;
    }

    /// When something happens next by itself.
    fn next(&self) -> Time {
        let live = self.live.as_ref().map(|live| live.done.unwrap_or(live.leaves));
        let due = self.world.store.next_due(self.now).unwrap();
        [live, due, self.lanes.next_wake()].into_iter().flatten().min().unwrap_or(Time(i64::MAX))
    }

    async fn step_to(&mut self, at: Time) {
        self.now = at;
        self.tell(Event::Tick);
        if let Some(Live { work: Work::Task(task), .. }) = &self.live {
            let clock = Zones::utc().into();
            self.world.store.skip_slots(&folder("main"), task, &clock, at).await.unwrap();
        }
        self.look_for_due_tasks();
        self.perform().await;
        self.go_on().await;
        let active = self.world.store.active_runs().unwrap();
        assert!(active.len() <= 1, "one container of a group, {} at {at}", active.len());
        // Five tasks, a chat, and a run: what is remembered does not grow.
        assert!(format!("{:?}", self.lanes).len() < 4096, "{:?}", self.lanes);
    }
}

/// Checks that each slot of a task from its first to its last has a run, or a reason why not.
fn account(day: &Day, id: &str, period: i64) {
    let rows = day.world.store.task_history(&folder("main"), id, None).unwrap();
    let ran: BTreeSet<Time> =
        rows.iter().filter(|row| row.run.is_some()).map(|row| row.due.unwrap()).collect();
    let passed: u64 = rows.iter().filter(|row| row.run.is_none()).map(|row| row.slots).sum();
    assert!(rows.iter().all(|row| row.run.is_some() != row.reason.is_some()), "{rows:?}");
    let dues = rows.iter().flat_map(|row| [row.due, row.last_due]).flatten();
    let (first, last) = (dues.clone().min().unwrap(), dues.max().unwrap());
    let slots = last.ms_since(first) / period + 1;
    let known = i64::try_from(ran.len()).unwrap() + i64::try_from(passed).unwrap();
    assert_eq!(known, slots, "{id}: {} ran, {passed} passed", ran.len());
    assert!(slots > 23 * HOUR / period, "{id}: {slots} slots from {first} to {last}");
}

/// The same numbers in each run.
struct Dice(u64);

impl Dice {
    fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + i64::try_from(self.0 >> 33).unwrap() % (most - least)
    }
}

#[tokio::test]
async fn a_busy_day_starves_nobody_and_accounts_for_every_slot() {
    let mut day = Day::new().await;
    let (begin, mut dice) = (day.now, Dice(7));
    let end = begin.plus_ms(24 * HOUR);
    let (mut message, mut kill) = (begin.plus_ms(1000), begin.plus_ms(HOUR));
    loop {
        let at = day.next().min(message).min(kill);
        if at >= end {
            break;
        }
        day.step_to(at).await;
        if at == message {
            day.person_writes().await;
            message = at.plus_ms(dice.between(20_000, 400_000));
        }
        if at == kill {
            day.kill().await;
            kill = at.plus_ms(HOUR);
        }
    }
    println!(
        "{} messages, runs {:?}, longest wait {} ended runs",
        day.messages, day.started, day.most_waited
    );
    for (id, kind, ..) in TASKS {
        account(&day, id, if kind == "cron" { 60_000 } else { 30_000 });
    }
    // Everybody had turns, and much the same number.
    let most = day.started.values().max().unwrap();
    assert!(TASKS.iter().all(|(id, ..)| day.started[*id] * 3 > *most), "{:?}", day.started);
}
