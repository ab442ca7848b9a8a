//! Puts the daemon together, starts it in order and stops it in order. Everything is wired here; there are no globals.
//!
//! Start: settings, lock, store, instance, sandbox, gateway, ipc, recovery, lanes and schedule, channels. Stop: nothing new,
//! what is under way is finished or let go, a second signal ends it at once.
#![expect(clippy::disallowed_methods, reason = "lays out the root, which no container can write")]

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use ipc_handlers::{Folder, Time};
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::{Channels, Intake, local::Local},
    clock,
    config::{Config, SandboxKind},
    domain::{
        host::{deaths, errors::chain},
        mailbox::holds::{Hold, Holds},
        runs::run_settings::Provider,
        states::SandboxName,
    },
    gateway::{self, Credentials, Gateway, Upstream},
    ipc::{self, Claims, HostDirs, Watch},
    loops::{
        self, Host, control, deliver,
        dispatch::Dispatch,
        intake::{self, Intake as Starts, What},
        problems, prune, reconcile, schedule,
        snapshots::{self, Snapshots},
        typing, usage,
    },
    sandbox::{Sandbox, docker::DockerSandbox, process::ProcessSandbox},
    store::{Asking, Bounds, Store},
};

mod alone;
mod init;
mod shrink;

pub use alone::{Tried, perform_alone};
pub use init::{History, check_root, found, init, lay_out_boxes};
pub use shrink::{Shrunk, shrink};

/// How many hints of file events may wait before they degrade to a scan.
const HINTS: usize = 16_384;
/// How often a lock that somebody holds is tried again: a look at it from outside holds it for an instant.
const LOCK_TRIES: u32 = 5;
const LOCK_AGAIN: Duration = Duration::from_millis(50);
/// How often one that is held for a change is tried again: half a minute.
const CHANGE_TRIES: u32 = 600;
/// What stands behind the process id in a lock that is held for a change.
const CHANGE: &str = " change";
/// How long runs that were told to leave have beyond their own grace.
const RETIRE: Duration = Duration::from_secs(20);
/// User and group of agents when the daemon is root.
const AGENT: (u32, u32) = (1000, 1000);

/// A daemon that is up.
pub struct Daemon {
    pub host: Arc<Host>,
    pub since: Time,
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

/// Opens the root's store, making `data/` where needed.
///
/// # Errors
/// What could not be opened, and why.
pub fn open_store(root: &Path) -> Result<Store> {
    let data = root.join("data");
    fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
    let path = data.join("g2.sqlite");
    // Its log and its index are made as it is.
    crate::root::make_private_file(&path, b"").with_context(|| format!("making {}", path.display()))?;
    let store = Store::open(&path)?;
    // What was said in archived sessions is indexed there.
    if !store.is_read_only() {
        private_dir(&data.join("search"))?;
    }
    Ok(store)
}

/// What the root's lock is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// To serve it, or to lay it out.
    Service,
    /// For one operation, which ends soon.
    Change,
}

/// Who holds the root's lock, as the file says.
#[derive(Debug)]
struct Holder(String);

impl Holder {
    /// Whether it is one operation, which ends soon.
    fn is_change(&self) -> bool {
        self.0.trim().ends_with(CHANGE)
    }

    /// Says who serves the root.
    fn serves(&self, root: &Path) -> String {
        let pid = self.0.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        let who = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
        format!(
            "another g2{who} serves {}; `g2 --root {0} chat` talks to it, `g2 --root {0} status` shows how it is",
            root.display()
        )
    }
}

/// Tries to take the root's lock. It is never unlinked; after locking, the file on disk must still be the one that was
/// locked. Whoever holds it has written its process id into it, and whether it is for a change.
fn try_lock(root: &Path, purpose: Lock) -> Result<std::result::Result<File, Holder>> {
    let path = root.join("data/lock");
    loop {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Ok(Err(Holder(fs::read_to_string(&path).unwrap_or_default())));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        if fs::metadata(&path)
            .is_ok_and(|on_disk| file.metadata().is_ok_and(|held| held.ino() == on_disk.ino()))
        {
            let mut text = std::process::id().to_string();
            if purpose == Lock::Change {
                text.push_str(CHANGE);
            }
            file.set_len(0)
                .and_then(|()| file.write_all_at(format!("{text}\n").as_bytes(), 0))
                .with_context(|| format!("writing {}", path.display()))?;
            return Ok(Ok(file));
        }
    }
}

