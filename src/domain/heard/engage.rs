//! Whether a wiring's agent is to act on a message.
//!
//! Each wiring decides for itself. Who may be heard at all is not asked here, and nothing is stored: that a thread is
//! sticky is told, not guessed.

mod catch_all;
mod trigger;

pub use catch_all::takes_everything;

use ipc_handlers::{
    effect::{EngageMode, IgnoredMessages},
    words,
};

use crate::{
    heard::js_regex::{Pattern, PatternError, TooMuchWork},
    platforms::{addresses::is_main_line, chats},
};

/// When a wiring engages, with its pattern where the mode is `pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engages {
    /// When this JavaScript pattern is found in the text; `.` means always.
    Pattern(String),
    /// When the agent is addressed: the channel says so, or the text begins with the group's trigger.
    Mention,
    /// As `Mention`; in a thread afterwards on every message.
    MentionSticky,
}

impl Engages {
    /// Returns the mode and the pattern as a wiring's columns hold them.
    #[must_use]
    pub fn columns(self) -> (EngageMode, Option<String>) {
        match self {
            Self::Pattern(pattern) => (EngageMode::Pattern, Some(pattern)),
            Self::Mention => (EngageMode::Mention, None),
            Self::MentionSticky => (EngageMode::MentionSticky, None),
        }
    }

    /// Reads a wiring's columns. The mode `pattern` always has one; without it, it takes every message.
    #[must_use]
    pub fn of_columns(mode: EngageMode, pattern: Option<&str>) -> Self {
        match mode {
            EngageMode::Pattern => Self::Pattern(pattern.unwrap_or(".").to_owned()),
            EngageMode::Mention => Self::Mention,
            EngageMode::MentionSticky => Self::MentionSticky,
        }
    }
}

/// How a wiring listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiringRule {
    pub mode: Engages,
    /// The group's trigger, such as `@G2`; a blank one is never found.
    pub trigger: String,
    pub ignored: IgnoredMessages,
}

/// A message as a wiring hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<'t> {
    pub text: &'t str,
    pub author: Author,
    pub mentioned: Mentioned,
    pub sticky: Sticky,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Person,
    /// We did, or it went out under our own account.
    Me,
    /// Another bot, which the group does not hear.
    Bot,
}

/// Whether the channel says that the agent was addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mentioned {
    Yes,
    No,
}

/// Whether the agent was addressed before in the thread of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sticky {
    Yes,
    No,
    /// It is a group's main line, which is no thread: what was said there before does not count.
    MainLine,
}

impl Sticky {
    /// Reads a lane's mark. A chat with one person counts as a thread. `main_thread`: the one that is a group's main line.
    #[must_use]
    pub fn of(kind: chats::ChatKind, main_thread: &str, thread: &str, is_marked: bool) -> Self {
        match kind {
            chats::ChatKind::Group if is_main_line(main_thread, thread) => Self::MainLine,
            chats::ChatKind::Group | chats::ChatKind::Direct if is_marked => Self::Yes,
            chats::ChatKind::Group | chats::ChatKind::Direct => Self::No,
        }
    }
}

/// What a wiring does with a message, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: EngageVerdict,
    pub rule: Rule,
    /// A sentence for people.
    pub reason: String,
    /// A fault to report to the person who set the rule.
    pub problem: Option<Problem>,
}

words! {
    /// What a wiring does with a message.
    pub enum EngageVerdict: "verdict" {
        /// The agent is to act on it.
        Wake = "wake",
        /// It is kept as context.
        Context = "context",
        /// It is nothing to this wiring.
        Ignore = "ignore",
        /// It can't be decided; the message waits for a person.
        Held = "held",
    }
}

words! {
    /// The rule that decided.
    pub enum Rule: "rule" {
        Pattern = "pattern",
        Mention = "mention",
        Trigger = "trigger",
        Sticky = "sticky",
        /// Somebody said yes to a question that it waited for.
        Approved = "approved",
        /// It answers a question of the agent, or tells it that nobody did.
        Asked = "asked",
        Own = "own",
        Bot = "bot",
        None = "none",
        /// `sender-allowlist.json`.
        SenderList = "sender_list",
        /// The wiring hears known senders only.
        SenderScope = "sender_scope",
        /// The group does not know the sender.
        UnknownSender = "unknown_sender",
        /// It answered a question of ours, and is no message to an agent.
        Answer = "answer",
        /// It was written long before it came.
        Late = "late",
        /// A bot and the agent answered each other too often.
        BotLoop = "bot_loop",
        /// A person had it passed over.
        Skipped = "skipped",
        /// A person wrote it to a run.
        Attached = "attached",
        /// We tell the agent that a text of its own was not delivered.
        Undelivered = "undelivered",
        /// It was a word such as `/stop`, and is no message to an agent.
        Word = "word",
        /// It is of before a backup was restored, and a person decides about it.
        Restored = "restored",
    }
}

