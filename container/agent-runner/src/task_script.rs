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
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;

use crate::{clock::Deadline, runner::chain};

const TIMEOUT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: u64 = 1 << 20;
const STDERR_SHOWN: usize = 500;

/// What the script has decided.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The agent is to act, on these data.
    Wake(Option<Value>),
    /// There is nothing to do, or the script failed (which is said on stderr).
    Rest,
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
    #[error("the task script did not end within {} s", TIMEOUT.as_secs())]
    TimedOut,
    #[error("the task script printed more than {OUTPUT_LIMIT} bytes")]
    TooMuch,
    #[error("the task script failed: {0}")]
    Status(std::process::ExitStatus),
    #[error("the last line of the task script's output is not {{\"wakeAgent\": true|false, \"data\"?}}")]
    LastLine(#[source] serde_json::Error),
}

/// Runs `script` with bash in `group`, at most 30 s, and returns what its last line says.
pub(crate) fn run(script: &str, group: &Path) -> Verdict {
    match try_run(script, group) {
        Ok(LastLine { wake_agent: true, data }) => Verdict::Wake(data),
        Ok(LastLine { wake_agent: false, .. }) => Verdict::Rest,
        Err(e) => {
            eprintln!("{}", chain(&e));
            Verdict::Rest
        }
    }
}

fn try_run(script: &str, group: &Path) -> Result<LastLine, ScriptError> {
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
    let outcome = finish(&mut child);
    if outcome.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

/// Reads what the script prints and waits for its end, on one deadline for both.
fn finish(child: &mut Child) -> Result<LastLine, ScriptError> {
    let until = Deadline::after(TIMEOUT);
    let errors = child.stderr.take().map(|pipe| reader(pipe, until));
    let output = child.stdout.take().map_or(Ok(Vec::new()), |pipe| reader(pipe, until)())?;
    if let Some(Ok(errors)) = errors.map(|read| read())
        && !errors.is_empty()
    {
        eprintln!("task script: {}", String::from_utf8_lossy(&errors[..errors.len().min(STDERR_SHOWN)]));
    }
    if output.len() as u64 > OUTPUT_LIMIT {
        return Err(ScriptError::TooMuch);
    }
    // It has closed its output, so its end is near; the rest of its work may take the rest of the time.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if until.left().is_some() => crate::clock::pause(Duration::from_millis(5)),
            Ok(None) => return Err(ScriptError::TimedOut),
            Err(source) => return Err(ScriptError::Io { doing: "waiting for the task script", source }),
        }
    };
    if !status.success() {
        return Err(ScriptError::Status(status));
    }
    let output = String::from_utf8_lossy(&output);
    let last = output.trim().lines().next_back().unwrap_or_default();
    serde_json::from_str(last).map_err(ScriptError::LastLine)
}

/// Starts reading a pipe and returns how to get what was read. Something that the script left behind may hold the
/// pipe open for ever, so the reading thread is never joined.
fn reader(
    pipe: impl Read + Send + 'static,
    until: Deadline,
) -> impl FnOnce() -> Result<Vec<u8>, ScriptError> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let outcome = pipe.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes).map(|_| bytes);
        let _ = sender.send(outcome);
    });
    move || match receiver.recv_timeout(until.left().unwrap_or_default()) {
        Ok(outcome) => {
            outcome.map_err(|source| ScriptError::Io { doing: "reading the task script's output", source })
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(ScriptError::TimedOut),
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
    fn a_script_that_fails_or_says_nothing_clear_lets_the_agent_rest() {
        check("echo '{\"wakeAgent\": true}'; exit 3", Verdict::Rest);
        check("echo '{\"wakeAgent\": \"yes\"}'", Verdict::Rest);
        check("echo '{\"wakeAgent\": true}'; echo done", Verdict::Rest);
        check("true", Verdict::Rest);
        check("if", Verdict::Rest);
        check("head -c 2000000 /dev/zero", Verdict::Rest);
    }
}
