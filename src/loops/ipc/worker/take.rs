//! Files that may be taken, taken in: claimed, read, settled and answered.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::{task::spawn_blocking, time::Instant};

use super::{
    super::{
        super::Host,
        answer::settle_again,
        flow::{CLAIMED_AT_ONCE, Flow, Handled, Searches, TOGETHER, handle},
        gate::{self, Open},
        read::{Patience, Taken, claim},
    },
    Worker,
};
use crate::{
    domain::room::Intake,
    failpoint,
    ipc::{Claimed, CommandBox},
};

/// So few files are taken at once; for more a group waits until the crowd has places.
const FEW: usize = 8;
/// So many places in the crowd a group takes at least: a dozen at once keep the disk busy.
const LEAST: usize = 32;

impl Worker {
    /// Claims, reads, settles and answers files; returns how many were claimed.
    pub(super) async fn take(&mut self, files: Vec<(CommandBox, OsString)>, patience: Patience) -> usize {
        let mut count = 0;
        let mut files = files.into_iter();
        while files.len() > 0 {
            let open = self.gate.opens_for(&self.host, &self.folder, self.unsettled);
            if open.files == 0 {
                return count;
            }
            let wanted = if files.len() > FEW { files.len().clamp(LEAST, TOGETHER) } else { 0 };
            let places = self.host.crowd.acquire_many(u32::try_from(wanted).unwrap_or(0)).await;
            let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
            let room = host.config.waiting_bytes.saturating_sub(self.unsettled);
            // One thread from the claim to the answer: each change of threads would cost more than the work.
            let searches = if wanted == 0 { Searches::Now } else { Searches::Later };
            let taking = move || take_in(&host, &folder, files, open, room, patience, searches);
            let TakenIn { rest, claimed, handled, stuck, left_searches } =
                spawn_blocking(taking).await.unwrap_or_default();
            drop(places);
            files = rest;
            count += claimed;
            self.gate.took(claimed, &handled);
            self.unsettled += handled.unsettled;
            let now = Instant::now();
            self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
            settle_again(&self.host, &self.folder, handled.waiting).await;
            if left_searches {
                // Without a place in the crowd: others who take in many do not wait for them.
                self.look_again(patience).await;
            }
            if stuck {
                self.gate.shut();
                return count;
            }
        }
        count
    }

    /// Looks at files again that were not whole.
    pub(super) async fn look_again(&mut self, patience: Patience) {
        let growing = std::mem::take(&mut self.growing);
        if growing.is_empty() {
            self.unsettled = 0;
            return;
        }
        let now = Instant::now();
        let since: BTreeMap<i64, Instant> = growing.iter().map(|(claimed, at)| (claimed.id, *at)).collect();
        self.unsettled = 0;
        let taken: Vec<_> =
            growing.into_iter().map(|(claimed, at)| Taken::before(claimed, now.duration_since(at))).collect();
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let handled = spawn_blocking(move || handle(&host, &folder, taken, patience, Searches::Now))
            .await
            .unwrap_or_default();
        self.gate.took(0, &handled);
        self.unsettled += handled.unsettled;
        self.growing.extend(handled.growing.into_iter().map(|claimed| {
            let at = since.get(&claimed.id).copied().unwrap_or(now);
            (claimed, at)
        }));
        settle_again(&self.host, &self.folder, handled.waiting).await;
    }

    /// Settles a claimed file now: a person has decided on it.
    pub(super) async fn settle_by_hand(&mut self, claimed: Claimed) {
        let known = self.growing.iter().position(|(growing, _)| growing.id == claimed.id);
        let claimed = known.map_or(claimed, |at| self.growing.swap_remove(at).0);
        let taken = vec![Taken::before(claimed, Duration::ZERO)];
        let (host, folder) = (Arc::clone(&self.host), self.folder.clone());
        let handled =
            spawn_blocking(move || handle(&host, &folder, taken, Patience::None, Searches::Now)).await;
        let handled = handled.unwrap_or_default();
        self.gate.took(0, &handled);
        self.unsettled += handled.unsettled;
        let now = Instant::now();
        self.growing.extend(handled.growing.into_iter().map(|claimed| (claimed, now)));
        settle_again(&self.host, &self.folder, handled.waiting).await;
    }
}

/// What became of files that were to be taken.
#[derive(Default)]
struct TakenIn {
    /// Those that were not looked at, as the world is in the way of what came before, or too much is unsettled.
    rest: std::vec::IntoIter<(CommandBox, OsString)>,
    claimed: usize,
    handled: Handled,
    /// One could not be claimed: what is younger must not go before it.
    stuck: bool,
    /// A search was left for later, with what is behind it.
    left_searches: bool,
}

/// Claims at most as many files as the gate is `open` for, while there is room for what they bring about and what can't be
/// settled yet has less than `room` bytes. On a thread that may block.
fn take_in(
    host: &Arc<Host>,
    folder: &Folder,
    mut files: std::vec::IntoIter<(CommandBox, OsString)>,
    open: Open,
    room: u64,
    patience: Patience,
    searches: Searches,
) -> TakenIn {
    let mut flow = Flow::new(host, folder, patience, searches);
    let Open { files: mut open, bytes: most } = open;
    let (mut claimed, mut stuck) = (0, false);
    while !stuck
        && open > 0
        && flow.so_far().bytes < most
        && files.len() > 0
        && flow.so_far().unsettled < room
        && flow.so_far().waiting.is_empty()
        && (claimed == 0 || gate::intake(host, folder) == Intake::Open)
        && !flow.has_left_searches()
    {
        failpoint::reach("ipc.seen");
        let Ok(boxes) = host.boxes(folder) else {
            files = Vec::new().into_iter();
            break;
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < TOGETHER
            && bytes < CLAIMED_AT_ONCE
            && open > 0
            && let Some((in_box, name)) = files.next()
        {
            open -= 1;
            match claim(host, &boxes, in_box, &name) {
                Ok(None) => {}
                Ok(Some(file)) => {
                    bytes += file.bytes();
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
            flow.take(taken, files.len());
        }
    }
    let left_searches = flow.has_left_searches();
    TakenIn { rest: files, claimed, handled: flow.end(), stuck, left_searches }
}
