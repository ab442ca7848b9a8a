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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub id: String,
    /// Whose task it is, where several groups have one of that id.
    #[serde(default)]
    pub group: Option<Folder>,
}

/// Which task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Args(pub Named);

impl Operation for Args {
    type Row = Task;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Task>, OpError> {
        let Self(Named { id, group }) = self;
        let group = group_of(site.store, &id, group.as_ref())?;
        by.caller(&group)?;
        site.store.run_task_now(&group, &id, site.world.now()).await?;
        site.keeper.changed(Some(&group)).await?;
        Ok(Done::new(row(site, &group, &id)?, format!("task {id} is due now")))
    }
}
