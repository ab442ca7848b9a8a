//! `state/`: the agent's signs of life and the tool it is in.

use std::{path::Path, sync::Arc, time::Duration};

use ipc_handlers::wire::ContainerState;

use crate::{
    files::FileError,
    world::{Folder, World},
};

const HEARTBEAT: &str = "heartbeat";
const CONTAINER_STATE: &str = "container_state.json";

/// The files by which the host judges whether the agent is stuck.
pub(crate) struct State {
    dir: Box<dyn Folder>,
    world: Arc<dyn World>,
}

impl State {
    /// Opens `<ipc>/state`.
    pub(crate) fn open(world: &Arc<dyn World>, ipc: &Path) -> Result<Self, FileError> {
        Ok(Self { dir: world.made_folder(&ipc.join("state"))?, world: Arc::clone(world) })
    }

    /// Marks a sign of life of the agent (never one of the runner's own).
    pub(crate) fn alive(&self) {
        report(self.dir.touch(HEARTBEAT));
    }

    /// Returns how long this runner lives.
    pub(crate) fn passed(&self) -> Duration {
        self.world.passed()
    }

    /// Says that a tool runs, and for how long it has declared it may.
    pub(crate) fn tool_started(&self, name: &str, timeout_ms: Option<u64>) {
        self.write(&ContainerState {
            current_tool: Some(name.to_owned()),
            tool_declared_timeout_ms: timeout_ms,
            tool_started_at: Some(self.world.wall_ms()),
        });
    }

    /// Says that no tool runs.
    pub(crate) fn tool_finished(&self) {
        self.write(&ContainerState::default());
    }

    fn write(&self, state: &ContainerState) {
        let json = serde_json::to_vec(state).expect("the state is plain data");
        report(self.dir.publish(CONTAINER_STATE, &json));
    }
}

/// A full disk must not cost the turn; if it lasts, the host takes the silence for what it looks like.
fn report(outcome: Result<(), FileError>) {
    if let Err(e) = outcome {
        eprintln!("{}", crate::runner::chain(&e));
    }
}
