//! Letting a `mention-sticky` agent wait until it is mentioned again.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::Jid},
    row,
};
use crate::domain::rows::Wiring;

/// Let a `mention-sticky` agent wait until it is mentioned again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// Chat, by its address such as local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
    /// Only this thread; empty: only the chat itself [default: the chat and all its threads].
    #[arg(long)]
    pub thread: Option<String>,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat, thread } = self;
        let wired = async || -> Result<Wiring, OpError> {
            row(site, &group, &chat).await?.ok_or_else(|| {
                OpError::not_found(format!("group {group} is not wired to {chat}"))
                    .hint("see `g2 wirings list`")
            })
        };
        wired().await?;
        let marks = site.store.unstick(group.clone(), chat.as_str(), thread).await?;
        let says = match marks {
            0 => format!("group {group} already waits until it is mentioned"),
            _ => format!("group {group} waits until it is mentioned again ({marks} threads)"),
        };
        Ok(Done::new(wired().await?, says))
    }
}
