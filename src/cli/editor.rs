//! A line editor in the terminal. Pasted lines stay one message; text that is printed meanwhile stands above the line that is
//! being typed, which keeps every letter. Nothing in it acts on the terminal but what stands here.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustyline::{
    Cmd, Config, Event, ExternalPrinter as _, KeyCode, KeyEvent, Modifiers, error::ReadlineError,
    history::MemHistory,
};

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::{colours::Paint, table::cut};
use crate::domain::shown::screen::on_screen;

mod keys;

use keys::Keys;

const PROMPT: &str = "> ";
/// How many lines the arrow keys bring back.
pub(super) const HISTORY: usize = 500;
/// How many lines of a text that is being said stand above the line.
const GROWING: usize = 10;
/// From the line that is being typed to the one above, which is erased.
const ERASE_ABOVE: &str = "\x1b[1A\x1b[2K";

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    /// Not said by anybody.
    Dim,
    /// It has its colours, and nothing else in it acts on a terminal.
    Ready,
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line, or several.
    Line(String),
    /// Ctrl-C; what stood there is gone.
    Interrupt { was_empty: bool },
    /// Ctrl-D, or a terminal that is gone.
    End,
}

/// The editor, on threads of its own. When it is dropped, the terminal is as it was.
pub(super) struct Editor {
    typed: tokio::sync::mpsc::Receiver<Typed>,
    /// Lets the next line be typed.
    next: mpsc::Sender<()>,
    /// It was let.
    asked: bool,
    print: mpsc::Sender<String>,
    /// How the terminal was before.
    before: Termios,
    /// A line is being typed.
    typing: Arc<AtomicBool>,
    /// The end of a text that is being said, and what the agent is doing.
    grows: Vec<String>,
    doing: Option<String>,
    /// The lines of both that stand right above; they go before anything else is printed there.
    above: Vec<String>,
    /// They stand a line higher, over a prompt that was left empty; that goes, too.
    is_stale: bool,
    colours: bool,
}

impl Editor {
    /// Prints `greeting` and opens the editor, with lines that the arrow keys bring back, oldest first. `None`: this is no
    /// terminal that an editor can work on, and nothing was printed.
    pub(super) fn open(history: Vec<String>, greeting: &[(Look, String)], colours: bool) -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(std::io::stdin()).ok()?;
        let config = Config::builder().auto_add_history(true).max_history_size(HISTORY).ok()?.build();
        let lines = MemHistory::with_config(&config);
        let keys = Keys::default();
        let was_empty = keys.is_empty();
        let mut editor = rustyline::Editor::<Keys, _>::with_history(config, lines).ok()?;
        editor.set_helper(Some(keys));
        editor.bind_sequence(Event::from(KeyEvent(KeyCode::Enter, Modifiers::ALT)), Cmd::Newline);
        for line in history {
            let _ = editor.add_history_entry(line);
        }
        let mut printer = editor.create_external_printer().ok()?;
        printer.print(greeting.iter().map(|(look, text)| shown(*look, text, colours)).collect()).ok()?;
        raw(&before)?;
        let (print, to_print) = mpsc::channel::<String>();
        // A read or write of a terminal can't be cancelled.
        std::thread::spawn(move || to_print.into_iter().try_for_each(|text| printer.print(text)));
        let (sender, typed) = tokio::sync::mpsc::channel(64);
        let (next, wanted) = mpsc::channel();
        let typing = Arc::new(AtomicBool::new(false));
        let at_it = Arc::clone(&typing);
        std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                at_it.store(true, SeqCst);
                was_empty.store(true, SeqCst);
                let line = editor.readline(PROMPT);
                at_it.store(false, SeqCst);
                let typed = match line {
                    Ok(line) => Typed::Line(keys::joined(&line)),
                    Err(ReadlineError::Interrupted) => Typed::Interrupt { was_empty: was_empty.load(SeqCst) },
                    Err(_) => Typed::End,
                };
                let is_over = typed == Typed::End;
                if sender.blocking_send(typed).is_err() || is_over {
                    return;
                }
            }
        });
        Some(Self {
            typed,
            next,
            asked: false,
            print,
            before,
            typing,
            grows: Vec::new(),
            doing: None,
            above: Vec::new(),
            is_stale: false,
            colours,
        })
    }

    /// Returns what the person does next. Safe to cancel.
    pub(super) async fn typed(&mut self) -> Typed {
        if !std::mem::replace(&mut self.asked, true) {
            let _ = self.next.send(());
        }
        let typed = self.typed.recv().await.unwrap_or(Typed::End);
        // What was typed stands right above the next line now.
        self.is_stale = !self.above.is_empty() && typed == Typed::Interrupt { was_empty: true };
        self.asked = false;
        if !self.is_stale {
            self.above.clear();
        }
        typed
    }

    /// Prints text above the line that is being typed.
    pub(super) fn print(&mut self, look: Look, text: &str) {
        let erase = self.erase();
        self.above.clear();
        let _ = self.print.send(format!("{erase}{}", shown(look, text, self.colours)));
        self.show();
    }

    /// What takes away the lines above that are true no more.
    fn erase(&mut self) -> String {
        let stale = usize::from(std::mem::take(&mut self.is_stale));
        ERASE_ABOVE.repeat(self.above.len() + stale)
    }

    /// Shows above the line what the agent is doing, in place of what was shown of it before; `None`: nothing any more.
    pub(super) fn doing(&mut self, doing: Option<&str>) {
        // One line only: it has to be found again.
        let (width, _) = size();
        self.doing = doing.map(|doing| cut(&on_screen(doing).replace('\n', " "), width - 1));
        self.show();
    }

    /// Shows above that the end of a text that is being said; empty: there is none any more.
    pub(super) fn growing(&mut self, text: &str) {
        let (width, height) = size();
        self.grows = last_lines(&on_screen(text), width - 1, height);
        self.show();
    }

    /// Has what stands right above be as it is to be.
    fn show(&mut self) {
        let wanted: Vec<String> = self.grows.iter().chain(&self.doing).cloned().collect();
        if wanted == self.above {
            return;
        }
        let erase = self.erase();
        let text = match wanted.is_empty() {
            false => format!("{erase}{}", shown(Look::Dim, &wanted.join("\n"), self.colours)),
            // Up, erase, up again: the new line that ends it leads back to where the erased one stood.
            true => format!("{erase}\x1b[1A\n"),
        };
        let _ = self.print.send(text);
        self.above = wanted;
    }
}

