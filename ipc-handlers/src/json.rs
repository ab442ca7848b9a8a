//! Bytes → one JSON object, within bounds. Never recurses deeper than [`MAX_DEPTH`] and never panics.

use serde_json::{Map, Value};

use crate::{
    Code, Refusal,
    envelope::{MAX_BYTES, MAX_DEPTH, MAX_VALUES},
};

/// Returns the object that `bytes` hold.
///
/// As JavaScript reads it: the last of several equal keys counts. Milder than JavaScript in two things: a byte
/// order mark at the start is skipped, and half of a surrogate pair (left over where a text was cut) reads as
/// U+FFFD.
///
/// # Errors
/// - `too_large`: there are more than [`MAX_BYTES`];
/// - `malformed`: they are not UTF-8, not JSON, or no object; they are nested deeper than [`MAX_DEPTH`], or hold more than
///   [`MAX_VALUES`] values.
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if bytes.len() > MAX_BYTES {
        return Err(Refusal::new(
            Code::TooLarge,
            format!("the file is larger than {MAX_BYTES} bytes"),
            "send less in one command: split a long text, or leave it in a file and name the file",
        ));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        malformed(
            format!("the file is not UTF-8 (byte {})", error.valid_up_to()),
            "write the file as UTF-8 text",
        )
    })?;
    let Shape { depth, values } = shape(bytes);
    if depth > MAX_DEPTH {
        return Err(malformed(
            format!("the file is nested deeper than {MAX_DEPTH} levels"),
            "a command is one flat object",
        ));
    }
    if values > MAX_VALUES {
        return Err(malformed(
            format!("the file holds more than {MAX_VALUES} values"),
            "a command has a few fields; leave long lists in a file of the group and name the file",
        ));
    }
    let parsed = serde_json::from_str::<Value>(text).or_else(|error| {
        let mended = mend_lone_surrogates(bytes).ok_or(error)?;
        serde_json::from_slice(&mended)
    });
    let kind = match parsed {
        Ok(Value::Object(map)) => return Ok(map),
        Ok(other) => kind_of(&other),
        Err(error) => {
            return Err(malformed(
                format!("the file is not JSON: {error}"),
                "write one complete JSON object under a temporary name in the same folder, then rename it to <name>.json",
            ));
        }
    };
    Err(malformed(
        format!("the file holds {kind}, not an object"),
        r#"write one object, for example {"type":"list_tasks"}"#,
    ))
}

/// Returns what a value is, with its article, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn malformed(message: String, hint: &str) -> Refusal {
    Refusal::new(Code::Malformed, message, hint)
}

/// What a text would cost to be read.
struct Shape {
    /// How deep brackets nest.
    depth: usize,
    /// How many values there are at most.
    values: usize,
}

/// Returns the shape of what stands outside strings, for any bytes, JSON or not.
fn shape(bytes: &[u8]) -> Shape {
    let (mut depth, mut deepest, mut values) = (0_usize, 0, 1);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
                values += 1;
            }
            b',' if !in_string => values += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Shape { depth: deepest, values }
}

/// Returns the bytes with each escaped half of a surrogate pair replaced by `\uFFFD`; `None` if there is none.
fn mend_lone_surrogates(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        at += match unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                mended.get_or_insert_with(|| bytes.to_vec())[at + 2..at + 6].copy_from_slice(b"FFFD");
                6
            }
            Some(_) | None => 2,
        };
    }
    mended
}

/// Returns the UTF-16 unit of the escape `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> Result<(), Code> {
        object(bytes).map(drop).map_err(|refusal| refusal.code)
    }

    #[test]
    fn only_a_complete_object_is_taken() {
        assert_eq!(code(b"{}"), Ok(()));
        assert_eq!(code(b" \n{\"a\":1}\t"), Ok(()));
        for bad in [
            &b""[..],
            b" ",
            b"{",
            b"{}x",
            b"null",
            b"[]",
            b"1",
            b"\"a\"",
            b"{'a':1}",
            b"{\"a\":}",
            b"\0",
            b"{\"a\":1}\0",
            b"\xff",
            b"{\"a\":\"\xc3\"}",
            b"{\"a\":\"\0\"}",
            b"{\"a\":1e999}",
            b"NaN",
            b"{\"a\":NaN}",
            b"{\"a\":01}",
            b"{\"a\":1,}",
        ] {
            assert_eq!(code(bad), Err(Code::Malformed), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_skipped() {
        assert_eq!(code("\u{feff}{}".as_bytes()), Ok(()));
        assert_eq!(code("\u{feff}\u{feff}{}".as_bytes()), Err(Code::Malformed));
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(code(nested(MAX_DEPTH - 1).as_bytes()), Ok(()));
        assert_eq!(code(nested(MAX_DEPTH).as_bytes()), Err(Code::Malformed));
        assert_eq!(code("[".repeat(MAX_BYTES).as_bytes()), Err(Code::Malformed));
        assert_eq!(code("{\"a\":".repeat(100_000).as_bytes()), Err(Code::Malformed));
        assert_eq!(
            code(format!("{{\"a\":\"{}\\\"{}\"}}", "[".repeat(99), "{".repeat(99)).as_bytes()),
            Ok(())
        );
    }

    #[test]
    fn the_number_of_values_is_bounded_and_commas_in_strings_do_not_count() {
        let wide = |commas: usize| format!("{{\"a\":[0{}]}}", ",0".repeat(commas));
        assert_eq!(code(wide(MAX_VALUES - 3).as_bytes()), Ok(()));
        assert_eq!(code(wide(MAX_VALUES - 2).as_bytes()), Err(Code::Malformed));
        assert_eq!(code(format!("{{\"a\":\"{}\"}}", ",".repeat(MAX_VALUES)).as_bytes()), Ok(()));
    }

    #[test]
    fn size_is_bounded() {
        let filled = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8));
        assert_eq!(code(filled(MAX_BYTES).as_bytes()), Ok(()));
        assert_eq!(code(filled(MAX_BYTES + 1).as_bytes()), Err(Code::TooLarge));
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(object(br#"{"a":1,"b":2,"a":3}"#).unwrap()["a"], 3);
    }

    #[test]
    fn half_a_surrogate_pair_reads_as_the_replacement_character() {
        for (json, text) in [
            (r#"{"a":"\ud83d\ude00"}"#, "😀"),
            (r#"{"a":"x\ud83d"}"#, "x\u{fffd}"),
            (r#"{"a":"\ude00x"}"#, "\u{fffd}x"),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, "\u{fffd}😀"),
            (r#"{"a":"\ud83dx\ude00"}"#, "\u{fffd}x\u{fffd}"),
            (r#"{"a":"\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
            (r#"{"a":"\u0000"}"#, "\0"),
        ] {
            assert_eq!(object(json.as_bytes()).unwrap()["a"], text, "{json}");
        }
        for bad in [r#"{"a":"\ud83"}"#, r#"{"a":"\ud8"#, r#"{"a":"\u"#, "{\"a\":\"\\"] {
            assert_eq!(code(bad.as_bytes()), Err(Code::Malformed), "{bad}");
        }
    }

    #[test]
    fn a_message_about_bad_json_quotes_nothing_of_the_file() {
        let refusal = object(b"SECRET_TOKEN=abc").unwrap_err();
        assert!(!refusal.message.contains("SECRET"), "{refusal}");
    }
}
