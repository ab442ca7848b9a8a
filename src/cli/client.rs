//! The other end of the daemon's socket.

use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use super::{Context, Failure};
use crate::{
    app::{self, Tried, socket_path},
    channels::local::{Ask, Told},
    loops::control::{Request, Response, Status},
    ops::{Answer, By, Op, OpCode, OpError},
    system::{clock, process::own_ids, socket::SocketName},
};

/// A connection to the daemon.
pub(super) struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

/// Time that the daemon has for a cheap answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Time that a process may hold the root's lock without listening.
const BUSY: Duration = Duration::from_secs(10);
/// Time between two looks whether it still does.
const AGAIN: Duration = Duration::from_millis(20);

/// Why no daemon answers.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDaemon {
    #[error("no daemon listens")]
    Down,
    /// A process listens and does not answer as the daemon does.
    #[error("{0}")]
    Mute(String),
}

impl Client {
    /// Connects to a daemon that answers.
    pub(super) async fn connect(root: &Path) -> Result<Self, NoDaemon> {
        Self::connect_within(root, ANSWER).await
    }

    /// The same, with a limit of its own.
    pub(super) async fn connect_within(root: &Path, limit: Duration) -> Result<Self, NoDaemon> {
        let greeting = async {
            let connected = match SocketName::of(&socket_path(root)) {
                Ok(name) => UnixStream::connect(name.path()).await,
                Err(error) => Err(error),
            };
            let stream = match connected {
                Ok(stream) => stream,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                    return Err(NoDaemon::Down);
                }
                Err(error) => return Err(NoDaemon::Mute(error.to_string())),
            };
            let (input, out) = stream.into_split();
            let mut client = Self { lines: BufReader::new(input).lines(), out };
            match client.call(&Request::Ping).await {
                Ok(Response::Done) => Ok(client),
                Ok(_) => Err(NoDaemon::Mute("it gave an unexpected answer; is it the same version?".into())),
                Err(error) => Err(NoDaemon::Mute(format!("{error:#}"))),
            }
        };
        timeout(limit, greeting).await.unwrap_or_else(|_| Err(NoDaemon::Mute(silent(limit))))
    }

    /// Connects, or fails with the exit code that says that a daemon is needed.
    pub(super) async fn needed(context: &Context) -> Result<Self, Failure> {
        Self::connect(&context.root).await.map_err(|why| match why {
            NoDaemon::Down => Failure::NotRunning(context.root.clone()),
            NoDaemon::Mute(why) => Failure::Mute { root: context.root.clone(), why },
        })
    }

    /// Asks for the daemon's state; a daemon that does not answer soon counts as mute.
    pub(super) async fn status(root: &Path) -> Result<Box<Status>, NoDaemon> {
        let mut client = Self::connect(root).await?;
        match timeout(ANSWER, client.call(&Request::Status)).await {
            Ok(Ok(Response::Status(status))) => Ok(status),
            Ok(Ok(_)) => Err(NoDaemon::Mute("it gave an unexpected answer; is it the same version?".into())),
            Ok(Err(error)) => Err(NoDaemon::Mute(format!("{error:#}"))),
            Err(_) => Err(NoDaemon::Mute(silent(ANSWER))),
        }
    }

    pub(super) async fn ask(&mut self, request: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.out.write_all(&line).await.context("asking the daemon")
    }

    /// Waits for what the daemon says next of chats. Safe to cancel.
    pub(super) async fn hear(&mut self) -> anyhow::Result<Told> {
        self.next().await
    }

    async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        match self.lines.next_line().await.context("listening to the daemon")? {
            Some(line) => {
                serde_json::from_str(&line).context("reading the daemon's answer; is it the same version?")
            }
            None => bail!("the daemon has stopped"),
        }
    }

    /// Has the daemon do an operation, once: after a lost connection nobody knows whether it did.
    async fn perform(mut self, op: &Op, sudo_user: Option<String>) -> Result<Answer, OpError> {
        let lost = |error: anyhow::Error| {
            let name = op.name();
            OpError::new(
                OpCode::Unknown,
                format!("the connection was lost, and {name} may or may not be done: {error:#}"),
            )
            .hint("check before you try again")
        };
        let asked = serde_json::to_value(op)
            .map_err(|error| OpError::new(OpCode::Failed, format!("asking the daemon: {error}")))?;
        self.ask(&Request::Op { asked, sudo_user }).await.map_err(lost)?;
        match self.next().await.map_err(lost)? {
            Response::OpDone(answer) => Ok(answer),
            Response::OpRefused { error } => Err(error),
            // It was not understood, so it is not done.
            Response::Error { message } => Err(OpError::new(OpCode::Failed, message)),
            _ => Err(lost(anyhow::anyhow!("the daemon answered another request"))),
        }
    }

    /// Asks the daemon, and waits for its answer.
    pub(super) async fn call(&mut self, request: &Request) -> anyhow::Result<Response> {
        self.ask(request).await?;
        match self.next().await? {
            Response::Error { message } => bail!(message),
            answer => Ok(answer),
        }
    }

    /// Asks for something of a chat, and waits for the answer; texts that come meanwhile are passed over.
    pub(super) async fn call_chat(&mut self, ask: &Ask) -> anyhow::Result<Told> {
        self.ask(ask).await?;
        loop {
            match self.hear().await? {
                Told::Said(_) | Told::Heard { .. } | Told::Typing { .. } => {}
                Told::Error { message } => bail!(message),
                answer => return Ok(answer),
            }
        }
    }
}

/// Does an operation: in the daemon where one is up, otherwise here, under the root's lock.
///
/// # Errors
/// [`Failure::Op`] with the mistake; [`Failure::Mute`] if a daemon is up and does not answer.
pub(super) async fn perform(context: &Context, op: impl Into<Op>) -> Result<Answer, Failure> {
    let op = op.into();
    app::check_root(&context.root)?;
    let sudo_user = context.environment.get("SUDO_USER").map(str::to_owned);
    let waiting = clock::monotonic();
    loop {
        let mute = match Client::connect(&context.root).await {
            Ok(client) => return Ok(client.perform(&op, sudo_user).await?),
            Err(NoDaemon::Down) => None,
            Err(NoDaemon::Mute(why)) => Some(why),
        };
        let settings = context.config().map_err(|error| format!("{error:#}"));
        let by = By::owner(own_ids().0, sudo_user.clone());
        let tried =
            app::perform_alone(&context.root, settings.as_ref().map_err(String::as_str), &by, op.clone());
        match (tried.await?, mute) {
            (Tried::Performed(done), _) => return Ok(done?),
            (Tried::Busy(_), Some(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
            // A daemon that is about to listen, or another operation.
            (Tried::Busy(_), None) if waiting.elapsed() < BUSY => tokio::time::sleep(AGAIN).await,
            (Tried::Busy(who), None) => return Err(anyhow::anyhow!(who).into()),
        }
    }
}

fn silent(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}
