//! The reason for which a command was refused, in words by which the agent can correct it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// The kinds of refusal.
    #[derive(JsonSchema)]
    pub enum Code: "refusal code" {
        /// Not a JSON object, or nested too deeply.
        Malformed = "malformed",
        /// Over the limit of a command file.
        TooLarge = "too_large",
        /// A `schemaVersion` that this host does not speak.
        UnsupportedVersion = "unsupported_version",
        /// A `type` that this host does not know.
        UnknownCommand = "unknown_command",
        /// A required field is absent or null.
        MissingField = "missing_field",
        /// A field has the wrong type, is out of range, or is empty where it may not be.
        InvalidField = "invalid_field",
        /// A schedule that can't be understood or would never run.
        InvalidSchedule = "invalid_schedule",
        /// The caller's group may not do this.
        NotAuthorized = "not_authorized",
        /// No such thing, or none that the caller may see.
        NotFound = "not_found",
        /// It clashes with something that is there.
        Conflict = "conflict",
        /// Too much waits already.
        RateLimited = "rate_limited",
        /// The host keeps as much of the group's as it may.
        NoRoom = "no_room",
        /// The host's own fault.
        Internal = "internal",
    }
}

/// A refusal: the mistake (`message`) and how to fix it (`hint`).
///
/// Both texts are bounded: what the agent wrote is quoted shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The kind, for programs.
    pub code: Code,
    /// The mistake, and its place.
    pub message: String,
    /// How to correct it, with an example where one helps.
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
        for (_, code) in Code::CHOICES.iter().copied() {
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
