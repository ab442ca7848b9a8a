//! Three hundred groups at once, over a simulated time: slow and fast runs, people who go on writing, tasks, containers that do
//! not start, daemons that stop or die and find their containers again, or some of them late. The rules of `rules.rs` hold at
//! each step, and all that waits is served.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use proptest::prelude::*;

use super::world::{Container, End, LANES, Mode, ToldRest, World};
use crate::runs::lanes::{Load, Work};

const GROUPS: usize = 300;
const SECOND: i64 = 1000;
/// For how long people write and tasks come, ms.
const WRITING: i64 = 600 * SECOND;

/// Small numbers that only depend on the seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn ms(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from) as usize) as i64
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    Message(usize, usize),
    Task(usize, usize),
    /// The container of a group is up, or is not and never will be.
    Up(usize),
    /// The pipe into a group's run has an outcome.
    Piped(usize),
    Finished(usize),
    Left(usize),
    /// A container of which the daemon did not know is found.
    Found(usize),
    Follows(Daemon),
}

/// What a daemon leaves to the one that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Daemon {
    /// It stopped in order, and its containers live on.
    Stopped,
    /// It died, and its containers live on; the engine tells of some of them late.
    Died,
    /// It died, and its runs with it.
    DiedWithItsRuns,
}

/// What a group's container is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starts,
    Works,
    Rests,
    Leaves,
}

struct Crowd {
    world: World,
    random: Random,
    news: BinaryHeap<Reverse<(i64, u64, News)>>,
    told: u64,
    stages: Vec<Option<Stage>>,
    /// How often the containers of a group do not come up.
    failures: Vec<usize>,
    unknown: BTreeMap<usize, Container>,
}

impl Crowd {
    fn new(cap: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let failures = (0..GROUPS).map(|_| if random.one_in(10) { random.below(6) } else { 0 }).collect();
        let mut this = Self {
            world: World::new(cap, GROUPS),
            random,
            news: BinaryHeap::new(),
            told: 0,
            stages: vec![None; GROUPS],
            failures,
            unknown: BTreeMap::new(),
        };
        for g in 0..GROUPS {
            this.tell_within(SECOND, News::Message(g, 0));
            for _ in 0..this.random.below(4) {
                let lane = this.random.below(LANES);
                this.tell_within(WRITING, News::Message(g, lane));
            }
            if this.random.one_in(3) {
                let task = this.random.below(LANES);
                this.tell_within(WRITING, News::Task(g, task));
            }
        }
        // Some never rest: a task that is due again and again, and a person who writes every few seconds.
        for at in 0..WRITING / (5 * SECOND) {
            this.tell_in(at * 5 * SECOND, News::Task(7, 0));
            this.tell_in(at * 5 * SECOND, News::Message(8, 1));
        }
        this
    }

    fn tell_in(&mut self, ms: i64, news: News) {
        self.told += 1;
        self.news.push(Reverse((self.world.now.0 + ms, self.told, news)));
    }

    fn tell_within(&mut self, ms: i64, news: News) {
        let ms = self.random.ms(0, ms);
        self.tell_in(ms, news);
    }

    /// Some groups are fast, some take minutes for each turn.
    fn turn_ms(&mut self, g: usize) -> i64 {
        if g.is_multiple_of(9) {
            self.random.ms(60 * SECOND, 600 * SECOND)
        } else {
            self.random.ms(SECOND, 9 * SECOND)
        }
    }

    /// Everything happens, and nothing is left.
    fn run(mut self) {
        while let Some(Reverse((at, _, news))) = self.news.pop() {
            let wake = self.world.lanes.next_wake().filter(|wake| wake.0 < at);
            if let Some(wake) = wake {
                self.news.push(Reverse((at, 0, news)));
                self.world.pass_time(wake.ms_since(self.world.now));
            } else {
                self.world.now.0 = at;
                self.happen(news);
            }
            self.look();
        }
        assert!(self.unknown.is_empty(), "all were found");
        self.world.run_to_quiet();
    }

    fn happen(&mut self, news: News) {
        match news {
            News::Message(g, l) => self.world.message(g, l, ToldRest::Truth),
            News::Task(g, t) => self.world.task(g, t),
            News::Up(g) if self.stages[g] == Some(Stage::Starts) => self.up(g),
            News::Piped(g) => self.world.answer(g),
            News::Finished(g) if self.stages[g] == Some(Stage::Works) => {
                self.stages[g] = Some(Stage::Rests);
                self.world.idle(g);
            }
            News::Left(g) if self.stages[g] == Some(Stage::Leaves) => {
                self.stages[g] = None;
                self.world.end(g, End::Clean);
            }
            News::Found(g) => {
                if let Some(container) = self.unknown.remove(&g) {
                    self.adopt(g, &container);
                    let state = container.state();
                    self.world.adopt_late(g, container.work, state);
                    self.world.release(g);
                }
            }
            News::Follows(daemon) => self.follow(daemon),
            // Of a run that is over.
            News::Up(_) | News::Finished(_) | News::Left(_) => {}
        }
    }

