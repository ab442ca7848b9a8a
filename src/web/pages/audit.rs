//! Audit: who changed what, when and from where; the newest first.

use axum::{body::Body, extract::Query, http::Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::PIECE;
use crate::{
    domain::shown::{audit::Origin, screen::quoted},
    store::{Change, Changes, Ended},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{at, at_or_dash, encoded, line, shown},
    },
};

/// The longest text that is searched for, characters.
const LONGEST: usize = 100;

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    /// Where the changes come from; empty: from anywhere.
    #[serde(default)]
    from: String,
    #[serde(default)]
    find: String,
    before: Option<i64>,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let origin = Origin::from_name(&wanted.from);
    let find: String = wanted.find.trim().chars().take(LONGEST).collect();
    let changes = Changes {
        origin,
        grep: Some(find.clone()).filter(|find| !find.is_empty()),
        limit: Some(PIECE),
        before: wanted.before,
        ..Changes::default()
    };
    // It may walk through all of it for few rows.
    let store = view.web.desk.store.clone();
    let mut rows = view.web.world.blocking(move || store.changes(&changes)).await??;
    rows.reverse();
    let same = format!("/audit?from={}&find={}", origin.map_or("", Origin::as_str), encoded(&find));
    let body = html! {
        form.find method="get" action="/audit" role="search" {
            label { span.hidden { "Changes from" } select name="from" {
                option value="" { "From anywhere" }
                @for (word, one) in Origin::CHOICES { option value=(word) selected[origin == Some(*one)] { (from(*one)) } }
            } }
            label { span.hidden { "Part of a change or of its author" } input type="search" name="find" value=(find) maxlength=(LONGEST) placeholder="Author or change"; }
            button { "Find" }
        }
        @if rows.is_empty() { p.none { "No such change." } } @else { (table(&view, &rows)) }
        p.pieces {
            @if wanted.before.is_some() { a href=(same) { "Newest" } }
            @if rows.len() == PIECE { @if let Some(last) = rows.last() { a href={ (same) "&before=" (last.id) } rel="next" { "Older" } } }
        }
        p.dim { code { "g2 audit verify" } " checks that no row was changed or removed." }
    };
    let mut command = format!("g2 audit list --limit {PIECE}");
    if let Some(origin) = origin {
        command.push_str(&format!(" --from {origin}"));
    }
    if !find.is_empty() {
        command.push_str(&format!(" --grep {}", quoted(&find)));
    }
    Ok(view.show(&Page::new(Place::Audit, command, body)))
}

fn from(origin: Origin) -> &'static str {
    match origin {
        Origin::CommandLine => "Command line",
        Origin::Program => "Programs",
        Origin::Page => "This page",
        Origin::Chat => "Chats",
        Origin::Agent => "Agents",
    }
}

fn table(view: &View, rows: &[Change]) -> Markup {
    html! {
        div.scroll tabindex="0" { table.cards {
            thead { tr { th.num { "Row" } th { "When" } th { "Who" } th { "Change" } th { "Outcome" } th { "Ended" } } }
            tbody { @for row in rows { tr {
                td.num data-of="Row" { (row.id) }
                td data-of="When" { (at(row.at, view.now, &view.zone)) }
                td data-of="Who" { (line(&row.who, 100)) " " span.dim { (from(row.origin)) } }
                td data-of="Change" { code { (shown(&row.what)) } @if let Some(why) = &row.why { p.dim { (shown(why)) } } }
                td data-of="Outcome" { span.state data-is=(outcome(row.outcome)) { (outcome(row.outcome)) } }
                td data-of="Ended" { (at_or_dash(row.ended_at, view.now, &view.zone)) }
            } } }
        } }
    }
}

fn outcome(ended: Ended) -> &'static str {
    match ended {
        Ended::Done => "done",
        Ended::Failed => "failed",
        Ended::Unfinished => "unfinished",
    }
}
