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
    sync::broadcast,
    task::JoinSet,
};

use super::{Host, keeper};
use crate::{
    clock,
    domain::{
        approvals, feed::EventKind, problems::Finding, rows::Delivery, states::SandboxName, typing::Signal,
    },
    ops::{self, Answer, By, Op, OpError},
    store::{self, Heard, News},
};

mod answers;
mod incoming;
mod lines;
pub use answers::lay_out;
pub use incoming::Incoming;
use lines::{Line, Lines};

/// The longest line: the longest message with each byte escaped, and what stands around it.
const LONGEST_LINE: usize = 6 * incoming::LONGEST_TEXT + (64 << 10);
/// What a client may ask.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// A message in.
    Send(Box<Incoming>),
    /// From now on tell what is said to this chat.
    Listen {
        chat: String,
        /// And whether an agent works for it.
        #[serde(default)]
        typing: bool,
        /// And what people say there, with why no agent was woken by it.
        #[serde(default)]
        people: bool,
    },
    /// Tell once when everything that came in for this chat has been dealt with.
    Rest { chat: String },
    /// Whether anybody answers.
    Ping,
    /// How the daemon is.
    Status,
    /// A button was pressed: `press` is what came with it.
    Click { press: String, sender: String },
    /// Do an operation: `{"name": NAME, "args": {…}}`, one of those that `g2 ops schema` lists.
    Op {
        #[serde(rename = "do")]
        asked: serde_json::Value,
        /// Who called `sudo` to ask; only heard of root.
        #[serde(default)]
        sudo_user: Option<String>,
    },
}

/// What a client is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Response {
    Accepted {
        seq: i64,
        wired: usize,
        /// What else became of it: it answered a question, or raised one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// What to tell whoever pressed a button, and whether it did anything.
    Answered {
        done: bool,
        says: String,
    },
    Said(Delivery),
    /// A message of somebody, once it is judged. Only for those who asked for it. Their own messages are among them.
    Heard {
        seq: i64,
        name: String,
        text: String,
        /// The text goes on.
        cut: bool,
        /// Why no agent was woken by it; absent: one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asleep: Option<String>,
    },
    /// Whether an agent works for the chat (in this thread; empty: none): said again every 4 s while it does. Only for
    /// those who asked for it.
    Typing {
        thread: String,
        on: bool,
    },
    Rest,
    Listening,
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

/// Listens until the daemon stops.
pub async fn run(host: Arc<Host>, listener: UnixListener, since: Time) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            () = host.stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    clients.spawn(serve(Arc::clone(&host), stream, since));
                }
                Err(error) => {
                    tracing::warn!(%error, "a client could not be taken");
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
    crate::root::remove_stale_socket(path)?;
    let listener = UnixListener::bind(crate::root::SocketName::of(path)?.path())?;
    crate::root::make_private(path)?;
    Ok(listener)
}

struct Client {
    host: Arc<Host>,
    out: OwnedWriteHalf,
    /// The chat that is listened to, and the last outbox row that was told.
    listening: Option<(String, i64)>,
    typing: broadcast::Receiver<Signal>,
    /// The chat of which it is told whether an agent works for it.
    watching: Option<String>,
    resting: Option<String>,
    /// The chat whose people are listened to, and the last message that was told.
    people: Option<(String, i64)>,
    since: Time,
    /// The user at the other end.
    user: u32,
}

async fn serve(host: Arc<Host>, stream: UnixStream, since: Time) {
    let us = rustix::process::geteuid().as_raw();
    let user = match stream.peer_cred() {
        Ok(peer) if peer.uid() == us || peer.uid() == 0 => peer.uid(),
        Ok(peer) => return tracing::warn!(uid = peer.uid(), "a client of another user was turned away"),
        Err(error) => return tracing::warn!(%error, "a client without credentials was turned away"),
    };
    let (input, out) = stream.into_split();
    let typing = host.local.watch_typing();
    let client = Client {
        host,
        out,
        listening: None,
        typing,
        watching: None,
        resting: None,
        people: None,
        since,
        user,
    };
    let _ = client.run(Lines::new(input, LONGEST_LINE)).await;
}

impl Client {
    async fn run(mut self, mut lines: Lines<OwnedReadHalf>) -> std::io::Result<()> {
        let mut feed = self.host.store.follow().map_err(std::io::Error::other)?;
        loop {
            tokio::select! {
                line = lines.next() => {
                    let no_request = |why: String| Some(Response::Error { message: format!("not a request: {why}") });
                    let answer = match line? {
                        None => return Ok(()),
                        Some(Line::Text(line)) => match serde_json::from_str::<Request>(&line) {
                            Ok(request) => self.handle(request).await,
                            Err(error) => no_request(error.to_string()),
                        },
                        Some(Line::Bytes) => no_request("it is no UTF-8".into()),
                        Some(Line::TooLong) => {
                            let message = format!("a line has more than {LONGEST_LINE} bytes");
                            return self.tell(&Response::Error { message }).await;
                        }
                    };
                    if let Some(answer) = answer {
                        self.tell(&answer).await?;
                    }
                    self.check_rest().await?;
                }
                signal = self.typing.recv(), if self.watching.is_some() => {
                    // What was missed is said again.
                    if let Ok(Signal { place, on }) = signal && self.watching.as_ref() == Some(&place.chat_jid) {
                        self.tell(&Response::Typing { thread: place.thread, on }).await?;
                    }
                }
                news = feed.next() => {
                    self.tell_said(&news).await?;
                    self.hear_people(&news).await?;
                    if self.resting.as_ref().is_some_and(|chat| news.in_chat(chat)) {
                        self.check_rest().await?;
                    }
                }
            }
        }
    }

