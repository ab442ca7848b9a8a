//! The world that the daemon lives in, as a value: the time, chance, and threads for work that blocks. All that needs one of these is
//! given a [`World`]; so a simulation can give another one.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use ipc_handlers::Time;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    task::spawn_blocking,
};

use super::{
    clock,
    panics::{Panicked, caught_here},
    process,
};

/// Reads the time.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time. People and programs set it: it jumps.
    fn now(&self) -> Time;

    /// Returns a reading of a clock that only goes on; ages are counted with it. Timers of the runtime go by the same.
    fn monotonic(&self) -> Instant;
}

/// Gives what nobody guesses.
pub trait Chance: Send + Sync {
    /// Returns 32 hexadecimal digits.
    ///
    /// # Errors
    /// There is no chance to be had.
    fn id(&self) -> io::Result<String>;
}

/// Work that blocks.
pub type Work = Box<dyn FnOnce() + Send>;

/// How much work may take of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// A thread of the runtime does it: somebody waits for it.
    Waited,
    /// A thread of its own does it. Who gave it does other work meanwhile, and then waits for it without a runtime.
    Beside,
    /// A thread of its own does it, and gives way where others want all of a processor.
    Patient,
    /// A thread of its own does it, and gives way to everybody.
    Leisure,
}

/// Work without an end, which waits for what it is given. Its thread ends with it.
pub trait Actor: Send {
    /// Works on a piece of what there is. `may_wait`: waits for one first, for as long as it likes. Returns when its next turn is to be at
    /// the latest, also if nothing new is there: at once after it worked; `None`: it has ended.
    fn turn(&mut self, may_wait: bool) -> Option<Duration>;
}

/// Does work that blocks, on threads or in another order of its own.
pub trait Hands: Send + Sync {
    /// Does `work` once, some time. It tells by itself what came of it. `name`: of a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    fn take(&self, haste: Haste, name: &str, work: Work) -> io::Result<()>;

    /// Begins an actor. It is told by the bell that it was given something, where it does not find out by waiting.
    ///
    /// # Errors
    /// There is no thread to be had.
    fn begin(&self, name: &str, actor: Box<dyn Actor>) -> io::Result<Bell>;

    /// Waits within work that blocks.
    fn wait(&self, work: Pin<&mut dyn Future<Output = ()>>);

    /// Whether two pieces of work can go on at once.
    fn has_threads(&self) -> bool {
        true
    }

    /// Ends the daemon, at once: by our own fault it can't go on, and another one can.
    fn end_as_broken(&self) {
        std::process::exit(1)
    }
}

/// Work that is done beside its giver's.
pub struct Beside<T>(Done<T>);

enum Done<T> {
    /// A thread does it, and tells what came of it.
    ByThread(mpsc::Receiver<std::thread::Result<T>>),
    /// There are no threads: it is done once somebody waits for it.
    Later(Box<dyn FnOnce() -> T + Send>),
}

impl<T> Beside<T> {
    /// Waits for the work, and returns what came of it. Blocks.
    ///
    /// # Panics
    /// Where the work did.
    #[must_use]
    pub fn finish(self) -> T {
        self.outcome().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Waits for the work, and returns what came of it, be it a panic. Blocks. Dropping a [`Beside`] waits for nothing: a giver that must
    /// outlive its work calls this as it is dropped.
    ///
    /// # Errors
    /// What the work panicked with.
    pub fn outcome(self) -> std::thread::Result<T> {
        match self.0 {
            Done::ByThread(told) => told
                .recv()
                .unwrap_or_else(|mpsc::RecvError| unreachable!("it tells what came of it, even of a panic")),
            Done::Later(work) => catch_unwind(AssertUnwindSafe(work)),
        }
    }
}

/// Tells an actor that it was given something.
#[derive(Clone, Debug, Default)]
pub struct Bell(Option<Arc<Notify>>);

impl Bell {
    /// Returns a bell that `heard` hears.
    #[must_use]
    pub const fn heard_by(heard: Arc<Notify>) -> Self {
        Self(Some(heard))
    }

    /// Rings it.
    pub fn ring(&self) {
        if let Some(heard) = &self.0 {
            heard.notify_one();
        }
    }
}

/// The world that the daemon lives in. Clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    hands: Arc<dyn Hands>,
    /// SQLite's name of the file system that the store lies on; `None`: the machine's.
    disk: Option<Arc<str>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// Returns a world of these parts.
    #[must_use]
    pub fn of(clock: Arc<dyn Clock>, chance: Arc<dyn Chance>, hands: Arc<dyn Hands>) -> Self {
        Self(Arc::new(Parts { clock, chance, hands, disk: None }))
    }

