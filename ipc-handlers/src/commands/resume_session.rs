//! `resume_session`: an archived conversation is taken up again.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Code, Effect, Facts, Folder, Refusal, Wants, fields::Fields};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "resume_session",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"resume_session","sessionHistoryId":3,"saveName":"Holiday plans"}"#,
    read: |fields| ResumeSession::read(fields).map(Command::ResumeSession),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeSession {
    /// The archive, as `session_history.json` and `search_sessions` number it.
    pub session_history_id: i64,
    /// The name to archive the present conversation under; left out, it is not archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_name: Option<String>,
    /// The group; left out, the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl ResumeSession {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            session_history_id: fields.whole_number("sessionHistoryId")?,
            save_name: fields.optional_name("saveName")?,
            target_folder: target::read(fields)?,
        })
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        let archive = Some((self.session_history_id, caller.scope()));
        Wants { archive, ..target::wants(self.target_folder.as_ref(), caller) }
    }

    /// An archive is of use only where its transcript lies: in its own group.
    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (target, lanes) = target::decide(self.target_folder.as_ref(), caller, facts)?;
        let id = self.session_history_id;
        let archive =
            facts.archive.as_ref().filter(|archive| archive.id == id && caller.may_touch(&archive.group));
        match archive {
            Some(archive) if archive.group == target => Ok(vec![Effect::ResumeSession {
                target,
                lanes,
                archive: id,
                save_as: self.save_name.clone(),
            }]),
            Some(archive) => Err(Refusal::new(
                Code::NotFound,
                format!("the archived session {id} is not of the group \"{target}\""),
                format!(
                    "it is of the group \"{0}\": add \"targetFolder\":\"{0}\" to resume it there",
                    archive.group
                ),
            )),
            None => Err(Refusal::no_such_archive(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        commands::testing::{ask, caller, folder, in_run, refused},
        effect::Lanes,
    };

    fn resume(id: impl Into<Value>) -> Value {
        json!({"type": "resume_session", "sessionHistoryId": id.into()})
    }

    fn resumed(group: &str, lanes: Lanes) -> Effect {
        Effect::ResumeSession { target: folder(group), lanes, archive: 5, save_as: None }
    }

    #[test]
    fn a_run_resumes_in_its_lane_and_a_person_in_all() {
        // 5 is family's, 6 is main's.
        assert_eq!(ask(&in_run("family", "tg:-100"), &resume(5)).unwrap(), resumed("family", Lanes::One(3)));
        assert_eq!(ask(&caller("family"), &resume("5")).unwrap(), resumed("family", Lanes::All));
    }

    #[test]
    fn a_foreign_archive_and_an_absent_one_read_the_same() {
        let words = |id: i64| {
            let refusal = ask(&caller("family"), &resume(id)).unwrap_err();
            (refusal.code, refusal.message.replace(&id.to_string(), "N"), refusal.hint)
        };
        assert_eq!(words(6), words(99));
        assert_eq!(words(6).0, Code::NotFound);
    }

    #[test]
    fn main_resumes_where_the_archive_is_at_home() {
        let refusal = ask(&caller("main"), &resume(5)).unwrap_err();
        assert!(refusal.hint.contains("\"targetFolder\":\"family\""), "{refusal:?}");
        let mut there = resume(5);
        there["targetFolder"] = "family".into();
        assert_eq!(ask(&in_run("main", "local:main"), &there).unwrap(), resumed("family", Lanes::All));
    }

    #[test]
    fn the_id_is_a_whole_number() {
        for bad in [json!("x"), json!(1.5), json!({}), json!(true), json!("")] {
            assert_eq!(refused(&caller("family"), &resume(bad.clone())), Code::InvalidField, "{bad}");
        }
        assert_eq!(refused(&caller("family"), &resume(Value::Null)), Code::MissingField);
    }
}
