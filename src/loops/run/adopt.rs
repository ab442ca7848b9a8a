//! Taking a container over that outlived its daemon.

use std::{path::Path, sync::Arc, time::Duration};

use ipc_handlers::wire;
use tokio::sync::mpsc;

use super::{
    Order, STALE, Speaks, Watched, Watching, document::prompt_of, log::RunLog, model::looks,
    prepare::Unprepared,
};
use crate::{
    domain::{
        runs::{
            lanes::Event,
            life::{Life, Reached},
            placed::{Publish, publish},
        },
        shown::errors::chain,
        states::{RunKind, Via},
    },
    gateway::{Looks, OUTSIDE},
    store::{ActiveRun, batch_name, task_batch},
};

/// An adopted container that may never have got all of its stdin has this long to turn out to be ready.
const ADOPTED_UNREADY: Duration = Duration::from_secs(2);

/// A follow-up's file is not there again.
#[derive(Debug, thiserror::Error)]
#[error("a follow-up has no file")]
struct Unpublished(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Unpublished {
    fn of(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl Watched {
    pub(super) async fn adopt(
        &mut self,
        active: ActiveRun,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Watching {
        let Some(container) = active.container.clone() else {
            return Watching::Ended(STALE);
        };
        tracing::info!(container, "adopted a run that outlived its daemon");
        self.container = Some(container.clone());
        let runs = Arc::clone(&self.runs);
        if let Some(owner) = &active.owner
            && let Err(error) = runs.store.run_adopted(self.run, owner).await
        {
            tracing::error!(error = %chain(&error), "recording who watches over an adopted run failed");
        }
        // It was launched with them: where they can't be read now, everybody's are taken.
        let row = runs.store.group(&self.group).await.inspect_err(|error| {
            tracing::warn!(error = %chain(error), "the settings of an adopted run's group can't be read");
        });
        let row = row.ok().flatten();
        let settings = row.and_then(|row| runs.config.now().run_settings().for_group(&row).ok());
        let looks = settings.as_ref().map_or(Looks::Inside, |(settings, _)| looks(settings));
        // Under the same name in the same folder, which the container has mounted.
        let dir = runs.gateway_dir(self.run);
        let owner = runs.boxes.owner_now(&self.group);
        if dir.is_dir()
            && let Err(error) = runs.gateway.open(self.run, &dir, owner, (&self.group, looks))
        {
            tracing::warn!(error = %chain(&error), "an adopted run can't reach its model");
        }
        if dir.join(OUTSIDE).exists()
            && let Err(error) = self.open_outside(&dir)
        {
            tracing::warn!(error = %chain(&error), "an adopted run can't reach hosts outside");
        }
        (self.said.passed_over, self.said.seen) = self.log.pass_over();
        self.said.known = active.last_seq;
        if self.said.passed_over > 0 {
            tracing::info!(bytes = self.said.passed_over, "output that was taken in before is passed over");
        }
        if self.said.seen > self.said.known {
            // Another store than the one that was written then: all of it is read again.
            self.log = RunLog::open(&runs.run_dir(self.run));
            (self.said.passed_over, self.said.seen) = (0, 0);
        }
        if let Some((settings, _)) = settings {
            self.ceiling_ms = settings.ceiling_ms;
        }
        self.said.speaks = Speaks::of(active.protocol);
        self.reached = active.life.reached();
        for (batch, _) in &active.open {
            self.signs.in_hand.insert(batch_name(*batch), None);
        }
        if active.kind != RunKind::Message && !active.handled {
            self.signs.in_hand.insert(task_batch(active.id), None);
        }
        // Its start is written down when its stdin is whole: it may take as long as any to become ready.
        if self.reached == Reached::Queued {
            self.ready_limit = ADOPTED_UNREADY;
        }
        if matches!(active.life, Life::Leaving(_)) || active.stop.is_some() {
            self.leaving.ask(None, runs.machine.world.monotonic());
        }
        self.stop = active.stop.clone();
        if self.is_up() {
            match self.publish_again(&active).await {
                Ok(()) if active.has_follow_ups() => {
                    runs.lanes.tell(Event::Ready { group: self.group.clone() });
                }
                Ok(()) => {}
                // A later one would come before it. The runner may have taken it, or not: the end of the run judges it.
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "publishing a follow-up again failed; the run is closed");
                    self.ask_close("a follow-up could not be handed over again").await;
                    runs.lanes.tell(Event::CloseAsked { group: self.group.clone() });
                }
            }
        }
        self.watch(&container, orders).await
    }

    fn open_outside(&self, dir: &Path) -> Result<(), Unprepared> {
        let runs = &self.runs;
        runs.gateway.open_outside(self.run, dir, runs.boxes.owner_now(&self.group), &self.group)?;
        let read = || runs.store.rules_outside(&self.group, &runs.config.now().egress.allow);
        Ok(runs.gateway.read_rules(&self.group, read)?)
    }

    /// Follow-ups that were handed over before the crash, and may never have been placed, are placed in their order.
    async fn publish_again(&self, active: &ActiveRun) -> Result<(), Unpublished> {
        let forgets = match self.said.speaks {
            Speaks::Ours => false,
            // It takes a file by removing it.
            Speaks::One | Speaks::NotSaid => true,
        };
        let (world, kept) = (&self.runs.machine.world, self.runs.kept_input(self.run));
        for (batch, _) in active.open.iter().filter(|(_, via)| *via == Via::Input) {
            let boxes = self.runs.boxes.of(&self.group).map_err(Unpublished::of)?;
            let (again, at, id) = (Arc::clone(&boxes), kept.clone(), batch_name(*batch));
            let placed = world.blocking(move || again.placed(&at, &id)).await;
            let how = publish(placed.map_err(Unpublished::of)?.map_err(Unpublished::of)?, forgets);
            if how == Publish::Not {
                tracing::debug!(batch, "a follow-up was placed, or may have been taken: it is left alone");
                continue;
            }
            let content = self.runs.store.batch_content(*batch, self.runs.handover_limits());
            let Some(content) = content.map_err(Unpublished::of)? else { continue };
            let text = prompt_of(&self.runs, &self.group, &content).await;
            let input = wire::Input { kind: "message".into(), id: Some(batch_name(*batch)), text };
            let (at, id) = (kept.clone(), batch_name(*batch));
            let bytes = serde_json::to_vec(&input).map_err(Unpublished::of)?;
            let put = move || match how {
                Publish::Again => boxes.place_input_again(&at, &id, &bytes),
                Publish::First | Publish::Not => boxes.place_input(&at, &id, &bytes),
            };
            let put = world.blocking(put).await;
            put.map_err(Unpublished::of)?.map_err(Unpublished::of)?;
        }
        Ok(())
    }
}
