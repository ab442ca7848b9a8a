//! What a platform can do, what it is given, and what becomes of it.

pub use channel_protocol::{Format, NotSent, Scope, SentTwice, TextLimit, Unit, Went};
use g2_text::{Rendered, Text};
use ipc_handlers::words;
use sha2::{Digest as _, Sha256};

use super::{attachments::Attachment, parcels::Takes};
use crate::{
    rows::{Delivery, UnknownDeliveries},
    runs::retry,
};

/// What a platform can do; by default nothing but to take a text of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// What becomes of a part that it is given again with the same key.
    pub sent_twice: SentTwice,
    pub buttons: bool,
    pub typing: bool,
    pub edits: bool,
    /// How long it is to be left alone between two changes of a text that grows, ms.
    pub growth_ms: u64,
    /// Whether it shows our reactions to messages.
    pub reacts: bool,
    pub threads: bool,
    /// How long a text may be, and how bold text, code and links are written; `None`: it takes any text as it is.
    pub text: Option<TextLimit>,
    pub files: Takes,
}

impl Traits {
    /// Whether it recognises our keys, however late. Then a text that is sent twice is shown once.
    #[must_use]
    pub fn knows_our_ids(&self) -> bool {
        matches!(self.sent_twice, SentTwice::Key { window_ms: None, .. })
    }
}

/// Returns a text as the messages that a platform takes. Marks mean something only in `markdown`, as agents write it: what the
/// host says may hold names that strangers chose.
#[must_use]
pub fn parts(text: &str, is_markdown: bool, limit: TextLimit) -> Vec<Rendered> {
    let most = if limit.max == 0 { usize::MAX } else { limit.max };
    let text = if is_markdown { g2_text::parse(text) } else { Text::words(text) };
    g2_text::parts_of(&text, limit.format, most, limit.unit)
}

/// A part of something to say: all that a platform takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it is a part of.
    pub of: &'a Delivery,
    /// Which one, from 1.
    pub n: u32,
    /// Empty where it is files alone.
    pub text: &'a Rendered,
    pub files: &'a [Attachment],
    /// Whether it is the last one: what goes with the whole, such as buttons, goes with this.
    pub last: bool,
}

impl Part<'_> {
    /// Returns our id of it: the same each time it is sent, and no other part's.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.{}", self.of.id, self.n)
    }
}

/// Something is not known to have arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The platform certainly has nothing of it.
    #[error("{}", said(.0))]
    Not(NotSent),
    /// It may have it, or not.
    #[error("it may have arrived: {0}")]
    Unknown(String),
}

impl Unsent {
    /// It certainly was not taken; another try may help.
    #[must_use]
    pub fn again(text: impl Into<String>) -> Self {
        Self::Not(NotSent::Again { text: text.into() })
    }

    /// It never will be taken.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Not(NotSent::Refused { code: String::new(), text: text.into(), hint: String::new() })
    }
}

/// A text that waited for a connection for so long is told to be old, ms.
pub const OLD_MS: i64 = 900_000;

/// Says in a chat, after texts that waited for a connection, since when the oldest of them did.
#[must_use]
pub fn waited(ms: i64) -> String {
    let minutes = ms / 60_000;
    let time = if minutes < 120 { format!("{minutes} minutes") } else { format!("{} hours", minutes / 60) };
    format!("I could not reach this chat for a while. The oldest text above waited for {time}.")
}

/// What became of something that was sent or changed: the platform's ids of it, none where it was changed.
pub type Outcome = Result<Vec<String>, Unsent>;

/// Returns why the platform has nothing of something, in words.
fn said(why: &NotSent) -> String {
    match why {
        NotSent::Busy { after_ms, .. } => format!("the platform asks to wait {} s", after_ms.div_ceil(1000)),
        NotSent::Offline => "there is no connection to the platform; it is sent when there is one".into(),
        NotSent::Again { text } => text.clone(),
        NotSent::Gone { text, hint, .. } => {
            let text = if text.is_empty() { "the chat is gone, or the bot is not in it" } else { text };
            if hint.is_empty() { text.into() } else { format!("{text}; {hint}") }
        }
        NotSent::Refused { text, hint, .. } if hint.is_empty() => text.clone(),
        NotSent::Refused { text, hint, .. } => format!("{text}; {hint}"),
    }
}

