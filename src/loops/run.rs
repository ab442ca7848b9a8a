//! Watches over one run: launches its container or adopts it, applies its records, judges its health, ends it.
//!
//! ```text
//! queued ─ create ─ id on the row ─ start (stdin to its last byte) ─ records … ─ container dead ─ output to its end
//!        ─ both boxes settled ─ input/ claimed back ─ ONE transaction ends the run and judges its batches ─ removed
//! ```
//!
//! Whatever happens in between, `end` is reached. When the daemon stops, a container that outlives it is let go of
//! where it stands: the next daemon adopts it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use ipc_handlers::{Folder, wire};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::Instant,
};

use super::{
    Host,
    ipc::{self, chain},
    snapshots::{self, Shown},
};
use crate::{
    clock,
    domain::{
        health::{self, HealthLimits, Leaving, Readiness, Runner, Verdict, Vitals},
        judge::{Cause, End},
        lanes::Event,
    },
    failpoint,
    ipc::{InputState, Stamp},
    sandbox::{
        Access, Chunk, Exit, Limits, Mount, SandboxError, Seat, Spec,
        output::{Parsed, Parser},
    },
    store::{ActiveRun, Content, EndOfRun, Handed, HandedTask, Recorded, StoreError, batch_name, task_batch},
};

mod log;
use log::RunLog;

/// How often `_close` is asserted again until the container is gone.
const CLOSE_AGAIN: Duration = Duration::from_secs(2);
/// How long output may lag behind the container's end.
const LAST_OUTPUT: Duration = Duration::from_secs(10);
/// An adopted container that may never have got all of its stdin has this long to turn out to be ready.
const ADOPTED_UNREADY: Duration = Duration::from_secs(2);
/// A `process` child has this long to finish when the daemon stops, then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long an engine that is away is left alone before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a killed container may take to be dead.
const DYING: Duration = Duration::from_secs(10);
/// The longest pause between two attempts to write an end down.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Tools that an agent in a chat can't use: they would wait for somebody at a terminal, or keep a schedule of their own.
const BLOCKED_TOOLS: [&str; 8] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "CronCreate",
    "CronDelete",
    "CronList",
];

/// What a supervisor is told.
pub(super) enum Order {
    Close,
    /// A follow-up was put into `input/`.
    Handed(i64),
}

/// How a supervisor begins.
pub(super) enum Beginning {
    Batch(Box<Handed>),
    Task(Box<HandedTask>),
    Adopted(Box<ActiveRun>),
    /// Its supervisor failed: it is only to be ended.
    Abandoned(Box<ActiveRun>),
}

/// What is to be launched.
struct Launching {
    document: wire::Launch,
    is_main: bool,
}

/// Where a run stands while it is watched.
struct Watched {
    host: Arc<Host>,
    group: Folder,
    run: i64,
    is_task: bool,
    container: Option<String>,
    /// The number of the last record that was applied or known.
    seen: u64,
    protocol: Option<u32>,
    /// The image announces no protocol of ours.
    speaks_v1: bool,
    ready: bool,
    idle: bool,
    closing: Option<Instant>,
    close_asserted: Option<Instant>,
    started: Instant,
    last_sign: Instant,
    last_record: Instant,
    last_result: Option<Instant>,
    stopped: Option<Instant>,
    blocked_tool: Option<String>,
    /// What it was handed and has not finished, with when it took it; `None`: it has not been seen to.
    in_hand: BTreeMap<String, Option<Instant>>,
    heartbeat: Option<Stamp>,
    ready_limit: Duration,
    log: RunLog,
}

/// Why a run came to its end: what happened to its container, and what we did to it or saw wrong with it.
pub(super) type Ending = (End, Cause);

/// A restart found no container of it.
pub(super) const STALE: Ending = (End::Gone, Cause::OwnerGone);
/// A restart found that it was never started.
pub(super) const NEVER_STARTED: Ending = (End::NeverCreated, Cause::OwnerGone);

/// Why no more records are applied.
enum Halt {
    Unwell(Cause),
    /// The daemon stops.
    LetGo,
}

/// Why watching ended.
enum Watching {
    Ended(Ending),
    /// The daemon stops and the container lives on.
    LetGo,
}

