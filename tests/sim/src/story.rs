//! A simulation: one daemon, over as many lives as it takes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use g2::{
    app::{Daemon, Surroundings},
    channels::Channel,
    config::{Config, Environment},
    store::{NewGroup, NewWiring, Store},
};
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    Calendar, Chance, Containers, Dice, InFolder, Life, Platform,
    disk::{Disk, Fault, Image, Kind},
    judge,
    plan::{CAP, GROUPS, PLATFORMS, Plan},
    world,
};

/// How long after the last fault all must be done, ms.
const PATIENCE: u64 = 3 * 3_600_000;

/// What came of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub seed: u64,
    /// How often the daemon began.
    pub lives: u32,
    /// The promises that were broken.
    pub broken: Vec<String>,
    /// What happened.
    pub story: Vec<(u64, String)>,
    /// How often each fault was made.
    pub faults: BTreeMap<&'static str, u64>,
    /// How much time passed in it, ms.
    pub passed: u64,
    /// All changes, as the feed has them.
    pub feed: String,
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
pub fn play(plan: &Plan) -> Told {
    Stage::new(plan).play()
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
    kills: Vec<u64>,
    jumps: Vec<(u64, i64)>,
}

/// The world around the daemon.
#[derive(Clone)]
struct Outside {
    calendar: Calendar,
    containers: Containers,
    platforms: Vec<Platform>,
}

const SETTINGS: &str = "assistant_name = \"Andy\"\ntimezone = \"Europe/Berlin\"\n\
[sandbox]\nkind = \"docker\"\n[limits]\nmax_concurrent_containers = 2\nmin_free_mib = 0\n";

/// The store of a root with its groups, as all simulations begin with it.
fn template() -> &'static Image {
    static TEMPLATE: OnceLock<Image> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = TempDir::new().expect("a folder for the template");
        let path = folder.path().join("g2.sqlite");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let store = Store::open(&path).expect("a new store");
            let now = Time(1_772_600_000_000);
            let folder = |name: &str| Folder::parse(name).expect("a folder's name");
            let group = |name: &str, is_main| NewGroup {
                folder: folder(name),
                name: name.to_owned(),
                is_main,
                trigger: "@Andy".into(),
            };
            store.add_group(group("main", true), Vec::new(), now).await.expect("main");
            for (name, chats) in GROUPS {
                let wiring = |chat: &&str| NewWiring {
                    group: folder(name),
                    chat_jid: (*chat).to_owned(),
                    engage_mode: EngageMode::Mention,
                    engage_pattern: None,
                    sender_scope: SenderScope::All,
                    ignored_message_policy: IgnoredMessages::Accumulate,
                };
                let wirings = chats.iter().map(wiring).collect();
                store.add_group(group(name, false), wirings, now).await.expect("a group");
                for chat in chats {
                    let person = format!("{}:7", chat.split(':').next().unwrap_or_default());
                    store.add_member(&person, folder(name), "owner", now).await.expect("a member");
                }
            }
            store.empty_log().await.expect("one file");
        });
        Image::from(read(&path).as_slice())
    })
}

#[expect(clippy::disallowed_methods, reason = "a store of our own")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the template")
}

#[expect(clippy::disallowed_methods, reason = "lays out a root")]
fn lay_out(root: &Path, plan: &Plan) {
    let unknown = if plan.resends { "resend" } else { "leave" };
    let settings = format!("{SETTINGS}[outbox]\non_unknown = \"{unknown}\"\n");
    std::fs::create_dir_all(root.join("data")).expect("data/");
    std::fs::write(root.join("g2.toml"), settings).expect("g2.toml");
}

