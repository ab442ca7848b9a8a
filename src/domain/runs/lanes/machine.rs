//! The machine: all groups, the line for slots, and the rests.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use ipc_handlers::{Folder, Time};

use super::events::{Action, Event, LaneId, Load};
use super::group::{Allowance, Crowd, Group, Mode, Outside, Phase, Run, Step, is_rest};
use super::line::{Line, Membership};

/// Decides which container is started, piped into and closed.
///
/// One event costs the logarithm of the number of lanes, plus its actions; when the line for slots fills or empties, also
/// a look at each run.
#[derive(Debug)]
pub struct Lanes {
    pub(super) cap: usize,
    pub(super) mode: Mode,
    pub(super) groups: BTreeMap<Folder, Group>,
    pub(super) rests: BTreeSet<(Time, Folder, LaneId)>,
    /// As it was after the last event: when it changes, every run is looked at again.
    outside: Outside,
    // What follows is an index of `groups`, brought up to date by `index`.
    /// Groups that could use a slot, in the order in which they began to wait.
    line: Line<Folder>,
    /// Groups with a run, or with one that may be alive.
    live: BTreeSet<Folder>,
    /// Groups whose known run is idle, longest first.
    idle: Line<Folder>,
    /// Groups whose known run is closing.
    closing: Line<Folder>,
}

impl Lanes {
    /// Returns a machine that knows of nothing and starts at most `cap` containers at a time.
    #[must_use]
    pub fn new(cap: NonZeroUsize) -> Self {
        Self {
            cap: cap.get(),
            mode: Mode::default(),
            groups: BTreeMap::new(),
            rests: BTreeSet::new(),
            outside: Outside::default(),
            line: Line::default(),
            live: BTreeSet::new(),
            idle: Line::default(),
            closing: Line::default(),
        }
    }

    /// Takes in an event and returns the actions, in order. The same events give the same actions.
    pub fn on(&mut self, event: Event, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut touched = self.end_rests(now);
        touched.extend(self.take_in(event, now, &mut actions));
        for group in &touched {
            self.index(group);
        }
        self.fill_slots(&mut actions);
        if self.look_outside() {
            touched.extend(self.live.iter().cloned());
        }
        for group in &touched {
            self.move_on(group, &mut actions);
        }
        self.make_room(&mut actions);
        actions
    }

    /// Returns when the next rest ends: [`Event::Tick`] is due then. Always later than the last `now`.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.rests.first().map(|(until, _, _)| *until)
    }

    /// Ends the rests whose time has come or that can't be true, and returns their groups.
    fn end_rests(&mut self, now: Time) -> BTreeSet<Folder> {
        let mut touched = BTreeSet::new();
        while let Some((until, folder, lane)) = self.rest_that_is_over(now) {
            self.rests.remove(&(until, folder.clone(), lane));
            if let Some(group) = self.groups.get_mut(&folder)
                && let Some(wait) = group.waits.get_mut(&lane)
            {
                wait.rest_until = None;
                group.lanes.join(&lane);
                // At once, so that groups join the line in the order in which their rests ended.
                self.index(&folder);
                touched.insert(folder);
            }
        }
        touched
    }

    fn rest_that_is_over(&self, now: Time) -> Option<(Time, Folder, LaneId)> {
        let ends = [self.rests.first(), self.rests.last()];
        ends.into_iter().flatten().find(|(until, _, _)| !is_rest(*until, now)).cloned()
    }

    /// Tells the group's run to leave, unless it has been told already.
    pub(super) fn close(&mut self, folder: &Folder, actions: &mut Vec<Action>) {
        if let Some(run) = self.run_of(folder)
            && run.phase != Phase::Closing
        {
            run.phase = Phase::Closing;
            self.index(folder);
            actions.push(Action::Close { group: folder.clone() });
        }
    }

    /// Starts groups in the order of the line while there are slots.
    fn fill_slots(&mut self, actions: &mut Vec<Action>) {
        while self.mode == Mode::Open
            && self.live.len() < self.cap
            && let Some(folder) = self.line.take_first()
        {
            if let Some(group) = self.groups.get_mut(&folder)
                && let Some((work, generation)) = group.take_work()
            {
                group.run = Some(Run::new(work.clone(), generation, Phase::Starting));
                self.index(&folder);
                actions.push(Action::Start { group: folder, work });
            }
        }
    }

    /// Notes what runs must know of the rest of the world, and returns whether it has changed.
    fn look_outside(&mut self) -> bool {
        let crowded = self.mode == Mode::Open && !self.line.is_empty();
        let crowd = if crowded { Crowd::Waits } else { Crowd::Nobody };
        let outside = Outside { mode: self.mode, crowd };
        std::mem::replace(&mut self.outside, outside) != outside
    }

    /// Pipes into or closes a group's run, if that is its next step.
    fn move_on(&mut self, folder: &Folder, actions: &mut Vec<Action>) {
        let outside = self.outside;
        let Some(group) = self.groups.get_mut(folder) else { return };
        match group.next_step(outside) {
            None => {}
            Some(Step::Close) => self.close(folder, actions),
            Some(Step::Pipe { lane, allowance }) => {
                group.waits.remove(&lane);
                group.lanes.leave(&lane);
                if let Some(run) = &mut group.run
                    && let Phase::Ready(before) = run.phase
                {
                    run.phase = Phase::Piping { before };
                    run.pipes += u32::from(allowance == Allowance::Spent);
                }
                self.index(folder);
                actions.push(Action::Pipe { group: folder.clone(), lane });
            }
        }
    }

    /// Closes idle runs for the groups that wait for a slot: as many as are wanted beyond those that leave anyway.
    fn make_room(&mut self, actions: &mut Vec<Action>) {
        while self.outside.crowd == Crowd::Waits
            && self.live.len() + self.line.len() > self.cap + self.closing.len()
            && let Some(folder) = self.idle.first().cloned()
        {
            self.close(&folder, actions);
        }
    }

    /// Brings the index up to date with a group's state.
    fn index(&mut self, folder: &Folder) {
        let Some(group) = self.groups.get_mut(folder) else { return };
        group.task_is_next &= !group.tasks.is_empty();
        let phase = group.known_phase();
        self.line.set(folder, Membership::when(group.is_startable()));
        self.idle.set(folder, Membership::when(phase == Some(Phase::Ready(Load::Idle))));
        self.closing.set(folder, Membership::when(phase == Some(Phase::Closing)));
        if !group.takes_a_slot() {
            self.live.remove(folder);
        } else if !self.live.contains(folder) {
            self.live.insert(folder.clone());
        }
        if group.is_blank() {
            self.groups.remove(folder);
        }
    }
}
