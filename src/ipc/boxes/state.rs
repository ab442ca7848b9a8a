//! What a container says of itself: its heartbeat, and the tool it is in.

use std::io;

use ipc_handlers::wire::ContainerState;
use rustix::io::Errno;

use super::{BoxStamp, GroupBoxes, box_stamp};
use crate::ipc::{
    dir,
    names::{BoxName, FileKind},
    world_fault::WorldFault,
};

/// The largest `container_state.json` that is read, bytes.
const STATE_LIMIT: u64 = 64 * 1024;

/// The heartbeat file as it was seen. Only whether two are equal says anything: its times are the container's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    times: BoxStamp,
    ino: u64,
}

/// Why `container_state.json` says nothing; to be treated as absent.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("container_state.json is a {0}, not a file")]
    NotAFile(FileKind),
    #[error("container_state.json has {0} bytes, more than {STATE_LIMIT}")]
    TooLarge(u64),
    #[error("container_state.json can't be understood")]
    Malformed(#[source] serde_json::Error),
    #[error(transparent)]
    World(#[from] WorldFault),
}

impl GroupBoxes {
    /// Returns the stamp of `state/heartbeat`; `None` when there is no such file.
    #[must_use]
    pub fn heartbeat(&self) -> Option<Stamp> {
        let stat = dir::stat(&*self.at(BoxName::State).ok()?, c"heartbeat").ok()?;
        (FileKind::of(&stat) == FileKind::File).then(|| Stamp { times: box_stamp(&stat), ino: stat.st_ino })
    }

    /// Reads `state/container_state.json`; `None` when there is none.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn container_state(&self) -> Result<Option<ContainerState>, StateError> {
        let world =
            |e: io::Error| WorldFault::new("reading", format!("{}'s container_state.json", self.folder), e);
        let at = &*self.at(BoxName::State).map_err(|e| world(e.into()))?;
        // Looked at first, as opening a FIFO or a device can itself do something; and again once it is open.
        let kind = match dir::stat(at, c"container_state.json") {
            Ok(stat) => FileKind::of(&stat),
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(world(e.into()).into()),
        };
        if kind != FileKind::File {
            return Err(StateError::NotAFile(kind));
        }
        let file = match dir::open_to_read(at, c"container_state.json") {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(StateError::NotAFile(FileKind::Link)),
            Err(Errno::NXIO) => return Err(StateError::NotAFile(FileKind::Unknown)),
            Err(e) => return Err(world(e.into()).into()),
        };
        let stat = file.stat().map_err(|e| world(e.into()))?;
        if FileKind::of(&stat) != FileKind::File {
            return Err(StateError::NotAFile(FileKind::of(&stat)));
        }
        let bytes = dir::read_at_most(&file, STATE_LIMIT + 1).map_err(world)?;
        if bytes.len() as u64 > STATE_LIMIT {
            return Err(StateError::TooLarge(u64::try_from(stat.st_size).unwrap_or(STATE_LIMIT + 1)));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(StateError::Malformed)
    }
}
