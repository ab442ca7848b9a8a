//! The store's one writer: whether changes are stored, and why not. A daemon may answer all the while, for reads do not
//! wait for it.

use ipc_handlers::Time;

/// How long a commit may take, or fail, before a person is told, ms.
const PATIENCE_MS: i64 = 3_000;
/// How long the writer waits at most for the lock of the store before SQLite gives up, with a reserve, ms.
const LOCK_MS: i64 = 15_000;
/// How long a failure counts after which nobody has tried again, ms. All that has to be stored is tried again sooner.
const FADES_MS: i64 = 30_000;

/// The place of the writer in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits for the lock of the store.
    Locking,
    /// It has the lock, and is at work or waits for the disk.
    Working,
}

/// What keeps changes from being stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Another program holds the lock of the store.
    Lock,
    /// The disk is full.
    NoRoom,
    /// SQLite said so.
    Fault(String),
    /// One commit does not come to its end.
    Slow,
}

impl Obstacle {
    /// Whether it would be there for another daemon too: a restart does not help.
    #[must_use]
    pub const fn outlives_us(&self) -> bool {
        match self {
            Self::Lock | Self::NoRoom => true,
            Self::Fault(_) | Self::Slow => false,
        }
    }
}

/// Changes wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    pub since: Time,
    pub by: Obstacle,
}

/// The writer's commits of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// The commit under way, and since when.
    under_way: Option<(Step, Time)>,
    /// The commits that failed since the last good one.
    failed: Option<Failed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    /// When the first of them began.
    since: Time,
    /// The end of the last of them, and why it failed.
    last: Time,
    by: Obstacle,
}

impl Writing {
    /// A commit begins.
    pub fn begins(&mut self, now: Time) {
        self.under_way = Some((Step::Locking, now));
    }

    /// It has the lock.
    pub fn has_lock(&mut self) {
        self.under_way = self.under_way.map(|(_, since)| (Step::Working, since));
    }

    /// It is durable.
    pub fn is_done(&mut self) {
        *self = Self::default();
    }

    /// It failed.
    pub fn has_failed(&mut self, by: Obstacle, now: Time) {
        let began = self.under_way.take().map_or(now, |(_, since)| since);
        let since = self.failed.take().map_or(began, |failed| failed.since);
        self.failed = Some(Failed { since, last: now, by });
    }

    /// Returns what keeps changes from being stored. `None`: nothing, or not for long.
    #[must_use]
    pub fn held_up(&self, now: Time) -> Option<HeldUp> {
        let is_long = |since: Time| now.ms_since(since) >= PATIENCE_MS;
        if let Some((step, since)) = self.under_way.filter(|(_, since)| is_long(*since)) {
            let is_locked = step == Step::Locking && now.ms_since(since) < LOCK_MS;
            let since = self.failed.as_ref().map_or(since, |failed| failed.since);
            return Some(HeldUp { since, by: if is_locked { Obstacle::Lock } else { Obstacle::Slow } });
        }
        let Failed { since, last, by } = self.failed.as_ref()?;
        let lasts = self.under_way.is_some() || now.ms_since(*last) < FADES_MS;
        (is_long(*since) && lasts).then(|| HeldUp { since: *since, by: by.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Obstacle::*, *};

    fn held_up(writing: &Writing, seconds: i64) -> Option<(i64, Obstacle)> {
        writing.held_up(Time(seconds * 1_000)).map(|HeldUp { since, by }| (since.0 / 1_000, by))
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000)
    }

    #[test]
    fn a_commit_that_is_done_within_seconds_holds_nobody_up() {
        let mut writing = Writing::default();
        assert_eq!(held_up(&writing, 9), None);
        writing.begins(at(10));
        writing.has_lock();
        assert_eq!(held_up(&writing, 12), None);
        writing.is_done();
        assert_eq!(held_up(&writing, 999), None);
    }

    #[test]
    fn what_waits_for_the_lock_is_told_from_what_does_not_come_to_an_end() {
        let mut writing = Writing::default();
        writing.begins(at(10));
        assert_eq!(held_up(&writing, 13), Some((10, Lock)));
        // SQLite would have given up by now.
        assert_eq!(held_up(&writing, 25), Some((10, Slow)));
        writing.has_lock();
        assert_eq!(held_up(&writing, 13), Some((10, Slow)));
    }

    #[test]
    fn failures_in_a_row_are_told_since_the_first_until_one_is_done_or_nobody_tries_again() {
        let mut writing = Writing::default();
        writing.begins(at(10));
        writing.has_failed(Lock, at(15));
        assert_eq!(held_up(&writing, 15), Some((10, Lock)));
        writing.begins(at(16));
        assert_eq!(held_up(&writing, 17), Some((10, Lock)));
        assert_eq!(held_up(&writing, 20), Some((10, Lock)), "it is tried again");
        writing.has_failed(Fault("disk I/O error".into()), at(21));
        assert_eq!(held_up(&writing, 50), Some((10, Fault("disk I/O error".into()))));
        assert_eq!(held_up(&writing, 51), None, "nobody wants to store anything");
        writing.begins(at(60));
        writing.has_lock();
        writing.is_done();
        writing.begins(at(70));
        writing.has_failed(NoRoom, at(70));
        assert_eq!(held_up(&writing, 72), None, "a moment ago");
        assert_eq!(held_up(&writing, 73), Some((70, NoRoom)));
    }

    #[test]
    fn a_restart_helps_where_the_writer_itself_stands_still() {
        assert_eq!(
            [Lock, NoRoom, Fault(String::new()), Slow].map(|by| by.outlives_us()),
            [true, true, false, false]
        );
    }
}
