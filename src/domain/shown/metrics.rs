//! Figures for Prometheus: what is told, and how it reads (text format 0.0.4). No text, person or chat is in them.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ipc_handlers::{Time, words};

/// The label of those that are too many to be told apart.
pub const OTHERS: &str = "others";

words! {
    /// What is counted since the root was made.
    pub enum Total: "total" {
        /// Ended runs, by kind and outcome.
        Runs = "runs",
        /// Runs that were killed, by verdict.
        Kills = "kills",
        /// Tokens, by model and kind.
        Tokens = "tokens",
        /// Requests to models, by outcome.
        Requests = "requests",
    }
}

words! {
    /// What somebody waits for.
    pub enum WaitCause: "cause of a wait" {
        /// Its lane rests after a failure.
        Rest = "rest",
        /// The container of its group is at other work.
        Group = "group",
        /// The budget of its group is used up for today.
        Budget = "budget",
        /// All places for containers are taken.
        Slot = "slot",
        /// Its wiring was removed.
        Wiring = "wiring",
        /// The folder of its group is lost.
        Folder = "folder",
    }
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Figures of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// What it says, with its unit.
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the name.
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Family {
    /// Returns figures of which each has these labels.
    #[must_use]
    pub fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, help, samples: Vec::new() }
    }

    /// Adds a figure.
    #[must_use]
    pub fn with(mut self, labels: &[(&'static str, &str)], value: f64) -> Self {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { suffix: "", labels, value });
        self
    }

    /// Adds many.
    #[must_use]
    pub fn with_all<'a>(self, all: impl IntoIterator<Item = (Vec<(&'static str, &'a str)>, f64)>) -> Self {
        all.into_iter().fold(self, |family, (labels, value)| family.with(&labels, value))
    }

    /// Adds a histogram.
    #[must_use]
    pub fn histogram(mut self, of: &Histogram) -> Self {
        let mut so_far = 0;
        for (bound, count) in BOUNDS.iter().map(|ms| ms / 1_000.0).chain([f64::INFINITY]).zip(of.counts) {
            so_far += count;
            let labels = vec![("le", number(bound))];
            self.samples.push(Sample { suffix: "_bucket", labels, value: so_far as f64 });
        }
        self.samples.push(Sample { suffix: "_sum", labels: Vec::new(), value: of.sum_us as f64 / 1e6 });
        self.samples.push(Sample { suffix: "_count", labels: Vec::new(), value: so_far as f64 });
        self
    }
}

/// The upper bounds of a histogram's buckets, ms; one more has what is longer.
pub const BOUNDS: [f64; 12] = [0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0];

/// How long something took, counted by buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    pub counts: [u64; BOUNDS.len() + 1],
    /// All together, µs.
    pub sum_us: u64,
}

/// Counts of durations by buckets, since the process began.
#[derive(Debug, Default)]
pub struct Latency {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    /// Counts one.
    pub fn took(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn so_far(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// Returns the bucket of something that took so long, µs.
#[must_use]
pub fn bucket(us: u64) -> usize {
    BOUNDS.iter().position(|ms| us as f64 <= ms * 1_000.0).unwrap_or(BOUNDS.len())
}

/// Returns an instant as Prometheus has it: seconds since 1970.
#[must_use]
pub fn seconds(at: Time) -> f64 {
    at.0 as f64 / 1_000.0
}

/// Returns the figures as text. Families without figures are left out.
#[must_use]
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, kind, help, samples } in families.iter().filter(|family| !family.samples.is_empty()) {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
        for Sample { suffix, labels, value } in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{suffix}{labels} {}", number(*value));
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".to_owned() } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_prometheus_wants_them() {
        let mut histogram = Histogram::default();
        for us in [100, 250, 251, 9_000_000] {
            histogram.counts[bucket(us)] += 1;
            histogram.sum_us += us;
        }
        let families = [
            Family::new("g2_up", Kind::Gauge, "Whether a daemon answers.").with(&[], 1.0),
            Family::new("g2_none", Kind::Gauge, "Nothing."),
            Family::new("g2_tokens_total", Kind::Counter, "Tokens.").with(&[("model", "a\"b\\c\nd")], 12.5),
            Family::new("g2_commit_seconds", Kind::Histogram, "Commits.").histogram(&histogram),
        ];
        let text = text(&families);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["# HELP g2_up Whether a daemon answers.", "# TYPE g2_up gauge", "g2_up 1"]);
        assert!(!text.contains("g2_none"));
        assert!(lines.contains(&r#"g2_tokens_total{model="a\"b\\c\nd"} 12.5"#), "{text}");
        for line in [
            "g2_commit_seconds_bucket{le=\"0.00025\"} 2",
            "g2_commit_seconds_bucket{le=\"0.0005\"} 3",
            "g2_commit_seconds_bucket{le=\"5\"} 3",
            "g2_commit_seconds_bucket{le=\"+Inf\"} 4",
            "g2_commit_seconds_sum 9.000601",
            "g2_commit_seconds_count 4",
        ] {
            assert!(lines.contains(&line), "{line} is not in {text}");
        }
    }
}
