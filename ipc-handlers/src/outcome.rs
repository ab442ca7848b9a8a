//! What the store answers for each effect, and the rows that agents see.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{
    Code, Folder, Refusal, ScheduleKind, Time,
    refusal::quoted,
    shown::{FoundSession, GroupRow},
    words,
};

/// What came of one effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A message is in the outbox.
    Said {
        /// Its id there.
        outbox_id: i64,
        /// Whether an `<internal>` block that was not closed took the rest of it.
        unclosed: bool,
    },
    /// A question is in the outbox.
    Asked {
        /// Its number.
        question_id: i64,
        /// The end of the time to answer.
        expires_at: Time,
    },
    /// A task was made.
    TaskCreated {
        /// Its id.
        task_id: String,
        /// Whose it is.
        group: Folder,
        /// When it runs first.
        next_run: Time,
        /// Its schedule in plain words.
        in_words: String,
    },
    /// A page of the tasks in scope, newest first.
    Tasks {
        /// The tasks.
        tasks: Vec<TaskRow>,
        /// Where the next page begins; `None` for the last one.
        next: Option<i64>,
    },
    /// A task was changed, or was so already.
    TaskChanged {
        /// Its id.
        task_id: String,
        /// Whether it will run.
        status: TaskStatus,
        /// When it runs next.
        next_run: Option<Time>,
        /// Its schedule in plain words; `None` when it can't be read.
        in_words: Option<String>,
    },
    /// A group answers in a chat.
    Registered {
        /// Its folder.
        folder: Folder,
        /// The chat.
        jid: String,
        /// No account reaches the chat.
        unserved: bool,
    },
    /// The chats that an agent could be registered for, newest activity first.
    Groups {
        /// The chats.
        groups: Vec<GroupRow>,
        /// How many more there are, which a reply has no room for.
        more: usize,
    },
    /// A task was removed.
    TaskCancelled {
        /// Its id.
        task_id: String,
    },
    /// Lanes forgot their session.
    SessionCleared {
        /// The archive made first, if one was asked for and there was a session.
        archived_id: Option<i64>,
    },
    /// Lanes go on with an archived session.
    SessionResumed {
        /// The agent's own name for the conversation.
        session_id: String,
    },
    /// A search may be made; what it finds is told by who answers.
    ToSearch,
    /// Archived sessions, best first.
    Sessions {
        /// The sessions.
        sessions: Vec<FoundSession>,
        /// Why there may be more of them.
        unsearched: Option<Unsearched>,
    },
    /// A session is kept.
    SessionArchived {
        /// Its number among the archived ones.
        id: i64,
    },
}

/// Why the store could not perform an effect although it was decided; nothing of the command is kept then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// A file that goes with a message can't be sent.
    NoFile(Refusal),
    /// The text says that there is nothing to tell.
    NothingToSay,
    /// As many questions of the group are open as may be.
    TooManyQuestions {
        /// How many may be.
        most: usize,
    },
    /// No task of this id in the effect's scope.
    TaskGone {
        /// The id asked for.
        id: String,
    },
    /// A task of this id is there already.
    TaskIdTaken {
        /// The id asked for.
        id: String,
    },
    /// A prompt or a script is longer than one may be.
    TaskTooLong {
        /// `prompt` or `script`.
        field: &'static str,
        /// How long it is, bytes.
        bytes: usize,
        /// How long it may be, bytes.
        most: usize,
    },
    /// The group has as many tasks as it may have.
    TooManyTasks {
        /// Whose tasks.
        group: Folder,
        /// How many it may have.
        most: usize,
    },
    /// The tasks of the group would have more bytes than they may have together.
    TasksTooLarge {
        /// Whose tasks.
        group: Folder,
        /// How many bytes they may have.
        most: u64,
    },
    /// No archived session of this number in the effect's scope.
    ArchiveGone {
        /// The number asked for.
        id: i64,
    },
    /// The group was removed.
    GroupGone {
        /// Its folder.
        group: Folder,
    },
    /// The name can't be told by eye.
    BadName {
        /// Which, and why.
        why: String,
    },
    /// An earlier group of the name was removed, and is not gone yet.
    NameLeaves {
        /// Its folder.
        group: Folder,
    },
    /// The group's settings can't be such, or are not an agent's to choose.
    BadContainerConfig {
        /// The entries with faults.
        why: String,
    },
}

