//! What a decision must know, as plain values. The store reads them in the transaction that applies the effects.

use jiff::tz::TimeZone;

use crate::{
    Caller, Code, Folder, Refusal, ScheduleKind, Scope, TaskStatus, Time, commands::target, effect::CatchUp,
    refusal::quoted,
};

/// What the store must look up before [`crate::decide`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The chat for [`Facts::chat`].
    pub chat: Option<String>,
    /// The id for [`Facts::tasks`], and the one group whose it is, where the command names one.
    pub task: Option<(String, Option<Folder>)>,
    /// The folder for [`Facts::group`].
    pub folder: Option<Folder>,
    /// The archived session for [`Facts::archive`], and whose it may be.
    pub archive: Option<(i64, Scope)>,
}

/// The facts for a decision. Those that were not wanted may be left `None` or empty, but for the times, the zone and `own_chats`, which
/// are always given.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The instant of the decision.
    pub now: Time,
    /// When the command was given, as far as that is known; never after `now`. It may have waited for a host that was down.
    pub asked: Time,
    /// The zone of the group that it is about.
    pub zone: TimeZone,
    /// The zone's IANA name, for messages.
    pub zone_name: String,
    /// The wanted chat; `None` when no chat of that address is known.
    pub chat: Option<ChatFacts>,
    /// The chats wired to the caller's group, in the order they were wired.
    pub own_chats: Vec<String>,
    /// The tasks of the wanted id: that of the named group, otherwise the caller's own first and, for main, those of
    /// others. Ids are unique within a group only.
    pub tasks: Vec<TaskFacts>,
    /// The group of the wanted folder; `None` when there is none.
    pub group: Option<GroupFacts>,
    /// How many groups there are, for a wanted folder that is no group's.
    pub groups: GroupCount,
    /// The wanted archived session; `None` when there is none of that id in that scope.
    pub archive: Option<ArchiveFacts>,
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
    /// What kind of schedule it has.
    pub schedule_type: ScheduleKind,
    /// As it was written.
    pub schedule_value: String,
    /// Whether it will run.
    pub status: TaskStatus,
    /// When it runs next.
    pub next_run: Option<Time>,
    /// The slot that it tries again then, or makes up for; `None`: `next_run` is the slot.
    pub slot: Option<Time>,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
}

/// How many groups there are, and may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCount {
    /// All groups, main too.
    pub count: usize,
    /// A group is made while there are fewer.
    pub most: usize,
}

/// A group on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// Its folder.
    pub folder: Folder,
    /// Whether it is the privileged one.
    pub is_main: bool,
}

/// An archived session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFacts {
    /// Its id.
    pub id: i64,
    /// Whose it is.
    pub group: Folder,
    /// The agent's own name for the conversation.
    pub session_id: String,
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

    /// Returns the wanted task: that of the group `target`, otherwise the caller's own, otherwise the only one.
    ///
    /// # Errors
    /// `not_found`, whether it is absent or another group's; `not_authorized` where somebody but main names another
    /// group; `conflict` where several groups have a task of that id, none of them the caller's.
    pub(crate) fn task(
        &self,
        caller: &Caller,
        id: &str,
        target: Option<&Folder>,
    ) -> Result<&TaskFacts, Refusal> {
        target::allowed(target, caller)?;
        let group = target.unwrap_or(&caller.group);
        let fits = |task: &&TaskFacts| task.id == id && caller.may_touch(&task.group);
        if let Some(named) = self.tasks.iter().filter(fits).find(|task| task.group == *group) {
            return Ok(named);
        }
        let others: Vec<&TaskFacts> = self.tasks.iter().filter(fits).filter(|_| target.is_none()).collect();
        match others.as_slice() {
            [only] => Ok(only),
            [] => Err(Refusal::no_such_task(id)),
            [one, other, ..] => Err(Refusal::new(
                Code::Conflict,
                format!("{} groups have a task of the id {}", others.len(), quoted(id)),
                format!("add targetFolder, for example \"{}\" or \"{}\"", one.group, other.group),
            )),
        }
    }
}
