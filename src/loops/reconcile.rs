//! What an earlier daemon left, and whether the world lets us launch.
//!
//! [`recover`] runs after the lock and before channels, lanes and schedules:
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

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    Held, Obstacle, Runs, Trouble, disk,
    dispatch::Adoption,
    lost,
    run::{self, NEVER_STARTED, STALE},
    starts::What,
};
use crate::{
    domain::{
        host::{
            disk::{self as host_disk, Space},
            errors::chain,
        },
        runs::lanes::{Event, Holding, WaitingLane},
    },
    sandbox::{Found, State},
    store::{ActiveRun, StoreError},
    system::{clock, panics::caught},
};

/// How often an engine that is away is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How soon the store is read again that could not be.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The rests before an end is tried again that failed by a fault of our own.
const END_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_END_AGAIN: Duration = Duration::from_secs(60);

/// Why a person decides on a run that nobody owns.
const NOBODY_KNOWS: &str =
    "the engine has no container of it, and nobody knows whose it was; `g2 runs stop` ends it";

/// How long a start waits for ends to be written down.
const ENDING: Duration = Duration::from_secs(30);
/// The same where the disk has no room for them.
const ENDING_WITHOUT_ROOM: Duration = Duration::from_millis(500);

/// What recovery found.
#[derive(Default)]
pub struct Recovered {
    pub adopted: Vec<Adoption>,
    pub waiting: Waiting,
}

/// Runs of an earlier daemon whose groups wait.
#[derive(Default)]
pub struct Waiting {
    /// The runs on record could not be read.
    is_unread: bool,
    /// Runs of which nobody can tell yet whether they live, and those of groups that are set aside.
    unknown: Vec<ActiveRun>,
    /// Runs that a person decides on.
    unowned: Vec<ActiveRun>,
    ends: Ends,
}

impl Waiting {
    /// Returns the groups that wait, and why.
    #[must_use]
    pub fn groups(&self, held: &Held) -> Vec<(Folder, Holding)> {
        let unknown = self.unknown.iter().chain(&self.unowned).map(|run| {
            let reason = if held.is_aside(&run.group) { Holding::SetAside } else { Holding::Unknown };
            (run.group.clone(), reason)
        });
        unknown.chain(self.ends.of.iter().map(|group| (group.clone(), Holding::Unknown))).collect()
    }
}

/// Runs that are being ended, each on a task of its own: what is in the way of one end is in nobody else's.
#[derive(Default)]
struct Ends {
    under_way: JoinSet<Folder>,
    of: BTreeSet<Folder>,
}

impl Ends {
    /// Ends a run of which there is nothing to read.
    fn begin(&mut self, runs: &Arc<Runs>, run: ActiveRun, ending: run::Ending) {
        self.of.insert(run.group.clone());
        let runs = Arc::clone(runs);
        self.under_way.spawn(async move {
            let mut rest = END_AGAIN;
            while let Err(fault) = caught(run::end_without_container(&runs, &run, ending.clone())).await {
                runs.machine.troubles.note(Trouble::Run(run.group.clone()), chain(&fault));
                tracing::error!(run = run.id, group = %run.group, fault = %chain(&fault), "our own fault: a run can't be ended, and its group waits; it is tried again");
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(LONGEST_END_AGAIN);
            }
            runs.machine.troubles.is_over(&Trouble::Run(run.group.clone()));
            runs.starts.taken(&run.group, What::Output);
            run.group
        });
    }

    /// Waits for the next end, and returns whose run that was. `None`: none is under way. Safe to cancel.
    async fn next(&mut self) -> Option<Folder> {
        loop {
            // Each sees to its own faults.
            if let Ok(group) = self.under_way.join_next().await? {
                self.of.remove(&group);
                return Some(group);
            }
        }
    }

    /// Waits until all are through, unless something is in the way.
    async fn wait(&mut self, runs: &Runs) {
        let room = host_disk::space(&runs.machine.whole_disk());
        let limit = if room == Space::Enough { ENDING } else { ENDING_WITHOUT_ROOM };
        let all = async { while self.next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            let groups = self.of.len();
            tracing::warn!(
                groups,
                "what runs of an earlier daemon came to can't be written down yet; their groups wait"
            );
        }
    }
}

/// Adopts or ends every run on record. The `ipc` loop has to be running: a run's boxes are drained before it is judged.
pub async fn recover(runs: &Arc<Runs>, held: &Held) -> Recovered {
    let active = match runs.store.active_runs() {
        Ok(active) => active,
        Err(error) => {
            tracing::error!(error = %chain(&error), "the runs of an earlier daemon can't be read; nothing is launched until they can");
            runs.machine.set_obstacle(Some(unread(&error)));
            return Recovered {
                waiting: Waiting { is_unread: true, ..Waiting::default() },
                ..Recovered::default()
            };
        }
    };
    let mut ends = Ends::default();
    let (here, mut unowned) = end_gone(runs, active, &mut ends);
    let (adopted, unknown) = match runs.sandbox.list(&runs.instance).await {
        Ok(found) => {
            let (aside, here) = without_aside(held, here);
            without_owner(&aside, "its group is set aside");
            let sorted = sort_out(runs, here, &aside, found, &mut ends).await;
            unowned.extend(sorted.unowned);
            (sorted.adopted, aside)
        }
        Err(error) => {
            without_owner(&here, &format!("the engine does not answer: {}", chain(&error)));
            runs.machine.set_obstacle(Some(Obstacle::Engine(chain(&error))));
            (Vec::new(), here)
        }
    };
    without_owner(&unowned, NOBODY_KNOWS);
    ends.wait(runs).await;
    Recovered { adopted, waiting: Waiting { is_unread: false, unknown, unowned, ends } }
}

