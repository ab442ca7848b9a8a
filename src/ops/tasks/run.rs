//! Having a task run now, once more than its schedule says; an interval counts from now on.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    group_of, row,
};
use crate::domain::rows::Task;

/// Which task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Id of the task, as `g2 tasks list` shows it.
    pub id: String,
    /// Group of the task, by its folder; needed if several groups have a task with this id.
    #[arg(long)]
    pub group: Option<Folder>,
}

/// Run a task now, in addition to its schedule; an interval starts anew.
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
        let group = group_of(site.store, &id, group.as_ref())?;
        by.caller(&group)?;
        site.store.run_task_now(&group, &id, site.world.now()).await?;
        site.keeper.changed(Some(&group)).await?;
        Ok(Done::new(row(site, &group, &id)?, format!("task {id} is due now")))
    }
}
