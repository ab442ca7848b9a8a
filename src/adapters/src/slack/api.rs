//! Slack's Web API: asked, refused, and what that means for what was sent.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Went, read_json};
use hyper::{
    Method, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::Value;

use crate::{
    http::{Answer, Ask, Http, NoAnswer},
    kit::{Outcome, is_cut},
};

/// Where Slack is.
const SLACK: &str = "https://slack.com";
/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(30);
/// How long a file may take.
const FILE_WITHIN: Duration = Duration::from_secs(180);
/// The longest answer, bytes: a page of two hundred messages has less.
const MOST: usize = 32 << 20;
/// Where an app's scopes are.
const SCOPES: &str =
    "https://api.slack.com/apps, your app, OAuth & Permissions; add it there and install the app again";

/// One app's way to Slack.
#[derive(Clone)]
pub(super) struct Api {
    http: Http,
    base: String,
    tokens: Tokens,
    /// Another server than Slack's is asked.
    elsewhere: bool,
}

/// The two secrets of an app: one opens sockets, the other one acts for the bot.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    pub(super) app: String,
    pub(super) bot: String,
}

impl Tokens {
    /// Reads both from a text with a space between them, in any order; each says by its beginning which one it is.
    pub(super) fn read(text: &str) -> Self {
        let begins = |start: &str| text.split_whitespace().find(|word| word.starts_with(start));
        let word = |start: &str| begins(start).unwrap_or_default().to_owned();
        Self { app: word("xapp-"), bot: word("xoxb-") }
    }
}

/// Why Slack did not do it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// `needed`: the scope without which it refuses.
    #[error("Slack says {code}{}", scope(needed))]
    Refused { code: String, needed: String },
    /// It wants to be left alone, for so long if it says so.
    #[error("Slack asks to wait")]
    Busy { after_ms: Option<u64> },
    #[error("Slack is in trouble: status {0}")]
    Trouble(u16),
    #[error("Slack's answer can't be read: {0}")]
    Unreadable(String),
}

fn scope(needed: &str) -> String {
    if needed.is_empty() { String::new() } else { format!(": the app has no scope {needed}") }
}

/// What a method is given, by name.
pub(super) type Given<'a> = &'a [(&'a str, &'a str)];

impl Api {
    pub(super) fn new(upstream: Option<&str>, tokens: Tokens) -> Result<Self, String> {
        let base = upstream.unwrap_or(SLACK).trim_end_matches('/').to_owned();
        Ok(Self { http: Http::new(&base)?, base, tokens, elsewhere: upstream.is_some() })
    }

    pub(super) const fn http(&self) -> &Http {
        &self.http
    }

    /// Asks as the bot.
    pub(super) async fn call(&self, method: &str, given: Given<'_>) -> Result<Value, ApiError> {
        Ok(self.ask(method, &self.tokens.bot, given).await?.0)
    }

    /// Asks who the bot is. Returns that, and the scopes that it has as Slack lists them; empty: it does not.
    pub(super) async fn myself(&self) -> Result<(Value, String), ApiError> {
        let (myself, answer) = self.ask("auth.test", &self.tokens.bot, &[]).await?;
        let scopes = answer.headers.get("x-oauth-scopes").and_then(|scopes| scopes.to_str().ok());
        Ok((myself, scopes.unwrap_or_default().to_owned()))
    }

    /// Asks where the next socket is opened.
    pub(super) async fn socket(&self) -> Result<Uri, ApiError> {
        let (answer, _) = self.ask("apps.connections.open", &self.tokens.app, &[]).await?;
        let url = answer["url"].as_str().unwrap_or_default();
        let unfit = || ApiError::Unreadable("it names no socket of Slack's".into());
        let (scheme, rest) = url.split_once("://").ok_or_else(unfit)?;
        let url = match scheme {
            "wss" => format!("https://{rest}"),
            "ws" => format!("http://{rest}"),
            _ => return Err(unfit()),
        };
        let uri: Uri = url.parse().map_err(|_| unfit())?;
        if is_of_slack(&uri) || self.elsewhere { Ok(uri) } else { Err(unfit()) }
    }

