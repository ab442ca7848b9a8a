//! What a person does to commands of a root that no daemon serves: the daemon's own steps, under the root's lock.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::Path};

use anyhow::{Context as _, Result};
use ipc_handlers::Folder;

use super::{box_owner_of, lock, open_store};
use crate::{
    clock,
    domain::states::CommandOutcome,
    ipc::{Claims, CommandBox, GroupBoxes, HostDirs},
    loops::{
        control::Which,
        ipc::{Hand, hand},
    },
};

/// Makes the boxes that a group of a root lacks, or every group does, as the daemon does when it starts. A daemon that
/// serves the root has made them, or does when it is told of the group.
///
/// # Errors
/// When a folder can't be made or given away.
pub async fn lay_out_boxes(root: &Path, only: Option<&Folder>) -> Result<()> {
    let Ok(_lock) = lock(root).await else { return Ok(()) };
    let (store, dirs) = (open_store(root)?, HostDirs::open(&root.join("data"))?);
    let groups = match only {
        Some(group) => vec![group.clone()],
        None => store.groups()?.into_iter().map(|group| group.folder).collect(),
    };
    for group in groups {
        GroupBoxes::open(&dirs, &group, box_owner_of(&store, &group)?)
            .with_context(|| format!("making the boxes of group {group}"))?;
    }
    Ok(())
}

/// Drops a command; returns its id.
///
/// # Errors
/// When a daemon serves the root after all, or the command can't be dropped.
pub async fn drop_command(root: &Path, which: Which, reason: String) -> Result<i64> {
    let _lock = lock(root).await?;
    let (store, dirs) = (open_store(root)?, HostDirs::open(&root.join("data"))?);
    let claims = Claims::open(&dirs, store.last_claim()?)?;
    let hand = Hand { store: &store, dirs: &dirs, claims: &claims };
    let now = clock::now();
    match which {
        Which::File { group, in_box, name } => {
            let in_box = CommandBox::ALL.into_iter().find(|b| b.as_str() == in_box);
            let in_box = in_box.context("there is no such box")?;
            let boxes = GroupBoxes::open(&dirs, &group, box_owner_of(&store, &group)?)?;
            let name = OsString::from_vec(name);
            Ok(hand::drop_waiting(hand, &boxes, in_box, &name, reason, now).await?)
        }
        Which::Claim(id) => {
            if let Some(file) = store.settled_file(id)?
                && file.outcome == CommandOutcome::Malformed
            {
                hand::drop_dead(hand, &file.group, id)?;
                return Ok(id);
            }
            let claimed = hand::note_drop(hand, id, reason, now).await?;
            let boxes = match store.group(&claimed.folder)? {
                Some(group) => {
                    Some(GroupBoxes::open(&dirs, &group.folder, box_owner_of(&store, &group.folder)?)?)
                }
                None => None,
            };
            hand::finish(hand, boxes.as_ref(), &claimed, now).await?;
            Ok(id)
        }
    }
}

/// Puts a refused or dead command back, for the next daemon to decide; returns the new claim's id.
///
/// # Errors
/// When a daemon serves the root after all, or the command can't be tried again.
pub async fn retry_command(root: &Path, of: i64) -> Result<i64> {
    let _lock = lock(root).await?;
    let (store, dirs) = (open_store(root)?, HostDirs::open(&root.join("data"))?);
    let claims = Claims::open(&dirs, store.last_claim()?)?;
    let hand = Hand { store: &store, dirs: &dirs, claims: &claims };
    Ok(hand::retry(hand, of, clock::now()).await?.id)
}
