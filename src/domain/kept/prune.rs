//! Old history: the age at which rows are removed, and the reasons to keep them longer.

use std::{collections::BTreeMap, time::Duration};

use ipc_handlers::Time;

use crate::shown::audit::AUDIT_DAYS;

/// A day, ms.
pub const DAY_MS: i64 = 24 * 3_600_000;
/// For how long a command's receipt is kept at least, days: it is the proof that its file was dealt with.
pub const RECEIPT_DAYS: u32 = 30;
/// How far a file's own time may lie after its receipt's: a clock that was set, a file that was put away late. ms.
const SLACK_MS: i64 = DAY_MS;
/// How far the clock may be ahead of the newest thing that is known, before it is taken to be wrong, ms.
const AHEAD_MS: i64 = 2 * DAY_MS;
/// The shortest and the longest pause between two steps.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// The file is written anew only if at least one part in this many of it is free.
const WORTH_IT: u64 = 10;

/// What there is of history, in the order in which it is removed: what refers to something goes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Questions that were answered or have expired, with what was done about them.
    Approvals,
    /// Messages that everybody is through with, with their inbox rows.
    Messages,
    /// What was handed to agents, and is done or given up.
    Batches,
    /// What was said to chats.
    Outbox,
    /// The proofs that command files were dealt with.
    Receipts,
    /// What people decided about claims.
    ByHand,
    /// Runs that have ended, with what they were refused; what they used stays.
    Runs,
}

impl History {
    /// Every kind, in the order of removal.
    pub const ALL: [Self; 7] = [
        Self::Approvals,
        Self::Messages,
        Self::Batches,
        Self::Outbox,
        Self::Receipts,
        Self::ByHand,
        Self::Runs,
    ];

    /// Returns its name, which is its table's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Messages => "messages",
            Self::Outbox => "outbox",
            Self::Batches => "batches",
            Self::Runs => "runs",
            Self::Receipts => "receipts",
            Self::ByHand => "by_hand",
        }
    }
}

/// The instant up to which rows are old history, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    pub before: Time,
    /// Of receipts, and of runs: a command's token names its run, and is good for no longer than that.
    pub receipts: Time,
    /// Of questions that were answered with no, which holds for a while.
    pub denied: Time,
    /// Of the audit.
    pub audit: Time,
}

impl Horizon {
    /// Returns the horizon `days` ago. A no holds for `deny_ttl_ms`.
    #[must_use]
    pub fn new(now: Time, days: u32, deny_ttl_ms: i64) -> Self {
        let ago = |days: u32| now.plus_ms(-i64::from(days) * DAY_MS);
        let before = ago(days);
        Self {
            before,
            receipts: before.min(ago(RECEIPT_DAYS)),
            denied: before.min(now.plus_ms(-deny_ttl_ms.max(0))),
            audit: before.min(ago(AUDIT_DAYS)),
        }
    }

    /// Returns from when on the receipts of groups are kept whose boxes hold old files: a power cut can have put a file
    /// back that was dealt with, and its receipt is then all that says so. `oldest` is the time of each group's oldest
    /// waiting file; `None` where not all of them could be looked at.
    #[must_use]
    pub fn kept_for_boxes(&self, oldest: BTreeMap<String, Option<Time>>) -> BTreeMap<String, Time> {
        let from = |oldest: Option<Time>| oldest.map_or(Time(i64::MIN), |at| at.plus_ms(-SLACK_MS));
        let kept = oldest.into_iter().map(|(group, oldest)| (group, from(oldest)));
        kept.filter(|(_, from)| *from <= self.receipts).collect()
    }
}

/// Returns the instant from which age is counted: now, but no more than 2 days after the `newest` thing that is known. A
/// clock that is years ahead makes nothing old.
#[must_use]
pub fn counted_from(now: Time, newest: Option<Time>) -> Time {
    newest.map_or(now, |newest| now.min(newest.plus_ms(AHEAD_MS)))
}

