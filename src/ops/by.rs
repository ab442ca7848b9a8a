//! Who asks for an operation, and what they may ask for.

use std::fmt;

use ipc_handlers::{Caller, Folder, words};

use crate::domain::{
    machine::web::Purpose,
    runs::budget::Part,
    shown::{audit::Origin, screen::acts},
};

use super::{Op, OpCode, OpError};
use crate::domain::shown::screen::quoted;

words! {
    /// Who may ask for an operation beside the owner, as `operations!` says for each.
    pub enum Asker: "caller" {
        /// A session of the operator's page.
        Page = "page",
        /// A program by a token for operating. None of these operations makes, changes, connects or removes anything, takes words
        /// for an agent, or names a program, a path or a secret: who takes such a token gets no further by it.
        Token = "token",
        /// An agent, as it may by its mailbox.
        Agent = "agent",
        /// A person in a chat, who answers questions as themselves; the store knows who may.
        Person = "person",
    }
}

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
    /// Somebody at the operator's page, who was let in by its ticket, by the number of their session.
    Page { session: i64 },
    /// A program at the page, by its token.
    Token { name: String, purpose: Purpose },
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
            Self::Page { .. } | Self::Token { .. } => Origin::Page,
            Self::Agent(_) => Origin::Agent,
            Self::Person { .. } => Origin::Chat,
        }
    }

    /// Returns the group whose agent asks.
    pub(super) fn agent(&self) -> Option<&Folder> {
        match self {
            Self::Agent(caller) => Some(&caller.group),
            Self::Owner { .. } | Self::Page { .. } | Self::Token { .. } | Self::Person { .. } => None,
        }
    }

    /// Whether they may ask for this at all. An operation has rules of its own beside.
    ///
    /// # Errors
    /// [`OpCode::NotAuthorized`].
    pub fn may(&self, op: &Op) -> Result<(), OpError> {
        let asker = match self {
            Self::Owner { .. } => return Ok(()),
            Self::Page { .. } => Asker::Page,
            Self::Token { purpose: Purpose::Operate, .. } => Asker::Token,
            Self::Token { purpose: Purpose::Metrics, .. } => return Err(self.may_not_operate()),
            Self::Agent(_) => Asker::Agent,
            Self::Person { .. } => Asker::Person,
        };
        match Op::described(op.name()).is_some_and(|op| op.asked_by.contains(&asker)) {
            true if asker == Asker::Page => on_page(op),
            true => Ok(()),
            false if asker == Asker::Token => Err(self
                .may_not(op.name())
                .hint("no token is good for it: use `g2` or data/g2.sock; `g2 ops schema` lists what a token may ask for")),
            false => Err(self.may_not(op.name())),
        }
    }

    /// Returns as whom a command of agents is done for `group`: the owner has main's rights, and no agent has another's.
    ///
    /// # Errors
    /// [`OpCode::NotAuthorized`].
    pub(super) fn caller(&self, group: &Folder) -> Result<Caller, OpError> {
        match self {
            Self::Owner { .. } | Self::Page { .. } | Self::Token { .. } => {
                Ok(Caller { group: group.clone(), is_main: true, run: None })
            }
            Self::Agent(caller) if caller.group == *group => Ok(caller.clone()),
            Self::Agent(caller) if caller.is_main => Ok(Caller { group: group.clone(), ..caller.clone() }),
            Self::Agent(_) | Self::Person { .. } => Err(self.may_not(&format!("a change of group {group}"))),
        }
    }

    /// Returns who it is, in as many bytes as a row has room for.
    pub(crate) fn short(&self) -> String {
        self.to_string().chars().filter(|c| !acts(*c)).take(50).collect()
    }

    /// Says that a token which is there to read figures does nothing, and what would.
    pub(crate) fn may_not_operate(&self) -> OpError {
        self.may_not("any operation").hint("make another token: `g2 web tokens add NAME --purpose operate`")
    }

    fn may_not(&self, what: &str) -> OpError {
        OpError::new(OpCode::NotAuthorized, format!("{self} may not ask for {what}"))
    }
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
            Self::Page { session } => write!(f, "page in session {session}"),
            Self::Token { name, purpose } => write!(f, "token {name} (for {purpose})"),
            Self::Agent(Caller { group, run, is_main: _ }) => match run {
                Some(seat) => write!(f, "agent of {group} in run {}", seat.run),
                None => write!(f, "agent of {group}"),
            },
            Self::Person { user, chat } => write!(f, "{} in {}", quoted(user), quoted(chat)),
        }
    }
}

