//! `data/channels/`: what the adapters of accounts leave for people.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::{Path, PathBuf};

use super::runs::read_end;

fn home(root: &Path, account: &str) -> PathBuf {
    root.join("data/channels").join(account)
}

/// Returns the end of the log of an account's adapter, at most `most` bytes.
///
/// # Errors
/// The operating system's.
pub fn read_adapter_log_end(root: &Path, account: &str, most: u64) -> std::io::Result<Vec<u8>> {
    Ok(read_end(&home(root, account).join("adapter.log"), most)?.0)
}

/// Returns what links an account, as JSON; `None`: nothing does now.
#[must_use]
pub fn read_pair(root: &Path, account: &str) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(home(root, account).join("pair.json")).ok()?).ok()
}
