//! What a failure means. Pure.

use channel_protocol::{NotSent, Scope, Went};
use serde::Deserialize;

use crate::kit::Outcome;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// Nothing of it was written.
    #[error("there is no connection to Telegram: {0}")]
    Offline(String),
    /// A part of it was written; what is not whole is not acted on.
    #[error("the connection broke while it was written: {0}")]
    Cut(String),
    /// All of it was written, and no answer came.
    #[error("no answer came: {0}")]
    NoAnswer(String),
    /// An answer came that nobody can read, and the number of the first update in it.
    #[error("the answer can't be read: {0}")]
    Unreadable(&'static str, Option<i64>),
    /// Telegram answered that it will not.
    #[error("{0}")]
    Told(Told),
}

/// An answer that is no result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, thiserror::Error)]
#[serde(default)]
#[error("{description} ({error_code})")]
pub(super) struct Told {
    pub(super) error_code: u16,
    pub(super) description: String,
    pub(super) parameters: Parameters,
}

impl Told {
    /// A method that is not known is answered in more words.
    fn is_denied(&self) -> bool {
        self.error_code == 401 || (self.error_code == 404 && self.description == "Not Found")
    }

    const fn asked_ms(&self) -> Option<u64> {
        match self.parameters.retry_after {
            Some(seconds) => Some(seconds.saturating_mul(1000)),
            None => None,
        }
    }
}

