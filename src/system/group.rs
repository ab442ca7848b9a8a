//! A program with all that it starts: one process group, which ends as a whole.
#![expect(clippy::disallowed_types, reason = "callers say what is started here")]

use std::{io, os::fd::OwnedFd, path::PathBuf, process::ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{Child, Command},
};

use super::leftovers::Notes;

/// A process group that we started. When it is dropped, it is killed.
pub struct Group {
    pub child: Child,
    /// Readable once the leader has ended.
    end: AsyncFd<OwnedFd>,
    /// The leader, until it is reaped: from then on another group may have its number.
    leader: Option<Pid>,
    /// Where it is noted.
    notes: PathBuf,
}

impl Group {
    /// Starts a command as the leader of a group of its own, which notes itself in the folder `notes` ([`Notes`]).
    ///
    /// # Errors
    /// It can't be started, or not be watched.
    pub fn start(command: &mut Command, notes: PathBuf) -> io::Result<Self> {
        Notes(&notes).make()?;
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = leader.ok_or_else(|| io::Error::other("the process has no id"))?;
        #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
        let end = AsyncFd::with_interest(pidfd_open(leader, PidfdFlags::NONBLOCK)?, Interest::READABLE)?;
        Ok(Self { child, end, leader: Some(leader), notes })
    }

    /// Returns the leader's number, and so the group's; `None`: it is reaped.
    #[must_use]
    pub fn id(&self) -> Option<Pid> {
        self.leader
    }

    /// Waits until the leader has ended by itself, kills what it leaves behind, and reaps it.
    ///
    /// # Errors
    /// It can't be waited for.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        // Ended, but not reaped: the group's number is still its own.
        let _ = self.end.readable().await?;
        self.kill();
        self.leader = None;
        self.child.wait().await
    }

    /// Kills all of it.
    pub fn kill(&self) {
        if let Some(leader) = self.leader {
            // Fails only when nobody is left.
            let _ = kill_process_group(leader, Signal::KILL);
            Notes(&self.notes).forget(leader);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
