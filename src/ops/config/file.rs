//! `g2.toml`, changed by one at a time: each change is made of the text that the one before it wrote.
#![expect(clippy::disallowed_methods, reason = "the user's own g2.toml")]

use std::{
    io,
    path::{Path, PathBuf},
};

use tokio::sync::{Mutex, MutexGuard};

use super::super::{OpCode, OpError};
use crate::system::process;

/// Held while somebody changes it.
static CHANGING: Mutex<()> = Mutex::const_new(());

/// The file, while nobody but us changes it.
pub(in crate::ops) struct SettingsFile {
    path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl SettingsFile {
    /// Waits until nobody else changes it.
    pub(in crate::ops) async fn of(root: &Path) -> Self {
        Self { path: root.join("g2.toml"), _turn: CHANGING.lock().await }
    }

    /// Returns its text; one that is not there is empty.
    pub(in crate::ops) fn read(&self) -> Result<String, OpError> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.failed("reading", &error)),
        }
    }

    /// Writes it anew, all of it or nothing.
    pub(in crate::ops) fn replace(&self, text: &str) -> Result<(), OpError> {
        let new = self.path.with_extension("toml.new");
        let _ = std::fs::remove_file(&new);
        process::write_private(&new, text.as_bytes())
            .and_then(|()| std::fs::rename(&new, &self.path))
            .map_err(|error| self.failed("writing", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> OpError {
        OpError::new(OpCode::Failed, format!("{what} {}: {error}", self.path.display()))
    }
}
