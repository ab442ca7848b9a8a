//! The commands, one file each, all of the same shape: the struct of its fields, who may ask it, `read` (fields →
//! struct), `wants` (what must be looked up), `decide` (effects or a refusal), tests.

pub mod archive_session;
pub mod ask_user;
pub mod cancel_task;
pub mod clear_session;
pub mod list_tasks;
pub mod media;
pub mod pause_task;
pub mod refresh_groups;
pub mod register_group;
pub mod resume_session;
pub mod resume_task;
pub mod schedule_task;
pub mod search_sessions;
pub mod send_message;
pub(crate) mod target;
pub mod update_task;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

pub use archive_session::ArchiveSession;
pub use ask_user::AskUser;
pub use cancel_task::CancelTask;
pub use clear_session::ClearSession;
pub use list_tasks::ListTasks;
pub use media::Media;
pub use pause_task::PauseTask;
pub use refresh_groups::RefreshGroups;
pub use register_group::RegisterGroup;
pub use resume_session::ResumeSession;
pub use resume_task::ResumeTask;
pub use schedule_task::ScheduleTask;
pub use search_sessions::SearchSessions;
pub use send_message::SendMessage;
pub use update_task::UpdateTask;

use crate::{Caller, Effect, Facts, Refusal, Wants, fields::Fields, file::Attach};

/// What an agent may ask for. It serializes to the file that asks for it, without the envelope's fields.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Says something in a chat.
    SendMessage(SendMessage),
    /// Shows a file in a chat.
    Media(Media),
    /// Asks the people of a chat something.
    AskUser(AskUser),
    /// Makes a task.
    ScheduleTask(ScheduleTask),
    /// Changes a task.
    UpdateTask(UpdateTask),
    /// Has a task rest.
    PauseTask(PauseTask),
    /// Has a task run again.
    ResumeTask(ResumeTask),
    /// Removes a task.
    CancelTask(CancelTask),
    /// Lists tasks.
    ListTasks(ListTasks),
    /// Makes an agent for a chat.
    RegisterGroup(RegisterGroup),
    /// Lists the chats that an agent could be registered for.
    RefreshGroups(RefreshGroups),
    /// Starts the conversation afresh.
    ClearSession(ClearSession),
    /// Takes up an archived conversation.
    ResumeSession(ResumeSession),
    /// Finds archived conversations.
    SearchSessions(SearchSessions),
    /// Keeps a conversation under a name.
    ArchiveSession(ArchiveSession),
}