/// Whether a platform has something that may have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Has(Vec<String>),
    HasNot,
    CannotTell(String),
}

/// A change of a message that the platform has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Text(Rendered),
    Deleted,
    /// Our reaction to it; empty: it goes.
    Reaction(String),
}

impl Change {
    /// Returns our id of the change of a message, within 14 characters: the same however often it is made.
    #[must_use]
    pub fn key(&self, platform_id: &str) -> String {
        let (kind, words) = match self {
            Self::Text(text) => ("t", &text.text),
            Self::Deleted => ("d", &String::new()),
            Self::Reaction(sign) => ("r", sign),
        };
        let mut hash = Sha256::new();
        for word in [kind, platform_id, words] {
            hash.update(word.len().to_le_bytes());
            hash.update(word);
        }
        if let Self::Text(Rendered { spans, html, .. }) = self {
            hash.update(serde_json::json!([spans, html]).to_string());
        }
        let digest: [u8; 32] = hash.finalize().into();
        digest[..6].iter().fold(format!("e{kind}"), |key, byte| format!("{key}{byte:02x}"))
    }
}

/// The reaction to a part that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is sent again after `after_ms`. `counts`: this was one of its tries.
    Again { after_ms: i64, counts: bool },
    /// The same, and until then it is shown that it may have arrived.
    AgainUnknown { after_ms: i64 },
    /// It is said in the chat, without its thread.
    WithoutThread,
    /// It is given up.
    GiveUp,
    /// The same, as this is gone.
    Gone(What),
}

/// What a text was for, and is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Thread,
    Chat,
}

/// A part that fails so often is given up.
pub const TRIES: u32 = 8;
/// However long a platform asks to be left alone, it is asked again then, ms.
pub const LONGEST_WAIT_MS: i64 = 3_600_000;
/// The rest after a connection was found missing, ms. Nothing is sent before there is one.
const OFFLINE_MS: i64 = 1000;

/// Decides the reaction to a part that was not taken, after `tries` other tries.
#[must_use]
pub fn after(unsent: &Unsent, tries: u32, sent_twice: SentTwice, unknown: UnknownDeliveries) -> Then {
    let again = tries.saturating_add(1) < TRIES;
    let after_ms = retry::delivery_rest_ms(tries);
    match (unsent, sent_twice) {
        (Unsent::Not(NotSent::Busy { after_ms, .. }), _) => {
            let wait = i64::try_from(*after_ms).unwrap_or(i64::MAX).clamp(1, LONGEST_WAIT_MS);
            Then::Again { after_ms: wait, counts: false }
        }
        (Unsent::Not(NotSent::Offline), _) => Then::Again { after_ms: OFFLINE_MS, counts: false },
        (Unsent::Not(NotSent::Again { .. }), _) if again => Then::Again { after_ms, counts: true },
        (Unsent::Unknown(_), SentTwice::Key { .. } | SentTwice::Readback) if again => {
            Then::Again { after_ms, counts: true }
        }
        (Unsent::Unknown(_), SentTwice::Never) if again && unknown == UnknownDeliveries::Resend => {
            Then::AgainUnknown { after_ms }
        }
        (Unsent::Not(NotSent::Gone { .. }), _) => Then::Gone(What::Chat),
        (Unsent::Not(NotSent::Again { .. } | NotSent::Refused { .. }), _) | (Unsent::Unknown(_), _) => {
            Then::GiveUp
        }
    }
}

/// Whether a text is for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InThread {
    No,
    Yes,
    /// It was: the thread went, and the text is said without it.
    Left,
}

impl InThread {
    /// Returns how it stands with a text.
    #[must_use]
    pub fn of(said: &Delivery) -> Self {
        match (said.thread_gone, said.thread.is_empty()) {
            (true, _) => Self::Left,
            (false, false) => Self::Yes,
            (false, true) => Self::No,
        }
    }
}

