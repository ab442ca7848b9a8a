//! `data/daemon.log`: what a daemon logs that was started in the background. A service manager, or the terminal, has the log otherwise.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crate::domain::shown::errors::chain;

/// How large the log gets before its lines go to `daemon.log.1`, bytes. It is looked at each hour, and at a start.
const MOST: u64 = 16 << 20;
/// How much of its end is read for the newest lines, bytes.
const END: u64 = 1 << 20;

/// The log, below `data/`.
const DAEMON_LOG: &str = "daemon.log";

/// Opens the log for a daemon that writes behind what is there. Only its owner can read it.
///
/// # Errors
/// The operating system's.
pub fn open_daemon_log(data: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(data.join(DAEMON_LOG))
}

/// Keeps the lines of a log that is large in `daemon.log.1`, and empties it: its writer goes on in the same file, and a line that is
/// written in between is lost. Returns whether that was done.
///
/// # Errors
/// The operating system's.
pub fn turn_daemon_log(data: &Path) -> io::Result<bool> {
    turn(data, MOST)
}

fn turn(data: &Path, most: u64) -> io::Result<bool> {
    let path = data.join(DAEMON_LOG);
    match std::fs::metadata(&path) {
        Ok(meta) if meta.len() > most => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let older = data.join("daemon.log.1");
    // Without room for a copy the log is emptied all the same: it would fill the disk.
    if let Err(error) = keep_end(&path, &older, most) {
        tracing::warn!(error = %chain(&error), "the end of data/daemon.log can't be kept; it is emptied");
        match std::fs::remove_file(&older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    std::fs::OpenOptions::new().write(true).open(&path)?.set_len(0)?;
    Ok(true)
}

/// Copies at most the last `most` bytes of a file.
fn keep_end(from: &Path, to: &Path, most: u64) -> io::Result<()> {
    let mut file = File::open(from)?;
    let begin = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(begin))?;
    let mut kept =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    io::copy(&mut file.take(most), &mut kept).map(drop)
}

/// The end of the log, and how it goes on.
pub struct LogEnd {
    file: File,
    at: u64,
}

impl LogEnd {
    /// Returns at most the newest `lines` lines, and where the log goes on; `None`: no daemon was ever started in the background.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(data: &Path, lines: usize) -> io::Result<Option<(String, Self)>> {
        let mut file = match File::open(data.join(DAEMON_LOG)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let end = file.metadata()?.len();
        let begin = end.saturating_sub(END);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        (&mut file).take(end - begin).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        // The first may be a part of one.
        let whole = if begin == 0 { &all[..] } else { all.get(1..).unwrap_or_default() };
        let newest = whole[whole.len().saturating_sub(lines)..].concat();
        Ok(Some((newest, Self { file, at: end })))
    }

    /// Returns what was written since; empty: nothing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn more(&mut self) -> io::Result<String> {
        let end = self.file.metadata()?.len();
        // It was emptied.
        if end < self.at {
            self.at = 0;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        (&mut self.file).take((end - self.at).min(END)).read_to_end(&mut bytes)?;
        self.at += u64::try_from(bytes.len()).unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_log_is_read_from_its_end_followed_and_turned_over_beneath_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        assert!(LogEnd::open(dir.path(), 5).unwrap().is_none());
        assert!(!turn(dir.path(), 10).unwrap());
        let mut writer = open_daemon_log(dir.path()).unwrap();
        writer.write_all(b"one\ntwo\nthree\n").unwrap();
        let (newest, mut end) = LogEnd::open(dir.path(), 2).unwrap().unwrap();
        assert_eq!(newest, "two\nthree\n");
        assert_eq!(end.more().unwrap(), "");
        writer.write_all(b"four\n").unwrap();
        assert_eq!(end.more().unwrap(), "four\n");
        assert!(!turn(dir.path(), 100).unwrap() && turn(dir.path(), 15).unwrap());
        assert_eq!(end.more().unwrap(), "");
        writer.write_all(b"five\n").unwrap();
        assert_eq!(end.more().unwrap(), "five\n");
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            (text("daemon.log"), text("daemon.log.1")),
            ("five\n".into(), "two\nthree\nfour\n".into())
        );
        assert_eq!(LogEnd::open(dir.path(), 0).unwrap().unwrap().0, "");
    }

    #[test]
    fn of_a_large_log_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open_daemon_log(dir.path()).unwrap();
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..3000 {
            writer.write_all(line.as_bytes()).unwrap();
        }
        let (newest, _) = LogEnd::open(dir.path(), usize::MAX).unwrap().unwrap();
        assert!(newest.len() <= 1 << 20 && newest.starts_with("xxx") && newest.len() % 1000 == 0);
    }
}
