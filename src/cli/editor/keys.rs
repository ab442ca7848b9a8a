//! Keys of the editor: a `\` at the end of a line goes on in the next one, and commands of the chat are completed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use rustyline::{
    Context, Helper,
    completion::Completer,
    highlight::Highlighter,
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};

/// Commands that a chat knows.
const COMMANDS: [&str; 3] = ["/help", "/quit", "/why"];

/// What the editor asks about a line.
pub(super) struct Keys {
    /// Nothing is typed.
    empty: Arc<AtomicBool>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { empty: Arc::new(AtomicBool::new(true)) }
    }
}

impl Keys {
    /// Returns whether nothing is typed, always as it is now.
    pub(super) fn is_empty(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.empty)
    }
}

impl Helper for Keys {}

impl Hinter for Keys {
    type Hint = String;

    /// There is no hint. It is asked for after each change, and so it is known whether something is typed.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.empty.store(line.is_empty(), SeqCst);
        None
    }
}

impl Highlighter for Keys {}

impl Validator for Keys {
    fn validate(&self, line: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(line.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for Keys {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).unwrap_or_default();
        let fit = COMMANDS.iter().filter(|command| typed.starts_with('/') && command.starts_with(typed));
        Ok((0, fit.map(|command| (*command).to_owned()).collect()))
    }
}

/// Whether a line says that it goes on: an odd number of `\` at its end, as in a shell.
fn goes_on(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// Returns what was typed as one text: where a line went on, its `\` is no part of it.
pub(super) fn joined(typed: &str) -> String {
    let mut lines: Vec<&str> = typed.split('\n').collect();
    let last = lines.len() - 1;
    for line in &mut lines[..last] {
        if goes_on(line) {
            *line = &line[..line.len() - 1];
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_after_a_single_backslash_which_is_no_part_of_the_text() {
        for (line, on) in
            [("a", false), ("a\\", true), ("a\\\\", false), ("\\", true), ("", false), ("a\nb\\", true)]
        {
            assert_eq!(goes_on(line), on, "{line:?}");
        }
        for (typed, text) in [
            ("one", "one"),
            ("one\\\ntwo", "one\ntwo"),
            ("one\ntwo", "one\ntwo"),
            ("C:\\\\\nend\\\\", "C:\\\\\nend\\\\"),
            ("\\\n\\\nx", "\n\nx"),
        ] {
            assert_eq!(joined(typed), text, "{typed:?}");
        }
    }
}
