//! Output on stdout, and notes for people on stderr. A reader that has gone away (`g2 messages list | head`) ends the
//! command quietly.
//!
//! Messages, answers, names and logs come from outside: characters on which a terminal would act are left out. A pipe and
//! `--json` get them as they are.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{ErrorKind, IsTerminal, Write as _},
};

use super::{CliResult, Failure, wrap};
use crate::domain::shown::screen::on_screen;

/// Writes text for people, at once. On a terminal its lines are broken between words.
pub(super) fn text(text: &str) -> CliResult {
    let clean = for_people(text, &std::io::stdout());
    match screen() {
        Some(width) => write(&wrap::screen(&clean, width)),
        None => write(&clean),
    }
}

/// Writes text for people in its own lines: a log, a file.
pub(super) fn own_lines(text: &str) -> CliResult {
    write(&for_people(text, &std::io::stdout()))
}

/// Writes a line for people.
pub(super) fn line(line: impl std::fmt::Display) -> CliResult {
    text(&format!("{line}\n"))
}

/// Whether stdout is a terminal.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether somebody is there who can be asked.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Whether notes for people reach a terminal.
pub(super) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns how many columns the terminal has that stdout is; 80 where it does not say.
pub(super) fn width() -> usize {
    width_of(std::io::stdout())
}

fn width_of(stream: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(80)
}

/// Returns how wide the terminal is that stdout is; nothing of a pipe or a file.
pub(super) fn screen() -> Option<usize> {
    is_terminal().then(width)
}

/// Writes a table, which fits, with colours of ours. Every foreign part in it is clean already.
pub(super) fn clean(text: &str) -> CliResult {
    write(text)
}

/// Writes a script, exactly.
pub(super) fn script(script: &str) -> CliResult {
    write(script)
}

/// Writes the bytes of a picture to a program.
pub(super) fn picture(bytes: &[u8]) -> std::io::Result<()> {
    std::io::stdout().lock().write_all(bytes)
}

/// Writes a JSON document, exactly, and ends the line.
pub(super) fn json(document: impl std::fmt::Display) -> CliResult {
    write(&format!("{document}\n"))
}

/// Tells people something beside the output.
#[expect(clippy::print_stderr, reason = "the door to stderr for what is no log")]
pub(super) fn tell(what: impl std::fmt::Display) {
    let (stderr, what) = (std::io::stderr(), format!("g2: {what}"));
    let clean = for_people(&what, &stderr);
    match stderr.is_terminal() {
        true => eprintln!("{}", wrap::screen(&clean, width_of(&stderr))),
        false => eprintln!("{clean}"),
    }
}

/// Tells a program something beside the output: one JSON document, exactly.
#[expect(clippy::print_stderr, reason = "the door to stderr for what is no log")]
pub(super) fn tell_json(document: &serde_json::Value) {
    eprintln!("{document}");
}

/// Asks people something; the answer comes on the same line.
#[expect(clippy::print_stderr, reason = "the door to stderr for what is no log")]
pub(super) fn ask(what: &str) {
    eprint!("{}", for_people(what, &std::io::stderr()));
}

fn for_people<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    if stream.is_terminal() { on_screen(text) } else { Cow::Borrowed(text) }
}

thread_local! {
    /// What is kept of stdout instead of being written.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns what `work` writes to stdout on this thread, which is not written.
pub(super) fn kept<T>(work: impl FnOnce() -> T) -> (T, String) {
    KEPT.set(Some(String::new()));
    let done = work();
    (done, KEPT.take().unwrap_or_default())
}

fn write(text: &str) -> CliResult {
    let is_kept = KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.push_str(text)).is_some());
    if is_kept {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Quiet(0)),
        Err(error) => Err(Failure::Failed(anyhow::Error::new(error).context("writing to stdout"))),
    }
}
