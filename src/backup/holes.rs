//! Files with holes: which bytes a file has, and how an archive says that, in the form of GNU tar's version 1.0, which other
//! programs read too.
//!
//! ```text
//! pax header (names, real size) │ file: number of pieces, offset and length of each, filled up to 512 │ the pieces
//! ```

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{FileExt as _, MetadataExt as _},
};

use anyhow::{Context as _, Result, ensure};
use rustix::{fs::SeekFrom, io::Errno};

/// A block of an archive, bytes.
pub(super) const BLOCK: u64 = 512;
/// The most pieces that a file may have.
const PIECES: usize = 65_536;
/// The most bytes of the list of a file's pieces.
const LIST: u64 = 64 + PIECES as u64 * 48;

/// The keys of the pax header before a file with holes.
pub(super) const VERSION_KEYS: [(&str, &str); 2] = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")];
pub(super) const NAME_KEY: &str = "GNU.sparse.name";
pub(super) const SIZE_KEY: &str = "GNU.sparse.realsize";

/// The pieces of a file between its holes, in order, and its whole size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    pub(super) size: u64,
    /// Offset and length of each, bytes. The last one has none, and stands at the file's end.
    pub(super) list: Vec<(u64, u64)>,
}

/// How a file is stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain(u64),
    Holed(Pieces),
    /// It is not stored, and why.
    LeftOut(&'static str),
}

impl Shape {
    /// Looks at a file that is stored under this path. Its container may change it at any moment.
    pub(super) fn of(path: &str, file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let size = meta.len();
        if meta.blocks().saturating_mul(512) >= size {
            return Ok(Self::Plain(size));
        }
        let mut pieces = Pieces { size, list: Vec::new() };
        let mut at = 0;
        while at < size {
            let begin = match rustix::fs::seek(file, SeekFrom::Data(at)) {
                Ok(begin) if begin < size => begin,
                // Nothing but a hole follows.
                Ok(_) | Err(Errno::NXIO) => break,
                // A file system that knows of no holes.
                Err(_) => return Ok(Self::Plain(size)),
            };
            let end = rustix::fs::seek(file, SeekFrom::Hole(begin))?.min(size);
            if pieces.list.len() + 1 >= PIECES {
                return Ok(Self::LeftOut("more than 65536 pieces between holes"));
            }
            pieces.list.push((begin, end.saturating_sub(begin)));
            at = end.max(begin + 1);
        }
        pieces.list.push((size, 0));
        // The list and its header take room, too.
        if pieces.stored() + 3 * BLOCK >= size {
            return Ok(Self::Plain(size));
        }
        // A reader ends the line of the header there.
        let ends_early = path.contains('\n');
        Ok(if ends_early { Self::LeftOut("holes, and a line feed in its path") } else { Self::Holed(pieces) })
    }

    /// Returns how much of the archive the file takes beside its names, bytes.
    pub(super) fn stored(&self) -> u64 {
        match self {
            Self::Plain(size) => size.next_multiple_of(BLOCK),
            Self::Holed(pieces) => pieces.stored().next_multiple_of(BLOCK) + 3 * BLOCK,
            Self::LeftOut(_) => 0,
        }
    }
}

impl Pieces {
    /// Returns how many bytes of a file are stored, with the list of its pieces.
    pub(super) fn stored(&self) -> u64 {
        self.head().len() as u64 + self.list.iter().map(|(_, length)| length).sum::<u64>()
    }

