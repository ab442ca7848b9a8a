//! Puts the daemon together, starts it in order and stops it in order. Everything is wired here; there are no globals.
//!
//! Start: settings, lock, store, instance, sandbox, gateway, ipc, recovery, lanes and schedule, channels. Stop: nothing new,
//! live work is finished or handed back, a second signal ends it at once.
#![expect(clippy::disallowed_methods, reason = "lays out the root, which no container can write")]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, Result};
use ipc_handlers::{Folder, Time};
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channel, local::Local},
    config::{Config, Environment, Live, Standing},
    domain::{
        host::{errors::chain, screen},
        runs::lanes::{Event, Holding},
        states::SandboxName,
    },
    engine::{Drive, Loops},
    gateway::{self, Credentials, Gateway, OutsideLimits, Upstream},
    ipc::{self, Claims, Files, HostDirs, LeftBox},
    loops::{
        self, Allowances, Backups, Boxes, Budgets, Dispatch, Heartbeats, Held, Keeping, Machine, Mailboxes,
        Problems, Runs, Sights, Snapshots, ToLanes, Troubles,
        amends::Amends,
        control::{self, Desk, Leave},
        deliver::{Deliver, Post},
        ground::Ground,
        housekeeping::Weighing,
        ipc::searches::{Answering, Searches},
        problems,
        prune::{Prune, Trim},
        recovery::Recovery,
        schedule::{Schedule, Watched},
        signs::Signs,
        snapshots,
        starts::Starts,
        typing::Typing,
        usage::Usage,
    },
    sandbox::Sandbox,
    store::{self, Asking, Bounds, Store},
    system::{failpoint, media::Media, world::World},
    web,
};

mod adapters;
mod agents;
mod alone;
mod descriptors;
mod init;
mod instance;
mod left;
mod lock;
mod sandbox;
mod settings;
mod shrink;
mod version;

use adapters::Accounts;
pub use adapters::{on_trial, without_adapters};
pub use alone::{Tried, perform_alone};
use left::{left_behind, set_aside};
use lock::lock;
use sandbox::choose_sandbox;

pub use agents::{EndedAgent, end_agents};
pub use descriptors::make_room_for_files;
pub use init::{History, check_root, found, init, lay_out_boxes};
pub use instance::is_alive;
pub use lock::wait_for_lock;
pub use sandbox::RUNNER;
pub use settings::Asks;
pub use shrink::{Shrunk, shrink};
pub use version::{check_version, open_store_to_look, other_version};

/// How long runs that were told to leave have beyond their own grace.
const RETIRE: Duration = Duration::from_secs(20);
/// How many mailboxes of groups that are gone a start removes; the next one removes more.
const LEFT_BOXES: usize = 10_000;
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
    /// Nothing that clients ask for is begun any more.
    closing: CancellationToken,
    /// A client asked for a stop.
    asked_to_leave: watch::Receiver<Option<Leave>>,
    settings: Asks,
    /// Ends before the others: operations under way are done by them.
    clients: JoinSet<()>,
    tasks: JoinSet<()>,
    /// Ends after the others: runs drain their boxes through it.
    mailbox: JoinSet<()>,
    mailbox_stop: CancellationToken,
    _lock: File,
}

/// Makes a folder that only this user can look into.
fn private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if !path.exists() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("making {}", path.display()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("closing {}", path.display()))?;
    }
    Ok(())
}

/// Removes the indexes of archived sessions that an earlier version had.
fn remove_old_indexes(root: &Path) {
    let old = root.join("data/search");
    if let Err(error) = fs::remove_dir_all(&old)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %old.display(), error = %chain(&error), "an earlier version's index can't be removed");
    }
}

/// Opens the root's store, making `data/` where needed.
///
/// # Errors
/// What could not be opened, and why; the log beside it belongs to another store.
pub fn open_store(world: &World, root: &Path) -> Result<Store> {
    init::check_log(root)?;
    let data = root.join("data");
    fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
    let path = data.join("g2.sqlite");
    // Its log and its index are made as it is.
    crate::root::make_private_file(&path, b"").with_context(|| format!("making {}", path.display()))?;
    Ok(Store::open_in(world.clone(), &path)?)
}

/// Opens the root's store for the holder of its lock, which may write to it.
///
/// # Errors
/// As [`open_store`].
fn open_store_under(world: &World, lock: &File, root: &Path) -> Result<Store> {
    let store = open_store(world, root)?;
    lock::note_store(lock, root);
    Ok(store)
}

