//! Which of the files that a scan has found in a group's boxes may be taken.
//!
//! A scan knows the order in which files were published only by their stamps and names, and sees them while they are
//! still being published. So it takes them strictly in turn, and what it can't be sure of yet waits, with all that is
//! younger.

use std::time::Duration;

use ipc_handlers::Time;

/// How long an event may be on its way. Events come in the order in which files were published; a scan that was faster
/// could only guess it.
pub const EVENT_LAG: Duration = Duration::from_secs(1);
/// How long a file that somebody has open is waited for, from when it was first seen.
pub const OPEN: Duration = Duration::from_secs(2);

/// A file in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How long ago a scan saw it first.
    pub age: Duration,
    /// No event can be on its way for it.
    pub untold: bool,
    /// Somebody may still write to it.
    pub open: bool,
}

/// Returns a stamp, in nanoseconds, that is above that of every file published before `now`, which counts whole
/// milliseconds: of one that came earlier in this millisecond there may never be an event.
#[must_use]
pub fn stamp_after(now: Time) -> i64 {
    now.plus_ms(1).0.saturating_mul(1_000_000)
}

/// Returns how many of these, which are in the order of their publication, may be taken now: each waits for those
/// before it, however long it was known itself. A listing can miss an older file and show a younger one.
pub fn in_turn(files: impl IntoIterator<Item = Waiting>) -> usize {
    let is_ready = |file: &Waiting| file.age >= OPEN || !file.open && (file.untold || file.age >= EVENT_LAG);
    files.into_iter().take_while(is_ready).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(word: &str) -> Waiting {
        let (ms, flags) = word.split_once(' ').unwrap_or((word, ""));
        let age = Duration::from_millis(ms.parse().unwrap());
        Waiting { age, untold: flags.contains("untold"), open: flags.contains("open") }
    }

    #[test]
    fn what_was_published_before_now_is_stamped_before_it_however_late_in_the_millisecond() {
        for published in [0, 1, 999_999, 1_000_000, 1_795_323_677_189_999_999] {
            assert!(published < stamp_after(Time(published / 1_000_000)), "{published}");
        }
    }

    #[test]
    fn files_are_taken_in_turn_each_when_nothing_of_it_can_be_outstanding() {
        for (files, taken) in [
            (vec![], 0),
            (vec!["0"], 0),
            (vec!["0 untold"], 1),
            (vec!["999", "1000"], 0),
            (vec!["1000", "1000"], 2),
            // Open: nobody younger goes before it, and it has an end.
            (vec!["1999 open", "1999"], 0),
            (vec!["0 untold open", "0 untold"], 0),
            (vec!["2000 open", "1000"], 2),
            (vec!["2000 open", "1999 open", "1999"], 1),
            // An older file that the last listing missed, however long the younger one is known by now.
            (vec!["0", "60000"], 0),
            (vec!["1000", "60000"], 2),
            (vec!["1000 open", "60000"], 0),
        ] {
            assert_eq!(in_turn(files.iter().map(|word| file(word))), taken, "{files:?}");
        }
    }
}
