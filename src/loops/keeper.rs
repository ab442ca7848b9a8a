//! What operations have the daemon's loops do: look again, have a run leave, settle what lies in a group's boxes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use ipc_handlers::Folder;
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    time::{timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{Ask, Boxes, Machine, Snapshots, ToLanes, chats::Listings};
use crate::{
    config::{ConfigError, Live, Taken},
    domain::{
        machine::loops::LoopName,
        platforms::chats::Listed,
        runs::lanes::{Event, Holding, WaitingLane},
        shown::{errors::chain, feed::EventKind},
    },
    engine::{Error, Loop, NoSuchLoop, Plan, Then, Why},
    gateway::Gateway,
    ipc::{Claimed, Claims, GroupBoxes, peek},
    ops::{self, Answer, By, Keeper, Later, Op, OpCode, OpError, Site, ipc::ByHand},
    store::{Note, Store, StoreError},
    system::{failpoint, locked::Locked as _},
};

/// How many operations run at a time. They may look at many files, and others need threads for that too.
const AT_A_TIME: u32 = 8;
/// How long an orderly stop waits for operations under way.
const ENDING: Duration = Duration::from_secs(5);
/// How long a run may take to be stopped, once its grace for leaving is over.
const STOPPING: Duration = Duration::from_secs(20);
/// How long a person waits for accounts that are asked for their chats.
const LISTING: Duration = Duration::from_secs(20);
/// How long a loop may take to come round when keys of it are released.
const COMES_ROUND: Duration = Duration::from_secs(10);
/// A removal that is not finished is tried again after this many times `limits.retry_base_ms`: a minute by default.
const FINISH_AGAIN: u64 = 12;
/// The shortest and the longest pause before that.
const FINISH_BOUNDS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_mins(1));

/// What became of the settings. If they can't be used, those of before hold.
pub type Reread = Result<Taken, ConfigError>;

/// The daemon, as operations see it.
pub struct Keeping {
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub store: Store,
    pub boxes: Arc<Boxes>,
    pub claims: Arc<Claims>,
    pub snapshots: Arc<Snapshots>,
    pub gateway: Arc<Gateway>,
    /// The lists of accounts' chats.
    pub listings: Arc<Listings>,
    /// Wakes who hands texts for an owner over.
    pub pushes: Arc<Notify>,
    /// Wakes who makes backups.
    pub backups: Arc<Notify>,
    pub machine: Arc<Machine>,
    /// News for the lanes.
    pub lanes: ToLanes,
    /// Requests to the loop `ipc`.
    pub mailboxes: mpsc::UnboundedSender<Ask>,
    /// Asks that the settings are read again, and waits until that is done.
    pub settings: mpsc::UnboundedSender<oneshot::Sender<Reread>>,
    /// A place for each operation that may run now.
    pub places: Arc<Semaphore>,
    /// The groups that are being removed.
    pub removing: Mutex<BTreeSet<Folder>>,
    /// A removal may not be finished.
    pub unfinished: Notify,
}

impl Keeping {
    /// The places for operations, none of them taken.
    #[must_use]
    pub fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(AT_A_TIME as usize))
    }
}

/// Does an operation.
///
/// # Errors
/// [`OpError`].
pub(super) async fn perform(keeping: &Arc<Keeping>, by: By, op: Op) -> Result<Answer, OpError> {
    let place = Arc::clone(&keeping.places).acquire_owned().await;
    let (world, keeping) = (keeping.machine.world.clone(), Arc::clone(keeping));
    // It looks at files, and may wait for a disk.
    let work = move || {
        // It goes on where nobody waits for it any more, and the stop waits for it.
        let _place = place;
        let config = keeping.config.now();
        let site = Site {
            world: &keeping.machine.world,
            root: &keeping.root,
            settings: Ok(&config),
            store: &keeping.store,
            box_owner: keeping.boxes.agent,
            keeper: &keeping,
        };
        keeping.machine.world.wait(ops::perform(&site, &by, op))
    };
    match world.blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(error = %chain(&error), "an operation failed; that is our fault");
            Err(OpError::new(OpCode::Unknown, "the daemon failed while it did this")
                .hint("look whether it is done; the daemon's log has more"))
        }
    }
}

