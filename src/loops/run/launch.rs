//! From the document to a container that has read it.

use std::sync::Arc;

use ipc_handlers::wire;
use tokio::sync::mpsc;

use super::{
    super::lost,
    Ending, Order, Watched, Watching,
    document::{Launching, token_of},
    model,
    prepare::{Unprepared, prepare},
};
use crate::{
    domain::{
        kept::prune::DAY_MS,
        runs::{
            judge::{Cause, End},
            lanes::Event,
        },
        shown::errors::chain,
    },
    ipc::{Emptied, WorldFault},
    sandbox::{SandboxError, Spec},
    store::StoreError,
    system::failpoint,
};

/// How many replies to commands of no run stay in their box, and as many to those of a run without a container.
const REPLIES_KEPT: usize = 64;

/// Why the boxes of before can't be emptied.
#[derive(Debug, thiserror::Error)]
enum NotEmptied {
    #[error(transparent)]
    World(#[from] WorldFault),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Watched {
    pub(super) async fn launch(
        &mut self,
        launching: Launching,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Watching {
        self.signs.in_hand.insert(launching.document.batch_id.clone(), None);
        let unprepared = |why: Unprepared| {
            let end = if why.is_the_hosts() {
                End::NotNow { why: chain(&why) }
            } else {
                End::Engine { doing: "preparing the launch".into(), why: chain(&why) }
            };
            Watching::Ended((end, Cause::Itself))
        };
        let prepared = match prepare(&self.runs, &self.group, self.run, launching.is_main).await {
            Ok(prepared) => prepared,
            Err(why) => {
                if matches!(why, Unprepared::Lost) {
                    lost::hold(&self.runs, &self.group);
                }
                return unprepared(why);
            }
        };
        let mut document =
            wire::Launch { provider: prepared.provider, mcp_servers: prepared.servers, ..launching.document };
        self.ceiling_ms = prepared.settings.ceiling_ms;
        self.folder = prepared.folder;
        self.log.keep_launch(&document);
        let speaks_v1 = match self.create(&prepared.spec).await {
            Ok((container, protocol)) => {
                self.container = Some(container);
                protocol < wire::PROTOCOL
            }
            Err(ending) => return Watching::Ended(ending),
        };
        // Read as late as can be, and gone with the bytes once they are written.
        document.secrets = match model::secrets(&self.runs, &prepared.settings, speaks_v1) {
            Ok(secrets) => secrets,
            Err(why) => return unprepared(why),
        };
        document.mcp_secrets = match model::secrets_of_servers(&self.runs, &document.mcp_servers) {
            Ok(secrets) => secrets,
            Err(why) => return unprepared(why),
        };
        if !speaks_v1 {
            document.token = token_of(&self.runs, &document, self.run, self.runs.machine.world.now());
        }
        let stdin = serde_json::to_vec(&document).unwrap_or_default();
        drop(document);
        let container = self.container.clone().unwrap_or_default();
        let runs = Arc::clone(&self.runs);
        self.signs.started = self.runs.machine.world.monotonic();
        self.signs.last_sign = self.signs.started;
        let started = tokio::time::timeout(self.ready_limit, runs.sandbox.start(&container, stdin)).await;
        match started {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Watching::Ended(self.not_launched(&error)),
            Err(_) => return Watching::Ended((End::Gone, self.never_ready())),
        }
        failpoint::reach("run.started");
        if let Err(error) = self.runs.store.run_started(self.run, self.runs.machine.world.now()).await {
            tracing::error!(error = %chain(&error), "recording a start failed");
        }
        if speaks_v1 {
            self.ready_without_saying_so().await;
        }
        self.watch(&container, orders).await
    }

    /// Makes the container and writes its id down. Returns that, and the protocol that its image announces.
    async fn create(&self, spec: &Spec) -> Result<(String, u32), Ending> {
        let world = |why: String| (End::NotNow { why }, Cause::Itself);
        let boxes = self.runs.boxes.of(&self.group).map_err(|e| world(chain(&e)))?;
        let (store, group) = (self.runs.store.clone(), self.group.clone());
        let since = self.runs.machine.world.now().plus_ms(-DAY_MS);
        let (run, notes) = (self.run, self.runs.kept_input(self.run));
        let emptied = self.runs.machine.world.blocking(move || {
            let kept = || Ok::<_, NotEmptied>(store.requests_by_hand(&group, run, since, REPLIES_KEPT)?);
            while boxes.empty_before_create(kept)? == Emptied::More {}
            boxes.begin_notes(&notes)?;
            Ok::<_, NotEmptied>(())
        });
        emptied.await.map_err(|e| world(e.to_string()))?.map_err(|e| world(chain(&e)))?;
        let (boxes, group) = (Arc::clone(&self.runs.boxes), self.group.clone());
        let renewed = self.runs.machine.world.blocking(move || boxes.renew(&group));
        renewed.await.map_err(|e| world(chain(&e)))?.map_err(|e| world(chain(&e)))?;
        self.runs.snapshots.write(&self.group).await;
        let protocol = self.runs.sandbox.protocol(&spec.image).await.map_err(|e| self.not_launched(&e))?;
        tracing::debug!("asking for a container");
        let container = match self.runs.sandbox.create(spec).await {
            Err(SandboxError::NameTaken { .. }) => {
                self.remove_leftover().await;
                self.runs.sandbox.create(spec).await
            }
            other => other,
        }
        .map_err(|e| self.not_launched(&e))?;
        failpoint::reach("run.created");
        if let Err(error) = self.runs.store.run_created(self.run, &container).await {
            // One that stays is removed by the next start.
            let _ = self.runs.sandbox.remove(&container).await;
            return Err(world(format!("recording the container failed: {}", chain(&error))));
        }
        failpoint::reach("run.recorded");
        Ok((container, protocol))
    }

    /// An engine that is away is nobody's fault, and looked after by another loop. So is a machine that lacks something, and an image
    /// that is missing: the work waits. The rest costs a try.
    pub(super) fn not_launched(&self, error: &SandboxError) -> Ending {
        match error {
            SandboxError::Unreachable { .. } => {
                self.runs.lanes.tell(Event::Pause);
                self.runs.machine.look_again.notify_one();
                (End::NotNow { why: chain(error) }, Cause::Itself)
            }
            SandboxError::Machine { .. } => (End::NotNow { why: chain(error) }, Cause::Itself),
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
        let Ok(found) = self.runs.sandbox.list(&self.runs.instance).await else { return };
        for leftover in found.into_iter().filter(|c| c.group == self.group.as_str() && c.run != self.run) {
            tracing::warn!(
                container = leftover.name,
                run = leftover.run,
                "removing a container that was left over"
            );
            // Its name stays taken otherwise, which the next try says.
            let _ = self.runs.sandbox.remove(&leftover.id).await;
        }
    }
}
