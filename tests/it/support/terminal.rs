//! A terminal of a test's own.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command},
};

use super::wait_for;

/// A terminal of our own: its input, and its screen.
pub(crate) struct Terminal {
    ours: File,
    theirs: OwnedFd,
    shown: String,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        use rustix::{
            fs::{Mode, OFlags, fcntl_setfl, open},
            pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        };
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        fcntl_setfl(&ours, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
        Self { ours: ours.into(), theirs, shown: String::new() }
    }

    /// A terminal of this many columns and rows.
    pub(crate) fn of(columns: u16, rows: u16) -> Self {
        let terminal = Self::open();
        let size = rustix::termios::Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal.theirs, size).unwrap();
        terminal
    }

    /// Reads what was shown and not read yet by programs that have ended.
    pub(crate) fn rest(&mut self) -> String {
        // Our own end stays open, so the last of it is known by a mark.
        const MARK: &str = "\u{0}the end\u{0}";
        File::from(self.end()).write_all(MARK.as_bytes()).unwrap();
        let shown = self.until(MARK);
        shown.strip_suffix(MARK).unwrap().to_owned()
    }

    /// Starts a program on it.
    pub(crate) fn start(&self, mut command: Command) -> Child {
        command.env("TERM", "xterm").stdin(self.end()).stdout(self.end()).stderr(self.end()).spawn().unwrap()
    }

    /// The end that a program is given.
    pub(crate) fn end(&self) -> OwnedFd {
        self.theirs.try_clone().unwrap()
    }

    /// Types keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether the terminal itself edits lines and echoes them, as it does when no program has changed that.
    pub(crate) fn is_plain(&self) -> bool {
        use rustix::termios::{LocalModes, tcgetattr};
        tcgetattr(&self.theirs).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Reads until `text` is shown, and returns what was shown up to its end.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut some = [0; 4096];
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            let (ours, shown) = (&mut self.ours, &self.shown);
            let read = wait_for(&format!("{text:?} after {shown:?}"), || match ours.read(&mut some) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                read => Some(read.unwrap()),
            });
            self.shown.push_str(&String::from_utf8_lossy(&some[..read]));
        }
    }
}