/// Waits until the operations are through that were asked for before; for some seconds at most.
pub(super) async fn all_done(keeping: &Keeping) {
    // Each has a place, and they are given in the order in which they are asked for.
    if timeout(ENDING, keeping.places.acquire_many(AT_A_TIME)).await.is_err() {
        tracing::warn!("an operation under way is not waited for any longer");
    }
}

/// Finishes the removals of groups that are not finished.
pub struct Removals {
    keeping: Arc<Keeping>,
    /// When it is to be looked for them; `None`: none is known to be unfinished.
    due: Option<Instant>,
}

impl Removals {
    #[must_use]
    pub const fn new(keeping: Arc<Keeping>) -> Self {
        Self { keeping, due: None }
    }
}

impl Loop for Removals {
    const NAME: LoopName = LoopName::Removals;
    /// Each moves files, one after the other.
    const AT_ONCE: usize = 1;
    type Key = Folder;
    type Job = ();
    type Hands = Keeping;

    fn hands(&self) -> Arc<Keeping> {
        Arc::clone(&self.keeping)
    }

    async fn asked(&mut self) {
        self.keeping.unfinished.notified().await;
    }

    async fn look(&mut self, why: &Why<Folder>) -> Result<Plan<Folder, ()>, Error> {
        let (is_asked, pause) = (why.all || why.asked, self.keeping.pause());
        let now = self.keeping.machine.world.monotonic();
        match when(&mut self.due, is_asked, now, pause) {
            When::Never => return Ok(Plan::default()),
            When::In(rest) => return Ok(Plan::again(rest)),
            When::Now => {}
        }
        let leaving = self.keeping.leaving().await?;
        self.due = None;
        Ok(Plan { begin: leaving.into_iter().map(|group| (group, ())).collect(), ..Plan::default() })
    }

    async fn perform(
        keeping: Arc<Keeping>,
        group: Folder,
        (): (),
        _: CancellationToken,
    ) -> Result<Then, Error> {
        finish_one(&keeping, group).await
    }
}

/// When it is to be looked for removals that are not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    In(Duration),
    Now,
}

/// Returns when it is to be looked. `is_asked`: one may not be finished, which has just been tried.
fn when(due: &mut Option<Instant>, is_asked: bool, now: Instant, pause: Duration) -> When {
    if is_asked {
        due.get_or_insert(now + pause);
    }
    match *due {
        None => When::Never,
        Some(due) if due > now => When::In(due - now),
        Some(_) => When::Now,
    }
}

/// Finishes the removals of groups that were begun and that nobody is at, once; the loop goes on with those that fail.
pub async fn finish_removals(keeping: &Arc<Keeping>) {
    let leaving = match keeping.leaving().await {
        Ok(leaving) => leaving,
        Err(error) => {
            return tracing::error!(error = %chain(&error), "reading which groups were being removed failed; that is tried again");
        }
    };
    for group in leaving {
        if let Err(error) = finish_one(keeping, group.clone()).await {
            tracing::error!(%group, error = %chain(&error), "finishing the removal of a group failed; that is tried again");
        }
    }
}

/// Finishes the removal of one group. An obstacle is told by [`Machine::remains`], so that it is no failure of the loop's.
async fn finish_one(keeping: &Arc<Keeping>, group: Folder) -> Result<Then, Error> {
    let pause = keeping.pause();
    let (world, keeping) = (keeping.machine.world.clone(), Arc::clone(keeping));
    // It moves files, which a container elsewhere may hold up.
    let work = move || keeping.machine.world.wait(keeping.finish_removal(&group));
    Ok(match world.blocking(work).await?? {
        Finished::Yes => Then::Done,
        Finished::No => Then::After(pause),
    })
}

/// Whether nothing is left of a group that was removed.
enum Finished {
    /// Or another is at it, who has it looked for again.
    Yes,
    /// Something is in the way.
    No,
}

impl Keeping {
    async fn empty(&self, group: &Folder) -> Result<(), OpError> {
        self.lanes.tell(Event::CloseAsked { group: group.clone() });
        self.wait_for_end(group).await?;
        let (done, drained) = oneshot::channel();
        if self.mailboxes.send(Ask::Drain(group.clone(), done)).is_ok()
            && !matches!(timeout(STOPPING, drained).await, Ok(Ok(_)))
        {
            return Err(unsettled(group));
        }
        // A number that can't be read now can't be counted later.
        self.unread(group)?;
        self.check_settled(group)
    }

