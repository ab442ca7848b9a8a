//! Judges the inbox, owns the lanes, and performs what they decide.
//!
//! This task alone holds [`Lanes`]; supervisors of runs and the other loops send it news. The store is the truth:
//! what waits is read again at each start, at each end of a run, and whenever a row was judged.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::Folder;
use tokio::{
    sync::{Notify, mpsc},
    task::{self, JoinSet, spawn_blocking},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    Runs, Trouble,
    run::{self, Beginning, Order},
};
use crate::{
    domain::{
        host::{
            errors::chain,
            feed::{EventKind, FeedEvent},
        },
        runs::lanes::{Action, AdoptedState, Event, Holding, LaneId, Lanes, WaitingLane, Work},
    },
    store::{self, News},
    system::{clock, failpoint},
};

mod awake;
mod judging;
mod owed;
mod tasks;

use awake::Awake;
use judging::Judging;
use owed::{Owed, Unread};

/// How often it is looked for questions that nobody answered in time.
const EXPIRE: Duration = Duration::from_secs(3600);
/// However far off the end of the next rest is, the clock is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How long a lane rests when its work could not be handed over because the world failed, ms.
const WORLD_REST_MS: i64 = 1000;

/// What could not be read for this loop.
const UNREAD: Trouble = Trouble::Unread("the work that waits");

/// How many tasks are started, or found to have passed, before the loop looks at the news again.
const TASKS_AT_ONCE: usize = 16;

/// A live run, as this loop knows it.
struct Live {
    run: i64,
    /// The task that it is for, if it is for one.
    task: Option<String>,
    orders: mpsc::UnboundedSender<Order>,
}

/// A run that outlived an earlier daemon, to be watched over from now on.
pub struct Adoption {
    pub run: store::ActiveRun,
    pub state: AdoptedState,
}

/// The state of this loop.
pub struct Dispatch {
    runs: Arc<Runs>,
    /// Who owns the runs of this process.
    owner: String,
    /// Tasks may be due.
    due: Arc<Notify>,
    /// Every run is to leave, and nothing is started any more.
    retire: CancellationToken,
    lanes: Lanes,
    live: BTreeMap<Folder, Live>,
    supervisors: JoinSet<()>,
    /// Whose run each supervisor watches.
    supervised: HashMap<task::Id, (Folder, i64)>,
    actions: VecDeque<Action>,
    judging: Judging,
    awake: Awake,
    /// What could not be read.
    owed: Owed,
    /// There may be something to judge.
    to_judge: bool,
    /// We failed over a message: each is judged alone.
    one_by_one: bool,
}

impl Dispatch {
    /// Takes over what was found alive, and groups that are held from the beginning.
    #[must_use]
    pub fn new(
        runs: Arc<Runs>,
        owner: String,
        due: Arc<Notify>,
        retire: CancellationToken,
        adopted: Vec<Adoption>,
        held: Vec<(Folder, Holding)>,
    ) -> Self {
        let lanes = Lanes::new(runs.config.now().limits.max_containers);
        let judging = Judging::new(&runs.config.now());
        let mut this = Self {
            runs,
            owner,
            due,
            retire,
            lanes,
            live: BTreeMap::new(),
            supervisors: JoinSet::new(),
            supervised: HashMap::new(),
            actions: VecDeque::new(),
            judging,
            awake: Awake::new(clock::now()),
            owed: Owed::default(),
            to_judge: true,
            one_by_one: false,
        };
        // What is known to be in the way now is looked at again by another loop.
        if this.runs.machine.obstacle().is_some() {
            this.tell(Event::Pause);
        }
        for (group, reason) in held {
            this.tell(Event::Hold { group, reason });
        }
        for adoption in adopted {
            this.adopt(adoption);
        }
        this
    }

    fn adopt(&mut self, adoption: Adoption) {
        let Adoption { mut run, state } = adoption;
        run.owner = Some(self.owner.clone());
        let work = match (run.task(), run.lane) {
            (Some(task), _) => Work::Task(task.to_owned()),
            (None, Some(lane)) => Work::Lane(LaneId(lane)),
            (None, None) => Work::Task(run.source.clone()),
        };
        self.tell(Event::Adopted { group: run.group.clone(), work, generation: run.generation, state });
        for reason in [Holding::Unknown, Holding::SetAside] {
            self.tell(Event::Release { group: run.group.clone(), reason });
        }
        self.supervise(run.group.clone(), run.id, Beginning::Adopted(Box::new(run)));
    }

