//! The daemon's socket, `data/g2.sock`: messages of local chats come in by it, what is said to them goes out, and the
//! command line asks. One JSON object a line, both ways; only this user and root are heard, and of their programs none that the
//! daemon has shut in: the walls keep those away, and if a wall falls, they are known here.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use ipc_handlers::{Time, words};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::{
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Keeping, Machine, Problems, Sight, Sights, keeper, metrics, problems};
use crate::{
    channels::local::{self, Local},
    domain::{
        machine::loops::LoopState,
        problems::{Finding, sort_out},
        shown::{
            audit::Origin,
            errors::chain,
            metrics::{Latency, text as metrics_text},
        },
        states::SandboxName,
    },
    engine::passed,
    ops::{Answer, By, Op, OpError},
    store::Store,
    system::{
        leftovers::{Notes, Whose},
        panics::caught,
        process,
    },
};

mod crowd;
mod lines;
mod patience;
use crowd::Crowd;
use lines::{Line, Lines};

/// The longest line: the longest message with each byte escaped, and what stands around it.
const LONGEST_LINE: usize = 6 * local::LONGEST_TEXT + (64 << 10);
/// A client that takes nothing of what it is told for this long is let go of.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// What a client may ask of the daemon; what a terminal asks of its chats is [`local::Ask`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Whether anybody answers.
    Ping,
    /// How the daemon is.
    Status,
    /// What each run is doing.
    Runs,
    /// How each loop stands.
    Loops,
    /// Figures for Prometheus.
    Metrics,
    /// Stop the daemon in order, with its agents or without.
    Stop {
        #[serde(default)]
        agents: bool,
    },
    /// Do an operation: `{"name": NAME, "args": {…}}`, one of those that `g2 ops schema` lists.
    Op {
        #[serde(rename = "do")]
        asked: serde_json::Value,
        /// Who called `sudo` to ask; only heard of root.
        #[serde(default)]
        sudo_user: Option<String>,
        /// Whether `g2` itself asks, and no other program.
        #[serde(default)]
        command_line: bool,
    },
}

/// What a client is told by the daemon; what a terminal is told of its chats is [`local::Told`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Response {
    Status(Box<Status>),
    Runs {
        rows: Vec<Sight>,
    },
    Loops {
        #[serde(deserialize_with = "known_rows")]
        rows: Vec<LoopState>,
    },
    /// Figures in Prometheus's text format.
    Metrics {
        text: String,
    },
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

/// How the daemon is. A number that can't be read is `None`, and one of the problems says so.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub state: Health,
    pub instance: String,
    pub pid: u32,
    pub version: String,
    pub since: String,
    pub groups: Option<usize>,
    /// Runs under way.
    pub running: Option<usize>,
    /// Conversations (a group, a chat and a thread of it) in which something waits to be given to an agent.
    pub waiting: Option<usize>,
    pub outbox_pending: Option<i64>,
    pub dead: Option<i64>,
    pub stale_recoveries_24h: Option<i64>,
    /// Questions that wait for an answer; see `g2 approvals list`.
    #[serde(default)]
    pub approvals_pending: Option<usize>,
    /// `docker` or `process`.
    pub sandbox: SandboxName,
    /// The address of the operator's page; `None`: it is off, or can't be served.
    #[serde(default)]
    pub page: Option<String>,
    /// Why nothing is launched, while that is so; one of the problems.
    pub obstacle: Option<String>,
    /// What is held: groups, and files as `GROUP/BOX/NAME`.
    #[serde(default)]
    pub held: Option<Vec<String>>,
    /// How each loop stands, as far as this program knows them: a newer daemon may have others.
    #[serde(default, deserialize_with = "known_ones")]
    pub loops: Option<Vec<LoopState>>,
    pub problems: Vec<String>,
    /// The same, with what each is called, what it is about and how to mend it.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// Reads the loops that this program knows.
fn known_ones<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Vec<LoopState>>, D::Error> {
    let told = Option::<Vec<serde_json::Value>>::deserialize(from)?;
    Ok(told.map(|all| all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()))
}

fn known_rows<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<LoopState>, D::Error> {
    known_ones(from).map(Option::unwrap_or_default)
}

/// How the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Containers that outlive it go on.
    Alone,
    /// Each run finishes its turn and leaves first.
    WithAgents,
}

