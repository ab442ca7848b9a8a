//! Process groups that a daemon that died left running. A note tells each from strangers.
//!
//! | what a start finds | and does |
//! |---|---|
//! | a note that can't be read, or of another boot | its group is gone |
//! | the leader, started when the note says | kills the group |
//! | a process with the leader's number, started at another time | the number is another's: nothing |
//! | no leader, and members that the owner of the note knows for its own | kills the group |
//! | nobody in the group | nothing |
#![expect(clippy::disallowed_methods, reason = "reads /proc, and keeps notes that no container can write")]

use std::{fs, io, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::processes::{self, Process};

/// How often, and how many times, we look whether what was killed is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOKS: u32 = 500;

/// The note on a process group.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    /// Its leader, and so the group.
    pid: i32,
    /// Clock ticks since the boot.
    started: u64,
    boot: String,
}

impl Note {
    /// Returns the note on a living leader.
    ///
    /// # Errors
    /// There is no such process, or the kernel does not say which boot this is.
    pub fn on(leader: Pid) -> io::Result<Self> {
        let pid = leader.as_raw_nonzero().get();
        let process = processes::one(pid).ok_or_else(|| io::Error::other("the process is not in /proc"))?;
        Ok(Self { pid, started: process.started, boot: boot()? })
    }

    /// Returns the group, if it was started since this machine was.
    ///
    /// # Errors
    /// The kernel does not say which boot this is.
    pub fn group(&self) -> io::Result<Option<Pid>> {
        let is_here = boot()? == self.boot;
        Ok(Pid::from_raw(self.pid).filter(|_| is_here))
    }

    /// Kills the group, waits until it is gone, and returns whether anybody was in it. A group without its leader is known by its
    /// members: `is_own` says whether one with this number is of it.
    ///
    /// # Errors
    /// The operating system's, or it does not die.
    pub async fn kill(&self, is_own: impl Fn(i32) -> bool) -> io::Result<bool> {
        let Some(group) = self.group()? else { return Ok(false) };
        if !self.lives(&is_own)? {
            return Ok(false);
        }
        for _ in 0..LOOKS {
            match kill_process_group(group, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            if !self.lives(&is_own)? {
                return Ok(true);
            }
        }
        Err(io::Error::other(format!("process group {} does not die", self.pid)))
    }

    /// Whether anything that the note is on is alive.
    fn lives(&self, is_own: impl Fn(i32) -> bool) -> io::Result<bool> {
        let all = processes::all()?;
        let leader = all.iter().find(|process| process.pid == self.pid);
        let covers = |process: &Process| {
            process.group == self.pid
                && match leader {
                    Some(leader) => leader.started == self.started,
                    // The number stays taken while its group has members, but they might be a later group's.
                    None => process.started >= self.started && is_own(process.pid),
                }
        };
        Ok(all.iter().any(|process| !process.zombie && covers(process)))
    }
}

/// Whether a process is of a program that is shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Noted,
    Nobodys,
    /// It has ended.
    Gone,
    /// It can't be looked at now.
    Unknown,
}

/// The folder in which groups of programs that are shut in are noted, `data/children`: a file each, by the leader's number. The
/// leader writes it before it becomes the program, so nothing that a program starts is without one.
#[derive(Clone, Copy, Debug)]
pub struct Notes<'a>(pub &'a Path);

