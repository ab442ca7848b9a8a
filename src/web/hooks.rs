//! Requests of other programs, below `/hook/` and the name of an account: handed on to its adapter, which looks whether they have
//! its secret. Nobody is let in on the page by them, so neither cookies nor tokens of the page count here.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, Response, StatusCode, header},
    response::IntoResponse as _,
};
use channel_protocol::Request as Handed;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::timeout};

use super::Web;
use crate::{channels::Unanswered, domain::platforms::accounts::check_name};

/// What the path of such a request begins with.
pub(super) const BELOW: &str = "/hook/";
/// The longest body, bytes.
const BODY: usize = 256 << 10;
/// How long a body may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// How long an adapter may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How many requests adapters work on at once.
const AT_ONCE: usize = 16;
/// The longest value of a header that is handed on, bytes.
const LONGEST_VALUE: usize = 4096;
/// The longest answer, characters.
const LONGEST_ANSWER: usize = 500;

/// The places of requests that adapters work on.
pub(super) struct Places(Semaphore);

impl Default for Places {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

/// Takes a request; `path` stands behind [`BELOW`].
pub(super) async fn take(web: &Web, path: &str, request: Request<Incoming>) -> Response<Body> {
    if *request.method() != Method::POST {
        return said(StatusCode::METHOD_NOT_ALLOWED, "send a POST");
    }
    let (account, path) = path.split_once('/').unwrap_or((path, ""));
    let channel = check_name(account).ok().and_then(|()| web.channels.named(account));
    let Some(channel) = channel else { return no_account() };
    let headers = headers(request.headers());
    let body = match timeout(BODY_WITHIN, Limited::new(request.into_body(), BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return said(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {BODY} bytes"));
        }
        Ok(Err(_)) => return said(StatusCode::BAD_REQUEST, "the body broke off"),
        Err(_) => return said(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
    };
    let Ok(body) = String::from_utf8(body.into()) else {
        return said(StatusCode::BAD_REQUEST, "the body is no UTF-8 text");
    };
    let Ok(_place) = web.hooks.0.try_acquire() else {
        return said(StatusCode::SERVICE_UNAVAILABLE, "too many requests come at once; send it again");
    };
    let handed = Handed { r: 0, path: path.to_owned(), headers, body };
    match timeout(ANSWER_WITHIN, channel.request(handed)).await {
        Ok(Ok(answer)) => {
            let status = StatusCode::from_u16(answer.status).ok();
            // An adapter says what became of a request, and nothing that a client would act on by itself.
            let status = status
                .filter(|status| status.is_success() || status.is_client_error() || status.is_server_error());
            said(status.unwrap_or(StatusCode::BAD_GATEWAY), &answer.says)
        }
        // As one that is not there: nobody learns here which accounts there are.
        Ok(Err(Unanswered::Never)) => no_account(),
        Ok(Err(error @ Unanswered::Away)) => said(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Ok(Err(error @ Unanswered::TooLong)) => said(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string()),
        Err(_) => said(StatusCode::SERVICE_UNAVAILABLE, "its adapter did not answer; send it again"),
    }
}

fn no_account() -> Response<Body> {
    said(StatusCode::NOT_FOUND, "there is no account of this name that takes requests")
}

/// Returns the headers that an adapter is told: of several of one name the first, and none that only a browser has.
fn headers(all: &HeaderMap) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for (name, value) in all {
        if *name == header::COOKIE {
            continue;
        }
        // One that can't be told is there all the same: a signature that nobody can read is a wrong one.
        let value = value.to_str().ok().filter(|value| value.len() <= LONGEST_VALUE).unwrap_or_default();
        told.entry(name.as_str().to_owned()).or_insert_with(|| value.to_owned());
    }
    told
}

fn said(status: StatusCode, text: &str) -> Response<Body> {
    let text: String = text.chars().filter(|c| !c.is_control()).take(LONGEST_ANSWER).collect();
    let mut response = (status, text + "\n").into_response();
    let headers = response.headers_mut();
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, header::HeaderValue::from_static("POST"));
        }
        _ => {}
    }
    response
}
