//! Questions to people: whether a sender is to be heard, and what to do with a chat that no group is wired to.
//!
//! | state | means |
//! |---|---|
//! | `pending` | somebody was asked, or a chat with them is being opened |
//! | `approved` `denied` | they have answered |
//! | `expired` | nobody did in [`LIFE_MS`], or the groups that it was about were removed |
//! | `undeliverable` | nobody could be reached; the next message asks again, and the command line can answer |
//!
//! This module decides the person to ask, the text of the card and the meaning of an answer. Nothing is stored, and an answer of
//! somebody without the right to it is none.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, words};
use serde::{Deserialize, Serialize};

pub mod answer;
pub mod approver;
pub mod chat;
pub mod name;
mod row;
pub mod wording;

pub use row::{Approval, ApprovalEvent};

/// How long a question stays open, ms.
pub const LIFE_MS: i64 = 7 * 24 * 3_600_000;
/// Time to answer with a new agent's name, ms. A later text is a message again.
pub const NAMING_MS: i64 = 600_000;
/// At most this many messages wait for the answer to one question: the newest.
pub const WAITING: usize = 50;
/// The most questions that are open at a time: strangers must not fill a chat with cards.
pub const OPEN: i64 = 100;
/// At most this many of them are about senders of one chat, so that one crowd does not use up all questions.
pub const OPEN_IN_CHAT: i64 = 20;

/// Says which bound on open questions is reached, if one is: while it is, strangers are counted and nobody is told of
/// them.
#[must_use]
pub fn full(open: &[Approval]) -> Option<String> {
    let reached = |n: usize, bound: i64| i64::try_from(n).is_ok_and(|n| n >= bound);
    let pending = || open.iter().filter(|approval| approval.state == State::Pending);
    if reached(pending().count(), OPEN) {
        return Some(format!("{OPEN} questions wait for an answer, and nobody is asked about anybody else"));
    }
    let mut chats = BTreeMap::new();
    for approval in pending().filter(|approval| approval.kind == ApprovalKind::Sender) {
        *chats.entry(approval.chat_jid.as_str()).or_insert(0) += 1;
    }
    let (chat, _) = chats.into_iter().find(|(_, n)| reached(*n, OPEN_IN_CHAT))?;
    Some(format!(
        "{OPEN_IN_CHAT} questions about senders of {chat} wait for an answer, and nobody is asked about others there"
    ))
}

words! {
    /// What a question is about.
    #[derive(schemars::JsonSchema)]
    pub enum ApprovalKind: "kind of question" {
        /// Whether a sender is to be heard.
        Sender = "sender",
        /// What to do with a chat that no group is wired to.
        Channel = "channel",
    }
}

words! {
    /// How a question stands.
    #[derive(schemars::JsonSchema)]
    pub enum State: "state of a question" {
        /// Somebody was asked.
        Pending = "pending",
        /// The answer was yes.
        Approved = "approved",
        /// The answer was no.
        Denied = "denied",
        /// Nobody answered in [`LIFE_MS`], or the groups that it was about were removed.
        Expired = "expired",
        /// Nobody could be reached; the next message asks again, and the command line can answer.
        Undeliverable = "undeliverable",
    }
}

/// One answer that a card offers, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub label: String,
    pub action: Action,
}

/// What an answer does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The groups in question know the sender from now on.
    Allow,
    Deny,
    /// The chat is wired to this group.
    Connect(Folder),
    /// The chat is wired to a group that is made for it.
    New,
    Ignore,
}

words! {
    /// What an answer does, in a word.
    #[derive(schemars::JsonSchema)]
    pub enum Decision: "answer to a question" {
        Allow = "allow",
        Deny = "deny",
        /// To a group that is named beside it.
        Connect = "connect",
        New = "new",
        Ignore = "ignore",
    }
}

/// What somebody may decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// An owner, or an admin of everything.
    Everything,
    /// An admin of these groups; of none: nobody.
    Groups(Vec<Folder>),
}

impl Action {
    /// Whether it leaves everything as it is.
    #[must_use]
    pub fn is_no(&self) -> bool {
        matches!(self, Self::Deny | Self::Ignore)
    }