    fn up(&mut self, g: usize) {
        if self.failures[g] == 0 {
            self.stages[g] = Some(Stage::Works);
            let turn = self.turn_ms(g);
            self.tell_in(turn, News::Finished(g));
            return self.world.ready(g);
        }
        self.failures[g] -= 1;
        self.stages[g] = None;
        let rest = self.random.ms(SECOND, 60 * SECOND);
        if let Some(Work::Task(task)) = self.world.groups[g].container.as_ref().map(|c| &c.work) {
            let again = News::Task(g, task.parse().unwrap());
            self.tell_in(rest, again);
        }
        self.world.end(g, End::Returned(Some(rest)));
    }

    /// Looks at what was done to the containers.
    fn look(&mut self) {
        for g in 0..GROUPS {
            let Some(container) = &self.world.groups[g].container else { continue };
            if container.answer.is_some() {
                self.tell_in(50, News::Piped(g));
            }
            let Some(container) = &self.world.groups[g].container else { continue };
            match self.stages[g] {
                None => {
                    self.stages[g] = Some(Stage::Starts);
                    let start = self.random.ms(200, 3 * SECOND);
                    self.tell_in(start, News::Up(g));
                }
                Some(Stage::Rests) if container.load == Some(Load::Busy) => {
                    self.stages[g] = Some(Stage::Works);
                    let turn = self.turn_ms(g);
                    self.tell_in(turn, News::Finished(g));
                }
                Some(Stage::Rests) if container.told_to_leave => {
                    self.stages[g] = Some(Stage::Leaves);
                    self.tell_in(100, News::Left(g));
                }
                Some(Stage::Starts | Stage::Works | Stage::Rests | Stage::Leaves) => {}
            }
        }
    }

    fn follow(&mut self, daemon: Daemon) {
        if daemon == Daemon::Stopped {
            self.world.set_mode(Mode::Draining);
        }
        // It is not known of all yet what became of the pipes into them: the next daemon reads that in the store.
        (0..GROUPS).for_each(|g| self.world.answer(g));
        let mut found = BTreeMap::new();
        for g in 0..GROUPS {
            let hidden = self.unknown.remove(&g);
            let Some(container) = self.world.groups[g].container.take().or(hidden) else { continue };
            if daemon != Daemon::DiedWithItsRuns {
                found.insert(g, container);
                continue;
            }
            self.stages[g] = None;
            let group = &mut self.world.groups[g];
            match container.work {
                Work::Lane(lane) => group.rows[lane.0 as usize].waits = true,
                Work::Task(task) => drop(group.due.insert(task)),
            }
        }
        if daemon == Daemon::Died {
            let late: Vec<usize> = found.keys().copied().filter(|_| self.random.one_in(2)).collect();
            for g in late {
                self.unknown.extend(found.remove_entry(&g));
                self.tell_within(30 * SECOND, News::Found(g));
            }
        }
        for (g, container) in &found {
            self.adopt(*g, container);
        }
        let mut order: Vec<usize> = (0..GROUPS).collect();
        for at in 1..GROUPS {
            order.swap(at, self.random.below(at + 1));
        }
        let unknown: Vec<usize> = self.unknown.keys().copied().collect();
        self.world.restart(found, &unknown, &order);
    }

    /// A container goes on with what it was about: what it works on is news for this daemon, too.
    fn adopt(&mut self, g: usize, container: &Container) {
        let (stage, ms, news) = match (container.told_to_leave, container.load) {
            (true, _) => (Stage::Leaves, 100, News::Left(g)),
            (false, None) => (Stage::Starts, SECOND, News::Up(g)),
            (false, Some(Load::Busy)) => (Stage::Works, self.turn_ms(g), News::Finished(g)),
            (false, Some(Load::Idle)) => (Stage::Rests, 0, News::Piped(g)),
        };
        self.stages[g] = Some(stage);
        self.tell_in(ms, news);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn three_hundred_groups_at_once_are_served_within_the_cap_and_in_turn(cap in 1..=30_usize, seed in any::<u64>()) {
        let mut load = Crowd::new(cap, seed);
        for daemon in [Daemon::Stopped, Daemon::Died, Daemon::DiedWithItsRuns] {
            load.tell_within(WRITING, News::Follows(daemon));
        }
        load.run();
    }
}
