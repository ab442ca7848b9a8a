//! What an earlier daemon left.
//!
//! The loop begins after the lock and before channels, lanes and schedules:
//!
//! | on record | the engine has | then |
//! |---|---|---|
//! | `queued` | no container of it | failed, its batch returned, no try spent |
//! | `queued` or `running` | `created` | removed by force, as above |
//! | `running` | running or exited | adopted: its output is read again from the start, known records are skipped |
//! | `running` | nothing | failed, "recovered stale active run" |
//! | `running`, of Docker, without an owner | nothing | stays: nobody can tell whether it is over, so its group waits until a person stops it |
//! | `running`, of the `process` sandbox | – | it died with its daemon: failed, returned |
//! | nothing active | a container of our label | removed |
//!
//! An engine that does not answer is not an empty engine: groups with an active run wait, the rest goes on. The same holds
//! for runs whose end can't be written down, as the disk is full: that goes on beside everything else. While the runs on
//! record can't be read, nothing is launched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use ipc_handlers::{Folder, Time};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Held, Obstacle, Runs,
    run::{self, NEVER_STARTED, STALE},
    shared::Adoption,
    starts::What,
};
use crate::{
    domain::{
        kept::disk::{self as host_disk, Space},
        machine::loops::LoopName,
        runs::lanes::{Event, Holding, WaitingLane},
        shown::errors::chain,
    },
    engine::{Error, Loop, Plan, Read, Then, Why},
    sandbox::{Found, State},
    store::{ActiveRun, StoreError},
};

/// How often an engine that is away is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Why a person decides on a run that nobody owns.
const NOBODY_KNOWS: &str =
    "the engine has no container of it, and nobody knows whose it was; `g2 runs stop` ends it";

/// How long a start waits for ends to be written down.
const ENDING: Duration = Duration::from_secs(30);
/// The same where the disk has no room for them.
const ENDING_WITHOUT_ROOM: Duration = Duration::from_millis(500);

/// How far a start is with what an earlier daemon left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Begun,
    /// The runs on record can't be read. Nothing is launched until they can.
    Unread,
    /// The lanes know which groups wait, and for what. The ends of these many runs are not written down.
    Looked(usize),
}

/// Tells how far a start is.
pub struct Recovering(watch::Receiver<Progress>);

impl Recovering {
    /// Waits until it is known which groups wait, and until the ends of runs are written down, unless something is in the way.
    ///
    /// # Errors
    /// The loop has failed by a fault of our own.
    pub async fn wait(mut self, runs: &Runs) -> anyhow::Result<()> {
        let looked = self.0.wait_for(|progress| *progress != Progress::Begun).await;
        let looked = *looked.context("looking for what an earlier daemon left failed; the log says more")?;
        if looked == Progress::Unread {
            return Ok(());
        }
        let room = host_disk::space(&runs.machine.whole_disk());
        let limit = if room == Space::Enough { ENDING } else { ENDING_WITHOUT_ROOM };
        let all = self.0.wait_for(|progress| *progress == Progress::Looked(0));
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!(
                "what runs of an earlier daemon came to can't be written down yet; their groups wait"
            );
        }
        Ok(())
    }
}

/// Sees to what an earlier daemon left: adopts its runs, or ends them.
pub struct Recovery {
    runs: Arc<Runs>,
    held: Arc<Held>,
    /// The runs on record could not be read yet.
    is_unread: bool,
    /// Runs of which nobody can tell yet whether they live, and those of groups that are set aside.
    unknown: Vec<ActiveRun>,
    /// Runs that a person decides on.
    unowned: Vec<ActiveRun>,
    /// Runs that are being ended, each with its group.
    ends: BTreeMap<i64, Folder>,
    /// Those that are to begin to end.
    begun: Vec<(i64, End)>,
    /// Groups that wait for nothing any more, but what waits in them can't be read.
    unreleased: BTreeSet<Folder>,
    /// The engine has told what it has, and whether it was found away.
    has_asked: bool,
    is_away: bool,
    progress: watch::Sender<Progress>,
}

/// How a run is ended of which there is nothing to read.
type End = (ActiveRun, run::Ending);

impl Recovery {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(runs: Arc<Runs>, held: Arc<Held>) -> (Self, Recovering) {
        let (progress, recovering) = watch::channel(Progress::Begun);
        let this = Self {
            runs,
            held,
            is_unread: true,
            unknown: Vec::new(),
            unowned: Vec::new(),
            ends: BTreeMap::new(),
            begun: Vec::new(),
            unreleased: BTreeSet::new(),
            has_asked: false,
            is_away: false,
            progress,
        };
        (this, Recovering(recovering))
    }
}

