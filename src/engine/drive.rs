//! One loop, driven: look, begin, wait, and again.

use std::sync::Arc;

use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    Blame, Error, Feed, Loop, Plan, Read, Why,
    keys::{Exit, Keys, Wish, rest_after},
    registry::{Loops, MOST_NAMED, Release, Seen},
};
use crate::{
    domain::{machine::loops::KeyState, shown::errors::chain},
    system::panics::caught,
};

/// The most events that are kept for a look. Beyond them it looks at everything.
const MOST_EVENTS: usize = 4096;

/// Drives a loop until the daemon stops.
pub async fn run<L: Loop>(this: L, feed: Feed, loops: &Loops, stop: CancellationToken) {
    let (seen, releases) = loops.enter(L::NAME, L::LOOKS_WITHIN, !L::OUTLIVES_PANICS);
    let why = Why { all: true, ..Why::default() };
    let mut driven = Driven {
        hands: this.hands(),
        this,
        seen,
        releases,
        keys: Keys::new(L::AT_ONCE, L::RESTS_AT_MOST, L::SETS_ASIDE),
        tasks: JoinSet::new(),
        why,
        due: Some(Instant::now()),
        timer: None,
        again: None,
        looked: None,
        failures: 0,
        parts_failed: 0,
        feed_failures: 0,
        feed_again: None,
        stop,
    };
    driven.run(feed).await;
}

struct Driven<L: Loop> {
    this: L,
    hands: Arc<L::Hands>,
    seen: Arc<Seen>,
    releases: mpsc::UnboundedReceiver<Release>,
    keys: Keys<L::Key, L::Job>,
    tasks: JoinSet<(L::Key, Exit)>,
    why: Why<L::Key>,
    /// When it is to be looked next, and when by the time that it named, or after a failure.
    due: Option<Instant>,
    timer: Option<Instant>,
    /// When a part is to be read again that could not be.
    again: Option<Instant>,
    /// When the last look ended.
    looked: Option<Instant>,
    /// Looks that failed in a row, and looks a part of which did.
    failures: u32,
    parts_failed: u32,
    /// The same of the feed, and when it is read again.
    feed_failures: u32,
    feed_again: Option<Instant>,
    stop: CancellationToken,
}

/// Whether a loop is driven on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    /// The daemon stops.
    Stops,
    /// It can't go on after a panic.
    Ends,
}

impl<L: Loop> Driven<L> {
    async fn run(&mut self, mut feed: Feed) {
        let mut goes = Goes::On;
        while goes == Goes::On {
            let now = Instant::now();
            if self.due.is_some_and(|due| due <= now) {
                goes = self.look().await;
                if goes != Goes::On {
                    break;
                }
            }
            self.begin();
            goes = self.wait(&mut feed).await;
        }
        // What follows from it is told to nobody any more.
        drop(feed);
        if goes == Goes::Stops {
            self.end().await;
        }
    }

