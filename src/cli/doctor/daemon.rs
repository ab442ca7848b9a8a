//! Who holds the root's lock, and whether the daemon answers.
#![expect(clippy::disallowed_methods, reason = "data/lock is the host's alone")]

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use super::{
    super::client::{Client, NoDaemon},
    row::Row,
};
use crate::{
    app::socket_path,
    domain::problems::{checks::Check, mend::Mend},
    loops::control::Status,
};

/// The state of `data/lock`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lock {
    Free,
    /// By this process, if it says so.
    Held(Option<u32>),
    Unreadable(String),
}

/// The state of `data/g2.sock`.
#[derive(Clone, Debug)]
enum Socket {
    Absent,
    /// It is there and nobody listens.
    Stale,
    /// Somebody listens and says nothing that is understood.
    Mute(String),
    Answers(Box<Status>),
}

pub(super) async fn check(root: &Path) -> (Vec<Row>, Option<Status>) {
    let lock = look_at_lock(&root.join("data/lock"));
    let socket = look_at_socket(root).await;
    let rows = judge(&lock, &socket, root);
    let Socket::Answers(status) = socket else { return (rows, None) };
    (rows, Some(*status))
}

/// A shared lock tells whether there is an exclusive one; it is given back at once, and a daemon that starts in this
/// very instant tries again.
fn look_at_lock(path: &Path) -> Lock {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Lock::Free,
        Err(error) => return Lock::Unreadable(error.to_string()),
    };
    match file.try_lock_shared() {
        Ok(()) => Lock::Free,
        Err(TryLockError::WouldBlock) => {
            let text = fs::read_to_string(path).unwrap_or_default();
            Lock::Held(text.split_whitespace().next().and_then(|pid| pid.parse().ok()))
        }
        Err(TryLockError::Error(error)) => Lock::Unreadable(error.to_string()),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

async fn look_at_socket(root: &Path) -> Socket {
    if fs::symlink_metadata(socket_path(root)).is_err() {
        return Socket::Absent;
    }
    match Client::status(root).await {
        Ok(status) => Socket::Answers(status),
        Err(NoDaemon::Down) => Socket::Stale,
        Err(NoDaemon::Mute(why)) => Socket::Mute(why),
    }
}

fn judge(lock: &Lock, socket: &Socket, root: &Path) -> Vec<Row> {
    let path = socket_path(root);
    let holder =
        |pid: &Option<u32>| pid.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let of_lock = match (lock, socket) {
        (Lock::Unreadable(why), _) => Row::fail(
            Check::Lock,
            format!("{} can't be looked at: {why}", root.join("data/lock").display()),
            "run g2 as the user that owns the root",
        ),
        (Lock::Free, Socket::Answers(status)) => Row::fail(
            Check::Lock,
            format!(
                "the daemon (process {}) does not hold data/lock: the file was replaced, and a second daemon could start",
                status.pid
            ),
            "restart the daemon, and never remove data/lock while g2 runs",
        ),
        (Lock::Free, Socket::Absent | Socket::Stale | Socket::Mute(_)) => {
            Row::ok(Check::Lock, "nobody holds it")
        }
        (Lock::Held(pid), _) => Row::ok(Check::Lock, format!("held by {}", holder(pid))),
    };
    let of_socket = match (socket, lock) {
        (Socket::Answers(status), _) if status.version != VERSION => Row::warn(
            Check::Socket,
            format!(
                "the daemon (process {}) is version {}, this program is version {VERSION}",
                status.pid, status.version
            ),
            "restart the service with this program, or use the daemon's",
        ),
        (Socket::Answers(status), _) => Row::ok(
            Check::Socket,
            format!(
                "the daemon answers: process {}, version {}, {}, up since {}",
                status.pid, status.version, status.state, status.since
            ),
        ),
        (Socket::Absent, Lock::Held(pid)) => Row::warn(
            Check::Socket,
            format!(
                "{} serves the root but does not listen: it is starting or stopping, or {} was removed",
                holder(pid),
                path.display()
            ),
            "run `g2 doctor` again in a moment; if nothing has changed, restart the daemon",
        ),
        (Socket::Stale | Socket::Mute(_), Lock::Held(pid)) => {
            let why = if let Socket::Mute(why) = socket { format!(": {why}") } else { String::new() };
            Row::fail(
                Check::Socket,
                format!("{} serves the root and does not answer{why}", holder(pid)),
                "read its log and restart it",
            )
        }
        (Socket::Absent, Lock::Free | Lock::Unreadable(_)) => Row::ok(Check::Socket, "no daemon runs"),
        (Socket::Stale, Lock::Free | Lock::Unreadable(_)) => Row::warn(
            Check::Socket,
            format!(
                "no daemon runs, and {} is left over: the last one was killed or crashed",
                path.display()
            ),
            "start it again with `g2 start`: it goes on where the last one stopped, and takes over the socket",
        )
        .mended_by(Mend::RemoveSocket(path.clone())),
        (Socket::Mute(why), Lock::Free | Lock::Unreadable(_)) => Row::fail(
            Check::Socket,
            format!("a program other than the daemon listens on {}: {why}", path.display()),
            format!("end that program and remove {}", path.display()),
        ),
    };
    vec![of_lock, of_socket]
}
