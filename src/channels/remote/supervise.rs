//! Keeps the adapter of an account alive: starts it, and starts it anew after a rest, once a person wants it, or once what it was
//! refused for has changed.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Intake, Ready, Remote,
    life::{self, Ended},
    lock, words,
};
use crate::{
    domain::{
        host::errors::chain,
        platforms::{
            accounts::{GOOD_LIFE_MS, rest_ms},
            channels::{Connection, Lamp, Lights},
        },
    },
    store::Store,
    system::{clock, panics::caught, process},
};

/// How often it is looked whether a person wants an adapter started anew.
const LOOK_AT_WISHES: Duration = Duration::from_secs(1);
/// How often the settings of an account that was refused are looked at.
const LOOK_AT_SETTINGS: Duration = Duration::from_secs(10);

impl Remote {
    /// Returns once a person wants the adapter started anew, after `seen` such wishes.
    async fn wanted(&self, store: &Store, seen: i64) {
        loop {
            match store.connection_of(self.name()).await {
                Ok(Some(state)) if state.wanted > seen => return,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(LOOK_AT_WISHES).await;
        }
    }

    /// Returns once the settings of the account are others than these.
    async fn changed(&self, known: Option<&Ready>) {
        loop {
            tokio::time::sleep(LOOK_AT_SETTINGS).await;
            if (self.load)().ok().as_ref() != known {
                return;
            }
        }
    }

    async fn say(&self, store: &Store, transport: Connection, why: Option<String>, hint: Option<String>) {
        let lamp = match transport {
            Connection::Connected => Lamp::Ok,
            Connection::Connecting => Lamp::Waiting,
            Connection::Offline => Lamp::Failing,
            Connection::Refused => Lamp::Refused,
        };
        let lights = Lights { transport, inbound: lamp, outbound: lamp, why, hint };
        if let Err(error) = store.set_lights(self.name().to_owned(), lights, clock::now()).await {
            tracing::warn!(channel = self.name(), error = %chain(&error), "how an account stands can't be written down");
        }
    }

    /// Keeps the adapter alive until `stop`.
    pub(super) async fn supervise(&self, intake: &Intake, stop: &CancellationToken) {
        let store = intake.store();
        *lock(&self.store) = Some(store.clone());
        let mut failures = 0;
        loop {
            let seen = store.connection_of(self.name()).await.ok().flatten().map_or(0, |state| state.wanted);
            let ready = (self.load)();
            let began = Instant::now();
            let ended = match &ready {
                Ok(ready) => tokio::select! {
                    ended = caught(life::live(self, intake, ready, stop)) => ended.unwrap_or_else(|fault| {
                        tracing::error!(channel = self.name(), fault = %chain(&fault), "our own fault: the work with an adapter failed");
                        Ended::Failed("a fault of our own came over it; the log says more".into())
                    }),
                    () = self.wanted(store, seen) => Ended::Wanted,
                },
                Err(error) => Ended::Refused { why: error.why.clone(), hint: error.hint.clone() },
            };
            self.wire.send_replace(None);
            let channel = self.name();
            match ended {
                Ended::Stopped => return,
                Ended::Wanted => {
                    tracing::info!(channel, "the adapter is started anew, without a rest");
                    failures = 0;
                }
                Ended::Refused { why, hint } => {
                    tracing::error!(
                        channel,
                        why,
                        hint,
                        "an account was refused; it is tried again when its settings change, or by `g2 channels restart`"
                    );
                    self.say(store, Connection::Refused, words(&why), words(&hint)).await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.wanted(store, seen) => {}
                        () = self.changed(ready.as_ref().ok()) => {}
                    }
                    failures = 0;
                }
                Ended::Failed(why) => {
                    if i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX) >= GOOD_LIFE_MS {
                        failures = 0;
                    }
                    let rest = rest_ms(failures, process::chance());
                    failures = failures.saturating_add(1);
                    tracing::warn!(
                        channel,
                        why,
                        failures,
                        rest_ms = rest,
                        "an adapter ended; it is started anew after a rest"
                    );
                    self.say(store, Connection::Offline, words(&why), None).await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.wanted(store, seen) => {}
                        () = tokio::time::sleep(Duration::from_millis(rest)) => {}
                    }
                }
            }
        }
    }
}
