//! A question as the command line shows it.

use ipc_handlers::{Folder, Time};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Action, ApprovalKind, State};
use crate::rows::{rfc3339, rfc3339_option};

/// A question to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Approval {
    pub id: i64,
    pub kind: ApprovalKind,
    pub chat_jid: String,
    /// Whom the card names: the first one who spoke.
    pub sender: String,
    pub sender_name: String,
    /// The groups that it is about; none for a chat that is wired to none.
    pub groups: Vec<String>,
    pub state: State,
    pub approver: String,
    /// Where the approver is asked; empty: the chat with them is still to be opened.
    pub card_chat: String,
    /// What it can be answered with, in order.
    pub options: Vec<String>,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub created_at: Time,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub expires_at: Time,
    #[serde(serialize_with = "rfc3339_option")]
    #[schemars(with = "Option<String>")]
    pub decided_at: Option<Time>,
    pub decided_by: Option<String>,
    /// What the answer was. In JSON `decision`, with the group if it names one (`connect family`), and that as `decided_group`.
    #[serde(flatten, serialize_with = "decided")]
    #[schemars(with = "Decided")]
    pub decision: Option<Action>,
    /// The messages that wait, or waited, for the answer.
    pub messages: Vec<i64>,
}

/// An answer, as `--json` has it.
#[derive(Serialize, JsonSchema)]
struct Decided {
    /// With the group if the answer names one: `connect family`.
    decision: Option<String>,
    decided_group: Option<Folder>,
}

fn decided<S: Serializer>(action: &Option<Action>, serializer: S) -> Result<S::Ok, S::Error> {
    let action = action.as_ref();
    Decided { decision: action.map(Action::name), decided_group: action.and_then(Action::group).cloned() }
        .serialize(serializer)
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
        let answer = |otherwise: &str| self.decision.as_ref().map_or(otherwise.to_owned(), Action::name);
        match self.state {
            State::Pending if self.card_chat.is_empty() => {
                format!("question {id} is for {}, with whom a chat is being opened", self.approver)
            }
            State::Pending => {
                format!("question {id} waits for {}, who was asked in {}", self.approver, self.card_chat)
            }
            State::Approved => {
                format!("question {id} was answered by {by}: {}", answer("yes"))
            }
            State::Denied => {
                format!("question {id} was answered by {by}: {}", answer("no"))
            }
            State::Expired if self.decided_by.is_some() => {
                format!("question {id} is closed: the groups that it was about were removed")
            }
            State::Expired => format!("nobody answered question {id} in time"),
            State::Undeliverable if self.card_chat.is_empty() => format!(
                "question {id} reached nobody, last {} with whom no chat could be opened; answer it with `g2 approvals approve {id}` or `deny {id}`",
                self.approver
            ),
            State::Undeliverable => format!(
                "question {id} could not be said to {} in {}; answer it with `g2 approvals approve {id}` or `deny {id}`",
                self.approver, self.card_chat
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_answer_as_one_text_and_its_group_by_itself() {
        let approval = |decision| Approval {
            id: 1,
            kind: ApprovalKind::Channel,
            chat_jid: "tg:1".into(),
            sender: "tg:2".into(),
            sender_name: "Bob".into(),
            groups: Vec::new(),
            state: State::Approved,
            approver: "local:me".into(),
            card_chat: "local:main".into(),
            options: Vec::new(),
            created_at: Time(0),
            expires_at: Time(0),
            decided_at: Some(Time(0)),
            decided_by: Some("local:me".into()),
            decision,
            messages: Vec::new(),
        };
        for (action, expected) in [
            (
                Some(Action::Connect(Folder::parse("family").unwrap())),
                r#""decision":"connect family","decided_group":"family","#,
            ),
            (Some(Action::Allow), r#""decision":"allow","decided_group":null,"#),
            (None, r#""decision":null,"decided_group":null,"#),
        ] {
            let json = serde_json::to_string(&approval(action)).unwrap();
            assert!(json.contains(expected), "{json}");
        }
    }
}
