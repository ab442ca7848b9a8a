//! `pause_task`: a task rests until it is resumed.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{
    Caller, Code, Effect, Facts, Refusal, TaskStatus, Wants, effect::TaskChange, fields::Fields,
    refusal::quoted,
};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "pause_task",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"pause_task","taskId":"task-1767225600000-a1b2c3"}"#,
    read: |fields| PauseTask::read(fields).map(Command::PauseTask),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseTask {
    /// The task.
    pub task_id: String,
}

impl PauseTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { task_id: fields.text("taskId")? })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some(self.task_id.clone()), ..Wants::default() }
    }

    /// One that is paused already stays so; one that is over can't rest.
    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        if facts.task(caller, &self.task_id)?.status == TaskStatus::Completed {
            return Err(Refusal::new(
                Code::Conflict,
                format!("the task {} has run for the last time", quoted(&self.task_id)),
                "there is nothing to pause; cancel_task removes it, update_task gives it a new schedule",
            ));
        }
        Ok(vec![Effect::ChangeTask {
            id: self.task_id.clone(),
            scope: caller.scope(),
            change: TaskChange { status: Some(TaskStatus::Paused), ..TaskChange::default() },
        }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Scope,
        commands::testing::{ask, caller, folder, refused},
    };

    fn pause(id: &str) -> serde_json::Value {
        json!({"type": "pause_task", "taskId": id})
    }

    #[test]
    fn a_group_pauses_its_own_and_main_any() {
        let paused = TaskChange { status: Some(TaskStatus::Paused), ..TaskChange::default() };
        let own = ask(&caller("family"), &pause("task-family")).unwrap();
        let scope = Scope::Group(folder("family"));
        assert_eq!(own, Effect::ChangeTask { id: "task-family".into(), scope, change: paused.clone() });
        let any = ask(&caller("main"), &pause("task-family")).unwrap();
        assert_eq!(any, Effect::ChangeTask { id: "task-family".into(), scope: Scope::All, change: paused });
        for id in ["task-main", "task-none"] {
            assert_eq!(refused(&caller("family"), &pause(id)), Code::NotFound);
        }
    }

    #[test]
    fn one_that_is_over_can_not_rest() {
        assert_eq!(refused(&caller("family"), &pause("task-family-over")), Code::Conflict);
    }
}