    async fn tell(&mut self, response: &Response) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(response)?;
        line.push(b'\n');
        self.out.write_all(&line).await
    }

    /// Tells what was said to its chat since.
    async fn tell_said(&mut self, news: &News) -> std::io::Result<()> {
        match &self.listening {
            Some((chat, _)) if news.in_chat(chat) && news.any(&[EventKind::Said]) => self.catch_up().await,
            Some(_) | None => Ok(()),
        }
    }

    async fn catch_up(&mut self) -> std::io::Result<()> {
        let Some((chat, last)) = self.listening.clone() else { return Ok(()) };
        for delivery in self.host.store.said_since(&chat, last).unwrap_or_default() {
            self.listening = Some((chat.clone(), delivery.id));
            self.tell(&Response::Said(delivery)).await?;
        }
        Ok(())
    }

    /// Tells what people have said since, as far as it is judged.
    async fn hear_people(&mut self, news: &News) -> std::io::Result<()> {
        let Some((chat, last)) = self.people.clone().filter(|(chat, _)| news.in_chat(chat)) else {
            return Ok(());
        };
        for Heard { seq, line, asleep } in self.host.store.heard_since(&chat, last, 100).unwrap_or_default() {
            self.people = Some((chat.clone(), seq));
            if let store::By::Person { name, .. } = line.by {
                self.tell(&Response::Heard { seq, name, text: line.text, cut: line.cut, asleep }).await?;
            }
        }
        Ok(())
    }

    async fn check_rest(&mut self) -> std::io::Result<()> {
        let Some(chat) = &self.resting else { return Ok(()) };
        if !self.host.store.chat_at_rest(chat).unwrap_or(false) {
            return Ok(());
        }
        self.resting = None;
        // What was said before the rest is told before it.
        self.catch_up().await?;
        self.tell(&Response::Rest).await
    }

    async fn handle(&mut self, request: Request) -> Option<Response> {
        match request {
            Request::Send(message) => Some(incoming::accept(&self.host, *message).await),
            Request::Listen { chat, typing, people } => {
                self.watching = typing.then(|| chat.clone());
                let newest =
                    people.then(|| self.host.store.newest_message(&chat).ok().flatten().unwrap_or_default());
                self.people = newest.map(|seq| (chat.clone(), seq));
                self.typing = self.host.local.watch_typing();
                // Rows that are still to be said have not been told to anybody.
                let last = self.host.store.last_sent(&chat).unwrap_or_default();
                self.listening = Some((chat, last));
                Some(Response::Listening)
            }
            Request::Rest { chat } => {
                self.resting = Some(chat);
                None
            }
            Request::Ping => Some(Response::Done),
            Request::Status => Some(Response::Status(Box::new(status(&self.host, self.since).await))),
            Request::Click { press, sender } => Some(answers::click(&self.host, &press, &sender).await),
            Request::Op { asked, sudo_user } => {
                let by = By::owner(self.user, sudo_user);
                let done = match Op::read(asked) {
                    Ok(op) => keeper::perform(&self.host, by, op).await,
                    Err(wrong) => Err(wrong),
                };
                Some(match done {
                    Ok(answer) => Response::OpDone(answer),
                    Err(error) => Response::OpRefused { error },
                })
            }
        }
    }
}

/// Returns how the daemon is.
pub async fn status(host: &Host, since: Time) -> Status {
    let findings = host.problems().await;
    let mut problems: Vec<String> = findings.iter().map(|finding| finding.text.clone()).collect();
    let mut count = |what: &str, value: Result<i64, crate::store::StoreError>| match value {
        Ok(n) => n,
        Err(error) => {
            problems.push(format!("{what} can't be read: {error}"));
            0
        }
    };
    let day = clock::now().plus_ms(-24 * 3_600_000);
    let outbox_pending = count("the outbox", host.store.outbox_pending());
    let dead = count("the receipts", host.store.dead_commands());
    let stale = count("the runs", host.store.stale_recoveries(day));
    let open = host.store.approvals(false).unwrap_or_default();
    let approvals_pending =
        open.iter().filter(|question| question.state == approvals::State::Pending).count();
    Status {
        state: if problems.is_empty() { Health::Healthy } else { Health::Degraded },
        instance: host.instance.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        since: since.to_string(),
        groups: host.store.groups().map_or(0, |g| g.len()),
        running: host.store.active_runs().map_or(0, |r| r.len()),
        waiting: host.store.waiting_lanes().map_or(0, |w| w.len()),
        outbox_pending,
        dead,
        stale_recoveries_24h: stale,
        approvals_pending,
        sandbox: host.sandbox.kind(),
        obstacle: host.obstacle().map(|obstacle| obstacle.to_string()),
        held: host.store.holds().unwrap_or_default().iter().map(ops::ipc::shown).collect(),
        problems,
        findings,
    }
}
