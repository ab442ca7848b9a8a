//! Removing a wiring.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::Jid},
    none, row,
};
use crate::domain::rows::Wiring;

/// Remove a wiring.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// Chat, by its address such as local:family.
    #[arg(long, value_name = "JID")]
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
