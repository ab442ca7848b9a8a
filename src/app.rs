//! Puts the daemon together, starts it in order and stops it in order. Everything is wired here; there are no globals.
//!
//! Start: settings, lock, store, instance, sandbox, gateway, ipc, recovery, lanes and schedule, channels. Stop: nothing new,
//! live work is finished or handed back, a second signal ends it at once.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use ipc_handlers::Time;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    channels::Channel,
    config::{Config, Live},
    domain::{shown::errors::chain, states::SandboxName},
    engine::Loops,
    ipc::{self, Files},
    loops::{
        control::{self, Leave},
        starts::Starts,
    },
    sandbox::Sandbox,
    store::Store,
    system::{failpoint, world::World},
};

mod adapters;
mod agents;
mod alone;
mod bounds;
mod descriptors;
mod init;
mod instance;
mod left;
mod lock;
mod open;
mod parts;
mod rooms;
mod sandbox;
mod settings;
mod shrink;
mod version;

pub use adapters::{on_trial, without_adapters};
pub use alone::{Tried, perform_alone};
use parts::Parts;
use rooms::Room;

pub use agents::{EndedAgent, end_agents};
pub use bounds::{asking, bounds};
pub use descriptors::make_room_for_files;
pub use init::{History, check_root, found, init, lay_out_boxes};
pub use instance::is_alive;
pub use lock::wait_for_lock;
pub use open::open_store;
pub use sandbox::RUNNER;
pub use settings::Asks;
pub use shrink::{Shrunk, shrink};
pub use version::{check_version, open_store_to_look, other_version};

/// How long runs that were told to leave have beyond their own grace.
const RETIRE: Duration = Duration::from_secs(20);
/// User and group of agents when the daemon is root.
const AGENT: (u32, u32) = (1000, 1000);

/// The surroundings of a daemon, besides its root.
pub struct Surroundings {
    pub world: World,
    /// Where the boxes of its groups lie, and all that is done with files in them.
    pub files: Files,
    /// How its agents are run; `None`: as the settings and the machine allow.
    pub sandbox: Option<Box<dyn Sandbox>>,
    /// Channels beside this machine's terminals and the accounts of the settings.
    pub channels: Vec<Box<dyn Channel>>,
}

/// A daemon that is up.
pub struct Daemon {
    /// Its settings.
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub store: Store,
    pub since: Time,
    /// How its agents are run.
    pub sandbox: SandboxName,
    /// How its loops stand.
    pub loops: Arc<Loops>,
    starts: Arc<Starts>,
    /// Everything ends in order.
    stop: CancellationToken,
    /// Every run is to leave, and nothing is started any more.
    retire: CancellationToken,
    /// A client asked for a stop.
    asked_to_leave: watch::Receiver<Option<Leave>>,
    settings: Asks,
    /// Ends before the others: operations under way are done by them.
    clients: Room,
    agents: Room,
    others: Room,
    /// Ends after the others: runs drain their boxes through it.
    mailbox: Room,
    _lock: File,
}

/// Returns the owner of folders that containers write to, user and group; `None`: this process' own.
#[must_use]
pub fn box_owner() -> Option<ipc::Owner> {
    (crate::system::process::own_ids().0 == 0).then_some(AGENT)
}

impl Daemon {
    /// Starts everything. When this returns the daemon is ready.
    ///
    /// # Errors
    /// What could not be started, and why. Docker being away is no error: it is waited for.
    pub async fn start(root: PathBuf, config: Config) -> Result<Self> {
        let surroundings = Surroundings {
            world: World::real(),
            files: Files::real().clone(),
            sandbox: None,
            channels: Vec::new(),
        };
        Self::start_in(surroundings, root, config).await
    }

    /// As [`Self::start`], in other surroundings.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_in(surroundings: Surroundings, root: PathBuf, config: Config) -> Result<Self> {
        let opened = open::open(surroundings, root, &config).await?;
        let (parts, own) = Parts::of(opened, config).await?;
        let zone = parts.config.now().zone.name.clone();
        tracing::info!(root = %parts.root.display(), instance = parts.instance, sandbox = %parts.kind(), zone, "starting");
        let listener = control::bind(&socket_path(&parts.root)).context("binding data/g2.sock")?;
        let (closing, retire) = (CancellationToken::new(), CancellationToken::new());
        let (leave, asked_to_leave) = watch::channel(None);
        let (mail, keeping, problems) = (parts.of_mailboxes(), parts.of_operations(), parts.of_problems());

