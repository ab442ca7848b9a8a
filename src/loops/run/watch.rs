//! Reads, judges and obeys until the container is dead.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use tokio::{sync::mpsc, time::Instant};

use super::{ASK_AGAIN, Halt, Order, Watched, Watching};
use crate::{
    domain::{
        host::errors::chain,
        runs::{
            judge::{self, Cause, End},
            lanes::Load,
            stop::StopWhen,
        },
    },
    loops::starts::What,
    sandbox::{
        Chunk, Exit, SandboxError,
        output::{Parsed, Parser},
    },
    store::batch_name,
};

/// How long nothing may come after the container's end, or after what came last, while the output has no end.
const LAST_OUTPUT: Duration = Duration::from_secs(10);
/// What an adopted run had said is taken in when no more came for so long; or so long after nothing came, or much.
const QUIET: Duration = Duration::from_millis(50);
const NOT_QUIET: Duration = Duration::from_secs(10);
/// A `process` child has this long to finish when the daemon stops, then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Waits for an instant; without one, for ever.
async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits for a turn that is waited for; otherwise for ever.
async fn its_turn<T>(waits: &mut Option<std::pin::Pin<Box<impl Future<Output = Option<T>>>>>) -> Option<T> {
    match waits {
        Some(turn) => turn.await,
        None => std::future::pending().await,
    }
}

/// A record as long as this is read on a thread that may take its time, bytes.
const LONG: usize = 64 << 10;

/// Reads records out of a piece of output.
fn read(parser: &mut Parser, bytes: &[u8], heard: &mut VecDeque<Parsed>) {
    if parser.holds() < LONG {
        parser.push(bytes, heard);
    } else {
        // What else this thread was to do goes on beside it.
        tokio::task::block_in_place(|| parser.push(bytes, heard));
    }
}

async fn next_of(output: &mut Option<BoxStream<'static, Output>>) -> Option<Output> {
    match output {
        Some(output) => output.next().await,
        None => None,
    }
}

type Output = Result<Chunk, SandboxError>;

