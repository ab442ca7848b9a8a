//! The transcripts that an agent's program keeps of its sessions, in a folder that its container can write to.

use std::path::Path;

use ipc_handlers::{Folder, names::is_session_id};

use super::{InsideError, read_inside};

/// The most that is read of a transcript, from its start, bytes.
pub const TRANSCRIPT_LIMIT: u64 = 64 << 20;
/// The folder in which Claude Code keeps what was said in `/workspace/group`.
const IN_CONTAINER: &str = "-workspace-group";

/// Returns the transcript of a group's session, a last half line included; `None` when there is none.
///
/// # Errors
/// [`InsideError`] when there is something that is no plain file, or the disk is in the way.
pub fn read_transcript(root: &Path, group: &Folder, session: &str) -> Result<Option<Vec<u8>>, InsideError> {
    if !is_session_id(session) {
        return Ok(None);
    }
    let home = root.join("data/sessions").join(group.as_str());
    // Outside of a container the working folder is the group's own.
    let outside = folder_name(&root.join("groups").join(group.as_str()));
    for project in [IN_CONTAINER, outside.as_str()] {
        let relative = format!(".claude/projects/{project}/{session}.jsonl");
        match read_inside(&home, Path::new(&relative), TRANSCRIPT_LIMIT) {
            Ok(inside) => return Ok(Some(inside.bytes)),
            Err(InsideError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Claude Code names a folder by the path that it was started in.
fn folder_name(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
