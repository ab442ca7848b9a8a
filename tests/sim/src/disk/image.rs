//! The bytes of a file in pages that copies share until one of them is written.

use std::sync::{Arc, LazyLock};

/// What a disk writes at once, bytes.
pub const PAGE: usize = 4096;

type Page = Arc<[u8; PAGE]>;

static ZEROS: LazyLock<Page> = LazyLock::new(|| Arc::new([0; PAGE]));

/// The contents of a file. A copy costs a counter for each page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// As many as `len` needs; what is beyond `len` in the last one is zeros.
    pages: Vec<Page>,
    len: usize,
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Self {
        let mut image = Self::default();
        image.write(0, bytes);
        image
    }
}

impl Image {
    /// Returns how many bytes it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Reads into `to` what there is, and returns how many bytes that were.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> usize {
        let all = self.len.saturating_sub(at).min(to.len());
        let mut done = 0;
        while done < all {
            let (page, within) = ((at + done) / PAGE, (at + done) % PAGE);
            let piece = (PAGE - within).min(all - done);
            to[done..done + piece].copy_from_slice(&self.pages[page][within..within + piece]);
            done += piece;
        }
        all
    }

    /// Writes, and grows where that is beyond the end.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.len < at + bytes.len() {
            self.set_len(at + bytes.len());
        }
        for (at, piece) in pieces(at, bytes) {
            let page = &mut self.pages[at / PAGE];
            match <&[u8; PAGE]>::try_from(piece) {
                // Nothing of the page that was there is left.
                Ok(whole) if Arc::get_mut(page).is_none() => *page = Arc::new(*whole),
                _ => Arc::make_mut(page)[at % PAGE..at % PAGE + piece.len()].copy_from_slice(piece),
            }
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.pages.resize_with(len.div_ceil(PAGE), || Arc::clone(&ZEROS));
        if len < self.len && !len.is_multiple_of(PAGE) {
            Arc::make_mut(&mut self.pages[len / PAGE])[len % PAGE..].fill(0);
        }
        self.len = len;
    }

    /// Takes over one page of another image, by its number. It must be within this one.
    pub(super) fn share(&mut self, page: usize, of: &Self) {
        self.pages[page] = Arc::clone(&of.pages[page]);
    }
}

/// Cuts bytes that are written at a place where pages end.
pub(super) fn pieces(mut at: usize, mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(PAGE - at % PAGE));
        let cut = (at, piece);
        (at, bytes) = (at + piece.len(), rest);
        Some(cut)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_an_array_of_bytes_does() {
        let mut chance = crate::Chance::new(1);
        let (mut image, mut array) = (Image::default(), Vec::new());
        for _ in 0..2000 {
            let at = usize::try_from(chance.below(5 * 4096)).unwrap();
            if chance.one_of(8) {
                image.set_len(at);
                array.resize(at, 0);
            } else {
                let mut bytes = vec![0; usize::try_from(chance.below(9000)).unwrap()];
                chance.fill(&mut bytes);
                let copy = image.clone();
                image.write(at, &bytes);
                assert_eq!(copy.to_vec(), array);
                if !bytes.is_empty() {
                    array.resize(array.len().max(at + bytes.len()), 0);
                    array[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            assert_eq!(image.to_vec(), array);
        }
    }
}
