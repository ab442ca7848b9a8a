//! Groups whose folders are lost: nothing is launched for them, and their work waits, until the folder is back or a person
//! has it renewed. `domain/host/folders.rs` has the rules.

use std::{path::Path, sync::Arc};

use ipc_handlers::Folder;
use tokio::task::spawn_blocking;

use super::{Boxes, Machine, Runs};
use crate::{
    domain::{
        host::{
            errors::chain,
            folders::{Stands, has_files_after_a_run, stands},
        },
        runs::lanes::{Event, Holding},
    },
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
    let _ = runs.lanes.send(Event::Hold { group: group.clone(), reason: Holding::Folder });
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
    for group in spawn_blocking(looking).await.unwrap_or_default() {
        if runs.machine.lost().remove(&group) {
            tracing::info!(%group, "the group's folder is back");
            let _ = runs.lanes.send(Event::Release { group, reason: Holding::Folder });
        }
    }
}

/// Whether a group's folder is lost. One that can't be looked at is; that of a group that is gone is not.
pub fn is_lost(root: &Path, store: &Store, group: &Folder) -> bool {
    if matches!(store.has_group(group), Ok(false)) {
        return false;
    }
    match (store.folder_had_files(group), look_at_folder(root, group)) {
        (Ok(had_files), Ok(there)) => stands(had_files, there) == Stands::Lost,
        (Err(_), _) | (_, Err(_)) => true,
    }
}

/// Notes whether a group's folder has files, now that a container that had it is dead.
pub(super) async fn after_a_run(runs: &Arc<Runs>, group: &Folder) {
    if runs.machine.lost().contains(group) {
        return;
    }
    let (at, of) = (Arc::clone(runs), group.clone());
    let looking = move || {
        let has_files = look_at_folder(&at.root, &of).ok().and_then(has_files_after_a_run)?;
        (at.store.folder_had_files(&of).ok()? != has_files).then_some(has_files)
    };
    let Some(has_files) = spawn_blocking(looking).await.unwrap_or_default() else { return };
    note_files(&runs.store, group, has_files).await;
}

/// Notes whether a group's folder has files. What can't be noted is noted after the next run.
pub(super) async fn note_files(store: &Store, group: &Folder, has_files: bool) {
    if let Err(error) = store.note_folders(vec![(group.clone(), has_files)]).await {
        tracing::warn!(%group, error = %chain(&error), "whether the group's folder has files can't be noted");
    }
}