impl Command {
    /// Returns the command's `type`, never an alias.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::SendMessage(_) => send_message::ENTRY.type_name,
            Self::Media(_) => media::ENTRY.type_name,
            Self::AskUser(_) => ask_user::ENTRY.type_name,
            Self::ScheduleTask(_) => schedule_task::ENTRY.type_name,
            Self::UpdateTask(_) => update_task::ENTRY.type_name,
            Self::PauseTask(_) => pause_task::ENTRY.type_name,
            Self::ResumeTask(_) => resume_task::ENTRY.type_name,
            Self::CancelTask(_) => cancel_task::ENTRY.type_name,
            Self::ListTasks(_) => list_tasks::ENTRY.type_name,
            Self::RegisterGroup(_) => register_group::ENTRY.type_name,
            Self::RefreshGroups(_) => refresh_groups::ENTRY.type_name,
            Self::ClearSession(_) => clear_session::ENTRY.type_name,
            Self::ResumeSession(_) => resume_session::ENTRY.type_name,
            Self::SearchSessions(_) => search_sessions::ENTRY.type_name,
            Self::ArchiveSession(_) => archive_session::ENTRY.type_name,
        }
    }

    /// Returns the files that go with what it says, in order.
    #[must_use]
    pub fn files(&self) -> Vec<Attach> {
        match self {
            Self::SendMessage(command) => command.attachments.clone(),
            Self::Media(command) => vec![command.attach()],
            Self::AskUser(_)
            | Self::ScheduleTask(_)
            | Self::UpdateTask(_)
            | Self::ListTasks(_)
            | Self::RegisterGroup(_)
            | Self::RefreshGroups(_)
            | Self::SearchSessions(_)
            | Self::ArchiveSession(_)
            | Self::PauseTask(_)
            | Self::ResumeTask(_)
            | Self::CancelTask(_)
            | Self::ClearSession(_)
            | Self::ResumeSession(_) => Vec::new(),
        }
    }

    /// Whether it changes what happens later: tasks, groups, sessions. The audit tells of these.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::ScheduleTask(_)
            | Self::UpdateTask(_)
            | Self::PauseTask(_)
            | Self::ResumeTask(_)
            | Self::CancelTask(_)
            | Self::RegisterGroup(_)
            | Self::ClearSession(_)
            | Self::ResumeSession(_)
            | Self::ArchiveSession(_) => true,
            Self::SendMessage(_)
            | Self::Media(_)
            | Self::AskUser(_)
            | Self::ListTasks(_)
            | Self::RefreshGroups(_)
            | Self::SearchSessions(_) => false,
        }
    }

    /// Returns whether the command may have the host keep more than that it was given. The others end or free something,
    /// and are heard from a group of which the host keeps no more.
    #[must_use]
    pub fn needs_room(&self) -> bool {
        match self {
            Self::SendMessage(_)
            | Self::Media(_)
            | Self::AskUser(_)
            | Self::ScheduleTask(_)
            | Self::UpdateTask(_)
            | Self::ListTasks(_)
            | Self::RegisterGroup(_)
            | Self::RefreshGroups(_)
            | Self::SearchSessions(_)
            | Self::ArchiveSession(_) => true,
            Self::PauseTask(_)
            | Self::ResumeTask(_)
            | Self::CancelTask(_)
            | Self::ClearSession(_)
            | Self::ResumeSession(_) => false,
        }
    }

    /// Returns what must be looked up before the command is decided.
    #[must_use]
    pub fn wants(&self, caller: &Caller) -> Wants {
        match self {
            Self::SendMessage(command) => command.wants(caller),
            Self::Media(command) => command.wants(caller),
            Self::AskUser(command) => command.wants(caller),
            Self::ScheduleTask(command) => command.wants(caller),
            Self::UpdateTask(command) => command.wants(caller),
            Self::PauseTask(command) => command.wants(caller),
            Self::ResumeTask(command) => command.wants(caller),
            Self::CancelTask(command) => command.wants(caller),
            Self::ListTasks(command) => command.wants(caller),
            Self::RegisterGroup(command) => command.wants(caller),
            Self::RefreshGroups(command) => command.wants(caller),
            Self::ClearSession(command) => command.wants(caller),
            Self::ResumeSession(command) => command.wants(caller),
            Self::SearchSessions(command) => command.wants(caller),
            Self::ArchiveSession(command) => command.wants(caller),
        }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        match self {
            Self::SendMessage(command) => command.decide(caller, facts),
            Self::Media(command) => command.decide(caller, facts),
            Self::AskUser(command) => command.decide(caller, facts),
            Self::ScheduleTask(command) => command.decide(caller, facts),
            Self::UpdateTask(command) => command.decide(caller, facts),
            Self::PauseTask(command) => command.decide(caller, facts),
            Self::ResumeTask(command) => command.decide(caller, facts),
            Self::CancelTask(command) => command.decide(caller, facts),
            Self::ListTasks(command) => command.decide(caller, facts),
            Self::RegisterGroup(command) => command.decide(caller, facts),
            Self::RefreshGroups(command) => command.decide(caller, facts),
            Self::ClearSession(command) => command.decide(caller, facts),
            Self::ResumeSession(command) => command.decide(caller, facts),
            Self::SearchSessions(command) => command.decide(caller, facts),
            Self::ArchiveSession(command) => command.decide(caller, facts),
        }
    }
}

/// Who may ask a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A group for its own chats; main for any address.
    OwnChats,
    /// A group for its own chats; main too.
    OwnChatsAlone,
    /// A group for its own things; main for those of any group.
    Own,
    /// Main alone.
    Main,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnChats => "own chats; main: any, unknown ones too",
            Self::OwnChatsAlone => "own chats; main too",
            Self::Own => "own; main: any",
            Self::Main => "main",
        })
    }
}

