//! The way to the Bot API. The token stands in each address, so no address is ever shown.

use std::{
    fs,
    io::{self, Write as _},
    net::IpAddr,
    time::Duration,
};

use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Request, Response, StatusCode, Uri, body::Incoming, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use jiff::{Timestamp, fmt::rfc2822};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{
    body::{Part, Upload},
    judge::{Fault, Told},
};

/// Where bots live, if nothing else is said.
const HOME: &str = "https://api.telegram.org";
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take. G2 waits for a minute.
pub(super) const ANSWER: Duration = Duration::from_secs(45);
/// How long a connection that is not used is kept: shorter than Telegram keeps it, so that no request meets its end.
const IDLE: Duration = Duration::from_secs(15);
/// The longest answer.
const LONGEST_ANSWER: usize = 16 << 20;

/// Why an account can't be reached at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoWay {
    #[error("there is no token, or it is none of Telegram's")]
    Token,
    #[error("`upstream` is no address of a server: https, or http on this machine")]
    Upstream,
    #[error("the certificates of this machine can't be read: {0}")]
    Certificates(String),
}

enum Client {
    Plain(legacy::Client<HttpConnector, Upload>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Upload>),
}

/// The Bot API, for one bot.
pub(super) struct Api {
    client: Client,
    base: String,
    token: String,
}

/// A result, and when it was given by Telegram's clock.
pub(super) struct Answer {
    pub(super) result: Value,
    pub(super) at: Option<i64>,
}

impl Api {
    /// # Errors
    /// [`NoWay`]: a person has to change the account.
    pub(super) fn new(token: &str, upstream: Option<&str>) -> Result<Self, NoWay> {
        if !is_token(token) {
            return Err(NoWay::Token);
        }
        let base = upstream.unwrap_or(HOME).trim_end_matches('/').to_owned();
        let is_tls = check(&base).ok_or(NoWay::Upstream)?;
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        plain.set_keepalive(Some(Duration::from_secs(30)));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_idle_timeout(IDLE).pool_max_idle_per_host(4).pool_timer(TokioTimer::new());
        let client = if is_tls {
            plain.enforce_http(false);
            let roots = HttpsConnectorBuilder::new()
                .with_native_roots()
                .map_err(|error| NoWay::Certificates(error.to_string()))?;
            Client::Tls(builder.build(roots.https_only().enable_http1().wrap_connector(plain)))
        } else {
            Client::Plain(builder.build(plain))
        };
        Ok(Self { client, base, token: token.to_owned() })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// [`Fault`]: whether it was done nevertheless.
    pub(super) async fn call(&self, method: &str, params: &Map<String, Value>) -> Result<Value, Fault> {
        Ok(self.ask(method, params, Vec::new(), ANSWER).await?.result)
    }

    /// As [`Api::call`], with files and within a time.
    ///
    /// # Errors
    /// As [`Api::call`].
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Map<String, Value>,
        files: Vec<Part>,
        within: Duration,
    ) -> Result<Answer, Fault> {
        let (body, kind) = if files.is_empty() {
            let json = serde_json::to_vec(params).map_err(|error| Fault::Offline(error.to_string()))?;
            (Upload::bytes(json), "application/json".to_owned())
        } else {
            Upload::form(params, files)
        };
        let written = body.written();
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.address(&format!("/bot{}/{method}", self.token))?)
            .header(header::CONTENT_TYPE, kind)
            .header(header::CONTENT_LENGTH, body.len())
            .body(body)
            .map_err(|_| Fault::Offline("the request can't be made".into()))?;
        let asked = async {
            let answer = self.request(request).await.map_err(|why| written.fault(why))?;
            let (status, at) = (answer.status(), instant(&answer));
            let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
            let body = body.map_err(|_| Fault::NoAnswer("the answer broke off".into()))?.to_bytes();
            Ok(Answer { result: result(status, &body)?, at })
        };
        match timeout(within, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(written.fault(format!("nothing within {} s", within.as_secs()))),
        }
    }

    /// Fetches a file that `getFile` named, of at most `most` bytes.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) async fn download(&self, path: &str, into: &mut fs::File, most: u64) -> Result<(), String> {
        let uri =
            self.address(&format!("/file/bot{}/{path}", self.token)).map_err(|fault| fault.to_string())?;
        let request = Request::builder().uri(uri).body(Upload::bytes(Vec::new()));
        let answer = self.request(request.map_err(|_| "the request can't be made")?).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("Telegram answered {}", answer.status()));
        }
        let (mut body, mut got) = (answer.into_body(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| "the connection broke")?;
            let Some(bytes) = frame.data_ref() else { continue };
            got += bytes.len() as u64;
            if got > most {
                return Err(format!("it has more than {most} bytes"));
            }
            into.write_all(bytes).map_err(|error: io::Error| format!("it can't be stored: {error}"))?;
        }
        Ok(())
    }

    fn address(&self, target: &str) -> Result<Uri, Fault> {
        format!("{}{target}", self.base)
            .parse()
            .map_err(|_| Fault::Offline("no address can be made of it".into()))
    }

    async fn request(&self, request: Request<Upload>) -> Result<Response<Incoming>, String> {
        let answer = match &self.client {
            Client::Plain(client) => client.request(request).await,
            Client::Tls(client) => client.request(request).await,
        };
        answer.map_err(|error| self.screened(&error))
    }

    /// The causes of an error in one line, without the token.
    fn screened(&self, error: &dyn std::error::Error) -> String {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        text.replace(&self.token, "TOKEN")
    }
}