    /// Runs until the daemon stops, then waits for the supervisors to let go of their runs.
    pub async fn run(
        mut self,
        mut news: mpsc::UnboundedReceiver<Event>,
        mut adoptions: mpsc::UnboundedReceiver<Adoption>,
    ) {
        let mut feed = self.runs.store.follow_kinds(&[EventKind::Inbox, EventKind::Cleared]).await;
        self.look_for_waiting();
        let mut retiring = false;
        let mut hourly = tokio::time::interval(EXPIRE);
        self.look_for_due_tasks();
        loop {
            if std::mem::take(&mut self.to_judge) {
                self.judge_all().await;
            }
            self.perform_all().await;
            // The clock may be set meanwhile, or the machine sleep.
            let wake = self.lanes.next_wake().map_or(LONGEST_SLEEP, |at| {
                Duration::from_millis(at.ms_since(clock::now()).max(0).unsigned_abs()).min(LONGEST_SLEEP)
            });
            let owed = self.owed.at();
            tokio::select! {
                () = self.runs.stop.cancelled() => break,
                () = tokio::time::sleep_until(owed.unwrap_or_else(Instant::now)), if owed.is_some() => self.read_again(),
                () = self.retire.cancelled(), if !retiring => {
                    retiring = true;
                    self.tell(Event::Drain);
                    for live in self.live.values() {
                        let _ = live.orders.send(Order::Close);
                    }
                }
                news = feed.next() => self.read(&news),
                () = std::future::ready(()), if self.to_judge || !self.actions.is_empty() => {}
                () = self.due.notified() => {
                    self.skip_slots().await;
                    self.look_for_due_tasks();
                }
                Some(event) = news.recv() => {
                    self.hear(event);
                    while let Ok(event) = news.try_recv() {
                        self.hear(event);
                    }
                }
                Some(adoption) = adoptions.recv() => self.adopt(adoption),
                Some(ended) = self.supervisors.join_next_with_id() => self.check_supervisor(ended),
                _ = hourly.tick() => self.expire_approvals().await,
                () = tokio::time::sleep(wake) => self.tell(Event::Tick),
            }
        }
        self.tell(Event::Drain);
        drop(self.live);
        while self.supervisors.join_next().await.is_some() {}
    }

    /// Takes in what was committed.
    fn read(&mut self, news: &News) {
        self.to_judge |= news.any(&[EventKind::Inbox]);
        let is_cleared = |event: &FeedEvent| event.kind == EventKind::Cleared && event.group.is_some();
        let cleared = |event: &FeedEvent| event.subject.parse().ok().filter(|_| is_cleared(event));
        let mut lanes: Vec<i64> = news.events.iter().filter_map(|event| cleared(event)).collect();
        if news.missed {
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
                self.owe(Unread::Sessions, &error);
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
            Err(error) => lanes.iter().for_each(|lane| self.owe(Unread::Session(*lane), &error)),
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
            Err(error) => self.owe(Unread::Waiting, &error),
        }
    }

    /// Notes what could not be read. It is logged once, however long it lasts.
    fn owe(&mut self, unread: Unread, error: &store::StoreError) {
        if self.runs.machine.troubles.note(UNREAD, chain(error)) {
            tracing::error!(error = %chain(error), ?unread, "reading what is to be done failed; it is read again each second");
        }
        // It is not judged again at once.
        self.to_judge &= unread != Unread::Inbox;
        self.owed.add(unread, Instant::now());
    }

    /// Reads again what could not be read.
    fn read_again(&mut self) {
        let mut sessions = Vec::new();
        for unread in self.owed.take() {
            match unread {
                Unread::Inbox => self.to_judge = true,
                Unread::Waiting => self.look_for_waiting(),
                Unread::Due => self.look_for_due_tasks(),
                Unread::Session(lane) => sessions.push(lane),
                Unread::Sessions => sessions.extend(self.lanes_at_work()),
                Unread::Idle(group) => self.hear(Event::Idle { group }),
                Unread::Abandoned(group, run) => self.take_over(group, run),
            }
        }
        self.tell_cleared(&sessions);
        self.has_read();
    }

    /// Nothing is owed any more.
    fn has_read(&self) {
        if self.owed.at().is_none() && !self.to_judge {
            self.runs.machine.troubles.is_over(&UNREAD);
        }
    }

    fn tell(&mut self, event: Event) {
        self.actions.extend(self.lanes.on(event, clock::now()));
    }

    /// Takes a supervisor's news. Idleness is checked with the store: a batch may have been piped since it was said.
    fn hear(&mut self, event: Event) {
        match &event {
            Event::Idle { group } => {
                let Some(live) = self.live.get(group) else { return };
                match self.runs.store.active_run(live.run) {
                    Ok(Some(run)) if run.life.is_idle() => {}
                    Ok(_) => return,
                    Err(error) => return self.owe(Unread::Idle(group.clone()), &error),
                }
            }
            Event::StopAsked { group, run } => match self.live.get(group) {
                Some(live) if live.run == *run => drop(live.orders.send(Order::Stop)),
                // It may be one that nobody owns.
                Some(_) | None => return self.runs.machine.look_again.notify_one(),
            },
            Event::Ended { group, waiting } => {
                self.live.remove(group);
                // A rest may have been ended since the end was written down.
                let waiting = match self.runs.store.waiting_lanes_of(group) {
                    Ok(now) => now.iter().map(WaitingLane::from).collect(),
                    Err(error) => {
                        self.owe(Unread::Waiting, &error);
                        waiting.clone()
                    }
                };
                return self.ended(group.clone(), waiting);
            }
            _ => {}
        }
        self.tell(event);
    }

