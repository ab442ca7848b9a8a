//! What the model's host refuses a run, and whether that lasts. The run is ended where it does: agents ask for minutes again
//! and again with a key that nobody takes.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};
use ipc_handlers::Time;
use serde::Deserialize;

use super::{Caller, Credential};
use crate::domain::runs::{
    hindrance::{HostError, Refused},
    model_limit,
};
use crate::system::locked::Locked as _;

/// How long the key of a run may be refused that was never answered.
const KEY: Duration = Duration::from_secs(3);
/// How long an agent may take to give up by itself what it may not do, as it may do other things meanwhile; and how long a key
/// may be refused that was taken before in the same run.
const OTHERS: Duration = Duration::from_secs(30);
/// From when on a limit of the model is waited for without the run (ms): an agent asks again by itself for a while.
const LONG_LIMIT_MS: i64 = 60_000;
/// How much of an answer is read for the host's words, bytes.
const READ: usize = 4 << 10;

/// The refusals of one run.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A request of it was answered.
    worked: bool,
    /// It was refused then, and nothing was answered since.
    stands: Option<(Instant, Refused)>,
}

impl Refusals {
    /// The run was refused now.
    pub(super) fn note(&self, refused: Refused, now: Instant) {
        let mut state = self.state();
        let since = state.stands.take().map_or(now, |(since, _)| since);
        state.stands = Some((since, refused));
    }

    /// The run was answered.
    pub(super) fn over(&self) {
        *self.state() = State { worked: true, stands: None };
    }

    /// Whether the run was answered, and not refused since.
    pub(super) fn has_answered(&self) -> bool {
        let state = self.state();
        state.worked && state.stands.is_none()
    }

    /// Returns what the run was refused last. A key that was taken before in this run is not to blame for what it may not do; a limit
    /// is reached in the middle of work.
    pub(super) fn newest(&self) -> Option<Refused> {
        let state = self.state();
        let (_, refused) = state.stands.as_ref()?;
        (refused.what.is_of_the_key() || refused.what.is_weather() || !state.worked).then(|| refused.clone())
    }

    /// The same, where it has lasted for so long that the run is to be ended for it.
    pub(super) fn lasting(&self, now: Instant, at: Time) -> Option<Refused> {
        let newest = self.newest()?;
        let is_long = |until: Time| until.ms_since(at) > LONG_LIMIT_MS;
        if newest.what.is_weather() && !newest.until.is_some_and(is_long) {
            return None;
        }
        let state = self.state();
        let is_for_good = newest.what.is_of_the_key() && !state.worked;
        let patience = if is_for_good || newest.what.is_weather() { KEY } else { OTHERS };
        let since = state.stands.as_ref()?.0;
        (now.duration_since(since) >= patience).then_some(newest)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.locked()
    }
}

/// The key that the model's host refused last; inside: that there was none.
#[derive(Debug, Default)]
pub(super) struct RefusedKey(Mutex<Option<Option<Credential>>>);

impl RefusedKey {
    fn note(&self, key: Option<Credential>) {
        *self.0.locked() = Some(key);
    }

    /// Whether `key` is another than the one that was refused.
    pub(super) fn is_another(&self, key: &Credential) -> bool {
        let refused = self.0.locked();
        refused.as_ref().is_some_and(|refused| refused.as_ref() != Some(key))
    }
}

/// Notes that there is no key to ask with.
pub(super) fn no_key(caller: &Caller, why: &str) {
    caller.shared.refused_key.note(None);
    caller.refusals.note(Refused::no_key(why), caller.shared.world.monotonic());
}

/// An answer of the model's host to a request for the model, while it passes.
pub(super) struct Heard {
    status: StatusCode,
    key: Credential,
    /// When the host is to be asked again, as its headers say.
    until: Option<Time>,
    /// The beginning of an error's body, as the agent gets it.
    body: Vec<u8>,
}

impl Heard {
    /// Notes what the head of an answer says.
    pub(super) fn head(caller: &Caller, status: StatusCode, headers: &HeaderMap, key: Credential) -> Self {
        let until = (!status.is_success()).then(|| ends(headers, caller.shared.world.now())).flatten();
        let heard = Self { status, key, until, body: Vec::new() };
        if status.is_success() {
            caller.refusals.over();
        } else {
            heard.note(caller, HostError::default());
        }
        heard
    }