    /// Returns the list as it stands before the pieces.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut text = format!("{}\n", self.list.len());
        for (at, length) in &self.list {
            text.push_str(&format!("{at}\n{length}\n"));
        }
        let mut bytes = text.into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        bytes
    }

    /// Reads the list before the pieces of a file that is `size` bytes long, of which `stored` bytes are in the archive.
    ///
    /// # Errors
    /// What no archive of ours says.
    pub(super) fn read(from: &mut impl Read, size: u64, stored: u64) -> Result<Self> {
        let mut read = 0;
        let mut number = |what: &'static str| -> Result<u64> {
            let mut text = String::new();
            loop {
                let mut byte = [0];
                from.read_exact(&mut byte).context("a list of a file's pieces is cut off")?;
                read += 1;
                ensure!(read <= LIST, "a list of a file's pieces is too long");
                match byte[0] {
                    b'\n' => break,
                    digit @ b'0'..=b'9' if text.len() < 20 => text.push(digit.into()),
                    _ => anyhow::bail!("{what} of a file's piece is no number"),
                }
            }
            text.parse().with_context(|| format!("{what} of a file's piece is no number"))
        };
        let count = number("the count")?;
        ensure!(count <= PIECES as u64, "a file in it has more than {PIECES} pieces");
        let (mut list, mut end, mut all) = (Vec::new(), 0_u64, 0_u64);
        for _ in 0..count {
            let (at, length) = (number("the offset")?, number("the length")?);
            ensure!(at >= end, "the pieces of a file overlap");
            end = at.checked_add(length).filter(|end| *end <= size).context("a piece ends after its file")?;
            all += length;
            list.push((at, length));
        }
        let fill = read.next_multiple_of(BLOCK) - read;
        io::copy(&mut from.take(fill), &mut io::sink())?;
        let is_right = (read + fill).checked_add(all) == Some(stored);
        ensure!(is_right, "the pieces of a file are not as long as they say");
        Ok(Self { size, list })
    }
}

/// Reads the pieces of a file one after the other. What was cut off meanwhile reads as zeros.
pub(super) struct Reading<'a> {
    file: &'a File,
    rest: std::slice::Iter<'a, (u64, u64)>,
    here: (u64, u64),
}

impl<'a> Reading<'a> {
    pub(super) fn new(file: &'a File, pieces: &'a Pieces) -> Self {
        Self { file, rest: pieces.list.iter(), here: (0, 0) }
    }
}

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.here.1 == 0 {
            let Some(next) = self.rest.next() else { return Ok(0) };
            self.here = *next;
        }
        let (at, left) = self.here;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        let read = match self.file.read_at(&mut into[..most], at)? {
            0 => {
                into[..most].fill(0);
                most
            }
            read => read,
        };
        self.here = (at + read as u64, left - read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_pieces_is_read_as_it_was_written_and_nothing_else_is() {
        let pieces = Pieces { size: 9_000_000, list: vec![(4096, 4096), (1 << 20, 100), (9_000_000, 0)] };
        let read = |bytes: &[u8], size, stored| {
            Pieces::read(&mut &*bytes, size, stored).map_err(|why| why.to_string())
        };
        assert_eq!(read(&pieces.head(), pieces.size, pieces.stored()), Ok(pieces.clone()));
        let bad = |text: &str, why: &str| {
            let error = read(text.as_bytes(), 1000, 512).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        };
        bad("1\n0\n2000\n", "ends after its file");
        bad("2\n100\n100\n50\n10\n", "overlap");
        bad("99999999\n", "more than");
        bad("1\n-4\n4\n", "no number");
        bad("18446744073709551616\n", "no number");
        bad("1\n18446744073709551615\n1\n", "ends after its file");
        bad("1\n0\n", "cut off");
        bad("1\n0\n100\n", "not as long as they say");
        let endless = format!("1\n0\n{}\n", u64::MAX);
        let error = read(endless.as_bytes(), u64::MAX, 511).unwrap_err();
        assert!(error.contains("not as long as they say"), "{error}");
        bad(&"0".repeat(100), "no number");
    }

    #[test]
    fn a_file_with_holes_is_stored_by_its_pieces() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        file.set_len(8 << 20).unwrap();
        let Shape::Holed(pieces) = Shape::of("a", &file).unwrap() else { panic!("it has holes") };
        assert_eq!(Shape::of("a\nb", &file).unwrap(), Shape::LeftOut("holes, and a line feed in its path"));
        assert_eq!((pieces.size, pieces.list.last()), (8 << 20, Some(&(8 << 20, 0))));
        let mut bytes = Vec::new();
        Reading::new(&file, &pieces).read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len() as u64 + 512, bytes.contains(&1)), (pieces.stored(), true));
        file.set_len(100).unwrap();
        let mut cut = Vec::new();
        Reading::new(&file, &pieces).read_to_end(&mut cut).unwrap();
        assert_eq!(cut, vec![0; bytes.len()], "cut off meanwhile");
        file.set_len(0).unwrap();
        file.write_all_at(&[1; 10], 0).unwrap();
        assert_eq!(Shape::of("a\nb", &file).unwrap(), Shape::Plain(10));
    }
}
