//! Socket Mode: the connections by which Slack tells what happens. One stands; before Slack ends it, it says so, and a second one
//! is opened. Once Slack greets us on that one, and what the first one told is taken, the first one is closed.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use channel_protocol::{Light, State, read_json};
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::{
    Request, StatusCode, Uri,
    header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::api::{Api, ApiError};
use crate::{
    http::NoAnswer,
    kit::{Ended, Rest, cut},
};

/// How many things that were told may wait. Beyond that the connection is not read.
pub(super) const MOST_WAITING: usize = 128;
/// The longest envelope, bytes.
const LONGEST: usize = 4 << 20;
/// How often we ask whether the connection stands, and how long it may be silent.
const BEAT: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_secs(70);
/// How long a connection may take to greet us.
const GREETING: Duration = Duration::from_secs(30);
/// How many connections are held at once: the one that stands, and one that is on its way out.
const MOST_HELD: usize = 3;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Something of a socket's.
pub(super) enum News {
    /// A connection stands. `gap`: none did before, so that something may have been missed. `others`: how many connections of the
    /// app Slack counts that are not ours.
    Stands {
        gap: bool,
        others: u64,
    },
    /// None does.
    Lost(String),
    Told {
        envelope: Value,
        ack: Ack,
    },
}

/// Tells Slack that an envelope was taken. Without it Slack tells it again.
#[derive(Clone, Debug)]
pub(super) struct Ack {
    id: String,
    to: mpsc::UnboundedSender<String>,
}

impl Ack {
    pub(super) fn taken(self) {
        let _ = self.to.send(json!({"envelope_id": self.id}).to_string());
    }

    /// The same, with words that only the person sees who gave a command.
    pub(super) fn answered(self, text: &str) {
        let payload = json!({"response_type": "ephemeral", "text": text});
        let _ = self.to.send(json!({"envelope_id": self.id, "payload": payload}).to_string());
    }
}

/// Why Slack wants no more of us.
#[derive(Debug)]
pub(super) enum Left {
    /// It does not know the app token.
    Denied(ApiError),
    /// A person has to do something.
    Refused(State),
}

/// What a connection reports.
enum Report {
    /// Slack greeted us on it.
    Greeted,
    /// Slack ends it soon.
    Warned,
    Ended(Ending),
    /// A person has switched Socket Mode off.
    SwitchedOff,
}

/// How a connection ended.
struct Ending {
    why: String,
    /// Slack greeted us on it.
    stood: bool,
    /// Slack sent us away.
    dismissed: bool,
}

/// Returns a wait that is made longer by a random part of a half: many adapters do not come back at the same moment.
fn spread(wait: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish();
    let half = u64::try_from(wait.as_millis() / 2).unwrap_or(u64::MAX).max(1);
    wait + Duration::from_millis(chance % half)
}

/// Keeps a connection until Slack wants no more of us. The first one is opened at `first`, which Slack named just now.
pub(super) async fn listen(api: &Api, first: Option<Uri>, tell: &mpsc::Sender<News>) -> Result<Left, Ended> {
    let (report, mut reports) = mpsc::channel(16);
    let mut held = Held { api, tell, report, tasks: JoinSet::new(), opened: 0, greeted: Arc::default() };
    // A connection that Slack greets us on and sends us away from again mends nothing.
    let (mut rest, mut sent_away) = (Rest::default(), Rest::default());
    let (mut wanted, mut at) = (true, Instant::now());
    let mut first = first;
    loop {
        let due = wanted && held.tasks.len() < MOST_HELD;
        tokio::select! {
            () = tokio::time::sleep_until(at), if due => {
                let opened = match first.take() {
                    Some(uri) => held.open(uri).await,
                    None => match api.socket().await {
                        Ok(uri) => held.open(uri).await,
                        Err(error) => Err(error),
                    },
                };
                match opened {
                    Ok(()) => wanted = false,
                    Err(error) if error.is_locked_out() => return Ok(Left::Denied(error)),
                    Err(error) if error.is_final() => return Ok(Left::Refused(refused(&error))),
                    Err(error) => {
                        held.lost(error.to_string()).await?;
                        at = Instant::now() + spread(rest.next(error.asked_ms()));
                    }
                }
            }
            Some(report) = reports.recv() => match report {
                Report::Greeted => rest = Rest::default(),
                Report::Warned => {
                    sent_away = Rest::default();
                    (wanted, at) = (true, Instant::now());
                }
                Report::SwitchedOff => return Ok(Left::Refused(switched_off())),
                Report::Ended(Ending { why, stood, dismissed }) => {
                    while held.tasks.try_join_next().is_some() {}
                    // One that never stood was to follow one that still does.
                    if held.stands() && stood {
                        continue;
                    }
                    held.lost(why).await?;
                    if !wanted {
                        let rest = if dismissed { &mut sent_away } else { &mut rest };
                        (wanted, at) = (true, Instant::now() + spread(rest.next(None)));
                    }
                }
            },
        }
    }
}

/// The connections that are held.
struct Held<'a> {
    api: &'a Api,
    tell: &'a mpsc::Sender<News>,
    report: mpsc::Sender<Report>,
    tasks: JoinSet<()>,
    /// How many were opened.
    opened: u64,
    greeted: Arc<Greeted>,
}

