//! `resume_task`: a task that is paused, or rests after failures, runs again.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{
    Caller, Code, Effect, Facts, Folder, Refusal, Schedule, TaskStatus, Time, Wants, effect::TaskChange,
    facts::TaskFacts, fields::Fields, refusal::quoted,
};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "resume_task",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"resume_task","taskId":"task-1767225600000-a1b2c3"}"#,
    read: |fields| ResumeTask::read(fields).map(Command::ResumeTask),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeTask {
    /// The task.
    pub task_id: String,
    /// Whose it is, for main: left out, main's own, otherwise the only one of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl ResumeTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { task_id: fields.text("taskId")?, target_folder: target::read(fields)? })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some((self.task_id.clone(), self.target_folder.clone())), ..Wants::default() }
    }

    /// What came due while the task was paused is not made up for; a `once` that was missed runs at once. One that rests
    /// after its runs were killed rests no longer. One that is active otherwise stays as it is.
    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let task = facts.task(caller, &self.task_id, self.target_folder.as_ref())?;
        let change = match task.status {
            TaskStatus::Active => TaskChange { afresh: true, ..TaskChange::default() },
            TaskStatus::Paused => {
                let next_run = next_run(task, facts)?;
                TaskChange {
                    status: Some(TaskStatus::Active),
                    next_run,
                    afresh: true,
                    ..TaskChange::default()
                }
            }
            TaskStatus::Completed => return Err(over(task)),
        };
        Ok(vec![Effect::ChangeTask { id: task.id.clone(), group: task.group.clone(), change }])
    }
}

fn over(task: &TaskFacts) -> Refusal {
    Refusal::new(
        Code::Conflict,
        format!("the task {} has run for the last time", quoted(&task.id)),
        "give it a new schedule with update_task; that makes it active again",
    )
}

/// Returns when a paused task runs next: as it was planned, where that is still to come. `None`: its only run is under way.
fn next_run(task: &TaskFacts, facts: &Facts) -> Result<Option<Time>, Refusal> {
    let schedule =
        Schedule::parse(task.schedule_type.as_str(), &task.schedule_value, &facts.zone, facts.now)?;
    let next = match (&schedule, task.next_run) {
        (Schedule::Once { .. }, Some(planned)) => Some(planned),
        (Schedule::Once { .. }, None) => return Ok(None),
        (_, Some(planned)) if planned > facts.now => Some(planned),
        (_, Some(missed)) => schedule.next_after(task.slot.unwrap_or(missed), facts.now, &facts.zone),
        (_, None) => schedule.first_run(facts.now, &facts.zone),
    };
    next.map(Some).ok_or_else(|| schedule.never_runs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{NOW, ask, caller, facts, refused};

    fn resume(id: &str) -> serde_json::Value {
        json!({"type": "resume_task", "taskId": id})
    }

    fn resumed(kind: &str, value: &str, planned: Option<Time>) -> Option<Time> {
        let caller = caller("family");
        let command = crate::parse(resume("task-family-paused").to_string().as_bytes()).unwrap().command;
        let mut facts = facts(&caller, &command);
        let task = facts.tasks.first_mut().unwrap();
        (task.schedule_type, task.schedule_value, task.next_run) =
            (kind.parse().unwrap(), value.into(), planned);
        let effects = crate::decide(&caller, &command, &facts).unwrap();
        let [Effect::ChangeTask { change, .. }] = effects.as_slice() else { panic!("changes a task") };
        assert_eq!(change.status, Some(TaskStatus::Active));
        change.next_run
    }

    #[test]
    fn what_was_missed_is_not_made_up_for_and_what_is_planned_stays() {
        let hour = 3_600_000;
        let before = |ms: i64| Some(NOW.plus_ms(-ms));
        assert_eq!(resumed("interval", "3600000", before(90 * 60_000)), Some(NOW.plus_ms(hour / 2)));
        assert_eq!(resumed("interval", "3600000", Some(NOW.plus_ms(5))), Some(NOW.plus_ms(5)));
        // 09:00 in New York; it is 07:00.
        assert_eq!(resumed("cron", "0 9 * * *", before(22 * hour)), Some(NOW.plus_ms(2 * hour)));
        assert_eq!(resumed("cron", "0 9 * * *", None), Some(NOW.plus_ms(2 * hour)));
        assert_eq!(resumed("once", "2026-01-01T00:00:00Z", before(hour)), before(hour));
        assert_eq!(resumed("once", "2026-01-01T00:00:00Z", None), None, "its run is under way");
    }

    #[test]
    fn an_active_one_stays_as_it_is_and_one_that_is_over_stays_over() {
        let Effect::ChangeTask { change, .. } = ask(&caller("family"), &resume("task-family")).unwrap()
        else {
            panic!("changes a task");
        };
        assert_eq!(change, TaskChange { afresh: true, ..TaskChange::default() });
        assert_eq!(refused(&caller("family"), &resume("task-family-over")), Code::Conflict);
        assert_eq!(refused(&caller("family"), &resume("task-main")), Code::NotFound);
    }
}
