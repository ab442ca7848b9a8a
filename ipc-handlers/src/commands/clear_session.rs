//! `clear_session`: the conversation starts afresh; with a name, what was is archived first.

use serde::Serialize;

use super::{Command, Entry, Who};
use crate::{Caller, Code, Effect, Facts, Folder, Refusal, Wants, effect::Lanes, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "clear_session",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"clear_session","name":"Holiday plans"}"#,
    read: |fields| ClearSession::read(fields).map(Command::ClearSession),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        let target_folder = fields
            .optional_text("targetFolder")?
            .map(|name| {
                Folder::parse(&name).map_err(|_| {
                    fields.invalid(
                        "targetFolder",
                        "is no folder name (letters, digits, '-' and '_', 64 at most)",
                    )
                })
            })
            .transpose()?;
        Ok(Self { name: fields.optional_text("name")?, target_folder })
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        let folder = self.target_folder.clone().filter(|folder| *folder != caller.group);
        Wants { folder, ..Wants::default() }
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (target, lanes) = match &self.target_folder {
            Some(other) if *other != caller.group => {
                if !caller.is_main {
                    return Err(Refusal::new(
                        Code::NotAuthorized,
                        format!("targetFolder \"{other}\" is not the group \"{}\"", caller.group),
                        "leave targetFolder out to clear your own session; only the main group may name another",
                    ));
                }
                if !facts.folder_exists {
                    return Err(Refusal::no_such_group(other));
                }
                (other, Lanes::All)
            }
            Some(_) | None => {
                (&caller.group, caller.run.as_ref().map_or(Lanes::All, |seat| Lanes::One(seat.lane)))
            }
        };
        Ok(vec![Effect::ClearSession { target: target.clone(), lanes, archive_as: self.name.clone() }])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::testing::{ask, caller, folder, in_run, refused};

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
