//! The client-server interface of a homeserver, as far as it is used, and what its refusals mean.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Went, read_json};
use hyper::{Method, StatusCode, body::Bytes};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    http::{Answer, Ask, Http, NoAnswer},
    kit::{Outcome, is_cut},
};

/// How long an ordinary request may take.
const WITHIN: Duration = Duration::from_secs(40);
/// How long a homeserver may hold a `sync` for want of news.
pub(super) const HOLD: Duration = Duration::from_secs(30);
/// The longest answer to a `sync` or a page of a room, bytes.
const MOST_SYNC: usize = 32 << 20;
/// How long an answered message may take to be had, and its longest answer, bytes.
const SOON: Duration = Duration::from_secs(5);
const MOST_EVENT: usize = 256 << 10;
/// The longest place in a homeserver's history, bytes.
const LONGEST_PLACE: usize = 512;
/// The longest other answer, bytes.
const MOST: usize = 1 << 20;

/// A homeserver, asked as one user.
#[derive(Clone)]
pub(super) struct Api {
    http: Http,
    base: String,
    token: String,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiError {
    /// The homeserver refused it.
    #[error("the homeserver says {code}: {text}")]
    Refused { status: u16, code: String, text: String, after_ms: Option<u64> },
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("the homeserver's answer can't be read: {0}")]
    Unreadable(String),
    /// As before, and it says where the next one begins.
    #[error("the homeserver's news can't be read")]
    Spoilt(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    errcode: String,
    error: String,
    retry_after_ms: Option<u64>,
}

impl ApiError {
    /// Whether the token is not, or no longer, one of the homeserver's.
    pub(super) fn is_locked_out(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if matches!(&code[..], "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_USER_DEACTIVATED" | "M_USER_LOCKED"))
    }

    /// Whether the homeserver itself does not let us in. What stands before it may answer so, too, but has no code of Matrix.
    pub(super) fn is_denied(&self) -> bool {
        self.is_locked_out()
            || matches!(self, Self::Refused { status: 400..=404, code, .. } if code.starts_with("M_"))
    }

    /// The homeserver wants to be left alone.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { status: 429, .. })
    }

    /// For how long, ms.
    pub(super) const fn asked_ms(&self) -> Option<u64> {
        match self {
            Self::Refused { status: 429, after_ms, .. } => *after_ms,
            _ => None,
        }
    }

    /// Whether it is the text's length that was refused.
    pub(super) fn is_too_long(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. } if *status == 413 || code == "M_TOO_LARGE")
    }

    /// We are not in the room, or lack a right there: both are called so.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "M_FORBIDDEN")
    }

    fn is_unknown(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "M_NOT_FOUND")
    }

    /// The event with which a thread begins is gone: there is no word for that but a homeserver's own.
    pub(super) fn is_thread_gone(&self) -> bool {
        let says = ["relation to unknown event", "must be in the same room", "Cannot start threads"];
        matches!(self, Self::Refused { status: 400, text, .. } if says.iter().any(|words| text.contains(words)))
    }

    /// What it means for what was to be sent.
    pub(super) fn outcome(&self) -> Outcome {
        if self.is_busy() {
            return Outcome::busy(self.asked_ms(), Scope::Account);
        }
        if self.is_locked_out() {
            return Outcome::NotSent(NotSent::Offline);
        }
        match self {
            Self::Refused { status: 500.., text, .. } => Outcome::Unknown(text.clone()),
            _ if self.is_forbidden() || self.is_unknown() => {
                Outcome::gone(Went::Chat, self.to_string(), "invite the account to the room again")
            }
            Self::Refused { code, text, .. } => Outcome::refused(code, text.clone(), ""),
            Self::NoAnswer(NoAnswer::NotAsked(_)) => Outcome::NotSent(NotSent::Offline),
            Self::NoAnswer(NoAnswer::Unknown(why)) | Self::Unreadable(why) => Outcome::Unknown(why.clone()),
            Self::Spoilt(_) => Outcome::Unknown(self.to_string()),
        }
    }
}

