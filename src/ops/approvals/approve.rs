//! Saying yes: the sender is heard, or the chat is connected; what waits is answered.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    decide, us,
};
use crate::{domain::heard::approvals::Approval, store::Pick};

/// Say yes: the sender is heard, or the chat is wired; messages that waited are answered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the question, as `g2 approvals list` shows it.
    pub id: i64,
    /// For a new chat: the group that it is wired to, by its folder.
    #[arg(long, conflicts_with = "new")]
    pub group: Option<Folder>,
    /// For a new chat: name of a new group for it, unlike that of any other group.
    #[arg(long, value_name = "NAME")]
    pub new: Option<String>,
    /// User who decides: an owner, or an admin of the group.
    #[serde(default = "us")]
    #[arg(long = "as", default_value_t = us(), value_name = "USER")]
    pub user: String,
}

impl Operation for Args {
    type Row = Approval;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Approval>, OpError> {
        let pick = match (self.group, self.new) {
            (Some(_), Some(_)) => {
                return Err(OpError::invalid(
                    "give either an existing group or the name of a new one, not both",
                ));
            }
            (Some(group), None) => Pick::Connect(group),
            (None, Some(name)) => Pick::New(name),
            (None, None) => Pick::Yes,
        };
        decide(site, by, self.id, pick, &self.user).await
    }
}
