//! Taking a command out of its box.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::GroupBoxes;
use crate::ipc::{
    dir,
    kernel::Attributes,
    mailbox::{Claimed, Claims, Read, ReadError, Source, changed_at},
    names::{CommandBox, FileKind, is_one_component, without_hand},
    world_fault::WorldFault,
};

/// Why a name in a box did not become a claimed file.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Its writer took it back, renamed it, or it was claimed before. Nothing to do.
    #[error("the file is not in its box any more")]
    Gone,
    /// It stays where it is; to be reported once, its writer has to remove it.
    #[error("a directory is named like a command")]
    Directory,
    /// A link, FIFO, socket, device, or a directory that took the file's place, was taken out and removed, unread. To be
    /// recorded as malformed and acknowledged.
    #[error("claim {} is a {kind}, and only regular files are commands", claimed.id)]
    NotAFile { claimed: Claimed, kind: FileKind },
    /// The file is in its box, and before what came after it; look there again later.
    #[error(transparent)]
    World(#[from] WorldFault),
}

impl GroupBoxes {
    /// Takes `name` out of the box, out of the container's reach, under the next claim id.
    ///
    /// What came out is a regular file with [`Claims::read`] still to come, or an error that says what it was.
    ///
    /// # Errors
    /// [`ClaimError`]; only `WorldFault` leaves something to try again.
    pub fn claim(&self, b: CommandBox, name: &OsStr, claims: &Claims) -> Result<Claimed, ClaimError> {
        self.claim_as(None, b, name, claims)
    }

    /// Like [`GroupBoxes::claim`], and reads what was claimed as [`Claims::read`] does, opening it once for both.
    ///
    /// # Errors
    /// [`ClaimError`]; what comes of the reading is beside the claim.
    pub fn claim_and_read(
        &self,
        b: CommandBox,
        name: &OsStr,
        claims: &Claims,
    ) -> Result<(Claimed, Result<Read, ReadError>), ClaimError> {
        let claimed = self.take_out(None, b, name, claims)?;
        let read = claims.open_known(&claimed).and_then(|file| {
            Claims::note_source(&file, &claimed, without_hand(name));
            claims.read_from(&claimed, &file)
        });
        Ok((claimed, read))
    }

    /// Like [`GroupBoxes::claim`], under an id that was taken before ([`Claims::next_id`]).
    ///
    /// # Errors
    /// [`ClaimError`]
    pub fn claim_as(
        &self,
        id: Option<i64>,
        b: CommandBox,
        name: &OsStr,
        claims: &Claims,
    ) -> Result<Claimed, ClaimError> {
        let claimed = self.take_out(id, b, name, claims)?;
        if let Ok(file) = claims.open_known(&claimed) {
            Claims::note_source(&file, &claimed, without_hand(name));
        }
        Ok(claimed)
    }

    /// Gives a file of a box the project that claimed ones have.
    fn set_back_file(&self, b: CommandBox, name: &OsStr) -> rustix::io::Result<()> {
        let held = &*self.at(b.name())?;
        // Looked at first, as opening a device or a FIFO can itself do something.
        if FileKind::of(&dir::stat(held, name)?) != FileKind::File {
            return Ok(());
        }
        let file = dir::open_to_read(held, name)?;
        Attributes::of(&self.host.claimed).map_or(Ok(()), |model| model.give_project_to(&file))
    }

    /// Takes it out of the box and makes sure that it is a file.
    fn take_out(
        &self,
        id: Option<i64>,
        b: CommandBox,
        name: &OsStr,
        claims: &Claims,
    ) -> Result<Claimed, ClaimError> {
        if !is_one_component(name) {
            return Err(ClaimError::Gone);
        }
        let world = |doing, e: Errno| WorldFault::new(doing, format!("a file of {}/{b}", self.folder), e);
        let held = &*self.at(b.name()).map_err(|e| world("opening the box of", e))?;
        let written = match dir::stat(held, name) {
            Ok(stat) if FileKind::of(&stat) == FileKind::Directory => return Err(ClaimError::Directory),
            Ok(stat) => changed_at(&stat),
            Err(Errno::NOENT) => return Err(ClaimError::Gone),
            Err(other) => return Err(world("looking at", other).into()),
        };
        let id = id.unwrap_or_else(|| claims.next_id());
        let mut claimed =
            Claimed::new(&self.host, id, &self.folder, Some(Source::new(b, without_hand(name))));
        claimed.written = Some(written);
        let taken = match self.host.take_out(held, name, &self.host.claimed, claimed.file_name().as_ref()) {
            // Its container gave the box, or the file, a project of its own.
            Err(Errno::XDEV) => {
                let _ = self.set_back(b.name()).and_then(|()| self.set_back_file(b, name));
                match self.host.take_out(held, name, &self.host.claimed, claimed.file_name().as_ref()) {
                    Err(Errno::NOENT) => Err(Errno::XDEV),
                    other => other,
                }
            }
            other => other,
        };
        match taken {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(ClaimError::Gone),
            Err(other) => return Err(world("claiming", other).into()),
        }
        // Only now is it out of reach: what was looked at above may have been swapped since. From here on it is claimed
        // whatever fails: what can't be cleared away now is when the caller acknowledges it.
        let taken = dir::stat(&self.host.claimed, claimed.file_name().as_str());
        let kind = taken.as_ref().map_or(FileKind::File, FileKind::of);
        claimed.taken = taken.ok().map(|stat| changed_at(&stat));
        match kind {
            FileKind::File => Ok(claimed),
            FileKind::Directory
            | FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::BlockDevice
            | FileKind::CharDevice
            | FileKind::Unknown => {
                let _ = claims.acknowledge(&claimed);
                Err(ClaimError::NotAFile { claimed, kind })
            }
        }
    }
}