impl Watched {
    /// Reads records, judges health and carries out orders until the container is dead.
    pub(super) async fn watch(
        &mut self,
        container: &str,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Watching {
        let runs = Arc::clone(&self.runs);
        let mut output = runs.sandbox.output(container);
        let mut parser = Parser::new();
        let mut wait = runs.sandbox.wait(container);
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut verdict: Option<Cause> = None;
        let mut output_open = true;
        let mut exit: Option<Result<Exit, SandboxError>> = None;
        let mut dead_since: Option<Instant> = None;
        let mut stopping: Option<Instant> = None;
        // Until it is its turn, nothing that an adopted run has said is read.
        let is_left = runs.starts.is_left(&self.group, What::Output);
        let mut waits = is_left.then(|| Box::pin(runs.starts.turn()));
        let (mut until, mut taken_in) = (Instant::now(), None);
        let mut last_came = Instant::now();
        let (mut has_waited, mut beside) = (false, None);
        loop {
            tokio::select! {
                got = its_turn(&mut waits), if waits.is_some() => {
                    waits = None;
                    self.turn = got;
                    until = Instant::now() + NOT_QUIET;
                    taken_in = Some(until);
                    last_came = Instant::now();
                }
                chunk = output.next(), if output_open && self.heard.is_empty() && waits.is_none() => match chunk {
                    Some(Ok(Chunk::Stdout(bytes))) => {
                        let bytes = self.new_of(&bytes);
                        self.log.append(bytes);
                        self.gathered.read(bytes.len());
                        if taken_in.is_some() && parser.holds() + bytes.len() >= LONG {
                            runs.starts.taking(&self.group, What::Output);
                        }
                        read(&mut parser, bytes, &mut self.heard);
                        taken_in = taken_in.map(|_| until.min(Instant::now() + QUIET));
                        // What is there already is read to its end, however slowly.
                        last_came = Instant::now();
                    }
                    Some(Ok(Chunk::Stderr(bytes))) => {
                        let bytes = self.new_of(&bytes);
                        self.log.append(bytes);
                        self.gathered.read(bytes.len());
                        last_came = Instant::now();
                    }
                    Some(Err(SandboxError::Flooded { bytes })) => {
                        tracing::warn!(bytes, "the output is over its limit");
                        let cause = Cause::Flooded { limit_bytes: runs.config.now().sandbox.output_bytes };
                        self.condemn(container, &mut verdict, cause).await;
                        output_open = false;
                    }
                    Some(Err(error)) => {
                        tracing::warn!(error = %chain(&error), "reading output failed");
                        if dead_since.is_none() {
                            let reason = format!("could not be read from: {}", chain(&error));
                            self.condemn(container, &mut verdict, Cause::Unwell { reason }).await;
                        }
                        output_open = false;
                    }
                    None => output_open = false,
                },
                exited = &mut wait, if exit.is_none() => match exited {
                    Err(error) if !matches!(error, SandboxError::Gone { .. }) => {
                        // An engine that does not answer says nothing about the container.
                        tracing::warn!(error = %chain(&error), "the engine can't tell how a container is; it is asked again");
                        wait = Box::pin(async {
                            tokio::time::sleep(ASK_AGAIN).await;
                            runs.sandbox.wait(container).await
                        });
                    }
                    exited => {
                        exit = Some(exited);
                        dead_since = Some(Instant::now());
                    }
                },
                () = passed(taken_in) => {
                    taken_in = None;
                    runs.starts.taken(&self.group, What::Output);
                    self.turn = None;
                }
                Some(order) = orders.recv() => self.obey(order).await,
                () = tokio::time::sleep_until(self.heard_again), if !self.heard.is_empty() => {}
                // What waits is not read, so its limit is watched from beside it.
                item = next_of(&mut beside), if !self.heard.is_empty() && beside.is_some() => match item {
                    Some(Ok(_)) => {}
                    Some(Err(SandboxError::Flooded { bytes })) => {
                        tracing::warn!(bytes, "the output is over its limit");
                        let cause = Cause::Flooded { limit_bytes: runs.config.now().sandbox.output_bytes };
                        self.condemn(container, &mut verdict, cause).await;
                        beside = None;
                    }
                    Some(Err(_)) => (has_waited, beside) = (false, None),
                    None => beside = None,
                },
                () = runs.stop.cancelled(), if stopping.is_none() => {
                    if runs.sandbox.survives_us() {
                        return Watching::LetGo;
                    }
                    stopping = Some(Instant::now());
                    self.ask_close("the daemon stops").await;
                }
                _ = tick.tick() => {
                    self.count_noise();
                    if stopping.is_some_and(|since| since.elapsed() >= STOP_GRACE) {
                        verdict.get_or_insert(Cause::OwnerGone);
                        self.kill(container).await;
                        stopping = Some(Instant::now());
                    }
                    if dead_since.is_none() && verdict.is_none() && let Some(cause) = self.look_after(container).await {
                        verdict = Some(cause);
                    }
                    if dead_since.is_none() && verdict.is_none() && let Some(refused) = runs.gateway.refused_for_good(self.run) {
                        tracing::info!(why = refused.why, "ending a run that can't ask its model");
                        verdict = Some(Cause::Refused(refused));
                        self.kill(container).await;
                    }
                }
            }
            if verdict.is_none()
                && dead_since.is_none()
                && let Some(stopped) = self.stopped_now()
            {
                verdict = Some(stopped);
                self.keep_black_box(container, "a person wants it stopped now").await;
                self.kill(container).await;
            }
            if verdict.is_some() {
                // After a verdict nothing more of it counts: it is read to its end, and that is all.
                self.heard.clear();
            } else if !self.heard.is_empty() && Instant::now() >= self.heard_again {
                // What was handed over before is known before a record names it.
                while let Ok(order) = orders.try_recv() {
                    self.obey(order).await;
                }
                match self.apply().await {
                    Ok(()) => {}
                    Err(Halt::Unwell(cause)) => {
                        self.heard.clear();
                        self.condemn(container, &mut verdict, cause).await;
                    }
                    Err(Halt::LetGo) => return Watching::LetGo,
                }
                if !self.heard.is_empty() && !std::mem::replace(&mut has_waited, true) {
                    beside = Some(runs.sandbox.output(container));
                }
                last_came = Instant::now();
            }
            if verdict.is_none() && self.heard.is_empty() && parser.is_between() {
                self.log.note_taken_in(self.seen);
            }
            if let Some(since) = dead_since
                && self.heard.is_empty()
                && waits.is_none()
                && (!output_open || since.max(last_came).elapsed() >= LAST_OUTPUT)
            {
                break;
            }
        }
        self.count_last_noise();
        let end = match exit {
            Some(Ok(exit)) => End::Exited { code: exit.code, oom: exit.oom },
            Some(Err(SandboxError::Gone { .. })) | None => End::Gone,
            Some(Err(error)) => End::Engine { doing: "waiting for the container".into(), why: chain(&error) },
        };
        let asked = match (runs.gateway.refused(self.run), self.leaving.asked()) {
            _ if runs.gateway.was_out_of_budget(self.run) => Cause::OutOfBudget,
            (Some(refused), _) => Cause::Refused(refused),
            (None, Some(_)) => Cause::Closed,
            (None, None) => Cause::Itself,
        };
        Watching::Ended((end, verdict.unwrap_or(asked)))
    }

    /// Returns what of a piece of output no earlier daemon has taken in.
    fn new_of<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let old = usize::try_from(self.passed_over).map_or(bytes.len(), |old| old.min(bytes.len()));
        self.passed_over -= old as u64;
        &bytes[old..]
    }

