//! The machine's service manager: systemd, by its own programs.
#![expect(clippy::disallowed_types, reason = "systemctl, loginctl and journalctl are processes")]
#![expect(clippy::disallowed_methods, reason = "units are files of the user or the machine")]

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What a program of the manager said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub done: bool,
    pub out: String,
    pub error: String,
}

/// Why the manager can't be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoManager {
    #[error("starting {program} failed: {source}")]
    Program { program: &'static str, source: io::Error },
    #[error("{doing} {path} failed: {source}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
}

/// A manager: the machine's, or this user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    Machine,
    User(u32),
}

impl Manager {
    fn command(self, program: &'static str) -> Command {
        let mut command = Command::new(program);
        if let Self::User(uid) = self {
            command.arg("--user");
            // A shell that `su` or `sudo` started does not know where its manager listens.
            let runtime = PathBuf::from(format!("/run/user/{uid}"));
            if runtime.is_dir() {
                command.env("XDG_RUNTIME_DIR", runtime);
            }
        }
        command
    }

    /// Has `systemctl` do something.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn ask(self, words: &[&str]) -> Result<Said, NoManager> {
        said("systemctl", self.command("systemctl").arg("--no-pager").args(words))
    }

    /// Returns the newest lines of a unit's log, as they were written.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn log(self, unit: &str, lines: usize) -> Result<String, NoManager> {
        let lines = lines.to_string();
        let words = ["--quiet", "--no-pager", "--output", "cat", "--unit", unit, "--lines", &lines];
        Ok(said("journalctl", self.command("journalctl").args(words))?.out)
    }

    /// Shows the log of a unit in this terminal, until it is left.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn show_log(self, words: &[&str]) -> Result<bool, NoManager> {
        let shown = self.command("journalctl").args(words).status();
        shown
            .map(|status| status.success())
            .map_err(|source| NoManager::Program { program: "journalctl", source })
    }
}

/// Has the user's manager go on while the user is logged out.
///
/// # Errors
/// The program can't be started.
pub fn linger() -> Result<Said, NoManager> {
    said("loginctl", Command::new("loginctl").arg("enable-linger"))
}

/// Whether a user's manager goes on while the user is logged out.
#[must_use]
pub fn lingers(user: &str) -> bool {
    Path::new("/var/lib/systemd/linger").join(user).exists()
}

fn said(program: &'static str, command: &mut Command) -> Result<Said, NoManager> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| NoManager::Program { program, source })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(Said { done: output.status.success(), out: text(&output.stdout), error: text(&output.stderr) })
}

/// Returns a unit's text; `None`: there is none.
///
/// # Errors
/// The operating system's.
pub fn unit(path: &Path) -> Result<Option<String>, NoManager> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(NoManager::File { doing: "reading", path: path.to_owned(), source }),
    }
}

/// Writes a unit whole, or not at all.
///
/// # Errors
/// The operating system's.
pub fn put_unit(path: &Path, text: &str) -> Result<(), NoManager> {
    use std::{io::Write as _, os::unix::fs::PermissionsExt as _};
    let failed = |source| NoManager::File { doing: "writing", path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Removes a unit; returns whether there was one.
///
/// # Errors
/// The operating system's.
pub fn remove_unit(path: &Path) -> Result<bool, NoManager> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(NoManager::File { doing: "removing", path: path.to_owned(), source }),
    }
}
