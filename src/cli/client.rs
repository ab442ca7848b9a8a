//! The other end of the daemon's socket.

use std::path::Path;

use anyhow::{Context as _, bail};
use ipc_handlers::Folder;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{Context, Failure};
use crate::{
    app::socket_path,
    loops::control::{Request, Response},
};

/// A connection to the daemon.
pub(super) struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

impl Client {
    /// Connects; `None` when no daemon answers there.
    pub(super) async fn connect(root: &Path) -> Option<Self> {
        let (input, out) = UnixStream::connect(socket_path(root)).await.ok()?.into_split();
        Some(Self { lines: BufReader::new(input).lines(), out })
    }

    /// Connects, or fails with the exit code that says that a daemon is needed.
    pub(super) async fn needed(context: &Context) -> Result<Self, Failure> {
        Self::connect(&context.root).await.ok_or_else(|| Failure::NotRunning(context.root.clone()))
    }

    pub(super) async fn ask(&mut self, request: &Request) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.out.write_all(&line).await.context("asking the daemon")
    }

    /// Waits for what the daemon says next. Safe to cancel.
    pub(super) async fn hear(&mut self) -> anyhow::Result<Response> {
        match self.lines.next_line().await.context("listening to the daemon")? {
            Some(line) => {
                serde_json::from_str(&line).context("understanding the daemon; is it of the same version?")
            }
            None => bail!("the daemon has stopped"),
        }
    }

    /// Asks, and waits for an answer that is none of what is told meanwhile.
    pub(super) async fn call(&mut self, request: &Request) -> anyhow::Result<Response> {
        self.ask(request).await?;
        loop {
            match self.hear().await? {
                Response::Said(_) | Response::Typing { .. } => {}
                Response::Error { message } => bail!(message),
                answer => return Ok(answer),
            }
        }
    }
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
    if let Some(mut client) = Client::connect(&context.root).await
        && let Err(error) = client.call(&request).await
    {
        eprintln!("g2: the change is stored, but telling the daemon failed: {error:#}");
    }
}
