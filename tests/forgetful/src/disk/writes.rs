//! What was written to one file since it was last synced.

use crate::random::Random;

/// What reaches the disk as a whole. Bytes of one such page never pass each other.
pub const PAGE: usize = 4096;

/// More than this the system writes back by itself.
const MOST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Write {
    /// Within one page.
    Bytes { at: usize, bytes: Vec<u8> },
    /// A size that was set, and the number of its entry in the journal.
    Size { len: usize, shrinks: bool, entry: u64 },
}

/// Writes and sizes, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    all: Vec<Write>,
}

pub(super) fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}

impl Writes {
    pub(super) fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(PAGE - at % PAGE));
            self.all.push(Write::Bytes { at, bytes: piece.to_vec() });
            at += piece.len();
            bytes = rest;
        }
    }

    pub(super) fn size(&mut self, len: usize, shrinks: bool, entry: u64) {
        self.all.push(Write::Size { len, shrinks, entry });
    }

    /// Whether the system would have begun to write back by now.
    pub(super) fn is_long(&self) -> bool {
        self.all.len() > MOST
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Makes all durable.
    pub(super) fn settle(self, file: &mut Vec<u8>) {
        for write in self.all {
            match write {
                Write::Bytes { at, bytes } => put(file, at, &bytes),
                Write::Size { len, .. } => file.resize(len, 0),
            }
        }
    }

    /// Makes a part of it durable, as the power goes off: of each page the writes up to some moment, of the sizes those
    /// whose entry is at most `last`. Returns how many writes are forgotten.
    ///
    /// What is written beyond a size that was set and is forgotten is forgotten too: it was given room after it.
    pub(super) fn lose(self, file: &mut Vec<u8>, last: u64, random: &mut Random) -> usize {
        let mut of_pages: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
        for write in &self.all {
            if let Write::Bytes { at, .. } = write {
                *of_pages.entry(at / PAGE).or_default() += 1;
            }
        }
        // The seed may be kind or not to a file as a whole; otherwise each page has its own luck.
        let luck = random.below(4);
        let mut kept: std::collections::BTreeMap<usize, usize> = of_pages
            .into_iter()
            .map(|(page, writes)| {
                let kept = match luck {
                    0 => 0,
                    1 => writes,
                    _ => random.part(writes),
                };
                (page, kept)
            })
            .collect();
        let mut limit = usize::MAX;
        let mut forgotten = 0;
        for write in self.all {
            match write {
                Write::Bytes { at, bytes } => {
                    let left = kept.entry(at / PAGE).or_default();
                    if *left > 0 && at < limit {
                        *left -= 1;
                        put(file, at, &bytes);
                    } else {
                        *left = 0;
                        forgotten += 1;
                    }
                }
                Write::Size { len, entry, .. } if entry <= last => file.resize(len, 0),
                Write::Size { len, shrinks, .. } => {
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
