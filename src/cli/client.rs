//! The other end of the daemon's socket.

use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use ipc_handlers::Folder;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use super::{Context, Failure, out};
use crate::{
    app::{self, socket_path},
    channels::local::{Ask, Told},
    loops::control::{Request, Response, Status},
    root::SocketName,
};

/// A connection to the daemon.
pub(super) struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

/// How long the daemon may take to answer what costs it nothing.
const ANSWER: Duration = Duration::from_secs(2);

/// Why there is nobody to talk to.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDaemon {
    #[error("no daemon listens")]
    Down,
    /// Somebody listens and does not answer as the daemon does.
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
                Ok(_) => Err(NoDaemon::Mute("it answers something else; is it of the same version?".into())),
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

    /// Asks how the daemon is; one that can't tell soon is as good as mute.
    pub(super) async fn status(root: &Path) -> Result<Box<Status>, NoDaemon> {
        let mut client = Self::connect(root).await?;
        match timeout(ANSWER, client.call(&Request::Status)).await {
            Ok(Ok(Response::Status(status))) => Ok(status),
            Ok(Ok(_)) => Err(NoDaemon::Mute("it answers something else; is it of the same version?".into())),
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
                serde_json::from_str(&line).context("understanding the daemon; is it of the same version?")
            }
            None => bail!("the daemon has stopped"),
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

    /// Asks for something of a chat, and waits for an answer that is none of what is told meanwhile.
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

/// Makes the boxes that a group lacks, or every group does, where no daemon is up, so that commands can be put into them;
/// one that is up does so when it is told of the group.
pub(super) async fn make_boxes(context: &Context, only: Option<&Folder>) -> anyhow::Result<()> {
    match Client::connect(&context.root).await {
        Err(NoDaemon::Down) => app::lay_out_boxes(&context.root, only).await,
        Ok(_) | Err(NoDaemon::Mute(_)) => Ok(()),
    }
}

/// Makes the folder and the boxes of a new group, and tells a daemon that is up of it.
pub(super) async fn lay_out(context: &Context, group: &Folder) -> anyhow::Result<()> {
    crate::ipc::lay_out_group(&context.root, group, app::box_owner()).context("making the group's folder")?;
    make_boxes(context, Some(group)).await?;
    tell_changed(context, Some(group)).await;
    Ok(())
}

/// Tells a daemon that is up to look at what was changed, of this group if it is known; one that is down reads it when it
/// starts.
pub(super) async fn tell_changed(context: &Context, group: Option<&Folder>) {
    tell(context, Request::Changed { group: group.cloned(), relaunch: false }).await;
}

/// As [`tell_changed`]; the group's live run is asked to leave, so that the next one has the new settings.
pub(super) async fn tell_to_relaunch(context: &Context, group: &Folder) {
    tell(context, Request::Changed { group: Some(group.clone()), relaunch: true }).await;
}

async fn tell(context: &Context, request: Request) {
    let told = match Client::connect(&context.root).await {
        Ok(mut client) => client.call(&request).await.map(drop),
        Err(NoDaemon::Down) => Ok(()),
        Err(mute) => Err(mute.into()),
    };
    if let Err(error) = told {
        out::tell(format!("the change is stored, but telling the daemon failed: {error:#}"));
    }
}

fn silent(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}