impl Loop for Recovery {
    const NAME: LoopName = LoopName::Recovery;
    const AT_ONCE: usize = usize::MAX;
    const LOOKS_AT_ENDS: bool = true;
    /// Which groups wait is in memory alone.
    const OUTLIVES_PANICS: bool = false;
    const FINISHES_LOOKS: bool = true;
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    const LOOKS_WITHIN: Duration = Duration::from_secs(300);
    /// The run.
    type Key = i64;
    type Job = End;
    type Hands = Runs;

    fn hands(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    async fn asked(&mut self) {
        self.runs.machine.look_at_runs.notified().await;
    }

    async fn look(&mut self, why: &Why<i64>) -> Result<Plan<i64, End>, Error> {
        if self.is_unread {
            self.read_runs()?;
        }
        self.unreleased.extend(why.ended.iter().filter_map(|run| self.ends.remove(run)));
        self.look_at_unowned();
        let is_away = self.look_at_unknown().await;
        let read = self.release();
        self.progress.send_replace(Progress::Looked(self.ends.len()));
        let waits = is_away || !self.unknown.is_empty() || !self.unowned.is_empty();
        let again = waits.then_some(ASK_AGAIN);
        Ok(Plan { wake: std::mem::take(&mut self.begun), again, read, ..Plan::default() })
    }

    /// Ends a run. An obstacle to one end is none to the others.
    async fn perform(
        runs: Arc<Runs>,
        _: i64,
        (run, ending): End,
        _: CancellationToken,
    ) -> Result<Then, Error> {
        run::end_without_container(&runs, &run, ending).await;
        runs.starts.taken(&run.group, What::Output);
        Ok(Then::Done)
    }

    fn span(run: &i64, (of, _): &End) -> tracing::Span {
        run::span(&of.group, *run)
    }
}

impl Recovery {
    /// Reads the runs on record. Their groups wait until it is known how these stand.
    fn read_runs(&mut self) -> Result<(), Error> {
        let active = match self.runs.store.active_runs() {
            Ok(active) => active,
            Err(error) => {
                let why = format!("the runs of an earlier daemon can't be read: {}", chain(&error));
                self.runs.machine.set_unread(Some(why));
                self.runs.lanes.tell(Event::Pause);
                self.progress.send_replace(Progress::Unread);
                return Err(error.into());
            }
        };
        self.is_unread = false;
        for run in &active {
            let reason = if self.held.is_aside(&run.group) { Holding::SetAside } else { Holding::Unknown };
            self.runs.lanes.tell(Event::Hold { group: run.group.clone(), reason });
        }
        self.end_gone(active);
        // Launching goes on only then.
        self.runs.machine.set_unread(None);
        self.runs.machine.look_again.notify_one();
        Ok(())
    }

    /// Ends a run of which there is nothing to read.
    fn end(&mut self, run: ActiveRun, ending: run::Ending) {
        self.ends.insert(run.id, run.group.clone());
        self.begun.push((run.id, (run, ending)));
    }

    /// Ends the runs that died with their daemon. The others may live, or are looked after by a person.
    fn end_gone(&mut self, active: Vec<ActiveRun>) {
        let survives =
            |run: &ActiveRun| run.sandbox == self.runs.sandbox.kind() && self.runs.sandbox.survives_us();
        let (here, gone): (Vec<_>, Vec<_>) = active.into_iter().partition(survives);
        let (unowned, gone): (Vec<_>, Vec<_>) = gone.into_iter().partition(ActiveRun::is_unowned);
        for run in gone {
            tracing::warn!(run = run.id, group = %run.group, "a run died with its daemon");
            // Its container's id goes on the row before it is started.
            let ending = if run.container.is_some() { STALE } else { NEVER_STARTED };
            self.end(run, ending);
        }
        self.unknown.extend(here);
        without_owner(&unowned, NOBODY_KNOWS, self.runs.machine.world.now());
        self.unowned.extend(unowned);
    }

    /// Looks at runs that a person decides on, and ends those that are to be stopped.
    fn look_at_unowned(&mut self) {
        for run in std::mem::take(&mut self.unowned) {
            match self.runs.store.active_run(run.id) {
                // How it ends is on its row.
                Ok(Some(now)) if now.stop.is_some() => self.end(now, STALE),
                // It is looked at again soon.
                Ok(Some(_)) | Err(_) => self.unowned.push(run),
                Ok(None) => drop(self.unreleased.insert(run.group)),
            }
        }
    }

