//! Makes the daily backup that the settings ask for. What became of it is in the store, so a restart makes up for one that was
//! missed.
//!
//! | a crash after | a restart |
//! |---|---|
//! | a backup has begun | makes one; the folder that is left of the first is removed by it |
//! | it has its name, `backup_done` is not written | makes one more |
//!
//! While the daemon lives and what became of a backup can't be written down, none is made.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ipc_handlers::Time;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    backup::{Shelved, WANTED, Wanted, has_room, put_on_shelf},
    config::{Backup, Config, Live},
    domain::{
        kept::backups::{AGAIN_MS, Due, First, Past, due},
        machine::loops::LoopName,
        shown::errors::chain,
    },
    engine::{Error, Loop, Plan, Sole, Then, Why, until_stop},
    store::{Store, StoreError},
    system::{locked::Locked as _, world::World},
};

pub use crate::backup::{OnShelf, on_the_shelf};

/// How soon a change of the clock is seen.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// When the last backup was made, or when there were to be some from then on.
pub(super) const DONE: &str = "backup_done";
/// When the last one failed since, and why: an instant in ms, a blank, a sentence.
pub(super) const FAILED: &str = "backup_failed";

/// Folders of groups that the last one lacks, for want of room: an instant in ms at which there was none, then a line for each folder.
const LACKS: &str = "backup_lacks";

/// Makes the daily backup.
pub struct Backups {
    work: Arc<Work>,
    /// Tells of changed settings.
    changes: watch::Receiver<Arc<Config>>,
    /// Tells that a person asks for a backup.
    asks: Arc<Notify>,
}

/// The parts that a backup works with.
pub struct Work {
    world: World,
    root: PathBuf,
    store: Store,
    config: Arc<Live>,
    /// What came of the last backup, until it is written down.
    unwritten: Mutex<Option<Outcome>>,
}

/// What came of a backup that was begun at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Made {
        at: Time,
        without: Vec<String>,
        /// When a person had asked for it, as it is stored.
        wanted: String,
    },
    Failed {
        at: Time,
        why: String,
    },
}

impl Backups {
    #[must_use]
    pub fn new(world: World, root: PathBuf, store: Store, config: Arc<Live>, asks: Arc<Notify>) -> Self {
        let changes = config.follow();
        let work = Work { world, root, store, config, unwritten: Mutex::default() };
        Self { work: Arc::new(work), changes, asks }
    }
}

impl Loop for Backups {
    const NAME: LoopName = LoopName::Backups;
    type Key = Sole;
    type Job = ();
    type Hands = Work;

    fn hands(&self) -> Arc<Work> {
        Arc::clone(&self.work)
    }

    async fn asked(&mut self) {
        tokio::select! {
            () = self.asks.notified() => {}
            changed = self.changes.changed() => {
                // Who changes them lives as long as we do.
                if changed.is_err() {
                    std::future::pending().await
                }
            }
        }
    }

    /// Says when something may be to be done. Work looks itself whether it is, as a backup may take longer than until then.
    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        let again = match self.work.due(self.work.world.now())? {
            Some(Due::NotBefore(at)) => {
                Duration::from_millis(at.ms_since(self.work.world.now()).max(0).unsigned_abs())
                    .min(LOOK_AGAIN)
            }
            Some(Due::Now) | None => LOOK_AGAIN,
        };
        Ok(Plan { begin: vec![(Sole, ())], again: Some(again), ..Plan::default() })
    }

    async fn perform(work: Arc<Work>, _: Sole, (): (), stop: CancellationToken) -> Result<Then, Error> {
        work.step(&stop).await?;
        Ok(Then::Done)
    }
}

impl Work {
    fn unwritten(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.unwritten.locked()
    }

    /// Whether a backup is due; `None`: the settings ask for none.
    fn due(&self, now: Time) -> Result<Option<Due>, StoreError> {
        let config = self.config.now();
        if config.backup.to.is_none() {
            return Ok(None);
        }
        Ok(Some(due(config.backup.at, &config.zones.of(None).zone, past(&self.store)?, now)))
    }

