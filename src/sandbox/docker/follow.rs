//! The output of a container, from the first byte to the last, whatever happens to the connection.
//!
//! The engine's log is the source, in a first life and at adoption alike. It is followed while the container runs,
//! and read once more when it has ended: only a log read after the end is known to be whole. What was handed on
//! before is skipped by count, for the log always yields the same pieces in the same order.

use std::{sync::Arc, time::Duration};

use bollard::{container::LogOutput, errors::Error, query_parameters::LogsOptionsBuilder};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::{sleep, timeout};

use super::{
    Shared,
    engine::ANSWER,
    inspect::Stage,
    spec::{LOG_OVERHEAD, log_allowance},
};
use crate::sandbox::{Chunk, SandboxError};

/// After this long without output we ask whether the engine and the container are still there.
const QUIET: Duration = Duration::from_secs(60);
/// Between two attempts on an engine that fails.
const PAUSE: Duration = Duration::from_millis(500);
/// This many failures in a row end the stream with the error.
const FAILURES: u32 = 60;

type Item = Result<Chunk, SandboxError>;

/// The state of one output stream.
struct Follow {
    shared: Arc<Shared>,
    id: String,
    step: Step,
    meter: Meter,
    /// Whether a growing log was opened before.
    opened: bool,
    failures: u32,
}

enum Step {
    /// Ask what the container is doing, then read.
    Look,
    Reading {
        logs: BoxStream<'static, Result<LogOutput, Error>>,
        /// Bytes that were handed on before, still to be skipped.
        skip: u64,
        log: Log,
    },
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    /// The container had ended before it was opened.
    Whole,
    Growing,
}

/// Counts what was handed on.
#[derive(Debug, Default)]
struct Meter {
    limit: u64,
    bytes: u64,
    /// What the log holds of it at most.
    stored: u64,
}

/// Returns the output of container `id`.
pub(super) fn output(shared: Arc<Shared>, id: String) -> BoxStream<'static, Item> {
    let follow = Follow { shared, id, step: Step::Look, meter: Meter::default(), opened: false, failures: 0 };
    stream::unfold(follow, async |mut follow| {
        let item = follow.next().await?;
        Some((item, follow))
    })
    .boxed()
}

impl Follow {
    async fn next(&mut self) -> Option<Item> {
        loop {
            let read = match &mut self.step {
                Step::Done => return None,
                Step::Look => {
                    if let Err(error) = self.look().await {
                        self.step = Step::Done;
                        return Some(Err(error));
                    }
                    continue;
                }
                Step::Reading { logs, .. } => timeout(QUIET, logs.next()).await,
            };
            match read {
                Ok(Some(Ok(piece))) => {
                    if let Some(item) = self.take(piece) {
                        return Some(item);
                    }
                }
                Ok(None) if matches!(self.step, Step::Reading { log: Log::Whole, .. }) => {
                    self.step = Step::Done
                }
                Ok(None) => self.step = Step::Look,
                Ok(Some(Err(error))) => {
                    let doing = format!("reading the output of container {}", self.id);
                    if let Err(error) = self.failed(self.shared.engine.fault(&doing, &error).error).await {
                        self.step = Step::Done;
                        return Some(Err(error));
                    }
                }
                Err(_) => self.check().await,
            }
        }
    }

    /// Opens the log, once there is one.
    async fn look(&mut self) -> Result<(), SandboxError> {
        let shared = Arc::clone(&self.shared);
        let look = match shared.look_started(&self.id).await {
            Ok(look) => look,
            Err(error) => return self.failed(error).await,
        };
        let log = match look.stage {
            Stage::Ended(_) => Log::Whole,
            Stage::Created | Stage::Running => Log::Growing,
        };
        if log == Log::Growing && std::mem::replace(&mut self.opened, true) {
            // A stream that ended although the container runs; don't spin.
            sleep(PAUSE).await;
        }
        self.meter.limit = look.output_bytes;
        let options = LogsOptionsBuilder::default().stdout(true).stderr(true).follow(log == Log::Growing);
        let logs = match shared.engine.patient(ANSWER).await {
            Ok(client) => client.logs(&self.id, Some(options.build())).boxed(),
            Err(error) => return self.failed(error).await,
        };
        self.step = Step::Reading { logs, skip: self.meter.bytes, log };
        Ok(())
    }

    /// Hands on the new part of a piece.
    fn take(&mut self, piece: LogOutput) -> Option<Item> {
        let Step::Reading { skip, .. } = &mut self.step else { return None };
        let (chunk, bytes): (fn(Vec<u8>) -> Chunk, _) = match piece {
            LogOutput::StdOut { message } => (Chunk::Stdout, message),
            LogOutput::StdErr { message } => (Chunk::Stderr, message),
            LogOutput::StdIn { .. } => return None,
            // The engine's own words in the middle of the log: it can't read on.
            LogOutput::Console { message } => {
                self.step = Step::Done;
                let doing = format!("reading the output of container {}", self.id);
                let why = String::from_utf8_lossy(&message).trim_matches(|c: char| c.is_control()).to_owned();
                return Some(Err(SandboxError::Engine { doing, why }));
            }
        };
        let old = usize::try_from(*skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
        *skip -= old as u64;
        if old == bytes.len() {
            return None;
        }
        self.failures = 0;
        let new = bytes[old..].to_vec();
        Some(match self.meter.add(new.len()) {
            Ok(()) => Ok(chunk(new)),
            Err(flooded) => {
                self.step = Step::Done;
                Err(flooded)
            }
        })
    }

    /// Looks whether a quiet log may be trusted; if not, it is opened again.
    async fn check(&mut self) {
        match self.shared.look(&self.id).await {
            Ok(look) if matches!(look.stage, Stage::Running) => {}
            Ok(_) | Err(_) => self.step = Step::Look,
        }
    }

    /// Counts a failure, and gives it back when it is one too many or can't be mended by waiting.
    async fn failed(&mut self, error: SandboxError) -> Result<(), SandboxError> {
        // An engine that is away says nothing about its containers: it is waited for.
        if !matches!(error, SandboxError::Unreachable { .. }) {
            self.failures += 1;
        }
        if matches!(error, SandboxError::Gone { .. }) || self.failures >= FAILURES {
            return Err(error);
        }
        self.step = Step::Look;
        sleep(PAUSE).await;
        Ok(())
    }
}

impl Meter {
    fn add(&mut self, bytes: usize) -> Result<(), SandboxError> {
        self.bytes += bytes as u64;
        self.stored += bytes as u64 + LOG_OVERHEAD;
        if self.bytes > self.limit || self.stored > log_allowance(self.limit) {
            return Err(SandboxError::Flooded { bytes: self.bytes });
        }
        Ok(())
    }
}