    /// Asks the engine after runs that may live. Returns whether it is away. Groups that are set aside wait.
    async fn look_at_unknown(&mut self) -> bool {
        let (aside, known) = without_aside(&self.held, std::mem::take(&mut self.unknown));
        if known.is_empty() && self.has_asked {
            self.unknown = aside;
            return false;
        }
        match self.runs.sandbox.list(&self.runs.instance).await {
            Ok(found) => {
                if !self.has_asked {
                    without_owner(&aside, "its group is set aside", self.runs.machine.world.now());
                }
                self.has_asked = true;
                let groups: Vec<Folder> = known.iter().map(|run| run.group.clone()).collect();
                let adopted = self.sort_out(known, &aside, found).await;
                // Of the others the runs are to be ended first, or a person decides.
                self.unreleased.extend(groups.into_iter().filter(|group| !adopted.contains(group)));
                self.unknown = aside;
                false
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    let why = format!("the engine does not answer: {}", chain(&error));
                    without_owner(&known, &why, self.runs.machine.world.now());
                }
                self.runs.machine.set_obstacle(Some(Obstacle::Engine(chain(&error))));
                self.runs.lanes.tell(Event::Pause);
                self.unknown = [known, aside].concat();
                true
            }
        }
    }

    /// Compares the runs on record with the engine's containers, and returns the groups of those that are adopted. Containers of the
    /// runs `aside` are left alone.
    async fn sort_out(
        &mut self,
        active: Vec<ActiveRun>,
        aside: &[ActiveRun],
        found: Vec<Found>,
    ) -> BTreeSet<Folder> {
        let runs = Arc::clone(&self.runs);
        let mut adopted = BTreeSet::new();
        let mut found = found;
        found.retain(|container| aside.iter().all(|run| run.id != container.run));
        for mut run in active {
            let at = found.iter().position(|c| c.run == run.id);
            let container = at.map(|at| found.swap_remove(at));
            match container {
                Some(container) if container.state != State::Created => {
                    // The row may have missed the id: the label is as good.
                    if run.container.is_none() {
                        if let Err(error) = runs.store.run_created(run.id, &container.id).await {
                            tracing::error!(run = run.id, error = %chain(&error), "recording a container failed");
                        }
                        run.container = Some(container.id);
                    }
                    let state = run.life.adopted();
                    adopted.insert(run.group.clone());
                    runs.lanes.adopt(Adoption { run, state });
                }
                Some(container) => {
                    remove(&runs, &container).await;
                    self.end(run, NEVER_STARTED);
                }
                None if run.is_unowned() => {
                    without_owner(std::slice::from_ref(&run), NOBODY_KNOWS, runs.machine.world.now());
                    self.unowned.push(run);
                }
                None if run.container.is_none() => self.end(run, NEVER_STARTED),
                None => self.end(run, STALE),
            }
        }
        for leftover in found {
            // One that was launched meanwhile is none.
            if !matches!(runs.store.active_run(leftover.run), Ok(None)) {
                continue;
            }
            tracing::info!(
                container = leftover.name,
                run = leftover.run,
                "removing a container whose run has ended"
            );
            remove(&runs, &leftover).await;
        }
        adopted
    }

    /// Lets groups go on that wait for nothing any more.
    fn release(&mut self) -> Read {
        let mut failed = None;
        let waits = |group: &Folder| {
            let of_group = |run: &ActiveRun| run.group == *group;
            self.ends.values().any(|of| of == group) || self.unowned.iter().chain(&self.unknown).any(of_group)
        };
        let (still, free): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.unreleased).into_iter().partition(waits);
        // Those are released with the last that is in their way.
        drop(still);
        for group in free {
            if let Err(error) = release(&self.runs, &group) {
                self.unreleased.insert(group);
                failed = Some(error);
            }
        }
        failed.map_or(Read::All, |error| Read::Failed(error.into()))
    }
}

/// A group's state is known: what waits in its lanes goes on.
fn release(runs: &Runs, group: &Folder) -> Result<(), StoreError> {
    for lane in &runs.store.waiting_lanes_of(group)? {
        let waiting = WaitingLane::from(lane);
        runs.lanes.tell(Event::Waiting { group: group.clone(), waiting });
    }
    for reason in [Holding::Unknown, Holding::SetAside] {
        runs.lanes.tell(Event::Release { group: group.clone(), reason });
    }
    Ok(())
}

/// Names runs over which nobody watches, with their age. The work of their sources waits.
fn without_owner(runs: &[ActiveRun], why: &str, now: Time) {
    for run in runs {
        let minutes = now.ms_since(run.created).max(0) / 60_000;
        tracing::warn!(run = run.id, group = %run.group, source = %run.work, begun = %run.created, minutes, why, "a run has no owner; its group waits for it");
    }
}

/// Parts runs into those of groups that are set aside, which nobody looks into, and the others.
fn without_aside(held: &Held, runs: Vec<ActiveRun>) -> (Vec<ActiveRun>, Vec<ActiveRun>) {
    runs.into_iter().partition(|run| held.is_aside(&run.group))
}

/// Removes a container. One that stays is removed by the next start.
async fn remove(runs: &Runs, found: &Found) {
    if let Err(error) = runs.sandbox.remove(&found.id).await {
        tracing::warn!(container = found.name, run = found.run, error = %chain(&error), "removing a container failed");
    }
}
