//! Files that may be taken, taken in: claimed, read, settled and answered.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    sync::Arc,
    time::{Duration, Instant},
};

use ipc_handlers::Folder;

use super::{
    super::{
        Mailboxes,
        answer::{Caught, settle_again},
        fault::{Panicked, blocking, one_by_one, stranded},
        flow::{CLAIMED_AT_ONCE, Flow, Handled, Slow, TOGETHER, handle},
        gate::{self, Open, Used},
        read::{Asks, Patience, Pending, Taken, claim},
    },
    Worker,
};
use crate::{
    domain::{kept::disk::Admission, shown::errors::chain},
    engine::rested,
    ipc::{Claimed, CommandBox},
    ops::ipc::hand,
    store::Note,
    system::failpoint,
};

/// This few files are taken at once; for more a group waits until the crowd has places.
const FEW: usize = 8;
/// How many places in the crowd a group takes at least: a dozen files at once keep the disk busy.
const LEAST: usize = 32;

/// How many files a group takes in for its places in the crowd while others may wait for them.
const TURN: usize = 1024;
/// The same while nobody waits. Each turn begins and ends with nothing under way: the processors rest, and the disk.
const LONG_TURN: usize = 4096;

/// Files that could not be read rest this many times as long as it took to try, before they are looked at again.
const LEISURE: u32 = 9;
/// The longest of these rests.
const LONGEST_LEISURE: Duration = Duration::from_secs(2);

/// How many lists are claimed before their replies are counted: a command of a few bytes may have a reply of 1 MiB.
const LISTS: usize = 4;
/// How many lists where those before them were short: a group's bytes are overdrawn by at most this many at a time.
const SHORT_LISTS: usize = 32;
/// How long all that are claimed together may be, going by those before them, bytes.
const LISTS_BYTES: usize = 1 << 20;

impl Worker {
    /// Claims, reads, settles and answers files; returns how many were claimed.
    pub(super) async fn take(&mut self, files: Vec<(CommandBox, OsString)>, patience: Patience) -> usize {
        let mut count = 0;
        let mut files = files.into_iter();
        while files.len() > 0 {
            if self.left {
                self.look_again(patience).await;
            }
            if self.left || self.ended {
                return count;
            }
            let open = self.gate.opens_for(&self.mail, &self.folder, self.unsettled);
            if open.files == 0 {
                return count;
            }
            let wanted = if files.len() > FEW { files.len().clamp(LEAST, TOGETHER) } else { 0 };
            let places = self.mail.crowd.acquire_many(u32::try_from(wanted).unwrap_or(0)).await;
            let (mail, folder) = (Arc::clone(&self.mail), self.folder.clone());
            let room = mail.config.now().limits.waiting_bytes.saturating_sub(self.unsettled);
            // One thread from the claim to the answer of few files: each change of threads would cost more than the work.
            let slow = if wanted == 0 { Slow::Now } else { Slow::Later };
            let taking = move || take_in(&mail, &folder, files, open, room, patience, slow);
            let taken_in = blocking(&self.mail, &self.folder, "taking in", taking).await;
            drop(places);
            let Ok(TakenIn { rest, claimed, handled, stuck }) = taken_in else {
                self.after_a_panic(patience).await;
                return count;
            };
            files = rest;
            count += claimed;
            self.unsettled += handled.unsettled;
            let now = self.mail.machine.world.monotonic();
            self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
            self.left |= handled.left;
            if !self.settle_rest(handled.waiting, patience).await {
                return count;
            }
            if self.left {
                // Without a place in the crowd: others who take in many do not wait for them.
                self.look_again(patience).await;
            }
            if stuck {
                self.missed = true;
                self.gate.shut(&self.mail);
                return count;
            }
        }
        count
    }

    /// Settles what the store could not take; returns whether what comes behind it may be taken in.
    pub(super) async fn settle_rest(&mut self, waiting: Vec<Pending>, patience: Patience) -> bool {
        match settle_again(&self.mail, &self.folder, waiting).await {
            Ok(Caught::Up) => true,
            Ok(Caught::Stopped) => {
                self.ended = true;
                false
            }
            Err(Panicked) => {
                self.after_a_panic(patience).await;
                false
            }
        }
    }

    /// Looks at files again that were not whole, or slow.
    pub(super) async fn look_again(&mut self, patience: Patience) {
        if patience == Patience::Some && !self.left && !self.growing.is_empty() {
            let rest = self.rested.duration_since(self.mail.machine.world.monotonic());
            let _stops = rested(&self.mail.stop, rest).await;
        }
        // Slow commands may have waited until the store took those before them.
        while self.look_once(patience).await {}
    }

