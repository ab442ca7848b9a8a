//! Removing a wiring.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::Jid},
    none, row,
};
use crate::domain::rows::Wiring;

/// The wiring to remove.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub group: Folder,
    pub chat: Jid,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat } = self;
        let was = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        site.store.remove_wiring(group.clone(), chat.as_str()).await?;
        site.keeper.changed(Some(&group)).await?;
        Ok(Done::new(was, format!("group {group} is no longer wired to {chat}")))
    }
}