/// Watches over a run until it has ended, then tells the lanes.
pub(super) async fn supervise(
    host: Arc<Host>,
    group: Folder,
    run: i64,
    beginning: Beginning,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let now = Instant::now();
    let log = RunLog::open(&host.run_dir(run));
    let mut watched = Watched {
        host: Arc::clone(&host),
        group: group.clone(),
        run,
        is_task: match &beginning {
            Beginning::Batch(_) => false,
            Beginning::Task(_) => true,
            Beginning::Adopted(active) | Beginning::Abandoned(active) => active.task().is_some(),
        },
        container: None,
        seen: 0,
        protocol: None,
        speaks_v1: false,
        ready: false,
        idle: false,
        closing: None,
        close_asserted: None,
        started: now,
        last_sign: now,
        last_record: now,
        last_result: None,
        stopped: None,
        blocked_tool: None,
        in_hand: BTreeMap::new(),
        heartbeat: None,
        ready_limit: Duration::from_millis(host.config.startup_ms),
        log,
    };
    let watching = match beginning {
        Beginning::Batch(handed) => watched.launch(of_batch(&host, &handed), &mut orders).await,
        Beginning::Task(handed) => watched.launch(of_task(&host, &handed), &mut orders).await,
        Beginning::Adopted(active) => watched.adopt(*active, &mut orders).await,
        Beginning::Abandoned(active) => {
            watched.container = active.container;
            let reason = "met a fault of the host's own".to_owned();
            Watching::Ended((End::Gone, Cause::Unwell { reason }))
        }
    };
    match watching {
        Watching::LetGo => {}
        Watching::Ended(ending) => {
            if let Some(waiting) = watched.end(ending).await {
                let _ = host.lanes.send(Event::Ended { group, waiting });
            }
        }
    }
}

/// Returns the document that `input/<batch>.json` holds.
pub(super) fn input_of(host: &Host, handed: &Handed) -> Vec<u8> {
    let text = prompt_of(host, &handed.content);
    let input = wire::Input { kind: "message".into(), id: Some(batch_name(handed.batch)), text };
    serde_json::to_vec(&input).unwrap_or_default()
}

fn prompt_of(host: &Host, content: &Content) -> String {
    content.prompt(&host.config.zone.name, &host.config.zone.zone)
}

fn of_batch(host: &Host, handed: &Handed) -> Result<Launching, String> {
    let lane = format!("{} {} {}", handed.group, handed.chat_jid, handed.thread);
    let prompt = prompt_of(host, &handed.content);
    let document = wire::Launch {
        session_id: handed.session_id.clone(),
        batch_id: batch_name(handed.batch),
        lane: lane.trim_end().to_owned(),
        generation: handed.generation,
        ..document(host, &handed.group, handed.run, prompt, &handed.chat_jid, handed.is_main)?
    };
    Ok(Launching { document, is_main: handed.is_main })
}

fn of_task(host: &Host, handed: &HandedTask) -> Result<Launching, String> {
    let task = &handed.task;
    let document = wire::Launch {
        session_id: handed.session_id.clone(),
        batch_id: task_batch(handed.run),
        lane: format!("{} {}", task.group, task.chat_jid),
        generation: handed.generation,
        is_scheduled_task: true,
        script: task.script.clone(),
        ..document(host, &task.group, handed.run, task.prompt.clone(), &task.chat_jid, handed.is_main)?
    };
    Ok(Launching { document, is_main: handed.is_main })
}

fn document(
    host: &Host,
    group: &Folder,
    run: i64,
    prompt: String,
    chat: &str,
    is_main: bool,
) -> Result<wire::Launch, String> {
    let row = host.store.group(group).map_err(|e| chain(&e))?.ok_or("the group was removed")?;
    let path = row.script.map(PathBuf::from).or_else(|| host.config.script.clone());
    let script = match path {
        None => None,
        Some(path) => {
            let path = host.root.join(path);
            Some(
                crate::root::read_script(&path)
                    .map_err(|e| format!("the agent's script {} can't be read: {e}", path.display()))?,
            )
        }
    };
    Ok(wire::Launch {
        prompt,
        session_id: None,
        group_folder: group.to_string(),
        chat_jid: chat.to_owned(),
        is_main,
        is_scheduled_task: false,
        assistant_name: Some(host.config.assistant_name.clone()),
        script: None,
        secrets: BTreeMap::new(),
        protocol: wire::PROTOCOL,
        run_id: run.to_string(),
        lane: String::new(),
        generation: 0,
        batch_id: String::new(),
        blocked_tools: BLOCKED_TOOLS.map(str::to_owned).to_vec(),
        provider: wire::Provider::Scripted { script },
        limits: wire::Limits::default(),
    })
}

