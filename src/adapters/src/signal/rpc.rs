//! Asks signal-cli by JSON-RPC, and says what its answers mean.

use std::time::Duration;

use channel_protocol::{NotSent, Scope, Went, read_json};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    http::{Ask, Http, NoAnswer},
    kit::{Outcome, cut},
};

/// How long an answer may take: a text to a large group is on its way for a while.
const WITHIN: Duration = Duration::from_secs(120);
/// How long signal-cli may take to say that it is there.
const THERE: Duration = Duration::from_secs(10);
/// How long the stream of events may take to open: an older signal-cli answers with its first sign of life, which comes each 15 s.
const OPENS: Duration = Duration::from_secs(40);
/// The longest answer that is no file, bytes.
const MOST: usize = 4 << 20;
/// The longest text of an error that is told, bytes.
const LONGEST: usize = 512;
/// For how long an account that can't send is left alone, ms.
const STOPPED_MS: u64 = 300_000;
/// signal-cli's own numbers of errors.
const USER: i64 = -1;
const UNTRUSTED: i64 = -4;
const RATE: i64 = -5;
const CAPTCHA: i64 = -6;
const NO_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const BAD_REQUEST: i64 = -32600;
/// What a person can do where Signal took the account from signal-cli.
pub(super) const LOGGED_OUT: &str =
    "Signal does not know this signal-cli any more: link or register the account anew (docs/signal.md)";

/// A daemon of signal-cli.
#[derive(Clone)]
pub(super) struct Rpc {
    http: Http,
    base: String,
    token: Option<String>,
    /// The account, where it is known: one daemon may serve several.
    account: Option<String>,
}

/// What became of sending to one device's owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Delivery {
    #[serde(rename = "type")]
    kind: String,
    /// A proof that a person is there is asked for by it.
    token: Option<String>,
    retry_after_seconds: Option<u64>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RpcError {
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// It is no answer of signal-cli's.
    #[error("signal-cli's address answered {0}")]
    Status(StatusCode),
    #[error("signal-cli's answer can't be read: {0}")]
    Unreadable(String),
    #[error("signal-cli says: {text} ({code})")]
    Refused { code: i64, text: String, results: Vec<Delivery> },
}

#[derive(Deserialize)]
struct Answered<T> {
    result: Option<T>,
    error: Option<Told>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    code: i64,
    message: String,
    data: Value,
}

impl Rpc {
    pub(super) fn new(base: &str, plain: bool, token: &str) -> Result<Self, String> {
        let base = base.trim_end_matches('/').to_owned();
        let http = if plain { Http::also_plain(&base) } else { Http::new(&base) };
        let http = http.map_err(|why| why.replace("https://matrix.example.org", "http://127.0.0.1:8080"))?;
        let token = Some(token.to_owned()).filter(|token| !token.is_empty());
        Ok(Self { http, base, token, account: None })
    }

    pub(super) fn of(self, account: String) -> Self {
        Self { account: Some(account), ..self }
    }

    /// Whether signal-cli is there.
    pub(super) async fn check(&self) -> Result<(), RpcError> {
        let ask = self.request(Method::GET, "/api/v1/check", Bytes::new(), THERE, MOST);
        let answer = self.http.ask(ask).await?;
        if answer.status.is_success() { Ok(()) } else { Err(RpcError::Status(answer.status)) }
    }

    /// Opens the stream of events. `last`: the newest one that was heard; signal-cli tells again what came behind it, where it can.
    pub(super) async fn events(&self, last: Option<&str>) -> Result<Response<Incoming>, RpcError> {
        let mut url = format!("{}/api/v1/events", self.base);
        if let Some(account) = &self.account {
            url = format!("{url}?account={}", account.replace('+', "%2B"));
        }
        let broken = |_| NoAnswer::NotAsked("our own fault: the address can't be asked".into());
        let mut request = Request::builder()
            .uri(url)
            .header(ACCEPT, "text/event-stream")
            .header(USER_AGENT, concat!("g2-channels/", env!("CARGO_PKG_VERSION")));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| NoAnswer::NotAsked("the token holds characters that no token has".into()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(Bytes::new())).map_err(broken)?;
        let late = || NoAnswer::Unknown(format!("no answer within {} s", OPENS.as_secs()));
        let answer = tokio::time::timeout(OPENS, self.http.send(request)).await.map_err(|_| late())??;
        if answer.status().is_success() { Ok(answer) } else { Err(RpcError::Status(answer.status())) }
    }

    /// Calls a method for the account.
    pub(super) async fn call<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, RpcError> {
        self.call_within(method, params, WITHIN, MOST).await
    }

