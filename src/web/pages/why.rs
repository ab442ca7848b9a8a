//! Why: what became of a message.

use axum::{body::Body, extract::Path, http::Response};
use maud::html;

use crate::{
    domain::{heard::engage::Rule, kept::prune::History},
    ipc::peek,
    ops::missing,
    store::Beside,
    web::{
        layout::{Failed, Page, Place, View},
        parts::{at, count, encoded, form, line, shown, took},
    },
};

pub(in crate::web) async fn show(view: View, Path(seq): Path<i64>) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let mut why = store.why(seq, view.now)?.ok_or_else(|| missing(store, History::Messages, seq))?;
    let machine = &view.web.desk.machine;
    let data = view.web.root.join("data");
    let lost = machine.lost().clone();
    why.look_beside(&Beside {
        obstacle: machine.obstacle().map(|obstacle| obstacle.to_string()),
        lives: &|owner| owner == view.web.desk.owner,
        is_lost: &|group| lost.contains(group),
        heard_of: &|group| peek::heard_of(&data, group, view.now),
    });
    let message = &why.message;
    let number = seq.to_string();
    let back = why
        .wirings
        .first()
        .map(|wiring| format!("/chats/{}?chat={}", wiring.group, encoded(&message.chat_jid)));
    let body = html! {
        p.answer { (shown(&why.answer)) }
        section {
            h2 { "The message" }
            p.dim {
                (line(&message.sender_name, 40)) " (" (line(&message.sender, 60)) ") in "
                @match &back { Some(back) => a href=(back) { (line(&message.chat_jid, 50)) }, None => (line(&message.chat_jid, 50)) }
                ", " (at(message.received_at, view.now, &view.zone))
            }
            p.text { (line_or_more(&message.text)) }
            @if !message.attachments.is_empty() { p.dim { (count(message.attachments.len(), "file", "files")) } }
        }
        section {
            h2 { "Who listens" }
            @if why.wirings.is_empty() { p.none { "No group listens to this chat." } }
            @for wiring in &why.wirings {
                div.item {
                    div {
                        p { strong { (wiring.group) } @if wiring.engages { " engages" } @else { " does not engage" } ": rule " (wiring.rule.map_or("–", Rule::as_str)) @if let Some(reason) = &wiring.reason { " (" (shown(reason)) ")" } }
                        @if let Some(woken) = &wiring.woken { p.dim { "Its agent was woken: " (shown(woken)) } }
                        @if let Some(waited) = &wiring.waited_for { p.dim { "It waits, or waited, for " (shown(waited)) " (" (took(wiring.waited_ms)) ")" } }
                        @if let (Some(run), Some(status)) = (wiring.run, wiring.run_status) { p { a href={ "/runs/" (run) } { "Run " (run) } " " span.state data-is=(status) { (status) } @if let Some(error) = &wiring.run_error { " " (shown(error)) } } }
                        @if wiring.tries > 0 { p.dim { (count(wiring.tries, "failed try", "failed tries")) } }
                        @if let Some(next) = &wiring.next { p.dim { (shown(next)) } }
                    }
                    @if wiring.waited_for.is_some() && wiring.run.is_none() {
                        (form(&view, "messages.skip", &[("seq", &number), ("group", &wiring.group)], "reason", &html! {
                            label { span.hidden { "Reason" } input name="arg-reason" required placeholder="Reason" maxlength="200"; }
                            button { "Pass it over" }
                        }))
                    }
                }
            }
        }
        section {
            h2 { "What was said" }
            @if why.outbox.is_empty() { p.none { "Nothing." } }
            ol.lines {
                @for row in &why.outbox {
                    li.ours {
                        p.by { @if why.answers.contains(&row.id) { strong { "Answer" } } @else { (line(&row.cause, 60)) } " " a href={ "/outbox#o" (row.id) } { span.state data-is=(row.status) { (row.status) } } " " (at(row.created_at, view.now, &view.zone)) }
                        p.text { (line_or_more(&row.text)) }
                    }
                }
            }
        }
        @if !why.commands.is_empty() {
            section {
                h2 { "What was asked for" }
                ul { @for command in &why.commands { li { a href={ "/mailbox/" (command.id) } { "Command " (command.id) } " " (command.kind.as_deref().map_or_else(|| "–".to_owned(), |kind| line(kind, 40))) " of run " (command.run) } } }
            }
        }
    };
    let page = Page::new(Place::Chats, format!("g2 why {seq}"), body).titled(format!("Message {seq}"));
    Ok(view.show(&page))
}

/// How much of a text is shown, characters.
const SHOWN: usize = 8_000;

/// A text, or the beginning of a very long one.
fn line_or_more(text: &str) -> String {
    let mut head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() {
        head.push('…');
    }
    shown(&head).into_owned()
}
