//! Runs the channels: each account is a key, so that a fault over one ends no other. An account that ends by a fault of our own is
//! run again after a rest, and so is one whose channel says so; a person's wish for a new start ends a rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::Time;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    channels::{Channels, Intake, Ran},
    domain::{machine::loops::LoopName, platforms::channels::Connection, shown::errors::chain},
    engine::{Error, Loop, Plan, Read, Then, Why},
    store::{Store, StoreError},
    system::world::World,
};

/// How often it is looked whether a person wants an account started anew.
const LOOK: Duration = Duration::from_secs(1);

/// An account whose channel returned, though nobody told it to stop.
#[derive(Debug, thiserror::Error)]
#[error("its channel ended by itself")]
struct EndedByItself;

/// Where people's wishes are read, and where it is written how an account stands.
pub trait Book: Send + Sync + 'static {
    /// Returns how often a person wanted each account started anew.
    fn wanted(&self) -> impl Future<Output = Result<BTreeMap<String, i64>, StoreError>> + Send;

    /// A fault of ours ended the run of an account.
    fn failed(&self, name: &str, now: Time) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl Book for Store {
    async fn wanted(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let all = self.connections().await?;
        Ok(all.into_iter().map(|state| (state.channel, state.wanted)).collect())
    }

    async fn failed(&self, name: &str, now: Time) -> Result<(), StoreError> {
        let why = "a fault of our own came over it; the log says more".to_owned();
        self.set_connection(name.to_owned(), Connection::Offline, Some(why), now).await
    }
}

/// What the loop works with.
pub struct Hands<B> {
    world: World,
    channels: Arc<Channels>,
    intake: Intake,
    book: B,
}

/// Runs every channel until the daemon stops.
pub struct Accounts<B = Store> {
    hands: Arc<Hands<B>>,
    /// How often a person had wanted each account started anew at the last look.
    wanted: BTreeMap<String, i64>,
    /// The last try to read that failed.
    unread: bool,
    /// The accounts that there were at the last look.
    known: BTreeSet<String>,
}

impl Accounts {
    #[must_use]
    pub fn new(world: World, store: Store, channels: Arc<Channels>) -> Self {
        Self::with(world, store.clone(), store, channels)
    }
}

impl<B: Book> Accounts<B> {
    fn with(world: World, book: B, store: Store, channels: Arc<Channels>) -> Self {
        let hands = Arc::new(Hands {
            world: world.clone(),
            channels,
            intake: Intake::new(world.clone(), store),
            book,
        });
        Self { hands, wanted: BTreeMap::new(), unread: false, known: BTreeSet::new() }
    }

    /// Returns the accounts that a person wants started anew since the last look.
    async fn wishes(&mut self) -> Result<Vec<String>, StoreError> {
        let now = self.hands.book.wanted().await?;
        let (new, now) = new_wishes(&self.wanted, now, self.hands.channels.names());
        self.wanted = now;
        Ok(new)
    }
}

/// Returns which accounts are wanted anew, and how often each was wanted by now. One that was not known before begins by itself.
fn new_wishes(
    before: &BTreeMap<String, i64>,
    mut now: BTreeMap<String, i64>,
    names: Vec<String>,
) -> (Vec<String>, BTreeMap<String, i64>) {
    let now: BTreeMap<String, i64> = names
        .into_iter()
        .map(|name| {
            let times = now.remove(&name).unwrap_or(0);
            (name, times)
        })
        .collect();
    let is_new = |(name, times): &(&String, &i64)| before.get(*name).is_some_and(|known| *times > known);
    (now.iter().filter(is_new).map(|(name, _)| name.clone()).collect(), now)
}

impl<B: Book> Loop for Accounts<B> {
    const NAME: LoopName = LoopName::Channels;
    const AT_ONCE: usize = usize::MAX;
    /// Adapters say goodbye, and are killed when they don't.
    const FINISHES_WITHIN: Duration = Duration::from_secs(30);
    /// The name of the account.
    type Key = String;
    type Job = ();
    type Hands = Hands<B>;

    fn hands(&self) -> Arc<Hands<B>> {
        Arc::clone(&self.hands)
    }

    async fn asked(&mut self) {
        self.hands.channels.came().await;
    }

    async fn look(&mut self, why: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let names = self.hands.channels.names();
        // One that was removed leaves no rest to another of its name.
        let now: BTreeSet<String> = names.iter().cloned().collect();
        let forget = self.known.difference(&now).cloned().collect();
        self.known = now;
        // What runs already is not begun twice.
        let begin = names.into_iter().map(|name| (name, ())).collect();
        let mut plan = Plan { begin, forget, ..Plan::again(LOOK) };
        if self.unread && !why.again {
            plan.read = Read::NotTried;
            return Ok(plan);
        }
        match self.wishes().await {
            Ok(wanted) => {
                self.unread = false;
                wanted.iter().for_each(|name| self.hands.channels.restart(name));
                plan.wake = wanted.into_iter().map(|name| (name, ())).collect();
            }
            // Accounts run all the same.
            Err(error) => {
                self.unread = true;
                plan.read = Read::Failed(error.into());
            }
        }
        Ok(plan)
    }

