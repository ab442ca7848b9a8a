//! The table, and the notes about samples and the machine.

use std::{fmt, fs, time::Duration};

/// The rows so far.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
}

/// Whether a figure is what it must be.
#[derive(Clone, Copy)]
pub(crate) enum Reached {
    Yes,
    No,
    /// Nothing was promised.
    Open,
}

impl Reached {
    pub(crate) fn when(condition: bool) -> Self {
        if condition { Self::Yes } else { Self::No }
    }
}

impl Table {
    /// Adds a row and shows it at once on stderr.
    pub(crate) fn row(
        &mut self,
        what: impl Into<String>,
        measured: impl Into<String>,
        floor: impl Into<String>,
        ratio: impl Into<String>,
        must: impl Into<String>,
        reached: Reached,
    ) {
        let reached = match reached {
            Reached::Yes => "yes",
            Reached::No => "**no**",
            Reached::Open => "–",
        };
        let row = [what.into(), measured.into(), floor.into(), ratio.into(), must.into(), reached.to_owned()];
        eprintln!("| {} |", row.join(" | "));
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | measured | floor | ratio | must reach | reached |\n|---|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

/// Durations of one thing that was done many times.
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Takes at least one sample.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        assert!(!samples.is_empty(), "nothing was measured");
        samples.sort_unstable();
        Self(samples)
    }

    /// Returns the sample that `share` of all are not above.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let at = (self.0.len() as f64 * share).ceil() as usize;
        self.0[at.clamp(1, self.0.len()) - 1]
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub(crate) fn max(&self) -> Duration {
        self.0[self.0.len() - 1]
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p95, p99] = [0.5, 0.95, 0.99].map(|share| millis(self.quantile(share)));
        write!(f, "{median} / {p95} / {p99} ms")
    }
}

/// Returns milliseconds with as many digits as mean something.
pub(crate) fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 {
        format!("{ms:.2}")
    } else if ms < 100.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// Returns how many times `floor` goes into `measured`.
pub(crate) fn ratio(measured: Duration, floor: Duration) -> f64 {
    measured.as_secs_f64() / floor.as_secs_f64().max(1e-9)
}

/// Says what the figures were taken on.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = disk().unwrap_or_else(|| "an unknown file system".into());
    format!("{cpus} processors, Linux {}, {system}. {}", kernel.trim(), load())
}

/// Says how busy the machine is: figures above a load of its processors are those of a shared machine.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut parts = text.split(' ');
    let (one, five) = (parts.next().unwrap_or("?"), parts.next().unwrap_or("?"));
    format!("Load average {one} (1 min), {five} (5 min).")
}

/// The file system that the roots are on.
fn disk() -> Option<String> {
    let place = fs::canonicalize(crate::rig::place()).ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (_, at, kind) = (words.next()?, words.next()?, words.next()?);
            place.starts_with(at).then(|| (at.len(), kind.to_owned()))
        })
        .max()
        .map(|(_, kind)| kind)
}
