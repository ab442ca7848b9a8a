//! The bytes of a command file → the command, or a refusal.
//!
//! Two kinds of failure, because they are set aside in two places: [`Fault::Malformed`] is a file that can't be
//! read at all (not UTF-8, not JSON, no object, too large, too deep) and goes to `dead/`; [`Fault::Refused`] is
//! an object that asks wrongly and goes to `done/`. A file may look malformed because its writer is not done
//! yet; looking again is the reader's business.

use serde_json::{Map, Value};

use crate::{
    Code, Command, Refusal, RequestId,
    commands::{self, Entry},
    fields::Fields,
    json::{self, kind_of},
    refusal::quoted,
};

/// The largest command file, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The deepest nesting of a command file; the object itself is level 1.
pub const MAX_DEPTH: usize = 64;
/// The most values in a command file: read into memory, each may take several hundred times its bytes.
pub const MAX_VALUES: usize = 10_000;
/// The version of the commands that this host speaks.
pub const SCHEMA_VERSION: u64 = 1;

/// A command with what every command may carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// [`SCHEMA_VERSION`] when the writer named it; v1's writers don't.
    pub schema_version: Option<u64>,
    /// The id to reply under; without one nobody waits for a reply.
    pub request_id: Option<RequestId>,
    /// The run's token, unchecked.
    pub token: Option<String>,
    /// The command.
    pub command: Command,
}

/// A file that holds no acceptable command, with the facts to answer it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct Rejected {
    /// The id to reply under, where it was there and valid.
    pub request_id: Option<RequestId>,
    /// The `type`, as written, at most 64 characters; `None` when it is no string.
    pub type_name: Option<String>,
    /// Where the file goes.
    pub fault: Fault,
    /// The answer.
    pub refusal: Refusal,
}

/// Whether a rejected file could be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It could not: goes to `dead/`.
    Malformed,
    /// It could, and asks wrongly: goes to `done/`.
    Refused,
}

/// Returns the command that a file holds.
///
/// Unknown fields are ignored; of equal keys the last counts. What names the caller (`groupFolder`, `isMain`,
/// `createdBy`) means nothing.
///
/// # Errors
/// [`Rejected`], boxed because it is large and rare.
pub fn parse(bytes: &[u8]) -> Result<Envelope, Box<Rejected>> {
    let map = json::object(bytes).map_err(|refusal| {
        Box::new(Rejected { request_id: None, type_name: None, fault: Fault::Malformed, refusal })
    })?;
    let request_id = request_id(&map);
    let known_id = request_id.as_ref().ok().cloned().flatten();
    read(&map, request_id).map_err(|refusal| {
        let type_name = map.get("type").and_then(Value::as_str).map(|name| name.chars().take(64).collect());
        Box::new(Rejected { request_id: known_id, type_name, fault: Fault::Refused, refusal })
    })
}

fn read(
    map: &Map<String, Value>,
    request_id: Result<Option<RequestId>, Refusal>,
) -> Result<Envelope, Refusal> {
    let request_id = request_id?;
    let schema_version = schema_version(map)?;
    let entry = entry(map)?;
    let fields = Fields { command: entry.type_name, example: entry.example, map };
    let token = fields.optional_text("token")?;
    Ok(Envelope { schema_version, request_id, token, command: (entry.read)(&fields)? })
}

fn request_id(map: &Map<String, Value>) -> Result<Option<RequestId>, Refusal> {
    let refused = |found: &str| {
        Refusal::new(
            Code::InvalidField,
            format!("field \"requestId\" is {found}, not a text of 1 to 64 letters, digits, '-' or '_'"),
            "write for example \"requestId\":\"1767225600000-a1b2c3\", or leave it out if no reply is wanted",
        )
    };
    match map.get("requestId") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => RequestId::parse(id).map(Some).map_err(|_| refused(&quoted(id))),
        Some(other) => Err(refused(kind_of(other))),
    }
}

fn schema_version(map: &Map<String, Value>) -> Result<Option<u64>, Refusal> {
    let hint = format!("write \"schemaVersion\":{SCHEMA_VERSION}, or leave it out");
    match map.get("schemaVersion") {
        None | Some(Value::Null) => Ok(None),
        // A JSON number knows no difference between 1 and 1.0.
        Some(Value::Number(version)) if version.as_f64() == Some(SCHEMA_VERSION as f64) => {
            Ok(Some(SCHEMA_VERSION))
        }
        Some(Value::Number(version)) => Err(Refusal::new(
            Code::UnsupportedVersion,
            format!("schemaVersion {} is not supported", quoted(&version.to_string()).trim_matches('"')),
            hint,
        )),
        Some(other) => Err(Refusal::new(
            Code::InvalidField,
            format!("field \"schemaVersion\" is {}, not a number", kind_of(other)),
            hint,
        )),
    }
}

