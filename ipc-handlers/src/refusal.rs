//! Why a command was not carried out, said so that the agent can mend it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of refusal; the names on the wire are these in snake_case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Not a JSON object, or nested too deeply.
    Malformed,
    /// Over the limit of a command file.
    TooLarge,
    /// A `schemaVersion` that this host does not speak.
    UnsupportedVersion,
    /// A `type` that this host does not know.
    UnknownCommand,
    /// A required field is absent or null.
    MissingField,
    /// A field has the wrong type, is out of range, or is empty where it may not be.
    InvalidField,
    /// A schedule that can't be understood or would never run.
    InvalidSchedule,
    /// The caller's group may not do this.
    NotAuthorized,
    /// No such thing, or none that the caller may see.
    NotFound,
    /// It clashes with something that is there.
    Conflict,
    /// Too much waits already.
    RateLimited,
    /// The host keeps as much of the group's as it may.
    NoRoom,
    /// The host's own fault.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::TooLarge,
        Self::UnsupportedVersion,
        Self::UnknownCommand,
        Self::MissingField,
        Self::InvalidField,
        Self::InvalidSchedule,
        Self::NotAuthorized,
        Self::NotFound,
        Self::Conflict,
        Self::RateLimited,
        Self::NoRoom,
        Self::Internal,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::UnsupportedVersion => "unsupported_version",
            Self::UnknownCommand => "unknown_command",
            Self::MissingField => "missing_field",
            Self::InvalidField => "invalid_field",
            Self::InvalidSchedule => "invalid_schedule",
            Self::NotAuthorized => "not_authorized",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::RateLimited => "rate_limited",
            Self::NoRoom => "no_room",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: what is wrong (`message`) and how to mend it (`hint`).
///
/// Both texts are bounded: what the agent wrote is quoted shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The kind, for programs.
    pub code: Code,
    /// What is wrong, and where.
    pub message: String,
    /// How to mend it, with an example where one helps.
    pub hint: String,
}

impl Refusal {
    /// Returns a refusal.
    pub fn new(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }

    /// Returns the refusal of a `requestId` that came before with other content.
    #[must_use]
    pub fn request_id_reused(id: &crate::RequestId) -> Self {
        Self::new(
            Code::Conflict,
            format!("requestId \"{id}\" was used before with other content"),
            "use a new requestId for each new command; repeat one only with exactly the same bytes",
        )
    }

    /// Returns the refusal when the host failed; says nothing of why, which is in the host's log.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "the host could not carry this out",
            "nothing was changed; try once more, and tell the user if it fails again",
        )
    }

    /// Returns the refusal of a command that a person set aside.
    #[must_use]
    pub fn dropped(reason: &str) -> Self {
        Self::new(
            Code::NotAuthorized,
            format!("a person set this command aside: {reason}"),
            "do not send it again unless you are asked to",
        )
    }

    /// Returns the refusal when `stored` bytes of the group are kept of the `most` that may be.
    #[must_use]
    pub fn no_room(stored: u64, most: u64) -> Self {
        Self::new(
            Code::NoRoom,
            format!("the host keeps {} MiB of this group; at most {} MiB are kept", stored >> 20, most >> 20),
            "cancel tasks that are not needed any more; the user can remove history with `g2 prune` or raise limits.stored_mib",
        )
    }

    /// Returns the refusal when more than `limit` command files of the group wait.
    #[must_use]
    pub fn rate_limited(limit: usize) -> Self {
        Self::new(
            Code::RateLimited,
            format!("more than {limit} command files of this group are waiting"),
            "write fewer commands; wait for the replies before writing more",
        )
    }
}

/// Returns text as it may be quoted in a refusal: escaped, in quotes, at most 60 characters.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() { format!("{shown:?}…") } else { format!("{shown:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_reads_on_the_wire_as_it_is_shown() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(serde_json::from_value::<Code>(code.as_str().into()).unwrap(), code);
        }
    }

    #[test]
    fn a_long_text_is_quoted_shortened_and_escaped() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        let long = quoted(&"é".repeat(10_000));
        assert_eq!(long.chars().count(), 63);
        assert!(long.ends_with("\"…"));
    }
}
