//! One life of an adapter's process: its group, its folders, its log. It knows nothing of the protocol.
#![expect(clippy::disallowed_methods, reason = "an adapter's own folders, which no container can write")]

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use ipc_handlers::Time;
use rustix::process::Pid;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStdin, ChildStdout},
    task::JoinHandle,
    time::Instant,
};

use super::{Ground, Ready, pace::Share};
use crate::{
    domain::shown::screen,
    system::{
        bounds::{self, BOUNDS, Over},
        confine::{Confined, Reach, WALLS},
        group::Group,
        tree,
        world::World,
    },
};

/// The longest line of an adapter's log that is kept, bytes; the rest of it is left out.
const LONGEST_LINE: usize = 2048;
/// How many of its lines are kept in ten seconds; the others are counted.
const LINES: u32 = 200;
/// How much of it is read in a second, bytes; the adapter waits with more.
const BYTES_A_SECOND: u64 = 1 << 20;
/// The log of an adapter is begun anew at this size, bytes, and the one before is kept.
const LONGEST_LOG: u64 = 1 << 20;
/// How long its last words may take after its end.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long a process that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(5);

/// The folders of an account.
pub(super) struct Folders {
    /// What files pass through; nobody's once the adapter has ended.
    pub(super) spool: PathBuf,
    pub(super) state: PathBuf,
    pub(super) log: PathBuf,
    pub(super) pair: PathBuf,
}

impl Folders {
    /// The folders of an account below `data/channels`.
    pub(super) fn of(ground: &Ground, name: &str) -> Self {
        let home = ground.home.join(name);
        Self {
            spool: home.join("spool"),
            state: home.join("state"),
            log: home.join("adapter.log"),
            pair: home.join("pair.json"),
        }
    }

    /// Makes them; the spool is empty in each life.
    fn make(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        tree::remove(&self.spool)?;
        // A link of an earlier life would be shown.
        match std::fs::remove_file(&self.pair) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for folder in [&self.spool.join("in"), &self.spool.join("out"), &self.state] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(())
    }

    /// Returns why an adapter is not to be started: what it keeps has become too much.
    pub(super) fn too_large(&self) -> Option<Over> {
        bounds::too_large(std::slice::from_ref(&self.state), BOUNDS)
    }

    /// Returns once a process group and these folders are beyond the bounds of an adapter; `None`: it has ended already.
    pub(super) async fn exceeded(&self, world: &World, group: Option<Pid>) -> Over {
        let Some(group) = group else { return std::future::pending().await };
        let folders = vec![self.state.clone(), self.spool.clone()];
        bounds::exceeded_or_replaced(world, group, folders, BOUNDS).await
    }

    /// Writes down what a person needs to link the account, for this user only.
    pub(super) fn keep_pair(&self, text: &[u8]) -> io::Result<()> {
        // Where it stays, nothing can be written in its place, which is told.
        let _ = std::fs::remove_file(&self.pair);
        crate::system::process::write_private(&self.pair, text)
    }
}

/// A process that runs. When it is dropped, its whole group is killed.
pub(super) struct Running {
    group: Group,
    /// What it has said last in its log, once that has ended; `None`: it was asked for.
    log: Option<JoinHandle<Option<String>>>,
}

/// What a process is spoken to by.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// Starts an adapter, shut in and in a process group of its own. It is given no secret, and of our environment nothing but the way out.
pub(super) fn start(ground: &Ground, ready: &Ready, folders: &Folders) -> io::Result<(Running, Pipes)> {
    folders.make()?;
    let Ready { account, variables, .. } = ready;
    let adapter = Confined {
        by: &ground.program,
        notes: &ground.notes,
        command: &account.command,
        home: &folders.state,
        spool: Some(&folders.spool),
        reads: &account.reads,
        writes: &account.writes,
        reach: Reach::Network,
        variables,
        is_passing: false,
    };
    let mut group = adapter.start(Stdio::piped(), Stdio::piped())?;
    let child = &mut group.child;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(io::Error::other("it has no pipes"));
    };
    // Its last words are read after its life, however that ends.
    let log = (account.name.clone(), folders.log.clone(), ready.secrets.clone());
    let log = Some(tokio::spawn(keep_log(ground.world.clone(), stderr, log)));
    Ok((Running { group, log }, Pipes { stdin, stdout }))
}