/// Decides, beside [`after`], the reaction to a part of a text for a thread. The text is said without the thread where that reaches the
/// same people, and once: one that may have arrived, `doubtful`, is not.
#[must_use]
pub fn after_in_thread(then: Then, unsent: &Unsent, thread: InThread, doubtful: bool) -> Then {
    let went = match unsent {
        Unsent::Not(NotSent::Gone { what, .. }) => Some(*what),
        Unsent::Not(_) | Unsent::Unknown(_) => None,
    };
    match (then, thread, went) {
        (Then::Gone(_), InThread::Yes, Some(Went::Thread)) if !doubtful => Then::WithoutThread,
        (Then::Gone(_), InThread::Yes | InThread::Left, Some(Went::Thread | Went::ClosedThread))
        | (Then::GiveUp, InThread::Left, _) => Then::Gone(What::Thread),
        // The topic that stands for the chat itself is closed; the others are read and written as before.
        (Then::Gone(_), InThread::No, Some(Went::Thread)) => Then::GiveUp,
        (then, InThread::No | InThread::Yes | InThread::Left, _) => then,
    }
}

/// How it goes on with a part that may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is sent again: the platform shows it once, or that is wished for.
    SendAgain,
    /// The platform is asked first whether it has it.
    LookFirst,
    /// It is left as it is.
    Leave,
}

/// Decides how it goes on with a part that was first sent `age_ms` ago and may have arrived. A platform that can tell is asked: the
/// clock may have been set since, so the end of a key's window is not known for sure.
#[must_use]
pub fn in_doubt(sent_twice: SentTwice, age_ms: i64, unknown: UnknownDeliveries) -> Doubt {
    match sent_twice {
        SentTwice::Key { window_ms: Some(_), readback: true } | SentTwice::Readback => Doubt::LookFirst,
        SentTwice::Key { .. } | SentTwice::Never => unasked(sent_twice, age_ms, unknown),
    }
}

/// Decides the same where the platform can't tell.
#[must_use]
pub fn unasked(sent_twice: SentTwice, age_ms: i64, unknown: UnknownDeliveries) -> Doubt {
    let has_key = match sent_twice {
        SentTwice::Key { window_ms, .. } => {
            window_ms.is_none_or(|window| age_ms < i64::try_from(window).unwrap_or(i64::MAX))
        }
        SentTwice::Readback | SentTwice::Never => false,
    };
    match unknown {
        _ if has_key => Doubt::SendAgain,
        UnknownDeliveries::Resend => Doubt::SendAgain,
        UnknownDeliveries::Leave => Doubt::Leave,
    }
}

words! {
    /// Whether a platform is connected.
    pub enum Connection: "connection state" {
        /// It is being connected to.
        Connecting = "connecting",
        Connected = "connected",
        /// It can't be reached; that is tried again.
        Offline = "offline",
        /// It turned us away: a person has to do something.
        Refused = "refused",
    }
}

words! {
    /// How one side of a connection stands.
    #[derive(Default)]
    pub enum Lamp: "light" {
        Ok = "ok",
        /// It is being tried.
        Waiting = "waiting",
        Failing = "failing",
        /// A person has to do something.
        Refused = "refused",
        #[default]
        Unknown = "unknown",
    }
}

/// How an account stands, as its adapter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lights {
    pub transport: Connection,
    pub inbound: Lamp,
    pub outbound: Lamp,
    pub why: Option<String>,
    pub hint: Option<String>,
    /// Whether it is told all messages of groups; `None`: nothing new is known.
    pub hears_all: Option<bool>,
}

words! {
    /// What somebody did to a message afterwards.
    pub enum MarkKind: "mark" {
        Deleted = "deleted",
        Reaction = "reaction",
        ReactionGone = "reaction_gone",
    }
}

