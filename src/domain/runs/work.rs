//! The work of a run as the host sees it from outside, whatever the run says of itself: the use of processor and disk by its
//! processes, and its requests to the model.

use super::health::human;

/// What the processes of a run have used since they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Time on a processor, ms.
    pub cpu_ms: u64,
    /// Read from disks and written to them, bytes.
    pub disk_bytes: u64,
    pub processes: usize,
}

/// Below this share of one processor, percent, a program only waits: its timers go on.
const CPU_PERCENT: u64 = 3;
/// The same for disks, bytes in a ms: a log is written, or the stamp of a file.
const DISK_BYTES_PER_MS: u64 = 16;

impl Used {
    /// What was used from one look to the next. A process that has ended takes its figures with it.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_sub(before.cpu_ms),
            disk_bytes: self.disk_bytes.saturating_sub(before.disk_bytes),
            processes: self.processes,
        }
    }

    /// Whether this is work, when it was used within `ms`.
    #[must_use]
    pub fn is_work(self, within_ms: u64) -> bool {
        self.cpu_ms.saturating_mul(100) >= within_ms.saturating_mul(CPU_PERCENT).max(1)
            || self.disk_bytes >= within_ms.saturating_mul(DISK_BYTES_PER_MS).max(1)
    }
}

/// Whether a run is at work, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtWork {
    /// It can't be seen.
    Unseen,
    /// A request to its model has no whole answer yet.
    Asking,
    /// The ms since it was seen at work last, or was looked at first.
    Ago(i64),
}

impl AtWork {
    /// Returns the age, ms, above which one that shows no life is over its limit, if nothing changes: while it is at work
    /// it has longer, but not longer than `most_ms`.
    #[must_use]
    pub fn extends(self, age_ms: i64, limit_ms: i64, most_ms: i64) -> i64 {
        let most_ms = most_ms.max(limit_ms);
        match self {
            Self::Unseen => limit_ms,
            Self::Asking => most_ms,
            // At that age its work, too, will be as long ago as the limit says.
            Self::Ago(ms) => age_ms.saturating_sub(ms).saturating_add(limit_ms).clamp(limit_ms, most_ms),
        }
    }
}

/// What a verdict rests on; ages in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub last_record_ms: i64,
    /// Since a heartbeat was seen to change; `None`: none was.
    pub heartbeat_ms: Option<i64>,
    /// The tool that its agent says it runs, and for how long.
    pub tool: Option<(String, i64)>,
    /// Requests to its model without a whole answer; `None`: they do not go over the gateway.
    pub requests: Option<usize>,
    /// What it used within `ms`.
    pub used: Option<(Used, i64)>,
}

impl Evidence {
    /// Says it in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut said = vec![format!("last record {} ago", short(self.last_record_ms))];
        said.push(match self.heartbeat_ms {
            Some(ms) => format!("heartbeat {} ago", short(ms)),
            None => "no heartbeat".to_owned(),
        });
        said.push(match &self.tool {
            Some((tool, ms)) => format!("tool {} for {}", printable(tool), short(*ms)),
            None => "no tool".to_owned(),
        });
        said.push(match self.requests {
            Some(1) => "1 request to the model under way".to_owned(),
            Some(n) => format!("{n} requests to the model under way"),
            None => "requests to the model not seen".to_owned(),
        });
        said.push(match self.used {
            Some((used, within_ms)) => format!(
                "{} ms of processor and {} KiB of disk in {}, {} processes",
                used.cpu_ms,
                used.disk_bytes / 1_024,
                short(within_ms),
                used.processes
            ),
            None => "processor and disk not seen".to_owned(),
        });
        said.join(", ")
    }
}

/// An age as people read it: exact below two seconds.
fn short(ms: i64) -> String {
    if ms < 2_000 { human(ms.max(0)) } else { format!("{} s", ms / 1_000) }
}

/// A name that an agent chose, without what a terminal could take for an order.
fn printable(name: &str) -> String {
    const LONGEST: usize = 60;
    name.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_more_than_the_timers_of_a_program_that_waits() {
        let used = |cpu_ms, disk_bytes| Used { cpu_ms, disk_bytes, processes: 1 };
        for (used, within_ms, expected) in [
            (used(0, 0), 15_000, false),
            (used(449, 0), 15_000, false),
            (used(450, 0), 15_000, true),
            (used(0, 239_999), 15_000, false),
            (used(0, 240_000), 15_000, true),
            (used(0, 0), 0, false),
            (used(1, 0), 0, true),
            (used(u64::MAX, u64::MAX), u64::MAX, true),
        ] {
            assert_eq!(used.is_work(within_ms), expected, "{used:?} within {within_ms} ms");
        }
        let (before, now) = (used(100, 5_000), used(90, 6_000));
        assert_eq!(now.since(before), used(0, 1_000), "a process that has ended takes its figures with it");
    }

    #[test]
    fn who_is_at_work_has_longer_and_no_longer_than_the_most() {
        use AtWork::{Ago, Asking, Unseen};
        for (at_work, age_ms, expected) in [
            (Unseen, 70, 60),
            (Asking, 70, 1_800),
            (Ago(0), 70, 130),
            (Ago(60), 70, 70),
            (Ago(61), 70, 69),
            (Ago(500), 70, 60),
            (Ago(0), 5, 65),
            (Ago(0), 1_790, 1_800),
            (Ago(-5), i64::MAX, 1_800),
        ] {
            assert_eq!(at_work.extends(age_ms, 60, 1_800), expected, "{at_work:?} at {age_ms}");
        }
        assert_eq!(Asking.extends(0, 60, 10), 60, "the most is no less than the limit");
    }

    #[test]
    fn evidence_is_one_line_and_no_name_of_a_tool_breaks_it() {
        let seen = Evidence {
            last_record_ms: 65_300,
            heartbeat_ms: Some(1_500),
            tool: Some((format!("Ba\nsh\u{1b}{}", "x".repeat(100)), 64_000)),
            requests: Some(1),
            used: Some((Used { cpu_ms: 12, disk_bytes: 4_096, processes: 3 }, 60_000)),
        };
        let tool = format!("Ba?sh?{}", "x".repeat(54));
        assert_eq!(
            seen.in_words(),
            format!(
                "last record 65 s ago, heartbeat 1500 ms ago, tool {tool} for 64 s, 1 request to the model under way, \
                 12 ms of processor and 4 KiB of disk in 60 s, 3 processes"
            )
        );
        let blind =
            Evidence { last_record_ms: -1, heartbeat_ms: None, tool: None, requests: None, used: None };
        assert_eq!(
            blind.in_words(),
            "last record 0 s ago, no heartbeat, no tool, requests to the model not seen, processor and disk not seen"
        );
    }
}
