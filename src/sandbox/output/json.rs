//! The JSON of one record, read strictly first and then as tolerantly as v1's host did.
//!
//! Tolerated: a `result` that is no string (it becomes its JSON text, as JavaScript writes it), bytes that are no
//! UTF-8, and halves of surrogate pairs (left over when JavaScript cuts a text in the middle of a character). Of a
//! field that is there twice the last one counts.
//!
//! No tree is made of the bytes: the kept part of a field is at most as long as the record, and
//! unused fields are not kept.

use std::{fmt, marker::PhantomData};

use ipc_handlers::wire::{Record, ToolEnd};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IgnoredAny, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::StrDeserializer,
    },
};

use serde_json::Value;

use super::{MAX_HANDLED, MAX_RECORD, MAX_SAMPLE};

/// The longest word of a closed list, and the longest name of a batch, bytes.
const LONGEST_WORD: usize = 64;

/// The fault of bytes that are no record, in at most [`MAX_SAMPLE`] characters.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoRecord(pub(super) String);

/// Returns the record in `bytes`.
pub(super) fn record(bytes: &[u8]) -> Result<Record, NoRecord> {
    let wrong = match read(bytes) {
        Ok(record) => return Ok(record),
        Err(error) => NoRecord(error.to_string().chars().take(MAX_SAMPLE).collect()),
    };
    mend(bytes).and_then(|text| read(text.as_bytes()).ok()).ok_or(wrong)
}

fn read(bytes: &[u8]) -> serde_json::Result<Record> {
    serde_json::from_slice::<Loose>(bytes).map(|record| record.0)
}

/// Returns the text with the replacement character in the place of bytes that are no UTF-8 and of each escaped half of a
/// surrogate pair; `None` where there is neither, or where it would be longer than a record may be.
fn mend(bytes: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        mend_text(chunk.valid(), &mut out);
        if !chunk.invalid().is_empty() {
            out.push('\u{fffd}');
        }
        if out.len() > MAX_RECORD {
            return None;
        }
    }
    (out.as_bytes() != bytes).then_some(out)
}

fn mend_text(text: &str, out: &mut String) {
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
    out.push_str(rest);
}

/// Returns the code unit that `text` begins with, when it begins with `\uXXXX`.
fn escaped(text: &str) -> Option<u16> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(hex, 16).ok()
}

/// A record, whatever its `result` is.
struct Loose(Record);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Status,
    Result,
    NewSessionId,
    Error,
    Seq,
    Type,
    Handled,
    Protocol,
    Tool,
    ToolCall,
    ToolAbout,
    ToolEnd,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(Fields).map(Self)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Record, A::Error> {
        let mut record = Record::default();
        let mut has_status = false;
        while let Some(field) = fields.next_key()? {
            match field {
                Field::Status => {
                    record.status = fields.next_value_seed(Word(PhantomData))?;
                    has_status = true;
                }
                Field::Result => record.result = fields.next_value::<Said>()?.0,
                Field::NewSessionId => record.new_session_id = fields.next_value()?,
                Field::Error => record.error = fields.next_value()?,
                Field::Seq => record.seq = fields.next_value()?,
                Field::Type => record.kind = fields.next_value_seed(Word(PhantomData))?,
                Field::Handled => record.handled = fields.next_value::<Names>()?.0,
                Field::Protocol => record.protocol = fields.next_value()?,
                Field::Tool => record.tool = fields.next_value::<Said>()?.0,
                Field::ToolCall => record.tool_call = fields.next_value::<Said>()?.0,
                Field::ToolAbout => record.tool_about = fields.next_value::<Said>()?.0,
                Field::ToolEnd => record.tool_end = fields.next_value::<End>()?.0.map(Box::new),
                Field::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        if has_status { Ok(record) } else { Err(A::Error::missing_field("status")) }
    }
}

/// The end of a tool's use; `None`: it is in a form that is none of ours, which costs nothing of the record.
struct End(Option<ToolEnd>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum EndField {
    Call,
    Tool,
    About,
    Failed,
    Ms,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(AnyEnd).map(Self)
    }
}

struct AnyEnd;

impl<'de> Visitor<'de> for AnyEnd {
    type Value = Option<ToolEnd>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut call, mut tool, mut about, mut failed, mut ms) = (None, None, None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                EndField::Call => call = fields.next_value::<Said>()?.0,
                EndField::Tool => tool = fields.next_value::<Said>()?.0,
                EndField::About => about = fields.next_value::<Said>()?.0,
                EndField::Failed => failed = fields.next_value::<Said>()?.0,
                EndField::Ms => ms = fields.next_value::<Said>()?.0,
                EndField::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        let both = call.zip(tool);
        Ok(both.map(|(call, tool)| ToolEnd {
            call,
            tool,
            about,
            failed: failed.is_some(),
            ms: ms.and_then(|ms| ms.parse().ok()).unwrap_or_default(),
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A word of a closed list; a longer one is not repeated.
struct Word<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Word<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<T, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        if word.len() > LONGEST_WORD {
            return Err(E::custom("a word that is none of ours"));
        }
        let word: StrDeserializer<'_, E> = word.into_deserializer();
        T::deserialize(word)
    }
}

/// The names of batches, at most [`MAX_HANDLED`]; one that is too long is left out.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_seq(ListOfNames).map(Self)
    }
}

struct ListOfNames;

impl<'de> Visitor<'de> for ListOfNames {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of batches")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while names.len() < MAX_HANDLED {
            match items.next_element_seed(Name)? {
                Some(name) => names.extend(name),
                None => return Ok(names),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(names)
    }
}

struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Option<String>, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a batch")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<String>, E> {
        Ok((name.len() <= LONGEST_WORD).then(|| name.to_owned()))
    }
}

