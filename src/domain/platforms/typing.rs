//! Which chats show that an agent works for them, and when that is said again. Platforms let it expire by themselves
//! within seconds, so it is renewed while the work goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// How long after it was last said it is said again. Platforms forget it after 5 s and more (v1 and v2 renew after 4 s).
pub const RENEW: Duration = Duration::from_secs(4);

/// Where it can be shown: a chat and its thread (empty: none).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChatThread {
    pub chat_jid: String,
    pub thread: String,
}

impl fmt::Display for ChatThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread.as_str() {
            "" => f.write_str(&self.chat_jid),
            thread => write!(f, "{}#{thread}", self.chat_jid),
        }
    }
}

/// What a channel is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub place: ChatThread,
    pub on: bool,
}

/// The chats that show typing, each with the time of our last sign.
#[derive(Debug, Default)]
pub struct Typing {
    shown: BTreeMap<ChatThread, Duration>,
}

impl Typing {
    /// Returns the signs to send now that agents are at work for these places, and notes them as sent. However many work
    /// for one place, it is said there once. `now` is a reading of a clock that never goes back.
    pub fn look(&mut self, at_work: &BTreeSet<ChatThread>, now: Duration) -> Vec<Signal> {
        let mut signals = Vec::new();
        self.shown.retain(|place, _| {
            let goes_on = at_work.contains(place);
            if !goes_on {
                signals.push(Signal { place: place.clone(), on: false });
            }
            goes_on
        });
        for place in at_work {
            let is_fresh = self.shown.get(place).is_some_and(|said| now < *said + RENEW);
            if !is_fresh {
                self.shown.insert(place.clone(), now);
                signals.push(Signal { place: place.clone(), on: true });
            }
        }
        signals
    }

    /// Returns when the next renewal is due; `None` while nothing is shown.
    #[must_use]
    pub fn next_look(&self) -> Option<Duration> {
        self.shown.values().min().map(|said| *said + RENEW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> ChatThread {
        let (chat, thread) = name.split_once('#').unwrap_or((name, ""));
        ChatThread { chat_jid: chat.to_owned(), thread: thread.to_owned() }
    }

    /// Looks at the second `at`, with agents at work for these places; `+name` is shown, `-name` hidden.
    fn look(typing: &mut Typing, at: u64, names: &[&str]) -> Vec<String> {
        let at_work = names.iter().map(|name| place(name)).collect();
        let signals = typing.look(&at_work, Duration::from_secs(at));
        signals
            .iter()
            .map(|signal| format!("{}{}", if signal.on { '+' } else { '-' }, signal.place))
            .collect()
    }

    #[test]
    fn it_is_shown_from_the_first_look_renewed_while_the_work_lasts_and_hidden_once_at_its_end() {
        let mut typing = Typing::default();
        let none: [String; 0] = [];
        assert_eq!(look(&mut typing, 0, &[]), none);
        assert_eq!(typing.next_look(), None);
        assert_eq!(look(&mut typing, 10, &["a"]), ["+a"]);
        assert_eq!(typing.next_look(), Some(Duration::from_secs(14)));
        assert_eq!(look(&mut typing, 13, &["a"]), none, "looks in between say nothing");
        assert_eq!(look(&mut typing, 14, &["a"]), ["+a"]);
        assert_eq!(look(&mut typing, 60, &["a"]), ["+a"], "a late look renews once");
        assert_eq!(look(&mut typing, 61, &[]), ["-a"]);
        assert_eq!((look(&mut typing, 65, &[]), typing.next_look()), (vec![], None));
        assert_eq!(look(&mut typing, 66, &["a"]), ["+a"], "the next turn shows it at once");
    }

    #[test]
    fn chats_and_threads_are_on_their_own() {
        let mut typing = Typing::default();
        assert_eq!(look(&mut typing, 0, &["a", "a#1"]), ["+a", "+a#1"]);
        assert_eq!(look(&mut typing, 2, &["a#1", "b"]), ["-a", "+b"]);
        assert_eq!(typing.next_look(), Some(Duration::from_secs(4)), "the one that was said first");
        assert_eq!(look(&mut typing, 4, &["a#1", "b"]), ["+a#1"]);
        assert_eq!(look(&mut typing, 6, &["a#1", "b"]), ["+b"]);
    }
}
