//! The daemon's socket, `data/g2.sock`: messages of local chats come in by it, what is said to them goes out, and the
//! command line asks. One JSON object a line, both ways; only this user and root are heard.

use std::{path::Path, sync::Arc};

use ipc_handlers::{Time, words};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Keeping, Machine, Problems, keeper};
use crate::{
    channels::local::{self, Local},
    domain::{
        heard::approvals,
        host::{errors::chain, problems::Finding},
        states::SandboxName,
    },
    ops::{self, Answer, By, Op, OpError},
    store::Store,
    system::clock,
};

mod lines;
use lines::{Line, Lines};

/// The longest line: the longest message with each byte escaped, and what stands around it.
const LONGEST_LINE: usize = 6 * local::LONGEST_TEXT + (64 << 10);
/// What a client may ask of the daemon; what a terminal asks of its chats is [`local::Ask`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Whether anybody answers.
    Ping,
    /// How the daemon is.
    Status,
    /// Do an operation: `{"name": NAME, "args": {…}}`, one of those that `g2 ops schema` lists.
    Op {
        #[serde(rename = "do")]
        asked: serde_json::Value,
        /// Who called `sudo` to ask; only heard of root.
        #[serde(default)]
        sudo_user: Option<String>,
    },
}

/// What a client is told by the daemon; what a terminal is told of its chats is [`local::Told`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Response {
    Status(Box<Status>),
    Done,
    /// The operation is done.
    OpDone(Answer),
    /// The operation is not done, unless its code is `unknown`.
    OpRefused {
        error: OpError,
    },
    Error {
        message: String,
    },
}

words! {
    /// Whether something needs a person.
    pub enum Health: "health" {
        Healthy = "healthy",
        Degraded = "degraded",
    }
}

/// How the daemon is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub state: Health,
    pub instance: String,
    pub pid: u32,
    pub version: String,
    pub since: String,
    pub groups: usize,
    /// Runs under way.
    pub running: usize,
    /// Conversations (a group, a chat and a thread of it) in which something waits to be given to an agent.
    pub waiting: usize,
    pub outbox_pending: i64,
    pub dead: i64,
    pub stale_recoveries_24h: i64,
    /// Questions that wait for an answer; see `g2 approvals list`.
    #[serde(default)]
    pub approvals_pending: usize,
    /// `docker` or `process`.
    pub sandbox: SandboxName,
    /// Why nothing is launched, while that is so; one of the problems.
    pub obstacle: Option<String>,
    /// What is held: groups, and files as `GROUP/BOX/NAME`.
    #[serde(default)]
    pub held: Vec<String>,
    pub problems: Vec<String>,
    /// The same, with what each is called, what it is about and how to mend it.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// What clients of the socket ask.
pub struct Desk {
    pub store: Store,
    /// What changes something.
    pub keeping: Arc<Keeping>,
    pub problems: Arc<Problems>,
    pub machine: Arc<Machine>,
    pub local: Local,
    /// This root's id.
    pub instance: String,
    /// When the daemon was started.
    pub since: Time,
    pub stop: CancellationToken,
}

/// Listens until the daemon stops.
pub async fn run(desk: Arc<Desk>, listener: UnixListener) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            () = desk.stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    clients.spawn(serve(Arc::clone(&desk), stream));
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "a client could not be taken");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
    // Clients that wait for an answer see the end of the stream.
    clients.shutdown().await;
}

/// Binds the socket, readable by this user only. Whoever holds the root's lock owns it, so an old one is removed.
///
/// # Errors
/// The operating system's, with the path in the context.
pub fn bind(path: &Path) -> std::io::Result<UnixListener> {
    crate::system::socket::remove_stale_socket(path)?;
    let listener = UnixListener::bind(crate::system::socket::SocketName::of(path)?.path())?;
    crate::root::make_private(path)?;
    Ok(listener)
}

struct Client {
    desk: Arc<Desk>,
    out: OwnedWriteHalf,
    chats: local::Session,
    /// The user at the other end.
    user: u32,
}

async fn serve(desk: Arc<Desk>, stream: UnixStream) {
    let us = rustix::process::geteuid().as_raw();
    let user = match stream.peer_cred() {
        Ok(peer) if peer.uid() == us || peer.uid() == 0 => peer.uid(),
        Ok(peer) => return tracing::warn!(uid = peer.uid(), "a client of another user was turned away"),
        Err(error) => {
            return tracing::warn!(error = %chain(&error), "a client without credentials was turned away");
        }
    };
    let (input, out) = stream.into_split();
    let chats = local::Session::new(&desk.local, &desk.store);
    let client = Client { desk, out, chats, user };
    let _ = client.run(Lines::new(input, LONGEST_LINE)).await;
}