/// Has what a daemon that died committed be on the disk before it is read, and acted on. A start on a disk that is full goes on.
fn make_log_durable(root: &Path) {
    // Another's log is not to come into this store.
    if init::check_log(root).is_err() {
        return;
    }
    if let Err(error) = store::make_log_durable(&root.join("data/g2.sqlite")) {
        tracing::warn!(error = %chain(&error), "what the last daemon left in the store's log may not be on the disk");
    }
}

/// Removes the mailboxes of groups that are gone.
async fn remove_left_boxes(boxes: &Boxes, store: &Store, groups: &BTreeSet<Folder>) {
    match boxes.dirs.discard_boxes_but(groups, LEFT_BOXES) {
        Ok(gone) => {
            for LeftBox { group, removed } in gone {
                match removed {
                    Ok(()) => {
                        tracing::warn!(%group, "the mailbox of a group that is gone is removed");
                    }
                    Err(error) => {
                        tracing::error!(%group, error = %chain(&error), "the mailbox of a group that is gone can't be removed; no group of that name is made before it is");
                        if let Err(error) = store.leave(group.clone()).await {
                            tracing::error!(%group, error = %chain(&error), "storing that failed");
                        }
                    }
                }
            }
        }
        Err(error) => {
            tracing::error!(error = %chain(&error), "removing the mailboxes of groups that are gone failed");
        }
    }
}

/// Returns what the settings let each group have in the store.
#[must_use]
pub fn bounds(config: &Config) -> Bounds {
    Bounds {
        tasks: config.limits.tasks(),
        groups: config.limits.groups,
        replies: config.limits.replies_bytes,
        stored: config.limits.stored_bytes,
        media: config.media.limits(),
        fresh_after_ms: config.health.fresh_after_ms,
    }
}

/// Returns how people are asked by a daemon with these settings.
#[must_use]
pub fn asking(config: &Config) -> Asking {
    Asking {
        channels: adapters::names(config).into(),
        deny_ttl_ms: config.approvals.deny_ttl_ms,
        trigger: format!("@{}", config.assistant_name),
        groups: config.limits.groups,
    }
}

/// Returns the owner of folders that containers write to, user and group; `None`: this process' own.
#[must_use]
pub fn box_owner() -> Option<ipc::Owner> {
    (crate::system::process::own_ids().0 == 0).then_some(AGENT)
}

/// Makes the gateway of a root's settings; it reads no key yet.
///
/// # Errors
/// When the address of the model's host can't be used.
fn open_gateway(world: World, root: &Path, config: &Config) -> Result<Gateway> {
    let upstream = Upstream::parse(&config.gateway.upstream).with_context(|| {
        format!("the setting gateway.upstream can't be {:?}", screen::address(&config.gateway.upstream))
    })?;
    let credentials = Credentials::new(root.join(".env"), config.gateway.token_file.clone());
    let gateway = Gateway::new(world, upstream, credentials, gateway::Limits::default());
    gateway.bound_outside(bounds_outside(config));
    Ok(gateway)
}

/// Returns how much each group may have from hosts outside.
fn bounds_outside(config: &Config) -> OutsideLimits {
    let egress = &config.egress;
    OutsideLimits {
        connections: egress.connections,
        per_minute: egress.connections_per_minute,
        bytes_per_hour: egress.bytes_per_hour,
        life: egress.life,
        ..OutsideLimits::default()
    }
}

/// How long what the start leaves for later may take, before what it needed is let go of.
const START: Duration = Duration::from_secs(20);

