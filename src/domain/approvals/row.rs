//! A question as the command line shows it.

use ipc_handlers::Time;
use serde::Serialize;

use super::{Kind, State};
use crate::domain::rows::{rfc3339, rfc3339_option};

/// A question to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Approval {
    pub id: i64,
    pub kind: Kind,
    pub chat_jid: String,
    /// Whom the card names: the first one who spoke.
    pub sender: String,
    pub sender_name: String,
    /// The groups that it is about; none for a chat that is wired to none.
    pub groups: Vec<String>,
    pub state: State,
    pub approver: String,
    pub card_chat: String,
    /// What it can be answered with, in order.
    pub options: Vec<String>,
    #[serde(serialize_with = "rfc3339")]
    pub created_at: Time,
    #[serde(serialize_with = "rfc3339")]
    pub expires_at: Time,
    #[serde(serialize_with = "rfc3339_option")]
    pub decided_at: Option<Time>,
    pub decided_by: Option<String>,
    pub decision: Option<String>,
    /// The messages that wait, or waited, for the answer.
    pub messages: Vec<i64>,
}

/// What was done about a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalEvent {
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub who: String,
    pub what: String,
    pub detail: Option<String>,
    /// The message that did it.
    pub message: Option<i64>,
}

impl Approval {
    /// What came of it, or that nothing did yet, in one sentence.
    #[must_use]
    pub fn outcome(&self) -> String {
        let (id, by) = (self.id, self.decided_by.as_deref().unwrap_or("nobody"));
        match self.state {
            State::Pending => {
                format!("question {id} waits for {}, who was asked in {}", self.approver, self.card_chat)
            }
            State::Approved => {
                format!("question {id} was answered by {by}: {}", self.decision.as_deref().unwrap_or("yes"))
            }
            State::Denied => {
                format!("question {id} was answered by {by}: {}", self.decision.as_deref().unwrap_or("no"))
            }
            State::Expired if self.decided_by.is_some() => {
                format!("question {id} is closed: the groups that it was about were removed")
            }
            State::Expired => format!("nobody answered question {id} in time"),
            State::Undeliverable => format!(
                "question {id} could not be said to {} in {}; answer it with `g2 approvals approve {id}` or `deny {id}`",
                self.approver, self.card_chat
            ),
        }
    }
}
