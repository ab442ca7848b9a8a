//! What a daemon that died left running, told apart from strangers by pid, start time and boot (`system/leftovers.rs`).
#![expect(clippy::disallowed_methods, reason = "reads /proc, and keeps a note of each process in data/runs")]

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::system::leftovers;

const NOTE: &str = "process.json";

/// The note on one process, `runs/<run>/process.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    #[serde(flatten)]
    on: leftovers::Note,
    /// Its `G2_IPC_DIR`: tells members of its group when it is gone itself.
    ipc: PathBuf,
}

impl Note {
    /// Returns the note on a living child.
    pub(super) fn on(pid: Pid, ipc: &Path) -> io::Result<Self> {
        Ok(Self { on: leftovers::Note::on(pid)?, ipc: ipc.to_owned() })
    }

    /// Puts the note into a run's folder.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let draft = dir.join("process.json.tmp");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, dir.join(NOTE))
    }
}

/// Takes the note out of a run's folder.
pub(super) fn forget(dir: &Path) {
    // One that stays is harmless: its process is gone, so it will match nothing.
    let _ = fs::remove_file(dir.join(NOTE));
}

/// In how many of the newest folders a note is looked for: those of old runs are kept, and no process of theirs is alive.
const LOOKED_INTO: usize = 1_000;

/// Kills every group that a note in `runs` is on, except those of `ours`, waits until they are gone and takes the
/// notes away. Returns the folders' names.
pub(super) async fn kill(runs: &Path, ours: &[Pid]) -> io::Result<Vec<String>> {
    let mut killed = Vec::new();
    let entries = match fs::read_dir(runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(killed),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        folders.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i64>().ok()));
    }
    folders.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    for run in folders.into_iter().take(LOOKED_INTO) {
        let dir = runs.join(run.to_string());
        let Some(note) =
            fs::read(dir.join(NOTE)).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok())
        else {
            continue;
        };
        if note.on.group()?.is_some_and(|group| ours.contains(&group)) {
            continue;
        }
        if note.on.kill(|pid| environment_names(pid, &note.ipc)).await? {
            killed.extend(dir.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        forget(&dir);
    }
    Ok(killed)
}

fn environment_names(pid: i32, ipc: &Path) -> bool {
    let wanted = [b"G2_IPC_DIR=", ipc.as_os_str().as_encoded_bytes()].concat();
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == wanted))
}
