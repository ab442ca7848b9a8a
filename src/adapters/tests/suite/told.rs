//! What an adapter tells of a message, as a table of kinds has it.

use channel_protocol::Event;
use serde_json::{Value, json};

/// Returns what an event tells of its message: the text, these fields where it has them, whom it names, and the kinds of its files.
pub(super) fn told(event: &Event, fields: &[&str]) -> Value {
    let event = serde_json::to_value(event).unwrap();
    let mut told = json!({"text": event["text"]});
    for field in fields.iter().filter(|field| !event[**field].is_null()) {
        told[*field] = event[*field].clone();
    }
    if event["mention"] != "none" {
        told["mention"] = event["mention"].clone();
    }
    if let Some(files) = event["attachments"].as_array() {
        told["attachments"] = files.iter().map(|file| file["kind"].clone()).collect();
    }
    told
}
