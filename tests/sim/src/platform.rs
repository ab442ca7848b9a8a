//! A chat platform: shows what the daemon sends, hands over what people write, and does both as badly as platforms do.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use g2::{
    channels::{Channel, Intake, Ran},
    domain::{
        platforms::{
            addresses::Platform as Addresses,
            channels::{Found, NotSent, Outcome, Part, Scope, SentTwice, Traits, Unsent},
        },
        rows::Inbound,
    },
};
use ipc_handlers::Time;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{Calendar, Dice};

/// A platform's behaviour: of 1 000 calls, the number of those in which it does each.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// It took a part, and its answer is lost.
    pub loses_answers: u64,
    /// It did not take it, and nobody hears of that.
    pub loses_parts: u64,
    /// It wants to be left alone.
    pub is_busy: u64,
    /// It did not take it, and says so.
    pub fails: u64,
    /// It never answers.
    pub hangs: u64,
    /// It hands a message over twice.
    pub doubles: u64,
}

impl Weather {
    pub const FAIR: Self =
        Self { loses_answers: 0, loses_parts: 0, is_busy: 0, fails: 0, hangs: 0, doubles: 0 };
    pub const FOUL: Self =
        Self { loses_answers: 40, loses_parts: 30, is_busy: 40, fails: 40, hangs: 10, doubles: 100 };
}

/// A part that people see.
#[derive(Clone, Debug)]
pub struct Shown {
    pub chat: String,
    pub key: String,
    /// The outbox row that it is of.
    pub row: i64,
    pub text: String,
    /// ms since the simulation began.
    pub at: u64,
}

/// A platform. Clones are the same.
#[derive(Clone)]
pub struct Platform(Arc<Inner>);

struct Inner {
    addresses: Addresses,
    twice: SentTwice,
    calendar: Calendar,
    dice: Dice,
    all: Mutex<All>,
    comes: Notify,
}

struct All {
    weather: Weather,
    /// What people wrote that the daemon does not have yet, with when.
    waiting: VecDeque<(u64, Inbound)>,
    shown: Vec<Shown>,
    /// When each key was taken first, and under which id.
    keys: BTreeMap<String, (u64, String)>,
    story: Vec<(u64, String)>,
}

impl Platform {
    /// Returns the platform called `name`, to whose chats people write these messages, each at its time, ms.
    #[must_use]
    pub fn new(
        name: &'static str,
        twice: SentTwice,
        calendar: Calendar,
        dice: Dice,
        weather: Weather,
        messages: Vec<(u64, Inbound)>,
    ) -> Self {
        let all = All {
            weather,
            waiting: messages.into(),
            shown: Vec::new(),
            keys: BTreeMap::new(),
            story: Vec::new(),
        };
        let addresses = Addresses::named(name);
        Self(Arc::new(Inner { addresses, twice, calendar, dice, all: Mutex::new(all), comes: Notify::new() }))
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults are over.
    pub fn calm(&self) {
        self.all().weather = Weather::FAIR;
    }

    /// Returns all that people see, in order.
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        self.all().shown.clone()
    }

    /// Returns what happened, with when, ms.
    #[must_use]
    pub fn story(&self) -> Vec<(u64, String)> {
        self.all().story.clone()
    }

    fn tell(&self, what: String) {
        let now = self.0.calendar.passed();
        self.all().story.push((now, what));
    }

    /// Returns how a part is told from others here.
    #[must_use]
    pub fn sent_twice(&self) -> SentTwice {
        self.0.twice
    }

