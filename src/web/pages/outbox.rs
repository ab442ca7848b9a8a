//! The outbox: texts for chats, with their parts, newest first.

use axum::{body::Body, extract::Query, http::Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::PIECE;
use crate::{
    domain::states::DeliveryStatus,
    store::{OutboxShown, OutboxWanted},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, count, line, reveal, shown, switch},
    },
};

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    state: Option<String>,
    before: Option<i64>,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let which = wanted.state.as_deref().and_then(OutboxWanted::from_name).unwrap_or(OutboxWanted::All);
    let store = &view.web.desk.store;
    let rows = store.outbox_on_page(which, wanted.before.unwrap_or(i64::MAX), PIECE).await?;
    let mut ids = Vec::new();
    for row in &rows {
        // Of most texts the platform has one message, whose id is not looked at.
        ids.push(if row.parts > 0 { parts_of(&view, row.id).await? } else { Vec::new() });
    }
    let body = html! {
        (switch("/outbox?state=", &[("all", "All"), ("open", "Unsent"), ("failed", "Failed")], which.as_str()))
        @if rows.is_empty() { p.none { "No text." } } @else {
            div.scroll { table {
                thead { tr { th { "Text" } th { "Chat" } th { "State" } th { "Made" } th { "Because of" } th { "" span.hidden { "Change" } } } }
                tbody { @for (row, ids) in rows.iter().zip(&ids) { (text(&view, row, ids)) } }
            } }
        }
        p.pieces {
            @if wanted.before.is_some() { a href={ "/outbox?state=" (which) } { "Newest" } }
            @if rows.len() == PIECE { @if let Some(last) = rows.last() { a href={ "/outbox?state=" (which) "&before=" (last.id) } rel="next" { "Older" } } }
        }
    };
    Ok(view.show(&Page::new(Place::Outbox, "g2 outbox list", body)))
}

/// The platform's ids of a text's parts.
async fn parts_of(view: &View, id: i64) -> Result<Vec<Option<String>>, Failed> {
    Ok(view.web.desk.store.parts_of(id).await?.into_iter().map(|part| part.platform_id).collect())
}

fn text(view: &View, row: &OutboxShown, ids: &[Option<String>]) -> Markup {
    let id = row.id.to_string();
    html! {
        tr id={ "o" (row.id) } {
            td {
                (line(&row.text, 200))
                @if row.files > 0 { span.dim { " + " (count(row.files, "file", "files")) } }
                @if row.parts > 1 || ids.iter().any(Option::is_some) {
                    details { summary.dim { (row.parts_sent) " of " (row.parts) " parts sent" }
                        ol.dim { @for part in ids { li { @match part { Some(part) => code { (line(part, 80)) }, None => "not sent yet" } } } }
                    }
                }
                @if let Some(error) = &row.error { p.dim { (shown(error)) } }
            }
            td { (line(&row.chat, 36)) }
            td.tight { span.state data-is=(row.status) { (row.status) } @if row.attempts > 1 { " " span.dim { (row.attempts) " tries" } } @if let Some(next) = row.next_try_at { br; span.dim { "next " (at(next, view.now, &view.zone)) } } }
            td { (at(row.created_at, view.now, &view.zone)) }
            td { @match row.run { Some(run) => a href={ "/runs/" (run) } { (line(&row.cause, 40)) }, None => (line(&row.cause, 40)) } }
            td {
                @match row.status {
                    DeliveryStatus::Failed => (act(view, "outbox.retry", &[("id", &id)], "Send again")),
                    DeliveryStatus::Pending => (reveal(view, "outbox.drop", &[("id", &id)], "Give up", "Do not send it")),
                    DeliveryStatus::Unknown => { (act(view, "outbox.retry", &[("id", &id)], "Send again")) " " (reveal(view, "outbox.drop", &[("id", &id)], "Give up", "Do not send it")) }
                    DeliveryStatus::Sending | DeliveryStatus::Sent => {}
                }
            }
        }
    }
}
