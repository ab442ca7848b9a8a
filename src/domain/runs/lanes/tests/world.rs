//! A simple world: a store that knows what waits, and containers that do as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use ipc_handlers::{Folder, Time};

use super::script::folder;
use crate::runs::lanes::{
    AdoptedState, Event, Holding, LONGEST_REST_MS, LaneId, Lanes, Load, WaitingLane, Work,
};

/// Lanes and task names in each group.
pub(super) const LANES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Open,
    Paused,
    Draining,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    pub(super) waits: bool,
    pub(super) rest_until: Option<Time>,
    pub(super) generation: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) work: Work,
    pub(super) generation: i64,
    /// Nothing until it is ready.
    pub(super) load: Option<Load>,
    pub(super) told_to_leave: bool,
    pub(super) crowded_pipes: u32,
    pub(super) failed_pipes: u32,
    /// The report about the last pipe.
    pub(super) answer: Option<Event>,
}

impl Container {
    /// As what the next daemon finds it.
    pub(super) fn state(&self) -> AdoptedState {
        match (self.told_to_leave, self.load) {
            (true, _) => AdoptedState::Closing,
            (false, None) => AdoptedState::Starting,
            (false, Some(load)) => AdoptedState::Ready(load),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) rows: [Rows; LANES],
    pub(super) due: BTreeSet<String>,
    pub(super) container: Option<Container>,
    pub(super) held: bool,
    pub(super) next_pipe: Pipe,
}

/// What becomes of the next pipe into a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pipe {
    #[default]
    Works,
    Fails,
    FindsNothing,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    /// Its batch is returned, with this rest, ms.
    Returned(Option<i64>),
}

pub(super) struct World {
    pub(super) lanes: Lanes,
    pub(super) cap: usize,
    pub(super) now: Time,
    pub(super) mode: Mode,
    pub(super) groups: Vec<Group>,
    /// For each group that waits for a slot: who has been started since it began to wait.
    pub(super) passed_by: BTreeMap<usize, BTreeSet<usize>>,
    /// For each source of a group that waits: how many were before it, and how often it was passed over.
    pub(super) patience: BTreeMap<(usize, Source), Patience>,
    /// For each group that waits for a slot: how the world stood when it began to.
    pub(super) queued: BTreeMap<usize, Queued>,
    pub(super) turns: Turns,
    /// A new machine has not been told yet of all that waits.
    pub(super) is_starting: bool,
}

/// How many turns were given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    pub(super) starts: usize,
    pub(super) adoptions: usize,
    /// Pipes while some group waited for a slot.
    pub(super) pipes: usize,
}

/// How the world stood when a group began to wait for a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    /// Groups that waited already.
    pub(super) ahead: usize,
    /// Runs that were under way.
    pub(super) live: usize,
    pub(super) turns: Turns,
}

/// What a run can be for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Lane(usize),
    Task(String),
}

impl Source {
    pub(super) fn of(work: &Work) -> Self {
        match work {
            Work::Lane(lane) => Self::Lane(lane.0 as usize),
            Work::Task(task) => Self::Task(task.clone()),
        }
    }
}

/// How a source waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Others of its kind that waited when it began to.
    pub(super) ahead: usize,
    /// Runs of its group that were started since.
    pub(super) passed_over: usize,
}

impl World {
    pub(super) fn new(cap: usize, groups: usize) -> Self {
        Self {
            lanes: Lanes::new(NonZeroUsize::new(cap).unwrap()),
            cap,
            now: Time(1_000_000),
            mode: Mode::Open,
            groups: vec![Group::default(); groups],
            passed_by: BTreeMap::new(),
            patience: BTreeMap::new(),
            queued: BTreeMap::new(),
            turns: Turns::default(),
            is_starting: false,
        }
    }

    /// The daemon is followed by another, which finds these containers, and those of `unknown` only later: it is told of what
    /// was found, then of what waits.
    pub(super) fn restart(&mut self, found: BTreeMap<usize, Container>, unknown: &[usize], order: &[usize]) {
        self.lanes = Lanes::new(NonZeroUsize::new(self.cap).unwrap());
        (self.mode, self.is_starting) = (Mode::Open, true);
        self.passed_by.clear();
        self.patience.clear();
        self.queued.clear();
        self.groups.iter_mut().for_each(|group| group.held = false);
        unknown.iter().for_each(|g| self.hold(*g));
        for (g, container) in found {
            let state = container.state();
            self.adopt(g, container.work, state);
        }
        for g in order {
            for l in 0..LANES {
                if self.groups[*g].rows[l].waits {
                    self.message(*g, l, ToldRest::Truth);
                }
            }
        }
        for g in order {
            for task in self.groups[*g].due.clone() {
                self.tell(Event::TaskDue { group: name(*g), task });
            }
        }
        self.is_starting = false;
        self.tell(Event::Tick);
    }

