//! What went wrong, told apart: each error record of ours reads `acp/KIND: words`.
//!
//! | kind | what has happened |
//! |---|---|
//! | `start` | the program can't be started, or ended before it was up |
//! | `protocol` | the agent speaks another version of the protocol, or leaves out what it must say |
//! | `authentication` | the agent wants to be logged in first |
//! | `agent` | the agent has answered with an error |
//! | `refusal` `max_tokens` `max_turn_requests` `cancelled` | why the agent broke its turn off, in the protocol's words |
//! | `stalled` | the agent has said nothing for too long while no tool ran; it was asked to stop |
//! | `exited` | the program ended in the middle of things |

use serde_json::Value;

/// The most that is said of one failure, characters.
const LONGEST: usize = 2000;

/// The agent can't be driven, or a turn of it has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("acp/{kind}: {words}")]
pub struct AcpError {
    kind: &'static str,
    words: String,
}

impl AcpError {
    pub(super) fn new(kind: &'static str, words: impl AsRef<str>) -> Self {
        Self { kind, words: words.as_ref().trim().chars().take(LONGEST).collect() }
    }

    /// An error that the agent answered with.
    pub(super) fn answered(error: &Value) -> Self {
        let mut words = error["message"].as_str().unwrap_or("an error without a message").to_owned();
        let details = &error["data"]["details"];
        if let Some(more) = details.as_str().or(error["data"].as_str()).filter(|more| !words.contains(more)) {
            words = format!("{words}: {more}");
        }
        let kind = if error["code"] == AUTH_REQUIRED { "authentication" } else { "agent" };
        Self::new(kind, words)
    }

    /// Whether the agent wants to be logged in.
    pub(super) fn is_authentication(&self) -> bool {
        self.kind == "authentication"
    }
}

/// The protocol's code for an agent that wants to be logged in.
const AUTH_REQUIRED: i64 = -32000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_the_agent_are_told_with_their_details() {
        let of = |error: Value| AcpError::answered(&error).to_string();
        assert_eq!(
            of(json!({"code": -32000, "message": "Authentication required"})),
            "acp/authentication: Authentication required"
        );
        assert_eq!(
            of(json!({"code": -32603, "message": "Internal error", "data": {"details": "overloaded"}})),
            "acp/agent: Internal error: overloaded"
        );
        assert_eq!(of(json!({"code": 1})), "acp/agent: an error without a message");
    }
}