    /// Returns its word.
    #[must_use]
    pub fn decision(&self) -> Decision {
        match self {
            Self::Allow => Decision::Allow,
            Self::Deny => Decision::Deny,
            Self::Connect(_) => Decision::Connect,
            Self::New => Decision::New,
            Self::Ignore => Decision::Ignore,
        }
    }

    /// Returns the group that it names.
    #[must_use]
    pub fn group(&self) -> Option<&Folder> {
        match self {
            Self::Connect(group) => Some(group),
            Self::Allow | Self::Deny | Self::New | Self::Ignore => None,
        }
    }

    /// Returns the action of a word, with the group that stands beside it; `None`: it needs one, and there is none.
    #[must_use]
    pub fn of(decision: Decision, group: Option<Folder>) -> Option<Self> {
        Some(match decision {
            Decision::Allow => Self::Allow,
            Decision::Deny => Self::Deny,
            Decision::Connect => Self::Connect(group?),
            Decision::New => Self::New,
            Decision::Ignore => Self::Ignore,
        })
    }

    /// Returns the action as people and the audit are told of it: its word, and the group that it names.
    #[must_use]
    pub fn name(&self) -> String {
        match self.group() {
            Some(group) => format!("{} {group}", self.decision()),
            None => self.decision().to_string(),
        }
    }
}

impl Rights {
    /// Whether they include decisions for a group.
    #[must_use]
    pub fn over(&self, group: &Folder) -> bool {
        match self {
            Self::Everything => true,
            Self::Groups(groups) => groups.contains(group),
        }
    }

    /// Whether they allow this answer to a question about `groups`. A person who may decide for one of the groups
    /// may answer for that one; a question about no group needs a person who may decide everything.
    #[must_use]
    pub fn allow(&self, action: &Action, groups: &[Folder]) -> bool {
        match (self, action) {
            (Self::Everything, _) => true,
            (Self::Groups(_), Action::Allow | Action::Deny) => groups.iter().any(|group| self.over(group)),
            (Self::Groups(_), Action::Connect(group)) => self.over(group),
            (Self::Groups(_), Action::New | Action::Ignore) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Folder {
        Folder::parse(name).unwrap()
    }

    #[test]
    fn a_group_s_admin_decides_for_that_group_alone() {
        let asked = [folder("family"), folder("work")];
        let rights = |groups: &[&str]| Rights::Groups(groups.iter().map(|g| folder(g)).collect());
        let table = [
            (Rights::Everything, [true, true, true, true, true]),
            (rights(&["family"]), [true, true, true, false, false]),
            (rights(&["other"]), [false, false, false, false, false]),
            (rights(&[]), [false, false, false, false, false]),
        ];
        let actions =
            [Action::Allow, Action::Deny, Action::Connect(folder("family")), Action::New, Action::Ignore];
        for (rights, expected) in table {
            let allowed = actions.clone().map(|action| rights.allow(&action, &asked));
            assert_eq!(allowed, expected, "{rights:?}");
        }
    }

    #[test]
    fn an_action_is_its_word_and_its_group_and_nothing_else() {
        for (word, decision) in Decision::CHOICES {
            let action = Action::of(*decision, Some(folder("family"))).unwrap();
            assert_eq!(action.decision(), *decision);
            assert_eq!(Action::of(*decision, action.group().cloned()), Some(action.clone()));
            let name = if *decision == Decision::Connect { "connect family" } else { *word };
            assert_eq!(action.name(), name);
        }
        assert_eq!(Action::of(Decision::Connect, None), None);
    }

    #[test]
    fn a_choice_is_stored_as_label_and_action() {
        let choice = Choice { label: "Connect to Family".into(), action: Action::Connect(folder("family")) };
        let json = serde_json::to_string(&choice).unwrap();
        assert_eq!(json, r#"{"label":"Connect to Family","action":{"connect":"family"}}"#);
        assert_eq!(serde_json::from_str::<Choice>(&json).unwrap(), choice);
    }
}
