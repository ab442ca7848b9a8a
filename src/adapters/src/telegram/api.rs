//! The way to the Bot API. The token stands in each address, so no address is ever shown.

use std::{
    fs,
    io::{self, Write as _},
    time::Duration,
};

use channel_protocol::read_json;
use http_body_util::BodyExt as _;
use hyper::{Method, Request, Response, StatusCode, Uri, body::Incoming, header};
use jiff::{Timestamp, fmt::rfc2822};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{
    body::{Part, Upload},
    judge::{Fault, Told},
    stuck::first_number,
};
use crate::{
    http::{Http, NoAnswer},
    kit::is_cut,
};

/// Where bots live, if nothing else is said.
const HOME: &str = "https://api.telegram.org";
/// How long an answer may take. G2 waits for a minute.
pub(super) const ANSWER: Duration = Duration::from_secs(45);
/// The longest answer.
const LONGEST_ANSWER: usize = 16 << 20;

/// Why an account can't be reached at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoWay {
    #[error("there is no token, or it is none of Telegram's")]
    Token,
    #[error("Telegram's server can't be asked: {0}")]
    Server(String),
}

/// The Bot API, for one bot.
pub(super) struct Api {
    http: Http<Upload>,
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
        let http = Http::new(&base).map_err(NoWay::Server)?;
        Ok(Self { http, base, token: token.to_owned() })
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
            Ok(Answer { result: result(status, &whole(answer.into_body(), LONGEST_ANSWER).await?)?, at })
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

    /// Returns the answer as it begins, or why there is none, without the token.
    async fn request(&self, request: Request<Upload>) -> Result<Response<Incoming>, String> {
        let (NoAnswer::NotAsked(why) | NoAnswer::Unknown(why)) = match self.http.send(request).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        Err(why.replace(&self.token, "TOKEN"))
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

/// Reads an answer to its end.
async fn whole(mut body: Incoming, most: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Fault::NoAnswer("the answer broke off".into()))?;
        let Some(more) = frame.data_ref() else { continue };
        if bytes.len() + more.len() > most {
            return Err(Fault::Unreadable("it is too long", first_number(&bytes)));
        }
        bytes.extend_from_slice(more);
    }
    Ok(bytes)
}

fn result(status: StatusCode, body: &[u8]) -> Result<Value, Fault> {
    let Ok(Value::Object(mut answer)) = read_json(body) else {
        if status == StatusCode::OK && is_cut(body) {
            return Err(Fault::NoAnswer("the answer broke off".into()));
        }
        if let (StatusCode::OK, Some(first)) = (status, first_number(body)) {
            return Err(Fault::Unreadable("it is no JSON", Some(first)));
        }
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
            assert!(matches!(Api::new(good, Some(bad)).err(), Some(NoWay::Server(_))), "{bad}");
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
        let half = of(200, r#"{"ok":true,"result":[{"text":"a\ud800"},{"text":"b"}]}"#);
        assert_eq!(half, Ok(serde_json::json!([{"text": "a\u{fffd}"}, {"text": "b"}])));
        let broken = of(200, r#"{"ok":true,"result":[{"update_id":7,"text":"a\x"}]}"#);
        assert_eq!(broken, Err(Fault::Unreadable("it is no JSON", Some(7))));
        for half in
            [r#"{"ok":true,"result":[{"update_id":7,"te"#, r#"{"ok":true,"result":[{"update_id":7}]"#, ""]
        {
            assert_eq!(of(200, half), Err(Fault::NoAnswer("the answer broke off".into())), "{half}");
        }
        assert!(matches!(of(502, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(200, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(403, "<html>"), Err(Fault::NoAnswer(_))));
        assert!(matches!(of(413, "<html>"), Err(Fault::Told(Told { error_code: 413, .. }))));
    }
}
