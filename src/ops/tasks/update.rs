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
    super::{By, Done, OpError, Operation, Site, args::Prompt},
    change,
};
use crate::domain::rows::Task;

/// The task, and its changes: all or none are made. Fields that are left out keep their values.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub id: String,
    /// Whose task it is, where several groups have one of that id.
    #[serde(default)]
    pub group: Option<Folder>,
    /// What the agent is told.
    #[serde(default)]
    pub prompt: Option<Prompt>,
    /// `cron`, `interval` or `once`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// A cron expression, an interval (`2h`, or milliseconds), or a date and time.
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub context: Option<ContextMode>,
    #[serde(default)]
    pub catch_up: Option<CatchUp>,
    /// How long ago a missed slot may be for it to be made up for, ms.
    #[serde(default)]
    pub catch_up_window_ms: Option<i64>,
    #[serde(default)]
    pub output: Option<OutputMode>,
    /// A script that runs first; empty: none any more.
    #[serde(default)]
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
