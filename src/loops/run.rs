//! Watches over one run: launches its container or adopts it, applies its records, judges its health, ends it.
//!
//! ```text
//! queued ─ create ─ id on the row ─ start (stdin to its last byte) ─ records … ─ container dead ─ output to its end
//!        ─ both boxes settled ─ input/ claimed back ─ ONE transaction ends the run and judges its batches ─ removed
//! ```
//!
//! Whatever happens in between, `end` is reached. When the daemon stops, a container that outlives it is let go of
//! where it stands: the next daemon adopts it.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ipc_handlers::{Folder, wire};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    Allowances, Ask, Boxes, Machine, Sights, ToLanes, lost,
    snapshots::Snapshots,
    starts::{Starts, What},
};
use crate::{
    channels::Channels,
    config::Live,
    domain::{
        runs::{
            judge::{Cause, End},
            lanes::Event,
            life::Reached,
            stop::Stop,
        },
        shown::{errors::chain, repeats::Repeats},
        time::zone::Zone,
    },
    gateway::Gateway,
    ipc::Stamp,
    sandbox::{Sandbox, output::Parsed},
    store::{ActiveRun, Handed, HandedTask, HandoverLimits, Store},
    system::media::Media,
};

mod adopt;
mod black_box;
mod document;
mod end;
mod health;
mod launch;
mod log;
mod model;
mod noise;
mod prepare;
mod records;
mod watch;

pub(super) use document::input_of;
pub(super) use end::end_without_container;

use black_box::Gathered;
use log::RunLog;
use noise::Noise;

/// What runs are launched, watched and ended with.
pub struct Runs {
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub store: Store,
    pub sandbox: Arc<dyn Sandbox>,
    /// The containers' way to the model's host.
    pub gateway: Arc<Gateway>,
    /// What platforms can show.
    pub channels: Arc<Channels>,
    pub boxes: Arc<Boxes>,
    pub allowances: Arc<Allowances>,
    pub machine: Arc<Machine>,
    pub sights: Arc<Sights>,
    pub starts: Arc<Starts>,
    pub snapshots: Arc<Snapshots>,
    /// Files of messages, which agents are shown.
    pub media: Arc<Media>,
    /// News for the lanes.
    pub lanes: ToLanes,
    /// Requests to the loop `ipc`.
    pub mailboxes: mpsc::UnboundedSender<Ask>,
    /// Runs' tokens are signed with it.
    pub token_key: ipc_handlers::token::Key,
    /// This root's id; a label of every container.
    pub instance: String,
    pub stop: CancellationToken,
}

impl Runs {
    /// Returns how much goes into one batch.
    #[must_use]
    pub fn handover_limits(&self) -> HandoverLimits {
        let limits = &self.config.now().limits;
        HandoverLimits {
            messages: limits.batch_messages,
            bytes: limits.batch_bytes,
            context: limits.max_context,
        }
    }

    /// Returns the folder of a run's own files, out of every container's reach.
    fn run_dir(&self, run: i64) -> PathBuf {
        self.root.join("data/runs").join(run.to_string())
    }

    /// Returns the folder in which the follow-ups of a run are noted, and claimed back.
    pub(in crate::loops) fn kept_input(&self, run: i64) -> PathBuf {
        self.run_dir(run).join("input")
    }

    /// Returns the folder of a run's socket, which its container sees as `/run/g2`.
    fn gateway_dir(&self, run: i64) -> PathBuf {
        self.run_dir(run).join("gateway")
    }

    /// Returns the zone in which a group's messages are shown; everybody's where its own can't be read.
    async fn zone_of(&self, group: &Folder) -> Zone {
        self.store.zone_of(group, &self.config.now().zones).await.unwrap_or_else(|error| {
            tracing::error!(group = %group, error = %chain(&error), "reading a group's time zone failed");
            self.config.now().zones.of(None)
        })
    }
}

