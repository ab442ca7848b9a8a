//! Docker, over its Unix socket.
//!
//! A container gets nothing that it was not given: no network, no capabilities, no new privileges, a read-only root,
//! bounded memory, processors and processes. It outlives us, is never removed by itself and never restarted, so that
//! the next daemon can adopt it. Clean-up goes by our instance's label only. Every call has a time-out.
//!
//! The output is that of log driver `local`: split into pieces of 16 KiB at any byte, and (as 20.10 has it) without
//! the line end behind a line that was split. Records are read all the same ([`super::output`]).
//!
//! A program that the image lacks is found out by the container's own init: such a container starts and ends with
//! code 127.

mod engine;
mod follow;
mod inspect;
mod spec;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use bollard::{
    container::AttachContainerResults,
    errors::Error,
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
        RemoveContainerOptionsBuilder, StopContainerOptionsBuilder, WaitContainerOptionsBuilder,
    },
};
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Either, select},
    stream::BoxStream,
};
use tokio::{
    io::AsyncWriteExt,
    sync::Notify,
    time::{sleep, timeout},
};

use self::{
    engine::{ANSWER, Engine, LAUNCH},
    inspect::{Look, Stage},
    spec::{LABEL_GROUP, LABEL_INSTANCE, LABEL_RUN},
};
use super::{Chunk, Exit, Found, STDIN, Sandbox, SandboxError, Spec};
use crate::{domain::states::SandboxName, system::family};

/// How often we look at what can't tell us itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long one wait on the engine lasts before we ask whether it is still there.
const WAIT: Duration = Duration::from_secs(60);

/// Containers of a Docker engine.
#[derive(Clone, Debug)]
pub struct DockerSandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    /// A container was started here: tasks that wait for a start look again.
    started: Notify,
}

/// What an image says of itself by its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `g2.protocol`: what its runner speaks; 1 without it, as v1's images have none.
    pub protocol: u32,
    /// `g2.runner`: which runner it holds, as `agent_runner::ID`.
    pub runner: Option<String>,
    /// `g2.claude`: the version of Claude Code in it.
    pub claude: Option<String>,
}

impl Image {
    fn of(mut labels: HashMap<String, String>) -> Self {
        Self {
            protocol: labels.get("g2.protocol").and_then(|protocol| protocol.parse().ok()).unwrap_or(1),
            runner: labels.remove("g2.runner"),
            claude: labels.remove("g2.claude"),
        }
    }
}

impl DockerSandbox {
    /// Takes the value of `DOCKER_HOST`, if set. Does not connect yet: an engine that is down now may be up later.
    ///
    /// # Errors
    /// [`SandboxError::Engine`] when `host` is no Unix socket.
    pub fn new(host: Option<&str>) -> Result<Self, SandboxError> {
        Ok(Self { shared: Arc::new(Shared { engine: Engine::new(host)?, started: Notify::new() }) })
    }

    /// Returns what an image says of itself.
    ///
    /// # Errors
    /// [`SandboxError::NoImage`], or what the engine can't do.
    pub async fn look_at_image(&self, image: &str) -> Result<Image, SandboxError> {
        let engine = &self.shared.engine;
        let call = engine.client().await?.inspect_image(image);
        match engine.ask(&format!("looking at image {image}"), ANSWER, call).await {
            Ok(found) => Ok(Image::of(found.config.and_then(|config| config.labels).unwrap_or_default())),
            Err(fault) if fault.status == Some(404) => Err(SandboxError::NoImage { image: image.to_owned() }),
            Err(fault) => Err(fault.error),
        }
    }

    async fn create(&self, spec: &Spec) -> Result<String, SandboxError> {
        let engine = &self.shared.engine;
        let options = CreateContainerOptionsBuilder::default().name(&spec.name).build();
        if let Some(why) = spec::unmountable(spec) {
            return Err(SandboxError::Engine { doing: format!("creating container {}", spec.name), why });
        }
        let client = engine.patient(LAUNCH).await?;
        let call = client.create_container(Some(options), spec::body(spec));
        match engine.ask(&format!("creating container {}", spec.name), LAUNCH, call).await {
            Ok(made) => Ok(made.id),
            Err(fault) => Err(match fault.status {
                Some(404) => SandboxError::NoImage { image: spec.image.clone() },
                Some(409) => SandboxError::NameTaken { name: spec.name.clone() },
                _ => fault.error,
            }),
        }
    }

    async fn start(&self, id: &str, stdin: Vec<u8>) -> Result<(), SandboxError> {
        let engine = &self.shared.engine;
        // Attached before the start, so that not a byte can be missed; and to stdin only, for an output that
        // nobody reads would block the container.
        let options = AttachContainerOptionsBuilder::default().stdin(true).stream(true).build();
        let call = engine.client().await?.attach_container(id, Some(options));
        let attached = engine.ask_about(id, "attaching to", ANSWER, call).await?;
        let client = engine.patient(LAUNCH).await?;
        let started = engine.ask_about(id, "starting", LAUNCH, client.start_container(id, None)).await;
        self.shared.started.notify_waiters();
        started?;
        crate::system::failpoint::reach("run.no_stdin");
        // An engine goes on taking the input of a container that has ended, without reading it.
        match select(pin!(feed(id, attached, &stdin)), pin!(self.wait(id))).await {
            Either::Left((fed, _)) => fed,
            Either::Right((ended, _)) => ended.map(drop),
        }
    }

