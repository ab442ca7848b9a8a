//! Which sandbox agents run in.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{
    config::{Config, SandboxKind},
    domain::{shown::errors::chain, states::SandboxName},
    sandbox::{Sandbox, docker::DockerSandbox, process::ProcessSandbox},
    store::Store,
};

/// The first argument with which the process sandbox starts this program as the runner. It is no command for people, so no list
/// names it.
pub const RUNNER: &str = "agent";

/// Returns the sandbox that the settings and the machine allow.
///
/// # Errors
/// Agents would run without any sandbox and the settings do not allow that, or the engine can't be used.
pub(super) async fn choose_sandbox(root: &Path, config: &Config, store: &Store) -> Result<Box<dyn Sandbox>> {
    let docker =
        || -> Result<Box<dyn Sandbox>> { Ok(Box::new(DockerSandbox::new(config.docker_host.as_deref())?)) };
    let program = std::env::current_exe().context("finding our own program")?;
    let children = ProcessSandbox::new(program, vec![RUNNER.to_owned()], root.join("data/runs"));
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
        if let (Some(what), false) = (config.agent.provider.foreign(), config.sandbox.allow_unsandboxed) {
            bail!(
                "{what} would run without any sandbox; set sandbox.kind = \"docker\", or sandbox.allow_unsandboxed = true if that is meant"
            );
        }
        Ok(Box::new(children))
    };
    match config.sandbox.kind {
        SandboxKind::Docker => docker(),
        SandboxKind::Process => process(),
        SandboxKind::Auto => {
            // Containers that live are adopted, and a foreign agent waits for Docker rather than run without.
            let needs = config.agent.provider.foreign().is_some() && !config.sandbox.allow_unsandboxed;
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