fn unread(error: &StoreError) -> Obstacle {
    Obstacle::RunsUnread(format!("the runs of an earlier daemon can't be read: {}", chain(error)))
}

/// Ends the runs that died with their daemon. Returns those that may live, and those without an owner that can't be looked for.
fn end_gone(runs: &Arc<Runs>, active: Vec<ActiveRun>, ends: &mut Ends) -> (Vec<ActiveRun>, Vec<ActiveRun>) {
    let (here, gone): (Vec<_>, Vec<_>) =
        active.into_iter().partition(|run| run.sandbox == runs.sandbox.kind() && runs.sandbox.survives_us());
    let (unowned, gone): (Vec<_>, Vec<_>) = gone.into_iter().partition(ActiveRun::is_unowned);
    for run in gone {
        tracing::warn!(run = run.id, group = %run.group, "a run died with its daemon");
        // Its container's id goes on the row before it is started.
        let ending = if run.container.is_some() { STALE } else { NEVER_STARTED };
        ends.begin(runs, run, ending);
    }
    (here, unowned)
}

/// Names runs over which nobody watches, with their age. The work of their sources waits.
fn without_owner(runs: &[ActiveRun], why: &str) {
    for run in runs {
        let minutes = clock::now().ms_since(run.created).max(0) / 60_000;
        tracing::warn!(run = run.id, group = %run.group, source = run.source, begun = %run.created, minutes, why, "a run has no owner; its group waits for it");
    }
}

/// Parts runs into those of groups that are set aside, which nobody looks into, and the others.
fn without_aside(held: &Held, runs: Vec<ActiveRun>) -> (Vec<ActiveRun>, Vec<ActiveRun>) {
    runs.into_iter().partition(|run| held.is_aside(&run.group))
}

/// What became of runs that may live.
#[derive(Default)]
struct Sorted {
    adopted: Vec<Adoption>,
    unowned: Vec<ActiveRun>,
}

/// Compares the runs on record with what the engine has. What is of the runs `aside` is left alone.
async fn sort_out(
    runs: &Arc<Runs>,
    active: Vec<ActiveRun>,
    aside: &[ActiveRun],
    found: Vec<Found>,
    ends: &mut Ends,
) -> Sorted {
    let mut sorted = Sorted::default();
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
                sorted.adopted.push(Adoption { run, state });
            }
            Some(container) => {
                remove(runs, &container).await;
                ends.begin(runs, run, NEVER_STARTED);
            }
            None if run.is_unowned() => sorted.unowned.push(run),
            None if run.container.is_none() => ends.begin(runs, run, NEVER_STARTED),
            None => ends.begin(runs, run, STALE),
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
        remove(runs, &leftover).await;
    }
    sorted
}

/// Looks at runs that a person decides on, and ends those that are to be stopped. Returns the others.
fn look_at_unowned(
    runs: &Arc<Runs>,
    unowned: Vec<ActiveRun>,
    ends: &mut Ends,
    unreleased: &mut BTreeSet<Folder>,
) -> Vec<ActiveRun> {
    let mut left = Vec::new();
    for run in unowned {
        match runs.store.active_run(run.id) {
            // How it ends is on its row.
            Ok(Some(now)) if now.stop.is_some() => ends.begin(runs, now, STALE),
            Ok(Some(_)) | Err(_) => left.push(run),
            Ok(None) => release(runs, run.group, unreleased),
        }
    }
    left
}

/// Removes a container. One that stays is removed by the next start.
async fn remove(runs: &Runs, found: &Found) {
    if let Err(error) = runs.sandbox.remove(&found.id).await {
        tracing::warn!(container = found.name, run = found.run, error = %chain(&error), "removing a container failed");
    }
}

