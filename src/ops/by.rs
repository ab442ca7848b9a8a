//! Who asks for an operation, and what they may ask for.

use std::fmt;

use ipc_handlers::{Caller, Folder};

use crate::domain::host::{audit::Origin, screen::acts};

use super::{Op, OpCode, OpError, audit::quoted};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The user of this machine who owns the root, or its administrator.
    Owner {
        uid: u32,
        /// The user's name, where the machine knows one.
        name: Option<String>,
        /// Who called `sudo`, as they say.
        before: Option<String>,
        /// By what they ask.
        from: Origin,
    },
    /// Somebody at the operator's page, who was let in by its ticket.
    Page {
        /// The number of their session; `None`: a script, by its token.
        session: Option<i64>,
    },
    /// An agent.
    Agent(Caller),
    /// A person in a chat, by their user id.
    Person { user: String, chat: String },
}

impl By {
    /// Returns the user with this number.
    #[must_use]
    pub fn owner(uid: u32, before: Option<String>, from: Origin) -> Self {
        // A user who is no administrator acts under no other name.
        let before = before.filter(|_| uid == 0);
        Self::Owner { uid, name: crate::system::process::user_name(uid), before, from }
    }

    /// Returns where the change comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Owner { from, .. } => *from,
            Self::Page { .. } => Origin::Page,
            Self::Agent(_) => Origin::Agent,
            Self::Person { .. } => Origin::Chat,
        }
    }

    /// Returns the group whose agent asks.
    pub(super) fn agent(&self) -> Option<&Folder> {
        match self {
            Self::Agent(caller) => Some(&caller.group),
            Self::Owner { .. } | Self::Page { .. } | Self::Person { .. } => None,
        }
    }

    /// Whether they may ask for this at all. An operation has rules of its own beside.
    ///
    /// # Errors
    /// [`OpCode::NotAuthorized`].
    pub fn may(&self, op: &Op) -> Result<(), OpError> {
        let may = match self {
            Self::Owner { .. } => true,
            Self::Page { .. } => is_for_the_page(op),
            Self::Agent(_) => is_for_agents(op),
            Self::Person { .. } => is_for_people(op),
        };
        if may { Ok(()) } else { Err(self.may_not(op.name())) }
    }

    /// Returns as whom a command of agents is done for `group`: the owner has main's rights, and no agent has another's.
    ///
    /// # Errors
    /// [`OpCode::NotAuthorized`].
    pub(super) fn caller(&self, group: &Folder) -> Result<Caller, OpError> {
        match self {
            Self::Owner { .. } | Self::Page { .. } => {
                Ok(Caller { group: group.clone(), is_main: true, run: None })
            }
            Self::Agent(caller) if caller.group == *group => Ok(caller.clone()),
            Self::Agent(caller) if caller.is_main => Ok(Caller { group: group.clone(), ..caller.clone() }),
            Self::Agent(_) | Self::Person { .. } => Err(self.may_not(&format!("a change of group {group}"))),
        }
    }

    /// Returns who it is, in as many bytes as a row has room for.
    pub(super) fn short(&self) -> String {
        self.to_string().chars().filter(|c| !acts(*c)).take(50).collect()
    }

    fn may_not(&self, what: &str) -> OpError {
        OpError::new(OpCode::NotAuthorized, format!("{self} may not ask for {what}"))
    }
}

/// Whether the page may ask for it: all but a ticket, so that a session does not outlive its end by others.
fn is_for_the_page(op: &Op) -> bool {
    !matches!(op, Op::WebOpen(_))
}

/// Whether agents may ask for it, as they may by their mailbox.
fn is_for_agents(op: &Op) -> bool {
    matches!(
        op,
        Op::TasksAdd(_)
            | Op::TasksUpdate(_)
            | Op::TasksPause(_)
            | Op::TasksResume(_)
            | Op::TasksCancel(_)
            | Op::SessionsArchive(_)
            | Op::SessionsResume(_)
            | Op::SessionsClear(_)
    )
}

/// Whether people may ask for it in a chat: they answer questions, as themselves, and the store knows who may.
fn is_for_people(op: &Op) -> bool {
    matches!(op, Op::ApprovalsApprove(_) | Op::ApprovalsDeny(_) | Op::ApprovalsDenyMany(_))
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { uid, name, before, from: _ } => {
                write!(f, "uid {uid}")?;
                if let Some(name) = name {
                    write!(f, " ({name})")?;
                }
                match before {
                    Some(before) => write!(f, " for {}", quoted(before)),
                    None => Ok(()),
                }
            }
            Self::Page { session: Some(session) } => write!(f, "page in session {session}"),
            Self::Page { session: None } => write!(f, "script at the page"),
            Self::Agent(Caller { group, run, is_main: _ }) => match run {
                Some(seat) => write!(f, "agent of {group} in run {}", seat.run),
                None => write!(f, "agent of {group}"),
            },
            Self::Person { user, chat } => write!(f, "{} in {}", quoted(user), quoted(chat)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everybody_may_ask_for_what_is_theirs() {
        let folder = |name: &str| Folder::parse(name).unwrap();
        let owner = By::Owner {
            uid: 0,
            name: Some("root".into()),
            before: Some("a b".into()),
            from: Origin::Program,
        };
        let agent = By::Agent(Caller { group: folder("a"), is_main: false, run: None });
        let main = By::Agent(Caller { group: folder("main"), is_main: true, run: None });
        let person = By::Person { user: "tg:1".into(), chat: "tg:-2".into() };
        let page = By::Page { session: Some(3) };
        for (op, args, on_page, agents, people) in [
            ("tasks.pause", json!({"id": "t"}), true, true, false),
            ("tasks.run", json!({"id": "t"}), true, false, false),
            ("groups.remove", json!({"folder": "a"}), true, false, false),
            ("approvals.deny", json!({"id": 1}), true, false, true),
            ("web.revoke", json!({"id": 1}), true, false, false),
            ("web.open", json!({}), false, false, false),
        ] {
            let op = Op::read(json!({"name": op, "args": args})).unwrap();
            for (by, may) in
                [(&owner, true), (&page, on_page), (&agent, agents), (&main, agents), (&person, people)]
            {
                assert_eq!(by.may(&op).is_ok(), may, "{by} {op:?}");
            }
        }
        let group_of =
            |by: &By| by.caller(&folder("b")).map(|caller| (caller.group.to_string(), caller.is_main));
        assert_eq!(group_of(&owner), Ok(("b".into(), true)));
        assert_eq!(group_of(&page), Ok(("b".into(), true)));
        assert_eq!(group_of(&main), Ok(("b".into(), true)));
        assert!(agent.caller(&folder("a")).is_ok_and(|caller| !caller.is_main));
        for by in [&agent, &person] {
            assert_eq!(group_of(by).unwrap_err().code, OpCode::NotAuthorized);
        }
        let said = [owner, page, By::Page { session: None }, agent, person].map(|by| by.to_string());
        let expected = [
            "uid 0 (root) for 'a b'",
            "page in session 3",
            "script at the page",
            "agent of a",
            "tg:1 in tg:-2",
        ];
        assert_eq!(said, expected);
    }
}
