//! What the engine says of one container.

use bollard::models::{ContainerState, ContainerStateStatusEnum as Status, ContainerSummaryStateEnum};

use super::{Shared, engine::ANSWER, spec::LABEL_OUTPUT};
use crate::sandbox::{Exit, SandboxError, State};

/// A container at one instant.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) stage: Stage,
    /// `limits.output_bytes` as its label has it.
    pub(super) output_bytes: u64,
    /// Its first process, while it runs.
    pub(super) pid: Option<u32>,
}

#[derive(Debug)]
pub(super) enum Stage {
    Created,
    Running,
    Ended(Exit),
}

impl Shared {
    /// Asks the engine for container `id`.
    pub(super) async fn look(&self, id: &str) -> Result<Look, SandboxError> {
        let call = self.engine.client().await?.inspect_container(id, None);
        let found = self.engine.ask_about(id, "looking at", ANSWER, call).await?;
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        let output_bytes = labels.get(LABEL_OUTPUT).and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX);
        let state = found.state.unwrap_or_default();
        let pid = state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
        Ok(Look { stage: stage(&state), output_bytes, pid })
    }
}

fn stage(state: &ContainerState) -> Stage {
    let ended =
        || Stage::Ended(Exit { code: state.exit_code.unwrap_or(0), oom: state.oom_killed.unwrap_or(false) });
    match state.status {
        Some(Status::CREATED) => Stage::Created,
        Some(Status::RUNNING | Status::PAUSED | Status::RESTARTING | Status::STOPPING) => Stage::Running,
        Some(Status::EXITED | Status::DEAD | Status::REMOVING) => ended(),
        Some(Status::EMPTY) | None if state.running == Some(true) => Stage::Running,
        Some(Status::EMPTY) | None => ended(),
    }
}

/// The state of a listed container. One whose state the engine does not say might still run.
pub(super) fn listed(state: Option<ContainerSummaryStateEnum>) -> State {
    use ContainerSummaryStateEnum as Listed;
    match state {
        Some(Listed::CREATED) => State::Created,
        Some(Listed::EXITED | Listed::DEAD | Listed::REMOVING) => State::Exited,
        Some(Listed::RUNNING | Listed::PAUSED | Listed::RESTARTING | Listed::STOPPING | Listed::EMPTY)
        | None => State::Running,
    }
}
