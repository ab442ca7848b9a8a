//! What the body of a request says to an agent. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The longest text that is told, bytes.
pub(super) const LONGEST: usize = 32 << 10;
/// The longest name of a hook, bytes.
const LONGEST_NAME: usize = 64;
/// The longest name of a thread, bytes.
const LONGEST_THREAD: usize = 128;
/// The longest word of a title, characters.
const LONGEST_WORD: usize = 200;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    /// Who says it, if the body names somebody.
    pub(super) from: Option<String>,
    pub(super) thread: String,
}

/// Why a body is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("the body is empty")]
    Empty,
    #[error("thread is longer than {LONGEST_THREAD} bytes, or has characters that are not seen")]
    Thread,
    #[error("the body is no JSON: {0}")]
    Json(String),
    #[error("a body of type {0} is not read: send JSON or text (at GitHub: content type application/json)")]
    Type(String),
}

impl Unread {
    /// HTTP's number for it.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Type(_) => 415,
            Self::Empty | Self::Thread | Self::Json(_) => 400,
        }
    }
}

/// Divides the path of a request into the name of its hook and a secret behind it.
pub(super) fn path(path: &str) -> Option<(&str, Option<&str>)> {
    let (name, secret) = match path.split_once('/') {
        Some((name, secret)) => (name, Some(secret).filter(|secret| !secret.is_empty())),
        None => (path, None),
    };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    (begins && name.len() <= LONGEST_NAME && name.bytes().all(plain)).then_some((name, secret))
}

/// Reads a body.
///
/// # Errors
/// [`Unread`].
pub(super) fn body(headers: &BTreeMap<String, String>, body: &str) -> Result<Said, Unread> {
    let said = said(headers, body)?;
    // The daemon would pass over each of these.
    match &said.thread {
        _ if said.text.trim().is_empty() => Err(Unread::Empty),
        thread if thread.len() > LONGEST_THREAD || thread.chars().any(char::is_control) => {
            Err(Unread::Thread)
        }
        _ => Ok(said),
    }
}

fn said(headers: &BTreeMap<String, String>, body: &str) -> Result<Said, Unread> {
    let body = body.trim_start_matches('\u{feff}');
    if body.trim().is_empty() {
        return Err(Unread::Empty);
    }
    let kind = headers.get("content-type").map(String::as_str).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    match kind.as_str() {
        _ if is_json => {
            let value = serde_json::from_str(body).map_err(|error| Unread::Json(error.to_string()))?;
            Ok(of(headers, value))
        }
        kind if kind.is_empty() || kind.starts_with("text/") => Ok(words(body)),
        // What `curl -d` says of any text, without being told.
        "application/x-www-form-urlencoded" if !is_form(body) => Ok(words(body)),
        _ => Err(Unread::Type(kind.chars().take(LONGEST_WORD).collect())),
    }
}

fn words(text: &str) -> Said {
    Said { text: cut(text.trim()), ..Said::default() }
}

