//! The tool servers of groups: whether each can be reached, has its secrets, and answers.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt as _;
use ipc_handlers::wire::{McpServer, NoSecret};

use super::{Context, Subject, row::Row};
use crate::{
    allowlists::mounts,
    config::{Config, SandboxKind, dotenv},
    domain::{
        kept::folders::There,
        problems::checks::Check,
        rows::Group,
        runs::{
            group_config::GroupConfig,
            run_settings::{self, RunSettings, Selinux},
            tool_servers,
        },
        shown::{errors::chain, screen::counted},
    },
    ipc,
    sandbox::{
        Access, Labels, Limits, Mount, Network, Sandbox as _, SandboxError, Seat, Spec, Whose,
        docker::DockerSandbox,
        trial::{
            self,
            server::{self, Heard, NotTried},
        },
    },
    store::{Store, schema_of},
    system::process::own_ids,
};

/// What can be seen without a container.
pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let Some(store) = &subject.store else { return Vec::new() };
    let text = dotenv::text(&subject.root);
    let has = |name: &str| dotenv::value(&text, name).is_some();
    let (mut rows, mut servers) = (Vec::new(), 0);
    for (group, own) in subject.groups.iter().filter_map(|group| Some((group, group.config().ok()?))) {
        if own.mcp.is_empty() {
            continue;
        }
        servers += own.mcp.len();
        let network = own.network.unwrap_or(subject.config.sandbox.network);
        match store.rules_outside(&group.folder, &subject.config.egress.allow) {
            Ok(rules) => {
                let lacks = tool_servers::lacks(&group.folder, &own.mcp, network, &rules, has);
                rows.extend(lacks.into_iter().map(|(server, lack)| {
                    Row::warn(Check::ToolServer, lack.what, lack.fix)
                        .of(about(group.folder.as_str(), &server))
                }));
            }
            Err(error) => rows.push(Row::fail(Check::ToolServer, chain(&error), "see the store's row")),
        }
    }
    if rows.is_empty() && servers > 0 {
        let what = format!("{} can be reached, and lack no secret", counted(servers, "tool server"));
        rows.push(Row::ok(Check::ToolServer, what));
    }
    rows
}

/// What has a problem.
fn about(group: &str, server: &str) -> String {
    format!("{group}: {server}")
}

/// How long a server may take to answer, with the start of its container.
const WITHIN: Duration = Duration::from_secs(20);
/// The most servers that are tried, and how many at a time.
const MOST: usize = 32;
const AT_ONCE: usize = 4;
/// What a server on trial may write, bytes.
const OUTPUT: u64 = 8 << 20;
/// The user inside, where we are root.
const AGENT: (u32, u32) = (1000, 1000);

