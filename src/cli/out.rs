//! What goes to stdout. A reader that has gone away (`g2 messages list | head`) ends the command quietly.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use super::{Failure, Outcome};

/// Writes text as it is, at once.
pub(super) fn text(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Quiet(0)),
        Err(error) => Err(Failure::Failed(anyhow::Error::new(error).context("writing to stdout"))),
    }
}

/// Writes a line.
pub(super) fn line(line: impl std::fmt::Display) -> Outcome {
    text(&format!("{line}\n"))
}

/// Writes what an agent said. On a terminal its control characters are left out: they would act there.
pub(super) fn said(said: &str) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return line(said);
    }
    let is_harmless = |c: &char| !c.is_control() || ['\n', '\t'].contains(c);
    line(said.chars().filter(is_harmless).collect::<String>())
}