    async fn ask(&self, method: &str, token: &str, given: Given<'_>) -> Result<(Value, Answer), ApiError> {
        let ask = Ask {
            method: Method::POST,
            url: format!("{}/api/{method}", self.base),
            bearer: Some(token.to_owned()),
            content_type: Some("application/x-www-form-urlencoded".into()),
            body: form(given).into(),
            within: WITHIN,
            most: MOST,
        };
        let answer = self.http.ask(ask).await?;
        Ok((read(&answer)?, answer))
    }

    /// Puts a file's bytes where Slack wants them. The address is its own, and is given no token.
    pub(super) async fn upload(&self, url: &str, bytes: Vec<u8>) -> Result<(), ApiError> {
        if !self.is_ours(url) {
            return Err(ApiError::Unreadable("it names no place of Slack's for the file".into()));
        }
        let ask = Ask {
            method: Method::POST,
            url: url.to_owned(),
            bearer: None,
            content_type: Some("application/octet-stream".into()),
            body: bytes.into(),
            within: FILE_WITHIN,
            most: MOST,
        };
        let answer = self.http.ask(ask).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refusal(&answer)) }
    }

    /// Fetches a file of Slack's, at most `most` bytes. No other address is asked, for none is given the token.
    pub(super) async fn download(&self, url: &str, is_page: bool, most: usize) -> Result<Bytes, ApiError> {
        if !self.is_ours(url) {
            return Err(ApiError::Unreadable("it is no address of a file on Slack".into()));
        }
        let ask = Ask {
            method: Method::GET,
            url: url.to_owned(),
            bearer: Some(self.tokens.bot.clone()),
            content_type: None,
            body: Bytes::new(),
            within: FILE_WITHIN,
            most,
        };
        let answer = self.http.ask(ask).await?;
        // Without the right Slack leads to the page where people log in.
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_login = answer.status.is_redirection() || (kind.starts_with("text/html") && !is_page);
        match answer.status.is_success() {
            _ if is_login => {
                Err(ApiError::Refused { code: "missing_scope".into(), needed: "files:read".into() })
            }
            true => Ok(answer.body),
            false => Err(refusal(&answer)),
        }
    }

    fn is_ours(&self, url: &str) -> bool {
        url.parse::<Uri>().is_ok_and(|uri| is_of_slack(&uri))
            || (self.elsewhere && url.strip_prefix(&self.base[..]).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// Whether an address is one of Slack's own hosts, by TLS.
fn is_of_slack(uri: &Uri) -> bool {
    let authority = uri.authority().map(|authority| authority.as_str().to_ascii_lowercase());
    uri.scheme_str() == Some("https")
        && authority.is_some_and(|host| {
            host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
                && (host == "slack.com" || host.ends_with(".slack.com"))
        })
}

/// The words by which Slack says that it does not know a token, or not any more.
const LOCKED_OUT: [&str; 5] =
    ["invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"];
/// Those by which it says that a place is gone for the bot.
const GONE: [&str; 7] = [
    "channel_not_found",
    "not_in_channel",
    "is_archived",
    "user_not_found",
    "user_disabled",
    "cannot_dm_bot",
    "user_not_visible",
];
/// Those by which it says that nothing can be said in a thread. What is said in a thread is read by its whole channel.
const THREAD_GONE: [&str; 3] =
    ["thread_not_found", "cannot_reply_to_message", "restricted_action_thread_locked"];

/// What a person can do.
fn hint(code: &str) -> &'static str {
    match code {
        "channel_not_found" | "not_in_channel" => "invite the bot into the channel: /invite and its name",
        "is_archived" => "a member can take the channel out of the archive",
        "messages_tab_disabled" => {
            "switch on the Messages Tab: https://api.slack.com/apps, your app, App Home"
        }
        "not_allowed_token_type" => {
            "the app token begins with xapp-, the bot token with xoxb-: https://api.slack.com/apps"
        }
        "restricted_action"
        | "restricted_action_read_only_channel"
        | "restricted_action_thread_only_channel" => "the workspace's admins say who may write there",
        _ => "",
    }
}

impl ApiError {
    fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }

    pub(super) fn is(&self, code: &str) -> bool {
        self.code() == code
    }

    /// A token does not hold.
    pub(super) fn is_locked_out(&self) -> bool {
        LOCKED_OUT.contains(&self.code())
    }

    /// Slack has answered, and would answer so again.
    pub(super) fn is_final(&self) -> bool {
        const PASSING: [&str; 5] =
            ["internal_error", "fatal_error", "request_timeout", "service_unavailable", "team_added_to_org"];
        matches!(self, Self::Refused { code, .. } if !PASSING.contains(&&code[..])) && !self.is_locked_out()
    }

    /// How long Slack wants to be left alone, ms.
    pub(super) const fn asked_ms(&self) -> Option<u64> {
        match self {
            Self::Busy { after_ms } => *after_ms,
            _ => None,
        }
    }

    /// What a person can do.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Refused { needed, .. } if !needed.is_empty() => format!("the scope {needed}: {SCOPES}"),
            _ => hint(self.code()).to_owned(),
        }
    }

    /// What became of what was sent, into a thread or not.
    pub(super) fn outcome(&self, in_thread: bool) -> Outcome {
        let code = match self {
            Self::NoAnswer(NoAnswer::NotAsked(_)) => return Outcome::NotSent(NotSent::Offline),
            Self::NoAnswer(NoAnswer::Unknown(why)) | Self::Unreadable(why) => {
                return Outcome::Unknown(why.clone());
            }
            Self::Trouble(_) => return Outcome::Unknown(self.to_string()),
            Self::Busy { after_ms } => return Outcome::busy(*after_ms, Scope::Chat),
            Self::Refused { code, .. } => &code[..],
        };
        match code {
            // Nothing was wrong with the text; the account waits for a person.
            _ if self.is_locked_out() => Outcome::NotSent(NotSent::Offline),
            _ if GONE.contains(&code) => Outcome::gone(Went::Chat, self.to_string(), &self.hint()),
            _ if in_thread && THREAD_GONE.contains(&code) => {
                Outcome::gone(Went::Thread, self.to_string(), "")
            }
            // It may have done a part of it.
            "internal_error" | "fatal_error" | "request_timeout" | "service_unavailable" => {
                Outcome::Unknown(self.to_string())
            }
            "team_added_to_org" | "message_limit_exceeded" => {
                Outcome::NotSent(NotSent::Again { text: self.to_string() })
            }
            _ => Outcome::refused(code, self.to_string(), &self.hint()),
        }
    }
}

