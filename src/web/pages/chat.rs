//! A chat of a group: both its sides, questions, and a line to write in where it is of this machine.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Path, Query, State},
    http::{Request, Response},
};
use ipc_handlers::Folder;
use maud::{Markup, html};
use serde::Deserialize;

use super::{cards::Cards, files};
use crate::{
    channels::local::{Ask, Incoming, Session, Told},
    domain::{
        heard::approvals::State as QuestionState,
        platforms::{
            addresses::is_local,
            attachments::{Attachment, size},
        },
        runs::tool_servers::tool_as_shown,
        states::DeliveryStatus,
    },
    ops::{OpCode, OpError},
    store::{ActiveRun, Transcript, Utterance, Whence},
    web::{
        Visitor, Web, act,
        layout::{Failed, Page, Place, View},
        parts::{act as button, at, encoded, hidden, line, marked, shown},
        said::Outcome,
        upload::{self, Came},
    },
};

/// How many lines a piece has.
const PIECE: usize = 60;
/// As whom people speak here.
const ME: &str = "me";

#[derive(Deserialize)]
pub(in crate::web) struct Wanted {
    chat: Option<String>,
    /// Only what comes before: the numbers of a message and of a row of the outbox.
    before: Option<String>,
}

pub(in crate::web) async fn show(
    view: View,
    Path(group): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response<Body>, Failed> {
    let store = &view.web.desk.store;
    let none = || Failed::not_found(format!("there is no group {group}"));
    let folder = Folder::parse(&group).map_err(|_| none())?;
    let row = store.group(&folder).await?.ok_or_else(none)?;
    let Some(chat) = wanted.chat.or_else(|| row.chats.first().cloned()) else {
        return Ok(view.without_chat(&folder, &row.name));
    };
    let before = wanted.before.as_deref().and_then(|text| {
        let (message, outbox) = text.split_once('.')?;
        Some((message.parse().ok()?, outbox.parse().ok()?))
    });
    let transcript = store.transcript(&chat, before, PIECE).await?;
    let mut questions = store.approvals(false).await?;
    questions.retain(|question| question.card_chat == chat && question.state == QuestionState::Pending);
    let cards = Cards::read(&view, questions).await?;
    let active = match store.active_run_of(&folder)? {
        Some(run) => store.active_run(run)?,
        None => None,
    };
    let is_here = is_local(&chat);
    let is_wired = row.chats.contains(&chat);
    let body = html! {
        p.dim {
            a href="/chats" { "All chats" } " · group " (folder)
            @for other in row.chats.iter().filter(|other| **other != chat).take(8) {
                " · " a href={ "/chats/" (folder) "?chat=" (encoded(other)) } { (line(other, 40)) }
            }
        }
        (lines(&view, &folder, &chat, &transcript, before.is_some()))
        (cards.answers_alone(&view))
        @if before.is_none() {
            (doing(&view, active.as_ref()))
            @if is_here { (composer(&view, &chat)) }
            @else { p.none { "This chat is on another platform: write there. What stands here is what G2 has of it." } }
            @if !is_wired { p.none { "The group does not listen to this chat." } }
            div data-end {}
        }
    };
    let page = Page {
        chat: Some(chat.clone()),
        ..Page::new(
            Place::Chats,
            format!("g2 chat --chat {}", crate::domain::shown::screen::quoted(&chat)),
            body,
        )
        .titled(format!("{} in {}", line(&row.name, 40), line(&chat, 40)))
    };
    let page = if active.is_some() { page.every(3) } else { page };
    Ok(view.show(&page))
}

impl View {
    /// A group that listens to no chat yet.
    fn without_chat(self, group: &Folder, name: &str) -> Response<Body> {
        let chat = format!("local:{group}");
        let body = html! {
            p { "The group listens to no chat. Connect one of this machine to talk to it here." }
            (button(&self, "wirings.add", &[("group", group.as_str()), ("chat", &chat)], &format!("Connect {chat}")))
        };
        let page = Page::new(Place::Chats, "g2 wirings list", body).titled(line(name, 40));
        self.show(&page)
    }
}

fn lines(view: &View, group: &Folder, chat: &str, transcript: &Transcript, is_older: bool) -> Markup {
    let at_chat = format!("/chats/{group}?chat={}", encoded(chat));
    html! {
        p.pieces {
            @if let Some((message, outbox)) = transcript.older {
                a href={ (at_chat) "&before=" (message) "." (outbox) } rel="prev" { "Older" }
            }
            @if is_older { a href=(at_chat) { "Newest" } }
        }
        @if transcript.lines.is_empty() { p.none { "Nothing was said here yet." } }
        ol.lines {
            @for spoken in &transcript.lines { (said(view, spoken)) }
        }
    }
}

fn said(view: &View, spoken: &Utterance) -> Markup {
    let (is_ours, id) = match spoken.whence {
        Whence::Message(seq) => (false, format!("m{seq}")),
        Whence::Outbox(id, _) => (true, format!("o{id}")),
    };
    html! {
        li .ours[is_ours] id=(id) {
            p.by {
                strong { (spoken.name.as_deref().map_or_else(|| "G2".to_owned(), |name| line(name, 40))) }
                @if !spoken.thread.is_empty() { " " span.dim { "in " (line(&spoken.thread, 30)) } }
                " " (at(spoken.at, view.now, &view.zone))
                @match spoken.whence {
                    Whence::Message(seq) => { " " a href={ "/why/" (seq) } { "Why" } }
                    Whence::Outbox(_, DeliveryStatus::Sent) => {}
                    Whence::Outbox(id, status) => { " " a href={ "/outbox#o" (id) } { span.state data-is=(status) { (status) } } }
                }
            }
            @if spoken.text.is_empty() {} @else if spoken.is_markdown { div.text.marked { (marked(&spoken.text)) @if spoken.cut { "…" } } }
            @else { p.text { (shown(&spoken.text)) @if spoken.cut { "…" } } }
            @if !spoken.files.is_empty() { ul.files { @for (n, file) in spoken.files.iter().enumerate() { li { (beside(spoken.whence, n + 1, file)) } } } }
            @if let Some(error) = &spoken.error { p.dim { (shown(error)) } }
        }
    }
}

/// A file, to be saved where it is there.
fn beside(whence: Whence, n: usize, file: &Attachment) -> Markup {
    let place = match whence {
        Whence::Message(seq) => format!("heard/{seq}/{n}"),
        Whence::Outbox(id, _) => format!("said/{id}/{n}"),
    };
    let at = format!("/files/{place}");
    html! {
        @if files::may_be_small(file) { img.small src={ "/small/" (place) } alt="" loading="lazy"; }
        @match (&file.digest, &file.problem) {
            (Some(_), _) => { a href=(at) download { (line(&file.name, 80)) } " " span.dim { (file.kind) ", " (size(file.size)) } }
            (None, why) => { (line(&file.name, 80)) " " span.dim { (file.kind) ", " (line(why.as_deref().unwrap_or("missing"), 160)) } }
        }
        @if let Some(caption) = &file.caption { p.text { (shown(caption)) } }
        @if let Some(words) = file.read() { p.text.dim { (shown(&words)) } }
    }
}

fn doing(view: &View, run: Option<&ActiveRun>) -> Markup {
    html! {
        div #doing role="status" {
            @if let Some(run) = run {
                @let id = run.id.to_string();
                @let sight = view.web.desk.sights.all().into_iter().find(|sight| sight.run == run.id);
                @match sight.as_ref().map(|sight| (sight.in_hand_since.is_some(), sight.tool.as_deref())) {
                    Some((true, Some(tool))) => { "At work: " (line(&tool_as_shown(tool), 60)) }
                    Some((true, None)) => "At work…"
                    Some((false, _)) => span.none { "Awake, and idle" }
                    None => span.none { "Starting…" }
                }
                " " a.dim href={ "/runs/" (run.id) } { "run " (run.id) }
                " " (button(view, "runs.stop", &[("id", &id)], "Stop"))
            }
        }
    }
}

