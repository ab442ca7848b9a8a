//! What a decision must know, as plain values. The store reads them in the transaction that applies the effects.

use jiff::tz::TimeZone;

use crate::{Caller, Folder, Time};

/// What the store must look up before [`crate::decide`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The chat for [`Facts::chat`].
    pub chat: Option<String>,
    /// The task for [`Facts::task`].
    pub task: Option<String>,
    /// The group for [`Facts::folder_exists`].
    pub folder: Option<Folder>,
}

/// What is known. What was not wanted may be left `None`, `false` or empty, but for `now`, the zone and
/// `own_chats`, which are always given.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The instant of the decision.
    pub now: Time,
    /// The user's zone.
    pub zone: TimeZone,
    /// The zone's IANA name, for messages.
    pub zone_name: String,
    /// The wanted chat; `None` when no chat of that address is known.
    pub chat: Option<ChatFacts>,
    /// The chats wired to the caller's group, in the order they were wired.
    pub own_chats: Vec<String>,
    /// The wanted task, whoever's it is; `None` when there is none of that id.
    pub task: Option<TaskFacts>,
    /// Whether the wanted folder is a group's.
    pub folder_exists: bool,
}

/// A known chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatFacts {
    /// Its address.
    pub jid: String,
    /// The groups wired to it, in the order they were wired; empty for a chat that is only known.
    pub groups: Vec<Folder>,
}

/// A task on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub group: Folder,
}

impl Facts {
    /// Returns the groups wired to `jid`; none when the facts are about another chat.
    pub(crate) fn groups_of(&self, jid: &str) -> &[Folder] {
        match &self.chat {
            Some(chat) if chat.jid == jid => &chat.groups,
            Some(_) | None => &[],
        }
    }

    /// Returns whether `jid` is wired to the caller's group.
    pub(crate) fn is_own_chat(&self, caller: &Caller, jid: &str) -> bool {
        self.own_chats.iter().any(|own| own == jid) || self.groups_of(jid).contains(&caller.group)
    }

    /// Returns whether the wanted task is `id` and the caller may touch it.
    pub(crate) fn may_touch_task(&self, caller: &Caller, id: &str) -> bool {
        self.task.as_ref().is_some_and(|task| task.id == id && caller.may_touch(&task.group))
    }
}
