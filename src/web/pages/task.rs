//! One task: its prompt, when it fires next by the user's clock and by UTC, and what became of its slots.

use axum::{body::Body, extract::Path, http::Response};
use ipc_handlers::{Folder, Schedule, TaskStatus};
use maud::html;

use super::tasks::acts;
use crate::web::{
    layout::{Failed, Page, Place, View},
    parts::{at_or_dash, line, shown, took},
};

/// How many next times, and how many rows of the history are shown.
const NEXT: usize = 5;
const HISTORY: usize = 30;

pub(in crate::web) async fn show(
    view: View,
    Path((group, id)): Path<(String, String)>,
) -> Result<Response<Body>, Failed> {
    let none = || Failed::not_found(format!("there is no task {id} of {group}"));
    let folder = Folder::parse(&group).map_err(|_| none())?;
    let store = &view.web.desk.store;
    let task = store.task(&folder, &id)?.ok_or_else(none)?;
    let history = store.task_history(&folder, &id, Some(HISTORY))?;
    let zone = store.zone_of(&folder, &view.web.config.now().zones).await?;
    let schedule =
        Schedule::parse(task.schedule_type.as_str(), &task.schedule_value, &zone.zone, ipc_handlers::Time(0))
            .ok();
    let words = schedule
        .as_ref()
        .map_or_else(|| task.schedule_value.clone(), |schedule| schedule.in_words(&zone.zone, &zone.name));
    let next: Vec<_> = match (&schedule, task.next_run, task.status) {
        (Some(schedule), Some(first), TaskStatus::Active) => {
            let later = schedule.instants(first.max(view.now), &zone.zone).take(NEXT - 1);
            std::iter::once(first).chain(later.filter(|at| *at > first)).collect()
        }
        _ => Vec::new(),
    };
    let body = html! {
        dl.facts {
            div { dt { "State" } dd { span.state data-is=(task.status) { (task.status) } } }
            div { dt { "Group" } dd { (folder) } }
            div { dt { "Chat" } dd { (line(&task.chat_jid, 60)) } }
            div { dt { "Schedule" } dd { (words) } }
            div { dt { "Session" } dd { (task.context_mode) } }
            div { dt { "Its text" } dd { (task.output) } }
            div { dt { "Missed times" } dd { (task.catch_up) } }
        }
        @if let Some(why) = &task.paused_for { div.item.problem { p { "Paused: " (shown(why)) } } }
        @if let Some(until) = task.rest_until { p.dim { "Rests until " (at_or_dash(Some(until), view.now, &view.zone)) " after a failure" } }
        (acts(&view, &folder, &id, task.status))
        section { h2 { "Prompt" } pre.output tabindex="0" { (shown(&task.prompt)) } }
        @if let Some(script) = &task.script { section { h2 { "Script" } pre.output tabindex="0" { (shown(script)) } } }
        @if let Some(schedule) = schedule.as_ref().filter(|_| !next.is_empty()) {
            section {
                h2 { "Next" }
                div.scroll { table {
                    thead { tr { th { "By its clock (" (zone.name) ")" } th { "UTC" } th { "Note" } } }
                    tbody { @for at in &next { tr {
                        td { (at.to_jiff().to_zoned(zone.zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S")) }
                        td { (at) }
                        td { (schedule.note(*at, &zone.zone).unwrap_or_default()) }
                    } } }
                } }
            }
        }
        section {
            h2 { "What became of it" }
            @if history.is_empty() { p.none { "It has not been due yet." } } @else {
                div.scroll { table {
                    thead { tr { th { "Due" } th { "Outcome" } th { "Run" } th.num { "Waited" } th.num { "Took" } th { "Result" } } }
                    tbody { @for slot in history.iter().rev() { tr {
                        td { (at_or_dash(slot.due, view.now, &view.zone)) @if slot.slots > 1 { span.dim { " and " (slot.slots - 1) " more" } } }
                        td { @if let Some(outcome) = slot.outcome { (outcome) } @if let Some(reason) = slot.reason { span.dim { " (" (reason.says()) ")" } } }
                        td { @if let Some(run) = slot.run { a href={ "/runs/" (run) } { (run) } " " @if let Some(status) = slot.status { span.state data-is=(status) { (status) } } } }
                        td.num { (slot.waited_ms.map(took).unwrap_or_default()) }
                        td.num { (slot.duration_ms.map(took).unwrap_or_default()) }
                        td { (line(slot.error.as_deref().or(slot.result.as_deref()).unwrap_or_default(), 160)) }
                    } } }
                } }
            }
        }
    };
    let page = Page::new(
        Place::Tasks,
        format!("g2 tasks history {} --group {folder}", crate::domain::shown::screen::quoted(&id)),
        body,
    );
    Ok(view.show(&page.titled(line(&id, 60))))
}
