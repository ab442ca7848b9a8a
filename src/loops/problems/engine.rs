//! The container engine and its images, and whether agents may run without any.

use std::{collections::BTreeMap, time::Duration};

use ipc_handlers::Folder;
use tokio::time::timeout;

use super::{super::Obstacle, View};
use crate::{
    config::{Config, SandboxKind},
    domain::{
        problems::{
            Problem,
            images::{self, ImageFault, Labels, Needs},
        },
        rows::Group,
        runs::run_settings::Provider,
        shown::errors::chain,
        states::SandboxName,
    },
    sandbox::{
        SandboxError,
        docker::{DockerSandbox, Image},
    },
    store::Store,
};

/// How long the engine may take over all images.
const ENGINE: Duration = Duration::from_secs(1);

/// Whether agents would run without any sandbox and the settings do not allow that: a start is refused then, and so is every run
/// of a daemon that is up.
pub(super) async fn sandbox(view: &View<'_>, found: &mut Vec<Problem>) {
    let config = view.config;
    let what = if config.sandbox.allow_unsandboxed {
        return;
    } else if !config.agent.command.is_empty() {
        format!("agent.command ({})", config.agent.command.join(" "))
    } else if let Some(what) = config.agent.provider.foreign() {
        what.to_owned()
    } else {
        return;
    };
    let is_refused = match (view.daemon, config.sandbox.kind) {
        (Some(daemon), _) => daemon.sandbox == SandboxName::Process,
        (None, SandboxKind::Docker) => false,
        (None, SandboxKind::Process) => true,
        // It waits for Docker where that is needed; otherwise it takes what is there.
        (None, SandboxKind::Auto) if needs_engine(view) => false,
        (None, SandboxKind::Auto) => {
            // Runs that can't be read are a problem of their own, and no reason to spare this one.
            let adopts = |store: &Store| {
                store
                    .active_runs()
                    .is_ok_and(|runs| runs.iter().any(|run| run.sandbox == SandboxName::Docker))
            };
            // An engine that fails or gives no answer is none that agents run in.
            let answer = timeout(ENGINE, look_at_image(config, &config.sandbox.image)).await;
            !view.store.is_some_and(adopts) && !matches!(answer, Ok(Ok(_)))
        }
    };
    found.extend(is_refused.then_some(Problem::Unsandboxed { what }));
}

/// Whether the engine answers and has what agents need, where they need it.
pub(super) async fn answers(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
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

/// Whether agents need the engine. If the settings choose nothing, agents run as child processes while the engine is away, but
/// Claude Code never does.
fn needs_engine(view: &View<'_>) -> bool {
    match (view.daemon, view.config.sandbox.kind) {
        (Some(daemon), _) => daemon.sandbox == SandboxName::Docker,
        (None, SandboxKind::Docker) => true,
        (None, SandboxKind::Process) => false,
        (None, SandboxKind::Auto) => {
            view.config.agent.provider.foreign().is_some() && !view.config.sandbox.allow_unsandboxed
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
        if group.provider.as_deref().unwrap_or(config.agent.provider.as_str()) == Provider::Claude.as_str() {
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
    let fault = image_fault(config, &is, !used.by_claude.is_empty())?;
    // The other groups that use it need no Claude Code.
    let groups = match fault {
        ImageFault::OtherClaude { .. } | ImageFault::NoClaude => used.by_claude,
        ImageFault::NoProtocol | ImageFault::OtherRunner { .. } => used.by,
    };
    Some(Problem::OddImage { image, fault, groups })
}

/// Judges an image that is there. `claude`: whether Claude Code is to run in it.
#[must_use]
pub fn image_fault(config: &Config, is: &Image, claude: bool) -> Option<ImageFault> {
    let labels = Labels { protocol: is.protocol, runner: is.runner.as_deref(), claude: is.claude.as_deref() };
    let needs = Needs {
        protocol: ipc_handlers::wire::PROTOCOL,
        runner: agent_runner::ID,
        claude,
        version: config.agent.claude.version.as_deref(),
    };
    images::fault(labels, needs)
}
