//! The root's lock: one daemon, or one change, at a time.
#![expect(clippy::disallowed_methods, reason = "the lock is a file that no container can reach")]

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::version::VERSION;
use crate::{
    domain::shown::errors::chain,
    root::{Pair, noted_pair},
};

/// How often a lock that somebody holds is tried again: a look at it from outside holds it for an instant.
const LOCK_TRIES: u32 = 5;
const LOCK_AGAIN: Duration = Duration::from_millis(50);
/// How often one that is held for a change is tried again: half a minute.
const CHANGE_TRIES: u32 = 600;
/// What stands behind the process id in a lock that is held for a change.
const CHANGE: &str = " change";
/// What the root's lock is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// To serve it, or to lay it out.
    Service,
    /// For one operation, which ends soon.
    Change,
}

/// Who holds the root's lock, as the file's first line says.
#[derive(Debug)]
pub(super) struct Holder(String);

impl Holder {
    fn of(mut text: String) -> Self {
        text.truncate(text.lines().next().map_or(0, str::len));
        Self(text)
    }

    /// Returns who wrote down last that they hold it, alive or not.
    pub(super) fn noted(root: &Path) -> Option<Self> {
        fs::read_to_string(root.join("data/lock")).ok().map(Self::of)
    }

    /// Whether it is one operation, which ends soon.
    pub(super) fn is_change(&self) -> bool {
        self.0.trim().ends_with(CHANGE)
    }

    /// Whether the process that wrote it is there, as far as its number is one of this machine's. Somebody who looks holds the lock for
    /// an instant before they write it, and what stands there then is of a daemon that may be dead.
    pub(super) fn is_there(&self) -> bool {
        self.pid().is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
    }

    fn pid(&self) -> Option<u32> {
        self.0.split_whitespace().next().and_then(|word| word.parse().ok())
    }

    /// Returns the version of its program; `None`: that did not write it.
    pub(super) fn version(&self) -> Option<&str> {
        self.0.trim().trim_end_matches(CHANGE).split_whitespace().nth(1)
    }

    /// Says who serves the root.
    pub(super) fn serves(&self, root: &Path) -> String {
        let who = self.pid().map_or_else(String::new, |pid| format!(" (process {pid})"));
        format!(
            "another g2{who} serves {}; `g2 --root {0} chat` talks to it, `g2 --root {0} status` shows how it is",
            root.display()
        )
    }
}

/// Tries to take the root's lock. It is never unlinked; after locking, the file on disk must still be the one that was
/// locked. The holder has written its process id into it, the version of its program, and whether it holds it for a change.
pub(super) fn try_lock(root: &Path, purpose: Lock) -> Result<std::result::Result<File, Holder>> {
    let path = root.join("data/lock");
    loop {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Ok(Err(Holder::of(fs::read_to_string(&path).unwrap_or_default())));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        if fs::metadata(&path)
            .is_ok_and(|on_disk| file.metadata().is_ok_and(|held| held.ino() == on_disk.ino()))
        {
            let mut text = format!("{} {VERSION}", std::process::id());
            if purpose == Lock::Change {
                text.push_str(CHANGE);
            }
            let noted = fs::read_to_string(&path).ok().as_deref().and_then(noted_pair);
            write(&file, &text, noted).with_context(|| format!("writing {}", path.display()))?;
            return Ok(Ok(file));
        }
    }
}

/// Notes in the held lock which log belongs to the store. To be called while the store is open: its log is there then. Without
/// the note nobody notices that the store is replaced, which is no reason not to serve it.
pub(super) fn note_store(lock: &File, root: &Path) {
    let path = root.join("data/lock");
    let holder = fs::read_to_string(&path).map(|text| text.lines().next().unwrap_or_default().to_owned());
    if let Err(error) = holder.and_then(|holder| write(lock, &holder, Pair::of(root))) {
        tracing::warn!(path = %path.display(), error = %chain(&error), "which log belongs to the store can't be noted");
    }
}

fn write(lock: &File, holder: &str, pair: Option<Pair>) -> std::io::Result<()> {
    let pair = pair.map_or_else(String::new, |pair| format!("{pair}\n"));
    let text = format!("{holder}\n{pair}");
    // Written over what was there: most file systems have room for that on a full disk.
    lock.write_all_at(text.as_bytes(), 0)?;
    lock.set_len(text.len() as u64)
}

/// Takes the root's lock, to serve it or to lay it out. A change that is under way is waited for.
///
/// # Errors
/// Who holds it, or what could not be opened.
pub(super) async fn lock(root: &Path) -> Result<File> {
    let (mut tries, mut changes) = (LOCK_TRIES, CHANGE_TRIES);
    loop {
        let holder = match try_lock(root, Lock::Service)? {
            Ok(file) => return Ok(file),
            Err(holder) => holder,
        };
        let left = if holder.is_change() { &mut changes } else { &mut tries };
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => bail!(holder.serves(root)),
        }
        tokio::time::sleep(LOCK_AGAIN).await;
    }
}

/// Waits until nobody holds the root's lock.
///
/// # Errors
/// It can't be opened.
pub async fn wait_for_lock(root: &Path) -> Result<()> {
    while try_lock(root, Lock::Change)?.is_err() {
        tokio::time::sleep(LOCK_AGAIN).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As somebody leaves it who holds the lock, and has not yet written who they are.
    #[test]
    fn what_a_dead_daemon_has_written_is_nobody_who_serves() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        let held = try_lock(root.path(), Lock::Service).unwrap().unwrap();
        let seen = || try_lock(root.path(), Lock::Change).unwrap().unwrap_err();
        assert!(seen().is_there() && !seen().is_change());
        // No process has this number.
        write(&held, "4194305 0.1.0", None).unwrap();
        assert!(!seen().is_there());
    }
}
