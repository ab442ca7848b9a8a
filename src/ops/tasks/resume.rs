//! Having a task run again that is paused or rests; what was missed during a pause is not made up for.

use ipc_handlers::{Command, commands::ResumeTask};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    change,
    run::Named,
};
use crate::domain::rows::Task;

/// Let a task run again that is paused or rests; occurrences that it missed are skipped.
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
        let command = ResumeTask { task_id: id.clone(), target_folder: None };
        change(site, by, &id, group.as_ref(), Command::ResumeTask(command)).await
    }
}
