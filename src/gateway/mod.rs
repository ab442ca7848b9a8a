//! The only way out of a container without a network: a Unix socket per run that leads to the model's host, and one to the
//! hosts outside that the owner allows (`outside.rs`).
//!
//! ```text
//! agent ── /run/g2/model.sock ──▶ who calls is known by the socket ─▶ only what an agent needs (admit)
//!       ◀─ streamed, metered ─── the placeholder key is swapped for the real one ─▶ upstream
//! ```
//!
//! A request is never passed on as it came: hyper parses it and we make a new one of the headers that are known, with
//! framing of our own. Bounds are per run, so that one run can't starve another. What a request used goes into the
//! [`Books`] when it is over; writing that down never holds a stream back.

mod admit;
mod answer;
mod body;
mod books;
mod credentials;
mod fetches;
mod log;
mod meter;
mod outside;
mod places;
mod plain;
mod proxy;
mod purse;
mod refusals;
mod serve;
mod socket;
mod sought;
mod trial;
mod upstream;
mod webhook;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ipc_handlers::Folder;
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{
        mailbox::bucket::Bucket,
        runs::{budget::Used, hindrance::Refused, outside::Rules},
    },
    system::{locked::Locked as _, world::World},
};

pub use books::Books;
pub use credentials::{Credential, CredentialError, CredentialKind, Credentials, Secret};
pub use outside::OutsideLimits;
pub use purse::Filled;
pub use socket::{NAME, OUTSIDE, SocketError};
pub use trial::{TrialError, Verdict, try_key};
pub use upstream::{Upstream, UpstreamError};
pub use webhook::{NotPosted, post};

/// Whether requests are looked into before they are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// One that asks the model's host to fetch something is refused.
    Inside,
    Away,
}

/// Bounds, each for one run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait to be taken.
    pub connections: usize,
    /// Requests at a time; further ones wait for [`Self::queue`], then are told to come again.
    pub requests: usize,
    pub queue: Duration,
    /// Connections in a minute; further ones wait to be taken.
    pub connections_per_minute: u32,
    /// Requests in a minute, each with one more for each MiB that it sends; further ones wait for [`Self::queue`], then are
    /// told when to come again.
    pub requests_per_minute: u32,
    /// A request's body, bytes.
    pub request_bytes: u64,
    /// An answer's body, bytes.
    pub response_bytes: u64,
    /// How long a connection may take to send the head of its next request.
    pub head: Duration,
    /// How long a request's body may say nothing.
    pub upload_silence: Duration,
    /// How long reaching the model's host may take, TLS included.
    pub connect: Duration,
    /// How long the model's host may take until its answer begins.
    pub answer: Duration,
    /// How long an answer that has begun may say nothing.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 16,
            queue: Duration::from_secs(30),
            connections_per_minute: 600,
            requests_per_minute: 600,
            request_bytes: 32 << 20,
            response_bytes: 256 << 20,
            head: Duration::from_secs(60),
            upload_silence: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(600),
            silence: Duration::from_secs(300),
        }
    }
}

/// The gateway of one daemon.
pub struct Gateway {
    shared: Arc<Shared>,
    open: Mutex<BTreeMap<i64, Open>>,
    outside: outside::Outside,
    purses: purse::Purses,
}

/// What all runs share.
struct Shared {
    world: World,
    upstream: Upstream,
    client: upstream::Client,
    credentials: Credentials,
    refused_key: refusals::RefusedKey,
    limits: Limits,
    books: Arc<Books>,
}

impl Shared {
    /// Returns the real key as it is now. Reads files.
    fn key(&self) -> Result<Credential, CredentialError> {
        self.credentials.current(self.world.now())
    }
}

/// A run's side of the gateway.
struct Caller {
    run: i64,
    shared: Arc<Shared>,
    looks: Looks,
    requests: Arc<Semaphore>,
    /// Its group's.
    purse: Arc<purse::Purse>,
    /// A request of it was refused, as that is empty.
    is_out: Arc<AtomicBool>,
    refusals: Arc<refusals::Refusals>,
    /// How many requests may come now.
    rate: Mutex<Bucket>,
    log: log::Log,
}

impl Caller {
    fn rate(&self) -> std::sync::MutexGuard<'_, Bucket> {
        self.rate.locked()
    }
}

