//! From a command to what the model is told of it.

use serde_json::Value;

use crate::{
    ids,
    mailbox::{CommandBox, Mailbox, Reply},
    runner::chain,
};

/// How many commands without a reply are remembered.
const REMEMBERED: usize = 32;

/// What the model is told of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done(String),
    Refused(String),
}

/// Sends what tools ask for, one after the other: the order of calls is the order of commands.
///
/// A command that got no reply keeps its id. Asked again word for word, it goes out under that id, so that the host
/// answers it once more instead of applying it twice.
pub(crate) struct Asker<'a> {
    mailbox: &'a Mailbox,
    /// Commands without a reply and their ids, oldest first.
    unanswered: Vec<(Value, String)>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(mailbox: &'a Mailbox) -> Self {
        Self { mailbox, unanswered: Vec::new() }
    }

    /// Sends a command and waits for what the host says to it.
    pub(crate) fn ask(&mut self, command: Value) -> Answer {
        let before = self.unanswered.iter().position(|(asked, _)| *asked == command);
        let id = before.map_or_else(ids::request_id, |at| self.unanswered.remove(at).1);
        let mut sent = command.clone();
        sent["requestId"] = id.clone().into();
        match self.mailbox.send(CommandBox::Tasks, &sent) {
            Ok(reply) => {
                if let Reply::TimedOut { .. } = reply {
                    self.unanswered.push((command, id));
                    let surplus = self.unanswered.len().saturating_sub(REMEMBERED);
                    self.unanswered.drain(..surplus);
                }
                answer(&reply)
            }
            Err(e) => Answer::Refused(chain(&e)),
        }
    }
}

/// Returns what the model is told of the host's reply.
pub(super) fn answer(reply: &Reply) -> Answer {
    let text = match reply {
        Reply::Text(text) => text,
        Reply::NotAwaited => return Answer::Done(String::new()),
        Reply::TimedOut { waited, .. } => {
            return Answer::Refused(format!(
                "The host has not answered within {} ms: this may have been applied, or may still be. Do not ask for it \
                 in other words, which would be a second time. The same call with exactly the same arguments is safe: it \
                 is one and the same to the host.",
                waited.as_millis()
            ));
        }
    };
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return Answer::Refused(format!("the host's reply can't be read: {text}"));
    };
    if json["ok"] == true {
        let result = json.get("result").filter(|result| result.as_object().is_none_or(|map| !map.is_empty()));
        return Answer::Done(result.map_or_else(|| "Done.".to_owned(), |result| format!("Done: {result}")));
    }
    let word = |name: &str| json["error"][name].as_str().unwrap_or_default().to_owned();
    Answer::Refused(format!("Refused ({}): {}. Hint: {}", word("code"), word("message"), word("hint")))
}
