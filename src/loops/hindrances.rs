//! Sees what kept groups' runs from their work put right: another key, an image that is there. Then what rests for it is tried
//! again at once. Without that it is tried again when its rest is over.

use std::{sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::{task::spawn_blocking, time::sleep};

use super::Runs;
use crate::{
    domain::{
        host::{errors::chain, feed::EventKind},
        runs::{
            hindrance::Hindrance,
            lanes::{Event, LaneId},
        },
    },
    store::StoreError,
    system::clock,
};

/// How often it is looked while something rests.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What is taken to be put right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    /// Anything: nobody has looked since the last daemon.
    Perhaps,
    Seen,
}

/// Runs until the daemon stops.
pub async fn run(runs: Arc<Runs>) {
    let (mut right, mut has_failed) = (Right::Perhaps, false);
    let mut feed = runs.store.follow_kinds(&[EventKind::Run]).await;
    loop {
        let rests = match look(&runs, right).await {
            Ok(rests) => {
                (right, has_failed) = (Right::Seen, false);
                rests
            }
            Err(error) => {
                // Said once, however long the store is in the way.
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::error!(error = %chain(&error), "looking for what keeps runs from their work failed; it is tried again");
                }
                true
            }
        };
        tokio::select! {
            () = runs.stop.cancelled() => return,
            _ = feed.next() => {}
            () = sleep(LOOK_AGAIN), if rests => {}
        }
    }
}

/// Has what is put right tried again. Returns whether something rests still.
async fn look(runs: &Arc<Runs>, right: Right) -> Result<bool, StoreError> {
    let mut rests = false;
    for row in runs.store.hindrances()? {
        if row.until <= clock::now() {
            continue;
        }
        if right == Right::Perhaps || is_right(runs, &row.group, row.what).await? {
            tracing::info!(group = %row.group, what = %row.what, "what kept a group's runs from their work may be put right; it is tried again");
            for lane in runs.store.try_again(&row.group, clock::now()).await? {
                let _ = runs.lanes.send(Event::Woken { group: row.group.clone(), lane: LaneId(lane) });
            }
        } else {
            rests = true;
        }
    }
    Ok(rests)
}

/// Whether it is seen to be put right.
async fn is_right(runs: &Arc<Runs>, group: &Folder, what: Hindrance) -> Result<bool, StoreError> {
    match what {
        Hindrance::NoKey | Hindrance::Key | Hindrance::NotAllowed | Hindrance::NoCredit => {
            let gateway = Arc::clone(&runs.gateway);
            Ok(spawn_blocking(move || gateway.has_another_key()).await.unwrap_or(false))
        }
        Hindrance::NoImage => {
            let Some(group) = runs.store.group(group).await? else { return Ok(false) };
            let settings = runs.config.now().run_settings().for_group(&group);
            let Ok((settings, _)) = settings else { return Ok(false) };
            Ok(runs.sandbox.check(&settings.image).await.is_ok())
        }
        Hindrance::Engine => Ok(false),
    }
}
