//! What was said in a session, by the transcript that its agent keeps.

use std::{ops::ControlFlow, path::Path};

use ipc_handlers::Folder;

use crate::{
    domain::mailbox::transcript::{PAGE, Page},
    ipc::{InsideError, transcript_lines},
};

/// The most that is read of transcripts that are archived together, bytes: the end of each.
const READ: u64 = 64 << 20;
/// The most that is kept of them, pages.
const PAGES: usize = 4;

/// Returns what was said in a group's session, by its transcript, or in what was read of that until it was to `stop`; `None`
/// when there is none. It is one of `together`, which share the limits on reading and keeping.
///
/// # Errors
/// [`InsideError`] when there is something that is no plain file, or the disk is in the way.
pub fn read_transcript(
    root: &Path,
    group: &Folder,
    session: &str,
    together: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<String>, InsideError> {
    let together = together.max(1);
    let mut page = Page::new((PAGES * PAGE / together).min(PAGE));
    let mut each = |line: &[u8]| {
        page.add(line);
        if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let found = transcript_lines(root, group, session, READ / together as u64, &mut each)?;
    Ok(found.then(|| page.text()))
}