/// Takes the root's lock, to serve it or to lay it out. A change that is under way is waited for.
///
/// # Errors
/// Who holds it, or what could not be opened.
async fn lock(root: &Path) -> Result<File> {
    let (mut tries, mut changes) = (LOCK_TRIES, CHANGE_TRIES);
    loop {
        let holder = match try_lock(root, Lock::Service)? {
            Ok(file) => return Ok(file),
            Err(holder) => holder,
        };
        let left = if holder.is_change() { &mut changes } else { &mut tries };
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => bail!(holder.serves(root)),
        }
        tokio::time::sleep(LOCK_AGAIN).await;
    }
}

/// Returns what the settings let each group have in the store.
#[must_use]
pub fn bounds(config: &Config) -> Bounds {
    Bounds {
        tasks: config.limits.tasks(),
        replies: config.limits.replies_bytes,
        stored: config.limits.stored_bytes,
    }
}

/// Returns how people are asked by a daemon with these settings.
#[must_use]
pub fn asking(config: &Config) -> Asking {
    Asking {
        channels: vec!["local".into()],
        deny_ttl_ms: config.approvals.deny_ttl_ms,
        trigger: format!("@{}", config.assistant_name),
    }
}

/// Returns who owns what containers write to, user and group; `None`: whoever we are.
#[must_use]
pub fn box_owner() -> Option<ipc::Owner> {
    (crate::root::own_ids().0 == 0).then_some(AGENT)
}

/// Returns the root's instance id: a new one when `data/` is not where it was made (a copy adopts nothing).
async fn instance(root: &Path, store: &Store) -> Result<String> {
    let data = fs::metadata(root.join("data")).context("looking at data/")?;
    let place = format!("{}:{}", data.dev(), data.ino());
    if let (Some(id), Some(known)) = (store.meta("instance")?, store.meta("place")?) {
        if known == place {
            return Ok(id);
        }
        tracing::warn!(
            "this root is a copy, or was moved: it gets an instance of its own and adopts nothing"
        );
    }
    let id = crate::root::new_id().context("reading a random id from the kernel")?;
    store.set_meta("instance", &id).await?;
    store.set_meta("place", &place).await?;
    Ok(id)
}

/// Who owns the runs of this process: instance, boot, process and when it was started.
fn owner(instance: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{instance} {} {} {}", boot.trim(), std::process::id(), start_of("self"))
}

/// Whether the process that owns a run still lives, as its row has it: instance, boot, process and when that was started.
#[must_use]
pub fn is_alive(owner: &str) -> bool {
    let words: Vec<&str> = owner.split(' ').collect();
    let [_, boot, pid, started] = words.as_slice() else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    fs::read_to_string("/proc/sys/kernel/random/boot_id").is_ok_and(|id| id.trim() == *boot)
        && start_of(&pid.to_string()) == *started
}

/// When a process was started, in ticks since the boot; `0` when it is gone.
fn start_of(process: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap_or("0").to_owned()
}

async fn choose_sandbox(root: &Path, config: &Config, store: &Store) -> Result<Box<dyn Sandbox>> {
    let docker =
        || -> Result<Box<dyn Sandbox>> { Ok(Box::new(DockerSandbox::new(config.docker_host.as_deref())?)) };
    let program = std::env::current_exe().context("finding our own program")?;
    let children = ProcessSandbox::new(program, vec!["agent".to_owned()], root.join("data/runs"));
    // Children of an earlier daemon die before anything is launched, whichever sandbox is used now.
    let killed = children.kill_leftovers().await.context("killing what an earlier daemon left running")?;
    if !killed.is_empty() {
        tracing::warn!(runs = killed.join(" "), "killed children that outlived their daemon");
    }
    let process = || -> Result<Box<dyn Sandbox>> {
        if !config.agent.command.is_empty() && !config.sandbox.allow_unsandboxed {
            bail!(
                "agent.command would run without any sandbox; set sandbox.allow_unsandboxed = true if that is meant"
            );
        }
        if config.agent.provider == Provider::Claude && !config.sandbox.allow_unsandboxed {
            bail!(
                "claude would run without any sandbox; set sandbox.kind = \"docker\", or sandbox.allow_unsandboxed = true if that is meant"
            );
        }
        Ok(Box::new(children))
    };
    match config.sandbox.kind {
        SandboxKind::Docker => docker(),
        SandboxKind::Process => process(),
        SandboxKind::Auto => {
            // Containers that live are adopted, and Claude Code waits for Docker rather than run without.
            let needs = config.agent.provider == Provider::Claude && !config.sandbox.allow_unsandboxed;
            if needs || store.active_runs()?.iter().any(|run| run.sandbox == SandboxName::Docker) {
                return docker();
            }
            let engine = docker()?;
            match engine.check(&config.sandbox.image).await {
                Ok(()) => Ok(engine),
                Err(error) => {
                    tracing::info!(why = %chain(&error), "agents run as plain child processes: the process sandbox, which is no boundary");
                    process()
                }
            }
        }
    }
}

