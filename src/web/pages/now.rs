//! Now: what needs a person, what is at work, what waits, how the channels stand.

use axum::{body::Body, http::Response};
use maud::{Markup, html};

use crate::{
    domain::{
        heard::approvals::{
            Approval, ApprovalKind, State,
            wording::{Groups, OF_MAIN},
        },
        problems::{Finding, checks::Check},
        rows::{ChannelState, Waiter},
        runs::tool_servers::tool_as_shown,
    },
    loops::Sight,
    ops::ipc,
    store::ActiveRun,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{act, advice, at, count, encoded, form, line, reveal, shown, took},
    },
};

/// How many of those that wait, and of questions, are shown.
const MOST: usize = 20;

pub(in crate::web) async fn show(view: View) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let mut findings = view.web.desk.problems.last();
    findings.retain(|finding| !finding.noted);
    let mut questions = store.approvals(false).await?;
    questions.retain(|question| question.state == State::Pending);
    let groups = offered(&view, &questions).await?;
    let holds = store.holds()?;
    let runs = store.active_runs()?;
    let sights = view.web.desk.sights.all();
    let waiters = store.waiters(MOST, view.now)?;
    let channels = store.connections().await?;
    let (unsent, dead) = (store.outbox_pending().await?, store.dead_commands()?);
    let body = html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs you" }
            @if findings.is_empty() && questions.is_empty() && holds.is_empty() {
                p.none { "Nothing. No problem is known, and no question is open." }
            }
            @for question in questions.iter().take(MOST) { (card(&view, question, &groups)) }
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
        section aria-labelledby="work" {
            h2 #work { "At work" }
            @if runs.is_empty() { p.none { "No agent is at work." } } @else { (work(&view, &runs, &sights)) }
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

fn is_about_a_chat(question: &Approval) -> bool {
    question.kind == ApprovalKind::Channel
}

/// Returns the groups that questions may be about; without a question none is looked for.
pub(super) async fn offered(view: &View, questions: &[Approval]) -> Result<Groups, Failed> {
    if questions.is_empty() {
        return Ok(Groups::default());
    }
    let groups = view.web.desk.store.groups().await?.into_iter();
    Ok(groups.map(|group| (group.folder, group.name, group.is_main)).collect())
}

/// A question with its answers.
pub(super) fn card(view: &View, question: &Approval, groups: &Groups) -> Markup {
    let id = question.id.to_string();
    let is_asked = |folder: &str| question.groups.iter().any(|asked| asked == folder);
    let main =
        groups.main.as_ref().filter(|(folder, _)| is_asked(folder.as_str())).map(|(_, name)| line(name, 40));
    html! {
        article.card {
            p {
                strong { (line(&question.sender_name, 60)) } " " span.dim { (line(&question.sender, 60)) }
                @match question.kind {
                    ApprovalKind::Sender => { " writes in " code { (line(&question.chat_jid, 60)) } ". Is " @if question.groups.is_empty() { "the agent" } @else { (question.groups.join(", ")) } " to hear them?" @if let Some(main) = main { " Careful: " (main) " " (OF_MAIN) "." } }
                    ApprovalKind::Channel => { " writes in " code { (line(&question.chat_jid, 60)) } ", which no group listens to. Connect it?" }
                }
            }
            div.acts {
                @if is_about_a_chat(question) {
                    (form(view, "approvals.approve", &[("id", &id)], "group", &html! {
                        label { span.hidden { "Group for chat " (line(&question.chat_jid, 60)) }
                            // Nobody is given to an agent that nobody chose, least of all to main.
                            select name="arg-group" required {
                                option value="" { "Choose a group" }
                                @for (folder, name) in &groups.others { option value=(folder) { (line(name, 40)) } }
                                @if let Some((folder, name)) = &groups.main { option value=(folder) { (line(name, 40)) " (" (OF_MAIN) ")" } }
                            } }
                        button { "Connect" }
                    }))
                    (form(view, "approvals.approve", &[("id", &id)], "new", &html! {
                        label { span.hidden { "Name of a new group" } input name="arg-new" required maxlength="64" placeholder="New group"; }
                        button { "Make and connect" }
                    }))
                    (act(view, "approvals.deny", &[("id", &id)], "Ignore"))
                } @else {
                    (act(view, "approvals.approve", &[("id", &id)], "Allow"))
                    (act(view, "approvals.deny", &[("id", &id)], "Deny"))
                }
            }
            p.dim { "Question " (question.id) ", asked " (at(question.created_at, view.now, &view.zone)) ", open until " (at(question.expires_at, view.now, &view.zone)) ", " (count(question.messages.len(), "message waits", "messages wait")) }
        }
    }
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

fn work(view: &View, runs: &[ActiveRun], sights: &[Sight]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Run" } th { "Group" } th { "For" } th { "Doing" } th { "Since" } th { span.hidden { "Change" } } } }
            tbody {
                @for run in runs {
                    @let sight = sights.iter().find(|sight| sight.run == run.id);
                    @let id = run.id.to_string();
                    tr {
                        td { a href={ "/runs/" (run.id) } { (run.id) } }
                        td { (run.group) }
                        td { (run.kind) }
                        td { (sight.and_then(|sight| sight.tool.as_deref()).map_or_else(|| idle_or_not(sight).to_owned(), |tool| line(&tool_as_shown(tool), 60))) }
                        td { @match sight.and_then(|sight| sight.in_hand_since) { Some(since) => { (at(since, view.now, &view.zone)) " (" (took(view.now.ms_since(since))) ")" }, None => "–" } }
                        td { (reveal(view, "runs.stop", &[("id", &id)], "Stop", "Stop it")) }
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
