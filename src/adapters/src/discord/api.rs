//! Discord's HTTP API, version 10: asked, refused, and what that means for what was sent.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Went, read_json};
use hyper::{Method, StatusCode, body::Bytes};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    http::{Answer, Ask, Http, NoAnswer},
    kit::{Outcome, is_cut},
};

/// Where Discord is.
const DISCORD: &str = "https://discord.com";
/// Where its files are.
const FILES: [&str; 2] = ["https://cdn.discordapp.com/", "https://media.discordapp.net/"];
/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(30);
/// How long a file may take.
const FILE_WITHIN: Duration = Duration::from_secs(180);
/// The longest answer, bytes. A hundred messages have less, even if all are emoji, each written as twelve bytes.
const MOST: usize = 32 << 20;

/// One bot's way to Discord.
#[derive(Clone)]
pub(super) struct Api {
    http: Http,
    base: String,
    token: String,
    /// Another server than Discord's is asked.
    elsewhere: bool,
}

/// Why Discord did not do it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("Discord says {status}: {text} (code {code})")]
    Refused { status: u16, code: u64, text: String, after_ms: Option<u64>, global: bool },
    #[error("Discord's answer can't be read: {0}")]
    Unreadable(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    code: u64,
    message: String,
    retry_after: Option<f64>,
    global: bool,
    errors: Value,
}

/// A file to send.
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) bytes: Vec<u8>,
}

impl Api {
    pub(super) fn new(upstream: Option<&str>, token: String) -> Result<Self, String> {
        let base = upstream.unwrap_or(DISCORD).trim_end_matches('/').to_owned();
        // Discord turns other names away.
        let agent = concat!("DiscordBot (https://g2.dev, ", env!("CARGO_PKG_VERSION"), ")");
        let http = Http::new(&base)?.named(agent, "Bot");
        Ok(Self { http, base, token, elsewhere: upstream.is_some() })
    }

    /// Asks; an answer without a body is `null`.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let kind = body.map(|_| "application/json".to_owned());
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let token = Some(self.token.clone());
        let url = self.url(path);
        read(
            &self
                .http
                .ask(Ask { method, url, bearer: token, content_type: kind, body, within: WITHIN, most: MOST })
                .await?,
        )
    }

    /// Asks by a token in the path, as the answers to presses want it.
    pub(super) async fn answer(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let ask = Ask {
            method: Method::POST,
            url: self.url(path),
            bearer: None,
            content_type: Some("application/json".into()),
            body: body.to_string().into(),
            within: WITHIN,
            most: MOST,
        };
        read(&self.http.ask(ask).await?)
    }

    /// Asks with files beside the body.
    pub(super) async fn with_files(
        &self,
        path: &str,
        body: &Value,
        files: &[Upload],
    ) -> Result<Value, ApiError> {
        let boundary = boundary(files);
        let ask = Ask {
            method: Method::POST,
            url: self.url(path),
            bearer: Some(self.token.clone()),
            content_type: Some(format!("multipart/form-data; boundary={boundary}")),
            body: multipart(&boundary, body, files).into(),
            within: FILE_WITHIN,
            most: MOST,
        };
        read(&self.http.ask(ask).await?)
    }

    /// Fetches a file of Discord's, at most `most` bytes. No other address is asked, and none is given the token.
    pub(super) async fn download(&self, url: &str, most: usize) -> Result<Bytes, ApiError> {
        if !self.is_file(url) {
            return Err(ApiError::Unreadable("it is no address of a file on Discord".into()));
        }
        match self.get(url, most).await {
            // Addresses hold for a day.
            Err(ApiError::Refused { status: 403 | 404, .. }) => {
                let ask = serde_json::json!({"attachment_urls": [url]});
                let new = self.call(Method::POST, "/attachments/refresh-urls", Some(&ask)).await?;
                let new = new["refreshed_urls"][0]["refreshed"].as_str().unwrap_or_default();
                if !self.is_file(new) {
                    return Err(ApiError::Unreadable("the file is no longer there".into()));
                }
                self.get(new, most).await
            }
            got => got,
        }
    }

    async fn get(&self, url: &str, most: usize) -> Result<Bytes, ApiError> {
        let ask = Ask {
            method: Method::GET,
            url: url.to_owned(),
            bearer: None,
            content_type: None,
            body: Bytes::new(),
            within: FILE_WITHIN,
            most,
        };
        let answer = self.http.ask(ask).await?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(refusal(&answer)) }
    }

    fn is_file(&self, url: &str) -> bool {
        FILES.iter().any(|base| url.starts_with(base))
            || (self.elsewhere && url.strip_prefix(&self.base[..]).is_some_and(|rest| rest.starts_with('/')))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v10{path}", self.base)
    }
}

