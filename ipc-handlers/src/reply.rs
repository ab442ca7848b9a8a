//! The bytes of `responses/<requestId>.json`, and of the reply kept beside an applied file.

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Envelope, Folder, Outcome, Refusal, RequestId, TaskRow, TaskStatus, Time, Unsearched,
    shown::{FoundSession, GroupRow},
};

/// Returns the reply to a command that was applied: `{"requestId","ok":true,"result":R}`.
///
/// R is that of the first outcome; every command has one. Without a request id the field is left out. `zone` is
/// the user's, for `nextRunLocal`. A `search_sessions` without a `schemaVersion` is G2's own and gets G2's bare array.
#[must_use]
pub fn accepted(envelope: &Envelope, outcomes: &[Outcome], zone: &TimeZone) -> Vec<u8> {
    if envelope.schema_version.is_none()
        && let [Outcome::Sessions { sessions, unsearched: _ }] = outcomes
    {
        return bytes(&sessions.iter().map(BareSession::of).collect::<Vec<_>>());
    }
    bytes(&Reply::Accepted {
        request_id: envelope.request_id.as_ref(),
        ok: true,
        result: outcomes.first().map_or(Answer::Nothing {}, |outcome| Answer::of(outcome, zone)),
    })
}

/// Returns the reply to a command that was refused: `{"requestId","ok":false,"error":{"code","message","hint"}}`.
#[must_use]
pub fn refused(request_id: Option<&RequestId>, refusal: &Refusal) -> Vec<u8> {
    bytes(&Reply::Refused { request_id, ok: false, error: refusal })
}

/// Returns the reply to a search: the sessions found, and why these may not be all. If none was found for that reason, the
/// search is refused.
///
/// # Errors
/// The refusal.
pub fn found(
    envelope: &Envelope,
    sessions: Vec<FoundSession>,
    unsearched: Option<Unsearched>,
) -> Result<Vec<u8>, Refusal> {
    match unsearched {
        Some(why) if sessions.is_empty() => Err(why.into()),
        Some(_) | None => {
            Ok(accepted(envelope, &[Outcome::Sessions { sessions, unsearched }], &TimeZone::UTC))
        }
    }
}

/// Returns an instant as the user's clocks show it, with the offset: `2026-03-01T09:00:00-05:00`.
#[must_use]
pub fn local(time: Time, zone: &TimeZone) -> String {
    time.to_jiff().to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Reply<'a> {
    Accepted {
        #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
        request_id: Option<&'a RequestId>,
        ok: bool,
        result: Answer<'a>,
    },
    Refused {
        #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
        request_id: Option<&'a RequestId>,
        ok: bool,
        error: &'a Refusal,
    },
}

/// The note to a sender who did not close a block.
const UNCLOSED: &str = "an <internal> was not closed, so all that followed it was not sent; close it with </internal>, or write &lt;internal&gt; to show the tag";

/// The note to an agent that has registered a group for a chat of which nobody tells.
const UNSERVED: &str = "no account reaches this chat: nothing comes from there, and nothing can be said there, before the owner adds an account whose addresses are such";

/// The note to an agent that has asked.
const ASKED: &str = "the answer comes as a message, and so does it when nobody answers in time; end your turn if nothing can be done before it";

#[derive(Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Answer<'a> {
    Nothing {},
    #[schemars(title = "send_message")]
    Said {
        outbox_id: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'static str>,
    },
    #[schemars(title = "ask_user")]
    Asked {
        question_id: i64,
        expires: String,
        expires_local: String,
        note: &'static str,
    },
    #[schemars(title = "schedule_task")]
    TaskCreated {
        task_id: &'a str,
        next_run: String,
        next_run_local: String,
        schedule_in_words: &'a str,
    },
    #[schemars(title = "list_tasks")]
    Tasks {
        tasks: &'a [TaskRow],
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<i64>,
    },
    #[schemars(title = "update_task, pause_task, resume_task")]
    TaskChanged {
        task_id: &'a str,
        status: TaskStatus,
        next_run: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        schedule_in_words: Option<&'a str>,
    },
    #[schemars(title = "cancel_task")]
    TaskCancelled {
        task_id: &'a str,
    },
    #[schemars(title = "register_group")]
    Registered {
        folder: &'a Folder,
        jid: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'static str>,
    },
    #[schemars(title = "refresh_groups")]
    Groups {
        groups: &'a [GroupRow],
        #[serde(skip_serializing_if = "Option::is_none")]
        more: Option<usize>,
    },
    #[schemars(title = "clear_session")]
    SessionCleared {
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_id: Option<i64>,
    },
    #[schemars(title = "resume_session")]
    SessionResumed {
        session_id: &'a str,
    },
    #[schemars(title = "search_sessions")]
    Sessions {
        sessions: &'a [FoundSession],
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    #[schemars(title = "archive_session")]
    SessionArchived {
        id: i64,
    },
}

