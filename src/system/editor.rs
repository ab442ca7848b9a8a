//! A person's own editor, in this terminal.
#![expect(clippy::disallowed_types, reason = "an editor is a process")]

use std::{io, path::Path, process::Command};

/// Has the editor of these words show a file, and waits until it is left. No shell is asked.
///
/// # Errors
/// The operating system's, when it can't be started.
pub fn edit(words: &[String], file: &Path) -> io::Result<std::process::ExitStatus> {
    let (program, args) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program).args(args).arg(file).status()
}
