//! Giving back to the disk what the store does not use any more.

use std::path::Path;

use anyhow::Result;

use super::lock::{self, note_store};
use crate::{
    domain::kept::prune::is_worth_shrinking,
    store::{self, Store},
    system::world::World,
};

/// What became of the store's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrunk {
    Done,
    /// Too little of it is free.
    NotWorthIt,
    /// It is written anew while nobody writes to it, and a daemon does.
    Served,
    /// The disk has no room for a second one; this many bytes are needed.
    NoSpace(u64),
}

/// Writes the store of a root that no daemon serves anew, without its free pages. Needs free space of twice the result.
///
/// # Errors
/// What went wrong; the store is as it was.
pub async fn shrink(world: &World, root: &Path, store: &Store) -> Result<Shrunk> {
    let size = store.size()?;
    if !is_worth_shrinking(size.bytes, size.free) {
        return Ok(Shrunk::NotWorthIt);
    }
    let Ok(held) = lock::lock(root).await else { return Ok(Shrunk::Served) };
    let wanted = 2 * (size.bytes - size.free);
    if crate::system::disk::free_bytes(&root.join("data")).is_some_and(|free| free < wanted) {
        return Ok(Shrunk::NoSpace(wanted));
    }
    // It is still the file that lies there.
    store.empty_log().await?;
    note_store(&held, root);
    let path = store.path().to_owned();
    world.blocking(move || store::shrink(&path)).await??;
    Ok(Shrunk::Done)
}
