//! `list_tasks`: the tasks that the caller may see, newest first, as `current_tasks.json` shows them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Effect, Facts, Folder, Refusal, Scope, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "list_tasks",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"list_tasks","requestId":"r-1"}"#,
    read: |fields| ListTasks::read(fields).map(Command::ListTasks),
};

/// The fields. A reply holds at most 1 MiB: where more follows it says `next`, which the next page is `after`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListTasks {
    /// How many are wanted at most, 1 to 1000; left out, as many as a reply holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<i64>,
    /// The `next` of the page before; left out, the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// The group, for main; left out, every group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

/// How many may be asked for.
const MOST: i64 = 1000;

impl ListTasks {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let number = |name| fields.get(name).map(|_| fields.whole_number(name)).transpose();
        let limit = number("limit")?;
        if let Some(limit) = limit.filter(|limit| !(1..=MOST).contains(limit)) {
            return Err(fields.invalid("limit", &format!("is {limit}, not 1 to {MOST}")));
        }
        Ok(Self { limit, after: number("after")?, target_folder: target::read(fields)? })
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        target::wants(self.target_folder.as_ref(), caller)
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let scope = match &self.target_folder {
            Some(_) => Scope::Group(target::decide(self.target_folder.as_ref(), caller, facts)?.0),
            None => caller.scope(),
        };
        Ok(vec![Effect::ListTasks { scope, after: self.after, limit: self.limit }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Code,
        commands::testing::{ask, caller, folder, refused},
    };

    fn list(field: &str, value: impl Into<Value>) -> Value {
        let mut command = json!({"type": "list_tasks"});
        command[field] = value.into();
        command
    }

    fn page(scope: Scope, after: Option<i64>, limit: Option<i64>) -> Effect {
        Effect::ListTasks { scope, after, limit }
    }

    #[test]
    fn a_group_sees_its_own_tasks_and_main_all_or_another_s() {
        let of = |group: &str| page(Scope::Group(folder(group)), None, None);
        assert_eq!(ask(&caller("family"), &json!({"type": "list_tasks"})).unwrap(), of("family"));
        assert_eq!(ask(&caller("family"), &list("targetFolder", "family")).unwrap(), of("family"));
        assert_eq!(
            ask(&caller("main"), &json!({"type": "list_tasks"})).unwrap(),
            page(Scope::All, None, None)
        );
        assert_eq!(ask(&caller("main"), &list("targetFolder", "family")).unwrap(), of("family"));
        assert_eq!(refused(&caller("family"), &list("targetFolder", "main")), Code::NotAuthorized);
        assert_eq!(refused(&caller("main"), &list("targetFolder", "nobody")), Code::NotFound);
    }

    #[test]
    fn a_page_says_where_it_begins_and_how_long_it_is() {
        assert_eq!(ask(&caller("main"), &list("after", 7)).unwrap(), page(Scope::All, Some(7), None));
        assert_eq!(ask(&caller("main"), &list("limit", "1000")).unwrap(), page(Scope::All, None, Some(1000)));
        for (field, bad) in
            [("limit", json!(0)), ("limit", json!(1001)), ("limit", json!("x")), ("after", json!("task-1"))]
        {
            assert_eq!(
                refused(&caller("main"), &list(field, bad.clone())),
                Code::InvalidField,
                "{field} {bad}"
            );
        }
    }
}
