//! Asks accounts on platforms for their chats: each once a day, and when an agent or a person wants it, at most once a minute. What
//! they tell is kept with the chats; a chat that is not listed any more stays.
//!
//! | on disk | a restart |
//! |---|---|
//! | some of the chats that an account has told of, not the instant | asks again; a chat that is as it was is no change |
//! | the instant | asks a day later |

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::Time;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    channels::Channels,
    domain::{
        machine::loops::LoopName,
        platforms::chats::{Listed, Listing, NotListed, is_list_due},
    },
    engine::{Error, Loop, Plan, Then, Why},
    store::{Store, StoreError},
    system::world::World,
};

/// How long an account is not asked again after it was.
const NOT_SOONER: Duration = Duration::from_secs(60);
/// How long an account may take to answer.
const WITHIN: Duration = Duration::from_secs(120);
/// How often it is looked which accounts were not asked for a day, or had no connection then.
const LOOK: Duration = Duration::from_secs(60);
/// The rest of an account that did not tell, and of one that never does.
const FAILED_RESTS: Duration = Duration::from_hours(1);
const NEVER_RESTS: Duration = Duration::from_hours(24);
/// How many chats are stored in one transaction.
const TOGETHER: usize = 256;

/// Where the chats of accounts are kept, and when each listed them.
pub trait Book: Send + Sync + 'static {
    /// Returns when an account listed its chats last.
    fn listed(&self, account: &str) -> Result<Option<Time>, StoreError>;

    /// Keeps what an account has told.
    fn keep(
        &self,
        account: &str,
        listing: Listing,
        now: Time,
    ) -> impl Future<Output = Result<Listed, StoreError>> + Send;
}

impl Book for Store {
    fn listed(&self, account: &str) -> Result<Option<Time>, StoreError> {
        Self::listed(self, account)
    }

    async fn keep(&self, account: &str, listing: Listing, now: Time) -> Result<Listed, StoreError> {
        let Listing { mut chats, mut passed_over } = listing;
        let (told, mut new, mut no_room) = (chats.len(), 0, 0);
        while !chats.is_empty() {
            let rest = chats.split_off(chats.len().min(TOGETHER));
            let piece = std::mem::replace(&mut chats, rest);
            let learned = self.know_chats(account, piece, now).await?;
            (new, no_room) = (new + learned.new, no_room + learned.no_room);
        }
        if no_room > 0 {
            tracing::warn!(
                account,
                no_room,
                "an account lists more chats that nobody uses than are kept; further ones are passed over"
            );
            self.note_too_many_chats(account, now).await?;
        }
        self.note_listed(account, now).await?;
        passed_over += no_room;
        tracing::info!(account, told, new, passed_over, "an account told of its chats");
        Ok(Listed::Told { chats: told - no_room, new, passed_over })
    }
}

/// Asks accounts for their chats.
pub struct Chats<B = Store> {
    listings: Arc<Listings<B>>,
    /// The accounts that there were at the last look.
    known: BTreeSet<String>,
}

/// The lists of accounts' chats, as others ask for them.
pub struct Listings<B = Store> {
    world: World,
    book: B,
    channels: Arc<Channels>,
    accounts: watch::Sender<BTreeMap<String, Stand>>,
    nudge: Notify,
}

/// How the list of an account stands.
#[derive(Clone, Debug, Default)]
struct Stand {
    /// Since when somebody wants it.
    wanted: Option<Instant>,
    /// When the platform was asked last, and had answered or was given up.
    asked: Option<Instant>,
    /// It is not asked by itself before then.
    rests: Option<Instant>,
    came: Option<Listed>,
}

impl Stand {
    /// Whether the platform was asked so lately that it is not asked again.
    fn is_fresh(&self) -> bool {
        self.asked.is_some_and(|at| at.elapsed() < NOT_SOONER)
    }
}

impl Listings {
    #[must_use]
    pub fn new(world: World, store: Store, channels: Arc<Channels>) -> Self {
        Self::with(world, store, channels)
    }
}

impl<B: Book> Listings<B> {
    fn with(world: World, book: B, channels: Arc<Channels>) -> Self {
        Self { world, book, channels, accounts: watch::Sender::default(), nudge: Notify::new() }
    }