    /// A piece of the body passes.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.status.is_client_error() {
            let room = READ.saturating_sub(self.body.len());
            self.body.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        }
    }

    /// Notes what the whole answer says.
    pub(super) fn end(&self, caller: &Caller) {
        if self.status.is_client_error() && !self.body.is_empty() {
            match serde_json::from_slice::<Said>(&self.body) {
                Ok(Said { error }) => {
                    self.note(caller, HostError { kind: &error.kind, message: &error.message });
                }
                Err(_) => {
                    let message = String::from_utf8_lossy(&self.body);
                    self.note(caller, HostError { kind: "", message: &message });
                }
            }
        }
    }

    fn note(&self, caller: &Caller, said: HostError<'_>) {
        let host = caller.shared.upstream.to_string();
        if let Some(refused) = Refused::of_answer(self.status.as_u16(), said, &host, self.until) {
            caller.shared.refused_key.note(Some(self.key.clone()));
            caller.refusals.note(refused, caller.shared.world.monotonic());
        }
    }
}

/// When a limit is over, as the headers of an answer say: `retry-after`, and those of the Messages API.
fn ends(headers: &HeaderMap, now: Time) -> Option<Time> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let used_up = |what: &&str| text(&format!("anthropic-ratelimit-{what}-remaining")) == Some("0");
    let resets: Vec<&str> = ["requests", "tokens", "input-tokens", "output-tokens"]
        .iter()
        .filter(|what| used_up(what))
        .filter_map(|what| text(&format!("anthropic-ratelimit-{what}-reset")))
        .collect();
    let headers = model_limit::Headers {
        retry_after: text(RETRY_AFTER.as_str()),
        unified_reset: text("anthropic-ratelimit-unified-reset"),
        resets: &resets,
    };
    model_limit::of_headers(headers, now)
}

/// An error as the Messages API says it.
#[derive(Deserialize)]
struct Said {
    error: SaidError,
}

#[derive(Deserialize)]
struct SaidError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::world::World;

    #[test]
    fn a_run_that_worked_before_is_ended_later_for_its_key() {
        let lasts = |worked, since: Duration| {
            let began = World::real().monotonic();
            let stands = Some((began, Refused::no_key("none")));
            Refusals(Mutex::new(State { worked, stands })).lasting(began + since, Time(0)).is_some()
        };
        assert_eq!([false, true].map(|worked| lasts(worked, KEY)), [true, false]);
        assert_eq!([false, true].map(|worked| lasts(worked, OTHERS)), [true, true]);
    }

    #[test]
    fn a_run_is_ended_for_a_limit_that_lasts_and_not_for_one_that_is_over_soon() {
        let lasts = |until: Option<i64>, since: Duration| {
            let began = World::real().monotonic();
            let until = until.map(Time);
            let refused = Refused::of_answer(429, HostError::default(), "h", until).unwrap();
            let stands = Some((began, refused));
            Refusals(Mutex::new(State { worked: true, stands })).lasting(began + since, Time(0)).is_some()
        };
        assert!(lasts(Some(LONG_LIMIT_MS + 1), KEY) && !lasts(Some(LONG_LIMIT_MS + 1), KEY / 2));
        assert!(!lasts(Some(LONG_LIMIT_MS), OTHERS) && !lasts(None, OTHERS * 100));
    }

    #[test]
    fn the_headers_of_the_messages_api_say_when_a_limit_is_over() {
        let ends = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            ends(&headers.collect(), Time(1_759_838_400_000)).map(|at| at.to_string())
        };
        let reset = "anthropic-ratelimit-tokens-reset";
        assert_eq!(ends(&[("retry-after", "60")]).unwrap(), "2025-10-07T12:01:00.000Z");
        assert_eq!(
            ends(&[("anthropic-ratelimit-unified-reset", "1759870800")]).unwrap(),
            "2025-10-07T21:00:00.000Z"
        );
        let used_up = [("anthropic-ratelimit-tokens-remaining", "0"), (reset, "2025-10-07T12:05:00Z")];
        assert_eq!(ends(&used_up).unwrap(), "2025-10-07T12:05:00.000Z");
        assert_eq!(ends(&[(reset, "2025-10-07T12:05:00Z")]), None, "something remains");
        assert_eq!(ends(&[]), None);
    }
}
