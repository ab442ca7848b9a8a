//! An agent's program as a process: its pipes, each with a thread of its own, and its end.
//!
//! It stays in the runner's process group, so whatever ends the runner ends it.
#![expect(
    clippy::disallowed_types,
    reason = "starts the agent's CLI beside the runner, inside its container; the daemon never comes here"
)]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use super::lines::{Line, Lines};
use crate::clock::{self, Deadline};

/// The longest line that is read from the CLI, bytes.
const LINE_LIMIT: usize = 64 << 20;
/// At most this many bytes of the CLI's last words are kept.
const STDERR_KEPT: usize = 2000;
/// The most of stderr that is passed on, bytes.
const STDERR_PASSED: usize = 1 << 20;
/// How long the CLI may take to end once it has been asked to.
const ENDING: Duration = Duration::from_secs(10);
/// How long its last words may take to reach us after its end.
const HEARING: Duration = Duration::from_millis(500);
/// How long it may take after a signal.
const DYING: Duration = Duration::from_secs(2);

/// What a process says.
pub(in crate::provider) enum FromCli {
    Line(Vec<u8>),
    /// A line that was too long, and is lost.
    TooLong,
    /// It says no more.
    End,
}

/// How the CLI has ended, and what it said last.
#[derive(Debug)]
pub(in crate::provider) enum Ended {
    Well(String),
    Badly(String),
}

/// A running CLI. Dropped, it is ended by force.
pub(in crate::provider) struct Process {
    child: Child,
    lines: Option<Sender<Value>>,
    last_words: Arc<Mutex<Vec<u8>>>,
    /// Ends when the last word was heard.
    heard: Receiver<()>,
}

impl Process {
    /// Starts the program with nothing but this environment, and passes on what it says. Each of `piped` is a variable
    /// and the text to read from the descriptor that the variable names: it can be read once, and by nobody else.
    ///
    /// # Errors
    /// The system's, when it can't be started.
    pub(in crate::provider) fn start(
        program: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        piped: &[(&'static str, String)],
        group: &Path,
        mut pass: impl FnMut(FromCli) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        // Held until the child has its own.
        let pipes = piped
            .iter()
            .map(|(name, text)| Ok((*name, filled_pipe(text)?)))
            .collect::<io::Result<Vec<(&str, OwnedFd)>>>()?;
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(env)
            .envs(pipes.iter().map(|(name, pipe)| (*name, pipe.as_raw_fd().to_string())))
            .current_dir(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        drop(pipes);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, lines) = channel();
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&last_words);
        thread::spawn(move || stdin.map(|stdin| write(stdin, &lines)));
        let (hearing, heard) = channel();
        thread::spawn(move || {
            if let Some(stderr) = stderr {
                listen(stderr, &keep);
            }
            drop(hearing);
        });
        thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut lines = Lines::new(BufReader::with_capacity(1 << 16, stdout), LINE_LIMIT);
            loop {
                let said = match lines.next() {
                    Ok(Line::Whole(line)) => FromCli::Line(line),
                    Ok(Line::TooLong) => FromCli::TooLong,
                    Ok(Line::End) | Err(_) => FromCli::End,
                };
                let last = matches!(said, FromCli::End);
                if !pass(said) || last {
                    return;
                }
            }
        });
        Ok(Self { child, lines: Some(sender), last_words, heard })
    }

    /// Writes a line. One that nobody reads any more is lost: the process's end says why.
    pub(in crate::provider) fn say(&self, line: Value) {
        if let Some(lines) = &self.lines {
            let _ = lines.send(line);
        }
    }

    /// Ends its stdin; it finishes and leaves.
    pub(in crate::provider) fn close(&mut self) {
        self.lines = None;
    }

    /// Waits for the end, after which it is there no more, and says how it came.
    pub(in crate::provider) fn end(&mut self) -> Ended {
        self.close();
        let status = self.wait(ENDING);
        // What it has started may hold its stderr open for as long as it likes.
        let _ = self.heard.recv_timeout(HEARING);
        let words = self.last_words();
        match status {
            Some(status) if status.success() => Ended::Well(words),
            Some(status) => Ended::Badly(format!("the agent's program ended with {status}: {words}")),
            None => {
                self.kill();
                Ended::Badly(format!(
                    "the agent's program did not end in {} s and was killed: {words}",
                    ENDING.as_secs()
                ))
            }
        }
    }

    fn last_words(&self) -> String {
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&words).trim().to_owned()
    }

    fn wait(&mut self, at_most: Duration) -> Option<std::process::ExitStatus> {
        let until = Deadline::after(at_most);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if until.left().is_some() => clock::pause(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// First the signal on which it stops its own children.
    fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::TERM);
            }
            if self.wait(DYING).is_none() {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the read end of a pipe that holds `text` and then ends; the next child inherits it.
fn filled_pipe(text: &str) -> io::Result<OwnedFd> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
    // Longer than a pipe holds is no key, and must not block us.
    fcntl_setfl(&to, OFlags::NONBLOCK)?;
    File::from(to).write_all(text.as_bytes())?;
    fcntl_setfd(&from, FdFlags::empty())?;
    Ok(from)
}

fn write(mut stdin: ChildStdin, lines: &Receiver<Value>) {
    for line in lines {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads to the end, so that the CLI never waits; passes on so much and keeps the last.
fn listen(mut stderr: impl Read, keep: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 4096];
    let mut passed = 0;
    while let Ok(n @ 1..) = stderr.read(&mut chunk) {
        let bytes = &chunk[..n];
        if passed < STDERR_PASSED {
            passed += n;
            let _ = io::stderr().write_all(bytes);
        }
        let mut kept = keep.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(STDERR_KEPT);
        kept.drain(..surplus);
    }
}
