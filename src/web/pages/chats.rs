//! Chats: those that groups listen to, the newest first.

use axum::{body::Body, extract::Query, http::Response};
use maud::html;
use serde::Deserialize;

use super::PIECE;
use crate::web::{
    layout::{Failed, Page, Place, View},
    parts::{at_or_dash, encoded, line},
};

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    #[serde(default)]
    find: String,
    #[serde(default)]
    skip: usize,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let Wanted { find, skip } = wanted;
    let chats = view.web.desk.store.chats_on_page(&find, skip, PIECE).await?;
    let end = skip + chats.rows.len();
    let page_at = |skip: usize| format!("/chats?find={}&skip={skip}", encoded(&find));
    let body = html! {
        form.find method="get" action="/chats" role="search" {
            label { span.hidden { "Part of a name" } input type="search" name="find" value=(find) placeholder="Find a group or a chat"; }
            button { "Find" }
        }
        @if chats.rows.is_empty() { p.none { "No group listens to such a chat." } }
        ul.chats {
            @for row in &chats.rows {
                li {
                    a href={ "/chats/" (row.group) "?chat=" (encoded(&row.chat)) } {
                        span.who { strong { (line(&row.name, 40)) } @if row.is_main { " " span.state { "main" } } }
                        span.dim { (line(&row.chat, 50)) }
                        span.said {
                            @match (&row.by, &row.text) {
                                (Some(by), Some(text)) => { (line(by, 24)) ": " (line(text, 100)) }
                                _ => span.none { "no message yet" }
                            }
                        }
                        span.when { (at_or_dash(row.at, view.now, &view.zone)) }
                    }
                }
            }
        }
        p.pieces {
            @if skip > 0 { a href=(page_at(skip.saturating_sub(PIECE))) rel="prev" { "Newer" } }
            @if chats.all > 0 { span.dim { (skip + 1) "–" (end) " of " (chats.all) } }
            @if end < chats.all { a href=(page_at(end)) rel="next" { "Older" } }
        }
    };
    Ok(view.show(&Page::new(Place::Chats, "g2 wirings list", body)))
}
