//! Slack's Web API: asked, refused, and what that means for what was sent.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Went, read_json};
use hyper::{
    Method, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
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
/// The hosts that have people's files. Others of Slack's would take a file's address for a call of the Web API.
const FILE_HOSTS: [&str; 2] = ["files.slack.com", "files-origin.slack.com"];
/// How often a file may be elsewhere.
const MOST_MOVES: usize = 3;
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
    /// It did not answer, but something between us and it, or it is not well.
    #[error("{}", trouble(*.0))]
    Trouble(u16),
    #[error("Slack's answer can't be read: {0}")]
    Unreadable(String),
}

fn scope(needed: &str) -> String {
    if needed.is_empty() { String::new() } else { format!(": the app has no scope {needed}") }
}

fn trouble(status: u16) -> String {
    match status {
        500.. => format!("Slack is in trouble: status {status}"),
        _ => format!("the answer is none of Slack's: status {status}"),
    }
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
        let mut url = url.to_owned();
        for _ in 0..=MOST_MOVES {
            if !self.is_file(&url) {
                return Err(ApiError::Unreadable("it is no address of a file on Slack".into()));
            }
            let ask = Ask {
                method: Method::GET,
                url,
                bearer: Some(self.tokens.bot.clone()),
                content_type: None,
                body: Bytes::new(),
                within: FILE_WITHIN,
                most,
            };
            let answer = self.http.ask(ask).await?;
            let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
            let next = header(LOCATION).filter(|_| answer.status.is_redirection());
            // Without the right Slack shows the page where people log in, or leads to it.
            let is_login = match next {
                Some(next) => !self.is_file(next) && (next.starts_with('/') || self.is_ours(next)),
                None => header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html")) && !is_page,
            };
            match next {
                _ if is_login && !answer.status.is_server_error() => {
                    let needed = "files:read".into();
                    return Err(ApiError::Refused { code: "missing_scope".into(), needed });
                }
                Some(next) => url = next.to_owned(),
                None if answer.status.is_success() => return Ok(answer.body),
                None => return Err(refusal(&answer)),
            }
        }
        Err(ApiError::Unreadable("Slack leads from one address of the file to the next".into()))
    }

    /// Whether an address is one of a person's file, and of nothing that acts.
    fn is_file(&self, url: &str) -> bool {
        let Ok(uri) = url.parse::<Uri>() else { return false };
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let is_there = if is_of_slack(&uri) { FILE_HOSTS.contains(&&host[..]) } else { self.is_ours(url) };
        let plain = [("%2e", "."), ("%2f", "/"), ("%5c", "/"), ("\\", "/")];
        let path = uri.path().to_ascii_lowercase();
        let path = plain.iter().fold(path, |path, (written, meant)| path.replace(written, meant));
        is_there && path.starts_with("/files-") && !path.split('/').any(|part| part == "..")
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
        const PASSING: [&str; 6] = [
            "internal_error",
            "fatal_error",
            "request_timeout",
            "service_unavailable",
            "team_added_to_org",
            "org_login_required",
        ];
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
            "team_added_to_org" | "org_login_required" | "message_limit_exceeded" => {
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
    if is_page(&answer.body) {
        return Err(ApiError::Trouble(answer.status.as_u16()));
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

/// Whether a page is shown in place of an answer, such as that of a network that wants people to log in.
fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

fn refused(said: &Value) -> ApiError {
    match said["error"].as_str() {
        None => ApiError::Unreadable("it does not say why it is not ok".into()),
        Some("ratelimited" | "rate_limited") => ApiError::Busy { after_ms: None },
        Some(code) => ApiError::Refused {
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
        Ok(said) if said["ok"] == false && said["error"].is_string() => refused(&said),
        // Whatever stands between us and Slack has said it, and may not say it next time.
        _ => ApiError::Trouble(status.as_u16()),
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
mod tests;
