//! Sleeps until the next task is due, then has `dispatch` look for due tasks; looks again whenever tasks change, and each
//! minute whether the clocks did: the machine's clock, its zone, the rules of the zones.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};

use crate::{
    config::{Config, Live, ZoneSource},
    domain::{
        machine::loops::LoopName,
        shown::feed::EventKind,
        time::{
            clocks::{Clocks, Jump, Reading},
            zone::Zones,
        },
    },
    engine::{Error, Loop, Plan, Read, Sole, Why},
    store::{Store, StoreError},
    system::{panics::Panicked, world::World},
};

/// However far off the next task is, the clocks are looked at this often: they may have been set.
const LONGEST_SLEEP_MS: i64 = 60_000;

/// How often the zone's data are looked at, at most: tasks may change all the time.
const ZONES_EVERY: Duration = Duration::from_secs(1);

/// The clocks by which tasks run.
pub struct Watched {
    world: World,
    store: Store,
    config: Arc<Live>,
    zones: Zones,
    source: ZoneSource,
    /// As they were when they were looked at last.
    stamp: String,
    reading: Reading,
    /// When the zone and its rules were looked at last, and whether that was left out since.
    zones_looked: Option<Instant>,
    owes_zones: bool,
    /// Where the steady clock began to count.
    began: Instant,
    /// What changed, while the times of tasks are still to be found anew.
    owed: Option<Clocks>,
    /// Finding that out, or the times of tasks, failed: it is tried again after a rest.
    has_failed: bool,
}

impl Watched {
    /// Begins to watch, and finds anew when tasks run if the clocks changed since they were noted last.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn begin(world: World, store: Store, config: Arc<Live>) -> Result<Self, StoreError> {
        let (zones, source) = (config.now().zones.clone(), config.now().zone_source.clone());
        let zone = zones.of(None).name;
        let stamp = source.stamp(&zone);
        let reading = Reading { clock: world.now(), steady_ms: 0 };
        let owed = store.clocks_changed(&zone, &stamp, reading.clock)?;
        let began = world.monotonic();
        let mut watched = Self {
            world,
            store,
            config,
            zones,
            source,
            stamp,
            reading,
            zones_looked: None,
            owes_zones: false,
            began,
            owed,
            has_failed: false,
        };
        watched.find_anew().await?;
        Ok(watched)
    }

    /// Looks whether the clocks changed, and finds anew when tasks run if they did. After that has failed, it is done `again` only
    /// where the time for it has come.
    async fn look(&mut self, again: bool) -> Read {
        let steady = self.world.monotonic().duration_since(self.began).as_millis();
        let now = Reading { clock: self.world.now(), steady_ms: i64::try_from(steady).unwrap_or(i64::MAX) };
        match self.reading.jump_to(now) {
            Jump::None => {}
            Jump::Forward { ms } => tracing::info!(ms, "the clock went forward, or the machine slept"),
            Jump::Back { ms } => {
                tracing::warn!(ms, "the clock was set back; the times of tasks are found anew");
                self.owed = Some(Clocks::SetBack);
            }
        }
        self.reading = now;
        if self.has_failed && !again {
            return Read::NotTried;
        }
        match self.take_anew().await {
            Ok(()) => {
                self.has_failed = false;
                Read::All
            }
            Err(error) => {
                self.has_failed = true;
                Read::Failed(error)
            }
        }
    }

    /// Takes the zone and its rules anew if they changed, and the times of tasks if anything did.
    async fn take_anew(&mut self) -> Result<(), Error> {
        self.look_at_zones().await?;
        if self.owed.is_some() {
            self.find_anew().await?;
        }
        Ok(())
    }

    /// Takes the zone and its rules anew if they changed.
    async fn look_at_zones(&mut self) -> Result<(), Panicked> {
        let zone = self.zones.of(None).name;
        let wanted = self.config.now().zone_source.clone();
        let is_set = wanted != self.source;
        let now = self.world.monotonic();
        let was_looked = self.zones_looked.is_some_and(|last| now.duration_since(last) < ZONES_EVERY);
        if !is_set && was_looked && !self.has_failed {
            self.owes_zones = true;
            return Ok(());
        }
        (self.zones_looked, self.owes_zones) = (Some(now), false);
        let (source, named, known) = (wanted.clone(), zone.clone(), self.stamp.clone());
        let newest = self.world.blocking(move || {
            if !is_set && source.stamp(&named) == known {
                return None;
            }
            let data = source.data();
            let zone = source.zone(&data);
            let stamp = source.stamp(&zone.name);
            Some((data, zone, stamp))
        });
        let newest = newest.await?;
        self.source = wanted;
        let Some((data, everybodys, stamp)) = newest else { return Ok(()) };
        self.zones.renew(data, &everybodys);
        let before = std::mem::replace(&mut self.stamp, stamp);
        let is_same = everybodys.name == zone;
        if is_same && before == self.stamp {
            return Ok(());
        }
        self.owed = Some(if is_same { Clocks::Data } else { Clocks::Zone });
        tracing::info!(
            zone = everybodys.name,
            "the zone or its rules changed; the times of tasks are found anew"
        );
        Ok(())
    }

    /// Finds anew when tasks run, a few at a time, and notes that this is done.
    async fn find_anew(&mut self) -> Result<(), StoreError> {
        let mut after = self.owed.map(|_| 0);
        while let (Some(changed), Some(n)) = (self.owed, after) {
            after = self.store.read_clocks(changed, self.zones.clone(), n, self.world.now()).await?;
        }
        self.store.note_clocks(&self.zones.of(None).name, &self.stamp).await?;
        self.owed = None;
        Ok(())
    }
}

/// Tells by `due` that tasks may be due.
pub struct Schedule {
    clocks: Watched,
    due: Arc<Notify>,
    /// Tells of changed settings.
    changes: watch::Receiver<Arc<Config>>,
}

impl Schedule {
    #[must_use]
    pub fn new(clocks: Watched, due: Arc<Notify>) -> Self {
        let changes = clocks.config.follow();
        Self { clocks, due, changes }
    }
}

impl Loop for Schedule {
    const NAME: LoopName = LoopName::Schedule;
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    const FOLLOWS: &'static [EventKind] = &[EventKind::Task];
    type Key = Sole;
    type Job = ();
    type Hands = ();

    fn hands(&self) -> Arc<()> {
        Arc::default()
    }

    async fn asked(&mut self) {
        // Who changes them lives as long as we do.
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    async fn look(&mut self, why: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        // Whatever fails below, what is due is begun.
        self.due.notify_one();
        let read = self.clocks.look(why.all || why.again).await;
        let now = self.clocks.world.now();
        let next = self.clocks.store.next_due(now).inspect_err(|_| {
            // The next look, which comes soon, tries that again, too.
            self.clocks.has_failed = false;
        })?;
        let sleep_ms = next.map_or(LONGEST_SLEEP_MS, |due| due.ms_since(now).clamp(0, LONGEST_SLEEP_MS));
        let sleep = Duration::from_millis(sleep_ms.unsigned_abs());
        let again = Some(if self.clocks.owes_zones { sleep.min(ZONES_EVERY) } else { sleep });
        Ok(Plan { again, read, ..Plan::default() })
    }
}
