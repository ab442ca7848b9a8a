//! One group: its run, its waiting lanes, and the next step of its run.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::Time;

use super::events::{Holding, LONGEST_REST_MS, LaneId, Load, PIPE_TRIES, PIPES_WHILE_OTHERS_WAIT, Work};
use super::line::Line;

/// Whether something new may be begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Open,
    /// No starts, and nothing is closed to make room for one.
    Paused,
    /// No starts, no pipes. Never left.
    Draining,
}

/// Whether other groups wait for a slot and could have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Crowd {
    #[default]
    Nobody,
    Waits,
}

/// What a group's run must know of the rest of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) mode: Mode,
    pub(super) crowd: Crowd,
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// What waits in its lane goes into it.
    Pipe {
        lane: LaneId,
        allowance: Allowance,
    },
    Close,
}

/// Whether a pipe is counted against [`PIPES_WHILE_OTHERS_WAIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    Spent,
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Ready(Load),
    /// A pipe is on its way; `before` is what the run was, and is again if nothing was handed over.
    Piping {
        before: Load,
    },
    Closing,
}

/// One life of a container.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) work: Work,
    pub(super) generation: i64,
    pub(super) phase: Phase,
    /// Pipes given while others waited.
    pub(super) pipes: u32,
    pub(super) failed_pipes: u32,
}

impl Run {
    /// Returns a run that has been given nothing but its first batch.
    pub(super) fn new(work: Work, generation: i64, phase: Phase) -> Self {
        Self { work, generation, phase, pipes: 0, failed_pipes: 0 }
    }

    /// Returns whether the run serves `lane`.
    pub(super) fn serves(&self, lane: LaneId) -> bool {
        self.work == Work::Lane(lane)
    }
}

/// How a lane waits. It stands in the group's line unless it rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) generation: i64,
    pub(super) rest_until: Option<Time>,
}

/// Returns whether a rest until then is still to be kept.
pub(super) fn is_rest(until: Time, now: Time) -> bool {
    until > now && until.ms_since(now) <= LONGEST_REST_MS
}

/// One group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) run: Option<Run>,
    /// Why nothing is started, piped or closed by choice; empty: it is.
    pub(super) held: BTreeSet<Holding>,
    pub(super) tasks: Line<String>,
    /// A lane had its turn while a task waited: the next turn is a task's.
    pub(super) task_is_next: bool,
    pub(super) waits: BTreeMap<LaneId, Wait>,
    /// The lanes of `waits` that don't rest, in the order in which they began to wait.
    pub(super) lanes: Line<LaneId>,
}

impl Group {
    /// Returns whether the group could use a slot now.
    pub(super) fn is_startable(&self) -> bool {
        self.run.is_none() && self.held.is_empty() && !(self.tasks.is_empty() && self.lanes.is_empty())
    }

    /// Returns whether the group has a run, or one that may be alive.
    pub(super) fn takes_a_slot(&self) -> bool {
        self.run.is_some() || self.held.contains(&Holding::Unknown)
    }

    /// Returns whether there is nothing to remember of the group.
    pub(super) fn is_blank(&self) -> bool {
        self.run.is_none() && self.held.is_empty() && self.tasks.is_empty() && self.waits.is_empty()
    }

    /// Returns the phase of a run whose state is known.
    pub(super) fn known_phase(&self) -> Option<Phase> {
        self.run.as_ref().filter(|_| self.held.is_empty()).map(|run| run.phase)
    }

    /// Takes what the next run serves, with its generation: people first, but no lane has two turns over a task that waits.
    pub(super) fn take_work(&mut self) -> Option<(Work, i64)> {
        if (self.task_is_next || self.lanes.is_empty())
            && let Some(task) = self.tasks.take_first()
        {
            self.task_is_next = false;
            return Some((Work::Task(task), 0));
        }
        let lane = self.lanes.take_first()?;
        let wait = self.waits.remove(&lane)?;
        self.task_is_next = !self.tasks.is_empty();
        Some((Work::Lane(lane), wait.generation))
    }

    /// Returns the next step of the group's run, if any.
    pub(super) fn next_step(&self, outside: Outside) -> Option<Step> {
        let run = self.run.as_ref()?;
        let Phase::Ready(load) = run.phase else { return None };
        let lane = match run.work {
            // Nothing is ever piped into a task's run, so there is nothing to keep it for.
            Work::Task(_) => return (load == Load::Idle).then_some(Step::Close),
            Work::Lane(lane) => lane,
        };
        if !self.held.is_empty() {
            return None;
        }
        let fits = self.has_follow_up(run, lane);
        match outside.mode {
            Mode::Draining => None,
            // Nobody could use what a close would free, so nobody is waited for either.
            Mode::Paused => fits.then_some(Step::Pipe { lane, allowance: Allowance::Free }),
            Mode::Open => self.step_among_others(run, load, fits.then_some(lane), outside.crowd),
        }
    }

    /// Returns whether what waits in the run's own lane can be piped into it.
    fn has_follow_up(&self, run: &Run, lane: LaneId) -> bool {
        run.failed_pipes < PIPE_TRIES
            && self.lanes.contains(&lane)
            && self.waits.get(&lane).is_some_and(|wait| wait.generation == run.generation)
    }

    fn step_among_others(
        &self,
        run: &Run,
        load: Load,
        follow_up: Option<LaneId>,
        crowd: Crowd,
    ) -> Option<Step> {
        let unfit_lanes = self.lanes.len() - usize::from(follow_up.is_some());
        let alone = crowd == Crowd::Nobody && self.tasks.is_empty() && unfit_lanes == 0;
        let pipe = match follow_up {
            Some(lane) if alone => Some(Step::Pipe { lane, allowance: Allowance::Free }),
            Some(lane) if run.pipes < PIPES_WHILE_OTHERS_WAIT => {
                Some(Step::Pipe { lane, allowance: Allowance::Spent })
            }
            Some(_) | None => None,
        };
        match load {
            Load::Busy => pipe,
            Load::Idle => {
                let wanted = !(self.tasks.is_empty() && self.lanes.is_empty());
                pipe.or_else(|| wanted.then_some(Step::Close))
            }
        }
    }
}
