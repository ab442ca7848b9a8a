//! What every adapter needs: lines in and out, events that wait until they are stored, orders handed on in order.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use channel_protocol::{
    Amend, Chat, Done, Down, Event, Fetch, Found, Hello, Hint, Lines, LookFor, MOST_OPEN, NotSent, Pair,
    Send, Start, State, Up, VERSION, line,
};
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};

/// How many orders are worked on at once.
const MOST_ORDERS: usize = 256;
/// How long what is being written may take at the end.
const LEAVE: Duration = Duration::from_secs(4);

/// What became of something that was sent or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The platform has it, under these ids; none where it was changed.
    Sent(Vec<String>),
    /// The platform certainly has nothing of it.
    NotSent(NotSent),
    /// Nobody knows.
    Unknown(String),
}

impl Outcome {
    fn done(self, r: u64) -> Done {
        let done = Done { r, ..Done::default() };
        match self {
            Self::Sent(ids) => Done { ids: Some(ids), ..done },
            Self::NotSent(not) => Done { not: Some(not), ..done },
            Self::Unknown(why) => Done { unknown: Some(why), ..done },
        }
    }

    /// What the platform never will take.
    #[must_use]
    pub fn refused(code: &str, text: impl Into<String>, hint: &str) -> Self {
        Self::NotSent(NotSent::Refused { code: code.into(), text: text.into(), hint: hint.into() })
    }
}

/// Whether the platform has what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    Has(Vec<String>),
    HasNot,
    CannotTell(String),
}

/// An account on a platform. Orders come at the same time; of one chat at most one `send` is open.
pub trait Adapter: std::marker::Send + Sync + 'static {
    /// Stays connected and tells what comes in, from after `hello` until the host is gone. An end before that is an error.
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended>;

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome>;

    fn look_for(&self, what: LookFor) -> BoxFuture<'_, Look> {
        let _ = what;
        Box::pin(async { Look::CannotTell("this platform can't be asked".into()) })
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        let _ = amend;
        Box::pin(async { Outcome::refused("unsupported", "this platform changes nothing that was sent", "") })
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        let _ = hint;
        Box::pin(async {})
    }

    /// What the person is told who pressed the button of an event.
    fn told(&self, event_key: String, text: String) -> BoxFuture<'_, ()> {
        let _ = (event_key, text);
        Box::pin(async {})
    }

    /// Returns the address of the chat with a person.
    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        let _ = user;
        Box::pin(async { Err("this platform opens no chats".into()) })
    }

    fn list_chats(&self) -> BoxFuture<'_, Vec<Chat>> {
        Box::pin(async { Vec::new() })
    }

    /// Fetches a file into the spool. Returns its place below the spool, or why there is none.
    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        let _ = what;
        Box::pin(async { Err("this platform has no files".into()) })
    }
}

/// Why an adapter ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host wants it, or is gone.
    Left,
    /// Something that a new start may mend.
    Failed(String),
}

/// The host is gone, or wants us to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host is gone")]
pub struct Gone;

/// The daemon, as an adapter sees it. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    /// Events that are not stored yet: who waits for it, and the place of each in the window.
    open: Mutex<HashMap<u64, (oneshot::Sender<()>, OwnedSemaphorePermit)>>,
    /// Presses whose answer may still come.
    presses: Mutex<std::collections::VecDeque<(u64, String)>>,
    window: Arc<Semaphore>,
}

impl Host {
    fn new(out: mpsc::Sender<Vec<u8>>) -> Self {
        let window = usize::try_from(MOST_OPEN).unwrap_or(usize::MAX);
        Self {
            shared: Arc::new(Shared {
                out,
                next: AtomicU64::new(1),
                open: Mutex::default(),
                presses: Mutex::default(),
                window: Arc::new(Semaphore::new(window)),
            }),
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn tell(&self, up: &Up) -> Result<(), Gone> {
        // A line that is too long is an event with a text of a megabyte; platforms have none.
        let Some(line) = line(up) else { return Ok(()) };
        self.shared.out.send(line).await.map_err(|_| Gone)
    }

    /// Says who we are, once the platform has let us in.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn hello(&self, hello: Hello) -> Result<(), Gone> {
        self.tell(&Up::Hello(Box::new(Hello { v: VERSION, ..hello }))).await
    }

    /// Says how the connection stands.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn state(&self, state: State) -> Result<(), Gone> {
        self.tell(&Up::State(state)).await
    }