/// The numbers by which Discord says that a place is gone for the bot. What else it refuses may be well again without a person, or
/// is a right, a message or a pace.
const UNKNOWN_CHANNEL: u64 = 10_003;
const UNKNOWN_GUILD: u64 = 10_004;
const MISSING_ACCESS: u64 = 50_001;
const NOT_TO_THE_PERSON: u64 = 50_007;
const ARCHIVED: u64 = 50_083;
const LOCKED: u64 = 160_005;

/// What a person can do where a place is gone.
const fn hint(code: u64) -> &'static str {
    match code {
        MISSING_ACCESS => "let the bot into it again: its role needs View Channel",
        NOT_TO_THE_PERSON => "the person has to let the bot write to them",
        ARCHIVED | LOCKED => "a moderator can open the thread again",
        _ => "",
    }
}

impl ApiError {
    /// A channel, or a thread, is gone for the bot.
    pub(super) const fn is_place_gone(&self) -> bool {
        matches!(self, Self::Refused { code: UNKNOWN_CHANNEL | MISSING_ACCESS | ARCHIVED | LOCKED, .. })
    }

    /// The token does not hold.
    pub(super) const fn is_locked_out(&self) -> bool {
        matches!(self, Self::Refused { status: 401, .. })
    }

    /// It is no more, or was never ours.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status: 403 | 404, .. })
    }

    /// How long Discord wants to be left alone, ms.
    pub(super) const fn asked_ms(&self) -> Option<u64> {
        match self {
            Self::Refused { after_ms, .. } => *after_ms,
            _ => None,
        }
    }

    /// Whether the thread is there, and nothing can be said in it.
    pub(super) const fn is_thread_shut(&self) -> bool {
        matches!(self, Self::Refused { code: ARCHIVED | LOCKED, .. })
    }

    /// What became of what was sent.
    pub(super) fn outcome(&self) -> Outcome {
        let (status, code, text, after_ms, global) = match self {
            Self::NoAnswer(NoAnswer::NotAsked(_)) => return Outcome::NotSent(NotSent::Offline),
            Self::NoAnswer(NoAnswer::Unknown(why)) | Self::Unreadable(why) => {
                return Outcome::Unknown(why.clone());
            }
            Self::Refused { status, code, text, after_ms, global } => {
                (*status, *code, text.clone(), *after_ms, *global)
            }
        };
        match (status, code) {
            (429, _) => {
                let scope = if global { Scope::Account } else { Scope::Chat };
                Outcome::busy(after_ms, scope)
            }
            // Nothing was wrong with the text; the account waits for a person.
            (401, _) => Outcome::NotSent(NotSent::Offline),
            (403, 50_013) => {
                Outcome::refused("50013", text, "give the bot's role this permission in the channel")
            }
            (_, code) if self.is_place_gone() || matches!(code, UNKNOWN_GUILD | NOT_TO_THE_PERSON) => {
                Outcome::gone(Went::Chat, text, hint(code))
            }
            (400..=499, 0) => Outcome::refused(&status.to_string(), text, ""),
            (400..=499, code) => Outcome::refused(&code.to_string(), text, ""),
            _ => Outcome::Unknown(text),
        }
    }
}