    /// Whether there is an account that was not asked within a minute.
    #[must_use]
    pub fn may_be_old(&self) -> bool {
        let all = self.accounts.borrow();
        let is_old = |account: &String| all.get(account).is_none_or(|stand| !stand.is_fresh());
        self.channels.accounts().iter().any(is_old)
    }

    /// Has all accounts asked, and waits `most` for their answers, counted from the first wish that is not fulfilled: a second
    /// wish waits no longer. Returns at once where all were asked within a minute.
    pub async fn want_all(&self, most: Duration) {
        self.want(&self.channels.accounts(), most).await;
    }

    /// The same of some accounts. Returns what came of it, and leaves out those that have not answered yet.
    pub async fn want(&self, accounts: &[String], most: Duration) -> BTreeMap<String, Listed> {
        let running = self.channels.accounts();
        let (accounts, gone): (Vec<&String>, Vec<&String>) =
            accounts.iter().partition(|account| running.contains(account));
        let (now, mut since, mut stands) = (Instant::now(), None, self.accounts.subscribe());
        self.accounts.send_if_modified(|all| {
            for account in &accounts {
                let stand = all.entry((*account).clone()).or_default();
                if !stand.is_fresh() {
                    let wanted = *stand.wanted.get_or_insert(now);
                    since = since.min(Some(wanted)).or(Some(wanted));
                }
            }
            false
        });
        if let Some(since) = since {
            self.nudge.notify_one();
            let answered = |all: &BTreeMap<String, Stand>| {
                accounts.iter().all(|account| all.get(*account).is_none_or(|stand| stand.wanted.is_none()))
            };
            // Those that have not answered are asked all the same.
            let _ = timeout_at(since + most, stands.wait_for(answered)).await;
        }
        let all = self.accounts.borrow();
        let came = |account: &String| {
            let stand = all.get(account).filter(|stand| stand.wanted.is_none())?;
            Some((account.clone(), stand.came.clone()?))
        };
        let offline = |account: &String| (account.clone(), Listed::Not(NotListed::Offline));
        accounts.into_iter().filter_map(came).chain(gone.into_iter().map(offline)).collect()
    }

    fn stand(&self, account: &str) -> Stand {
        self.accounts.borrow().get(account).cloned().unwrap_or_default()
    }

    /// Asks an account, and keeps what it tells.
    async fn ask(&self, account: &str) -> Result<(), StoreError> {
        let Some(channel) = self.channels.named(account) else {
            self.accounts.send_modify(|all| drop(all.remove(account)));
            return Ok(());
        };
        let before = self.stand(account);
        if before.is_fresh() {
            self.stands(account, before);
            return Ok(());
        }
        let told = timeout(WITHIN, channel.chats()).await;
        let now = Instant::now();
        let slow = || NotListed::Failed("the platform took too long".into());
        let (rest, kept) = match told.unwrap_or_else(|_| Err(slow())) {
            Ok(listing) => (None, self.book.keep(account, listing, self.world.now()).await),
            // Nobody was asked.
            Err(NotListed::Offline) => {
                self.stands(account, Stand { came: Some(Listed::Not(NotListed::Offline)), ..before });
                return Ok(());
            }
            Err(NotListed::Never) => (Some(NEVER_RESTS), Ok(Listed::Not(NotListed::Never))),
            Err(NotListed::Failed(why)) => {
                tracing::warn!(account, why, "an account did not tell of its chats");
                (Some(FAILED_RESTS), Ok(Listed::Not(NotListed::Failed(why))))
            }
        };
        let came = match &kept {
            Ok(came) => came.clone(),
            // Nobody waits until it is asked again.
            Err(_) => Listed::Not(NotListed::Failed("the host could not keep what it told".into())),
        };
        let rests = rest.map(|rest| now + rest);
        self.stands(account, Stand { asked: Some(now), rests, came: Some(came), ..before });
        kept.map(drop)
    }

    /// Tells all who wait how an account stands now.
    fn stands(&self, account: &str, stand: Stand) {
        self.accounts
            .send_modify(|all| drop(all.insert(account.to_owned(), Stand { wanted: None, ..stand })));
    }
}

impl<B: Book> Chats<B> {
    #[must_use]
    pub fn new(listings: Arc<Listings<B>>) -> Self {
        Self { listings, known: BTreeSet::new() }
    }
}