    /// As [`Rpc::call`], with other bounds.
    pub(super) async fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        mut params: Value,
        within: Duration,
        most: usize,
    ) -> Result<T, RpcError> {
        if let Some(account) = &self.account {
            params["account"] = account.as_str().into();
        }
        let body = json!({"jsonrpc": "2.0", "id": "g2", "method": method, "params": params}).to_string();
        drop(params);
        let ask = self.request(Method::POST, "/api/v1/rpc", body.into(), within, most);
        let answer = self.http.ask(ask).await?;
        // An error has a result beside it in no version; some servers give it another status.
        let read: Result<Answered<T>, _> = read_json(&answer.body);
        match read {
            Ok(Answered { error: Some(told), .. }) => Err(told.into()),
            Ok(Answered { result: Some(result), .. }) if answer.status.is_success() => Ok(result),
            _ if !answer.status.is_success() => Err(RpcError::Status(answer.status)),
            Ok(_) => Err(RpcError::Unreadable("it has neither a result nor an error".into())),
            Err(error) => Err(RpcError::Unreadable(error.to_string())),
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes, within: Duration, most: usize) -> Ask {
        Ask {
            method,
            url: format!("{}{path}", self.base),
            bearer: self.token.clone(),
            content_type: Some("application/json".into()),
            body,
            within,
            most,
        }
    }
}

impl From<Told> for RpcError {
    fn from(told: Told) -> Self {
        let results = serde_json::from_value(told.data["response"]["results"].clone());
        Self::Refused {
            code: told.code,
            text: cut(&told.message, LONGEST),
            results: results.unwrap_or_default(),
        }
    }
}

impl RpcError {
    /// signal-cli does not have this method, or not in this mode.
    pub(super) fn is_no_method(&self) -> bool {
        matches!(self, Self::Refused { code: NO_METHOD, .. })
    }

    /// signal-cli does not have the account.
    pub(super) fn is_no_account(&self) -> bool {
        matches!(self, Self::Refused { code: BAD_PARAMS, text, .. } if text.contains("account"))
    }

    /// Signal does not take the account from this signal-cli.
    pub(super) fn is_logged_out(&self) -> bool {
        let Self::Refused { text, .. } = self else { return false };
        ["AuthorizationFailed", "Authorization failed", "NotRegistered", "is not registered on"]
            .iter()
            .any(|word| text.contains(word))
    }

    /// What a person can do.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::NoAnswer(_) => {
                "start it: `signal-cli daemon --http --receive-mode on-connection` (docs/signal.md)"
            }
            Self::Status(status) if status.as_u16() == 421 => {
                "signal-cli takes the name of its own address alone: set `url` to the one that it was started with"
            }
            Self::Status(StatusCode::BAD_REQUEST) => {
                "signal-cli does not have this account: see `signal-cli listAccounts`"
            }
            Self::Status(_) => "look at `url` in g2.toml: signal-cli has to answer there",
            Self::Refused { code: CAPTCHA, .. } => PROOF,
            error if error.is_logged_out() => LOGGED_OUT,
            error if error.is_no_account() => "see `signal-cli listAccounts`",
            Self::Refused { results, .. } if results.iter().any(|one| one.token.is_some()) => PROOF,
            Self::Refused { .. } | Self::Unreadable(_) => "",
        }
    }

    /// Says it for people, with the word that a proof is given for.
    pub(super) fn why(&self) -> String {
        let Self::Refused { results, .. } = self else { return self.to_string() };
        let challenge = results.iter().find_map(|one| one.token.as_deref());
        match challenge.filter(|word| word.len() <= LONGEST) {
            Some(word) => format!("{self}; the challenge is {word}"),
            None => self.to_string(),
        }
    }

    /// What stands between us and signal-cli lets nothing through: nothing was done, and a person has to mend it.
    fn is_way_closed(&self) -> bool {
        matches!(self, Self::Status(status) if matches!(status.as_u16(), 401 | 403 | 404 | 421 | 429))
    }

    /// Whether nobody can be sent anything before a person acts.
    pub(super) fn stops_all(&self) -> bool {
        self.is_logged_out() || self.is_no_account() || self.is_way_closed() || self.hint() == PROOF
    }

    /// What became of something that was to be sent.
    /// `to_a_person`: it was for one person, and not for a group.
    pub(super) fn outcome(&self, to_a_person: bool) -> Outcome {
        let text = self.to_string();
        match self {
            Self::NoAnswer(NoAnswer::NotAsked(_)) => Outcome::NotSent(NotSent::Offline),
            Self::NoAnswer(NoAnswer::Unknown(_)) | Self::Unreadable(_) => Outcome::Unknown(text),
            Self::Status(StatusCode::REQUEST_TIMEOUT) => Outcome::Unknown(text),
            error if error.is_way_closed() => Outcome::busy(Some(STOPPED_MS), Scope::Account),
            Self::Status(status) if status.is_client_error() => Outcome::refused("http", text, self.hint()),
            Self::Status(_) => Outcome::Unknown(text),
            error if error.is_logged_out() || error.is_no_account() => {
                Outcome::busy(Some(STOPPED_MS), Scope::Account)
            }
            Self::Refused { code: NO_METHOD, .. } => {
                Outcome::refused("old", text, "a newer signal-cli may know it")
            }
            Self::Refused { code: BAD_PARAMS | BAD_REQUEST, .. } => Outcome::refused("params", text, ""),
            Self::Refused { code: UNTRUSTED, .. } => Outcome::refused("untrusted", text, TRUST),
            Self::Refused { code: CAPTCHA, .. } => Outcome::busy(Some(STOPPED_MS), Scope::Account),
            Self::Refused { code: RATE, results, .. } => limited(results),
            Self::Refused { code: USER, text: said, results } => undelivered(said, results, to_a_person),
            // It broke on the way, and signal-cli does not say where; but for a file that it could not read.
            Self::Refused { text: said, .. } if said.contains("AttachmentInvalid") => {
                Outcome::refused("file", text, "")
            }
            Self::Refused { text: said, .. } if said.contains("UnknownHost") => {
                Outcome::NotSent(NotSent::Again { text })
            }
            Self::Refused { .. } => Outcome::Unknown(text),
        }
    }
}