    /// Returns the real one.
    #[must_use]
    pub fn real() -> Self {
        let real = Arc::new(Real);
        Self::of(Arc::<Real>::clone(&real) as _, Arc::<Real>::clone(&real) as _, real)
    }

    /// Returns the world where the store lies on a file system of SQLite's by this name.
    #[must_use]
    pub fn with_disk(self, name: &str) -> Self {
        Self(Arc::new(Parts { disk: Some(name.into()), ..(*self.0).clone() }))
    }

    /// Returns SQLite's name of the file system that the store lies on; `None`: the machine's.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        self.0.disk.as_deref()
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Returns a reading of a clock that only goes on; ages are counted with it.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        self.0.clock.monotonic()
    }

    /// Returns a new id that nobody guesses: 32 hexadecimal digits.
    ///
    /// # Errors
    /// There is no chance to be had.
    pub fn id(&self) -> io::Result<String> {
        self.0.chance.id()
    }

    /// Returns a new secret that nobody guesses: 64 hexadecimal digits.
    ///
    /// # Errors
    /// As [`Self::id`].
    pub fn secret(&self) -> io::Result<String> {
        Ok([self.id()?, self.id()?].concat())
    }

    /// Returns a random number; 0 where there is no chance to be had.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.id().ok().and_then(|id| u64::from_str_radix(id.get(..8)?, 16).ok()).unwrap_or(0)
    }

    /// Does work that blocks, while somebody waits for it. It goes on to its end when nobody does any more.
    ///
    /// # Errors
    /// [`Panicked`]: the work did.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        self.done(Haste::Waited, "", work).await.unwrap_or_else(|error| Err(Panicked::never_done(&error)))
    }

    /// As [`Self::blocking`], for work that may fail by the world. A panic is an error, too: [`Panicked`] lies within it.
    ///
    /// # Errors
    /// Those of the work, and its panic.
    pub async fn tried<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.blocking(work).await.map_err(io::Error::other)?
    }

    /// Does long work on a thread of its own that gives way to everybody. A caller that leaves does not wait for it; it goes on to its
    /// end.
    ///
    /// # Errors
    /// There is no thread to be had, or the work panicked: [`Panicked`] lies within the error then.
    pub async fn at_leisure<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.done(Haste::Leisure, name, work).await?.map_err(io::Error::other)
    }

    /// As [`Self::at_leisure`], on a thread that gives way somewhat: somebody may wait for its work.
    ///
    /// # Errors
    /// As [`Self::at_leisure`].
    pub async fn patiently<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.done(Haste::Patient, name, work).await?.map_err(io::Error::other)
    }

    /// Has work done on a thread of its own, beside the caller's, who waits for it by [`Beside::finish`].
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn beside<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Beside<T>> {
        if !self.has_threads() {
            return Ok(Beside(Done::Later(Box::new(work))));
        }
        let (done, outcome) = mpsc::channel();
        let work = move || {
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        };
        self.0.hands.take(Haste::Beside, name, Box::new(work))?;
        Ok(Beside(Done::ByThread(outcome)))
    }

    /// Waits for `work` within work that blocks.
    ///
    /// # Panics
    /// Outside of a runtime, and on a thread of it that must not block.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let mut outcome = None;
        self.0.hands.wait(pin!(async { outcome = Some(work.await) }));
        outcome.unwrap_or_else(|| unreachable!("hands wait until it is done"))
    }

    /// Whether two pieces of work can go on at once.
    #[must_use]
    pub fn has_threads(&self) -> bool {
        self.0.hands.has_threads()
    }

    /// Ends the daemon after `tell`, at once: by our own fault it can't go on, and another one can.
    pub fn end_as_broken(&self, tell: impl FnOnce()) {
        // A log that can't be written does not keep it alive.
        let _ = catch_unwind(AssertUnwindSafe(tell));
        self.0.hands.end_as_broken();
    }

    /// Begins an actor.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(&self, name: &str, actor: impl Actor + 'static) -> io::Result<Bell> {
        self.0.hands.begin(name, Box::new(actor))
    }

    async fn done<T: Send + 'static>(
        &self,
        haste: Haste,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Result<T, Panicked>> {
        let (done, outcome) = oneshot::channel();
        let work = move || {
            // The caller may have left.
            let _ = done.send(caught_here(AssertUnwindSafe(work)));
        };
        self.0.hands.take(haste, name, Box::new(work))?;
        // It says what came of it, unless the runtime ends before it begins.
        outcome.await.map_err(io::Error::other)
    }
}

