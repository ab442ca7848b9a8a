//! Having an agent wait until it is addressed again.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, World, args::Jid},
    row,
};
use crate::domain::rows::Wiring;

/// Where the agent waits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub group: Folder,
    pub chat: Jid,
    /// In this thread only; empty: in the chat itself. Left out: everywhere in the chat.
    #[serde(default)]
    pub thread: Option<String>,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, world: &World<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat, thread } = self;
        let wired = async || -> Result<Wiring, OpError> {
            row(world, &group, &chat).await?.ok_or_else(|| {
                OpError::not_found(format!("group {group} is not wired to {chat}"))
                    .hint("see `g2 wirings list`")
            })
        };
        wired().await?;
        let marks = world.store.unstick(group.clone(), chat.as_str(), thread).await?;
        let says = match marks {
            0 => format!("group {group} was waiting to be addressed already"),
            _ => format!("group {group} waits until it is addressed again ({marks} threads)"),
        };
        Ok(Done::new(wired().await?, says))
    }
}
