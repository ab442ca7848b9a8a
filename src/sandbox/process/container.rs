//! One process in the place of a container, from its making to its end.

use std::{
    os::fd::AsFd,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::future::join_all;
use rustix::{
    io::ioctl_fionread,
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    launch::{Launched, Launcher},
    leftovers::{self, Note},
    spool::{Source, Spool},
};
use crate::sandbox::{Exit, SandboxError, Spec, State};
use crate::system::locked::Locked as _;

/// How long a killed process may take to be gone.
const DYING: Duration = Duration::from_secs(30);
/// How long more output is waited for after the end: a process that left the group may hold the pipe open.
const LINGERING: Duration = Duration::from_secs(2);

/// A process, or one that is not started yet.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) spec: Spec,
    /// `runs/<run>`.
    dir: PathBuf,
    pub(super) spool: Arc<Spool>,
    phase: watch::Sender<Phase>,
    /// The leader of the group, from the start until just before it is reaped: while it is here its number can't
    /// be a stranger's.
    leader: Mutex<Option<Pid>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Created,
    Running,
    Ended(Exit),
    /// Removed without ever having run.
    Removed,
}

impl Container {
    pub(super) fn new(id: String, spec: Spec, dir: PathBuf, spool: Spool) -> Self {
        let phase = watch::Sender::new(Phase::Created);
        Self { id, spec, dir, spool: Arc::new(spool), phase, leader: Mutex::new(None) }
    }

    pub(super) fn state(&self) -> State {
        match *self.phase.borrow() {
            Phase::Created => State::Created,
            Phase::Running => State::Running,
            Phase::Ended(_) | Phase::Removed => State::Exited,
        }
    }

    /// The leader of the group, while there is one.
    pub(super) fn leader(&self) -> MutexGuard<'_, Option<Pid>> {
        self.leader.locked()
    }

    /// Starts the process and returns its stdin. One that can't be started has ended, with 127.
    pub(super) fn start(self: &Arc<Self>, launcher: &Launcher) -> Result<ChildStdin, SandboxError> {
        let mut leader = self.leader();
        if *self.phase.borrow() != Phase::Created {
            return Err(self.failed("starting", "it was started before"));
        }
        let launched = launcher.launch(&self.spec).and_then(|mut launched| {
            let noted = Note::on(launched.pid, &self.spec.seat.ipc).and_then(|note| note.write(&self.dir));
            let stdin = launched.child.stdin.take();
            match (noted, stdin) {
                (Ok(()), Some(stdin)) => Ok((launched, stdin)),
                (Err(error), _) => Err(self.failed("noting the process of", &error.to_string())),
                (Ok(()), None) => Err(self.failed("starting", "it has no stdin")),
            }
        });
        let (launched, stdin) = match launched {
            Ok(launched) => launched,
            Err(error) => {
                self.spool.close();
                self.phase.send_replace(Phase::Ended(Exit { code: 127, oom: false }));
                return Err(error);
            }
        };
        *leader = Some(launched.pid);
        self.phase.send_replace(Phase::Running);
        tokio::spawn(Arc::clone(self).attend(launched));
        Ok(stdin)
    }

    /// Sends `signal` to the process and everything it started that stayed in its group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = *self.leader() {
            // Fails only when nobody is left.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Kills, and waits until it is reaped. One that does not run is left as it is.
    pub(super) async fn kill(&self) -> Result<(), SandboxError> {
        if self.state() != State::Running {
            return Ok(());
        }
        self.signal(Signal::KILL);
        match timeout(DYING, self.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.failed("killing", "it does not die")),
        }
    }

    /// Waits for the end.
    pub(super) async fn wait(&self) -> Result<Exit, SandboxError> {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(_) | Phase::Removed)).await;
        match ended.as_deref() {
            Ok(Phase::Ended(exit)) => Ok(exit.clone()),
            Ok(Phase::Created | Phase::Running | Phase::Removed) | Err(_) => {
                Err(SandboxError::Gone { id: self.id.clone() })
            }
        }
    }

    /// Ends the waits for a container that will never run.
    pub(super) fn discard(&self) {
        let _leader = self.leader();
        self.spool.close();
        self.phase.send_if_modified(|phase| {
            let created = *phase == Phase::Created;
            if created {
                *phase = Phase::Removed;
            }
            created
        });
    }

    /// Stays with the process: keeps its output, and reaps it after having killed what it leaves behind.
    async fn attend(self: Arc<Self>, launched: Launched) {
        let Launched { mut child, end, life, .. } = launched;
        let ended = watch::Sender::new(false);
        let stdout = child.stdout.take().map(|pipe| self.pump(pipe, Source::Stdout, ended.subscribe()));
        let stderr = child.stderr.take().map(|pipe| self.pump(pipe, Source::Stderr, ended.subscribe()));
        // Ended, but not yet reaped: the group's number is still its own.
        let _ = end.readable().await;
        self.signal(Signal::KILL);
        *self.leader() = None;
        let code = child.wait().await.map_or(-1, |status| code(&status));
        // Nothing of it writes any more: the pipes are read to their end, however long that takes.
        ended.send_replace(true);
        join_all(stdout.into_iter().chain(stderr)).await;
        drop(life);
        leftovers::forget(&self.dir);
        self.spool.close();
        self.phase.send_replace(Phase::Ended(Exit { code, oom: false }));
    }

    fn pump(
        &self,
        pipe: impl AsyncRead + AsFd + Unpin + Send + 'static,
        source: Source,
        mut ended: watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let spool = Arc::clone(&self.spool);
        let over = async move {
            let _ = ended.wait_for(|ended| *ended).await;
            sleep(LINGERING).await;
        };
        tokio::spawn(pump(pipe, over, move |bytes| spool.push(source, bytes)))
    }

    fn failed(&self, doing: &str, why: &str) -> SandboxError {
        SandboxError::Engine { doing: format!("{doing} {}", self.id), why: why.to_owned() }
    }
}

