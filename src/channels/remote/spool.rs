//! Files on their way to an adapter: copies in its spool, so that what is kept stays as it is whatever an adapter does with them.
//! They are there while it works on the message that they belong to.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use channel_protocol::{File, Kind};
use ipc_handlers::file::MediaKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Ground, child::Folders};
use crate::{
    domain::{
        platforms::channels::{Part, Unsent},
        shown::errors::chain,
    },
    system::media::LaidOut,
};

/// How much is laid out for one adapter at a time, in KiB. A message that has more goes alone.
const MOST_KIB: u32 = 256 << 10;

/// Files that are laid out for an adapter.
pub(super) struct Spool {
    room: Arc<Semaphore>,
    next: AtomicU64,
}

impl Default for Spool {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MOST_KIB as usize)), next: AtomicU64::new(1) }
    }
}

/// The files of one message.
pub(super) struct Laid {
    pub(super) files: Vec<File>,
    _copies: Vec<LaidOut>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Spool {
    /// Lays out the files of a part, when there is room for them.
    ///
    /// # Errors
    /// The part can't be sent so; nothing of it was.
    pub(super) async fn lay_out(&self, ground: &Ground, name: &str, part: &Part<'_>) -> Result<Laid, Unsent> {
        if part.files.is_empty() {
            return Ok(Laid { files: Vec::new(), _copies: Vec::new(), _room: None });
        }
        let bytes: u64 = part.files.iter().map(|file| file.size).sum();
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(MOST_KIB).min(MOST_KIB);
        // Its door is never shut.
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await;
        let folder = Folders::of(ground, name).spool;
        let (mut files, mut to_copy) = (Vec::new(), Vec::new());
        for file in part.files {
            let digest =
                file.digest.ok_or_else(|| Unsent::refused("a file that is to be sent is missing"))?;
            // No two messages have one name, so what is left of one is in nobody's way.
            let at = format!("out/{}", self.next.fetch_add(1, Ordering::Relaxed));
            files.push(File {
                file: at.clone(),
                kind: kind(file.kind),
                mime: file.mime.clone(),
                name: file.name.clone(),
                caption: files.is_empty() && !part.text.text.is_empty(),
            });
            to_copy.push((digest, at));
        }
        let media = Arc::clone(&ground.media);
        let copies = ground.world.tried(move || {
            let copy = |(digest, at): (_, String)| media.lay_out(&digest, &folder, &at);
            to_copy.into_iter().map(copy).collect::<io::Result<Vec<_>>>()
        });
        match copies.await {
            Ok(copies) => Ok(Laid { files, _copies: copies, _room: room.ok() }),
            Err(error) => {
                tracing::warn!(channel = name, error = %chain(&error), "a file can't be laid out for an adapter");
                Err(Unsent::again(format!("the host can't hand the file over: {error}")))
            }
        }
    }
}

fn kind(kind: MediaKind) -> Kind {
    match kind {
        MediaKind::Image => Kind::Image,
        MediaKind::Video => Kind::Video,
        MediaKind::Audio => Kind::Audio,
        MediaKind::Voice => Kind::Voice,
        MediaKind::Document => Kind::Document,
    }
}
