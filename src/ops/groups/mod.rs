//! Groups: agents with a folder, memory and mailbox.

use ipc_handlers::Folder;

use super::{OpError, Site};
use crate::{
    domain::kept::folders::{Stands, There, stands},
    ipc,
};

pub mod add;
pub mod back;
pub mod edit;
pub mod remove;
pub mod renew;
pub mod restart;
pub mod restore;
pub mod set;

/// Judges a group's folder, of which it is known whether it had files at the last look.
///
/// # Errors
/// It can't be looked at.
pub fn stands_of(root: &std::path::Path, folder: &Folder, had_files: bool) -> Result<Stands, OpError> {
    Ok(stands(had_files, ipc::look_at_folder(root, folder)?))
}

/// Refuses unless a group has lost its folder and another one can take its place.
fn check_lost(site: &Site<'_>, folder: &Folder) -> Result<(), OpError> {
    let there = ipc::look_at_folder(site.root, folder)?;
    if there == There::NoFolder {
        return Err(OpError::refused(format!("groups/{folder} is no folder")).hint("move it away first"));
    }
    match stands(site.store.folder_had_files(folder)?, there) {
        Stands::Lost => Ok(()),
        Stands::Kept | Stands::New => {
            Err(OpError::refused(format!("group {folder} has not lost its folder, groups/{folder}")))
        }
    }
}
