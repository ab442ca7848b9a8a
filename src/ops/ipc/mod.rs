//! The mailbox: holding, dropping, trying again and putting in commands.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use crate::{
    domain::{mailbox::holds::Hold, rows::IpcRow},
    ipc::display_name,
};

use super::{OpError, Site};

pub mod drop;
pub mod hand;
pub mod hold;
pub mod queue;
pub mod release;
pub mod retry;
pub mod send;

pub use hand::ByHand;

/// Returns the name that people give to a hold.
#[must_use]
pub fn shown(hold: &Hold) -> String {
    match &hold.file {
        None => hold.group.to_string(),
        Some((in_box, name)) => {
            format!("{}/{in_box}/{}", hold.group, display_name(OsStr::from_bytes(name)))
        }
    }
}

/// Returns a command's row, settled or claimed.
fn row(site: &Site<'_>, id: i64) -> Result<IpcRow, OpError> {
    let now = site.world.now();
    if let Some(story) = site.store.story(id, now)? {
        return Ok(story.row);
    }
    queue::claimed_row(site.root, site.store, id, now)?
        .ok_or_else(|| OpError::not_found(format!("command {id} does not exist")))
}

/// Says how a command is now.
fn state(row: &IpcRow) -> String {
    match (row.state.outcome(), &row.reason) {
        (None, _) => "claimed; a daemon decides it".into(),
        (Some(_), None) => row.state.to_string(),
        (Some(_), Some(reason)) => format!("{}: {reason}", row.state),
    }
}
