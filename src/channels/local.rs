//! The channel of this machine's own terminals. Those that listen on the daemon's socket read what is said from the feed once
//! it is committed as said; nobody listening is no failure: the outbox keeps it, and `g2 outbox list` shows it.

use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use super::{Channel, ChannelError};
use crate::domain::{
    rows::Delivery,
    typing::{Place, Signal},
};

/// How many signals a slow listener may lag behind; what it misses is said again.
const BACKLOG: usize = 1024;

/// The `local` channel. Clones speak to the same listeners.
#[derive(Clone)]
pub struct Local {
    typing: broadcast::Sender<Signal>,
}

impl Default for Local {
    fn default() -> Self {
        Self { typing: broadcast::Sender::new(BACKLOG) }
    }
}

impl Local {
    /// Hears from now on where an agent is at work. What a slow listener misses is said again while it is so.
    #[must_use]
    pub fn watch_typing(&self) -> broadcast::Receiver<Signal> {
        self.typing.subscribe()
    }
}

impl Channel for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    /// Listeners know rows by their outbox id.
    fn is_idempotent(&self) -> bool {
        true
    }

    fn send<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        let place = Place { chat_jid: chat.to_owned(), thread: thread.to_owned() };
        let _ = self.typing.send(Signal { place, on });
        Box::pin(std::future::ready(()))
    }
}
