//! Making a task.

use ipc_handlers::{
    Command, Folder, Outcome,
    commands::ScheduleTask,
    effect::{CatchUp, ContextMode, OutputMode},
    schedule::ScheduleValue,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        By, Done, OpCode, OpError, Operation, Site,
        args::{Jid, Prompt, TaskId},
        commands::act,
    },
    done, row,
};
use crate::{domain::rows::Task, store::Transcripts};

/// The prompt, its group and its schedule.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Whose agent runs it.
    pub group: Folder,
    /// The chat it is for; by default the group's only one.
    #[serde(default)]
    pub chat: Option<Jid>,
    /// `cron`, `interval` or `once`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A cron expression, an interval (`2h`, or milliseconds), or a date and time.
    pub value: String,
    #[serde(default)]
    pub context: ContextMode,
    #[serde(default)]
    pub catch_up: CatchUp,
    /// How long ago a missed slot may be for it to be made up for, ms; by default 7 days.
    #[serde(default)]
    pub catch_up_window_ms: Option<i64>,
    #[serde(default)]
    pub output: OutputMode,
    /// A script that runs first and may call the agent off.
    #[serde(default)]
    pub script: Option<String>,
    /// Its id; by default one is made.
    #[serde(default)]
    pub id: Option<TaskId>,
    /// What the agent is told.
    pub prompt: Prompt,
}

impl Operation for Args {
    type Row = Task;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Task>, OpError> {
        let Self {
            group,
            chat,
            kind,
            value,
            context,
            catch_up,
            catch_up_window_ms,
            output,
            script,
            id,
            prompt,
        } = self;
        site.group(&group).await?;
        if let Some(chat) = &chat {
            check_chat(site, &group, chat).await?;
        }
        let command = Command::ScheduleTask(ScheduleTask {
            prompt: prompt.into(),
            schedule_type: kind,
            schedule_value: ScheduleValue::Text(value),
            target_jid: chat.clone().map(String::from),
            context_mode: context,
            script,
            task_id: id.map(String::from),
            catch_up,
            catch_up_window_ms,
            output,
        });
        let (outcome, _) = act(site, by, &group, command, Transcripts::new()).await?;
        let Outcome::TaskCreated { task_id, group, .. } = &outcome else {
            return Err(OpError::new(OpCode::Failed, "no task was made"));
        };
        let made = row(site, group, task_id)?;
        let notes = chat.as_ref().and_then(|chat| chat.unserved(site));
        Ok(done(site, made, &outcome).await?.noting(notes))
    }
}

/// Refuses a task of one group for a chat that only others are wired to: it would be theirs.
async fn check_chat(site: &Site<'_>, group: &Folder, chat: &Jid) -> Result<(), OpError> {
    let all = site.store.wirings().await?.into_iter().filter(|w| w.chat_jid == chat.as_str());
    let wired: Vec<Folder> = all.map(|w| w.group).collect();
    if wired.contains(group) {
        return Ok(());
    }
    let others: Vec<&str> = wired.iter().map(Folder::as_str).collect();
    Err(match others.as_slice() {
        [] => OpError::refused(format!("no group is wired to {chat}"))
            .hint(format!("wire one with `g2 wirings add --group {group} --chat {chat}`")),
        [other, ..] => OpError::refused(format!(
            "group {group} is not wired to {chat}, which is a chat of {}",
            others.join(" and ")
        ))
        .hint(format!("make the task with `--group {other}`, or wire {group} to it")),
    })
}
