//! Has the daemon follow its settings: `g2.toml`, and what counts as a setting of `.env`.
//!
//! Most code reads a setting when it needs it. What was handed to somebody is handed over anew here.
#![expect(clippy::disallowed_methods, reason = "looks whether the user's own files were changed")]

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ipc_handlers::Folder;
use tokio::sync::{Mutex as Turn, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    adapters::Accounts,
    bounds::{asking, bounds, bounds_outside},
};
use crate::{
    config::{Live, Taken},
    domain::{machine::loops::LoopName, runs::lanes::Event, shown::errors::chain},
    engine::{Error, Loop, Plan, Sole, Then, Why},
    gateway::Gateway,
    loops::{Reread, ToLanes},
    store::{Asking, Names, Store},
    system::locked::Locked as _,
};

/// How often it is looked whether a person has changed the files. A change counts once a look later it is still the same: an
/// editor may be at work.
const LOOK: Duration = Duration::from_secs(1);

/// Asks for the files to be read now; what came of it is answered.
pub type Asks = mpsc::UnboundedSender<oneshot::Sender<Reread>>;

/// Follows the settings: at once when somebody asks, and soon when a person has changed a file.
pub(super) struct Following {
    hands: Arc<Hands>,
    asks: mpsc::UnboundedReceiver<oneshot::Sender<Reread>>,
    files: Files,
}

/// Who has others follow.
pub(super) struct Hands {
    pub(super) config: Arc<Live>,
    pub(super) root: PathBuf,
    pub(super) store: Store,
    pub(super) gateway: Arc<Gateway>,
    /// News for the lanes.
    pub(super) lanes: ToLanes,
    pub(super) accounts: Turn<Accounts>,
    /// The channels that there are, which the accounts keep.
    pub(super) names: Names,
    /// Those who wait for a reading.
    pub(super) asked: Mutex<VecDeque<oneshot::Sender<Reread>>>,
    pub(super) owed: Mutex<Owed>,
}

/// Whom the settings that hold are still to be handed over to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Owed {
    #[default]
    Nobody,
    /// These groups' rules could not be read.
    Groups(BTreeSet<Folder>),
    Everybody,
}

/// What tells a file from a changed one.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Looks at the files of the settings. A file that can't be looked at counts as missing; the reading of it says why.
fn stamps(root: &Path) -> [Stamp; 2] {
    ["g2.toml", ".env"].map(|name| {
        let meta = fs::metadata(root.join(name)).ok()?;
        Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
    })
}

/// The files as they were seen last, and as they were read last. They may have changed since the start read them.
#[derive(Default)]
struct Files {
    read: Option<[Stamp; 2]>,
    seen: [Stamp; 2],
}

impl Files {
    /// Whether they are to be read now that they are so: nobody is at them, or somebody asks.
    fn are_due(&mut self, now: [Stamp; 2], is_asked: bool) -> bool {
        let is_settled = now == std::mem::replace(&mut self.seen, now);
        let due = is_asked || (is_settled && self.read != Some(now));
        if due {
            self.read = Some(now);
        }
        due
    }
}

impl Following {
    pub(super) fn new(hands: Hands, asks: mpsc::UnboundedReceiver<oneshot::Sender<Reread>>) -> Self {
        let files = Files { read: None, seen: stamps(&hands.root) };
        Self { hands: Arc::new(hands), asks, files }
    }
}

impl Loop for Following {
    const NAME: LoopName = LoopName::Settings;
    /// People wait for it.
    const SETS_ASIDE: bool = false;
    /// Somebody may wait for it.
    const RESTS_AT_MOST: Duration = Duration::from_secs(2);
    type Key = Sole;
    type Job = ();
    type Hands = Hands;

    fn hands(&self) -> Arc<Hands> {
        Arc::clone(&self.hands)
    }

    async fn asked(&mut self) {
        match self.asks.recv().await {
            Some(asks) => self.hands.asked().push_back(asks),
            None => std::future::pending().await,
        }
    }

    async fn look(&mut self, why: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        // At the start they have just been read.
        if why.all && !why.time && !why.asked {
            return Ok(Plan::again(LOOK));
        }
        let is_due = self.files.are_due(stamps(&self.hands.root), why.asked);
        let wake = if is_due { vec![(Sole, ())] } else { Vec::new() };
        Ok(Plan { wake, again: Some(LOOK), ..Plan::default() })
    }

    /// Reads the files, once for each who asks or once, and has everybody follow.
    async fn perform(hands: Arc<Hands>, _: Sole, (): (), _: CancellationToken) -> Result<Then, Error> {
        loop {
            let waits = hands.asked().pop_front();
            let (reread, handed) = hands.read().await;
            if let Some(waits) = waits {
                // The caller may have gone.
                let _ = waits.send(reread);
            }
            if hands.asked().is_empty() {
                return handed.map(|()| Then::Done);
            }
        }
    }
}

impl Hands {
    fn asked(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Reread>>> {
        self.asked.locked()
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.locked()
    }

    /// Reads the files, and has everybody follow. Returns what came of both.
    async fn read(&self) -> (Reread, Result<(), Error>) {
        let reread = self.config.take();
        match &reread {
            Err(error) => {
                tracing::error!(error = %chain(error), "the settings are read again and can't be used; those of before hold");
            }
            Ok(Taken { changed, restart }) => {
                if !changed.is_empty() {
                    tracing::info!("the settings are read again: {} hold now", changed.join(", "));
                    *self.owed() = Owed::Everybody;
                }
                if !restart.is_empty() {
                    tracing::warn!("the settings are read again: restart for {}", restart.join(", "));
                }
            }
        }
        let handed = self.hand_over().await;
        self.accounts.lock().await.follow(&self.config.now()).await;
        (reread, handed)
    }

    /// Hands new settings over to those parts that keep a copy and do not have them yet. While a group's rules can't be read, the group
    /// may reach the hosts of before.
    async fn hand_over(&self) -> Result<(), Error> {
        let owed = self.owed().clone();
        let groups = match owed {
            Owed::Nobody => return Ok(()),
            Owed::Groups(groups) => groups,
            Owed::Everybody => {
                let config = self.config.now();
                let asking = Asking { channels: self.names.clone(), ..asking(&config) };
                self.store.renew(asking, bounds(&config));
                self.gateway.bound_outside(bounds_outside(&config));
                self.lanes.tell(Event::Cap { most: config.limits.max_containers });
                self.store.groups().await?.into_iter().map(|group| group.folder).collect()
            }
        };
        let (mut left, mut failed) = (BTreeSet::new(), Ok(()));
        for group in groups {
            let read = || self.store.rules_outside(&group, &self.config.now().egress.allow);
            if let Err(error) = self.gateway.read_rules(&group, read) {
                failed = Err(error.into());
                left.insert(group);
            }
        }
        *self.owed() = if left.is_empty() { Owed::Nobody } else { Owed::Groups(left) };
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_once_they_stay_as_they_are_and_whenever_somebody_asks() {
        let at = |n| [Some((n, n, 0, 0)), None];
        let mut files = Files { read: None, seen: at(1) };
        assert!(files.are_due(at(1), false), "they may have changed since the start");
        assert!(!files.are_due(at(1), false));
        assert!(!files.are_due(at(2), false), "somebody may be at them");
        assert!(!files.are_due(at(3), false));
        assert!(files.are_due(at(3), false));
        assert!(files.are_due(at(3), true) && files.are_due(at(4), true));
        assert!(!files.are_due(at(4), false), "they were read as they are");
    }
}
