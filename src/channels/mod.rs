//! Platform adapters: they carry messages in and out and decide nothing.
//!
//! To add one: a file here, an entry in [`Channels`], and the conformance suite run on it.

use futures_util::future::BoxFuture;

use crate::domain::rows::Delivery;

pub mod local;

/// Why something could not be said.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Trying again may help.
    #[error("{0}")]
    Transient(String),
    /// It never will.
    #[error("{0}")]
    Permanent(String),
}

/// A platform.
pub trait Channel: Send + Sync {
    /// The name that JIDs of this platform resolve to (`local`).
    fn name(&self) -> &'static str;

    /// Whether the platform recognises our outbox id, so that sending again is harmless.
    fn is_idempotent(&self) -> bool;

    /// Whether it can show the buttons of a [`Delivery`]. When one is pressed, the channel hands `press` back with who did
    /// (`Store::click`) and shows the sentence that it is given to them alone; it changes the card only after that.
    fn has_buttons(&self) -> bool {
        false
    }

    /// Says something. Returns once the platform has it.
    fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), ChannelError>>;

    /// Shows in a chat (and thread; empty: none) that an agent works for it, or shows it no more. Asked for again every
    /// 4 s while the work lasts, as platforms let it expire. Best effort: it is dropped when it takes longer than that,
    /// and nothing waits for it. A platform that has no such thing does nothing.
    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        let _ = (chat, thread, on);
        Box::pin(std::future::ready(()))
    }
}

/// The names of all channels that this program has.
pub const NAMES: [&str; 1] = ["local"];

/// Every channel of this daemon.
pub struct Channels(Vec<Box<dyn Channel>>);

impl Channels {
    #[must_use]
    pub fn new(all: Vec<Box<dyn Channel>>) -> Self {
        Self(all)
    }

    /// Returns a channel by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&dyn Channel> {
        self.0.iter().find(|channel| channel.name() == name).map(AsRef::as_ref)
    }

    /// Returns the names of all.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|channel| channel.name().to_owned()).collect()
    }

    /// Returns the names of those that recognise our ids.
    #[must_use]
    pub fn idempotent(&self) -> Vec<String> {
        self.0
            .iter()
            .filter(|channel| channel.is_idempotent())
            .map(|channel| channel.name().to_owned())
            .collect()
    }
}
