//! Now: what needs a person, what is at work, what waits, how the channels stand.

use axum::{body::Body, http::Response};
use maud::{Markup, html};

use crate::{
    domain::{
        heard::approvals::State,
        problems::{Finding, checks::Check},
        rows::{ChannelState, Waiter},
        runs::tool_servers::tool_as_shown,
    },
    loops::Sight,
    ops::ipc,
    store::{ActiveRun, Which},
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, advice, at, count, encoded, line, shown, took},
    },
};

use super::cards::{Cards, asked};

/// How many of those that wait, and of questions, are shown.
const MOST: usize = 20;

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let mut findings = view.web.desk.problems.last();
    findings.retain(|finding| !finding.noted);
    let mut questions = store.approvals(false).await?;
    questions.retain(|question| question.state == State::Pending);
    let cards = Cards::read(&view, questions.iter().take(MOST).cloned().collect()).await?;
    let of_agents = store.questions(false, Which { limit: Some(MOST + 1), ..Which::default() }).await?;
    let holds = store.holds()?;
    let runs = store.active_runs()?;
    let sights = view.web.desk.sights.all();
    let (at_work, idle) = apart(&runs, &sights);
    let waiters = store.waiters(MOST, view.now)?;
    let channels = store.connections().await?;
    let (unsent, dead) = (store.outbox_pending().await?, store.dead_commands()?);
    let body = html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs you" }
            @if findings.is_empty() && questions.is_empty() && holds.is_empty() {
                p.none { "Nothing. No problem is known, and no question is open." }
            }
            (cards.all(&view))
            @if questions.len() > MOST {
                p { a href="/people" { "All " (questions.len()) " questions" } }
            }
            @for finding in &findings { (problem(&view, finding)) }
            @for hold in holds.iter().take(MOST) {
                div.item {
                    p { strong { (shown(&ipc::shown(hold))) } " is held since " (at(hold.at, view.now, &view.zone)) @if let Some(reason) = &hold.reason { ": " (shown(reason)) } }
                    (act(&view, "ipc.release", &[("what", &ipc::shown(hold))], "Release"))
                }
            }
        }
        @if !of_agents.is_empty() {
            section aria-labelledby="asked" {
                h2 #asked { "Asked by agents" }
                @for question in of_agents.iter().rev().take(MOST) { (asked(&view, question)) }
                @if of_agents.len() > MOST { p { a href="/people#asked" { "More questions of agents" } } }
            }
        }
        section aria-labelledby="work" {
            h2 #work { "At work" }
            @if at_work.is_empty() { p.none { "No agent is at work." } } @else { (work(&view, &at_work)) }
            @if !idle.is_empty() {
                h3 { "Awake, and idle" }
                (work(&view, &idle))
            }
        }
        section aria-labelledby="waits" {
            h2 #waits { "Waiting" }
            @if waiters.is_empty() { p.none { "Nobody waits for a turn." } } @else { (waiting(&view, &waiters)) }
            p.counts {
                a href="/outbox?state=open" { (count(unsent, "unsent text", "unsent texts")) }
                " · "
                a href="/mailbox?state=dead" { (count(dead, "dead command", "dead commands")) }
            }
        }
        section aria-labelledby="channels" {
            h2 #channels { "Channels" }
            p.lights {
                @for account in &view.web.config.now().channels {
                    (lights(&account.name, channels.iter().find(|state| state.channel == account.name)))
                }
                @if view.web.config.now().channels.is_empty() { span.none { "Only this machine’s own terminals and this page. " a href="/channels" { "More" } } }
            }
        }
    };
    let page = Page::new(Place::Now, "g2 status", body).every(15);
    Ok(view.show(&page))
}

/// A problem and its mend.
pub(super) fn problem(view: &View, finding: &Finding) -> Markup {
    // It is about the loop, and the key.
    let key = (finding.code == Check::LoopKey).then(|| finding.about.split_once(' ')).flatten();
    html! {
        div.item.problem {
            p { (shown(&finding.text)) }
            @if !finding.fix.is_empty() { p.dim { (advice(&finding.fix)) } }
            @if let Some((name, key)) = key {
                div.acts {
                    (act(view, "loops.release", &[("loop", name), ("key", key)], "Release"))
                    (act(view, "loops.release", &[("loop", name), ("all", "true")], "Release all of the loop"))
                }
            }
        }
    }
}

/// A run under way, and what is seen of it.
type Seen<'a> = (&'a ActiveRun, Option<&'a Sight>);

/// Parts the runs that are at work, or are about to be, from those that have nothing in hand.
fn apart<'a>(runs: &'a [ActiveRun], sights: &'a [Sight]) -> (Vec<Seen<'a>>, Vec<Seen<'a>>) {
    let seen = runs.iter().map(|run| (run, sights.iter().find(|sight| sight.run == run.id)));
    seen.partition(|(_, sight)| sight.is_none_or(|sight| sight.in_hand_since.is_some()))
}

fn work(view: &View, runs: &[Seen<'_>]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Run" } th { "Group" } th { "For" } th { "Doing" } th { "Since" } th { span.hidden { "Change" } } } }
            tbody {
                @for (run, sight) in runs {
                    @let id = run.id.to_string();
                    tr {
                        td { a href={ "/runs/" (run.id) } { (run.id) } }
                        td { (run.group) }
                        td { (run.kind) }
                        td { (sight.and_then(|sight| sight.tool.as_deref()).map_or_else(|| idle_or_not(*sight).to_owned(), |tool| line(&tool_as_shown(tool), 60))) }
                        td { @match sight.and_then(|sight| sight.in_hand_since) { Some(since) => { (at(since, view.now, &view.zone)) " (" (took(view.now.ms_since(since))) ")" }, None => "–" } }
                        td { (act(view, "runs.stop", &[("id", &id)], "Stop")) }
                    }
                }
            }
        } }
    }
}

fn idle_or_not(sight: Option<&Sight>) -> &'static str {
    match sight.map(|sight| sight.in_hand_since.is_some()) {
        Some(true) => "at work",
        Some(false) => "idle",
        None => "starting",
    }
}

fn waiting(view: &View, waiters: &[Waiter]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Group" } th { "Chat" } th { "Since" } th { "For" } } }
            tbody {
                @for waiter in waiters {
                    tr {
                        td { a href={ "/chats/" (waiter.group) "?chat=" (encoded(&waiter.chat_jid)) } { (waiter.group) } }
                        td { (line(&waiter.chat_jid, 40)) @if let Some(task) = &waiter.task { ", task " (line(task, 30)) } }
                        td { (at(waiter.since, view.now, &view.zone)) }
                        td { (shown(&waiter.waits_for)) }
                    }
                }
            }
        } }
    }
}

/// The three lights of an account, in words too.
pub(super) fn lights(name: &str, state: Option<&ChannelState>) -> Markup {
    let word = |light: Option<String>| light.unwrap_or_else(|| "unknown".into());
    let all = [
        ("connection", word(state.map(|state| state.state.to_string()))),
        ("inbound", word(state.map(|state| state.inbound.to_string()))),
        ("outbound", word(state.map(|state| state.outbound.to_string()))),
    ];
    html! {
        a.account href={ "/channels#" (encoded(name)) } {
            (name)
            @for (what, word) in &all {
                span.light data-is=(word) title={ (what) ": " (word) } { span.hidden { ", " (what) " " (word) } }
            }
        }
    }
}
