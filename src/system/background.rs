//! A program that is started to go on without us and without our terminal.
#![expect(clippy::disallowed_types, reason = "callers say what is started here")]

use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts a program with its output in a file, behind what is there. It leaves our session by itself ([`leave_session`]).
///
/// # Errors
/// It can't be started.
pub fn start(program: &Path, arguments: &[&OsStr], log: &File) -> io::Result<Child> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
}

/// Makes this process the leader of a session of its own, without a terminal: none ends it.
///
/// # Errors
/// It leads a group already.
pub fn leave_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}