/// Why a search did not look through all that was said. Where it found nothing, this refuses it; where it found something, it
/// is a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsearched {
    /// Not all of it is indexed yet.
    NotIndexed,
    /// There was no time or no room for a search now.
    NotNow,
    /// The host can't use its index.
    NoIndex,
    /// It was given up before it was through.
    TooMuch,
    /// Of so much only the newest is indexed.
    Old,
}

impl From<Unsearched> for Refusal {
    fn from(reason: Unsearched) -> Self {
        match reason {
            Unsearched::NotIndexed => Self::new(
                Code::RateLimited,
                "not all that was said is indexed yet",
                "search again later: it is indexed meanwhile",
            ),
            Unsearched::NotNow => Self::new(
                Code::RateLimited,
                "there was no time or no room for all of this search",
                "search again",
            ),
            Unsearched::NoIndex => Self::new(
                Code::Internal,
                "the index of archived sessions can't be used on this host",
                "searching again does not help; the host's owner has to mend it, and is told so by `g2 status`",
            ),
            Unsearched::TooMuch => Self::new(
                Code::TooLarge,
                "so much of what was said fits that the search was given up",
                "look for longer words, or for more of them",
            ),
            Unsearched::Old => Self::new(
                Code::TooLarge,
                "so much was said that only the newest 64 MiB of it can be searched",
                "look into older sessions one by one, or delete some that nobody needs",
            ),
        }
    }
}

impl From<NotApplied> for Refusal {
    fn from(reason: NotApplied) -> Self {
        match reason {
            NotApplied::NoFile(refusal) => refusal,
            NotApplied::NothingToSay => Self::new(
                Code::InvalidField,
                "send_message: HEARTBEAT_OK says that there is nothing to tell, and is never sent",
                "end your turn with it as your answer, or send what there is to tell without it",
            ),
            NotApplied::TooManyQuestions { most } => Self::new(
                Code::RateLimited,
                format!("{most} questions of this group wait for an answer, and no more are asked"),
                "wait for an answer; a question that nobody answers ends at its timeout",
            ),
            NotApplied::TaskGone { id } => Self::no_such_task(&id),
            NotApplied::TaskIdTaken { id } => Self::new(
                Code::Conflict,
                format!("a task of the id {} exists already", quoted(&id)),
                "leave taskId out and the host makes one, or choose another",
            ),
            NotApplied::TaskTooLong { field, bytes, most } => Self::new(
                Code::TooLarge,
                format!("the {field} of a task has {bytes} bytes; the limit is {most}"),
                "put long text into a file of the group and have the prompt name it",
            ),
            NotApplied::TooManyTasks { group, most } => Self::new(
                Code::TooLarge,
                format!("the group \"{group}\" has as many tasks as it may have, {most}"),
                "remove some with cancel_task; those that have run for the last time count too",
            ),
            NotApplied::TasksTooLarge { group, most } => Self::new(
                Code::TooLarge,
                format!(
                    "the tasks of the group \"{group}\" would have more than {most} bytes together, which is the limit"
                ),
                "remove some with cancel_task, or put long text into files of the group",
            ),
            NotApplied::ArchiveGone { id } => Self::no_such_archive(id),
            NotApplied::GroupGone { group } => Self::no_such_group(&group),
            NotApplied::BadName { why } => {
                Self::new(Code::InvalidField, format!("register_group: {why}"), "give another name")
            }
            NotApplied::NameLeaves { group } => Self::new(
                Code::Conflict,
                format!("register_group: an earlier group {group} is being removed, and not gone yet"),
                "try again in a minute, or give another folder",
            ),
            NotApplied::BadContainerConfig { why } => Self::new(
                Code::InvalidField,
                format!("register_group: containerConfig: {why}"),
                "give timeout and additionalMounts only; the rest is set with `g2 groups set` on the host",
            ),
        }
    }
}

impl Refusal {
    /// Returns the refusal for a task that is absent or another group's: the two read the same.
    pub(crate) fn no_such_task(id: &str) -> Self {
        Self::new(
            Code::NotFound,
            format!("no task of the id {}", quoted(id)),
            "take the id from list_tasks or from current_tasks.json",
        )
    }

    /// Returns the refusal for an archived session that is absent or another group's: the two read the same.
    pub(crate) fn no_such_archive(id: i64) -> Self {
        Self::new(
            Code::NotFound,
            format!("no archived session has the number {id}"),
            "take the number from search_sessions or from session_history.json",
        )
    }

