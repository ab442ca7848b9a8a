//! JSON as others write it: what is well formed is read, even if it holds what no text or number of ours can.

use serde::de::DeserializeOwned;

/// Lists and objects in one another, of which deeper ones are `null`. `serde_json` gives up at 128.
const DEEPEST: usize = 100;

/// Reads JSON. What it holds and nobody can is replaced: half a character by U+FFFD, a number without end and what lies deeper than
/// 100 by `null`. So one odd text in a long answer does not spoil the rest of it.
///
/// # Errors
/// It is no JSON, or it is not of this form.
pub fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(json).or_else(|error| serde_json::from_str(&mended(json)).map_err(|_| error))
}

/// Returns JSON in which everything can be held. Where it is none, neither is what is returned.
#[must_use]
pub fn mended(json: &[u8]) -> String {
    let text = String::from_utf8_lossy(json);
    let mut mender = Mender { out: String::with_capacity(text.len()), depth: 0, hidden: 0 };
    let mut rest = &text[..];
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => mender.string(rest),
            '-' | '0'..='9' => mender.number(rest),
            '{' | '[' => mender.open(c),
            '}' | ']' => mender.close(c),
            _ => mender.put(&rest[..c.len_utf8()]),
        };
        rest = &rest[taken..];
    }
    mender.out
}

struct Mender {
    out: String,
    depth: usize,
    /// How many lists and objects are open that are left out.
    hidden: usize,
}

/// Each method takes something off the front, and returns how many bytes that were.
impl Mender {
    fn put(&mut self, text: &str) -> usize {
        if self.hidden == 0 {
            self.out.push_str(text);
        }
        text.len()
    }

    fn open(&mut self, c: char) -> usize {
        if self.depth < DEEPEST {
            self.depth += 1;
            return self.put(c.encode_utf8(&mut [0; 4]));
        }
        if self.hidden == 0 {
            self.out.push_str("null");
        }
        self.hidden += 1;
        1
    }

    fn close(&mut self, c: char) -> usize {
        if self.hidden > 0 {
            self.hidden -= 1;
            return 1;
        }
        self.depth = self.depth.saturating_sub(1);
        self.put(c.encode_utf8(&mut [0; 4]))
    }

    fn number(&mut self, rest: &str) -> usize {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let number = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let endless = number.parse::<f64>().is_ok_and(f64::is_infinite);
        self.put(if endless { "null" } else { number });
        number.len()
    }

    fn string(&mut self, rest: &str) -> usize {
        let mut at = self.put("\"");
        while let Some(c) = rest[at..].chars().next() {
            let here = &rest[at..];
            at += match c {
                '"' => return at + self.put("\""),
                '\\' => self.escape(here),
                '\0'..='\x1f' => {
                    self.put(&format!("\\u{:04x}", u32::from(c)));
                    1
                }
                _ => self.put(&here[..c.len_utf8()]),
            };
        }
        at
    }

    fn escape(&mut self, here: &str) -> usize {
        match (unit(here), unit(here.get(6..).unwrap_or_default())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => self.put(&here[..12]),
            (Some(0xd800..=0xdfff), _) => {
                self.put("\\ufffd");
                6
            }
            (Some(_), _) => self.put(&here[..6]),
            // The escaped character, so that a quote is no end.
            (None, _) => self.put(&here[..1 + here[1..].chars().next().map_or(0, char::len_utf8)]),
        }
    }
}

/// Returns the UTF-16 unit that stands at the front as `\uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn half_a_character_is_one_that_says_so_and_all_others_stay() {
        for (text, read) in [
            (r#"["a\ud800b"]"#, json!(["a\u{fffd}b"])),
            (r#"["\udc00", "\ud83d\ude00", "\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}", "😀", "\u{fffd}😀"])),
            (r#"["\\ud800", "\"\ud800\"", "ü\ud800"]"#, json!(["\\ud800", "\"\u{fffd}\"", "ü\u{fffd}"])),
            (r#"{"\ud800": {"x": "\ud800\n"}}"#, json!({"\u{fffd}": {"x": "\u{fffd}\n"}})),
            (
                r#"[1e999, -1e999, 1.5e3, 12345678901234567890123, "1e999"]"#,
                json!([null, null, 1500.0, 1.2345678901234568e22, "1e999"]),
            ),
            ("[\"a\u{1}b\tc\"]", json!(["a\u{1}b\tc"])),
        ] {
            assert_eq!(read_json::<Value>(text.as_bytes()).unwrap(), read, "{text}");
        }
        assert_eq!(read_json::<Value>(b"[\"a\xff\xfe\"]").unwrap(), json!(["a\u{fffd}\u{fffd}"]));
    }

    #[test]
    fn what_lies_too_deep_is_left_out_and_what_is_beside_it_stays() {
        let deep =
            format!("{}{}", "[{\"x\":\"]\\\"\",\"y\":".repeat(5000), "1}]".repeat(5000).replace('1', ""));
        let deep = deep.replacen(":}", ":7}", 1);
        let read: Value = read_json(format!("[{deep}, \"beside\"]").as_bytes()).unwrap();
        assert_eq!(read[1], "beside");
        assert_eq!(read[0][0]["x"], "]\"");
    }

    #[test]
    fn what_is_no_json_stays_none_and_what_can_be_held_stays_the_same() {
        for bad in ["", "{", "<html>", "[1", r#"["\u12"]"#, r#"["\ud800"#, r#"["\x"]"#, "[1 2]", "\"\\"] {
            assert!(read_json::<Value>(bad.as_bytes()).is_err(), "{bad}");
        }
        let good = r#"{"a": [1, -2.5, true, null, "x\u00e9\n\\\"\ud83d\ude00"], "b": {}}"#;
        assert_eq!(mended(good.as_bytes()), good);
    }
}
