//! What a command changes, as data: the store performs it, in the transaction of the command's receipt.

use serde::{Deserialize, Serialize};

use crate::{Folder, Schedule, Scope, Time};

/// One change. Authority travels with it as a [`Scope`] or as the group that owns what is made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Puts a message into the outbox.
    Say {
        /// The chat; unknown ones are possible when main asks.
        chat_jid: String,
        /// What to say, `<internal>` blocks already taken out; never empty.
        text: String,
        /// The name to speak under, where the channel can.
        sender: Option<String>,
        /// The platform's id of the message that is answered.
        reply_to: Option<String>,
    },
    /// Stores a new active task.
    CreateTask(NewTask),
    /// Reads the tasks in `scope`, newest first.
    ListTasks {
        /// Whose tasks.
        scope: Scope,
    },
    /// Removes a task with its history.
    CancelTask {
        /// The task.
        id: String,
        /// Whose tasks it may be.
        scope: Scope,
    },
    /// Makes lanes forget their session: the next batch starts afresh.
    ClearSession {
        /// The group.
        target: Folder,
        /// Which of its lanes.
        lanes: Lanes,
        /// The name to archive the session under first; `None` archives nothing.
        archive_as: Option<String>,
    },
}

/// A task to be made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewTask {
    /// The id that the agent chose; the store makes one when it is `None`.
    pub id: Option<String>,
    /// The group whose agent runs it.
    pub group: Folder,
    /// The chat it is for.
    pub chat_jid: String,
    /// What the agent is told.
    pub prompt: String,
    /// When it runs.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Whether it runs in the lane's session.
    pub context_mode: ContextMode,
    /// A script that runs before the agent and may call it off.
    pub script: Option<String>,
    /// What happens to occurrences that were missed.
    pub catch_up: CatchUp,
    /// Where what the agent says goes.
    pub output: OutputMode,
    /// When it runs first; in the past for a `once` that is overdue, which runs at once.
    pub next_run: Time,
}

/// Which lanes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lanes {
    /// The lane of this id.
    One(i64),
    /// Every lane.
    All,
}

/// Whether a task runs in the group's conversation or in one of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// In the session of the lane.
    Group,
    /// In a fresh session.
    #[default]
    Isolated,
}

/// What happens to occurrences that were missed while nothing could run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// They become one run.
    #[default]
    Latest,
    /// Each is run, 24 at most.
    All,
    /// None is run.
    Skip,
}

/// Where goes what the agent says while it runs a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// Into the task's history; the agent speaks by `send_message`.
    #[default]
    History,
    /// To the task's chat.
    Chat,
}

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ }) => {
        impl $type {
            /// Returns the name on the wire and in the store.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the value of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
pub(crate) use names;

names!(ContextMode { Group = "group", Isolated = "isolated" });
names!(CatchUp { Latest = "latest", All = "all", Skip = "skip" });
names!(OutputMode { History = "history", Chat = "chat" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_the_wire_and_read_back() {
        for mode in [ContextMode::Group, ContextMode::Isolated] {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
            assert_eq!(ContextMode::from_name(mode.as_str()), Some(mode));
        }
        for policy in [CatchUp::Latest, CatchUp::All, CatchUp::Skip] {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
            assert_eq!(CatchUp::from_name(policy.as_str()), Some(policy));
        }
        for output in [OutputMode::History, OutputMode::Chat] {
            assert_eq!(serde_json::to_value(output).unwrap(), output.as_str());
            assert_eq!(OutputMode::from_name(output.as_str()), Some(output));
        }
        assert_eq!(CatchUp::from_name("Latest"), None);
    }
}