impl Running {
    /// Returns its process group, while there is one.
    pub(super) fn group(&self) -> Option<Pid> {
        self.group.id()
    }

    /// Waits until it has ended by itself; returns how, in words, with the last line of its log.
    pub(super) async fn ended(&mut self) -> String {
        let how = match self.group.ended().await {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("it can't be waited for: {error}"),
        };
        match self.last_line().await {
            Some(line) => format!("{how}: {line}"),
            None => how,
        }
    }

    /// Returns the last line of its log. Something that it has started may hold that open.
    async fn last_line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(LAST_WORDS, self.log.as_mut()?).await;
        self.log = None;
        line.ok()?.ok()?
    }

    /// Kills it and everything it started.
    pub(super) async fn kill(mut self) {
        self.group.kill();
        // The next start kills a child that outlives the daemon.
        let _ = tokio::time::timeout(DYING, self.group.ended()).await;
    }
}

/// Keeps what an adapter says on its standard error: bounded lines, bounded in number, in the log and in a file of its own.
/// None of the secrets is in it. Returns the last line that is not empty, once there is no more.
async fn keep_log(
    world: World,
    mut stderr: impl AsyncRead + Unpin,
    (channel, path, secrets): (String, PathBuf, Vec<String>),
) -> Option<String> {
    let (mut line, mut skipping, mut last) = (Vec::new(), false, None);
    let (mut since, mut kept, mut left_out) = (Instant::now(), 0_u32, 0_u64);
    let mut buffer = vec![0; 8 << 10];
    let mut left = Share::a_second(BYTES_A_SECOND);
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        left.take(read as u64).await;
        for byte in &buffer[..read] {
            if *byte != b'\n' {
                if line.len() < LONGEST_LINE {
                    line.push(*byte);
                } else {
                    skipping = true;
                }
                continue;
            }
            if since.elapsed() >= Duration::from_secs(10) {
                if left_out > 0 {
                    tracing::warn!(channel, left_out, "the adapter said more than is kept");
                }
                (since, kept, left_out) = (Instant::now(), 0, 0);
            }
            let end = if skipping { "…" } else { "" };
            let text = format!("{}{end}", screen::without(&String::from_utf8_lossy(&line), &secrets));
            if kept < LINES {
                kept += 1;
                // What the walls say comes before the program's own words.
                if text.starts_with(WALLS) {
                    tracing::warn!(channel, "{text}");
                } else {
                    tracing::info!(channel, "{text}");
                }
                append(&path, world.now(), &text);
            } else {
                left_out += 1;
            }
            if !text.trim().is_empty() {
                last = Some(text);
            }
            line.clear();
            skipping = false;
        }
    }
    if left_out > 0 {
        tracing::warn!(channel, left_out, "the adapter said more than is kept");
    }
    last.map(|last| last.strip_prefix(WALLS).unwrap_or(&last).trim().to_owned())
}

/// Appends a line to the adapter's own log. What can't be written there is in the daemon's.
pub(super) fn append(path: &Path, now: Time, text: &str) {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > LONGEST_LOG) {
        // It grows on, then.
        let _ = std::fs::rename(path, path.with_extension("log.1"));
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if let Ok(mut file) = file {
        // The daemon's log has it.
        let _ = writeln!(file, "{now} {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_adapters_last_line_and_its_log_are_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter.log");
        let long = "x".repeat(LONGEST_LINE - 8);
        let said =
            format!("{long}123:AA-secret\n401 for url https://api.telegram.org/bot123:AA-secret/getMe\n \n");
        let log = ("telegram".to_owned(), path.clone(), vec!["123:AA-secret".to_owned()]);
        let last = keep_log(World::real(), said.as_bytes(), log).await;
        assert_eq!(last.as_deref(), Some("401 for url https://api.telegram.org/bot…/getMe"));
        let log = std::fs::read_to_string(path).unwrap();
        assert!(!log.contains("123:") && log.contains("bot…/getMe"), "{log}");
    }
}
