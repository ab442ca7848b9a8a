//! The black box of a run: what was known of it when it was ended against its will. It lies in the run's own folder, is bounded,
//! and goes with the run.

use std::{collections::VecDeque, time::Duration};

use ipc_handlers::{Time, wire};
use tokio::{task::spawn_blocking, time::Instant};

use super::Watched;
use crate::{
    domain::host::errors::chain,
    root::{self, BlackBox, HeardRecord, Sample},
    system::{clock, family},
};

/// How many processes are named.
const PROCESSES: usize = 32;
/// How many records are kept, and how much of each, characters.
const RECORDS: usize = 8;
const RECORD_CHARS: usize = 300;
/// How often a run's use of the machine is looked at, ms, and how many of these looks are kept: ten minutes.
const SAMPLE_EVERY_MS: u128 = 15_000;
const SAMPLES: usize = 40;

/// How long the engine may take to say which process is the run's.
const ASKING: Duration = Duration::from_secs(1);

/// What is gathered while a run is well.
#[derive(Default)]
pub(super) struct Gathered {
    /// The process that the engine started.
    pid: Option<u32>,
    asked: bool,
    samples: VecDeque<Sample>,
    sampled: Option<Instant>,
    records: VecDeque<HeardRecord>,
}

impl Gathered {
    /// Notes a record.
    pub(super) fn heard(&mut self, n: u64, record: &wire::Record) {
        if self.records.len() == RECORDS {
            self.records.pop_front();
        }
        let text = record.error.as_deref().or(record.result.as_deref()).unwrap_or_default();
        self.records.push_back(HeardRecord {
            n,
            at: clock::now(),
            kind: format!("{:?}", record.kind).to_lowercase(),
            text: text.chars().take(RECORD_CHARS).collect(),
        });
    }
}

impl Watched {
    /// Looks at the run's use of the machine, where it is time for that.
    pub(super) async fn sample(&mut self, container: &str) {
        if self.gathered.sampled.is_some_and(|at| at.elapsed().as_millis() < SAMPLE_EVERY_MS) {
            return;
        }
        self.gathered.sampled = Some(Instant::now());
        if !std::mem::replace(&mut self.gathered.asked, true) {
            let asked = tokio::time::timeout(ASKING, self.runs.sandbox.pid(container)).await;
            self.gathered.pid = asked.ok().flatten();
        }
        let Some(pid) = self.gathered.pid else { return };
        let Ok(family) = spawn_blocking(move || family::of(pid, PROCESSES)).await else { return };
        if family.is_empty() {
            return;
        }
        if self.gathered.samples.len() == SAMPLES {
            self.gathered.samples.pop_front();
        }
        self.gathered.samples.push_back(Sample {
            at: clock::now(),
            processes: family.len(),
            cpu_ms: family.iter().map(|one| one.cpu_ms).sum(),
            memory_kib: family.iter().map(|one| one.memory_kib).sum(),
        });
    }

    /// Writes the black box, just before the run is ended. That it can't be written is logged, and nothing depends on it.
    pub(super) async fn keep_black_box(&mut self, container: &str, reason: &str) {
        self.gathered.sampled = None;
        self.sample(container).await;
        let ago = |since: Instant| -> Time {
            clock::now().plus_ms(-i64::try_from(since.elapsed().as_millis()).unwrap_or(0))
        };
        let pid = self.gathered.pid;
        let black_box = BlackBox {
            at: clock::now(),
            reason: reason.to_owned(),
            last_sign: ago(self.last_sign),
            last_record: ago(self.last_record),
            in_hand_since: self.in_hand.values().flatten().min().map(|since| ago(*since)),
            tool: self.tool.as_ref().map(|(name, _)| name.clone()),
            tool_since: self.tool.as_ref().map(|(_, since)| ago(*since)),
            requests_in_flight: self.runs.gateway.in_flight(self.run),
            records: self.gathered.records.iter().cloned().collect(),
            samples: self.gathered.samples.iter().cloned().collect(),
            log: self.log.last_lines(),
            processes: match pid {
                Some(pid) => spawn_blocking(move || family::of(pid, PROCESSES)).await.unwrap_or_default(),
                None => Vec::new(),
            },
        };
        let (root, run) = (self.runs.root.clone(), self.run);
        let kept = spawn_blocking(move || root::put_black_box(&root, run, &black_box)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(error = %chain(&error), "what was known of a run that is killed can't be kept");
        }
    }
}
