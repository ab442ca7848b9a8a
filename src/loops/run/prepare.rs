//! Everything that a launch needs besides what is to be said: its settings, its folders, its container.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use ipc_handlers::{Folder, wire};

use super::{super::lost, Runs, document, model};
use crate::{
    allowlists::mounts,
    domain::{
        kept::folders::{Stands, There, stands},
        rows::Group,
        runs::{
            mounts::Granted,
            run_settings::{self, BadSettings, Provider, RunSettings, Selinux},
            tool_servers::Servers,
        },
        shown::errors::chain,
        states::SandboxName,
    },
    gateway::SocketError,
    ipc::{self, Owner, WorldFault},
    sandbox::{Access, Labels, Limits, Mount, Network, Seat, Spec, Whose},
    store::StoreError,
    system::panics::Panicked,
};

/// The agent's home inside.
const HOME: &str = "/home/node";

/// What was prepared for one run.
pub(super) struct Prepared {
    pub(super) settings: RunSettings,
    pub(super) spec: Spec,
    pub(super) provider: wire::Provider,
    /// The group's own tool servers.
    pub(super) servers: Servers,
    /// The agent runs as another user than before.
    moved: bool,
    /// The group's folder has files, for the first time.
    has_files: bool,
    /// The group's folder, which the container gets.
    pub(super) folder: Option<lost::Identity>,
}

/// Where things are as the agent sees them: in a container, or on the host where nothing is mounted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunsIn {
    Container,
    Host,
}