impl<'a> Answer<'a> {
    fn of(outcome: &'a Outcome, zone: &TimeZone) -> Self {
        match outcome {
            Outcome::Said { outbox_id, unclosed } => {
                Self::Said { outbox_id: *outbox_id, note: unclosed.then_some(UNCLOSED) }
            }
            Outcome::Asked { question_id, expires_at } => Self::Asked {
                question_id: *question_id,
                expires: expires_at.to_string(),
                expires_local: local(*expires_at, zone),
                note: ASKED,
            },
            Outcome::TaskCreated { task_id, next_run, in_words, group: _ } => Self::TaskCreated {
                task_id,
                schedule_in_words: in_words,
                next_run: next_run.to_string(),
                next_run_local: local(*next_run, zone),
            },
            Outcome::Tasks { tasks, next } => Self::Tasks { tasks, next: *next },
            Outcome::TaskChanged { task_id, status, next_run, in_words } => Self::TaskChanged {
                task_id,
                status: *status,
                next_run: next_run.map(|at| at.to_string()),
                schedule_in_words: in_words.as_deref(),
            },
            Outcome::Registered { folder, jid, unserved } => {
                Self::Registered { folder, jid, note: unserved.then_some(UNSERVED) }
            }
            Outcome::Groups { groups, more } => {
                Self::Groups { groups, more: Some(*more).filter(|more| *more > 0) }
            }
            Outcome::SessionResumed { session_id } => Self::SessionResumed { session_id },
            Outcome::ToSearch => Self::Nothing {},
            Outcome::Sessions { sessions, unsearched } => {
                let note = |why: Unsearched| {
                    let Refusal { message, hint, .. } = why.into();
                    format!("there may be more: {message}; {hint}")
                };
                Self::Sessions { sessions, note: unsearched.map(note) }
            }
            Outcome::SessionArchived { id } => Self::SessionArchived { id: *id },
            Outcome::TaskCancelled { task_id } => Self::TaskCancelled { task_id },
            Outcome::SessionCleared { archived_id } => Self::SessionCleared { archived_id: *archived_id },
        }
    }
}

/// An archived session as G2's runner reads it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BareSession<'a> {
    id: i64,
    group_folder: &'a Folder,
    session_id: &'a str,
    name: &'a str,
    archived_at: String,
}

impl<'a> BareSession<'a> {
    fn of(found: &'a FoundSession) -> Self {
        let FoundSession { group, session, .. } = found;
        Self {
            id: session.id,
            group_folder: group,
            session_id: &session.session_id,
            name: &session.name,
            archived_at: session.archived_at.to_string(),
        }
    }
}

