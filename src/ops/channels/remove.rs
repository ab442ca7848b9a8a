//! Removing an account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, config::SettingsFile},
    table,
};

/// Remove an account: its table in g2.toml, its token, and what its adapter kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Channel, such as telegram or telegram.work.
    pub name: String,
}

/// The account that was removed. Its chats, messages and texts stay.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Removed {
    pub name: String,
}

impl Operation for Args {
    type Row = Removed;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Removed>, OpError> {
        let Self { name } = self;
        // Nobody adds an account of this name before all of this one is gone.
        let file = SettingsFile::of(site.root).await;
        table::known(site, &name)?;
        table::remove(site, &file, &name)?;
        // Its adapter has left before what it kept goes.
        site.keeper.settings().await;
        site.store.forget_channel(&name).await?;
        table::discard(site, &name);
        Ok(Done::new(
            Removed { name: name.clone() },
            format!("{name} is removed; its chats and messages stay"),
        ))
    }
}
