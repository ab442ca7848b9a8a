//! The mailbox: commands of agents that wait, are claimed, were refused, are dead.

use axum::{body::Body, extract::Query, http::Response};
use ipc_handlers::Folder;
use maud::{Markup, html};
use serde::Deserialize;

use super::PIECE;
use crate::{
    domain::{rows::IpcRow, states::QueueState},
    ops::ipc::queue::Queue,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, encoded, form, line, reveal, shown, sure, switch, took},
    },
};

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    state: Option<String>,
    #[serde(default)]
    group: String,
}

/// The choices: open ones first.
const STATES: [(&str, &str); 7] = [
    ("open", "Open"),
    ("waiting", "Waiting"),
    ("claimed", "Claimed"),
    ("held", "Held"),
    ("refused", "Refused"),
    ("dead", "Dead"),
    ("applied", "Applied"),
];

pub(in crate::web) async fn show(view: View, Query(wanted): Query<Wanted>) -> Result<Response<Body>, Failed> {
    let word = wanted.state.unwrap_or_else(|| "open".to_owned());
    let state = QueueState::from_name(&word);
    let group = wanted.group.trim().to_owned();
    let (root, store, now) = (view.web.root.clone(), view.web.desk.store.clone(), view.now);
    let of_group = Some(group.clone()).filter(|group| !group.is_empty());
    // It looks into the boxes of all groups, and may wait for the disk.
    let (rows, cut) = view
        .web
        .world
        .blocking(move || {
            let world = store.world();
            let queue =
                Queue { group: of_group, state, limit: Some(PIECE), from: 0, since: None, until: None };
            match state {
                Some(_) => world.wait(queue.rows(&root, &store, now)).map(|rows| (rows.rows, rows.cut)),
                None => world.wait(queue.open_rows(&root, &store, now)).map(|rows| (rows, None)),
            }
        })
        .await??;
    let holds = view.web.desk.store.holds()?;
    let is_held = |name: &str| holds.iter().any(|hold| hold.file.is_none() && hold.group.as_str() == name);
    let body = html! {
        (switch(&format!("/mailbox?group={}&state=", encoded(&group)), &STATES, &word))
        form.find method="get" action="/mailbox" role="search" {
            input type="hidden" name="state" value=(word);
            label { span.hidden { "Group" } input type="search" name="group" value=(group) placeholder="Only of this group"; }
            button { "Show" }
        }
        @if Folder::parse(&group).is_ok() {
            div.acts {
                @if is_held(&group) { (act(&view, "ipc.release", &[("what", &group)], &format!("Release {group}"))) }
                @else {
                    (form(&view, "ipc.hold", &[("what", &group)], "reason", &html! {
                        label { span.hidden { "Reason" } input name="arg-reason" placeholder="Reason" maxlength="200"; }
                        button { "Hold all commands of " (group) }
                    }))
                }
            }
        }
        @if let Some(cut) = &cut { p.dim { (shown(&cut.to_string())) } }
        @if rows.is_empty() { p.none { "No command." } } @else {
            div.scroll { table {
                thead { tr { th { "Command" } th { "Group" } th { "Asks for" } th { "State" } th.num { "Age" } th { "Reason" } th { span.hidden { "Change" } } } }
                tbody { @for row in rows.iter().rev().take(PIECE) { (command(&view, row)) } }
            } }
        }
    };
    Ok(view.show(
        &Page::new(Place::Mailbox, format!("g2 ipc list --state {word}").replace(" --state open", ""), body)
            .every(5),
    ))
}

fn command(view: &View, row: &IpcRow) -> Markup {
    let file = format!("{}/{}/{}", row.group, row.box_name, row.name);
    let what = row.id.map_or_else(|| file.clone(), |id| id.to_string());
    html! {
        tr {
            td { @match row.id { Some(id) => a href={ "/mailbox/" (id) } { (id) }, None => (line(&file, 60)) } @if let Some(request) = &row.request_id { " " span.dim { (line(request, 40)) } } }
            td { a href={ "/mailbox?group=" (encoded(&row.group)) } { (line(&row.group, 40)) } }
            td { (row.kind.as_deref().map_or_else(|| "–".to_owned(), |kind| line(kind, 40))) }
            td.tight { span.state data-is=(row.state) { (row.state) } }
            td.num { (took(row.age_ms)) }
            td { (row.reason.as_deref().map(|reason| line(reason, 160)).unwrap_or_default()) }
            td { div.acts {
                @match row.state {
                    QueueState::Waiting => { (act(view, "ipc.hold", &[("what", &what)], "Hold")) (drop_it(view, &what)) }
                    QueueState::Held => { (act(view, "ipc.release", &[("what", &what)], "Release")) (drop_it(view, &what)) }
                    QueueState::Claimed => (drop_it(view, &what)),
                    QueueState::Refused => (act(view, "ipc.retry", &[("what", &what)], "Try again")),
                    QueueState::Dead => { (act(view, "ipc.retry", &[("what", &what)], "Try again")) (drop_dead(view, &what)) }
                    QueueState::Applied => {}
                }
            } }
        }
    }
}

/// Nothing is left of a dead one.
fn drop_dead(view: &View, what: &str) -> Markup {
    html! {
        details.sure id={ "drop/" (what) } {
            summary { "Drop…" }
            (form(view, "ipc.drop", &[("what", what)], "", &html! { (sure("Its file does not come back")) button.danger { "Drop it for good" } }))
        }
    }
}

fn drop_it(view: &View, what: &str) -> Markup {
    reveal(view, "ipc.drop", &[("what", what), ("reason", "dropped at the page")], "Drop", "Drop it for good")
}