    /// A message comes in, and is told with a rest that is not later than the one in the store.
    pub(super) fn message(&mut self, g: usize, l: usize, told_rest: ToldRest) {
        let now = self.now;
        let rows = &mut self.groups[g].rows[l];
        rows.waits = true;
        rows.rest_until = rows.rest_until.filter(|until| *until > now);
        let not_before = match told_rest {
            ToldRest::None => None,
            ToldRest::Truth => rows.rest_until,
            ToldRest::Earlier => rows.rest_until.map(|until| Time(until.0 - 1)),
            ToldRest::Absurd => Some(now.plus_ms(LONGEST_REST_MS + 1)),
        };
        let waiting = WaitingLane { not_before, ..waiting_lane(l, rows) };
        self.tell(Event::Waiting { group: name(g), waiting });
    }

    pub(super) fn wake(&mut self, g: usize, l: usize) {
        self.groups[g].rows[l].rest_until = None;
        self.tell(Event::Woken { group: name(g), lane: LaneId(l as i64) });
    }

    pub(super) fn empty(&mut self, g: usize, l: usize) {
        // That a pipe failed would say that the lane waits again.
        self.answer(g);
        let rows = &mut self.groups[g].rows[l];
        (rows.waits, rows.rest_until) = (false, None);
        self.tell(Event::Emptied { group: name(g), lane: LaneId(l as i64) });
    }

    pub(super) fn task(&mut self, g: usize, t: usize) {
        let task = t.to_string();
        let runs = |c: &Container| c.work == Work::Task(task.clone());
        if !self.groups[g].container.as_ref().is_some_and(runs) {
            self.groups[g].due.insert(task.clone());
        }
        self.tell(Event::TaskDue { group: name(g), task });
    }

    pub(super) fn task_gone(&mut self, g: usize, t: usize) {
        let task = t.to_string();
        self.groups[g].due.remove(&task);
        self.tell(Event::TaskGone { group: name(g), task });
    }

    pub(super) fn next_pipe(&mut self, g: usize, pipe: Pipe) {
        self.groups[g].next_pipe = pipe;
    }

    /// The last pipe of the group is answered, and those that follow from that.
    pub(super) fn answer(&mut self, g: usize) {
        while let Some(event) = self.groups[g].container.as_mut().and_then(|c| c.answer.take()) {
            self.tell(event);
        }
    }

    pub(super) fn ready(&mut self, g: usize) {
        self.answer(g);
        if let Some(c) = &mut self.groups[g].container {
            c.load.get_or_insert(Load::Busy);
            self.tell(Event::Ready { group: name(g) });
        }
    }

    pub(super) fn idle(&mut self, g: usize) {
        self.answer(g);
        if let Some(c) = &mut self.groups[g].container
            && c.load.is_some()
        {
            c.load = Some(Load::Idle);
            self.tell(Event::Idle { group: name(g) });
        }
    }

    /// The container dies, and its end is committed. A pipe that failed may be told of after that.
    pub(super) fn end(&mut self, g: usize, end: End) {
        let Some(c) = self.groups[g].container.take() else { return };
        if let (Work::Lane(lane), End::Returned(rest)) = (&c.work, end) {
            let rows = &mut self.groups[g].rows[lane.0 as usize];
            rows.waits = true;
            rows.rest_until = rows.rest_until.max(rest.map(|ms| self.now.plus_ms(ms)));
        }
        let rows = self.groups[g].rows.iter().enumerate();
        let waiting = rows.filter(|(_, rows)| rows.waits).map(|(l, rows)| waiting_lane(l, rows)).collect();
        self.tell(Event::Ended { group: name(g), waiting });
        if let Some(late @ Event::PipeFailed { .. }) = c.answer {
            self.tell(late);
        }
    }

