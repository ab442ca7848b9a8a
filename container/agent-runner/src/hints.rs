//! Hints that a folder has changed.
//!
//! A hint carries no data and may be missing or superfluous: a waiting thread looks at the folder again after each hint
//! and after each time-out. Where the kernel gives no events (or none are to be had) the time-outs carry the work.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::Duration,
};

use notify::{Config, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::world::Hints;

/// Without events the folder is looked at after the first time, then less and less often, down to the second.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// How long events do without another try to have them: somebody else of this user may have used them up for a while.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// A watch on one folder, not on its subfolders.
pub(crate) struct Watch {
    folder: PathBuf,
    hints: Receiver<()>,
    // Held so that waiting without a watch times out instead of finding the channel closed.
    sender: SyncSender<()>,
    watching: Watching,
}

enum Watching {
    Events { _watcher: RecommendedWatcher },
    Polling { next: Duration, waited: Duration },
}

impl Watch {
    /// Returns a watch on `folder`; one that can't be had is said on stderr, and waiting then only times out.
    pub(crate) fn on(folder: &Path) -> Self {
        // One place is enough: a hint that is waiting already says all that another one would.
        let (sender, hints) = sync_channel(1);
        let watching = match watch(folder, sender.clone()) {
            Ok(watcher) => Watching::Events { _watcher: watcher },
            Err(error) => {
                eprintln!("no events for {}, polling instead: {error}", folder.display());
                Watching::Polling { next: POLL.0, waited: Duration::ZERO }
            }
        };
        Self { folder: folder.to_owned(), hints, sender, watching }
    }
}

impl Hints for Watch {
    fn wait(&mut self, at_most: Duration) {
        let Watching::Polling { next, waited } = &mut self.watching else {
            let _ = self.hints.recv_timeout(at_most);
            return;
        };
        let wait = (*next).min(at_most);
        let _ = self.hints.recv_timeout(wait);
        *next = (*next * 2).min(POLL.1);
        *waited += wait;
        if *waited < TRY_AGAIN {
            return;
        }
        *waited = Duration::ZERO;
        // What came before is found by the look that follows every wait.
        if let Ok(watcher) = watch(&self.folder, self.sender.clone()) {
            eprintln!("there are events for {} again", self.folder.display());
            self.watching = Watching::Events { _watcher: watcher };
        }
    }

    fn found(&mut self) {
        if let Watching::Polling { next, .. } = &mut self.watching {
            *next = POLL.0;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "plays the host")]
    fn without_events_the_waits_are_short_and_events_are_taken_when_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, hints) = sync_channel(1);
        let watching = Watching::Polling { next: POLL.0, waited: Duration::ZERO };
        let mut hints = Watch { folder: folder.path().to_owned(), hints, sender, watching };
        let polled = |hints: &Watch| match hints.watching {
            Watching::Polling { next, waited } => Some((next, waited)),
            Watching::Events { .. } => None,
        };
        for (next, waited) in [(10, 5), (20, 15), (40, 35), (50, 75), (50, 125)] {
            hints.wait(Duration::from_secs(60));
            let expected = (Duration::from_millis(next), Duration::from_millis(waited));
            assert_eq!(polled(&hints), Some(expected));
        }
        hints.found();
        assert_eq!(polled(&hints).unwrap().0, POLL.0);
        while polled(&hints).is_some() {
            hints.wait(Duration::from_secs(60));
        }
        std::fs::write(folder.path().join("x"), "").unwrap();
        assert!(hints.hints.recv_timeout(Duration::from_secs(60)).is_ok());
    }
}
