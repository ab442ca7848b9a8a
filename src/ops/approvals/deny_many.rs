//! Saying no to many open questions at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpCode, OpError, Operation, Site, args::Jid},
    answerer, us,
};

/// Say no to every open question, or to those about one chat.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// All open questions about this chat and its senders.
    #[arg(long, value_name = "JID")]
    pub chat: Option<Jid>,
    /// User who decides: an owner, or an admin of the group.
    #[serde(default = "us")]
    #[arg(long = "as", default_value_t = us(), value_name = "USER")]
    pub user: String,
}

/// How many questions are closed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Denied {
    pub closed: usize,
}

impl Operation for Args {
    type Row = Denied;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Denied>, OpError> {
        let (chat, by) = (self.chat.as_ref().map(Jid::as_str), answerer(by, &self.user));
        let why = match chat {
            Some(chat) => format!("g2 approvals deny --chat {chat}"),
            None => "g2 approvals deny --all".to_owned(),
        };
        let (closed, left) = site.store.deny_many(chat, &by, &why, site.world.now()).await?;
        site.keeper.changed(None).await?;
        if left > 0 {
            return Err(OpError::new(OpCode::NotAuthorized, format!("{closed} questions are closed"))
                .hint(format!("{by} may not answer {left} others")));
        }
        Ok(Done::new(Denied { closed }, format!("{closed} questions are closed")))
    }
}
