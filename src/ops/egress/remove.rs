//! Removing a group's rule about a host outside.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, EgressRow, OpError, Operation, Pattern, Site, change};

/// Remove a group's rule about a host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// The host: a name, an address or *.NAME, each perhaps with a :PORT behind it.
    pub host: Pattern,
}

impl Operation for Args {
    type Row = EgressRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<EgressRow>, OpError> {
        let Self { group, host } = self;
        let row = change(site, &group, &host, None).await?;
        Ok(Done::new(row, format!("group {group} has no rule about {host}")))
    }
}
