//! Deaths of the daemon over files and output that it takes in: the groups to set aside, so that no start dies of the same
//! again.
//!
//! A start that died before all that it found was taken in is a death over whatever it was at work on. One that got
//! through forgets those before it: a kill of a daemon that works sets no group aside.

use std::collections::BTreeSet;

use ipc_handlers::{Folder, Time};
use serde::{Deserialize, Serialize};

/// At how many deaths in a row somebody is set aside.
pub const DEATHS: usize = 2;
/// How long after a start that died the next one follows on it, ms.
const FOLLOWS_MS: i64 = 10 * 60_000;

/// A start that died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// When it started.
    pub at: Time,
    /// Of whom it was taking something in.
    pub over: BTreeSet<Folder>,
}

/// Returns the deaths, oldest first, that the start of `now` follows on, each within minutes.
#[must_use]
pub fn in_a_row(deaths: &[Death], now: Time) -> &[Death] {
    let mut next = now;
    let mut from = deaths.len();
    for death in deaths.iter().rev() {
        if next.ms_since(death.at) > FOLLOWS_MS {
            break;
        }
        (next, from) = (death.at, from - 1);
    }
    &deaths[from..]
}

/// Returns who of those `found` is set aside: whom each of the last deaths was over.
#[must_use]
pub fn set_aside(in_a_row: &[Death], found: &BTreeSet<Folder>) -> BTreeSet<Folder> {
    let Some(from) = in_a_row.len().checked_sub(DEATHS) else { return BTreeSet::new() };
    let last = &in_a_row[from..];
    found.iter().filter(|group| last.iter().all(|death| death.over.contains(group))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &str) -> BTreeSet<Folder> {
        names.split_whitespace().map(|name| Folder::parse(name).unwrap()).collect()
    }

    /// Returns the groups that are set aside at minute 100, after deaths at these minutes, each over these groups.
    fn aside(deaths: &[(i64, &str)], found: &str) -> String {
        let minute = |at: i64| Time(at * 60_000);
        let deaths: Vec<Death> =
            deaths.iter().map(|(at, over)| Death { at: minute(*at), over: groups(over) }).collect();
        let aside = set_aside(in_a_row(&deaths, minute(100)), &groups(found));
        aside.iter().map(Folder::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_third_start_in_a_row_sets_aside_whom_the_deaths_before_it_were_over() {
        assert_eq!(aside(&[], "evil good"), "");
        assert_eq!(aside(&[(99, "evil")], "evil good"), "");
        assert_eq!(aside(&[(98, "evil"), (99, "evil")], "evil good"), "evil");
        assert_eq!(aside(&[(98, "evil good"), (99, "evil")], "evil good"), "evil", "each was over evil");
        assert_eq!(aside(&[(98, "evil good"), (99, "evil good")], "evil good main"), "evil good");
        assert_eq!(
            aside(&[(98, "evil"), (99, "good")], "evil good main"),
            "",
            "the next death tells more: it is over one of them again"
        );
        assert_eq!(aside(&[(98, "evil"), (99, "evil")], "good"), "", "nothing of it is left");
        assert_eq!(aside(&[(97, "evil"), (98, "good"), (99, "good")], "evil good"), "good");
    }

    #[test]
    fn deaths_long_ago_are_no_crash_loop() {
        assert_eq!(aside(&[(80, "evil"), (89, "evil")], "evil"), "");
        assert_eq!(aside(&[(79, "evil"), (95, "evil")], "evil"), "");
        assert_eq!(aside(&[(81, "evil"), (90, "evil")], "evil"), "evil");
        assert_eq!(aside(&[(120, "evil"), (121, "evil")], "evil"), "evil", "the clock was set back");
    }
}