    /// The session is cleared, and this is told by its own event or only with what waits.
    pub(super) fn clear(&mut self, g: usize, l: usize, told: Told) {
        let rows = &mut self.groups[g].rows[l];
        rows.generation += 1;
        let generation = rows.generation;
        match told {
            Told::Loudly => {
                let lane = LaneId(l as i64);
                self.tell(Event::SessionCleared { group: name(g), lane, generation });
                if let Some(c) = &self.groups[g].container
                    && c.work == Work::Lane(lane)
                {
                    assert!(c.told_to_leave || c.generation == generation, "{g} keeps a cleared session");
                }
            }
            Told::Quietly if rows.waits => self.message(g, l, ToldRest::Truth),
            Told::Quietly => {}
        }
    }

    pub(super) fn close_asked(&mut self, g: usize) {
        self.tell(Event::CloseAsked { group: name(g) });
    }

    pub(super) fn hold(&mut self, g: usize) {
        self.groups[g].held = true;
        self.tell(Event::Hold { group: name(g), reason: Holding::Unknown });
    }

    pub(super) fn release(&mut self, g: usize) {
        self.groups[g].held = false;
        self.tell(Event::Release { group: name(g), reason: Holding::Unknown });
    }

    pub(super) fn remove(&mut self, g: usize) {
        for rows in &mut self.groups[g].rows {
            (rows.waits, rows.rest_until) = (false, None);
        }
        self.groups[g].due.clear();
        self.tell(Event::GroupRemoved { group: name(g) });
    }

    /// A run is found in a group of which nothing is known yet, or that is held and has none.
    pub(super) fn adopt(&mut self, g: usize, work: Work, state: AdoptedState) {
        let group = &mut self.groups[g];
        if group.container.is_some() {
            return;
        }
        let generation = match &work {
            Work::Lane(lane) => group.rows[lane.0 as usize].generation,
            Work::Task(task) => {
                group.due.remove(task);
                0
            }
        };
        self.turns.adoptions += 1;
        let (load, told_to_leave) = match state {
            AdoptedState::Starting => (None, false),
            AdoptedState::Ready(load) => (Some(load), false),
            AdoptedState::Closing => (Some(Load::Busy), true),
        };
        group.container = Some(Container {
            work: work.clone(),
            generation,
            load,
            told_to_leave,
            crowded_pipes: 0,
            failed_pipes: 0,
            answer: None,
        });
        self.tell(Event::Adopted { group: name(g), work, generation, state });
    }

    pub(super) fn adopt_late(&mut self, g: usize, work: Work, state: AdoptedState) {
        if self.groups[g].held {
            self.adopt(g, work, state);
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        if self.mode != Mode::Draining {
            self.mode = mode;
        }
        self.tell(match mode {
            Mode::Open => Event::Resume,
            Mode::Paused => Event::Pause,
            Mode::Draining => Event::Drain,
        });
    }

    pub(super) fn pass_time(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        self.tell(Event::Tick);
    }

    /// Lets every run become ready, finish, and leave when told, until nothing moves; then all must be served.
    pub(super) fn run_to_quiet(&mut self) {
        self.set_mode(Mode::Open);
        (0..self.groups.len()).for_each(|g| self.release(g));
        for _ in 0..1000 {
            for g in 0..self.groups.len() {
                self.groups[g].next_pipe = Pipe::Works;
                self.answer(g);
                match self.groups[g].container.as_ref().map(|c| (c.told_to_leave, c.load)) {
                    None | Some((false, Some(Load::Idle))) => {}
                    Some((true, _)) => self.end(g, End::Clean),
                    Some((false, None)) => self.ready(g),
                    Some((false, Some(Load::Busy))) => self.idle(g),
                }
            }
            let moves = |c: &Container| c.told_to_leave || c.load != Some(Load::Idle);
            if self.groups.iter().any(|group| group.container.as_ref().is_some_and(moves)) {
                continue;
            }
            match self.lanes.next_wake() {
                Some(wake) => self.pass_time(wake.ms_since(self.now)),
                None => break,
            }
        }
        for (g, group) in self.groups.iter().enumerate() {
            let served = group.due.is_empty() && group.rows.iter().all(|rows| !rows.waits);
            assert!(served, "group {g} was not served: {group:?}");
        }
    }
}

/// Which rest a message is told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldRest {
    None,
    Truth,
    Earlier,
    Absurd,
}

/// How a cleared session is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Loudly,
    Quietly,
}

fn waiting_lane(l: usize, rows: &Rows) -> WaitingLane {
    WaitingLane { lane: LaneId(l as i64), generation: rows.generation, not_before: rows.rest_until }
}

pub(super) fn name(g: usize) -> Folder {
    folder(&g.to_string())
}