/// Settings of an account that the page may give: none of them names a program or a file.
const OF_ACCOUNTS: [&str; 7] = ["homeserver", "invites_from", "user", "imap", "smtp", "authserv", "account"];

/// Whether the page may ask for an operation with these arguments: who has a browser that is in starts no program of their own.
///
/// # Errors
/// [`OpCode::NotAuthorized`], with the way to do it.
fn on_page(op: &Op) -> Result<(), OpError> {
    let fits = match op {
        Op::ConfigSet(set) => Part::ALL.iter().any(|part| set.name == format!("budget.{part}")),
        Op::ChannelsAdd(add) => {
            add.program.is_empty() && add.settings.keys().all(|key| OF_ACCOUNTS.contains(&key.as_str()))
        }
        Op::GroupsRestore(restore) => restore.from.is_none(),
        _ => true,
    };
    let text = "the page may not ask for this: it names a program or a file of this machine";
    match fits {
        true => Ok(()),
        false => Err(OpError::new(OpCode::NotAuthorized, text).hint("use `g2` on this machine")),
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
        let page = By::Page { session: 3 };
        let token = |purpose| By::Token { name: "t".into(), purpose };
        let (figures, operates) = (token(Purpose::Metrics), token(Purpose::Operate));
        for (op, args, on_page, by_token, agents, people) in [
            ("tasks.pause", json!({"id": "t"}), true, true, true, false),
            ("tasks.run", json!({"id": "t"}), true, true, false, false),
            ("groups.remove", json!({"folder": "a"}), true, false, false, false),
            ("groups.restore", json!({"folder": "a"}), true, false, false, false),
            ("groups.restore", json!({"folder": "a", "from": "/x.tar"}), false, false, false, false),
            ("approvals.deny", json!({"id": 1}), true, false, false, true),
            ("web.revoke", json!({"id": 1}), true, false, false, false),
            ("web.open", json!({}), false, false, false, false),
            ("egress.allow", json!({"group": "a", "host": "a.example"}), true, false, false, false),
            ("config.set", json!({"name": "budget.tokens", "value": "5"}), true, false, false, false),
            ("config.set", json!({"name": "agent.acp.command", "value": "sh"}), false, false, false, false),
            ("channels.add", json!({"name": "telegram", "token": "t"}), true, false, false, false),
            (
                "channels.add",
                json!({"name": "matrix", "settings": {"homeserver": "https://a"}}),
                true,
                false,
                false,
                false,
            ),
            ("channels.add", json!({"name": "toy", "program": ["sh"]}), false, false, false, false),
            (
                "channels.add",
                json!({"name": "toy", "settings": {"command": ["sh"]}}),
                false,
                false,
                false,
                false,
            ),
        ] {
            let op = Op::read(json!({"name": op, "args": args})).unwrap();
            for (by, may) in [
                (&owner, true),
                (&page, on_page),
                (&operates, by_token),
                (&figures, false),
                (&agent, agents),
                (&main, agents),
                (&person, people),
            ] {
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
        let said = [owner, page, operates, agent, person].map(|by| by.to_string());
        let expected = [
            "uid 0 (root) for 'a b'",
            "page in session 3",
            "token t (for operate)",
            "agent of a",
            "tg:1 in tg:-2",
        ];
        assert_eq!(said, expected);
    }
}
