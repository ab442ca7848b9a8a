//! What an agent is shown beside its tasks: the chats and the archived sessions, in v1's names.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{Folder, Time, outcome::iso};

/// A chat that an agent could be registered for: a row of `available_groups.json` and of `refresh_groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupRow {
    /// Its address.
    pub jid: String,
    /// Its name if the platform told it, otherwise the address.
    pub name: String,
    /// When something last came in.
    #[serde(serialize_with = "iso")]
    #[schemars(with = "Option<String>")]
    pub last_activity: Option<Time>,
    /// Whether an agent is registered for it.
    pub is_registered: bool,
}

/// `available_groups.json`. Only main's has rows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableGroups {
    /// Newest activity first.
    pub groups: Vec<GroupRow>,
    /// How many more there are, which the file has no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<usize>,
    /// When this was written.
    #[serde(serialize_with = "instant")]
    #[schemars(with = "String")]
    pub last_sync: Time,
}

/// An archived session: a row of `session_history.json`, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchivedSession {
    /// Its number, which `resume_session` takes.
    pub id: i64,
    /// The name it was kept under.
    pub name: String,
    /// The agent's own name for the conversation.
    pub session_id: String,
    /// When it was archived.
    #[serde(serialize_with = "instant")]
    #[schemars(with = "String")]
    pub archived_at: Time,
}

/// An archived session that a search has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundSession {
    /// Whose it is.
    #[serde(skip)]
    pub group: Folder,
    /// What it is.
    #[serde(flatten)]
    pub session: ArchivedSession,
    /// A piece of it around what was looked for, which stands between `**` and `**`.
    pub snippet: String,
}

fn instant<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_names_of_v1() {
        let chat = GroupRow {
            jid: "tg:1".into(),
            name: "Team".into(),
            last_activity: Some(Time(0)),
            is_registered: false,
        };
        let groups = AvailableGroups { groups: vec![chat], more: None, last_sync: Time(1) };
        assert_eq!(
            serde_json::to_string(&groups).unwrap(),
            r#"{"groups":[{"jid":"tg:1","name":"Team","lastActivity":"1970-01-01T00:00:00.000Z","isRegistered":false}],"lastSync":"1970-01-01T00:00:00.001Z"}"#
        );
        let session =
            ArchivedSession { id: 3, name: "Trip".into(), session_id: "s".into(), archived_at: Time(0) };
        let group = Folder::parse("family").unwrap();
        let found = FoundSession { group, session, snippet: "a **trip**".into() };
        assert_eq!(
            serde_json::to_string(&found).unwrap(),
            r#"{"id":3,"name":"Trip","session_id":"s","archived_at":"1970-01-01T00:00:00.000Z","snippet":"a **trip**"}"#
        );
    }
}
