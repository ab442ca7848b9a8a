//! An engine of containers. In one half of them is an agent with a runner of its own, in the other our runner. Containers outlive
//! the daemon, as Docker's do.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use g2::{
    domain::states::SandboxName,
    sandbox::{Chunk, Exit, Found, Sandbox, SandboxError, Spec, State},
};
use ipc_handlers::wire::PROTOCOL;
use tokio::{sync::watch, time::sleep};

use crate::{
    Calendar, Dice,
    agent::{Agent, Next, Temper},
    runner::{Inside, Runner},
};

/// A command that an agent gave, and what it was told.
#[derive(Clone, Debug)]
pub struct Asked {
    pub group: String,
    pub chat: String,
    pub request: String,
    pub wants: Wants,
    /// ms since the simulation began.
    pub at: u64,
    pub replies: Vec<String>,
}

impl Asked {
    /// Returns how the name of its file ends: with the run and a number.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.json", self.request.strip_prefix(&self.group).unwrap_or(&self.request))
    }
}

/// What an agent asks for.
#[derive(Clone, Debug)]
pub enum Wants {
    /// That this is said.
    Text(String),
    /// That a task is done once, whose answer has this token.
    Task(String),
    /// That a task is done again and again, whose answers have this token.
    Tasks(String),
    /// That somebody answers a question that has this token, or that nobody did is told.
    Answer(String),
    /// That this file of its group is shown beside this text.
    File { text: String, n: u64 },
}

/// The engine's behaviour: of 1 000 calls, the number of those in which it does each.
#[derive(Clone, Copy, Debug)]
pub struct Moods {
    /// A container can't be made.
    pub refuses: u64,
    /// The engine does not answer.
    pub is_away: u64,
    pub temper: Temper,
}

/// Makes the mailbox of a container by the folder that the host has it in.
pub type Mailboxes = Arc<dyn Fn(PathBuf) -> Box<dyn crate::Mailbox> + Send + Sync>;

/// The engine. Clones are the same.
#[derive(Clone)]
pub struct Containers(Arc<Inner>);

struct Inner {
    calendar: Calendar,
    dice: Dice,
    mailboxes: Mailboxes,
    all: Mutex<All>,
}

struct All {
    made: u64,
    containers: BTreeMap<String, Container>,
    asked: Vec<Asked>,
    moods: Moods,
    /// How many run at most, as the daemon is told.
    cap: usize,
    /// What must not be, and was.
    broken: Vec<String>,
    story: Vec<(u64, String)>,
}

struct Container {
    name: String,
    run: i64,
    group: String,
    instance: String,
    ipc: PathBuf,
    inside: Option<Inside>,
    due: Option<u64>,
    output: Vec<u8>,
    exit: Option<Exit>,
    started: bool,
    changed: watch::Sender<()>,
}

impl Container {
    fn runs(&self) -> bool {
        self.started && self.exit.is_none()
    }

    fn ends(&mut self, code: i64) {
        if self.exit.is_none() {
            self.exit = Some(Exit { code, oom: false });
            (self.inside, self.due) = (None, None);
        }
        self.changed.send_replace(());
    }
}

impl Containers {
    #[must_use]
    pub fn new(calendar: Calendar, dice: Dice, mailboxes: Mailboxes, moods: Moods, cap: usize) -> Self {
        let all = All {
            made: 0,
            containers: BTreeMap::new(),
            asked: Vec::new(),
            moods,
            cap,
            broken: Vec::new(),
            story: Vec::new(),
        };
        Self(Arc::new(Inner { calendar, dice, mailboxes, all: Mutex::new(all) }))
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults are over: the engine and all agents behave from now on.
    pub fn calm(&self) {
        let mut all = self.all();
        all.moods = Moods { refuses: 0, is_away: 0, temper: Temper::GOOD };
        all.containers.values_mut().filter_map(|container| container.inside.as_mut()).for_each(Inside::calm);
    }

    /// Has each agent do what is due. Returns when the next one is, ms since the simulation began.
    pub fn step(&self) -> Option<u64> {
        let now = self.0.calendar.passed();
        let mut all = self.all();
        let All { containers, asked, story, .. } = &mut *all;
        for (id, container) in containers.iter_mut().filter(|(_, c)| c.due.is_some_and(|due| due <= now)) {
            let Some(inside) = &mut container.inside else { continue };
            let step = inside.step(now, asked);
            if !step.said.is_empty() {
                container.output.extend(step.said);
                container.changed.send_replace(());
            }
            match step.next {
                Next::In(ms) => container.due = Some(now + ms.max(1)),
                Next::Never => container.due = None,
                Next::Left(code) => {
                    story.push((now, format!("container {id} of {} left with {code}", container.group)));
                    container.ends(code);
                }
            }
        }
        containers.values().filter_map(|container| container.due).min()
    }

    /// Returns all commands that agents gave.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.all().asked.clone()
    }