/// The columns of the terminal, and how many of its rows a text that grows may take.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stdout());
    let (width, height) = size.map_or((0, 0), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    // Lines that left the screen can't be erased.
    let rows = if height == 0 { GROWING } else { height.saturating_sub(4).clamp(1, GROWING) };
    (if width == 0 { 80 } else { width.max(20) }, rows)
}

/// The last lines of a text, broken where they are wider than this.
fn last_lines(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.trim_end().lines() {
        let (mut piece, mut wide) = (String::new(), 0);
        for grapheme in line.graphemes(true) {
            if wide + grapheme.width() > width {
                lines.push(std::mem::take(&mut piece));
                wide = 0;
            }
            piece.push_str(grapheme);
            wide += grapheme.width();
        }
        lines.push(piece);
    }
    lines.split_off(lines.len().saturating_sub(most))
}

/// Lines of a terminal on which nothing acts.
fn shown(look: Look, text: &str, colours: bool) -> String {
    if look == Look::Ready {
        return format!("{}\n", text.trim_end_matches('\n'));
    }
    let text = on_screen(text);
    let text = text.trim_end_matches('\n');
    match look {
        Look::Dim if colours => format!("{}\n", Paint::Dim.on(text)),
        Look::Dim | Look::Plain | Look::Ready => format!("{text}\n"),
    }
}

/// Has the terminal hand over keys as they are. It stays so between two lines, where the editor does not look: a key that
/// is typed ahead is neither shown twice nor taken for a command of the terminal's own.
fn raw(before: &Termios) -> Option<()> {
    let mut raw = before.clone();
    raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
    raw.input_modes.remove(InputModes::ICRNL | InputModes::IXON);
    tcsetattr(std::io::stdin(), OptionalActions::Drain, &raw).ok()
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        if self.typing.load(SeqCst) {
            // Pasting as usual again, and nothing is written over the half-typed line.
            let _ = std::io::stdout().write_all(b"\x1b[?2004l\r\n");
            let _ = std::io::stdout().flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_text_fit_the_terminal() {
        for (text, width, most, lines) in [
            ("", 10, 3, vec![]),
            ("one\ntwo\n", 10, 3, vec!["one", "two"]),
            ("one\ntwo\nthree\nfour", 10, 3, vec!["two", "three", "four"]),
            ("abcdefghij", 4, 3, vec!["abcd", "efgh", "ij"]),
            ("abcdefghij", 4, 2, vec!["efgh", "ij"]),
            ("日本語", 4, 3, vec!["日本", "語"]),
            ("a\n\nb", 4, 3, vec!["a", "", "b"]),
        ] {
            assert_eq!(last_lines(text, width, most), lines, "{text:?}");
        }
    }
}