/// Whether a body consists of `name=value` pairs.
fn is_form(body: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', '\n', '{', '"']);
    body.split('&').all(|pair| pair.split_once('=').is_some_and(|(name, _)| is_name(name)))
}

fn of(headers: &BTreeMap<String, String>, value: Value) -> Said {
    let Value::Object(fields) = &value else {
        return words(&match &value {
            Value::String(text) => text.clone(),
            other => pretty(other),
        });
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let from = text("from").map(str::to_owned);
    if let Some(text) = text("text") {
        let thread = fields.get("thread").and_then(Value::as_str).unwrap_or_default().to_owned();
        return Said { text: cut(text), from, thread };
    }
    let title = title(headers, fields);
    let shown = pretty(&value);
    let text = if title.is_empty() { shown } else { format!("{title}\n\n{shown}") };
    Said { text: cut(&text), from, ..Said::default() }
}

/// Returns what a request is about, in a line, from what its sender says beside the rest.
fn title(headers: &BTreeMap<String, String>, fields: &Map<String, Value>) -> String {
    let text = |place: &str| {
        let mut at = None;
        for name in place.split('.') {
            at = at.map_or(fields.get(name), |value: &Value| value.get(name));
        }
        at.and_then(Value::as_str).map(line).filter(|text| !text.is_empty())
    };
    let event = |name: &str| headers.get(name).map(|event| line(event)).filter(|event| !event.is_empty());
    if let Some(event) = event("x-github-event") {
        let behind =
            [("", text("action")), ("in ", text("repository.full_name")), ("by ", text("sender.login"))];
        let behind = behind.into_iter().filter_map(|(word, text)| Some(format!(" {word}{}", text?)));
        return format!("GitHub: {event}{}", behind.collect::<String>());
    }
    if let Some(event) = event("x-gitlab-event") {
        let place = text("project.path_with_namespace").map(|place| format!(" in {place}"));
        return format!("GitLab: {event}{}", place.unwrap_or_default());
    }
    let told: Vec<String> = ["title", "message"].into_iter().filter_map(text).collect();
    told.join(": ")
}

fn line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST_WORD).collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns a text that is not too long; one that is cut says how much is missing.
fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST);
    format!("{}\n… ({} more bytes were left out)", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, text: &str) -> Result<Said, Unread> {
        body(&BTreeMap::from([("content-type".to_owned(), kind.to_owned())]), text)
    }

    #[test]
    fn text_and_json_are_read_and_what_can_not_be_read_is_named() {
        let says = |text: &str| Said { text: text.into(), ..Said::default() };
        for (kind, body, said) in [
            ("", "the door is open\n", says("the door is open")),
            ("text/plain; charset=utf-8", "a=b", says("a=b")),
            ("application/x-www-form-urlencoded", "the door is open", says("the door is open")),
            ("application/json", "\"x\"", says("x")),
            ("application/json", "[1]", says("[\n  1\n]")),
            ("application/json", r#"{"text":"hello"}"#, says("hello")),
            ("application/cloudevents+json", "\u{feff}{\"text\":\"hello\"}", says("hello")),
            ("application/json", r#"{"text":" ","n":1}"#, says("{\n  \"n\": 1,\n  \"text\": \" \"\n}")),
            (
                "application/json",
                r#"{"text":"hello","from":"Home","thread":"t1"}"#,
                Said { text: "hello".into(), from: Some("Home".into()), thread: "t1".into() },
            ),
        ] {
            assert_eq!(read(kind, body), Ok(said), "{kind} {body}");
        }
        for empty in [" \n", "\"\"", "\" \""] {
            assert_eq!(read("application/json", empty), Err(Unread::Empty), "{empty}");
        }
        for thread in ["a\\nb", &"x".repeat(129)] {
            let body = format!("{{\"text\":\"x\",\"thread\":\"{thread}\"}}");
            assert_eq!(read("application/json", &body), Err(Unread::Thread), "{thread}");
        }
        assert_eq!(read("application/json", "{\"thread\":\"a\\nb\"}").unwrap().thread, "");
        let Err(error) = read("application/json", "{") else { panic!() };
        assert_eq!(error.status(), 400);
        for kind in ["application/x-www-form-urlencoded", "image/png"] {
            let Err(error) = read(kind, "payload=%7B%7D&x=1") else { panic!() };
            assert!(error.status() == 415 && error.to_string().contains(kind), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(matches!(read("application/json", &deep), Err(Unread::Json(_))));
    }

    #[test]
    fn what_others_send_begins_with_a_line_that_says_what_it_is_about() {
        let with = |header: &str, value: &str, text: &str| {
            let headers = [("content-type", "application/json"), (header, value)];
            let headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            body(&headers, text).unwrap().text
        };
        let github = with(
            "x-github-event",
            "issues",
            r#"{"action":"opened","repository":{"full_name":"a/b"},"sender":{"login":"ada"},"issue":{"title":"x\ny"}}"#,
        );
        assert!(github.starts_with("GitHub: issues opened in a/b by ada\n\n{") && github.contains("x\\ny"));
        assert!(with("x-gitlab-event", "Push Hook", "{}").starts_with("GitLab: Push Hook\n\n{"));
        let grafana =
            with("x", "", r#"{"title":"[FIRING:1] disk","message":"95 %\n full","state":"alerting"}"#);
        assert!(grafana.starts_with("[FIRING:1] disk: 95 % full\n\n{"), "{grafana}");
        // What stands where a word is expected may be anything.
        assert!(
            with("x-github-event", "a\tb", r#"{"action":7,"sender":[]}"#).starts_with("GitHub: a b\n\n{")
        );
    }

    #[test]
    fn a_long_body_is_cut_and_says_so() {
        let said = read("text/plain", &"é".repeat(LONGEST)).unwrap().text;
        assert!(
            said.len() < LONGEST + 100 && said.ends_with("(32768 more bytes were left out)"),
            "{}",
            said.len()
        );
    }

    #[test]
    fn a_path_is_a_name_and_perhaps_a_secret() {
        assert_eq!(path("github"), Some(("github", None)));
        assert_eq!(path("home.door-1/s3/x"), Some(("home.door-1", Some("s3/x"))));
        assert_eq!(path("a/"), Some(("a", None)));
        for bad in ["", "/x", "../x", ".x", "A", "a b", "ä", "a%20", "a:b", &"x".repeat(65)] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
