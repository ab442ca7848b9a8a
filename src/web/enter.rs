//! Coming in by a ticket, being known by a cookie, and leaving.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::{Html, IntoResponse as _},
};
use ipc_handlers::Time;
use maud::html;

use super::{Visitor, Web, act::Fields, layout};
use crate::{
    domain::{machine::web::SESSION_MS, shown::errors::chain},
    ops::{Op, web::revoke},
    store::digest,
};

/// The cookie of a session.
const COOKIE: &str = "g2";
/// A ticket, and what a cookie holds, have this many characters.
const LENGTH: usize = 32;

/// Opens a session with a ticket. The answer is a page and no redirection: a browser sends the cookie only where it comes
/// from our own page.
pub(super) async fn enter(web: &Web, ticket: &str, headers: &HeaderMap) -> Response<Body> {
    let cookie = match web.world.id() {
        Ok(cookie) => cookie,
        Err(error) => return failed(&chain(&error)),
    };
    let browser = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let entered = match ticket.len() {
        LENGTH => web.desk.store.enter_web(ticket, &cookie, browser, web.world.now()).await,
        _ => Ok(None),
    };
    match entered {
        Ok(Some(session)) => {
            tracing::info!(session = session.id, "somebody came in at the operator's page");
            let body = html! {
                h1 { "You are in" }
                p { a href="/" { "Go on to the page" } }
            };
            let page = layout::alone("You are in", Some("/"), &body);
            let mut response = Html(page.into_string()).into_response();
            if let Some(value) = set_cookie(web, &cookie, SESSION_MS / 1000) {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
        Ok(None) => {
            let body = html! {
                h1 { "This ticket is used up" }
                p { "A ticket is good once, for a minute." }
                (how_to_enter())
            };
            let page = layout::alone("This ticket is used up", None, &body);
            (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
        }
        Err(error) => failed(&chain(&error)),
    }
}

/// Returns who sends a cookie.
pub(super) fn visitor(web: &Web, headers: &HeaderMap, now: Time) -> Option<Visitor> {
    let cookie = cookie(headers)?;
    match web.desk.store.web_session(cookie, now) {
        Ok(session) => session.map(|session| Visitor { session, forms: forms_token(cookie) }),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "a session of the operator's page can't be looked up");
            None
        }
    }
}

/// Ends the session that asks for it.
pub(super) async fn leave(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    _: Fields,
) -> Response<Body> {
    let op = Op::from(revoke::Args { id: Some(visitor.session.id) });
    if let Err(error) = web.desk.perform(visitor.by(), op).await {
        return failed(&error.to_string());
    }
    let mut response = closed();
    *response.status_mut() = StatusCode::OK;
    if let Some(value) = set_cookie(&web, "", 0) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    // A part of a page is no place for this one.
    response.headers_mut().insert("hx-refresh", HeaderValue::from_static("true"));
    response
}

/// The page for everybody who has no session.
pub(super) fn closed() -> Response<Body> {
    let body = html! {
        h1 { "Not signed in" }
        (how_to_enter())
    };
    let page = layout::alone("Not signed in", None, &body);
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
}

fn how_to_enter() -> maud::Markup {
    html! {
        p { "On the machine that G2 runs on, type" }
        p.command { code { "g2 web open" } }
        p { "and open the address that it prints. From then on this browser is let in for 12 hours." }
    }
}

fn failed(why: &str) -> Response<Body> {
    tracing::warn!(why, "a session of the operator's page can't be opened or ended");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response()
}

fn set_cookie(web: &Web, value: &str, seconds: i64) -> Option<HeaderValue> {
    let secure = if web.door.is_secure() { "; Secure" } else { "" };
    HeaderValue::from_str(&format!(
        "{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}"
    ))
    .ok()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == COOKIE && value.len() == LENGTH).map(|(_, value)| value)
}

/// Returns the token of a session's forms. It does not give the cookie away.
fn forms_token(cookie: &str) -> String {
    digest(format!("forms {cookie}").as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cookie_is_found_among_others_and_the_forms_token_is_another() {
        let ours = "0123456789abcdef0123456789abcdef";
        for (sent, found) in [
            (format!("g2={ours}"), Some(ours)),
            (format!("a=b; g2={ours}; c=d"), Some(ours)),
            (format!("g22={ours}"), None),
            ("g2=short".to_owned(), None),
            (String::new(), None),
        ] {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&sent).unwrap())]);
            assert_eq!(cookie(&headers), found, "{sent}");
        }
        assert_eq!(cookie(&HeaderMap::new()), None);
        assert_eq!(forms_token(ours).len(), 64);
        assert!(!forms_token(ours).contains(ours));
    }
}
