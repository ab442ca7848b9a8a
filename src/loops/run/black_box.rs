//! The black box of a run: what was known of it when it was ended against its will. It lies in the run's own folder, is bounded,
//! and goes with the run.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use ipc_handlers::{Time, wire};

use super::Watched;
use crate::{
    domain::{
        runs::{
            used,
            work::{AtWork, Evidence, Used},
        },
        shown::errors::chain,
    },
    root::{self, BlackBox, HeardRecord, Sample},
    system::{
        control_group::ControlGroup,
        failpoint,
        family::{self, Relative},
    },
};

/// How many processes are named.
const PROCESSES: usize = 32;
/// How many records are kept, and how much of each, characters.
const RECORDS: usize = 8;
const RECORD_CHARS: usize = 300;
/// How often a run's use of the machine is kept, and how many of these looks: ten minutes.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);
const SAMPLES: usize = 40;
/// How many looks tell what it uses just now.
const LOOKS: usize = 5;

/// How long the engine may take to say which process is the run's.
const ASKING: Duration = Duration::from_secs(1);

/// Facts that are gathered while a run is well.
#[derive(Default)]
pub(super) struct Gathered {
    /// The process that the engine started, and its container's control group.
    pid: Option<u32>,
    group: Option<ControlGroup>,
    samples: VecDeque<Sample>,
    sampled: Option<Instant>,
    looked: Option<Instant>,
    /// What it had used at the last looks.
    looks: VecDeque<(Instant, Used)>,
    /// When it was seen at work last, or was looked at first.
    worked: Option<Instant>,
    records: VecDeque<HeardRecord>,
    /// How much of its output was read, bytes.
    output: u64,
}

impl Gathered {
    /// Notes that output was read.
    pub(super) fn read(&mut self, bytes: usize) {
        self.output = self.output.saturating_add(bytes as u64);
    }

    /// Notes what it has used by now.
    fn looked_at(&mut self, now: Instant, used: Used) {
        let worked = self.looks.back().is_none_or(|(at, before)| {
            let within = u64::try_from(now.duration_since(*at).as_millis()).unwrap_or(u64::MAX);
            used.since(*before).is_work(within)
        });
        if worked {
            self.worked = Some(now);
        }
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back((now, used));
    }

    /// Returns what it used of late, and within how many ms.
    fn used(&self) -> Option<(Used, i64)> {
        let ((first, before), (last, used)) = (self.looks.front()?, self.looks.back()?);
        let within = i64::try_from(last.duration_since(*first).as_millis()).unwrap_or(i64::MAX);
        Some((used.since(*before), within))
    }

    /// Notes a record.
    pub(super) fn heard(&mut self, n: u64, record: &wire::Record, at: Time) {
        if self.records.len() == RECORDS {
            self.records.pop_front();
        }
        let used = used::Used::of(record).map(|(used, _)| used.in_words());
        let texts = [&record.error, &record.result, &used];
        let text = texts.into_iter().find_map(Option::as_deref).unwrap_or_default();
        self.records.push_back(HeardRecord {
            n,
            at,
            kind: format!("{:?}", record.kind).to_lowercase(),
            text: text.chars().take(RECORD_CHARS).collect(),
        });
    }
}

/// How long ago something was, ms.
pub(super) fn age(since: Instant, now: Instant) -> i64 {
    i64::try_from(now.duration_since(since).as_millis()).unwrap_or(i64::MAX)
}