    /// Shows a person how to link the account.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn pair(&self, pair: Pair) -> Result<(), Gone> {
        self.tell(&Up::Pair(pair)).await
    }

    /// Tells an event. Returns once its line is on its way, and a handle that ends once the host has stored it. Waits while
    /// 64 events are not stored.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn begin(&self, event: Event) -> Result<Stored, Gone> {
        let (key, press) = (event.key.clone(), event.kind == channel_protocol::EventKind::Press);
        self.open(|n| {
            if press {
                let mut presses = lock(&self.shared.presses);
                presses.push_back((n, key));
                while presses.len() > 256 {
                    presses.pop_front();
                }
            }
            Up::Event(Box::new(Event { n, ..event }))
        })
        .await
    }

    /// Tells an event, and returns once the host has stored it.
    ///
    /// # Errors
    /// The host is gone; the platform is to tell it again.
    pub async fn event(&self, event: Event) -> Result<(), Gone> {
        self.begin(event).await?.wait().await
    }

    /// Tells that a chat has a new address, and returns once the host has moved what it has of it.
    ///
    /// # Errors
    /// The host is gone; it is to be told again.
    pub async fn moved(&self, from: String, to: String) -> Result<(), Gone> {
        self.open(|n| Up::ChatMoved { n, from, to }).await?.wait().await
    }

    async fn open(&self, up: impl FnOnce(u64) -> Up) -> Result<Stored, Gone> {
        let place = Arc::clone(&self.shared.window).acquire_owned().await.map_err(|_| Gone)?;
        let n = self.shared.next.fetch_add(1, Ordering::SeqCst);
        let (stored, wait) = oneshot::channel();
        lock(&self.shared.open).insert(n, (stored, place));
        self.tell(&up(n)).await?;
        Ok(Stored(wait))
    }

    fn took(&self, n: u64) {
        if let Some((stored, _place)) = lock(&self.shared.open).remove(&n) {
            let _ = stored.send(());
        }
    }

    fn press(&self, n: u64) -> Option<String> {
        let mut presses = lock(&self.shared.presses);
        let at = presses.iter().position(|(of, _)| *of == n)?;
        presses.remove(at).map(|(_, key)| key)
    }

    /// Nobody waits any longer for what is not stored.
    fn close(&self) {
        self.shared.window.close();
        lock(&self.shared.open).clear();
    }
}

/// An event that was told.
pub struct Stored(oneshot::Receiver<()>);

