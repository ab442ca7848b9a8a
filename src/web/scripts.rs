//! Paths for programs, and no others. Each request shows a token as `Authorization: Bearer`; no browser sends one by itself.
//! A token is good for its purpose alone, and leads to no page, no text and no stream.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use ipc_handlers::Time;
use serde_json::{Value, json};

use super::Web;
use crate::{
    domain::{
        machine::web::{MOST_TOKENS, NOTED_EVERY_MS, Purpose, WebToken},
        shown::errors::chain,
    },
    loops::control,
    ops::{Answer, By, Op, OpCode, OpError},
    store::Store,
    system::locked::Locked as _,
};

/// The paths. To add one: a handler that takes the token and says for which purposes it is, and a line here.
const PATHS: [&str; 2] = ["/api/op", "/metrics"];

/// What a request with a token is led by.
pub(super) fn routes(web: &Arc<Web>) -> Router {
    Router::new()
        .route(PATHS[0], post(op))
        .route(PATHS[1], get(figures))
        .fallback(elsewhere)
        .layer(super::serve::bounded())
        .with_state(Arc::clone(web))
}

/// When it was written down last that each token is in use, by its number.
#[derive(Default)]
pub(super) struct Tokens(Mutex<BTreeMap<i64, Time>>);

impl Tokens {
    /// Returns the token that a request shows, if it shows one that there is.
    ///
    /// # Errors
    /// What the request is answered with.
    pub(super) fn shown(
        &self,
        store: &Store,
        headers: &HeaderMap,
        now: Time,
    ) -> Result<Option<WebToken>, (StatusCode, String)> {
        let Some(shown) = bearer(headers) else { return Ok(None) };
        let token = store.web_token(shown).map_err(|error| {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the token can't be looked up: {}\n", chain(&error)))
        })?;
        let Some(token) = token else {
            let text = "there is no such token, or it was revoked; `g2 web tokens list` shows those that there are\n";
            return Err((StatusCode::UNAUTHORIZED, text.to_owned()));
        };
        if self.is_to_be_noted(token.id, now) {
            // Nobody waits for it: a scrape is answered while the store is at other work.
            drop(store.note_token_used(token.id, now));
        }
        Ok(Some(token))
    }

    fn is_to_be_noted(&self, token: i64, now: Time) -> bool {
        let mut noted = self.0.locked();
        // The clock may have been set back.
        if noted.get(&token).is_some_and(|at| (0..NOTED_EVERY_MS).contains(&now.ms_since(*at))) {
            return false;
        }
        if noted.len() > MOST_TOKENS {
            noted.clear();
        }
        noted.insert(token, now);
        true
    }
}

/// Answers a request for one of these paths that shows no token; `None`: it is for another path.
pub(super) fn without_token(path: &str) -> Option<Response<Body>> {
    let text =
        "this needs a token: `g2 web tokens add NAME --purpose metrics` or `--purpose operate` makes one\n";
    PATHS
        .contains(&path)
        .then(|| (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response())
}

/// Returns the figures that `g2 metrics` prints, for Prometheus. Every purpose is good for them.
async fn figures(State(web): State<Arc<Web>>) -> Response {
    match control::metrics(&web.desk).await {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)).into_response(),
    }
}

/// Does an operation: `{"name": NAME, "args": {…}}`, as on the daemon's socket (`g2 ops schema`). A token that reads figures is
/// refused before anything is read, and before the audit tells of it.
async fn op(Extension(token): Extension<WebToken>, State(web): State<Arc<Web>>, body: String) -> Response {
    let by = By::Token { name: token.name, purpose: token.purpose };
    let done = match (token.purpose, serde_json::from_str::<Value>(&body)) {
        (Purpose::Metrics, _) => Err(by.may_not_operate()),
        (Purpose::Operate, Err(error)) => Err(OpError::invalid(format!("the body is no JSON: {error}"))),
        (Purpose::Operate, Ok(asked)) => match Op::read(asked) {
            Ok(op) => web.desk.perform(by, op).await,
            Err(wrong) => Err(wrong),
        },
    };
    match done {
        // Texts are nothing that a token reads: a row may have some.
        Ok(answer) => Json(Answer { row: Value::Null, ..answer }).into_response(),
        Err(error) => (status(&error), Json(json!({ "error": error }))).into_response(),
    }
}

/// A token leads nowhere else.
async fn elsewhere(Extension(token): Extension<WebToken>) -> Response {
    let text = format!(
        "a token is for {} alone, and token {} is for {}; the page is for a browser that `g2 web open` lets in\n",
        PATHS.join(" and "),
        token.name,
        token.purpose
    );
    (StatusCode::FORBIDDEN, text).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_token_is_written_down_now_and_then() {
        let tokens = Tokens::default();
        let noted = |id, now| tokens.is_to_be_noted(id, Time(now));
        assert!(noted(1, 1_000) && !noted(1, 1_001) && noted(2, 1_001));
        assert!(!noted(1, 999 + NOTED_EVERY_MS) && noted(1, 1_000 + NOTED_EVERY_MS));
        assert!(noted(1, 5), "the clock was set back");
        for id in 0..1_000 {
            noted(id, 6);
        }
        assert!(tokens.0.lock().unwrap().len() <= MOST_TOKENS + 1);
    }
}
