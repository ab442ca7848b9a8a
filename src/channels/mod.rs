//! Platform adapters: they carry messages in and out and decide nothing. Incoming messages go to [`Intake`]; outgoing
//! texts are given to [`Channel::send`], part by part.
//!
//! To add one: a file here, an entry in [`Channels`], and the conformance suite (`tests/it/channels/`) run on it. An account of a
//! platform needs none of it: its adapter is a program of its own ([`remote`]).

use std::{
    future::ready,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use channel_protocol::{Request, Response};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use ipc_handlers::Time;

use crate::{
    domain::platforms::{
        addresses::{Platform, user_id},
        channels::{Change, Found, Outcome, Part, Traits, Unsent},
        chats::{Listing, NotListed},
    },
    system::panics::{Panicked, caught},
};

mod intake;
pub mod local;
pub mod remote;
pub mod trial;

pub use intake::Intake;

/// A platform.
pub trait Channel: Send + Sync {
    /// Its name, and what its addresses begin with.
    fn platform(&self) -> &Platform;

    /// What it can do.
    fn traits(&self) -> Traits;

    /// Connects, stays connected and hands over what comes in, until `stop`; says by [`Intake::connection`] how it stands. A
    /// platform is told that something came in only after `intake` has it. Returns soon after `stop`. It may return before, and
    /// is run again as it says. It may be dropped, and is run again then.
    fn run(&self, intake: Intake, stop: CancellationToken) -> BoxFuture<'_, Ran> {
        drop(intake);
        Box::pin(async move {
            stop.cancelled().await;
            Ran::Stopped
        })
    }

    /// A person wants it to be run anew: what keeps it from that is forgotten. It does not run now.
    fn anew(&self) {}

    /// It has left, and is not run again: nobody waits for its turn any more.
    fn has_left(&self) {}

    /// Whether its listeners read what was said from the store: a text is said once the store says so, and nothing is sent.
    fn reads_the_store(&self) -> bool {
        false
    }

    /// Returns once something may be sent to a chat: the platform is connected, and its pace allows it. Nothing is sent before.
    /// `for_people`: a person waits for it. It may be dropped.
    fn turn<'a>(&'a self, chat: &'a str, for_people: bool) -> BoxFuture<'a, ()> {
        let _ = (chat, for_people);
        Box::pin(ready(()))
    }

    /// Sends a part. Returns what the platform calls it, once the platform has it. It may be dropped in the middle, after
    /// 60 s or as the daemon ends; then nobody knows whether the part has arrived.
    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome>;

    /// Asks whether the platform has a part that was first sent at `since` and may have arrived.
    fn look_for<'a>(&'a self, part: Part<'a>, since: Time) -> BoxFuture<'a, Found> {
        let _ = (part, since);
        Box::pin(ready(Found::CannotTell("this platform can't be asked".into())))
    }

    /// Changes a message that the platform has; only where its traits say that it can.
    fn amend<'a>(&'a self, chat: &'a str, platform_id: &'a str, change: Change) -> BoxFuture<'a, Outcome> {
        let _ = (chat, platform_id, change);
        Box::pin(ready(Err(Unsent::refused("this platform changes nothing that was sent"))))
    }

    /// Asks the platform which chats there are. It may be dropped.
    fn chats(&self) -> BoxFuture<'_, Result<Listing, NotListed>> {
        Box::pin(ready(Err(NotListed::Never)))
    }

    /// Opens the chat in which a user is alone with the account, or finds it. It may be dropped; asked again, it is the same chat.
    fn direct<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<String, NotOpened>> {
        let _ = user;
        Box::pin(ready(Err(NotOpened::Never)))
    }

    /// Fetches a file of a message in a chat, `what` in the words in which the channel told of it, and of its bytes at most those allowed. It
    /// may be dropped. What it returns is taken away soon.
    fn fetch<'a>(
        &'a self,
        chat: &'a str,
        what: &'a str,
        most: u64,
    ) -> BoxFuture<'a, Result<Fetched, NotFetched>> {
        let _ = (chat, what, most);
        Box::pin(ready(Err(NotFetched::Failed("this platform has no files".into()))))
    }

    /// Answers a request that reached the page's listener for the account. It may be dropped.
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Response, Unanswered>> {
        drop(request);
        Box::pin(ready(Err(Unanswered::Never)))
    }

    /// Shows in a chat (and thread; empty: none) that an agent works for it, or shows it no more. Asked for again every
    /// 4 s while the work lasts, as platforms let it expire. Best effort: it is dropped when it takes longer than that,
    /// and nothing waits for it. A platform that has no such thing does nothing.
    fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
        let _ = (chat, thread, on);
        Box::pin(ready(()))
    }

    /// Whether an address is one of its chats.
    fn owns(&self, jid: &str) -> bool {
        self.platform().owns(jid)
    }

    /// Returns the id of a person, as users are named, whom the platform calls `native`.
    fn person(&self, native: &str) -> String {
        user_id(self.platform().prefix(), native)
    }
}

/// A file that a channel has fetched: a folder of the channel's own, and its place below that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub folder: PathBuf,
    pub place: String,
}