/// An open socket.
struct Open {
    dir: PathBuf,
    requests: Arc<Semaphore>,
    is_out: Arc<AtomicBool>,
    refusals: Arc<refusals::Refusals>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Gateway {
    /// A gateway without any open socket.
    #[must_use]
    pub fn new(world: World, upstream: Upstream, credentials: Credentials, limits: Limits) -> Self {
        let client = upstream::Client::new(world.clone(), limits.connect);
        let outside = outside::Outside::new(world.clone(), upstream.proxy.clone());
        let open = Mutex::default();
        let refused_key = refusals::RefusedKey::default();
        let books = Arc::default();
        let shared = Shared { world, upstream, client, credentials, refused_key, limits, books };
        Self { shared: Arc::new(shared), open, outside, purses: purse::Purses::default() }
    }

    /// Has other bounds hold for the way to hosts outside, of every group. Connections that are open stay open.
    pub fn bound_outside(&self, limits: OutsideLimits) {
        self.outside.bound(limits);
    }

    /// Opens a run's socket in `dir`, which is made when it is not there. A socket that an earlier daemon left in it
    /// is replaced: a container that has the folder mounted finds the new one. `owner` is who may connect, beside us; the
    /// run's requests are looked into as `looks` says, and cost what its group may use in a day.
    ///
    /// # Errors
    /// [`SocketError`]: what could not be made, and why.
    pub fn open(
        &self,
        run: i64,
        dir: &Path,
        owner: Option<(u32, u32)>,
        (group, looks): (&Folder, Looks),
    ) -> Result<(), SocketError> {
        let listener = socket::bind(dir, NAME, owner)?;
        let stop = CancellationToken::new();
        let Shared { world, limits, .. } = &*self.shared;
        let requests = Arc::new(Semaphore::new(limits.requests));
        let rate = Mutex::new(Bucket::new(limits.requests_per_minute, world.now()));
        let (shared, log) = (Arc::clone(&self.shared), log::Log::new(world.clone(), run));
        let (under_way, purse) = (Arc::clone(&requests), self.purses.of(group));
        let is_out = Arc::<AtomicBool>::default();
        let refusals = Arc::<refusals::Refusals>::default();
        let (of_caller, refused) = (Arc::clone(&is_out), Arc::clone(&refusals));
        let caller =
            Caller { run, shared, looks, requests, purse, is_out: of_caller, refusals: refused, rate, log };
        let serving = tokio::spawn(serve::to_model(Arc::new(caller), listener, stop.clone()));
        let open = Open { dir: dir.to_owned(), requests: under_way, is_out, refusals, stop, serving };
        let before = self.all().insert(run, open);
        if let Some(before) = before {
            before.stop.cancel();
        }
        Ok(())
    }

    /// Opens a run's socket to hosts outside in `dir`, as [`Self::open`] does. Nothing is allowed before the rules of its group
    /// are read.
    ///
    /// # Errors
    /// [`SocketError`]: what could not be made, and why.
    pub fn open_outside(
        &self,
        run: i64,
        dir: &Path,
        owner: Option<(u32, u32)>,
        group: &Folder,
    ) -> Result<(), SocketError> {
        self.outside.open(run, dir, owner, group, &self.shared.books)
    }

    /// Has the rules hold that `read` returns for a group, for its live run too. Open connections to places that they do not allow
    /// are closed at once.
    ///
    /// # Errors
    /// That of `read`; the rules are as before.
    pub fn read_rules<E>(&self, group: &Folder, read: impl FnOnce() -> Result<Rules, E>) -> Result<(), E> {
        self.outside.read_rules(group, read)
    }

    /// Has a group's budget of a day hold, for its live run too; `None`: it may use any amount. Returns what it is known to have
    /// used of that day: the store may know of less.
    pub fn fill(&self, group: &Folder, filled: Option<Filled>) -> Used {
        self.purses.of(group).fill(filled)
    }

    /// Waits until groups with a budget have used something of it, and returns them.
    pub async fn spent(&self) -> BTreeSet<Folder> {
        self.purses.spent().await
    }

    /// Returns whether a request of a run was refused, as the budget of its group is used up.
    #[must_use]
    pub fn was_out_of_budget(&self, run: i64) -> bool {
        self.all().get(&run).is_some_and(|open| open.is_out.load(Ordering::Relaxed))
    }

    /// Returns what the model's host refused a run, unless it has answered it since; or that there is no key to ask with.
    #[must_use]
    pub fn refused(&self, run: i64) -> Option<Refused> {
        self.all().get(&run).and_then(|open| open.refusals.newest())
    }

    /// As [`Self::refused`], where that has lasted for so long that the run is to be ended for it: some seconds.
    #[must_use]
    pub fn refused_for_good(&self, run: i64) -> Option<Refused> {
        self.all().get(&run).and_then(|open| {
            let refused = open.refusals.lasting(self.shared.world.monotonic(), self.shared.world.now())?;
            // Another request of it may be answered at this moment.
            let is_asking = open.requests.available_permits() < self.shared.limits.requests;
            (!refused.what.is_weather() || !is_asking).then_some(refused)
        })
    }

    /// Whether the model's host has answered a request of a run, and refused none since; `None`: it has no socket.
    #[must_use]
    pub fn has_answered(&self, run: i64) -> Option<bool> {
        self.all().get(&run).map(|open| open.refusals.has_answered())
    }

    /// Returns the key, if it is another than the one that the model's host refused last. Reads files.
    #[must_use]
    pub fn another_key(&self) -> Option<Credential> {
        self.shared.key().ok().filter(|key| self.shared.refused_key.is_another(key))
    }

    /// Returns how many requests of a run have no whole answer yet; `None`: it has no socket.
    pub fn in_flight(&self, run: i64) -> Option<usize> {
        let all = self.all();
        let open = all.get(&run)?;
        Some(self.shared.limits.requests.saturating_sub(open.requests.available_permits()))
    }

    /// Closes a run's sockets and ends what it still has under way; when this returns, all it used is in the books.
    pub async fn close(&self, run: i64) {
        self.outside.close(run).await;
        let Some(open) = self.all().remove(&run) else { return };
        open.stop.cancel();
        let _ = open.serving.await;
        socket::remove(&open.dir, NAME);
    }

    /// Ends the live requests of every run. The sockets stay where they are: the next daemon replaces them.
    pub async fn stop(&self) {
        self.outside.stop().await;
        let all = std::mem::take(&mut *self.all());
        all.values().for_each(|open| open.stop.cancel());
        for open in all.into_values() {
            let _ = open.serving.await;
        }
    }

    /// Returns what was used and refused and is not written down yet.
    #[must_use]
    pub fn books(&self) -> &Books {
        &self.shared.books
    }

    /// Returns of which kind the real key is, so that a container can be given a placeholder of the same kind.
    ///
    /// # Errors
    /// [`CredentialError`] when there is no key that could be used.
    pub fn kind(&self) -> Result<CredentialKind, CredentialError> {
        self.shared.key().map(|credential| credential.kind)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<i64, Open>> {
        self.open.locked()
    }
}