/// Has each server answer `initialize` in a container like its group's, or says why not.
pub(super) async fn try_all(context: &Context) -> Vec<Row> {
    // A store of another version is brought to this one by a daemon, not by a look.
    let is_ours =
        schema_of(&context.root.join("data/g2.sqlite")).is_ok_and(|schema| schema.found == schema.known);
    if !is_ours {
        return Vec::new();
    }
    // What can't be read has rows of its own.
    let (Ok(config), Ok(store)) = (context.config(), context.store()) else { return Vec::new() };
    let Ok(groups) = store.groups().await else { return Vec::new() };
    let known = |group: &Group| config.run_settings().for_group(group).ok();
    let of_groups = groups.iter().filter_map(|group| Some((group, known(group)?)));
    let servers: Vec<Trial> = of_groups
        .flat_map(|(group, (settings, own))| {
            let servers = own.mcp.clone();
            servers.into_iter().map(move |(name, server)| Trial {
                group: group.clone(),
                settings: settings.clone(),
                own: own.clone(),
                name,
                server,
            })
        })
        .collect();
    if servers.is_empty() {
        return Vec::new();
    }
    let skipped = |why: &str| {
        vec![Row::ok(
            Check::ToolServer,
            format!("{} not tried: {why}", counted(servers.len(), "tool server")),
        )]
    };
    if config.sandbox.kind == SandboxKind::Process {
        return skipped("agents run without containers here");
    }
    let Ok(sandbox) = DockerSandbox::new(config.docker_host.as_deref()) else {
        return skipped("no container engine is found");
    };
    let image = &config.sandbox.image;
    if let Err(error @ SandboxError::Unreachable { .. }) = sandbox.check(image).await {
        return skipped(&error.to_string());
    }
    let Ok(id) = context.world.id() else { return Vec::new() };
    let instance = format!("g2-trial-{}", &id[..8]);
    let shop =
        Shop { root: &context.root, config: &config, store: &store, sandbox: &sandbox, instance: &instance };
    let trials = servers.iter().take(MOST).enumerate().map(|(n, trial)| shop.run(trial, n));
    let tried = futures_util::stream::iter(trials).buffered(AT_ONCE).collect::<Vec<Row>>();
    let rows = tokio::select! {
        rows = tried => rows,
        _ = tokio::signal::ctrl_c() => Vec::new(),
    };
    // Nothing of a trial stays, also if it was cut short.
    let cleared = trial::clear(&sandbox, &instance).await;
    let left = cleared
        .err()
        .map(|error| Row::warn(Check::ToolServer, chain(&error), "remove the container by hand"));
    let more = servers.len().checked_sub(MOST).filter(|more| *more > 0);
    let more = more.map(|more| Row::ok(Check::ToolServer, format!("{more} more are not tried")));
    rows.into_iter().chain(left).chain(more).collect()
}

/// Variables of a server.
type Variables = BTreeMap<String, String>;

/// A server that is to be tried.
struct Trial {
    group: Group,
    settings: RunSettings,
    own: GroupConfig,
    name: String,
    server: McpServer,
}

/// Where servers are tried.
struct Shop<'a> {
    root: &'a Path,
    config: &'a Config,
    store: &'a Store,
    sandbox: &'a DockerSandbox,
    instance: &'a str,
}

