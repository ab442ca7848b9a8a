//! Having a task rest until it is resumed.

use ipc_handlers::{Command, commands::PauseTask};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    change,
    run::Named,
};
use crate::domain::rows::Task;

/// Stop a task from running until it is resumed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(transparent)]
pub struct Args {
    #[command(flatten)]
    pub named: Named,
}

impl Operation for Args {
    type Row = Task;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Task>, OpError> {
        let Self { named: Named { id, group } } = self;
        let command = PauseTask { task_id: id.clone(), target_folder: None };
        change(site, by, &id, group.as_ref(), Command::PauseTask(command)).await
    }
}
