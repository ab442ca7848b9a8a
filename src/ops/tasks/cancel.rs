//! Deleting a task; a run of it that is under way goes on.

use ipc_handlers::{Command, commands::CancelTask};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    change,
    run::Named,
};
use crate::domain::rows::Task;

/// Remove a task; its live run goes on.
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
        let command = CancelTask { task_id: id.clone(), target_folder: None };
        change(site, by, &id, group.as_ref(), Command::CancelTask(command)).await
    }
}
