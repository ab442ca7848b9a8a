//! A code by which a person becomes the owner on a platform: as text, as a link, as a picture for the phone; and what became of it.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    http::Response,
    response::{IntoResponse as _, Redirect},
};
use maud::{Markup, html};

use crate::{
    domain::{
        heard::{
            claims::{ClaimState, is_now},
            people::Role,
        },
        rows::Claim,
    },
    ops::{OpCode, OpError, people::claim::Args},
    web::{
        Visitor, Web,
        act::{self, Fields},
        codes::Code,
        layout::{Failed, Page, Place, View},
        parts::{at, hidden, line, qr},
    },
};

/// The button that makes one. Its answer is a page of its own, so it is no part that is put in place.
pub(super) fn button(view: &View, account: &str) -> Markup {
    html! {
        form.act id={ "claim/" (account) } method="post" action="/channels/claim" {
            (hidden(view))
            button { "Become its owner" }
        }
    }
}

/// Makes a code, and leads to it.
pub(in crate::web) async fn make(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    fields: Fields,
) -> Response<Body> {
    let session = visitor.session.id;
    let made = web.desk.perform(visitor.by(), Args { role: Role::Owner, group: None }.into()).await;
    let code = made.and_then(|answer| {
        Code::of(&answer.row, session)
            .ok_or_else(|| OpError::new(OpCode::Failed, "the code can’t be shown; make another one"))
    });
    match code {
        Ok(code) => {
            let to = format!("/channels/claim/{}", code.id);
            web.codes.keep(code);
            Redirect::to(&to).into_response()
        }
        Err(wrong) => act::refused(&web, &visitor, &fields, &wrong),
    }
}

pub(in crate::web) async fn show(view: View, Path(id): Path<i64>) -> Result<Response<Body>, Failed> {
    let claim = view.web.desk.store.claim(id).await?;
    let claim = claim.ok_or_else(|| Failed::not_found(format!("there is no code {id} any more")))?;
    let code = view.web.codes.get(view.visitor.session.id, id, view.now);
    let is_open = claim.state == ClaimState::Open && view.now < claim.expires_at;
    let body = html! {
        @match (&code, is_open) {
            (Some(code), true) => (open(&view, code)),
            (None, true) => p.none { "The code is shown only to the session that made it, and not after a restart." },
            (_, false) => (ended(&claim)),
        }
        p { a href="/channels" { "All channels" } }
        @if !is_open && claim.state != ClaimState::Used { (button(&view, "again")) }
    };
    let page = Page::new(Place::Channels, "g2 users claim", body).titled("Become the owner");
    Ok(view.show(&if is_open { page.every(2) } else { page }))
}

fn open(view: &View, code: &Code) -> Markup {
    html! {
        p { "Write this code to your bot, in a chat with it alone, until " (at(code.until, view.now, &view.zone)) ". It is good once. Where others read it, it is void." }
        p.code { code { (code.code) } }
        div.acts {
            @if let Some(picture) = qr(code.pictured(), "The code for a phone") { (picture) }
            ul {
                @for (channel, who, link) in &code.doors {
                    li { strong { (line(channel, 64)) } ": " (line(who, 100)) @if let Some(link) = link { " " a href=(link) rel="noopener noreferrer" { "open a chat with it" } } }
                }
            }
        }
        p role="status" { "The code is waited for…" }
    }
}

/// What became of it.
fn ended(claim: &Claim) -> Markup {
    html! {
        @match claim.state {
            ClaimState::Used => p.good role="status" { (line(claim.used_by.as_deref().unwrap_or("Somebody"), 60)) " is " (is_now(claim)) " now; questions come to " (line(claim.chat.as_deref().unwrap_or("their chat"), 60)) "." },
            ClaimState::Void => p role="status" { "The code is void: it was written in " (line(claim.chat.as_deref().unwrap_or("a chat"), 60)) ", which others read." },
            ClaimState::Open => p role="status" { "Nobody wrote the code within its 10 minutes." },
        }
    }
}
