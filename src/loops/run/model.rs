//! How a run's agent gets to its model: over the gateway's socket with a placeholder for a key, or by itself with a key
//! that it is given on stdin.

use std::collections::BTreeMap;

use ipc_handlers::wire;

use super::{
    Runs,
    prepare::{RunsIn, Unprepared},
};
use crate::{
    config::dotenv,
    domain::runs::run_settings::{Credentials, Provider, RunSettings},
    gateway::{CredentialKind, Looks, NAME, SocketError},
    ipc::Owner,
    sandbox::{Access, Mount, Whose},
};

/// Where the gateway's folder of a run is seen inside.
const INSIDE: &str = "/run/g2";
/// What stands for a key where the gateway has the real one.
const PLACEHOLDER: &str = "placeholder";
/// The Messages API itself. The CLI asks for more than it needs where it is not told.
const DIRECT: &str = "https://api.anthropic.com";

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
    owner: Option<Owner>,
) -> Result<Way, SocketError> {
    match (settings.provider, settings.credentials) {
        (Provider::Scripted, _) | (Provider::Claude, Credentials::Stdin) => {
            Ok(Way { mount: None, env: BTreeMap::new(), base_url: DIRECT.to_owned() })
        }
        (Provider::Claude, Credentials::Gateway) => {
            let folder = runs.gateway_dir(run);
            runs.gateway.open(run, &folder, owner, looks(settings))?;
            let socket = match place {
                RunsIn::Container => format!("{INSIDE}/{NAME}"),
                RunsIn::Host => folder.join(NAME).display().to_string(),
            };
            // A key of the same kind makes the agent say it in the same way; without one it is told what is missing.
            let key = runs.gateway.kind().unwrap_or(CredentialKind::ApiKey).variable();
            Ok(Way {
                mount: Some(Mount {
                    host: folder,
                    inside: INSIDE.to_owned(),
                    access: Access::ReadOnly,
                    whose: Whose::Own,
                }),
                env: [("ANTHROPIC_UNIX_SOCKET".to_owned(), socket), (key.to_owned(), PLACEHOLDER.to_owned())]
                    .into(),
                base_url: "http://model".to_owned(),
            })
        }
    }
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
    let claude = runs.config.agent.claude.clone();
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

/// Reads the secrets of `.env` for a runner that is to be given them, just before they are written to it.
pub(super) fn secrets(
    runs: &Runs,
    settings: &RunSettings,
    speaks_v1: bool,
) -> Result<wire::Secrets, Unprepared> {
    let wanted = settings.provider == Provider::Claude || speaks_v1;
    match settings.credentials {
        Credentials::Stdin if wanted => dotenv::secrets(&runs.root).map_err(Unprepared::Secrets),
        Credentials::Stdin | Credentials::Gateway => Ok(wire::Secrets::default()),
    }
}