/// Reads a line of a client: what it asks of its chats, or of the daemon.
fn read(line: &str) -> Result<Asked, serde_json::Error> {
    #[derive(Deserialize)]
    struct Op {
        op: String,
    }
    let Op { op } = serde_json::from_str(line)?;
    match op.as_str() {
        "send" | "listen" | "rest" | "click" => serde_json::from_str(line).map(Asked::OfChats),
        _ => serde_json::from_str(line).map(Asked::OfDaemon),
    }
}

enum Asked {
    OfChats(local::Ask),
    OfDaemon(Request),
}

impl Client {
    async fn run(mut self, mut lines: Lines<OwnedReadHalf>) -> std::io::Result<()> {
        let mut feed = self.desk.store.follow().await.map_err(std::io::Error::other)?;
        loop {
            tokio::select! {
                line = lines.next() => {
                    let no_request = |why: String| Response::Error { message: format!("not a request: {why}") };
                    match line? {
                        None => return Ok(()),
                        Some(Line::Text(line)) => match read(&line) {
                            Ok(Asked::OfChats(ask)) => {
                                let told = self.chats.handle(ask).await;
                                self.tell_all(told).await?;
                            }
                            Ok(Asked::OfDaemon(request)) => {
                                let answer = self.handle(request).await;
                                self.tell(&answer).await?;
                            }
                            Err(error) => self.tell(&no_request(error.to_string())).await?,
                        },
                        Some(Line::Bytes) => self.tell(&no_request("it is no UTF-8".into())).await?,
                        Some(Line::TooLong) => {
                            let message = format!("a line has more than {LONGEST_LINE} bytes");
                            return self.tell(&Response::Error { message }).await;
                        }
                    }
                }
                told = self.chats.typing() => self.tell(&told).await?,
                news = feed.next() => {
                    let told = self.chats.read(&news).await;
                    self.tell_all(told).await?;
                }
            }
        }
    }

    async fn tell_all(&mut self, told: Vec<local::Told>) -> std::io::Result<()> {
        for told in told {
            self.tell(&told).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.out.write_all(&line).await
    }

    async fn handle(&mut self, request: Request) -> Response {
        match request {
            Request::Ping => Response::Done,
            Request::Status => Response::Status(Box::new(status(&self.desk).await)),
            Request::Op { asked, sudo_user } => {
                let by = By::owner(self.user, sudo_user);
                let done = match Op::read(asked) {
                    Ok(op) => keeper::perform(&self.desk.keeping, by, op).await,
                    Err(wrong) => Err(wrong),
                };
                match done {
                    Ok(answer) => Response::OpDone(answer),
                    Err(error) => Response::OpRefused { error },
                }
            }
        }
    }
}

/// Returns how the daemon is.
async fn status(desk: &Desk) -> Status {
    let findings = desk.problems.look().await;
    let mut problems: Vec<String> = findings.iter().map(|finding| finding.text.clone()).collect();
    let mut count = |what: &str, value: Result<i64, crate::store::StoreError>| match value {
        Ok(n) => n,
        Err(error) => {
            problems.push(format!("{what} can't be read: {}", chain(&error)));
            0
        }
    };
    let day = clock::now().plus_ms(-24 * 3_600_000);
    let outbox_pending = count("the outbox", desk.store.outbox_pending().await);
    let dead = count("the receipts", desk.store.dead_commands());
    let stale = count("the runs", desk.store.stale_recoveries(day).map(|(count, _)| count));
    let open = desk.store.approvals(false).await.unwrap_or_default();
    let approvals_pending =
        open.iter().filter(|approval| approval.state == approvals::State::Pending).count();
    Status {
        state: if problems.is_empty() { Health::Healthy } else { Health::Degraded },
        instance: desk.instance.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        since: desk.since.to_string(),
        groups: desk.store.groups().await.map_or(0, |g| g.len()),
        running: desk.store.active_runs().map_or(0, |r| r.len()),
        waiting: desk.store.waiting_lanes().map_or(0, |w| w.len()),
        outbox_pending,
        dead,
        stale_recoveries_24h: stale,
        approvals_pending,
        sandbox: desk.problems.sandbox,
        obstacle: desk.machine.obstacle().map(|obstacle| obstacle.to_string()),
        held: desk.store.holds().unwrap_or_default().iter().map(ops::ipc::shown).collect(),
        problems,
        findings,
    }
}