    /// Returns the pause before a removal that is not finished is tried again.
    fn pause(&self) -> Duration {
        let base = self.config.now().limits.retry_base_ms.unsigned_abs();
        let pause = Duration::from_millis(base.saturating_mul(FINISH_AGAIN));
        pause.clamp(FINISH_BOUNDS.0, FINISH_BOUNDS.1)
    }

    /// Returns the groups whose removal was begun and is not finished.
    async fn leaving(&self) -> Result<BTreeSet<Folder>, StoreError> {
        let leaving: BTreeSet<Folder> = self.store.leaving().await?.into_iter().collect();
        // Our own fault may have come before the rows of the group went.
        self.machine.remains().retain(|group, _| leaving.contains(group));
        Ok(leaving)
    }

    async fn finish_removal(&self, group: &Folder) -> Result<Finished, StoreError> {
        // The operation at work on it has it looked for again.
        let Ok(_turn) = self.begin_removal(group) else { return Ok(Finished::Yes) };
        // It may be finished since, and another group have its name.
        if !self.store.leaving().await?.contains(group) {
            return Ok(Finished::Yes);
        }
        match self.put_away(group).await {
            Ok(_) => {
                tracing::info!(%group, "nothing is left of a group that was removed; its name is free");
                Ok(Finished::Yes)
            }
            Err(error) => {
                tracing::error!(%group, error = %chain(&error), "something is left of a group that was removed; that is tried again, and no group of that name is made before");
                Ok(Finished::No)
            }
        }
    }

    /// Has nothing be left of a group that was removed, and then frees its name. Returns how many commands went unread. Only for who
    /// removes it.
    async fn put_away(&self, group: &Folder) -> Result<usize, OpError> {
        let tried = self.try_to_put_away(group).await;
        match &tried {
            Ok(_) => drop(self.machine.remains().remove(group)),
            Err(error) => drop(self.machine.remains().insert(group.clone(), chain(error))),
        }
        tried
    }

    async fn try_to_put_away(&self, group: &Folder) -> Result<usize, OpError> {
        let (done, put_away) = oneshot::channel();
        // Where nobody takes it, nobody answers.
        let _ = self.mailboxes.send(Ask::PutAway(group.clone(), done));
        let ended = put_away.await.map_err(|_| stops())?;
        if timeout(STOPPING, ended.cancelled()).await.is_err() {
            return Err(not_gone(group));
        }
        // Its end does not wait for a number.
        let unread = self.unread(group).unwrap_or_else(|error| {
            tracing::warn!(%group, error = %chain(&error), "how many commands of a group that is removed go unread can't be counted");
            0
        });
        self.boxes.dirs.discard_box(group)?;
        for claimed in self.undecided(group)? {
            self.have_settled(claimed).await;
        }
        if !self.undecided(group)?.is_empty() {
            return Err(not_gone(group));
        }
        failpoint::reach("op.group_put_away");
        self.store.has_left(group.clone()).await?;
        Ok(unread)
    }

    /// Begins to remove a group, or what is left of it; at most one does at a time.
    fn begin_removal<'a>(&'a self, group: &'a Folder) -> Result<Removing<'a>, OpError> {
        if !self.removing().insert(group.clone()) {
            return Err(OpError::refused(format!("group {group} is being removed"))
                .hint(format!("in a moment, `g2 groups show {group}` says whether it is gone")));
        }
        Ok(Removing(self, group))
    }

    /// Lets somebody else try. Something may be left, also after our own fault.
    fn has_tried_to_remove(&self, group: &Folder) {
        if std::thread::panicking() {
            let why = "our own fault; the daemon's log says more".to_owned();
            self.machine.remains().insert(group.clone(), why);
        }
        self.removing().remove(group);
        self.unfinished.notify_one();
    }

