//! Drives the loops of the daemon. A [`Loop`] says what it follows, how it looks, and what it does for one key; the engine does
//! everything else, once for all of them: it rests, tries again, catches panics, bounds, counts and tells. See its `README.md`.

use std::{
    fmt::Display,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    domain::{
        machine::loops::LoopName,
        shown::{
            errors::chain,
            feed::{EventKind, FeedEvent},
        },
    },
    store::{Follower, News, Store, StoreError},
    system::panics::Panicked,
};

mod drive;
mod keys;
mod registry;
#[cfg(test)]
mod tests;

pub use drive::run;
pub use registry::{Loops, NoSuchLoop};

/// Whose fault something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The world's: the disk is full, say. It passes.
    World,
    /// Our own.
    Ours,
}

/// Why a look or work failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Error {
    pub blame: Blame,
    pub why: String,
}

impl Error {
    /// A failure of the world.
    #[must_use]
    pub fn world(error: &dyn std::error::Error) -> Self {
        Self { blame: Blame::World, why: chain(error) }
    }

    /// A fault of our own.
    #[must_use]
    pub fn ours(error: &dyn std::error::Error) -> Self {
        Self { blame: Blame::Ours, why: chain(error) }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if error.is_worlds_fault() { Self::world(&error) } else { Self::ours(&error) }
    }
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        Self::ours(&panicked)
    }
}

/// A failure of the world, unless it tells of a panic, or of a fault of ours in the store.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let is_ours = error.get_ref().is_some_and(|within| {
            let of_store = within.downcast_ref::<StoreError>();
            within.is::<Panicked>() || of_store.is_some_and(|error| !error.is_worlds_fault())
        });
        if is_ours { Self::ours(&error) } else { Self::world(&error) }
    }
}

/// Why a loop looks. Reasons gather until a look succeeds.
#[derive(Clone, Debug)]
pub struct Why<K> {
    /// It begins, or events were missed: anything may have changed.
    pub all: bool,
    /// Events of the kinds that it follows, in order.
    pub events: Vec<Arc<FeedEvent>>,
    /// The time has come that it named.
    pub time: bool,
    /// [`Loop::asked`] came back.
    pub asked: bool,
    /// Its rest is over after a part could not be read ([`Read::Failed`]).
    pub again: bool,
    /// Keys for which all is done since, and those whose work failed and is tried again, where [`Loop::LOOKS_AT_ENDS`].
    pub ended: Vec<K>,
    pub failed: Vec<K>,
}

impl<K> Default for Why<K> {
    fn default() -> Self {
        let (all, time, asked, again) = (false, false, false, false);
        let (events, ended, failed) = (Vec::new(), Vec::new(), Vec::new());
        Self { all, events, time, asked, again, ended, failed }
    }
}

impl<K> Why<K> {
    /// Whether something of these kinds changed, or may have.
    #[must_use]
    pub fn any(&self, kinds: &[EventKind]) -> bool {
        self.all || self.events.iter().any(|event| kinds.contains(&event.kind))
    }
}

/// How much a look could read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Read {
    /// Everything that it tried, and nothing is left of earlier looks.
    #[default]
    All,
    /// Nothing of what an earlier look could not read was tried.
    NotTried,
    /// A part could not be read: the loop keeps what it owes, and is told when to try again by [`Why::again`].
    Failed(Error),
}

/// What comes of a look.
#[derive(Debug)]
pub struct Plan<K, J> {
    /// There is something to do for these keys, as a list shows that may be read again and again.
    pub begin: Vec<(K, J)>,
    /// Something new is to be done for these keys. Their rests end, but for those after a failure.
    pub wake: Vec<(K, J)>,
    /// There is nothing more to do for these keys. Work under way goes on.
    pub forget: Vec<K>,
    /// It is looked again after this time at the latest; `None`: if something happens.
    pub again: Option<Duration>,
    pub read: Read,
}

impl<K, J> Default for Plan<K, J> {
    fn default() -> Self {
        let (begin, wake, forget) = (Vec::new(), Vec::new(), Vec::new());
        Self { begin, wake, forget, again: None, read: Read::All }
    }
}

impl<K, J> Plan<K, J> {
    /// There is nothing to do for any key; it is looked again after this time.
    #[must_use]
    pub fn again(after: Duration) -> Self {
        Self { again: Some(after), ..Self::default() }
    }
}

/// How it goes on with a key after work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// There is nothing more to do.
    Done,
    /// There is more to do: it waits for its next turn.
    Again,
    /// Not before this time has passed, through nobody's fault. A row of failures goes on.
    After(Duration),
}

/// What a key is: what work is serial in.
pub trait Key: Ord + Clone + Display + Send + Sync + 'static {}
impl<K: Ord + Clone + Display + Send + Sync + 'static> Key for K {}

