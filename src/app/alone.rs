//! Operations on a root that no daemon serves: the daemon's own, under the root's lock.

use std::path::Path;

use anyhow::Result;

use super::{
    asking, bounds, box_owner,
    lock::{Lock, try_lock},
    open::open_store_under,
};
use crate::{
    config::Config,
    domain::shown::errors::chain,
    ops::{Alone, Answer, By, Op, OpError, Site, perform},
    system::world::World,
};

/// What became of an operation.
#[derive(Debug)]
pub enum Tried {
    Performed(std::result::Result<Answer, OpError>),
    /// Somebody holds the lock, as this sentence says: a daemon, or another operation.
    Busy(String),
}

/// Does an operation on a root that no daemon serves.
///
/// # Errors
/// The lock or the store can't be opened; nothing is done then.
pub async fn perform_alone(
    world: &World,
    root: &Path,
    settings: Result<&Config, &str>,
    by: &By,
    op: Op,
) -> Result<Tried> {
    let lock = match try_lock(root, Lock::Change)? {
        Ok(lock) => lock,
        Err(holder) => return Ok(Tried::Busy(holder.serves(root))),
    };
    let mut store = open_store_under(world, &lock, root)?;
    if let Ok(config) = settings {
        store = store.asking(asking(config)).bounded(bounds(config));
    }
    let box_owner = box_owner();
    let keeper = Alone::new(root, &store, box_owner);
    let site = Site { world, root, settings, store: &store, box_owner, keeper: &keeper };
    let outcome = perform(&site, by, op).await;
    if let Err(error) = store.empty_log().await {
        tracing::debug!(error = %chain(&error), "the store's log could not be emptied; the next program reads it");
    }
    Ok(Tried::Performed(outcome))
}
