//! Looks what a person has to mend. With the daemon up the daemon looks, otherwise the command that asks does; each look is
//! made anew, so a disk that has just filled up is told at once. [`crate::domain::host::problems`] has the words.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ipc_handlers::Folder;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Machine, Obstacle};
use crate::{
    allowlists::{
        mounts::{self, NoList},
        senders,
    },
    channels,
    config::{Config, SandboxKind, dotenv},
    domain::{
        heard::{approvals::full, engage::takes_everything, js_regex::Pattern},
        host::{
            disk::{self, Admission, Disk, Space},
            errors::chain,
            feed::EventKind,
            problems::{Finding, HeldUp, Problem, RootFault, compare, of_channels, of_ledger, sort_out},
        },
        rows::{Group, Wiring},
        runs::run_settings::{Credentials as Where, Provider, RunSettings},
        states::SandboxName,
    },
    gateway::{CredentialError, Credentials, Upstream},
    sandbox::{
        SandboxError,
        docker::{DockerSandbox, Image},
    },
    store::Store,
    system::clock,
};

/// How long the engine may take over all images.
const ENGINE: Duration = Duration::from_secs(1);
/// How often the daemon looks by itself, and how soon after something was finished at most.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(5);
/// What may bring a problem, or its end.
const FINISHED: [EventKind; 6] = [
    EventKind::Run,
    EventKind::Said,
    EventKind::Unsaid,
    EventKind::Command,
    EventKind::Judged,
    EventKind::Finished,
];
/// Descriptors that are held for each group, that a run takes while it lives, and for everything else.
const PER_GROUP: u64 = 6;
const PER_RUN: u64 = 16;
const BESIDES: u64 = 64;

/// What is looked at.
pub struct View<'a> {
    pub config: &'a Config,
    pub root: &'a Path,
    /// `None`: it can't be opened.
    pub store: Option<&'a Store>,
    /// Why it can't be, where that is not looked into elsewhere.
    pub closed: Option<String>,
    /// What the daemon knows, where it is the one that looks.
    pub daemon: Option<&'a Problems>,
}

/// What a person has to mend, as the daemon sees it.
pub struct Problems {
    pub config: Arc<Config>,
    pub root: PathBuf,
    pub store: Store,
    pub sandbox: SandboxName,
    pub machine: Arc<Machine>,
    pub stop: CancellationToken,
    /// What was found at the last look.
    pub known: Mutex<Vec<Problem>>,
}

/// Tells the log what appears and what is gone, until the daemon stops.
pub async fn run(problems: Arc<Problems>) {
    let Ok(mut feed) = problems.store.follow_kinds(&FINISHED).await else { return };
    loop {
        let _ = problems.look().await;
        let looked = Instant::now();
        tokio::select! {
            () = problems.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AGAIN) => continue,
            _ = feed.next() => {}
        }
        tokio::select! {
            () = problems.stop.cancelled() => return,
            () = tokio::time::sleep_until(looked + SOONEST) => {}
        }
    }
}

impl Problems {
    /// Looks what a person has to mend; what is new since the last look, or gone, is logged.
    pub async fn look(&self) -> Vec<Finding> {
        let view = View {
            config: &self.config,
            root: &self.root,
            store: Some(&self.store),
            closed: None,
            daemon: Some(self),
        };
        let found = gather(&view).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let compared = compare(&known, found);
        for Finding { code, about, text, fix, .. } in &compared.new {
            tracing::warn!(problem = %code, about, mend = fix, "a problem: {text}");
        }
        for Finding { code, about, text, .. } in &compared.gone {
            tracing::info!(problem = %code, about, "a problem is gone: {text}");
        }
        *known = compared.known;
        compared.now
    }
}

/// Looks at everything.
pub async fn look(view: &View<'_>) -> Vec<Finding> {
    sort_out(gather(view).await)
}

