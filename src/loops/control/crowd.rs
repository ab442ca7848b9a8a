//! How many clients are served at once.

use std::io::Write as _;

use ipc_handlers::Time;
use tokio::net::UnixStream;

use super::Response;
use crate::domain::shown::{errors::chain, repeats::Repeats};

/// Clients at once, at most.
const MOST: usize = 256;
/// Clients hold at most one in this many of the files that the daemon may have open.
const OF_FILES: u64 = 4;

/// What the log is told of once a minute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Full,
    Failed,
}

/// The bound on clients, and what the log was told of it.
pub(super) struct Crowd {
    most: usize,
    told: Repeats<Trouble>,
}

impl Crowd {
    /// `files`: how many the daemon may have open; `None`: any number.
    pub(super) fn new(files: Option<u64>) -> Self {
        Self { most: most(files), told: Repeats::default() }
    }

    /// Whether one more is served beside `clients`.
    pub(super) fn has_room(&mut self, clients: usize, now: Time) -> bool {
        if clients < self.most {
            return true;
        }
        if let Some(times) = self.told.happened(Trouble::Full, now) {
            tracing::warn!(
                times,
                most = self.most,
                "as many clients are connected as are served; others are turned away"
            );
        }
        false
    }

    /// Tells a client why it is not served. One that can't be told sees the end of the stream.
    pub(super) fn turn_away(&self, stream: UnixStream) {
        let message =
            format!("it serves {} programs at once, and that many are connected: end one of them", self.most);
        if let (Ok(mut line), Ok(mut stream)) =
            (serde_json::to_vec(&Response::Error { message }), stream.into_std())
        {
            line.push(b'\n');
            // It is told by the end of the stream, then.
            let _ = stream.write_all(&line);
        }
    }

    /// A client could not be taken.
    pub(super) fn failed(&mut self, error: &std::io::Error, now: Time) {
        if let Some(times) = self.told.happened(Trouble::Failed, now) {
            tracing::warn!(times, error = %chain(error), "a client could not be taken");
        }
    }
}

fn most(files: Option<u64>) -> usize {
    let files = files.and_then(|files| usize::try_from(files / OF_FILES).ok());
    files.map_or(MOST, |files| files.clamp(1, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_most_open_files_to_the_work() {
        for (files, clients) in [(None, 256), (Some(1 << 20), 256), (Some(150), 37), (Some(2), 1)] {
            assert_eq!(most(files), clients, "{files:?}");
        }
    }

    #[test]
    fn one_more_than_the_bound_has_no_room() {
        let mut crowd = Crowd::new(Some(8));
        assert!(crowd.has_room(1, Time(0)) && !crowd.has_room(2, Time(0)));
        assert!(crowd.has_room(0, Time(1)));
    }
}
