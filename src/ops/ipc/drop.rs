//! Refusing a waiting or claimed command unread; removing the kept file of a dead one.

use std::ffi::OsString;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    hand,
    queue::{Found, WaitingFile, find},
    row, state,
};
use crate::domain::{rows::IpcRow, states::CommandOutcome};

/// Refuse a waiting or claimed command unread, or remove the file of a dead one for good.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id, request id or file of the command: NAME, GROUP/NAME or GROUP/BOX/NAME, as `g2 ipc list` shows it.
    #[arg(value_name = "COMMAND")]
    pub what: String,
    /// Reason; the agent is told.
    #[serde(default = "no_reason")]
    #[arg(long, default_value_t = no_reason())]
    pub reason: String,
}

fn no_reason() -> String {
    "no reason was given".into()
}

impl Operation for Args {
    type Row = IpcRow;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<IpcRow>, OpError> {
        use std::os::unix::ffi::OsStringExt as _;
        let Self { what, reason } = self;
        // A token has no words for an agent.
        let reason = if matches!(by, By::Token { .. }) { no_reason() } else { reason };
        let hand = site.keeper.hand()?;
        let id = match find(site.root, site.store, &what, site.world.now()).await? {
            Found::Settled(id) => {
                match site.store.settled_file(id)? {
                    Some(file) if file.outcome == CommandOutcome::Malformed => {
                        hand::drop_dead(hand, &file.group, id)?;
                    }
                    Some(_) | None => claimed(site, id, reason).await?,
                }
                id
            }
            Found::Open(open) => match open.waiting_file()? {
                Some(WaitingFile { group, in_box, name }) => {
                    let (boxes, name) = (site.keeper.boxes(&group)?, OsString::from_vec(name));
                    let id =
                        hand::drop_waiting(hand, &boxes, in_box, &name, reason, site.world.now()).await?;
                    site.keeper.changed(Some(&group)).await?;
                    id
                }
                None => {
                    let id = open.lying.claim.unwrap_or_default();
                    claimed(site, id, reason).await?;
                    id
                }
            },
        };
        let row = row(site, id)?;
        let says = format!("{what} is dropped; command {id} is {}", state(&row));
        Ok(Done::new(row, says))
    }
}

/// Sets a claimed command aside.
async fn claimed(site: &Site<'_>, id: i64, reason: String) -> Result<(), OpError> {
    let (hand, now) = (site.keeper.hand()?, site.world.now());
    let claimed = hand::note_drop(hand, id, reason, now).await?;
    let Some(claimed) = site.keeper.settle(claimed).await else { return Ok(()) };
    let boxes = match site.store.group(&claimed.folder).await? {
        Some(group) => Some(site.keeper.boxes(&group.folder)?),
        None => None,
    };
    Ok(hand::finish(hand, boxes.as_deref(), &claimed, now).await?)
}