    /// Runs an account once. A fault of our own is no panic for the engine: an account is never set aside, as nothing is heard or
    /// said there meanwhile.
    async fn perform(
        hands: Arc<Hands<B>>,
        name: String,
        (): (),
        _: CancellationToken,
    ) -> Result<Then, Error> {
        // It was let go.
        let Some(kept) = hands.channels.find(&name) else { return Ok(Then::Done) };
        let fault = match kept.run(&hands.intake).await {
            Ok(Ran::Again) => return Ok(Then::Again),
            Ok(Ran::After(rest)) => return Ok(Then::After(rest)),
            Ok(Ran::Stopped) if kept.is_stopped() => return Ok(Then::Done),
            Ok(Ran::Stopped) => Error::ours(&EndedByItself),
            Err(panic) => Error::ours(&panic),
        };
        if let Err(error) = hands.book.failed(&name, hands.world.now()).await {
            // The engine tells of the fault.
            tracing::warn!(channel = name, error = %chain(&error), "how an account stands can't be written down");
        }
        Err(fault)
    }

    fn span(name: &String, (): &()) -> Span {
        tracing::error_span!("account", name)
    }

    fn stops(&mut self) {
        self.hands.channels.stop();
    }

    async fn finish(&mut self) {
        self.hands.channels.have_left();
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, future::ready, sync::Mutex};

    use futures_util::future::BoxFuture;
    use tokio::{task::JoinHandle, time::Instant};

    use super::*;
    use crate::{
        channels::Channel,
        domain::platforms::{
            addresses::Platform,
            channels::{Outcome, Part, Traits},
        },
        engine::{Drive, Loops},
    };

    /// What a channel does in a run.
    #[derive(Clone, Copy)]
    enum Does {
        Panics,
        Ends(Ran),
    }

    type Log = Arc<Mutex<Vec<(u64, String)>>>;

    /// A channel that does what it is told in its runs, one after the other; then it stays until it is stopped.
    struct Fake {
        platform: Platform,
        began: Instant,
        runs: Mutex<Vec<Does>>,
        log: Log,
    }

    impl Fake {
        fn note(&self, what: &str) {
            let at = self.began.elapsed().as_secs();
            let mut log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            log.push((at, format!("{} {what}", self.platform.channel)));
        }
    }

    impl Channel for Fake {
        fn platform(&self) -> &Platform {
            &self.platform
        }

        fn traits(&self) -> Traits {
            Traits::default()
        }

        fn send<'a>(&'a self, _: Part<'a>) -> BoxFuture<'a, Outcome> {
            Box::pin(ready(Ok(Vec::new())))
        }

        fn run(&self, _: Intake, stop: CancellationToken) -> BoxFuture<'_, Ran> {
            Box::pin(async move {
                self.note("runs");
                let does = {
                    let mut runs = self.runs.lock().unwrap();
                    if runs.is_empty() { None } else { Some(runs.remove(0)) }
                };
                match does {
                    Some(Does::Panics) => panic!("boom"),
                    Some(Does::Ends(ran)) => ran,
                    None => {
                        stop.cancelled().await;
                        tokio::time::sleep(Duration::from_secs(2)).await;
                        self.note("said goodbye");
                        Ran::Stopped
                    }
                }
            })
        }

        fn anew(&self) {
            self.note("is wanted");
        }

