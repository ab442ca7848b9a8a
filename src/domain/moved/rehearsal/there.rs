//! The rules of the programs that are left.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, effect::IgnoredMessages};

use super::{Effect, Judgement};
use crate::{
    heard::{
        access::Listed,
        engage::{Author, EngageVerdict, Engages, Heard, Listener, Mentioned, Sticky, WiringRule},
        js_regex::{self, Pattern, PatternError, trim},
        sender_list::SenderList,
    },
    moved::rows::{Fate, Message},
};

/// How a program decides which group a message wakes.
#[derive(Debug)]
pub enum There {
    /// It stored what became of each message, and the rows say it.
    Stored {
        /// It did not store whether a message mentioned the agent: what woke one that waits for a mention is taken for one.
        mentions: Mentions,
    },
    /// It has one group in a chat, with a trigger.
    Registered(Registrations),
}

/// Whether a program stored that a message mentions its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mentions {
    Stored,
    Guessed,
}

/// The groups of NanoClaw's first version, or of the TypeScript program.
#[derive(Debug)]
pub struct Registrations {
    dialect: Dialect,
    /// The agents' name, by which the program knows its own texts.
    assistant: String,
    chats: BTreeMap<String, Registered>,
    senders: SenderList,
}

/// How triggers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// NanoClaw's first version: a literal word at the start, in any case.
    Name,
    /// The TypeScript program: a regular expression, found anywhere, in any case.
    Pattern,
}

#[derive(Debug)]
struct Registered {
    group: Folder,
    wakes: Wakes,
}

/// What wakes a group.
#[derive(Debug)]
enum Wakes {
    Everything,
    Trigger(Box<Listener>, String),
    Pattern(Result<Pattern, PatternError>, String),
}

impl Registrations {
    /// Returns a program without groups. `senders`: its own list, which the first version alone has.
    #[must_use]
    pub fn new(dialect: Dialect, assistant: impl Into<String>, senders: SenderList) -> Self {
        Self { dialect, assistant: assistant.into(), chats: BTreeMap::new(), senders }
    }

    /// Registers a group in a chat. `trigger`: as it is stored; `needs_trigger`: whether a message has to have it, which those of
    /// main need not.
    pub fn register(&mut self, chat: &str, group: Folder, trigger: &str, needs_trigger: bool) {
        let wakes = match self.dialect {
            _ if !needs_trigger => Wakes::Everything,
            Dialect::Name => {
                let rule = WiringRule {
                    mode: Engages::Mention,
                    trigger: trigger.to_owned(),
                    ignored: IgnoredMessages::Accumulate,
                };
                Wakes::Trigger(Box::new(Listener::new(&rule)), trigger.to_owned())
            }
            Dialect::Pattern => {
                let pattern = js_regex::ignoring_case(trigger).and_then(|written| Pattern::compile(&written));
                Wakes::Pattern(pattern, trigger.to_owned())
            }
        };
        self.chats.insert(chat.to_owned(), Registered { group, wakes });
    }

