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
        args::{Jid, Prompt, TaskId, duration_ms, word},
        commands::act,
    },
    done, row,
};
use crate::{domain::rows::Task, store::Transcripts};

/// Add a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group whose agent runs it, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// Chat that the task is for [default: the group's only chat].
    #[arg(long, value_name = "JID")]
    pub chat: Option<Jid>,
    /// Kind of schedule, with --value: cron, interval or once.
    #[serde(rename = "type")]
    #[arg(
        id = "type",
        long,
        value_name = "TYPE",
        group = "schedule",
        requires = "value",
        default_value = "",
        hide_default_value = true
    )]
    pub kind: String,
    /// Schedule: a cron expression, an interval such as 2h (digits alone: milliseconds), or a date and time.
    #[arg(long, requires = "type", default_value = "", hide_default_value = true)]
    pub value: String,
    /// Session that it runs in: the group's, or one of its own (isolated).
    #[serde(default)]
    #[arg(long, value_name = "MODE", default_value_t, value_parser = word::<ContextMode>())]
    pub context: ContextMode,
    /// Occurrences that were missed while G2 was down: run the latest, all (the latest 24, oldest first, a minute apart), or none
    /// (skip).
    #[serde(default)]
    #[arg(long, value_name = "POLICY", default_value_t, value_parser = word::<CatchUp>())]
    pub catch_up: CatchUp,
    /// Age beyond which a missed occurrence is not made up for, such as 12h or 2d (digits alone: milliseconds) [default: 7d].
    #[arg(long = "catch-up-window", value_name = "AGE", value_parser = duration_ms)]
    pub catch_up_window_ms: Option<i64>,
    /// Place for the agent's text: the task's history only, or the chat too.
    #[serde(default)]
    #[arg(long, value_name = "WHERE", default_value_t, value_parser = word::<OutputMode>())]
    pub output: OutputMode,
    /// Shell script that runs first and can stop the agent from being started.
    #[arg(long)]
    pub script: Option<String>,
    /// Id of the task, unlike that of any other task of the group [default: a new one].
    #[arg(long)]
    pub id: Option<TaskId>,
    /// Text that the agent is given.
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
        let notes = match &chat {
            Some(chat) => chat.unserved(site).await?,
            None => None,
        };
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
