//! Judges the inbox, owns the lanes, and performs what they decide.
//!
//! This loop alone holds [`Lanes`]; supervisors of runs, each the work for a key, and the other loops send it news. The store is
//! the truth: what waits is read again at each start, at each end of a run, and whenever a row was judged.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ipc_handlers::Folder;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{
    Runs, Trouble,
    run::{self, Beginning, Order},
    shared::{Adoption, ForLanes},
};
use crate::{
    domain::{
        machine::loops::LoopName,
        runs::lanes::{Action, AdoptedState, Event, Holding, LaneId, Lanes, WaitingLane, Work},
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Either, Error, Loop, Plan, Read, Then, Why, either},
    store,
    system::{failpoint, locked::Locked as _},
};

mod awake;
mod judging;
mod owed;
mod tasks;
mod words;

use awake::Awake;
use judging::Judging;
use owed::{Owed, Unread};

/// How often it is looked for questions that nobody answered in time.
const EXPIRE: Duration = Duration::from_secs(3600);
/// How often it is looked for questions of agents that nobody answered in time: one lives a minute at least.
const END: Duration = Duration::from_secs(30);
/// However far off the end of the next rest is, the clock is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How long a lane rests when its work could not be handed over because the world failed, ms.
const WORLD_REST_MS: i64 = 1000;

/// How many tasks are started, or found to have passed, before the loop looks at the news again.
const TASKS_AT_ONCE: usize = 16;

/// A live run, as this loop knows it.
struct Live {
    run: i64,
    /// The task that it is for, if it is for one.
    task: Option<String>,
    orders: mpsc::UnboundedSender<Order>,
}

/// The state of this loop.
pub struct Dispatch {
    runs: Arc<Runs>,
    /// Who owns the runs of this process.
    owner: String,
    /// What the lanes are told.
    news: mpsc::UnboundedReceiver<ForLanes>,
    /// News that were not taken in.
    heard: VecDeque<ForLanes>,
    /// Tasks may be due.
    due: Arc<Notify>,
    is_due: bool,
    /// When tasks are looked at again whose work could not be handed over.
    due_again: Option<Instant>,
    /// Every run is to leave, and nothing is started any more.
    retire: CancellationToken,
    retiring: bool,
    expired: Option<Instant>,
    /// The same of agents' questions.
    ended: Option<Instant>,
    lanes: Lanes,
    live: BTreeMap<Folder, Live>,
    /// Groups that have used up their budget of the day: a run of theirs that is adopted is to leave.
    out: BTreeSet<Folder>,
    /// Supervisors that are to begin.
    begun: Vec<(i64, Supervision)>,
    actions: VecDeque<Action>,
    judging: Judging,
    awake: Awake,
    /// What could not be read, and why at this look.
    owed: Owed,
    failed: Option<Error>,
    /// There may be something to judge.
    to_judge: bool,
    /// We failed over a message: each is judged alone.
    one_by_one: bool,
}

/// A run that is to be supervised.
#[derive(Clone)]
pub struct Supervision {
    group: Folder,
    /// A supervisor that failed has taken it: its run is only to be ended.
    first: Arc<Mutex<Option<First>>>,
}

/// How the first supervisor of a run begins, and what it is told.
type First = (Beginning, mpsc::UnboundedReceiver<Order>);

impl Dispatch {
    /// Nothing is known to be alive; `news` tells of what is found, and of groups that are held.
    #[must_use]
    pub fn new(
        runs: Arc<Runs>,
        owner: String,
        news: mpsc::UnboundedReceiver<ForLanes>,
        due: Arc<Notify>,
        retire: CancellationToken,
    ) -> Self {
        let lanes = Lanes::new(runs.config.now().limits.max_containers);
        let (now, steady) = (runs.machine.world.now(), runs.machine.world.monotonic());
        let judging = Judging::new(&runs.config.now(), now);
        Self {
            runs,
            owner,
            news,
            heard: VecDeque::new(),
            due,
            is_due: false,
            due_again: None,
            retire,
            retiring: false,
            expired: None,
            ended: None,
            lanes,
            live: BTreeMap::new(),
            out: BTreeSet::new(),
            begun: Vec::new(),
            actions: VecDeque::new(),
            judging,
            awake: Awake::new(now, steady),
            owed: Owed::default(),
            failed: None,
            to_judge: false,
            one_by_one: false,
        }
    }