impl<B: Book> Loop for Chats<B> {
    const NAME: LoopName = LoopName::Chats;
    /// A platform that hangs keeps no other back.
    const AT_ONCE: usize = usize::MAX;
    /// The name of the account.
    type Key = String;
    type Job = ();
    type Hands = Listings<B>;

    fn hands(&self) -> Arc<Listings<B>> {
        Arc::clone(&self.listings)
    }

    async fn asked(&mut self) {
        self.listings.nudge.notified().await;
    }

    async fn look(&mut self, _: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let Listings { world, book, channels, .. } = &*self.listings;
        let accounts: BTreeSet<String> = channels.accounts().into_iter().collect();
        let forget = self.known.difference(&accounts).cloned().collect();
        let mut plan = Plan { forget, ..Plan::again(LOOK) };
        for account in &accounts {
            let stand = self.listings.stand(account);
            if stand.wanted.is_some() {
                plan.wake.push((account.clone(), ()));
            } else if stand.rests.is_none_or(|rests| rests <= Instant::now())
                && is_list_due(book.listed(account)?, world.now())
            {
                plan.begin.push((account.clone(), ()));
            }
        }
        self.known = accounts;
        Ok(plan)
    }

    async fn perform(
        listings: Arc<Listings<B>>,
        account: String,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        // The next daemon asks.
        stop.run_until_cancelled(listings.ask(&account)).await.transpose()?;
        Ok(Then::Done)
    }

    fn span(account: &String, (): &()) -> Span {
        tracing::error_span!("chats", account)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, future::ready, sync::Mutex};

    use futures_util::future::BoxFuture;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{
        channels::Channel,
        domain::platforms::{
            addresses::Platform,
            channels::{Outcome, Part, Traits},
            chats::{ChatInfo, ChatKind},
        },
        engine::{Drive, Loops},
    };

    /// What a platform answers.
    #[derive(Clone)]
    enum Does {
        Lists(usize),
        Not(NotListed),
        Hangs,
    }

    type Asked = Arc<Mutex<Vec<(u64, &'static str)>>>;

    /// A platform that answers what it is told to, in turn; then it lists a chat.
    struct Fake {
        name: &'static str,
        platform: Platform,
        began: Instant,
        does: Mutex<VecDeque<Does>>,
        asked: Asked,
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

        fn chats(&self) -> BoxFuture<'_, Result<Listing, NotListed>> {
            Box::pin(async {
                self.asked.lock().unwrap().push((self.began.elapsed().as_secs(), self.name));
                let does = self.does.lock().unwrap().pop_front();
                let count = match does.unwrap_or(Does::Lists(1)) {
                    Does::Not(why) => return Err(why),
                    Does::Hangs => return std::future::pending().await,
                    Does::Lists(count) => count,
                };
                let (kind, name) = (ChatKind::Group, "n".to_owned());
                let info = ChatInfo { name, kind, threaded: false, members: None, hears_all: None };
                let chats = (0..count).map(|n| (format!("{}:{n}", self.name), info.clone())).collect();
                Ok(Listing { chats, passed_over: 0 })
            })
        }
    }

    /// A book on this test's clock: the store takes real time.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<BTreeMap<String, usize>>>);

    impl Book for Told {
        fn listed(&self, account: &str) -> Result<Option<Time>, StoreError> {
            Ok(self.0.lock().unwrap().contains_key(account).then(|| World::real().now()))
        }

        async fn keep(&self, account: &str, listing: Listing, _: Time) -> Result<Listed, StoreError> {
            let before = self.0.lock().unwrap().insert(account.to_owned(), listing.chats.len());
            let chats = listing.chats.len();
            Ok(Listed::Told { chats, new: chats - before.unwrap_or(0).min(chats), passed_over: 0 })
        }
    }

    struct Town {
        _dir: tempfile::TempDir,
        store: Store,
        channels: Arc<Channels>,
        listings: Arc<Listings<Told>>,
        began: Instant,
        asked: Asked,
        stop: CancellationToken,
    }

    impl Town {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
            let channels = Arc::new(Channels::default());
            let listings = Listings::with(World::real(), Told::default(), Arc::clone(&channels));
            let (began, asked, stop) = (Instant::now(), Asked::default(), CancellationToken::new());
            Self { _dir: dir, store, channels, listings: Arc::new(listings), began, asked, stop }
        }

