//! The rules as assertions: on each action when it is performed, and on what was left undone after each event.

use std::collections::BTreeSet;

use ipc_handlers::{Folder, Time};

use super::world::{Container, Group, Mode, Patience, Pipe, Queued, Rows, Source, Turns, World, name};
use crate::runs::lanes::{Action, Event, LaneId, Load, PIPE_TRIES, PIPES_WHILE_OTHERS_WAIT, Work};

impl World {
    /// Tells the machine, does what it says, and judges it.
    pub(super) fn tell(&mut self, event: Event) {
        let mut asked_to_close = None;
        if let Event::SessionCleared { group, .. }
        | Event::CloseAsked { group }
        | Event::GroupRemoved { group } = &event
        {
            asked_to_close = Some(group.clone());
        }
        for action in self.lanes.on(event, self.now) {
            match action {
                Action::Start { group, work } => self.start(number(&group), work),
                Action::Pipe { group, lane } => self.pipe(number(&group), lane),
                Action::Close { group } => {
                    self.close(number(&group), asked_to_close.as_ref() == Some(&group));
                }
            }
        }
        if !self.is_starting {
            self.judge();
        }
    }

    fn start(&mut self, g: usize, work: Work) {
        assert_eq!(self.mode, Mode::Open, "start of {g}");
        assert!(self.live() < self.cap, "start of {g} exceeds the cap");
        assert!(self.is_startable(g), "start of {g}: {:?}", self.groups[g]);
        let others: Vec<usize> = self.startable().filter(|other| *other != g).collect();
        for other in others {
            let fair = self.passed_by.entry(other).or_default().insert(g);
            assert!(fair, "{g} has a second turn while {other} waits");
        }
        self.passed_by.remove(&g);
        if let Some(queued) = self.queued.remove(&g) {
            queued.judge(g, self.turns);
        }
        self.turns.starts += 1;
        self.patience.remove(&(g, Source::of(&work)));
        for ((of, source), patience) in self.patience.iter_mut().filter(|((of, _), _)| *of == g) {
            patience.passed_over += 1;
            let most = 2 * patience.ahead + 1;
            assert!(
                patience.passed_over <= most,
                "{of}: {source:?} waits for more than {most} runs beside the one at work"
            );
        }
        let group = &mut self.groups[g];
        let generation = match &work {
            Work::Lane(lane) => {
                let rows = &mut group.rows[lane.0 as usize];
                assert!(rows.is_awake(self.now), "{g}: start of {lane:?}, {rows:?}");
                (rows.waits, rows.rest_until) = (false, None);
                rows.generation
            }
            Work::Task(task) => {
                assert!(group.due.remove(task), "{g}: task {task} was not due");
                0
            }
        };
        group.container = Some(Container {
            work,
            generation,
            load: None,
            told_to_leave: false,
            crowded_pipes: 0,
            failed_pipes: 0,
            answer: None,
        });
    }

    fn pipe(&mut self, g: usize, lane: LaneId) {
        assert_ne!(self.mode, Mode::Draining, "pipe into {g}");
        let crowded = self.mode == Mode::Open && self.startable().next().is_some();
        let now = self.now;
        let group = &mut self.groups[g];
        let c = group.container.as_mut().expect("a pipe needs a container");
        let rows = &mut group.rows[lane.0 as usize];
        assert!(!group.held && !c.told_to_leave && c.load.is_some() && c.answer.is_none(), "{g}: {c:?}");
        assert_eq!(c.work, Work::Lane(lane), "{g}: a foreign lane");
        assert_eq!(c.generation, rows.generation, "{g}: another generation");
        assert!(rows.is_awake(now), "{g}: pipe of {rows:?}");
        // Whatever comes of it, that was its turn.
        self.patience.remove(&(g, Source::Lane(lane.0 as usize)));
        c.crowded_pipes += u32::from(crowded);
        self.turns.pipes += usize::from(crowded);
        assert!(c.crowded_pipes <= PIPES_WHILE_OTHERS_WAIT, "{g}: too many pipes while others wait");
        c.answer = Some(match std::mem::take(&mut group.next_pipe) {
            Pipe::Works => {
                (rows.waits, rows.rest_until) = (false, None);
                c.load = Some(Load::Busy);
                Event::Busy { group: name(g) }
            }
            Pipe::FindsNothing => {
                (rows.waits, rows.rest_until) = (false, None);
                Event::PipeEmpty { group: name(g), lane }
            }
            Pipe::Fails => {
                c.failed_pipes += 1;
                Event::PipeFailed { group: name(g), lane }
            }
        });
    }

    fn close(&mut self, g: usize, asked: bool) {
        let wanted = self.live() + self.line() > self.cap + self.closing();
        let group = &self.groups[g];
        let c = group.container.as_ref().expect("a close needs a container");
        assert!(!c.told_to_leave, "{g} was told already");
        if !asked {
            assert_eq!((c.load, &c.answer), (Some(Load::Idle), &None), "{g} is closed though not idle");
            let for_space = self.mode == Mode::Open && !group.held && (wanted || group.has_work(self.now));
            assert!(matches!(c.work, Work::Task(_)) || for_space, "{g} is closed for nobody");
        }
        if let Some(c) = &mut self.groups[g].container {
            c.told_to_leave = true;
        }
    }