/// Looks at everything, and leaves nothing out.
pub async fn gather(view: &View<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let root = crate::root::fault(view.root);
    // What can't be opened as it is not there, or not ours, is told once.
    if matches!(root, None | Some(RootFault::ReadOnly { .. })) {
        found.extend(view.closed.clone().map(|why| Problem::StoreClosed { why }));
    }
    found.extend(root.map(Problem::Root));
    upstream(view, &mut found);
    sandbox(view, &mut found).await;
    disk(view, &mut found);
    mount_list(view, &mut found);
    sender_list(view, &mut found);
    zone(view, &mut found);
    settings(view, &mut found);
    beside(view, &mut found);
    let mut groups = Vec::new();
    if let Some(store) = view.store {
        match store.groups().await {
            Ok(all) => groups = all,
            Err(error) => found.push(Problem::Unreadable { what: "the groups", why: chain(&error) }),
        }
        of_groups(view, &groups, &mut found);
        scripts(view, &groups, &mut found);
        hearing(store, &mut found).await;
        questions(store, &mut found).await;
        connections(store, &mut found).await;
        aside(store, &mut found);
        ledger(store, &mut found);
    }
    open_files(view, groups.len(), &mut found);
    found.extend(
        view.daemon
            .and_then(|daemon| daemon.machine.unwatched().clone())
            .map(|why| Problem::Unwatched { why }),
    );
    engine(view, &groups, &mut found).await;
    found
}

/// Whether the gateway can be opened.
fn upstream(view: &View<'_>, found: &mut Vec<Problem>) {
    let text = &view.config.gateway.upstream;
    if let Err(error) = Upstream::parse(text) {
        found.push(Problem::Upstream { text: text.clone(), why: chain(&error) });
    }
}

/// What is set in the environment and `.env` and can't be used, and files of secrets that others can read.
fn beside(view: &View<'_>, found: &mut Vec<Problem>) {
    let odd = dotenv::odd_lines(&dotenv::text(view.root));
    let unusable = view.config.unusable.iter().cloned().chain(odd);
    found.extend(unusable.map(|why| Problem::Unusable { why }));
    for path in secrets(view.config, view.root) {
        if let Some(mode) = crate::root::open_mode(&path).filter(|mode| mode & 0o077 != 0) {
            found.push(Problem::Secrets { path: path.display().to_string(), mode });
        }
    }
}

/// Returns the files that secrets lie in.
#[must_use]
pub fn secrets(config: &Config, root: &Path) -> Vec<PathBuf> {
    [root.join(".env")].into_iter().chain(config.gateway.token_file.clone()).collect()
}

/// Whether a daemon that is started now would refuse to have agents without any sandbox.
async fn sandbox(view: &View<'_>, found: &mut Vec<Problem>) {
    let config = view.config;
    let what = if config.sandbox.allow_unsandboxed || view.daemon.is_some() {
        return;
    } else if !config.agent.command.is_empty() {
        format!("agent.command ({})", config.agent.command.join(" "))
    } else if config.agent.provider == Provider::Claude {
        "Claude Code".to_owned()
    } else {
        return;
    };
    let is_refused = match config.sandbox.kind {
        SandboxKind::Docker => false,
        SandboxKind::Process => true,
        // It waits for Docker where that is needed; otherwise it takes what is there.
        SandboxKind::Auto if needs_engine(view) => false,
        SandboxKind::Auto => {
            let adopts = |store: &Store| {
                store
                    .active_runs()
                    .is_ok_and(|runs| runs.iter().any(|run| run.sandbox == SandboxName::Docker))
            };
            let answer = timeout(ENGINE, look_at_image(config, &config.sandbox.image)).await;
            !view.store.is_some_and(adopts) && !matches!(answer, Ok(Ok(_)))
        }
    };
    found.extend(is_refused.then_some(Problem::Unsandboxed { what }));
}

/// What is free now, however long ago the daemon has looked.
fn disk(view: &View<'_>, found: &mut Vec<Problem>) {
    let data = view.root.join("data");
    let data = if data.is_dir() { data } else { view.root.to_owned() };
    let Some(free) = crate::system::disk::free_bytes(&data) else { return };
    let (free_inodes, inodes) = crate::system::disk::inodes(&data);
    let wanted = view.config.limits.min_free_bytes;
    let path = data.display().to_string();
    let inside = view.store.and_then(|store| store.size().ok()).map_or(0, |size| size.free);
    let disk = Disk { free, inside, wanted, free_inodes, all_inodes: inodes };
    if disk::space(&Disk { free_inodes: 0, all_inodes: 0, ..disk }) != Space::Enough {
        let stopped = view
            .daemon
            .map(|daemon| daemon.machine.without_space().keys().cloned().collect())
            .unwrap_or_default();
        found.push(Problem::Disk { path, free, wanted, stopped });
    } else if disk::space(&disk) != Space::Enough {
        found.push(Problem::Inodes { path, free: free_inodes, all: inodes });
    }
    if let Some(store) = view.store {
        stored(view, store, &disk, found);
    }
}