    /// Waits until something happens.
    async fn wait(&mut self, feed: &mut Feed) -> Goes {
        let until = [self.due, self.keys.wakes_at(), self.feed_again].into_iter().flatten().min();
        let hears = self.failures == 0 && self.feed_again.is_none_or(|again| again <= Instant::now());
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Goes::Stops,
            Some((key, done)) = self.releases.recv() => {
                let is_it = |of: &L::Key| key.as_deref().is_none_or(|key| of.to_string() == key);
                let released = self.keys.release(is_it);
                if released > 0 {
                    tracing::info!("loop" = %L::NAME, key, released, "a person lets keys of a loop go on");
                }
                self.tell_keys();
                // The caller may have gone.
                let _ = done.send(released);
            }
            Some(ended) = self.tasks.join_next() => {
                let first = ended.into_iter();
                let others: Vec<_> = std::iter::from_fn(|| self.tasks.try_join_next()).flatten().collect();
                first.chain(others).for_each(|(key, exit)| self.ended(key, exit));
            }
            news = feed.next(), if hears => {
                self.feed_again = None;
                match news {
                    Ok(news) => {
                        self.feed_failures = 0;
                        self.why.all |= news.missed;
                        self.why.events.extend(news.events);
                        if self.why.events.len() > MOST_EVENTS {
                            self.why.all = true;
                            self.why.events.clear();
                        }
                    }
                    Err(error) => self.feed_failed(&error),
                }
                self.look_soon();
            }
            () = self.this.asked() => {
                self.why.asked = true;
                self.look_soon();
            }
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                if self.feed_again.is_some_and(|again| again <= Instant::now()) {
                    self.feed_again = None;
                }
            }
        }
        Goes::On
    }

    /// Something happened: it looks, unless a look has just failed, or was just made.
    fn look_soon(&mut self) {
        if self.failures > 0 {
            return;
        }
        let now = Instant::now();
        let at = self.looked.map_or(now, |looked| now.max(looked + L::NOT_SOONER));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    async fn look(&mut self) -> Goes {
        let now = Instant::now();
        self.why.again |= self.again.is_some_and(|again| again <= now);
        self.why.time |= self.timer.is_some_and(|timer| timer <= now);
        self.seen.looks();
        let looking = caught(self.this.look(&self.why));
        let looked = if L::FINISHES_LOOKS {
            looking.await
        } else {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Goes::Stops,
                looked = looking => looked,
            }
        };
        let plan = match looked {
            Ok(Ok(plan)) => plan,
            Ok(Err(error)) => {
                self.look_failed(&error);
                return Goes::On;
            }
            Err(panic) => {
                tracing::error!("loop" = %L::NAME, fault = %chain(&panic), "our own fault: a loop panicked over a look");
                self.look_failed(&Error::ours(&panic));
                return if L::OUTLIVES_PANICS { Goes::On } else { Goes::Ends };
            }
        };
        self.looked_well(plan);
        Goes::On
    }

    fn looked_well(&mut self, plan: Plan<L::Key, L::Job>) {
        let Plan { begin, wake, forget, again, read } = plan;
        let now = Instant::now();
        self.looked = Some(now);
        self.why = Why::default();
        let could_not = std::mem::take(&mut self.failures) > 0;
        match &read {
            Read::All => {
                (self.parts_failed, self.again) = (0, None);
            }
            Read::NotTried => {}
            Read::Failed(error) => {
                // What fails later does not put off what failed before.
                if self.again.is_none_or(|again| again <= now) {
                    self.parts_failed = self.parts_failed.saturating_add(1);
                    self.again = Some(now + rest_after(self.parts_failed, L::LOOKS_AGAIN_WITHIN));
                    // Not for each look in between: anybody can bring one about.
                    if self.parts_failed.is_power_of_two() {
                        log_failed::<L>(error, self.parts_failed);
                    }
                }
            }
        }
        match read {
            Read::Failed(error) => drop(self.seen.looked(Some(&error), true)),
            Read::All => {
                if self.seen.looked(None, self.feed_failures == 0).is_some() && could_not {
                    tracing::info!("loop" = %L::NAME, "a loop can look again");
                }
            }
            Read::NotTried => {
                self.seen.looked(None, self.again.is_none() && self.feed_failures == 0);
            }
        }
        self.timer = [again.map(|after| now + after), self.again].into_iter().flatten().min();
        self.due = self.timer;
        forget.iter().for_each(|key| self.keys.forget(key));
        begin.into_iter().for_each(|(key, job)| self.keys.want(key, job, Wish::Listed));
        wake.into_iter().for_each(|(key, job)| self.keys.want(key, job, Wish::New));
    }

    /// It can't look now: the reason stays, and it looks again after a rest.
    fn look_failed(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        if self.failures.is_power_of_two() {
            log_failed::<L>(error, self.failures);
        }
        self.seen.looked(Some(error), true);
        self.timer = Some(Instant::now() + rest_after(self.failures, L::LOOKS_AGAIN_WITHIN));
        self.due = self.timer;
    }

    /// The feed can't be read now. Meanwhile everything is read without it.
    fn feed_failed(&mut self, error: &Error) {
        self.feed_failures = self.feed_failures.saturating_add(1);
        self.feed_again = Some(Instant::now() + rest_after(self.feed_failures, L::LOOKS_AGAIN_WITHIN));
        self.why.all = true;
        self.seen.looked(Some(error), true);
        if self.feed_failures.is_power_of_two() {
            log_failed::<L>(error, self.feed_failures);
        }
    }

    /// Begins work for keys that wait, as far as there are places.
    fn begin(&mut self) {
        let now = Instant::now();
        while let Some((key, job)) = self.keys.next(now) {
            let span = L::span(&key, &job);
            let work = L::perform(Arc::clone(&self.hands), key.clone(), job, self.stop.clone());
            let work = async move {
                let exit = match caught(work).await {
                    Ok(Ok(then)) => Exit::Then(then),
                    Ok(Err(error)) => Exit::Failed(error),
                    Err(panic) => Exit::Panicked(chain(&panic)),
                };
                (key, exit)
            };
            self.tasks.spawn(work.instrument(span));
        }
        self.seen.counts(self.keys.count());
    }

    fn ended(&mut self, key: L::Key, exit: Exit) {
        let had_failed = self.keys.trouble(&key).is_some();
        let failed = match &exit {
            Exit::Then(_) => false,
            Exit::Failed(_) | Exit::Panicked(_) => true,
        };
        self.keys.ended(&key, exit, Instant::now());
        if failed {
            self.seen.failed();
            self.log_key(&key);
        }
        if failed || had_failed {
            self.tell_keys();
        }
        if L::LOOKS_AT_ENDS {
            if !self.keys.has(&key) {
                self.why.ended.push(key);
                self.look_soon();
            } else if failed {
                self.why.failed.push(key);
                self.look_soon();
            }
        }
    }

    fn log_key(&self, key: &L::Key) {
        let Some(trouble) = self.keys.trouble(key) else { return };
        let (failures, why) = (trouble.failures, trouble.why.why);
        match (trouble.aside, trouble.why.blame) {
            (true, _) => {
                tracing::error!("loop" = %L::NAME, %key, failures, why, "our own fault: work fails again and again, and is set aside; `g2 loops release` lets it go on");
            }
            (false, Blame::Ours) => {
                tracing::error!("loop" = %L::NAME, %key, failures, why, "our own fault: work failed; it is tried again");
            }
            // Said seldom, however long the world is in the way.
            (false, Blame::World) if failures.is_power_of_two() => {
                tracing::warn!("loop" = %L::NAME, %key, failures, why, "work failed; it is tried again");
            }
            (false, Blame::World) => {}
        }
    }

    fn tell_keys(&self) {
        let told = self.keys.troubles(MOST_NAMED).into_iter().map(|trouble| KeyState {
            key: trouble.key.to_string(),
            failures: trouble.failures,
            aside: trouble.aside,
            why: trouble.why.why,
        });
        self.seen.keys(told.collect());
    }

    /// The daemon stops: waits for work under way, and names what is not finished.
    async fn end(&mut self) {
        self.this.stops();
        let tasks = &mut self.tasks;
        let keys = &mut self.keys;
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                if let Ok((key, exit)) = ended {
                    keys.ended(&key, exit, Instant::now());
                }
            }
        };
        if timeout(L::FINISHES_WITHIN, all).await.is_err() {
            for key in self.keys.at_work() {
                tracing::warn!("loop" = %L::NAME, %key, "work was not finished before the stop; the next start does it");
            }
            self.tasks.shutdown().await;
        }
        if let Err(panic) = caught(self.this.finish()).await {
            tracing::error!("loop" = %L::NAME, fault = %chain(&panic), "our own fault: a loop panicked over its end");
        }
    }
}

fn log_failed<L: Loop>(error: &Error, failures: u32) {
    match error.blame {
        Blame::World => {
            tracing::warn!("loop" = %L::NAME, error = %chain(error), "a loop can't look; it looks again after a rest");
        }
        Blame::Ours => {
            tracing::error!("loop" = %L::NAME, failures, error = %chain(error), "our own fault: a loop can't look; it looks again after a rest");
        }
    }
}