/// On which connections Slack has greeted us.
#[derive(Default)]
struct Greeted {
    /// How many of them stand.
    stand: AtomicUsize,
    /// The newest one.
    newest: AtomicU64,
    /// There is a newer one.
    newer: Notify,
}

impl Held<'_> {
    async fn open(&mut self, uri: Uri) -> Result<(), ApiError> {
        let socket = opened(self.api, uri).await?;
        let (tell, report, greeted) = (self.tell.clone(), self.report.clone(), Arc::clone(&self.greeted));
        self.opened += 1;
        let n = self.opened;
        self.tasks.spawn(async move {
            let is = Is::New;
            let mut connection = Connection { n, tell: &tell, report: &report, greeted: &greeted, is };
            let why = connection.attend(socket).await;
            let stood = matches!(connection.is, Is::Standing | Is::Warned | Is::SentAway { stood: true });
            if stood {
                greeted.stand.fetch_sub(1, Ordering::SeqCst);
            }
            let dismissed = matches!(connection.is, Is::SentAway { .. });
            let _ = report.send(Report::Ended(Ending { why, stood, dismissed })).await;
        });
        Ok(())
    }

    fn stands(&self) -> bool {
        self.greeted.stand.load(Ordering::SeqCst) > 0
    }

    async fn lost(&self, why: String) -> Result<(), Ended> {
        if self.stands() {
            return Ok(());
        }
        self.tell.send(News::Lost(why)).await.map_err(|_| Ended::Left)
    }
}

/// Opens a socket.
async fn opened(api: &Api, uri: Uri) -> Result<Socket, ApiError> {
    let unknown = |why: &str| ApiError::from(NoAnswer::Unknown(why.to_owned()));
    let request = Request::get(uri)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, key())
        .body(Full::default())
        .map_err(|_| unknown("its socket has no address that can be asked"))?;
    let made = async {
        let answer = api.http().send(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(unknown(&format!("its socket answered {}", answer.status().as_u16())));
        }
        hyper::upgrade::on(answer).await.map_err(|error| unknown(&error.to_string()))
    };
    let stream = match tokio::time::timeout(GREETING, made).await {
        Ok(stream) => stream?,
        Err(_) => return Err(unknown("its socket did not answer")),
    };
    let limits = Limits::default().max_payload_len(Some(LONGEST));
    Ok(ClientBuilder::new().limits(limits).take_over(TokioIo::new(stream)))
}

/// Returns sixteen random bytes as base64: they tell caches that an answer is not of another request.
fn key() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = 0_u64;
    let mut key: String = (0..22)
        .map(|n| {
            if n % 8 == 0 {
                random = RandomState::new().build_hasher().finish();
            }
            random >>= 6;
            // The last digit has two bits of the sixteenth byte.
            let most = if n == 21 { random & 48 } else { random & 63 };
            char::from(DIGITS[usize::try_from(most).unwrap_or(0)])
        })
        .collect();
    key.push_str("==");
    key
}

