//! How the daemon runs containers.
//!
//! [`Sandbox`] is the trait; `docker.rs` is the real thing, `process.rs` re-executes our own runner as a child and is
//! no boundary. Both pass the suite in `tests/it/sandbox.rs`. `output.rs` turns bytes into records and is pure.
//!
//! A container's life, as the loops drive it: `create` → (id goes on the run's row) → `output` opened → `start`
//! (attached, stdin written and shut) → `wait` … `stop`/`kill` → output read to its end → `remove`.

pub mod docker;
pub mod image;
pub mod output;
pub mod process;
pub mod trial;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use futures_util::{future::BoxFuture, stream::BoxStream};
use ipc_handlers::Folder;

use crate::domain::states::SandboxName;

/// How long a container may take to read its stdin to the end.
const STDIN: Duration = Duration::from_secs(120);

/// What a container is made of. Says nothing of stdin: that is given to [`Sandbox::start`].
#[derive(Clone, Debug)]
pub struct Spec {
    /// The engine refuses a second container of this name: `g2-<instance>-<folder>`.
    pub name: String,
    /// The store's run id; also a label.
    pub run: i64,
    pub group: Folder,
    /// The instance whose container this is; clean-up acts on this label only.
    pub instance: String,
    /// The image (Docker only).
    pub image: String,
    /// The program and its arguments; empty: the image's own entry point (`process`: our runner).
    pub command: Vec<String>,
    /// Host folders and where they are seen inside. `process` passes host paths instead (see [`Seat`]).
    pub mounts: Vec<Mount>,
    pub env: BTreeMap<String, String>,
    /// User and group ids inside.
    pub user: (u32, u32),
    /// Docker only; a child process has the machine's.
    pub network: Network,
    /// Docker only.
    pub labels: Labels,
    /// Folders inside that are empty, in memory, and its user's (Docker only; `/tmp` is always there).
    pub scratch: Vec<String>,
    pub limits: Limits,
    /// Where the runner finds its folders when nothing is mounted (`process`).
    pub seat: Seat,
}

/// One folder made visible inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub host: PathBuf,
    pub inside: String,
    pub access: Access,
    pub whose: Whose,
}

/// The sharing of a mount with other containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This container alone.
    Own,
    /// Other containers, or the user, too.
    Shared,
}

/// What a container can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    None,
    /// The engine's default network.
    Open,
}

/// The labels of mounts for SELinux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Nothing: mounts keep their labels.
    Keep,
    /// Mounts are relabelled so that any container may use them (`z`).
    Shared,
    /// The container's own mounts are relabelled so that it alone may use them, the others as for `Shared` (`Z`).
    Private,
    /// The container is not confined by labels (`label=disable`).
    Off,
}

/// Whether a container may write to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// The folders of a run as the host names them, for a sandbox that mounts nothing.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// `groups/<folder>`: the working directory.
    pub group: PathBuf,
    /// `data/ipc/<folder>`.
    pub ipc: PathBuf,
}

/// Bounds on one container; `None` leaves a resource unbounded.
#[derive(Clone, Debug)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u64>,
    /// A container that has written more than this is ended, bytes (so a log never rotates under us).
    pub output_bytes: u64,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 + n when signal n ended it.
    pub code: i64,
    pub oom: bool,
}

/// A piece of output, as it came: not a line, and it may split a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

/// A container that the engine knows and that carries our instance's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub name: String,
    /// The store's run id; 0 (which no run has) when the label can't be read.
    pub run: i64,
    pub group: String,
    pub state: State,
}

/// The state of a container, as the engine tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Created,
    Running,
    Exited,
}

/// A fault of an engine, and its fix.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the container engine does not answer at {at}: {why}")]
    Unreachable { at: String, why: String },
    #[error("image {image} is not there; build it with `g2 image build {image}`")]
    NoImage { image: String },
    #[error("program {program} can't be started: {why}")]
    NoProgram { program: String, why: String },
    #[error("a container named {name} exists already")]
    NameTaken { name: String },
    #[error("no container {id}")]
    Gone { id: String },
    /// The output's limit was passed. The stream has ended; the container has not, until it is killed.
    #[error("the container wrote more than its limit ({bytes} bytes so far)")]
    Flooded { bytes: u64 },
    /// For want of something that the machine has too little of, or none: another container would not fare better.
    #[error("{doing} failed: {why}")]
    Machine { doing: String, why: String },
    #[error("{doing} failed: {why}")]
    Engine { doing: String, why: String },
}

/// Where agents run. `id` is the sandbox's own name for a container, as `create` returned it.
pub trait Sandbox: Send + Sync {
    /// Returns what it is.
    fn kind(&self) -> SandboxName;

    /// Whether a container outlives the daemon and can be adopted by the next one.
    fn survives_us(&self) -> bool;

    /// Asks the engine whether it is there and the image too.
    fn check<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Which protocol the runner of an image announces by the label `g2.protocol`; 1 without one, as v1's images have
    /// none. It is known before the runner says anything.
    fn protocol<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<u32, SandboxError>>;

    /// Makes the container without starting it.
    fn create<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<String, SandboxError>>;

    /// Attaches, starts, writes `stdin` to the last byte and shuts it. A container that leaves before it has read
    /// everything is no error here: its exit tells.
    fn start<'a>(&'a self, id: &'a str, stdin: Vec<u8>) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// The output from the very beginning, in a first life and at adoption alike; asked for before the start it
    /// waits. Ends when the container has ended and everything was read, or with an error: the last item. Above
    /// `limits.output_bytes` that is [`SandboxError::Flooded`]. An engine's log may leave out the line end behind a
    /// line of more than 16 KiB; every other byte is there.
    fn output(&self, id: &str) -> BoxStream<'static, Result<Chunk, SandboxError>>;

    /// Waits for the end, before the start too. How it ended stays known until it is removed.
    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Exit, SandboxError>>;

    /// Returns the number of its first process on this machine, while it runs and that is known.
    fn pid<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<u32>>;

    /// Asks it to leave, and kills it and everything it started after `grace`. Returns when it has ended. One that
    /// is gone already is no error.
    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Kills it and everything it started, now. One that is gone already is no error.
    fn kill<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Removes a leftover container by force. One that is gone already is no error.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Every container of `instance`, in all states. An error is no empty list.
    fn list<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<Vec<Found>, SandboxError>>;
}
