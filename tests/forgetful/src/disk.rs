//! What is seen of a disk, what is on it, and what lies between: the model of forgetting. Pure: no clock, no files.
//!
//! Names, rights and set sizes are entries of one journal; a power loss keeps the entries up to some moment, never a later
//! one without an earlier one. Written bytes are kept or forgotten page by page, in no order among pages.

mod change;
mod tree;
mod writes;

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{OsStr, OsString},
    time::SystemTime,
};

use change::{Change, Weight};
use writes::Writes;

pub use change::Place;
pub use tree::{Body, Ino, Node, ROOT, Rights, Special, Tree};
pub use writes::PAGE;

use crate::random::Random;

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such node, name or attribute.
    #[error("nothing is there")]
    Missing,
    /// The name is taken.
    #[error("the name is taken")]
    Taken,
    /// A name was asked for in something that has none.
    #[error("it is no folder")]
    NotAFolder,
    /// Bytes were asked for of something that has none.
    #[error("it is no file")]
    NotAFile,
    /// A folder can't be removed or replaced while names are in it.
    #[error("the folder is not empty")]
    NotEmpty,
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Entries of the journal.
    pub changes: usize,
    /// Writes and sizes of files that are still there.
    pub writes: usize,
}

/// How far the journal must be written so that a node is on the disk.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    data: u64,
    other: u64,
}

/// A disk in use.
#[derive(Clone, Debug)]
pub struct Disk {
    seen: Tree,
    kept: Tree,
    journal: VecDeque<Change>,
    /// The number of the first entry of `journal`.
    first: u64,
    writes: BTreeMap<Ino, Writes>,
    touched: BTreeMap<Ino, Touched>,
    next: Ino,
}

impl Disk {
    /// A disk with an empty folder.
    #[must_use]
    pub fn new(rights: Rights, now: SystemTime) -> Self {
        let tree = Tree::new(rights, now);
        Self {
            seen: tree.clone(),
            kept: tree,
            journal: VecDeque::new(),
            first: 1,
            writes: BTreeMap::new(),
            touched: BTreeMap::new(),
            next: ROOT + 1,
        }
    }

    /// What programs see.
    #[must_use]
    pub fn seen(&self) -> &Tree {
        &self.seen
    }

    /// What is sure to be there after a power loss; names may be missing of some nodes.
    #[must_use]
    pub fn kept(&self) -> &Tree {
        &self.kept
    }

    fn node(&self, ino: Ino) -> Result<&Node, Refused> {
        self.seen.node(ino).ok_or(Refused::Missing)
    }

    fn change(&mut self, change: Change, touched: &[(Ino, Weight)]) {
        self.seen.apply(&change);
        self.journal.push_back(change);
        let entry = self.last();
        for (ino, weight) in touched {
            let at = self.touched.entry(*ino).or_default();
            at.other = entry;
            if *weight == Weight::Data {
                at.data = entry;
            }
        }
    }

    /// The number of the newest entry.
    fn last(&self) -> u64 {
        self.first + self.journal.len() as u64 - 1
    }

    fn stamp(&mut self, ino: Ino, now: SystemTime) {
        if let Some(node) = self.seen.nodes.get_mut(&ino) {
            node.modified = now;
            node.changed = now;
        }
    }

    /// Makes a node without a name.
    pub fn make(&mut self, body: Body, rights: Rights, now: SystemTime) -> Ino {
        let ino = self.next;
        self.next += 1;
        let node = Box::new(Node::new(body, rights, now));
        self.change(Change::Make { ino, node }, &[(ino, Weight::Data)]);
        ino
    }