/// One connection.
struct Connection<'a> {
    /// Which one, counted from 1.
    n: u64,
    tell: &'a mpsc::Sender<News>,
    report: &'a mpsc::Sender<Report>,
    greeted: &'a Greeted,
    is: Is,
}

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    /// Slack has not greeted us on it.
    New,
    Standing,
    /// Slack ends it soon.
    Warned,
    SentAway {
        stood: bool,
    },
}

impl Connection<'_> {
    /// Reads what it tells, until it ends. Returns why it did.
    async fn attend(&mut self, mut socket: Socket) -> String {
        let (to, mut acks) = mpsc::unbounded_channel::<String>();
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        // An envelope for which there is no room yet: the next one is not read before.
        let mut full: Option<News> = None;
        let lost = |error: &dyn std::fmt::Display| format!("Slack's socket is lost: {error}");
        loop {
            // The one sender that is left is ours: nothing that was told is still to be taken.
            let is_idle = full.is_none() && to.strong_count() == 1 && acks.is_empty();
            let newer = self.greeted.newer.notified();
            let is_followed = self.greeted.newest.load(Ordering::SeqCst) > self.n;
            if self.is == Is::Warned && is_followed && is_idle {
                let _ = socket.close().await;
                return "another socket follows".into();
            }
            let said = tokio::select! {
                () = newer => continue,
                place = self.tell.reserve(), if full.is_some() => {
                    match (place, full.take()) {
                        (Ok(place), Some(news)) => place.send(news),
                        (Ok(_), None) => {}
                        (Err(_), _) => return "the host is gone".into(),
                    }
                    continue;
                }
                ack = acks.recv() => {
                    // This end of it is held here: it gives an ack each time.
                    if let Some(ack) = ack && let Err(error) = socket.send(Message::text(ack)).await {
                        return lost(&error);
                    }
                    continue;
                }
                now = beat.tick() => {
                    let silent = now.saturating_duration_since(heard);
                    if silent > SILENT || (self.is == Is::New && silent > GREETING) {
                        return "Slack's socket is silent".into();
                    }
                    if let Err(error) = socket.send(Message::ping("")).await {
                        return lost(&error);
                    }
                    continue;
                }
                said = socket.next(), if full.is_none() => said,
            };
            let message = match said {
                Some(Ok(message)) => message,
                Some(Err(error)) => return lost(&error),
                None => return "Slack closed its socket".into(),
            };
            heard = Instant::now();
            let Some(line) = message.as_text() else { continue };
            match read(line) {
                Said::Hello(connections) => {
                    // It is told in its place: what comes after it must not be taken for what nothing was missed before.
                    let gap = self.is == Is::New && self.greeted.stand.fetch_add(1, Ordering::SeqCst) == 0;
                    if self.is == Is::New {
                        self.is = Is::Standing;
                    }
                    self.greeted.newest.fetch_max(self.n, Ordering::SeqCst);
                    self.greeted.newer.notify_waiters();
                    let ours = self.greeted.stand.load(Ordering::SeqCst);
                    let ours = u64::try_from(ours).unwrap_or(u64::MAX);
                    full = Some(News::Stands { gap, others: connections.saturating_sub(ours) });
                    let _ = self.report.send(Report::Greeted).await;
                }
                Said::Leaving if self.is == Is::Standing => {
                    self.is = Is::Warned;
                    let _ = self.report.send(Report::Warned).await;
                }
                Said::Leaving if self.is == Is::Warned => {}
                Said::Leaving => return self.sent_away("a warning before it greeted us"),
                Said::SentAway(why) => return self.sent_away(&why),
                Said::SwitchedOff => {
                    let _ = self.report.send(Report::SwitchedOff).await;
                }
                Said::Envelope(id, envelope) => {
                    full = Some(News::Told { envelope, ack: Ack { id, to: to.clone() } });
                }
                Said::Nothing => {}
                Said::Unreadable(why) => eprintln!("Slack told something that can't be read: {why}"),
            }
        }
    }
}

impl Connection<'_> {
    fn sent_away(&mut self, why: &str) -> String {
        self.is = Is::SentAway { stood: self.is != Is::New };
        format!("Slack ends its socket: {why}")
    }
}