/// A number, a colon and a secret: nothing that would change an address.
fn is_token(token: &str) -> bool {
    let Some((id, secret)) = token.split_once(':') else { return false };
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    !id.is_empty()
        && id.bytes().all(|c| c.is_ascii_digit())
        && secret.len() >= 8
        && token.len() < 200
        && secret.bytes().all(plain)
}

/// Whether an address is TLS; `None`: it is none that we go to.
fn check(base: &str) -> Option<bool> {
    if base.contains(['@', '?', '#']) {
        return None;
    }
    let uri: Uri = base.parse().ok()?;
    let host = uri.host()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match uri.scheme_str()? {
        "https" => Some(true),
        "http" if host == "localhost" || bare.is_ok_and(|ip| ip.is_loopback()) => Some(false),
        _ => None,
    }
}

fn result(status: StatusCode, body: &[u8]) -> Result<Value, Fault> {
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(body) else {
        let told = Told {
            error_code: status.as_u16(),
            description: "no answer of the Bot API".into(),
            ..Told::default()
        };
        // A page of a proxy's says nothing about the request, but for the two that Telegram's own door gives.
        let certain = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        return Err(if certain { Fault::Told(told) } else { Fault::NoAnswer(told.to_string()) });
    };
    if answer.get("ok").and_then(Value::as_bool) == Some(true) {
        return Ok(answer.remove("result").unwrap_or_default());
    }
    let mut told: Told = serde_json::from_value(Value::Object(answer)).unwrap_or_default();
    if told.error_code == 0 {
        told.error_code = status.as_u16();
    }
    Err(Fault::Told(told))
}

fn instant(answer: &Response<Incoming>) -> Option<i64> {
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    let at: Timestamp = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(at.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_needs_a_token_and_a_server_that_may_see_it() {
        let good = "123456:AAE-x_yzzzzzzzz";
        assert!(Api::new(good, Some("http://127.0.0.1:9/")).is_ok());
        for bad in ["", "123456", "x:AAE-x_yzzzzzzzz", "123456:a/../b/cccc", "123456:AA", "1:aaaaaaaa?x=y"] {
            assert_eq!(Api::new(bad, None).err(), Some(NoWay::Token), "{bad}");
        }
        for bad in ["http://api.telegram.org", "http://127.0.0.1.evil.example", "ftp://x", "x", "https://u@x"]
        {
            assert_eq!(Api::new(good, Some(bad)).err(), Some(NoWay::Upstream), "{bad}");
        }
    }

    #[test]
    fn an_answer_is_a_result_or_a_reason_and_anything_other_says_nothing() {
        let of = |status: u16, body: &str| result(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(of(200, r#"{"ok":true,"result":[1]}"#), Ok(serde_json::json!([1])));
        let Err(Fault::Told(told)) =
            of(429, r#"{"ok":false,"error_code":429,"parameters":{"retry_after":3}}"#)
        else {
            panic!()
        };
        assert_eq!((told.error_code, told.parameters.retry_after), (429, Some(3)));
        assert!(matches!(of(502, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(200, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(403, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(413, "<html>"), Err(Fault::Told(Told { error_code: 413, .. }))));
    }
}
