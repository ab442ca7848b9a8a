//! `archive_session`: keeps a conversation under a name; it goes on.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Command, Entry, Who, target};
use crate::{Caller, Effect, Facts, Folder, Refusal, Wants, fields::Fields, names::is_session_id};

/// The catalogue's line.
pub static ENTRY: Entry = Entry {
    type_name: "archive_session",
    alias: None,
    who: Who::Own,
    example: r#"{"type":"archive_session","sessionId":"0b7e3a52-2f3c-4e5d-9d8e-1a2b3c4d5e6f","name":"Holiday plans"}"#,
    read: |fields| ArchiveSession::read(fields).map(Command::ArchiveSession),
};

/// The fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveSession {
    /// The agent's own name for the conversation.
    pub session_id: String,
    /// The name to keep it under.
    pub name: String,
    /// What was said; left out, the host reads the transcript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The group; left out, the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_folder: Option<Folder>,
}

impl ArchiveSession {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let session_id = fields.text("sessionId")?;
        if !is_session_id(&session_id) {
            return Err(fields.invalid("sessionId", "is no session id (1 to 64 letters, digits or '-')"));
        }
        Ok(Self {
            session_id,
            name: fields.seen_name("name")?,
            content: fields.optional_text("content")?,
            target_folder: target::read(fields)?,
        })
    }

    pub(crate) fn wants(&self, caller: &Caller) -> Wants {
        target::wants(self.target_folder.as_ref(), caller)
    }

    pub(crate) fn decide(&self, caller: &Caller, facts: &Facts) -> Result<Vec<Effect>, Refusal> {
        let (target, _) = target::decide(self.target_folder.as_ref(), caller, facts)?;
        Ok(vec![Effect::ArchiveSession {
            target,
            session_id: self.session_id.clone(),
            name: self.name.clone(),
            content: self.content.clone(),
        }])
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

    fn archive(field: &str, value: impl Into<Value>) -> Value {
        let mut command = json!({"type": "archive_session", "sessionId": "s-1", "name": "Trip"});
        command[field] = value.into();
        command
    }

    #[test]
    fn a_group_archives_its_own_and_main_another_s() {
        let kept = |group: &str| Effect::ArchiveSession {
            target: folder(group),
            session_id: "s-1".into(),
            name: "Trip".into(),
            content: None,
        };
        // The time that G2's hook sends is not the host's.
        assert_eq!(ask(&caller("family"), &archive("timestamp", "2020-01-01")).unwrap(), kept("family"));
        assert_eq!(ask(&caller("main"), &archive("targetFolder", "family")).unwrap(), kept("family"));
        assert_eq!(refused(&caller("family"), &archive("targetFolder", "main")), Code::NotAuthorized);
    }

    #[test]
    fn a_session_id_that_leads_elsewhere_is_refused() {
        for bad in ["../x", "a/b", "", &"x".repeat(65), "a.b"] {
            assert_eq!(refused(&caller("family"), &archive("sessionId", bad)), Code::InvalidField, "{bad}");
        }
        assert_eq!(refused(&caller("family"), &archive("name", Value::Null)), Code::MissingField);
        assert_eq!(refused(&caller("family"), &archive("content", 3)), Code::InvalidField);
    }
}
