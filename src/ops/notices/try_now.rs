//! A text that tries the way to an owner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::store::{PushWay, Ways};

/// The text.
const TEXT: &str = "This is a trial: I tell you here of problems.";

/// Tell an owner something now, by the way on which they are told of problems.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// Where a text went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Told {
    /// The chat, or the settings whose program or address got it.
    pub to: String,
}

impl Operation for Args {
    type Row = Told;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Told>, OpError> {
        let notify = &site.config()?.notify;
        let command = (!notify.command.is_empty()).then_some(PushWay::Command);
        let webhook = notify.webhook.is_some().then_some(PushWay::Webhook);
        let others = command.into_iter().chain(webhook).collect();
        let ways = Ways { chat: notify.chat.clone(), others, is_quiet: false };
        let to = site.store.tell_owner(TEXT, ways, site.world.now()).await?.ok_or_else(|| {
            OpError::refused("no account works on which an owner has a chat, and [notify] names no other way")
                .hint("`g2 users claim` makes you an owner on a platform; `g2 config set notify.command '[\"PROGRAM\"]'` names a program")
        })?;
        site.keeper.pushes();
        let says = format!("the text is on its way to {to}");
        Ok(Done::new(Told { to }, says))
    }
}