/// Groups over which the daemon died again and again.
fn aside(store: &Store, found: &mut Vec<Problem>) {
    match store.holds() {
        Ok(holds) => found.extend(holds.into_iter().filter(|hold| hold.aside).map(|hold| Problem::Aside {
            group: hold.group,
            why: hold.reason.unwrap_or_default(),
            since: hold.at,
        })),
        Err(error) => found.push(Problem::Unreadable { what: "the holds", why: chain(&error) }),
    }
}

/// Groups that have as much in the store as they may, and more.
fn stored(view: &View<'_>, store: &Store, disk: &Disk, found: &mut Vec<Problem>) {
    let all = match store.stored() {
        Ok(all) => all,
        Err(error) => {
            return found
                .push(Problem::Unreadable { what: "the size of groups in the store", why: chain(&error) });
        }
    };
    let (most, left) = (view.config.limits.stored_bytes, disk.left());
    for (group, bytes) in all {
        let held_up = if disk::is_over(bytes, most) {
            HeldUp::Stopped
        } else if bytes >= most {
            HeldUp::Full
        } else if disk::admission(bytes, most, disk) == Admission::Ahead {
            HeldUp::Waits
        } else {
            continue;
        };
        found.push(Problem::Stored { group, bytes, most, left, held_up });
    }
}

/// The hard limit: the daemon raises its own to that.
fn open_files(view: &View<'_>, groups: usize, found: &mut Vec<Problem>) {
    use rustix::process::{Resource, getrlimit};
    let runs = view.config.limits.max_containers.get() as u64;
    let wanted = wanted_files(groups as u64, runs);
    if let Some(limit) = getrlimit(Resource::Nofile).maximum
        && limit < wanted
    {
        found.push(Problem::OpenFiles { groups, runs, wanted, limit });
    }
}

/// Returns how many files are open at most, about, with so many groups and runs.
#[must_use]
pub fn wanted_files(groups: u64, runs: u64) -> u64 {
    PER_GROUP * groups + PER_RUN * runs + BESIDES
}

/// Whether each group can be launched, as far as its own settings, its folder and its key go; and whether one is main.
fn of_groups(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    let main: Vec<Folder> = groups.iter().filter(|g| g.is_main).map(|g| g.folder.clone()).collect();
    if main.len() != 1 {
        found.push(Problem::MainGroups { folders: main });
    }
    let everybodys = view.config.run_settings();
    let (mut of_gateway, mut given) = (Vec::new(), Vec::new());
    for group in groups {
        let path = view.root.join("groups").join(group.folder.as_str());
        if path.metadata().is_ok_and(|meta| !meta.is_dir()) {
            let path = path.display().to_string();
            found.push(Problem::GroupFolder { group: group.folder.clone(), path });
        }
        match everybodys.clone().for_group(group) {
            Ok((RunSettings { provider: Provider::Claude, credentials, .. }, _)) => match credentials {
                Where::Gateway => of_gateway.push(group.folder.clone()),
                Where::Stdin => given.push(group.folder.clone()),
            },
            Ok(_) => {}
            Err(error) => {
                found.push(Problem::GroupSettings { group: group.folder.clone(), why: chain(&error) });
            }
        }
    }
    if !of_gateway.is_empty() {
        let keys = Credentials::new(view.root.join(".env"), view.config.gateway.token_file.clone());
        if let Err(error) = keys.current() {
            found.push(Problem::NoModelKey {
                why: chain(&error),
                remedy: remedy(&error),
                groups: of_gateway,
            });
        }
    }
    if !given.is_empty() {
        let path = view.root.join(".env").display().to_string();
        match dotenv::secrets(view.root) {
            Err(error) => {
                found.push(Problem::NoKey { path, why: Some(error.to_string()), groups: given });
            }
            Ok(secrets) if dotenv::key(&secrets).is_none() => {
                found.push(Problem::NoKey { path, why: None, groups: given });
            }
            Ok(_) => {}
        }
    }
}

/// Says how a key comes to be there.
#[must_use]
pub fn remedy(error: &CredentialError) -> &'static str {
    match error {
        CredentialError::None(_) => "put the key there and `chmod 600` the file; G2 reads it at once",
        CredentialError::Ended { .. } => "log in again, or use an API key",
        CredentialError::Read { .. } | CredentialError::Unusable { .. } => {
            "correct the file, or the path in gateway.token_file"
        }
    }
}

