//! Writing down what happened: how each event changes the group that it happened in.

use ipc_handlers::{Folder, Time};

use super::events::{Action, AdoptedState, Event, LaneId, Load, WaitingLane, Work};
use super::group::{Mode, Phase, Run, Wait, is_rest};
use super::line::{Line, Membership};
use super::machine::Lanes;

impl Lanes {
    /// Writes down what happened, and returns the group that it happened in.
    pub(super) fn take_in(&mut self, event: Event, now: Time, actions: &mut Vec<Action>) -> Option<Folder> {
        match event {
            Event::Waiting { group, waiting } => {
                self.wait(&group, waiting, now);
                Some(group)
            }
            Event::Emptied { group, lane } => {
                self.forget_lane(&group, lane);
                Some(group)
            }
            Event::Woken { group, lane } => {
                self.wake(&group, lane);
                Some(group)
            }
            Event::TaskDue { group, task } => {
                let state = self.groups.entry(group.clone()).or_default();
                let runs = state.run.as_ref().is_some_and(|run| run.work == Work::Task(task.clone()));
                if !runs {
                    state.tasks.join(&task);
                }
                Some(group)
            }
            Event::TaskGone { group, task } => {
                self.groups.get_mut(&group)?.tasks.leave(&task);
                Some(group)
            }
            Event::Ready { group } => {
                let phase = &mut self.run_of(&group)?.phase;
                if *phase == Phase::Starting {
                    *phase = Phase::Ready(Load::Busy);
                }
                Some(group)
            }
            Event::Idle { group } => {
                let phase = &mut self.run_of(&group)?.phase;
                match *phase {
                    // An agent that has finished is up, whatever became of its `Ready`.
                    Phase::Starting | Phase::Ready(_) | Phase::Piping { .. } => {
                        *phase = Phase::Ready(Load::Idle);
                    }
                    Phase::Closing => {}
                }
                Some(group)
            }
            Event::Busy { group } => {
                let phase = &mut self.run_of(&group)?.phase;
                match *phase {
                    Phase::Ready(_) | Phase::Piping { .. } => *phase = Phase::Ready(Load::Busy),
                    Phase::Starting | Phase::Closing => {}
                }
                Some(group)
            }
            Event::PipeFailed { group, lane } => {
                self.pipe_failed(&group, lane, now);
                Some(group)
            }
            Event::PipeEmpty { group, lane } => {
                self.unpipe(&group, lane);
                Some(group)
            }
            Event::SessionCleared { group, lane, generation } => {
                let state = self.groups.get_mut(&group)?;
                if let Some(wait) = state.waits.get_mut(&lane) {
                    wait.generation = wait.generation.max(generation);
                }
                if state.run.as_ref().is_some_and(|run| run.serves(lane) && run.generation < generation) {
                    self.close(&group, actions);
                }
                Some(group)
            }
            Event::CloseAsked { group } | Event::StopAsked { group, run: _ } => {
                self.close(&group, actions);
                Some(group)
            }
            Event::Ended { group, waiting } => {
                self.groups.entry(group.clone()).or_default().run = None;
                for waiting in waiting {
                    self.wait(&group, waiting, now);
                }
                Some(group)
            }
            Event::Adopted { group, work, generation, state } => {
                self.adopt(&group, work, generation, state);
                Some(group)
            }
            Event::Hold { group, reason } => {
                self.groups.entry(group.clone()).or_default().held.insert(reason);
                Some(group)
            }
            Event::Release { group, reason } => {
                self.groups.get_mut(&group)?.held.remove(&reason);
                Some(group)
            }
            Event::Pause => self.set_mode(Mode::Paused),
            Event::Resume => self.set_mode(Mode::Open),
            Event::Drain => {
                self.rests.clear();
                self.set_mode(Mode::Draining)
            }
            Event::GroupRemoved { group } => {
                let state = self.groups.get_mut(&group)?;
                state.tasks = Line::default();
                let lanes: Vec<LaneId> = state.waits.keys().copied().collect();
                for lane in lanes {
                    self.forget_lane(&group, lane);
                }
                self.close(&group, actions);
                Some(group)
            }
            Event::Cap { most } => {
                self.cap = most.get();
                None
            }
            Event::Tick => None,
        }
    }

