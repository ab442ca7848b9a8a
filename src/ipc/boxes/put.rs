//! What the host puts where a container can see it: replies, follow-ups, the wish to close, snapshots.

use rustix::io::Errno;

use ipc_handlers::wire::CLOSE_FILE;

use super::GroupBoxes;
use crate::ipc::{
    dir,
    host::{Built, Draft, SHOWN_MODE},
    names::{BoxName, FileKind, is_batch_id, is_request_id},
    world_fault::WorldFault,
};

/// Why a file was not put into place.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The id came from outside and can't be part of a file name.
    #[error(
        "{0:?} can't name a file: use 1 to 64 letters, digits or hyphens (in a requestId underscores too)"
    )]
    BadName(String),
    /// Its container put a directory there. Give up, and say so in the log.
    #[error("a directory stands at {0}, where a file was to be put")]
    InTheWay(String),
    #[error(transparent)]
    World(#[from] WorldFault),
}

/// Checks that a name is like `current_tasks.json`.
fn check_snapshot_name(name: &str) -> Result<(), PutError> {
    let stem = name.strip_suffix(".json").unwrap_or_default();
    if is_request_id(stem.as_bytes()) { Ok(()) } else { Err(PutError::BadName(name.to_owned())) }
}

impl GroupBoxes {
    /// Puts a reply at `responses/<request id>.json`, replacing a file there; a link there is not followed.
    ///
    /// # Errors
    /// [`PutError`]
    pub fn put_reply(&self, request_id: &str, bytes: &[u8]) -> Result<(), PutError> {
        if !is_request_id(request_id.as_bytes()) {
            return Err(PutError::BadName(request_id.to_owned()));
        }
        self.put(BoxName::Responses, &format!("{request_id}.json"), bytes)
    }

    /// Puts a follow-up (an `Input` document) at `input/<batch id>.json`. Putting it twice is harmless.
    ///
    /// # Errors
    /// [`PutError`]
    pub fn put_input(&self, batch_id: &str, json: &[u8]) -> Result<(), PutError> {
        if !is_batch_id(batch_id.as_bytes()) {
            return Err(PutError::BadName(batch_id.to_owned()));
        }
        self.put(BoxName::Input, &format!("{batch_id}.json"), json)
    }

    /// Asks the runner to finish and leave: an empty `input/_close`. Asking again is cheap and harmless.
    ///
    /// # Errors
    /// [`PutError::World`]; a directory in the way is moved to the trash.
    pub fn ask_close(&self) -> Result<(), PutError> {
        let input = &*self.at(BoxName::Input).map_err(|e| self.world(BoxName::Input, e))?;
        match dir::stat(input, CLOSE_FILE) {
            Ok(stat) if FileKind::of(&stat) == FileKind::File => return Ok(()),
            Ok(stat) if FileKind::of(&stat) == FileKind::Directory => {
                self.host.remove_entry(input, c"_close").map_err(|e| self.world(BoxName::Input, e))?;
            }
            // Anything else is replaced, and an error comes again below.
            Ok(_) | Err(_) => {}
        }
        self.put(BoxName::Input, CLOSE_FILE, b"")
    }

    /// Takes the wish to close back, if the runner has not seen it yet.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be removed.
    pub fn withdraw_close(&self) -> Result<(), WorldFault> {
        self.at(BoxName::Input)
            .and_then(|input| self.host.remove_entry(&input, c"_close"))
            .map_err(|e| self.world(BoxName::Input, e))
    }

    /// Puts a snapshot at `data/ipc/<folder>/<name>`, where the container can read it and nobody but us can write. A file
    /// that has these bytes already stays.
    ///
    /// # Errors
    /// [`PutError`]; `BadName` unless the name is like `current_tasks.json`.
    pub fn write_snapshot(&self, name: &str, bytes: &[u8]) -> Result<(), PutError> {
        self.write_snapshot_unless(name, bytes, |there| there == bytes)
    }

    /// Like [`GroupBoxes::write_snapshot`]. A file of the same length stays if `will_do` says so of its bytes.
    ///
    /// # Errors
    /// [`PutError`]
    pub fn write_snapshot_unless(
        &self,
        name: &str,
        bytes: &[u8],
        will_do: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(), PutError> {
        check_snapshot_name(name)?;
        if self.snapshot_of_length(name, bytes.len()).is_some_and(|there| will_do(&there)) {
            return Ok(());
        }
        self.place_built(self.host.build(bytes, None)?, name)
    }

    /// Like [`GroupBoxes::write_snapshot`], of what `fill` writes. At most 64 KiB of it are in memory; a longer one replaces
    /// the file even if that has the same bytes.
    ///
    /// # Errors
    /// [`PutError`]; when `fill` fails the file is left as it was.
    pub fn write_snapshot_with(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) -> Result<(), PutError> {
        check_snapshot_name(name)?;
        match self.host.draft(fill)? {
            Draft::Short(bytes) => self.write_snapshot(name, &bytes),
            Draft::Long(built) => self.place_built(built, name),
        }
    }

    /// Reads the snapshot that is there, if it is a file of this length as we make them.
    fn snapshot_of_length(&self, name: &str, length: usize) -> Option<Vec<u8>> {
        let at = &*self.lend_group().ok()?;
        let stat = dir::stat(at, name).ok()?;
        let is_ours = FileKind::of(&stat) == FileKind::File
            && stat.st_mode & 0o7777 == SHOWN_MODE
            && stat.st_uid == self.host.files().us().0
            && stat.st_nlink == 1
            && u64::try_from(stat.st_size).ok()? == length as u64;
        if !is_ours {
            return None;
        }
        let file = dir::open_to_read(at, name).ok()?;
        dir::read_expecting(&file, length as u64, length as u64 + 1).ok()
    }

    fn put(&self, b: BoxName, name: &str, bytes: &[u8]) -> Result<(), PutError> {
        let mut built = self.host.build(bytes, self.owner())?;
        let at = match self.at(b) {
            Ok(at) => at,
            Err(error) => return self.is_placed(Err(error), name),
        };
        let at = &*at;
        let placed = match built.place(at, name) {
            // Its container gave the box a project of its own.
            Err(Errno::XDEV) => self.set_back(b).and_then(|()| built.place(at, name)),
            other => other,
        };
        self.is_placed(placed, name)
    }

    fn place_built(&self, mut built: Built<'_>, name: &str) -> Result<(), PutError> {
        let placed = self.lend_group().and_then(|at| built.place(&at, name));
        self.is_placed(placed, name)
    }

    fn is_placed(&self, placed: rustix::io::Result<()>, name: &str) -> Result<(), PutError> {
        match placed {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR) => Err(PutError::InTheWay(name.to_owned())),
            Err(e) => Err(WorldFault::new("placing", format!("{name} for {}", self.folder), e).into()),
        }
    }

    pub(super) fn world(&self, b: BoxName, e: Errno) -> WorldFault {
        WorldFault::new("tidying", self.path_of(b).display().to_string(), e)
    }
}
