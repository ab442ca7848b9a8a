//! What a watch tells, and the bounded queue in which it waits for its group's worker.

use std::{
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_channel::mpsc;
use ipc_handlers::Folder;

use crate::ipc::names::CommandBox;

/// Something that happened in a box; true or not, the scan has the last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A file was renamed into the box, or closed by its writer.
    File { folder: Folder, in_box: CommandBox, name: OsString },
    /// Hints were lost: look into every box.
    Rescan,
    /// A watched box was removed or renamed, and the watch with it; or the kernel lets nobody wait for its events any more.
    Lost { folder: Folder },
}

/// Returns the two ends of a queue of at most `capacity` hints.
#[must_use]
pub fn hints(capacity: usize) -> (HintSender, Hints) {
    // Each sender has one place more.
    let (sender, queue) = mpsc::channel(capacity.saturating_sub(1));
    let lost = Arc::new(AtomicBool::new(false));
    (HintSender { sender, lost: Arc::clone(&lost) }, Hints { queue, lost })
}

/// The end of the loop that watches; never waits.
#[derive(Debug)]
pub struct HintSender {
    sender: mpsc::Sender<Hint>,
    lost: Arc<AtomicBool>,
}

/// The end of the worker that claims.
#[derive(Debug)]
pub struct Hints {
    queue: mpsc::Receiver<Hint>,
    lost: Arc<AtomicBool>,
}

impl HintSender {
    /// Queues a hint. When the queue is full, it and every later one is dropped until a single
    /// [`Hint::Rescan`] in their place was taken: passing some of them on would put later files before earlier ones.
    pub fn send(&mut self, hint: Hint) {
        if self.lost.load(Ordering::Acquire) {
            return;
        }
        if self.sender.try_send(hint).is_err_and(|error| error.is_full()) {
            self.lost.store(true, Ordering::Release);
            // The worker may have emptied the queue since and gone to sleep without seeing the mark.
            let _ = self.sender.try_send(Hint::Rescan);
        }
    }
}

impl Hints {
    /// Waits for the next hint; `None` when the other end is gone. Safe to cancel.
    pub async fn recv(&mut self) -> Option<Hint> {
        match self.try_recv() {
            Some(hint) => Some(hint),
            None => self.queue.recv().await.ok().map(|hint| self.taken(hint)),
        }
    }

    /// Returns the next hint if there is one.
    pub fn try_recv(&mut self) -> Option<Hint> {
        match self.queue.try_recv() {
            Ok(hint) => Some(self.taken(hint)),
            // Cleared before the worker looks: files of events that were dropped until then are on disk for it to find.
            Err(_) => self.lost.swap(false, Ordering::AcqRel).then_some(Hint::Rescan),
        }
    }

    fn taken(&self, hint: Hint) -> Hint {
        if hint == Hint::Rescan {
            self.lost.store(false, Ordering::Release);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(n: usize) -> Hint {
        let folder = Folder::parse("main").unwrap();
        Hint::File { folder, in_box: CommandBox::Tasks, name: format!("{n}.json").into() }
    }

    #[test]
    fn a_full_queue_becomes_one_rescan_after_what_it_held() {
        let (mut sender, mut hints) = hints(3);
        (0..1_000).for_each(|n| sender.send(file(n)));
        for n in 0..3 {
            assert_eq!(hints.try_recv(), Some(file(n)));
        }
        sender.send(file(2_000)); // Later than what was lost, so lost too.
        assert_eq!(hints.try_recv(), Some(Hint::Rescan));
        assert_eq!(hints.try_recv(), None);
        sender.send(file(3_000));
        assert_eq!(hints.try_recv(), Some(file(3_000)));
    }

    #[tokio::test]
    async fn nothing_is_lost_without_a_rescan_whatever_the_two_ends_do_at_once() {
        for _ in 0..200 {
            let (mut sender, mut hints) = hints(1);
            let sends = std::thread::spawn(move || (0..50).for_each(|n| sender.send(file(n))));
            let mut last = None;
            let mut rescans_after_last = false;
            while let Some(hint) = hints.recv().await {
                rescans_after_last = hint == Hint::Rescan;
                if hint != Hint::Rescan {
                    last = Some(hint);
                }
            }
            sends.join().unwrap();
            assert!(rescans_after_last || last == Some(file(49)), "the last hint was dropped in silence");
        }
    }
}
