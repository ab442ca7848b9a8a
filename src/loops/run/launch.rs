//! From the document to a container that has read it.

use std::{path::PathBuf, sync::Arc};

use ipc_handlers::wire;
use tokio::{sync::mpsc, task::spawn_blocking, time::Instant};

use super::{Ending, Order, Watched, Watching, document::Launching};
use crate::{
    clock,
    domain::{
        judge::{Cause, End},
        lanes::Event,
    },
    failpoint,
    loops::{
        ipc::chain,
        snapshots::{self, Shown},
    },
    sandbox::{Access, Limits, Mount, SandboxError, Seat, Spec},
};

impl Watched {
    pub(super) async fn launch(
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
    pub(super) fn not_launched(&self, error: &SandboxError) -> Ending {
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
}
