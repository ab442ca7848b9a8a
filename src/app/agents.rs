//! Ends the containers of a root that no daemon serves.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use futures_util::future::join_all;

use super::{lock::lock, open::open_store_under, sandbox::choose_sandbox};
use crate::{
    config::Config,
    domain::runs::stop::{Stop, StopThen, StopWhen},
    moving::instance_of,
    ops::By,
    sandbox::State,
    system::world::World,
};

/// A container that was ended: its run, 0 if that is not known, and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedAgent {
    pub run: i64,
    pub group: String,
}

/// Ends the containers of a root, under its lock: no daemon starts meanwhile. Each is asked to leave, and killed after
/// `health.close_grace_ms`. It is not removed: the next start reads its output, and judges its run as one that a person
/// stopped; what it has in hand is handed out again.
///
/// # Errors
/// Somebody serves the root; the engine does not answer; a container that can't be ended.
pub async fn end_agents(world: &World, root: &Path, config: &Config, by: &By) -> Result<Vec<EndedAgent>> {
    let lock = lock(root).await?;
    let store = open_store_under(world, &lock, root)?;
    let instance = instance_of(world, root, &store).await?;
    let sandbox = choose_sandbox(root, config, &store).await?;
    let mut found = sandbox.list(&instance).await.context("asking for the containers of this root failed")?;
    found.retain(|container| container.state == State::Running);
    let active = store.active_runs()?;
    for container in found.iter().filter(|found| active.iter().any(|run| run.id == found.run)) {
        let stop = Stop { by: by.short(), when: StopWhen::Now, then: StopThen::AskAgain };
        store.stop_run(container.run, stop).await?;
    }
    let grace = Duration::from_millis(config.health.close_grace_ms);
    let ends = found.iter().map(|container| sandbox.stop(&container.id, grace));
    for (end, container) in join_all(ends).await.into_iter().zip(&found) {
        end.with_context(|| format!("ending container {} failed", container.name))?;
    }
    Ok(found.into_iter().map(|found| EndedAgent { run: found.run, group: found.group }).collect())
}