fn bytes(reply: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and lists into memory: nothing here can fail to be written.
    serde_json::to_vec(reply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZoneDatabase;

    use super::*;
    use crate::Code;

    fn result(outcome: Outcome) -> String {
        let zone = TimeZoneDatabase::bundled().get("America/New_York").unwrap();
        let asked = crate::parse(br#"{"type":"list_tasks","requestId":"r-1","schemaVersion":1}"#).unwrap();
        String::from_utf8(accepted(&asked, &[outcome], &zone)).unwrap()
    }

    #[test]
    fn each_outcome_is_answered_in_its_shape() {
        for (outcome, answer) in [
            (Outcome::Said { outbox_id: 5, unclosed: false }, r#"{"outboxId":5}"#),
            (
                Outcome::Said { outbox_id: 5, unclosed: true },
                r#"{"outboxId":5,"note":"an <internal> was not closed, so all that followed it was not sent; close it with </internal>, or write &lt;internal&gt; to show the tag"}"#,
            ),
            (
                Outcome::TaskCreated {
                    task_id: "t".into(),
                    group: Folder::parse("a").unwrap(),
                    next_run: Time(1_772_366_400_000),
                    in_words: "every hour".into(),
                },
                r#"{"taskId":"t","nextRun":"2026-03-01T12:00:00.000Z","nextRunLocal":"2026-03-01T07:00:00-05:00","scheduleInWords":"every hour"}"#,
            ),
            (
                Outcome::TaskChanged {
                    task_id: "t".into(),
                    status: TaskStatus::Paused,
                    next_run: None,
                    in_words: None,
                },
                r#"{"taskId":"t","status":"paused","nextRun":null}"#,
            ),
            (Outcome::Tasks { tasks: vec![], next: None }, r#"{"tasks":[]}"#),
            (Outcome::Tasks { tasks: vec![], next: Some(7) }, r#"{"tasks":[],"next":7}"#),
            (Outcome::Groups { groups: vec![], more: 0 }, r#"{"groups":[]}"#),
            (Outcome::Groups { groups: vec![], more: 2 }, r#"{"groups":[],"more":2}"#),
            (Outcome::TaskCancelled { task_id: "t".into() }, r#"{"taskId":"t"}"#),
            (Outcome::SessionCleared { archived_id: None }, "{}"),
            (Outcome::SessionCleared { archived_id: Some(3) }, r#"{"archivedId":3}"#),
        ] {
            assert_eq!(result(outcome), format!(r#"{{"requestId":"r-1","ok":true,"result":{answer}}}"#));
        }
    }

    #[test]
    fn without_a_request_id_the_field_is_left_out() {
        let refusal = Refusal::new(Code::NotFound, "no", "so");
        assert_eq!(
            refused(None, &refusal),
            br#"{"ok":false,"error":{"code":"not_found","message":"no","hint":"so"}}"#
        );
        let asked = crate::parse(br#"{"type":"list_tasks"}"#).unwrap();
        assert_eq!(accepted(&asked, &[], &TimeZone::UTC), br#"{"ok":true,"result":{}}"#);
    }

    #[test]
    fn a_search_without_a_version_gets_a_bare_array() {
        let session = crate::shown::ArchivedSession {
            id: 3,
            name: "Trip".into(),
            session_id: "s".into(),
            archived_at: Time(0),
        };
        let group = Folder::parse("family").unwrap();
        let sessions =
            || vec![FoundSession { group: group.clone(), session: session.clone(), snippet: "x".into() }];
        let text = |reply: Result<Vec<u8>, Refusal>| String::from_utf8(reply.unwrap()).unwrap();
        let asked = crate::parse(br#"{"type":"search_sessions","requestId":"r-1"}"#).unwrap();
        assert_eq!(
            text(found(&asked, sessions(), Some(Unsearched::NotIndexed))),
            r#"[{"id":3,"group_folder":"family","session_id":"s","name":"Trip","archived_at":"1970-01-01T00:00:00.000Z"}]"#
        );
        let asked =
            crate::parse(br#"{"type":"search_sessions","requestId":"r-1","schemaVersion":1}"#).unwrap();
        let row = r#"{"id":3,"name":"Trip","session_id":"s","archived_at":"1970-01-01T00:00:00.000Z","snippet":"x"}"#;
        let answers = |result: &str| format!(r#"{{"requestId":"r-1","ok":true,"result":{result}}}"#);
        assert_eq!(text(found(&asked, sessions(), None)), answers(&format!(r#"{{"sessions":[{row}]}}"#)));
        assert_eq!(text(found(&asked, Vec::new(), None)), answers(r#"{"sessions":[]}"#));
        // What was not searched is said: beside what was found, or in place of it.
        let why = Unsearched::TooMuch;
        assert_eq!(
            text(found(&asked, sessions(), Some(why))),
            answers(&format!(
                r#"{{"sessions":[{row}],"note":"there may be more: so much of what was said fits that the search was given up; look for longer words, or for more of them"}}"#
            ))
        );
        assert_eq!(found(&asked, Vec::new(), Some(why)), Err(why.into()));
    }
}