/// Which scripts are set, and who follows each.
#[must_use]
pub fn scripts_set(config: &Config, groups: &[Group]) -> BTreeMap<String, (Vec<String>, Vec<Folder>)> {
    let mut set: BTreeMap<String, (Vec<String>, Vec<Folder>)> = BTreeMap::new();
    if let Some(script) = &config.agent.script {
        let (of, followers) = set.entry(script.display().to_string()).or_default();
        of.push("[agent] script".into());
        followers.extend(groups.iter().filter(|g| g.script.is_none()).map(|g| g.folder.clone()));
    }
    for group in groups {
        if let Some(script) = &group.script {
            let (of, followers) = set.entry(script.clone()).or_default();
            of.push(format!("group {}", group.folder));
            followers.push(group.folder.clone());
        }
    }
    set
}

/// Reads each script that is set, and checks it as the agent will.
fn scripts(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    for (script, (of, groups)) in scripts_set(view.config, groups) {
        let path = view.root.join(script);
        let (why, is_read) = match crate::root::read_script(&path) {
            Err(error) => (error.to_string(), false),
            Ok(text) => match agent_runner::provider::check_script(&text) {
                Ok(()) => continue,
                Err(error) => (chain(&error), true),
            },
        };
        let path = path.display().to_string();
        found.push(Problem::Script { path, of: of.join(", "), groups, why, is_read });
    }
}

fn mount_list(view: &View<'_>, found: &mut Vec<Problem>) {
    if let Err(error @ NoList::Broken { .. }) = mounts::read_list(view.config) {
        found.push(Problem::MountList { why: error.to_string() });
    }
}

fn sender_list(view: &View<'_>, found: &mut Vec<Problem>) {
    let list = senders::read(view.config);
    found.extend(senders::problems(view.config, &list).into_iter().map(|why| Problem::SenderList { why }));
}

/// Patterns, and messages that wait for a person.
async fn hearing(store: &Store, found: &mut Vec<Problem>) {
    match store.wirings().await {
        Ok(wirings) => of_wirings(&wirings, found),
        Err(error) => found.push(Problem::Unreadable { what: "the wirings", why: chain(&error) }),
    }
    match store.held_messages().await {
        Ok(held) => found.extend(held.first().map(|first| Problem::Held {
            count: held.len(),
            seq: first.seq,
            chat: first.chat_jid.clone(),
            group: first.group.clone(),
            reason: first.reason.clone(),
        })),
        Err(error) => found.push(Problem::Unreadable { what: "held messages", why: chain(&error) }),
    }
}

/// Patterns that can't be used, and chats in which several groups answer everything.
fn of_wirings(wirings: &[Wiring], found: &mut Vec<Problem>) {
    let mut by_chat: BTreeMap<&str, Vec<Folder>> = BTreeMap::new();
    for wiring in wirings {
        let Some(pattern) = wiring.engage_pattern.as_deref() else { continue };
        if pattern != "."
            && let Err(why) = Pattern::compile(pattern)
        {
            found.push(Problem::Pattern {
                group: wiring.group.clone(),
                chat: wiring.chat_jid.clone(),
                pattern: pattern.to_owned(),
                why: why.to_string(),
            });
        } else if takes_everything(Some(pattern)) {
            by_chat.entry(&wiring.chat_jid).or_default().push(wiring.group.clone());
        }
    }
    let twice = by_chat.into_iter().filter(|(_, groups)| groups.len() > 1);
    found.extend(twice.map(|(chat, groups)| Problem::AnswersTwice { chat: chat.to_owned(), groups }));
}

/// Whether strangers can be asked about.
async fn questions(store: &Store, found: &mut Vec<Problem>) {
    match store.who_is_asked().await {
        Ok(Ok(_)) => {}
        Ok(Err(nobody)) => found.push(Problem::NobodyIsAsked { why: nobody.to_string() }),
        Err(error) => found.push(Problem::Unreadable { what: "the people", why: chain(&error) }),
    }
    match store.approvals(false).await {
        Ok(open) => found.extend(full(&open).map(|full| Problem::ManyQuestions { full })),
        Err(error) => found.push(Problem::Unreadable { what: "the questions", why: chain(&error) }),
    }
}