    fn adopt(&mut self, adoption: Adoption) {
        let Adoption { mut run, state } = adoption;
        run.owner = Some(self.owner.clone());
        let work = match (&run.work, run.lane) {
            // Its lane is gone, and nothing else comes of it.
            (Work::Lane(_), None) => Work::Task(run.work.to_string()),
            (work, _) => work.clone(),
        };
        // Its agent is up. It is handed nothing further before it has again what it was handed last, as that comes first.
        let state = match state {
            AdoptedState::Ready(_) if run.has_follow_ups() => AdoptedState::Starting,
            state => state,
        };
        self.tell(Event::Adopted { group: run.group.clone(), work, generation: run.generation, state });
        for reason in [Holding::Unknown, Holding::SetAside] {
            self.tell(Event::Release { group: run.group.clone(), reason });
        }
        let group = run.group.clone();
        self.supervise(group.clone(), run.id, Beginning::Adopted(Box::new(run)));
        if self.out.contains(&group) {
            self.tell(Event::CloseAsked { group });
        }
    }

    /// Takes in what was told, in its order.
    fn take_in(&mut self) {
        while let Some(news) = self.heard.pop_front().or_else(|| self.news.try_recv().ok()) {
            match news {
                ForLanes::Event(event) => self.hear(event),
                ForLanes::Adopt(adoption) => self.adopt(*adoption),
            }
        }
    }

    fn retire(&mut self) {
        self.retiring = true;
        self.tell(Event::Drain);
        for live in self.live.values() {
            // A supervisor that is gone has ended its run.
            let _ = live.orders.send(Order::Close);
        }
    }
}

impl Loop for Dispatch {
    const NAME: LoopName = LoopName::Dispatch;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Inbox, EventKind::Cleared];
    const AT_ONCE: usize = usize::MAX;
    const LOOKS_WITHIN: Duration = Duration::from_secs(120);
    /// Supervisors let go of their runs, or end them.
    const FINISHES_WITHIN: Duration = Duration::from_secs(45);
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    /// It hands work over.
    const FINISHES_LOOKS: bool = true;
    /// The lanes are in memory alone.
    const OUTLIVES_PANICS: bool = false;
    /// The run.
    type Key = i64;
    type Job = Supervision;
    type Hands = Runs;

    fn hands(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    async fn asked(&mut self) {
        let retires = async {
            match self.retiring {
                true => std::future::pending().await,
                false => self.retire.cancelled().await,
            }
        };
        match either(self.news.recv(), either(self.due.notified(), retires)).await {
            Either::First(Some(news)) => self.heard.push_back(news),
            // Everybody who could tell something has gone.
            Either::First(None) => std::future::pending().await,
            Either::Second(Either::First(())) => self.is_due = true,
            Either::Second(Either::Second(())) => {}
        }
    }

    async fn look(&mut self, why: &Why<i64>) -> Result<Plan<i64, Supervision>, Error> {
        self.failed = None;
        let now = self.runs.machine.world.monotonic();
        self.take_in();
        if self.retire.is_cancelled() && !self.retiring {
            self.retire();
        }
        if why.again {
            self.read_again();
        }
        self.read(why);
        self.is_due |= self.due_again.is_some_and(|due| due <= now);
        if std::mem::take(&mut self.is_due) {
            self.due_again = self.due_again.filter(|due| *due > now);
            self.skip_slots().await;
            self.look_for_due_tasks();
        }
        if self.expired.is_none_or(|last| now.duration_since(last) >= EXPIRE) {
            self.expired = Some(now);
            self.expire_approvals().await;
        }
        if self.ended.is_none_or(|last| now.duration_since(last) >= END) {
            self.ended = Some(now);
            self.expire_questions().await;
        }
        // The clock may have been set, or the machine have slept.
        if why.time || self.lanes.next_wake().is_some_and(|at| at <= self.runs.machine.world.now()) {
            self.tell(Event::Tick);
        }
        if std::mem::take(&mut self.to_judge) {
            self.judge_all().await;
        }
        self.perform_all().await;
        Ok(self.plan())
    }

    /// Watches over a run. A supervisor that failed leaves it to another, which ends it: a group must not stay as it is for ever.
    async fn perform(
        runs: Arc<Runs>,
        run: i64,
        job: Supervision,
        _: CancellationToken,
    ) -> Result<Then, Error> {
        let Supervision { group, first } = job;
        let first = first.locked().take();
        let (beginning, orders) = match first {
            Some(first) => first,
            None => match runs.store.active_run(run)? {
                Some(active) => (Beginning::Abandoned(Box::new(active)), mpsc::unbounded_channel().1),
                None => {
                    let waiting =
                        runs.store.waiting_lanes_of(&group)?.iter().map(WaitingLane::from).collect();
                    runs.lanes.tell(Event::Ended { group, waiting });
                    return Ok(Then::Done);
                }
            },
        };
        run::supervise(runs, group, run, beginning, orders).await;
        Ok(Then::Done)
    }

    fn span(run: &i64, job: &Supervision) -> Span {
        run::span(&job.group, *run)
    }

    fn stops(&mut self) {
        self.tell(Event::Drain);
        self.live.clear();
    }
}

