//! Whether this program may work on a root: the schema of its store, and the version of the daemon that serves it.

use std::path::Path;

use anyhow::Result;

use super::{
    init::check_log,
    lock::{Holder, Lock, try_lock},
    open::{open_store, open_store_under},
};
use crate::{
    ops::OpError,
    store::{self, Schema, Store, Version},
    system::world::World,
};

/// How often a lock is tried again that a dead daemon seems to hold: some tenths of a second in all.
const LOOKS: u32 = 10_000;
/// The version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether this program may work on a root's store, now. It may not change the schema under a daemon, and not read a schema
/// that it does not know.
///
/// # Errors
/// One sentence that says who is newer, and what to do.
pub fn check_version(root: &Path) -> Result<()> {
    look(root).map(drop)
}

/// Opens a root's store for somebody who looks. One of an older schema is changed first, where no daemon serves it.
///
/// # Errors
/// As [`check_version`]; what could not be opened, and why.
pub fn open_store_to_look(world: &World, root: &Path) -> Result<Store> {
    match look(root)? {
        Found::AsOurs => open_store(world, root),
        Found::Older => match try_lock(root, Lock::Change)? {
            Ok(lock) => open_store_under(world, &lock, root),
            Err(holder) => {
                Err(differs(root, &holder, store::schema_of(&root.join("data/g2.sqlite"))?).into())
            }
        },
    }
}

/// Returns the version of the daemon that serves a root, if it is another one than that of this program.
#[must_use]
pub fn other_version(root: &Path) -> Option<String> {
    let is_other = |holder: &Holder| holder.version().is_some_and(|version| version != VERSION);
    let holder = Holder::noted(root).filter(is_other)?;
    // It may have died since it wrote that.
    match try_lock(root, Lock::Change) {
        Ok(Err(held)) if !held.is_change() => holder.version().map(str::to_owned),
        Ok(_) | Err(_) => None,
    }
}

enum Found {
    AsOurs,
    /// Of an older program, and nobody serves it.
    Older,
}

fn look(root: &Path) -> Result<Found> {
    let path = root.join("data/g2.sqlite");
    check_log(root)?;
    // Opening tells why it can't be read.
    let Ok(schema) = store::schema_of(&path) else { return Ok(Found::AsOurs) };
    if schema.found == schema.known || schema.found == Version::NONE {
        return Ok(Found::AsOurs);
    }
    let served = serves(root);
    match served {
        Some(holder) => Err(differs(root, &holder, schema).into()),
        None => {
            schema.found.check(&path)?;
            Ok(Found::Older)
        }
    }
}

/// Returns the daemon that serves a root. If the process that the lock names is not there, either somebody holds it who only looks, and
/// lets go at once, or the daemon's processes have other numbers here.
fn serves(root: &Path) -> Option<Holder> {
    let mut left = LOOKS;
    loop {
        let Ok(Err(holder)) = try_lock(root, Lock::Change) else { return None };
        if holder.is_change() {
            return None;
        }
        if holder.is_there() || left == 0 {
            return Some(holder);
        }
        left -= 1;
        std::thread::yield_now();
    }
}

fn differs(root: &Path, holder: &Holder, schema: Schema) -> OpError {
    let theirs =
        holder.version().map_or_else(|| "another version".to_owned(), |version| format!("version {version}"));
    OpError::refused(format!(
        "the daemon of {} is of {theirs} with schema {}, this program is version {VERSION} with schema {}",
        root.display(),
        schema.found,
        schema.known
    ))
    .hint("use the daemon's program, or restart the service with this one")
}
