//! The failure of an operation.

use ipc_handlers::{Code, InvalidFolder, Refusal, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        kept::prune::History,
        shown::errors::{chain, with_hint},
    },
    ipc,
    store::{Store, StoreError, is_disk_full},
};

words! {
    /// The kinds of failure, for programs.
    #[derive(JsonSchema)]
    pub enum OpCode: "kind of failure" {
        /// An argument is wrong, or one is missing.
        Invalid = "invalid",
        /// There is no such thing.
        NotFound = "not_found",
        /// A rule or the present state forbids it; nothing is changed.
        Refused = "refused",
        /// The caller has no right to do this.
        NotAuthorized = "not_authorized",
        /// A limit is reached: no room is left, or too much waits already.
        NoRoom = "no_room",
        /// The machine, the store or this program failed.
        Failed = "failed",
        /// The connection was lost before the answer: it may or may not be done.
        Unknown = "unknown",
        /// No daemon runs, and this needs one.
        NotRunning = "not_running",
        /// The daemon does not answer.
        NotAnswering = "not_answering",
    }
}

/// The failure of an operation: the mistake, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{}", with_hint(message, hint))]
pub struct OpError {
    pub code: OpCode,
    /// The mistake or failure in words.
    pub message: String,
    /// How to fix it; empty: the message says all.
    #[serde(default)]
    pub hint: String,
}

impl OpError {
    /// Returns a failure without a hint.
    pub fn new(code: OpCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: String::new() }
    }

    /// An argument is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(OpCode::Invalid, message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(OpCode::NotFound, message)
    }

    /// A rule or the present state forbids it.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(OpCode::Refused, message)
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl From<StoreError> for OpError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Refused { why, hint } => Self::refused(why).hint(hint),
            StoreError::NotFound { .. } => Self::not_found(error.to_string()),
            _ if is_disk_full(&error) => {
                Self::new(OpCode::Failed, chain(&error)).hint("make room on the disk, then try again")
            }
            _ => Self::new(OpCode::Failed, chain(&error)),
        }
    }
}

impl From<InvalidFolder> for OpError {
    fn from(bad: InvalidFolder) -> Self {
        Self::invalid(bad.why()).hint(InvalidFolder::HINT)
    }
}

impl From<ipc::WorldFault> for OpError {
    fn from(error: ipc::WorldFault) -> Self {
        Self::new(OpCode::Failed, chain(&error))
    }
}

impl From<Refusal> for OpError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code {
            Code::Malformed
            | Code::TooLarge
            | Code::UnsupportedVersion
            | Code::UnknownCommand
            | Code::MissingField
            | Code::InvalidField
            | Code::InvalidSchedule => OpCode::Invalid,
            Code::NotAuthorized => OpCode::NotAuthorized,
            Code::NotFound => OpCode::NotFound,
            Code::Conflict => OpCode::Refused,
            Code::RateLimited | Code::NoRoom => OpCode::NoRoom,
            Code::Internal => OpCode::Failed,
        };
        // The mailbox has a finer code.
        Self::new(code, refusal.message).hint(format!("{} ({})", refusal.hint, refusal.code))
    }
}

/// Returns the failure for a row of the history that does not exist. It says so if the row was removed.
#[must_use]
pub fn missing(store: &Store, what: History, id: i64) -> OpError {
    let name = match what {
        History::Approvals => "question",
        History::Messages => "message",
        History::Outbox => "outbox row",
        History::Batches => "batch",
        History::Runs => "run",
        History::Receipts | History::ByHand => "command",
    };
    let removed = "it was only history, and was removed (`g2 prune --help`)";
    match store.was_given(what, id) {
        Ok(true) if name == "command" => OpError::not_found(format!(
            "nothing is kept of command {id}: {removed}, or its claim had no outcome"
        )),
        Ok(true) => OpError::not_found(format!("{name} {id} does not exist any more: {removed}")),
        Ok(false) if what == History::Runs => OpError::not_found(format!("run {id} does not exist"))
            .hint("`g2 runs list` lists all runs, `g2 ps` those under way"),
        Ok(false) => OpError::not_found(format!("{name} {id} does not exist")),
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fault;

    #[test]
    fn a_full_disk_is_told_with_what_helps() {
        let error = OpError::from(StoreError::Commit(Fault::of(13)));
        assert_eq!((error.code, &*error.hint), (OpCode::Failed, "make room on the disk, then try again"));
        assert!(
            error.message.starts_with("committing failed: ") && error.message.contains("full"),
            "{error}"
        );
        assert_eq!(OpError::from(StoreError::Closed).hint, "");
    }

    #[test]
    fn a_refusal_of_the_store_is_told_with_its_hint() {
        let error = OpError::from(StoreError::refused("a is there", "change it with `b`; or not"));
        assert_eq!((&*error.message, &*error.hint), ("a is there", "change it with `b`; or not"));
        assert_eq!(error.to_string(), "a is there; change it with `b`; or not");
        assert_eq!(OpError::refused("a is there").to_string(), "a is there");
    }
}
