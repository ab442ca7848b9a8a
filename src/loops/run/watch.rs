//! Reads, judges and obeys until the container is dead: one piece of news after the other, as the life of the run stands.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{ASK_AGAIN, Halt, Order, Runs, Watched, Watching};
use crate::{
    domain::{
        runs::{
            judge::{self, Cause, End},
            lanes::Load,
            stop::StopWhen,
        },
        shown::errors::chain,
    },
    engine::passed,
    loops::starts::What,
    sandbox::{Chunk, Exit, SandboxError, output::Parser},
    store::batch_name,
};

/// How long nothing may come after the container's end, or after what came last, while the output has no end.
const LAST_OUTPUT: Duration = Duration::from_secs(10);
/// What an adopted run had said is taken in when no more came for so long; or so long after nothing came, or much.
const QUIET: Duration = Duration::from_millis(50);
const NOT_QUIET: Duration = Duration::from_secs(10);
/// A `process` child has this long to finish when the daemon stops, then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long a container that is to end may take to, before it is killed, and between two kills.
const KILL_AGAIN: Duration = Duration::from_secs(15);
/// How often it is looked after.
const TICK: Duration = Duration::from_millis(500);

/// A record as long as this is read on a thread that may take its time, bytes.
const LONG: usize = 64 << 10;

type Output = Result<Chunk, SandboxError>;
type Exited = Result<Exit, SandboxError>;

/// How a run's life stands.
enum Life {
    Lives,
    /// Its container is dead since then.
    Dead(Instant, Exited),
}

impl Life {
    /// Since when its container is dead.
    fn dead_since(&self) -> Option<Instant> {
        match self {
            Self::Dead(since, _) => Some(*since),
            Self::Lives => None,
        }
    }
}

/// How far it is taken in what an adopted run had said before.
enum Taking {
    /// Until it is its turn, nothing of it is read.
    Waits(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    /// It is read, until then at the latest, and is taken in when it is quiet until `quiet`.
    Reads { until: Instant, quiet: Instant },
    /// All of it is taken in, or there was none.
    Done,
}

/// Its output, heard from beside while something of it waits: its limit is watched by that.
enum Beside {
    NotYet,
    Listens(BoxStream<'static, Output>),
    Over,
}

/// How its output is heard.
struct Ear {
    output: BoxStream<'static, Output>,
    is_open: bool,
    parser: Parser,
    taking: Taking,
    beside: Beside,
    last_came: Instant,
}

/// Everything that a supervisor is told by.
struct Senses {
    ear: Ear,
    life: Life,
    /// The daemon stops, and the run ends with it: since then.
    stopping: Option<Instant>,
    /// It is judged, and its container is to end: since then, or since it was killed last.
    judged: Option<Instant>,
    exit: BoxFuture<'static, Exited>,
    tick: tokio::time::Interval,
}

/// One piece of news of a run.
enum News {
    /// It is its turn to have read what it said before.
    Turn(Option<OwnedSemaphorePermit>),
    Output(Option<Output>),
    Exited(Exited),
    /// What it said before has become quiet.
    TakenIn,
    Order(Order),
    /// Waiting records may be applied now.
    Again,
    /// From beside what waits.
    Beside(Option<Output>),
    /// The daemon stops.
    Stops,
    Tick,
}

impl Taking {
    /// Waits for its turn, where it waits for that.
    async fn turn(&mut self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Waits(turn) => turn.await,
            Self::Reads { .. } | Self::Done => std::future::pending().await,
        }
    }

    fn quiet(&self) -> Option<Instant> {
        match self {
            Self::Reads { quiet, .. } => Some(*quiet),
            Self::Waits(_) | Self::Done => None,
        }
    }