    /// A person wants it ended: in order, or now.
    pub(super) async fn is_stopped(&mut self) {
        match self.runs.store.stop_of(self.run) {
            Ok(Some(stop)) => {
                self.ask_close(&format!("{} wants it stopped", stop.by)).await;
                self.stop = Some(stop);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = %chain(&error), "reading who stops a run failed"),
        }
    }

    /// Why it is killed at once, where a person wants it so.
    fn stopped_now(&self) -> Option<Cause> {
        let stop = self.stop.as_ref().filter(|stop| stop.when == StopWhen::Now)?;
        Some(Cause::Cancelled { by: stop.by.clone(), then: stop.then })
    }

    /// Kills it for what is wrong with it, and keeps what is known of it then. The first verdict stands.
    async fn condemn(&mut self, container: &str, verdict: &mut Option<Cause>, cause: Cause) {
        if verdict.is_none() {
            let reason = judge::seen_wrong(&cause).unwrap_or_default();
            self.keep_black_box(container, &reason).await;
            *verdict = Some(cause);
        }
        self.kill(container).await;
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Stop => self.is_stopped().await,
            Order::Close => self.ask_close("asked to leave").await,
            Order::Handed(batch) => {
                self.reached = self.reached.with(Load::Busy);
                self.in_hand.insert(batch_name(batch), None);
            }
            Order::TakenBack(batch) => {
                self.in_hand.remove(&batch_name(batch));
                let active = self.runs.store.active_run(self.run).ok().flatten();
                let is_idle = active.is_some_and(|active| active.life.is_idle());
                self.reached = self.reached.with(if is_idle { Load::Idle } else { Load::Busy });
            }
        }
    }

    pub(super) fn never_ready(&self) -> Cause {
        let limit_ms = i64::try_from(self.ready_limit.as_millis()).unwrap_or(i64::MAX);
        Cause::NeverReady { limit_ms, seen: self.evidence().in_words() }
    }
}