/// A fault of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("engage pattern {pattern:?} can't be used, so every message engages; set another one")]
    InvalidPattern { pattern: String, source: PatternError },
    #[error("engage pattern {pattern:?} took too long on a message, which is held; simplify it")]
    TooMuchWork { pattern: String, source: TooMuchWork },
}

/// A rule that is ready to be asked many times.
#[derive(Clone, Debug)]
pub struct Listener {
    mode: Mode,
    ignored: IgnoredMessages,
}

#[derive(Clone, Debug)]
enum Mode {
    Always,
    Pattern(String, Pattern),
    InvalidPattern(String, PatternError),
    Mention { trigger: trigger::Trigger, stays: Stays },
}

/// Whether being addressed once is enough for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Yes,
    No,
}

/// Whether messages that do not mention its agent can wake it by a wiring. `threaded`: the chat has threads, in which being mentioned
/// once is enough for `mention-sticky`.
#[must_use]
pub fn wakes_unmentioned(mode: EngageMode, threaded: bool) -> bool {
    match mode {
        EngageMode::Pattern => true,
        EngageMode::MentionSticky => threaded,
        EngageMode::Mention => false,
    }
}

/// Returns what a wiring does with a message; [`Listener`] does the same for many messages.
#[must_use]
pub fn decide(rule: &WiringRule, heard: &Heard<'_>) -> Verdict {
    Listener::new(rule).decide(heard)
}

impl Listener {
    /// Returns the rule, made ready. A pattern that can't be used makes a listener that always engages and says so.
    #[must_use]
    pub fn new(rule: &WiringRule) -> Self {
        let mention = |stays| Mode::Mention { trigger: trigger::Trigger::new(&rule.trigger), stays };
        let mode = match &rule.mode {
            Engages::Pattern(pattern) if pattern == "." => Mode::Always,
            Engages::Pattern(pattern) => match Pattern::compile(pattern) {
                Ok(compiled) => Mode::Pattern(pattern.clone(), compiled),
                Err(error) => Mode::InvalidPattern(pattern.clone(), error),
            },
            Engages::Mention => mention(Stays::No),
            Engages::MentionSticky => mention(Stays::Yes),
        };
        Self { mode, ignored: rule.ignored }
    }

    /// Returns what the wiring does with a message.
    #[must_use]
    pub fn decide(&self, heard: &Heard<'_>) -> Verdict {
        match heard.author {
            Author::Me => return Verdict::new(EngageVerdict::Ignore, Rule::Own, "it is our own message"),
            Author::Bot => {
                return Verdict::new(
                    EngageVerdict::Ignore,
                    Rule::Bot,
                    "another bot wrote it, and the group does not hear bots",
                );
            }
            Author::Person => {}
        }
        match &self.mode {
            Mode::Always => {
                Verdict::new(EngageVerdict::Wake, Rule::Pattern, "the pattern '.' takes every message")
            }
            Mode::InvalidPattern(pattern, error) => Verdict {
                problem: Some(Problem::InvalidPattern { pattern: pattern.clone(), source: error.clone() }),
                ..Verdict::new(
                    EngageVerdict::Wake,
                    Rule::Pattern,
                    format!("the pattern can't be used, so it takes every message: {error}"),
                )
            },
            Mode::Pattern(source, pattern) => self.by_pattern(source, pattern, heard),
            Mode::Mention { trigger, stays } => self.by_mention(trigger, *stays, heard),
        }
    }

    fn by_pattern(&self, source: &str, pattern: &Pattern, heard: &Heard<'_>) -> Verdict {
        match pattern.test(heard.text) {
            Ok(true) => Verdict::new(
                EngageVerdict::Wake,
                Rule::Pattern,
                format!("the text matches the pattern {source:?}"),
            ),
            Ok(false) => self.not_engaged(&format!("the text does not match the pattern {source:?}")),
            Err(error) => Verdict {
                problem: Some(Problem::TooMuchWork { pattern: source.to_owned(), source: error.clone() }),
                ..Verdict::new(EngageVerdict::Held, Rule::Pattern, format!("it is held: {error}"))
            },
        }
    }

