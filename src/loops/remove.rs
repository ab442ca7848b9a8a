//! Removing a group while the daemon serves: its run leaves, its boxes are drained, then its rows and its boxes go.
//! Its folder under `groups/` stays, and so does what the agent keeps of its sessions.

use std::{sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{Host, control, ipc::Ask, ipc::chain};
use crate::{
    domain::lanes::{Event, Holding},
    store::StoreError,
};

/// How long a run may take to be stopped, once its grace for leaving is over.
const STOPPING: Duration = Duration::from_secs(20);

/// Removes a group. Nothing is started in it meanwhile, whatever waits there.
///
/// # Errors
/// A sentence: there is no such group, its run does not end, or the store can't.
pub(super) async fn group(host: &Arc<Host>, folder: &Folder) -> Result<(), String> {
    let _ = host.lanes.send(Event::Hold { group: folder.clone(), reason: Holding::Removal });
    let removed = remove(host, folder).await;
    // Whatever else it is held for, it stays held for.
    let _ = host.lanes.send(Event::Release { group: folder.clone(), reason: Holding::Removal });
    removed
}

async fn remove(host: &Arc<Host>, folder: &Folder) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_millis(host.config.health.close_grace_ms) + STOPPING;
    loop {
        if host.store.group(folder).map_err(|e| chain(&e))?.is_none() {
            return Err(format!("group {folder} does not exist"));
        }
        check_nothing_is_held(host, folder)?;
        let _ = host.lanes.send(Event::GroupRemoved { group: folder.clone() });
        wait_for_end(host, folder, deadline).await?;
        let (done, drained) = oneshot::channel();
        if host.mailboxes.send(Ask::Drain(folder.clone(), done)).is_ok() {
            let _ = drained.await;
        }
        match host.store.remove_group(folder.clone()).await {
            Ok(()) => break,
            // A message came in meanwhile and began another run.
            Err(StoreError::Refused(_)) if Instant::now() < deadline => {}
            Err(error) => return Err(chain(&error)),
        }
    }
    control::changed(host, Some(folder.clone())).await;
    Ok(())
}

/// What is held is not settled with the rest, and would be lost with its box.
fn check_nothing_is_held(host: &Host, folder: &Folder) -> Result<(), String> {
    let held = host.store.holds().map_err(|e| chain(&e))?.iter().any(|hold| hold.group == *folder);
    if held && crate::ipc::peek::waiting(host.dirs.path(), [folder], 1).map_err(|e| chain(&e))?.seen > 0 {
        return Err(format!(
            "commands of group {folder} are held; let them go with `g2 ipc release {folder}` or drop them, then remove the group"
        ));
    }
    Ok(())
}

async fn wait_for_end(host: &Host, folder: &Folder, deadline: Instant) -> Result<(), String> {
    let mut feed = host.store.follow().map_err(|e| chain(&e))?;
    while let Some(run) = host.store.active_run_of(folder).map_err(|e| chain(&e))? {
        if timeout_at(deadline, feed.next()).await.is_err() {
            return Err(format!(
                "group {folder} is still there: its run {run} does not end; see `g2 runs show {run}`"
            ));
        }
    }
    Ok(())
}
