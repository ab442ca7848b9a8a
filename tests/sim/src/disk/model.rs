//! What is seen of a disk, what is on it, and what lies between. Pure: neither clock nor SQLite.
//!
//! Names are entries of one journal: a power loss keeps the entries up to some moment. Written bytes are kept or forgotten
//! page by page, in no order among pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64},
};

use super::image::{Image, PAGE, pieces};
use crate::Chance;

/// The number of a file; a name leads to one.
pub(super) type Ino = u64;

/// A piece of the memory that the connections to a file share, `-shm`.
pub(super) type Region = Arc<[AtomicU64]>;

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Names that were made or removed.
    pub names: usize,
    /// Writes (a page's part of one each) and sizes.
    pub writes: usize,
}

/// What was done to a file and is not durable.
enum Write {
    /// Within one page.
    Bytes {
        at: usize,
        bytes: Box<[u8]>,
    },
    Size {
        len: usize,
        shrinks: bool,
    },
}

#[derive(Default)]
pub(super) struct File {
    pub(super) seen: Image,
    kept: Image,
    writes: Vec<Write>,
    /// Nothing of it ever has to be durable.
    is_temporary: bool,
    pub(super) shared: Vec<Region>,
}

impl File {
    /// Makes all durable. A page is written whole, so with what an earlier sync that failed left on it.
    fn settle(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let mut pages = BTreeSet::new();
        for write in self.writes.drain(..) {
            match write {
                Write::Bytes { at, .. } => drop(pages.insert(at / PAGE)),
                Write::Size { len, .. } => self.kept.set_len(len),
            }
        }
        self.kept.set_len(self.seen.len());
        let last = self.seen.len().div_ceil(PAGE);
        for page in pages.range(..last) {
            self.kept.share(*page, &self.seen);
        }
    }

    /// Makes a part of it durable: of each page the writes up to some moment, and so of the sizes. Returns how many writes
    /// are not.
    ///
    /// What is written beyond a size that was set and is forgotten is forgotten too: it was given room after it.
    fn settle_a_part(&mut self, chance: &mut Chance) -> usize {
        let mut of_pages: BTreeMap<usize, usize> = BTreeMap::new();
        let mut sizes = 0;
        for write in &self.writes {
            match write {
                Write::Bytes { at, .. } => *of_pages.entry(at / PAGE).or_default() += 1,
                Write::Size { .. } => sizes += 1,
            }
        }
        // Chance may be kind or not to a file as a whole; otherwise each page has its own luck.
        let luck = chance.below(4);
        let mut part = |all| match luck {
            0 => 0,
            1 => all,
            _ => chance.part(all),
        };
        sizes = part(sizes);
        for writes in of_pages.values_mut() {
            *writes = part(*writes);
        }
        let (mut limit, mut forgotten) = (usize::MAX, 0);
        for write in self.writes.drain(..) {
            match write {
                Write::Bytes { at, bytes } => {
                    let left = of_pages.entry(at / PAGE).or_default();
                    if *left > 0 && at < limit {
                        *left -= 1;
                        self.kept.write(at, &bytes);
                    } else {
                        *left = 0;
                        forgotten += 1;
                    }
                }
                Write::Size { len, .. } if sizes > 0 => {
                    sizes -= 1;
                    self.kept.set_len(len);
                }
                Write::Size { len, shrinks } => {
                    forgotten += 1;
                    if shrinks {
                        limit = limit.min(len);
                    }
                }
            }
        }
        forgotten
    }
}

/// An entry of the journal: a name leads elsewhere, or nowhere.
struct Change {
    path: Arc<str>,
    to: Option<Ino>,
    /// The file that got the name or lost it.
    about: Ino,
}

/// The contents of a disk.
#[derive(Default)]
pub(super) struct Model {
    files: BTreeMap<Ino, File>,
    seen: BTreeMap<Arc<str>, Ino>,
    kept: BTreeMap<Arc<str>, Ino>,
    journal: Vec<Change>,
    last: Ino,
}

impl Model {
    pub(super) fn named(&self, path: &str) -> Option<Ino> {
        self.seen.get(path).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.seen.keys()
    }

    pub(super) fn file(&self, ino: Ino) -> Option<&File> {
        self.files.get(&ino)
    }

