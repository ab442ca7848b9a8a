//! A line editor in the terminal. Pasted lines stay one message; what is printed meanwhile stands above the line that is
//! being typed, which keeps every letter.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{Config, ExternalPrinter as _, history::MemHistory};

pub(super) const PROMPT: &str = "> ";
/// How many lines the arrow keys bring back.
const HISTORY: usize = 500;

/// The editor, on threads of its own. When it is dropped, the terminal is as it was.
pub(super) struct Editor {
    typed: tokio::sync::mpsc::Receiver<String>,
    /// Lets the next line be typed: between two lines the terminal is as it was.
    next: mpsc::Sender<()>,
    /// It was let.
    asked: bool,
    print: mpsc::Sender<String>,
    /// How the terminal was before.
    before: Termios,
    /// A line is being typed.
    typing: Arc<AtomicBool>,
}

impl Editor {
    /// Prints `greeting` and opens the editor, with lines that the arrow keys bring back, oldest first. `None`: this is no
    /// terminal that an editor can work on, and nothing was printed.
    pub(super) fn open(history: Vec<String>, greeting: String) -> Option<Self> {
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
        printer.print(greeting).ok()?;
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
        Some(Self { typed, next, asked: false, print, before, typing })
    }

    /// Returns the next line, or several that were pasted; `None` once the person leaves. Safe to cancel.
    pub(super) async fn typed(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.asked, true) {
            let _ = self.next.send(());
        }
        let line = self.typed.recv().await;
        self.asked = false;
        line
    }

    /// Prints text above the line that is being typed.
    pub(super) fn print(&self, text: String) {
        let _ = self.print.send(text);
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if self.typing.load(SeqCst) {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
            // Pasting as usual again, and nothing is written over the half-typed line.
            let _ = std::io::stdout().write_all(b"\x1b[?2004l\r\n");
            let _ = std::io::stdout().flush();
        }
    }
}