/// Something that was done to a message afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub chat_jid: String,
    /// What tells the event from every other of its chat.
    pub replay_key: String,
    /// The platform's id of the message.
    pub message_id: String,
    pub sender: String,
    pub kind: MarkKind,
    /// The reaction itself; empty where the message was deleted.
    pub reaction: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: SentTwice = SentTwice::Never;
    const KEY: SentTwice = SentTwice::Key { window_ms: None, readback: false };

    fn gone(what: Went) -> Unsent {
        Unsent::Not(NotSent::Gone { text: String::new(), hint: String::new(), what })
    }

    #[test]
    fn a_text_leaves_its_thread_once_and_only_where_the_same_people_read_it() {
        let no = Unsent::refused("no");
        let chat = Then::Gone(What::Chat);
        let thread = Then::Gone(What::Thread);
        for (unsent, in_thread, doubtful, then) in [
            (gone(Went::Thread), InThread::Yes, false, Then::WithoutThread),
            (gone(Went::Thread), InThread::Yes, true, thread),
            (gone(Went::Thread), InThread::Left, false, thread),
            (gone(Went::Thread), InThread::No, false, Then::GiveUp),
            (gone(Went::ClosedThread), InThread::Yes, false, thread),
            (gone(Went::ClosedThread), InThread::No, false, chat),
            (gone(Went::Chat), InThread::Yes, false, chat),
            (gone(Went::Chat), InThread::Left, false, chat),
            (no.clone(), InThread::Yes, false, Then::GiveUp),
            (no, InThread::Left, false, thread),
            (Unsent::Unknown("x".into()), InThread::Left, true, thread),
        ] {
            let alone = after(&unsent, TRIES, NEVER, UnknownDeliveries::Leave);
            assert_eq!(
                after_in_thread(alone, &unsent, in_thread, doubtful),
                then,
                "{unsent:?} {in_thread:?}"
            );
        }
        // A platform that is busy is asked again, wherever the text is for.
        let busy = Unsent::Not(NotSent::Busy { after_ms: 7, scope: Scope::Chat });
        let again = Then::Again { after_ms: 7, counts: false };
        for in_thread in [InThread::No, InThread::Yes, InThread::Left] {
            assert_eq!(after_in_thread(again, &busy, in_thread, false), again);
        }
    }

    #[test]
    fn what_was_not_taken_is_sent_again_as_long_as_that_is_harmless_or_wished_for() {
        use UnknownDeliveries::{Leave, Resend};
        let busy = Unsent::Not(NotSent::Busy { after_ms: 490_000, scope: Scope::Account });
        let (offline, away) = (Unsent::Not(NotSent::Offline), Unsent::again("away"));
        let gone = gone(Went::Chat);
        let (never, lost) = (Unsent::refused("no"), Unsent::Unknown("lost".into()));
        let again = |after_ms, counts| Then::Again { after_ms, counts };
        let table = [
            (&busy, 7, NEVER, Leave, again(490_000, false)),
            (&busy, 7, KEY, Leave, again(490_000, false)),
            (&offline, 7, NEVER, Leave, again(1000, false)),
            (&offline, 7, SentTwice::Readback, Resend, again(1000, false)),
            (&away, 0, NEVER, Leave, again(1000, true)),
            (&away, 6, NEVER, Leave, again(64_000, true)),
            (&away, 7, KEY, Resend, Then::GiveUp),
            (&never, 0, KEY, Resend, Then::GiveUp),
            (&gone, 0, KEY, Resend, Then::Gone(What::Chat)),
            (&lost, 0, KEY, Leave, again(1000, true)),
            (&lost, 0, SentTwice::Readback, Leave, again(1000, true)),
            (&lost, 7, SentTwice::Readback, Leave, Then::GiveUp),
            (&lost, 0, NEVER, Resend, Then::AgainUnknown { after_ms: 1000 }),
            (&lost, 7, NEVER, Resend, Then::GiveUp),
            (&lost, 0, NEVER, Leave, Then::GiveUp),
        ];
        for (unsent, tries, sent_twice, unknown, then) in table {
            assert_eq!(after(unsent, tries, sent_twice, unknown), then, "{unsent:?} {tries} {sent_twice:?}");
        }
    }

    #[test]
    fn what_may_have_arrived_is_looked_for_and_sent_again_within_the_keys_window() {
        use UnknownDeliveries::{Leave, Resend};
        let key = |readback| SentTwice::Key { window_ms: Some(180_000), readback };
        let table = [
            (KEY, i64::MAX, Leave, Doubt::SendAgain),
            (key(true), 0, Leave, Doubt::LookFirst),
            (key(true), 180_000, Resend, Doubt::LookFirst),
            (key(false), 179_999, Leave, Doubt::SendAgain),
            (key(false), 180_000, Resend, Doubt::SendAgain),
            (key(false), 180_000, Leave, Doubt::Leave),
            (SentTwice::Readback, 0, Leave, Doubt::LookFirst),
            (SentTwice::Readback, 0, Resend, Doubt::LookFirst),
            (NEVER, 0, Resend, Doubt::SendAgain),
            (NEVER, 0, Leave, Doubt::Leave),
        ];
        for (sent_twice, age, unknown, doubt) in table {
            assert_eq!(in_doubt(sent_twice, age, unknown), doubt, "{sent_twice:?} {age} {unknown:?}");
        }
        // Where the platform can't tell.
        let table = [
            (key(true), 179_999, Leave, Doubt::SendAgain),
            (key(true), 180_000, Leave, Doubt::Leave),
            (key(true), 180_000, Resend, Doubt::SendAgain),
            (SentTwice::Readback, 0, Leave, Doubt::Leave),
            (SentTwice::Readback, 0, Resend, Doubt::SendAgain),
        ];
        for (sent_twice, age, unknown, doubt) in table {
            assert_eq!(unasked(sent_twice, age, unknown), doubt, "{sent_twice:?} {age} {unknown:?}");
        }
    }

    #[test]
    fn a_change_has_one_key_and_no_other_change_has_it() {
        let text = |text: &str, html: Option<&str>| {
            Change::Text(Rendered { text: text.into(), html: html.map(Into::into), ..Rendered::default() })
        };
        let all = [
            text("a", None),
            text("b", None),
            text("a", Some("<b>a</b>")),
            Change::Deleted,
            Change::Reaction("👀".into()),
            Change::Reaction(String::new()),
        ];
        let keys: std::collections::BTreeSet<String> =
            all.iter().flat_map(|change| ["1", "2"].map(|id| change.key(id))).collect();
        assert_eq!(keys.len(), all.len() * 2);
        assert!(keys.iter().all(|key| key.len() == 14 && key.bytes().all(|b| b.is_ascii_alphanumeric())));
        assert_eq!(all[0].key("1"), all[0].clone().key("1"));
    }

    #[test]
    fn a_limit_of_0_is_none_and_a_table_is_shown_as_one_wherever_it_goes() {
        let table = "| a | b |\n|---|---|\n| one | **2** |";
        let formats = [
            Format::Spans,
            Format::Discord,
            Format::Slack,
            Format::Whatsapp,
            Format::Matrix,
            Format::Irc,
            Format::Plain,
        ];
        for format in formats {
            let limit = TextLimit { max: 0, unit: Unit::Bytes, format };
            let shown: Vec<String> = parts(table, true, limit).into_iter().map(|part| part.text).collect();
            let shown = shown.join("\n");
            assert!(shown.contains("one  2") && !shown.contains("|---"), "{format:?} {shown}");
            // What a stranger is called means nothing.
            let shown = parts("Ada **x** [y](https://z.example)", false, limit).remove(0);
            assert!(shown.spans.is_empty() && !shown.html.unwrap_or_default().contains('"'), "{format:?}");
        }
        let long = "word ".repeat(100_000);
        assert_eq!(parts(&long, true, TextLimit { max: 0, ..TextLimit::default() }).len(), 1);
    }

    #[test]
    fn a_platform_that_wants_to_be_left_alone_for_ever_is_asked_again_in_an_hour() {
        let for_ever = Unsent::Not(NotSent::Busy { after_ms: u64::MAX, scope: Scope::Chat });
        assert_eq!(
            after(&for_ever, 0, KEY, UnknownDeliveries::Leave),
            Then::Again { after_ms: LONGEST_WAIT_MS, counts: false }
        );
    }
}
