//! Our own runner as a child process, in the place of a container.
//!
//! **No boundary**: the child is the same user on the same files, and what it is not meant to reach is only not
//! shown to it. Of the limits it knows memory (as `RLIMIT_DATA`) and output; mounts, user, processors and processes
//! mean nothing here. It dies with us: the child leads a process group of its own and holds one end of a pipe,
//! `G2_LIFE_FD`, whose other end closes when we are gone; what outlived a daemon all the same is killed at the next
//! start ([`ProcessSandbox::kill_leftovers`]).
//!
//! A child finds its folders in `G2_GROUP_DIR` (also its working directory) and `G2_IPC_DIR`.

mod container;
mod launch;
mod leftovers;
mod spool;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use rustix::{
    fs::{Access as Right, access},
    process::{Pid, Signal},
};
use tokio::time::timeout;

use self::{container::Container, launch::Launcher, spool::Spool};
use super::{Chunk, Exit, Found, STDIN, Sandbox, SandboxError, Spec};
use crate::domain::states::SandboxName;
use crate::system::locked::Locked as _;

/// Child processes of this daemon.
#[derive(Debug)]
pub struct ProcessSandbox {
    launcher: Launcher,
    runs: PathBuf,
    table: Mutex<BTreeMap<String, Arc<Container>>>,
    made: AtomicU64,
}

impl ProcessSandbox {
    /// Runs `program` with `args` for every container that asks for no command of its own. `runs` is `data/runs`.
    #[must_use]
    pub fn new(program: PathBuf, args: Vec<String>, runs: PathBuf) -> Self {
        let launcher = Launcher::new(program, args);
        Self { launcher, runs, table: Mutex::default(), made: AtomicU64::new(0) }
    }

    /// Kills what a daemon that died left running, with everything in the same groups, and returns the runs it
    /// belonged to. To be called at start, by the holder of the root's lock.
    ///
    /// # Errors
    /// When `/proc` or the notes in `data/runs` can't be read, or something doesn't die.
    pub async fn kill_leftovers(&self) -> io::Result<Vec<String>> {
        let ours: Vec<Pid> = self.table().values().filter_map(|container| *container.leader()).collect();
        leftovers::kill(&self.runs, &ours).await
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Container>>> {
        self.table.locked()
    }

    fn container(&self, id: &str) -> Result<Arc<Container>, SandboxError> {
        self.table().get(id).cloned().ok_or_else(|| SandboxError::Gone { id: id.to_owned() })
    }

    fn check(&self) -> Result<(), SandboxError> {
        let program = &self.launcher.program;
        access(program, Right::EXEC_OK).map_err(|error| SandboxError::NoProgram {
            program: program.display().to_string(),
            why: error.to_string(),
        })
    }

    fn create(&self, spec: &Spec) -> Result<String, SandboxError> {
        let mut table = self.table();
        if table.values().any(|container| container.spec.name == spec.name) {
            return Err(SandboxError::NameTaken { name: spec.name.clone() });
        }
        let dir = self.runs.join(spec.run.to_string());
        let spool = make_dir(&dir).and_then(|()| Spool::new(&dir, spec.limits.output_bytes));
        let spool = spool.map_err(|error| SandboxError::Engine {
            doing: format!("preparing {}", dir.display()),
            why: error.to_string(),
        })?;
        let id = format!("process-{}-{}", spec.run, self.made.fetch_add(1, Ordering::Relaxed));
        table.insert(id.clone(), Arc::new(Container::new(id.clone(), spec.clone(), dir, spool)));
        Ok(id)
    }

    async fn start(&self, id: &str, stdin: Vec<u8>) -> Result<(), SandboxError> {
        let pipe = self.container(id)?.start(&self.launcher)?;
        container::feed(id, pipe, &stdin, STDIN).await
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<(), SandboxError> {
        let Ok(container) = self.container(id) else { return Ok(()) };
        container.signal(Signal::TERM);
        if container.state() == super::State::Running && timeout(grace, container.wait()).await.is_err() {
            container.kill().await?;
        }
        Ok(())
    }

    async fn kill(&self, id: &str) -> Result<(), SandboxError> {
        match self.container(id) {
            Ok(container) => container.kill().await,
            Err(_) => Ok(()),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), SandboxError> {
        if let Ok(container) = self.container(id) {
            container.discard();
            container.kill().await?;
            self.table().remove(id);
        }
        Ok(())
    }
}

/// The rest of us takes its children along, when it has the time. The life pipes are for when it has not.
impl Drop for ProcessSandbox {
    fn drop(&mut self) {
        for container in self.table().values() {
            container.signal(Signal::KILL);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "data/runs is the host's alone")]
fn make_dir(dir: &std::path::Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}

impl Sandbox for ProcessSandbox {
    fn kind(&self) -> SandboxName {
        SandboxName::Process
    }

    fn survives_us(&self) -> bool {
        false
    }

    /// There are no images here: asks whether the runner can be executed.
    fn check<'a>(&'a self, _image: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        async { self.check() }.boxed()
    }

    /// There are no images here: the program is our own runner, or has to speak as it does.
    fn protocol<'a>(&'a self, _image: &'a str) -> BoxFuture<'a, Result<u32, SandboxError>> {
        async { Ok(ipc_handlers::wire::PROTOCOL) }.boxed()
    }

    fn create<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<String, SandboxError>> {
        async { self.create(spec) }.boxed()
    }

    fn start<'a>(&'a self, id: &'a str, stdin: Vec<u8>) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.start(id, stdin).boxed()
    }

    fn output(&self, id: &str) -> BoxStream<'static, Result<Chunk, SandboxError>> {
        match self.container(id) {
            Ok(container) => Arc::clone(&container.spool).read(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Exit, SandboxError>> {
        async { self.container(id)?.wait().await }.boxed()
    }

    fn pid<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<u32>> {
        let leader = self.container(id).ok().and_then(|container| *container.leader());
        async move { leader.and_then(|pid| pid.as_raw_nonzero().get().try_into().ok()) }.boxed()
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.stop(id, grace).boxed()
    }

    fn kill<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.kill(id).boxed()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.remove(id).boxed()
    }

    fn list<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<Vec<Found>, SandboxError>> {
        let found = self
            .table()
            .values()
            .filter(|container| container.spec.instance == instance)
            .map(found)
            .collect();
        async { Ok(found) }.boxed()
    }
}

fn found(container: &Arc<Container>) -> Found {
    Found {
        id: container.id.clone(),
        name: container.spec.name.clone(),
        run: container.spec.run,
        group: container.spec.group.to_string(),
        state: container.state(),
    }
}