fn read(answer: &Answer) -> Result<Value, ApiError> {
    if !answer.status.is_success() {
        return Err(refusal(answer));
    }
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    read_json(&answer.body).map_err(|error| match is_cut(&answer.body) {
        true => NoAnswer::Unknown("its answer broke off".into()).into(),
        false => ApiError::Unreadable(error.to_string()),
    })
}

fn refusal(answer: &Answer) -> ApiError {
    let said: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let status: StatusCode = answer.status;
    let text = match (said.message.is_empty(), first_error(&said.errors)) {
        (true, _) => status.canonical_reason().unwrap_or("no reason").to_owned(),
        (false, None) => said.message,
        (false, Some(detail)) => format!("{}: {detail}", said.message),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds, between none and a day"
    )]
    let after_ms = said.retry_after.map(|after| (after.clamp(0.0, 86_400.0) * 1000.0).ceil() as u64);
    ApiError::Refused { status: status.as_u16(), code: said.code, text, after_ms, global: said.global }
}

/// Returns the first reason in the tree that Discord lays out for a wrong field.
fn first_error(tree: &Value) -> Option<&str> {
    match tree {
        Value::Object(fields) => match fields.get("_errors") {
            Some(errors) => errors[0]["message"].as_str(),
            None => fields.values().find_map(first_error),
        },
        _ => None,
    }
}

/// Returns a line that is in none of the files.
fn boundary(files: &[Upload]) -> String {
    (0_u32..)
        .map(|n| format!("g2-file-{n}-end"))
        .find(|line| files.iter().all(|file| !file.bytes.windows(line.len()).any(|at| at == line.as_bytes())))
        .unwrap_or_default()
}