/// What decides, besides its age, whether something is removed.
#[derive(Clone, Debug)]
pub struct Keep {
    pub horizon: Horizon,
    /// Claims whose files lie in `data/claimed/`.
    pub claimed: Vec<i64>,
    /// Which files these are: one may be an earlier claim's, put back by a power cut and claimed anew.
    pub origins: Vec<Vec<u8>>,
    /// Groups whose receipts and runs are kept from an instant on.
    pub groups: BTreeMap<String, Time>,
    /// Groups of which a file lies in `data/claimed/`: any of their runs may be the one that its token names.
    pub working: Vec<String>,
}

/// Returns how long everybody else has the store after a step that took so long: the longer part of the time.
#[must_use]
pub fn pause(took: Duration) -> Duration {
    (took * 2).clamp(PAUSES.0, PAUSES.1)
}

/// Whether a store of `bytes`, of which `free` are not used, is worth being written anew.
#[must_use]
pub fn is_worth_shrinking(bytes: u64, free: u64) -> bool {
    free > 0 && free >= bytes / WORTH_IT
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn days_ago(days: i64) -> Time {
        NOW.plus_ms(-days * DAY_MS)
    }

    #[test]
    fn receipts_are_kept_for_30_days_and_a_no_for_as_long_as_it_holds_however_little_else_is() {
        for (days, deny_ttl_days, receipts, denied) in
            [(1, 0, 30, 1), (30, 0, 30, 30), (365, 0, 365, 365), (7, 60, 30, 60), (90, 60, 90, 90)]
        {
            let horizon = Horizon::new(NOW, days, deny_ttl_days * DAY_MS);
            let expected = Horizon {
                before: days_ago(days.into()),
                receipts: days_ago(receipts),
                denied: days_ago(denied),
                audit: days_ago(400),
            };
            assert_eq!(horizon, expected, "{days} days, {deny_ttl_days} days of no");
        }
    }

    #[test]
    fn age_is_counted_by_the_clock_unless_it_is_days_ahead_of_all_that_is_known() {
        for (newest, from) in [
            (None, NOW),
            (Some(NOW), NOW),
            (Some(days_ago(2)), NOW),
            (Some(days_ago(2).plus_ms(-1)), NOW.plus_ms(-1)),
            (Some(days_ago(3650)), days_ago(3648)),
            // The clock was set back.
            (Some(NOW.plus_ms(DAY_MS)), NOW),
        ] {
            assert_eq!(counted_from(NOW, newest), from, "{newest:?}");
        }
    }

    #[test]
    fn an_old_file_in_a_box_keeps_the_receipts_that_may_be_its_own() {
        let horizon = Horizon::new(NOW, 30, 0);
        let oldest = BTreeMap::from([
            ("new".to_owned(), Some(days_ago(1))),
            ("border".to_owned(), Some(days_ago(29))),
            ("old".to_owned(), Some(days_ago(40))),
            ("full".to_owned(), None),
        ]);
        let kept = horizon.kept_for_boxes(oldest);
        let expected = [("border", days_ago(30)), ("full", Time(i64::MIN)), ("old", days_ago(41))];
        assert_eq!(kept, expected.map(|(group, from)| (group.to_owned(), from)).into());
    }

    #[test]
    fn others_have_the_store_for_longer_than_a_step_takes() {
        for (took, rests) in [(0, 5), (1, 5), (20, 40), (900, 1000)] {
            assert_eq!(pause(Duration::from_millis(took)), Duration::from_millis(rests), "{took} ms");
        }
    }

    #[test]
    fn a_file_is_written_anew_for_a_tenth_of_it() {
        for (bytes, free, worth) in [(0, 0, false), (100, 9, false), (100, 10, true), (5, 0, false)] {
            assert_eq!(is_worth_shrinking(bytes, free), worth, "{free} of {bytes}");
        }
    }
}