/// Whether the platforms of this program are connected.
async fn connections(store: &Store, found: &mut Vec<Problem>) {
    match store.connections().await {
        Ok(mut states) => {
            // A row of a platform that this program does not have is old.
            states.retain(|state| channels::NAMES.contains(&state.channel.as_str()));
            found.extend(of_channels(states, clock::now()));
        }
        Err(error) => found.push(Problem::Unreadable { what: "the channels", why: chain(&error) }),
    }
}

/// What failed, rests, was given up or could not be said.
fn ledger(store: &Store, found: &mut Vec<Problem>) {
    let now = clock::now();
    match store.ledger(now) {
        Ok(ledger) => found.extend(of_ledger(ledger, now)),
        Err(error) => found.push(Problem::Unreadable { what: "the ledger", why: chain(&error) }),
    }
}

/// What was changed since the daemon read its settings.
fn settings(view: &View<'_>, found: &mut Vec<Problem>) {
    if view.daemon.is_none() {
        return;
    }
    match Config::written_now(view.root) {
        Ok(now) => {
            let settings = view.config.written.differences(&now);
            found.extend((!settings.is_empty()).then_some(Problem::Restart { settings }));
        }
        Err(error) => found.push(Problem::Settings { why: chain(&error) }),
    }
}

fn zone(view: &View<'_>, found: &mut Vec<Problem>) {
    let zone = &view.config.zone;
    found.extend(zone.rejected.iter().map(|(name, meant)| Problem::Zone {
        name: name.clone(),
        meant: *meant,
        used: zone.name.clone(),
    }));
}

/// Whether the engine answers and has what agents need, where they need it.
async fn engine(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    if !needs_engine(view) {
        return;
    }
    if let Some(Obstacle::Engine(why)) = view.daemon.and_then(|daemon| daemon.machine.obstacle()) {
        return found.push(Problem::Engine { why });
    }
    let used = images(view.config, groups);
    let asking = futures_util::future::join_all(used.into_iter().map(|(image, used)| async move {
        let said = look_at_image(view.config, &image).await;
        judge_image(view.config, image, used, said)
    }));
    match timeout(ENGINE, asking).await {
        Ok(said) => found.extend(said.into_iter().flatten()),
        Err(_) => {
            found.push(Problem::Engine {
                why: format!("Docker gave no answer within {} s", ENGINE.as_secs()),
            });
        }
    }
}

/// Where nothing else is chosen an engine that is away means plain child processes; Claude Code is not driven as one.
fn needs_engine(view: &View<'_>) -> bool {
    match (view.daemon, view.config.sandbox.kind) {
        (Some(daemon), _) => daemon.sandbox == SandboxName::Docker,
        (None, SandboxKind::Docker) => true,
        (None, SandboxKind::Process) => false,
        (None, SandboxKind::Auto) => {
            view.config.agent.provider == Provider::Claude && !view.config.sandbox.allow_unsandboxed
        }
    }
}

/// The groups that use an image.
#[derive(Default)]
struct Used {
    by: Vec<Folder>,
    /// Those in which Claude Code is to run.
    by_claude: Vec<Folder>,
}

fn images(config: &Config, groups: &[Group]) -> BTreeMap<String, Used> {
    let mut used: BTreeMap<String, Used> = BTreeMap::new();
    for group in groups {
        let of = used.entry(group.image.clone().unwrap_or_else(|| config.sandbox.image.clone())).or_default();
        of.by.push(group.folder.clone());
        if group.provider.as_deref().unwrap_or(config.agent.provider.name()) == Provider::Claude.name() {
            of.by_claude.push(group.folder.clone());
        }
    }
    used
}

/// Asks the engine about an image.
///
/// # Errors
/// The engine's.
pub async fn look_at_image(config: &Config, image: &str) -> Result<Image, SandboxError> {
    DockerSandbox::new(config.docker_host.as_deref())?.look_at_image(image).await
}

fn judge_image(
    config: &Config,
    image: String,
    used: Used,
    said: Result<Image, SandboxError>,
) -> Option<Problem> {
    let is = match said {
        Ok(is) => is,
        Err(SandboxError::NoImage { .. }) => return Some(Problem::NoImage { image, groups: used.by }),
        Err(error) => return Some(Problem::Engine { why: chain(&error) }),
    };
    let (wanted, held) = (config.agent.claude.version.as_ref()?, is.claude?);
    (!used.by_claude.is_empty() && *wanted != held).then(|| Problem::OtherClaude {
        image,
        held,
        wanted: wanted.clone(),
        groups: used.by_claude,
    })
}
