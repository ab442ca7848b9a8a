//! What of the Bot API's objects is read, field by field. A field that is missing, or of another type than documented, counts as
//! empty: it spoils none beside it.

use serde_json::Value;

/// The kinds of updates that are asked for.
pub(super) const KINDS: [&str; 7] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "message_reaction",
    "my_chat_member",
];

pub(super) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// Returns a number, also one that is written as a text or with a fraction of none.
pub(super) fn number(of: &Value, name: &str) -> Option<i64> {
    let value = &of[name];
    #[expect(clippy::cast_possible_truncation, reason = "whole, and far from the largest")]
    let whole =
        value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64);
    value.as_i64().or(whole).or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

pub(super) fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[][..], Vec::as_slice)
}

pub(super) fn is(of: &Value, name: &str) -> bool {
    of[name] == true
}

/// Returns an object that is there.
pub(super) fn object<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| value.is_object())
}

/// Returns what a person or a chat is called, by the name that people see.
pub(super) fn name(of: &Value) -> String {
    if !text(of, "title").is_empty() {
        return text(of, "title").to_owned();
    }
    let full = format!("{} {}", text(of, "first_name"), text(of, "last_name")).trim().to_owned();
    if full.is_empty() { handle(of) } else { full }
}

/// Returns the handle, with its `@`; empty: there is none.
pub(super) fn handle(of: &Value) -> String {
    match text(of, "username") {
        "" => String::new(),
        name => format!("@{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_one_however_it_is_written() {
        for (value, is) in [
            (json!(7), Some(7)),
            (json!(-1_001_000_000_000_i64), Some(-1_001_000_000_000)),
            (json!("7"), Some(7)),
            (json!(7.0), Some(7)),
            (json!(7.5), None),
            (json!(1e300), None),
            (json!(u64::MAX), None),
            (json!("x"), None),
            (json!(null), None),
            (json!([7]), None),
        ] {
            assert_eq!(number(&json!({"n": value}), "n"), is, "{value}");
        }
        assert_eq!(number(&json!("no object"), "n"), None);
    }
}
