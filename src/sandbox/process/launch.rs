//! Starting one process: its group, its environment, its limits and its life pipe.
#![expect(clippy::disallowed_types, reason = "this file is where the sandbox starts processes")]
#![expect(
    clippy::disallowed_methods,
    reason = "a child gets the few variables that make a program work at all"
)]

use std::{
    env,
    ffi::OsString,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    process::Stdio,
    sync::Mutex,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, prlimit},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{Child, Command},
};

use crate::sandbox::{Limits, SandboxError, Spec};
use crate::system::locked::Locked as _;

/// What a child inherits of our environment. No secret is ever in one of these.
const INHERITED: [&str; 7] = ["PATH", "HOME", "TZ", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE"];

/// Open files of one process.
const OPEN_FILES: u64 = 4096;

/// Starts processes.
#[derive(Debug)]
pub(super) struct Launcher {
    pub(super) program: PathBuf,
    args: Vec<String>,
    inherited: Vec<(&'static str, OsString)>,
    /// Held while a child's end of a life pipe is inheritable, lest another child gets it too.
    spawning: Mutex<()>,
}

/// A process that was started and not yet reaped.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) child: Child,
    pub(super) pid: Pid,
    /// Readable when the process has ended.
    pub(super) end: AsyncFd<OwnedFd>,
    /// Held as long as we live: when it closes the runner kills its group.
    pub(super) life: OwnedFd,
}

impl Launcher {
    pub(super) fn new(program: PathBuf, args: Vec<String>) -> Self {
        let inherited = INHERITED.iter().filter_map(|name| Some((*name, env::var_os(name)?))).collect();
        Self { program, args, inherited, spawning: Mutex::new(()) }
    }

    /// Starts what `spec` asks for. Its limits hold before it has read a byte of its stdin.
    pub(super) fn launch(&self, spec: &Spec) -> Result<Launched, SandboxError> {
        let failed = |doing: &str, error: io::Error| SandboxError::Engine {
            doing: format!("{doing} of {}", spec.name),
            why: error.to_string(),
        };
        let (theirs, life) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("making the life pipe", error.into()))?;
        let mut command = self.command(spec);
        command.env("G2_LIFE_FD", theirs.as_raw_fd().to_string());
        let mut child = {
            let _spawning = self.spawning.locked();
            fcntl_setfd(&theirs, FdFlags::empty())
                .map_err(|error| failed("sharing the life pipe", error.into()))?;
            let spawned = command.spawn();
            drop(theirs);
            spawned.map_err(|error| no_program(spec, &command, &error))?
        };
        let prepared = prepare(&child, &spec.limits);
        match prepared {
            Ok((pid, end)) => Ok(Launched { child, pid, end, life }),
            Err(error) => {
                // It waits for its stdin; nothing but itself has to go.
                let _ = child.start_kill();
                Err(failed("preparing the process", error))
            }
        }
    }

    fn command(&self, spec: &Spec) -> Command {
        let mut command = match spec.command.split_first() {
            Some((program, args)) => {
                let mut command = Command::new(program);
                command.args(args);
                command
            }
            None => {
                let mut command = Command::new(&self.program);
                command.args(&self.args);
                command
            }
        };
        command
            .current_dir(&spec.seat.group)
            .env_clear()
            .envs(self.inherited.iter().map(|(name, value)| (name, value)))
            .envs(&spec.env)
            .env("G2_GROUP_DIR", &spec.seat.group)
            .env("G2_IPC_DIR", &spec.seat.ipc)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

fn no_program(spec: &Spec, command: &Command, error: &io::Error) -> SandboxError {
    let why = error.to_string();
    if spec.seat.group.is_dir() {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        SandboxError::NoProgram { program, why }
    } else {
        SandboxError::Engine { doing: format!("entering {}", spec.seat.group.display()), why }
    }
}

fn prepare(child: &Child, limits: &Limits) -> io::Result<(Pid, AsyncFd<OwnedFd>)> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
    #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
    let end = AsyncFd::with_interest(pidfd_open(pid, PidfdFlags::empty())?, Interest::READABLE)?;
    let bound = |resource, most: u64| {
        // An unprivileged process can't raise what it has.
        let most = getrlimit(resource).maximum.map_or(most, |ours| ours.min(most));
        prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) })
    };
    bound(Resource::Core, 0)?;
    bound(Resource::Nofile, OPEN_FILES)?;
    if let Some(memory) = limits.memory_bytes {
        // Not the address space: JavaScript engines reserve far more of that than they use.
        bound(Resource::Data, memory)?;
    }
    Ok((pid, end))
}