    /// Returns the refusal for a folder that is no group's.
    pub(crate) fn no_such_group(folder: &Folder) -> Self {
        Self::new(
            Code::NotFound,
            format!("no group has the folder \"{folder}\""),
            "take the folder from available_groups.json, or leave targetFolder out for your own group",
        )
    }
}

/// A task as agents see it: a row of `current_tasks.json` and of `list_tasks`, in v1's names and order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskRow {
    /// Its id.
    pub id: String,
    /// The folder of the group whose it is.
    #[serde(rename = "groupFolder")]
    pub group_folder: String,
    /// What the agent is told.
    pub prompt: String,
    /// The script that runs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// What kind of schedule it has.
    pub schedule_type: ScheduleKind,
    /// As it was written.
    pub schedule_value: String,
    /// The same in plain words, by the clocks of its group: `weekdays at 09:00 Europe/Paris`. Left out where they would be long.
    #[serde(rename = "scheduleInWords", skip_serializing_if = "Option::is_none")]
    pub schedule_in_words: Option<String>,
    /// Whether it will run.
    pub status: TaskStatus,
    /// When it runs next (ISO, UTC, with milliseconds on the wire); `None` when it won't.
    #[serde(serialize_with = "iso")]
    #[schemars(with = "Option<String>")]
    pub next_run: Option<Time>,
    /// Why the host paused it, or the beginning of that.
    #[serde(rename = "pausedFor", skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<String>,
    /// Whether something of the prompt, the script or the schedule is left out: at most 64 KiB of each is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub cut: bool,
    /// In a snapshot, on the oldest task of a group that it shows: how many older ones it has no room for. `list_tasks` has
    /// them all, page by page.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

words! {
    /// The states of a task.
    #[derive(JsonSchema)]
    pub enum TaskStatus: "task status" {
        /// Runs when it is due.
        Active = "active",
        /// Rests until it is resumed.
        Paused = "paused",
        /// Has run for the last time.
        Completed = "completed",
    }
}

pub(crate) fn iso<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_row_has_the_names_and_order_of_v1() {
        let row = TaskRow {
            id: "task-1".into(),
            group_folder: "family".into(),
            prompt: "p".into(),
            script: None,
            schedule_type: ScheduleKind::Cron,
            schedule_value: "0 9 * * *".into(),
            schedule_in_words: None,
            status: TaskStatus::Active,
            next_run: Some(Time(0)),
            paused_for: None,
            cut: false,
            more: 0,
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"id":"task-1","groupFolder":"family","prompt":"p","schedule_type":"cron","schedule_value":"0 9 * * *","status":"active","next_run":"1970-01-01T00:00:00.000Z"}"#
        );
        let in_words = Some("every day at 09:00 UTC".into());
        let told = TaskRow { schedule_in_words: in_words, ..row.clone() };
        assert_eq!(serde_json::to_value(told).unwrap()["scheduleInWords"], "every day at 09:00 UTC");
        let paused = TaskRow { paused_for: Some("its chat is gone".into()), ..row.clone() };
        assert_eq!(serde_json::to_value(paused).unwrap()["pausedFor"], "its chat is gone");
        let done =
            TaskRow { script: Some("true".into()), status: TaskStatus::Completed, next_run: None, ..row };
        let json = serde_json::to_value(done).unwrap();
        assert_eq!(
            (&json["script"], &json["status"], &json["next_run"]),
            (&"true".into(), &"completed".into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn what_the_store_reports_back_is_answered_with_the_right_code() {
        let code = |reason| Refusal::from(reason).code;
        assert_eq!(code(NotApplied::TaskGone { id: "a".into() }), Code::NotFound);
        assert_eq!(code(NotApplied::TaskIdTaken { id: "a".into() }), Code::Conflict);
        assert_eq!(code(NotApplied::TaskTooLong { field: "prompt", bytes: 2, most: 1 }), Code::TooLarge);
        assert_eq!(Refusal::from(Unsearched::NotIndexed).code, Code::RateLimited);
        assert_eq!(Refusal::from(Unsearched::NotNow).code, Code::RateLimited);
        assert_eq!(Refusal::from(Unsearched::NoIndex).code, Code::Internal);
        assert_eq!(Refusal::from(Unsearched::TooMuch).code, Code::TooLarge);
        assert_eq!(Refusal::from(Unsearched::Old).code, Code::TooLarge);
        let group = crate::Folder::parse("a").unwrap();
        assert_eq!(code(NotApplied::GroupGone { group }), Code::NotFound);
    }
}