/// Returns what the last daemon left to be taken in, but for groups that are set aside already.
fn left_behind(claims: &Claims, store: &Store, sandbox: &dyn Sandbox) -> Result<intake::Found> {
    let aside = Holds::new(store.holds()?);
    let claimed = claims.left_over().context("reading data/claimed")?.claims.into_iter();
    let mut found: intake::Found = claimed.map(|claimed| (claimed.folder, What::Claims)).collect();
    if sandbox.survives_us() {
        let runs = store.active_runs()?.into_iter().filter(|run| run.sandbox == sandbox.kind());
        found.extend(runs.map(|run| (run.group, What::Output)));
    }
    found.retain(|(group, _)| !aside.aside(group));
    Ok(found)
}

/// Holds groups that the daemon died over again and again.
async fn set_aside(store: &Store, groups: std::collections::BTreeSet<Folder>, now: Time) -> Result<()> {
    for group in groups {
        if store.group(&group).await?.is_none() {
            tracing::error!(group = %group, "the daemon died again and again over commands of a group that is gone; `g2 ipc list` names them");
            continue;
        }
        let reason = format!(
            "the daemon died {} times in a row while it took in what this group had asked for or said",
            deaths::DEATHS
        );
        let hold = Hold { group, file: None, reason: Some(reason.clone()), at: now, aside: true };
        tracing::error!(group = %hold.group, reason, "a group is set aside");
        store.hold(hold).await?;
    }
    Ok(())
}

/// Makes the gateway of a root's settings; it reads no key yet.
///
/// # Errors
/// When the address of the model's host can't be used.
fn open_gateway(root: &Path, config: &Config) -> Result<Gateway> {
    let upstream = Upstream::parse(&config.gateway.upstream)
        .with_context(|| format!("the setting gateway.upstream can't be {:?}", config.gateway.upstream))?;
    let credentials = Credentials::new(root.join(".env"), config.gateway.token_file.clone());
    Ok(Gateway::new(upstream, credentials, gateway::Limits::default()))
}