/// Keeps what a pipe gives, to its end, or until the wait is `over`: then the bytes in the pipe are the last, and all that a
/// process wrote that has ended is in it or was read before.
async fn pump(
    mut pipe: impl AsyncRead + AsFd + Unpin,
    over: impl Future<Output = ()>,
    mut keep: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 << 10];
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            () = &mut over => break,
            // An error is an end, too: a pipe has no other.
            read = pipe.read(&mut buffer) => match read {
                Ok(read @ 1..) => keep(&buffer[..read]),
                Ok(0) | Err(_) => return,
            },
        }
    }
    let left = ioctl_fionread(&pipe).unwrap_or(0);
    let mut left = pipe.take(left);
    while let Ok(read @ 1..) = left.read(&mut buffer).await {
        keep(&buffer[..read]);
    }
}

/// Writes stdin to the last byte and shuts it, `within` at most. One that leaves before the end breaks the pipe, and
/// that is no error: its exit tells.
pub(super) async fn feed(
    id: &str,
    mut pipe: ChildStdin,
    stdin: &[u8],
    within: Duration,
) -> Result<(), SandboxError> {
    match timeout(within, pipe.write_all(stdin)).await {
        Ok(_) => Ok(()),
        Err(_) => Err(SandboxError::Engine {
            doing: format!("writing the input of {id}"),
            why: format!("it was not read to the end within {} s", within.as_secs()),
        }),
    }
}

/// The exit code as a container's: 128 + n for signal n.
fn code(status: &ExitStatus) -> i64 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1).into()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use rustix::pipe::fcntl_setpipe_size;
    use tokio::net::unix::pipe;

    use super::*;

    #[tokio::test]
    async fn what_is_in_the_pipe_after_the_end_is_read_to_its_end_though_somebody_holds_it_open() {
        let (sender, receiver) = pipe::pipe().unwrap();
        fcntl_setpipe_size(&sender, 1 << 20).unwrap();
        sender.writable().await.unwrap();
        let mut written = 0;
        while let Ok(more) = sender.try_write(&[7; 4096]) {
            written += more;
        }
        assert!(written > 10 * (64 << 10), "{written}");
        // No time is left to wait for more, and bytes that are written from now on are not the process'.
        let mut kept = 0;
        let keep = |bytes: &[u8]| {
            kept += bytes.len();
            let _ = sender.try_write(bytes);
        };
        timeout(DYING, pump(receiver, ready(()), keep)).await.expect("to end");
        assert_eq!(kept, written);
    }

    #[tokio::test]
    async fn more_is_waited_for_until_the_pipe_is_closed() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let mut kept = Vec::new();
        let writing = async {
            for part in ["before ", "after"] {
                sender.writable().await.unwrap();
                sender.try_write(part.as_bytes()).unwrap();
                tokio::task::yield_now().await;
            }
            drop(sender);
        };
        let reading = pump(receiver, pending(), |bytes| kept.extend(bytes));
        timeout(DYING, async { tokio::join!(reading, writing) }).await.expect("to end");
        assert_eq!(String::from_utf8_lossy(&kept), "before after");
    }
}
