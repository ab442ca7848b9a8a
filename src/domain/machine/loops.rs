//! The loops of the daemon by name, and how one stands, as people see it.

use ipc_handlers::{Time, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// A loop that the engine drives.
    #[derive(JsonSchema)]
    pub enum LoopName: "loop" {
        Amends = "amends",
        Approvers = "approvers",
        Backups = "backups",
        Budgets = "budgets",
        Channels = "channels",
        Chats = "chats",
        Deliver = "deliver",
        Dispatch = "dispatch",
        Files = "files",
        Ground = "ground",
        Heartbeat = "heartbeat",
        Hindrances = "hindrances",
        Housekeeping = "housekeeping",
        Mailbox = "mailbox",
        Media = "media",
        Notify = "notify",
        Problems = "problems",
        Prune = "prune",
        Recovery = "recovery",
        Removals = "removals",
        Schedule = "schedule",
        Search = "search",
        Searches = "searches",
        Settings = "settings",
        Snapshots = "snapshots",
        Trim = "trim",
        Typing = "typing",
        Usage = "usage",
    }
}

words! {
    /// How well a loop goes, the worst that holds of it.
    pub enum Condition: "state of a loop" {
        /// It has not come round within its bound.
        Stuck = "stuck",
        /// It can't look at what is to be done, and tries again.
        Failing = "failing",
        /// Keys of it are set aside until a person releases them.
        SetAside = "set_aside",
        /// Work for keys of it fails, and is tried again.
        Retrying = "retrying",
        Well = "well",
    }
}

/// How a loop stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    #[serde(rename = "loop")]
    pub name: LoopName,
    /// When it looked last, with success.
    #[serde(rename = "looked_at", with = "as_text")]
    pub looked: Option<Time>,
    /// How long its look has taken, s, once that is longer than its bound.
    pub stuck_secs: Option<u64>,
    /// How many keys are at work, wait for a place, and rest.
    pub at_work: usize,
    pub waiting: usize,
    pub resting: usize,
    /// Looks and work that failed since the start.
    pub failures: u64,
    /// Why it can't look now; `None`: it can.
    pub why: Option<String>,
    /// Keys that fail, at most [`NAMED`], those that were set aside first.
    pub keys: Vec<KeyState>,
}

impl LoopState {
    /// One that has not looked yet.
    #[must_use]
    pub const fn new(name: LoopName) -> Self {
        Self {
            name,
            looked: None,
            stuck_secs: None,
            at_work: 0,
            waiting: 0,
            resting: 0,
            failures: 0,
            why: None,
            keys: Vec::new(),
        }
    }

    /// Returns how well it goes.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match (self.stuck_secs, &self.why, self.keys.first()) {
            (Some(_), ..) => Condition::Stuck,
            (None, Some(_), _) => Condition::Failing,
            // Those that are set aside come first.
            (None, None, Some(key)) if key.aside => Condition::SetAside,
            (None, None, Some(_)) => Condition::Retrying,
            (None, None, None) => Condition::Well,
        }
    }

    /// Says what is wrong with it; `None`: nothing is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let stuck = self.stuck_secs.map(|secs| format!("it has not come round for {secs} s"));
        let looks = self.why.as_ref().map(|why| format!("it can't look: {why}"));
        let keys = self.keys.first().map(|first| {
            let KeyState { key, failures, aside, why } = first;
            let more = match self.keys.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let aside = if *aside { ", set aside" } else { "" };
            format!("{key}{more} failed {failures} times in a row{aside}: {why}")
        });
        let all: Vec<String> = [stuck, looks, keys].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// How many keys of a loop that fail are named.
pub const NAMED: usize = 20;

/// How a key stands that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyState {
    pub key: String,
    /// Failures in a row.
    pub failures: u32,
    /// It is set aside until a person releases it.
    pub aside: bool,
    pub why: String,
}

/// A key that fails so often in a row is named by `status`.
pub const TOLD_AFTER: u32 = 3;

/// An instant as RFC 3339 on the wire, or `null`.
mod as_text {
    use ipc_handlers::Time;
    use serde::{Deserialize as _, Deserializer, de::Error as _};

    pub(super) use crate::rows::rfc3339_option as serialize;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let at = text.map(|text| text.parse().map(Time::from_jiff)).transpose();
        at.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, aside: bool) -> KeyState {
        KeyState { key: key.into(), failures: 3, aside, why: "no".into() }
    }

    #[test]
    fn the_worst_that_holds_of_a_loop_is_its_state() {
        let mut state = LoopState::new(LoopName::Deliver);
        assert_eq!((state.condition(), state.trouble()), (Condition::Well, None));
        state.keys = vec![key("a", false)];
        assert_eq!(state.condition(), Condition::Retrying);
        state.keys = vec![key("b", true), key("a", false)];
        assert_eq!(state.condition(), Condition::SetAside);
        assert_eq!(state.trouble().as_deref(), Some("b (and 1 more) failed 3 times in a row, set aside: no"));
        state.why = Some("the disk".into());
        assert_eq!(state.condition(), Condition::Failing);
        state.stuck_secs = Some(61);
        assert_eq!(state.condition(), Condition::Stuck);
        assert!(
            state
                .trouble()
                .unwrap()
                .starts_with("it has not come round for 61 s; it can't look: the disk; b ")
        );
    }

    #[test]
    fn a_state_is_the_same_after_it_went_over_the_socket() {
        let state = LoopState {
            looked: Some(Time(1_700_000_000_123)),
            keys: vec![key("a", true)],
            ..LoopState::new(LoopName::Amends)
        };
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.contains(r#""loop":"amends","looked_at":"2023-11-14T22:13:20.123Z""#), "{text}");
        assert_eq!(serde_json::from_str::<LoopState>(&text).unwrap(), state);
    }
}
