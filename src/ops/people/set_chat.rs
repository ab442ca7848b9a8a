//! Changing facts about a chat, or its policy for strangers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, args::Jid};
use crate::domain::{heard::access::UnknownSenders, platforms::chats::ChatKind, rows::Chat};

/// Change a chat's policy for strangers, or its name and kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Chat, by its address such as local:family.
    #[arg(value_name = "JID")]
    pub chat: Jid,
    /// What becomes of senders whom a group does not know.
    #[arg(skip)]
    pub policy: Option<UnknownSenders>,
    /// A name for people.
    #[arg(skip)]
    pub name: Option<String>,
    #[arg(skip)]
    pub kind: Option<ChatKind>,
    /// Whether the platform divides it into threads.
    #[arg(skip)]
    pub threaded: Option<bool>,
}

impl Operation for Args {
    type Row = Chat;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Chat>, OpError> {
        let Self { chat, policy, name, kind, threaded } = self;
        let row = async || -> Result<Chat, OpError> {
            let none = || OpError::not_found(format!("chat {chat} does not exist"));
            site.store.chat(chat.as_str()).await?.ok_or_else(none)
        };
        row().await?;
        let settings = [
            ("policy", policy.map(|policy| policy.to_string())),
            ("name", name),
            ("kind", kind.map(|kind| kind.to_string())),
            ("threaded", threaded.map(|threaded| threaded.to_string())),
        ];
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        site.store.set_chat(chat.as_str(), settings.collect()).await?;
        // Agents are shown the names of chats.
        site.keeper.changed(None).await?;
        Ok(Done::new(row().await?, format!("chat {chat} is changed")))
    }
}
