//! The bytes of `responses/<requestId>.json`, and of the reply kept beside an applied file.

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::{Outcome, Refusal, RequestId, TaskRow, Time};

/// Returns the reply to a command that was applied: `{"requestId","ok":true,"result":R}`.
///
/// R is that of the first outcome; every command has one. Without a request id the field is left out. `zone` is
/// the user's, for `nextRunLocal`.
#[must_use]
pub fn accepted(request_id: Option<&RequestId>, outcomes: &[Outcome], zone: &TimeZone) -> Vec<u8> {
    write(&Reply::Accepted {
        request_id,
        ok: true,
        result: outcomes.first().map_or(Answer::Nothing {}, |outcome| Answer::of(outcome, zone)),
    })
}

/// Returns the reply to a command that was refused: `{"requestId","ok":false,"error":{"code","message","hint"}}`.
#[must_use]
pub fn refused(request_id: Option<&RequestId>, refusal: &Refusal) -> Vec<u8> {
    write(&Reply::Refused { request_id, ok: false, error: refusal })
}

/// Returns an instant as the user's clocks show it, with the offset: `2026-03-01T09:00:00-05:00`.
#[must_use]
pub fn local(time: Time, zone: &TimeZone) -> String {
    time.to_jiff().to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply<'a> {
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

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Answer<'a> {
    Nothing {},
    Said {
        outbox_id: i64,
    },
    TaskCreated {
        task_id: &'a str,
        next_run: String,
        next_run_local: String,
    },
    Tasks {
        tasks: &'a [TaskRow],
    },
    TaskCancelled {
        task_id: &'a str,
    },
    SessionCleared {
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_id: Option<i64>,
    },
}

impl<'a> Answer<'a> {
    fn of(outcome: &'a Outcome, zone: &TimeZone) -> Self {
        match outcome {
            Outcome::Said { outbox_id } => Self::Said { outbox_id: *outbox_id },
            Outcome::TaskCreated { task_id, next_run } => Self::TaskCreated {
                task_id,
                next_run: next_run.to_string(),
                next_run_local: local(*next_run, zone),
            },
            Outcome::Tasks(tasks) => Self::Tasks { tasks },
            Outcome::TaskCancelled { task_id } => Self::TaskCancelled { task_id },
            Outcome::SessionCleared { archived_id } => Self::SessionCleared { archived_id: *archived_id },
        }
    }
}

fn write(reply: &Reply<'_>) -> Vec<u8> {
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
        let id = RequestId::parse("r-1").unwrap();
        String::from_utf8(accepted(Some(&id), &[outcome], &zone)).unwrap()
    }

    #[test]
    fn each_outcome_is_answered_in_its_shape() {
        for (outcome, answer) in [
            (Outcome::Said { outbox_id: 5 }, r#"{"outboxId":5}"#),
            (
                Outcome::TaskCreated { task_id: "t".into(), next_run: Time(1_772_366_400_000) },
                r#"{"taskId":"t","nextRun":"2026-03-01T12:00:00.000Z","nextRunLocal":"2026-03-01T07:00:00-05:00"}"#,
            ),
            (Outcome::Tasks(vec![]), r#"{"tasks":[]}"#),
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
        assert_eq!(accepted(None, &[], &TimeZone::UTC), br#"{"ok":true,"result":{}}"#);
    }
}
