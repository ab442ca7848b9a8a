//! Has the daemon follow its settings: `g2.toml`, and what counts as a setting of `.env`.
//!
//! Most code reads a setting when it needs it. What was handed to somebody is handed over anew here.
#![expect(clippy::disallowed_methods, reason = "looks whether the user's own files were changed")]

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{adapters::Accounts, asking, bounds, bounds_outside};
use crate::{
    config::{Live, Taken},
    domain::{host::errors::chain, runs::lanes::Event},
    gateway::Gateway,
    loops::Reread,
    store::{Asking, Names, Store},
};

/// How often it is looked whether a person has changed the files. A change counts once a look later it is still the same: an
/// editor may be at work.
const LOOK: Duration = Duration::from_secs(1);

/// Asks for the files to be read now; what came of it is answered.
pub type Asks = mpsc::UnboundedSender<oneshot::Sender<Reread>>;

/// Who follows.
pub(super) struct Following {
    pub(super) config: Arc<Live>,
    pub(super) root: PathBuf,
    pub(super) store: Store,
    pub(super) gateway: Arc<Gateway>,
    /// News for the lanes.
    pub(super) lanes: mpsc::UnboundedSender<Event>,
    pub(super) accounts: Accounts,
    /// The channels that there are, which the accounts keep.
    pub(super) names: Names,
}

/// What tells a file from a changed one.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Looks at the files that settings stand in.
fn stamps(root: &Path) -> [Stamp; 2] {
    ["g2.toml", ".env"].map(|name| {
        let meta = fs::metadata(root.join(name)).ok()?;
        Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
    })
}

impl Following {
    /// Follows until `stop`: at once when somebody asks, and soon when a person has changed a file.
    pub(super) async fn run(
        mut self,
        mut asked: mpsc::UnboundedReceiver<oneshot::Sender<Reread>>,
        stop: CancellationToken,
    ) {
        // They may have changed since the start read them.
        let (mut read, mut seen) = (None, stamps(&self.root));
        loop {
            let waits = tokio::select! {
                () = stop.cancelled() => return,
                Some(waits) = asked.recv() => Some(waits),
                () = tokio::time::sleep(LOOK) => None,
            };
            let now = stamps(&self.root);
            let is_settled = now == std::mem::replace(&mut seen, now);
            if waits.is_some() || (is_settled && read != Some(now)) {
                read = Some(now);
                let reread = self.read().await;
                if let Some(waits) = waits {
                    let _ = waits.send(reread);
                }
            }
        }
    }

    /// Reads the files, and has everybody follow.
    async fn read(&mut self) -> Reread {
        let reread = self.config.take();
        match &reread {
            Err(error) => {
                tracing::error!(error = %chain(error), "the settings are read again and can't be used; those of before hold");
            }
            Ok(Taken { changed, restart }) => {
                if !changed.is_empty() {
                    tracing::info!("the settings are read again: {} hold now", changed.join(", "));
                    self.hand_over().await;
                }
                if !restart.is_empty() {
                    tracing::warn!("the settings are read again: restart for {}", restart.join(", "));
                }
            }
        }
        self.accounts.follow(&self.config.now()).await;
        reread
    }

    /// Hands over anew what is not read when it is needed.
    async fn hand_over(&self) {
        let config = self.config.now();
        let asking = Asking { channels: self.names.clone(), ..asking(&config) };
        self.store.renew(asking, bounds(&config));
        self.gateway.bound_outside(bounds_outside(&config));
        let _ = self.lanes.send(Event::Cap { most: config.limits.max_containers });
        match self.store.groups().await {
            Ok(groups) => {
                for group in groups {
                    let read = || self.store.rules_outside(&group.folder, &self.config.now().egress.allow);
                    if let Err(error) = self.gateway.read_rules(&group.folder, read) {
                        tracing::error!(group = %group.folder, error = %chain(&error), "reading which hosts a group may reach failed; those of before are allowed until its next run");
                    }
                }
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the groups failed; each may reach the hosts of before until its next run");
            }
        }
    }
}
