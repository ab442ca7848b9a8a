//! Letting a group reach a host outside.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, EgressRow, OpError, Operation, Pattern, Site, Verdict, change, notes};

/// Let a group reach a host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// The host: a name, an address or *.NAME, each perhaps with a :PORT behind it; without one, ports 80 and 443.
    pub host: Pattern,
}

impl Operation for Args {
    type Row = EgressRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<EgressRow>, OpError> {
        let Self { group, host } = self;
        let row = change(site, &group, &host, Some(Verdict::Allow)).await?;
        let notes = notes(site, &group).await?;
        Ok(Done::new(row, format!("group {group} may reach {host}")).noting(notes))
    }
}