impl Shop<'_> {
    async fn run(&self, trial: &Trial, n: usize) -> Row {
        let Trial { group, name, server, .. } = trial;
        let (of, who) =
            (about(group.folder.as_str(), name), format!("the tool server {name} of group {}", group.folder));
        let McpServer::Stdio { command, args, env } = server else {
            let why = "an address is reached from a run only";
            return Row::ok(Check::ToolServer, format!("{who} is not tried: {why}")).of(of);
        };
        let there = ipc::look_at_folder(self.root, &group.folder);
        if !matches!(there, Ok(There::Empty | There::HasFiles)) {
            let why = "the group has no folder";
            return Row::ok(Check::ToolServer, format!("{who} is not tried: {why}")).of(of);
        }
        // Doctors give nothing away: the first run does.
        let user = self.user(group);
        let folder = std::fs::symlink_metadata(self.root.join("groups").join(group.folder.as_str()));
        if folder.is_ok_and(|folder| folder.is_dir() && folder.uid() != user.0) {
            let why = "the group's folder is given to its agent by its next run";
            return Row::ok(Check::ToolServer, format!("{who} is not tried: {why}")).of(of);
        }
        let secrets = match dotenv::named(self.root, tool_servers::secrets(server)) {
            Ok(secrets) => secrets,
            Err(error) => {
                let fix = "let this user read .env";
                return Row::fail(Check::ToolServer, format!("{who} is not tried: {error}"), fix).of(of);
            }
        };
        let filled: Result<Variables, _> =
            env.iter().map(|(name, text)| Ok((name.clone(), secrets.fill(text)?))).collect();
        let env = match filled {
            Ok(env) => env,
            // Its own row says so.
            Err(NoSecret(secret)) => {
                let why = format!("{who} is not tried: .env has no {secret}");
                return Row::ok(Check::ToolServer, why).of(of);
            }
        };
        let values: Vec<String> = secrets.0.values().cloned().collect();
        let words = [command].into_iter().chain(args).cloned();
        let spec = self.spec(trial, server::command(words), n);
        let heard = server::greet(self.sandbox, &spec, (&env, &values), WITHIN).await;
        let fix = format!(
            "mend it, or take it away with `g2 groups set {} mcp.{name}=`; its agent works without it",
            group.folder
        );
        match heard {
            Ok(heard @ Heard::Answers { .. }) => Row::ok(Check::ToolServer, format!("{who}: {heard}")).of(of),
            Ok(heard @ (Heard::Ended { .. } | Heard::Silent { .. }))
                if trial.settings.network == run_settings::Network::Allowlist =>
            {
                let way = "it was tried without a network, and a run has the way to hosts outside";
                Row::warn(Check::ToolServer, format!("{who}: {heard} ({way})"), fix).of(of)
            }
            Ok(heard) => Row::fail(Check::ToolServer, format!("{who}: {heard}"), fix).of(of),
            // The image's row says so.
            Err(NotTried::Sandbox(error @ SandboxError::NoImage { .. })) => {
                Row::ok(Check::ToolServer, format!("{who} is not tried: {error}")).of(of)
            }
            Err(error @ NotTried::Lines(_)) => {
                Row::ok(Check::ToolServer, format!("{who} is not tried: {error}")).of(of)
            }
            Err(error) => Row::fail(Check::ToolServer, format!("{who}: {}", chain(&error)), fix).of(of),
        }
    }

    /// The user and group of a group's agent.
    fn user(&self, group: &Group) -> (u32, u32) {
        match own_ids() {
            (0, _) => self.store.group_uid(&group.folder).unwrap_or_default().owner(AGENT),
            ours => ours,
        }
    }

    /// A container that sees of the host what the group's agent sees, but for its mailbox and its own state. A live run sees the
    /// group's folder too, so no label makes that another container's own.
    fn spec(&self, trial: &Trial, command: Vec<String>, n: usize) -> Spec {
        let Trial { group, settings, own, .. } = trial;
        let folder = &group.folder;
        let mount = |host: PathBuf, inside: &str, access, whose| Mount {
            host,
            inside: inside.to_owned(),
            access,
            whose,
        };
        let mut mounts = vec![mount(
            self.root.join("groups").join(folder.as_str()),
            "/workspace/group",
            Access::ReadWrite,
            Whose::Shared,
        )];
        let global = self.root.join("groups/global");
        if global.is_dir() {
            let access = if group.is_main { Access::ReadWrite } else { Access::ReadOnly };
            mounts.push(mount(global, "/workspace/global", access, Whose::Shared));
        }
        let extra = mounts::extra(self.config, self.root, &own.mounts, group.is_main);
        mounts.extend(extra.granted.into_iter().map(|granted| Mount {
            host: granted.host,
            inside: granted.inside,
            access: if granted.writable { Access::ReadWrite } else { Access::ReadOnly },
            whose: Whose::Shared,
        }));
        let zone = self.config.zones.of(own.timezone.as_deref()).name;
        let env = [("TZ", zone.as_str()), ("HOME", "/home/node"), ("TMPDIR", "/tmp")];
        Spec {
            name: format!("{}-{n}", self.instance),
            run: 0,
            group: folder.clone(),
            instance: self.instance.to_owned(),
            image: settings.image.clone(),
            command,
            mounts,
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            user: self.user(group),
            network: match settings.network {
                run_settings::Network::Model | run_settings::Network::Allowlist => Network::None,
                run_settings::Network::Open => Network::Open,
            },
            labels: match self.config.sandbox.selinux {
                Selinux::Keep => Labels::Keep,
                Selinux::Shared => Labels::Shared,
                Selinux::Private => Labels::Private,
                Selinux::Off => Labels::Off,
            },
            scratch: vec!["/home/node".to_owned()],
            limits: Limits {
                memory_bytes: settings.memory_bytes,
                cpus: settings.cpus,
                pids: settings.pids,
                output_bytes: OUTPUT,
            },
            seat: Seat::default(),
        }
    }
}