/// Why a launch can't be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unprepared {
    #[error("the group was removed")]
    Removed,
    /// Nothing is launched until a person decides.
    #[error("the group's folder is lost; `g2 status` says how to go on")]
    Lost,
    #[error(
        "{what} would run without any sandbox; start Docker and set sandbox.kind = \"docker\", or set \
         sandbox.allow_unsandboxed = true if that is meant"
    )]
    NoSandbox { what: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Settings(#[from] BadSettings),
    #[error(transparent)]
    World(#[from] WorldFault),
    #[error(transparent)]
    Gateway(#[from] SocketError),
    #[error("making the group's folders failed")]
    Folders(#[source] io::Error),
    #[error("the agent's script {path} can't be read", path = path.display())]
    Script { path: PathBuf, source: io::Error },
    #[error("the secrets in .env can't be read")]
    Secrets(#[source] io::Error),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Unprepared {
    /// Whether it is the host's to put right, so that the group's work waits. What its own settings say is not.
    pub(super) fn is_the_hosts(&self) -> bool {
        match self {
            Self::Removed | Self::Settings(_) | Self::Script { .. } => false,
            Self::Lost
            | Self::NoSandbox { .. }
            | Self::Store(_)
            | Self::World(_)
            | Self::Gateway(_)
            | Self::Folders(_)
            | Self::Secrets(_)
            | Self::Panicked(_) => true,
        }
    }
}

/// Prepares a launch. An error is for the run's row.
pub(super) async fn prepare(
    runs: &Arc<Runs>,
    group: &Folder,
    run: i64,
    is_main: bool,
) -> Result<Prepared, Unprepared> {
    let (runs, group) = (Arc::clone(runs), group.clone());
    let row = runs.store.group(&group).await?.ok_or(Unprepared::Removed)?;
    let another = another_model(&runs, &row, run).await?;
    let at = Arc::clone(&runs);
    let span = tracing::Span::current();
    let prepared =
        runs.machine.world.blocking(move || span.in_scope(|| now(&at, &row, run, is_main, another)));
    let prepared = prepared.await??;
    // All of it is given away by now; from here on a daemon that starts knows whose it is.
    if prepared.has_files {
        lost::note_files(&runs.store, &group, true).await;
    }
    if prepared.moved {
        let uid = runs.boxes.agent.filter(|agent| *agent != prepared.spec.user).map(|_| prepared.spec.user.0);
        runs.store.set_group_uid(group, uid).await?;
    }
    Ok(prepared)
}

/// Returns the model that a run asks while its group's own is at a limit. The run's chat is told.
async fn another_model(runs: &Runs, row: &Group, run: i64) -> Result<Option<String>, Unprepared> {
    let now = runs.machine.world.now();
    let Some(model) = runs.store.fallback_of(&row.folder, now)? else { return Ok(None) };
    let config = runs.config.now();
    let (settings, _) = config.run_settings().for_group(row)?;
    if settings.model.as_ref() == Some(&model) {
        return Ok(None);
    }
    tracing::info!(model, "its own model is at a limit, so the agent asks another one");
    runs.store.falls_back((&row.folder, run), model.clone(), config.zones.clone(), now).await?;
    Ok(Some(model))
}

fn now(
    runs: &Runs,
    row: &Group,
    run: i64,
    is_main: bool,
    another: Option<String>,
) -> Result<Prepared, Unprepared> {
    let group = &row.folder;
    let config = runs.config.now();
    let (mut settings, own) = config.run_settings().for_group(row)?;
    settings.model = another.or(settings.model);
    let place = if runs.sandbox.kind() == SandboxName::Process { RunsIn::Host } else { RunsIn::Container };
    let command = (!config.agent.command.is_empty()).then_some("agent.command");
    if let (RunsIn::Host, Some(what), false) =
        (place, command.or(settings.provider.foreign()), config.sandbox.allow_unsandboxed)
    {
        return Err(Unprepared::NoSandbox { what });
    }
    let had_files = runs.store.folder_had_files(group)?;
    let there = ipc::look_at_folder(&runs.root, group)?;
    if stands(had_files, there) == Stands::Lost {
        return Err(Unprepared::Lost);
    }
    let folders = Folders::of(runs, group);
    let (former, owner) = (runs.boxes.owner_now(group), runs.boxes.owner_next(group)?);
    let moved = former != owner;
    if let (true, Some(owner), Some((former, _))) = (moved, owner, former) {
        let boxes = runs.boxes.of(group)?;
        boxes.give(owner, former)?;
        tracing::info!(uid = owner.0, former, "the agent is a user of its own number from now on");
    }
    folders.make(runs, is_main, owner, former.map(|(uid, _)| uid))?;
    let folder = lost::Identity::of(&runs.root, group);
    let extra = mounts::extra(&config, &runs.root, &own.mounts, is_main);
    for (request, why) in &extra.refused {
        tracing::warn!(path = request.host_path, why, "an extra mount is not made");
    }
    let way = model::way(runs, run, &settings, place, (group, owner))?;
    let outside = model::outside(runs, run, &settings, place, row, owner)?;
    let zone = config.zones.of(own.timezone.as_deref()).name;
    let provider = match settings.provider {
        Provider::Scripted => wire::Provider::Scripted { script: script(runs, row)? },
        Provider::Acp => {
            let directories = directories(&folders, &extra.granted, place);
            wire::Provider::Acp(Box::new(model::acp(runs, &settings, &way, directories, Some(zone.clone()))))
        }
        Provider::Claude => {
            let directories = directories(&folders, &extra.granted, place);
            wire::Provider::Claude(Box::new(model::claude(
                runs,
                &settings,
                &way,
                directories,
                Some(zone.clone()),
            )))
        }
    };
    let mut mounts = folders.mounts(runs, run, is_main);
    let (socket, proxy) = outside.unzip();
    mounts.extend(way.mount.or(socket));
    mounts.extend(extra.granted.iter().map(|granted| Mount {
        host: granted.host.clone(),
        inside: granted.inside.clone(),
        access: if granted.writable { Access::ReadWrite } else { Access::ReadOnly },
        whose: Whose::Shared,
    }));
    let mut env = BTreeMap::from([("TZ".to_owned(), zone)]);
    env.extend(proxy.unwrap_or_default());
    match (place, settings.provider) {
        (RunsIn::Container, _) => {
            env.extend([("HOME", HOME), ("TMPDIR", "/tmp")].map(|(n, v)| (n.to_owned(), v.to_owned())));
        }
        // The agent keeps its own state, not the user's.
        (RunsIn::Host, Provider::Claude | Provider::Acp) => {
            let home = folders.sessions.parent().unwrap_or(&folders.sessions);
            env.insert("HOME".to_owned(), home.display().to_string());
        }
        (RunsIn::Host, Provider::Scripted) => {}
    }
    let spec = Spec {
        name: format!("g2-{}-{group}", &runs.instance[..runs.instance.len().min(8)]),
        run,
        group: group.clone(),
        instance: runs.instance.clone(),
        image: settings.image.clone(),
        command: config.agent.command.clone(),
        mounts,
        env,
        user: owner.unwrap_or_else(crate::system::process::own_ids),
        network: match settings.network {
            run_settings::Network::Model | run_settings::Network::Allowlist => Network::None,
            run_settings::Network::Open => Network::Open,
        },
        labels: match config.sandbox.selinux {
            Selinux::Keep => Labels::Keep,
            Selinux::Shared => Labels::Shared,
            Selinux::Private => Labels::Private,
            Selinux::Off => Labels::Off,
        },
        scratch: vec![HOME.to_owned()],
        limits: Limits {
            memory_bytes: settings.memory_bytes,
            cpus: settings.cpus,
            pids: settings.pids,
            output_bytes: config.sandbox.output_bytes,
        },
        seat: Seat { group: folders.group, ipc: folders.ipc },
    };
    let has_files = there == There::HasFiles && !had_files;
    Ok(Prepared { settings, spec, provider, servers: own.mcp, moved, has_files, folder })
}

fn script(runs: &Runs, row: &Group) -> Result<Option<String>, Unprepared> {
    let path = row.script.as_ref().map(PathBuf::from).or_else(|| runs.config.now().agent.script.clone());
    let Some(path) = path.map(|path| runs.root.join(path)) else { return Ok(None) };
    match crate::root::read_script(&path) {
        Ok(text) => Ok(Some(text)),
        Err(source) => Err(Unprepared::Script { path, source }),
    }
}

/// The folders whose `CLAUDE.md` an agent reads besides its own.
fn directories(folders: &Folders, extra: &[Granted], place: RunsIn) -> Vec<String> {
    let extra = extra.iter().filter(|granted| granted.host.is_dir());
    let mut all: Vec<String> = match place {
        RunsIn::Container => extra.map(|granted| granted.inside.clone()).collect(),
        RunsIn::Host => extra.map(|granted| granted.host.display().to_string()).collect(),
    };
    if folders.global.is_dir() {
        all.insert(
            0,
            match place {
                RunsIn::Container => "/workspace/global".to_owned(),
                RunsIn::Host => folders.global.display().to_string(),
            },
        );
    }
    all
}

/// A group's own folders on the host.
struct Folders {
    folder: String,
    group: PathBuf,
    ipc: PathBuf,
    sessions: PathBuf,
    global: PathBuf,
}

impl Folders {
    fn of(runs: &Runs, group: &Folder) -> Self {
        Self {
            folder: group.to_string(),
            group: runs.root.join("groups").join(group.as_str()),
            ipc: runs.root.join("data/ipc").join(group.as_str()),
            sessions: runs.root.join("data/sessions").join(group.as_str()).join(".claude"),
            global: runs.root.join("groups/global"),
        }
    }

    /// Makes what is missing, gives the agent what is to be its own, and puts the skills there.
    fn make(
        &self,
        runs: &Runs,
        is_main: bool,
        owner: Option<Owner>,
        former: Option<u32>,
    ) -> Result<(), Unprepared> {
        crate::root::make_agent_folders(&[&self.group, &self.sessions], owner)
            .map_err(Unprepared::Folders)?;
        runs.media.make_shown_to(&self.folder).map_err(Unprepared::Folders)?;
        if let Some(owner) = owner {
            let global = is_main.then_some(&self.global).filter(|global| global.is_dir());
            for folder in [&self.group, &self.sessions].into_iter().chain(global) {
                match ipc::give_folder(folder, owner, former) {
                    Ok(0) => {}
                    Ok(given) => {
                        tracing::info!(given, folder = %folder.display(), "what was root's or its former user's is the agent's now")
                    }
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "the agent may be unable to write there")
                    }
                }
            }
        }
        let skills = runs.root.join("container/skills");
        if let Err(error) = runs.boxes.dirs.put_skills(&skills, &self.sessions, owner) {
            tracing::warn!(error = %chain(&error), "the agent goes without some of its skills");
        }
        Ok(())
    }

    /// What a container of the group sees of the host.
    fn mounts(&self, runs: &Runs, run: i64, is_main: bool) -> Vec<Mount> {
        let mount = |host: PathBuf, inside: &str, access, whose| Mount {
            host,
            inside: inside.to_owned(),
            access,
            whose,
        };
        let mut mounts = vec![
            mount(self.group.clone(), "/workspace/group", Access::ReadWrite, Whose::Own),
            mount(self.ipc.clone(), "/workspace/ipc", Access::ReadOnly, Whose::Own),
            mount(self.sessions.clone(), "/home/node/.claude", Access::ReadWrite, Whose::Own),
        ];
        for name in ["messages", "tasks", "input", "responses", "state"] {
            let inside = format!("/workspace/ipc/{name}");
            mounts.push(mount(self.ipc.join(name), &inside, Access::ReadWrite, Whose::Own));
        }
        // The same files may be shown to other groups, too.
        mounts.push(mount(
            runs.media.shown_to(&self.folder),
            document::IN_CONTAINER,
            Access::ReadOnly,
            Whose::Shared,
        ));
        if self.global.is_dir() {
            let access = if is_main { Access::ReadWrite } else { Access::ReadOnly };
            mounts.push(mount(self.global.clone(), "/workspace/global", access, Whose::Shared));
        }
        let config = runs.config.now();
        let aws = config.home.as_ref().map(|home| home.join(".aws")).filter(|aws| aws.is_dir());
        if let Some(aws) = aws.filter(|_| config.sandbox.aws.is_for(is_main)) {
            mounts.push(mount(aws, "/home/node/.aws", Access::ReadOnly, Whose::Shared));
        }
        if is_main && runs.sandbox.kind() != SandboxName::Process {
            let base = runs.run_dir(run).join("project");
            match mounts::project(&config, &runs.root, &base) {
                Ok(shown) => {
                    mounts.push(mount(base, "/workspace/project", Access::ReadOnly, Whose::Own));
                    mounts.extend(shown.into_iter().map(|(path, name)| {
                        let inside = format!("/workspace/project/{name}");
                        mount(path, &inside, Access::ReadOnly, Whose::Shared)
                    }));
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "the project can't be shown to the main group")
                }
            }
        }
        mounts
    }
}