/// A command as the catalogue lists it.
pub struct Entry {
    /// The `type`.
    pub type_name: &'static str,
    /// Another `type` that means the same.
    pub alias: Option<&'static str>,
    /// Who may ask it.
    pub who: Who,
    /// A complete command, as a person would write it.
    pub example: &'static str,
    pub(crate) read: fn(&Fields<'_>) -> Result<Command, Refusal>,
}

/// Every command, in the order of the access table.
pub static CATALOGUE: [&Entry; 15] = [
    &send_message::ENTRY,
    &media::ENTRY,
    &ask_user::ENTRY,
    &schedule_task::ENTRY,
    &list_tasks::ENTRY,
    &update_task::ENTRY,
    &pause_task::ENTRY,
    &resume_task::ENTRY,
    &cancel_task::ENTRY,
    &register_group::ENTRY,
    &refresh_groups::ENTRY,
    &clear_session::ENTRY,
    &resume_session::ENTRY,
    &search_sessions::ENTRY,
    &archive_session::ENTRY,
];

/// Returns the command of that `type` or alias.
#[must_use]
pub fn entry(type_name: &str) -> Option<&'static Entry> {
    CATALOGUE
        .iter()
        .copied()
        .find(|entry| entry.type_name == type_name || entry.alias.is_some_and(|alias| alias == type_name))
}

/// Returns the types as a hint lists them.
pub(crate) fn known_types() -> String {
    let name = |entry: &&Entry| match entry.alias {
        Some(alias) => format!("{} (or {alias})", entry.type_name),
        None => entry.type_name.to_owned(),
    };
    CATALOGUE.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the type that was probably meant: the one with the fewest letters to change, a third of them at most.
pub(crate) fn nearest(type_name: &str) -> Option<&'static str> {
    let meant: String =
        type_name.trim().to_ascii_lowercase().replace(['-', ' '], "_").chars().take(64).collect();
    CATALOGUE
        .iter()
        .map(|entry| (strsim::levenshtein(&meant, entry.type_name), entry.type_name))
        .filter(|(changes, name)| changes * 3 <= name.len())
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod matrix;
#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_command_of_its_type_and_writes_back_to_itself() {
        for entry in CATALOGUE {
            let command = crate::parse(entry.example.as_bytes()).unwrap().command;
            assert_eq!(command.type_name(), entry.type_name);
            let written = serde_json::to_vec(&command).unwrap();
            assert_eq!(crate::parse(&written).unwrap().command, command, "{}", entry.type_name);
            if let Some(alias) = entry.alias {
                let aliased = entry.example.replacen(entry.type_name, alias, 1);
                assert_eq!(crate::parse(aliased.as_bytes()).unwrap().command, command);
            }
        }
    }

    #[test]
    fn the_access_table_of_the_readme_says_what_the_code_does() {
        let rows: Vec<(String, String)> = include_str!("../../README.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .map(|row| {
                let (command, who) = row.trim_end_matches([' ', '|']).split_once(" | ").unwrap();
                (format!("`{}", command.trim()), who.trim().to_owned())
            })
            .collect();
        let code: Vec<(String, String)> = CATALOGUE
            .iter()
            .map(|entry| {
                let alias = entry.alias.map_or(String::new(), |alias| format!(" (alias `{alias}`)"));
                (format!("`{}`{alias}", entry.type_name), entry.who.to_string())
            })
            .collect();
        assert_eq!(rows, code);
    }

    #[test]
    fn a_misspelt_type_finds_its_command_and_a_strange_one_none() {
        for (written, meant) in [
            ("send-message", Some("send_message")),
            ("Send_Message", Some("send_message")),
            ("sendmessage", Some("send_message")),
            ("schedule_tasks", Some("schedule_task")),
            ("list_task", Some("list_tasks")),
            ("cancel_tasks", Some("cancel_task")),
            ("clear_sesion", Some("clear_session")),
            ("x", None),
            ("refresh_grups", Some("refresh_groups")),
        ] {
            assert_eq!(nearest(written), meant, "{written}");
        }
    }
}