    /// Returns how many messages the daemon does not have yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.all().waiting.len()
    }

    fn per_mille(&self, of: impl Fn(&Weather) -> u64) -> bool {
        let cases = of(&self.all().weather);
        self.0.dice.per_mille(cases)
    }

    async fn latency(&self) {
        sleep(Duration::from_millis(self.0.dice.below(200))).await;
    }

    /// Takes a part. Returns the platform's id of it.
    fn takes(&self, part: &Part<'_>) -> String {
        let now = self.0.calendar.passed();
        let mut all = self.all();
        let key = part.key();
        if let SentTwice::Key { window_ms, .. } = self.0.twice
            && let Some((since, id)) = all.keys.get(&key)
            && window_ms.is_none_or(|window| now.saturating_sub(*since) < window)
        {
            return id.clone();
        }
        let id = format!("p{}", all.shown.len());
        all.keys.insert(key.clone(), (now, id.clone()));
        let chat = part.of.chat_jid.clone();
        all.shown.push(Shown { chat, key, row: part.of.id, text: part.text.text.clone(), at: now });
        id
    }

    async fn sends(&self, part: Part<'_>) -> Outcome {
        self.latency().await;
        let name = format!("part {} for {}", part.key(), part.of.chat_jid);
        if self.per_mille(|weather| weather.hangs) {
            self.tell(format!("{name}: no answer, for ever"));
            std::future::pending::<()>().await;
        }
        if self.per_mille(|weather| weather.is_busy) {
            let after_ms = 1 + self.0.dice.below(20_000);
            return Err(Unsent::Not(NotSent::Busy { after_ms, scope: Scope::default() }));
        }
        if self.per_mille(|weather| weather.fails) {
            self.tell(format!("{name}: it did not work"));
            return Err(Unsent::again("it did not work"));
        }
        if self.per_mille(|weather| weather.loses_parts) {
            self.tell(format!("{name}: lost"));
            return Err(Unsent::Unknown("no answer".into()));
        }
        let id = self.takes(&part);
        self.tell(format!("{name}: shown as {id}: {}", part.text.text));
        self.latency().await;
        if self.per_mille(|weather| weather.loses_answers) {
            self.tell(format!("{name}: the answer is lost"));
            return Err(Unsent::Unknown("no answer".into()));
        }
        Ok(vec![id])
    }

    /// Hands over what people write, until `stop`.
    async fn hands_over(&self, intake: &Intake) -> Ran {
        loop {
            let now = self.0.calendar.passed();
            let next = self.all().waiting.front().map(|(at, message)| (*at, message.clone()));
            let Some((at, message)) = next else {
                self.0.comes.notified().await;
                continue;
            };
            sleep(Duration::from_millis(at.saturating_sub(now))).await;
            self.latency().await;
            if self.per_mille(|weather| weather.doubles) && intake.message(message.clone()).await.is_err() {
                return Ran::After(Duration::from_secs(1));
            }
            match intake.message(message).await {
                Ok(_) => drop(self.all().waiting.pop_front()),
                Err(_) => return Ran::After(Duration::from_secs(1)),
            }
        }
    }
}

impl Channel for Platform {
    fn platform(&self) -> &Addresses {
        &self.0.addresses
    }

    fn traits(&self) -> Traits {
        Traits { sent_twice: self.0.twice, ..Traits::default() }
    }

    fn run(&self, intake: Intake, stop: CancellationToken) -> BoxFuture<'_, Ran> {
        async move {
            let stopped = stop.clone();
            stopped.run_until_cancelled(self.hands_over(&intake)).await.unwrap_or(Ran::Stopped)
        }
        .boxed()
    }

    fn send<'a>(&'a self, part: Part<'a>) -> BoxFuture<'a, Outcome> {
        self.sends(part).boxed()
    }

    fn look_for<'a>(&'a self, part: Part<'a>, _: Time) -> BoxFuture<'a, Found> {
        async move {
            self.latency().await;
            let can = match self.0.twice {
                SentTwice::Readback => true,
                SentTwice::Key { readback, .. } => readback,
                SentTwice::Never => false,
            };
            self.tell(format!("part {} for {}: looked for", part.key(), part.of.chat_jid));
            match self.all().keys.get(&part.key()) {
                _ if !can => Found::CannotTell("this platform can't be asked".into()),
                Some((_, id)) => Found::Has(vec![id.clone()]),
                None => Found::HasNot,
            }
        }
        .boxed()
    }
}