    /// Makes a backup if one is due.
    async fn step(&self, stop: &CancellationToken) -> Result<(), Error> {
        // Before it is written down that one was made, none is due.
        self.write_down().await?;
        let settings = self.config.now().backup.clone();
        let Some(to) = &settings.to else { return Ok(()) };
        let (now, to) = (self.world.now(), self.root.join(to));
        if past(&self.store)?.done.is_none() {
            self.store.set_meta(DONE, &now.0.to_string()).await?;
        }
        // One that is asked for from now on is another one.
        let wanted = self.store.meta(WANTED)?.unwrap_or_default();
        let makes = match self.due(now)? {
            Some(Due::Now) => true,
            Some(Due::NotBefore(_)) => self.could_be_whole(to.clone(), &settings, now, stop).await?,
            None => false,
        };
        if makes {
            self.make(to, &settings, (now, wanted), stop).await?;
        }
        Ok(())
    }

    /// Whether the last one lacks something that there is room for by now. It is looked for each hour.
    async fn could_be_whole(
        &self,
        to: PathBuf,
        settings: &Backup,
        now: Time,
        stop: &CancellationToken,
    ) -> Result<bool, Error> {
        let Some((looked, parts)) = lacks(&self.store)? else { return Ok(false) };
        if now.ms_since(looked) < AGAIN_MS && now >= looked {
            return Ok(false);
        }
        self.store.set_meta(LACKS, &format!("{}\n{}", now.0, parts.join("\n"))).await?;
        let has_room = self.work(settings, now, move |wanted| has_room(wanted, &to), stop).await;
        Ok(match has_room {
            None => false,
            Some(Ok(has_room)) => has_room,
            Some(Err(error)) => {
                tracing::warn!(error = %chain(error.as_ref()), "whether there is room for a whole backup can't be told; it is looked again in an hour");
                false
            }
        })
    }

    /// Makes a backup, and writes down what became of it. `wanted`: when a person had asked for it, as it is stored.
    async fn make(
        &self,
        to: PathBuf,
        settings: &Backup,
        (now, wanted): (Time, String),
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let keep = settings.keep;
        let made = self
            .work(settings, now, move |wanted| put_on_shelf(wanted, &to, keep, First::OfOneDay), stop)
            .await;
        let outcome = match made {
            // Its remains are removed by the next backup.
            None => return Ok(()),
            Some(Ok(Shelved { saved, removed })) => {
                tracing::info!(file = %saved.file.display(), bytes = saved.bytes, removed = removed.len(), "a backup is made");
                Outcome::Made { at: now, without: saved.without, wanted }
            }
            Some(Err(error)) => {
                let why = chain(error.as_ref());
                tracing::error!(error = %why, "the daily backup failed; it is tried again in an hour");
                Outcome::Failed { at: now, why }
            }
        };
        *self.unwritten() = Some(outcome);
        self.write_down().await
    }

    /// Writes down what became of the last backup, if that is not done yet.
    async fn write_down(&self) -> Result<(), Error> {
        let outcome = self.unwritten().clone();
        match outcome {
            None => return Ok(()),
            Some(Outcome::Made { at, without, wanted }) => {
                let lacks = match without.join("\n") {
                    none if none.is_empty() => none,
                    parts => format!("{}\n{parts}", at.0),
                };
                self.store.set_meta(LACKS, &lacks).await?;
                self.store.set_meta(DONE, &at.0.to_string()).await?;
                self.store.set_meta(FAILED, "").await?;
                // One that is asked for meanwhile stays asked for.
                self.store.clear_meta(WANTED, &wanted).await?;
            }
            Some(Outcome::Failed { at, why }) => {
                self.store.set_meta(FAILED, &format!("{} {why}", at.0)).await?;
            }
        }
        *self.unwritten() = None;
        Ok(())
    }

    /// Works on a thread that gives way to everybody. `None`: the daemon stops.
    async fn work<T: Send + 'static>(
        &self,
        settings: &Backup,
        now: Time,
        work: impl FnOnce(Wanted<'_>) -> anyhow::Result<T> + Send + 'static,
        stop: &CancellationToken,
    ) -> Option<anyhow::Result<T>> {
        let (root, with_secrets) = (self.root.clone(), settings.with_secrets);
        let min_free = self.config.now().limits.min_free_bytes;
        let work = move || work(Wanted { root: &root, with_secrets, min_free, now });
        let made = until_stop(stop, self.world.at_leisure("backup", work)).await?;
        Some(made.unwrap_or_else(|error| Err(error.into())))
    }
}

