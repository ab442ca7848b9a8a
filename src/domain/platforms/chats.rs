//! The kind of a chat: as its channel says, otherwise as its address shows.

use ipc_handlers::words;

words! {
    /// What kind of place a chat is.
    #[derive(schemars::JsonSchema)]
    pub enum ChatKind: "chat kind" {
        /// One person and the agent.
        Direct = "direct",
        Group = "group",
    }
}

/// What a channel knows of the chat of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatInfo {
    /// Empty: it does not say.
    pub name: String,
    pub kind: ChatKind,
    /// Whether the platform divides the chat into threads.
    pub threaded: bool,
    /// How many people are there; `None`: it does not say.
    pub members: Option<u32>,
    /// Whether the account is told all of its messages; `None`: it does not say.
    pub hears_all: Option<bool>,
}