impl Daemon {
    /// Starts everything. When this returns the daemon is ready.
    ///
    /// # Errors
    /// What could not be started, and why. Docker being away is no error: it is waited for.
    pub async fn start(root: PathBuf, config: Config) -> Result<Self> {
        raise_file_limit();
        // Nothing is written to a root that another daemon serves.
        private_dir(&root.join("data"))?;
        let lock = lock(&root).await?;
        init(&root, &config).await?;
        let store = open_store(&root)?;
        let instance = instance(&root, &store).await?;
        let sandbox = choose_sandbox(&root, &config, &store).await?;
        let gateway = open_gateway(&root, &config)?;
        let dirs = HostDirs::open(&root.join("data"))?;
        if !dirs.has_links() {
            tracing::warn!(
                "the file system of data/ has no hard links, or no files without a name: a container that means it can keep all others waiting"
            );
        }
        let claims = Claims::open(&dirs, store.last_claim()?)?;
        let local = Local::default();
        let channels = Arc::new(Channels::new(vec![Box::new(local.clone())]));
        let asking = Asking { channels: channels.names(), ..asking(&config) };
        let store = store.asking(asking).bounded(bounds(&config));
        store.expire_approvals(clock::now()).await?;
        store
            .recover_deliveries(channels.that_know_our_ids(), config.outbox.on_unknown, clock::now())
            .await?;
        let (lanes, news) = mpsc::unbounded_channel();
        let (mailboxes, asks) = mpsc::unbounded_channel();
        let (adoptions, adopted_later) = mpsc::unbounded_channel();
        let since = clock::now();
        store.set_zone(config.zones.clone(), since).await?;
        let token_key = crate::root::token_key(&root.join("data")).context("reading data/token.key")?;
        let found = left_behind(&claims, &store, sandbox.as_ref())?;
        let (intake, aside) = Starts::begin(root.join("data"), found, since);
        set_aside(&store, aside, since).await?;
        let holds = Holds::new(store.holds()?);
        let snapshots = Snapshots::new(store.follow().await?);
        let host = Arc::new(Host {
            holds: RwLock::new(holds),
            intake,
            token_key,
            owner: owner(&instance),
            box_owner: box_owner(),
            config,
            root,
            store,
            sandbox,
            gateway,
            channels,
            local,
            dirs,
            claims,
            lanes,
            mailboxes,
            instance,
            boxes: RwLock::default(),
            allowances: Mutex::default(),
            crowd: Semaphore::new(loops::ipc::CROWD),
            due: Notify::new(),
            snapshots,
            stop: CancellationToken::new(),
            retire: CancellationToken::new(),
            look_again: Notify::new(),
            obstacle: Mutex::default(),
            operations: loops::Operations::default(),
            known_problems: Mutex::default(),
            without_room: Mutex::default(),
            unwatched: Mutex::default(),
        });
        tracing::info!(root = %host.root.display(), instance = host.instance, sandbox = %host.sandbox.kind(), zone = host.config.zone.name, "starting");

        let listener = control::bind(&host.root.join("data/g2.sock")).context("binding data/g2.sock")?;
        for group in host.store.groups().await? {
            // Made by an answer, or a command, that the last daemon died over.
            if !ipc::is_laid_out(&host.root, &group.folder) {
                control::lay_out(&host, &group.folder);
            }
        }
        // What the last daemon committed and did not show is shown before it is answered.
        snapshots::want_all(&host).await;
        // What was claimed before goes first: order within a group is that of the claims.
        let left = loops::ipc::recover(&host).await;
        let mailbox_stop = CancellationToken::new();
        let mut mailbox = JoinSet::new();
        let (hints, hinted) = ipc::hints(HINTS);
        let watch = Watch::new(hints);
        mailbox.spawn(loops::ipc::run(Arc::clone(&host), watch, hinted, asks, left, mailbox_stop.clone()));

        // Whoever is told that we are ready finds the boxes, watched.
        let (done, opened) = oneshot::channel();
        if host.mailboxes.send(loops::Ask::Groups(done)).is_ok() {
            let _ = opened.await;
        }
        let recovered = reconcile::recover(&host).await;
        mailbox.spawn(snapshots::run(Arc::clone(&host), mailbox_stop.clone()));
        mailbox.spawn(usage::run(Arc::clone(&host), mailbox_stop.clone()));
        let mut tasks = JoinSet::new();
        let held = recovered.held();
        let dispatch = Dispatch::new(Arc::clone(&host), recovered.adopted, held);
        tasks.spawn(dispatch.run(news, adopted_later));
        tasks.spawn(reconcile::run(Arc::clone(&host), recovered.unknown, adoptions));
        tasks.spawn(schedule::run(Arc::clone(&host)));
        tasks.spawn(deliver::run(host.post()));
        let running = Arc::clone(&host);
        tasks.spawn(async move {
            running.channels.run(&Intake::new(running.store.clone()), &running.stop).await;
        });
        tasks.spawn(typing::run(host.store.clone(), Arc::clone(&host.channels), host.stop.clone()));
        tasks.spawn(prune::trim_feed(Arc::clone(&host)));
        tasks.spawn(problems::run(Arc::clone(&host)));
        tasks.spawn(control::run(Arc::clone(&host), listener, since));
        if host.config.limits.keep_days > 0 {
            let config = &host.config;
            tasks.spawn(prune::run(Arc::clone(&host), config.limits.keep_days, config.limits.keep_first));
        }
        Ok(Self { host, since, tasks, mailbox, mailbox_stop, _lock: lock })
    }

    /// Stops in order: nothing new, runs finished or let go, then the mailboxes.
    pub async fn stop(mut self) {
        self.host.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.mailbox_stop.cancel();
        while self.mailbox.join_next().await.is_some() {}
        self.host.intake.end();
        // A socket that is there without a daemon tells of one that ended otherwise.
        if let Err(error) = crate::root::remove_stale_socket(&socket_path(&self.host.root)) {
            tracing::warn!(error = %chain(&error), "removing data/g2.sock failed");
        }
    }

    /// Has every run finish its turn and leave, then stops. A run that takes longer than its grace is let go of.
    pub async fn retire(self) {
        let mut bell = self.host.store.bell();
        self.host.retire.cancel();
        let grace = Duration::from_millis(self.host.config.health.close_grace_ms) + RETIRE;
        let gone = async {
            while self.host.store.active_runs().is_ok_and(|runs| !runs.is_empty())
                && bell.changed().await.is_ok()
            {}
        };
        if tokio::time::timeout(grace, gone).await.is_err() {
            tracing::warn!("some runs do not leave; the next start looks after them");
        }
        self.stop().await;
    }

    /// Whether one of the loops has ended by itself, which none ever should.
    pub async fn has_failed(&mut self) -> String {
        let ended = tokio::select! {
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.mailbox.join_next() => ended,
            else => return "no loop is running".into(),
        };
        match ended {
            Ok(()) => "a loop ended".into(),
            Err(error) => format!("a loop failed: {error}"),
        }
    }
}

/// Six descriptors a group are held: the usual soft limit is soon reached.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Returns where the daemon of this root listens.
#[must_use]
pub fn socket_path(root: &Path) -> PathBuf {
    root.join("data/g2.sock")
}