    fn removing(&self) -> MutexGuard<'_, BTreeSet<Folder>> {
        self.removing.locked()
    }

    async fn have_settled(&self, claimed: Claimed) {
        let (done, settled) = oneshot::channel();
        if self.mailboxes.send(Ask::Settle(claimed, done)).is_ok() {
            // The caller looks whether it is settled: a stop may come between.
            let _ = settled.await;
        }
    }

    /// Counts the commands in a group's boxes, which its limits keep from being settled.
    fn unread(&self, group: &Folder) -> Result<usize, OpError> {
        // A directory is never settled.
        let waiting = peek::waiting(&self.root.join("data"), [group], 1).whole()?;
        Ok(waiting.seen - waiting.directories)
    }

    /// The claimed commands of a group have to be settled, or dropped.
    fn check_settled(&self, group: &Folder) -> Result<(), OpError> {
        for claimed in self.undecided(group)? {
            if !matches!(self.store.note(claimed.id)?, Some(Note::Dropped(_))) {
                return Err(unsettled(group));
            }
        }
        Ok(())
    }

    /// Returns the claims of a group that have no receipt.
    fn undecided(&self, group: &Folder) -> Result<Vec<Claimed>, OpError> {
        let mut claims = self.claims.left_over()?.claims;
        claims.retain(|claimed| claimed.folder == *group);
        let mut undecided = Vec::new();
        for claimed in claims {
            if self.store.receipt(claimed.id)?.is_none() {
                undecided.push(claimed);
            }
        }
        Ok(undecided)
    }

    async fn wait_for_end(&self, group: &Folder) -> Result<(), OpError> {
        let deadline = self.machine.world.monotonic()
            + Duration::from_millis(self.config.now().health.close_grace_ms)
            + STOPPING;
        let mut feed = self.store.follow_kinds(&[EventKind::Run]).await;
        while let Some(run) = self.store.active_run_of(group)? {
            if timeout_at(deadline.into(), feed.next()).await.is_err() {
                let still = format!("group {group} is still there: its run {run} does not end");
                return Err(OpError::refused(still).hint(format!("see `g2 runs show {run}`")));
            }
        }
        Ok(())
    }
}

fn unsettled(group: &Folder) -> OpError {
    OpError::refused(format!("commands of group {group} are claimed and not settled")).hint(format!(
        "see `g2 ipc list --group {group}` and `g2 status`; when they are settled or dropped, remove the group"
    ))
}

fn not_gone(group: &Folder) -> OpError {
    OpError::refused(format!("commands of an earlier group {group} are claimed and not settled"))
        .hint("that is tried again each minute; the daemon's log says what is in the way")
}

fn stops() -> OpError {
    OpError::new(OpCode::Failed, "the daemon stops").hint("try again when it is up")
}

/// A group that is being removed, until this is dropped.
struct Removing<'a>(&'a Keeping, &'a Folder);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.0.has_tried_to_remove(self.1);
    }
}

impl Keeper for Arc<Keeping> {
    fn changed<'a>(&'a self, group: Option<&'a Folder>) -> Later<'a, Result<(), OpError>> {
        Box::pin(async move {
            changed(self, group.cloned()).await;
            Ok(())
        })
    }

    fn pushes(&self) {
        self.pushes.notify_one();
    }

    fn backs_up(&self) {
        self.backups.notify_one();
    }

