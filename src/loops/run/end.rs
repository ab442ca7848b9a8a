//! The one way in which a run ends.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{super::lost, ASK_AGAIN, Ending, RunLog, Runs, Watched};
use crate::{
    domain::{runs::lanes::WaitingLane, shown::errors::chain},
    engine::rested,
    ipc::InputState,
    loops::{Ask, Drained},
    sandbox::SandboxError,
    store::{ActiveRun, EndOfRun, LeftInput, StoreError},
    system::failpoint,
};

/// How long a killed container may take to be dead.
const DYING: Duration = Duration::from_secs(10);
/// The rest before commands that a run left are asked for anew, and how often boxes are tried that can't be opened.
const DRAIN_AGAIN: Duration = Duration::from_millis(500);
const UNOPENED_TRIES: u32 = 10;
/// The longest pause between two attempts to write an end down: it is tried soon after a full disk has room again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Watched {
    /// The one way in which a run ends. Its container is dead, or made dead here.
    ///
    /// Nothing is judged before the container is certainly dead, and nobody is told before the end is written down.
    /// `None` when the daemon stops first: the next one goes on here.
    pub(super) async fn end(&mut self, ending: Ending) -> Option<Vec<WaitingLane>> {
        let runs = Arc::clone(&self.runs);
        if let Some(container) = &self.container
            && !self.make_sure_that_it_is_dead(container).await
        {
            return None;
        }
        runs.gateway.close(self.run).await;
        // Whatever the agent asked for before it died is done before its batches are judged. The next daemon does
        // the rest, and judges by its outcome.
        if !self.drain().await {
            return None;
        }
        let input = self.claim_back().await;
        failpoint::reach("run.ending");
        let (end, cause) = ending;
        let dir = runs.run_dir(self.run);
        // `housekeeping` weighs their room on the disk again.
        let files_bytes =
            runs.machine.world.blocking(move || RunLog::bytes_in(&dir)).await.unwrap_or_default();
        let config = runs.config.now();
        let (retry_base_ms, tell_retry_ms) = (config.limits.retry_base_ms, config.health.tell_retry_ms);
        let end = EndOfRun { run: self.run, end, cause, input, files_bytes, retry_base_ms, tell_retry_ms };
        let mut pause = Duration::from_millis(500);
        let mut has_failed = false;
        let waiting = loop {
            match runs
                .store
                .end_run(end.clone(), runs.config.now().zones.clone(), runs.machine.world.now())
                .await
            {
                Ok(ended) => {
                    match &ended.error {
                        Some(error) => {
                            tracing::warn!(error, "run ended badly")
                        }
                        None => tracing::info!("run ended"),
                    }
                    runs.lanes.wake(&self.group, &ended.woken);
                    break ended.waiting.iter().map(WaitingLane::from).collect();
                }
                Err(StoreError::Closed) => return None,
                Err(error) => {
                    // Said once, however long the world is in the way.
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::error!(error = %chain(&error), "the end of a run can't be written down; it is tried again every few seconds");
                    }
                    if rested(&runs.stop, pause).await {
                        return None;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        };
        failpoint::reach("run.ended");
        if let Some(container) = &self.container
            && let Err(error) = runs.sandbox.remove(container).await
        {
            tracing::warn!(error = %chain(&error), "removing a container failed; the next start does it");
        }
        if self.container.is_some() {
            lost::after_a_run(&runs, &self.group, self.folder).await;
        }
        if let Ok(boxes) = runs.boxes.of(&self.group) {
            let kept = runs.kept_input(self.run);
            // What stays is forgotten with the folder of the run.
            let _ = runs.machine.world.blocking(move || boxes.forget_inputs(&kept)).await;
        }
        Some(waiting)
    }

    /// Has all commands settled that the agent left; whether that was done before the daemon stops. A drain that was cut short is
    /// asked for anew. Boxes that can't be opened are tried a few times.
    async fn drain(&self) -> bool {
        let (runs, mut tries) = (&self.runs, 0);
        loop {
            let (done, drained) = oneshot::channel();
            if runs.mailboxes.send(Ask::Drain(self.group.clone(), done)).is_err() {
                return false;
            }
            match drained.await {
                Ok(Drained::Done) => return true,
                Ok(Drained::Unopened(why)) => {
                    tries += 1;
                    if tries >= UNOPENED_TRIES {
                        tracing::error!(
                            why,
                            "the run is judged without the commands in its group's boxes, which can't be opened"
                        );
                        return true;
                    }
                }
                Err(_) if runs.stop.is_cancelled() => return false,
                Err(_) => {
                    tracing::warn!(
                        "commands that a run left are not all settled; that is asked for anew before it is judged"
                    );
                }
            }
            if rested(&runs.stop, DRAIN_AGAIN).await {
                return false;
            }
        }
    }

    /// Kills the container until the engine says that it is dead; whether it did before the daemon stops.
    async fn make_sure_that_it_is_dead(&self, container: &str) -> bool {
        loop {
            self.kill(container).await;
            match tokio::time::timeout(DYING, self.runs.sandbox.wait(container)).await {
                Ok(Ok(_) | Err(SandboxError::Gone { .. })) => return true,
                Ok(Err(error)) => {
                    tracing::warn!(error = %chain(&error), "whether a container is dead can't be told; it is asked again");
                }
                Err(_) => tracing::warn!("a killed container is not dead yet"),
            }
            match self.runs.sandbox.survives_us() {
                true if rested(&self.runs.stop, ASK_AGAIN).await => return false,
                true => {}
                false => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }

    /// Takes the follow-ups back that the runner had not finished; `None` when that fails.
    async fn claim_back(&self) -> Option<Vec<LeftInput>> {
        // Its batches count as taken then: nothing is said twice.
        let boxes = self.runs.boxes.of(&self.group).ok()?;
        let kept = self.runs.kept_input(self.run);
        let claiming = self.runs.machine.world.blocking(move || boxes.claim_back_inputs(&kept));
        match claiming.await.ok()? {
            Ok(left) => Some(
                left.into_iter()
                    .filter_map(|input| {
                        let taken = input.state != InputState::Unread;
                        Some(LeftInput { batch: input.batch_id.parse().ok()?, taken })
                    })
                    .collect(),
            ),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "claiming input back failed; its batches count as taken");
                None
            }
        }
    }
}

/// Ends a run on record whose container is known to be gone, or that never had one.
pub(in crate::loops) async fn end_without_container(runs: &Arc<Runs>, active: &ActiveRun, ending: Ending) {
    let mut watched = Watched::new(runs, &active.group, active.id);
    // Those who asked for the end read the waiting work of its group.
    let _ = watched.end(ending).await;
}
