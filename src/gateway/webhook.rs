//! A text for the owner, posted to an address of theirs as `{"text": …}`.

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio::time::timeout;

use super::{Upstream, upstream::make};
use crate::{domain::shown::errors::chain, system::world::World};

/// Why a text was not posted. None of them names the address, which may hold a secret.
#[derive(Debug, thiserror::Error)]
pub enum NotPosted {
    #[error("the address can't be reached: {0}")]
    Unreachable(String),
    #[error("the address gave no answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the address answered with status {}", .0.as_u16())]
    Refused(StatusCode),
}

/// Posts a text.
///
/// # Errors
/// [`NotPosted`]
pub async fn post(world: &World, to: &Upstream, text: &str, within: Duration) -> Result<(), NotPosted> {
    let body = serde_json::json!({ "text": text }).to_string();
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = to.uri("").map_err(|error| NotPosted::Unreachable(error.to_string()))?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let asked = async {
        let client = make::<Full<Bytes>>(world, to, within).await.map_err(|error| chain(&*error))?;
        client.request(request).await.map_err(|error| chain(&error))
    };
    match timeout(within, asked).await {
        Ok(Ok(response)) if response.status().is_success() => Ok(()),
        Ok(Ok(response)) => Err(NotPosted::Refused(response.status())),
        Ok(Err(why)) => Err(NotPosted::Unreachable(why)),
        Err(_) => Err(NotPosted::Silent(within)),
    }
}