    /// Looks at files again; returns whether some were left that nothing hinders any more.
    async fn look_once(&mut self, patience: Patience) -> bool {
        if self.ended {
            return false;
        }
        self.left = false;
        let mut growing = std::mem::take(&mut self.growing);
        if growing.is_empty() {
            self.unsettled = 0;
            return false;
        }
        // They may have come here in several ways.
        growing.sort_by_key(|(claimed, _)| claimed.id);
        let now = self.mail.machine.world.monotonic();
        let since: BTreeMap<i64, Instant> = growing.iter().map(|(claimed, at)| (claimed.id, *at)).collect();
        self.unsettled = 0;
        let taken: Vec<_> =
            growing.into_iter().map(|(claimed, at)| Taken::before(claimed, now.duration_since(at))).collect();
        let (mail, folder, count) = (Arc::clone(&self.mail), self.folder.clone(), taken.len());
        let work = move || {
            let world = &mail.machine.world;
            let began = world.monotonic();
            let handled = handle(&mail, &folder, taken, patience, Slow::Now);
            (handled, world.monotonic().duration_since(began))
        };
        let Ok((handled, took)) = blocking(&self.mail, &self.folder, "looking again", work).await else {
            self.after_a_panic(patience).await;
            return self.left && !self.ended;
        };
        if !handled.left {
            // A container that keeps many half-written files open must not have them read all the time.
            let of_unread = took.mul_f64(handled.growing.len() as f64 / count as f64);
            self.rested = self.mail.machine.world.monotonic() + (of_unread * LEISURE).min(LONGEST_LEISURE);
        }
        Used::by(0, &handled).count(&self.mail, &self.folder, Used::default());
        self.unsettled += handled.unsettled;
        self.growing.extend(handled.growing.into_iter().map(|claimed| {
            let at = since.get(&claimed.id).copied().unwrap_or(now);
            (claimed, at)
        }));
        self.left |= handled.left;
        self.settle_rest(handled.waiting, patience).await;
        self.ended |= self.left && self.mail.stop.is_cancelled();
        self.left && !self.ended
    }

    /// Takes up the files of work that panicked. The boxes are looked at a little later.
    pub(super) async fn after_a_panic(&mut self, patience: Patience) {
        self.missed = true;
        self.gate.shut(&self.mail);
        loop {
            self.ended |= self.mail.stop.is_cancelled();
            if self.ended || self.mail.held.is_aside(&self.folder) {
                return;
            }
            let kept: Vec<i64> = self.growing.iter().map(|(claimed, _)| claimed.id).collect();
            let claims = stranded(&self.mail, &self.folder, &kept).await;
            let handled = one_by_one(&self.mail, &self.folder, claims, patience).await;
            Used::by(0, &handled).count(&self.mail, &self.folder, Used::default());
            self.unsettled += handled.unsettled;
            let now = self.mail.machine.world.monotonic();
            self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
            self.left |= handled.left;
            // It rests before each try, so what panics again and again keeps nobody busy.
            if settle_again(&self.mail, &self.folder, handled.waiting).await.is_ok() {
                break;
            }
        }
        self.ended |= self.mail.stop.is_cancelled();
    }

    /// Settles a claimed file now: a person has decided on it.
    pub(super) async fn settle_by_hand(&mut self, claimed: Claimed) {
        if self.ended {
            return;
        }
        let Some(claimed) = self.drop_unread(claimed).await else { return };
        let known = self.growing.iter().position(|(growing, _)| growing.id == claimed.id);
        let claimed = known.map_or(claimed, |at| self.growing.remove(at).0);
        let taken = vec![Taken::before(claimed, Duration::ZERO)];
        let (mail, folder) = (Arc::clone(&self.mail), self.folder.clone());
        let work = move || handle(&mail, &folder, taken, Patience::None, Slow::Now);
        let Ok(handled) = blocking(&self.mail, &self.folder, "settling by hand", work).await else {
            return self.after_a_panic(Patience::None).await;
        };
        Used::by(0, &handled).count(&self.mail, &self.folder, Used::default());
        self.unsettled += handled.unsettled;
        let now = self.mail.machine.world.monotonic();
        self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
        self.left |= handled.left;
        self.settle_rest(handled.waiting, Patience::None).await;
    }
}

impl Worker {
    /// Of a group that is set aside, drops a command that a person wants dropped, without a look at what it asks for;
    /// returns any other.
    async fn drop_unread(&self, claimed: Claimed) -> Option<Claimed> {
        let dropped = matches!(self.mail.store.note(claimed.id), Ok(Some(Note::Dropped(_))));
        if !dropped || !self.mail.held.is_aside(&self.folder) {
            return Some(claimed);
        }
        let (mail, folder) = (Arc::clone(&self.mail), self.folder.clone());
        let drop = move || {
            let boxes = mail.boxes.of(&folder).ok();
            let finish = hand::finish(mail.hand(), boxes.as_deref(), &claimed, mail.machine.world.now());
            if let Err(error) = mail.machine.world.wait(finish) {
                tracing::warn!(claim = claimed.id, error = %chain(&error), "dropping a command failed; a restart does the rest");
            }
        };
        // A panic is logged; the claim stays, and a restart does the rest.
        let _ = blocking(&self.mail, &self.folder, "dropping a command", drop).await;
        None
    }
}

