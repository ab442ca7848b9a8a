//! Paths for programs. Each wants `Authorization: Bearer` with the token in `data/web.token`, which only the user of this
//! machine can read; no browser sends it by itself.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{Visitor, Web};
use crate::{
    domain::host::errors::chain,
    loops::control,
    ops::{By, Op, OpCode, OpError},
};

/// The paths. To add one: a handler that takes [`Script`], and a line here.
pub(super) fn routes() -> Router<Arc<Web>> {
    Router::new().route("/api/op", post(op)).route("/metrics", get(figures))
}

/// A program that has shown the token.
pub(super) struct Script;

impl FromRequestParts<Arc<Web>> for Script {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Web>) -> Result<Self, Self::Rejection> {
        match parts.extensions.get::<Visitor>() {
            Some(Visitor::Script) => Ok(Self),
            Some(Visitor::Person { .. }) | None => {
                Err((StatusCode::UNAUTHORIZED, "this needs the token in data/web.token\n"))
            }
        }
    }
}

/// Returns the figures that `g2 metrics` prints, for Prometheus.
async fn figures(_: Script, State(web): State<Arc<Web>>) -> Response {
    match control::metrics(&web.desk).await {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)).into_response(),
    }
}

/// Does an operation: `{"name": NAME, "args": {…}}`, as on the daemon's socket (`g2 ops schema`).
async fn op(_: Script, State(web): State<Arc<Web>>, Json(asked): Json<Value>) -> Response {
    let done = match Op::read(asked) {
        Ok(op) => web.desk.perform(By::Page { session: None }, op).await,
        Err(wrong) => Err(wrong),
    };
    match done {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => (status(&error), Json(json!({ "error": error }))).into_response(),
    }
}

fn status(error: &OpError) -> StatusCode {
    match error.code {
        OpCode::Invalid => StatusCode::BAD_REQUEST,
        OpCode::NotFound => StatusCode::NOT_FOUND,
        OpCode::Refused | OpCode::NoRoom => StatusCode::CONFLICT,
        OpCode::NotAuthorized => StatusCode::FORBIDDEN,
        OpCode::Failed | OpCode::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        OpCode::NotRunning | OpCode::NotAnswering => StatusCode::SERVICE_UNAVAILABLE,
    }
}
