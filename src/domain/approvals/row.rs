//! A question as the command line shows it.

use ipc_handlers::Time;
use serde::Serialize;

use crate::domain::rows::{rfc3339, rfc3339_option};

/// A question to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Approval {
    pub id: i64,
    /// `sender` or `channel`.
    pub kind: String,
    pub chat_jid: String,
    /// Whom the card names: the first one who spoke.
    pub sender: String,
    pub sender_name: String,
    /// The groups that it is about; none for a chat that is wired to none.
    pub groups: Vec<String>,
    /// `pending approved denied expired undeliverable`.
    pub state: String,
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
        match self.state.as_str() {
            "pending" => {
                format!("question {id} waits for {}, who was asked in {}", self.approver, self.card_chat)
            }
            "approved" => {
                format!("question {id} was answered by {by}: {}", self.decision.as_deref().unwrap_or("yes"))
            }
            "denied" => {
                format!("question {id} was answered by {by}: {}", self.decision.as_deref().unwrap_or("no"))
            }
            "expired" if self.decided_by.is_some() => {
                format!("question {id} is closed: the groups that it was about were removed")
            }
            "expired" => format!("nobody answered question {id} in time"),
            _ => format!(
                "question {id} could not be said to {} in {}; answer it with `g2 approvals approve {id}` or `deny {id}`",
                self.approver, self.card_chat
            ),
        }
    }
}
