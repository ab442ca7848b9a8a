//! Having a group not reach a host outside.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, EgressRow, OpError, Operation, Pattern, Site, Verdict, change, notes};

/// The group and the host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub group: Folder,
    /// `HOST[:PORT]`, or `*.HOST[:PORT]` for all names below it. Without a port: all ports.
    pub host: Pattern,
}

impl Operation for Args {
    type Row = EgressRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<EgressRow>, OpError> {
        let Self { group, host } = self;
        let row = change(site, &group, &host, Some(Verdict::Deny)).await?;
        let notes = notes(site, &group).await?;
        Ok(Done::new(row, format!("group {group} does not reach {host}")).noting(notes))
    }
}
