//! Wiring a chat to a group.

use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        By, Done, OpError, Operation, Site,
        args::{Jid, word},
    },
    check_pattern, default_mode, none, row, two_answer,
};
use crate::{domain::rows::Wiring, store::NewWiring};

/// Wire a chat to a group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// Chat, by its address such as local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
    /// Messages that wake the agent: those that match --pattern, those that mention it, or a mention and then the whole thread
    /// [default: depends on the kind of chat].
    #[arg(long, value_name = "MODE", value_parser = word::<EngageMode>())]
    pub engage: Option<EngageMode>,
    /// With --engage pattern: a JavaScript regular expression; `.` matches every message [default: .].
    #[arg(long)]
    pub pattern: Option<String>,
    /// Senders who may wake the agent: all as the chat's policy says, or only people whom the group knows.
    #[serde(default)]
    #[arg(long, value_name = "SCOPE", default_value_t, value_parser = word::<SenderScope>())]
    pub sender_scope: SenderScope,
    /// Messages that do not wake the agent: dropped, or kept as context for the next one that does.
    #[serde(default)]
    #[arg(long, value_name = "POLICY", default_value_t, value_parser = word::<IgnoredMessages>())]
    pub ignored: IgnoredMessages,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat, engage, pattern, sender_scope, ignored } = self;
        let shown = chat.kind(site).await?;
        let (engage_mode, engage_pattern) = match (engage, pattern) {
            (Some(EngageMode::Pattern) | None, Some(pattern)) => (EngageMode::Pattern, Some(pattern)),
            (Some(EngageMode::Pattern), None) => (EngageMode::Pattern, Some(".".to_owned())),
            (Some(mode @ (EngageMode::Mention | EngageMode::MentionSticky)), None) => (mode, None),
            (Some(EngageMode::Mention | EngageMode::MentionSticky), Some(_)) => {
                return Err(OpError::invalid("--pattern needs --engage pattern"));
            }
            (None, None) => default_mode(shown, site.store.chat(chat.as_str()).await?.as_ref()).columns(),
        };
        check_pattern(engage_pattern.as_deref())?;
        let wiring = NewWiring {
            group: group.clone(),
            chat_jid: chat.to_string(),
            engage_mode,
            engage_pattern,
            sender_scope,
            ignored_message_policy: ignored,
        };
        site.store.add_wiring(wiring, site.world.now()).await?;
        site.keeper.changed(Some(&group)).await?;
        let notes =
            two_answer(site.store, &group, &chat).await?.into_iter().chain(chat.unserved(site).await?);
        let made = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        Ok(Done::new(made, format!("group {group} is wired to {chat}")).noting(notes))
    }
}
