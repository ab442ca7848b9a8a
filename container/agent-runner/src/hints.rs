//! Hints that a folder has changed.
//!
//! A hint carries no data and may be missing or superfluous: whoever waits looks at the folder again after each hint
//! and after each time-out. Where the kernel gives no events (or none are to be had) the time-outs carry the work.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::Duration,
};

use notify::{Config, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// A watch on one folder, not on what is below it.
pub(crate) struct Hints {
    hints: Receiver<()>,
    // Held so that waiting without a watch times out instead of finding the channel closed.
    _sender: SyncSender<()>,
    _watcher: Option<RecommendedWatcher>,
}

impl Hints {
    /// Returns a watch on `folder`; one that can't be had is said on stderr, and waiting then only times out.
    pub(crate) fn on(folder: &Path) -> Self {
        // One place is enough: a hint that is waiting already says all that another one would.
        let (sender, hints) = sync_channel(1);
        let watcher = watch(folder, sender.clone())
            .inspect_err(|e| eprintln!("no events for {}, polling instead: {e}", folder.display()))
            .ok();
        Self { hints, _sender: sender, _watcher: watcher }
    }

    /// Waits for a hint, `at_most` this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let _ = self.hints.recv_timeout(at_most);
    }
}

fn watch(folder: &Path, sender: SyncSender<()>) -> notify::Result<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        // Our own reading is reported as access and must not wake us again.
        if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
            let _ = sender.try_send(());
        }
    };
    let mut watcher = RecommendedWatcher::new(on_event, Config::default().with_follow_symlinks(false))?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
