//! `clear_session`: the conversation starts afresh; with a name, what was is archived first.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Effect, Facts, Folder, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "clear_session",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"clear_session","name":"Holiday plans"}"#,
    read: |fields| ClearSession::read(fields).map(Command::ClearSession),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearSession {
    /// The name to archive under; left out, nothing is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The group; left out, the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl ClearSession {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { target_folder: target::read(fields)?, name: fields.optional_name("name")? })
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        target::wants(self.target_folder.as_ref(), caller)
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (target, lanes) = target::decide(self.target_folder.as_ref(), caller, facts)?;
        Ok(vec![Effect::ClearSession { target, lanes, archive_as: self.name.clone() }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{ask, caller, folder, in_run, refused};
    use crate::{Code, effect::Lanes};

    fn clear(target: &str) -> serde_json::Value {
        json!({"type": "clear_session", "targetFolder": target})
    }

    fn cleared(group: &str, lanes: Lanes) -> Effect {
        Effect::ClearSession { target: folder(group), lanes, archive_as: None }
    }

    #[test]
    fn a_run_clears_its_own_lane_and_a_person_all() {
        let own = json!({"type": "clear_session"});
        assert_eq!(ask(&in_run("family", "tg:-100"), &own).unwrap(), cleared("family", Lanes::One(3)));
        assert_eq!(
            ask(&in_run("family", "tg:-100"), &clear("family")).unwrap(),
            cleared("family", Lanes::One(3))
        );
        assert_eq!(ask(&caller("family"), &own).unwrap(), cleared("family", Lanes::All));
    }

    #[test]
    fn only_main_names_another_group_and_clears_all_its_lanes() {
        assert_eq!(
            ask(&in_run("main", "local:main"), &clear("family")).unwrap(),
            cleared("family", Lanes::All)
        );
        assert_eq!(
            ask(&in_run("main", "local:main"), &clear("main")).unwrap(),
            cleared("main", Lanes::One(3))
        );
        assert_eq!(refused(&caller("main"), &clear("nobody")), Code::NotFound);
        for other in ["main", "solo", "nobody"] {
            assert_eq!(refused(&caller("family"), &clear(other)), Code::NotAuthorized, "{other}");
        }
    }

    #[test]
    fn a_name_archives_first_and_an_empty_one_does_not() {
        let named = |name: &str| json!({"type": "clear_session", "name": name});
        let archive = |name: &str| {
            let Effect::ClearSession { archive_as, .. } = ask(&caller("family"), &named(name)).unwrap()
            else {
                panic!("clears");
            };
            archive_as
        };
        assert_eq!(archive("Trip").as_deref(), Some("Trip"));
        assert_eq!(archive(""), None);
    }

    #[test]
    fn a_folder_that_leads_elsewhere_is_refused() {
        for bad in ["../main", "/etc", "a/b", "global"] {
            assert_eq!(refused(&caller("main"), &clear(bad)), Code::InvalidField, "{bad}");
        }
    }
}