impl Dispatch {
    /// Returns what follows from a look.
    fn plan(&mut self) -> Plan<i64, Supervision> {
        let world = &self.runs.machine.world;
        let is_more = self.to_judge || !self.actions.is_empty();
        // The clock may be set meanwhile, or the machine sleep.
        let wake = self.lanes.next_wake().map_or(LONGEST_SLEEP, |at| {
            Duration::from_millis(at.ms_since(world.now()).max(0).unsigned_abs()).min(LONGEST_SLEEP)
        });
        let due = self.due_again.map_or(LONGEST_SLEEP, |due| due.duration_since(world.monotonic()));
        let again = if is_more { Duration::ZERO } else { wake.min(due) };
        let read = match self.failed.take() {
            Some(error) => Read::Failed(error),
            None if self.owed.is_empty() => Read::All,
            None => Read::NotTried,
        };
        Plan { wake: std::mem::take(&mut self.begun), again: Some(again), read, ..Plan::default() }
    }

    /// Takes in what was committed.
    fn read(&mut self, why: &Why<i64>) {
        self.to_judge |= why.any(&[EventKind::Inbox]);
        let cleared =
            why.events.iter().filter(|event| event.kind == EventKind::Cleared && event.group.is_some());
        let mut lanes: Vec<i64> = cleared.filter_map(|event| event.subject.parse().ok()).collect();
        if why.all {
            self.look_for_waiting();
            self.look_for_due_tasks();
            lanes.extend(self.lanes_at_work());
        }
        self.tell_cleared(&lanes);
    }

    /// Returns the lanes of runs: any of their sessions may have been cleared.
    fn lanes_at_work(&mut self) -> Vec<i64> {
        match self.runs.store.active_runs() {
            Ok(active) => active.iter().filter_map(|run| run.lane).collect(),
            Err(error) => {
                self.owe(Unread::Sessions, error);
                Vec::new()
            }
        }
    }

    /// Tells how the sessions of lanes stand that may have been cleared.
    fn tell_cleared(&mut self, lanes: &[i64]) {
        match self.runs.store.lanes(lanes) {
            Ok(lanes) => {
                for lane in lanes {
                    let (id, generation) = (LaneId(lane.lane), lane.generation);
                    self.tell(Event::SessionCleared { group: lane.group, lane: id, generation });
                }
            }
            Err(error) => {
                self.owed.extend(lanes.iter().map(|lane| Unread::Session(*lane)));
                self.failed = Some(error.into());
            }
        }
    }

    /// Tells in which lanes something waits.
    fn look_for_waiting(&mut self) {
        match self.runs.store.waiting_lanes() {
            Ok(waiting) => {
                for lane in waiting {
                    let waiting = WaitingLane::from(&lane);
                    self.tell(Event::Waiting { group: lane.group, waiting });
                }
            }
            Err(error) => self.owe(Unread::Waiting, error),
        }
    }

    /// Notes what could not be read. The engine tells when it is read again.
    fn owe(&mut self, unread: Unread, error: store::StoreError) {
        // It is not judged again at once.
        self.to_judge &= unread != Unread::Inbox;
        self.owed.insert(unread);
        self.failed = Some(error.into());
    }

    /// Reads again what could not be read.
    fn read_again(&mut self) {
        let mut sessions = Vec::new();
        for unread in std::mem::take(&mut self.owed) {
            match unread {
                Unread::Inbox => self.to_judge = true,
                Unread::Waiting => self.look_for_waiting(),
                Unread::Due => self.look_for_due_tasks(),
                Unread::Session(lane) => sessions.push(lane),
                Unread::Sessions => sessions.extend(self.lanes_at_work()),
                Unread::Idle(group) => self.hear(Event::Idle { group }),
                Unread::Questions => (self.expired, self.ended) = (None, None),
            }
        }
        self.tell_cleared(&sessions);
    }

    fn tell(&mut self, event: Event) {
        self.actions.extend(self.lanes.on(event, self.runs.machine.world.now()));
    }

