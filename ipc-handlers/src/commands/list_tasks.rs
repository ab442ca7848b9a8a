//! `list_tasks`: the tasks that the caller may see, newest first, as `current_tasks.json` shows them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{Caller, Effect, Facts, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "list_tasks",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"list_tasks","requestId":"r-1"}"#,
    read: |fields| ListTasks::read(fields).map(Command::ListTasks),
};

/// It has no fields of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListTasks {}

impl ListTasks {
    pub(crate) fn read(_fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {})
    }

    pub(crate) fn wants(self, _caller: &Caller) -> Wants {
        Wants::default()
    }

    pub(crate) fn decide(self, caller: &Caller, _facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        Ok(vec![Effect::ListTasks { scope: caller.scope() }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Scope,
        commands::testing::{ask, caller, folder},
    };

    #[test]
    fn a_group_sees_its_own_tasks_and_main_all() {
        let list = json!({"type": "list_tasks"});
        assert_eq!(
            ask(&caller("family"), &list).unwrap(),
            Effect::ListTasks { scope: Scope::Group(folder("family")) }
        );
        assert_eq!(ask(&caller("main"), &list).unwrap(), Effect::ListTasks { scope: Scope::All });
    }
}
