//! The JSON of one record, read strictly first and then as tolerantly as v1's host did.
//!
//! Tolerated: a `result` that is no string (it becomes its JSON text, as JavaScript writes it), bytes that are no
//! UTF-8, and halves of surrogate pairs (what is left when JavaScript cuts a text in the middle of a character).

use std::fmt;

use ipc_handlers::wire::Record;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// Returns the record in `bytes`, or what is wrong with them.
pub(super) fn record(bytes: &[u8]) -> Result<Record, String> {
    serde_json::from_slice(bytes).or_else(|strict| lenient(bytes).ok_or_else(|| strict.to_string()))
}

fn lenient(bytes: &[u8]) -> Option<Record> {
    let text = mend(&String::from_utf8_lossy(bytes));
    let mut value: Value = serde_json::from_str(&text).ok()?;
    if let Some(result) = value.get_mut("result").filter(|result| !result.is_string()) {
        *result = match serde_json::from_str::<Loose>(&text).ok()?.result.0.as_str() {
            // JavaScript's falsy values: nothing to say.
            "null" | "false" | "0" => Value::Null,
            text => Value::String(text.to_owned()),
        };
    }
    serde_json::from_value(value).ok()
}

/// Puts the replacement character in the place of each escaped half of a surrogate pair.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = match escaped(rest) {
            Some(0xD800..=0xDBFF) if matches!(rest.get(6..).and_then(escaped), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            // A backslash and what it escapes, so that `\\u` is not taken for an escape.
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    out + rest
}

/// Returns the code unit that `text` begins with, when it begins with `\uXXXX`.
fn escaped(text: &str) -> Option<u16> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(hex, 16).ok()
}

/// A record of which only `result` matters.
#[derive(Deserialize)]
struct Loose {
    result: Compact,
}

/// Any JSON value as JavaScript's `JSON.stringify` writes it: fields in their order, whole numbers without a point.
struct Compact(String);

impl<'de> Deserialize<'de> for Compact {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Compactor).map(Self)
    }
}

struct Compactor;

impl<'de> Visitor<'de> for Compactor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        // Below 2^53 Rust writes a float as JavaScript does.
        let plain = value.abs() < 9_007_199_254_740_992.0 && (value == 0.0 || value.abs() >= 1e-6);
        Ok(if plain { value.to_string() } else { Value::from(value).to_string() })
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(Value::from(value).to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        let mut out = Vec::new();
        while let Some(Compact(item)) = items.next_element()? {
            out.push(item);
        }
        Ok(format!("[{}]", out.join(",")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<String, A::Error> {
        let mut out = Vec::new();
        while let Some((key, Compact(value))) = entries.next_entry::<String, Compact>()? {
            out.push(format!("{}:{value}", Value::from(key)));
        }
        Ok(format!("{{{}}}", out.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(json: &str) -> Option<String> {
        record(json.as_bytes()).unwrap().result
    }

    #[test]
    fn a_result_that_is_no_string_becomes_the_text_that_v1_would_send() {
        for (json, text) in [
            ("42", Some("42")),
            ("1.0", Some("1")),
            ("1.5", Some("1.5")),
            ("true", Some("true")),
            ("false", None),
            ("0", None),
            ("null", None),
            ("[1, \"a\\n\", null]", Some("[1,\"a\\n\",null]")),
            ("{\"z\": 1, \"a\": {\"y\": []}}", Some("{\"z\":1,\"a\":{\"y\":[]}}")),
        ] {
            let record = format!("{{\"status\":\"success\",\"result\":{json}}}");
            assert_eq!(result_of(&record).as_deref(), text, "{json}");
        }
    }

    #[test]
    fn a_text_cut_in_the_middle_of_a_character_costs_that_character_only() {
        for (escaped, text) in [
            ("a\\ud83d", "a\u{fffd}"),
            ("\\ude00b", "\u{fffd}b"),
            ("\\ud83d\\ude00", "😀"),
            ("\\ud83d\\ud83d\\ude00", "\u{fffd}😀"),
            ("\\\\ud83d \\ud83d", "\\ud83d \u{fffd}"),
        ] {
            let record = format!("{{\"status\":\"success\",\"result\":\"{escaped}\"}}");
            assert_eq!(result_of(&record).as_deref(), Some(text), "{escaped}");
        }
        let bytes = b"{\"status\":\"success\",\"result\":\"a\xffb\"}";
        assert_eq!(record(bytes).unwrap().result.as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_reason() {
        for bad in ["", "null", "[]", "{", "{}", "{\"status\":\"maybe\"}", "{\"status\":\"success\"} x", "\\"]
        {
            assert!(record(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