    pub(super) fn file_mut(&mut self, ino: Ino) -> Option<&mut File> {
        self.files.get_mut(&ino)
    }

    /// Makes a file, which has a name unless it is temporary.
    pub(super) fn make(&mut self, path: Option<&Arc<str>>) -> Ino {
        self.last += 1;
        let ino = self.last;
        self.files.insert(ino, File { is_temporary: path.is_none(), ..File::default() });
        if let Some(path) = path {
            self.seen.insert(Arc::clone(path), ino);
            self.journal.push(Change { path: Arc::clone(path), to: Some(ino), about: ino });
        }
        ino
    }

    /// Removes a name. The file stays until [`Self::sweep`]. Whether there was one.
    pub(super) fn unlink(&mut self, path: &str) -> bool {
        let Some((path, ino)) = self.seen.remove_entry(path) else { return false };
        self.journal.push(Change { path, to: None, about: ino });
        true
    }

    pub(super) fn write(&mut self, ino: Ino, at: usize, bytes: &[u8]) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        file.seen.write(at, bytes);
        if !file.is_temporary {
            file.writes.extend(pieces(at, bytes).map(|(at, piece)| Write::Bytes { at, bytes: piece.into() }));
        }
    }

    pub(super) fn set_len(&mut self, ino: Ino, len: usize) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let before = file.seen.len();
        file.seen.set_len(len);
        if !file.is_temporary && len != before {
            file.writes.push(Write::Size { len, shrinks: len < before });
        }
    }

    /// Makes a file durable, with the journal up to the last entry about it.
    pub(super) fn sync(&mut self, ino: Ino) {
        let entries = self.journal.iter().rposition(|change| change.about == ino).map_or(0, |last| last + 1);
        self.commit(entries);
        if let Some(file) = self.files.get_mut(&ino) {
            file.settle();
        }
    }

    /// A sync that failed: a part is durable, what was written stays to be seen, and a later sync writes nothing of it.
    pub(super) fn fail_to_sync(&mut self, ino: Ino, chance: &mut Chance) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.settle_a_part(chance);
        }
    }

    /// Makes all names durable.
    pub(super) fn sync_names(&mut self) {
        self.commit(self.journal.len());
    }

    /// Writes the first entries of the journal.
    fn commit(&mut self, entries: usize) {
        for change in self.journal.drain(..entries) {
            match change.to {
                Some(ino) => self.kept.insert(change.path, ino),
                None => self.kept.remove(&change.path),
            };
        }
    }

    /// The power goes off. Everything that is open has to be closed before.
    pub(super) fn lose_power(&mut self, chance: &mut Chance) -> Forgotten {
        let entries = self.journal.len();
        let keeps = chance.part(entries);
        self.commit(keeps);
        self.journal.clear();
        self.seen = self.kept.clone();
        self.sweep(|_| false);
        let mut forgotten = Forgotten { names: entries - keeps, writes: 0 };
        for file in self.files.values_mut() {
            forgotten.writes += file.settle_a_part(chance);
            file.seen = file.kept.clone();
        }
        forgotten
    }

    /// Has every file begin with new shared memory.
    pub(super) fn forget_shared(&mut self) {
        self.files.values_mut().for_each(|file| file.shared.clear());
    }

    /// Forgets files that nothing leads to.
    pub(super) fn sweep(&mut self, is_open: impl Fn(Ino) -> bool) {
        let named: BTreeSet<Ino> = self
            .seen
            .values()
            .chain(self.kept.values())
            .copied()
            .chain(self.journal.iter().map(|change| change.about))
            .collect();
        self.files.retain(|ino, _| named.contains(ino) || is_open(*ino));
    }

    /// Puts a file there, durable, in place of what the name leads to.
    pub(super) fn put(&mut self, path: Arc<str>, image: &Image) {
        let ino = self.make(Some(&path));
        self.sync_names();
        if let Some(file) = self.files.get_mut(&ino) {
            file.seen = image.clone();
            file.kept = image.clone();
        }
    }

    /// What is sure to be there of a name after a power loss.
    pub(super) fn kept(&self, path: &str) -> Option<&Image> {
        Some(&self.files.get(self.kept.get(path)?)?.kept)
    }
}