/// What a person can do where Signal wants a proof, and where it doubts a person's phone.
const PROOF: &str = "Signal wants a proof that you are a person, or some hours of rest: `signal-cli submitRateLimitChallenge` (docs/signal.md)";
const TRUST: &str =
    "ask the person whether they have a new phone, then trust it: `signal-cli trust` (docs/signal.md)";

fn limited(results: &[Delivery]) -> Outcome {
    let asked = results.iter().filter_map(|one| one.retry_after_seconds).max();
    Outcome::busy(Some(asked.map_or(60_000, |s| s.saturating_mul(1000))), Scope::Account)
}

/// Says what signal-cli means where it could send to nobody.
fn undelivered(said: &str, results: &[Delivery], to_a_person: bool) -> Outcome {
    let all = |kind: &str| !results.is_empty() && results.iter().all(|one| one.kind == kind);
    let has = |words: &[&str]| words.iter().any(|word| said.to_ascii_lowercase().contains(word));
    let text = format!("signal-cli says: {said}");
    let is_sure = |kind: &str| {
        matches!(
            kind,
            "RATE_LIMIT_FAILURE" | "IDENTITY_FAILURE" | "UNREGISTERED_FAILURE" | "INVALID_PRE_KEY_FAILURE"
        )
    };
    if results.iter().any(|one| !is_sure(&one.kind)) {
        // A network that broke may have done so behind the text.
        return Outcome::Unknown(text);
    }
    if results.iter().any(|one| one.kind == "RATE_LIMIT_FAILURE") {
        return limited(results);
    }
    // The same is said of somebody who is quoted.
    if to_a_person && (all("UNREGISTERED_FAILURE") || has(&["is not registered", "unregistered"])) {
        return Outcome::gone(Went::Chat, "the person is not on Signal any more", "");
    }
    if results.iter().any(|one| one.kind == "IDENTITY_FAILURE") {
        return Outcome::refused("untrusted", "the safety number of a person has changed", TRUST);
    }
    if !results.is_empty() {
        return Outcome::refused("refused", text, "");
    }
    if has(&["not a group member", "not a member", "group not found"]) {
        return Outcome::gone(Went::Chat, text, "somebody of the group has to invite the account");
    }
    if has(&["not allowed"]) {
        return Outcome::refused("not_allowed", text, "make the account an admin of the group");
    }
    Outcome::refused("refused", text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i64, message: &str, results: Value) -> RpcError {
        Told {
            code,
            message: message.into(),
            data: json!({"response": {"timestamp": 1, "results": results}}),
        }
        .into()
    }

    #[test]
    fn an_error_says_whether_the_text_is_there_and_what_a_person_can_do() {
        let one = |kind: &str| json!([{"recipientAddress": {"number": "+1"}, "type": kind}]);
        let kind = |error: &RpcError| match error.outcome(true) {
            Outcome::NotSent(NotSent::Busy { after_ms, .. }) => format!("busy {after_ms}"),
            Outcome::NotSent(NotSent::Refused { code, .. }) => format!("refused {code}"),
            Outcome::NotSent(NotSent::Gone { .. }) => "gone".into(),
            Outcome::NotSent(NotSent::Again { .. }) => "again".into(),
            Outcome::NotSent(NotSent::Offline) => "offline".into(),
            Outcome::Unknown(_) => "unknown".into(),
            Outcome::Sent(_) => "sent".into(),
        };
        for (error, is) in [
            (refused(-1, "Failed to send message", one("UNREGISTERED_FAILURE")), "gone"),
            (refused(-1, "Failed to send message", one("NETWORK_FAILURE")), "unknown"),
            (refused(-1, "Failed to send message", one("IDENTITY_FAILURE")), "refused untrusted"),
            (
                refused(-4, "Failed to send message due to untrusted identities", one("IDENTITY_FAILURE")),
                "refused untrusted",
            ),
            (
                refused(
                    -5,
                    "Failed to send message due to rate limiting",
                    json!([{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": 90}]),
                ),
                "busy 90000",
            ),
            (refused(-5, "Rate limit", json!(null)), "busy 60000"),
            (refused(-1, "Group not found: x", json!(null)), "gone"),
            (refused(-1, "User is not a group member: x", json!(null)), "gone"),
            (refused(-1, "The user +1 is not registered.", json!(null)), "gone"),
            (
                refused(-1, "User is not allowed to send messages to group", json!(null)),
                "refused not_allowed",
            ),
            (refused(-1, "Invalid phone number", json!(null)), "refused refused"),
            (refused(-32602, "Specified account does not exist", json!(null)), "busy 300000"),
            (refused(-32602, "Bad", json!(null)), "refused params"),
            (refused(-32601, "Method not implemented", json!(null)), "refused old"),
            (
                refused(-32603, "Failed to send message: x (AttachmentInvalidException)", json!(null)),
                "refused file",
            ),
            (
                refused(
                    -32603,
                    "Failed to send message: chat.signal.org (UnknownHostException)",
                    json!(null),
                ),
                "again",
            ),
            (refused(-32603, "Failed to send message: closed (IOException)", json!(null)), "unknown"),
            (
                refused(-32603, "[401] Authorization failed! (AuthorizationFailedException)", json!(null)),
                "busy 300000",
            ),
            (
                refused(-1, "x", json!([{"type": "NETWORK_FAILURE"}, {"type": "RATE_LIMIT_FAILURE"}])),
                "unknown",
            ),
            (refused(-1, "x", json!([{"type": "IDENTITY_FAILURE"}, {"type": "NETWORK_FAILURE"}])), "unknown"),
            (
                refused(-1, "x", json!([{"type": "IDENTITY_FAILURE"}, {"type": "RATE_LIMIT_FAILURE"}])),
                "busy 60000",
            ),
            (refused(-1, "x", one("INVALID_PRE_KEY_FAILURE")), "refused refused"),
            (RpcError::Status(StatusCode::MISDIRECTED_REQUEST), "busy 300000"),
            (RpcError::Status(StatusCode::UNAUTHORIZED), "busy 300000"),
            (RpcError::Status(StatusCode::REQUEST_TIMEOUT), "unknown"),
            (RpcError::Status(StatusCode::PAYLOAD_TOO_LARGE), "refused http"),
            (RpcError::Status(StatusCode::BAD_GATEWAY), "unknown"),
            (RpcError::Unreadable("x".into()), "unknown"),
            (NoAnswer::NotAsked("x".into()).into(), "offline"),
            (NoAnswer::Unknown("x".into()).into(), "unknown"),
        ] {
            assert_eq!(kind(&error), is, "{error:?}");
        }
        assert!(RpcError::Status(StatusCode::FORBIDDEN).stops_all());
        // In a group it is said of one who is quoted: the group is there.
        let quoted = refused(-1, "The user +1 is not registered.", json!(null));
        assert!(matches!(quoted.outcome(false), Outcome::NotSent(NotSent::Refused { .. })));
        let proof = refused(
            -5,
            "Rate limit",
            json!([{"type": "RATE_LIMIT_FAILURE", "token": "t", "retryAfterSeconds": 86400}]),
        );
        assert!(proof.hint().contains("submitRateLimitChallenge") && proof.stops_all());
        assert!(proof.why().ends_with("(-5); the challenge is t"), "{}", proof.why());
        assert!(!refused(-5, "Rate limit", json!(null)).stops_all());
        assert!(
            refused(-32603, "(AuthorizationFailedException)", json!(null))
                .hint()
                .contains("link or register")
        );
    }
}