/// Where the operator's page is served, once it is. Clones know the same.
#[derive(Clone, Default)]
pub struct PageAddress(Arc<OnceLock<String>>);

impl PageAddress {
    /// It is served there from now on.
    pub fn set(&self, address: String) {
        // It is served once in the life of a daemon.
        let _ = self.0.set(address);
    }

    fn get(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

/// What clients of the socket ask.
pub struct Desk {
    pub store: Store,
    /// What changes something.
    pub keeping: Arc<Keeping>,
    pub problems: Arc<Problems>,
    pub machine: Arc<Machine>,
    pub local: Local,
    pub sights: Arc<Sights>,
    pub page: PageAddress,
    /// A client asked for a stop.
    pub leave: watch::Sender<Option<Leave>>,
    /// This root's id.
    pub instance: String,
    /// Who owns the runs of this daemon, as their rows have it.
    pub owner: String,
    /// When the daemon was started.
    pub since: Time,
    /// Where the programs that are shut in are noted.
    pub notes: PathBuf,
    /// How long commands took.
    pub commands: Arc<Latency>,
    /// Nothing new is begun.
    pub closing: CancellationToken,
}

impl Desk {
    /// Does an operation for somebody. At the stop nothing new is begun.
    ///
    /// # Errors
    /// [`OpError`].
    pub async fn perform(&self, by: By, op: Op) -> Result<Answer, OpError> {
        if self.closing.is_cancelled() {
            return Err(OpError::refused(STOPPING).hint("try again when it is up"));
        }
        keeper::perform(&self.keeping, by, op).await
    }
}

/// The rest before it is read again what a terminal is to be told.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The rest after a client could not be taken, as when too many files are open.
const TAKE_AGAIN: Duration = Duration::from_millis(50);
/// How many clients that have connected by the stop are still heard.
const WAITING: usize = 128;
/// The answer to a request at the stop.
const STOPPING: &str = "the daemon is stopping, and nothing was done";
/// How long clients that are about to ask are answered at the stop.
const LAST_WORD: Duration = Duration::from_millis(100);
/// How long answers under way have then.
const LEAVING: Duration = Duration::from_secs(1);

/// Listens until the daemon stops. Operations under way are done then, and their clients told; nothing new is begun, and who
/// asks is told so.
pub async fn run(desk: Arc<Desk>, listener: UnixListener) {
    let mut clients = JoinSet::new();
    let mut crowd = Crowd::new(process::open_files());
    let closed = CancellationToken::new();
    loop {
        tokio::select! {
            () = desk.closing.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    while clients.try_join_next().is_some() {}
                    match crowd.has_room(clients.len(), desk.machine.world.now()) {
                        true => drop(clients.spawn(serve(Arc::clone(&desk), stream, closed.clone()))),
                        false => crowd.turn_away(stream),
                    }
                }
                Err(error) => {
                    crowd.failed(&error, desk.machine.world.now());
                    tokio::time::sleep(TAKE_AGAIN).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
    for _ in 0..WAITING {
        let Some(Ok((stream, _))) = listener.accept().now_or_never() else { break };
        clients.spawn(serve(Arc::clone(&desk), stream, closed.clone()));
    }
    // A client that comes from here on finds nobody, and waits for the lock.
    drop(listener);
    keeper::all_done(&desk.keeping).await;
    while clients.try_join_next().is_some() {}
    if !clients.is_empty() {
        tokio::time::sleep(LAST_WORD).await;
    }
    closed.cancel();
    let answered = async { while clients.join_next().await.is_some() {} };
    let _late = tokio::time::timeout(LEAVING, answered).await;
    // Clients that wait for an answer see the end of the stream.
    clients.shutdown().await;
}

/// Binds the socket, readable by this user only. The holder of the root's lock owns it, so an old one is removed.
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

/// Serves a client to its end. A fault of ours over what it asks closes its connection, and no other.
async fn serve(desk: Arc<Desk>, stream: UnixStream, closed: CancellationToken) {
    if let Err(fault) = caught(hear(desk, stream, closed)).await {
        tracing::error!(fault = %chain(&fault), "our own fault: work for a client failed; its connection is closed");
    }
}

async fn hear(desk: Arc<Desk>, stream: UnixStream, closed: CancellationToken) {
    let us = rustix::process::geteuid().as_raw();
    let user = match stream.peer_cred() {
        Ok(peer) if peer.uid() == us || peer.uid() == 0 => peer.uid(),
        Ok(peer) => return tracing::warn!(uid = peer.uid(), "a client of another user was turned away"),
        Err(error) => {
            return tracing::warn!(error = %chain(&error), "a client without credentials was turned away");
        }
    };
    let asks = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(Pid::from_raw);
    let (input, out) = stream.into_split();
    let chats = local::Session::new(desk.machine.world.clone(), &desk.local, &desk.store);
    let mut client = Client { desk, out, chats, user };
    let mut lines = Lines::new(input, LONGEST_LINE);
    // One without a number is in a container that this daemon was not started in, or this daemon is in one.
    // Where this daemon is no root, root is none of its programs.
    let may_be_ours = user == us || us == 0;
    if let Some(pid) = asks.filter(|_| may_be_ours)
        && let Some(message) = no_client(&client.desk.notes, pid)
    {
        tracing::warn!(pid = pid.as_raw_nonzero(), "a client was turned away: {message}");
        // Who finds the connection closed before it has asked reads no answer. Nothing is kept for one that goes.
        let _ = tokio::time::timeout(LONGEST_SILENCE, lines.next()).await;
        let _ = client.tell(&Response::Error { message: message.into() }).await;
        return;
    }
    // Otherwise it has gone.
    if let Err(error) = client.run(lines, closed).await
        && error.kind() == std::io::ErrorKind::TimedOut
    {
        tracing::info!("a client that took nothing of what it was told was let go of");
    }
}

/// Returns why a program is not heard.
fn no_client(notes: &Path, pid: Pid) -> Option<&'static str> {
    match Notes(notes).has(pid) {
        Whose::Nobodys => None,
        Whose::Noted => Some("adapters and hooks may not ask the daemon for anything; nothing was done"),
        Whose::Gone => Some(
            "the program that asked has ended, so nobody knows whose it was; nothing was done. Read the answer before you end",
        ),
        Whose::Unknown => Some(
            "the program that asked can't be looked at, as when too many files are open; nothing was done. Try again",
        ),
    }
}

/// Reads a line of a client: what it asks of its chats, or of the daemon.
fn read(line: &str) -> Result<Asked, NoRequest> {
    #[derive(Deserialize)]
    struct Op {
        op: String,
    }
    if !line.trim_start().starts_with('{') {
        return Err(NoRequest::NoObject);
    }
    let Op { op } = serde_json::from_str(line)?;
    Ok(match op.as_str() {
        "send" | "listen" | "rest" | "click" => Asked::OfChats(serde_json::from_str(line)?),
        _ => Asked::OfDaemon(serde_json::from_str(line)?),
    })
}

/// Why a line is no request.
#[derive(Debug, thiserror::Error)]
enum NoRequest {
    #[error("a request is one JSON object on a line, with a field `op`")]
    NoObject,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

enum Asked {
    OfChats(local::Ask),
    OfDaemon(Request),
}

impl Client {
    async fn run(
        mut self,
        mut lines: Lines<OwnedReadHalf>,
        closed: CancellationToken,
    ) -> std::io::Result<()> {
        // A client that can't be told of chats now may ask how the daemon is.
        let mut feed = self.desk.store.follow_new();
        // When it is read again what the client is to be told, where that failed.
        let mut again: Option<Instant> = None;
        loop {
            tokio::select! {
                () = closed.cancelled() => return Ok(()),
                () = passed(again), if again.is_some() => {}
                line = lines.next() => {
                    let no_request = |why: String| Response::Error { message: format!("not a request: {why}") };
                    match line? {
                        None => return Ok(()),
                        Some(Line::Text(line)) => match read(&line) {
                            Ok(Asked::OfChats(_)) if self.desk.closing.is_cancelled() => {
                                let message = format!("{STOPPING}; try again when it is up");
                                self.tell(&local::Told::Error { code: local::Fault::Failed, message }).await?;
                            }
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
                told = self.chats.typing() => self.tell_until(&closed, vec![told]).await?,
                news = feed.next() => self.chats.note(&news),
            }
            loop {
                let piece = match self.chats.piece().await {
                    Ok(piece) => piece,
                    Err(error) => {
                        if again.is_none() {
                            tracing::warn!(error = %chain(&error), "what a terminal is to be told can't be read yet; it is read again");
                        }
                        again = Some(self.desk.machine.world.monotonic() + READ_AGAIN);
                        break;
                    }
                };
                again = None;
                if piece.is_empty() {
                    break;
                }
                self.tell_until(&closed, piece).await?;
                if closed.is_cancelled() {
                    return Ok(());
                }
            }
        }
    }

    /// Tells what nobody asked for now. The stop does not wait for a client that does not read.
    async fn tell_until(
        &mut self,
        closed: &CancellationToken,
        told: Vec<local::Told>,
    ) -> std::io::Result<()> {
        tokio::select! {
            () = closed.cancelled() => Ok(()),
            told = self.tell_all(told) => told,
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
        patience::write(&mut self.out, &line, LONGEST_SILENCE).await
    }

    async fn handle(&mut self, request: Request) -> Response {
        match request {
            Request::Ping => Response::Done,
            Request::Runs => Response::Runs { rows: self.desk.sights.all() },
            Request::Loops => Response::Loops { rows: self.desk.machine.loops.states() },
            Request::Stop { agents } => {
                tracing::info!(uid = self.user, agents, "asked to stop");
                // A daemon that waits for no word any more is stopping.
                let _ = self.desk.leave.send(Some(if agents { Leave::WithAgents } else { Leave::Alone }));
                Response::Done
            }
            Request::Metrics => match metrics(&self.desk).await {
                Ok(text) => Response::Metrics { text },
                Err(error) => Response::Error { message: chain(&error) },
            },
            Request::Status => Response::Status(Box::new(status(&self.desk).await)),
            Request::Op { asked, sudo_user, command_line } => {
                let from = if command_line { Origin::CommandLine } else { Origin::Program };
                let by = By::owner(self.user, sudo_user, from);
                let done = match Op::read(asked) {
                    Ok(op) => self.desk.perform(by, op).await,
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

/// Returns the daemon's figures in Prometheus's text format.
///
/// # Errors
/// The store's.
pub async fn metrics(desk: &Desk) -> Result<String, crate::store::StoreError> {
    let live = metrics::Live {
        since: desk.since,
        commits: desk.store.commit_times(),
        commands: desk.commands.so_far(),
        findings: &desk.problems.look().await,
        loops: &desk.machine.loops.states(),
    };
    let families =
        metrics::gather(&desk.store, &desk.problems.root, Some(&live), desk.machine.world.now()).await?;
    Ok(metrics_text(&families))
}

/// Returns how the daemon is.
async fn status(desk: &Desk) -> Status {
    let mut findings = desk.problems.look().await;
    let (counts, unread) = problems::count(&desk.store, desk.machine.world.now()).await;
    // The look may have been just in time.
    for finding in sort_out(unread) {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    let counting = findings.iter().filter(|finding| !finding.noted);
    let problems: Vec<String> = counting.map(|finding| finding.text.clone()).collect();
    Status {
        state: if problems.is_empty() { Health::Healthy } else { Health::Degraded },
        instance: desk.instance.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        since: desk.since.to_string(),
        groups: counts.groups,
        running: counts.running,
        waiting: counts.waiting,
        outbox_pending: counts.outbox_pending,
        dead: counts.dead,
        stale_recoveries_24h: counts.stale_recoveries_24h,
        approvals_pending: counts.approvals_pending,
        sandbox: desk.problems.sandbox,
        page: desk.page.get(),
        obstacle: desk.machine.obstacle().map(|obstacle| obstacle.to_string()),
        held: counts.held,
        loops: Some(desk.machine.loops.states()),
        problems,
        findings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::machine::loops::LoopName;

    #[test]
    fn the_status_of_a_newer_daemon_is_understood_though_it_has_a_loop_that_is_not_known_here() {
        let mut known = serde_json::to_value(LoopState::new(LoopName::Deliver)).unwrap();
        let of_deliver = known.clone();
        known["loop"] = "tides".into();
        let told = serde_json::json!({
            "state": "healthy", "instance": "i", "pid": 1, "version": "9.0.0", "since": "", "groups": 1, "running": 0,
            "waiting": 0, "outbox_pending": 0, "dead": 0, "stale_recoveries_24h": 0, "sandbox": "docker",
            "obstacle": null, "loops": [known, of_deliver], "problems": [],
        });
        let status: Status = serde_json::from_value(told).unwrap();
        let names: Vec<_> = status.loops.unwrap().into_iter().map(|state| state.name).collect();
        assert_eq!(names, [LoopName::Deliver]);
    }
}