    fn by_mention(&self, trigger: &trigger::Trigger, stays: Stays, heard: &Heard<'_>) -> Verdict {
        if heard.mentioned == Mentioned::Yes {
            return Verdict::new(EngageVerdict::Wake, Rule::Mention, "the agent was mentioned");
        }
        if trigger.begins(heard.text) {
            let reason = format!("the text begins with the trigger {trigger}");
            return Verdict::new(EngageVerdict::Wake, Rule::Trigger, reason);
        }
        match (stays, heard.sticky) {
            (Stays::Yes, Sticky::Yes) => {
                Verdict::new(EngageVerdict::Wake, Rule::Sticky, "the agent was addressed in this thread before")
            }
            (Stays::Yes, Sticky::No) => self.not_engaged(&format!(
                "the agent was not mentioned, the text does not begin with the trigger {trigger}, and the agent was \
                 not addressed in this thread before"
            )),
            (Stays::Yes, Sticky::MainLine) => self.not_engaged(&format!(
                "the agent was not mentioned, the text does not begin with the trigger {trigger}, and outside of a \
                 thread each message has to address the agent"
            )),
            (Stays::No, Sticky::Yes | Sticky::No | Sticky::MainLine) => self.not_engaged(&format!(
                "the agent was not mentioned and the text does not begin with the trigger {trigger}"
            )),
        }
    }

    fn not_engaged(&self, reason: &str) -> Verdict {
        match self.ignored {
            IgnoredMessages::Drop => Verdict::new(EngageVerdict::Ignore, Rule::None, reason),
            IgnoredMessages::Accumulate => {
                Verdict::new(EngageVerdict::Context, Rule::None, format!("{reason}; it is kept as context"))
            }
        }
    }
}

/// Which group a registration in v1's terms is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V1Group {
    Main,
    Other,
}

/// Returns how a wiring listens that was registered in v1's terms: main, and a group with `requiresTrigger: false`,
/// take every message; the others their trigger, and keep the rest as context.
#[must_use]
pub fn from_v1(group: V1Group, requires_trigger: Option<bool>) -> (Engages, IgnoredMessages) {
    let mode = match (group, requires_trigger) {
        (V1Group::Main, _) | (V1Group::Other, Some(false)) => Engages::Pattern(".".to_owned()),
        (V1Group::Other, Some(true) | None) => Engages::Mention,
    };
    (mode, IgnoredMessages::Accumulate)
}

/// What kind of place a chat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatKind {
    /// One person and the agent.
    Direct,
    /// A group whose conversations are threads.
    ThreadedGroup,
    Group,
}

impl ChatKind {
    /// Reads a chat's columns. Its own row says so: a message's thread says nothing about its chat.
    #[must_use]
    pub fn of_columns(kind: chats::ChatKind, threaded: bool) -> Self {
        match (kind, threaded) {
            (chats::ChatKind::Direct, _) => Self::Direct,
            (chats::ChatKind::Group, true) => Self::ThreadedGroup,
            (chats::ChatKind::Group, false) => Self::Group,
        }
    }
}

/// Returns how a wiring listens that was made without saying so.
#[must_use]
pub fn default_for(chat: ChatKind) -> (Engages, IgnoredMessages) {
    let mode = match chat {
        ChatKind::Direct => Engages::Pattern(".".to_owned()),
        ChatKind::ThreadedGroup => Engages::MentionSticky,
        ChatKind::Group => Engages::Mention,
    };
    let ignored = kept_beside(&mode);
    (mode, ignored)
}

/// Returns what becomes of the messages that do not engage a wiring, where nobody said so: an agent that waits for a mention reads
/// along.
#[must_use]
pub fn kept_beside(mode: &Engages) -> IgnoredMessages {
    match mode {
        Engages::Pattern(_) => IgnoredMessages::Drop,
        Engages::Mention | Engages::MentionSticky => IgnoredMessages::Accumulate,
    }
}

impl Verdict {
    fn new(outcome: EngageVerdict, rule: Rule, reason: impl Into<String>) -> Self {
        Self { outcome, rule, reason: reason.into(), problem: None }
    }
}

#[cfg(test)]
mod tests;
