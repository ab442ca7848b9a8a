//! The connection by which Discord tells what happens. Twilight keeps it: heartbeats, resumes and new sessions.

use std::time::Duration;

use channel_protocol::{Light, State, mended};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use twilight_gateway::{
    ConfigBuilder, Intents, Message, Session, Shard, ShardId, ShardState, error::ReceiveMessageErrorType,
};

use super::events::{Told, read};
use crate::kit::{Ended, Rest};

/// How many things that were told may wait. Beyond that the connection is not read, and resumed later.
pub(super) const MOST_WAITING: usize = 256;
/// After this many failures in a row the rests begin anew: the longest has 32 s.
const MOST_FAILURES: u8 = 6;
/// The code with which Discord leaves that does not know the token.
const DENIED: u16 = 4004;
/// How long the next session waits after that: Discord makes a new token of one that begins a thousand of them a day.
const NEXT_SESSION: Duration = Duration::from_secs(90);

/// What we want to be told of.
fn intents() -> Intents {
    Intents::GUILDS
        | Intents::GUILD_MESSAGES
        | Intents::GUILD_MESSAGE_REACTIONS
        | Intents::DIRECT_MESSAGES
        | Intents::DIRECT_MESSAGE_REACTIONS
        | Intents::MESSAGE_CONTENT
}

/// Something of the gateway's.
pub(super) enum News {
    Told {
        told: Told,
        /// Where the session stands after it.
        mark: Mark,
        /// It was written while we were away, and is told again.
        late: bool,
    },
    /// The connection is lost, and tried.
    Lost(String),
}

/// A place in a session of the gateway's: after it, everything is told again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) sequence: u64,
    pub(super) session: String,
    resume_url: String,
}

impl Mark {
    /// Writes it for a cursor.
    pub(super) fn write(&self) -> String {
        format!("{} {} {}", self.sequence, self.session, self.resume_url)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (sequence, session, resume_url) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            sequence: sequence.parse().ok()?,
            session: session.into(),
            resume_url: resume_url.into(),
        })
    }

    fn of(shard: &Shard) -> Option<Self> {
        let session = shard.session()?;
        let resume_url = shard.resume_url().unwrap_or_default().to_owned();
        Some(Self { sequence: session.sequence(), session: session.id().to_owned(), resume_url })
    }
}

/// A connection that goes on after a mark, if there is one.
pub(super) fn shard(token: &str, url: &str, after: Option<&Mark>) -> Shard {
    let mut config =
        ConfigBuilder::new(token.to_owned(), intents()).proxy_url(url.trim_end_matches('/').to_owned());
    if let Some(mark) = after {
        config = config.session(Session::new(mark.sequence, mark.session.clone()));
        if !mark.resume_url.is_empty() {
            config = config.resume_url(mark.resume_url.clone());
        }
    }
    Shard::with_config(ShardId::ONE, config.build())
}

/// Why the gateway wants no more of us.
pub(super) enum Left {
    /// It does not know the token.
    Denied {
        /// Where the session stood, as far as there was one.
        mark: Option<Mark>,
        stood: Stood,
    },
    /// A person has to do something.
    Refused(State),
}

/// What stood on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stood {
    Nothing,
    /// A session that began there.
    NewSession,
    /// One of an earlier connection.
    Session,
}

/// The waits between connections of which the gateway says that it does not know the token. Asked otherwise, Discord may know it.
#[derive(Debug, Default)]
pub(super) struct Denials {
    /// Goes on until a session stands.
    pub(super) rest: Rest,
    /// A session that had begun on its connection was denied before.
    was_new: bool,
}

impl Denials {
    /// The gateway has said so. Returns how long the next connection waits at least, beside the rest: one that goes on with a
    /// session begins none, unless new sessions are all that this led to.
    pub(super) fn denied(&mut self, mark: Option<&Mark>, stood: Stood) -> Duration {
        if stood != Stood::Nothing {
            self.rest = Rest::default();
        }
        let is_new = stood == Stood::NewSession;
        let is_new_again = is_new && self.was_new;
        self.was_new |= is_new;
        if mark.is_some() && !is_new_again { Duration::ZERO } else { NEXT_SESSION }
    }
}

