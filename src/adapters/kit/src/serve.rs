//! Runs an adapter on its lines: orders are handed on as they come, and answered.

use std::{sync::Arc, time::Duration};

use channel_protocol::{Chat, Down, Found, LONGEST_LINE, Lines, Response, Start, Up, VERSION};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Semaphore, mpsc},
};

use super::{Adapter, Ended, Host, Look};

/// How many orders are worked on at once.
const MOST_ORDERS: usize = 256;
/// How long what is being written may take at the end.
const LEAVE: Duration = Duration::from_secs(4);

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
        () = host.left() => Ok(()),
    };
    host.close();
    drop(host);
    let _ = tokio::time::timeout(LEAVE, writer).await;
    ended
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
        Down::ListChats { r } => match adapter.list_chats().await {
            Ok(chats) => Up::Chats { r, chats: in_a_line(chats), problem: None },
            Err(why) => Up::Chats { r, chats: Vec::new(), problem: Some(why) },
        },
        Down::Fetch(what) => {
            let r = what.r;
            match adapter.fetch(what).await {
                Ok(file) => Up::Fetched { r, file: Some(file), problem: None },
                Err(problem) => Up::Fetched { r, file: None, problem: Some(problem) },
            }
        }
        Down::Request(request) => {
            let r = request.r;
            let (status, says) = adapter.request(*request).await;
            Up::Response(Response { r, status, says })
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

/// Returns as many of the chats as one line of the protocol holds.
fn in_a_line(mut chats: Vec<Chat>) -> Vec<Chat> {
    // The rest is for what stands around the list.
    let mut room = LONGEST_LINE - 256;
    let fits = |chat: &Chat| {
        let bytes = serde_json::to_vec(chat).ok()?.len() + 1;
        room = room.checked_sub(bytes)?;
        Some(())
    };
    let count = chats.iter().map_while(fits).count();
    if count < chats.len() {
        eprintln!("of {} chats only the first {count} are told: a line holds no more", chats.len());
        chats.truncate(count);
    }
    chats
}

/// Returns the host's next line; `None`: it has no more to say. A line that can't be read is passed over.
async fn order(input: &mut (impl AsyncRead + Unpin), lines: &mut Lines) -> Result<Option<Down>, String> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match lines.next_line() {
            Some(Ok(order)) => return Ok(Some(order)),
            Some(Err(channel_protocol::LineError::Unreadable { why, .. })) => {
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
    use channel_protocol::{Done, Event, EventKind, From, Hello, MOST_OPEN, NotSent, Send};
    use futures_util::future::BoxFuture;
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines as Read};

    use super::*;
    use crate::Outcome;

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

    #[test]
    fn a_list_of_chats_is_as_long_as_a_line_holds() {
        let chat = |n: usize| Chat { chat: format!("x:{n}"), name: "\u{1}".repeat(128), ..Chat::default() };
        let chats: Vec<Chat> = (0..10_000).map(chat).collect();
        assert_eq!(in_a_line(chats[..9].to_vec()).len(), 9);
        let chats = in_a_line(chats);
        assert!(chats.len() > 1000 && chats.len() < 2000, "{}", chats.len());
        let line = channel_protocol::line(&Up::Chats { r: u64::MAX, chats, problem: None }).unwrap();
        assert!(line.len() > LONGEST_LINE - 2000);
    }
}
