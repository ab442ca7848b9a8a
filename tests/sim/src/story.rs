//! A simulation: one daemon, over as many lives as it takes.

use std::{
    collections::BTreeMap,
    fmt,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use g2::{
    app::{Daemon, Surroundings},
    channels::Channel,
    config::{Config, Environment},
    ipc::twin::{Settings, Twin},
    system::world::Clock as _,
};
use ipc_handlers::Folder;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    Calendar, Chance, Containers, Dice, InTwin, Life, Platform,
    disk::{Disk, Fault, Image, Kind},
    hostile::{self, Meddler},
    judge,
    plan::{CAP, GROUPS, PLATFORMS, Plan},
    rests::{self, Rest},
    shaky::{self, Shaky},
    tasks, template, world,
};

/// How many runs a story has at most.
const MOST_RUNS: u64 = 400;
/// How long after the last fault all must be done, ms.
const PATIENCE: u64 = 3 * 3_600_000;

/// What came of a simulation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    pub seed: u64,
    /// How often the daemon began.
    pub lives: u32,
    /// The promises that were broken.
    pub broken: Vec<String>,
    /// What happened.
    pub story: Vec<(u64, String)>,
    /// How often each fault was made.
    pub faults: BTreeMap<String, u64>,
    /// How much time passed in it, ms.
    pub passed: u64,
    /// All changes, as the feed has them.
    pub feed: String,
}

/// Counts the faults that are made. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Faults {
    /// Counts one.
    pub fn count(&self, fault: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(fault).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<String, u64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(fault, n)| ((*fault).to_owned(), *n)).collect()
    }
}

/// What came of many.
#[derive(Debug, Default)]
pub struct Tally {
    pub seeds: u64,
    pub failed: u64,
    pub lives: u64,
    pub passed_ms: u64,
    pub faults: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds what came of one.
    pub fn add(&mut self, told: &Told) {
        self.seeds += 1;
        self.failed += u64::from(!told.broken.is_empty());
        self.lives += u64::from(told.lives);
        self.passed_ms += told.passed;
        for (fault, n) in &told.faults {
            *self.faults.entry(fault.clone()).or_default() += n;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.passed_ms / 3_600_000;
        writeln!(
            f,
            "{} seeds, {} lives, {hours} hours; {} seeds failed",
            self.seeds, self.lives, self.failed
        )?;
        self.faults.iter().try_for_each(|(fault, n)| writeln!(f, "{n:>9}  {fault}"))
    }
}

/// How a life ended.
enum End {
    /// It died, or could not begin.
    Died(String),
    /// All is done.
    Quiet,
    /// Not all is done, and there was time enough.
    Unfinished(String),
}

/// Tells the story of a seed.
#[must_use]
pub fn play(plan: &Plan, template: &Path) -> Told {
    shaky::quiet();
    Stage::new(plan, template).play()
}

/// What outlives the daemon.
struct Stage<'a> {
    plan: &'a Plan,
    root: TempDir,
    disk: Disk,
    dice: Dice,
    chance: Chance,
    told: Told,
    /// Made within the first runtime, as they need its clock.
    outside: Option<Outside>,
    faults: Faults,
    kills: Vec<u64>,
    jumps: Vec<(u64, i64)>,
    /// What rested when a life ended.
    rests: Vec<Rest>,
    deaths: Vec<i64>,
}

/// The world around the daemon.
#[derive(Clone)]
struct Outside {
    calendar: Calendar,
    twin: Twin,
    containers: Containers,
    platforms: Vec<Platform>,
}

