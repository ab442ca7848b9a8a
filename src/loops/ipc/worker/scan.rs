//! What waits in a group's boxes, found by looking.

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStrExt as _, time::Duration};

use super::{
    super::{fault::blocking, read::Patience},
    Worker,
};
use crate::{
    domain::{
        mailbox::scan::{self, Found, Look, Sight},
        shown::errors::chain,
    },
    ipc::{CommandBox, Entry},
    system::failpoint,
};

/// How many files of a box are listed at a time.
const LISTED: usize = 16_384;
/// How far the clock by which files are stamped may be behind ours, ms.
const CLOCK_TICK_MS: i64 = 10;

impl Worker {
    /// Goes through both boxes by (ctime, name) until nothing is left that may be taken now.
    pub(super) async fn scan(&mut self, sight: Sight, patience: Patience) {
        let sight = self.turns.sight(sight);
        let begun = scan::stamp_after(self.mail.machine.world.now());
        loop {
            if self.ended || self.mail.held.group(&self.folder) {
                self.turns.forget();
                return;
            }
            let Ok(boxes) = self.mail.boxes.of(&self.folder) else { return self.missed = true };
            // While the boxes are read, more files are published: a later one may be seen and an earlier one not.
            let complete_until = scan::stamp_after(self.mail.machine.world.now().plus_ms(-CLOCK_TICK_MS - 1));
            let listed = blocking(&self.mail, &self.folder, "listing", move || {
                failpoint::reach_of("ipc.listing", boxes.folder().as_str());
                let (mut found, mut directories) = (Vec::new(), BTreeSet::new());
                let (mut more, mut is_whole) = (false, true);
                let mut until = i64::MAX;
                for in_box in CommandBox::ALL {
                    match boxes.list(in_box, LISTED) {
                        Ok(listing) => {
                            if listing.has_more() {
                                more = true;
                                // What follows the last one here may be older than what the other box has.
                                until = until.min(listing.entries.last().map_or(i64::MAX, |last| last.ctime));
                            }
                            directories
                                .extend(listing.directories.into_iter().map(|entry| (in_box, entry.name)));
                            found.extend(listing.entries.into_iter().map(|entry| (in_box, entry)));
                        }
                        Err(error) => {
                            is_whole = false;
                            tracing::warn!(error = %chain(&error), "listing a box failed; it is tried again");
                        }
                    }
                }
                found.retain(|(_, entry)| entry.ctime <= until);
                found.sort_by(|a, b| a.1.cmp(&b.1));
                (found, directories, more, is_whole)
            })
            .await;
            // What changed in the boxes is told once: without a look of our own, nobody would look at them again.
            let Ok((found, directories, more, is_whole)) = listed else {
                self.missed = true;
                return self.gate.shut(&self.mail);
            };
            self.missed |= !is_whole;
            if !is_whole && (patience == Patience::Some || !self.is_last_try) {
                // The other box may have older files.
                return self.gate.shut(&self.mail);
            }
            self.tell_of(directories);
            let now = self.mail.machine.world.monotonic().duration_since(self.began);
            // A writer makes one file after the other, so the claimed files were finished before the found ones were begun.
            self.look_again(patience).await;
            let found = self.without_held(found);
            let look = Look { sight, more, begun, complete_until, now };
            let (take, too_new) = match patience {
                Patience::Some => {
                    let turn = self.turns.look(look, found);
                    (turn.take, turn.too_new && complete_until < begun)
                }
                Patience::None => {
                    self.turns.forget();
                    (found.into_iter().map(|file| file.key).collect(), false)
                }
            };
            let taken = self.take(take, patience).await;
            if too_new {
                tokio::time::sleep(Duration::from_millis(CLOCK_TICK_MS.unsigned_abs() + 1)).await;
            } else if taken == 0 || !more {
                if !is_whole {
                    self.gate.shut(&self.mail);
                }
                // Where nothing could be claimed (the world is in the way), the next look tries again.
                return;
            }
        }
    }

    /// Says which directories are named like commands, each once for as long as it is there.
    fn tell_of(&mut self, directories: BTreeSet<(CommandBox, OsString)>) {
        for (in_box, name) in directories.difference(&self.told_of) {
            tracing::warn!(%in_box, ?name, "a directory is named like a command; its writer has to remove it");
        }
        self.told_of = directories;
    }

    fn without_held(&self, found: Vec<(CommandBox, Entry)>) -> Vec<Found<(CommandBox, OsString)>> {
        let holds = self.mail.held.now();
        let is_held = |in_box: CommandBox, entry: &Entry| {
            holds.file(&self.folder, in_box.as_str(), entry.name.as_bytes())
        };
        let left = found.into_iter().filter(|(in_box, entry)| !is_held(*in_box, entry));
        left.map(|(in_box, entry)| Found { key: (in_box, entry.name), ctime: entry.ctime }).collect()
    }
}