fn entry(map: &Map<String, Value>) -> Result<&'static Entry, Refusal> {
    let hint = || format!("known types: {}", commands::known_types());
    let name = match map.get("type") {
        None | Some(Value::Null) => {
            return Err(Refusal::new(Code::MissingField, "field \"type\" is missing", hint()));
        }
        Some(Value::String(name)) if name.is_empty() => {
            return Err(Refusal::new(Code::InvalidField, "field \"type\" is empty", hint()));
        }
        Some(Value::String(name)) => name,
        Some(other) => {
            let message = format!("field \"type\" is {}, not a string", kind_of(other));
            return Err(Refusal::new(Code::InvalidField, message, hint()));
        }
    };
    commands::entry(name).ok_or_else(|| {
        let nearest =
            commands::nearest(name).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        Refusal::new(
            Code::UnknownCommand,
            format!("unknown command type {}", quoted(name)),
            format!("{nearest}{}", hint()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(json: &str) -> Rejected {
        *parse(json.as_bytes()).expect_err(json)
    }

    #[test]
    fn what_every_command_may_carry_is_read() {
        let envelope = parse(
            br#"{"type":"list_tasks","schemaVersion":1.0,"requestId":"r-1","token":"t","isMain":true}"#,
        )
        .unwrap();
        assert_eq!(envelope.schema_version, Some(1));
        assert_eq!(envelope.request_id, Some(RequestId::parse("r-1").unwrap()));
        assert_eq!(envelope.token.as_deref(), Some("t"));
        assert_eq!(envelope.command.type_name(), "list_tasks");
        let bare =
            parse(br#"{"type":"list_tasks","schemaVersion":null,"requestId":null,"token":null}"#).unwrap();
        assert_eq!((bare.schema_version, bare.request_id, bare.token), (None, None, None));
    }

    #[test]
    fn each_fault_of_the_envelope_has_its_code() {
        for (json, code) in [
            (r#"{}"#, Code::MissingField),
            (r#"{"type":null}"#, Code::MissingField),
            (r#"{"type":""}"#, Code::InvalidField),
            (r#"{"type":7}"#, Code::InvalidField),
            (r#"{"type":"launch_rocket"}"#, Code::UnknownCommand),
            (r#"{"type":"LIST_TASKS"}"#, Code::UnknownCommand),
            (r#"{"type":"list_tasks","schemaVersion":2}"#, Code::UnsupportedVersion),
            (r#"{"type":"list_tasks","schemaVersion":0}"#, Code::UnsupportedVersion),
            (r#"{"type":"list_tasks","schemaVersion":-1}"#, Code::UnsupportedVersion),
            (r#"{"type":"list_tasks","schemaVersion":1.5}"#, Code::UnsupportedVersion),
            (r#"{"type":"list_tasks","schemaVersion":99999999999999999999999}"#, Code::UnsupportedVersion),
            (r#"{"type":"list_tasks","schemaVersion":"1"}"#, Code::InvalidField),
            (r#"{"type":"list_tasks","requestId":"../x"}"#, Code::InvalidField),
            (r#"{"type":"list_tasks","requestId":""}"#, Code::InvalidField),
            (r#"{"type":"list_tasks","requestId":5}"#, Code::InvalidField),
            (r#"{"type":"list_tasks","token":{}}"#, Code::InvalidField),
        ] {
            let rejected = rejected(json);
            assert_eq!((rejected.fault, rejected.refusal.code), (Fault::Refused, code), "{json}");
            assert!(!rejected.refusal.hint.is_empty(), "{json}");
        }
    }

    #[test]
    fn a_refusal_can_be_answered_wherever_the_request_id_is_valid() {
        for json in [
            r#"{"type":"launch_rocket","requestId":"r-1"}"#,
            r#"{"requestId":"r-1"}"#,
            r#"{"type":"list_tasks","schemaVersion":9,"requestId":"r-1"}"#,
            r#"{"type":"send_message","requestId":"r-1"}"#,
            r#"{"type":["x"],"requestId":"r-1"}"#,
        ] {
            assert_eq!(rejected(json).request_id.unwrap().as_str(), "r-1", "{json}");
        }
        assert_eq!(rejected(r#"{"type":"launch_rocket","requestId":"a/b"}"#).request_id, None);
        assert_eq!(rejected("{").request_id, None);
    }

    #[test]
    fn the_type_of_a_rejected_file_is_kept_shortened() {
        assert_eq!(rejected(r#"{"type":"launch_rocket"}"#).type_name.unwrap(), "launch_rocket");
        let long = rejected(&format!(r#"{{"type":"{}"}}"#, "é".repeat(100_000)));
        assert_eq!(long.type_name.unwrap().chars().count(), 64);
        assert!(long.refusal.message.len() < 300);
        assert_eq!(rejected("[]").type_name, None);
    }

    #[test]
    fn an_unknown_type_is_answered_with_the_nearest_and_all_known_ones() {
        let hint = rejected(r#"{"type":"shedule-task"}"#).refusal.hint;
        assert!(hint.starts_with("did you mean \"schedule_task\"? known types: send_message"), "{hint}");
        let hint = rejected(r#"{"type":"launch_rocket"}"#).refusal.hint;
        assert!(hint.starts_with("known types: "), "{hint}");
    }

    #[test]
    fn only_what_cannot_be_read_is_malformed() {
        assert_eq!(rejected("{").fault, Fault::Malformed);
        assert_eq!(rejected("[]").fault, Fault::Malformed);
        assert_eq!(rejected("{}").fault, Fault::Refused);
    }
}