    /// Checks that nothing that could be done has been left undone.
    fn judge(&mut self) {
        self.count_who_waits();
        let waiting: BTreeSet<usize> = self.startable().collect();
        self.passed_by.retain(|g, _| waiting.contains(g));
        self.queued.retain(|g, _| waiting.contains(g));
        for g in &waiting {
            let (ahead, live, turns) = (waiting.len() - 1, self.live(), self.turns);
            self.queued.entry(*g).or_insert(Queued { ahead, live, turns });
        }
        let open = self.mode == Mode::Open;
        if open {
            assert!(waiting.is_empty() || self.live() >= self.cap, "a slot is free and {waiting:?} wait");
        }
        let wanted = open && !waiting.is_empty() && self.live() + self.line() > self.cap + self.closing();
        for (g, group) in self.groups.iter().enumerate() {
            let resting = group.rows.iter().filter(|rows| rows.waits && !rows.is_awake(self.now));
            if let Some(until) = resting.filter_map(|rows| rows.rest_until).min()
                && self.mode != Mode::Draining
            {
                let wake = self.lanes.next_wake();
                assert!(wake.is_some_and(|wake| wake <= until), "{g} rests until {until}, wake {wake:?}");
            }
            let Some(c) = group.container.as_ref().filter(|c| !c.told_to_leave && c.answer.is_none()) else {
                continue;
            };
            if c.load == Some(Load::Idle) {
                assert!(!matches!(c.work, Work::Task(_)), "{g}: the run of a finished task stays");
                assert!(group.held || !wanted, "{g} is idle while others wait for its slot");
                let stays = group.held || !open || !group.has_work(self.now);
                assert!(stays, "{g} is idle while its group has work: {group:?}");
            }
            if let Work::Lane(lane) = &c.work
                && c.load.is_some()
                && !group.held
                && self.mode != Mode::Draining
                && (waiting.is_empty() || !open)
            {
                let rows = &group.rows[lane.0 as usize];
                let fits = rows.is_awake(self.now) && rows.generation == c.generation;
                let others = group.rows.iter().filter(|rows| rows.is_awake(self.now)).count() > 1;
                let alone = !open || (group.due.is_empty() && !others);
                assert!(!(fits && alone) || c.failed_pipes >= PIPE_TRIES, "{g}: {lane:?} is not piped");
            }
        }
        if self.mode != Mode::Draining {
            assert!(self.lanes.next_wake().is_none_or(|wake| wake > self.now), "a wake in the past");
        }
    }

    /// Notes who has begun to wait, with how many of its kind before it, and who waits no more.
    fn count_who_waits(&mut self) {
        let (groups, now) = (&self.groups, self.now);
        self.patience
            .retain(|(g, source), _| groups[*g].waits(source, now) && !groups[*g].is_in_doubt(source));
        for (g, group) in self.groups.iter().enumerate() {
            let tasks = group.due.iter().map(|task| Source::Task(task.clone()));
            let lanes = (0..group.rows.len()).map(Source::Lane);
            let waiting: Vec<Source> = tasks.chain(lanes).filter(|source| group.waits(source, now)).collect();
            let is_task = |source: &Source| matches!(source, Source::Task(_));
            for source in waiting.iter().filter(|source| !group.is_in_doubt(source)) {
                let like = |other: &&Source| *other != source && is_task(other) == is_task(source);
                let ahead = waiting.iter().filter(like).count();
                let patience = Patience { ahead, passed_over: 0 };
                self.patience.entry((g, source.clone())).or_insert(patience);
            }
        }
    }

    fn live(&self) -> usize {
        // Of a group that is held it is not known whether it has one.
        self.groups.iter().filter(|group| group.container.is_some() || group.held).count()
    }

    fn line(&self) -> usize {
        self.startable().count()
    }

    fn closing(&self) -> usize {
        let leaves = |group: &&Group| group.container.as_ref().is_some_and(|c| c.told_to_leave);
        self.groups.iter().filter(|group| !group.held).filter(leaves).count()
    }

    /// The groups that could use a slot.
    fn startable(&self) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(|g| self.is_startable(*g))
    }

    fn is_startable(&self, g: usize) -> bool {
        let group = &self.groups[g];
        group.container.is_none() && !group.held && group.has_work(self.now)
    }
}

impl Group {
    fn has_work(&self, now: Time) -> bool {
        !self.due.is_empty() || self.rows.iter().any(|rows| rows.is_awake(now))
    }

    fn waits(&self, source: &Source, now: Time) -> bool {
        match source {
            Source::Lane(lane) => self.rows[*lane].is_awake(now),
            Source::Task(task) => self.due.contains(task),
        }
    }

    /// Nobody knows yet whether the pipe into this lane fails; that it did is not heard of a run that leaves.
    fn is_in_doubt(&self, source: &Source) -> bool {
        let in_doubt = |c: &&Container| c.answer.is_some() || (c.told_to_leave && c.failed_pipes > 0);
        self.container.as_ref().filter(in_doubt).is_some_and(|c| Source::of(&c.work) == *source)
    }
}

impl Queued {
    /// The bound of a wait, in turns: a group has its turn after those that waited before it, and the number of follow-ups of
    /// each run meanwhile is limited.
    fn judge(self, g: usize, now: Turns) {
        let starts = now.starts - self.turns.starts;
        assert!(starts <= self.ahead, "{g} waited for {starts} starts, and {} were before it", self.ahead);
        let runs = self.live + starts + (now.adoptions - self.turns.adoptions);
        let most = runs * PIPES_WHILE_OTHERS_WAIT as usize;
        let pipes = now.pipes - self.turns.pipes;
        assert!(pipes <= most, "{g} waited for {pipes} follow-ups, at most {most} are given meanwhile");
    }
}

impl Rows {
    fn is_awake(&self, now: Time) -> bool {
        self.waits && self.rest_until.is_none_or(|until| until <= now)
    }
}

fn number(group: &Folder) -> usize {
    group.as_str().parse().unwrap()
}