/// How long an engine that is away is left alone before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a supervisor is told.
pub(super) enum Order {
    Close,
    /// A person wants it ended; how is on its row.
    Stop,
    /// A follow-up is handed over; its file is put into `input/` after this, so that no record of it comes before.
    Handed(i64),
    /// Its file could not be placed: it waits again.
    TakenBack(i64),
}

/// How a supervisor begins.
pub(super) enum Beginning {
    Batch(Box<Handed>),
    Task(Box<HandedTask>),
    Adopted(Box<ActiveRun>),
    /// Its supervisor failed: it is only to be ended.
    Abandoned(Box<ActiveRun>),
}

impl Beginning {
    /// Returns the task that the run is for, if it is for one.
    pub(super) fn task(&self) -> Option<&str> {
        match self {
            Self::Batch(_) => None,
            Self::Task(handed) => Some(&handed.task.id),
            Self::Adopted(active) | Self::Abandoned(active) => active.task(),
        }
    }
}

/// A run that is watched.
struct Watched {
    runs: Arc<Runs>,
    group: Folder,
    run: i64,
    /// It is a task's.
    is_task: bool,
    container: Option<String>,
    /// The group's folder, which its container has; `None`: an earlier daemon launched it.
    folder: Option<lost::Identity>,
    said: Said,
    signs: Signs,
    reached: Reached,
    leaving: Leaving,
    /// A person wants it ended.
    stop: Option<Stop>,
    ready_limit: Duration,
    /// For how long it may give no sign of life, ms.
    ceiling_ms: u64,
    log: RunLog,
    gathered: Gathered,
}

/// What a run has said, and how far it is applied.
struct Said {
    /// The number of the last record that was applied or known.
    seen: u64,
    /// The number of the last record that an earlier daemon had applied.
    known: u64,
    /// How much of its output an earlier daemon had taken in up to `seen`, and is still to be passed over, bytes.
    passed_over: u64,
    /// What was read of its output and is not applied yet: the next piece is read when all of it is.
    heard: VecDeque<Parsed>,
    /// What of it may not be applied yet waits until then.
    heard_again: Instant,
    /// Of an adopted run: its turn to have read what it said before.
    turn: Option<OwnedSemaphorePermit>,
    /// What the log was told of its output.
    noise: Repeats<Noise>,
    /// How often it could not be read what a result finishes.
    unread: u32,
    speaks: Speaks,
}

/// What was seen of a run: its signs of life, and what it has in hand.
struct Signs {
    started: Instant,
    last_sign: Instant,
    last_record: Instant,
    last_result: Option<Instant>,
    blocked_tool: Option<String>,
    /// The tool that it runs, and since when.
    tool: Option<(String, Instant)>,
    /// When it was seen to begin or end one last.
    tool_changed: Instant,
    /// What it was handed and has not finished, with when it took it; `None`: it has not been seen to.
    in_hand: BTreeMap<String, Option<Instant>>,
    heartbeat: Option<Stamp>,
    /// Since when its boxes can't be opened.
    unopened: Option<Instant>,
    /// When its heartbeat was seen to change last.
    beaten: Option<Instant>,
}

/// Which protocol its runner has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    NotSaid,
    /// v1's, or it announces none.
    One,
    Ours,
}

impl Speaks {
    fn of(protocol: Option<u32>) -> Self {
        match protocol {
            None => Self::NotSaid,
            Some(protocol) if protocol < wire::PROTOCOL => Self::One,
            Some(_) => Self::Ours,
        }
    }
}

/// How far it is on its way out.
#[derive(Clone, Debug)]
enum Leaving {
    No,
    /// It has been asked to leave.
    Asked(Asked),
    /// The engine has been told to stop it, whether it was asked before or not.
    Stopped {
        since: Instant,
        asked: Option<Asked>,
    },
}

/// Since when it has been asked to leave, why, and when it was told so last.
#[derive(Clone, Debug)]
struct Asked {
    since: Instant,
    why: Option<String>,
    last: Option<Instant>,
}

impl Leaving {
    /// How it has been asked to leave, if it was.
    fn asked(&mut self) -> Option<&mut Asked> {
        match self {
            Self::No => None,
            Self::Asked(asked) => Some(asked),
            Self::Stopped { asked, .. } => asked.as_mut(),
        }
    }