    /// Returns what must not be, and was.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.all().broken.clone()
    }

    /// Returns what happened, with when, ms.
    #[must_use]
    pub fn story(&self) -> Vec<(u64, String)> {
        self.all().story.clone()
    }

    /// Returns how many run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.all().containers.values().filter(|container| container.runs()).count()
    }

    /// A call takes its time, and may fail.
    async fn called(&self) -> Result<(), SandboxError> {
        let latency = match self.0.dice.per_mille(20) {
            true => self.0.dice.below(3_000),
            false => self.0.dice.below(40),
        };
        sleep(Duration::from_millis(latency)).await;
        let away = self.all().moods.is_away;
        if self.0.dice.per_mille(away) {
            return Err(SandboxError::Unreachable { at: "sim".into(), why: "it is away".into() });
        }
        Ok(())
    }

    async fn make(&self, spec: &Spec) -> Result<String, SandboxError> {
        self.called().await?;
        let refuses = self.all().moods.refuses;
        if self.0.dice.per_mille(refuses) {
            return Err(SandboxError::Engine {
                doing: "making a container".into(),
                why: "it would not".into(),
            });
        }
        let id = {
            let mut all = self.all();
            if all.containers.values().any(|container| container.name == spec.name) {
                return Err(SandboxError::NameTaken { name: spec.name.clone() });
            }
            all.made += 1;
            let id = format!("c{}", all.made);
            let container = Container {
                name: spec.name.clone(),
                run: spec.run,
                group: spec.group.to_string(),
                instance: spec.instance.clone(),
                ipc: spec.seat.ipc.clone(),
                inside: None,
                due: None,
                output: Vec::new(),
                exit: None,
                started: false,
                changed: watch::Sender::new(()),
            };
            let now = self.0.calendar.passed();
            all.story.push((now, format!("container {id} is made for run {} of {}", spec.run, spec.group)));
            all.containers.insert(id.clone(), container);
            id
        };
        // It is there before anybody is told.
        sleep(Duration::from_millis(self.0.dice.below(20))).await;
        Ok(id)
    }

    async fn begin(&self, id: &str, stdin: Vec<u8>) -> Result<(), SandboxError> {
        self.called().await?;
        let now = self.0.calendar.passed();
        let (ipc, temper) = {
            let all = self.all();
            let Some(container) = all.containers.get(id) else {
                return Err(SandboxError::Gone { id: id.to_owned() });
            };
            (container.ipc.clone(), all.moods.temper)
        };
        let mailbox = (self.0.mailboxes)(ipc);
        let (calendar, dice) = (self.0.calendar.clone(), self.0.dice.others());
        let inside = if dice.per_mille(500) {
            Some(Inside::Runner(Runner::new(calendar, dice, temper, mailbox, stdin)))
        } else {
            Agent::new(calendar, dice, temper, mailbox, &stdin).map(|agent| Inside::Agent(Box::new(agent)))
        };
        if let Some(Inside::Runner(_)) = inside {
            self.all().story.push((now, format!("container {id} begins with our runner")));
        }
        self.boots(id, inside, now)?;
        sleep(Duration::from_millis(self.0.dice.below(20))).await;
        Ok(())
    }

    fn boots(&self, id: &str, inside: Option<Inside>, now: u64) -> Result<(), SandboxError> {
        let mut all = self.all();
        let (running, cap) = (all.containers.values().filter(|c| c.runs()).count(), all.cap);
        let group = all.containers.get(id).map(|container| container.group.clone()).unwrap_or_default();
        if running >= cap {
            all.broken
                .push(format!("{now}: container {id} is started beside {running}; at most {cap} may run"));
        }
        if all.containers.values().any(|c| c.runs() && c.group == group) {
            all.broken
                .push(format!("{now}: container {id} of {group} is started beside another one of the group"));
        }
        let Some(container) = all.containers.get_mut(id) else {
            return Err(SandboxError::Gone { id: id.to_owned() });
        };
        container.started = true;
        match inside {
            Some(inside) => {
                container.inside = Some(inside);
                container.due = Some(now + 1 + self.0.dice.below(300));
            }
            None => container.ends(2),
        }
        Ok(())
    }

    /// Waits for what `of` finds in a container.
    async fn awaited<T>(
        &self,
        id: &str,
        mut of: impl FnMut(&mut Container) -> Option<T>,
    ) -> Result<T, SandboxError> {
        loop {
            let mut changed = {
                let mut all = self.all();
                let Some(container) = all.containers.get_mut(id) else {
                    return Err(SandboxError::Gone { id: id.to_owned() });
                };
                if let Some(found) = of(container) {
                    return Ok(found);
                }
                container.changed.subscribe()
            };
            // Its end is seen by the next look.
            let _ = changed.changed().await;
        }
    }

    async fn ends(&self, id: &str, code: i64, within: Duration) -> Result<(), SandboxError> {
        self.called().await?;
        sleep(within).await;
        let mut all = self.all();
        let now = self.0.calendar.passed();
        if let Some(container) = all.containers.get_mut(id)
            && container.exit.is_none()
        {
            let group = container.group.clone();
            container.ends(code);
            all.story.push((now, format!("container {id} of {group} is ended with {code}")));
        }
        Ok(())
    }
}