/// Returns how many lists are claimed together after `lists` that came with `bytes` of commands and replies.
fn lists_after(lists: usize, bytes: usize) -> usize {
    let each = bytes.checked_div(lists).unwrap_or(0);
    (LISTS_BYTES / each.max(1)).clamp(LISTS, SHORT_LISTS)
}

/// The result of taking files in.
struct TakenIn {
    /// Those that were not looked at, as the world is in the way of what came before, or too much is unsettled.
    rest: std::vec::IntoIter<(CommandBox, OsString)>,
    claimed: usize,
    handled: Handled,
    /// One could not be claimed: younger files must not go before it.
    stuck: bool,
}

/// Claims at most as many files as the gate is `open` for, while the disk has space for their effects and files that can't be
/// settled yet have less than `room` bytes. On a thread that may block.
fn take_in(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    mut files: std::vec::IntoIter<(CommandBox, OsString)>,
    open: Open,
    room: u64,
    patience: Patience,
    slow: Slow,
) -> TakenIn {
    let mut flow = Flow::new(mail, folder, patience, slow);
    let Open { files: mut open, mut searches, bytes: most } = open;
    let (mut claimed, mut stuck) = (0, false);
    // Lists whose replies are not counted yet, at most how many there may be, and what was counted before they were claimed.
    let (mut lists, mut most_lists, mut before_lists) = (0, LISTS, 0);
    let mut used = Used::default();
    let has_room = |flow: &Flow<'_>| {
        let Handled { bytes, unsettled, waiting, .. } = flow.so_far();
        *bytes < most && *unsettled < room && waiting.is_empty() && !flow.has_left()
    };
    while !stuck
        && open > 0
        && searches > 0
        && files.len() > 0
        && has_room(&flow)
        && (claimed == 0 || gate::admission(mail, folder) == Admission::Open)
        && claimed < if mail.crowd.available_permits() < LEAST { TURN } else { LONG_TURN }
    {
        failpoint::reach("ipc.seen");
        let Ok(boxes) = mail.boxes.of(folder) else {
            stuck = true;
            break;
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < TOGETHER
            && lists < most_lists
            && bytes < CLAIMED_AT_ONCE
            && open > 0
            && searches > 0
            && let Some((in_box, name)) = files.next()
        {
            open -= 1;
            match claim(mail, &boxes, in_box, &name) {
                Ok(None) => {}
                Ok(Some(file)) => {
                    bytes += file.bytes();
                    match file.asks() {
                        Asks::List => lists += 1,
                        Asks::Search => searches -= 1,
                        Asks::Nothing => {}
                    }
                    taken.push(file);
                }
                Err(_) => {
                    stuck = true;
                    break;
                }
            }
        }
        if !taken.is_empty() {
            failpoint::reach("ipc.claimed");
            claimed += taken.len();
            flow.take(taken, files.len().min(open));
            if lists >= most_lists {
                // How long their replies are is known before more are claimed.
                flow.settle_all(files.len().min(open));
                most_lists = lists_after(lists, flow.so_far().bytes.saturating_sub(before_lists));
                (lists, before_lists) = (0, flow.so_far().bytes);
            }
            used = Used::by(claimed, flow.so_far()).count(mail, folder, used);
        }
    }
    // A file that the next ones would put out of `done/` at once is not kept there.
    let goes_on = files.len() > 0
        && !stuck
        && searches > 0
        && has_room(&flow)
        && gate::admission(mail, folder) == Admission::Open;
    let later = if goes_on { files.len().min(open) } else { 0 };
    let handled = flow.end(later);
    Used::by(claimed, &handled).count(mail, folder, used);
    TakenIn { rest: files, claimed, handled, stuck }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_are_claimed_many_at_a_time_and_long_ones_few() {
        assert_eq!(lists_after(4, 4 * 300), SHORT_LISTS);
        assert_eq!(lists_after(4, 0), SHORT_LISTS, "the store took none of them");
        assert_eq!(lists_after(32, 32 << 15), SHORT_LISTS);
        assert_eq!(lists_after(32, 32 << 16), 16);
        assert_eq!(lists_after(16, 16 << 20), LISTS);
        assert_eq!(lists_after(4, usize::MAX), LISTS);
    }
}
