//! The channel of an account whose adapter is a program of its own: a child process that speaks the channel protocol on its
//! standard input and output (`src/protocol`, `docs/channel-protocol.md`). It is supervised here: started, shut in, asked whether
//! it lives, killed with all that it started, and started anew.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicUsize},
    time::Duration,
};

use channel_protocol::{self as protocol, Can, Hello};
use ipc_handlers::Time;
use serde_json::{Map, Value};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::Intake;
use crate::{
    domain::platforms::{
        accounts::{Account, Myself},
        addresses::Platform,
        pace::Gate,
    },
    system::{locked::Locked as _, media::Media, world::World},
};

mod channel;
mod child;
mod inward;
mod life;
mod lines;
mod pace;
mod spool;
mod storing;
mod supervise;
mod wire;

use spool::Spool;
use storing::Faults;
use supervise::Last;
use wire::Wire;

/// How many lines wait to be written to an adapter.
const MOST_LINES: usize = 256;
/// The longest text of an adapter's about itself that is kept, characters.
const LONGEST_WORDS: usize = 500;

/// How long an adapter may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To be let in by its platform, without a word.
    pub hello: Duration,
    /// From one question whether it lives to the next.
    pub ping: Duration,
    /// To answer that.
    pub pong: Duration,
    /// To leave.
    pub stop: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(120),
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(10),
            stop: Duration::from_secs(5),
        }
    }
}

/// An account with all that its adapter is given.
#[derive(Clone, PartialEq)]
pub struct Ready {
    pub account: Account,
    /// With its secrets.
    pub config: Map<String, Value>,
    /// Variables that its adapter has in its environment, such as those of a proxy.
    pub variables: Vec<(String, String)>,
    /// Secrets in these, which it may say again and nobody is told.
    pub secrets: Vec<String>,
    /// The words that its platform lists as commands.
    pub commands: Vec<channel_protocol::Command>,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("account", &self.account).finish_non_exhaustive()
    }
}

/// Why an adapter can't be started: something is missing that a person has to put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotReady {
    pub why: String,
    pub hint: String,
}

/// Reads an account's settings and secrets as they are now.
pub type Load = Arc<dyn Fn() -> Result<Ready, NotReady> + Send + Sync>;

/// Where adapters live.
#[derive(Clone)]
pub struct Ground {
    pub world: World,
    /// This program, which shuts adapters in.
    pub program: PathBuf,
    /// The folder of all adapters' folders.
    pub home: PathBuf,
    /// The folder in which their process groups are noted.
    pub notes: PathBuf,
    /// Begins our ids of texts, so that two installations with one account never mean the same.
    pub install: String,
    pub patience: Patience,
    /// The files that go out.
    pub media: Arc<Media>,
}

/// An account on a platform.
pub struct Remote {
    /// Its name, and what its addresses begin with.
    platform: Platform,
    /// The same with what it has told of its addresses; it stays while the adapter is away.
    told: Mutex<Arc<Platform>>,
    ground: Ground,
    load: Load,
    /// What the adapter said of itself last; it stays while it is away.
    hello: Mutex<Option<Hello>>,
    /// The living adapter, while it may be sent something.
    wire: watch::Sender<Option<Wire>>,
    gate: Mutex<Gate>,
    begun: Instant,
    /// How many texts that people wait for wait for the account.
    people: AtomicUsize,
    /// The account is let go, or we stop: nobody waits for its turn any more.
    over: CancellationToken,
    /// When the platform took something last.
    took: watch::Sender<Option<Time>>,
    last: Mutex<Last>,
    faults: Mutex<Faults>,
    spool: Spool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.locked()
}

/// Returns what an adapter says, as it is kept: cut, and without what acts on a terminal.
fn words(text: &str) -> Option<String> {
    let text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_WORDS).collect();
    (!text.trim().is_empty()).then_some(text)
}

impl Remote {
    /// An account, with its addresses as far as they are known; `load` reads its settings at each start of its adapter.
    #[must_use]
    pub fn new(platform: Platform, ground: Ground, load: Load) -> Self {
        Self {
            told: Mutex::new(Arc::new(platform.clone())),
            platform,
            ground,
            load,
            hello: Mutex::default(),
            wire: watch::Sender::new(None),
            gate: Mutex::new(Gate::new(protocol::Pace::default())),
            begun: Instant::now(),
            people: AtomicUsize::new(0),
            over: CancellationToken::new(),
            took: watch::Sender::new(None),
            last: Mutex::new(Last::Good),
            faults: Mutex::default(),
            spool: Spool::default(),
        }
    }

    fn name(&self) -> &str {
        &self.platform.channel
    }

    /// How its addresses read, as far as it has told.
    fn addresses(&self) -> Arc<Platform> {
        Arc::clone(&lock(&self.told))
    }

    fn learn(&self, addresses: Platform) {
        *lock(&self.told) = Arc::new(addresses);
    }

    /// Who the account is, once its adapter has said it.
    fn myself(&self) -> Option<Myself> {
        lock(&self.hello).as_ref().map(|hello| {
            let protocol::Myself { id, name, handle } = hello.myself.clone();
            Myself { id, name, handle }
        })
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn can(&self, what: Can) -> bool {
        lock(&self.hello).as_ref().is_some_and(|hello| hello.can.contains(&what))
    }

    fn living(&self) -> Option<Wire> {
        self.wire.borrow().clone()
    }

    /// The adapter has said who it is: from now on it may be sent something.
    fn greet(&self, hello: Hello) {
        *lock(&self.gate) = Gate::new(hello.pace);
        *lock(&self.hello) = Some(hello);
    }

    /// The platform took something. The life of its adapter writes it down.
    fn note_out(&self) {
        self.took.send_replace(Some(self.ground.world.now()));
    }
}
