//! Keys and tokens that a person gives: from a terminal that does not show them, from a file, or from standard input.
#![expect(clippy::disallowed_methods, reason = "reads a file that its owner names")]

use std::{
    io::{IsTerminal as _, Read as _},
    path::Path,
};

use anyhow::Context as _;

use super::out;

/// The longest one that is read, bytes.
const LONGEST: u64 = 4096;

/// As long as it lives, the terminal does not show what is typed.
struct Hidden(Option<rustix::termios::Termios>);

impl Hidden {
    fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(mut hidden) = before.clone() {
            hidden.local_modes.remove(LocalModes::ECHO);
            // Otherwise it is shown, which is no reason not to go on.
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads a secret; `what` names it.
pub(super) fn read(what: &str, file: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::new();
    match file {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
            file.take(LONGEST)
                .read_to_string(&mut text)
                .with_context(|| format!("reading {}", path.display()))?;
        }
        None if std::io::stdin().is_terminal() => {
            out::ask(&format!("{what}: "));
            let shown = Hidden::begin();
            let read = std::io::stdin().read_line(&mut text);
            drop(shown);
            out::ask("\n");
            read.with_context(|| format!("reading {what}"))?;
        }
        None => {
            let read = std::io::stdin().take(LONGEST).read_to_string(&mut text);
            read.with_context(|| format!("reading {what}"))?;
        }
    }
    let secret = text.trim();
    anyhow::ensure!(!secret.is_empty(), "{what} is empty");
    anyhow::ensure!(!secret.chars().any(|c| c.is_whitespace() || c.is_control()), "{what} is not one word");
    Ok(secret.to_owned())
}
