//! Ending the rests of a group's lanes: what waits in them is tried again at once.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site};
use crate::{domain::rows::Lane, ops::args::Jid};

/// End the rests of a group's lanes: what waits there is tried again at once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// Only lanes of this chat, by its address such as local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Option<Jid>,
}

/// The lanes that rested.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Woken {
    pub group: Folder,
    pub lanes: Vec<Lane>,
}

impl Operation for Args {
    type Row = Woken;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Woken>, OpError> {
        let Self { group, chat } = self;
        site.group(&group).await?;
        let now = site.world.now();
        let woken = site.store.wake_lanes(&group, chat.as_ref().map(Jid::as_str), now).await?;
        site.keeper.wake(&group, &woken);
        let lanes = site.store.lanes_called(&woken, now)?;
        let says = match woken.len() {
            0 => format!("no lane of group {group} rests"),
            lanes => format!("lanes of group {group} that rest no longer: {lanes}"),
        };
        Ok(Done::new(Woken { group, lanes }, says))
    }
}