impl Sandbox for Containers {
    fn kind(&self) -> SandboxName {
        SandboxName::Docker
    }

    fn survives_us(&self) -> bool {
        true
    }

    fn check<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.called().boxed()
    }

    fn protocol<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<u32, SandboxError>> {
        async {
            self.called().await?;
            Ok(PROTOCOL)
        }
        .boxed()
    }

    fn create<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<String, SandboxError>> {
        self.make(spec).boxed()
    }

    fn start<'a>(&'a self, id: &'a str, stdin: Vec<u8>) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.begin(id, stdin).boxed()
    }

    fn output(&self, id: &str) -> BoxStream<'static, Result<Chunk, SandboxError>> {
        let (this, id) = (self.clone(), id.to_owned());
        stream::unfold(Some(0), move |at: Option<usize>| {
            let (this, id) = (this.clone(), id.clone());
            async move {
                let at = at?;
                let next = this.awaited(&id, |container| {
                    let more = container.output.get(at..).unwrap_or_default();
                    match (more.is_empty(), &container.exit) {
                        (false, _) => Some(Some(more.to_vec())),
                        (true, Some(_)) => Some(None),
                        (true, None) => None,
                    }
                });
                match next.await {
                    Ok(Some(bytes)) => {
                        let most = 1 + this.0.dice.below(4096) as usize;
                        let bytes = bytes[..most.min(bytes.len())].to_vec();
                        let at = at + bytes.len();
                        Some((Ok(Chunk::Stdout(bytes)), Some(at)))
                    }
                    Ok(None) => None,
                    Err(error) => Some((Err(error), None)),
                }
            }
        })
        .boxed()
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Exit, SandboxError>> {
        self.awaited(id, |container| container.exit.clone()).boxed()
    }

    fn pid<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<u32>> {
        std::future::ready(None).boxed()
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<(), SandboxError>> {
        let within = Duration::from_millis(self.0.dice.below(1_000)).min(grace);
        self.ends(id, 143, within).boxed()
    }

    fn kill<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.ends(id, 137, Duration::ZERO).boxed()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        async {
            self.called().await?;
            let gone = self.all().containers.remove(id);
            if let Some(mut gone) = gone {
                gone.ends(137);
            }
            Ok(())
        }
        .boxed()
    }

    fn list<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<Vec<Found>, SandboxError>> {
        async move {
            self.called().await?;
            let all = self.all();
            let ours = all.containers.iter().filter(|(_, container)| container.instance == instance);
            Ok(ours
                .map(|(id, container)| Found {
                    id: id.clone(),
                    name: container.name.clone(),
                    run: container.run,
                    group: container.group.clone(),
                    state: match (container.started, &container.exit) {
                        (false, None) => State::Created,
                        (true, None) => State::Running,
                        (_, Some(_)) => State::Exited,
                    },
                })
                .collect())
        }
        .boxed()
    }
}
