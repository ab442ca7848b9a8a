//! `update_task`: changes what a task says or when it runs. Fields that are left out keep their values.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Command, Entry, Who,
    schedule_task::{catch_up_window, check_window, schedule_value},
    target,
};
use crate::{
    Caller, Effect, Facts, Folder, Refusal, Schedule, TaskStatus, Wants,
    effect::{CatchUp, ContextMode, OutputMode, TaskChange},
    facts::TaskFacts,
    fields::Fields,
    schedule::ScheduleValue,
};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "update_task",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"update_task","taskId":"task-1767225600000-a1b2c3","schedule_value":"0 8 * * 1-5"}"#,
    read: |fields| UpdateTask::read(fields).map(Command::UpdateTask),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTask {
    /// The task.
    pub task_id: String,
    /// Whose it is, for main: left out, main's own, otherwise the only one of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
    /// What the agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The script that runs first; empty: none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// `cron`, `interval` or `once`; checked, with the value, when decided.
    #[serde(rename = "schedule_type", skip_serializing_if = "Option::is_none")]
    pub schedule_type: Option<String>,
    /// The cron expression, the interval, or the date and time.
    #[serde(rename = "schedule_value", skip_serializing_if = "Option::is_none")]
    pub schedule_value: Option<ScheduleValue>,
    /// Whether it runs in the group's conversation.
    #[serde(rename = "context_mode", skip_serializing_if = "Option::is_none")]
    pub context_mode: Option<ContextMode>,
    /// What happens to missed occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// How long ago a missed occurrence may be for it to be made up for, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_window_ms: Option<i64>,
    /// Where what the agent says goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputMode>,
}

impl UpdateTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            task_id: fields.text("taskId")?,
            target_folder: target::read(fields)?,
            prompt: fields.optional_text("prompt")?,
            script: match fields.get("script") {
                Some(Value::String(script)) => Some(script.clone()),
                Some(_) => fields.optional_text("script")?,
                None => None,
            },
            schedule_type: fields.optional_text("schedule_type")?,
            schedule_value: schedule_value(fields)?,
            context_mode: fields.optional_choice("context_mode", ContextMode::CHOICES)?,
            catch_up: fields.optional_choice("catchUp", CatchUp::CHOICES)?,
            catch_up_window_ms: catch_up_window(fields)?,
            output: fields.optional_choice("output", OutputMode::CHOICES)?,
        })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some((self.task_id.clone(), self.target_folder.clone())), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let task = facts.task(caller, &self.task_id, self.target_folder.as_ref())?;
        check_window(self.catch_up_window_ms)?;
        let mut change = TaskChange {
            prompt: self.prompt.clone(),
            script: self.script.clone(),
            context_mode: self.context_mode,
            catch_up: self.catch_up,
            catch_up_window_ms: self.catch_up_window_ms,
            output: self.output,
            ..TaskChange::default()
        };
        if let Some(schedule) = self.schedule(task, facts)? {
            let first = schedule.first_run(facts.now, &facts.zone);
            change.next_run = Some(first.ok_or_else(|| schedule.never_runs())?);
            // What was over begins anew; what rests goes on resting.
            change.status = (task.status == TaskStatus::Completed).then_some(TaskStatus::Active);
            change.schedule = Some(schedule);
        }
        Ok(vec![Effect::ChangeTask { id: task.id.clone(), group: task.group.clone(), change }])
    }

    /// Returns the schedule as it will be, when it is to change: parts that are left out stay.
    fn schedule(&self, task: &TaskFacts, facts: &Facts) -> Result<Option<Schedule>, Refusal> {
        if self.schedule_type.is_none() && self.schedule_value.is_none() {
            return Ok(None);
        }
        let kind = self.schedule_type.as_deref().unwrap_or(task.schedule_type.as_str());
        let kept = ScheduleValue::Text(task.schedule_value.clone());
        let value = self.schedule_value.as_ref().unwrap_or(&kept);
        let schedule = Schedule::from_value(kind, value, &facts.zone, facts.now)?;
        schedule.check_ahead(facts.asked, facts.now, &facts.zone, &facts.zone_name)?;
        Ok(Some(schedule))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Code, ScheduleKind,
        commands::testing::{NOW, ask, caller, refused},
    };

    fn change(command: &Value) -> TaskChange {
        let Effect::ChangeTask { change, .. } = ask(&caller("family"), command).unwrap() else {
            panic!("changes a task");
        };
        change
    }

    fn with(field: &str, value: impl Into<Value>) -> Value {
        let mut command = json!({"type": "update_task", "taskId": "task-family"});
        command[field] = value.into();
        command
    }

    #[test]
    fn only_what_is_given_changes() {
        let prompt = change(&with("prompt", "new"));
        assert_eq!(prompt, TaskChange { prompt: Some("new".into()), ..TaskChange::default() });
        assert_eq!(change(&with("script", "")).script.as_deref(), Some(""));
        assert_eq!(change(&with("script", Value::Null)), TaskChange::default());
        assert_eq!(change(&with("output", "chat")).output, Some(OutputMode::Chat));
        assert_eq!(change(&with("context_mode", "group")).context_mode, Some(ContextMode::Group));
    }

    #[test]
    fn a_new_value_or_type_plans_the_next_run_anew() {
        // The task is a cron at 09:00 in New York; it is 07:00 there.
        let earlier = change(&with("schedule_value", "0 8 * * *"));
        assert_eq!(earlier.next_run, Some(NOW.plus_ms(3_600_000)));
        assert_eq!((earlier.status, earlier.schedule.unwrap().kind()), (None, ScheduleKind::Cron));
        let mut both = with("schedule_type", "interval");
        both["schedule_value"] = json!(60_000);
        assert_eq!(change(&both).next_run, Some(NOW.plus_ms(60_000)));
    }

    #[test]
    fn a_schedule_that_can_not_be_understood_changes_nothing() {
        assert_eq!(refused(&caller("family"), &with("schedule_value", "never")), Code::InvalidSchedule);
        // The expression that is kept is no number of milliseconds.
        assert_eq!(refused(&caller("family"), &with("schedule_type", "interval")), Code::InvalidSchedule);
        assert_eq!(refused(&caller("family"), &with("schedule_type", "weekly")), Code::InvalidSchedule);
        let mut over = with("schedule_type", "once");
        over["schedule_value"] = json!("2026-03-01T06:00:00");
        assert_eq!(refused(&caller("family"), &over), Code::InvalidSchedule);
    }

    #[test]
    fn one_that_was_over_is_active_again_with_a_new_schedule() {
        let mut over = with("schedule_value", "0 8 * * *");
        over["taskId"] = "task-family-over".into();
        assert_eq!(change(&over).status, Some(TaskStatus::Active));
        let mut paused = with("schedule_value", "0 8 * * *");
        paused["taskId"] = "task-family-paused".into();
        assert_eq!(change(&paused).status, None);
    }

    #[test]
    fn a_foreign_task_and_wrong_fields_are_refused() {
        let mut foreign = with("prompt", "x");
        foreign["taskId"] = "task-main".into();
        assert_eq!(refused(&caller("family"), &foreign), Code::NotFound);
        for (field, value) in
            [("prompt", json!(1)), ("script", json!([])), ("output", json!("both")), ("catchUp", json!("x"))]
        {
            assert_eq!(refused(&caller("family"), &with(field, value)), Code::InvalidField, "{field}");
        }
    }
}
