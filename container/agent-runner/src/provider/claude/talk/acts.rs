//! What a conversation asks to be done, and by which rules it goes.

use std::time::Duration;

use ipc_handlers::wire::Say;
use serde_json::Value;

use super::super::{event::Retry, failure::Failure, hooks, mcp::ToolCall};
use crate::{host::Event as Report, tools::Place};

/// An action.
#[derive(Debug)]
pub(in super::super) enum Act {
    Report(Report),
    Write(Value),
    Call(ToolCall),
    /// Keep the transcript, then answer this request.
    Archive {
        request: String,
        transcript: String,
        session: String,
    },
    /// A line for people.
    Note(String),
    /// The CLI does not know the session: begin a new one.
    Fresh,
    /// Let the CLI end; all is done.
    Close,
    /// Leave with an error; it has been reported.
    Fail,
}

/// What holds for the whole run.
pub(in super::super) struct Rules {
    pub(in super::super) place: Place,
    pub(in super::super) blocked: Vec<String>,
    pub(in super::super) stall: Duration,
    /// What of an answer is said before it is whole.
    pub(in super::super) say: Say,
}

impl Rules {
    /// Whether questions of the CLI's own tool are asked in the chat: it is blocked, as nobody sits at the session.
    pub(in super::super) fn asks(&self) -> bool {
        self.blocked.iter().any(|name| name == hooks::ASKS)
    }
}

/// Returns how a run ends with a failure.
pub(super) fn fail(failure: &Failure) -> Vec<Act> {
    vec![Act::Report(Report::Failed(failure.to_string())), Act::Fail]
}

/// Returns the note about a wait.
pub(super) fn waits(retry: &Retry) -> String {
    let why = match retry.status {
        Some(status) => format!("{status} {}", retry.error),
        None => "no answer".to_owned(),
    };
    format!(
        "waiting {:.1} s for the model ({why}), try {} of {}",
        retry.delay_ms as f64 / 1000.0,
        retry.attempt,
        retry.most
    )
}
