//! Which messages would have woken which agent in the program that is left, and which would here.
//!
//! Both sides judge the same messages, in their order. Nothing is stored, sent or asked.

pub mod here;
pub mod there;

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time, words};
use schemars::JsonSchema;
use serde::Serialize;

use self::{here::Here, there::There};
use super::{rows::Message, stamp};

/// How many messages are judged: the newest.
pub const LOOKED_AT: usize = 200;
/// At most this many differences are told one by one; the others are counted.
pub const TOLD: usize = 500;
/// As much of a text is shown, characters.
const SHOWN: usize = 80;

words! {
    /// What a message does to an agent.
    #[derive(JsonSchema)]
    pub enum Effect: "effect of a message" {
        /// It wakes the agent.
        Wakes = "wakes",
        /// The agent reads it with the next message that wakes it.
        Context = "context",
        /// The agent never reads it.
        Nothing = "nothing",
        /// An owner is asked whether its sender may be heard.
        Asks = "asks",
        /// It waits for a person, as it can't be decided.
        Held = "held",
        /// It is a command to the host, such as `/status`.
        Command = "command",
    }
}

/// What one side makes of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Judgement {
    pub effect: Effect,
    /// Why, in a sentence for people.
    pub why: String,
}

impl Judgement {
    fn new(effect: Effect, why: impl Into<String>) -> Self {
        Self { effect, why: why.into() }
    }
}

/// A message that wakes an agent on one side alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    #[serde(with = "stamp")]
    #[schemars(with = "String")]
    pub at: Time,
    pub chat: String,
    /// The key of the message in its chat.
    pub message: String,
    pub sender: String,
    /// The beginning of its text.
    pub text: String,
    #[schemars(with = "String")]
    pub group: Folder,
    pub there: Judgement,
    pub here: Judgement,
    /// The command after which it would be as it was there, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What a rehearsal found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rehearsal {
    /// How many messages were judged.
    pub messages: u64,
    /// How many times a message woke an agent there.
    pub woke_there: u64,
    /// How many times one would here.
    pub wakes_here: u64,
    /// How many times one would on one side alone.
    pub differ: u64,
    /// The first of these.
    pub differences: Vec<Difference>,
    /// What can't be known, a sentence each.
    pub notes: Vec<String>,
}

/// Judges messages, the oldest first, by both sides.
#[must_use]
pub fn rehearse(messages: &[Message], there: &There, here: &mut Here) -> Rehearsal {
    let mut found = Rehearsal { notes: there.notes(), ..Rehearsal::default() };
    let mut of_chats = BTreeMap::new();
    for message in messages {
        let groups = of_chats.entry(message.chat.as_str()).or_insert_with(|| {
            let both = there.groups(&message.chat).chain(here.groups(&message.chat));
            both.collect::<BTreeSet<Folder>>()
        });
        found.messages += 1;
        // A group that the rows of one message alone name is no less there.
        let heard = message.heard.iter().map(|heard| heard.group.clone()).filter(|_| there.is_stored());
        let all: BTreeSet<Folder> = groups.iter().cloned().chain(heard).collect();
        for group in all {
            let was = there.judge(message, &group);
            let is = here.judge(message, &group, was.effect, there.mentions());
            let (woke, wakes) = (was.effect == Effect::Wakes, is.judgement.effect == Effect::Wakes);
            found.woke_there += u64::from(woke);
            found.wakes_here += u64::from(wakes);
            if woke == wakes {
                continue;
            }
            found.differ += 1;
            if found.differences.len() < TOLD {
                found.differences.push(Difference {
                    at: message.at.unwrap_or(message.received_at),
                    chat: message.chat.clone(),
                    message: message.replay_key.clone(),
                    sender: message.sender_name.clone(),
                    text: shown(&message.text),
                    fix: is.fix,
                    group,
                    there: was,
                    here: is.judgement,
                });
            }
        }
    }
    found
}

/// Returns the beginning of a text.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
