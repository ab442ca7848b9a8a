//! What a daemon that died left running, told apart from strangers by pid, start time and boot.
#![expect(clippy::disallowed_methods, reason = "reads /proc, and keeps a note of each process in data/runs")]

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::sandbox::processes::{self, Process, process};

const NOTE: &str = "process.json";
/// How often, and how many times, we look whether what was killed is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOKS: u32 = 500;

/// The note on one process, `runs/<run>/process.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// The process and, being its leader, its group.
    pid: i32,
    /// Clock ticks since the boot.
    started: u64,
    boot: String,
    /// Its `G2_IPC_DIR`: tells members of its group when it is gone itself.
    ipc: PathBuf,
}

impl Note {
    /// Returns the note on a living child.
    pub(super) fn on(pid: Pid, ipc: &Path) -> io::Result<Self> {
        let pid = pid.as_raw_nonzero().get();
        let process = process(pid).ok_or_else(|| io::Error::other("the child is not in /proc"))?;
        Ok(Self { pid, started: process.started, boot: boot()?, ipc: ipc.to_owned() })
    }

    /// Puts the note into a run's folder.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let draft = dir.join("process.json.tmp");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, dir.join(NOTE))
    }

    /// Whether `process` belongs to what the note is on.
    fn covers(&self, process: &Process, leader: Option<&Process>) -> bool {
        process.group == self.pid
            && match leader {
                Some(leader) => leader.started == self.started,
                // The number stays taken while its group has members, but they might be a later group's.
                None => process.started >= self.started && environment_names(process.pid, &self.ipc),
            }
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
    let boot = boot()?;
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
        let group = Pid::from_raw(note.pid).filter(|pid| note.boot == boot && !ours.contains(pid));
        if let Some(group) = group
            && lives(&note)?
        {
            kill_and_wait(&note, group).await?;
            killed.extend(dir.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        if !Pid::from_raw(note.pid).is_some_and(|pid| ours.contains(&pid)) {
            forget(&dir);
        }
    }
    Ok(killed)
}

async fn kill_and_wait(note: &Note, group: Pid) -> io::Result<()> {
    for _ in 0..LOOKS {
        match kill_process_group(group, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        if !lives(note)? {
            return Ok(());
        }
    }
    Err(io::Error::other(format!("process group {} does not die", note.pid)))
}

/// Whether anything that the note is on is alive.
fn lives(note: &Note) -> io::Result<bool> {
    let all = processes::all()?;
    let leader = all.iter().find(|process| process.pid == note.pid);
    Ok(all.iter().any(|process| !process.zombie && note.covers(process, leader)))
}

fn environment_names(pid: i32, ipc: &Path) -> bool {
    let wanted = [b"G2_IPC_DIR=", ipc.as_os_str().as_encoded_bytes()].concat();
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == wanted))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_note_that_matches_no_process_kills_nobody() {
        let runs = tempfile::tempdir().unwrap();
        let me = std::process::id() as i32;
        let mine = process(me).unwrap();
        let note = |started, boot: String| Note { pid: mine.group, started, boot, ipc: "/nowhere".into() };
        let leader = process(mine.group).map_or(0, |leader| leader.started);
        for (run, note) in [note(leader + 1, boot().unwrap()), note(leader, "another boot".to_owned())]
            .into_iter()
            .enumerate()
        {
            let dir = runs.path().join(run.to_string());
            fs::create_dir_all(&dir).unwrap();
            note.write(&dir).unwrap();
        }
        assert_eq!(kill(runs.path(), &[]).await.unwrap(), Vec::<String>::new());
        assert!(!runs.path().join("0").join(NOTE).exists(), "a stale note is taken away");
    }
}
