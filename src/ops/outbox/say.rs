//! A text by the owner, in a group's name.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, args::Jid};
use crate::domain::rows::OutboxRow;

/// The longest text, bytes.
const LONGEST: usize = 256 << 10;

/// Say something in any chat, as a group's agent says it. No agent reads it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Chat, by its address such as tg:-1001234 or local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
    /// Thread of the chat; without it the chat itself.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub thread: String,
    /// Group in whose name it is said, by its folder [default: the one that the chat is wired to first].
    #[arg(long)]
    pub group: Option<Folder>,
    /// Text; `-` reads it from standard input.
    pub text: String,
}

impl Operation for Args {
    type Row = OutboxRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<OutboxRow>, OpError> {
        let Self { chat, thread, group, text } = self;
        if text.trim().is_empty() {
            return Err(OpError::invalid("there is nothing to say").hint("give a text"));
        }
        if text.len() > LONGEST {
            return Err(OpError::invalid(format!(
                "the text has {} bytes; at most {LONGEST} are said",
                text.len()
            ))
            .hint("send it as a file of an agent, or in parts"));
        }
        if let Some(why) = chat.unserved(site).await? {
            return Err(OpError::refused(why).hint("`g2 channels add` adds an account"));
        }
        if let Some(group) = &group {
            site.group(group).await?;
        }
        let row = site.store.say_by_hand(chat.as_str(), &thread, &text, group, site.world.now()).await?;
        site.keeper.changed(None).await?;
        let says = format!("outbox row {} is on its way to {}", row.id, row.chat_jid);
        Ok(Done::new(row, says))
    }
}