    async fn expire_approvals(&mut self) {
        match self.runs.store.expire_approvals(clock::now()).await {
            Ok(0) => {}
            Ok(expired) => tracing::info!(expired, "nobody answered these questions in time"),
            Err(error) => tracing::error!(error = %chain(&error), "ending old questions failed"),
        }
    }

    /// Tells that a group's run is over, and what else is due in it: before, so that a task that was passed over has its
    /// turn, and after, as the task of the run itself may be due again.
    fn ended(&mut self, group: Folder, waiting: Vec<WaitingLane>) {
        let due = self.runs.store.due_task_of(&group, clock::now()).unwrap_or_else(|error| {
            self.owe(Unread::Due, &error);
            None
        });
        let due = due.map(|task| Event::TaskDue { group: group.clone(), task });
        due.clone().into_iter().for_each(|due| self.tell(due));
        self.tell(Event::Ended { group, waiting });
        due.into_iter().for_each(|due| self.tell(due));
    }

    /// Performs what the lanes decided. Of tasks only some are started: each may turn out to have passed, and the next one of
    /// its group is then decided on at once. News comes in before the others are.
    async fn perform_all(&mut self) {
        let mut later = VecDeque::new();
        let mut tasks = 0;
        while let Some(action) = self.actions.pop_front() {
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
                        let _ = live.orders.send(Order::Close);
                    }
                }
            }
        }
        self.actions = later;
    }

    async fn start_lane(&mut self, group: Folder, lane: LaneId) {
        let runs = Arc::clone(&self.runs);
        let handed = runs
            .store
            .start_run(lane.0, runs.sandbox.kind(), &self.owner, runs.handover_limits(), clock::now())
            .await;
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

    /// What was to be started is gone. What still waits in the group is the store's to say.
    fn nothing_to_start(&mut self, group: Folder, lane: Option<LaneId>) {
        if let Some(lane) = lane {
            self.tell(Event::Emptied { group: group.clone(), lane });
        }
        let waiting = self.waiting_in(&group);
        self.ended(group, waiting);
    }

    fn could_not_start(&mut self, group: Folder, error: &store::StoreError) {
        tracing::error!(group = %group, error = %chain(error), "handing work over failed; it is tried again");
        let again = clock::now().plus_ms(WORLD_REST_MS);
        let waiting = self
            .waiting_in(&group)
            .into_iter()
            .map(|lane| WaitingLane { not_before: lane.not_before.max(Some(again)), ..lane })
            .collect();
        self.tell(Event::Ended { group, waiting });
        let due = Arc::clone(&self.due);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(WORLD_REST_MS.unsigned_abs())).await;
            due.notify_one();
        });
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
                self.owe(Unread::Waiting, &error);
                Vec::new()
            }
        }
    }

    async fn pipe(&mut self, group: Folder, lane: LaneId) {
        let Some(run) = self.live.get(&group).map(|live| live.run) else {
            return self.tell(Event::PipeFailed { group, lane });
        };
        let runs = Arc::clone(&self.runs);
        match runs.store.pipe(run, lane.0, runs.handover_limits(), clock::now()).await {
            Ok(Some(handed)) => {
                failpoint::reach("run.piped");
                tracing::info!(group = %group, run, batch = handed.batch, "follow-up handed over");
                let order = |order: Order| self.live.get(&group).map(|live| live.orders.send(order));
                let _ = order(Order::Handed(handed.batch));
                let input = run::input_of(&runs, &handed).await;
                let placed = match runs.boxes.of(&group) {
                    Ok(boxes) => {
                        let id = store::batch_name(handed.batch);
                        spawn_blocking(move || boxes.put_input(&id, &input).map_err(|e| e.to_string()))
                            .await
                            .unwrap_or_else(|e| Err(e.to_string()))
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
        let supervising = run::supervise(Arc::clone(&self.runs), group.clone(), run, beginning, inbox);
        let task = self.supervisors.spawn(supervising.instrument(run::span(&group, run)));
        self.supervised.insert(task.id(), (group, run));
    }

    /// A supervisor that failed leaves its run to another, which ends it: a group must not stay as it is for ever. That one may
    /// fail as well, so each begins after a rest.
    fn check_supervisor(&mut self, ended: Result<(task::Id, ()), task::JoinError>) {
        let (id, fault) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let Some((group, run)) = self.supervised.remove(&id) else { return };
        let Some(fault) = fault else {
            return self.runs.machine.troubles.is_over(&Trouble::Run(group));
        };
        self.runs.machine.troubles.note(Trouble::Run(group.clone()), chain(&fault));
        tracing::error!(group = %group, run, fault = %chain(&fault), "our own fault: a run's supervisor failed; the run is ended");
        self.owed.add(Unread::Abandoned(group, run), Instant::now());
    }

    /// Ends a run over which nobody watches any more.
    fn take_over(&mut self, group: Folder, run: i64) {
        match self.runs.store.active_run(run) {
            Ok(Some(active)) => self.supervise(group, run, Beginning::Abandoned(Box::new(active))),
            Ok(None) => {
                let waiting = self.waiting_in(&group);
                self.live.remove(&group);
                self.tell(Event::Ended { group, waiting });
            }
            Err(error) => self.owe(Unread::Abandoned(group, run), &error),
        }
    }
}