/// A folder in memory, where the machine has such.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder")
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan, template: &Path) -> Self {
        let root = folder();
        template::lay_out(root.path(), plan);
        let disk = Disk::new(plan.seed);
        disk.put(&store_path(root.path()), &Image::from(template::read(template).as_slice()));
        disk.seed_sqlite();
        Self {
            plan,
            root,
            disk,
            dice: Dice::new(plan.seed ^ 0x5eed),
            chance: Chance::new(plan.seed ^ 0xc0de),
            told: Told { seed: plan.seed, ..Told::default() },
            outside: None,
            faults: Faults::default(),
            kills: plan.kills.clone(),
            jumps: plan.jumps.clone(),
            rests: Vec::new(),
            deaths: Vec::new(),
        }
    }

    fn play(mut self) -> Told {
        let mut passed = 0;
        loop {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime");
            let end = runtime.block_on(self.live(passed));
            drop(runtime);
            passed = self.told.passed;
            match end {
                End::Died(why) => {
                    self.note(format!("the daemon died: {why}"));
                    self.deaths.push(i64::try_from(passed).unwrap_or(i64::MAX));
                    self.disk.die();
                    self.disk.heal();
                    self.disk.revive();
                    if let Some(outside) = self.outside.clone() {
                        outside.twin.die();
                        outside.twin.before_nothing();
                        outside.twin.revive();
                        self.look_at_rests();
                    }
                    if self.told.lives > 60 {
                        self.told
                            .broken
                            .push(format!("it died {} times, the last time: {why}", self.told.lives));
                        break;
                    }
                    passed += 100 + self.chance.below(5_000);
                }
                End::Quiet => break,
                End::Unfinished(why) => {
                    self.told.broken.push(why);
                    break;
                }
            }
        }
        if let Some(outside) = &self.outside {
            self.told.broken.extend(outside.containers.broken());
            self.told.broken.extend(outside.platforms.iter().flat_map(Platform::broken));
            self.told.story.extend(outside.containers.story());
            self.told.story.extend(outside.platforms.iter().flat_map(Platform::story));
            self.told.story.sort();
        }
        self.told.faults = self.faults.all();
        self.told
    }

    /// Notes what rests now.
    fn look_at_rests(&mut self) {
        // The clock of a runtime that is gone can't be asked.
        let now = self.plan.begins + i64::try_from(self.told.passed).unwrap_or(i64::MAX);
        let store = self.disk.connect(&store_path(self.root.path())).ok();
        let put_off = store.as_ref().map(|c| rests::put_off(c, now)).unwrap_or_default();
        for platform in self.outside.iter().flat_map(|outside| &outside.platforms) {
            platform.forget_put_off(&put_off);
        }
        if let Some(c) = store.filter(|_| self.plan.jumps.is_empty()) {
            self.rests.extend(rests::of(&c, now));
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        // The same in each run, wherever the root lies.
        let what = what.into().replace(&self.root.path().display().to_string(), "ROOT");
        self.told.story.push((self.told.passed, what));
    }

    /// Returns what is around the daemon, in the runtime of this life.
    fn outside(&mut self, passed: u64) -> Outside {
        if let Some(outside) = &self.outside {
            outside.calendar.goes_on(passed, 0);
            return outside.clone();
        }
        let calendar = Calendar::new(self.plan.begins);
        let plan = self.plan;
        let stamps = calendar.clone();
        let twin = Twin::new(Settings { names: plan.seed, ..Settings::of(Arc::new(move || stamps.now())) });
        let data = self.root.path().join("data");
        twin.hands(|hands| hands.make_folders(&data)).expect("data/ of the twin");
        // The daemon makes these outside of boxes, where it lays aside what a run did not read.
        for run in 1..=MOST_RUNS {
            twin.hands(|hands| hands.make_folders(data.join("runs").join(run.to_string())))
                .expect("data/runs");
        }
        let of_agents = twin.clone();
        let mailboxes = Arc::new(move |folder: PathBuf| {
            Box::new(InTwin::new(of_agents.clone(), folder)) as Box<dyn crate::Mailbox>
        });
        let containers = Containers::new(calendar.clone(), self.dice.others(), mailboxes, plan.moods, CAP);
        let media = data.join("media");
        let platforms = PLATFORMS.iter().zip(&plan.deeds).map(|(kind, deeds)| {
            let (calendar, dice) = (calendar.clone(), self.dice.others());
            let weather = (plan.weather, plan.jumps.iter().map(|(at, _)| *at).collect());
            Platform::new(*kind, calendar, dice, weather, deeds.clone(), media.clone())
        });
        let outside = Outside { platforms: platforms.collect(), calendar, twin, containers };
        self.outside = Some(outside.clone());
        outside
    }

    async fn live(&mut self, passed: u64) -> End {
        let outside = self.outside(passed);
        let life = Life::default();
        let n = self.told.lives as usize;
        self.told.lives += 1;
        self.hooks(&life, &outside, n);
        let slow = if passed < self.plan.calm_at { self.plan.slow } else { 0 };
        let (world, hands) = world(&outside.calendar, &self.dice, &life, slow);
        let surroundings = Surroundings {
            world: world.with_disk(self.disk.vfs_name()),
            files: outside.twin.files(),
            sandbox: Some(Box::new(self.engine(&outside))),
            channels: outside
                .platforms
                .iter()
                .map(|platform| Box::new(platform.clone()) as Box<dyn Channel>)
                .collect(),
        };
        let end = tokio::select! {
            biased;
            why = life.over() => End::Died(why),
            () = hands.works() => End::Died("nobody works".into()),
            end = self.days(surroundings, &outside, &life) => end,
        };
        self.told.passed = outside.calendar.passed();
        end
    }

    /// Returns the engine of a life.
    fn engine(&self, outside: &Outside) -> Shaky {
        let (calendar, calm_at) = (outside.calendar.clone(), self.plan.calm_at);
        Shaky {
            engine: outside.containers.clone(),
            dice: self.dice.others(),
            faults: self.faults.clone(),
            panics: self.plan.panics,
            calm: Box::new(move || calendar.passed() >= calm_at),
        }
    }

    /// Has the disk fail, and the daemon die at a call, as the plan says.
    fn hooks(&self, life: &Life, outside: &Outside, n: usize) {
        let dies_at = self.plan.dies_at.get(n).copied().flatten();
        let (of_files, faults, twin) = (life.clone(), self.faults.clone(), outside.twin.clone());
        let (life, calendar) = (life.clone(), outside.calendar.clone());
        let (fails, calm_at) = (self.plan.disk_fails, self.plan.calm_at);
        let dice = Arc::new(Mutex::new(Chance::new(self.plan.seed ^ (n as u64 + 1))));
        let mut calls = 0;
        self.disk.on_call(move |call| {
            calls += 1;
            if calendar.passed() >= calm_at {
                return None;
            }
            if dies_at == Some(calls) {
                faults.count("the daemon died at a call of the disk");
                life.end("at a call of the disk");
                twin.die();
                return Some(Fault::Die);
            }
            let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(call.kind, Kind::Sleep | Kind::Map | Kind::Open) && dice.below(1000) < fails {
                faults.count("a call of the disk failed");
                return Some(if dice.one_of(2) { Fault::Io } else { Fault::Full });
            }
            None
        });
        let calm = || {
            let calendar = outside.calendar.clone();
            move || calendar.passed() >= calm_at
        };
        let (disk, dice) = (self.disk.clone(), self.dice.others());
        hostile::mislead(&outside.twin, dice, self.plan.trouble.misleads, calm(), self.faults.clone());
        outside.twin.before(Meddler {
            life: of_files,
            dice: self.dice.others(),
            trouble: self.plan.trouble,
            data: self.root.path().join("data"),
            faults: self.faults.clone(),
            dies_at: self.plan.dies_at_file.get(n).copied().flatten(),
            panics_at: self.plan.panics_at_file.get(n).copied().flatten(),
            calls: 0,
            meddled: 0,
            calm: Box::new(calm()),
            ends: Box::new(move || disk.die()),
        });
    }

    async fn days(&mut self, surroundings: Surroundings, outside: &Outside, life: &Life) -> End {
        let root = self.root.path().to_owned();
        let config = match Config::load(&root, &Environment::default()) {
            // What looks for a real engine, for people, finds none at once.
            Ok(mut config) => {
                config.docker_host = Some("unix:///nowhere".into());
                config
            }
            Err(error) => return End::Unfinished(format!("the settings: {error}")),
        };
        let zones = config.zones.clone();
        // A panic ends the program where nothing is driven yet.
        let started = AssertUnwindSafe(Daemon::start_in(surroundings, root, config)).catch_unwind().await;
        let mut daemon = match started {
            Ok(Ok(daemon)) => daemon,
            Ok(Err(error)) => return End::Died(format!("it could not begin: {error:#}")),
            Err(_) => return End::Died("it panicked while it began".into()),
        };
        let (mut looks, mut looks_at) = (None, 0);
        loop {
            let due = outside.containers.step();
            outside.twin.tell_later_ones(usize::try_from(self.dice.below(3)).unwrap_or(0));
            let now = outside.calendar.passed();
            self.told.passed = now;
            self.disk.set_time(daemon.store.world().now().0);
            if self.kills.first().is_some_and(|at| *at <= now) {
                self.kills.remove(0);
                self.faults.count("the daemon was killed");
                life.end("it was killed");
                self.disk.die();
                outside.twin.die();
            }
            if let Some(at) = self.jumps.iter().position(|(at, _)| *at <= now) {
                let (_, by) = self.jumps.remove(at);
                outside.calendar.jump(by);
                self.faults.count("the clock was set");
                self.note(format!("the clock is set by {by} ms"));
            }
            if now >= self.plan.calm_at {
                outside.containers.calm();
                outside.platforms.iter().for_each(Platform::calm);
            }
            if now >= self.plan.calm_at && now >= looks_at {
                looks_at = now + 10_000;
                if looks.is_none() {
                    looks = self.disk.connect(&store_path(self.root.path())).ok();
                }
                if let Some(c) = &looks {
                    // A person does what `status` says of a group that was set aside, as the daemon died over it.
                    for group in judge::set_aside(c) {
                        let _ = daemon.store.release(group, None).await;
                    }
                    tasks::stop(&daemon.store, c, &zones, daemon.store.world().now()).await;
                }
                let left = looks.as_ref().map_or_else(
                    || Some("its store can't be looked at".to_owned()),
                    |c| {
                        judge::unfinished(
                            c,
                            self.root.path(),
                            &outside.twin,
                            &outside.platforms,
                            &outside.containers.asked(),
                        )
                    },
                );
                match left {
                    None => break,
                    Some(why) if now > self.plan.calm_at + PATIENCE => {
                        return End::Unfinished(format!("not all is done: {why}"));
                    }
                    Some(_) => {}
                }
            }
            let next = due.unwrap_or(u64::MAX).min(now + 1_000).max(now + 1);
            tokio::select! {
                biased;
                () = sleep(Duration::from_millis(next - now)) => {}
                why = daemon.has_failed() => return End::Died(why),
            }
        }
        let asked = outside.containers.asked();
        let now = daemon.store.world().now();
        if let Some(c) = &looks {
            let mut clocks = BTreeMap::new();
            for group in GROUPS.iter().filter_map(|(group, _)| Folder::parse(group).ok()) {
                if let Ok(zone) = daemon.store.zone_of(&group, &zones).await {
                    clocks.insert(group, zone);
                }
            }
            let told = judge::judge(
                self.plan,
                &daemon.store,
                c,
                &outside.platforms,
                &asked,
                (&clocks, &self.deaths),
                now,
            );
            self.told.broken.extend(told.broken);
            self.told.broken.extend(rests::broken(c, &self.rests));
            self.told.feed = told.feed;
        }
        drop(looks);
        daemon.stop().await;
        End::Quiet
    }
}

/// Returns the name of a root's store, on its disk.
pub(crate) fn store_path(root: &Path) -> String {
    root.join("data/g2.sqlite").display().to_string()
}
