//! Tasks: what runs next, day by day, and tasks that do not run.

use axum::{body::Body, http::Response};
use ipc_handlers::{Schedule, TaskStatus, Time};
use maud::{Markup, html};

use crate::{
    domain::runs::calendar::{Planned, calendar},
    store::TaskShown,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at_or_dash, encoded, line, reveal, shown},
    },
};

/// How many tasks to come and at rest are looked at, and how many runs the calendar shows.
const MOST: usize = 100;
/// How far the calendar goes, ms.
const WEEK_MS: i64 = 7 * 86_400_000;

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let (to_come, at_rest) = (store.tasks_to_come(MOST)?, store.tasks_at_rest(MOST)?);
    let mut planned = Vec::new();
    for task in &to_come {
        let zone = store.zone_of(&task.group, &view.web.config.now().zones).await?;
        let schedule = Schedule::parse(task.kind.as_str(), &task.value, &zone.zone, Time(0));
        let (Some(next), Ok(schedule)) = (task.next_run, schedule) else { continue };
        let (group, id) = (task.group.clone(), task.id.clone());
        planned.push((Planned { group, id, schedule, zone: zone.zone, next, took_ms: 0 }, zone.name));
    }
    let words: Vec<String> =
        planned.iter().map(|(task, zone)| task.schedule.in_words(&task.zone, zone)).collect();
    let planned: Vec<Planned> = planned.into_iter().map(|(task, _)| task).collect();
    let coming = calendar(&planned, view.now, view.now.plus_ms(WEEK_MS), MOST);
    let mut days: Vec<(String, Vec<_>)> = Vec::new();
    for entry in &coming.entries {
        let local = entry.at.to_jiff().to_zoned(view.zone.clone());
        let day = local.strftime("%A %-d %B").to_string();
        let row = (local.strftime("%H:%M").to_string(), entry);
        match days.last_mut() {
            Some((last, rows)) if *last == day => rows.push(row),
            _ => days.push((day, vec![row])),
        }
    }
    let body = html! {
        section {
            h2 { "The next seven days" }
            @if days.is_empty() { p.none { "No task runs in the next seven days." } }
            @for (day, rows) in &days {
                h3 { (day) }
                ul.calendar {
                    @for (time, entry) in rows {
                        @let task = &planned[entry.task];
                        li {
                            time datetime=(entry.at) title=(entry.at) { (time) }
                            a href=(path(&task.group, &task.id)) { (line(&task.id, 40)) }
                            span.dim { (task.group) " · " (words[entry.task]) @if entry.often { ", and so on" } @if let Some(note) = task.schedule.note(entry.at, &task.zone) { " · " (note) } }
                        }
                    }
                }
            }
            @if coming.more || to_come.len() == MOST { p.dim { "These are the soonest. " code { "g2 tasks calendar" } " has all." } }
        }
        section {
            h2 { "Tasks that run" }
            (table(&view, &to_come))
        }
        @if !at_rest.is_empty() {
            section {
                h2 { "Paused, or over" }
                (table(&view, &at_rest))
            }
        }
    };
    Ok(view.show(&Page::new(Place::Tasks, "g2 tasks calendar", body)))
}

pub(super) fn path(group: &ipc_handlers::Folder, id: &str) -> String {
    // A task's id may have any characters.
    format!("/tasks/{group}/{}", encoded(id).replace('+', "%20"))
}

fn table(view: &View, tasks: &[TaskShown]) -> Markup {
    html! {
        @if tasks.is_empty() { p.none { "No task." } } @else {
            div.scroll { table {
                thead { tr { th { "Task" } th { "Group" } th { "Prompt" } th { "State" } th { "Next" } th { "Last" } th { span.hidden { "Change" } } } }
                tbody {
                    @for task in tasks {
                        tr {
                            td { a href=(path(&task.group, &task.id)) { (line(&task.id, 40)) } }
                            td { (task.group) }
                            td { (line(&task.prompt, 90)) @if let Some(why) = &task.paused_for { p.dim { (shown(why)) } } }
                            td.tight { span.state data-is=(task.status) { (task.status) } @if task.failures > 0 { " " span.dim { (task.failures) " failures" } } }
                            td { (at_or_dash(task.next_run, view.now, &view.zone)) }
                            td { (at_or_dash(task.last_run, view.now, &view.zone)) }
                            td { (acts(view, &task.group, &task.id, task.status)) }
                        }
                    }
                }
            } }
        }
    }
}

/// What can be done to a task.
pub(super) fn acts(view: &View, group: &ipc_handlers::Folder, id: &str, status: TaskStatus) -> Markup {
    let named = [("id", id), ("group", group.as_str())];
    html! {
        div.acts {
            @match status {
                TaskStatus::Active => { (act(view, "tasks.run", &named, "Run now")) (act(view, "tasks.pause", &named, "Pause")) }
                TaskStatus::Paused => (act(view, "tasks.resume", &named, "Resume")),
                TaskStatus::Completed => (act(view, "tasks.run", &named, "Run again")),
            }
            (reveal(view, "tasks.cancel", &named, "Delete", "Delete it"))
        }
    }
}
