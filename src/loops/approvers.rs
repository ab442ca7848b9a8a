//! Opens chats with the people who are to be asked and with whom no chat is known. The chat is kept with the cards that wait for it.
//! If it can't be opened, the next person is asked at once. A platform without a connection is waited for, as it is with a card.
//!
//! | on disk | a restart |
//! |---|---|
//! | a question without a chat, its platform not asked, or nobody knows | asks for the chat; a platform has one with each person |
//! | the chat, and the cards in the outbox | has nothing to do |
//! | the question is for the next person | the same for that person |

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    channels::{Channels, NotOpened},
    domain::{heard::approvals::approver::Missed, machine::loops::LoopName, shown::feed::EventKind},
    engine::{Error, Loop, Plan, Then, Why},
    store::Store,
    system::{failpoint, locked::Locked as _, world::World},
};

/// How long a platform without a connection is waited for, and the pace of one with a connection.
const CONNECTS: Duration = Duration::from_secs(30);
/// The rest before one that has none is looked at again.
const AWAY_RESTS: Duration = Duration::from_secs(30);
/// How long a platform may take to open a chat.
const WITHIN: Duration = Duration::from_secs(30);
/// How long a platform that has refused to open a chat is not asked for it again.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// How many refusals are remembered.
const MOST_REFUSED: usize = 1024;

/// Opens chats with people who are to be asked.
pub struct Approvers(Arc<Doors>);

/// What the loop works with.
pub struct Doors {
    world: World,
    store: Store,
    channels: Arc<Channels>,
    /// The chats that were refused lately, by user: when, and why.
    refused: Mutex<BTreeMap<String, (Instant, String)>>,
}

impl Approvers {
    #[must_use]
    pub fn new(world: World, store: Store, channels: Arc<Channels>) -> Self {
        Self(Arc::new(Doors { world, store, channels, refused: Mutex::default() }))
    }
}

impl Loop for Approvers {
    const NAME: LoopName = LoopName::Approvers;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Question, EventKind::Unsaid];
    /// A platform that hangs keeps no other back.
    const AT_ONCE: usize = usize::MAX;
    /// The next person may be one with whom no chat is known.
    const LOOKS_AT_ENDS: bool = true;
    const FINISHES_WITHIN: Duration = Duration::ZERO;
    /// The user.
    type Key = String;
    type Job = ();
    type Hands = Doors;

    fn hands(&self) -> Arc<Doors> {
        Arc::clone(&self.0)
    }

    async fn look(&mut self, _: &Why<String>) -> Result<Plan<String, ()>, Error> {
        let users = self.0.store.openings().await?;
        Ok(Plan { begin: users.into_iter().map(|user| (user, ())).collect(), ..Plan::default() })
    }

    async fn perform(
        doors: Arc<Doors>,
        user: String,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        // Nobody has to be asked any more: it was answered, or has expired.
        if !doors.store.openings().await?.contains(&user) {
            return Ok(Then::Done);
        }
        // The next daemon asks again.
        let Some(opened) = stop.run_until_cancelled(doors.open(&user)).await else { return Ok(Then::Done) };
        failpoint::reach("approver.opened");
        let now = doors.world.now();
        match opened {
            Ok(chat) => {
                tracing::info!(chat, "a chat with somebody who is asked is open");
                doors.store.opened(&user, chat, now).await?;
            }
            // As a card does in a chat that is known.
            Err(NotOpened::Offline) => return Ok(Then::After(AWAY_RESTS)),
            Err(not) => {
                tracing::info!(why = %not, "no chat with somebody who is to be asked can be opened; the next one is asked");
                let how = if not == NotOpened::Never { Missed::NoWay } else { Missed::NotReached };
                doors.store.unopened(&user, how, &not.to_string(), now).await?;
            }
        }
        Ok(Then::Done)
    }

    fn span(user: &String, (): &()) -> Span {
        tracing::error_span!("approver", user)
    }
}

impl Doors {
    /// Has a platform open a chat with a user, unless it has refused that lately.
    async fn open(&self, user: &str) -> Result<String, NotOpened> {
        let now = self.world.monotonic();
        {
            let mut refused = self.refused.locked();
            refused.retain(|_, (at, _)| now.saturating_duration_since(*at) < REFUSED_FOR);
            if let Some((_, why)) = refused.get(user) {
                return Err(NotOpened::Failed(why.clone()));
            }
        }
        let Some(channel) = self.channels.of(user) else { return Err(NotOpened::Never) };
        if timeout(CONNECTS, channel.turn(user, true)).await.is_err() {
            return Err(NotOpened::Offline);
        }
        let Ok(opened) = timeout(WITHIN, channel.direct(user)).await else {
            return Err(NotOpened::Failed("their platform did not answer in time".into()));
        };
        if let Err(NotOpened::Failed(why)) = &opened {
            let mut refused = self.refused.locked();
            if refused.len() < MOST_REFUSED {
                refused.insert(user.to_owned(), (self.world.monotonic(), why.clone()));
            }
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::{
        channels::Channel,
        domain::platforms::{
            addresses::Platform,
            channels::{Outcome, Part, Traits},
        },
    };

    /// How a platform stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Stands {
        Away,
        Hangs,
        Refuses,
        Opens,
    }

    struct Fake(Platform, Arc<Mutex<(Stands, usize)>>);

    impl Channel for Fake {
        fn platform(&self) -> &Platform {
            &self.0
        }

        fn traits(&self) -> Traits {
            Traits::default()
        }

        fn turn<'a>(&'a self, _: &'a str, _: bool) -> BoxFuture<'a, ()> {
            match self.1.locked().0 {
                Stands::Away => Box::pin(pending()),
                Stands::Hangs | Stands::Refuses | Stands::Opens => Box::pin(ready(())),
            }
        }

        fn send<'a>(&'a self, _: Part<'a>) -> BoxFuture<'a, Outcome> {
            Box::pin(ready(Ok(Vec::new())))
        }

        fn direct<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<String, NotOpened>> {
            let mut stands = self.1.locked();
            stands.1 += 1;
            match stands.0 {
                Stands::Away => Box::pin(ready(Err(NotOpened::Offline))),
                Stands::Hangs => Box::pin(pending()),
                Stands::Refuses => Box::pin(ready(Err(NotOpened::Failed("they blocked us".into())))),
                Stands::Opens => Box::pin(ready(Ok(format!("{user}-chat")))),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_a_platform_has_said_counts_as_its_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let (channels, stands) = (Arc::new(Channels::default()), Arc::new(Mutex::new((Stands::Away, 0))));
        let Approvers(doors) = Approvers::new(World::real(), store, Arc::clone(&channels));
        assert_eq!(doors.open("toy:7").await, Err(NotOpened::Never), "no account leads to them");
        channels.add(Box::new(Fake(Platform::named("toy"), Arc::clone(&stands))));
        let slow = || Err(NotOpened::Failed("their platform did not answer in time".into()));
        let refused = || Err(NotOpened::Failed("they blocked us".into()));
        // How it stands, what comes of it, and how often it was asked.
        for (now, comes, asked) in [
            (Stands::Away, Err(NotOpened::Offline), 0),
            (Stands::Hangs, slow(), 1),
            (Stands::Refuses, refused(), 2),
            (Stands::Opens, refused(), 2),
        ] {
            stands.locked().0 = now;
            assert_eq!(doors.open("toy:7").await, comes, "{now:?}");
            assert_eq!(stands.locked().1, asked, "{now:?}");
        }
        assert_eq!(doors.open("toy:8").await, Ok("toy:8-chat".into()), "each by themselves");
    }
}
