//! What stands around each page: the head, the way to the others, the command that does the same, and what came of a change.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::Body,
    extract::FromRequestParts,
    http::{HeaderMap, Response, StatusCode, Uri, request::Parts},
    response::{Html, IntoResponse},
};
use ipc_handlers::{Time, words};
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, html};

use super::{Visitor, Web, assets, live, said::Outcome};
use crate::{
    domain::shown::{errors::chain, feed::EventKind},
    ops::{OpCode, OpError},
    store::StoreError,
    system::panics::Panicked,
};

words! {
    /// The pages that the way at the side leads to.
    pub(super) enum Place: "page" {
        Now = "now",
        Chats = "chats",
        Groups = "groups",
        Conversations = "conversations",
        Runs = "runs",
        Tasks = "tasks",
        Mailbox = "mailbox",
        Outbox = "outbox",
        People = "people",
        Channels = "channels",
        Egress = "egress",
        Usage = "usage",
        Budgets = "budgets",
        Audit = "audit",
        Backups = "backups",
        Doctor = "doctor",
    }
}

impl Place {
    fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Chats => "Chats",
            Self::Groups => "Groups",
            Self::Conversations => "Conversations",
            Self::Runs => "Runs",
            Self::Tasks => "Tasks",
            Self::Mailbox => "Mailbox",
            Self::Outbox => "Outbox",
            Self::People => "People",
            Self::Channels => "Channels",
            Self::Egress => "Egress",
            Self::Usage => "Usage",
            Self::Budgets => "Budgets",
            Self::Audit => "Audit",
            Self::Backups => "Backups",
            Self::Doctor => "Doctor",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Now => "/",
            Self::Chats => "/chats",
            Self::Groups => "/groups",
            Self::Conversations => "/conversations",
            Self::Runs => "/runs",
            Self::Tasks => "/tasks",
            Self::Mailbox => "/mailbox",
            Self::Outbox => "/outbox",
            Self::People => "/people",
            Self::Channels => "/channels",
            Self::Egress => "/egress",
            Self::Usage => "/usage",
            Self::Budgets => "/budgets",
            Self::Audit => "/audit",
            Self::Backups => "/backups",
            Self::Doctor => "/doctor",
        }
    }

    /// The changes after which it is made again.
    pub(super) fn follows(self) -> &'static [EventKind] {
        use EventKind::*;
        match self {
            Self::Now => &[
                Message, Inbox, Judged, Handed, Finished, Run, Say, Said, Unsaid, Command, Task, Group,
                Wiring, Question, Hold,
            ],
            Self::Chats => &[
                Message, Inbox, Judged, Handed, Finished, Run, Say, Said, Unsaid, Group, Wiring, Chat,
                Question,
            ],
            Self::Groups => &[Group, Wiring, Person],
            Self::Conversations => &[Session, Group],
            Self::Runs => &[Run, Handed, Finished],
            Self::Tasks => &[Task, Run, Group],
            Self::Mailbox => &[Command, Hold, Group],
            Self::Outbox => &[Say, Said, Unsaid],
            Self::People => &[Person, Question, Chat, Group, Judged],
            Self::Channels => &[Say, Said, Unsaid],
            Self::Egress => &[Run, Group],
            Self::Usage => &[Run],
            Self::Budgets => &[Run, Group],
            Self::Audit => &[Run, Task, Group, Wiring, Chat, Person, Question, Hold],
            Self::Backups => &[],
            Self::Doctor => &[Run, Said, Unsaid, Command, Finished, Group, Hold],
        }
    }
}

/// A request for a page: by whom, when, and where it comes back to.
pub(super) struct View {
    pub(super) web: Arc<Web>,
    pub(super) visitor: Visitor,
    pub(super) now: Time,
    pub(super) zone: TimeZone,
    /// Its path and query.
    pub(super) here: String,
    /// What of it is wanted.
    wanted: Wanted,
    outcome: Option<Outcome>,
    /// The number of a change that is still being made.
    under_way: Option<u64>,
    /// Read before anything else, so that no later change is missed.
    version: String,
}