    fn settings(&self) -> Later<'_, ()> {
        Box::pin(async move {
            let (done, followed) = oneshot::channel();
            if self.settings.send(done).is_ok() {
                // An obstacle is logged there. A stop may come between; the next daemon reads the settings.
                let _ = followed.await;
            }
        })
    }

    fn waits(&self, group: &Folder, lane: i64) {
        match self.store.lanes(&[lane]) {
            Ok(lanes) => {
                for lane in lanes {
                    let waiting = WaitingLane::from(&lane);
                    self.lanes.tell(Event::Waiting { group: group.clone(), waiting });
                }
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading a lane in which a message waits failed; the next one there has it seen");
            }
        }
    }

    fn wake(&self, group: &Folder, lanes: &[i64]) {
        self.lanes.wake(group, lanes);
    }

    fn clear<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>> {
        Box::pin(async move {
            if self.store.has_group(group)? {
                return Ok(());
            }
            let _turn = self.begin_removal(group)?;
            // From now on nobody makes a group of this name, which may have been made since.
            match self.store.leave(group.clone()).await? {
                true => Keeping::put_away(self, group).await.map(drop),
                false => Ok(()),
            }
        })
    }

    fn rules_changed(&self, group: &Folder) -> Result<(), OpError> {
        let read = || self.store.rules_outside(group, &self.config.now().egress.allow);
        Ok(self.gateway.read_rules(group, read)?)
    }

    fn relaunch(&self, group: &Folder) {
        self.lanes.tell(Event::CloseAsked { group: group.clone() });
    }

    fn has_its_folder(&self, group: &Folder) {
        self.machine.lost().remove(group);
        self.lanes.tell(Event::Release { group: group.clone(), reason: Holding::Folder });
    }

    fn stop_run(&self, group: &Folder, run: i64) {
        self.lanes.tell(Event::StopAsked { group: group.clone(), run });
    }

    fn keep_out(&self, group: &Folder) -> Result<(), OpError> {
        // Until it is let in.
        std::mem::forget(self.begin_removal(group)?);
        self.lanes.tell(Event::Hold { group: group.clone(), reason: Holding::Removal });
        Ok(())
    }

    fn let_in(&self, group: &Folder) {
        self.has_tried_to_remove(group);
        self.lanes.tell(Event::Release { group: group.clone(), reason: Holding::Removal });
    }

    fn empty<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>> {
        Box::pin(Keeping::empty(self, group))
    }

    fn put_away<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<usize, OpError>> {
        Box::pin(Keeping::put_away(self, group))
    }

    fn boxes(&self, group: &Folder) -> Result<Arc<GroupBoxes>, OpError> {
        Ok(self.boxes.of(group)?)
    }

    fn hand(&self) -> Result<ByHand<'_>, OpError> {
        Ok(ByHand { store: &self.store, dirs: &self.boxes.dirs, claims: &self.claims })
    }

    fn settle(&self, claimed: Claimed) -> Later<'_, Option<Claimed>> {
        Box::pin(async move {
            self.have_settled(claimed).await;
            None
        })
    }

    fn list_chats<'a>(&'a self, accounts: &'a [String]) -> Later<'a, BTreeMap<String, Listed>> {
        Box::pin(self.listings.want(accounts, LISTING))
    }

    fn release_keys<'a>(&'a self, name: LoopName, key: Option<&'a str>) -> Later<'a, Result<usize, OpError>> {
        Box::pin(async move {
            match timeout(COMES_ROUND, self.machine.loops.release(name, key.map(str::to_owned))).await {
                Ok(Ok(released)) => Ok(released),
                // Nothing rests in a loop that has ended, or has not begun.
                Ok(Err(NoSuchLoop(_))) => Ok(0),
                Err(_) => {
                    let busy =
                        format!("the loop {name} has not come round within {} s", COMES_ROUND.as_secs());
                    Err(OpError::new(OpCode::Failed, busy)
                        .hint("it does this when it comes round; `g2 loops list` shows how it stands"))
                }
            }
        })
    }

    fn is_serving(&self) -> bool {
        true
    }
}

/// Takes in what was changed in the store, about a group or about who knows what. When it returns, boxes and snapshots are as
/// the store is.
async fn changed(keeping: &Keeping, group: Option<Folder>) {
    if let Err(error) = keeping.store.look_at_feed().await {
        tracing::error!(error = %chain(&error), "reading the feed of changes failed; it is read again in a second");
    }
    // Where that can't be read, the lanes learn it from the feed.
    if let Some(group) = &group
        && matches!(keeping.store.has_group(group), Ok(false))
    {
        keeping.lanes.tell(Event::GroupRemoved { group: group.clone() });
    }
    let (done, opened) = oneshot::channel();
    if keeping.mailboxes.send(Ask::Groups(done)).is_ok() {
        // A stop may come between; the next daemon opens them.
        let _ = opened.await;
    }
    let at_work = Arc::clone(&keeping.snapshots);
    let written = keeping.machine.world.blocking(move || {
        at_work.write_awaited(group.as_ref().as_slice());
        at_work.write_rest();
    });
    if let Err(fault) = written.await {
        tracing::error!(fault = %chain(&fault), "our own fault: following the feed of changes failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::world::World;

    #[test]
    fn removals_are_looked_for_a_pause_after_the_first_that_may_be_unfinished() {
        let (pause, begun, mut due) = (Duration::from_secs(60), World::real().monotonic(), None);
        let mut look = |secs, is_asked| when(&mut due, is_asked, begun + Duration::from_secs(secs), pause);
        assert_eq!(look(0, false), When::Never);
        assert_eq!(look(1, true), When::In(pause));
        assert_eq!(look(31, true), When::In(Duration::from_secs(30)), "others do not put it off");
        assert_eq!(look(61, false), When::Now);
        assert_eq!(look(70, false), When::Now, "until it could be read");
        due = None;
        assert_eq!(when(&mut due, false, begun, pause), When::Never);
    }
}