fn past(store: &Store) -> Result<Past, StoreError> {
    let time = |text: &str| text.split(' ').next().and_then(|ms| ms.parse().ok()).map(Time);
    Ok(Past {
        done: store.meta(DONE)?.as_deref().and_then(time),
        failed: store.meta(FAILED)?.as_deref().and_then(time),
        wanted: store.meta(WANTED)?.as_deref().and_then(time),
    })
}

/// How the daily backup stands, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    pub past: Past,
    /// When the next one is due.
    pub next: Due,
    /// Why the last one failed.
    pub failure: Option<String>,
    /// Folders of groups that the last one lacks, and when there was no room for them.
    pub lacks: Option<(Time, Vec<String>)>,
}

/// Returns how the daily backup stands; `None`: the settings ask for none.
///
/// # Errors
/// The store's.
pub fn stand(store: &Store, config: &Config, now: Time) -> Result<Option<Stand>, StoreError> {
    if config.backup.to.is_none() {
        return Ok(None);
    }
    let past = past(store)?;
    let next = due(config.backup.at, &config.zones.of(None).zone, past, now);
    Ok(Some(Stand { past, next, failure: failure(store)?, lacks: lacks(store)? }))
}

/// Why the last daily backup failed; `None`: it did not.
pub(super) fn failure(store: &Store) -> Result<Option<String>, StoreError> {
    let failed = store.meta(FAILED)?;
    Ok(failed.and_then(|text| text.split_once(' ').map(|(_, why)| why.to_owned())))
}

/// Folders of groups that the last daily backup lacks, and when there was no room for them; `None`: it has all.
pub(super) fn lacks(store: &Store) -> Result<Option<(Time, Vec<String>)>, StoreError> {
    let lacks = store.meta(LACKS)?.unwrap_or_default();
    let mut lines = lacks.split('\n');
    let at = lines.next().and_then(|ms| ms.parse().ok()).map(Time);
    Ok(at.map(|at| (at, lines.map(str::to_owned).collect())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Environment;

    fn files(at: &Path) -> usize {
        rustix::fs::Dir::new(
            rustix::fs::open(at, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap(),
        )
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type() == rustix::fs::FileType::RegularFile)
        .count()
    }

    #[tokio::test]
    async fn a_backup_that_cant_be_written_down_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        rustix::fs::mkdir(root.join("data"), rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
        let store = Store::open(&root.join("data/g2.sqlite")).unwrap();
        let mut config = crate::config::Config::defaults(&Environment::default()).unwrap();
        config.backup.to = Some("shelf".into());
        config.limits.min_free_bytes = 0;
        let settings = config.backup.clone();
        let live = Arc::new(Live::new(root.to_owned(), Environment::default(), config));
        let backups = Backups::new(World::real(), root.to_owned(), store.clone(), live, Arc::default());
        let (work, stop) = (&backups.work, CancellationToken::new());
        // The last one was made long ago.
        store.set_meta(DONE, "0").await.unwrap();
        assert_eq!(work.due(work.world.now()).unwrap(), Some(Due::Now));

        store.breaks("meta").await.unwrap();
        let now = work.world.now();
        work.make(root.join("shelf"), &settings, (now, String::new()), &stop).await.unwrap_err();
        assert!(matches!(&*work.unwritten(), Some(Outcome::Made { .. })), "{:?}", work.unwritten());
        work.step(&stop).await.unwrap_err();
        assert_eq!(files(&root.join("shelf")), 1);
        store.is_mended("meta").await.unwrap();
        work.step(&stop).await.unwrap();
        assert_eq!((files(&root.join("shelf")), &*work.unwritten()), (1, &None));
        assert_eq!(store.meta(DONE).unwrap(), Some(now.0.to_string()));
        assert!(matches!(work.due(work.world.now()).unwrap(), Some(Due::NotBefore(_))));

        // One that is asked for while another one is made stays asked for.
        store.set_meta(WANTED, "2").await.unwrap();
        for (made_for, left) in [("", "2"), ("1", "2"), ("2", "")] {
            *work.unwritten() =
                Some(Outcome::Made { at: now, without: Vec::new(), wanted: made_for.to_owned() });
            work.write_down().await.unwrap();
            assert_eq!(store.meta(WANTED).unwrap().as_deref(), Some(left), "{made_for:?}");
        }
    }
}
