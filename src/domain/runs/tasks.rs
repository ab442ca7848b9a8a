//! How many tasks a group may have and how large they may be, how much of them is shown at a time, and what follows when one
//! fails again and again.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, ScheduleKind, Time};

/// What the tasks of each group may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// How many there may be.
    pub count: usize,
    /// How many bytes of prompts, scripts and schedules they may have together.
    pub bytes: u64,
    /// How long a prompt may be, bytes.
    pub prompt: usize,
    /// How long a script may be, bytes.
    pub script: usize,
}

impl TaskLimits {
    /// Any number of tasks of any size.
    pub const NONE: Self =
        Self { count: usize::MAX, bytes: u64::MAX, prompt: usize::MAX, script: usize::MAX };
}

/// How much of a prompt or a script is shown in a list, bytes.
pub const TEXT_SHOWN: usize = 64 << 10;
/// How much of a schedule's value is shown in a list, bytes.
pub const VALUE_SHOWN: usize = 1 << 10;
/// How long the words for a schedule may be in a list, bytes.
pub const WORDS_SHOWN: usize = 200;
/// How long those words and the reason why it is paused may be together, bytes of JSON.
const WORDS_AND_REASON: usize = 340;
/// What a row of a list takes beside its texts, bytes: half of what its names, its id, its folder, the words and the reason can have.
const ROW: u64 = 460;

/// Returns how much room a task of `bytes` is given in a list that shows at most `text` bytes of a prompt and a script.
/// Written as JSON its row has at most twice as many bytes.
fn weight(bytes: u64, text: usize) -> u64 {
    bytes.min((2 * text + VALUE_SHOWN) as u64) + ROW
}

/// Returns the shown part of a text, and whether that is all: at most `most` bytes, and no more than what, written as JSON,
/// has twice the bytes of the text itself. So only a text that is too long or full of control characters is cut.
#[must_use]
pub fn shown(text: &str, most: usize) -> (&str, bool) {
    let most = most.min(text.len());
    let written = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        control if *control < b' ' => 6,
        _ => 1,
    };
    let bytes = text.as_bytes().iter().take(most);
    if most == text.len() && bytes.map(written).sum::<usize>() <= 2 * most {
        return (text, true);
    }
    let mut room = 2 * most;
    for (at, char) in text.char_indices() {
        let end = at + char.len_utf8();
        let left = text.as_bytes().get(at..end).map(|bytes| bytes.iter().map(written).sum::<usize>());
        match left.and_then(|bytes| room.checked_sub(bytes)).filter(|_| end <= most) {
            Some(left) => room = left,
            None => return (&text[..at], false),
        }
    }
    (text, true)
}

/// Returns the shown part of the reason why a task is paused, beside the words for its schedule.
#[must_use]
pub fn shown_reason<'a>(reason: &'a str, words: Option<&str>) -> &'a str {
    let left = WORDS_AND_REASON.saturating_sub(words.map_or(0, str::len));
    shown(reason, left / 2).0
}

/// A task as one that may be shown, newest first among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its row.
    pub n: i64,
    /// Its bytes.
    pub bytes: u64,
}

/// Returns how many of these a page has that may take `room` bytes as JSON: one at least.
#[must_use]
pub fn page(candidates: &[Candidate], room: u64) -> usize {
    fitting(candidates, room / 2, TEXT_SHOWN)
}

fn fitting(candidates: &[Candidate], mut left: u64, text: usize) -> usize {
    let fits = candidates.iter().take_while(|candidate| {
        let weight = weight(candidate.bytes, text);
        let fits = weight <= left;
        left = left.saturating_sub(weight);
        fits
    });
    fits.count().max(1).min(candidates.len())
}

/// Which tasks are shown where not all have room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Their rows, newest first.
    pub rows: Vec<i64>,
    /// By the oldest row of its group that is shown: how many older ones are not.
    pub left_out: BTreeMap<i64, usize>,
    /// How much of a prompt or a script is shown, bytes.
    pub text: usize,
}

/// Selects what of all groups' tasks, newest first for each, is shown in `room` bytes of JSON. Each group has the same
/// share; what one does not need is for those that need more. Of each at least the newest is shown: where there are very
/// many groups, less of its text.
#[must_use]
pub fn select(groups: &BTreeMap<Folder, Vec<Candidate>>, room: u64) -> Selection {
    let needs: Vec<u64> =
        groups.values().map(|tasks| tasks.iter().map(|task| weight(task.bytes, TEXT_SHOWN)).sum()).collect();
    let share = share(&needs, room / 2);
    let text = TEXT_SHOWN.min(usize::try_from(share / 4).unwrap_or(TEXT_SHOWN));
    let mut selection = Selection { text, ..Selection::default() };
    for tasks in groups.values() {
        let shown = fitting(tasks, share, text);
        selection.rows.extend(tasks.iter().take(shown).map(|task| task.n));
        if let Some(oldest) = tasks.get(shown.wrapping_sub(1)).filter(|_| shown < tasks.len()) {
            selection.left_out.insert(oldest.n, tasks.len() - shown);
        }
    }
    selection.rows.sort_unstable_by(|a, b| b.cmp(a));
    selection
}