/// Looks whether launching is possible, and tells the lanes when that changes; sorts out runs that waited for an
/// engine to answer. Runs until the daemon stops.
pub async fn run(
    runs: Arc<Runs>,
    held: Arc<Held>,
    waiting: Waiting,
    adoptions: mpsc::UnboundedSender<Adoption>,
) {
    let Waiting { mut is_unread, mut unknown, mut unowned, mut ends } = waiting;
    let mut unreleased = BTreeSet::new();
    let mut paused = false;
    let ground = Arc::new(disk::Ground {
        config: Arc::clone(&runs.config),
        root: runs.root.clone(),
        store: runs.store.clone(),
        machine: Arc::clone(&runs.machine),
        lanes: runs.lanes.clone(),
    });
    let mut disk = disk::Watched::default();
    loop {
        lost::look_again(&runs).await;
        let mut obstacle = match disk.look(&ground).await {
            Space::Enough => engine_away(&runs).await.map(Obstacle::Engine),
            Space::Low { .. } | Space::Short { .. } => {
                Some(Obstacle::NoSpace(no_space(&runs, disk.is_filled_unseen())))
            }
        };
        if is_unread {
            match runs.store.active_runs() {
                Ok(active) => {
                    is_unread = false;
                    // Before anything is launched.
                    for run in &active {
                        let _ = runs
                            .lanes
                            .send(Event::Hold { group: run.group.clone(), reason: Holding::Unknown });
                    }
                    let (here, nobodys) = end_gone(&runs, active, &mut ends);
                    without_owner(&nobodys, NOBODY_KNOWS);
                    unknown.extend(here);
                    unowned.extend(nobodys);
                }
                Err(error) => obstacle = Some(unread(&error)),
            }
        }
        match (&obstacle, paused) {
            (Some(why), false) => tracing::warn!(%why, "nothing is launched until this is mended"),
            (None, true) => tracing::info!("launching goes on"),
            (Some(_), true) | (None, false) => {}
        }
        // Said each time: a run that found the engine away has paused the lanes by itself.
        let _ = runs.lanes.send(if obstacle.is_some() { Event::Pause } else { Event::Resume });
        paused = obstacle.is_some();
        runs.machine.set_obstacle(obstacle);
        for group in std::mem::take(&mut unreleased) {
            release(&runs, group, &mut unreleased);
        }
        unowned = look_at_unowned(&runs, unowned, &mut ends, &mut unreleased);
        let (aside, known) = without_aside(&held, std::mem::take(&mut unknown));
        let found =
            if known.is_empty() || paused { None } else { runs.sandbox.list(&runs.instance).await.ok() };
        match found {
            None => unknown = [known, aside].concat(),
            Some(found) => {
                let groups: Vec<Folder> = known.iter().map(|run| run.group.clone()).collect();
                let sorted = sort_out(&runs, known, &aside, found, &mut ends).await;
                for adoption in sorted.adopted {
                    let _ = adoptions.send(adoption);
                }
                unknown = aside;
                without_owner(&sorted.unowned, NOBODY_KNOWS);
                unowned.extend(sorted.unowned);
                // Of the others the runs are to be ended first, or a person decides.
                let waits =
                    |group: &Folder| ends.of.contains(group) || unowned.iter().any(|run| run.group == *group);
                for group in groups.into_iter().filter(|group| !waits(group)) {
                    release(&runs, group, &mut unreleased);
                }
            }
        }
        let rest =
            tokio::time::sleep(if is_unread || !unreleased.is_empty() { READ_AGAIN } else { ASK_AGAIN });
        tokio::pin!(rest);
        loop {
            tokio::select! {
                () = runs.stop.cancelled() => return,
                () = runs.machine.look_again.notified() => break,
                Some(group) = ends.next() => release(&runs, group, &mut unreleased),
                () = &mut rest => break,
            }
        }
    }
}

/// A group's state is known: what waits in its lanes goes on. While that can't be read, the group is `unreleased`.
fn release(runs: &Runs, group: Folder, unreleased: &mut BTreeSet<Folder>) {
    let waiting = match runs.store.waiting_lanes_of(&group) {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::error!(group = %group, error = %chain(&error), "reading what waits in a group failed; it is read again");
            unreleased.insert(group);
            return;
        }
    };
    for lane in &waiting {
        let waiting = WaitingLane::from(lane);
        let _ = runs.lanes.send(Event::Waiting { group: group.clone(), waiting });
    }
    for reason in [Holding::Unknown, Holding::SetAside] {
        let _ = runs.lanes.send(Event::Release { group: group.clone(), reason });
    }
}

/// Says why the disk lets nothing be launched.
fn no_space(runs: &Runs, from_outside: bool) -> String {
    let data = runs.root.join("data");
    let (free, wanted) =
        (crate::system::disk::free_bytes(&data).unwrap_or(0), runs.config.now().limits.min_free_bytes);
    let shown = data.display();
    let mut why = if free < wanted {
        let (free, wanted) = (free >> 20, wanted >> 20);
        format!(
            "only {free} MiB are free under {shown}; at least {wanted} MiB are wanted (limits.min_free_mib)"
        )
    } else {
        format!("fewer than 5 % of the inodes are free under {shown}")
    };
    for group in runs.machine.without_space().keys() {
        why.push_str(&format!("; group {group} was stopped, as it filled it"));
    }
    if from_outside {
        why.push_str("; no group was seen filling it");
    }
    why
}

/// Returns why the engine can't launch anything, if so.
async fn engine_away(runs: &Runs) -> Option<String> {
    runs.sandbox.list(&runs.instance).await.err().map(|error| chain(&error))
}
