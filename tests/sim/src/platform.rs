//! A chat platform: shows what the daemon sends, hands over what people do, and does both as badly as platforms do.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use g2::{
    channels::{Channel, Intake, Ran},
    domain::platforms::{
        addresses::Platform as Addresses,
        attachments::Attachment,
        channels::{Change, Found, NotSent, Outcome, Part, Scope, SentTwice, TextLimit, Traits, Unsent},
        parcels::Takes,
    },
    store::StoreError,
};
use ipc_handlers::Time;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    Calendar, Dice,
    people::{Answer, Card, Deed, Reply, about_card, about_question, asked_in},
    shaky::PANIC,
};

/// What a platform can do.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// What becomes of a part that is sent twice.
    pub twice: SentTwice,
    /// It changes what it shows.
    pub edits: bool,
    /// It shows reactions, and whether it has names for them.
    pub reacts: bool,
    pub names_signs: bool,
    pub buttons: bool,
    /// The length of a text, characters; 0: any.
    pub longest: usize,
    /// The largest file, bytes; 0: it takes none.
    pub files: u64,
}

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
    /// It hands over twice what somebody did.
    pub doubles: u64,
    /// Its adapter panics.
    pub panics: u64,
}

impl Weather {
    pub const FAIR: Self =
        Self { loses_answers: 0, loses_parts: 0, is_busy: 0, fails: 0, hangs: 0, doubles: 0, panics: 0 };
    pub const FOUL: Self = Self {
        loses_answers: 40,
        loses_parts: 30,
        is_busy: 60,
        fails: 40,
        hangs: 10,
        doubles: 100,
        panics: 5,
    };
}

/// A part that people see.
#[derive(Clone, Debug)]
pub struct Shown {
    pub chat: String,
    pub key: String,
    /// The platform's id of it.
    pub id: String,
    /// The outbox row that it is of.
    pub row: i64,
    pub text: String,
    /// The bytes of its files.
    pub files: Vec<Vec<u8>>,
    /// It was taken away again.
    pub is_gone: bool,
    /// ms since the simulation began.
    pub at: u64,
}

/// A platform. Clones are the same.
#[derive(Clone)]
pub struct Platform(Arc<Inner>);

struct Inner {
    addresses: Addresses,
    kind: Kind,
    calendar: Calendar,
    dice: Dice,
    /// The daemon's `data/media`.
    media: PathBuf,
    /// When the wall clock is set, ms.
    jumps: Vec<u64>,
    all: Mutex<All>,
    comes: Notify,
}

struct All {
    weather: Weather,
    /// What people do that the daemon does not have yet: by when, and a number.
    waiting: BTreeMap<(u64, u64), Deed>,
    next: u64,
    /// The questions to which somebody has reacted: ours, and those of agents.
    asked: BTreeSet<i64>,
    asked_by_agents: BTreeSet<i64>,
    answers: Vec<Answer>,
    replies: Vec<Reply>,
    shown: Vec<Shown>,
    /// When each key was taken first, and under which id.
    keys: BTreeMap<String, (u64, String)>,
    /// Our reactions: on which message, by their id.
    signs: BTreeMap<String, String>,
    /// When a part was put off, and until when.
    put_off: BTreeMap<String, (u64, u64)>,
    broken: Vec<String>,
    story: Vec<(u64, String)>,
}

impl Platform {
    /// Returns a platform on which people do this, each at its time, ms. `media`: the folder in which the daemon keeps files.
    #[must_use]
    pub fn new(
        kind: Kind,
        calendar: Calendar,
        dice: Dice,
        (weather, jumps): (Weather, Vec<u64>),
        deeds: Vec<(u64, Deed)>,
        media: PathBuf,
    ) -> Self {
        let next = deeds.len() as u64;
        let waiting = (0..).zip(deeds).map(|(n, (at, deed))| ((at, n), deed)).collect();
        let all = All {
            weather,
            waiting,
            next,
            asked: BTreeSet::new(),
            asked_by_agents: BTreeSet::new(),
            answers: Vec::new(),
            replies: Vec::new(),
            shown: Vec::new(),
            keys: BTreeMap::new(),
            signs: BTreeMap::new(),
            put_off: BTreeMap::new(),
            broken: Vec::new(),
            story: Vec::new(),
        };
        let addresses = Addresses::named(kind.name);
        let (all, comes) = (Mutex::new(all), Notify::new());
        Self(Arc::new(Inner { addresses, kind, calendar, dice, media, jumps, all, comes }))
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

    /// Returns the answers that people gave to questions.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        self.all().answers.clone()
    }

