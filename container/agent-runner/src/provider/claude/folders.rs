//! The folders that the CLI needs: those that it writes to, and the one through which it finds the skills.

use std::{
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, mkdir};
use tempfile::{NamedTempFile, TempDir};

use crate::{files::Dir, world::Folder as _};

/// The manifest of the plugin that our skills are in.
const MANIFEST: &str =
    r#"{"name":"g2","version":"1.0.0","description":"The skills of this installation and of the agent"}"#;

#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("the agent can't write to {}, where it keeps {what}; is it mounted, and its own?", path.display())]
    NotWritable {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("telling the agent of its tool servers by a file in {} failed", path.display())]
    Servers {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("making the skills in {} known failed", path.display())]
    Skills {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Tries whether files can be made in a folder, which is made if need be. The CLI itself would say nothing at all, or go
/// on and forget.
///
/// # Errors
/// [`FolderError::NotWritable`].
pub(super) fn check_writable(what: &'static str, path: &Path) -> Result<(), FolderError> {
    let probe = || {
        // One that is there, or can't be made, is told from a good one by what follows. It may be a link: it is the agent's.
        let _ = mkdir(path, Mode::from_raw_mode(0o755));
        NamedTempFile::new_in(path)?.write_all(b"probe")
    };
    probe().map_err(|source| FolderError::NotWritable { what, path: path.to_owned(), source })
}

/// Writes what the CLI reads of tool servers into a file in `temporary` that its own user alone may read. It is there until it is
/// dropped.
///
/// # Errors
/// [`FolderError::Servers`].
pub(super) fn servers(temporary: &Path, servers: &[u8]) -> Result<NamedTempFile, FolderError> {
    let make = || {
        let mut file = tempfile::Builder::new().prefix("g2-mcp-").suffix(".json").tempfile_in(temporary)?;
        file.write_all(servers)?;
        Ok(file)
    };
    make().map_err(|source| FolderError::Servers { path: temporary.to_owned(), source })
}

/// Makes a plugin of the skills in `skills`, for `--plugin-dir`; `None` where there is no such folder.
///
/// Without settings files the CLI looks for no skills, and with them the agent could switch our hooks off. So it is
/// given a plugin that holds a link to that folder and nothing else. It is there until it is dropped.
///
/// # Errors
/// [`FolderError::Skills`].
pub(super) fn plugin(skills: &Path) -> Result<Option<TempDir>, FolderError> {
    if !skills.is_dir() {
        return Ok(None);
    }
    let make = || {
        let plugin = TempDir::with_prefix("g2-skills-")?;
        symlink(skills, plugin.path().join("skills"))?;
        let manifest = Dir::open_or_make(&plugin.path().join(".claude-plugin")).map_err(io::Error::other)?;
        manifest.publish("plugin.json", MANIFEST.as_bytes()).map_err(io::Error::other)?;
        Ok(Some(plugin))
    };
    make().map_err(|source| FolderError::Skills { path: skills.to_owned(), source })
}
