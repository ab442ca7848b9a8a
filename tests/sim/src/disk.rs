//! A disk in memory that SQLite writes to: what was synced is on it, and what was not may be forgotten.
//!
//! A [`Disk`] is a VFS of SQLite with a name of its own. The README says what a power loss takes. Everything of it happens on
//! the thread that asks, so a simulation on one thread has every call in its hands: see [`Disk::on_call`].

mod image;
mod locks;
mod machine;
mod model;
mod vfs;

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, OpenFlags};

pub use image::{Image, PAGE};
pub use machine::{Call, Counts, Fault, KINDS, Kind};
pub use model::Forgotten;

use crate::Chance;
use machine::{Hook, Machine};

/// A disk. Clones are the same one.
#[derive(Clone)]
pub struct Disk(Arc<Machine>);

impl Disk {
    /// Makes an empty disk, and seeds SQLite's own chance: see [`Self::seed_sqlite`].
    ///
    /// # Panics
    /// If SQLite can't begin.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let disk = Self(vfs::machine(seed));
        disk.seed_sqlite();
        disk
    }

    /// The name by which SQLite opens files of this disk.
    #[must_use]
    pub fn vfs_name(&self) -> &str {
        self.0.place().name()
    }

    /// Opens a connection that writes, and makes its file.
    ///
    /// # Errors
    /// What SQLite can't do.
    pub fn connect(&self, path: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags_and_vfs(path, flags, self.vfs_name())
    }

    /// Has SQLite's own chance (`randomblob`, the salts of logs) begin at the seed of this disk. There is one for all
    /// connections of the process: simulations whose bytes are to be the same run one after the other, and call this when a
    /// seed begins and something else has used SQLite since [`Self::new`].
    pub fn seed_sqlite(&self) {
        vfs::seed_sqlite(self.0.seed());
    }

    /// Sets the time that SQLite tells (`'now'`), ms since 1970. It stands still otherwise.
    pub fn set_time(&self, ms: i64) {
        self.0.state().now = ms;
    }

    /// Has a function decide what becomes of each call, before anything is done. It may use the disk (`die`, `put`); what it does
    /// there is not asked about. One that has a clone of the disk keeps it alive until [`Self::heal`]. It must not panic: SQLite's
    /// code can't be unwound, so that ends the process.
    pub fn on_call(&self, hook: impl FnMut(&Call<'_>) -> Option<Fault> + Send + 'static) {
        self.hook(Hook::There(Box::new(hook)));
    }

    /// Has all calls go well from now on.
    pub fn heal(&self) {
        self.hook(Hook::Nobody);
    }

    fn hook(&self, hook: Hook) {
        let before = std::mem::replace(&mut self.0.state().hook, hook);
        // Not before the state is free: a connection may go with it.
        drop(before);
    }

    /// Whether syncs are answered and do nothing.
    pub fn lie(&self, lies: bool) {
        self.0.state().lies = lies;
    }

    /// Returns how often it was asked for what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.state().counts
    }

    /// Returns how long SQLite would have slept. It never does: a busy handler with a timeout goes through all of its rounds at
    /// once, and ends with `SQLITE_BUSY`.
    #[must_use]
    pub fn slept(&self) -> Duration {
        self.0.state().slept
    }

    /// All programs that use it die. What they saw is there; their locks and shared memory are gone. Every call fails and changes
    /// nothing, on connections of theirs for ever, on new ones until [`Self::revive`].
    pub fn die(&self) {
        self.0.state().die();
    }

    /// Whether nobody can use it.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.0.state().is_dead
    }

    /// Programs can use it again.
    pub fn revive(&self) {
        self.0.state().is_dead = false;
    }

    /// The power goes off: programs die as by [`Self::die`], and what was not synced is forgotten as chance has it.
    pub fn lose_power(&self, chance: &mut Chance) -> Forgotten {
        let mut state = self.0.state();
        state.die();
        state.model.lose_power(chance)
    }

    /// Puts a file there, durable, in place of any other. Connections to that one keep it.
    pub fn put(&self, path: &str, image: &Image) {
        let mut state = self.0.state();
        state.model.put(path.into(), image);
        state.sweep();
    }

    /// Returns what programs see of a file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Image> {
        let state = self.0.state();
        Some(state.model.file(state.model.named(path)?)?.seen.clone())
    }

    /// Returns what is sure to be there of a file after a power loss.
    #[must_use]
    pub fn kept(&self, path: &str) -> Option<Image> {
        self.0.state().model.kept(path).cloned()
    }

    /// Removes a name, durably. Connections to its file keep that.
    pub fn remove(&self, path: &str) {
        let mut state = self.0.state();
        state.model.unlink(path);
        state.model.sync_names();
        state.sweep();
    }

    /// Returns all names, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.state().model.names().map(ToString::to_string).collect()
    }
}