    async fn wait(&self, id: &str) -> Result<Exit, SandboxError> {
        loop {
            if let Stage::Ended(exit) = self.shared.look_started(id).await?.stage {
                return Ok(exit);
            }
            let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
            let client = self.shared.engine.patient(ANSWER).await?;
            let mut end = client.wait_container(id, Some(options)).boxed();
            match timeout(WAIT, end.next()).await {
                // A code other than 0 comes as an error. Either way the look tells.
                Ok(Some(Ok(_) | Err(Error::DockerContainerWaitError { .. }))) | Err(_) => {}
                Ok(Some(Err(_)) | None) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<(), SandboxError> {
        // The engine counts whole seconds.
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let options =
            StopContainerOptionsBuilder::default().t(i32::try_from(seconds).unwrap_or(i32::MAX)).build();
        let within = ANSWER.saturating_add(Duration::from_secs(seconds));
        let client = self.shared.engine.patient(within).await?;
        let call = client.stop_container(id, Some(options));
        gone_is_fine(self.shared.engine.ask_about(id, "stopping", within, call).await)
    }

    async fn kill(&self, id: &str) -> Result<(), SandboxError> {
        let call = self.shared.engine.client().await?.kill_container(id, None);
        match self.shared.engine.ask_about(id, "killing", ANSWER, call).await {
            // It does not run.
            Err(fault) if fault.status == Some(409) => Ok(()),
            answer => gone_is_fine(answer),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), SandboxError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let call = self.shared.engine.client().await?.remove_container(id, Some(options));
        match self.shared.engine.ask_about(id, "removing", ANSWER, call).await {
            // Another process removes it. Its name is free only afterwards.
            Err(fault) if fault.status == Some(409) => {
                timeout(ANSWER, self.shared.gone(id)).await.unwrap_or(Err(fault.error))
            }
            answer => gone_is_fine(answer),
        }
    }

    async fn list(&self, instance: &str) -> Result<Vec<Found>, SandboxError> {
        let label = [("label", vec![format!("{LABEL_INSTANCE}={instance}")])];
        let options = ListContainersOptionsBuilder::default().all(true).filters(&label.into()).build();
        let call = self.shared.engine.client().await?.list_containers(Some(options));
        let listed = self.shared.engine.ask("listing containers", ANSWER, call).await?;
        Ok(listed
            .into_iter()
            .map(|one| {
                let labels = one.labels.unwrap_or_default();
                Found {
                    id: one.id.unwrap_or_default(),
                    name: one
                        .names
                        .unwrap_or_default()
                        .first()
                        .map_or("", |name| name.trim_start_matches('/'))
                        .to_owned(),
                    run: labels.get(LABEL_RUN).and_then(|run| run.parse().ok()).unwrap_or(0),
                    group: labels.get(LABEL_GROUP).cloned().unwrap_or_default(),
                    state: inspect::listed(one.state),
                }
            })
            .collect())
    }
}

impl Shared {
    /// Looks at container `id` as soon as it has been started; a look costs the engine less than a millisecond.
    async fn look_started(&self, id: &str) -> Result<Look, SandboxError> {
        loop {
            let mut started = pin!(self.started.notified());
            started.as_mut().enable();
            let look = self.look(id).await?;
            match look.stage {
                Stage::Created => drop(timeout(LOOK_AGAIN, started).await),
                Stage::Running | Stage::Ended(_) => return Ok(look),
            }
        }
    }

    /// Waits until the engine no longer knows container `id`.
    async fn gone(&self, id: &str) -> Result<(), SandboxError> {
        loop {
            match self.look(id).await {
                Ok(_) => sleep(Duration::from_millis(50)).await,
                Err(SandboxError::Gone { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Writes stdin to the last byte and shuts it. A container that leaves before the end breaks the pipe, and that is
/// no error: its exit tells.
async fn feed(id: &str, mut attached: AttachContainerResults, stdin: &[u8]) -> Result<(), SandboxError> {
    let write = async {
        attached.input.write_all(stdin).await?;
        attached.input.flush().await?;
        attached.input.shutdown().await
    };
    match timeout(STDIN, write).await {
        Ok(_) => Ok(()),
        Err(_) => Err(SandboxError::Engine {
            doing: format!("writing the input of container {id}"),
            why: format!("it was not read to the end within {} s", STDIN.as_secs()),
        }),
    }
}

fn gone_is_fine(answer: Result<(), engine::Fault>) -> Result<(), SandboxError> {
    match answer {
        Err(engine::Fault { error: SandboxError::Gone { .. }, .. }) => Ok(()),
        answer => Ok(answer?),
    }
}

impl Sandbox for DockerSandbox {
    fn kind(&self) -> SandboxName {
        SandboxName::Docker
    }

    fn survives_us(&self) -> bool {
        true
    }

    fn check<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        async { self.look_at_image(image).await.map(drop) }.boxed()
    }

    fn protocol<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<u32, SandboxError>> {
        async { Ok(self.look_at_image(image).await?.protocol) }.boxed()
    }

    fn create<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<String, SandboxError>> {
        self.create(spec).boxed()
    }

    fn start<'a>(&'a self, id: &'a str, stdin: Vec<u8>) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.start(id, stdin).boxed()
    }

    fn output(&self, id: &str) -> BoxStream<'static, Result<Chunk, SandboxError>> {
        follow::output(Arc::clone(&self.shared), id.to_owned())
    }

    /// An engine on another machine has processes of its own: it is asked of the kernel whose this one is.
    fn pid<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<u32>> {
        let ours = |look: Look| look.pid.filter(|pid| family::is_of_container(*pid, id));
        async move { self.shared.look(id).await.ok().and_then(ours) }.boxed()
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Exit, SandboxError>> {
        self.wait(id).boxed()
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.stop(id, grace).boxed()
    }

    fn kill<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.kill(id).boxed()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.remove(id).boxed()
    }

    fn list<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<Vec<Found>, SandboxError>> {
        self.list(instance).boxed()
    }
}