/// Returns how much each may have at most, so that all have what they need up to that, and no more than `room` together.
fn share(needs: &[u64], room: u64) -> u64 {
    let mut needs = needs.to_vec();
    needs.sort_unstable();
    let mut left = room;
    let mut others = needs.len() as u64;
    for need in needs {
        if need.saturating_mul(others) > left {
            return left / others;
        }
        left -= need;
        others -= 1;
    }
    room
}

/// After how many occurrences that failed in a row a task is paused.
pub const MOST_FAILURES: u32 = 8;
/// After how many of them a chat is told of a task that comes again before another try would.
const TOLD_AT: u32 = 3;

/// Why an occurrence is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// Its tries are spent, or it had begun to act.
    ForGood,
    /// The next one is as near as another try.
    ForTheNext,
}

/// Whether the chat knows of the failures that are counted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    NotYet,
    Already,
}

/// What follows from an occurrence that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Quiet,
    /// The chat is told.
    Tell,
    /// The task is paused, and the chat is told.
    Pause,
}

/// Returns what follows after `failures` occurrences that failed in a row. A chat is told once, and once more of the pause. A
/// `once` has no other occurrence: it is over.
#[must_use]
pub fn after_failures(failures: u32, how: GaveUp, told: Told, kind: ScheduleKind) -> Then {
    match (kind, how, told) {
        (ScheduleKind::Cron | ScheduleKind::Interval, _, _) if failures >= MOST_FAILURES => Then::Pause,
        (ScheduleKind::Once, _, _) | (_, GaveUp::ForGood, Told::NotYet) => Then::Tell,
        (_, GaveUp::ForTheNext, Told::NotYet) if failures >= TOLD_AT => Then::Tell,
        (_, _, _) => Then::Quiet,
    }
}

/// After how many rests of the shortest length a chat is told that the host can't have a task run.
const HELD_UP_TOLD_AFTER: i64 = 4;
/// How much longer the longest rest is than the shortest: 5 s become about 10 minutes.
const HELD_UP_LONGEST: i64 = 128;

/// What becomes of an occurrence that the host could not have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp {
    /// The time (ms) after which it is tried again, at no cost.
    Waits { rest_ms: i64, then: Then },
    /// It is not tried any more.
    Over,
}

