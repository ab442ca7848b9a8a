//! What a command changes, as data: the store performs it, in the transaction of the command's receipt.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Folder, Schedule, Scope, TaskStatus, Time, file::Attach, words};

/// One change. Authority travels with it as a [`Scope`] or as the group that owns the new row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Puts a message into the outbox.
    Say {
        /// The chat; unknown ones are possible when main asks.
        chat_jid: String,
        /// What to say, `<internal>` blocks already taken out; empty only where files go with it.
        text: String,
        /// Whether the last of those blocks was not closed, and took all that followed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unclosed: bool,
        /// The name to speak under, where the channel can.
        sender: Option<String>,
        /// The platform's id of the message that is answered.
        reply_to: Option<String>,
        /// The files that go with it, which the host has read before.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attach>,
    },
    /// Asks the people of a chat.
    Ask {
        /// The chat, one of the group's own.
        chat_jid: String,
        /// The question, `<internal>` blocks already taken out.
        question: String,
        /// The answers that are offered.
        options: Vec<String>,
        /// The end of the time to answer.
        expires_at: Time,
    },
    /// Stores a new active task.
    CreateTask(NewTask),
    /// Reads a page of the tasks in `scope`, newest first.
    ListTasks {
        /// Whose tasks.
        scope: Scope,
        /// Only those that come after this row of an earlier page.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<i64>,
        /// How many, at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<i64>,
    },
    /// Removes a task with its history.
    CancelTask {
        /// The task.
        id: String,
        /// Whose it is.
        group: Folder,
    },
    /// Changes a task.
    ChangeTask {
        /// The task.
        id: String,
        /// Whose it is.
        group: Folder,
        /// What of it.
        change: TaskChange,
    },
    /// Makes or changes a group and its wiring to a chat.
    RegisterGroup(Registration),
    /// Reads the chats that an agent could be registered for.
    ListGroups,
    /// Makes lanes forget their session: the next batch starts afresh.
    ClearSession {
        /// The group.
        target: Folder,
        /// Which of its lanes.
        lanes: Lanes,
        /// The name to archive the session under first; `None` archives nothing.
        archive_as: Option<String>,
    },
    /// Makes lanes go on with an archived session, which is then no archive any more.
    ResumeSession {
        /// The group.
        target: Folder,
        /// Which of its lanes.
        lanes: Lanes,
        /// The archive; only one of the group's own.
        archive: i64,
        /// The name to archive the present session under first; `None` archives nothing.
        save_as: Option<String>,
    },
    /// Reads the archived sessions in which all words of `query` occur.
    SearchSessions {
        /// The group.
        target: Folder,
        /// What to look for; empty: everything, newest first.
        query: String,
        /// How many, at most.
        limit: i64,
    },
    /// Keeps a session under a name; kept before, it is brought up to date.
    ArchiveSession {
        /// The group.
        target: Folder,
        /// The agent's own name for the conversation.
        session_id: String,
        /// The name to keep it under.
        name: String,
        /// What was said; `None`: what the host has read of the transcript.
        content: Option<String>,
    },
}

/// Changes of a task; a field that is `None` keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskChange {
    /// What the agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The script that runs first; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// When it runs.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Whether it runs in the lane's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_mode: Option<ContextMode>,
    /// What happens to missed occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// How long ago a slot may be for it to be made up for, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_window_ms: Option<i64>,
    /// Where what the agent says goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputMode>,
    /// Whether it will run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// When it runs next: a new slot, with all its tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Time>,
    /// Its rest ends, and how often it failed is forgotten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub afresh: bool,
}

/// A group as it is registered, with one wiring. It is never the privileged one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Registration {
    /// Its folder.
    pub folder: Folder,
    /// A name for people.
    pub name: String,
    /// What a message in this chat starts with to mention the agent.
    pub trigger: String,
    /// The chat.
    pub chat_jid: String,
    /// Settings of its containers; `None`: they stay.
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// When the wiring engages.
    pub engage_mode: EngageMode,
    /// The JavaScript pattern; there for the mode `pattern` only.
    pub engage_pattern: Option<String>,
    /// Whose messages count.
    pub sender_scope: SenderScope,
    /// What becomes of messages that don't engage.
    pub ignored: IgnoredMessages,
}

words! {
    /// When a wiring engages.
    #[derive(JsonSchema)]
    pub enum EngageMode: "engage mode" {
        /// When a pattern is found in the text.
        Pattern = "pattern",
        /// When the agent is addressed.
        Mention = "mention",
        /// As `mention`, and afterwards in the same thread.
        MentionSticky = "mention-sticky",
    }
}

words! {
    /// Whose messages count.
    #[derive(Default, JsonSchema)]
    pub enum SenderScope: "sender scope" {
        /// Everybody's.
        #[default]
        All = "all",
        /// Those of people who are known.
        Known = "known",
    }
}

words! {
    /// What becomes of messages that don't engage.
    #[derive(Default, JsonSchema)]
    pub enum IgnoredMessages: "ignored messages" {
        /// They are gone.
        #[default]
        Drop = "drop",
        /// They become context for the next message that engages.
        Accumulate = "accumulate",
    }
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
    /// How long ago one may be for it to be made up for, ms; `None`: the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_window_ms: Option<i64>,
    /// Where what the agent says goes.
    pub output: OutputMode,
    /// When it runs first; of a `once`, at most a minute before it was asked for.
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

impl Lanes {
    /// Returns the id of the lane; `None`: every lane.
    #[must_use]
    pub fn one(self) -> Option<i64> {
        match self {
            Self::One(lane) => Some(lane),
            Self::All => None,
        }
    }
}

words! {
    /// Whether a task runs in the group's conversation or in one of its own.
    #[derive(Default, JsonSchema)]
    pub enum ContextMode: "context mode" {
        /// In the session of the lane.
        Group = "group",
        /// In a fresh session.
        #[default]
        Isolated = "isolated",
    }
}

words! {
    /// What happens to occurrences that were missed while G2 was not running.
    #[derive(Default, JsonSchema)]
    pub enum CatchUp: "catch-up policy" {
        /// The latest is run.
        #[default]
        Latest = "latest",
        /// The latest 24 at most are run, oldest first, some time apart.
        All = "all",
        /// None is run.
        Skip = "skip",
    }
}

words! {
    /// Where goes what the agent says while it runs a task.
    #[derive(Default, JsonSchema)]
    pub enum OutputMode: "output" {
        /// Into the task's history; the agent speaks by `send_message`.
        #[default]
        History = "history",
        /// To the task's chat.
        Chat = "chat",
    }
}

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
