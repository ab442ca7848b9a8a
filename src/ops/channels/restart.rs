//! Starting an adapter anew.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    table,
};

/// Start the adapter of an account anew, with its settings as they are now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Channel, such as telegram or telegram.work.
    pub name: String,
}

/// The account whose adapter is started anew.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Restarted {
    pub name: String,
}

impl Operation for Args {
    type Row = Restarted;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Restarted>, OpError> {
        let Self { name } = self;
        table::known(site, &name)?;
        site.keeper.settings().await;
        site.store.want_start(&name, site.world.now()).await?;
        let row = Restarted { name: name.clone() };
        Ok(Done::new(
            row,
            format!("the adapter of {name} is started anew, with its settings as they are now"),
        ))
    }
}
