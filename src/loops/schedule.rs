//! Sleeps until the next task is due, then has `dispatch` look for due tasks; looks again whenever tasks change, and each
//! minute whether the clocks did: the machine's clock, its zone, the rules of the zones.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Live, ZoneSource},
    domain::host::{
        clocks::{Clocks, Jump, Reading},
        errors::chain,
        feed::EventKind,
        zone::Zones,
    },
    store::{Result, Store},
    system::clock,
};

/// However far off the next task is, the clocks are looked at this often: they may have been set.
const LONGEST_SLEEP_MS: i64 = 60_000;

/// How often the zone's data are looked at, at most: tasks may change all the time.
const ZONES_EVERY: Duration = Duration::from_secs(1);

/// The clocks by which tasks run.
pub struct Watched {
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
}

impl Watched {
    /// Begins to watch, and finds anew when tasks run if the clocks changed since they were noted last.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn begin(store: Store, config: Arc<Live>) -> Result<Self> {
        let (zones, source) = (config.now().zones.clone(), config.now().zone_source.clone());
        let zone = zones.of(None).name;
        let stamp = source.stamp(&zone);
        let reading = Reading { clock: clock::now(), steady_ms: 0 };
        let owed = store.clocks_changed(&zone, &stamp, reading.clock)?;
        let began = clock::monotonic();
        let mut watched = Self {
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
        };
        watched.find_anew().await?;
        Ok(watched)
    }

    /// Looks whether the clocks changed, and finds anew when tasks run if they did.
    async fn look(&mut self) -> Result<()> {
        let steady = clock::monotonic().duration_since(self.began).as_millis();
        let now = Reading { clock: clock::now(), steady_ms: i64::try_from(steady).unwrap_or(i64::MAX) };
        match self.reading.jump_to(now) {
            Jump::None => {}
            Jump::Forward { ms } => tracing::info!(ms, "the clock went forward, or the machine slept"),
            Jump::Back { ms } => {
                tracing::warn!(ms, "the clock was set back; the times of tasks are found anew");
                self.owed = Some(Clocks::SetBack);
            }
        }
        self.reading = now;
        self.look_at_zones().await;
        if self.owed.is_some() { self.find_anew().await } else { Ok(()) }
    }

    /// Takes the zone and its rules anew if they changed.
    async fn look_at_zones(&mut self) {
        let zone = self.zones.of(None).name;
        let wanted = self.config.now().zone_source.clone();
        let is_set = wanted != self.source;
        let now = clock::monotonic();
        if !is_set && self.zones_looked.is_some_and(|last| now.duration_since(last) < ZONES_EVERY) {
            self.owes_zones = true;
            return;
        }
        (self.zones_looked, self.owes_zones) = (Some(now), false);
        self.source = wanted;
        let (source, named) = (self.source.clone(), zone.clone());
        let stamp = spawn_blocking(move || source.stamp(&named)).await.unwrap_or_else(|_| self.stamp.clone());
        if !is_set && stamp == self.stamp {
            return;
        }
        let source = self.source.clone();
        let newest = spawn_blocking(move || {
            let data = source.data();
            let zone = source.zone(&data);
            let stamp = source.stamp(&zone.name);
            (data, zone, stamp)
        });
        // A fault of ours changes nothing.
        if let Ok((data, everybodys, stamp)) = newest.await {
            self.zones.renew(data, &everybodys);
            let before = std::mem::replace(&mut self.stamp, stamp);
            let is_same = everybodys.name == zone;
            if is_same && before == self.stamp {
                return;
            }
            self.owed = Some(if is_same { Clocks::Data } else { Clocks::Zone });
            tracing::info!(
                zone = everybodys.name,
                "the zone or its rules changed; the times of tasks are found anew"
            );
        }
    }

    /// Finds anew when tasks run, a few at a time, and notes that this is done.
    async fn find_anew(&mut self) -> Result<()> {
        let mut after = self.owed.map(|_| 0);
        while let (Some(changed), Some(n)) = (self.owed, after) {
            after = self.store.read_clocks(changed, self.zones.clone(), n, clock::now()).await?;
        }
        self.store.note_clocks(&self.zones.of(None).name, &self.stamp).await?;
        self.owed = None;
        Ok(())
    }
}

/// Tells by `due` that tasks may be due, until the daemon stops.
pub async fn run(mut watched: Watched, due: Arc<Notify>, stop: CancellationToken) {
    let mut feed = watched.store.follow_kinds(&[EventKind::Task]).await;
    let mut changed = watched.config.follow();
    loop {
        if let Err(error) = watched.look().await {
            tracing::error!(error = %chain(&error), "finding anew when tasks run failed; it is tried again");
        }
        let now = clock::now();
        let sleep_ms = match watched.store.next_due(now) {
            Ok(Some(due)) => due.ms_since(now).clamp(0, LONGEST_SLEEP_MS),
            Ok(None) => LONGEST_SLEEP_MS,
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the next due task failed; looking again in a second");
                1000
            }
        };
        let mut sleep = Duration::from_millis(sleep_ms.unsigned_abs());
        if watched.owes_zones {
            sleep = sleep.min(ZONES_EVERY);
        }
        let sleep = tokio::time::sleep(sleep);
        tokio::select! {
            () = stop.cancelled() => return,
            _ = feed.next() => {}
            _ = changed.changed() => {}
            () = sleep => {}
        }
        due.notify_one();
    }
}
