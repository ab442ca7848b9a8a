//! One run: what it heard, said and asked for, its output as it comes, what is known of its end.

use axum::{body::Body, extract::Path, http::Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    domain::{
        kept::prune::History,
        runs::{output::Lines, tool_servers::tool_as_shown},
    },
    ops::missing,
    store::{Activity, Happened},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, at, at_or_dash, line, reveal, shown, took},
    },
};

/// How much of the end of the output is shown, and of the prompt, bytes.
const OUTPUT: u64 = 48 << 10;
const PROMPT: u64 = 16 << 10;

/// What the run's folder has.
struct Kept {
    output: Vec<String>,
    /// Something stands before it.
    cut: bool,
    prompt: Option<String>,
    black_box: Option<Value>,
}

pub(in crate::web) async fn show(view: View, Path(id): Path<i64>) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let run = store.run(id)?.ok_or_else(|| missing(store, History::Runs, id))?;
    let (used, refusals) = store.usage_of_run(id, &view.web.config.now().budget.prices)?;
    let story = store.run_story(id)?;
    let root = view.web.root.clone();
    let kept = view.web.world.blocking(move || kept(&root, id)).await?;
    let sight = view.web.desk.sights.all().into_iter().find(|sight| sight.run == id);
    let number = id.to_string();
    let is_over = run.status.is_over();
    let body = html! {
        dl.facts {
            div { dt { "State" } dd { span.state data-is=(run.status) { (run.status) } } }
            div { dt { "Group" } dd { a href={ "/runs?group=" (run.group) } { (run.group) } } }
            div { dt { "Chat" } dd { (line(&run.lane, 60)) } }
            div { dt { "For" } dd { (run.kind) } }
            div { dt { "Started" } dd { (at_or_dash(run.started_at, view.now, &view.zone)) } }
            div { dt { "Took" } dd { @match run.started_at { Some(from) => (took(run.ended_at.unwrap_or(view.now).ms_since(from))), None => "–" } } }
            div { dt { "Requests" } dd { (used.requests) @if used.errors + used.refused > 0 { " (" (used.errors) " failed, " (used.refused) " refused)" } } }
            div { dt { "Tokens" } dd { (used.input_tokens + used.cache_read_tokens + used.cache_creation_tokens) " in, " (used.output_tokens) " out" } }
        }
        @if let Some(error) = &run.error { div.item.problem { p { (shown(error)) } } }
        @if let Some(sight) = &sight {
            p.dim {
                "Last sign of life " (at(sight.last_sign, view.now, &view.zone))
                @if let Some(tool) = &sight.tool { ", runs " (line(&tool_as_shown(tool), 60)) }
                @if let (Some(ends), Some(how)) = (sight.ends_at, sight.ends_how) { ", is " (how) " at " (at(ends, view.now, &view.zone)) " without another" @if let Some(why) = &sight.ends_why { " (" (shown(why)) ")" } }
            }
        }
        @if !is_over {
            div.acts {
                (act(&view, "runs.stop", &[("id", &number)], "Stop in order"))
                (reveal(&view, "runs.stop", &[("id", &number), ("now", "true")], "Kill", "Kill it now"))
                (reveal(&view, "runs.stop", &[("id", &number), ("retry", "true")], "Stop and try again", "Do so"))
            }
        }
        (told(&view, &story))
        section {
            h2 { "Output" }
            @if kept.cut { p.dim { "The end of it. " code { "g2 runs logs " (id) } " has all." } }
            @if kept.output.is_empty() { p.none { "None is kept." } } @else {
                pre.output tabindex="0" { @for text in &kept.output { (shown(text)) "\n" } }
            }
        }
        @if !refusals.is_empty() {
            section { h2 { "Refused requests" } ul { @for refusal in &refusals { li { (at(refusal.at, view.now, &view.zone)) " " code { (line(&refusal.asked, 100)) } " " (shown(&refusal.why)) } } } }
        }
        @if let Some(black_box) = &kept.black_box {
            section { h2 { "What was known when it was ended" } (evidence(black_box)) }
        }
        @if let Some(prompt) = &kept.prompt {
            section { details { summary { "Prompt" } pre.output tabindex="0" { (shown(prompt)) } } }
        }
    };
    let page = Page::new(Place::Runs, format!("g2 runs show {id}"), body).titled(format!("Run {id}"));
    let page = if is_over { page } else { page.every(2) };
    Ok(view.show(&page))
}

fn kept(root: &std::path::Path, id: i64) -> Kept {
    let (bytes, cut) = crate::root::read_run_log_end(root, id, OUTPUT).unwrap_or_default();
    // The first line may be half of one.
    let from = if cut { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) } else { 0 };
    let mut lines = Lines::default();
    let mut output = lines.push(&bytes[from..]);
    output.extend(lines.last());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Kept {
        output,
        cut,
        prompt: crate::root::read_run_prompt(root, id, PROMPT).map(text),
        black_box: crate::root::read_black_box(root, id),
    }
}

fn told(view: &View, story: &[Activity]) -> Markup {
    let all = |what| story.iter().filter(move |one| one.what == what);
    let part =
        |text: &Option<String>, most| text.as_deref().map_or_else(|| "–".to_owned(), |text| line(text, most));
    html! {
        section {
            h2 { "What it heard and said" }
            @if story.iter().all(|one| one.what == Happened::Command) { p.none { "Nothing." } }
            ol.lines {
                @for heard in all(Happened::Asked) {
                    li { p.by { strong { (part(&heard.name, 40)) } " in " (part(&heard.chat_jid, 40)) " " (at(heard.at, view.now, &view.zone)) " " a href={ "/why/" (heard.id) } { "Why" } } p.text { (line(&heard.text, 240)) } }
                }
                @for said in all(Happened::Said) {
                    @let status = said.state.as_deref().unwrap_or_default();
                    li.ours { p.by { "To " (part(&said.chat_jid, 40)) " " a href={ "/outbox?before=" (said.id + 1) "#o" (said.id) } { span.state data-is=(status) { (status) } } } p.text { (line(&said.text, 240)) } }
                }
            }
        }
        @if all(Happened::Command).next().is_some() {
            section {
                h2 { "What it asked for" }
                ul {
                    @for asked in all(Happened::Command) {
                        @let outcome = asked.state.as_deref().unwrap_or_default();
                        li { a href={ "/mailbox/" (asked.id) } { (asked.id) } " " (part(&asked.name, 40)) " " span.state data-is=(outcome) { (outcome) } @if !asked.text.is_empty() { " " (line(&asked.text, 160)) } }
                    }
                }
            }
        }
    }
}

/// A black box: its sentences, then its lists.
fn evidence(black_box: &Value) -> Markup {
    let text = |name: &str| black_box[name].as_str().unwrap_or_default().to_owned();
    let list = |name: &str| black_box[name].as_array().cloned().unwrap_or_default();
    html! {
        p { (shown(&text("reason"))) }
        p.dim { (shown(&text("evidence"))) }
        @for (name, title) in [("log", "Last lines"), ("records", "Last records"), ("processes", "Processes"), ("samples", "Use of the machine")] {
            @let rows = list(name);
            @if !rows.is_empty() {
                details { summary { (title) " (" (rows.len()) ")" }
                    pre.output tabindex="0" { @for row in rows.iter().take(200) { @match row { Value::String(line) => (shown(line)), other => (shown(&other.to_string())) } "\n" } }
                }
            }
        }
    }
}