impl Watched {
    /// Looks at the run's use of the machine, where it is time for that.
    pub(super) async fn sample(&mut self, container: &str) {
        let least = Duration::from_millis(self.runs.config.now().health.claim_ms / 4);
        let every = least.clamp(Duration::from_millis(100), SAMPLE_EVERY);
        let now = self.runs.machine.world.monotonic();
        if self.gathered.looked.is_some_and(|at| now.duration_since(at) < every) {
            return;
        }
        self.gathered.looked = Some(now);
        if self.gathered.pid.is_none() {
            let asked = tokio::time::timeout(ASKING, self.runs.sandbox.pid(container)).await;
            // It is asked again at the next look.
            self.gathered.pid = asked.ok().flatten();
            self.gathered.group = self.gathered.pid.and_then(|pid| ControlGroup::of(pid, container));
        }
        let Some(pid) = self.gathered.pid else { return };
        let group = self.gathered.group.clone();
        let look = move || (family::of(pid, PROCESSES), group.and_then(|group| group.figures()));
        let Ok((family, figures)) = self.runs.machine.world.blocking(look).await else { return };
        if family.is_empty() {
            return;
        }
        let sum = |of: fn(&Relative) -> u64| family.iter().map(of).fold(0, u64::saturating_add);
        let used = Used {
            cpu_ms: figures.map_or_else(|| sum(|one| one.cpu_ms), |figures| figures.cpu_ms),
            disk_bytes: figures.map_or_else(|| sum(|one| one.disk_kib) * 1_024, |figures| figures.disk_bytes),
            processes: family.len(),
        };
        let now = self.runs.machine.world.monotonic();
        self.gathered.looked_at(now, used);
        if self.gathered.sampled.is_some_and(|at| now.duration_since(at) < SAMPLE_EVERY) {
            return;
        }
        self.gathered.sampled = Some(now);
        if self.gathered.samples.len() == SAMPLES {
            self.gathered.samples.pop_front();
        }
        self.gathered.samples.push_back(Sample {
            at: self.runs.machine.world.now(),
            processes: used.processes,
            cpu_ms: used.cpu_ms,
            disk_kib: used.disk_bytes / 1_024,
            memory_kib: figures.map_or_else(|| sum(|one| one.memory_kib), |figures| figures.memory_kib),
        });
    }

    /// Whether it is at work, as seen from outside.
    pub(super) fn at_work(&mut self) -> AtWork {
        // One that may never have been given all of its stdin waits for the rest of it, whatever it does meanwhile.
        let startup = Duration::from_millis(self.runs.config.now().health.startup_ms);
        if !self.is_up() && self.ready_limit < startup {
            return AtWork::Unseen;
        }
        if self.runs.gateway.in_flight(self.run).is_some_and(|requests| requests > 0) {
            self.gathered.worked = Some(self.runs.machine.world.monotonic());
            return AtWork::Asking;
        }
        match (self.gathered.pid, self.gathered.worked) {
            (Some(_), Some(at)) => AtWork::Ago(age(at, self.runs.machine.world.monotonic())),
            (None, _) | (_, None) => AtWork::Unseen,
        }
    }

    /// What a verdict rests on.
    pub(super) fn evidence(&self) -> Evidence {
        let now = self.runs.machine.world.monotonic();
        let age = |since: Instant| age(since, now);
        Evidence {
            last_record_ms: age(self.signs.last_record),
            heartbeat_ms: self.signs.beaten.map(age),
            tool: self.signs.tool.as_ref().map(|(name, since)| (name.clone(), age(*since))),
            requests: self.runs.gateway.in_flight(self.run),
            used: self.gathered.used(),
        }
    }

    /// Writes the black box, just before the run is ended. That it can't be written is logged, and nothing depends on it.
    pub(super) async fn keep_black_box(&mut self, container: &str, reason: &str) {
        (self.gathered.sampled, self.gathered.looked) = (None, None);
        self.sample(container).await;
        let world = self.runs.machine.world.clone();
        let (at, now) = (world.now(), world.monotonic());
        let ago = |since: Instant| at.plus_ms(-age(since, now));
        let pid = self.gathered.pid;
        let black_box = BlackBox {
            at,
            reason: reason.to_owned(),
            evidence: self.evidence().in_words(),
            last_sign: ago(self.signs.last_sign),
            last_record: ago(self.signs.last_record),
            in_hand_since: self.signs.in_hand.values().flatten().min().map(|since| ago(*since)),
            tool: self.signs.tool.as_ref().map(|(name, _)| name.clone()),
            tool_since: self.signs.tool.as_ref().map(|(_, since)| ago(*since)),
            requests_in_flight: self.runs.gateway.in_flight(self.run),
            output_bytes: self.gathered.output,
            records: self.gathered.records.iter().cloned().collect(),
            samples: self.gathered.samples.iter().cloned().collect(),
            log: self.log.last_lines(),
            processes: match pid {
                Some(pid) => world.blocking(move || family::of(pid, PROCESSES)).await.unwrap_or_default(),
                None => Vec::new(),
            },
        };
        let (root, run) = (self.runs.root.clone(), self.run);
        let kept = world.blocking(move || root::put_black_box(&root, run, &black_box)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(error = %chain(&error), "what was known of a run that is killed can't be kept");
        }
        failpoint::reach("run.black_box");
    }
}