    /// It is asked to leave now, unless it was before. Returns whether it was not.
    fn ask(&mut self, why: Option<&str>, now: Instant) -> bool {
        let asked = Asked { since: now, why: why.map(str::to_owned), last: None };
        match self {
            Self::No => *self = Self::Asked(asked),
            Self::Stopped { asked: before @ None, .. } => *before = Some(asked),
            Self::Asked(_) | Self::Stopped { .. } => return false,
        }
        true
    }

    /// It is told to stop.
    fn stop(&mut self, now: Instant) {
        *self = Self::Stopped { since: now, asked: self.asked().cloned() };
    }
}

impl Watched {
    /// A run of which nothing is known yet.
    fn new(runs: &Arc<Runs>, group: &Folder, run: i64) -> Self {
        let now = runs.machine.world.monotonic();
        Self {
            runs: Arc::clone(runs),
            group: group.clone(),
            run,
            is_task: false,
            container: None,
            folder: None,
            said: Said {
                seen: 0,
                known: 0,
                passed_over: 0,
                heard: VecDeque::new(),
                heard_again: now,
                turn: None,
                noise: Repeats::default(),
                unread: 0,
                speaks: Speaks::NotSaid,
            },
            signs: Signs {
                started: now,
                last_sign: now,
                last_record: now,
                last_result: None,
                blocked_tool: None,
                tool: None,
                tool_changed: now,
                in_hand: BTreeMap::new(),
                heartbeat: None,
                unopened: None,
                beaten: None,
            },
            reached: Reached::Queued,
            leaving: Leaving::No,
            stop: None,
            ready_limit: Duration::from_millis(runs.config.now().health.startup_ms),
            ceiling_ms: runs.config.now().run_settings().ceiling_ms,
            log: RunLog::open(&runs.run_dir(run)),
            gathered: Gathered::default(),
        }
    }
}

/// What the log says of a run stands in this span, at whatever level it logs.
pub(super) fn span(group: &Folder, run: i64) -> tracing::Span {
    tracing::error_span!("run", run, group = %group)
}

/// Why a run came to its end: what happened to its container, and what we did to it or saw wrong with it.
pub(super) type Ending = (End, Cause);

/// A restart found no container of it.
pub(super) const STALE: Ending = (End::Gone, Cause::OwnerGone);
/// A restart found that it was never started.
pub(super) const NEVER_STARTED: Ending = (End::NeverCreated, Cause::OwnerGone);

/// Why no more records are applied.
enum Halt {
    Unwell(Cause),
    /// The daemon stops.
    LetGo,
}

/// Why watching ended.
enum Watching {
    Ended(Ending),
    /// The daemon stops and the container lives on.
    LetGo,
}

/// Watches over a run until it has ended, then tells the lanes.
pub(super) async fn supervise(
    runs: Arc<Runs>,
    group: Folder,
    run: i64,
    beginning: Beginning,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let mut watched = Watched { is_task: beginning.task().is_some(), ..Watched::new(&runs, &group, run) };
    let watching = match beginning {
        Beginning::Batch(handed) => {
            watched.launch(document::of_batch(&runs, &handed).await, &mut orders).await
        }
        Beginning::Task(handed) => watched.launch(document::of_task(&runs, &handed).await, &mut orders).await,
        Beginning::Adopted(active) => watched.adopt(*active, &mut orders).await,
        Beginning::Abandoned(active) => {
            watched.container = active.container;
            let reason = "met a fault of the host's own".to_owned();
            Watching::Ended((End::Gone, Cause::Unwell { reason }))
        }
    };
    runs.sights.forget(run);
    match watching {
        Watching::LetGo => {}
        Watching::Ended(ending) => {
            runs.starts.taken(&group, What::Output);
            if let Some(waiting) = watched.end(ending).await {
                runs.lanes.tell(Event::Ended { group, waiting });
            }
        }
    }
}