impl Watched {
    async fn launch(
        &mut self,
        launching: Result<Launching, String>,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Watching {
        let launching = match launching {
            Ok(launching) => launching,
            Err(why) => {
                return Watching::Ended((
                    End::Engine { doing: "preparing the launch".into(), why },
                    Cause::Itself,
                ));
            }
        };
        self.in_hand.insert(launching.document.batch_id.clone(), None);
        let stdin = serde_json::to_vec(&launching.document).unwrap_or_default();
        self.log.keep_launch(&launching.document);
        match self.create(&launching).await {
            Ok(container) => self.container = Some(container),
            Err(ending) => return Watching::Ended(ending),
        }
        let container = self.container.clone().unwrap_or_default();
        let host = Arc::clone(&self.host);
        self.started = Instant::now();
        self.last_sign = self.started;
        let started = tokio::time::timeout(self.ready_limit, host.sandbox.start(&container, stdin)).await;
        match started {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Watching::Ended(self.not_launched(&error)),
            Err(_) => return Watching::Ended((End::Gone, self.never_ready())),
        }
        failpoint::reach("run.started");
        if let Err(error) = self.host.store.run_started(self.run, clock::now()).await {
            tracing::error!(run = self.run, error = %chain(&error), "recording a start failed");
        }
        if self.speaks_v1 {
            self.ready_without_saying_so().await;
        }
        self.watch(&container, orders).await
    }

    /// A v1 runner says nothing until it has an answer: it counts as ready once it was started.
    async fn ready_without_saying_so(&mut self) {
        self.protocol = Some(1);
        self.is_ready();
        if let Err(error) = self.host.store.run_ready_without_saying_so(self.run, clock::now()).await {
            tracing::error!(run = self.run, error = %chain(&error), "recording readiness failed");
        }
        let _ = self.host.lanes.send(Event::Ready { group: self.group.clone() });
    }

    /// Its agent is up, and has what came with the launch in hand.
    fn is_ready(&mut self) {
        self.ready = true;
        let now = Instant::now();
        self.in_hand.values_mut().for_each(|since| *since = since.or(Some(now)));
    }

    /// Makes the container and writes its id down.
    async fn create(&mut self, launching: &Launching) -> Result<String, Ending> {
        let world = |why: String| (End::NotNow { why }, Cause::Itself);
        let boxes = self.host.boxes(&self.group).map_err(|e| world(chain(&e)))?;
        let emptied = spawn_blocking(move || {
            loop {
                match boxes.empty_before_create() {
                    Ok(crate::ipc::Emptied::All) => return Ok(()),
                    Ok(crate::ipc::Emptied::More) => {}
                    Err(error) => return Err(chain(&error)),
                }
            }
        });
        emptied.await.map_err(|e| world(e.to_string()))?.map_err(world)?;
        snapshots::write(&self.host, &self.group, Shown::All).await;
        let spec = self
            .spec(launching)
            .map_err(|why| (End::Engine { doing: "preparing the launch".into(), why }, Cause::Itself))?;
        let protocol = self.host.sandbox.protocol(&spec.image).await.map_err(|e| self.not_launched(&e))?;
        self.speaks_v1 = protocol < wire::PROTOCOL;
        tracing::debug!(run = self.run, group = %self.group, "asking for a container");
        let container = match self.host.sandbox.create(&spec).await {
            Err(SandboxError::NameTaken { .. }) => {
                self.remove_leftover().await;
                self.host.sandbox.create(&spec).await
            }
            other => other,
        }
        .map_err(|e| self.not_launched(&e))?;
        failpoint::reach("run.created");
        if let Err(error) = self.host.store.run_created(self.run, &container).await {
            let _ = self.host.sandbox.remove(&container).await;
            return Err(world(format!("recording the container failed: {}", chain(&error))));
        }
        failpoint::reach("run.recorded");
        Ok(container)
    }

    /// An engine that is away is nobody's fault, and looked after by another loop; the rest costs a try.
    fn not_launched(&self, error: &SandboxError) -> Ending {
        match error {
            SandboxError::Unreachable { .. } => {
                let _ = self.host.lanes.send(Event::Pause);
                self.host.look_again.notify_one();
                (End::NotNow { why: chain(error) }, Cause::Itself)
            }
            SandboxError::NoImage { image } => (End::NoImage { image: image.clone() }, Cause::Itself),
            SandboxError::NoProgram { .. }
            | SandboxError::NameTaken { .. }
            | SandboxError::Gone { .. }
            | SandboxError::Flooded { .. }
            | SandboxError::Engine { .. } => {
                (End::Engine { doing: "launching".into(), why: chain(error) }, Cause::Itself)
            }
        }
    }

    /// A container of our name that serves no active run is a leftover of ours.
    async fn remove_leftover(&self) {
        let Ok(found) = self.host.sandbox.list(&self.host.instance).await else { return };
        for leftover in found.into_iter().filter(|c| c.group == self.group.as_str() && c.run != self.run) {
            tracing::warn!(
                container = leftover.name,
                run = leftover.run,
                "removing a container that was left over"
            );
            let _ = self.host.sandbox.remove(&leftover.id).await;
        }
    }

    fn spec(&self, launching: &Launching) -> Result<Spec, String> {
        let host = &self.host;
        let row = host.store.group(&self.group).map_err(|e| chain(&e))?.ok_or("the group was removed")?;
        let ipc = host.root.join("data/ipc").join(self.group.as_str());
        let folder = host.root.join("groups").join(self.group.as_str());
        let sessions = host.root.join("data/sessions").join(self.group.as_str()).join(".claude");
        crate::root::make_agent_folders(&[&folder, &sessions], host.box_owner)
            .map_err(|e| format!("making the group's folders failed: {e}"))?;
        let mount =
            |path: PathBuf, inside: &str, access| Mount { host: path, inside: inside.to_owned(), access };
        let mut mounts = vec![
            mount(folder.clone(), "/workspace/group", Access::ReadWrite),
            mount(ipc.clone(), "/workspace/ipc", Access::ReadOnly),
            mount(sessions, "/home/node/.claude", Access::ReadWrite),
        ];
        for name in ["messages", "tasks", "input", "responses", "state"] {
            mounts.push(mount(ipc.join(name), &format!("/workspace/ipc/{name}"), Access::ReadWrite));
        }
        let global = host.root.join("groups/global");
        if global.is_dir() {
            let access = if launching.is_main { Access::ReadWrite } else { Access::ReadOnly };
            mounts.push(mount(global, "/workspace/global", access));
        }
        let config = &host.config;
        Ok(Spec {
            name: format!("g2-{}-{}", &host.instance[..host.instance.len().min(8)], self.group),
            run: self.run,
            group: self.group.clone(),
            instance: host.instance.clone(),
            image: row.image.unwrap_or_else(|| config.image.clone()),
            command: config.command.clone(),
            mounts,
            env: [("TZ".to_owned(), config.zone.name.clone())].into(),
            user: host.box_owner.unwrap_or_else(crate::root::own_ids),
            limits: Limits {
                memory_bytes: config.memory_bytes,
                cpus: config.cpus,
                pids: config.pids,
                output_bytes: config.output_bytes,
            },
            seat: Seat { group: folder, ipc },
        })
    }

    async fn adopt(&mut self, active: ActiveRun, orders: &mut mpsc::UnboundedReceiver<Order>) -> Watching {
        let Some(container) = active.container.clone() else {
            return Watching::Ended(STALE);
        };
        tracing::info!(run = self.run, group = %self.group, container, "adopted a run that outlived its daemon");
        self.container = Some(container.clone());
        self.seen = 0;
        self.protocol = active.protocol;
        self.ready = active.ready;
        self.idle = active.is_idle();
        for (batch, _) in &active.open {
            self.in_hand.insert(batch_name(*batch), None);
        }
        if active.kind != "message" && !active.handled {
            self.in_hand.insert(task_batch(active.id), None);
        }
        // Its start is written down when its stdin is whole: it may take as long as any to become ready.
        if !active.ready && !active.started {
            self.ready_limit = ADOPTED_UNREADY;
        }
        if active.closing {
            self.closing = Some(Instant::now());
        }
        if active.ready && self.protocol.unwrap_or(1) >= 2 {
            self.publish_again(&active).await;
        }
        self.watch(&container, orders).await
    }

    /// Follow-ups that were handed over before the crash are published again; the runner ignores ids it has taken.
    async fn publish_again(&self, active: &ActiveRun) {
        let Ok(boxes) = self.host.boxes(&self.group) else { return };
        for (batch, _) in active.open.iter().filter(|(_, via)| via == "input") {
            let Ok(Some(content)) = self.host.store.batch_content(*batch, self.host.handover_limits()) else {
                continue;
            };
            let text = prompt_of(&self.host, &content);
            let input = wire::Input { kind: "message".into(), id: Some(batch_name(*batch)), text };
            let (boxes, id) = (Arc::clone(&boxes), batch_name(*batch));
            let bytes = serde_json::to_vec(&input).unwrap_or_default();
            let _ = spawn_blocking(move || {
                boxes
                    .put_input(&id, &bytes)
                    .map_err(|e| tracing::warn!(error = %e, "publishing a follow-up again failed"))
            })
            .await;
        }
    }

    /// Reads records, judges health and carries out orders until the container is dead.
    async fn watch(&mut self, container: &str, orders: &mut mpsc::UnboundedReceiver<Order>) -> Watching {
        let host = Arc::clone(&self.host);
        let mut output = host.sandbox.output(container);
        let mut parser = Parser::new();
        let mut wait = host.sandbox.wait(container);
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut verdict: Option<Cause> = None;
        let mut output_open = true;
        let mut exit: Option<Result<Exit, SandboxError>> = None;
        let mut dead_since: Option<Instant> = None;
        let mut stopping: Option<Instant> = None;
        loop {
            tokio::select! {
                chunk = output.next(), if output_open => match chunk {
                    Some(Ok(Chunk::Stdout(bytes))) => {
                        self.log.append(&bytes);
                        let mut parsed = Vec::new();
                        parser.push(&bytes, &mut parsed);
                        // After a verdict nothing more of it counts: it is read to its end, and that is all.
                        if verdict.is_none() {
                            match self.apply(parsed).await {
                                Ok(()) => {}
                                Err(Halt::Unwell(cause)) => {
                                    verdict = Some(cause);
                                    self.kill(container).await;
                                }
                                Err(Halt::LetGo) => return Watching::LetGo,
                            }
                        }
                    }
                    Some(Ok(Chunk::Stderr(bytes))) => self.log.append(&bytes),
                    Some(Err(SandboxError::Flooded { bytes })) => {
                        tracing::warn!(run = self.run, bytes, "the output is over its limit");
                        verdict.get_or_insert(Cause::Flooded { limit_bytes: host.config.output_bytes });
                        self.kill(container).await;
                        output_open = false;
                    }
                    Some(Err(error)) => {
                        tracing::warn!(run = self.run, error = %chain(&error), "reading output failed");
                        if dead_since.is_none() {
                            verdict.get_or_insert(Cause::Unwell { reason: format!("could not be read from: {}", chain(&error)) });
                            self.kill(container).await;
                        }
                        output_open = false;
                    }
                    None => output_open = false,
                },
                exited = &mut wait, if exit.is_none() => match exited {
                    Err(error) if !matches!(error, SandboxError::Gone { .. }) => {
                        // An engine that does not answer says nothing about the container.
                        tracing::warn!(run = self.run, error = %chain(&error), "the engine can't tell how a container is; it is asked again");
                        wait = Box::pin(async {
                            tokio::time::sleep(ASK_AGAIN).await;
                            host.sandbox.wait(container).await
                        });
                    }
                    exited => {
                        exit = Some(exited);
                        dead_since = Some(Instant::now());
                    }
                },
                Some(order) = orders.recv() => match order {
                    Order::Close => self.ask_close("asked to leave").await,
                    Order::Handed(batch) => {
                        self.idle = false;
                        self.in_hand.insert(batch_name(batch), None);
                    }
                },
                () = host.stop.cancelled(), if stopping.is_none() => {
                    if host.sandbox.survives_us() {
                        return Watching::LetGo;
                    }
                    stopping = Some(Instant::now());
                    self.ask_close("the daemon stops").await;
                }
                _ = tick.tick() => {
                    if stopping.is_some_and(|since| since.elapsed() >= STOP_GRACE) {
                        verdict.get_or_insert(Cause::OwnerGone);
                        self.kill(container).await;
                        stopping = Some(Instant::now());
                    }
                    if dead_since.is_none() && verdict.is_none() && let Some(cause) = self.look_after(container).await {
                        verdict = Some(cause);
                    }
                }
            }
            if let Some(since) = dead_since
                && (!output_open || since.elapsed() >= LAST_OUTPUT)
            {
                break;
            }
        }
        let end = match exit {
            Some(Ok(exit)) => End::Exited { code: exit.code, oom: exit.oom },
            Some(Err(SandboxError::Gone { .. })) | None => End::Gone,
            Some(Err(error)) => End::Engine { doing: "waiting for the container".into(), why: chain(&error) },
        };
        let asked = if self.closing.is_some() { Cause::Closed } else { Cause::Itself };
        Watching::Ended((end, verdict.unwrap_or(asked)))
    }

    fn never_ready(&self) -> Cause {
        Cause::NeverReady { limit_ms: i64::try_from(self.ready_limit.as_millis()).unwrap_or(i64::MAX) }
    }

    /// Applies records in order; an error says why the run can't go on.
    async fn apply(&mut self, parsed: Vec<Parsed>) -> Result<(), Halt> {
        for item in parsed {
            let record = match item {
                Parsed::Record(record) => record,
                Parsed::Garbage { reason, sample } => {
                    tracing::warn!(run = self.run, %reason, sample, "garbage in the output");
                    continue;
                }
            };
            if record.seq.is_none() && self.protocol.is_some_and(|p| p >= wire::PROTOCOL) {
                // Counted, it would take the number of a record of the runner's own.
                tracing::warn!(run = self.run, "a record without a number is none of the runner's");
                continue;
            }
            // The output is always read from its beginning: each record is the one after the last.
            let next = self.seen.saturating_add(1);
            let n = record.seq.unwrap_or(next);
            if n != next {
                return Err(Halt::Unwell(Cause::Gap { expected: next, got: n }));
            }
            let record = self.in_v1_terms(record).await;
            let (kind, status, handled) = (record.kind, record.status, record.handled.clone());
            if kind == wire::Kind::BlockedTool {
                self.blocked_tool = record.result.clone().or_else(|| Some("of the blocked list".into()));
            }
            let recorded = self.record(n, record).await?;
            self.seen = n;
            failpoint::reach("run.record");
            match recorded {
                Recorded::Known => {}
                Recorded::Gap { expected } => return Err(Halt::Unwell(Cause::Gap { expected, got: n })),
                Recorded::Applied { said, idle } => {
                    // A record that is read again, after an adoption, is no sign of life.
                    self.last_sign = Instant::now();
                    self.last_record = self.last_sign;
                    if kind == wire::Kind::Ready {
                        self.is_ready();
                    }
                    self.in_hand.retain(|batch, _| !handled.contains(batch));
                    if kind == wire::Kind::Result {
                        self.last_result = Some(self.last_sign);
                    }
                    if said {
                        self.host.nudges.deliver.notify_one();
                    }
                    if kind == wire::Kind::Ready {
                        self.protocol = Some(wire::PROTOCOL);
                        let _ = self.host.lanes.send(Event::Ready { group: self.group.clone() });
                    }
                    self.idle = idle;
                    let group = self.group.clone();
                    let _ = self.host.lanes.send(if idle {
                        Event::Idle { group }
                    } else {
                        Event::Busy { group }
                    });
                    self.host.nudges.settled.ring();
                    if status == wire::Status::Error && self.closing.is_none() {
                        // Its turn is over and what it has in hand is not handled: nothing more comes of it.
                        self.ask_close("its turn has failed").await;
                        let _ = self.host.lanes.send(Event::CloseAsked { group: self.group.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    /// A runner whose records carry no numbers speaks v1: it is ready as soon as it runs, and a result finishes the
    /// batches whose input it has taken away.
    async fn in_v1_terms(&mut self, mut record: wire::Record) -> wire::Record {
        if record.seq.is_some() || self.protocol.is_some_and(|p| p >= 2) {
            return record;
        }
        if self.protocol.is_none() {
            self.ready_without_saying_so().await;
        }
        if record.status == wire::Status::Success && record.handled.is_empty() {
            let open = self.host.store.active_run(self.run).ok().flatten();
            let Ok(boxes) = self.host.boxes(&self.group) else { return record };
            let Some(open) = open else { return record };
            if open.kind != "message" {
                record.handled.push(task_batch(self.run));
            }
            for (batch, via) in open.open {
                if via == "stdin" || !boxes.has_input(&batch_name(batch)) {
                    record.handled.push(batch_name(batch));
                }
            }
        }
        record
    }

    /// Asks the store until it has the record: a disk that is full loses nothing.
    async fn record(&self, n: u64, record: wire::Record) -> Result<Recorded, Halt> {
        loop {
            match self.host.store.record(self.run, n, record.clone(), clock::now()).await {
                Ok(recorded) => return Ok(recorded),
                // The container outlives us, and the next daemon reads its output again.
                Err(error) if error.is_worlds_fault() && self.host.stop.is_cancelled() => {
                    tracing::warn!(run = self.run, error = %chain(&error), "stopping before a record could be stored");
                    return Err(Halt::LetGo);
                }
                Err(error) if error.is_worlds_fault() => {
                    tracing::warn!(run = self.run, error = %chain(&error), "the store can't take a record now; it is tried again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => {
                    return Err(Halt::Unwell(Cause::Unwell {
                        reason: format!("wrote a record that could not be stored: {}", chain(&error)),
                    }));
                }
            }
        }
    }

    async fn ask_close(&mut self, why: &str) {
        if self.closing.is_none() {
            tracing::info!(run = self.run, group = %self.group, why, "closing");
            self.closing = Some(Instant::now());
            if let Err(error) = self.host.store.run_closing(self.run, clock::now()).await {
                tracing::error!(run = self.run, error = %chain(&error), "recording a close failed");
            }
        }
        self.assert_close().await;
    }

    async fn assert_close(&mut self) {
        self.close_asserted = Some(Instant::now());
        let Ok(boxes) = self.host.boxes(&self.group) else { return };
        let asked = spawn_blocking(move || boxes.ask_close().map_err(|e| e.to_string())).await;
        if let Ok(Err(error)) = asked {
            tracing::warn!(run = self.run, error, "asking a runner to leave failed; it is tried again");
        }
    }

    /// One look at the run's health.
    async fn look_after(&mut self, container: &str) -> Option<Cause> {
        if self.closing.is_some() && self.close_asserted.is_none_or(|at| at.elapsed() >= CLOSE_AGAIN) {
            self.assert_close().await;
        }
        let boxes = self.host.boxes(&self.group).ok()?;
        let stamp = boxes.heartbeat();
        // Before it is known to be ready no stamp counts, nor is one remembered: it may be that of its first work.
        if self.ready && stamp.is_some() && stamp != self.heartbeat {
            self.last_sign = Instant::now();
            self.heartbeat = stamp;
        }
        // After the heartbeat: one that is older than the taking must not count as younger.
        let taken = Instant::now();
        if self.ready {
            for (batch, since) in self.in_hand.iter_mut().filter(|(_, since)| since.is_none()) {
                if boxes.is_unread(batch) {
                    continue;
                }
                *since = Some(taken);
                // Both were seen for the first time just now: the kernel knows which came first.
                if boxes.has_beaten_since_taken(batch) {
                    self.last_sign = taken + Duration::from_millis(1);
                }
            }
        }
        let declared =
            boxes.container_state().ok().flatten().and_then(|state| health::declared_timeout_ms(&state));
        let ms = |since: Instant| i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let limit = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let config = self.host.config.clone();
        let verdict = health::judge(
            &Vitals {
                runner: match self.protocol {
                    Some(1) => Runner::One,
                    Some(_) | None => {
                        Runner::Two(if self.ready { Readiness::Ready } else { Readiness::NotYet })
                    }
                },
                leaving: match (self.stopped, self.closing) {
                    (Some(since), _) => Leaving::Stopping(ms(since)),
                    (None, Some(since)) => Leaving::Closing(ms(since)),
                    (None, None) => Leaving::No,
                },
                started_ms: ms(self.started),
                quiet_ms: ms(self.last_sign),
                no_record_ms: ms(self.last_record),
                // A sign that came within the same millisecond, but after the taking, is one since.
                in_hand_ms: self
                    .in_hand
                    .values()
                    .flatten()
                    .min()
                    .map(|since| ms(*since) + i64::from(self.last_sign > *since)),
                tool_timeout_ms: declared,
                blocked_tool: self.blocked_tool.clone(),
                since_result_ms: self.last_result.map(ms),
            },
            &HealthLimits {
                ready_ms: i64::try_from(self.ready_limit.as_millis()).unwrap_or(i64::MAX),
                ceiling_ms: limit(config.ceiling_ms.max(config.container_ms)),
                claim_ms: limit(config.claim_ms),
                leave_ms: limit(config.close_grace_ms),
                idle_ms: limit(config.idle_ms),
                ..HealthLimits::default()
            },
        );
        match verdict {
            Verdict::Fine { .. } => None,
            Verdict::Close { reason } => {
                self.ask_close(&reason).await;
                let _ = self.host.lanes.send(Event::CloseAsked { group: self.group.clone() });
                None
            }
            Verdict::Stop { reason } => {
                tracing::warn!(run = self.run, reason, "stopping a container");
                self.stopped = Some(Instant::now());
                let (host, id) = (Arc::clone(&self.host), container.to_owned());
                // The engine waits for the container; we go on reading.
                tokio::spawn(async move {
                    if let Err(error) = host.sandbox.stop(&id, Duration::from_secs(10)).await {
                        tracing::warn!(container = id, error = %chain(&error), "stopping failed");
                    }
                });
                (!self.idle).then_some(Cause::Unwell { reason })
            }
            Verdict::Kill { reason } => {
                tracing::warn!(run = self.run, reason, "killing a container");
                self.kill(container).await;
                Some(if self.ready || self.protocol == Some(1) {
                    Cause::Unwell { reason }
                } else {
                    self.never_ready()
                })
            }
        }
    }

    async fn kill(&self, container: &str) {
        if let Err(error) = self.host.sandbox.kill(container).await {
            tracing::warn!(run = self.run, error = %chain(&error), "killing a container failed");
        }
    }

    /// The one way in which a run ends. Its container is dead, or made dead here.
    ///
    /// Nothing is judged before the container is certainly dead, and nobody is told before the end is written down.
    /// `None` when the daemon stops first: the next one goes on here.
    async fn end(&mut self, ending: Ending) -> Option<Vec<crate::domain::lanes::WaitingLane>> {
        let host = Arc::clone(&self.host);
        if let Some(container) = &self.container
            && !self.make_sure_that_it_is_dead(container).await
        {
            return None;
        }
        // Whatever the agent asked for before it died is done before its batches are judged.
        let (done, drained) = oneshot::channel();
        if host.mailboxes.send(ipc::Ask::Drain(self.group.clone(), done)).is_ok() {
            let _ = drained.await;
        }
        let unread = self.claim_back().await;
        failpoint::reach("run.ending");
        let (end, cause) = ending;
        let end = EndOfRun { run: self.run, end, cause, unread, retry_base_ms: host.config.retry_base_ms };
        let mut pause = Duration::from_secs(1);
        let waiting = loop {
            match host.store.end_run(end.clone(), host.config.zone.zone.clone(), clock::now()).await {
                Ok(ended) => {
                    match &ended.error {
                        Some(error) => {
                            tracing::warn!(run = self.run, group = %self.group, error, "run ended badly")
                        }
                        None => tracing::info!(run = self.run, group = %self.group, "run ended"),
                    }
                    break ended.waiting.iter().map(super::dispatch::waiting_lane).collect();
                }
                Err(StoreError::Closed) => return None,
                Err(error) => {
                    tracing::error!(run = self.run, error = %chain(&error), "ending a run failed; it is tried again");
                    tokio::select! {
                        () = host.stop.cancelled() => return None,
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    }
                }
            }
        };
        failpoint::reach("run.ended");
        if self.is_task {
            snapshots::tasks_changed_soon(&host, &self.group);
        }
        if let Some(container) = &self.container
            && let Err(error) = host.sandbox.remove(container).await
        {
            tracing::warn!(run = self.run, error = %chain(&error), "removing a container failed; the next start does it");
        }
        if let Ok(boxes) = host.boxes(&self.group) {
            let kept = host.run_dir(self.run).join("input");
            let _ = spawn_blocking(move || boxes.forget_inputs(&kept)).await;
        }
        RunLog::forget_old(&host.root.join("data/runs"), self.run);
        host.nudges.deliver.notify_one();
        host.nudges.schedule.notify_one();
        host.nudges.dispatch.notify_one();
        host.nudges.settled.ring();
        Some(waiting)
    }

    /// Kills the container until the engine says that it is dead; whether it did before the daemon stops.
    async fn make_sure_that_it_is_dead(&self, container: &str) -> bool {
        loop {
            self.kill(container).await;
            match tokio::time::timeout(DYING, self.host.sandbox.wait(container)).await {
                Ok(Ok(_) | Err(SandboxError::Gone { .. })) => return true,
                Ok(Err(error)) => {
                    tracing::warn!(run = self.run, error = %chain(&error), "whether a container is dead can't be told; it is asked again");
                }
                Err(_) => tracing::warn!(run = self.run, "a killed container is not dead yet"),
            }
            tokio::select! {
                () = self.host.stop.cancelled(), if self.host.sandbox.survives_us() => return false,
                () = tokio::time::sleep(ASK_AGAIN) => {}
            }
        }
    }

    /// Takes the follow-ups back that the runner had not finished; returns the ids of those it had not even taken.
    async fn claim_back(&self) -> Vec<i64> {
        let Ok(boxes) = self.host.boxes(&self.group) else { return Vec::new() };
        let kept = self.host.run_dir(self.run).join("input");
        let left = spawn_blocking(move || boxes.claim_back_inputs(&kept)).await;
        match left {
            Ok(Ok(left)) => left
                .into_iter()
                .filter(|input| input.state == InputState::Unread)
                .filter_map(|input| input.batch_id.parse().ok())
                .collect(),
            Ok(Err(error)) => {
                tracing::warn!(run = self.run, error = %chain(&error), "claiming input back failed; its batches count as taken");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }
}

/// Ends a run on record whose container is known to be gone, or that never had one.
pub(super) async fn end_without_container(host: &Arc<Host>, active: &ActiveRun, ending: Ending) {
    let now = Instant::now();
    let mut watched = Watched {
        host: Arc::clone(host),
        group: active.group.clone(),
        run: active.id,
        is_task: active.task().is_some(),
        container: None,
        seen: active.last_seq,
        protocol: active.protocol,
        speaks_v1: false,
        ready: active.ready,
        idle: active.is_idle(),
        closing: None,
        close_asserted: None,
        started: now,
        last_sign: now,
        last_record: now,
        last_result: None,
        stopped: None,
        blocked_tool: None,
        in_hand: BTreeMap::new(),
        heartbeat: None,
        ready_limit: Duration::ZERO,
        log: RunLog::open(&host.run_dir(active.id)),
    };
    let _ = watched.end(ending).await;
}