/// Lets go of the memory that the start needed, once, and then waits for the stop.
async fn let_go_of_the_start(world: World, stop: CancellationToken) {
    if tokio::time::timeout(START, stop.cancelled()).await.is_err() {
        let bytes = world.blocking(crate::system::memory::let_go_of_the_start).await.unwrap_or(0);
        tracing::debug!(bytes, "let go of what only the start needed");
    }
    stop.cancelled().await;
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
        let Surroundings { world, files, sandbox, channels: more } = surroundings;
        make_room_for_files(&root);
        // Nothing is written to a root that another daemon serves.
        private_dir(&root.join("data"))?;
        let lock = lock(&root).await?;
        adapters::kill_left(&root).await;
        if world.disk().is_none() {
            make_log_durable(&root);
        }
        init(&world, &root, &config).await?;
        let store = open_store_under(&world, &lock, &root)?;
        remove_old_indexes(&root);
        let instance = instance::of(&world, &root, &store).await?;
        let sandbox = match sandbox {
            Some(sandbox) => sandbox,
            None => choose_sandbox(&root, &config, &store).await?,
        };
        let gateway = open_gateway(world.clone(), &root, &config)?;
        let dirs = HostDirs::open(files.at(&root.join("data")))?;
        if !dirs.has_links() {
            tracing::warn!(
                "the file system of data/ has no hard links, or no files without a name: a container that means it can keep all others waiting"
            );
        }
        let media = Media::open(&root.join("data")).context("opening data/media")?;
        let claims = Claims::open(&dirs, store.last_claim()?)?;
        let local = Local::default();
        let asking = asking(&config);
        let names = asking.channels.clone();
        let accounts = Accounts::new(&world, &root, &config, &instance, &local, &media, names.clone());
        let channels = Arc::clone(&accounts.channels);
        more.into_iter().for_each(|channel| channels.add(channel));
        // People are asked over these, too.
        names.set(channels.names());
        let store = store.asking(asking).bounded(bounds(&config));
        match store.expire_approvals(world.now()).await {
            // It is done again each hour.
            Err(error) if error.is_worlds_fault() => {
                tracing::warn!(error = %chain(&error), "questions can't be ended now that nobody answered in time");
            }
            expired => drop(expired?),
        }
        let stop = CancellationToken::new();
        let troubles = Arc::<Troubles>::default();
        let post = Post {
            world: world.clone(),
            store: store.clone(),
            channels: Arc::clone(&channels),
            unknown: config.outbox.on_unknown,
            stop: stop.clone(),
            unwritten_waits: Default::default(),
        };
        let is_post_recovered = post.recover().await?;
        let (lanes, news) = ToLanes::new();
        let (mailboxes, asks) = mpsc::unbounded_channel();
        let (of_settings, asked_of_settings) = mpsc::unbounded_channel();
        let since = world.now();
        let token_key = crate::root::token_key(&root.join("data")).context("reading data/token.key")?;
        let found = left_behind(&claims, &store, sandbox.as_ref())?;
        let (starts, aside) = Starts::begin(root.join("data"), found, since);
        set_aside(&store, aside, since).await?;
        let config = Arc::new(Live::new(root.clone(), Environment::of_process(), config));
        let started = config.now();
        let clocks = Watched::begin(world.clone(), store.clone(), Arc::clone(&config)).await?;
        tracing::info!(root = %root.display(), instance, sandbox = %sandbox.kind(), zone = started.zone.name, "starting");
        let listener = control::bind(&socket_path(&root)).context("binding data/g2.sock")?;

        // What several loops work on.
        let closing = CancellationToken::new();
        let (claims, starts) = (Arc::new(claims), Arc::new(starts));
        let kind = sandbox.kind();
        let (sandbox, gateway) = (Arc::from(sandbox), Arc::new(gateway));
        let held = Arc::new(Held::read(store.clone())?);
        let allowances = Arc::new(Allowances::new(world.clone(), Arc::clone(&config)));
        let (data, of_machine) = (root.join("data"), Arc::clone(&config));
        let machine = Arc::new(Machine::new(world.clone(), data, of_machine, store.clone(), troubles));
        let drive = Drive { store: store.clone(), loops: Arc::clone(&machine.loops), stop: stop.clone() };
        let uid_base = started.sandbox.uid_base;
        let boxes = Arc::new(Boxes::new(dirs, box_owner(), root.clone(), uid_base, store.clone()));
        let (of_snapshots, of_boxes) = (Arc::clone(&config), Arc::clone(&boxes));
        let of_heartbeats = Arc::clone(&boxes);
        let snapshots = Arc::new(
            Snapshots::new(world.clone(), of_snapshots, store.clone(), of_boxes, mailboxes.clone()).await?,
        );
        let at_mailboxes = Arc::new(Mailboxes {
            config: Arc::clone(&config),
            root: root.clone(),
            store: store.clone(),
            boxes: Arc::clone(&boxes),
            claims: Arc::clone(&claims),
            held: Arc::clone(&held),
            allowances: Arc::clone(&allowances),
            crowd: Semaphore::new(loops::ipc::CROWD),
            searches: Searches::default(),
            times: Arc::default(),
            machine: Arc::clone(&machine),
            starts: Arc::clone(&starts),
            snapshots: Arc::clone(&snapshots),
            media: Arc::clone(&media),
            channels: Arc::clone(&channels),
            token_key: token_key.clone(),
            stop: stop.clone(),
        });
        let sights = Arc::<Sights>::default();
        let (leave, asked_to_leave) = watch::channel(None);
        let runs = Arc::new(Runs {
            config: Arc::clone(&config),
            root: root.clone(),
            store: store.clone(),
            sandbox,
            gateway: Arc::clone(&gateway),
            channels: Arc::clone(&channels),
            boxes: Arc::clone(&boxes),
            allowances,
            machine: Arc::clone(&machine),
            sights: Arc::clone(&sights),
            starts: Arc::clone(&starts),
            snapshots: Arc::clone(&snapshots),
            media: Arc::clone(&media),
            lanes: lanes.clone(),
            mailboxes: mailboxes.clone(),
            token_key,
            instance: instance.clone(),
            stop: stop.clone(),
        });
        let problems = Arc::new(Problems {
            config: Arc::clone(&config),
            root: root.clone(),
            held: crate::root::HeldParts::of(&root),
            store: store.clone(),
            sandbox: kind,
            machine: Arc::clone(&machine),
            known: Mutex::default(),
            standing: Standing::default(),
        });
        let keeping = Arc::new(Keeping {
            config: Arc::clone(&config),
            root: root.clone(),
            store: store.clone(),
            boxes: Arc::clone(&boxes),
            claims,
            snapshots: Arc::clone(&snapshots),
            gateway: Arc::clone(&gateway),
            machine: Arc::clone(&machine),
            lanes: lanes.clone(),
            mailboxes: mailboxes.clone(),
            settings: of_settings.clone(),
            places: Keeping::places(),
            removing: Mutex::default(),
            unfinished: Notify::default(),
        });
        let owner = instance::owner(&instance);
        let desk = Arc::new(Desk {
            store: store.clone(),
            keeping,
            problems: Arc::clone(&problems),
            machine: Arc::clone(&machine),
            local,
            sights,
            page: control::PageAddress::default(),
            notes: root.join(adapters::CHILDREN),
            leave,
            instance,
            since,
            commands: Arc::clone(&at_mailboxes.times),
            closing: closing.clone(),
        });

        let groups: Vec<_> = store.groups().await?.into_iter().map(|group| group.folder).collect();
        remove_left_boxes(&boxes, &store, &groups.iter().cloned().collect()).await;
        // Some were made by an answer, or a command, that the last daemon died over.
        let lost = loops::lost::begin(&root, &store, &boxes, &machine, groups).await?;
        // What the last daemon committed and did not show is shown before it is answered.
        snapshots.want_all().await;
        // What was claimed before goes first: order within a group is that of the claims.
        let left = loops::ipc::recover(&at_mailboxes).await?;
        let mailbox_stop = CancellationToken::new();
        let mut mailbox = JoinSet::new();
        let of_mailbox = Drive { stop: mailbox_stop.clone(), ..drive.clone() };
        let taking_in = loops::ipc::Mailbox::new(Arc::clone(&at_mailboxes), files.watch(), asks, left);
        mailbox.spawn(of_mailbox.run(taking_in));

        // A client that is told that we are ready finds the boxes, watched.
        let (done, opened) = oneshot::channel();
        if mailboxes.send(loops::Ask::Groups(done)).is_ok() {
            let _ = opened.await;
        }
        loops::finish_removals(&desk.keeping).await;
        let last = Drive { stop: mailbox_stop.clone(), ..drive.clone() };
        mailbox.spawn(last.clone().run(loops::Removals::new(Arc::clone(&desk.keeping))));
        // Told before any group is let go on.
        let (of_budgets, of_lanes) = (Arc::clone(&runs.gateway), runs.lanes.clone());
        let mut budgets =
            Budgets::new(world.clone(), Arc::clone(&config), store.clone(), of_budgets, of_lanes);
        for group in budgets.begin(world.now()).await? {
            runs.lanes.tell(Event::Hold { group, reason: Holding::Budget });
        }
        for group in lost {
            runs.lanes.tell(Event::Hold { group, reason: Holding::Folder });
        }
        let mut tasks = JoinSet::new();
        let (recovery, recovering) = Recovery::new(Arc::clone(&runs), held);
        tasks.spawn(drive.clone().run(recovery));
        recovering.wait(&runs).await?;
        mailbox.spawn(drive.clone().run(Answering::new(at_mailboxes)));
        mailbox.spawn(last.clone().run(loops::search::Search::new(store.clone(), Arc::clone(&machine))));
        mailbox.spawn(last.clone().run(snapshots::Writing::new(snapshots)));
        let of_rules = Arc::clone(&gateway);
        mailbox.spawn(last.run(Usage::new(world.clone(), store.clone(), gateway)));
        let (retire, due) = (CancellationToken::new(), Arc::new(Notify::new()));
        let (of_dispatch, retired) = (Arc::clone(&runs), retire.clone());
        tasks.spawn(drive.clone().run(Dispatch::new(of_dispatch, owner, news, Arc::clone(&due), retired)));
        tasks.spawn(drive.clone().run(loops::hindrances::Hindrances::new(Arc::clone(&runs))));
        tasks.spawn(drive.clone().run(Ground::new(runs)));
        tasks.spawn(drive.clone().run(budgets));
        tasks.spawn(drive.clone().run(Schedule::new(clocks, due)));
        let heartbeats = Heartbeats {
            root: root.clone(),
            store: store.clone(),
            boxes: of_heartbeats,
            machine: Arc::clone(&machine),
            config: Arc::clone(&config),
        };
        tasks.spawn(drive.clone().run(loops::heartbeat::Takes::new(heartbeats)));
        let files = loops::files::Files {
            world: world.clone(),
            config: Arc::clone(&config),
            work: root.join("data/hooks"),
            program: adapters::own_program(),
            notes: root.join(adapters::CHILDREN),
            store: store.clone(),
            media: Arc::clone(&media),
            channels: Arc::clone(&channels),
        };
        tasks.spawn(drive.clone().run(loops::files::Fetching::new(files)));
        let sweep = loops::media::Sweep::new(world.clone(), store.clone(), Arc::clone(&media));
        tasks.spawn(drive.clone().run(sweep));
        tasks.spawn(drive.clone().run(Deliver::new(post, is_post_recovered)));
        let of_accounts = Arc::clone(&channels);
        let running = loops::accounts::Accounts::new(world.clone(), store.clone(), of_accounts);
        tasks.spawn(drive.clone().run(running));
        let settings = settings::Hands {
            config: Arc::clone(&config),
            root: root.clone(),
            store: store.clone(),
            gateway: of_rules,
            lanes,
            accounts: accounts.into(),
            names,
            asked: Mutex::default(),
            owed: Mutex::default(),
        };
        tasks.spawn(drive.clone().run(settings::Following::new(settings, asked_of_settings)));
        tasks.spawn(drive.clone().run(Amends::new(store.clone(), Arc::clone(&channels))));
        tasks.spawn(drive.clone().run(Signs::new(store.clone(), Arc::clone(&channels))));
        tasks.spawn(drive.clone().run(Typing::new(world.clone(), store.clone(), channels)));
        tasks.spawn(drive.clone().run(Trim::new(world.clone(), store.clone())));
        tasks.spawn(let_go_of_the_start(world.clone(), stop.clone()));
        let backups = Backups::new(world.clone(), root.clone(), store.clone(), Arc::clone(&config));
        tasks.spawn(drive.clone().run(backups));
        tasks.spawn(drive.clone().run(problems::Watch(problems)));
        let mut clients = JoinSet::new();
        if let Some(listen) = started.web.listen {
            let (desk, config, root) = (Arc::clone(&desk), Arc::clone(&config), root.clone());
            clients.spawn(web::run(world.clone(), desk, config, media, root, listen));
        }
        clients.spawn(control::run(desk, listener));
        let prune = Prune::new(world.clone(), store.clone(), root.clone(), Arc::clone(&config));
        tasks.spawn(drive.clone().run(prune));
        let weighing = Weighing::new(world, store.clone(), root.clone(), Arc::clone(&config));
        tasks.spawn(drive.clone().run(weighing));
        Ok(Self {
            sandbox: kind,
            loops: drive.loops,
            config,
            root,
            store,
            starts,
            since,
            stop,
            retire,
            closing,
            asked_to_leave,
            settings: of_settings,
            clients,
            tasks,
            mailbox,
            mailbox_stop,
            _lock: lock,
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
        self.closing.cancel();
        while self.clients.join_next().await.is_some() {}
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.mailbox_stop.cancel();
        while self.mailbox.join_next().await.is_some() {}
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
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.clients.join_next() => ended,
            Some(ended) = self.mailbox.join_next() => ended,
            else => return "no loop is running".into(),
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
