//! How a run's agent gets to its model: over the gateway's socket with a placeholder for a key, or by itself with a key
//! that it is given on stdin. And how it gets to hosts outside.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, wire};

use super::{
    Runs,
    prepare::{RunsIn, Unprepared},
};
use crate::{
    config::dotenv,
    domain::{
        rows::Group,
        runs::{
            run_settings::{Credentials, Network, Provider, RunSettings},
            tool_servers::{self, Servers},
        },
    },
    gateway::{CredentialKind, Looks, NAME, OUTSIDE, SocketError},
    ipc::Owner,
    sandbox::{Access, Mount, Whose},
};

/// Where the gateway's folder of a run is seen inside.
const INSIDE: &str = "/run/g2";
/// What stands for a key where the gateway has the real one.
const PLACEHOLDER: &str = "placeholder";
/// The Messages API itself. The CLI asks for more than it needs where it is not told.
const DIRECT: &str = "https://api.anthropic.com";

/// Variables of a container.
type Environment = BTreeMap<String, String>;

/// The way to the model, as one run goes.
pub(super) struct Way {
    pub(super) mount: Option<Mount>,
    env: BTreeMap<String, String>,
    base_url: String,
}

/// Lays the way. The gateway listens in the run's own folder, so it knows by the socket who is calling.
pub(super) fn way(
    runs: &Runs,
    run: i64,
    settings: &RunSettings,
    place: RunsIn,
    (group, owner): (&Folder, Option<Owner>),
) -> Result<Way, SocketError> {
    match (settings.provider, settings.credentials) {
        (Provider::Scripted, _) | (Provider::Claude | Provider::Acp, Credentials::Stdin) => {
            Ok(Way { mount: None, env: BTreeMap::new(), base_url: DIRECT.to_owned() })
        }
        (Provider::Claude | Provider::Acp, Credentials::Gateway) => {
            let folder = runs.gateway_dir(run);
            let mount = mount(runs, run);
            runs.gateway.open(run, &folder, owner, (group, looks(settings)))?;
            let socket = match place {
                RunsIn::Container => format!("{INSIDE}/{NAME}"),
                RunsIn::Host => folder.join(NAME).display().to_string(),
            };
            // A key of the same kind makes the agent say it in the same way; without one it is told what is missing.
            let key = runs.gateway.kind().unwrap_or(CredentialKind::ApiKey).variable();
            Ok(Way {
                mount: Some(mount),
                env: [("ANTHROPIC_UNIX_SOCKET".to_owned(), socket), (key.to_owned(), PLACEHOLDER.to_owned())]
                    .into(),
                base_url: "http://model".to_owned(),
            })
        }
    }
}

/// What the container sees of the run's sockets.
fn mount(runs: &Runs, run: i64) -> Mount {
    Mount {
        host: runs.gateway_dir(run),
        inside: INSIDE.to_owned(),
        access: Access::ReadOnly,
        whose: Whose::Own,
    }
}

/// Lays the way to hosts outside, where the settings give one to a container: a socket, and the variables by which programs
/// find it. Without a container nothing is laid: there is no wall either.
pub(super) fn outside(
    runs: &Runs,
    run: i64,
    settings: &RunSettings,
    place: RunsIn,
    group: &Group,
    owner: Option<Owner>,
) -> Result<Option<(Mount, Environment)>, Unprepared> {
    if (settings.network, place) != (Network::Allowlist, RunsIn::Container) {
        return Ok(None);
    }
    runs.gateway.open_outside(run, &runs.gateway_dir(run), owner, &group.folder)?;
    let read = || runs.store.rules_outside(&group.folder, &runs.config.now().egress.allow);
    runs.gateway.read_rules(&group.folder, read)?;
    let proxy = format!("http://{}", wire::PROXY);
    let mut env = BTreeMap::from([
        ("G2_OUTSIDE_SOCKET".to_owned(), format!("{INSIDE}/{OUTSIDE}")),
        // Programs on Node know the others only when they are told.
        ("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()),
    ]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        env.extend([name.to_owned(), name.to_lowercase()].map(|name| (name, proxy.clone())));
    }
    // The model has a way of its own.
    env.extend(
        ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), "localhost,127.0.0.1,::1,model".to_owned())),
    );
    Ok(Some((mount(runs, run), env)))
}

/// Whether the gateway looks into a run's requests.
pub(super) fn looks(settings: &RunSettings) -> Looks {
    if settings.looks_into_requests() { Looks::Inside } else { Looks::Away }
}

/// How the Claude Code CLI is to be run.
pub(super) fn claude(
    runs: &Runs,
    settings: &RunSettings,
    way: &Way,
    directories: Vec<String>,
    timezone: Option<String>,
) -> wire::Claude {
    let claude = runs.config.now().agent.claude.clone();
    wire::Claude {
        path: claude.path,
        version: claude.version,
        model: settings.model.clone(),
        base_url: Some(way.base_url.clone()),
        env: way.env.clone(),
        directories,
        append_system_prompt: claude.append_system_prompt,
        tools: claude.tools,
        setting_sources: claude.setting_sources,
        timezone,
        stall_timeout_ms: claude.stall_timeout_ms,
    }
}

/// How an agent that speaks the Agent Client Protocol is to be run. One that is Claude Code inside finds the gateway by the
/// same variables.
pub(super) fn acp(
    runs: &Runs,
    settings: &RunSettings,
    way: &Way,
    directories: Vec<String>,
    timezone: Option<String>,
) -> wire::Acp {
    let acp = runs.config.now().agent.acp.clone();
    let mut env = way.env.clone();
    if settings.credentials == Credentials::Gateway {
        env.insert("ANTHROPIC_BASE_URL".to_owned(), way.base_url.clone());
        // Nothing else is reached, and asking for it takes time.
        env.insert("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(), "1".to_owned());
        // Otherwise newer versions of Claude Code hide our tools from the model.
        env.insert("ENABLE_TOOL_SEARCH".to_owned(), "false".to_owned());
    }
    env.extend(settings.model.iter().map(|model| ("ANTHROPIC_MODEL".to_owned(), model.clone())));
    env.extend(acp.env);
    wire::Acp {
        command: acp.command,
        env,
        auth_method: acp.auth_method,
        refuse: acp.refuse,
        directories,
        timezone,
        stall_timeout_ms: acp.stall_timeout_ms,
    }
}

/// Reads the secrets of `.env` for a runner that is to be given them, just before they are written to it.
pub(super) fn secrets(
    runs: &Runs,
    settings: &RunSettings,
    speaks_v1: bool,
) -> Result<wire::Secrets, Unprepared> {
    let wanted = settings.provider.foreign().is_some() || speaks_v1;
    match settings.credentials {
        Credentials::Stdin if wanted => dotenv::secrets(&runs.root).map_err(Unprepared::Secrets),
        Credentials::Stdin | Credentials::Gateway => Ok(wire::Secrets::default()),
    }
}

/// Reads the secrets of `.env` that the tool servers of a group name, as late. One that is not there is not given, and the
/// runner leaves its server out.
pub(super) fn secrets_of_servers(runs: &Runs, servers: &Servers) -> Result<wire::Secrets, Unprepared> {
    let named = servers.values().flat_map(tool_servers::secrets);
    dotenv::named(&runs.root, named).map_err(Unprepared::Secrets)
}