    /// Returns what people said to questions of agents.
    #[must_use]
    pub fn replies(&self) -> Vec<Reply> {
        self.all().replies.clone()
    }

    /// Returns how many reactions of ours it shows.
    #[must_use]
    pub fn signs(&self) -> usize {
        self.all().signs.len()
    }

    /// Returns what must not be, and was.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.all().broken.clone()
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

    /// Returns what it can do.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns how many deeds the daemon does not know of yet.
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
        let files = part.files.iter().map(|file| self.read(file)).collect();
        let mut all = self.all();
        let key = part.key();
        if let SentTwice::Key { window_ms, .. } = self.0.kind.twice
            && let Some((since, id)) = all.keys.get(&key)
            && window_ms.is_none_or(|window| now.saturating_sub(*since) < window)
        {
            return id.clone();
        }
        let id = format!("p{}", all.shown.len());
        all.keys.insert(key.clone(), (now, id.clone()));
        let (chat, text) = (part.of.chat_jid.clone(), part.text.text.clone());
        let card = Card::of(&text).filter(|card| all.asked.insert(card.question));
        let asked = asked_in(&text).filter(|question| all.asked_by_agents.insert(*question));
        all.shown.push(Shown {
            chat: chat.clone(),
            key,
            id: id.clone(),
            row: part.of.id,
            text,
            files,
            is_gone: false,
            at: now,
        });
        let presses: Vec<String> = part.of.buttons.iter().map(|button| button.press.clone()).collect();
        if let Some(question) = asked {
            let replies = self.0.dice.with(|chance| about_question(chance, &chat, (question, &id), &presses));
            for (after, deed, reply) in replies {
                let n = all.next;
                all.next += 1;
                all.waiting.insert((now + after, n), deed);
                all.replies.push(reply);
            }
            self.0.comes.notify_one();
        }
        if let Some(card) = card {
            for (after, deed, answer) in self.0.dice.with(|chance| about_card(chance, &chat, card, &presses))
            {
                let n = all.next;
                all.next += 1;
                all.waiting.insert((now + after, n), deed);
                all.answers.push(answer);
            }
            self.0.comes.notify_one();
        }
        id
    }

    /// Returns what a file holds that goes with a part.
    #[expect(clippy::disallowed_methods, reason = "reads a root of our own, as a channel does")]
    fn read(&self, file: &Attachment) -> Vec<u8> {
        let Some(digest) = file.digest else { return Vec::new() };
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::read(self.0.media.join(&name[..2]).join(&name)).unwrap_or_default()
    }

    /// Has a call come to nothing, as platforms do.
    async fn stumbles(&self, name: &str) -> Result<(), Unsent> {
        self.latency().await;
        if self.per_mille(|weather| weather.panics) {
            self.tell(format!("{name}: the adapter panics"));
            std::panic::panic_any(PANIC);
        }
        if self.per_mille(|weather| weather.hangs) {
            self.tell(format!("{name}: no answer, for ever"));
            std::future::pending::<()>().await;
        }
        if self.per_mille(|weather| weather.is_busy) {
            let after_ms = 1 + self.0.dice.below(60_000);
            let now = self.0.calendar.passed();
            self.tell(format!("{name}: not within {after_ms} ms"));
            self.all().put_off.insert(name.to_owned(), (now, now + after_ms));
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
        Ok(())
    }

    /// Loses the answer to a call that was made.
    async fn answers_or_not(&self, name: &str) -> Result<(), Unsent> {
        self.latency().await;
        if self.per_mille(|weather| weather.loses_answers) {
            self.tell(format!("{name}: the answer is lost"));
            return Err(Unsent::Unknown("no answer".into()));
        }
        Ok(())
    }

    /// A daemon has died: the next one keeps to what the store says, that these rows are put off.
    pub(crate) fn forget_put_off(&self, but: &BTreeSet<i64>) {
        let is_of = |name: &String, row: &i64| name.starts_with(&format!("part {row}."));
        self.all().put_off.retain(|name, _| but.iter().any(|row| is_of(name, row)));
    }

    async fn sends(&self, part: Part<'_>) -> Outcome {
        let name = format!("part {} for {}", part.key(), part.of.chat_jid);
        let now = self.0.calendar.passed();
        let put_off = self.all().put_off.remove(&name);
        // A clock is set at most a second after it was to be.
        if let Some((since, until)) = put_off
            && now < until
            && !self.0.jumps.iter().any(|at| (since.saturating_sub(1_000)..=now).contains(at))
        {
            self.all()
                .broken
                .push(format!("{name} is sent at {now}, and the platform said: not before {until}"));
        }
        self.stumbles(&name).await?;
        let id = self.takes(&part);
        self.tell(format!("{name}: shown as {id}: {}", part.text.text));
        self.answers_or_not(&name).await?;
        Ok(vec![id])
    }

    async fn amends(&self, chat: &str, id: &str, change: Change) -> Outcome {
        let name = format!("change of {id} in {chat}");
        self.stumbles(&name).await?;
        let ids = self.changes(chat, id, &change);
        self.tell(format!("{name}: {change:?}"));
        self.answers_or_not(&name).await?;
        Ok(ids)
    }

    /// Changes what it shows. Returns the name of a reaction, where those have names.
    fn changes(&self, chat: &str, id: &str, change: &Change) -> Vec<String> {
        let mut all = self.all();
        let sign = if self.0.kind.names_signs { format!("sign of {id}") } else { format!("{chat} {id}") };
        match change {
            Change::Text(text) => {
                all.shown
                    .iter_mut()
                    .filter(|shown| shown.id == id)
                    .for_each(|shown| shown.text.clone_from(&text.text));
            }
            Change::Deleted if all.signs.remove(id).is_some() => {}
            Change::Deleted => {
                all.shown.iter_mut().filter(|shown| shown.id == id).for_each(|shown| shown.is_gone = true);
            }
            Change::Reaction(none) if none.is_empty() => drop(all.signs.remove(&sign)),
            Change::Reaction(_) => {
                all.signs.insert(sign.clone(), chat.to_owned());
                return if self.0.kind.names_signs { vec![sign] } else { Vec::new() };
            }
        }
        Vec::new()
    }

    /// Hands over what people do, until `stop`.
    async fn hands_over(&self, intake: &Intake) -> Ran {
        loop {
            let now = self.0.calendar.passed();
            let next = self.all().waiting.first_key_value().map(|(at, deed)| (*at, deed.clone()));
            let Some((at, deed)) = next else {
                self.0.comes.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.0.comes.notified() => continue,
                () = sleep(Duration::from_millis(at.0.saturating_sub(now))) => {}
            }
            self.latency().await;
            if self.per_mille(|weather| weather.panics) {
                self.tell("the adapter panics".into());
                std::panic::panic_any(PANIC);
            }
            if self.per_mille(|weather| weather.doubles) && hand_over(intake, deed.clone()).await.is_err() {
                return Ran::After(Duration::from_secs(1));
            }
            match hand_over(intake, deed).await {
                Ok(()) => drop(self.all().waiting.remove(&at)),
                Err(_) => return Ran::After(Duration::from_secs(1)),
            }
        }
    }
}

async fn hand_over(intake: &Intake, deed: Deed) -> Result<(), StoreError> {
    match deed {
        Deed::Writes(message) => intake.message(*message).await.map(drop),
        Deed::Marks(mark) => intake.mark(mark).await.map(drop),
        Deed::Presses { press, by } => intake.pressed(&press, &by).await.map(drop),
    }
}

impl Channel for Platform {
    fn platform(&self) -> &Addresses {
        &self.0.addresses
    }

    fn traits(&self) -> Traits {
        let Kind { twice, edits, reacts, buttons, longest, files, .. } = self.0.kind;
        Traits {
            sent_twice: twice,
            edits,
            reacts,
            buttons,
            growth_ms: 500,
            text: Some(TextLimit { max: longest, ..TextLimit::default() }),
            files: Takes { largest: files, together: 1, caption: 20 },
            ..Traits::default()
        }
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

    fn amend<'a>(&'a self, chat: &'a str, platform_id: &'a str, change: Change) -> BoxFuture<'a, Outcome> {
        self.amends(chat, platform_id, change).boxed()
    }

    fn look_for<'a>(&'a self, part: Part<'a>, _: Time) -> BoxFuture<'a, Found> {
        async move {
            self.latency().await;
            let can = match self.0.kind.twice {
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