impl Fault {
    /// Whether Telegram says that it does not know the token.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self, Self::Told(told) if told.is_denied())
    }

    /// How long Telegram wants to be left alone, ms.
    pub(super) const fn asked_ms(&self) -> Option<u64> {
        match self {
            Self::Told(told) => told.asked_ms(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Parameters {
    /// Seconds.
    pub(super) retry_after: Option<u64>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

/// How Telegram says that a topic, or a chat, is gone for the bot, and what a person can do. A topic of a group is read by all of the
/// group. What else it refuses, such as a right or a pace, may be well again without that.
const GONE: [(&str, Went, &str); 14] = [
    ("TOPIC_CLOSED", Went::Thread, "an admin of the chat can open the topic again"),
    ("TOPIC_DELETED", Went::Thread, ""),
    ("TOPIC_ID_INVALID", Went::Thread, ""),
    ("message thread not found", Went::Thread, ""),
    ("bot was kicked", Went::Chat, ADD),
    ("bot is not a member", Went::Chat, ADD),
    ("group chat was deleted", Went::Chat, ""),
    ("group chat was deactivated", Went::Chat, ADD),
    ("bot was blocked", Went::Chat, "the person has to unblock the bot"),
    ("user is deactivated", Went::Chat, ""),
    ("can't initiate conversation", Went::Chat, WRITE),
    ("chat not found", Went::Chat, "add the bot to the chat again; a single person has to write to it"),
    ("PEER_ID_INVALID", Went::Chat, WRITE),
    ("CHANNEL_PRIVATE", Went::Chat, ADD),
];
const ADD: &str = "add the bot to the chat again";
const WRITE: &str = "the person has to write to the bot first";

/// What a person can do where Telegram says no.
const HINTS: [(&str, &str, &str); 6] = [
    ("not enough rights", "no_right", "let an admin of the chat give the bot this right"),
    ("no rights to send", "no_right", "let an admin of the chat give the bot this right"),
    ("REACTION_INVALID", "bad_reaction", "Telegram lets bots use its own list of reactions, such as 👍 👀 ❤"),
    ("message can't be edited", "not_editable", "a bot changes its own messages only"),
    (
        "message can't be deleted",
        "not_deletable",
        "a bot deletes its own messages of the last 48 h, and others' as an admin",
    ),
    ("message to edit not found", "not_found", "it was deleted"),
];

/// Says what a failed `send` or `amend` means.
pub(super) fn outcome(fault: &Fault, scope: Scope) -> Outcome {
    match fault {
        Fault::Offline(_) => Outcome::NotSent(NotSent::Offline),
        Fault::Cut(_) => Outcome::NotSent(NotSent::Again { text: fault.to_string() }),
        Fault::NoAnswer(_) | Fault::Unreadable(..) => Outcome::Unknown(fault.to_string()),
        Fault::Told(told) => answered(told, scope),
    }
}

fn answered(told: &Told, scope: Scope) -> Outcome {
    let says = |words: &[&str]| words.iter().any(|word| told.description.contains(word));
    let text = told.to_string();
    if told.parameters.migrate_to_chat_id.is_some() {
        return Outcome::NotSent(NotSent::Again { text });
    }
    // The token is not taken now: the account finds out for how long, and its texts wait for the account.
    if told.is_denied() {
        return Outcome::NotSent(NotSent::Offline);
    }
    match told.error_code {
        429 => Outcome::busy(told.asked_ms(), scope),
        // The change is there already.
        400 if says(&["message is not modified", "message to delete not found"]) => Outcome::Sent(Vec::new()),
        code @ 400..=499 => {
            if let Some((_, what, hint)) = GONE.iter().find(|(word, ..)| told.description.contains(word)) {
                return Outcome::gone(*what, text, hint);
            }
            let known = HINTS.iter().find(|(word, ..)| told.description.contains(word));
            let (name, hint) =
                known.map_or((code.to_string(), ""), |(_, name, hint)| ((*name).to_owned(), *hint));
            Outcome::refused(&name, text, hint)
        }
        _ => Outcome::Unknown(text),
    }
}

/// Whether Telegram takes the same file as a document.
pub(super) fn takes_as_document(fault: &Fault) -> bool {
    let Fault::Told(told) = fault else { return false };
    let why = ["PHOTO_", "IMAGE_PROCESS_FAILED", "VOICE_MESSAGES_FORBIDDEN", "VIDEO_"];
    told.error_code == 400 && why.iter().any(|word| told.description.contains(word))
}

/// Whether a message has a file, and its text stands beside that.
pub(super) fn is_caption(fault: &Fault) -> bool {
    matches!(fault, Fault::Told(told) if told.description.contains("there is no text in the message to edit"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(json: &str) -> Outcome {
        outcome(&Fault::Told(serde_json::from_str(json).unwrap()), Scope::Chat)
    }

    #[test]
    fn an_answer_says_whether_another_try_can_help() {
        let busy = judged(
            r#"{"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":490}}"#,
        );
        assert_eq!(busy, Outcome::NotSent(NotSent::Busy { after_ms: 490_000, scope: Scope::Chat }));
        let again =
            judged(r#"{"error_code":400,"description":"upgraded","parameters":{"migrate_to_chat_id":-100}}"#);
        assert!(matches!(again, Outcome::NotSent(NotSent::Again { .. })));
        for (code, says, is) in [
            (403, "Forbidden: bot was kicked from the supergroup chat", Went::Chat),
            (403, "Forbidden: bot was blocked by the user", Went::Chat),
            (403, "Forbidden: user is deactivated", Went::Chat),
            (403, "Forbidden: bot is not a member of the channel chat", Went::Chat),
            (403, "Forbidden: the group chat was deleted", Went::Chat),
            (403, "Forbidden: bot can't initiate conversation with a user", Went::Chat),
            (400, "Bad Request: chat not found", Went::Chat),
            (400, "Bad Request: group chat was deactivated", Went::Chat),
            (400, "Bad Request: PEER_ID_INVALID", Went::Chat),
            (400, "Bad Request: message thread not found", Went::Thread),
            (400, "Bad Request: TOPIC_DELETED", Went::Thread),
            (400, "Bad Request: TOPIC_CLOSED", Went::Thread),
        ] {
            let text = json!({"error_code": code, "description": says}).to_string();
            let Outcome::NotSent(NotSent::Gone { what, text, .. }) = judged(&text) else { panic!("{says}") };
            assert_eq!((what, text), (is, format!("{says} ({code})")));
        }
        // It may pass, or a right is missing: the chat is there.
        for (code, says) in [
            (403, "Forbidden: not enough rights to send text messages to the chat"),
            (400, "Bad Request: have no rights to send a message"),
            (403, "Forbidden: something new"),
        ] {
            let text = json!({"error_code": code, "description": says}).to_string();
            assert!(matches!(judged(&text), Outcome::NotSent(NotSent::Refused { .. })), "{says}");
        }
        let same = r#"{"error_code":400,"description":"Bad Request: message is not modified: specified …"}"#;
        assert_eq!(judged(same), Outcome::Sent(Vec::new()));
        for (text, code) in [
            (
                r#"{"error_code":400,"description":"Bad Request: not enough rights to send text messages"}"#,
                "no_right",
            ),
            (r#"{"error_code":413,"description":"Request Entity Too Large"}"#, "413"),
        ] {
            let Outcome::NotSent(NotSent::Refused { code: is, .. }) = judged(text) else { panic!("{text}") };
            assert_eq!(is, code);
        }
        assert!(matches!(judged(r#"{"error_code":502,"description":"Bad Gateway"}"#), Outcome::Unknown(_)));
        for denied in [r#"{"error_code":401}"#, r#"{"error_code":404,"description":"Not Found"}"#] {
            assert_eq!(judged(denied), Outcome::NotSent(NotSent::Offline), "{denied}");
        }
        let strange = r#"{"error_code":404,"description":"Not Found: method not found"}"#;
        assert!(matches!(judged(strange), Outcome::NotSent(NotSent::Refused { .. })));
    }

    #[test]
    fn a_broken_connection_says_how_far_the_request_came() {
        let of = |fault| outcome(&fault, Scope::Chat);
        assert_eq!(of(Fault::Offline("x".into())), Outcome::NotSent(NotSent::Offline));
        assert!(matches!(of(Fault::Cut("x".into())), Outcome::NotSent(NotSent::Again { .. })));
        assert!(matches!(of(Fault::NoAnswer("x".into())), Outcome::Unknown(_)));
    }
}
