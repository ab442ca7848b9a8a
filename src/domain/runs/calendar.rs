//! Which tasks run when, in the days to come.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use ipc_handlers::{Folder, Schedule, Time};
use jiff::tz::TimeZone;

/// A task that runs more than this many times in a day has one row for all of them.
const OFTEN: usize = 24;
const DAY_MS: i64 = 86_400_000;
/// How many tasks are named that a run meets.
pub const MOST_NAMED: usize = 5;
/// How many runs before it a run is compared with.
const MOST_COMPARED: usize = 16;

/// A task as the calendar needs it.
pub struct Planned {
    pub group: Folder,
    pub id: String,
    pub schedule: Schedule,
    pub zone: TimeZone,
    /// When it runs next.
    pub next: Time,
    /// How long its last run took, ms; 0 where that is not known.
    pub took_ms: i64,
}

/// One run to come, or all those of a task that runs often.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Which of the tasks.
    pub task: usize,
    pub at: Time,
    /// It runs again and again from then on.
    pub often: bool,
    /// Tasks of the same group that are due while this one would run, going by its last run, or within the same minute. A
    /// group does one thing at a time, so one of them waits. At most [`MOST_NAMED`] of them.
    pub overlaps: Vec<usize>,
    /// There are more of them.
    pub overlaps_more: bool,
}

/// What runs before an instant, soonest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calendar {
    pub entries: Vec<Entry>,
    /// There is more than was asked for.
    pub more: bool,
}

/// Returns the soonest `most` runs before `until`. Work and result are bounded by that, however many there are.
#[must_use]
pub fn calendar(tasks: &[Planned], now: Time, until: Time, most: usize) -> Calendar {
    let mut calendar = Calendar::default();
    // Of each task its next run: the instant, the task, the slot. What is overdue runs now.
    let first = tasks.iter().enumerate().map(|(at, task)| Reverse((task.next.max(now), at, task.next)));
    let mut coming: BinaryHeap<_> = first.filter(|Reverse((at, ..))| *at < until).collect();
    let often: Vec<bool> = tasks.iter().map(|task| runs_often(task, now)).collect();
    while let Some(Reverse((at, n, slot))) = coming.pop() {
        if calendar.entries.len() == most {
            calendar.more = true;
            break;
        }
        let (task, often) = (&tasks[n], often[n]);
        calendar.entries.push(Entry { task: n, at, often, overlaps: Vec::new(), overlaps_more: false });
        let next = if often { None } else { task.schedule.next_after(slot, at, &task.zone) };
        coming.extend(next.filter(|next| *next < until).map(|next| Reverse((next, n, next))));
    }
    mark_overlaps(&mut calendar.entries, tasks);
    calendar
}

/// Whether a task runs more than [`OFTEN`] times within a day, from the first slot that is not overdue.
fn runs_often(task: &Planned, now: Time) -> bool {
    let first =
        if task.next >= now { Some(task.next) } else { task.schedule.next_after(task.next, now, &task.zone) };
    let mut slots = std::iter::successors(first, |at| task.schedule.next_after(*at, *at, &task.zone));
    first.zip(slots.nth(OFTEN)).is_some_and(|(first, late)| late.ms_since(first) < DAY_MS)
}