impl Stored {
    /// Returns once the host has stored it.
    ///
    /// # Errors
    /// The host is gone; the platform is to tell it again.
    pub async fn wait(self) -> Result<(), Gone> {
        self.0.await.map_err(|_| Gone)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an adapter on standard input and output until the host wants it to leave. `connect` is given the first line.
///
/// # Errors
/// What ended it before its time; the host starts it again.
pub async fn serve<A: Adapter>(
    connect: impl AsyncFnOnce(Start, Host) -> Result<Arc<A>, String>,
) -> Result<(), String> {
    run(tokio::io::stdin(), tokio::io::stdout(), connect).await
}

/// As [`serve`], on any pair of streams.
///
/// # Errors
/// As [`serve`].
pub async fn run<A: Adapter>(
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin + std::marker::Send + 'static,
    connect: impl AsyncFnOnce(Start, Host) -> Result<Arc<A>, String>,
) -> Result<(), String> {
    let mut lines = Lines::default();
    let start = match order(&mut input, &mut lines).await? {
        Some(Down::Start(start)) => *start,
        Some(_) => return Err("the first line is no `start`".into()),
        None => return Ok(()),
    };
    if start.v != VERSION {
        return Err(format!(
            "the host speaks version {} of the protocol, and this adapter {VERSION}",
            start.v
        ));
    }
    let (out, mut to_write) = mpsc::channel::<Vec<u8>>(64);
    let writer = tokio::spawn(async move {
        while let Some(line) = to_write.recv().await {
            if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
                return;
            }
        }
    });
    let host = Host::new(out);
    let ended = tokio::select! {
        connected = connect(start, host.clone()) => match connected {
            Ok(adapter) => attend(&mut input, &mut lines, &host, adapter).await,
            Err(why) => Err(why),
        },
        () = left_early(&host) => Ok(()),
    };
    host.close();
    drop(host);
    let _ = tokio::time::timeout(LEAVE, writer).await;
    ended
}

/// The output is closed: nobody reads us any more.
async fn left_early(host: &Host) {
    host.shared.out.closed().await;
}

/// Hands orders on until the host wants us to leave, or the adapter ends.
async fn attend<A: Adapter>(
    input: &mut (impl AsyncRead + Unpin),
    lines: &mut Lines,
    host: &Host,
    adapter: Arc<A>,
) -> Result<(), String> {
    let mut running = tokio::spawn(Arc::clone(&adapter).run(host.clone()));
    let orders = Arc::new(Semaphore::new(MOST_ORDERS));
    let left = loop {
        let order = tokio::select! {
            order = order(input, lines) => order?,
            ended = &mut running => match ended {
                Ok(Ended::Left) => break Ok(()),
                Ok(Ended::Failed(why)) => return Err(why),
                Err(_) => return Err("our own fault: the adapter panicked".into()),
            },
        };
        match order {
            None | Some(Down::Stop {}) => break Ok(()),
            Some(Down::Took { n }) => host.took(n),
            Some(Down::Ping { r }) => host.tell(&Up::Pong { r }).await.map_err(|gone| gone.to_string())?,
            Some(Down::Start(_) | Down::Unknown) => {}
            Some(order) => {
                let Ok(place) = Arc::clone(&orders).acquire_owned().await else { break Ok(()) };
                let (host, adapter) = (host.clone(), Arc::clone(&adapter));
                tokio::spawn(async move {
                    if let Some(answer) = perform(&*adapter, &host, order).await {
                        let _ = host.tell(&answer).await;
                    }
                    drop(place);
                });
            }
        }
    };
    // What is being written is finished, and nothing new comes in.
    running.abort();
    let all = u32::try_from(MOST_ORDERS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LEAVE, orders.acquire_many(all)).await;
    left
}

/// Does what an order says. `None`: it has no answer.
async fn perform<A: Adapter>(adapter: &A, host: &Host, order: Down) -> Option<Up> {
    Some(match order {
        Down::Send(send) => {
            let r = send.r;
            Up::Done(adapter.send(*send).await.done(r))
        }
        Down::Amend(amend) => {
            let r = amend.r;
            Up::Done(adapter.amend(amend).await.done(r))
        }
        Down::LookFor(what) => {
            let found = Found { r: what.r, ..Found::default() };
            Up::Found(match adapter.look_for(what).await {
                Look::Has(ids) => Found { ids: Some(ids), ..found },
                Look::HasNot => Found { not_sent: true, ..found },
                Look::CannotTell(why) => Found { cannot_tell: Some(why), ..found },
            })
        }
        Down::OpenDm { r, user } => match adapter.open_dm(user).await {
            Ok(chat) => Up::ChatOf { r, chat: Some(chat), why: String::new() },
            Err(why) => Up::ChatOf { r, chat: None, why },
        },
        Down::ListChats { r } => Up::Chats { r, chats: adapter.list_chats().await },
        Down::Fetch(what) => {
            let r = what.r;
            match adapter.fetch(what).await {
                Ok(file) => Up::Fetched { r, file: Some(file), problem: None },
                Err(problem) => Up::Fetched { r, file: None, problem: Some(problem) },
            }
        }
        Down::Show(hint) => {
            adapter.show(hint).await;
            return None;
        }
        Down::Told { n, text } => {
            if let Some(key) = host.press(n) {
                adapter.told(key, text).await;
            }
            return None;
        }
        Down::Start(_) | Down::Took { .. } | Down::Ping { .. } | Down::Stop {} | Down::Unknown => {
            return None;
        }
    })
}

/// Returns the host's next line; `None`: it has no more to say. A line that can't be read is passed over.
async fn order(input: &mut (impl AsyncRead + Unpin), lines: &mut Lines) -> Result<Option<Down>, String> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match lines.next_line() {
            Some(Ok(order)) => return Ok(Some(order)),
            Some(Err(channel_protocol::LineError::Unreadable(why))) => {
                eprintln!("a line of the host's: {why}")
            }
            Some(Err(error)) => return Err(error.to_string()),
            None => match input.read(&mut buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(read) => lines.push(&buffer[..read]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use channel_protocol::{EventKind, From};
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines as Read};

    use super::*;

    struct Echo;

    impl Adapter for Echo {
        fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
            Box::pin(async move {
                for n in 0..100 {
                    let from = From { id: n.to_string(), ..From::default() };
                    let kind = if n == 0 { EventKind::Press } else { EventKind::Message };
                    let event = Event { key: format!("k{n}"), kind, from, ..Event::default() };
                    if host.begin(event).await.is_err() {
                        return Ended::Left;
                    }
                }
                std::future::pending().await
            })
        }

        fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
            Box::pin(async move {
                match send.text.as_str() {
                    "hang" => std::future::pending().await,
                    "no" => Outcome::NotSent(NotSent::Offline),
                    _ => Outcome::Sent(vec![send.key]),
                }
            })
        }
    }

