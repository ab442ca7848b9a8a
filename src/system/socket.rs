//! Sockets, by paths of any length.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::{Path, PathBuf};

/// A socket's path as the kernel takes it.
pub struct SocketName {
    path: PathBuf,
    /// What a short name leads through.
    _folder: Option<std::fs::File>,
}

impl SocketName {
    /// The most bytes that the kernel takes.
    const LONGEST: usize = 107;

    /// Returns the name of a socket: its path, and of one that is too long a name by its open folder.
    ///
    /// # Errors
    /// The operating system's, when the folder can't be opened.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _};
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() <= Self::LONGEST {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let flags = i32::try_from(flags.bits()).map_err(std::io::Error::other)?;
        let folder = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Returns the name, which leads there for as long as `self` lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what an earlier daemon left of its socket.
///
/// # Errors
/// The operating system's.
pub fn remove_stale_socket(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
