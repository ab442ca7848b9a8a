//! Changing what a task says or when it runs.

use ipc_handlers::{
    Command, Folder,
    commands::UpdateTask,
    effect::{CatchUp, ContextMode, OutputMode},
    schedule::ScheduleValue,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        By, Done, OpError, Operation, Site,
        args::{Prompt, duration_ms, word},
    },
    change,
};
use crate::domain::rows::Task;

/// Change a task; options that are left out keep their values.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the task, as `g2 tasks list` shows it.
    pub id: String,
    /// Group of the task, by its folder; needed if several groups have a task with this id.
    #[arg(long)]
    pub group: Option<Folder>,
    /// Text that the agent is given.
    #[arg(long)]
    pub prompt: Option<Prompt>,
    /// Kind of schedule: cron, interval or once.
    #[serde(rename = "type")]
    #[arg(id = "type", long, value_name = "TYPE")]
    pub kind: Option<String>,
    /// Schedule: a cron expression, an interval such as 2h (digits alone: milliseconds), or a date and time.
    #[arg(long)]
    pub value: Option<String>,
    /// Session that it runs in: the group's, or one of its own (isolated).
    #[arg(long, value_name = "MODE", value_parser = word::<ContextMode>())]
    pub context: Option<ContextMode>,
    /// Occurrences that were missed while G2 was down: run the latest, all (the latest 24, oldest first, a minute apart), or none
    /// (skip).
    #[arg(long, value_name = "POLICY", value_parser = word::<CatchUp>())]
    pub catch_up: Option<CatchUp>,
    /// Age beyond which a missed occurrence is not made up for, such as 12h or 2d (digits alone: milliseconds).
    #[arg(long = "catch-up-window", value_name = "AGE", value_parser = duration_ms)]
    pub catch_up_window_ms: Option<i64>,
    /// Place for the agent's text: the task's history only, or the chat too.
    #[arg(long, value_name = "WHERE", value_parser = word::<OutputMode>())]
    pub output: Option<OutputMode>,
    /// Shell script that runs first and can stop the agent from being started; empty: none.
    #[arg(long)]
    pub script: Option<String>,
}

impl Operation for Args {
    type Row = Task;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Task>, OpError> {
        let Self { id, group, prompt, kind, value, context, catch_up, catch_up_window_ms, output, script } =
            self;
        let command = UpdateTask {
            task_id: id.clone(),
            target_folder: None,
            prompt: prompt.map(String::from),
            script,
            schedule_type: kind,
            schedule_value: value.map(ScheduleValue::Text),
            context_mode: context,
            catch_up,
            catch_up_window_ms,
            output,
        };
        change(site, by, &id, group.as_ref(), Command::UpdateTask(command)).await
    }
}
