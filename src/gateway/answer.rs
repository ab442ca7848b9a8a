//! What the gateway itself answers: errors in the shape of the Messages API, so that an agent tells them as any other.

use http_body_util::{Either, Full};
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};

use super::body::Download;

/// An answer's body: the model host's, streamed, or our own.
pub(super) type Body = Either<Full<Bytes>, Download>;

/// Why the gateway does not pass a request or an answer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// In how many seconds it may be tried again, where that is known.
    pub(super) retry_after: Option<u64>,
}

impl Denial {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    /// Returns the name that the Messages API has for such errors.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::PAYMENT_REQUIRED => "billing_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_REQUEST => "invalid_request_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            _ => "api_error",
        }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let error = serde_json::json!({
            "type": "error",
            "error": { "type": self.kind(), "message": format!("g2: {}", self.message) },
        });
        let mut response = Response::new(Either::Left(Full::new(Bytes::from(error.to_string()))));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.retry_after.unwrap_or(1)));
        }
        response
    }
}

/// Returns an empty answer.
pub(super) fn empty() -> Response<Body> {
    Response::new(Either::Left(Full::new(Bytes::new())))
}