    /// Takes a supervisor's news. Idleness is checked with the store: a batch may have been piped since it was said.
    fn hear(&mut self, event: Event) {
        match &event {
            Event::Idle { group } => {
                let Some(live) = self.live.get(group) else { return };
                match self.runs.store.active_run(live.run) {
                    Ok(Some(run)) if run.life.is_idle() => {}
                    Ok(_) => return,
                    Err(error) => return self.owe(Unread::Idle(group.clone()), error),
                }
            }
            Event::StopAsked { group, run } => match self.live.get(group) {
                Some(live) if live.run == *run => drop(live.orders.send(Order::Stop)),
                // It may be one that nobody owns.
                Some(_) | None => return self.runs.machine.look_at_runs.notify_one(),
            },
            Event::Ended { group, waiting } => {
                self.live.remove(group);
                // A rest may have been ended since the end was written down.
                let waiting = match self.runs.store.waiting_lanes_of(group) {
                    Ok(now) => now.iter().map(WaitingLane::from).collect(),
                    Err(error) => {
                        self.owe(Unread::Waiting, error);
                        waiting.clone()
                    }
                };
                return self.ended(group.clone(), waiting);
            }
            Event::Hold { group, reason: Holding::Budget } => drop(self.out.insert(group.clone())),
            Event::Release { group, reason: Holding::Budget } => drop(self.out.remove(group)),
            _ => {}
        }
        self.tell(event);
    }

    async fn expire_approvals(&mut self) {
        match self.runs.store.expire_approvals(self.runs.machine.world.now()).await {
            Ok(0) => {}
            Ok(expired) => tracing::info!(expired, "nobody answered these questions in time"),
            Err(error) => self.owe(Unread::Questions, error),
        }
    }

    async fn expire_questions(&mut self) {
        match self.runs.store.expire_questions(self.runs.machine.world.now()).await {
            Ok(0) => {}
            Ok(expired) => tracing::info!(expired, "nobody answered these questions of agents in time"),
            Err(error) => self.owe(Unread::Questions, error),
        }
    }

    /// Tells that a group's run is over, and what else is due in it: before, so that a task that was passed over has its
    /// turn, and after, as the task of the run itself may be due again.
    fn ended(&mut self, group: Folder, waiting: Vec<WaitingLane>) {
        let now = self.runs.machine.world.now();
        let due = self.runs.store.due_task_of(&group, now).unwrap_or_else(|error| {
            self.owe(Unread::Due, error);
            None
        });
        let due = due.map(|task| Event::TaskDue { group: group.clone(), task });
        due.clone().into_iter().for_each(|due| self.tell(due));
        self.tell(Event::Ended { group, waiting });
        due.into_iter().for_each(|due| self.tell(due));
    }

    /// Performs what the lanes decided, until a run is to be watched over: that begins before the next one is started. Of tasks only
    /// some are started: each may turn out to have passed, and the next one of its group is then decided on at once. News comes in
    /// before the others are.
    async fn perform_all(&mut self) {
        let mut later = VecDeque::new();
        let mut tasks = 0;
        while self.begun.is_empty()
            && let Some(action) = self.actions.pop_front()
        {
            match action {
                Action::Start { work: Work::Task(_), .. } if tasks == TASKS_AT_ONCE => {
                    later.push_back(action)
                }
                Action::Start { group, work: Work::Lane(lane) } => self.start_lane(group, lane).await,
                Action::Start { group, work: Work::Task(task) } => {
                    tasks += 1;
                    self.start_task(group, task).await;
                }
                Action::Pipe { group, lane } => self.pipe(group, lane).await,
                Action::Close { group } => {
                    if let Some(live) = self.live.get(&group) {
                        // A supervisor that is gone has ended its run; so it is with all orders.
                        let _ = live.orders.send(Order::Close);
                    }
                }
            }
        }
        later.into_iter().rev().for_each(|action| self.actions.push_front(action));
    }

    async fn start_lane(&mut self, group: Folder, lane: LaneId) {
        let runs = Arc::clone(&self.runs);
        let now = runs.machine.world.now();
        let handed =
            runs.store.start_run(lane.0, runs.sandbox.kind(), &self.owner, runs.handover_limits(), now).await;
        failpoint::reach("run.handed");
        match handed {
            Ok(Some(handed)) => {
                tracing::info!(group = %group, run = handed.run, lane = lane.0, batch = handed.batch, "run queued");
                self.supervise(group.clone(), handed.run, Beginning::Batch(Box::new(handed)));
                self.note_what_is_left(&group, lane);
            }
            Ok(None) => self.nothing_to_start(group, Some(lane)),
            Err(error) => self.could_not_start(group, &error),
        }
    }

