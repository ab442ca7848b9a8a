//! Deciding a refused or dead command again, as a new one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    hand,
    queue::{Found, find},
    row, state,
};
use crate::domain::rows::IpcRow;

/// Decide a refused or dead command again, as a new command.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id, request id or file of the command: NAME, GROUP/NAME or GROUP/BOX/NAME, as `g2 ipc list` shows it.
    #[arg(value_name = "COMMAND")]
    pub what: String,
}

impl Operation for Args {
    type Row = IpcRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<IpcRow>, OpError> {
        let Self { what } = self;
        let of = match find(site.root, site.store, &what, site.world.now()).await? {
            Found::Settled(id) => id,
            Found::Open(open) => {
                let says = format!("{what} is {}: it is not decided yet", open.row.state);
                return Err(OpError::refused(says));
            }
        };
        let claimed = hand::retry(site.keeper.hand()?, of, site.world.now()).await?;
        let id = claimed.id;
        // Without a daemon, the next start decides it.
        site.keeper.settle(claimed).await;
        let row = row(site, id)?;
        let says = format!("command {of} is tried again as {id}; command {id} is {}", state(&row));
        Ok(Done::new(row, says))
    }
}