/// A `result`: a string as it is, JavaScript's falsy values as nothing to say, everything else as `JSON.stringify` writes
/// it: fields in their order, whole numbers without a point.
struct Said(Option<String>);

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Anything).map(Self)
    }
}

struct Anything;

impl Anything {
    fn written<E: Error>(write: impl FnOnce(Compact<'_>) -> Result<(), E>) -> Result<Option<String>, E> {
        let mut text = String::new();
        write(Compact { text: &mut text, before: "" })?;
        Ok(Some(text).filter(|text| text != "false" && text != "0"))
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<String>, E> {
        Self::written(|text| text.visit_bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<String>, E> {
        Self::written(|text| text.visit_i64(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<String>, E> {
        Self::written(|text| text.visit_u64(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<String>, E> {
        Self::written(|text| text.visit_f64(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Option<String>, A::Error> {
        Self::written(|text| text.visit_seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Option<String>, A::Error> {
        Self::written(|text| text.visit_map(entries))
    }
}

/// Writes any JSON value behind `text`, `before` before it; that fails where the text becomes too long.
struct Compact<'t> {
    text: &'t mut String,
    before: &'static str,
}

impl Compact<'_> {
    fn write<E: Error>(self, value: impl fmt::Display) -> Result<(), E> {
        use fmt::Write as _;
        // Writing into a string fails only where a value can't display itself.
        write!(self.text, "{}{value}", self.before).map_err(E::custom)?;
        if self.text.len() > MAX_RECORD { Err(E::custom("its result is too long")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Compact<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Compact<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write("null")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        // Below 2^53 Rust writes a float as JavaScript does, but for the zero that has a sign.
        let plain = value.abs() < 9_007_199_254_740_992.0 && value.abs() >= 1e-6;
        match value {
            0.0 => self.write(0),
            _ if plain => self.write(value),
            _ => self.write(Value::from(value)),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(Quoted(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { text, before } = self;
        Compact { text, before }.write("[")?;
        let mut before = "";
        while items.next_element_seed(Compact { text, before })?.is_some() {
            before = ",";
        }
        Compact { text, before: "" }.write("]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { text, before } = self;
        Compact { text, before }.write("{")?;
        let mut before = "";
        while entries.next_key_seed(Compact { text, before })?.is_some() {
            entries.next_value_seed(Compact { text, before: ":" })?;
            before = ",";
        }
        Compact { text, before: "" }.write("}")
    }
}

/// A text as a JSON string.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::wire;

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
            ("-0.0", None),
            ("-0.5", Some("-0.5")),
            ("[-0.0, 1e21, 1e-7]", Some("[0,1e+21,1e-7]")),
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

    #[test]
    fn a_result_that_would_be_written_longer_than_a_record_may_be_is_none() {
        let long =
            |piece: &str| format!("{{\"status\":\"success\",\"result\":[{}0]}}", piece.repeat(1 << 20));
        assert!(record(long("1e15,").as_bytes()).unwrap_err().0.contains("too long"));
        assert_eq!(record(long("1,").as_bytes()).unwrap().result.unwrap().len(), (2 << 20) + 3);
    }

    #[test]
    fn of_the_batches_that_are_named_a_bounded_number_is_kept() {
        let named = |names: &str| {
            record(format!("{{\"status\":\"success\",\"handled\":[{names}]}}").as_bytes()).unwrap().handled
        };
        assert_eq!(named(&format!("\"1\",\"{}\",\"task-2\"", "x".repeat(65))), ["1", "task-2"]);
        let many = vec!["\"1\""; MAX_HANDLED + 1].join(",");
        assert_eq!(named(&many).len(), MAX_HANDLED);
    }

    #[test]
    fn of_a_field_that_is_there_twice_the_last_one_counts_and_others_do_not() {
        let json = b"{\"x\":[[{}]],\"status\":\"error\",\"result\":[1],\"status\":\"success\",\"result\":\"a\",\"s\\u0065q\":7}";
        let record = record(json).unwrap();
        assert_eq!(
            (record.status, record.result.as_deref(), record.seq),
            (wire::Status::Success, Some("a"), Some(7))
        );
    }

    #[test]
    fn what_is_wrong_is_said_in_few_words() {
        let long = "x".repeat(1 << 20);
        for bad in [
            format!("{{\"status\":\"{long}\"}}"),
            format!("{{\"status\":[\"{long}\"]}}"),
            format!("{{\"status\":\"success\",\"seq\":\"{long}\"}}"),
        ] {
            assert!(record(bad.as_bytes()).unwrap_err().0.chars().count() <= MAX_SAMPLE);
        }
    }

    #[test]
    fn the_end_of_a_tool_that_is_in_no_form_of_ours_costs_nothing_of_the_record() {
        for end in ["5", "-5", "0.5", "true", "null", "\"x\"", "[1,{}]", "{}", "{\"call\":\"a\"}"] {
            let json = format!("{{\"status\":\"success\",\"result\":\"a\",\"toolEnd\":{end}}}");
            let record = record(json.as_bytes()).unwrap();
            assert_eq!((record.result.as_deref(), record.tool_end), (Some("a"), None), "{end}");
        }
        let odd =
            br#"{"status":"success","toolEnd":{"ms":"soon","more":[],"tool":"T","call":7,"failed":false}}"#;
        let end = ToolEnd { call: "7".into(), tool: "T".into(), about: None, failed: false, ms: 0 };
        assert_eq!(record(odd).unwrap().tool_end, Some(Box::new(end)));
    }

    #[test]
    fn a_record_that_is_written_is_read() {
        let written = Record {
            status: wire::Status::Error,
            result: Some("r".into()),
            new_session_id: Some("s".into()),
            error: Some("e".into()),
            seq: Some(3),
            kind: wire::Kind::BlockedTool,
            handled: vec!["1".into(), "task-2".into()],
            protocol: Some(2),
            tool: Some("Bash".into()),
            tool_call: Some("t1".into()),
            tool_about: Some("ls".into()),
            tool_end: Some(Box::new(ToolEnd {
                call: "t1".into(),
                tool: "Bash".into(),
                about: Some("ls".into()),
                failed: true,
                ms: 7,
            })),
        };
        assert_eq!(record(&serde_json::to_vec(&written).unwrap()).unwrap(), written);
        let empty = Record::default();
        assert_eq!(record(&serde_json::to_vec(&empty).unwrap()).unwrap(), empty);
    }
}
