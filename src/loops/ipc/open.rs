//! The boxes of all groups: opened and watched, opened anew where somebody replaced them, let go of when their group is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Mutex},
};

use futures_channel::mpsc;
use futures_util::future::BoxFuture;
use ipc_handlers::Folder;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    super::{Blind, snapshots::List},
    Mailboxes,
    recover::refuse,
    span,
    worker::{First, HINTS, Job, Worker},
};
use crate::{
    domain::{mailbox::scan::Sight, shown::errors::chain},
    ipc::{Claimed, GroupBoxes, Hint, HintSender, Identity, Watch, WatchError, WorldFault, hints},
    system::{locked::Locked as _, world::World},
};

/// How many groups' boxes are compared with those on disk at a time.
const IDENTITIES: usize = 64;

/// How one group's worker is reached.
pub(super) struct Line {
    pub(super) hints: HintSender,
    jobs: mpsc::UnboundedSender<Job>,
    /// Whether events tell of what comes into its boxes.
    pub(super) watched: bool,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// The work of a group's worker, which begins once.
#[derive(Clone)]
pub struct Begun(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Begun {
    fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(work)))))
    }

    /// Takes the work; `None`: it has begun before.
    pub(super) fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.locked().take()
    }
}

impl Line {
    /// Whether its worker has not ended.
    pub(super) fn is_at_work(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Gives the worker something to do; at its end there is none who does it.
    pub(super) fn give(&self, job: Job) {
        // As said.
        let _ = self.jobs.unbounded_send(job);
    }

    /// What a scan may take: without events there is nothing to wait for.
    pub(super) fn sight(&self) -> Sight {
        if self.watched { Sight::Second } else { Sight::First }
    }
}

/// The groups that there are, those whose removal is under way, and those whose boxes were open before these were read.
pub(super) struct Known {
    groups: BTreeSet<Folder>,
    leaving: BTreeSet<Folder>,
    open: BTreeSet<Folder>,
}

/// Returns the groups that there are; `None`: they can't be read, which is told.
pub(super) async fn known_groups(mail: &Mailboxes) -> Option<Known> {
    // Boxes are opened of groups that there are: one that is made while these are read is not taken for one that is gone.
    let open = mail.boxes.open().keys().cloned().collect();
    // Groups are read before those that leave. A group that is removed in between is in both lists, so it does not count as gone.
    let groups = mail.store.groups().await;
    match (groups, mail.store.leaving().await) {
        (Ok(groups), Ok(leaving)) => {
            let groups = groups.into_iter().map(|group| group.folder).collect();
            Some(Known { groups, leaving, open })
        }
        (Err(error), _) | (_, Err(error)) => {
            note(mail, None, Blind::Why(format!("the groups can't be read: {}", chain(&error))));
            None
        }
    }
}

/// Opens the boxes of every group that has none yet and starts its worker, which looks at what is there already.
/// [`watch_again`] tries those again that can't be opened.
pub(super) fn open_groups(
    mail: &Arc<Mailboxes>,
    known: Option<Known>,
    watch: &mut Watch,
    workers: &mut BTreeMap<Folder, Line>,
    begun: &mut Vec<(Folder, Begun)>,
    growing: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    let Some(Known { groups, leaving, open }) = known else { return };
    // A group whose boxes could not be opened may have a mailbox all the same.
    let noted: Vec<Folder> = mail.machine.unwatched().keys().flatten().cloned().collect();
    let all = workers.keys().chain(&open).chain(&noted);
    // The removal of a group puts its mailbox away.
    let gone = all.filter(|folder| !groups.contains(*folder) && !leaving.contains(*folder));
    let gone: BTreeSet<Folder> = gone.cloned().collect();
    for folder in gone {
        // One of this name may have come since.
        if !mail.snapshots.is_gone(&folder) {
            continue;
        }
        drop(put_away(mail, watch, workers, &folder));
    }
    let new: Vec<Folder> = groups.into_iter().filter(|folder| !workers.contains_key(folder)).collect();
    let begin = |folder: &Folder, boxes: Result<Arc<GroupBoxes>, WorldFault>| {
        let boxes = match boxes {
            Ok(boxes) => boxes,
            Err(error) => return unopened(mail, folder, &error),
        };
        let watched = watch_boxes(mail, watch, &boxes).is_ok();
        // The worker's first look comes after this: for what is here now no scan is needed.
        // Where it can't be told, the scan looks.
        let _ = boxes.changed(mail.machine.world.now());
        // An event tells of what comes from now on. A look is a change of threads for each group that there is.
        let first =
            if watched && matches!(boxes.are_empty(), Ok(true)) { First::Nothing } else { First::Look };
        let (jobs, queue) = mpsc::unbounded();
        let (sender, hints) = hints(HINTS);
        let now = mail.machine.world.monotonic();
        let growing = growing.remove(folder).unwrap_or_default();
        let growing = growing.into_iter().map(|claimed| (claimed, now)).collect();
        let ended = CancellationToken::new();
        let worker = Worker::new(Arc::clone(mail), folder.clone(), growing, ended.clone().drop_guard());
        begun.push((folder.clone(), Begun::new(worker.run(first, hints, queue))));
        workers.insert(folder.clone(), Line { hints: sender, jobs, watched, ended });
    };
    in_order(&mail.machine.world, &new, |folder| mail.boxes.of(folder), begin);
}

/// The most groups whose boxes are opened one by one. Beyond that a second thread opens half, where there are threads.
const FEW: usize = 16;

/// Gives each group to `open`, and then it and what came of that to `begin`, in order.
fn in_order<T: Send>(
    world: &World,
    groups: &[Folder],
    open: impl Fn(&Folder) -> T + Sync,
    mut begin: impl FnMut(&Folder, T),
) {
    let are_shared = groups.len() > FEW && world.has_threads();
    let (ours, theirs) = groups.split_at(if are_shared { groups.len() / 2 } else { groups.len() });
    let open_theirs = || theirs.iter().map(&open).collect::<Vec<T>>();
    std::thread::scope(|threads| {
        let opener = std::thread::Builder::new().name("boxes".into());
        let opener = (!theirs.is_empty()).then(|| opener.spawn_scoped(threads, open_theirs));
        ours.iter().for_each(|folder| begin(folder, open(folder)));
        let opened = match opener {
            Some(Ok(thread)) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread is to be had, or needed.
            Some(Err(_)) | None => open_theirs(),
        };
        theirs.iter().zip(opened).for_each(|(folder, opened)| begin(folder, opened));
    });
}

/// Lets go of the boxes of a group that was removed, and of its worker. The token is cancelled once the worker has ended and claims
/// nothing any more; `None`: it had none.
pub(super) fn put_away(
    mail: &Mailboxes,
    watch: &mut Watch,
    workers: &mut BTreeMap<Folder, Line>,
    folder: &Folder,
) -> Option<CancellationToken> {
    // The next group of this name counts as new.
    mail.snapshots.is_gone(folder);
    let ended = workers.remove(folder).map(|worker| worker.ended);
    mail.machine.unwatched().remove(&Some(folder.clone()));
    mail.boxes.let_go(folder);
    watch.unwatch(folder);
    if let Err(error) = mail.media.sweep_shown(|group, _| group != folder.as_str()) {
        tracing::warn!(group = %folder, error = %chain(&error), "files that a group was shown can't be removed yet");
    }
    ended
}

/// Notes why groups' commands are found late, or not at all; [`watch_again`] is at it. It is logged once.
fn note(mail: &Mailboxes, of: Option<&Folder>, why: Blind) {
    let mut unwatched = mail.machine.unwatched();
    match (&why, unwatched.get(&of.cloned())) {
        // What all groups lack is told of the first one.
        (Blind::NoFiles, None) if !unwatched.values().any(|known| *known == Blind::NoFiles) => {
            tracing::error!(
                group = of.map(tracing::field::display),
                "the mailboxes of some groups can't be opened: as many files are open as may be; that is tried again"
            )
        }
        (Blind::Why(why), None) => {
            tracing::error!(group = of.map(tracing::field::display), "{why}; that is tried again");
        }
        (_, Some(_)) | (Blind::NoFiles, None) => {}
    }
    unwatched.insert(of.cloned(), why);
}

/// Watches a group's boxes.
fn watch_boxes(mail: &Mailboxes, watch: &mut Watch, boxes: &GroupBoxes) -> Result<(), WatchError> {
    let group = boxes.folder();
    let watched = watch.watch_group(boxes);
    let why = |error| Blind::Why(format!("no event tells of some groups' commands: {}", chain(error)));
    match &watched {
        Err(error) if !is_shared(error) => note(mail, Some(group), why(error)),
        // It is open, whatever was noted of it.
        Ok(()) => drop(mail.machine.unwatched().remove(&Some(group.clone()))),
        Err(error) => {
            mail.machine.unwatched().remove(&Some(group.clone()));
            note(mail, None, why(error));
        }
    }
    watched
}

/// Whether it would be the same for every group.
fn is_shared(error: &WatchError) -> bool {
    match error {
        WatchError::TooManyWatches { .. } | WatchError::NoWatcher(_) => true,
        WatchError::Failed { .. } => false,
    }
}

fn unopened(mail: &Mailboxes, group: &Folder, error: &WorldFault) {
    let why = match error.is_of_open_files() {
        true => Blind::NoFiles,
        false => Blind::Why(format!("the mailbox of {group} can't be opened: {}", chain(error))),
    };
    note(mail, Some(group), why);
}

/// Tries to open what could not be opened, and to watch what could not be watched: what others of this user had used up may
/// be there again, and a person may have put a folder right.
pub(super) async fn watch_again(
    mail: &Arc<Mailboxes>,
    watch: &mut Watch,
    workers: &mut BTreeMap<Folder, Line>,
    begun: &mut Vec<(Folder, Begun)>,
    growing: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    let Some(known) = known_groups(mail).await else { return };
    refuse_gone(mail, &known, growing).await;
    open_groups(mail, Some(known), watch, workers, begun, growing);
    let noted: Vec<Folder> = mail.machine.unwatched().keys().flatten().cloned().collect();
    noted.iter().for_each(|group| reopen(mail, watch, workers, group));
    for (folder, worker) in workers.iter_mut().filter(|(_, worker)| !worker.watched) {
        if mail.machine.unwatched().contains_key(&Some(folder.clone())) {
            continue;
        }
        let Ok(boxes) = mail.boxes.of(folder).inspect_err(|error| unopened(mail, folder, error)) else {
            continue;
        };
        match watch_boxes(mail, watch, &boxes) {
            Ok(()) => {
                worker.watched = true;
                // What came before is not told.
                worker.hints.send(Hint::Rescan);
            }
            Err(error) if is_shared(&error) => return,
            Err(_) => {}
        }
    }
    let mut unwatched = mail.machine.unwatched();
    unwatched.remove(&None);
    if unwatched.is_empty() {
        tracing::info!("the boxes of all groups are watched again");
    }
}

/// Refuses what an earlier daemon had claimed of groups that are gone, as a start does: none of it is a later group's of that
/// name.
pub(super) async fn refuse_gone(
    mail: &Arc<Mailboxes>,
    known: &Known,
    growing: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    let gone: Vec<_> = growing.extract_if(.., |folder, _| !known.groups.contains(folder)).collect();
    for (folder, claims) in gone {
        let of = span(&folder);
        refuse(mail, folder, claims).instrument(of).await;
    }
}

/// Leaves a claim, on which a person has decided, to the worker that its group has once its boxes can be opened; it is refused
/// where the group is gone.
pub(super) async fn put_off(
    mail: &Arc<Mailboxes>,
    claimed: Claimed,
    growing: &mut BTreeMap<Folder, Vec<Claimed>>,
    aside: &mut BTreeMap<Folder, Vec<Claimed>>,
) {
    // A claim that is set aside is not read before its release.
    let waits = if mail.held.is_aside(&claimed.folder) { aside } else { &mut *growing };
    let of_group = waits.entry(claimed.folder.clone()).or_default();
    if let Err(at) = of_group.binary_search_by_key(&claimed.id, |known| known.id) {
        of_group.insert(at, claimed);
    }
    if let Some(known) = known_groups(mail).await {
        refuse_gone(mail, &known, growing).await;
    }
}

/// Opens a group's boxes anew, watches them, and has its worker look into them. Those that are held stay when it fails.
pub(super) fn reopen(
    mail: &Arc<Mailboxes>,
    watch: &mut Watch,
    workers: &mut BTreeMap<Folder, Line>,
    folder: &Folder,
) {
    let Some(worker) = workers.get_mut(folder) else { return };
    worker.watched = match mail.boxes.anew(folder) {
        Ok(boxes) => {
            // They may be new ones: what an agent reads there is not to wait for the next change.
            mail.snapshots.soon(folder, &List::ALL);
            mail.snapshots.write_rest();
            let watched = watch_boxes(mail, watch, &boxes).is_ok();
            // What came before is not told.
            worker.hints.send(Hint::Rescan);
            watched
        }
        Err(error) => {
            unopened(mail, folder, &error);
            false
        }
    };
}

/// Returns some boxes that are to be compared with those on disk, those that come after `last`: of most of what happens to a box, an
/// event tells.
pub(super) fn next_boxes(mail: &Mailboxes, last: &mut Option<Folder>) -> Vec<Arc<GroupBoxes>> {
    let after = last.take().map_or(Bound::Unbounded, Bound::Excluded);
    let some: Vec<Arc<GroupBoxes>> = mail
        .boxes
        .open()
        .range((after, Bound::Unbounded))
        .take(IDENTITIES)
        .map(|(_, boxes)| Arc::clone(boxes))
        .collect();
    if some.len() == IDENTITIES {
        *last = some.last().map(|boxes| boxes.folder().clone());
    }
    some
}

/// Compares boxes with those on disk. Blocks: a container can keep anybody waiting who changes something in a box.
pub(super) fn compare(mail: &Mailboxes, some: &[Arc<GroupBoxes>]) -> Vec<Looked> {
    let looked = some.iter().map(|boxes| (boxes.folder().clone(), boxes.identity(mail.machine.world.now())));
    looked.collect()
}

/// What was found of a group's boxes.
pub(super) type Looked = (Folder, Result<Identity, WorldFault>);

/// Opens those anew that were replaced.
pub(super) fn act_on_identity(
    mail: &Arc<Mailboxes>,
    watch: &mut Watch,
    workers: &mut BTreeMap<Folder, Line>,
    looked: Vec<Looked>,
) {
    for (group, found) in looked {
        match found {
            Ok(Identity::Same) => {}
            // A group that is gone meanwhile, and one that is tried again anyhow.
            Ok(Identity::Replaced(_)) | Err(_)
                if !workers.contains_key(&group)
                    || mail.machine.unwatched().contains_key(&Some(group.clone())) => {}
            Ok(Identity::Replaced(which)) => {
                tracing::warn!(%group, which = which.as_str(), "a box was replaced; opening the boxes anew");
                reopen(mail, watch, workers, &group);
            }
            Err(error) => {
                tracing::warn!(%group, error = %chain(&error), "looking at the boxes failed; opening them anew");
                reopen(mail, watch, workers, &group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: usize) -> Vec<Folder> {
        (0..count).map(|n| Folder::parse(&format!("g{n}")).unwrap()).collect()
    }

    #[test]
    fn few_and_many_groups_are_begun_in_order_with_what_was_opened() {
        for count in [0, 1, FEW, FEW + 1, 10 * FEW] {
            let groups = groups(count);
            let mut begun = Vec::new();
            in_order(
                &World::real(),
                &groups,
                |folder| folder.to_string(),
                |folder, opened| begun.push((folder.clone(), opened)),
            );
            assert_eq!(begun, groups.iter().map(|f| (f.clone(), f.to_string())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_over_one_of_many_groups_waits_for_nobody() {
        for (at, group) in [("open", "g3"), ("begin", "g3"), ("open", "g150"), ("begin", "g150")] {
            let fails = |place: &str, folder: &Folder| assert!(place != at || folder.as_str() != group);
            let all = || {
                in_order(&World::real(), &groups(10 * FEW), |f| fails("open", f), |f, ()| fails("begin", f))
            };
            assert!(std::panic::catch_unwind(all).is_err(), "{at} {group}");
        }
    }
}