fn multipart(boundary: &str, body: &Value, files: &[Upload]) -> Vec<u8> {
    let size: usize = files.iter().map(|file| file.bytes.len() + 512).sum();
    let mut out = Vec::with_capacity(size + 8192);
    out.extend_from_slice(
        format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"payload_json\"\r\ncontent-type: application/json\r\n\r\n{body}\r\n"
        )
        .as_bytes(),
    );
    for (n, file) in files.iter().enumerate() {
        let name: String = file
            .name
            .chars()
            .map(|c| if c.is_control() || c == '"' || c == '\\' { '_' } else { c })
            .collect();
        let mime: &str = if file.mime.is_empty() || file.mime.contains(char::is_control) {
            "application/octet-stream"
        } else {
            &file.mime
        };
        out.extend_from_slice(
            format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"files[{n}]\"; filename=\"{name}\"\r\ncontent-type: {mime}\r\n\r\n"
            )
            .as_bytes(),
        );
        out.extend_from_slice(&file.bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> ApiError {
        refusal(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.to_owned().into(),
            ..Answer::default()
        })
    }

    #[test]
    fn a_refusal_says_what_becomes_of_the_text() {
        let busy = |after_ms, scope| Outcome::NotSent(NotSent::Busy { after_ms, scope });
        let gone = |text: &str, code| Outcome::gone(Went::Chat, text, hint(code));
        for (error, outcome) in [
            (
                refused(429, r#"{"message":"slow","retry_after":0.3014,"global":false}"#),
                busy(302, Scope::Chat),
            ),
            (refused(429, r#"{"message":"slow","retry_after":2,"global":true}"#), busy(2000, Scope::Account)),
            (refused(429, "<html>"), busy(5000, Scope::Chat)),
            (refused(401, r#"{"message":"401: Unauthorized","code":0}"#), Outcome::NotSent(NotSent::Offline)),
            (
                refused(403, r#"{"message":"Missing Access","code":50001}"#),
                gone("Missing Access", MISSING_ACCESS),
            ),
            (
                refused(404, r#"{"message":"Unknown Channel","code":10003}"#),
                gone("Unknown Channel", UNKNOWN_CHANNEL),
            ),
            (
                refused(403, r#"{"message":"Cannot send messages to this user","code":50007}"#),
                gone("Cannot send messages to this user", NOT_TO_THE_PERSON),
            ),
            (
                refused(400, r#"{"message":"Thread is archived","code":50083}"#),
                gone("Thread is archived", ARCHIVED),
            ),
            // A right is missing, a pace is not kept, or something before Discord answered.
            (
                refused(403, r#"{"message":"Missing Permissions","code":50013}"#),
                Outcome::refused(
                    "50013",
                    "Missing Permissions",
                    "give the bot's role this permission in the channel",
                ),
            ),
            (refused(403, "<html>"), Outcome::refused("403", "Forbidden", "")),
            (refused(429, r#"{"message":"slowmode","code":20016,"retry_after":7}"#), busy(7000, Scope::Chat)),
            (
                refused(404, r#"{"message":"Unknown Message","code":10008}"#),
                Outcome::refused("10008", "Unknown Message", ""),
            ),
            (
                refused(
                    400,
                    r#"{"message":"Invalid Form Body","code":50035,"errors":{"content":{"_errors":[{"code":"X","message":"Must be 2000 or fewer in length."}]}}}"#,
                ),
                Outcome::refused("50035", "Invalid Form Body: Must be 2000 or fewer in length.", ""),
            ),
            (refused(413, "<html>"), Outcome::refused("413", "Payload Too Large", "")),
            (refused(502, "<html>"), Outcome::Unknown("Bad Gateway".into())),
            (NoAnswer::NotAsked("x".into()).into(), Outcome::NotSent(NotSent::Offline)),
            (NoAnswer::Unknown("x".into()).into(), Outcome::Unknown("x".into())),
        ] {
            assert_eq!(error.outcome(), outcome, "{error}");
        }
    }

    #[test]
    fn half_an_answer_is_a_broken_connection_and_none_that_can_not_be_read() {
        let of = |body: &str| {
            read(&Answer { status: StatusCode::OK, body: body.to_owned().into(), ..Answer::default() })
        };
        for half in [r#"[{"id":"7","content":"a"#, r#"[{"id":"7"}"#] {
            assert!(matches!(of(half), Err(ApiError::NoAnswer(NoAnswer::Unknown(_)))), "{half}");
        }
        assert!(matches!(of(r#"[{"content":"\x"}]"#), Err(ApiError::Unreadable(_))));
        assert_eq!(of(""), Ok(Value::Null));
    }

    #[test]
    fn files_come_from_discord_alone() {
        let discord = Api::new(None, String::new()).unwrap();
        assert!(discord.is_file("https://cdn.discordapp.com/attachments/1/2/a.png?ex=1"));
        let other = Api::new(Some("http://127.0.0.1:80"), String::new()).unwrap();
        assert!(other.is_file("http://127.0.0.1:80/files/1"));
        for url in [
            "https://cdn.discordapp.com.example.org/a",
            "http://cdn.discordapp.com/a",
            "http://127.0.0.1:80/files/1",
            "https://example.org/https://cdn.discordapp.com/",
        ] {
            assert!(!discord.is_file(url), "{url}");
        }
        assert!(!other.is_file("http://127.0.0.1:8000/"));
    }

    #[test]
    fn a_file_keeps_its_bytes_whatever_they_are_and_its_name_ends_no_header() {
        let bytes = b"--g2-file-0-end\r\n\0".to_vec();
        let files = [Upload { name: "a\"\r\nb.txt".into(), mime: "text/plain".into(), bytes: bytes.clone() }];
        let boundary = boundary(&files);
        assert_eq!(boundary, "g2-file-1-end");
        let all = multipart(&boundary, &serde_json::json!({"content": "x"}), &files);
        assert!(all.windows(bytes.len()).any(|at| at == bytes));
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(text.contains("filename=\"a___b.txt\"\r\n") && text.ends_with("--g2-file-1-end--\r\n"));
    }
}