    /// The work to be started is gone. The store says what still waits in the group.
    fn nothing_to_start(&mut self, group: Folder, lane: Option<LaneId>) {
        if let Some(lane) = lane {
            self.tell(Event::Emptied { group: group.clone(), lane });
        }
        let waiting = self.waiting_in(&group);
        self.ended(group, waiting);
    }

    fn could_not_start(&mut self, group: Folder, error: &store::StoreError) {
        tracing::error!(group = %group, error = %chain(error), "handing work over failed; it is tried again");
        let (now, steady) = (self.runs.machine.world.now(), self.runs.machine.world.monotonic());
        let again = now.plus_ms(WORLD_REST_MS);
        let waiting = self
            .waiting_in(&group)
            .into_iter()
            .map(|lane| WaitingLane { not_before: lane.not_before.max(Some(again)), ..lane })
            .collect();
        self.tell(Event::Ended { group, waiting });
        self.due_again = Some(steady + Duration::from_millis(WORLD_REST_MS.unsigned_abs()));
    }

    /// A batch has an end: what waits in the lane beyond it, or came back beside it, goes on waiting.
    fn note_what_is_left(&mut self, group: &Folder, lane: LaneId) {
        if let Some(waiting) = self.waiting_in(group).into_iter().find(|waiting| waiting.lane == lane) {
            self.tell(Event::Waiting { group: group.clone(), waiting });
        }
    }

    fn waiting_in(&mut self, group: &Folder) -> Vec<WaitingLane> {
        match self.runs.store.waiting_lanes_of(group) {
            Ok(waiting) => waiting.iter().map(WaitingLane::from).collect(),
            Err(error) => {
                self.owe(Unread::Waiting, error);
                Vec::new()
            }
        }
    }

    async fn pipe(&mut self, group: Folder, lane: LaneId) {
        let Some(run) = self.live.get(&group).map(|live| live.run) else {
            return self.tell(Event::PipeFailed { group, lane });
        };
        let runs = Arc::clone(&self.runs);
        match runs.store.pipe(run, lane.0, runs.handover_limits(), runs.machine.world.now()).await {
            Ok(Some(handed)) => {
                failpoint::reach("run.piped");
                tracing::info!(group = %group, run, batch = handed.batch, "follow-up handed over");
                let order = |order: Order| self.live.get(&group).map(|live| live.orders.send(order));
                let _ = order(Order::Handed(handed.batch));
                let input = run::input_of(&runs, &handed).await;
                let placed = match runs.boxes.of(&group) {
                    Ok(boxes) => {
                        let (id, kept) = (store::batch_name(handed.batch), runs.kept_input(run));
                        let put = move || boxes.place_input(&kept, &id, &input).map_err(|e| e.to_string());
                        runs.machine.world.blocking(put).await.unwrap_or_else(|e| Err(e.to_string()))
                    }
                    Err(error) => Err(chain(&error)),
                };
                match placed {
                    Ok(()) => {
                        self.tell(Event::Busy { group: group.clone() });
                        self.note_what_is_left(&group, lane);
                    }
                    Err(error) => {
                        tracing::warn!(group = %group, run, error, "an input file could not be placed; the follow-up waits again");
                        match runs.store.take_back(run, handed.batch).await {
                            Ok(()) => {
                                let _ = order(Order::TakenBack(handed.batch));
                                self.tell(Event::PipeFailed { group: group.clone(), lane });
                                self.note_what_is_left(&group, lane);
                            }
                            Err(error) => {
                                // The batch stays on the run's account; its end returns it.
                                tracing::error!(group = %group, run, error = %chain(&error), "taking a follow-up back failed; the run is closed");
                                self.tell(Event::Busy { group: group.clone() });
                                self.tell(Event::CloseAsked { group });
                            }
                        }
                    }
                }
            }
            Ok(None) => {
                let waits = self.waiting_in(&group).iter().any(|waiting| waiting.lane == lane);
                let event =
                    if waits { Event::PipeFailed { group, lane } } else { Event::PipeEmpty { group, lane } };
                self.tell(event);
            }
            Err(error) => {
                tracing::error!(group = %group, error = %chain(&error), "handing a follow-up over failed");
                self.tell(Event::PipeFailed { group, lane });
            }
        }
    }

    fn supervise(&mut self, group: Folder, run: i64, beginning: Beginning) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let task = beginning.task().map(str::to_owned);
        self.live.insert(group.clone(), Live { run, task, orders });
        let first = Arc::new(Mutex::new(Some((beginning, inbox))));
        self.begun.push((run, Supervision { group, first }));
    }
}
