//! Makes the daily backup that the settings ask for. What became of it is in the store, so a restart makes up for one that was
//! missed.
//!
//! | a crash after | a restart |
//! |---|---|
//! | a backup has begun | makes one; the folder that is left of the first is removed by it |
//! | it has its name, `backup_done` is not written | makes one more |

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow};
use ipc_handlers::Time;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    backup::{Shelved, Wanted, has_room, put_on_shelf},
    config::{Backup, Live},
    domain::host::{
        backups::{AGAIN_MS, Due, Past, due},
        errors::chain,
    },
    store::{Result, Store},
    system::{clock, failpoint, process},
};

/// How soon a change of the clock is seen.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// When the last backup was made, or when there were to be some from then on.
pub(super) const DONE: &str = "backup_done";
/// When the last one failed since, and why: an instant in ms, a blank, a sentence.
pub(super) const FAILED: &str = "backup_failed";

/// Folders of groups that the last one lacks, for want of room: an instant in ms at which there was none, then a line for each folder.
const LACKS: &str = "backup_lacks";

/// What is backed up.
pub struct Backups {
    pub root: PathBuf,
    pub store: Store,
    pub config: Arc<Live>,
    pub stop: CancellationToken,
}

/// Makes backups until the daemon stops.
pub async fn run(backups: Backups) {
    let mut changed = backups.config.follow();
    loop {
        let rest = match backups.step().await {
            Ok(rest) => rest.min(LOOK_AGAIN),
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading when the last backup was made failed; it is tried again");
                LOOK_AGAIN
            }
        };
        tokio::select! {
            () = backups.stop.cancelled() => return,
            _ = changed.changed() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

impl Backups {
    /// Makes a backup if one is due; returns how long nothing is to be done.
    async fn step(&self) -> Result<Duration> {
        let settings = self.config.now().backup.clone();
        let Some(to) = &settings.to else { return Ok(LOOK_AGAIN) };
        let now = clock::now();
        let past = past(&self.store)?;
        if past.done.is_none() {
            self.store.set_meta(DONE, &now.0.to_string()).await?;
        }
        match due(settings.at, &self.config.now().zones.of(None).zone, past, now) {
            Due::NotBefore(at) => {
                if self.could_be_whole(self.root.join(to), &settings, now).await? {
                    self.make(self.root.join(to), &settings, now).await?;
                }
                Ok(Duration::from_millis(at.ms_since(now).max(0).unsigned_abs()))
            }
            Due::Now => {
                self.make(self.root.join(to), &settings, now).await?;
                Ok(Duration::ZERO)
            }
        }
    }

    /// Whether the last one lacks something that there is room for by now. It is looked for each hour.
    async fn could_be_whole(&self, to: PathBuf, settings: &Backup, now: Time) -> Result<bool> {
        let Some((looked, parts)) = lacks(&self.store)? else { return Ok(false) };
        if now.ms_since(looked) < AGAIN_MS && now >= looked {
            return Ok(false);
        }
        self.store.set_meta(LACKS, &format!("{}\n{}", now.0, parts.join("\n"))).await?;
        let work = move |wanted: Wanted<'_>| has_room(wanted, &to);
        Ok(self.work(settings, now, work).await.is_some_and(|has_room| has_room.unwrap_or(false)))
    }

    /// Makes a backup, and writes down what became of it.
    async fn make(&self, to: PathBuf, settings: &Backup, now: Time) -> Result<()> {
        let keep = settings.keep;
        let made = self.work(settings, now, move |wanted| put_on_shelf(wanted, &to, keep)).await;
        match made {
            // What it leaves is removed by the next one.
            None => {}
            Some(Ok(Shelved { saved, removed })) => {
                tracing::info!(file = %saved.file.display(), bytes = saved.bytes, removed = removed.len(), "a backup is made");
                failpoint::reach("backup.unnoted");
                let lacks = match saved.without.join("\n") {
                    none if none.is_empty() => none,
                    parts => format!("{}\n{parts}", now.0),
                };
                self.store.set_meta(LACKS, &lacks).await?;
                self.store.set_meta(DONE, &now.0.to_string()).await?;
                self.store.set_meta(FAILED, "").await?;
            }
            Some(Err(error)) => {
                let why = chain(error.as_ref());
                tracing::error!(error = %why, "the daily backup failed; it is tried again in an hour");
                self.store.set_meta(FAILED, &format!("{} {why}", now.0)).await?;
            }
        }
        Ok(())
    }

    /// Works on a thread that gives way to everybody. `None`: the daemon stops.
    async fn work<T: Send + 'static>(
        &self,
        settings: &Backup,
        now: Time,
        work: impl FnOnce(Wanted<'_>) -> anyhow::Result<T> + Send + 'static,
    ) -> Option<anyhow::Result<T>> {
        let (done, made) = oneshot::channel();
        let (root, with_secrets) = (self.root.clone(), settings.with_secrets);
        let min_free = self.config.now().limits.min_free_bytes;
        let work = move || {
            process::give_way();
            let _ = done.send(work(Wanted { root: &root, with_secrets, min_free, now }));
        };
        if let Err(error) = std::thread::Builder::new().name("backup".into()).spawn(work) {
            return Some(Err(error).context("starting a thread failed"));
        }
        tokio::select! {
            () = self.stop.cancelled() => None,
            made = made => Some(made.unwrap_or_else(|_| Err(anyhow!("a fault of our own, see the log")))),
        }
    }
}

fn past(store: &Store) -> Result<Past> {
    let time = |text: &str| text.split(' ').next().and_then(|ms| ms.parse().ok()).map(Time);
    Ok(Past {
        done: store.meta(DONE)?.as_deref().and_then(time),
        failed: store.meta(FAILED)?.as_deref().and_then(time),
    })
}

/// Why the last daily backup failed; `None`: it did not.
pub(super) fn failure(store: &Store) -> Result<Option<String>> {
    let failed = store.meta(FAILED)?;
    Ok(failed.and_then(|text| text.split_once(' ').map(|(_, why)| why.to_owned())))
}

/// Folders of groups that the last daily backup lacks, and when there was no room for them; `None`: it has all.
pub(super) fn lacks(store: &Store) -> Result<Option<(Time, Vec<String>)>> {
    let lacks = store.meta(LACKS)?.unwrap_or_default();
    let mut lines = lacks.split('\n');
    let at = lines.next().and_then(|ms| ms.parse().ok()).map(Time);
    Ok(at.map(|at| (at, lines.map(str::to_owned).collect())))
}