/// Returns what becomes of an occurrence that the host could not have run, for the first time at `since`. It rests as long as it
/// has waited already, from `base_ms` to 128 times that. A `once` is given up after its window; another task goes on: its later
/// occurrences would wait for the same.
#[must_use]
pub fn held_up(
    since: Time,
    now: Time,
    kind: ScheduleKind,
    window_ms: i64,
    base_ms: i64,
    told: Told,
) -> HeldUp {
    let waited = now.ms_since(since).max(0);
    if kind == ScheduleKind::Once && waited > window_ms {
        return HeldUp::Over;
    }
    let is_long = waited >= base_ms.saturating_mul(HELD_UP_TOLD_AFTER);
    let then = if is_long && told == Told::NotYet { Then::Tell } else { Then::Quiet };
    HeldUp::Waits { rest_ms: waited.clamp(base_ms, base_ms.saturating_mul(HELD_UP_LONGEST)), then }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tasks(first: i64, count: i64, bytes: u64) -> Vec<Candidate> {
        (0..count).map(|n| Candidate { n: first - n, bytes }).collect()
    }

    fn folder(name: &str) -> Folder {
        Folder::parse(name).unwrap()
    }

    #[test]
    fn a_text_is_cut_where_it_is_too_long_or_would_be_when_written() {
        assert_eq!(shown("abc", 3), ("abc", true));
        assert_eq!(shown("abcd", 3), ("abc", false));
        assert_eq!(shown("aé", 2), ("a", false), "never within a character");
        assert_eq!(shown("\n\"\\\t", 4), ("\n\"\\\t", true));
        assert_eq!(shown("\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}", 9).0.len(), 2);
        assert_eq!(shown("", 0), ("", true));
        let reason = "\n".repeat(1000);
        for words in [None, Some("every day at 09:00 UTC"), Some(&*"w".repeat(WORDS_SHOWN))] {
            let written = serde_json::to_string(shown_reason(&reason, words)).unwrap().len() - 2;
            let together = written + words.map_or(0, str::len);
            assert!((WORDS_AND_REASON - 4..=WORDS_AND_REASON).contains(&together), "{together}");
        }
    }

    #[test]
    fn a_page_has_one_task_at_least_and_ends_where_its_room_does() {
        assert_eq!(page(&[], 1 << 20), 0);
        assert_eq!(page(&tasks(9, 3, 1 << 30), 1), 1);
        assert_eq!(page(&tasks(9, 5, 600), 4_300), 2);
        assert_eq!(
            page(&tasks(2_000, 1_000, 60), 1 << 20),
            1_000,
            "as many as a group may have, if they are short"
        );
    }

    #[test]
    fn a_group_with_much_pushes_nothing_of_another_out() {
        let groups: BTreeMap<Folder, Vec<Candidate>> =
            [(folder("evil"), tasks(9_000, 1_000, 60_000)), (folder("good"), tasks(90, 9, 100))].into();
        let selection = select(&groups, 1 << 20);
        let of_good = selection.rows.iter().filter(|n| **n <= 90).count();
        assert_eq!(of_good, 9);
        let of_evil = selection.rows.len() - of_good;
        assert!((5..10).contains(&of_evil), "{of_evil}");
        let oldest = 9_001 - i64::try_from(of_evil).unwrap();
        assert_eq!(selection.left_out, [(oldest, 1_000 - of_evil)].into());
        assert!(selection.rows.is_sorted_by(|a, b| a > b));
    }

    proptest! {
        #[test]
        fn no_list_is_longer_than_its_room_and_no_group_is_without_its_share(
            sizes in prop::collection::vec(prop::collection::vec(0_u64..100_000, 1..30), 1..8),
            room in 400_000_u64..4_000_000,
        ) {
            let mut n = 1_000_000;
            let groups: BTreeMap<Folder, Vec<Candidate>> = sizes
                .iter()
                .enumerate()
                .map(|(g, sizes)| {
                    let tasks = sizes.iter().map(|bytes| { n -= 1; Candidate { n, bytes: *bytes } }).collect();
                    (folder(&format!("g{g}")), tasks)
                })
                .collect();
            let selection = select(&groups, room);
            let fair = room / 2 / groups.len() as u64;
            let mut total = 0;
            for tasks in groups.values() {
                let shown: Vec<_> = tasks.iter().filter(|task| selection.rows.contains(&task.n)).collect();
                let weight = |task: &Candidate| weight(task.bytes, selection.text);
                let taken: u64 = shown.iter().map(|task| weight(task)).sum();
                total += taken;
                prop_assert!(!shown.is_empty());
                match tasks.get(shown.len()) {
                    Some(next) => {
                        prop_assert!(taken + weight(next) > fair);
                        prop_assert_eq!(selection.left_out[&shown[shown.len() - 1].n], tasks.len() - shown.len());
                    }
                    None => prop_assert!(!selection.left_out.contains_key(&shown[shown.len() - 1].n)),
                }
            }
            prop_assert!(total <= room / 2);
        }

        #[test]
        fn what_is_shown_is_at_most_twice_as_long_when_written(text in "\\PC{0,40}|[\u{0}-\u{1f}]{0,40}|[a-c\n\"\u{1}]{0,60}", most in 0_usize..50) {
            let (kept, whole) = shown(&text, most);
            prop_assert!(kept.len() <= most && text.starts_with(kept));
            prop_assert_eq!(whole, kept.len() == text.len());
            let written = serde_json::to_string(kept).unwrap().len() - 2;
            prop_assert!(written <= 2 * most.min(text.len()));
        }
    }

    #[test]
    fn what_the_host_holds_up_rests_as_long_as_it_has_waited_within_bounds() {
        use {ScheduleKind::*, Told::*};
        let quiet = |rest_ms| HeldUp::Waits { rest_ms, then: Then::Quiet };
        let (since, week) = (Time(1_000_000), 7 * 86_400_000);
        for (waited, kind, told, becomes) in [
            (0, Once, NotYet, quiet(5_000)),
            (-86_400_000, Cron, NotYet, quiet(5_000)),
            (5_010, Cron, NotYet, quiet(5_010)),
            (19_999, Once, NotYet, quiet(19_999)),
            (20_000, Once, NotYet, HeldUp::Waits { rest_ms: 20_000, then: Then::Tell }),
            (40_000, Interval, Already, quiet(40_000)),
            (86_400_000, Cron, Already, quiet(640_000)),
            (week, Once, Already, quiet(640_000)),
            (week + 1, Once, Already, HeldUp::Over),
            (week + 1, Cron, Already, quiet(640_000)),
            (week + 1, Interval, NotYet, HeldUp::Waits { rest_ms: 640_000, then: Then::Tell }),
        ] {
            let found = held_up(since, since.plus_ms(waited), kind, week, 5_000, told);
            assert_eq!(found, becomes, "{waited} {kind:?}");
        }
    }

    #[test]
    fn a_chat_is_told_once_of_failures_and_once_of_the_pause() {
        use {GaveUp::*, ScheduleKind::*, Then::*, Told::*};
        for (failures, how, told, kind, then) in [
            (1, ForGood, NotYet, Cron, Tell),
            (1, ForGood, Already, Cron, Quiet),
            (2, ForGood, Already, Cron, Quiet),
            (7, ForGood, Already, Interval, Quiet),
            (8, ForGood, Already, Interval, Pause),
            (9, ForTheNext, Already, Cron, Pause),
            (1, ForTheNext, NotYet, Interval, Quiet),
            (2, ForTheNext, NotYet, Interval, Quiet),
            (3, ForTheNext, NotYet, Interval, Tell),
            (4, ForTheNext, Already, Interval, Quiet),
            (1, ForGood, NotYet, Once, Tell),
            (9, ForGood, Already, Once, Tell),
        ] {
            assert_eq!(
                after_failures(failures, how, told, kind),
                then,
                "{failures} {how:?} {told:?} {kind:?}"
            );
        }
    }
}
