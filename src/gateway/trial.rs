//! A key on trial: one request that uses no tokens tells whether the model's host takes it.

use std::time::Duration;

use http_body_util::Empty;
use hyper::{HeaderMap, Request, StatusCode, body::Bytes, header::HeaderValue};
use tokio::time::timeout;

use super::{Credential, CredentialKind, Upstream, upstream::make};
use crate::{domain::shown::errors::chain, system::world::World};

/// The request: the list of models, one entry of it.
const TARGET: &str = "/v1/models?limit=1";

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

/// Tries a key with one request, within a time.
///
/// # Errors
/// [`TrialError`]
pub async fn try_key(
    world: &World,
    upstream: &Upstream,
    credential: &Credential,
    within: Duration,
) -> Result<Verdict, TrialError> {
    let host = upstream.to_string();
    let unreachable = |why: String| TrialError::Unreachable { host: host.clone(), why };
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = upstream.uri(TARGET).map_err(|error| unreachable(error.to_string()))?;
    put_headers(request.headers_mut(), credential);
    let asked = async {
        let client = make::<Empty<Bytes>>(world, upstream, within).await.map_err(|error| chain(&*error))?;
        client.request(request).await.map_err(|error| chain(&error))
    };
    match timeout(within, asked).await {
        Ok(Ok(response)) => Ok(Verdict::of(response.status())),
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
