//! The world of a simulated daemon: a clock that jumps, chance by a seed, and one thread that does all work in an order of the
//! seed's.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use g2::system::world::{Actor, Bell, Chance as GivesChance, Clock, Hands, Haste, Work, World};
use ipc_handlers::Time;
use tokio::{sync::Notify, time::sleep};

use crate::{
    Chance, Life,
    piece::{self, Piece},
};

/// The time of one simulation, over all lives of its daemon.
#[derive(Clone, Debug)]
pub struct Calendar(Arc<Mutex<Days>>);

#[derive(Debug)]
struct Days {
    /// The instant at which the simulation begins, ms since the epoch.
    begins: i64,
    /// The time that had passed when this life began, ms.
    before: u64,
    /// When this life began, by the clock of its runtime.
    since: tokio::time::Instant,
    /// By how much the wall clock is wrong, ms.
    jumped: i64,
}

impl Calendar {
    /// Begins now, which the wall clock calls `begins`, ms since the epoch. In a runtime.
    #[must_use]
    pub fn new(begins: i64) -> Self {
        let since = tokio::time::Instant::now();
        Self(Arc::new(Mutex::new(Days { begins, before: 0, since, jumped: 0 })))
    }

    fn days(&self) -> MutexGuard<'_, Days> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how much time has passed since the simulation began, ms.
    #[must_use]
    pub fn passed(&self) -> u64 {
        let days = self.days();
        days.before + ms(tokio::time::Instant::now().saturating_duration_since(days.since))
    }

    /// A new runtime begins, `gone` ms after the last one ended at `passed`. In the new runtime.
    pub fn goes_on(&self, passed: u64, gone: u64) {
        let mut days = self.days();
        days.before = passed + gone;
        days.since = tokio::time::Instant::now();
    }

    /// The wall clock is set, by this many ms.
    pub fn jump(&self, by: i64) {
        self.days().jumped += by;
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Clock for Calendar {
    fn now(&self) -> Time {
        let passed = i64::try_from(self.passed()).unwrap_or(i64::MAX);
        let days = self.days();
        Time(days.begins + passed + days.jumped)
    }

    fn monotonic(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// Chance that several parts draw from.
#[derive(Clone, Debug)]
pub struct Dice(Arc<Mutex<Chance>>);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Chance::new(seed))))
    }

    /// Returns dice of their own, which these decide.
    #[must_use]
    pub fn others(&self) -> Self {
        Self::new(self.chance().number())
    }

    /// Draws several numbers, one after the other.
    pub fn with<T>(&self, draws: impl FnOnce(&mut Chance) -> T) -> T {
        draws(&mut self.chance())
    }

    fn chance(&self) -> MutexGuard<'_, Chance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number below `bound`, which must not be 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.chance().below(bound)
    }

    /// Whether one of 1 000 cases came, `cases` of which are meant.
    #[must_use]
    pub fn per_mille(&self, cases: u64) -> bool {
        self.below(1000) < cases
    }

    /// Returns one of these.
    #[must_use]
    pub fn one<T: Copy>(&self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}

impl GivesChance for Dice {
    fn id(&self) -> io::Result<String> {
        let mut chance = self.chance();
        Ok(format!("{:016x}{:016x}", chance.number(), chance.number()))
    }
}

/// Does all work on the one thread there is: soon, or later. Clones are the same.
#[derive(Clone)]
pub struct OneThread(Arc<Queue>);

struct Queue {
    life: Life,
    dice: Dice,
    /// The number of slow pieces among 1 000 pieces of work.
    slow: u64,
    waiting: Mutex<VecDeque<(Duration, Work)>>,
    came: Notify,
}

impl OneThread {
    #[must_use]
    pub fn new(life: Life, dice: Dice, slow: u64) -> Self {
        let (waiting, came) = (Mutex::default(), Notify::new());
        Self(Arc::new(Queue { life, dice, slow, waiting, came }))
    }

    fn delay(&self) -> Duration {
        let ms = match self.0.dice.per_mille(self.0.slow) {
            true => self.0.dice.below(3_000),
            false => self.0.dice.below(2),
        };
        Duration::from_millis(ms)
    }

    fn next(&self) -> Option<(Duration, Work)> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Does the work, in the order of its delays, for as long as it is polled.
    pub async fn works(&self) {
        let mut pieces = FuturesUnordered::new();
        loop {
            while let Some((delay, work)) = self.next() {
                let life = self.0.life.clone();
                pieces.push(async move {
                    waits(delay).await;
                    if !life.is_over() {
                        Piece::new(work).done().await;
                    }
                });
            }
            tokio::select! {
                biased;
                () = self.0.came.notified() => {}
                Some(()) = pieces.next() => {}
            }
        }
    }
}

async fn waits(delay: Duration) {
    if delay.is_zero() {
        tokio::task::yield_now().await;
    } else {
        sleep(delay).await;
    }
}

impl Hands for OneThread {
    fn take(&self, _: Haste, _: &str, work: Work) -> io::Result<()> {
        let delay = self.delay();
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back((delay, work));
        self.0.came.notify_one();
        Ok(())
    }

    fn begin(&self, _: &str, mut actor: Box<dyn Actor>) -> io::Result<Bell> {
        let heard = Arc::new(Notify::new());
        let bell = Bell::heard_by(Arc::clone(&heard));
        let pace = Self::new(self.0.life.clone(), self.0.dice.others(), self.0.slow);
        tokio::spawn(async move {
            while !pace.0.life.is_over() {
                match actor.turn(false) {
                    None => return,
                    Some(Duration::ZERO) => waits(pace.delay()).await,
                    Some(rest) => {
                        // Nothing that it waits for takes longer.
                        let rest = rest.min(Duration::from_secs(86_400));
                        let _ = tokio::time::timeout(rest, heard.notified()).await;
                        waits(pace.delay()).await;
                    }
                }
            }
        });
        Ok(bell)
    }

    fn wait(&self, work: Pin<&mut dyn Future<Output = ()>>) {
        piece::wait(work);
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn end_as_broken(&self) {
        self.0.life.end("it ended by a fault of its own");
    }
}

/// Returns the world of one life, and what does its work.
#[must_use]
pub fn world(calendar: &Calendar, dice: &Dice, life: &Life, slow: u64) -> (World, OneThread) {
    let hands = OneThread::new(life.clone(), dice.others(), slow);
    let world = World::of(Arc::new(calendar.clone()), Arc::new(dice.others()), Arc::new(hands.clone()));
    (world, hands)
}
