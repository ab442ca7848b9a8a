//! Changing facts about a chat, or its policy for strangers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, args::Jid};
use crate::domain::rows::{Chat, ChatChanges};

/// Change a chat's policy for strangers, or its name and kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Chat, by its address such as local:family.
    #[arg(value_name = "JID")]
    pub chat: Jid,
    #[serde(flatten)]
    #[arg(skip)]
    pub changes: ChatChanges,
}

impl Operation for Args {
    type Row = Chat;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Chat>, OpError> {
        let Self { chat, changes } = self;
        let row = async || -> Result<Chat, OpError> {
            let none = || OpError::not_found(format!("chat {chat} does not exist"));
            site.store.chat(chat.as_str()).await?.ok_or_else(none)
        };
        row().await?;
        site.store.set_chat(chat.as_str(), changes).await?;
        // Agents are shown the names of chats.
        site.keeper.changed(None).await?;
        Ok(Done::new(row().await?, format!("chat {chat} is changed")))
    }
}
