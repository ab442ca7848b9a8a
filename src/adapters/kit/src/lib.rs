//! What every adapter needs: what it is to the host (`Adapter`), the host (`host`), the lines between both (`serve`), how long it
//! waits after a failure (`rest`), whether a platform means it that it does not know us (`doubt`), what nobody can read (`unread`),
//! and the words in which messages are told (`links`, `said`).

mod doubt;
mod host;
mod links;
mod rest;
mod said;
mod serve;
mod unread;

use std::sync::Arc;

use channel_protocol::{Amend, Chat, Done, Fetch, Hint, LookFor, NotSent, Request, Scope, Send, Went};
use futures_util::future::BoxFuture;

pub use self::{
    doubt::Doubt,
    host::{Gone, Host, Stored},
    links::{Links, cut},
    rest::Rest,
    said::{LONGEST_ANSWERED, LONGEST_TEXT, Poll, below_one_another, command_behind, forwarded, unknown},
    serve::{run, serve},
    unread::{TRIES, Unread, is_cut},
};

/// What became of something that was sent or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The platform has it, under these ids; none where it was changed.
    Sent(Vec<String>),
    /// The platform certainly has nothing of it.
    NotSent(NotSent),
    /// Nobody knows.
    Unknown(String),
}

impl Outcome {
    pub(crate) fn done(self, r: u64) -> Done {
        let done = Done { r, ..Done::default() };
        match self {
            Self::Sent(ids) => Done { ids: Some(ids), ..done },
            Self::NotSent(not) => Done { not: Some(not), ..done },
            Self::Unknown(why) => Done { unknown: Some(why), ..done },
        }
    }

    /// The platform takes no more for a while: for as long as it asks for, if it says so.
    #[must_use]
    pub fn busy(asked_ms: Option<u64>, scope: Scope) -> Self {
        Self::NotSent(NotSent::Busy { after_ms: rest::asked(asked_ms.unwrap_or(rest::UNSAID_MS)), scope })
    }

    /// The place is no more, or we are not in it.
    #[must_use]
    pub fn gone(what: Went, text: impl Into<String>, hint: &str) -> Self {
        Self::NotSent(NotSent::Gone { text: text.into(), hint: hint.into(), what })
    }

    /// What the platform never will take.
    #[must_use]
    pub fn refused(code: &str, text: impl Into<String>, hint: &str) -> Self {
        Self::NotSent(NotSent::Refused { code: code.into(), text: text.into(), hint: hint.into() })
    }
}

/// Whether the platform has what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    Has(Vec<String>),
    HasNot,
    CannotTell(String),
}

/// An account on a platform. Orders come at the same time; of one chat at most one `send` is open.
pub trait Adapter: std::marker::Send + Sync + 'static {
    /// Stays connected and tells what comes in, from after `hello` until the host is gone. An end before that is an error.
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended>;

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome>;

    fn look_for(&self, what: LookFor) -> BoxFuture<'_, Look> {
        let _ = what;
        Box::pin(async { Look::CannotTell("this platform can't be asked".into()) })
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        let _ = amend;
        Box::pin(async { Outcome::refused("unsupported", "this platform changes nothing that was sent", "") })
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        let _ = hint;
        Box::pin(async {})
    }

    /// What the person is told who pressed the button of an event.
    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        let _ = (event_key, text);
        Box::pin(async {})
    }

    /// Returns the address of the chat with a person.
    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        let _ = user;
        Box::pin(async { Err("this platform opens no chats".into()) })
    }

    /// Returns the chats that the account is in, or why the platform did not tell.
    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Answers a request that came to the page's listener: HTTP's number, and a line for people.
    fn request(&self, request: Request) -> BoxFuture<'_, (u16, String)> {
        let _ = request;
        Box::pin(async { (404, "this account takes no requests".into()) })
    }

    /// Fetches a file into the spool. Returns its place below the spool, or why there is none.
    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        let _ = what;
        Box::pin(async { Err("this platform has no files".into()) })
    }
}

/// Why an adapter ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host wants it, or is gone.
    Left,
    /// Something that a new start may mend.
    Failed(String),
}