    /// Makes a node with a name.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn create(
        &mut self,
        place: Place,
        body: Body,
        rights: Rights,
        now: SystemTime,
    ) -> Result<Ino, Refused> {
        self.free(&place)?;
        let ino = self.make(body, rights, now);
        self.link_as(ino, place, Weight::Data, now);
        Ok(ino)
    }

    fn free(&self, place: &Place) -> Result<(), Refused> {
        let entries = self.node(place.folder)?.entries().ok_or(Refused::NotAFolder)?;
        if entries.contains_key(&place.name) { Err(Refused::Taken) } else { Ok(()) }
    }

    fn link_as(&mut self, ino: Ino, place: Place, weight: Weight, now: SystemTime) {
        let folder = place.folder;
        self.change(Change::Link { place, ino }, &[(ino, weight), (folder, Weight::Other)]);
        self.stamp(folder, now);
    }

    /// Gives a node one more name.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn link(&mut self, ino: Ino, place: Place, now: SystemTime) -> Result<(), Refused> {
        self.node(ino)?;
        self.free(&place)?;
        self.link_as(ino, place, Weight::Other, now);
        Ok(())
    }

    /// Removes a name. The node stays until [`Self::reap`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn unlink(&mut self, place: Place, now: SystemTime) -> Result<Ino, Refused> {
        let ino = self.seen.named(&place).ok_or(Refused::Missing)?;
        if self.node(ino)?.entries().is_some_and(|entries| !entries.is_empty()) {
            return Err(Refused::NotEmpty);
        }
        let folder = place.folder;
        self.change(Change::Unlink { place }, &[(ino, Weight::Other), (folder, Weight::Other)]);
        self.stamp(folder, now);
        Ok(ino)
    }

    /// Moves a name, over what has the other name; with `swap`, exchanges both.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn rename(&mut self, from: Place, to: Place, swap: bool, now: SystemTime) -> Result<(), Refused> {
        let moved = self.seen.named(&from).ok_or(Refused::Missing)?;
        self.node(to.folder)?.entries().ok_or(Refused::NotAFolder)?;
        let there = self.seen.named(&to);
        if there == Some(moved) {
            return Ok(()); // Two names of one node: nothing is done.
        }
        match there {
            None if swap => return Err(Refused::Missing),
            Some(there) if !swap => {
                if self.node(there)?.entries().is_some_and(|entries| !entries.is_empty()) {
                    return Err(Refused::NotEmpty);
                }
            }
            None | Some(_) => {}
        }
        let folders = [from.folder, to.folder];
        let touched: Vec<_> =
            [moved].into_iter().chain(there).chain(folders).map(|ino| (ino, Weight::Other)).collect();
        self.change(Change::Rename { from, to, swap }, &touched);
        folders.into_iter().for_each(|folder| self.stamp(folder, now));
        Ok(())
    }

    /// Sets who may do what.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn set_rights(&mut self, ino: Ino, rights: Rights, now: SystemTime) -> Result<(), Refused> {
        self.node(ino)?;
        self.change(Change::Rights { ino, rights }, &[(ino, Weight::Other)]);
        if let Some(node) = self.seen.nodes.get_mut(&ino) {
            node.changed = now;
        }
        Ok(())
    }

    /// Sets when the contents were last changed. Nothing depends on it, so it is no entry.
    pub fn set_modified(&mut self, ino: Ino, at: SystemTime) {
        if let Some(node) = self.seen.nodes.get_mut(&ino) {
            node.modified = at;
        }
    }

    /// Sets or removes an extended attribute.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn set_attribute(&mut self, ino: Ino, name: OsString, value: Option<Vec<u8>>) -> Result<(), Refused> {
        if value.is_none() && !self.node(ino)?.attributes.contains_key(&name) {
            return Err(Refused::Missing);
        }
        self.node(ino)?;
        self.change(Change::Attribute { ino, name, value }, &[(ino, Weight::Other)]);
        Ok(())
    }

    /// Writes into a file.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn write(&mut self, ino: Ino, at: usize, bytes: &[u8], now: SystemTime) -> Result<(), Refused> {
        self.node(ino)?;
        writes::put(self.seen.bytes_mut(ino).ok_or(Refused::NotAFile)?, at, bytes);
        let writes = self.writes.entry(ino).or_default();
        writes.write(at, bytes);
        let write_back = writes.is_long();
        self.stamp(ino, now);
        if write_back {
            self.sync(ino, true)?;
        }
        Ok(())
    }

    /// Sets the size of a file.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn set_size(&mut self, ino: Ino, len: usize, now: SystemTime) -> Result<(), Refused> {
        self.node(ino)?;
        let bytes = self.seen.bytes_mut(ino).ok_or(Refused::NotAFile)?;
        let before = bytes.len();
        bytes.resize(len, 0);
        if len != before {
            self.change(Change::Size { ino }, &[(ino, Weight::Data)]);
            let entry = self.last();
            self.writes.entry(ino).or_default().size(len, len < before, entry);
        }
        self.stamp(ino, now);
        Ok(())
    }

    /// Forgets a node without a name, as its last descriptor is closed.
    pub fn reap(&mut self, ino: Ino) {
        if self.seen.node(ino).is_some_and(|node| node.names == 0) {
            self.change(Change::Reap { ino }, &[]);
        }
    }

    /// Writes the journal up to an entry.
    fn commit(&mut self, entry: u64) {
        while self.first <= entry
            && let Some(change) = self.journal.pop_front()
        {
            self.first += 1;
            self.kept.apply(&change);
            if let Change::Reap { ino } = change {
                self.writes.remove(&ino);
                self.touched.remove(&ino);
            }
        }
    }

    /// `fsync`, or `fdatasync` with `data_only`, of a file or folder.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn sync(&mut self, ino: Ino, data_only: bool) -> Result<(), Refused> {
        let modified = self.node(ino)?.modified;
        let touched = self.touched.get(&ino).copied().unwrap_or_default();
        self.commit(if data_only { touched.data } else { touched.other });
        if let Some(writes) = self.writes.remove(&ino)
            && let Some(bytes) = self.kept.bytes_mut(ino)
        {
            writes.settle(bytes);
        }
        if let Some(node) = self.kept.nodes.get_mut(&ino) {
            node.modified = modified;
        }
        Ok(())
    }

    /// A sync of a file that failed: what was written stays to be seen, and no later sync makes it durable.
    pub fn fail_to_sync(&mut self, ino: Ino) {
        self.writes.remove(&ino);
    }

    /// `sync`: all of it.
    pub fn sync_all(&mut self) {
        self.commit(u64::MAX);
        for (ino, writes) in std::mem::take(&mut self.writes) {
            if let Some(bytes) = self.kept.bytes_mut(ino) {
                writes.settle(bytes);
            }
        }
    }

    /// The power goes off. Descriptors are gone, and with them nodes without names.
    pub fn lose_power(&mut self, random: &mut Random) -> Forgotten {
        let journal = self.journal.len();
        let keeps = random.part(journal);
        self.commit(self.first + keeps as u64 - 1);
        let mut forgotten = Forgotten { changes: journal - keeps, writes: 0 };
        self.kept.sweep();
        let last = self.first - 1;
        for (ino, writes) in std::mem::take(&mut self.writes) {
            if let Some(bytes) = self.kept.bytes_mut(ino) {
                forgotten.writes += writes.lose(bytes, last, random);
            }
        }
        self.journal.clear();
        self.touched.clear();
        self.seen = self.kept.clone();
        forgotten
    }

    /// How much a power loss could take.
    #[must_use]
    pub fn at_stake(&self) -> Forgotten {
        Forgotten { changes: self.journal.len(), writes: self.writes.values().map(Writes::len).sum() }
    }

    /// Returns an extended attribute.
    #[must_use]
    pub fn attribute(&self, ino: Ino, name: &OsStr) -> Option<&[u8]> {
        self.seen.node(ino)?.attributes.get(name).map(Vec::as_slice)
    }
}
