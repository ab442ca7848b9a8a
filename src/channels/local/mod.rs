//! The channel of this machine's own terminals: programs that speak to the daemon's socket. Their messages come in by a
//! [`Session`]; they read texts for them from the feed once those are committed as sent. A chat without a listener is no
//! failure: the outbox keeps the text, and `g2 outbox list` shows it.

use std::{future::ready, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use super::Channel;
use crate::{
    domain::platforms::{
        addresses::{self, Platform},
        channels::{Outcome, Part, SentTwice, Traits},
        parcels::Takes,
        typing::{ChatThread, Signal},
    },
    system::media::Media,
};

mod incoming;
mod session;

pub use incoming::{Incoming, LONGEST_TEXT, MOST_FILES};
pub use session::{Ask, Fault, Session, Told};

/// How many signals a slow listener may lag behind; what it misses is said again.
const BACKLOG: usize = 1024;

/// The `local` channel. Clones speak to the same listeners.
#[derive(Clone)]
pub struct Local {
    typing: broadcast::Sender<Signal>,
    files: Option<Files>,
}

/// How files come in.
#[derive(Clone)]
struct Files {
    media: Arc<Media>,
    /// The folder in which each message has one of its own.
    spool: PathBuf,
}

impl Default for Local {
    /// One that takes no files.
    fn default() -> Self {
        Self { typing: broadcast::Sender::new(BACKLOG), files: None }
    }
}

impl Local {
    /// One that takes files: those of a message lie in the folder of its key, below `spool`.
    #[must_use]
    pub fn taking_files(media: Arc<Media>, spool: PathBuf) -> Self {
        Self { files: Some(Files { media, spool }), ..Self::default() }
    }

    /// Hears from now on where an agent is at work. What a slow listener misses is said again while it is so.
    #[must_use]
    pub fn watch_typing(&self) -> broadcast::Receiver<Signal> {
        self.typing.subscribe()
    }
}

impl Channel for Local {
    fn platform(&self) -> &Platform {
        static LOCAL: Platform = addresses::LOCAL;
        &LOCAL
    }

    fn traits(&self) -> Traits {
        Traits {
            // Terminals know rows by their outbox id.
            sent_twice: SentTwice::Key { window_ms: None, readback: false },
            buttons: false,
            typing: true,
            edits: false,
            growth_ms: 0,
            reacts: false,
            threads: true,
            text: None,
            files: Takes::default(),
        }
    }

    /// Terminals follow the feed.
    fn reads_the_store(&self) -> bool {
        true
    }

    /// That it was said is all that there is to it.
    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(Ok(vec![part.of.id.to_string()])))
    }

    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        let place = ChatThread { chat_jid: chat.to_owned(), thread: thread.to_owned() };
        // Nobody may watch.
        let _ = self.typing.send(Signal { place, on });
        Box::pin(ready(()))
    }
}
