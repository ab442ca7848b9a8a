//! Having a group's run leave, so that the next one begins with a new container.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::domain::rows::Group;

/// Have the group's container finish its work and leave: the next message starts a new one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group.
    pub folder: Folder,
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder } = self;
        let group = site.group(&folder).await?;
        let says = match site.store.active_run_of(&folder)? {
            Some(run) if !site.keeper.is_serving() => {
                let text = format!("no daemon runs, and so nobody can ask run {run} to leave");
                return Err(
                    OpError::refused(text).hint("start the daemon with `g2 start`, then restart the group")
                );
            }
            Some(run) => {
                site.keeper.relaunch(&folder);
                format!(
                    "run {run} finishes its work and leaves; the next message starts a new container. If it does not leave, `g2 runs stop {run} --now` ends it"
                )
            }
            None => format!("group {folder} has no container; the next message starts one"),
        };
        Ok(Done::new(group, says))
    }
}
