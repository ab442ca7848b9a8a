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

use super::{CliResult, Context, Failure, show, word::as_typed};
use crate::{
    app::{self, Tried, socket_path},
    channels::local::{Ask, Fault, Incoming, Told},
    domain::{machine::loops::LoopState, shown::audit::Origin},
    loops::{
        Sight,
        control::{Request, Response, Status},
    },
    ops::{Answer, By, Op, OpCode, OpError},
    system::{process::own_ids, socket::SocketName},
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

/// The connection ended.
#[derive(Debug, thiserror::Error)]
#[error("the daemon has stopped")]
struct Ended;

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
        let mut ended = false;
        let greeting = async {
            loop {
                match Self::greet(root).await? {
                    Some(client) => return Ok(client),
                    None => ended = true,
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let greeted = timeout(limit, greeting).await;
        greeted.unwrap_or_else(|_| {
            Err(NoDaemon::Mute(if ended { "it ends each connection".into() } else { silent(limit) }))
        })
    }

    /// Connects and greets. `None`: the listener ended the connection unheard, as a daemon does that stops.
    async fn greet(root: &Path) -> Result<Option<Self>, NoDaemon> {
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
            Ok(Response::Done) => Ok(Some(client)),
            Ok(_) => Err(NoDaemon::Mute("it gave an unexpected answer; is it the same version?".into())),
            Err(error) if is_end(&error) => Ok(None),
            Err(error) => Err(NoDaemon::Mute(format!("{error:#}"))),
        }
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

    /// Asks for the daemon's figures.
    pub(super) async fn metrics(root: &Path) -> Result<String, NoDaemon> {
        let mut client = Self::connect(root).await?;
        match timeout(ANSWER, client.call(&Request::Metrics)).await {
            Ok(Ok(Response::Metrics { text })) => Ok(text),
            Ok(Ok(Response::Error { message })) => Err(NoDaemon::Mute(message)),
            Ok(Ok(_)) => Err(NoDaemon::Mute("it gave an unexpected answer; is it the same version?".into())),
            Ok(Err(error)) => Err(NoDaemon::Mute(format!("{error:#}"))),
            Err(_) => Err(NoDaemon::Mute(silent(ANSWER))),
        }
    }

    /// Asks what each run is doing.
    pub(super) async fn runs(&mut self) -> anyhow::Result<Vec<Sight>> {
        match timeout(ANSWER, self.call(&Request::Runs)).await {
            Ok(Ok(Response::Runs { rows })) => Ok(rows),
            Ok(Ok(_)) => Err(unexpected().into()),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!(silent(ANSWER)),
        }
    }

    /// Asks how each loop stands.
    pub(super) async fn loops(&mut self) -> anyhow::Result<Vec<LoopState>> {
        match timeout(ANSWER, self.call(&Request::Loops)).await {
            Ok(Ok(Response::Loops { rows })) => Ok(rows),
            Ok(Ok(_)) => Err(unexpected().into()),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!(silent(ANSWER)),
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
            None => Err(Ended.into()),
        }
    }

    /// Has the daemon do an operation, once: after a lost connection nobody knows whether it did.
    async fn perform(mut self, op: &Op, sudo_user: Option<String>) -> Result<Answer, OpError> {
        let lost = |error: anyhow::Error| {
            lost(&format!("{} may or may not be done", op.name()), &error).hint("check before you try again")
        };
        let asked = serde_json::to_value(op)
            .map_err(|error| OpError::new(OpCode::Failed, format!("asking the daemon: {error}")))?;
        self.ask(&Request::Op { asked, sudo_user, command_line: true }).await.map_err(lost)?;
        match self.next().await.map_err(lost)? {
            Response::OpDone(answer) => Ok(answer),
            Response::OpRefused { error } => Err(error),
            // It was not understood, so it is not done.
            Response::Error { message } => Err(OpError::new(OpCode::Failed, message)),
            _ => Err(lost(anyhow::anyhow!("the daemon answered another request"))),
        }
    }

    /// Asks the daemon, and waits for its answer. A daemon that takes no more clients says so unasked.
    pub(super) async fn call(&mut self, request: &Request) -> anyhow::Result<Response> {
        let asked = self.ask(request).await;
        match self.next().await {
            Ok(Response::Error { message }) => bail!(message),
            answer => asked.and(answer),
        }
    }

    /// Asks for something of a chat, and waits for the answer; texts that come meanwhile are passed over.
    pub(super) async fn call_chat(&mut self, ask: &Ask) -> anyhow::Result<Told> {
        self.ask(ask).await?;
        loop {
            match self.hear().await? {
                Told::Said(_) | Told::Growing { .. } | Told::Heard { .. } | Told::Typing { .. } => {}
                Told::Error { code, message } => return Err(refused(code, &message).into()),
                answer => return Ok(answer),
            }
        }
    }

    /// Sends a message, once: after a lost connection nobody knows whether it is stored.
    pub(super) async fn send(&mut self, message: Incoming) -> Result<Told, OpError> {
        let chat = message.chat.clone();
        self.call_chat(&Ask::Send(Box::new(message))).await.map_err(|error| match error.downcast() {
            Ok(refused) => refused,
            Err(error) => lost_messages(&chat, &error),
        })
    }
}

/// The answer of a daemon that is none to the question.
pub(super) fn unexpected() -> OpError {
    OpError::new(OpCode::Failed, "the daemon gave an unexpected answer").hint("is it the same version?")
}

/// The connection was lost before the answer, and nobody knows what was done.
pub(super) fn lost(what: &str, error: &anyhow::Error) -> OpError {
    OpError::new(OpCode::Unknown, format!("the connection was lost, and {what}: {error:#}"))
}

/// The same of messages for a chat.
pub(super) fn lost_messages(chat: &str, error: &anyhow::Error) -> OpError {
    lost("the message may or may not be stored", error)
        .hint(format!("`g2 messages list --chat {chat}` shows whether it is"))
}

/// What a chat refused, or the daemon could not do.
pub(super) fn refused(code: Fault, message: &str) -> OpError {
    let code = match code {
        Fault::Invalid => OpCode::Invalid,
        Fault::Failed => OpCode::Failed,
    };
    OpError::new(code, message)
}

/// Whether the listener ended the connection.
fn is_end(error: &anyhow::Error) -> bool {
    let ended = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    error.chain().any(|cause| {
        cause.is::<Ended>()
            || cause.downcast_ref::<std::io::Error>().is_some_and(|error| ended.contains(&error.kind()))
    })
}

/// Has an operation done, and prints what came of it. Errors use the words of the command line.
pub(super) async fn change(context: &Context, op: impl Into<Op>) -> CliResult {
    let answer = perform(context, op).await.map_err(|failure| match failure {
        Failure::Op(error) => Failure::Op(as_typed(error)),
        other => other,
    })?;
    show::answer(context, &answer)
}

/// Does an operation: in the daemon where one is up, otherwise here, under the root's lock.
///
/// # Errors
/// [`Failure::Op`] with the mistake; [`Failure::Mute`] if a daemon is up and does not answer.
pub(super) async fn perform(context: &Context, op: impl Into<Op>) -> Result<Answer, Failure> {
    let op = op.into();
    app::check_root(&context.root)?;
    let sudo_user = context.environment.get("SUDO_USER").map(str::to_owned);
    let waiting = context.world.monotonic();
    loop {
        let mute = match Client::connect(&context.root).await {
            Ok(client) => return Ok(client.perform(&op, sudo_user).await?),
            Err(NoDaemon::Down) => None,
            Err(NoDaemon::Mute(why)) => Some(why),
        };
        let settings = context.config().map_err(|error| format!("{error:#}"));
        let by = By::owner(own_ids().0, sudo_user.clone(), Origin::CommandLine);
        let tried = app::perform_alone(
            &context.world,
            &context.root,
            settings.as_ref().map_err(String::as_str),
            &by,
            op.clone(),
        );
        match (tried.await?, mute) {
            (Tried::Performed(done), _) => return Ok(done?),
            (Tried::Busy(_), Some(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
            // A daemon that is about to listen, or another operation.
            (Tried::Busy(_), None) if context.world.monotonic().duration_since(waiting) < BUSY => {
                tokio::time::sleep(AGAIN).await
            }
            (Tried::Busy(who), None) => return Err(anyhow::anyhow!(who).into()),
        }
    }
}

fn silent(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}