    struct Daemon {
        to: DuplexStream,
        from: Read<BufReader<DuplexStream>>,
        adapter: tokio::task::JoinHandle<Result<(), String>>,
    }

    impl Daemon {
        async fn new() -> Self {
            let (to, input) = tokio::io::duplex(1 << 16);
            let (output, from) = tokio::io::duplex(1 << 16);
            let adapter = tokio::spawn(run(input, output, async |_, host: Host| {
                host.hello(Hello::default()).await.map_err(|gone| gone.to_string())?;
                Ok(Arc::new(Echo))
            }));
            let mut this = Self { to, from: BufReader::new(from).lines(), adapter };
            this.say(r#"{"op":"start","v":1,"instance":"echo"}"#).await;
            assert!(matches!(this.next().await, Up::Hello(hello) if hello.v == 1));
            this
        }

        async fn say(&mut self, line: &str) {
            self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        async fn next(&mut self) -> Up {
            serde_json::from_str(&self.from.next_line().await.unwrap().unwrap()).unwrap()
        }
    }

    #[tokio::test]
    async fn events_wait_for_a_place_in_the_window_and_orders_are_answered_meanwhile() {
        let mut daemon = Daemon::new().await;
        for n in 1..=MOST_OPEN {
            assert!(matches!(daemon.next().await, Up::Event(event) if event.n == n));
        }
        daemon.say(r#"{"op":"send","r":7,"key":"a.1","chat":"x:1","text":"hang"}"#).await;
        daemon.say(r#"{"op":"send","r":8,"key":"a.2","chat":"x:2","text":"yes"}"#).await;
        let Up::Done(done) = daemon.next().await else { panic!("no event comes before one is stored") };
        assert_eq!((done.r, done.ids), (8, Some(vec!["a.2".into()])));
        daemon.say("what is this").await;
        daemon.say(r#"{"op":"levitate"}"#).await;
        daemon.say(r#"{"op":"ping","r":9}"#).await;
        assert_eq!(daemon.next().await, Up::Pong { r: 9 });
        daemon.say(r#"{"op":"send","r":10,"key":"a.3","chat":"x:2","text":"no"}"#).await;
        assert!(matches!(daemon.next().await, Up::Done(Done { r: 10, not: Some(NotSent::Offline), .. })));
    }

    #[tokio::test]
    async fn the_end_of_the_input_ends_it_whatever_is_open() {
        let mut daemon = Daemon::new().await;
        assert!(matches!(daemon.next().await, Up::Event(_)));
        daemon.say(r#"{"op":"stop"}"#).await;
        assert_eq!(daemon.adapter.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn another_version_or_no_start_is_refused() {
        for (line, why) in
            [(r#"{"op":"start","v":2}"#, "version 2"), (r#"{"op":"ping","r":1}"#, "no `start`")]
        {
            let (mut to, input) = tokio::io::duplex(1024);
            to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let ended = run(input, tokio::io::sink(), async |_, _| Ok(Arc::new(Echo))).await;
            assert!(ended.unwrap_err().contains(why));
        }
    }
}
