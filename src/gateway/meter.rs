//! Reads what an answer of the Messages API used, while its bytes pass by. Pure, linear, and of bounded memory: pieces
//! may end anywhere, in the middle of a character too.

mod events;
mod scan;

#[cfg(test)]
mod tests;

use events::Events;
use scan::Scan;

use crate::domain::runs::usage::Tokens;

/// The longest name of a model that is kept, bytes.
const LONGEST_MODEL: usize = 96;

/// What one answer used, as far as it got. Each figure is the newest that was named: a stream counts up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The model that answered; empty when the answer names none.
    pub model: String,
    pub tokens: Tokens,
}

/// How an answer's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON document.
    Document,
    /// `text/event-stream`: a JSON document in the `data` of each event.
    Events,
    /// Nothing that says what was used.
    Other,
}

impl Form {
    /// Tells the form by the answer's `content-type`.
    pub(super) fn of(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if kind.eq_ignore_ascii_case("application/json") {
            Self::Document
        } else {
            Self::Other
        }
    }
}

/// The meter of one answer.
pub(super) struct Meter {
    form: Form,
    events: Events,
    scan: Scan,
    usage: Usage,
}

impl Meter {
    pub(super) fn new(form: Form) -> Self {
        Self { form, events: Events::default(), scan: Scan::default(), usage: Usage::default() }
    }

    /// Reads the next piece.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { form, events, scan, usage } = self;
        let mut read = |byte| scan.push(byte, &mut |path, value| note(usage, path, value));
        match form {
            Form::Other => {}
            Form::Document => bytes.iter().for_each(|byte| read(Some(*byte))),
            Form::Events => bytes.iter().for_each(|byte| events.push(*byte, &mut read)),
        }
    }

    /// Returns what was used so far.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }
}

/// Notes a value when it stands where the Messages API says what was used: at the top of a document and of a
/// `message_delta`, and in the `message` of a `message_start`. The model's own words stand elsewhere.
fn note(usage: &mut Usage, path: &[&str], value: &str) {
    let (["model"] | ["message", "model"] | ["usage", _] | ["message", "usage", _]) = path else { return };
    let tokens = &mut usage.tokens;
    let figure = match path.last() {
        Some(&"model") => {
            if value.len() <= LONGEST_MODEL && !value.chars().any(char::is_control) {
                value.clone_into(&mut usage.model);
            }
            return;
        }
        Some(&"input_tokens") => &mut tokens.input,
        Some(&"cache_creation_input_tokens") => &mut tokens.cache_creation,
        Some(&"cache_read_input_tokens") => &mut tokens.cache_read,
        Some(&"output_tokens") => &mut tokens.output,
        Some(_) | None => return,
    };
    if let Ok(n) = value.parse::<u32>() {
        *figure = u64::from(n);
    }
}
