//! The threads beside the driver: one asks for turns, one does what takes its time.

use std::sync::mpsc::{Receiver, Sender};

use serde_json::{Value, json};

use super::{archive, mcp::ToolCall, say};
use crate::{
    files::FileError,
    host::Host,
    provider::process::FromCli,
    tools::Asker,
    turns::{Turn, Turns},
};

/// What the driver listens to.
pub(super) enum Input {
    Cli(u32, FromCli),
    Turn(Turn),
    NoMore,
    Gone(FileError),
    /// A line that was worked out elsewhere.
    Line(Value),
}

/// Work beside the conversation, one piece after the other: the order of calls is the order of commands.
pub(super) enum Job {
    Call(ToolCall),
    Archive { request: String, transcript: String, session: String },
}

/// Asks for turns until there are none.
pub(super) fn feed(turns: &Turns, inputs: &Sender<Input>) {
    loop {
        let input = match turns.next() {
            Ok(Some(turn)) => Input::Turn(turn),
            Ok(None) => Input::NoMore,
            Err(e) => Input::Gone(e),
        };
        let last = !matches!(input, Input::Turn(_));
        if inputs.send(input).is_err() || last {
            return;
        }
    }
}

/// Does what takes its time.
pub(super) fn work(jobs: &Receiver<Job>, host: &Host, assistant: &str, inputs: &Sender<Input>) {
    let mut asker = Asker::new(host.mailbox());
    for job in jobs {
        let line = match job {
            Job::Call(call) => {
                let answers: Vec<_> =
                    call.commands.iter().map(|command| asker.ask(command.clone())).collect();
                call.answered(&answers)
            }
            Job::Archive { request, transcript, session } => {
                if let Err(e) =
                    archive::keep(&transcript, &session, assistant, &host.seat.group, host.mailbox())
                {
                    archive::note(&e);
                }
                say::answer(&request, &json!({"continue": true}))
            }
        };
        if inputs.send(Input::Line(line)).is_err() {
            return;
        }
    }
}
