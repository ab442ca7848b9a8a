//! Runs, newest first.

use axum::{body::Body, extract::Query, http::Response};
use ipc_handlers::Folder;
use maud::html;
use serde::Deserialize;

use super::PIECE;
use crate::web::{
    layout::{Failed, Page, Place, View},
    parts::{at_or_dash, line, reveal, took},
};

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    #[serde(default)]
    group: String,
    before: Option<i64>,
}

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let group = match wanted.group.trim() {
        "" => None,
        name => {
            Some(Folder::parse(name).map_err(|_| Failed::not_found(format!("there is no group {name}")))?)
        }
    };
    let runs = view.web.desk.store.runs_on_page(group.as_ref(), wanted.before.unwrap_or(i64::MAX), PIECE)?;
    let of_group = group.as_ref().map(|group| format!("&group={group}")).unwrap_or_default();
    let body = html! {
        form.find method="get" action="/runs" role="search" {
            label { span.hidden { "Group" } input type="search" name="group" value=(wanted.group) placeholder="Only of this group"; }
            button { "Show" }
        }
        @if runs.is_empty() { p.none { "No run." } } @else {
            div.scroll { table {
                thead { tr { th { "Run" } th { "Group" } th { "Chat" } th { "For" } th { "State" } th { "Started" } th.num { "Took" } th { "Error" } } }
                tbody {
                    @for run in &runs {
                        @let id = run.id.to_string();
                        tr {
                            td { a href={ "/runs/" (run.id) } { (run.id) } }
                            td { a href={ "/runs?group=" (run.group) } { (run.group) } }
                            td { (line(&run.lane, 36)) }
                            td { (run.kind) }
                            td.tight { span.state data-is=(run.status) { (run.status) } @if !run.status.is_over() { " " (reveal(&view, "runs.stop", &[("id", &id)], "Stop", "Stop it")) } }
                            td { (at_or_dash(run.started_at, view.now, &view.zone)) }
                            td.num { @match run.started_at { Some(from) => (took(run.ended_at.unwrap_or(view.now).ms_since(from))), None => "–" } }
                            td { (run.error.as_deref().map(|error| line(error, 120)).unwrap_or_default()) }
                        }
                    }
                }
            } }
        }
        p.pieces {
            @if wanted.before.is_some() { a href={ "/runs?" (of_group.trim_start_matches('&')) } { "Newest" } }
            @if runs.len() == PIECE { @if let Some(last) = runs.last() { a href={ "/runs?before=" (last.id) (of_group) } rel="next" { "Older" } } }
        }
    };
    Ok(view.show(&Page::new(Place::Runs, "g2 runs list", body)))
}