/// Files may come for 10 minutes; then the daemon answers in any case.
const PATIENT: &str = r#"{"timeout":"11m"}"#;

fn composer(view: &View, chat: &str) -> Markup {
    // The same form sent twice is one message.
    let key = view.web.world.id().unwrap_or_default();
    html! {
        form.composer method="post" action="/say" enctype="multipart/form-data" hx-post="/say" hx-target="#main" hx-swap="outerMorph" hx-config=(PATIENT) data-clear {
            (hidden(view))
            input type="hidden" name="chat" value=(chat);
            input type="hidden" name="key" value=(key);
            label { span.hidden { "Message" } textarea #message name="text" rows="2" placeholder="Message" data-enter {} }
            label.attach { span.hidden { "Files" } input type="file" name="file" multiple; }
            button.main { "Send" }
        }
    }
}

/// Takes a message in, as `g2 chat` would.
pub(in crate::web) async fn say(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    request: Request<Body>,
) -> Response<Body> {
    let came = match upload::receive(&web, &visitor, request).await {
        Ok(came) => came,
        Err(answer) => return answer,
    };
    let (done, fields) = (take_in(&web, &came).await, &came.fields);
    let outcome = match done {
        // The message stands in the chat; no more is to be said.
        Ok(None) => return act::back_quietly(fields),
        Ok(Some(says)) => Outcome { done: true, says, command: None },
        Err(error) => Outcome { done: false, says: error.to_string(), command: None },
    };
    act::back(&web, &visitor, fields, outcome)
}

async fn take_in(web: &Web, came: &Came) -> Result<Option<String>, OpError> {
    let fields = &came.fields;
    if let Some(refused) = &came.refused {
        return Err(refused.clone());
    }
    if web.desk.closing.is_cancelled() {
        return Err(OpError::refused("the daemon is stopping, and the message was not taken"));
    }
    let message = Incoming {
        chat: fields.get("chat").to_owned(),
        sender: ME.into(),
        // Browsers end lines with both.
        text: fields.get("text").replace("\r\n", "\n"),
        key: came.key.clone(),
        files: came.files.clone(),
        ..Incoming::default()
    };
    let mut session = Session::new(web.world.clone(), &web.desk.local, &web.desk.store);
    match session.handle(Ask::Send(Box::new(message))).await.pop() {
        Some(Told::Accepted { note, wired, .. }) => {
            Ok(note.or_else(|| (wired == 0).then(|| "no group listens to this chat".to_owned())))
        }
        Some(Told::Error { message, .. }) => Err(OpError::invalid(message)),
        Some(_) | None => Err(OpError::new(OpCode::Unknown, "nobody knows whether the message is stored")),
    }
}