/// The only key of a loop that does one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sole;

impl Display for Sole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("all")
    }
}

/// A loop of the daemon.
pub trait Loop: Send + Sized + 'static {
    const NAME: LoopName;
    /// The events that have it look.
    const FOLLOWS: &'static [EventKind] = &[];
    /// How many keys are at work at a time.
    const AT_ONCE: usize = 256;
    /// A look that takes longer is a problem, and the watchdog is not fed.
    const LOOKS_WITHIN: Duration = Duration::from_secs(60);
    /// The time between two looks at least: what happens meanwhile is gathered.
    const NOT_SOONER: Duration = Duration::ZERO;
    /// It looks when all is done for a key, and when work on one failed, too.
    const LOOKS_AT_ENDS: bool = false;
    /// The longest rest after work on a key failed.
    const RESTS_AT_MOST: Duration = Duration::from_secs(60);
    /// The longest rest after a look failed. It is short where people wait for what the loop does.
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(30);
    /// Work that panics again and again is set aside. Otherwise it goes on to be tried.
    const SETS_ASIDE: bool = true;
    /// How long a stop waits for work under way. It is told to stop by its token.
    const FINISHES_WITHIN: Duration = Duration::from_secs(5);
    /// A stop waits for a look under way.
    const FINISHES_LOOKS: bool = false;
    /// It looks again after a look panicked. Otherwise the daemon ends, as what the loop knows is not in the store.
    const OUTLIVES_PANICS: bool = true;

    type Key: Key;
    /// The work for a key. It may be done again after a failure.
    type Job: Clone + Send + 'static;
    /// What work on keys is done with.
    type Hands: Send + Sync + 'static;

    /// Returns what work on keys is done with.
    fn hands(&self) -> Arc<Self::Hands>;

    /// Waits for what it is asked for beside the feed, and keeps it until a look. Safe to cancel.
    fn asked(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Reads and decides. If it fails, it is asked again with the same reason and more.
    fn look(
        &mut self,
        why: &Why<Self::Key>,
    ) -> impl Future<Output = Result<Plan<Self::Key, Self::Job>, Error>> + Send;

    /// Works for one key: once at a time for each. `stop`: the daemon stops. A loop that does all in its looks has no keys, and leaves
    /// this out.
    fn perform(
        _hands: Arc<Self::Hands>,
        _key: Self::Key,
        _job: Self::Job,
        _stop: CancellationToken,
    ) -> impl Future<Output = Result<Then, Error>> + Send {
        std::future::ready(Ok(Then::Done))
    }

    /// Returns what the log shows of work for a key.
    fn span(_key: &Self::Key, _job: &Self::Job) -> Span {
        Span::none()
    }

    /// The daemon stops: nothing new is begun, and work under way is waited for.
    fn stops(&mut self) {}

    /// Everything has ended.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// One of two.
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Waits for one of two; the first one where both are there. Safe to cancel if both are, and the other one is cancelled.
pub async fn either<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    tokio::select! {
        biased;
        first = first => Either::First(first),
        second = second => Either::Second(second),
    }
}

/// Does work, unless the daemon stops first: `None`. Work that is let go must be such that it may be.
pub async fn until_stop<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        done = work => Some(done),
    }
}

/// Rests in the midst of work that can't be begun anew. Returns whether the daemon stops.
pub async fn rested(stop: &CancellationToken, rest: Duration) -> bool {
    until_stop(stop, tokio::time::sleep(rest)).await.is_none()
}

/// Waits until then; `None`: for ever. Safe to cancel.
pub async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// What loops are driven with.
#[derive(Clone)]
pub struct Drive {
    pub store: Store,
    pub loops: Arc<Loops>,
    pub stop: CancellationToken,
}

impl Drive {
    /// Drives a loop until the daemon stops; what happens from the first poll on is followed.
    pub async fn run<L: Loop>(self, this: L) {
        let feed = match L::FOLLOWS {
            [] => Feed::None,
            kinds => Feed::Store(self.store.follow_kinds(kinds).await),
        };
        drive::run(this, feed, &self.loops, self.stop).await;
    }
}

/// What a loop follows.
pub enum Feed {
    None,
    Store(Follower),
    #[cfg(test)]
    Told(tokio::sync::mpsc::UnboundedReceiver<Result<News, Error>>),
}

impl Feed {
    /// Waits for news. Safe to cancel.
    async fn next(&mut self) -> Result<News, Error> {
        match self {
            Self::None => std::future::pending().await,
            Self::Store(follower) => Ok(follower.told().await?),
            #[cfg(test)]
            Self::Told(told) => match told.recv().await {
                Some(told) => told,
                None => std::future::pending().await,
            },
        }
    }
}