/// What of a page a browser wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// The answer to a form: the page, and the outcome of the change.
    AfterForm,
    /// The page as it is now; what came of an earlier change stays.
    Again,
}

impl Wanted {
    fn of(headers: &HeaderMap) -> Self {
        match (headers.contains_key("hx-request"), headers.get("hx-source")) {
            (false, _) => Self::Whole,
            (true, Some(source)) if source == "main#main" => Self::Again,
            (true, _) => Self::AfterForm,
        }
    }
}

/// A page that is ready.
pub(super) struct Page {
    pub(super) place: Place,
    pub(super) title: String,
    /// The command that shows the same.
    pub(super) command: String,
    /// It is also made again every few seconds: it shows something that is no row of the store.
    pub(super) every: Option<u32>,
    /// It follows this chat alone.
    pub(super) chat: Option<String>,
    pub(super) follows: Follows,
    pub(super) body: Markup,
}

/// Whether a page is made again when something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Changes,
    /// It stays as it was opened.
    Nothing,
}

impl Page {
    pub(super) fn new(place: Place, command: impl Into<String>, body: Markup) -> Self {
        let title = place.title().to_owned();
        Self {
            place,
            title,
            command: command.into(),
            every: None,
            chat: None,
            follows: Follows::Changes,
            body,
        }
    }

    pub(super) fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// Has it stay as it was opened.
    pub(super) fn still(self) -> Self {
        Self { follows: Follows::Nothing, ..self }
    }

    /// Has it made again after this many seconds, again and again.
    pub(super) fn every(self, seconds: u32) -> Self {
        Self { every: Some(seconds), ..self }
    }
}

impl FromRequestParts<Arc<Web>> for View {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Failed> {
        let visitor = parts.extensions.get::<Visitor>().cloned().ok_or_else(Failed::nobody)?;
        let newest = web.desk.store.newest_event().await?;
        let (here, said) = without_outcome(&parts.uri);
        Ok(Self {
            under_way: said.filter(|n| web.said.is_under_way(visitor.session.id, *n)),
            outcome: said.and_then(|n| web.said.get(visitor.session.id, n)),
            version: live::version(web, newest),
            now: web.world.now(),
            zone: web.config.now().zones.of(None).zone,
            wanted: Wanted::of(&parts.headers),
            web: Arc::clone(web),
            visitor,
            here,
        })
    }
}

/// Returns the path and query without the number of an outcome, and that number.
fn without_outcome(uri: &Uri) -> (String, Option<u64>) {
    let mut said = None;
    let mut rest = Vec::new();
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.strip_prefix("said=") {
            Some(n) => said = n.parse().ok(),
            None => rest.push(pair),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    (format!("{}{query}", uri.path()), said)
}

/// Returns a path and query of ours that shows an outcome.
pub(super) fn with_outcome(path: &str, n: u64) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}said={n}")
}

impl View {
    /// Answers with a page, or with what of it changes.
    pub(super) fn show(self, page: &Page) -> Response<Body> {
        let main = self.main(page);
        let text = match self.wanted {
            Wanted::Whole => self.whole(page, &main),
            Wanted::AfterForm => html! { (main) (self.outcome(true)) },
            Wanted::Again => main,
        };
        Html(text.into_string()).into_response()
    }

