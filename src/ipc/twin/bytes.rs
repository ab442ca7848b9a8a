//! The bytes of a file, which may have holes.

use std::collections::BTreeMap;

/// How many bytes are held together.
const PIECE: u64 = 4096;

/// The bytes of a file. Where nothing was written there are zeros, which take no room.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    length: u64,
    pieces: BTreeMap<u64, Box<[u8]>>,
}

impl Bytes {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// What they take, in blocks of 512 bytes.
    pub(super) fn blocks(&self) -> u64 {
        self.pieces.len() as u64 * (PIECE / 512)
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.pieces = std::mem::take(&mut self.pieces)
                .into_iter()
                .take_while(|(piece, _)| piece * PIECE < length)
                .collect();
            if let Some(last) = self.pieces.get_mut(&(length / PIECE)) {
                last[within(length)..].fill(0);
            }
        }
        self.length = length;
    }

    pub(super) fn write(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let piece = self.pieces.entry(at / PIECE).or_insert_with(|| vec![0; within(u64::MAX) + 1].into());
            let room = &mut piece[within(at)..];
            let (now, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            at += now.len() as u64;
            bytes = rest;
        }
        self.length = self.length.max(at);
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        let (mut at, mut into) = (at, &mut into[..count]);
        while !into.is_empty() {
            let room = into.len().min(within(u64::MAX) + 1 - within(at));
            let (now, rest) = into.split_at_mut(room);
            match self.pieces.get(&(at / PIECE)) {
                Some(piece) => now.copy_from_slice(&piece[within(at)..within(at) + room]),
                None => now.fill(0),
            }
            at += room as u64;
            into = rest;
        }
        count
    }
}

/// The place of a byte within its piece.
fn within(at: u64) -> usize {
    usize::try_from(at % PIECE).unwrap_or(0)
}
