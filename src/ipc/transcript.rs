//! The transcripts that an agent's program keeps of its sessions, in a folder that its container can write to.

use std::{ops::ControlFlow, path::Path};

use ipc_handlers::{Folder, names::is_session_id};

use super::{InsideError, files::At, inside::lines_inside};

/// The folder in which Claude Code keeps what was said in `/workspace/group`.
const IN_CONTAINER: &str = "-workspace-group";

/// Gives the lines of the transcript of a group's session, those in its last `most` bytes, to `each`, until that breaks off;
/// a last half line included, and none of more than 1 MiB. Returns whether there is one.
///
/// # Errors
/// [`InsideError`] when there is something that is no plain file, or the disk is in the way.
pub fn transcript_lines<'a>(
    root: impl Into<At<'a>>,
    group: &Folder,
    session: &str,
    most: u64,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<bool, InsideError> {
    if !is_session_id(session) {
        return Ok(false);
    }
    let root = root.into();
    let home = root.path.join("data/sessions").join(group.as_str());
    // Outside of a container the working folder is the group's own.
    let outside = folder_name(&root.path.join("groups").join(group.as_str()));
    for project in [IN_CONTAINER, outside.as_str()] {
        let relative = format!(".claude/projects/{project}/{session}.jsonl");
        match lines_inside(root.files.at(&home), Path::new(&relative), most, each) {
            Ok(()) => return Ok(true),
            Err(InsideError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Claude Code names a folder by the path that it was started in.
fn folder_name(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
