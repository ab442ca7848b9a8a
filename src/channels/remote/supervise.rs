//! What follows the end of a life: a rest, a person's hand, or the next life at once.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    super::Ran,
    Intake, Ready, Remote,
    life::{self, Ended},
    lock, words,
};
use crate::{
    domain::{
        platforms::{
            accounts::{GOOD_LIFE_MS, rest_ms},
            channels::{Connection, Lamp, Lights},
        },
        shown::errors::chain,
    },
    store::Store,
    system::panics::caught,
};

/// How often the settings of an account that was refused are looked at.
const LOOK_AT_SETTINGS: Duration = Duration::from_secs(10);

/// How the last life of an adapter ended, as far as the next one depends on it.
#[derive(Debug)]
pub(super) enum Last {
    /// There was none, or it ended as somebody wanted.
    Good,
    /// This many lives in a row failed.
    Failed(u32),
    /// The account was refused with these settings; `None`: they were not whole.
    Refused(Option<Box<Ready>>),
}

impl Last {
    /// Whether an account with these settings is started.
    fn lets_start(&self, ready: Option<&Ready>) -> bool {
        match self {
            Self::Good | Self::Failed(_) => true,
            Self::Refused(of) => of.as_deref() != ready,
        }
    }

    /// Returns how many lives in a row failed before one that lasted so long.
    fn failures_before(&self, lasted: Duration) -> u32 {
        match self {
            Self::Failed(failures) if i64::try_from(lasted.as_millis()).is_ok_and(|ms| ms < GOOD_LIFE_MS) => {
                *failures
            }
            Self::Good | Self::Failed(_) | Self::Refused(_) => 0,
        }
    }
}

/// While it lives, the adapter may be sent something, and no longer.
struct Open<'a>(&'a Remote);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.wire.send_replace(None);
    }
}

impl Remote {
    async fn say(&self, store: &Store, transport: Connection, why: Option<String>, hint: Option<String>) {
        let lamp = match transport {
            Connection::Connected => Lamp::Ok,
            Connection::Connecting => Lamp::Waiting,
            Connection::Offline => Lamp::Failing,
            Connection::Refused => Lamp::Refused,
        };
        let lights = Lights { transport, inbound: lamp, outbound: lamp, why, hint, hears_all: None };
        // The next life says it anew, and so does a refusal once the settings are looked at again.
        if let Err(error) = store.set_lights(self.name().to_owned(), lights, self.ground.world.now()).await {
            tracing::warn!(channel = self.name(), error = %chain(&error), "how an account stands can't be written down");
        }
    }

    /// Lives once, and says when to live again.
    pub(super) async fn supervise(&self, intake: &Intake, stop: &CancellationToken) -> Ran {
        let ready = (self.load)();
        if !lock(&self.last).lets_start(ready.as_ref().ok()) {
            return Ran::After(LOOK_AT_SETTINGS);
        }
        let began = Instant::now();
        let ended = match &ready {
            Ok(ready) => {
                let _open = Open(self);
                caught(life::live(self, intake, ready, stop)).await.unwrap_or_else(|fault| {
                    tracing::error!(channel = self.name(), fault = %chain(&fault), "our own fault: the work with an adapter failed");
                    Ended::Failed("a fault of our own came over it; the log says more".into())
                })
            }
            Err(error) => Ended::Refused { why: error.why.clone(), hint: error.hint.clone() },
        };
        let (channel, store) = (self.name(), intake.store());
        match ended {
            Ended::Stopped => Ran::Stopped,
            Ended::Wanted => {
                tracing::info!(channel, "the adapter is started anew, without a rest");
                *lock(&self.last) = Last::Good;
                Ran::Again
            }
            Ended::Refused { why, hint } => {
                tracing::error!(
                    channel,
                    why,
                    hint,
                    "an account was refused; it is tried again when its settings change, or by `g2 channels restart`"
                );
                *lock(&self.last) = Last::Refused(ready.ok().map(Box::new));
                self.say(store, Connection::Refused, words(&why), words(&hint)).await;
                Ran::After(LOOK_AT_SETTINGS)
            }
            Ended::Failed(why) => {
                let before = lock(&self.last).failures_before(began.elapsed());
                let (rest, failures) =
                    (rest_ms(before, self.ground.world.number()), before.saturating_add(1));
                *lock(&self.last) = Last::Failed(failures);
                tracing::warn!(
                    channel,
                    why,
                    failures,
                    rest_ms = rest,
                    "an adapter ended; it is started anew after a rest"
                );
                self.say(store, Connection::Offline, words(&why), None).await;
                Ran::After(Duration::from_millis(rest))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::platforms::accounts::Account;

    #[test]
    fn an_account_that_was_refused_waits_for_other_settings_and_a_good_life_ends_a_row_of_failures() {
        let named = |name: &str| Ready {
            account: Account { name: name.into(), ..Account::default() },
            config: Default::default(),
            variables: Vec::new(),
            secrets: Vec::new(),
            commands: Vec::new(),
        };
        let refused = Last::Refused(Some(Box::new(named("a"))));
        assert!(!refused.lets_start(Some(&named("a"))));
        assert!(refused.lets_start(Some(&named("b"))) && refused.lets_start(None));
        assert!(!Last::Refused(None).lets_start(None) && Last::Refused(None).lets_start(Some(&named("a"))));
        assert!(Last::Good.lets_start(None) && Last::Failed(9).lets_start(Some(&named("a"))));
        let lasted = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        assert_eq!(Last::Failed(3).failures_before(lasted(GOOD_LIFE_MS - 1)), 3);
        assert_eq!(Last::Failed(3).failures_before(lasted(GOOD_LIFE_MS)), 0);
        assert_eq!(refused.failures_before(lasted(0)), 0);
    }
}