/// A folder in memory, where the machine has such.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder")
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan) -> Self {
        let root = folder();
        lay_out(root.path(), plan);
        let template = template();
        let disk = Disk::new(plan.seed);
        disk.put(&store_path(root.path()), template);
        Self {
            plan,
            root,
            disk,
            dice: Dice::new(plan.seed ^ 0x5eed),
            chance: Chance::new(plan.seed ^ 0xc0de),
            told: Told { seed: plan.seed, ..Told::default() },
            outside: None,
            kills: plan.kills.clone(),
            jumps: plan.jumps.clone(),
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
                    self.disk.die();
                    self.disk.heal();
                    self.disk.revive();
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
            self.told.story.extend(outside.containers.story());
            self.told.story.extend(outside.platforms.iter().flat_map(Platform::story));
            self.told.story.sort();
        }
        self.told
    }

    fn note(&mut self, what: impl Into<String>) {
        self.told.story.push((self.told.passed, what.into()));
    }

    /// Returns what is around the daemon, in the runtime of this life.
    fn outside(&mut self, passed: u64) -> Outside {
        if let Some(outside) = &self.outside {
            outside.calendar.goes_on(passed, 0);
            return outside.clone();
        }
        let calendar = Calendar::new();
        let plan = self.plan;
        let mailboxes = Arc::new(|folder: PathBuf| Box::new(InFolder(folder)) as Box<dyn crate::Mailbox>);
        let containers = Containers::new(calendar.clone(), self.dice.others(), mailboxes, plan.moods, CAP);
        let platforms = PLATFORMS.iter().zip(&plan.messages).map(|((name, twice), messages)| {
            let (calendar, dice) = (calendar.clone(), self.dice.others());
            Platform::new(name, *twice, calendar, dice, plan.weather, messages.clone())
        });
        let outside = Outside { platforms: platforms.collect(), calendar, containers };
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
            sandbox: Some(Box::new(outside.containers.clone())),
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

    /// Has the disk fail, and the daemon die at a call, as the plan says.
    fn hooks(&self, life: &Life, outside: &Outside, n: usize) {
        let dies_at = self.plan.dies_at.get(n).copied().flatten();
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
                life.end("at a call of the disk");
                return Some(Fault::Die);
            }
            let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(call.kind, Kind::Sleep | Kind::Map | Kind::Open) && dice.below(1000) < fails {
                return Some(if dice.one_of(2) { Fault::Io } else { Fault::Full });
            }
            None
        });
    }

    async fn days(&mut self, surroundings: Surroundings, outside: &Outside, life: &Life) -> End {
        let root = self.root.path().to_owned();
        let config = match Config::load(&root, &Environment::default()) {
            Ok(config) => config,
            Err(error) => return End::Unfinished(format!("the settings: {error}")),
        };
        let started = Daemon::start_in(surroundings, root, config).await;
        let mut daemon = match started {
            Ok(daemon) => daemon,
            Err(error) => return End::Died(format!("it could not begin: {error:#}")),
        };
        let mut looks_at = 0;
        loop {
            let due = outside.containers.step();
            let now = outside.calendar.passed();
            self.told.passed = now;
            if self.kills.first().is_some_and(|at| *at <= now) {
                self.kills.remove(0);
                life.end("it was killed");
            }
            if let Some(at) = self.jumps.iter().position(|(at, _)| *at <= now) {
                let (_, by) = self.jumps.remove(at);
                outside.calendar.jump(by);
                self.note(format!("the clock is set by {by} ms"));
            }
            if now >= self.plan.calm_at {
                outside.containers.calm();
                outside.platforms.iter().for_each(Platform::calm);
            }
            if now >= self.plan.calm_at && now >= looks_at {
                looks_at = now + 10_000;
                match judge::unfinished(&daemon.store, &self.disk, self.root.path(), &outside.platforms).await
                {
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
        let told = judge::judge(self.plan, &daemon.store, &self.disk, &outside.platforms, &asked, now).await;
        self.told.broken.extend(told.broken);
        self.told.feed = told.feed;
        daemon.stop().await;
        End::Quiet
    }
}

/// Returns the name of a root's store, on its disk.
pub(crate) fn store_path(root: &Path) -> String {
    root.join("data/g2.sqlite").display().to_string()
}