    fn judge(&self, message: &Message, group: &Folder) -> Judgement {
        let nothing = |why: &str| Judgement::new(Effect::Nothing, why);
        let Some(registered) = self.chats.get(&message.chat).filter(|known| known.group == *group) else {
            return nothing("the group was not registered in this chat");
        };
        if message.bot || is_named(&message.text, &self.assistant) {
            return nothing("it counted as the agent's own text");
        }
        if message.text.is_empty() && self.dialect == Dialect::Name {
            return nothing("messages without words were not read");
        }
        let context = |why: String| Judgement::new(Effect::Context, why);
        match &registered.wakes {
            Wakes::Everything => Judgement::new(Effect::Wakes, "every message of this chat woke the agent"),
            Wakes::Trigger(listener, trigger) => {
                let heard = Heard {
                    text: &message.text,
                    author: Author::Person,
                    mentioned: Mentioned::No,
                    sticky: Sticky::No,
                };
                if listener.decide(&heard).outcome != EngageVerdict::Wake {
                    return context(format!("it did not begin with {trigger:?}"));
                }
                match self.listed(message) {
                    Listed::Allowed | Listed::Unreadable => {
                        Judgement::new(Effect::Wakes, format!("it began with {trigger:?}"))
                    }
                    Listed::ContextOnly => context("its sender was not on sender-allowlist.json".into()),
                    Listed::Drop => nothing("its sender was not on sender-allowlist.json"),
                }
            }
            Wakes::Pattern(pattern, written) => match pattern.as_ref().map(|p| p.test(trim(&message.text))) {
                Ok(Ok(true)) => {
                    Judgement::new(Effect::Wakes, format!("it had the pattern {written:?} in it"))
                }
                Ok(Ok(false)) => context(format!("it did not have the pattern {written:?} in it")),
                Ok(Err(error)) => nothing(&format!("it is not known: {error}")),
                Err(PatternError::Syntax { .. }) => {
                    nothing(&format!("the pattern {written:?} is broken, and the program failed over it"))
                }
                Err(error) => nothing(&format!("it is not known: {error}")),
            },
        }
    }

    /// What the first version's list says: one that can't be read lets everybody in, and so does the default of an entry that can't.
    fn listed(&self, message: &Message) -> Listed {
        if message.from_me {
            return Listed::Allowed;
        }
        match self.senders.listed(&message.chat, &message.sender) {
            // No chat has an empty address, so this is the default.
            Listed::Unreadable => self.senders.listed("", &message.sender),
            listed @ (Listed::Allowed | Listed::ContextOnly | Listed::Drop) => listed,
        }
    }
}

impl There {
    /// Whether the rows say what became of messages.
    pub(super) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// Returns the groups that listened in a chat, as far as the rules name them.
    pub(super) fn groups(&self, chat: &str) -> impl Iterator<Item = Folder> {
        let known = match self {
            Self::Stored { .. } => None,
            Self::Registered(all) => all.chats.get(chat).map(|registered| registered.group.clone()),
        };
        known.into_iter()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Stored { mentions: Mentions::Guessed } => vec![
                "The program did not store which messages mention the agent. A message that woke an agent that waits for \
                 a mention is taken for one."
                    .into(),
            ],
            Self::Stored { mentions: Mentions::Stored } => Vec::new(),
            Self::Registered(_) => vec![
                "The program looked at all messages of two seconds together: beside a message that woke the agent, the \
                 agent read those before it, too. Here they come as context."
                    .into(),
            ],
        }
    }

    /// Whether what woke an agent that waits for a mention is taken for a mention.
    pub(super) fn mentions(&self) -> Mentions {
        match self {
            Self::Stored { mentions } => *mentions,
            Self::Registered(_) => Mentions::Stored,
        }
    }

    pub(super) fn judge(&self, message: &Message, group: &Folder) -> Judgement {
        match self {
            Self::Stored { .. } => stored(message, group),
            Self::Registered(all) => all.judge(message, group),
        }
    }
}

/// What the row says.
fn stored(message: &Message, group: &Folder) -> Judgement {
    let Some(heard) = message.heard.iter().find(|heard| heard.group == *group) else {
        return Judgement::new(Effect::Nothing, "it did not reach the group");
    };
    let (effect, why) = match heard.fate {
        Fate::Answered => (Effect::Wakes, "it woke the agent"),
        Fate::Waits => (Effect::Wakes, "it was to wake the agent, and still waits"),
        Fate::Given | Fate::Kept => {
            (Effect::Context, "it was kept for the next message that wakes the agent")
        }
        Fate::Ignored => (Effect::Nothing, "it was nothing to the group"),
    };
    Judgement::new(effect, heard.reason.clone().unwrap_or_else(|| why.to_owned()))
}

/// Whether a text begins with the agent's name and a colon: these programs take it for the agent's.
fn is_named(text: &str, assistant: &str) -> bool {
    text.get(..assistant.len()).is_some_and(|start| start.eq_ignore_ascii_case(assistant))
        && text[assistant.len()..].starts_with(':')
}