    fn set_mode(&mut self, mode: Mode) -> Option<Folder> {
        if self.mode != Mode::Draining {
            self.mode = mode;
        }
        None
    }

    pub(super) fn run_of(&mut self, group: &Folder) -> Option<&mut Run> {
        self.groups.get_mut(group)?.run.as_mut()
    }

    /// Notes that a lane waits. A rest that has begun is lengthened at most; a place in the line is kept.
    fn wait(&mut self, folder: &Folder, waiting: WaitingLane, now: Time) {
        let WaitingLane { lane, generation, not_before } = waiting;
        let group = self.groups.entry(folder.clone()).or_default();
        let of_run = group.run.as_ref().filter(|run| run.serves(lane)).map(|run| run.generation);
        let wait = group.waits.entry(lane).or_insert(Wait { generation, rest_until: None });
        wait.generation = wait.generation.max(generation).max(of_run.unwrap_or(generation));

        // A machine that drains starts nothing, so it need not be woken for it.
        let rest = not_before.filter(|until| is_rest(*until, now) && self.mode != Mode::Draining);
        if rest > wait.rest_until {
            let old = std::mem::replace(&mut wait.rest_until, rest);
            self.rests.extend(rest.map(|until| (until, folder.clone(), lane)));
            if let Some(until) = old {
                self.rests.remove(&(until, folder.clone(), lane));
            }
        }
        group.lanes.set(&lane, Membership::when(wait.rest_until.is_none()));
    }

    fn wake(&mut self, folder: &Folder, lane: LaneId) {
        let Some(group) = self.groups.get_mut(folder) else { return };
        if let Some(wait) = group.waits.get_mut(&lane)
            && let Some(until) = wait.rest_until.take()
        {
            self.rests.remove(&(until, folder.clone(), lane));
            group.lanes.join(&lane);
        }
    }

    fn forget_lane(&mut self, folder: &Folder, lane: LaneId) {
        let Some(group) = self.groups.get_mut(folder) else { return };
        group.lanes.leave(&lane);
        if let Some(until) = group.waits.remove(&lane).and_then(|wait| wait.rest_until) {
            self.rests.remove(&(until, folder.clone(), lane));
        }
    }

    /// Takes back that a pipe into the run of `lane` is on its way, if one is: nothing was handed over.
    fn unpipe(&mut self, folder: &Folder, lane: LaneId) {
        if let Some(run) = self.run_of(folder)
            && run.serves(lane)
            && let Phase::Piping { before } = run.phase
        {
            run.phase = Phase::Ready(before);
        }
    }

    /// Notes that the lane still waits. Where the run leaves or has been followed by another, its end says what waits.
    fn pipe_failed(&mut self, folder: &Folder, lane: LaneId, now: Time) {
        self.unpipe(folder, lane);
        if let Some(run) = self.run_of(folder)
            && run.serves(lane)
            && let Phase::Ready(_) = run.phase
        {
            run.failed_pipes = run.failed_pipes.saturating_add(1);
            let generation = run.generation;
            self.wait(folder, WaitingLane { lane, generation, not_before: None }, now);
        }
    }

    fn adopt(&mut self, folder: &Folder, work: Work, generation: i64, state: AdoptedState) {
        let group = self.groups.entry(folder.clone()).or_default();
        if group.run.is_some() {
            return;
        }
        if let Work::Task(task) = &work {
            group.tasks.leave(task);
        }
        let phase = match state {
            AdoptedState::Starting => Phase::Starting,
            AdoptedState::Ready(load) => Phase::Ready(load),
            AdoptedState::Closing => Phase::Closing,
        };
        group.run = Some(Run::new(work, generation, phase));
    }
}
