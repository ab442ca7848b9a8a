//! `cancel_task`: removes a task and its history.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Effect, Facts, Folder, Refusal, Wants, fields::Fields};

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
    /// Whose it is, for main: left out, main's own, otherwise the only one of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl CancelTask {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { task_id: fields.text("taskId")?, target_folder: target::read(fields)? })
    }

    pub(crate) fn wants(&self, _caller: &Caller) -> Wants {
        Wants { task: Some((self.task_id.clone(), self.target_folder.clone())), ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let task = facts.task(caller, &self.task_id, self.target_folder.as_ref())?;
        Ok(vec![Effect::CancelTask { id: task.id.clone(), group: task.group.clone() }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Code,
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
            Effect::CancelTask { id: id.into(), group: folder("family") }
        );
        for (id, group) in [("task-family", "family"), ("task-main", "main")] {
            assert_eq!(
                ask(&caller("main"), &cancel(id)).unwrap(),
                Effect::CancelTask { id: id.into(), group: folder(group) }
            );
        }
    }

    #[test]
    fn an_id_of_several_groups_is_the_caller_s_own_and_main_may_name_whose() {
        let whose = |from: &str, id: &str, target: Option<&str>| {
            let mut command = cancel(id);
            if let Some(target) = target {
                command["targetFolder"] = target.into();
            }
            ask(&caller(from), &command).map(|effect| {
                let Effect::CancelTask { group, .. } = effect else { panic!("{effect:?}") };
                group.to_string()
            })
        };
        for (from, id, target, group) in [
            ("family", "report", None, "family"),
            ("family", "report", Some("family"), "family"),
            ("main", "report", None, "main"),
            ("main", "report", Some("solo"), "solo"),
            ("main", "digest", Some("family"), "family"),
            ("family", "digest", None, "family"),
        ] {
            assert_eq!(whose(from, id, target).unwrap(), group, "{from} {id} {target:?}");
        }
        let refusal = whose("main", "digest", None).unwrap_err();
        assert_eq!(refusal.code, Code::Conflict);
        assert!(refusal.hint.contains("family") && refusal.hint.contains("solo"), "{refusal:?}");
        for (from, id, target, code) in [
            ("main", "digest", Some("main"), Code::NotFound),
            ("main", "digest", Some("nobody"), Code::NotFound),
            ("main", "task-family", Some("solo"), Code::NotFound),
            // Whether there is such a task, or such a group, makes no difference.
            ("family", "report", Some("solo"), Code::NotAuthorized),
            ("family", "task-none", Some("nobody"), Code::NotAuthorized),
        ] {
            assert_eq!(whose(from, id, target).unwrap_err().code, code, "{from} {id} {target:?}");
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
