//! `cancel_task`: removes a task and its history.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{Caller, Effect, Facts, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "cancel_task",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"cancel_task","taskId":"task-1767225600000-a1b2c3"}"#,
    read: |fields| CancelTask::read(fields).map(Command::CancelTask),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelTask {
    /// The task.
    pub task_id: String,
}

impl CancelTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { task_id: fields.text("taskId")? })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some(self.task_id.clone()), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        facts.task(caller, &self.task_id)?;
        Ok(vec![Effect::CancelTask { id: self.task_id.clone(), scope: caller.scope() }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Code, Scope,
        commands::testing::{ask, caller, folder, refused},
    };

    fn cancel(id: &str) -> serde_json::Value {
        json!({"type": "cancel_task", "taskId": id})
    }

    #[test]
    fn a_group_cancels_its_own_and_main_any() {
        let id = "task-family";
        assert_eq!(
            ask(&caller("family"), &cancel(id)).unwrap(),
            Effect::CancelTask { id: id.into(), scope: Scope::Group(folder("family")) }
        );
        for id in ["task-family", "task-main"] {
            assert_eq!(
                ask(&caller("main"), &cancel(id)).unwrap(),
                Effect::CancelTask { id: id.into(), scope: Scope::All }
            );
        }
    }

    #[test]
    fn a_foreign_id_and_an_absent_one_read_the_same() {
        let words = |id: &str| {
            let refusal = ask(&caller("family"), &cancel(id)).unwrap_err();
            (refusal.code, refusal.message.replace(id, "X"), refusal.hint)
        };
        assert_eq!(words("task-main"), words("task-none"));
        assert_eq!(words("task-main").0, Code::NotFound);
        assert_eq!(refused(&caller("main"), &cancel("task-none")), Code::NotFound);
    }

    #[test]
    fn the_id_must_be_a_text() {
        let with = |id: serde_json::Value| json!({"type": "cancel_task", "taskId": id});
        assert_eq!(refused(&caller("main"), &with(json!(null))), Code::MissingField);
        assert_eq!(refused(&caller("main"), &with(json!(""))), Code::InvalidField);
        assert_eq!(refused(&caller("main"), &with(json!({"a": 1}))), Code::InvalidField);
    }
}