impl Notes<'_> {
    /// Makes the folder, if it is not there.
    ///
    /// # Errors
    /// The operating system's.
    pub fn make(self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.0)
    }

    /// Notes the group that this process leads.
    ///
    /// # Errors
    /// The operating system's.
    pub fn note_own(self) -> io::Result<()> {
        let own = rustix::process::getpid();
        // Nobody reads it while we live, and half a note is none.
        fs::write(self.of(own), serde_json::to_vec(&Note::on(own)?)?)
    }

    /// Returns whether a process is in a group that is noted. One that is shut in can't leave its group.
    #[must_use]
    pub fn has(self, pid: Pid) -> Whose {
        self.look(pid).unwrap_or_else(
            |error| {
                if processes::has_ended(&error) { Whose::Gone } else { Whose::Unknown }
            },
        )
    }

    fn look(self, pid: Pid) -> io::Result<Whose> {
        let process = processes::look(pid.as_raw_nonzero().get())?;
        // What is left of one that ended does not tell who shares its connection.
        let Some(process) = process.filter(|process| !process.zombie) else { return Ok(Whose::Gone) };
        let note = Pid::from_raw(process.group).map(|group| self.of(group));
        // A note may be older than a group of the same number.
        let is_noted = note.map_or(Ok(false), |note| note.try_exists())? && gains_no_rights(process.pid)?;
        Ok(if is_noted { Whose::Noted } else { Whose::Nobodys })
    }

    /// Forgets a group that was killed.
    pub fn forget(self, leader: Pid) {
        // One that stays is harmless: it will match nothing.
        let _ = fs::remove_file(self.of(leader));
    }

    fn of(self, leader: Pid) -> std::path::PathBuf {
        self.0.join(format!("{}.json", leader.as_raw_nonzero()))
    }

    /// Kills every group that is noted, and forgets it. To be called at start, by the holder of the root's lock, before anything
    /// is started. Returns how many groups had somebody in them.
    ///
    /// # Errors
    /// The notes or `/proc` can't be read, or a group does not die; the others are dead all the same.
    pub async fn kill_all(self) -> io::Result<usize> {
        let entries = match fs::read_dir(self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let (mut killed, mut failed) = (0, None);
        for entry in entries {
            let path = entry?.path();
            let note = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
            let ended = match note {
                Some(note) => note.kill(is_shut_in).await,
                None => Ok(false),
            };
            match ended {
                Ok(was) => {
                    killed += usize::from(was);
                    let _ = fs::remove_file(path);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(killed), Err)
    }
}

/// Whether a process is there and can gain no rights.
fn is_shut_in(pid: i32) -> bool {
    gains_no_rights(pid).unwrap_or(false)
}

/// Whether a process can gain no rights: what is shut in can't, nor can what it starts, and others seldom are so.
fn gains_no_rights(pid: i32) -> io::Result<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|is| is.trim() == "1")))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_types, reason = "starts what is left")]

    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A leader with a child, whose number it says; `shut_in`: neither can gain rights.
    fn group(shut_in: bool) -> (Child, i32) {
        let mut command = Command::new("/bin/sh");
        if shut_in {
            command = Command::new("setpriv");
            command.args(["--no-new-privs", "/bin/sh"]);
        }
        command.args(["-c", "sleep 600 > /dev/null & echo $!; read _"]).process_group(0);
        let mut leader = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (leader, line.trim().parse().unwrap())
    }

    fn lives(pid: i32) -> bool {
        processes::one(pid).is_some_and(|process| !process.zombie)
    }

    fn note_on(leader: &Child) -> (Pid, Note) {
        let pid = Pid::from_child(leader);
        (pid, Note::on(pid).unwrap())
    }

    #[tokio::test]
    async fn a_group_is_killed_by_its_note_with_its_leader_and_without_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes(folder.path());
        let put =
            |pid: Pid, note: &Note| fs::write(notes.of(pid), serde_json::to_vec(note).unwrap()).unwrap();
        // (shut in, the leader is gone, the note is as it should be, it is killed)
        for (shut_in, orphaned, right, killed) in [
            (true, false, true, true),
            (false, false, true, true),
            (true, true, true, true),
            // Nothing shows that it is ours.
            (false, true, true, false),
            (true, false, false, false),
        ] {
            let (mut leader, child) = group(shut_in);
            let (pid, mut note) = note_on(&leader);
            note.started += u64::from(!right);
            put(pid, &note);
            if orphaned {
                leader.kill().unwrap();
                leader.wait().unwrap();
            }
            let case = format!("{shut_in} {orphaned} {right}");
            assert!(lives(child), "{case}");
            assert_eq!(notes.kill_all().await.unwrap(), usize::from(killed), "{case}");
            assert_eq!(lives(child), !killed, "{case}");
            assert!(!notes.of(pid).exists(), "{case}");
            let _ = kill_process_group(pid, Signal::KILL);
            leader.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn a_note_of_another_boot_half_a_note_and_no_folder_kill_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes(folder.path());
        let (mut leader, child) = group(true);
        let (pid, note) = note_on(&leader);
        fs::write(folder.path().join("1.json"), b"{\"pid\":").unwrap();
        let text = serde_json::to_vec(&Note { boot: "another".into(), ..note }).unwrap();
        fs::write(notes.of(pid), text).unwrap();
        assert_eq!(notes.kill_all().await.unwrap(), 0);
        assert!(lives(child));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(Notes(&folder.path().join("none")).kill_all().await.unwrap(), 0);
        kill_process_group(pid, Signal::KILL).unwrap();
        leader.wait().unwrap();
    }
}
