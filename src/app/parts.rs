//! What several rooms work on, and what each room is given of it.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use ipc_handlers::{Time, token};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    adapters::Accounts,
    box_owner,
    left::{left_behind, set_aside},
    open::Opened,
    settings::Asks,
};
use crate::{
    channels::{Channels, local::Local},
    config::{Config, Environment, Live, Standing},
    domain::states::SandboxName,
    engine::Drive,
    gateway::Gateway,
    ipc::{Claims, Files},
    loops::{
        self, Allowances, Ask, Boxes, ForLanes, Held, Keeping, Machine, Mailboxes, Problems, Reread, Runs,
        Sights, Snapshots, ToLanes, Troubles, chats::Listings, deliver::Post, ipc::searches::Searches,
        schedule::Watched, starts::Starts,
    },
    sandbox::Sandbox,
    store::{Names, Store},
    system::{media::Media, world::World},
};

/// What several rooms work on.
pub(super) struct Parts {
    pub(super) world: World,
    pub(super) root: PathBuf,
    pub(super) config: Arc<Live>,
    pub(super) store: Store,
    /// This root's id.
    pub(super) instance: String,
    /// When the start began.
    pub(super) since: Time,
    sandbox: Arc<dyn Sandbox>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) channels: Arc<Channels>,
    pub(super) listings: Arc<Listings>,
    /// Wakes who hands texts for an owner over.
    pub(super) pushes: Arc<Notify>,
    /// Wakes who makes backups.
    pub(super) backups: Arc<Notify>,
    pub(super) media: Arc<Media>,
    pub(super) boxes: Arc<Boxes>,
    claims: Arc<Claims>,
    pub(super) held: Arc<Held>,
    allowances: Arc<Allowances>,
    pub(super) machine: Arc<Machine>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) starts: Arc<Starts>,
    pub(super) sights: Arc<Sights>,
    pub(super) lanes: ToLanes,
    pub(super) mailboxes: mpsc::UnboundedSender<Ask>,
    pub(super) settings: Asks,
    token_key: token::Key,
    /// Everything ends in order.
    pub(super) stop: CancellationToken,
}

/// What one room takes for itself.
pub(super) struct Own {
    pub(super) lock: File,
    pub(super) files: Files,
    pub(super) local: Local,
    pub(super) accounts: Accounts,
    pub(super) names: Names,
    pub(super) clocks: Watched,
    /// The parts of the loop `deliver`; `true`: the texts that an earlier daemon was sending are recovered.
    pub(super) post: (Post, bool),
    pub(super) of_lanes: mpsc::UnboundedReceiver<ForLanes>,
    pub(super) of_mailboxes: mpsc::UnboundedReceiver<Ask>,
    pub(super) of_settings: mpsc::UnboundedReceiver<oneshot::Sender<Reread>>,
}

impl Parts {
    /// Makes the parts of an opened root. Leftovers of the last daemon are noted; none of its runs is ended yet.
    ///
    /// # Errors
    /// What can't be read; nothing can be noted.
    pub(super) async fn of(opened: Opened, config: Config) -> Result<(Self, Own)> {
        let Opened { world, root, store, instance, sandbox, gateway, dirs, media, claims, .. } = opened;
        let channels = Arc::clone(&opened.accounts.channels);
        let stop = CancellationToken::new();
        let post = Post {
            world: world.clone(),
            store: store.clone(),
            channels: Arc::clone(&channels),
            unknown: config.outbox.on_unknown,
            stop: stop.clone(),
            waits: Default::default(),
        };
        let is_post_recovered = post.recover().await?;
        let since = world.now();
        let found = left_behind(&claims, &store, sandbox.as_ref())?;
        let (starts, aside) = Starts::begin(root.join("data"), found, since);
        set_aside(&store, aside, since).await?;
        let config = Arc::new(Live::new(root.clone(), Environment::of_process(), config));
        let clocks = Watched::begin(world.clone(), store.clone(), Arc::clone(&config)).await?;
        let uid_base = config.now().sandbox.uid_base;
        let boxes = Arc::new(Boxes::new(dirs, box_owner(), root.clone(), uid_base, store.clone()));
        let troubles = Arc::<Troubles>::default();
        let (data, of_machine) = (root.join("data"), Arc::clone(&config));
        let machine = Machine::new(world.clone(), data, of_machine, store.clone(), troubles);
        let (lanes, of_lanes) = ToLanes::new();
        let (mailboxes, of_mailboxes) = mpsc::unbounded_channel();
        let (settings, of_settings) = mpsc::unbounded_channel();
        let (of_snapshots, to_mailboxes) = (Arc::clone(&boxes), mailboxes.clone());
        let snapshots =
            Snapshots::new(world.clone(), Arc::clone(&config), store.clone(), of_snapshots, to_mailboxes)
                .await?;
        let listings = Listings::new(world.clone(), store.clone(), Arc::clone(&channels));
        let parts = Self {
            listings: Arc::new(listings),
            pushes: Arc::default(),
            backups: Arc::default(),
            held: Arc::new(Held::read(store.clone())?),
            allowances: Arc::new(Allowances::new(world.clone(), Arc::clone(&config))),
            machine: Arc::new(machine),
            snapshots: Arc::new(snapshots),
            sandbox: Arc::from(sandbox),
            gateway: Arc::new(gateway),
            claims: Arc::new(claims),
            starts: Arc::new(starts),
            sights: Arc::default(),
            token_key: opened.token_key,
            world,
            root,
            config,
            store,
            instance,
            since,
            channels,
            media,
            boxes,
            lanes,
            mailboxes,
            settings,
            stop,
        };
        let own = Own {
            lock: opened.lock,
            files: opened.files,
            local: opened.local,
            accounts: opened.accounts,
            names: opened.names,
            clocks,
            post: (post, is_post_recovered),
            of_lanes,
            of_mailboxes,
            of_settings,
        };
        Ok((parts, own))
    }

