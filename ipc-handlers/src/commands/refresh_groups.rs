//! `refresh_groups`: the chats that an agent could be registered for, read anew.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{Caller, Effect, Facts, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "refresh_groups",
    alias: None,
    who: Who::Main,
    example: r#"{"type":"refresh_groups","requestId":"r-1"}"#,
    read: |fields| RefreshGroups::read(fields).map(Command::RefreshGroups),
};

/// It has no fields of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefreshGroups {}

impl RefreshGroups {
    pub(crate) fn read(_fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {})
    }

    pub(crate) fn wants(self, _caller: &Caller) -> Wants {
        Wants::default()
    }

    pub(crate) fn decide(self, caller: &Caller, _facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        caller.must_be_main("see the chats of other groups")?;
        Ok(vec![Effect::ListGroups])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Code,
        commands::testing::{ask, caller, refused},
    };

    #[test]
    fn only_main_sees_the_chats_of_all() {
        let refresh = json!({"type": "refresh_groups"});
        assert_eq!(ask(&caller("main"), &refresh).unwrap(), Effect::ListGroups);
        assert_eq!(refused(&caller("family"), &refresh), Code::NotAuthorized);
    }
}