impl Api {
    pub(super) fn new(base: &str, token: String) -> Result<Self, String> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { http: Http::new(&base)?, base, token })
    }

    /// Asks with a JSON body, or without one.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        self.json(method, path, body, WITHIN, MOST).await
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
        most: usize,
    ) -> Result<Value, ApiError> {
        let content_type = body.map(|_| "application/json".to_owned());
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        read(&self.raw(method, path, content_type, body, within, most).await?)
    }

    async fn raw(
        &self,
        method: Method,
        path: &str,
        content_type: Option<String>,
        body: Bytes,
        within: Duration,
        most: usize,
    ) -> Result<Answer, NoAnswer> {
        let bearer = Some(self.token.clone()).filter(|token| !token.is_empty());
        let url = format!("{}{path}", self.base);
        self.http.ask(Ask { method, url, bearer, content_type, body, within, most }).await
    }

    /// Logs in with a password. Returns the token.
    pub(super) async fn log_in(&self, user: &str, password: &str, device: &str) -> Result<String, ApiError> {
        let body = json!({
            "type": "m.login.password", "identifier": {"type": "m.id.user", "user": user}, "password": password,
            "device_id": device, "initial_device_display_name": "G2",
        });
        let answer = self.call(Method::POST, "/_matrix/client/v3/login", Some(&body)).await?;
        let token = answer["access_token"].as_str().unwrap_or_default();
        if token.is_empty() {
            Err(ApiError::Unreadable("there is no token in it".into()))
        } else {
            Ok(token.into())
        }
    }

    /// As the same homeserver, with this token.
    pub(super) fn with_token(&self, token: String) -> Self {
        Self { token, ..self.clone() }
    }

    /// Returns who we are.
    pub(super) async fn who_am_i(&self) -> Result<String, ApiError> {
        let answer = self.call(Method::GET, "/_matrix/client/v3/account/whoami", None).await?;
        answer["user_id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| ApiError::Unreadable("it names nobody".into()))
    }

    /// Returns what is new since `since`, waiting for it; without one, how things stand.
    pub(super) async fn sync(
        &self,
        since: Option<&str>,
        filter: &str,
        hold: Duration,
    ) -> Result<Value, ApiError> {
        let since = since.map_or_else(String::new, |since| format!("&since={}", escape(since)));
        let path =
            format!("/_matrix/client/v3/sync?timeout={}&filter={}{since}", hold.as_millis(), escape(filter));
        let answer = self.raw(Method::GET, &path, None, Bytes::new(), hold + WITHIN, MOST_SYNC).await?;
        read(&answer).map_err(|error| match (&error, next_batch(&answer.body)) {
            (ApiError::Unreadable(_), Some(next)) => ApiError::Spoilt(next),
            _ => error,
        })
    }

    /// Returns an event of a room, soon or not at all.
    pub(super) async fn event(&self, room: &str, id: &str) -> Result<Value, ApiError> {
        let path = format!("{}/event/{}", room_path(room), escape(id));
        self.json(Method::GET, &path, None, SOON, MOST_EVENT).await
    }

    /// Returns a page of a room, backwards from a point, and not beyond another.
    pub(super) async fn back(&self, room: &str, from: &str, to: Option<&str>) -> Result<Value, ApiError> {
        let to = to.map_or_else(String::new, |to| format!("&to={}", escape(to)));
        let path = format!("{}/messages?dir=b&limit=100&from={}{to}", room_path(room), escape(from));
        self.json(Method::GET, &path, None, WITHIN, MOST_SYNC).await
    }

    /// Sends an event under our own id of it; the same id again is the same event. Returns the homeserver's id.
    pub(super) async fn send(
        &self,
        room: &str,
        kind: &str,
        txn: &str,
        content: &Value,
    ) -> Result<String, ApiError> {
        let path = format!("{}/send/{kind}/{}", room_path(room), escape(txn));
        let answer = self.call(Method::PUT, &path, Some(content)).await?;
        answer["event_id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| ApiError::Unreadable("there is no id in it".into()))
    }

    /// Stores a file. Returns its `mxc` address.
    pub(super) async fn upload(&self, name: &str, mime: &str, bytes: Bytes) -> Result<String, ApiError> {
        let path = format!("/_matrix/media/v3/upload?filename={}", escape(name));
        let within = WITHIN * 5;
        let answer = read(&self.raw(Method::POST, &path, Some(mime.to_owned()), bytes, within, MOST).await?)?;
        answer["content_uri"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| ApiError::Unreadable("there is no address in it".into()))
    }

    /// Returns the bytes of an `mxc` address, at most `most`.
    pub(super) async fn download(&self, mxc: &str, most: usize) -> Result<Bytes, ApiError> {
        let (server, id) = mxc
            .strip_prefix("mxc://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| ApiError::Unreadable("it is no address of a file".into()))?;
        let path = format!("/_matrix/client/v1/media/download/{}/{}", escape(server), escape(id));
        let answer = self.raw(Method::GET, &path, None, Bytes::new(), WITHIN * 5, most).await?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(refusal(&answer)) }
    }
}

/// Where a room's own paths begin.
pub(super) fn room_path(room: &str) -> String {
    format!("/_matrix/client/v3/rooms/{}", escape(room))
}

fn read(answer: &Answer) -> Result<Value, ApiError> {
    if !answer.status.is_success() {
        return Err(refusal(answer));
    }
    read_json(&answer.body).map_err(|error| match is_cut(&answer.body) {
        true => NoAnswer::Unknown("its answer broke off".into()).into(),
        false => ApiError::Unreadable(error.to_string()),
    })
}

/// Finds where the next news begin, in an answer that is no JSON.
fn next_batch(answer: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"next_batch\"";
    let at = answer.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let rest = answer[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let next: Vec<u8> = rest.iter().copied().take_while(|c| *c != b'"').take(LONGEST_PLACE + 1).collect();
    let is_plain =
        (1..=LONGEST_PLACE).contains(&next.len()) && next.iter().all(|c| c.is_ascii_graphic() && *c != b'\\');
    is_plain.then(|| String::from_utf8(next).ok())?
}

fn refusal(answer: &Answer) -> ApiError {
    let said: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let status: StatusCode = answer.status;
    let code = if said.errcode.is_empty() { status.as_u16().to_string() } else { said.errcode };
    let text = if said.error.is_empty() {
        status.canonical_reason().unwrap_or("no reason").into()
    } else {
        said.error
    };
    ApiError::Refused { status: status.as_u16(), code, text, after_ms: said.retry_after_ms }
}

/// Writes a text as a piece of a path or a query.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> ApiError {
        let body = format!(r#"{{"errcode":"{code}","error":"why","retry_after_ms":41}}"#);
        refusal(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.into(),
            ..Answer::default()
        })
    }

    #[test]
    fn a_refusal_says_what_becomes_of_the_text() {
        let gone = |code: &str| {
            Outcome::gone(
                Went::Chat,
                format!("the homeserver says {code}: why"),
                "invite the account to the room again",
            )
        };
        for (error, outcome) in [
            (
                refused(429, "M_LIMIT_EXCEEDED"),
                Outcome::NotSent(NotSent::Busy { after_ms: 41, scope: Scope::Account }),
            ),
            (refused(403, "M_FORBIDDEN"), gone("M_FORBIDDEN")),
            (refused(404, "M_NOT_FOUND"), gone("M_NOT_FOUND")),
            (refused(401, "M_UNKNOWN_TOKEN"), Outcome::NotSent(NotSent::Offline)),
            (refused(400, "M_BAD_JSON"), Outcome::refused("M_BAD_JSON", "why", "")),
            (refused(502, "M_UNKNOWN"), Outcome::Unknown("why".into())),
            (NoAnswer::NotAsked("x".into()).into(), Outcome::NotSent(NotSent::Offline)),
            (NoAnswer::Unknown("x".into()).into(), Outcome::Unknown("x".into())),
        ] {
            assert_eq!(error.outcome(), outcome, "{error}");
        }
        assert!(refused(413, "M_TOO_LARGE").is_too_long() && refused(401, "M_UNKNOWN_TOKEN").is_locked_out());
        for status in 400..=404 {
            assert!(refused(status, "M_FORBIDDEN").is_denied());
            let status = StatusCode::from_u16(status).unwrap();
            for body in ["<html>", "", "{}", r#"{"error":"no"}"#, r#"{"errcode":7}"#] {
                assert!(
                    !refusal(&Answer { status, body: body.into(), ..Answer::default() }).is_denied(),
                    "{status} {body}"
                );
            }
        }
        assert!(!refused(500, "M_UNKNOWN").is_denied() && refused(403, "M_USER_DEACTIVATED").is_denied());
        let html =
            refusal(&Answer { status: StatusCode::BAD_GATEWAY, body: "<html>".into(), ..Answer::default() });
        assert_eq!(html.to_string(), "the homeserver says 502: Bad Gateway");
    }

    #[test]
    fn half_an_answer_is_a_broken_connection_and_no_news_that_can_not_be_read() {
        let of = |body: &str| {
            read(&Answer { status: StatusCode::OK, body: body.to_owned().into(), ..Answer::default() })
        };
        for half in [r#"{"next_batch":"s1","rooms":{"join"#, r#"{"next_batch":"s1","rooms":{}"#, ""] {
            assert!(matches!(of(half), Err(ApiError::NoAnswer(NoAnswer::Unknown(_)))), "{half}");
        }
        assert!(matches!(of(r#"{"next_batch":"s1","x":"\x"}"#), Err(ApiError::Unreadable(_))));
        assert_eq!(of("{}"), Ok(json!({})));
    }

    #[test]
    fn where_the_next_news_begin_is_found_in_what_is_no_json() {
        for (text, next) in [
            (r#"{"next_batch":"s1_2","rooms":{"x":"\x"}}"#, Some("s1_2")),
            ("{\"rooms\":\\x, \"next_batch\" : \"s3\"", Some("s3")),
            (r#"{"next_batch":7}"#, None),
            (r#"{"next_batch":"a\"b"}"#, None),
            (r#"{"next_batch":""}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(next_batch(text.as_bytes()).as_deref(), next, "{text}");
        }
        assert_eq!(next_batch(format!("\"next_batch\":\"{}\"", "x".repeat(9000)).as_bytes()), None);
    }

    #[test]
    fn a_name_in_a_path_stays_one_piece() {
        assert_eq!(escape("!a/b:example.org?x#ü"), "%21a%2Fb%3Aexample.org%3Fx%23%C3%BC");
    }
}
