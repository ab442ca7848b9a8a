//! Removing a group's rule about a host outside.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, EgressRow, OpError, Operation, Pattern, Site, change};

/// The group and the host, as the rule names it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub group: Folder,
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