fn read(answer: &Answer) -> Result<Value, ApiError> {
    if !answer.status.is_success() {
        return Err(refusal(answer));
    }
    let said: Value = read_json(&answer.body).map_err(|error| match is_cut(&answer.body) {
        true => NoAnswer::Unknown("its answer broke off".into()).into(),
        false => ApiError::Unreadable(error.to_string()),
    })?;
    match said["ok"] {
        Value::Bool(true) => Ok(said),
        Value::Bool(false) => Err(refused(&said)),
        _ => Err(ApiError::Unreadable("it does not say whether it is ok".into())),
    }
}

fn refused(said: &Value) -> ApiError {
    match said["error"].as_str().unwrap_or("no reason") {
        "ratelimited" | "rate_limited" => ApiError::Busy { after_ms: None },
        code => ApiError::Refused {
            code: code.chars().filter(|c| !c.is_control()).take(100).collect(),
            needed: said["needed"].as_str().unwrap_or_default().chars().take(200).collect(),
        },
    }
}

fn refusal(answer: &Answer) -> ApiError {
    let status: StatusCode = answer.status;
    if status == StatusCode::TOO_MANY_REQUESTS {
        let seconds =
            answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
        return ApiError::Busy { after_ms: seconds.map(|seconds| seconds.saturating_mul(1000)) };
    }
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(said) if said["error"].is_string() => refused(&said),
        _ if status.is_server_error() => ApiError::Trouble(status.as_u16()),
        _ => ApiError::Refused { code: format!("status {}", status.as_u16()), needed: String::new() },
    }
}