    /// Returns what loops are driven with until `stop`.
    pub(super) fn drive(&self, stop: CancellationToken) -> Drive {
        Drive { store: self.store.clone(), loops: Arc::clone(&self.machine.loops), stop }
    }

    /// Returns how agents are run.
    pub(super) fn kind(&self) -> SandboxName {
        self.sandbox.kind()
    }

    /// Returns what is needed to take in what agents write.
    pub(super) fn of_mailboxes(&self) -> Arc<Mailboxes> {
        Arc::new(Mailboxes {
            config: Arc::clone(&self.config),
            root: self.root.clone(),
            store: self.store.clone(),
            boxes: Arc::clone(&self.boxes),
            claims: Arc::clone(&self.claims),
            held: Arc::clone(&self.held),
            allowances: Arc::clone(&self.allowances),
            crowd: Semaphore::new(loops::ipc::CROWD),
            searches: Searches::default(),
            times: Arc::default(),
            machine: Arc::clone(&self.machine),
            starts: Arc::clone(&self.starts),
            snapshots: Arc::clone(&self.snapshots),
            media: Arc::clone(&self.media),
            channels: Arc::clone(&self.channels),
            listings: Arc::clone(&self.listings),
            token_key: self.token_key.clone(),
            stop: self.stop.clone(),
        })
    }

    /// Returns what is needed to run agents.
    pub(super) fn of_runs(&self) -> Arc<Runs> {
        Arc::new(Runs {
            config: Arc::clone(&self.config),
            root: self.root.clone(),
            store: self.store.clone(),
            sandbox: Arc::clone(&self.sandbox),
            gateway: Arc::clone(&self.gateway),
            channels: Arc::clone(&self.channels),
            boxes: Arc::clone(&self.boxes),
            allowances: Arc::clone(&self.allowances),
            machine: Arc::clone(&self.machine),
            sights: Arc::clone(&self.sights),
            starts: Arc::clone(&self.starts),
            snapshots: Arc::clone(&self.snapshots),
            media: Arc::clone(&self.media),
            lanes: self.lanes.clone(),
            mailboxes: self.mailboxes.clone(),
            token_key: self.token_key.clone(),
            instance: self.instance.clone(),
            stop: self.stop.clone(),
        })
    }

    /// Returns what is needed to see what is wrong.
    pub(super) fn of_problems(&self) -> Arc<Problems> {
        Arc::new(Problems {
            config: Arc::clone(&self.config),
            root: self.root.clone(),
            held: crate::root::HeldParts::of(&self.root),
            store: self.store.clone(),
            sandbox: self.kind(),
            machine: Arc::clone(&self.machine),
            known: Mutex::default(),
            standing: Standing::default(),
            pushes: Arc::clone(&self.pushes),
            looks_at_mounts: Arc::default(),
        })
    }

    /// Returns what operations work on.
    pub(super) fn of_operations(&self) -> Arc<Keeping> {
        Arc::new(Keeping {
            config: Arc::clone(&self.config),
            root: self.root.clone(),
            store: self.store.clone(),
            boxes: Arc::clone(&self.boxes),
            claims: Arc::clone(&self.claims),
            snapshots: Arc::clone(&self.snapshots),
            gateway: Arc::clone(&self.gateway),
            listings: Arc::clone(&self.listings),
            pushes: Arc::clone(&self.pushes),
            backups: Arc::clone(&self.backups),
            machine: Arc::clone(&self.machine),
            lanes: self.lanes.clone(),
            mailboxes: self.mailboxes.clone(),
            settings: self.settings.clone(),
            places: Keeping::places(),
            removing: Mutex::default(),
            unfinished: Notify::default(),
        })
    }
}