    fn waits(&self) -> bool {
        matches!(self, Self::Waits(_))
    }
}

impl Beside {
    async fn next(&mut self) -> Option<Output> {
        match self {
            Self::Listens(output) => output.next().await,
            Self::NotYet | Self::Over => std::future::pending().await,
        }
    }
}

impl Senses {
    fn new(runs: &Arc<Runs>, container: &str, is_left: bool) -> Self {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let taking = match is_left {
            true => {
                let starts = Arc::clone(&runs.starts);
                Taking::Waits(Box::pin(async move { starts.turn().await }))
            }
            false => Taking::Done,
        };
        let ear = Ear {
            output: runs.sandbox.output(container),
            is_open: true,
            parser: Parser::new(),
            taking,
            beside: Beside::NotYet,
            last_came: runs.machine.world.monotonic(),
        };
        Self {
            ear,
            life: Life::Lives,
            stopping: None,
            judged: None,
            exit: exit_of(runs, container, Duration::ZERO),
            tick,
        }
    }

    /// Waits for the next piece of news. `waits`: until when something that was heard waits, if anything does.
    async fn next(
        &mut self,
        runs: &Runs,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        waits: Option<Instant>,
    ) -> News {
        let Self { ear: Ear { output, is_open, taking, beside, .. }, life, stopping, exit, tick, .. } = self;
        let quiet = taking.quiet();
        let hears = *is_open && waits.is_none() && !taking.waits();
        tokio::select! {
            turn = taking.turn() => News::Turn(turn),
            item = output.next(), if hears => News::Output(item),
            exited = exit, if life.dead_since().is_none() => News::Exited(exited),
            () = passed(quiet) => News::TakenIn,
            Some(order) = orders.recv() => News::Order(order),
            () = passed(waits) => News::Again,
            item = beside.next(), if waits.is_some() => News::Beside(item),
            () = runs.stop.cancelled(), if stopping.is_none() => News::Stops,
            _ = tick.tick() => News::Tick,
        }
    }

    /// Whether its container is dead and nothing more is to come of it.
    fn is_over(&self, now: Instant) -> bool {
        self.life.dead_since().is_some_and(|since| {
            let is_quiet = || now.duration_since(since.max(self.ear.last_came)) >= LAST_OUTPUT;
            !self.ear.taking.waits() && (!self.ear.is_open || is_quiet())
        })
    }
}

/// Waits for the end of a container, after a rest.
fn exit_of(runs: &Arc<Runs>, container: &str, rest: Duration) -> BoxFuture<'static, Exited> {
    let (runs, container) = (Arc::clone(runs), container.to_owned());
    Box::pin(async move {
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
        runs.sandbox.wait(&container).await
    })
}

