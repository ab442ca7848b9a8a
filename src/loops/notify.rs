//! Hands texts for an owner to a program or an address on the web, where no account works: `[notify]`. Each text is tried for a day.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::Notify as Wake;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    config::Live,
    domain::{machine::loops::LoopName, shown::errors::chain},
    engine::{Error, Loop, Plan, Then, Why},
    gateway::{self, Upstream, UpstreamError},
    store::{PUSHED_FOR_MS, Push, PushWay, Store},
    system::{errand, world::World},
};

/// How long a program or an address may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Hands texts over.
pub struct Notify {
    hands: Arc<Errands>,
    /// There is something new.
    wake: Arc<Wake>,
}

/// What the loop works with.
pub struct Errands {
    pub world: World,
    pub store: Store,
    pub config: Arc<Live>,
    /// The folder in which programs are noted, and the root, in which they begin.
    pub notes: PathBuf,
    pub root: PathBuf,
}

impl Notify {
    #[must_use]
    pub fn new(errands: Errands, wake: Arc<Wake>) -> Self {
        Self { hands: Arc::new(errands), wake }
    }
}

impl Loop for Notify {
    const NAME: LoopName = LoopName::Notify;
    /// One after the other, so that the end of a problem is not told before it.
    const AT_ONCE: usize = 1;
    /// A host that is out of reach for a night is not asked each minute.
    const RESTS_AT_MOST: Duration = Duration::from_secs(300);
    const FINISHES_WITHIN: Duration = Duration::ZERO;
    /// The number of the text.
    type Key = i64;
    type Job = Push;
    type Hands = Errands;

    fn hands(&self) -> Arc<Errands> {
        Arc::clone(&self.hands)
    }

    async fn asked(&mut self) {
        self.wake.notified().await;
    }

    async fn look(&mut self, _: &Why<i64>) -> Result<Plan<i64, Push>, Error> {
        let pushes = self.hands.store.pushes().await?;
        Ok(Plan { begin: pushes.into_iter().map(|push| (push.id, push)).collect(), ..Plan::default() })
    }

    async fn perform(
        hands: Arc<Errands>,
        id: i64,
        push: Push,
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        // The next daemon hands it over.
        let Some(done) = stop.run_until_cancelled(hands.hand_over(&push)).await else {
            return Ok(Then::Done);
        };
        match done {
            Ok(Handed::Over) => tracing::info!(way = %push.way, "an owner was told of problems"),
            Ok(Handed::NoWay) => {
                tracing::warn!(way = %push.way, text = push.text, "an owner is not told: the settings have no such way any more");
            }
            Err(error) if hands.world.now().ms_since(push.made_at) < PUSHED_FOR_MS => {
                return Err(Error::world(&error));
            }
            Err(error) => {
                tracing::error!(way = %push.way, error = %chain(&error), text = push.text, "an owner could not be told for a day")
            }
        }
        hands.store.pushed(id).await?;
        Ok(Then::Done)
    }

    fn span(_: &i64, push: &Push) -> Span {
        tracing::error_span!("notify", way = %push.way)
    }
}

/// What came of a text.
enum Handed {
    Over,
    /// It was taken out of the settings meanwhile.
    NoWay,
}

/// Why a text was not handed over.
#[derive(Debug, thiserror::Error)]
enum NotHandedOver {
    #[error(transparent)]
    Program(#[from] errand::Undone),
    #[error(transparent)]
    Address(#[from] UpstreamError),
    #[error(transparent)]
    Web(#[from] gateway::NotPosted),
}

impl Errands {
    async fn hand_over(&self, push: &Push) -> Result<Handed, NotHandedOver> {
        let config = self.config.now();
        match push.way {
            PushWay::Command if config.notify.command.is_empty() => Ok(Handed::NoWay),
            PushWay::Command => {
                let place =
                    errand::Place { notes: &self.notes, at: &self.root, home: config.home.as_deref() };
                errand::run(place, &config.notify.command, &push.text, WITHIN).await?;
                Ok(Handed::Over)
            }
            PushWay::Webhook => {
                let Some(address) = &config.notify.webhook else { return Ok(Handed::NoWay) };
                let proxy = config.proxy.clone().map(Arc::new);
                let to = Upstream::of_owner(address, proxy)?;
                gateway::post(&self.world, &to, &push.text, WITHIN).await?;
                Ok(Handed::Over)
            }
        }
    }
}
