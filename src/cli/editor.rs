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

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{Config, ExternalPrinter as _, history::MemHistory};

use crate::domain::host::screen::on_screen;

const PROMPT: &str = "> ";
/// How many lines the arrow keys bring back.
const HISTORY: usize = 500;
/// From the line that is being typed to the one above, which is erased.
const ERASE_ABOVE: &str = "\x1b[1A\x1b[2K";

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    /// Not said by anybody.
    Dim,
}

/// The editor, on threads of its own. When it is dropped, the terminal is as it was.
pub(super) struct Editor {
    typed: tokio::sync::mpsc::Receiver<String>,
    /// Lets the next line be typed.
    next: mpsc::Sender<()>,
    /// It was let.
    asked: bool,
    print: mpsc::Sender<String>,
    /// How the terminal was before.
    before: Termios,
    /// A line is being typed.
    typing: Arc<AtomicBool>,
    /// The line right above says that the agent is typing; it goes before anything else is printed there.
    agent_above: bool,
}

impl Editor {
    /// Prints `greeting` and opens the editor, with lines that the arrow keys bring back, oldest first. `None`: this is no
    /// terminal that an editor can work on, and nothing was printed.
    pub(super) fn open(history: Vec<String>, greeting: &[(Look, String)]) -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(std::io::stdin()).ok()?;
        let config = Config::builder().auto_add_history(true).max_history_size(HISTORY).ok()?.build();
        let lines = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::<(), _>::with_history(config, lines).ok()?;
        for line in history {
            let _ = editor.add_history_entry(line);
        }
        let mut printer = editor.create_external_printer().ok()?;
        printer.print(greeting.iter().map(|(look, text)| shown(*look, text)).collect()).ok()?;
        raw(&before)?;
        let (print, to_print) = mpsc::channel::<String>();
        std::thread::spawn(move || to_print.into_iter().try_for_each(|text| printer.print(text)));
        let (sender, typed) = tokio::sync::mpsc::channel(64);
        let (next, wanted) = mpsc::channel();
        let typing = Arc::new(AtomicBool::new(false));
        let at_it = Arc::clone(&typing);
        std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                at_it.store(true, SeqCst);
                let line = editor.readline(PROMPT);
                at_it.store(false, SeqCst);
                // Ctrl-D, Ctrl-C, or a terminal that is gone: the person leaves.
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Some(Self { typed, next, asked: false, print, before, typing, agent_above: false })
    }

    /// Returns the next line, or several that were pasted; `None` once the person leaves. Safe to cancel.
    pub(super) async fn typed(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.asked, true) {
            let _ = self.next.send(());
        }
        let line = self.typed.recv().await;
        // What was typed stands right above the next line now.
        (self.asked, self.agent_above) = (false, false);
        line
    }

    /// Prints text above the line that is being typed.
    pub(super) fn print(&mut self, look: Look, text: &str) {
        let erase = if std::mem::take(&mut self.agent_above) { ERASE_ABOVE } else { "" };
        let _ = self.print.send(format!("{erase}{}", shown(look, text)));
    }

    /// Shows above the line that somebody is typing, or shows it no more.
    pub(super) fn typing(&mut self, name: &str, on: bool) {
        if on && !self.agent_above {
            let _ = self.print.send(shown(Look::Dim, &format!("{name} is typing…")));
        } else if !on && self.agent_above {
            // Up, erase, up again: the new line that ends it leads back to where the erased one stood.
            let _ = self.print.send(format!("{ERASE_ABOVE}\x1b[1A\n"));
        }
        self.agent_above = on;
    }
}

/// Lines of a terminal on which nothing acts.
fn shown(look: Look, text: &str) -> String {
    let text = on_screen(text);
    let text = text.trim_end_matches('\n');
    match look {
        Look::Plain => format!("{text}\n"),
        Look::Dim => format!("\x1b[2m{text}\x1b[0m\n"),
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
