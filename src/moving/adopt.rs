//! A transcript in a folder becomes a session of a group.

use std::{
    io,
    path::{Path, PathBuf},
};

use ipc_handlers::{Folder, names::is_session_id};

use super::files::{Modes, put_below};

/// A longer transcript is not taken, bytes.
const LONGEST: u64 = 1 << 30;

/// Why a file is not taken as a transcript.
#[derive(Debug, thiserror::Error)]
pub enum NotAdopted {
    #[error("{} is no transcript of a session: it is called ID.jsonl, by the id that the agent gave it", .0.display())]
    Name(PathBuf),
    #[error("{} can't be read, or is no plain file of at most {LONGEST} bytes", .0.display())]
    File(PathBuf),
    #[error("the group has another transcript of session {0}, which stays")]
    Other(String),
    #[error("copying the transcript failed")]
    World(#[from] io::Error),
}

/// Copies a transcript to where the agent of a group finds it; returns the id of its session. The same one again changes nothing.
///
/// # Errors
/// [`NotAdopted`]
pub fn adopt_transcript(root: &Path, group: &Folder, file: &Path) -> Result<String, NotAdopted> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let session = name.strip_suffix(".jsonl").filter(|id| is_session_id(id));
    let session = session.ok_or_else(|| NotAdopted::Name(file.to_owned()))?;
    let to = super::files::transcripts_of(group);
    match put_below(file, root, &to, name, LONGEST, Modes::Shared)? {
        super::files::Put::New | super::files::Put::Same => Ok(session.to_owned()),
        super::files::Put::Other => Err(NotAdopted::Other(session.to_owned())),
        super::files::Put::NoFile => Err(NotAdopted::File(file.to_owned())),
    }
}
