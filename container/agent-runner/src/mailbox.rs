//! Commands to the host: a file out, and, where it carries a `requestId`, a file back.
//!
//! Never says who we are: the host knows by the folder. Never sends a command a second time: after a time-out nobody
//! here knows whether it was applied, and the id that would tell is the one that was used.

use std::{
    borrow::Cow,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ipc_handlers::token::RunToken;
use serde::Deserialize;
use serde_json::Value;

use crate::{files::FileError, world::World};

/// How long a reply is waited for when the launch does not say.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the folder may go unseen when no event comes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The most that is read of a reply, bytes.
const REPLY_LIMIT: u64 = 16 << 20;

/// The two boxes that take commands; either takes any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandBox {
    Messages,
    Tasks,
}

/// What came of a command, as far as we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The command carries no `requestId` that a reply could be waited for under.
    NotAwaited,
    /// The reply file's text.
    Text(String),
    /// No reply within the bound: the command may have been applied.
    TimedOut { request_id: String, waited: Duration },
}

/// A command could not be written, or its reply not be read.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error("writing the command failed")]
    Write(#[source] FileError),
    #[error("waiting for the reply to {request_id} failed; the command may have been applied")]
    Reply {
        request_id: String,
        #[source]
        source: FileError,
    },
}

/// The way to ask the host for something. Threads may share it.
pub struct Mailbox {
    world: Arc<dyn World>,
    ipc: PathBuf,
    run: String,
    written: AtomicU64,
    timeout: Duration,
    token: RunToken,
}

impl Mailbox {
    /// Returns the mailbox in `ipc` for the run `run`, whose replies are waited for `timeout_ms` (0: 10 s). Its commands
    /// are sealed with `token`, when there is one.
    pub(crate) fn new(
        world: Arc<dyn World>,
        ipc: &Path,
        run: &str,
        timeout_ms: u64,
        token: RunToken,
    ) -> Self {
        let run = run.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        let timeout = if timeout_ms == 0 { REPLY_TIMEOUT } else { Duration::from_millis(timeout_ms) };
        Self { world, ipc: ipc.to_owned(), run, written: AtomicU64::new(0), timeout, token }
    }

    /// Writes a command and, when it carries a `requestId`, waits for the reply and removes it.
    ///
    /// # Errors
    /// [`MailboxError::Write`]: nothing was asked. [`MailboxError::Reply`]: the command is out.
    pub fn send(&self, to: CommandBox, command: &Value) -> Result<Reply, MailboxError> {
        match command.get("requestId").and_then(Value::as_str).filter(|id| is_request_id(id)) {
            None => self.write(to, command).map(|()| Reply::NotAwaited).map_err(MailboxError::Write),
            Some(id) => self.ask(to, command, id),
        }
    }

    fn ask(&self, to: CommandBox, command: &Value, id: &str) -> Result<Reply, MailboxError> {
        let unread = |source| MailboxError::Reply { request_id: id.to_owned(), source };
        let replies = self.world.folder(&self.ipc.join("responses")).map_err(MailboxError::Write)?;
        let name = OsString::from(format!("{id}.json"));
        // A reply that came too late for an earlier question must not answer this one.
        replies.remove(&name).map_err(MailboxError::Write)?;
        let mut hints = self.world.hints(replies.path());
        self.write(to, command).map_err(MailboxError::Write)?;
        let until = self.world.passed().saturating_add(self.timeout);
        loop {
            // Looked at once more after the last wait.
            let left = until.checked_sub(self.world.passed()).filter(|left| !left.is_zero());
            match replies.read(&name, REPLY_LIMIT) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    replies.remove(&name).map_err(unread)?;
                    return Ok(Reply::Text(String::from_utf8_lossy(&bytes).trim().to_owned()));
                }
                Err(e) => {
                    let _ = replies.remove(&name);
                    return Err(unread(e));
                }
            }
            match left {
                Some(left) => hints.wait(left.min(LOOK_AGAIN)),
                None => return Ok(Reply::TimedOut { request_id: id.to_owned(), waited: self.timeout }),
            }
        }
    }

    fn write(&self, to: CommandBox, command: &Value) -> Result<(), FileError> {
        let folder = match to {
            CommandBox::Messages => "messages",
            CommandBox::Tasks => "tasks",
        };
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:013}-{}-{number:06}.json", self.world.wall_ms(), self.run);
        let folder = self.world.folder(&self.ipc.join(folder))?;
        folder.publish(&name, self.sealed(command).to_string().as_bytes())
    }
}

impl Mailbox {
    /// The command with its token. One that an agent wrote itself stays, for the host to judge.
    fn sealed<'a>(&self, command: &'a Value) -> Cow<'a, Value> {
        match self.token.seal(command) {
            Some(seal) if command.get("token").is_none() => {
                let mut sealed = command.clone();
                sealed["token"] = seal.into();
                Cow::Owned(sealed)
            }
            Some(_) | None => Cow::Borrowed(command),
        }
    }
}

impl Reply {
    /// Returns what the agent is to be told.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::NotAwaited => String::new(),
            Self::Text(text) => text.clone(),
            Self::TimedOut { request_id, waited } => format!(
                "no reply to {request_id} within {} ms; the command may have been applied, so do not send it again under another id",
                waited.as_millis()
            ),
        }
    }
}

/// The host's rule; whatever breaks it is not used as a file name.
fn is_request_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_could_leave_the_folder_is_not_waited_for() {
        for good in ["a", "A-b_9", &"x".repeat(64)] {
            assert!(is_request_id(good), "{good}");
        }
        for bad in ["", "../a", "a/b", "a.b", "é", "a\n", &"x".repeat(65)] {
            assert!(!is_request_id(bad), "{bad}");
        }
    }
}
