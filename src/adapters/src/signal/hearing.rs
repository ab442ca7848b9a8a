//! The way in: what signal-cli tells is kept in the journal as it comes, and told to the daemon from there.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use channel_protocol::{Event, EventKind, Light, State, Up, read_json};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use super::{
    Signal,
    events::{Read, matters},
    now_ms,
    rpc::RpcError,
    sse::{Piece, Stream},
};
use crate::kit::{Doubt, Ended, Gone, Host, Rest, Stored};

/// signal-cli says each 15 s that it is there; a stream without a word for so long is dead.
const SILENCE: Duration = Duration::from_secs(50);
/// How many receipts are on their way at once; of more, none is sent.
const MOST_RECEIPTS: usize = 4;

/// An entry whose event is told, or that has none.
struct Told {
    number: u64,
    stored: Option<Stored>,
    /// Whose message it is, and when it was written.
    read: Option<(String, u64)>,
}

/// Hears, keeps and tells until the host is gone.
pub(super) async fn run(signal: Arc<Signal>, host: Host, doubt: Doubt) -> Ended {
    let (told, open) = mpsc::channel(128);
    let ended = tokio::select! {
        ended = hear(&signal, &host, doubt) => ended,
        ended = tell(&signal, &host, told) => ended,
        ended = finish(&signal, open) => ended,
        never = ask_who(&signal) => match never {},
    };
    let Err(why) = ended;
    why
}

/// Asks for the contacts until they are told: up to then nobody's other ids are stated.
async fn ask_who(signal: &Signal) -> Infallible {
    let mut rest = Rest::default();
    while !signal.known.load(Ordering::Relaxed) {
        tokio::time::sleep(rest.next(None) * 10).await;
        match signal.learn(true).await {
            Ok(_) => signal.known.store(true, Ordering::Relaxed),
            Err(error) => eprintln!("signal-cli does not tell its contacts and groups: {error}"),
        }
    }
    std::future::pending().await
}

fn left(_: Gone) -> Ended {
    Ended::Left
}

/// What a person can do where nothing can be kept.
const FREE: &str = "make room on the disk; until then signal-cli is asked for nothing";

fn not_kept(error: &std::io::Error) -> String {
    format!("what signal-cli tells can't be kept: {error}")
}

fn broken(error: std::io::Error) -> Ended {
    Ended::Failed(not_kept(&error))
}

/// Stays connected to signal-cli, and keeps what it tells.
async fn hear(signal: &Arc<Signal>, host: &Host, mut doubt: Doubt) -> Result<Infallible, Ended> {
    let mut rest = Rest::default();
    let mut last = signal.journal.last().await.map_err(broken)?;
    loop {
        let began = Instant::now();
        let why = listen(signal, host, &mut doubt, &mut last).await?;
        if began.elapsed() > SILENCE {
            rest = Rest::default();
        }
        let is_there = signal.rpc.check().await;
        let says_no = matches!(&why, Lost::Error(RpcError::Status(status)) if status.as_u16() == 400);
        if says_no && is_there.is_ok() && doubt.denied(Instant::now()) {
            let text = format!("signal-cli does not have the account {}", signal.account_shown());
            let all = Light::Refused;
            let hint = "see `signal-cli listAccounts`; then `g2 channels restart`";
            let refuse = |state: &mut State| {
                (state.transport, state.inbound, state.outbound) = (all, all, all);
                (state.why, state.hint) = (text.clone(), hint.into());
            };
            signal.stand(host, refuse).await.map_err(left)?;
            return Err(Ended::Failed(text));
        }
        let (text, hint) = match (&why, &is_there) {
            (_, Err(error)) | (Lost::Error(error), Ok(())) => (error.to_string(), error.hint()),
            (Lost::Ended(text), Ok(())) => ((*text).to_owned(), ""),
            (Lost::Full(error), Ok(())) => (not_kept(error), FREE),
        };
        eprintln!("signal-cli's events: {text}");
        let transport = if is_there.is_ok() { Light::Ok } else { Light::Waiting };
        let failing = |state: &mut State| {
            (state.transport, state.inbound) = (transport, Light::Failing);
            (state.why, state.hint) = (text, hint.to_owned());
        };
        signal.stand(host, failing).await.map_err(left)?;
        // Spread over a half of the rest, so that accounts do not all come back at once.
        let wait = rest.next(None);
        let part = u32::try_from(now_ms().rem_euclid(500)).unwrap_or_default();
        tokio::time::sleep(wait - wait * part / 1000).await;
    }
}

