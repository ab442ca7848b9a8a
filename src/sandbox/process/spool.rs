//! What a process has written, kept from the first byte: it can be read at any time, by anybody, more than once.
//!
//! The pieces lie one after another in a file without a name, which goes when its last user does. Above the limit
//! nothing more is kept, but the process' pipes are drained all the same, so that it does not block.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::sync::watch;

use crate::sandbox::{Chunk, SandboxError};
use crate::system::locked::Locked as _;

/// A piece's kind and its length.
const HEADER: usize = 5;

/// Which of the two streams a piece came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

/// The kept output of one container.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    limit: u64,
    /// Held while a piece is appended.
    writing: Mutex<()>,
    tail: watch::Sender<Tail>,
}

/// How far the output has come.
#[derive(Clone, Debug, Default)]
struct Tail {
    /// The end of the last whole piece in the file, bytes.
    written: u64,
    /// Output seen, bytes; more than the limit: no longer kept.
    seen: u64,
    closed: bool,
    /// Why the file could not be written.
    broken: Option<String>,
}

impl Spool {
    /// Makes a spool in `dir` that keeps `limit` bytes.
    pub(super) fn new(dir: &Path, limit: u64) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Self { file, limit, writing: Mutex::new(()), tail: watch::Sender::default() })
    }

    /// Keeps a piece.
    pub(super) fn push(&self, source: Source, bytes: &[u8]) {
        let _writing = self.writing.locked();
        let tail = self.tail.borrow().clone();
        let seen = tail.seen + bytes.len() as u64;
        let kept = if seen <= self.limit && tail.broken.is_none() {
            self.append(tail.written, source, bytes)
        } else {
            Ok(tail.written)
        };
        self.tail.send_modify(|tail| {
            tail.seen = seen;
            match kept {
                Ok(written) => tail.written = written,
                Err(error) => tail.broken = Some(error.to_string()),
            }
        });
    }

    /// Says that nothing more will come.
    pub(super) fn close(&self) {
        self.tail.send_modify(|tail| tail.closed = true);
    }

    /// Returns everything from the first byte; ends after [`Spool::close`].
    pub(super) fn read(self: Arc<Self>) -> BoxStream<'static, Result<Chunk, SandboxError>> {
        let tail = self.tail.subscribe();
        stream::unfold(Some((self, tail, 0)), async |reader| {
            let (spool, mut tail, at) = reader?;
            loop {
                let now = tail.borrow_and_update().clone();
                if at < now.written {
                    return Some(match spool.piece(at) {
                        Ok((chunk, next)) => (Ok(chunk), Some((spool, tail, next))),
                        Err(error) => (Err(failed(error.to_string())), None),
                    });
                }
                if now.seen > spool.limit {
                    return Some((Err(SandboxError::Flooded { bytes: now.seen }), None));
                }
                if let Some(why) = now.broken {
                    return Some((Err(failed(why)), None));
                }
                if now.closed || tail.changed().await.is_err() {
                    return None;
                }
            }
        })
        .boxed()
    }

    fn append(&self, at: u64, source: Source, bytes: &[u8]) -> io::Result<u64> {
        let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut piece = Vec::with_capacity(HEADER + bytes.len());
        piece.push(match source {
            Source::Stdout => 1,
            Source::Stderr => 2,
        });
        piece.extend(len.to_le_bytes());
        piece.extend(bytes);
        self.file.write_all_at(&piece, at)?;
        Ok(at + piece.len() as u64)
    }

    fn piece(&self, at: u64) -> io::Result<(Chunk, u64)> {
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, at)?;
        let [source, len @ ..] = header;
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        self.file.read_exact_at(&mut bytes, at + HEADER as u64)?;
        let next = at + (HEADER + bytes.len()) as u64;
        Ok((if source == 1 { Chunk::Stdout(bytes) } else { Chunk::Stderr(bytes) }, next))
    }
}

fn failed(why: String) -> SandboxError {
    SandboxError::Engine { doing: "keeping a process' output".to_owned(), why }
}