        fn has_left(&self) {
            self.note("has left");
        }
    }

    /// A book on this test's clock: the store takes real time.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<BTreeMap<String, i64>>>, Arc<Mutex<BTreeSet<String>>>);

    impl Book for Told {
        async fn wanted(&self) -> Result<BTreeMap<String, i64>, StoreError> {
            Ok(self.0.lock().unwrap().clone())
        }

        async fn failed(&self, name: &str, _: Time) -> Result<(), StoreError> {
            self.1.lock().unwrap().insert(name.to_owned());
            Ok(())
        }
    }

    fn real() -> crate::system::world::World {
        crate::system::world::World::real()
    }

    struct World {
        _dir: tempfile::TempDir,
        book: Told,
        store: Store,
        channels: Arc<Channels>,
        loops: Arc<Loops>,
        stop: CancellationToken,
        began: Instant,
        log: Log,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
            let (channels, loops) = (Arc::new(Channels::default()), Arc::new(Loops::new(real())));
            let (stop, began, log) = (CancellationToken::new(), Instant::now(), Arc::default());
            Self { _dir: dir, book: Told::default(), store, channels, loops, stop, began, log }
        }

        fn add(&self, name: &'static str, runs: &[Does]) {
            let (platform, log) = (Platform::named(name), Arc::clone(&self.log));
            let fake = Fake { platform, began: self.began, runs: Mutex::new(runs.to_vec()), log };
            self.channels.add(Box::new(fake));
        }

        fn drive(&self) -> JoinHandle<()> {
            let drive =
                Drive { store: self.store.clone(), loops: Arc::clone(&self.loops), stop: self.stop.clone() };
            let (book, channels) = (self.book.clone(), Arc::clone(&self.channels));
            tokio::spawn(drive.run(Accounts::with(real(), book, self.store.clone(), channels)))
        }

        fn wants(&self, name: &str) {
            *self.book.0.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        }

        /// Lets time pass until a second, and returns what happened.
        async fn until(&self, sec: u64) -> Vec<String> {
            let until = self.began + Duration::from_secs(sec) + Duration::from_millis(500);
            tokio::time::sleep_until(until).await;
            self.happened()
        }

        fn happened(&self) -> Vec<String> {
            let all = std::mem::take(&mut *self.log.lock().unwrap());
            all.into_iter().map(|(at, what)| format!("{at} {what}")).collect()
        }

        async fn stop(&self, driven: JoinHandle<()>) -> Vec<String> {
            self.stop.cancel();
            driven.await.unwrap();
            self.happened()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_one_account_ends_no_other_and_it_is_run_again_after_a_rest() {
        let world = World::new();
        world.add("a", &[Does::Panics; 6]);
        world.add("b", &[]);
        let driven = world.drive();
        let happened = world.until(40).await;
        let of =
            |name: &str| -> Vec<&String> { happened.iter().filter(|what| what.contains(name)).collect() };
        assert_eq!(of("b runs"), ["0 b runs"]);
        assert_eq!(of("a runs"), ["0 a runs", "1 a runs", "3 a runs", "7 a runs", "15 a runs", "31 a runs"]);
        assert_eq!(*world.book.1.lock().unwrap(), BTreeSet::from(["a".to_owned()]));
        // Five faults in a row set keys of other loops aside.
        assert_eq!(world.until(70).await, ["63 a runs"]);
        let mut left = world.stop(driven).await;
        left.iter_mut().for_each(|what| *what = what.split_once(' ').unwrap().1.to_owned());
        left.sort();
        left.dedup();
        assert_eq!(left, ["a has left", "a said goodbye", "b has left", "b said goodbye"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_persons_wish_ends_a_run_and_a_rest() {
        let world = World::new();
        world.wants("a");
        world.add("a", &[]);
        world.add("b", &[Does::Ends(Ran::After(Duration::from_secs(500))), Does::Ends(Ran::Again)]);
        let driven = world.drive();
        assert_eq!(world.until(9).await, ["0 a runs", "0 b runs"], "a wish of before is none");
        world.wants("a");
        let happened = world.until(12).await;
        let what: Vec<&str> = happened.iter().map(|what| what.split_once(' ').unwrap().1).collect();
        assert_eq!(what, ["a is wanted", "a runs"]);
        world.wants("b");
        let happened = world.until(15).await;
        let what: Vec<&str> = happened.iter().map(|what| what.split_once(' ').unwrap().1).collect();
        assert_eq!(what, ["b is wanted", "b runs", "b runs"]);
        world.stop(driven).await;
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_come_and_go_and_one_that_is_let_go_says_goodbye_first() {
        let world = World::new();
        let driven = world.drive();
        world.until(1).await;
        world.add("a", &[]);
        world.add("b", &[Does::Ends(Ran::After(Duration::from_secs(500)))]);
        assert_eq!(world.until(3).await, ["1 a runs", "1 b runs"]);
        world.channels.remove("a").await;
        let happened = world.happened();
        let what: Vec<&str> = happened.iter().map(|what| what.split_once(' ').unwrap().1).collect();
        assert_eq!(what[..2], ["a said goodbye", "a has left"]);
        world.channels.remove("b").await;
        assert!(world.happened()[0].ends_with("b has left"), "one that rests is not waited for");
        world.add("a", &[]);
        assert!(world.until(9).await.iter().any(|what| what.ends_with("a runs")));
        world.stop(driven).await;
    }

    #[test]
    fn a_wish_is_new_where_it_was_counted_less_before() {
        let counts = |all: &[(&str, i64)]| -> BTreeMap<String, i64> {
            all.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect()
        };
        let names = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let before = counts(&[("a", 1), ("b", 2)]);
        let (new, now) = new_wishes(&before, counts(&[("a", 2), ("b", 2), ("c", 7), ("gone", 9)]), names());
        assert_eq!((new, now), (vec!["a".to_owned()], counts(&[("a", 2), ("b", 2), ("c", 7)])));
        // It was let go and came again.
        assert_eq!(new_wishes(&counts(&[("a", 5)]), counts(&[]), names()).0, Vec::<String>::new());
    }
}
