//! NanoClaw v2: a central store (`data/v2.db`) for groups, chats and people, and two stores for each session: what came in, and what
//! the agent wrote.
//!
//! A message stands in the session of each agent that it was given to; here it is one message, with a fate in each group. All
//! sessions are read once, and their messages are sorted by time before the first one is yielded.

mod central;
mod container;
mod content;
mod engage;
mod known;
mod names;
mod receipts;
mod sessions;
mod tasks;
mod texts;

use std::collections::VecDeque;

use ipc_handlers::Time;
use jiff::tz::TimeZone;

use super::{
    Around, NotOpened, Program,
    settings::{self, Env},
};
use crate::{
    domain::moved::{
        findings::Finding,
        rehearsal::there::{Mentions, There},
        rows::{Keyed, Part},
    },
    moving::{
        foreign::{Foreign, Read},
        installation::Installation,
        order::Order,
        source::{Batch, MOST_ROWS, Source, Tree},
    },
};
use central::Central;

/// Where it has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Settings,
    Groups,
    People,
    /// Every session is read.
    Read,
    Messages,
    Sessions,
    Tasks,
    End,
}

impl Step {
    fn is_wanted(self, parts: &[Part]) -> bool {
        let wants = |part| parts.contains(&part);
        match self {
            Self::Settings => wants(Part::Settings),
            Self::Groups => wants(Part::Groups),
            Self::People => wants(Part::People),
            Self::Read => wants(Part::Messages) || wants(Part::Sessions) || wants(Part::Tasks),
            Self::Messages => wants(Part::Messages),
            Self::Sessions => wants(Part::Sessions),
            Self::Tasks => wants(Part::Tasks),
            Self::End => true,
        }
    }

    fn after(self) -> Self {
        match self {
            Self::Settings => Self::Groups,
            Self::Groups => Self::People,
            Self::People => Self::Read,
            Self::Read => Self::Messages,
            Self::Messages => Self::Sessions,
            Self::Sessions => Self::Tasks,
            Self::Tasks | Self::End => Self::End,
        }
    }
}

/// An installation of NanoClaw v2.
pub(super) struct NanoclawV2 {
    installation: Installation,
    store: Foreign,
    name: String,
    env: Env,
    lists: Vec<Keyed>,
    zone: TimeZone,
    now: Time,
    central: Central,
    order: Order,
    /// The sessions that are still to be read, once their list was.
    waiting: Option<VecDeque<Read>>,
    /// How many findings of this session are not told one by one.
    untold: u64,
    /// A message that may have more fates in the sessions of other agents.
    open: Option<Keyed>,
    lanes: VecDeque<Keyed>,
    tasks: VecDeque<Keyed>,
    step: Step,
    findings: Vec<Finding>,
}

impl NanoclawV2 {
    /// Opens one.
    pub(super) fn open(installation: Installation, around: Around) -> Result<Self, NotOpened> {
        let program = Program::NanoclawV2;
        let (store, mut findings) = Foreign::open(&installation, program.store()).map_err(|why| {
            NotOpened::Store { path: installation.path().to_owned(), store: program.store().into(), why }
        })?;
        findings.extend(store.unknown(&known::KNOWN));
        let mut env = settings::env(program, &installation, &around, &mut findings);
        env.rows.retain(|row| row.key != "assistant_name");
        let lists = settings::lists(program, &around, &mut findings)?;
        let zone = around.zones.of(env.zone.as_deref()).zone;
        let central = Central::read(&installation, &store, &zone, around.now, &mut findings);
        Ok(Self {
            name: format!("{} {}", program.kind(), installation.path().display()),
            order: Order::new(&around.scratch).map_err(NotOpened::Order)?,
            waiting: None,
            untold: 0,
            open: None,
            lanes: VecDeque::new(),
            tasks: VecDeque::new(),
            step: Step::Settings,
            now: around.now,
            installation,
            store,
            env,
            lists,
            zone,
            central,
            findings,
        })
    }

    /// Yields the rows of one step, or some of them; returns where to go on.
    fn step(&mut self, out: &mut Batch) -> anyhow::Result<Step> {
        let step = self.step;
        Ok(match step {
            Step::Settings => {
                out.rows.append(&mut self.env.rows);
                out.rows.append(&mut self.lists);
                step.after()
            }
            Step::Groups => {
                self.central.groups(out);
                step.after()
            }
            Step::People => {
                self.central.people(&self.store, &self.zone, self.now, out);
                step.after()
            }
            Step::Read => {
                if self.read_sessions(out)? {
                    step
                } else {
                    step.after()
                }
            }
            Step::Messages => {
                if self.said(out)? {
                    step
                } else {
                    step.after()
                }
            }
            Step::Sessions => some(&mut self.lanes, out, step),
            Step::Tasks => some(&mut self.tasks, out, step),
            Step::End => step,
        })
    }
}

/// Yields some of what is ready.
fn some(ready: &mut VecDeque<Keyed>, out: &mut Batch, step: Step) -> Step {
    out.rows.extend(ready.drain(..ready.len().min(MOST_ROWS)));
    if ready.is_empty() { step.after() } else { step }
}

impl Source for NanoclawV2 {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> String {
        format!("{} at {}", Program::NanoclawV2.called(), self.installation.path().display())
    }

    fn weight(&self) -> u64 {
        0
    }

    fn next(&mut self, parts: &[Part]) -> anyhow::Result<Option<Batch>> {
        let mut out = Batch { rows: Vec::new(), findings: std::mem::take(&mut self.findings) };
        while self.step != Step::End {
            self.step = if self.step.is_wanted(parts) { self.step(&mut out)? } else { self.step.after() };
            if !out.rows.is_empty() || !out.findings.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(if out.findings.is_empty() { None } else { Some(out) })
    }

    fn trees(&self) -> Vec<Tree> {
        self.central.trees(&self.installation)
    }

    fn rules(&self) -> There {
        There::Stored { mentions: Mentions::Guessed }
    }
}