/// Reads what the gateway tells until it wants no more of us.
pub(super) async fn listen(
    mut shard: Shard,
    tell: &mpsc::Sender<News>,
    again: impl Fn(Option<&Mark>) -> Shard,
) -> Result<Left, Ended> {
    let (mut closed, mut stood) = (None, Stood::Nothing);
    loop {
        let next = shard.next().await;
        let late = shard.state() == ShardState::Resuming;
        let news = match next {
            Some(Ok(Message::Text(line))) => match read(&line).or_else(|_| read(&mended(line.as_bytes()))) {
                Ok(Some(told)) => {
                    let Some(mark) = Mark::of(&shard) else { continue };
                    if matches!(told, Told::Ready(_)) {
                        stood = Stood::NewSession;
                    } else if matches!(told, Told::Resumed) && stood == Stood::Nothing {
                        stood = Stood::Session;
                    }
                    News::Told { told, mark, late }
                }
                Ok(None) => continue,
                Err(error) => {
                    eprintln!("the gateway told something that can't be read: {error}");
                    continue;
                }
            },
            Some(Ok(Message::Close(frame))) => {
                closed = frame.as_ref().map(|frame| frame.code);
                News::Lost(format!("Discord closed the connection{}", coded(closed)))
            }
            Some(Err(error)) => {
                if !matches!(error.kind(), ReceiveMessageErrorType::Reconnect) {
                    eprintln!("the gateway told something that can't be read");
                    continue;
                }
                if matches!(shard.state(), ShardState::Disconnected { reconnect_attempts } if reconnect_attempts > MOST_FAILURES)
                {
                    shard = again(Mark::of(&shard).as_ref());
                }
                News::Lost("Discord's gateway can't be reached".into())
            }
            None if closed == Some(DENIED) => return Ok(Left::Denied { mark: Mark::of(&shard), stood }),
            None => return Ok(Left::Refused(refusal(closed))),
        };
        if tell.send(news).await.is_err() {
            return Err(Ended::Left);
        }
    }
}

fn coded(code: Option<u16>) -> String {
    code.map_or_else(String::new, |code| format!(" with code {code}"))
}

/// Why Discord wants no more of us, by the code with which it left.
fn refusal(code: Option<u16>) -> State {
    let (why, hint) = match code {
        Some(DENIED) => (super::DENIED, super::NEW_TOKEN),
        Some(4014) => (
            "the bot may not read messages",
            "switch on \"Message Content Intent\": https://discord.com/developers/applications, your application, Bot, \
             Privileged Gateway Intents; then g2 channels restart",
        ),
        Some(4010 | 4011) => (
            "the bot is in more than 2500 servers, which needs several connections",
            "use a bot that is in fewer servers",
        ),
        _ => ("Discord wants no more of this connection", "look at the log: g2 channels log"),
    };
    let light = Light::Refused;
    let why = format!("{why}{}", coded(code));
    State { transport: light, inbound: light, outbound: light, why, hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark {
            sequence: 7,
            session: "abc".into(),
            resume_url: "wss://gateway-us-east1-b.discord.gg".into(),
        };
        assert_eq!(Mark::read(&mark.write()), Some(mark));
        let without = Mark { sequence: 7, session: "abc".into(), resume_url: String::new() };
        assert_eq!(Mark::read(&without.write()), Some(without));
        assert_eq!(Mark::read("x"), None);
    }

    #[test]
    fn a_gateway_that_denies_us_again_and_again_is_asked_ever_less_and_begins_few_sessions() {
        let mark = Mark { sequence: 7, session: "abc".into(), resume_url: String::new() };
        let mut denials = Denials::default();
        assert_eq!(denials.denied(Some(&mark), Stood::NewSession), Duration::ZERO);
        let waits: Vec<u64> = (0..6)
            .map(|_| {
                assert_eq!(denials.denied(Some(&mark), Stood::Nothing), Duration::ZERO);
                denials.rest.next(None).as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30]);
        // A thousand of them would take more than a day.
        let (a_day, least) = (Duration::from_secs(86_400), denials.denied(None, Stood::Nothing));
        assert!(least * 1000 > a_day && denials.rest.next(None).as_secs() == 30);
        assert_eq!(denials.denied(Some(&mark), Stood::Session), Duration::ZERO);
        assert_eq!(denials.rest.next(None).as_secs(), 1);
        // Each one is let in and then denied.
        assert_eq!(denials.denied(Some(&mark), Stood::NewSession), least);
    }

    #[test]
    fn each_way_to_be_turned_away_says_where_it_is_mended() {
        for (code, hint) in
            [(4004, "token"), (4014, "Message Content Intent"), (4011, "fewer servers"), (4013, "log")]
        {
            let state = refusal(Some(code));
            assert!(state.hint.contains(hint) && state.why.ends_with(&code.to_string()), "{state:?}");
            assert_eq!(state.transport, Light::Refused);
        }
    }
}