/// Marks runs of a group that meet; those that come again and again meet everything, so they are left out.
fn mark_overlaps(entries: &mut [Entry], tasks: &[Planned]) {
    let mut running: HashMap<&Folder, VecDeque<(usize, Time)>> = HashMap::new();
    for at in 0..entries.len() {
        if entries[at].often {
            continue;
        }
        let (task, time) = (&tasks[entries[at].task], entries[at].at);
        let earlier = running.entry(&task.group).or_default();
        earlier.retain(|(_, ends)| *ends > time);
        for (other, _) in earlier.iter() {
            let (this, that) = (entries[at].task, entries[*other].task);
            if this != that {
                entries[at].overlaps.push(that);
                entries[*other].overlaps.push(this);
            }
        }
        // The oldest has met as many by then.
        if earlier.len() == MOST_COMPARED {
            earlier.pop_front();
        }
        earlier.push_back((at, time.plus_ms(task.took_ms.max(60_000))));
    }
    for entry in entries {
        entry.overlaps.sort_unstable();
        entry.overlaps.dedup();
        entry.overlaps_more = entry.overlaps.len() > MOST_NAMED;
        entry.overlaps.truncate(MOST_NAMED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn task(group: &str, schedule: &str, next: i64, took_ms: i64) -> Planned {
        let schedule = Schedule::guess(schedule, &TimeZone::UTC, Time(0)).unwrap();
        let group = Folder::parse(group).unwrap();
        Planned { group, id: "t".into(), schedule, zone: TimeZone::UTC, next: Time(next), took_ms }
    }

    fn shown(tasks: &[Planned], until: i64) -> Vec<(i64, usize, Vec<usize>)> {
        let Calendar { entries, more } = calendar(tasks, Time(HOUR), Time(until), usize::MAX);
        assert!(!more);
        entries.into_iter().map(|entry| (entry.at.0 / 60_000, entry.task, entry.overlaps)).collect()
    }

    #[test]
    fn runs_come_in_order_and_those_that_meet_are_marked() {
        let tasks = [
            task("a", "0 9 * * *", 9 * HOUR, 0),
            task("a", "0 9,21 * * *", 9 * HOUR, 0),
            task("b", "0 9 * * *", 9 * HOUR, 0),
            task("a", "30 9 * * *", 9 * HOUR + HOUR / 2, 0),
        ];
        assert_eq!(
            shown(&tasks, 24 * HOUR),
            [(540, 0, vec![1]), (540, 1, vec![0]), (540, 2, vec![]), (570, 3, vec![]), (1260, 1, vec![])]
        );
    }

    #[test]
    fn a_run_that_takes_long_meets_what_is_due_meanwhile_but_never_itself() {
        let tasks = [task("a", "2h", 2 * HOUR, 3 * HOUR), task("a", "0 3 * * *", 3 * HOUR, 0)];
        assert_eq!(shown(&tasks, 5 * HOUR), [(120, 0, vec![1]), (180, 1, vec![0]), (240, 0, vec![])]);
    }

    #[test]
    fn a_task_that_runs_often_has_one_row_and_no_long_list_is_made() {
        let tasks =
            [task("a", "1s", 2 * HOUR, 0), task("a", "0 2 * * *", 2 * HOUR, 0), task("a", "1h", HOUR, 0)];
        let entries = calendar(&tasks, Time(HOUR), Time(365 * 24 * HOUR), usize::MAX).entries;
        assert_eq!(entries.iter().filter(|entry| entry.task == 0).count(), 1);
        assert!(entries.iter().any(|entry| entry.task == 0 && entry.often));
        let of = |task: usize| entries.iter().filter(|entry| entry.task == task).count();
        assert_eq!((of(1), of(2)), (365, 365 * 24 - 1), "24 times a day is not often");
    }

    #[test]
    fn an_overdue_task_runs_now_and_goes_on_in_its_own_rhythm() {
        assert_eq!(
            shown(&[task("a", "1h", HOUR / 2, 0)], 3 * HOUR),
            [(60, 0, vec![]), (90, 0, vec![]), (150, 0, vec![])]
        );
        assert_eq!(shown(&[task("a", "1970-01-01T00:10:00Z", 600_000, 0)], 3 * HOUR), [(60, 0, vec![])]);
    }

    #[test]
    fn a_thousand_tasks_that_meet_are_bounded_work_and_a_few_of_them_are_named() {
        let tasks: Vec<Planned> = (0..1_000).map(|_| task("a", "0 * * * *", 2 * HOUR, 30 * 60_000)).collect();
        let Calendar { entries, more } = calendar(&tasks, Time(HOUR), Time(366 * 24 * HOUR), 5_000);
        assert_eq!((entries.len(), more), (5_000, true));
        assert!(entries.is_sorted_by_key(|entry| (entry.at, entry.task)));
        assert!(entries.iter().all(|entry| entry.overlaps.len() == MOST_NAMED && entry.overlaps_more));
        let whole = calendar(&tasks[..2], Time(HOUR), Time(4 * HOUR), 4);
        assert_eq!((whole.entries.len(), whole.more), (4, false));
        assert!(whole.entries.iter().all(|entry| entry.overlaps.len() == 1 && !entry.overlaps_more));
    }
}
