//! Saying yes: the sender is heard, or the chat is connected; what waits is answered.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    decide, us,
};
use crate::{domain::heard::approvals::Approval, store::Pick};

/// Which question, and who says yes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub id: i64,
    /// The group that a chat is connected to.
    #[serde(default)]
    pub group: Option<Folder>,
    /// Connect it to a new group of this name instead, which no other one has.
    #[serde(default)]
    pub new: Option<String>,
    /// Who says so: a user who may.
    #[serde(default = "us")]
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