/// Writes names and values as a form.
fn form(given: Given<'_>) -> String {
    let pairs: Vec<String> = given.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    pairs.join("&")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
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

    fn answer(status: u16, after: Option<&str>, body: &str) -> Answer {
        let mut answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.to_owned().into(),
            ..Answer::default()
        };
        if let Some(after) = after {
            answer.headers.insert(RETRY_AFTER, after.parse().unwrap());
        }
        answer
    }

    fn error(status: u16, after: Option<&str>, body: &str) -> ApiError {
        read(&answer(status, after, body)).unwrap_err()
    }

    #[test]
    fn a_refusal_says_what_becomes_of_the_text() {
        let no = |code: &str| error(200, None, &format!(r#"{{"ok":false,"error":"{code}"}}"#));
        let busy = |after_ms| Outcome::NotSent(NotSent::Busy { after_ms, scope: Scope::Chat });
        for (error, outcome) in [
            (error(429, Some("30"), r#"{"ok":false,"error":"ratelimited"}"#), busy(30_000)),
            (error(429, Some("soon"), "<html>"), busy(5000)),
            (error(429, Some("18446744073709551615"), ""), busy(86_400_000)),
            (no("ratelimited"), busy(5000)),
            (no("token_revoked"), Outcome::NotSent(NotSent::Offline)),
            (
                no("not_in_channel"),
                Outcome::gone(
                    Went::Chat,
                    "Slack says not_in_channel",
                    "invite the bot into the channel: /invite and its name",
                ),
            ),
            (no("thread_not_found"), Outcome::gone(Went::Thread, "Slack says thread_not_found", "")),
            (no("fatal_error"), Outcome::Unknown("Slack says fatal_error".into())),
            (
                no("message_limit_exceeded"),
                Outcome::NotSent(NotSent::Again { text: "Slack says message_limit_exceeded".into() }),
            ),
            (no("msg_too_long"), Outcome::refused("msg_too_long", "Slack says msg_too_long", "")),
            (error(503, None, "<html>"), Outcome::Unknown("Slack is in trouble: status 503".into())),
            (error(404, None, "<html>"), Outcome::refused("status 404", "Slack says status 404", "")),
            (NoAnswer::NotAsked("x".into()).into(), Outcome::NotSent(NotSent::Offline)),
            (NoAnswer::Unknown("x".into()).into(), Outcome::Unknown("x".into())),
            (error(200, None, "[]"), Outcome::Unknown("it does not say whether it is ok".into())),
            (error(200, None, r#"{"ok":tr"#), Outcome::Unknown("its answer broke off".into())),
        ] {
            assert_eq!(error.outcome(true), outcome, "{error}");
        }
        let refused = Outcome::refused("thread_not_found", "Slack says thread_not_found", "");
        assert_eq!(no("thread_not_found").outcome(false), refused);
    }

    #[test]
    fn a_missing_scope_is_named_with_the_place_where_it_is_added() {
        let said =
            r#"{"ok":false,"error":"missing_scope","needed":"reactions:write","provided":"chat:write"}"#;
        let error = error(200, None, said);
        assert_eq!(error.to_string(), "Slack says missing_scope: the app has no scope reactions:write");
        assert!(error.hint().contains("OAuth & Permissions") && error.hint().contains("reactions:write"));
        assert!(error.is_final());
    }

    #[test]
    fn tokens_are_told_apart_by_their_beginnings() {
        for text in ["xapp-1-A xoxb-2", " xoxb-2\nxapp-1-A ", "x xoxb-2 xapp-1-A xoxb-3"] {
            let tokens = Tokens::read(text);
            assert_eq!((&tokens.app[..], &tokens.bot[..]), ("xapp-1-A", "xoxb-2"), "{text}");
        }
        assert!(Tokens::read("xoxp-1").bot.is_empty());
    }

    #[test]
    fn files_and_sockets_are_slacks_own() {
        let slack = Api::new(None, Tokens::default()).unwrap();
        for url in
            ["https://files.slack.com/files-pri/T1-F1/a.png", "https://slack.com/x", "https://A.SLACK.com/x"]
        {
            assert!(slack.is_ours(url), "{url}");
        }
        for url in [
            "http://files.slack.com/a",
            "https://files.slack.com.example.org/a",
            "https://files.slack.com@example.org/a",
            "https://example.org/https://files.slack.com/",
            "https://files.slack.com:99/a",
            "https://notslack.com/a",
            "http://127.0.0.1:80/a",
        ] {
            assert!(!slack.is_ours(url), "{url}");
        }
        let other = Api::new(Some("http://127.0.0.1:80"), Tokens::default()).unwrap();
        assert!(other.is_ours("http://127.0.0.1:80/files/1") && !other.is_ours("http://127.0.0.1:8000/"));
    }

    #[test]
    fn a_form_holds_any_text() {
        assert_eq!(form(&[("a", "x y&=é"), ("b", "~")]), "a=x%20y%26%3D%C3%A9&b=~");
    }
}
