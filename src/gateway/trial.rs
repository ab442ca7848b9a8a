//! A key on trial: one request that uses no tokens tells whether the model's host takes it.

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio::time::timeout;

use super::{Credential, CredentialKind, Upstream, upstream::make};
use crate::{domain::shown::errors::chain, system::world::World};

/// The request: the list of models, one entry of it.
const TARGET: &str = "/v1/models?limit=1";
/// The second one, where a host does not have that list: a count of tokens, which uses none.
const COUNT: &str = "/v1/messages/count_tokens";
const COUNTED: &[u8] =
    br#"{"model":"claude-3-5-haiku-latest","messages":[{"role":"user","content":"hello"}]}"#;

/// What the model's host says to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the key.
    Taken,
    /// It does not.
    Refused(u16),
    /// It answers, and its answer says nothing of the key: with this status.
    Unclear(u16),
}

/// Why a key could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("{host} can't be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} gave no answer within {} s", within.as_secs())]
    Silent { host: String, within: Duration },
}

impl Verdict {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            // It knows whom it asks to come again.
            200..=299 | 429 | 529 => Self::Taken,
            code @ (401 | 403) => Self::Refused(code),
            code => Self::Unclear(code),
        }
    }
}

/// Tries a key with one request, and with a second one where the first says nothing; each within a time.
///
/// # Errors
/// [`TrialError`]
pub async fn try_key(
    world: &World,
    upstream: &Upstream,
    credential: &Credential,
    within: Duration,
) -> Result<Verdict, TrialError> {
    let verdict = Verdict::of(ask(world, upstream, credential, (Method::GET, TARGET, b""), within).await?);
    if !matches!(verdict, Verdict::Unclear(_)) {
        return Ok(verdict);
    }
    match ask(world, upstream, credential, (Method::POST, COUNT, COUNTED), within).await?.as_u16() {
        // It has looked at what it was asked.
        400 | 422 => Ok(Verdict::Taken),
        status => Ok(match Verdict::of(StatusCode::from_u16(status).unwrap_or_default()) {
            Verdict::Unclear(_) => verdict,
            clear @ (Verdict::Taken | Verdict::Refused(_)) => clear,
        }),
    }
}

/// Asks once; returns the status.
async fn ask(
    world: &World,
    upstream: &Upstream,
    credential: &Credential,
    (method, target, body): (Method, &str, &'static [u8]),
    within: Duration,
) -> Result<StatusCode, TrialError> {
    let host = upstream.to_string();
    let unreachable = |why: String| TrialError::Unreachable { host: host.clone(), why };
    let mut request = Request::new(Full::new(Bytes::from_static(body)));
    *request.uri_mut() = upstream.uri(target).map_err(|error| unreachable(error.to_string()))?;
    if !body.is_empty() {
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    *request.method_mut() = method;
    put_headers(request.headers_mut(), credential);
    let asked = async {
        let client = make::<Full<Bytes>>(world, upstream, within).await.map_err(|error| chain(&*error))?;
        client.request(request).await.map_err(|error| chain(&error))
    };
    match timeout(within, asked).await {
        Ok(Ok(response)) => Ok(response.status()),
        Ok(Err(why)) => Err(unreachable(why)),
        Err(_) => Err(TrialError::Silent { host: host.clone(), within }),
    }
}

fn put_headers(headers: &mut HeaderMap, credential: &Credential) {
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    if credential.kind == CredentialKind::Login {
        headers.insert("anthropic-beta", HeaderValue::from_static("oauth-2025-04-20"));
    }
    credential.sign(headers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_what_becomes_of_a_key() {
        for (status, verdict) in [
            (200, Verdict::Taken),
            (429, Verdict::Taken),
            (401, Verdict::Refused(401)),
            (403, Verdict::Refused(403)),
            (404, Verdict::Unclear(404)),
            (500, Verdict::Unclear(500)),
        ] {
            assert_eq!(Verdict::of(StatusCode::from_u16(status).unwrap()), verdict);
        }
    }
}
