//! Groups whose folders are lost: nothing is launched for them, and their work waits, until the folder is back or a person
//! has it renewed. `domain/kept/folders.rs` has the rules.

use std::{path::Path, sync::Arc};

use ipc_handlers::Folder;

use super::{Boxes, Machine, Runs};
use crate::{
    domain::{
        kept::folders::{Stands, has_files_after_a_run, stands},
        runs::lanes::{Event, Holding},
        shown::errors::chain,
    },
    engine::Error,
    ipc::look_at_folder,
    store::{Store, StoreError},
};

/// Looks at the folders of all groups at a start: lays out those that were never laid out, and returns those that are lost.
///
/// # Errors
/// The store's. A folder that can't be looked at is left to its group's launch.
pub async fn begin(
    root: &Path,
    store: &Store,
    boxes: &Boxes,
    machine: &Machine,
    groups: Vec<Folder>,
) -> Result<Vec<Folder>, StoreError> {
    let filled = store.filled_folders()?;
    let (mut lost, mut news) = (Vec::new(), Vec::new());
    for group in groups {
        let had_files = filled.contains(&group);
        let there = match look_at_folder(root, &group) {
            Ok(there) => there,
            Err(error) => {
                tracing::warn!(%group, error = %chain(&error), "a group's folder can't be looked at");
                continue;
            }
        };
        match stands(had_files, there) {
            Stands::New => boxes.lay_out(&group),
            Stands::Kept if had_files => {}
            Stands::Kept => news.push((group, true)),
            Stands::Lost => lost.push(group),
        }
    }
    if !news.is_empty() {
        store.note_folders(news).await?;
    }
    for group in &lost {
        note(machine, group);
    }
    Ok(lost)
}

/// Has nothing launched for a group whose folder is lost.
pub(super) fn hold(runs: &Runs, group: &Folder) {
    note(&runs.machine, group);
    runs.lanes.tell(Event::Hold { group: group.clone(), reason: Holding::Folder });
}

fn note(machine: &Machine, group: &Folder) {
    if machine.lost().insert(group.clone()) {
        tracing::error!(%group, "the group's folder is lost: nothing is launched for it");
    }
}

/// Lets groups go on whose folders are back.
pub(super) async fn look_again(runs: &Arc<Runs>) {
    let lost: Vec<Folder> = runs.machine.lost().iter().cloned().collect();
    if lost.is_empty() {
        return;
    }
    let at = Arc::clone(runs);
    let looking =
        move || lost.into_iter().filter(|group| !is_lost(&at.root, &at.store, group)).collect::<Vec<_>>();
    let back = match runs.machine.world.blocking(looking).await {
        Ok(back) => back,
        Err(fault) => {
            tracing::error!(fault = %chain(&fault), "our own fault: looking at lost folders failed; it is looked again");
            return;
        }
    };
    for group in back {
        if runs.machine.lost().remove(&group) {
            tracing::info!(%group, "the group's folder is back");
            runs.lanes.tell(Event::Release { group, reason: Holding::Folder });
        }
    }
}

/// Whether a group's folder is lost. One that can't be looked at is; that of a group that is gone is not.
pub fn is_lost(root: &Path, store: &Store, group: &Folder) -> bool {
    // The caller begins nothing in a lost folder, and asks again.
    find_out(root, store, group).unwrap_or(true)
}

/// Finds out whether a group's folder is lost. Blocks.
pub(super) fn find_out(root: &Path, store: &Store, group: &Folder) -> Result<bool, Error> {
    if !store.has_group(group)? {
        return Ok(false);
    }
    let there = look_at_folder(root, group).map_err(|error| Error::world(&error))?;
    Ok(stands(store.folder_had_files(group)?, there) == Stands::Lost)
}

/// Which folder it is, whatever its name: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    /// Returns that of a group's folder; `None`: it can't be told.
    pub(super) fn of(root: &Path, group: &Folder) -> Option<Self> {
        let stat = rustix::fs::stat(root.join("groups").join(group.as_str())).ok()?;
        Some(Self(stat.st_dev, stat.st_ino))
    }
}

/// A group's folder at the end of a run, beside the note of it.
enum After {
    /// The note of it holds, or nothing can be told.
    Same,
    Changed {
        has_files: bool,
    },
    Lost,
}

/// Notes whether a group's folder has files, now that a container is dead that had the folder `had`. One that was lost meanwhile
/// stays lost. `had` is not known of a run that was adopted.
pub(super) async fn after_a_run(runs: &Arc<Runs>, group: &Folder, had: Option<Identity>) {
    if runs.machine.lost().contains(group) {
        return;
    }
    let (at, of) = (Arc::clone(runs), group.clone());
    let looking = move || {
        let there = look_at_folder(&at.root, &of).map_err(|error| Error::world(&error))?;
        let had_files = at.store.folder_had_files(&of)?;
        let is_the_runs = had.is_some() && had == Identity::of(&at.root, &of);
        Ok(match has_files_after_a_run(there, is_the_runs) {
            Some(has_files) if has_files != had_files => After::Changed { has_files },
            None if is_lost(&at.root, &at.store, &of) => After::Lost,
            Some(_) | None => After::Same,
        })
    };
    let after =
        runs.machine.world.blocking(looking).await.map_err(Error::from).flatten().unwrap_or_else(|error| {
            // The note holds, and the next run of the group is followed by another look.
            tracing::warn!(%group, error = %chain(&error), "a group's folder can't be looked at after a run");
            After::Same
        });
    match after {
        After::Same => {}
        After::Changed { has_files } => note_files(&runs.store, group, has_files).await,
        After::Lost => hold(runs, group),
    }
}

/// Notes whether a group's folder has files. If that fails, it is noted after the next run.
pub(super) async fn note_files(store: &Store, group: &Folder, has_files: bool) {
    if let Err(error) = store.note_folders(vec![(group.clone(), has_files)]).await {
        tracing::warn!(%group, error = %chain(&error), "whether the group's folder has files can't be noted");
    }
}