        fn add(&self, name: &'static str, does: &[Does]) {
            let (platform, asked) = (Platform::named(name), Arc::clone(&self.asked));
            let does = Mutex::new(does.iter().cloned().collect());
            self.channels.add(Box::new(Fake { name, platform, began: self.began, does, asked }));
        }

        fn drive(&self) -> JoinHandle<()> {
            let loops = Arc::new(Loops::new(World::real()));
            let drive = Drive { store: self.store.clone(), loops, stop: self.stop.clone() };
            tokio::spawn(drive.run(Chats::new(Arc::clone(&self.listings))))
        }

        /// Asks for one account's list; returns what came of it, and after how many seconds.
        async fn want(&self, name: &str) -> (Option<Listed>, u64) {
            let began = Instant::now();
            let mut came = self.listings.want(&[name.to_owned()], Duration::from_secs(5)).await;
            (came.remove(name), began.elapsed().as_secs())
        }

        /// Returns who was asked since, and when.
        fn was_asked(&self) -> Vec<(u64, &'static str)> {
            std::mem::take(&mut *self.asked.lock().unwrap())
        }

        async fn until(&self, sec: u64) {
            tokio::time::sleep_until(self.began + Duration::from_secs(sec)).await;
        }
    }

    fn told(chats: usize, new: usize) -> Option<Listed> {
        Some(Listed::Told { chats, new, passed_over: 0 })
    }

    fn not(why: NotListed) -> Option<Listed> {
        Some(Listed::Not(why))
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_is_asked_by_itself_at_first_and_for_others_once_a_minute() {
        let town = Town::new();
        town.add("a", &[Does::Lists(2), Does::Lists(600)]);
        let driven = town.drive();
        town.until(50).await;
        assert_eq!(town.was_asked(), [(0, "a")]);
        // It was asked just now.
        assert_eq!((town.want("a").await, town.listings.may_be_old()), ((told(2, 2), 0), false));
        town.until(70).await;
        assert!(town.listings.may_be_old() && town.was_asked().is_empty(), "it was listed today");
        for _ in 0..100 {
            assert_eq!(town.want("a").await, (told(600, 598), 0));
        }
        assert_eq!(town.was_asked(), [(70, "a")]);
        assert_eq!(town.want("nobody").await, (not(NotListed::Offline), 0));
        town.stop.cancel();
        driven.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_or_is_away_keeps_nobody_waiting_and_is_tried_again_seldom() {
        let town = Town::new();
        town.add("a", &[Does::Not(NotListed::Offline), Does::Hangs]);
        town.add("b", &[Does::Not(NotListed::Never)]);
        town.add("c", &[Does::Not(NotListed::Failed("no".into()))]);
        let driven = town.drive();
        town.until(1).await;
        assert_eq!(town.was_asked(), [(0, "a"), (0, "b"), (0, "c")]);
        assert_eq!(town.want("b").await, (not(NotListed::Never), 0));
        assert_eq!(town.want("c").await, (not(NotListed::Failed("no".into())), 0));
        // One that was away was not asked.
        assert_eq!(town.want("a").await, (None, 5));
        assert_eq!(town.want("a").await, (None, 0), "nobody waits for the same again");
        assert_eq!(town.was_asked(), [(1, "a")]);
        town.until(122).await;
        let slow = NotListed::Failed("the platform took too long".into());
        assert_eq!(town.want("a").await, (not(slow), 0));
        town.until(3500).await;
        assert_eq!(town.was_asked(), []);
        town.until(3900).await;
        let asked = town.was_asked();
        let hours: Vec<(u64, &str)> = asked.iter().map(|(at, name)| (at / 3600, *name)).collect();
        assert_eq!(hours, [(1, "c"), (1, "a")], "{asked:?}");
        assert_eq!(town.want("c").await.0, told(1, 0));
        // One that never lists is asked a day later, in case its adapter is another one then.
        town.until(86_600).await;
        let asked = town.was_asked();
        assert!(asked.iter().any(|(at, name)| *name == "b" && *at >= 86_400), "{asked:?}");
        town.stop.cancel();
        driven.await.unwrap();
    }
}