    fn main(&self, page: &Page) -> Markup {
        let every = page.every.map(|seconds| format!(", every {seconds}s")).unwrap_or_default();
        let (get, trigger) = match page.follows {
            Follows::Changes => (Some(&self.here), Some(format!("changed from:#live{every}"))),
            Follows::Nothing => (None, None),
        };
        html! {
            main #main tabindex="-1" hx-get=[get] hx-trigger=[trigger] hx-swap="outerMorph" {
                header.top {
                    h1 { (page.title) }
                    p.command title="The command that shows the same" { code { (page.command) } }
                }
                (page.body)
            }
        }
    }

    fn outcome(&self, swapped: bool) -> Markup {
        html! {
            div #said role="status" hx-swap-oob=[swapped.then_some("outerMorph")] {
                @if let Some(Outcome { done, says, command }) = &self.outcome {
                    div.outcome .failed[!done] data-failed[!done] {
                        p { (says) }
                        @if let Some(command) = command { p.command { code { (command) } } }
                        @if let Some(n) = self.under_way { p { a href=(with_outcome(&self.here, n)) { "What came of it" } } }
                    }
                }
            }
        }
    }

    fn whole(&self, page: &Page, main: &Markup) -> Markup {
        let chat = page
            .chat
            .as_deref()
            .map(|chat| format!("&chat={}", super::parts::encoded(chat)))
            .unwrap_or_default();
        let live = format!("/live?of={}&since={}{chat}", page.place, self.version);
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(&page.title, None))
                body {
                    a.skip href="#main" { "To the page" }
                    header.side {
                        p.brand { a href="/" { "G2" } span #light title="Whether this page follows what changes" {} }
                        nav aria-label="Pages" {
                            ul {
                                @for (_, place) in Place::CHOICES {
                                    li {
                                        a href=(place.path()) aria-current=[(*place == page.place).then_some("page")] { (place.title()) }
                                    }
                                }
                            }
                        }
                        div.foot {
                            a href="/devices" { "Devices" }
                            form method="post" action="/leave" {
                                input type="hidden" name="token" value=(self.visitor.forms);
                                button.link { "Sign out" }
                            }
                        }
                    }
                    div.page {
                        (self.outcome(false))
                        (main)
                    }
                    div #live hx-sse:connect=(live) hx-trigger="load" hidden {}
                }
            }
        }
    }
}

fn head(title: &str, next: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            @if let Some(next) = next { meta http-equiv="refresh" content={ "0; url=" (next) }; }
            title { (title) " · G2" }
            link rel="icon" href=(assets::icon()) type="image/svg+xml";
            link rel="stylesheet" href=(assets::style());
            @if next.is_none() {
                meta name="htmx-config" content=(CONFIG);
                @for script in assets::scripts() { script src=(script) {} }
            }
        }
    }
}

/// How htmx works here: it makes no styles and no history, leaves open what is open, and comes back soon.
const CONFIG: &str = r#"{"includeIndicatorCSS":false,"history":false,"noSwap":[204,304,"4xx","5xx"],"morphIgnore":["data-htmx-powered","open"],"sse":{"reconnectMaxDelay":4000}}"#;

/// Returns a page that stands by itself, for people who are not in yet; it leads on to `next`.
pub(super) fn alone(title: &str, next: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, next))
            body.alone { main #main { (body) } }
        }
    }
}

/// Why a page can't be shown.
#[derive(Debug)]
pub(super) struct Failed {
    status: StatusCode,
    error: OpError,
}

impl Failed {
    pub(super) fn not_found(what: impl Into<String>) -> Self {
        OpError::not_found(what).into()
    }

    fn nobody() -> Self {
        OpError::new(OpCode::NotAuthorized, "nobody is signed in").into()
    }
}

impl From<OpError> for Failed {
    fn from(error: OpError) -> Self {
        let status = match error.code {
            OpCode::NotFound => StatusCode::NOT_FOUND,
            OpCode::Invalid => StatusCode::BAD_REQUEST,
            OpCode::NotAuthorized => StatusCode::FORBIDDEN,
            OpCode::Refused
            | OpCode::NoRoom
            | OpCode::Failed
            | OpCode::Unknown
            | OpCode::NotRunning
            | OpCode::NotAnswering => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, error }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        OpError::from(error).into()
    }
}

impl From<crate::ipc::WorldFault> for Failed {
    fn from(error: crate::ipc::WorldFault) -> Self {
        OpError::from(error).into()
    }
}

impl From<Panicked> for Failed {
    fn from(error: Panicked) -> Self {
        OpError::new(OpCode::Failed, chain(&error)).into()
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response<Body> {
        let title: Cow<'_, str> = match self.status {
            StatusCode::NOT_FOUND => "Not found".into(),
            _ => "This can't be shown".into(),
        };
        let body = html! {
            h1 { (title) }
            p { (self.error.to_string()) }
            p { a href="/" { "To the page" } }
        };
        (self.status, Html(alone(&title, None, &body).into_string())).into_response()
    }
}