/// Why there is no file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFetched {
    #[error("there is no connection to the platform")]
    Offline,
    #[error("{0}")]
    Failed(String),
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error("the account takes no requests")]
    Never,
    #[error("its adapter is away; send it again")]
    Away,
    #[error("it is too long")]
    TooLong,
}

/// Why there is no chat with a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error("their platform opens no chats")]
    Never,
    #[error("there is no connection to their platform")]
    Offline,
    #[error("{0}")]
    Failed(String),
}

/// The names of all channels that this program has.
pub const NAMES: [&str; 1] = ["local"];

/// How a run of a channel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It was told to stop.
    Stopped,
    /// It is to be run again at once.
    Again,
    /// It is to be run again after this time.
    After(Duration),
}

/// Every channel of this daemon. Accounts come and go while it runs.
#[derive(Default)]
pub struct Channels {
    all: RwLock<Vec<Arc<Kept>>>,
    came: Notify,
}

/// A channel, and how it is ended.
pub struct Kept {
    channel: Arc<dyn Channel>,
    stop: CancellationToken,
    /// A person wants it to be run anew.
    wanted: Notify,
    /// Held while it runs.
    runs: Mutex<()>,
}

impl Kept {
    fn name(&self) -> &str {
        &self.channel.platform().channel
    }

    /// Whether it is let go, or the daemon stops.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Runs it once: until it is to be run again, or is stopped.
    ///
    /// # Errors
    /// [`Panicked`]; it may be run again.
    pub async fn run(&self, intake: &Intake) -> Result<Ran, Panicked> {
        let _runs = self.runs.lock().await;
        if self.stop.is_cancelled() {
            return Ok(Ran::Stopped);
        }
        if self.wanted.notified().now_or_never().is_some() {
            self.channel.anew();
        }
        let ran = tokio::select! {
            biased;
            ran = caught(async { self.channel.run(intake.clone(), self.stop.clone()).await }) => ran,
            () = self.wanted.notified() => {
                self.channel.anew();
                Ok(Ran::Again)
            }
        };
        if self.stop.is_cancelled() {
            self.channel.has_left();
            return ran.map(|_| Ran::Stopped);
        }
        ran
    }
}

impl Channels {
    /// Returns these channels together.
    #[must_use]
    pub fn new(all: Vec<Box<dyn Channel>>) -> Self {
        let this = Self::default();
        all.into_iter().for_each(|channel| this.add(channel));
        this
    }

    /// Takes one more up; the loop `channels` runs it.
    pub fn add(&self, channel: Box<dyn Channel>) {
        let (stop, wanted) = (CancellationToken::new(), Notify::new());
        let kept = Kept { channel: channel.into(), stop, wanted, runs: Mutex::new(()) };
        self.all.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(kept));
        self.came.notify_one();
    }

    /// Waits until one more is taken up. Safe to cancel.
    pub async fn came(&self) {
        self.came.notified().await;
    }

    /// Lets one go. Returns once it has left, if it runs.
    pub async fn remove(&self, name: &str) {
        let gone: Vec<Arc<Kept>> = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.extract_if(.., |kept| kept.name() == name).collect()
        };
        for kept in gone {
            kept.stop.cancel();
            let _left = kept.runs.lock().await;
            kept.channel.has_left();
        }
    }

    /// Has one run anew at once, whatever it does now.
    pub fn restart(&self, name: &str) {
        if let Some(kept) = self.find(name) {
            kept.wanted.notify_one();
        }
    }

    /// Tells all to stop.
    pub fn stop(&self) {
        self.kept().iter().for_each(|kept| kept.stop.cancel());
    }

    /// All have left, and none is run again.
    pub fn have_left(&self) {
        self.kept().iter().for_each(|kept| kept.channel.has_left());
    }

    fn kept(&self) -> Vec<Arc<Kept>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the one of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Kept>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|kept| kept.name() == name).map(Arc::clone)
    }

    /// Returns the channel of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Arc<dyn Channel>> {
        self.find(name).map(|kept| Arc::clone(&kept.channel))
    }

    /// Returns the names of the accounts on platforms.
    #[must_use]
    pub fn accounts(&self) -> Vec<String> {
        let far = |kept: &Arc<Kept>| !kept.channel.reads_the_store();
        self.kept().iter().filter(|kept| far(kept)).map(|kept| kept.name().to_owned()).collect()
    }

    /// Returns the channel that a chat is one of.
    #[must_use]
    pub fn of(&self, jid: &str) -> Option<Arc<dyn Channel>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|kept| kept.channel.owns(jid)).map(|kept| Arc::clone(&kept.channel))
    }

    /// Returns the names of all.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.kept().iter().map(|kept| kept.name().to_owned()).collect()
    }

    /// Returns the names of those that always recognise our ids.
    #[must_use]
    pub fn that_know_our_ids(&self) -> Vec<String> {
        let known = self.kept().into_iter().filter(|kept| kept.channel.traits().knows_our_ids());
        known.map(|kept| kept.name().to_owned()).collect()
    }
}