/// Why there is no stream any more.
enum Lost {
    Error(RpcError),
    Ended(&'static str),
    /// The disk takes nothing, so nothing is asked for.
    Full(std::io::Error),
}

impl From<RpcError> for Lost {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

async fn listen(
    signal: &Arc<Signal>,
    host: &Host,
    doubt: &mut Doubt,
    last: &mut Option<String>,
) -> Result<Lost, Ended> {
    // What signal-cli tells it has taken from Signal's servers, and what can't be kept would be lost.
    if let Err(error) = signal.journal.has_place().await {
        return Ok(Lost::Full(error));
    }
    let answer = match signal.rpc.events(last.as_deref()).await {
        Ok(answer) => answer,
        Err(error) => return Ok(error.into()),
    };
    doubt.known();
    let heard = |state: &mut State| {
        (state.transport, state.inbound) = (Light::Ok, Light::Ok);
        if state.outbound == Light::Ok {
            (state.why, state.hint) = (String::new(), String::new());
        }
    };
    signal.stand(host, heard).await.map_err(left)?;
    let (mut body, mut stream) = (answer.into_body(), Stream::default());
    loop {
        // What waits beyond that stays with signal-cli, and with Signal's servers.
        signal.journal.has_room().await.map_err(broken)?;
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Err(_) => return Ok(Lost::Ended("nothing came for 50 s")),
            Ok(None) => return Ok(Lost::Ended("signal-cli ended the stream")),
            Ok(Some(Err(_))) => return Ok(Lost::Ended("the connection broke")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(piece) = frame.into_data() else { continue };
        let told = stream.push(&piece).into_iter().filter_map(kept).collect::<Vec<_>>();
        keep(signal, host, told.into()).await?;
        if stream.last.is_some() && stream.last != *last {
            last.clone_from(&stream.last);
            // Without it some are told once more.
            if let Err(error) = signal.journal.heard(last.clone().unwrap_or_default()).await {
                eprintln!("which event was the last one can't be kept: {error}");
            }
        }
    }
}

/// Keeps what was told, for as long as that takes: meanwhile it is in memory alone, and nothing more is read.
async fn keep(signal: &Arc<Signal>, host: &Host, told: Arc<[String]>) -> Result<(), Ended> {
    let mut rest = Rest::default();
    let mut before = None;
    while let Err(error) = signal.journal.keep(Arc::clone(&told)).await {
        let text = not_kept(&error);
        eprintln!("{text}");
        let failing = |state: &mut State| {
            before.get_or_insert_with(|| state.clone());
            state.inbound = Light::Failing;
            (state.why, state.hint) = (text, FREE.into());
        };
        signal.stand(host, failing).await.map_err(left)?;
        rest.wait(None).await;
    }
    if let Some(before) = before {
        let again = |state: &mut State| {
            state.inbound = before.inbound;
            // Why nothing can be sent may have come meanwhile.
            if state.hint == FREE {
                (state.why, state.hint) = (before.why, before.hint);
            }
        };
        signal.stand(host, again).await.map_err(left)?;
    }
    Ok(())
}

/// Returns what is kept of an event, on one line.
fn kept(piece: Piece) -> Option<String> {
    let told: Value = match piece {
        Piece::TooLong => {
            json!({"exception": {"type": "an event that is longer than 1 MiB"}, "envelope": {"timestamp": now_ms()}})
        }
        Piece::Event(data) => match read_json(&data) {
            Ok(told) => told,
            Err(error) => {
                let kind = format!("an event that is no JSON: {error}");
                json!({"exception": {"type": kind}, "envelope": {"timestamp": now_ms()}})
            }
        },
    };
    // A subscription's events lie deeper.
    let told = ["params", "result"].iter().fold(told, |mut told, of| match told[*of].is_object() {
        true => told[*of].take(),
        false => told,
    });
    matters(&told).then(|| told.to_string())
}

/// Tells the daemon what is kept, in order.
async fn tell(signal: &Arc<Signal>, host: &Host, told: mpsc::Sender<Told>) -> Result<Infallible, Ended> {
    loop {
        let (number, text) = signal.journal.next().await.map_err(broken)?;
        let said: Value = read_json(text.as_bytes()).unwrap_or_default();
        let (read, moved) = {
            let mut reader = signal.reader();
            let read = reader.read(number, &said);
            let moved = match &read {
                Read::Event(event) => reader.moved(event).map(|from| (from, event.chat.clone())),
                _ => None,
            };
            (read, moved)
        };
        if let Some((from, to)) = moved {
            host.moved(from, to).await.map_err(left)?;
        }
        let one = match read {
            Read::Event(event) => {
                let read = receipt(signal, &event, &said);
                let stored = host.begin(*event).await.map_err(left)?;
                Told { number, stored: Some(stored), read }
            }
            Read::Group(chat) => {
                host.tell(&Up::Chat(chat)).await.map_err(left)?;
                Told { number, stored: None, read: None }
            }
            Read::Nothing => Told { number, stored: None, read: None },
        };
        told.send(one).await.map_err(|_| Ended::Left)?;
    }
}

/// Returns whose message was read, where people are to see that.
fn receipt(signal: &Signal, event: &Event, said: &Value) -> Option<(String, u64)> {
    let is_theirs =
        event.kind == EventKind::Message && !event.from.myself && said["envelope"]["dataMessage"].is_object();
    let at = said["envelope"]["dataMessage"]["timestamp"].as_u64();
    (signal.receipts && is_theirs).then(|| Some((event.from.id.clone(), at?)))?
}

/// Strikes out of the journal what the daemon has stored.
async fn finish(signal: &Arc<Signal>, mut open: mpsc::Receiver<Told>) -> Result<Infallible, Ended> {
    let places = Arc::new(Semaphore::new(MOST_RECEIPTS));
    while let Some(Told { number, stored, read }) = open.recv().await {
        if let Some(stored) = stored {
            stored.wait().await.map_err(left)?;
        }
        signal.journal.stored(number).await.map_err(broken)?;
        if let Some((who, at)) = read
            && let Ok(place) = Arc::clone(&places).try_acquire_owned()
        {
            let signal = Arc::clone(signal);
            tokio::spawn(async move {
                let params = json!({"recipient": who, "targetTimestamp": at, "type": "read"});
                if let Err(error) = signal.rpc.call::<Value>("sendReceipt", params).await {
                    eprintln!("a receipt was not sent: {error}");
                }
                drop(place);
            });
        }
    }
    Err(Ended::Left)
}
