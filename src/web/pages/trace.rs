//! The story of one command: when it was written, claimed and decided, its file, its reply, its effects.

use axum::{body::Body, extract::Path, http::Response};
use maud::html;

use crate::{
    domain::{kept::prune::History, states::QueueState},
    ipc::peek,
    ops::missing,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, at_or_dash, encoded, line, shown},
    },
};

/// How much of a file and of a reply is shown, characters.
const SHOWN: usize = 16 << 10;

pub(in crate::web) async fn show(view: View, Path(id): Path<i64>) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let story = store.story(id, view.now)?.ok_or_else(|| missing(store, History::Receipts, id))?;
    let row = &story.row;
    let (root, group, request) = (view.web.root.clone(), row.group.clone(), row.request_id.clone());
    let (file, files) = view
        .web
        .world
        .blocking(move || {
            (
                crate::root::read_kept_command(&root, &group, id),
                peek::files_of(&root, &group, id, request.as_deref()),
            )
        })
        .await?;
    let number = id.to_string();
    let head = |text: &str| text.chars().take(SHOWN).collect::<String>();
    let body = html! {
        dl.facts {
            div { dt { "State" } dd { span.state data-is=(row.state) { (row.state) } } }
            div { dt { "Group" } dd { a href={ "/mailbox?group=" (encoded(&row.group)) } { (line(&row.group, 40)) } } }
            div { dt { "Asks for" } dd { (row.kind.as_deref().map_or_else(|| "–".to_owned(), |kind| line(kind, 40))) } }
            div { dt { "File" } dd { (line(&format!("{}/{}", row.box_name, row.name), 80)) } }
            div { dt { "Written" } dd { (at_or_dash(story.written_at, view.now, &view.zone)) } }
            div { dt { "Claimed" } dd { (at_or_dash(story.claimed_at, view.now, &view.zone)) } }
            div { dt { "Decided" } dd { (at(story.decided_at, view.now, &view.zone)) } }
            @if let Some(run) = story.run { div { dt { "Run" } dd { a href={ "/runs/" (run) } { (run) } @if let Some(by) = story.run_by { " by its " (by) } } } }
        }
        @if let Some(reason) = &row.reason {
            div.item.problem { p { (shown(reason)) } @if let Some(hint) = &story.hint { p.dim { (shown(hint)) } } }
        }
        @if matches!(row.state, QueueState::Refused | QueueState::Dead) {
            div.acts { (act(&view, "ipc.retry", &[("what", &number)], "Try again")) }
        }
        p.dim {
            @if let Some(of) = story.replay_of { "Answered as command " a href={ "/mailbox/" (of) } { (of) } ". " }
            @if let Some(of) = story.retry_of { "It is command " a href={ "/mailbox/" (of) } { (of) } ", tried again. " }
            @if let Some(of) = story.retried_as { "It was tried again as command " a href={ "/mailbox/" (of) } { (of) } "." }
        }
        @if !story.effects.is_empty() {
            section { h2 { "Effects" } ul { @for effect in &story.effects { li { (effect.kind) " " (line(&effect.id, 60)) " " (effect.state.as_deref().unwrap_or("is not there any more")) @if let Some(detail) = &effect.detail { ": " (line(detail, 120)) } } } } }
        }
        @if let Some(file) = &file { section { h2 { "The command" } pre.output tabindex="0" { (shown(&head(file))) } } }
        @if let Some(reply) = &story.reply { section { h2 { "The reply" } pre.output tabindex="0" { (shown(&head(&serde_json::to_string_pretty(reply).unwrap_or_default()))) } } }
        @if !files.is_empty() { section { h2 { "Files" } ul { @for file in &files { li { code { (line(file, 160)) } } } } } }
    };
    Ok(view
        .show(&Page::new(Place::Mailbox, format!("g2 ipc trace {id}"), body).titled(format!("Command {id}"))))
}
