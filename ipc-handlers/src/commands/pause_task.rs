//! `pause_task`: a task rests until it is resumed.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{
    Caller, Code, Effect, Facts, Folder, Refusal, TaskStatus, Wants, effect::TaskChange, fields::Fields,
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
    /// Whose it is, for main: left out, main's own, otherwise the only one of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl PauseTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { task_id: fields.text("taskId")?, target_folder: target::read(fields)? })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some((self.task_id.clone(), self.target_folder.clone())), ..Wants::default() }
    }

    /// One that is paused already stays so; one that is over can't rest.
    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let task = facts.task(caller, &self.task_id, self.target_folder.as_ref())?;
        if task.status == TaskStatus::Completed {
            return Err(Refusal::new(
                Code::Conflict,
                format!("the task {} has run for the last time", quoted(&self.task_id)),
                "there is nothing to pause; cancel_task removes it, update_task gives it a new schedule",
            ));
        }
        Ok(vec![Effect::ChangeTask {
            id: task.id.clone(),
            group: task.group.clone(),
            change: TaskChange { status: Some(TaskStatus::Paused), ..TaskChange::default() },
        }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{ask, caller, folder, refused};

    fn pause(id: &str) -> serde_json::Value {
        json!({"type": "pause_task", "taskId": id})
    }

    #[test]
    fn a_group_pauses_its_own_and_main_any() {
        let paused = TaskChange { status: Some(TaskStatus::Paused), ..TaskChange::default() };
        let own = ask(&caller("family"), &pause("task-family")).unwrap();
        let group = folder("family");
        assert_eq!(own, Effect::ChangeTask { id: "task-family".into(), group, change: paused });
        assert_eq!(ask(&caller("main"), &pause("task-family")).unwrap(), own);
        for id in ["task-main", "task-none"] {
            assert_eq!(refused(&caller("family"), &pause(id)), Code::NotFound);
        }
    }

    #[test]
    fn one_that_is_over_can_not_rest() {
        assert_eq!(refused(&caller("family"), &pause("task-family-over")), Code::Conflict);
    }
}