/// The real world: the kernel's clocks and chance, and threads.
struct Real;

impl Clock for Real {
    fn now(&self) -> Time {
        clock::now()
    }

    fn monotonic(&self) -> Instant {
        clock::monotonic()
    }
}

impl Chance for Real {
    fn id(&self) -> io::Result<String> {
        process::new_id()
    }
}

impl Hands for Real {
    fn take(&self, haste: Haste, name: &str, work: Work) -> io::Result<()> {
        let gives_way: fn() = match haste {
            Haste::Waited => {
                drop(spawn_blocking(work));
                return Ok(());
            }
            Haste::Beside => || {},
            Haste::Patient => process::give_way_somewhat,
            Haste::Leisure => process::give_way,
        };
        let work = move || {
            gives_way();
            work();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn wait(&self, work: Pin<&mut dyn Future<Output = ()>>) {
        Handle::current().block_on(work);
    }

    fn begin(&self, name: &str, mut actor: Box<dyn Actor>) -> io::Result<Bell> {
        let acts = move || while actor.turn(true).is_some() {};
        std::thread::Builder::new().name(name.to_owned()).spawn(acts)?;
        Ok(Bell::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_in<T>(outcome: io::Result<T>) -> Option<String> {
        let error = outcome.err()?;
        error.get_ref()?.downcast_ref::<Panicked>().map(ToString::to_string)
    }

    #[tokio::test]
    async fn work_that_blocks_returns_what_it_did_or_what_it_said_when_it_panicked() {
        let world = World::real();
        assert_eq!(world.blocking(|| 7).await, Ok(7));
        let panicked = world.blocking(|| -> u8 { panic!("plain") }).await.unwrap_err();
        assert_eq!(panicked.to_string(), "it panicked: plain");
        assert_eq!(world.tried(|| Ok(7)).await.unwrap(), 7);
        let failed = world.tried(|| -> io::Result<u8> { Err(io::ErrorKind::NotFound.into()) }).await;
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        let panicked = world.tried(|| -> io::Result<u8> { panic!("plain") }).await;
        assert_eq!(panic_in(panicked).as_deref(), Some("it panicked: plain"));
    }

    #[tokio::test]
    async fn work_at_leisure_has_a_thread_of_its_own() {
        let world = World::real();
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(world.at_leisure("slow", name).await.unwrap().as_deref(), Some("slow"));
        let panicked = world.at_leisure("slow", || -> u8 { panic!("plain") }).await;
        assert_eq!(panic_in(panicked).as_deref(), Some("it panicked: plain"));
    }

    #[test]
    fn work_beside_is_waited_for_with_its_panic() {
        let world = World::real();
        assert_eq!(world.beside("beside", || 7).unwrap().finish(), 7);
        let fails = world.beside("beside", || -> u8 { panic!("plain") }).unwrap();
        assert_eq!(
            caught_here(AssertUnwindSafe(|| fails.finish())).unwrap_err().to_string(),
            "it panicked: plain"
        );
        let fails = world.beside("beside", || -> u8 { panic!("plain") }).unwrap();
        assert!(fails.outcome().is_err());
    }

    #[test]
    fn an_actor_turns_until_it_has_ended() {
        struct Counts(mpsc::Receiver<u8>, mpsc::Sender<u8>);
        impl Actor for Counts {
            fn turn(&mut self, may_wait: bool) -> Option<Duration> {
                assert!(may_wait);
                self.1.send(self.0.recv().ok()? + 1).unwrap();
                Some(Duration::MAX)
            }
        }
        let (asks, asked) = mpsc::channel();
        let (answers, answered) = mpsc::channel();
        let bell = World::real().begin("counts", Counts(asked, answers)).unwrap();
        for n in [1, 7] {
            asks.send(n).unwrap();
            bell.ring();
            assert_eq!(answered.recv(), Ok(n + 1));
        }
        drop(asks);
        assert!(answered.recv().is_err());
    }
}