/// A line of a socket's.
#[derive(Debug, PartialEq)]
enum Said {
    /// How many connections of the app Slack counts.
    Hello(u64),
    /// It ends soon.
    Leaving,
    /// It ends now, for this reason.
    SentAway(String),
    SwitchedOff,
    Envelope(String, Value),
    /// Nothing that concerns us.
    Nothing,
    Unreadable(String),
}

fn read(line: &str) -> Said {
    let said: Value = match read_json(line.as_bytes()) {
        Ok(said) => said,
        Err(error) => return Said::Unreadable(error.to_string()),
    };
    match (said["type"].as_str(), said["reason"].as_str()) {
        (Some("hello"), _) => Said::Hello(said["num_connections"].as_u64().unwrap_or(0)),
        (Some("disconnect"), Some("link_disabled")) => Said::SwitchedOff,
        (Some("disconnect"), Some("warning" | "refresh_requested")) => Said::Leaving,
        (Some("disconnect"), why) => Said::SentAway(cut(why.unwrap_or("no reason"), 100)),
        _ => match said["envelope_id"].as_str() {
            Some(id) if !id.is_empty() && id.len() <= 256 => Said::Envelope(id.to_owned(), said),
            Some(_) => Said::Unreadable("an envelope has no fit id".into()),
            None => Said::Nothing,
        },
    }
}

fn refusal(why: String, hint: String) -> State {
    let light = Light::Refused;
    State { transport: light, inbound: light, outbound: light, why, hint }
}

fn switched_off() -> State {
    refusal(
        "Socket Mode is switched off".into(),
        "switch it on: https://api.slack.com/apps, your app, Socket Mode; then g2 channels restart".into(),
    )
}

/// Why Slack opens no socket for us.
pub(super) fn refused(error: &ApiError) -> State {
    let hint = match error {
        ApiError::Refused { needed, .. } if !needed.is_empty() => format!(
            "make an app token with the scope {needed}: https://api.slack.com/apps, your app, Basic Information, App-Level Tokens"
        ),
        _ => error.hint(),
    };
    refusal(format!("Slack opens no socket: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_is() {
        let envelope = json!({"envelope_id": "e1", "type": "events_api", "payload": {}});
        for (line, said) in [
            (r#"{"type":"hello","num_connections":2}"#, Said::Hello(2)),
            (r#"{"type":"hello","num_connections":"x"}"#, Said::Hello(0)),
            (r#"{"type":"disconnect","reason":"warning"}"#, Said::Leaving),
            (r#"{"type":"disconnect","reason":"refresh_requested"}"#, Said::Leaving),
            (r#"{"type":"disconnect"}"#, Said::SentAway("no reason".into())),
            (
                r#"{"type":"disconnect","reason":"too_many_websockets"}"#,
                Said::SentAway("too_many_websockets".into()),
            ),
            (r#"{"type":"disconnect","reason":"link_disabled"}"#, Said::SwitchedOff),
            (&envelope.to_string(), Said::Envelope("e1".into(), envelope.clone())),
            (r#"{"type":"events_api"}"#, Said::Nothing),
            ("[]", Said::Nothing),
            ("7", Said::Nothing),
            (r#"{"envelope_id":""}"#, Said::Unreadable("an envelope has no fit id".into())),
        ] {
            assert_eq!(read(line), said, "{line}");
        }
        assert!(matches!(read("{\"x"), Said::Unreadable(_)));
        let half = read("{\"envelope_id\":\"e1\",\"payload\":\"\\ud800\"}");
        assert!(matches!(half, Said::Envelope(_, envelope) if envelope["payload"] == "\u{fffd}"));
    }

    #[test]
    fn waits_are_spread_and_never_shorter() {
        for _ in 0..100 {
            let wait = spread(Duration::from_secs(2));
            assert!((2000..3000).contains(&wait.as_millis()), "{wait:?}");
        }
        assert!(spread(Duration::ZERO).is_zero());
    }

    #[test]
    fn a_key_is_sixteen_bytes_in_base64() {
        let key = key();
        assert!(key.len() == 24 && key.ends_with("=="), "{key}");
        assert!(b"AQgw".contains(&key.as_bytes()[21]), "{key}");
    }
}