impl Watched {
    /// Reads records, judges health and carries out orders until the container is dead.
    pub(super) async fn watch(
        &mut self,
        container: &str,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Watching {
        let runs = Arc::clone(&self.runs);
        let mut senses = Senses::new(&runs, container, runs.starts.is_left(&self.group, What::Output));
        let mut verdict: Option<Cause> = None;
        loop {
            let waits = (!self.said.heard.is_empty()).then_some(self.said.heard_again);
            match senses.next(&runs, orders, waits).await {
                News::Stops if runs.sandbox.survives_us() => return Watching::LetGo,
                News::Stops => {
                    senses.stopping = Some(runs.machine.world.monotonic());
                    self.ask_close("the daemon stops").await;
                }
                News::Order(order) => self.obey(order).await,
                News::Tick => self.tick(container, &mut senses, &mut verdict).await,
                News::Exited(exited) => self.has_exited(container, &mut senses, exited),
                news => self.hears(container, &mut senses, &mut verdict, news).await,
            }
            if verdict.is_none()
                && senses.life.dead_since().is_none()
                && let Some(stopped) = self.stopped_now()
            {
                verdict = Some(stopped);
                self.keep_black_box(container, "a person wants it stopped now").await;
                self.kill(container).await;
            }
            if verdict.is_some() {
                // After a verdict nothing more of it counts: it is read to its end, and that is all.
                self.said.heard.clear();
            } else if !self.said.heard.is_empty()
                && runs.machine.world.monotonic() >= self.said.heard_again
                && let Some(let_go) = self.take_in(container, &mut senses, &mut verdict, orders).await
            {
                return let_go;
            }
            if verdict.is_none() && self.said.heard.is_empty() && senses.ear.parser.is_between() {
                self.log.note_taken_in(self.said.seen);
            }
            if self.said.heard.is_empty() && senses.is_over(runs.machine.world.monotonic()) {
                break;
            }
        }
        self.count_last_noise();
        self.watched_to_its_end(senses.life, verdict)
    }

    /// Says why a run is over.
    fn watched_to_its_end(&mut self, life: Life, verdict: Option<Cause>) -> Watching {
        let runs = Arc::clone(&self.runs);
        let end = match life {
            Life::Dead(_, Ok(exit)) => End::Exited { code: exit.code, oom: exit.oom },
            Life::Dead(_, Err(SandboxError::Gone { .. })) | Life::Lives => End::Gone,
            Life::Dead(_, Err(error)) => {
                End::Engine { doing: "waiting for the container".into(), why: chain(&error) }
            }
        };
        let asked = match (runs.gateway.refused(self.run), self.leaving.asked()) {
            _ if runs.gateway.was_out_of_budget(self.run) => Cause::OutOfBudget,
            (Some(refused), _) => Cause::Refused(refused),
            (None, Some(_)) => Cause::Closed,
            (None, None) => Cause::Itself,
        };
        Watching::Ended((end, verdict.unwrap_or(asked)))
    }

    /// Something comes of its output, or may be taken in now.
    async fn hears(&mut self, container: &str, senses: &mut Senses, verdict: &mut Option<Cause>, news: News) {
        let (is_dead, ear) = (senses.life.dead_since().is_some(), &mut senses.ear);
        match news {
            News::Turn(turn) => {
                self.said.turn = turn;
                let now = self.runs.machine.world.monotonic();
                let until = now + NOT_QUIET;
                ear.taking = Taking::Reads { until, quiet: until };
                ear.last_came = now;
            }
            News::TakenIn => {
                ear.taking = Taking::Done;
                self.runs.starts.taken(&self.group, What::Output);
                self.said.turn = None;
            }
            News::Output(Some(Ok(chunk))) => self.reads(ear, &chunk),
            News::Output(Some(Err(error))) => {
                ear.is_open = false;
                match error {
                    SandboxError::Flooded { bytes } => self.floods(container, verdict, bytes).await,
                    error => {
                        tracing::warn!(error = %chain(&error), "reading output failed");
                        if !is_dead {
                            let reason = format!("could not be read from: {}", chain(&error));
                            self.condemn(container, verdict, Cause::Unwell { reason }).await;
                        }
                    }
                }
            }
            News::Output(None) => ear.is_open = false,
            News::Beside(Some(Ok(_))) => {}
            News::Beside(Some(Err(SandboxError::Flooded { bytes }))) => {
                ear.beside = Beside::Over;
                self.floods(container, verdict, bytes).await;
            }
            News::Beside(Some(Err(_))) => ear.beside = Beside::NotYet,
            News::Beside(None) => ear.beside = Beside::Over,
            // Waiting records are looked at after each piece of news.
            News::Again | News::Order(_) | News::Stops | News::Tick | News::Exited(_) => {}
        }
    }

    /// Reads a piece of output.
    fn reads(&mut self, ear: &mut Ear, chunk: &Chunk) {
        let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
        let bytes = self.new_of(bytes);
        self.log.append(bytes);
        self.gathered.read(bytes.len());
        if let Chunk::Stdout(_) = chunk {
            let is_long = ear.parser.holds() + bytes.len() >= LONG;
            if let Taking::Reads { until, quiet } = &mut ear.taking {
                if is_long {
                    self.runs.starts.taking(&self.group, What::Output);
                }
                *quiet = (*until).min(self.runs.machine.world.monotonic() + QUIET);
            }
            if ear.parser.holds() < LONG || !self.runs.machine.world.has_threads() {
                ear.parser.push(bytes, &mut self.said.heard);
            } else {
                // What else this thread was to do goes on beside it.
                tokio::task::block_in_place(|| ear.parser.push(bytes, &mut self.said.heard));
            }
        }
        // Output that is there already is read to its end, however slowly.
        ear.last_came = self.runs.machine.world.monotonic();
    }

    async fn floods(&mut self, container: &str, verdict: &mut Option<Cause>, bytes: u64) {
        tracing::warn!(bytes, "the output is over its limit");
        let cause = Cause::Flooded { limit_bytes: self.runs.config.now().sandbox.output_bytes };
        self.condemn(container, verdict, cause).await;
    }

    fn has_exited(&mut self, container: &str, senses: &mut Senses, exited: Exited) {
        match exited {
            Err(error) if !matches!(error, SandboxError::Gone { .. }) => {
                // An engine that does not answer says nothing about the container.
                tracing::warn!(error = %chain(&error), "the engine can't tell how a container is; it is asked again");
                senses.exit = exit_of(&self.runs, container, ASK_AGAIN);
            }
            exited => senses.life = Life::Dead(self.runs.machine.world.monotonic(), exited),
        }
    }

    /// Looks after a run that has not ended.
    async fn tick(&mut self, container: &str, senses: &mut Senses, verdict: &mut Option<Cause>) {
        self.count_noise();
        let now = self.runs.machine.world.monotonic();
        if let Some(since) = senses.stopping.filter(|since| now.duration_since(*since) >= STOP_GRACE) {
            // Records that may not be applied yet go, too.
            verdict.get_or_insert(Cause::OwnerGone);
            senses.stopping = Some(since + STOP_GRACE);
            self.kill(container).await;
        }
        if senses.life.dead_since().is_some() {
            return;
        }
        if verdict.is_none() {
            *verdict = self.look_after(container).await;
        } else if now.duration_since(*senses.judged.get_or_insert(now)) >= KILL_AGAIN {
            // The engine may have been away.
            senses.judged = Some(now);
            self.kill(container).await;
        }
        if verdict.is_none()
            && let Some(refused) = self.runs.gateway.refused_for_good(self.run)
        {
            tracing::info!(why = refused.why, "ending a run that can't ask its model");
            *verdict = Some(Cause::Refused(refused));
            self.kill(container).await;
        }
    }

    /// Applies what was heard and may be applied. Returns that the run is let go of, where the daemon stops.
    async fn take_in(
        &mut self,
        container: &str,
        senses: &mut Senses,
        verdict: &mut Option<Cause>,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Option<Watching> {
        // What was handed over before is known before a record names it.
        while let Ok(order) = orders.try_recv() {
            self.obey(order).await;
        }
        match self.apply().await {
            Ok(()) => {}
            Err(Halt::Unwell(cause)) => {
                self.said.heard.clear();
                self.condemn(container, verdict, cause).await;
            }
            Err(Halt::LetGo) => return Some(Watching::LetGo),
        }
        if !self.said.heard.is_empty() && matches!(senses.ear.beside, Beside::NotYet) {
            senses.ear.beside = Beside::Listens(self.runs.sandbox.output(container));
        }
        senses.ear.last_came = self.runs.machine.world.monotonic();
        None
    }

    /// Returns what of a piece of output no earlier daemon has taken in.
    fn new_of<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let old = usize::try_from(self.said.passed_over).map_or(bytes.len(), |old| old.min(bytes.len()));
        self.said.passed_over -= old as u64;
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
                self.signs.in_hand.insert(batch_name(batch), None);
            }
            Order::TakenBack(batch) => {
                self.signs.in_hand.remove(&batch_name(batch));
                // One that can't be read counts as busy, until its next record says more.
                let is_idle = self
                    .runs
                    .store
                    .active_run(self.run)
                    .is_ok_and(|active| active.is_some_and(|active| active.life.is_idle()));
                self.reached = self.reached.with(if is_idle { Load::Idle } else { Load::Busy });
            }
        }
    }

    pub(super) fn never_ready(&self) -> Cause {
        let limit_ms = i64::try_from(self.ready_limit.as_millis()).unwrap_or(i64::MAX);
        Cause::NeverReady { limit_ms, seen: self.evidence().in_words() }
    }
}
