//! The script that a scheduled task may carry: it looks whether there is anything for the agent to do.
//!
//! It runs inside our own container, in our process group, so whatever ends us ends it.
#![expect(
    clippy::disallowed_types,
    reason = "runs the task's own script beside the agent, inside its container; the daemon never comes here"
)]

use std::{
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;

use crate::{clock::Deadline, runner::chain};

const TIMEOUT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: u64 = 1 << 20;
/// How much of what it printed is told where it failed, bytes of each stream.
const PRINTED_SHOWN: usize = 8 << 10;

/// What the script has decided.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The agent is to act, on these data.
    Wake(Option<Value>),
    /// There is nothing to do.
    Rest,
    /// The script failed: what was wrong in the first line, and below it the end of what the script printed.
    Failed(String),
}

/// The script's last line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastLine {
    wake_agent: bool,
    data: Option<Value>,
}

#[derive(Debug, thiserror::Error)]
enum ScriptError {
    #[error("{doing} failed")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the task script did not end within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("the task script printed more than {OUTPUT_LIMIT} bytes")]
    TooMuch,
    #[error("the task script failed: {0}")]
    Status(std::process::ExitStatus),
    #[error("the last line of the task script's output is not {{\"wakeAgent\": true|false, \"data\"?}}")]
    LastLine(#[source] serde_json::Error),
}

/// Runs `script` with bash in `group`, at most 30 s, and returns what its last line says.
pub(crate) fn run(script: &str, group: &Path) -> Verdict {
    run_within(TIMEOUT, script, group)
}

fn run_within(limit: Duration, script: &str, group: &Path) -> Verdict {
    let printed = Printed::default();
    match try_run(limit, script, group, &printed) {
        Ok(LastLine { wake_agent: true, data }) => Verdict::Wake(data),
        Ok(LastLine { wake_agent: false, .. }) => Verdict::Rest,
        Err(e) => {
            let error = chain(&e);
            eprintln!("{error}");
            let parts = [Some(error), tail("printed", &printed.output), tail("on stderr", &printed.errors)];
            Verdict::Failed(parts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
        }
    }
}

/// What the script has printed so far.
#[derive(Default)]
struct Printed {
    output: Bytes,
    errors: Bytes,
}

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Returns the end of what was printed, below a title.
fn tail(title: &str, bytes: &Bytes) -> Option<String> {
    let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(PRINTED_SHOWN)..]);
    let text = text.trim();
    (!text.is_empty()).then(|| format!("{title}:\n{text}"))
}

fn try_run(limit: Duration, script: &str, group: &Path, printed: &Printed) -> Result<LastLine, ScriptError> {
    let io = |doing| move |source| ScriptError::Io { doing, source };
    let mut file = tempfile::NamedTempFile::new().map_err(io("creating the task script's file"))?;
    file.write_all(script.as_bytes()).map_err(io("writing the task script's file"))?;
    let mut child = Command::new("bash")
        .arg(file.path())
        .current_dir(group)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io("starting bash for the task script"))?;
    let outcome = finish(limit, &mut child, printed);
    if outcome.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

/// Reads what the script prints and waits for its end, on one deadline for both.
fn finish(limit: Duration, child: &mut Child, printed: &Printed) -> Result<LastLine, ScriptError> {
    let until = Deadline::after(limit);
    let errors = child.stderr.take().map(|pipe| reader(pipe, &printed.errors));
    if let Some(pipe) = child.stdout.take() {
        wait(&reader(pipe, &printed.output), until, limit)?;
    }
    if let Some(errors) = errors {
        let _ = wait(&errors, until, limit);
    }
    if printed.output.lock().unwrap_or_else(PoisonError::into_inner).len() as u64 > OUTPUT_LIMIT {
        return Err(ScriptError::TooMuch);
    }
    // It has closed its output, so its end is near; the rest of its work may take the rest of the time.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if until.left().is_some() => crate::clock::pause(Duration::from_millis(5)),
            Ok(None) => return Err(ScriptError::TimedOut(limit)),
            Err(source) => return Err(ScriptError::Io { doing: "waiting for the task script", source }),
        }
    };
    if !status.success() {
        return Err(ScriptError::Status(status));
    }
    let output = printed.output.lock().unwrap_or_else(PoisonError::into_inner);
    let output = String::from_utf8_lossy(&output);
    let last = output.trim().lines().next_back().unwrap_or_default();
    serde_json::from_str(last).map_err(ScriptError::LastLine)
}

/// Starts reading a pipe to its end. Something that the script left behind may hold the pipe open for ever, so the
/// reading thread is never joined.
fn reader(mut pipe: impl Read + Send + 'static, into: &Bytes) -> Receiver<io::Result<()>> {
    let into = Arc::clone(into);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 8 << 10];
        let mut left = OUTPUT_LIMIT + 1;
        let outcome = loop {
            match (&mut pipe).take(left).read(&mut piece) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    left -= n as u64;
                    into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..n]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let _ = sender.send(outcome);
    });
    receiver
}

/// Waits until a pipe was read to its end, or as far as it is read.
fn wait(read: &Receiver<io::Result<()>>, until: Deadline, limit: Duration) -> Result<(), ScriptError> {
    match read.recv_timeout(until.left().unwrap_or_default()) {
        Ok(outcome) => {
            outcome.map_err(|source| ScriptError::Io { doing: "reading the task script's output", source })
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(ScriptError::TimedOut(limit)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(script: &str, verdict: Verdict) {
        assert_eq!(run(script, Path::new("/")), verdict, "{script}");
    }

    #[test]
    fn the_last_line_decides() {
        check("echo hello; echo '{\"wakeAgent\": true}'", Verdict::Wake(None));
        check("echo '{\"wakeAgent\": true, \"data\": [1]}'; echo", Verdict::Wake(Some(json!([1]))));
        check("echo '{\"wakeAgent\": false}'", Verdict::Rest);
        check(
            "pwd | sed 's:.*:{\"wakeAgent\"\\: true, \"data\"\\: \"&\"}:'",
            Verdict::Wake(Some(json!("/"))),
        );
    }

    #[test]
    fn a_script_that_fails_or_says_nothing_clear_has_failed_and_what_it_printed_is_told() {
        for (script, error, printed) in [
            (
                "echo looking; echo '{\"wakeAgent\": true}'; echo no such host >&2; exit 3",
                "the task script failed: exit status: 3",
                "printed:\nlooking\n{\"wakeAgent\": true}\non stderr:\nno such host",
            ),
            ("echo '{\"wakeAgent\": \"yes\"}'", "the last line of the task script's output is not", "yes"),
            ("echo '{\"wakeAgent\": true}'; echo done", "the last line of the task script's output", "done"),
            ("true", "the last line of the task script's output is not", ""),
            ("if", "the task script failed: exit status: 2", "syntax error"),
            (
                "head -c 2000000 /dev/zero | tr '\\0' x",
                "the task script printed more than 1048576 bytes",
                "xxx",
            ),
        ] {
            let Verdict::Failed(told) = run(script, Path::new("/")) else { panic!("{script} failed") };
            assert!(told.starts_with(error) && told.contains(printed), "{script}: {told}");
            assert!(told.len() < 3 * PRINTED_SHOWN, "{script}");
        }
    }

    #[test]
    fn a_script_that_takes_too_long_has_failed_and_what_it_printed_until_then_is_told() {
        let limit = Duration::from_millis(500);
        let Verdict::Failed(told) = run_within(limit, "echo begun; exec sleep 60", Path::new("/")) else {
            panic!("it failed")
        };
        assert_eq!(told, "the task script did not end within 0.5 s\nprinted:\nbegun");
    }
}