        let mut mailbox = Room::new(&parts, CancellationToken::new());
        let taking_in = (own.files.watch(), own.of_mailboxes);
        let lost = rooms::mailboxes(&mut mailbox, &parts, (&mail, &keeping), taking_in).await?;
        let mut agents = Room::new(&parts, parts.stop.clone());
        let timed = (own.clocks, own.of_lanes);
        rooms::runs(&mut agents, &parts, lost, timed, retire.clone()).await?;
        let desk =
            rooms::desk(&parts, (&mail, keeping, Arc::clone(&problems)), own.local, leave, closing.clone());
        rooms::after_mailboxes(&mut mailbox, &parts, mail);
        let mut others = Room::new(&parts, parts.stop.clone());
        rooms::talk(&mut others, &parts, own.post);
        rooms::settings(&mut others, &parts, (own.accounts, own.names), own.of_settings);
        rooms::upkeep(&mut others, &parts, problems);
        let mut clients = Room::new(&parts, closing);
        rooms::clients(&mut clients, &parts, desk, listener);
        Ok(Self {
            sandbox: parts.kind(),
            loops: Arc::clone(&parts.machine.loops),
            config: parts.config,
            root: parts.root,
            store: parts.store,
            since: parts.since,
            starts: parts.starts,
            settings: parts.settings,
            stop: parts.stop,
            retire,
            asked_to_leave,
            clients,
            agents,
            others,
            mailbox,
            _lock: own.lock,
        })
    }

    /// Returns what waits for a client to ask for a stop.
    #[must_use]
    pub fn leave_asked(&self) -> LeaveAsked {
        LeaveAsked(self.asked_to_leave.clone())
    }

    /// Returns what asks the daemon to read its settings again.
    #[must_use]
    pub fn settings(&self) -> Asks {
        self.settings.clone()
    }

    /// Stops in order: nothing new, operations under way done, runs finished or let go, then the mailboxes.
    pub async fn stop(mut self) {
        self.clients.end().await;
        self.stop.cancel();
        self.agents.end().await;
        self.others.end().await;
        self.mailbox.end().await;
        self.starts.end();
        if let Err(error) = self.store.empty_log().await {
            tracing::warn!(error = %chain(&error), "the store's log could not be emptied; the next start reads it");
        }
        // A socket that is there without a daemon tells of one that ended otherwise.
        if let Err(error) = crate::system::socket::remove_stale_socket(&socket_path(&self.root)) {
            tracing::warn!(error = %chain(&error), "removing data/g2.sock failed");
        }
    }

    /// Has every run finish its turn and leave, then stops. A run that takes longer than its grace is let go of.
    pub async fn retire(self) {
        let mut bell = self.store.bell();
        self.retire.cancel();
        failpoint::reach("stop.retiring");
        let grace = Duration::from_millis(self.config.now().health.close_grace_ms) + RETIRE;
        let gone = async {
            while self.store.active_runs().is_ok_and(|runs| !runs.is_empty()) && bell.changed().await.is_ok()
            {
            }
        };
        if tokio::time::timeout(grace, gone).await.is_err() {
            tracing::warn!("some runs do not leave; the next start looks after them");
        }
        failpoint::reach("stop.agents_gone");
        self.stop().await;
    }

    /// Whether one of the loops has ended by itself, which none ever should.
    pub async fn has_failed(&mut self) -> String {
        let ended = tokio::select! {
            ended = self.agents.ended() => ended,
            ended = self.others.ended() => ended,
            ended = self.clients.ended() => ended,
            ended = self.mailbox.ended() => ended,
        };
        match ended {
            Ok(()) => "a loop ended".into(),
            Err(error) => format!("a loop failed: {error}"),
        }
    }
}

/// Waits for a client to ask for a stop.
pub struct LeaveAsked(watch::Receiver<Option<Leave>>);

impl LeaveAsked {
    /// Waits until a client asks for a stop, and returns how. Safe to cancel.
    pub async fn wait(&mut self) -> Leave {
        loop {
            if let Some(leave) = *self.0.borrow_and_update() {
                return leave;
            }
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Returns where the daemon of this root listens.
#[must_use]
pub fn socket_path(root: &Path) -> PathBuf {
    root.join("data/g2.sock")
}
