//! Where the runner sits: the folders it works in and the pipe it lives by, as the environment names them.
#![expect(clippy::disallowed_methods, reason = "this file is the runner's door to the environment")]

use std::{collections::BTreeMap, env, path::PathBuf};

/// The runner's places. In a container nothing needs to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The mailbox: `$G2_IPC_DIR`, else `/workspace/ipc`.
    pub(crate) ipc: PathBuf,
    /// The agent's working folder: `$G2_GROUP_DIR`, else `/workspace/group`.
    pub(crate) group: PathBuf,
    /// The number of the life pipe's read end: `$G2_LIFE_FD`.
    pub(crate) life: Option<u32>,
    /// What an agent's program may know of our environment, see [`INHERITED`].
    pub(crate) inherited: BTreeMap<String, String>,
}

/// The variables that are handed on; no other is, so that nothing of the host's reaches an agent by chance.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// `G2_LIFE_FD` was set to something that is no descriptor number.
#[derive(Debug, thiserror::Error)]
#[error("G2_LIFE_FD is {0:?}: set it to the number of an open pipe's read end, or leave it unset")]
pub(crate) struct BadLifeFd(String);

impl Seat {
    /// Returns the places that the environment names.
    ///
    /// # Errors
    /// [`BadLifeFd`]: a runner that was meant to die with its daemon must not run without knowing how.
    pub(crate) fn from_env() -> Result<Self, BadLifeFd> {
        let dir = |name: &str, default: &str| {
            env::var_os(name).filter(|v| !v.is_empty()).map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        let life = match env::var_os("G2_LIFE_FD").filter(|v| !v.is_empty()) {
            None => None,
            Some(v) => match v.to_str().and_then(|v| v.parse().ok()) {
                Some(number) => Some(number),
                None => return Err(BadLifeFd(v.to_string_lossy().into_owned())),
            },
        };
        Ok(Self {
            ipc: dir("G2_IPC_DIR", "/workspace/ipc"),
            group: dir("G2_GROUP_DIR", "/workspace/group"),
            life,
            inherited: INHERITED
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
                .collect(),
        })
    }
}
