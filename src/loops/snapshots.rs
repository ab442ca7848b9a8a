//! The files in which an agent reads the state of things: `current_tasks.json`, `available_groups.json`,
//! `session_history.json`, as v1 wrote them. Written atomically, each from a state that was read after its turn came.
//!
//! What somebody waits for is written at once; the rest [`soon`](Snapshots::soon), once for all changes until then: a
//! list that many commands change is not written for each of them. However much there is to show, none is larger than
//! `LARGEST`, or main's list of tasks than `LARGEST_OF_MAIN`.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ipc_handlers::{Folder, shown::AvailableGroups};
use serde::ser::{SerializeSeq as _, Serializer as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Host, ipc::chain};
use crate::{clock, store::StoreError};

/// Which of a group's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    Tasks,
    All,
}

/// Which snapshots are to be written, and whose turn it is.
#[derive(Default)]
pub struct Snapshots {
    /// One writer at a time per group, so that an older state never lands on a newer one.
    turns: Mutex<BTreeMap<Folder, Arc<Mutex<()>>>>,
    wanted: Mutex<BTreeMap<Folder, Shown>>,
    nudge: Notify,
}

impl Snapshots {
    /// Has snapshots of a group written in a moment.
    pub fn soon(&self, group: &Folder, shown: Shown) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = wanted.entry(group.clone()).or_insert(shown);
        *known = shown.max(*known);
        drop(wanted);
        self.nudge.notify_one();
    }

    fn turn(&self, group: &Folder) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(group.clone()).or_default())
    }
}

/// How large a snapshot is at most, bytes.
const LARGEST: u64 = 1 << 20;
/// How large main's list of tasks is at most, bytes: it shows every group's.
const LARGEST_OF_MAIN: u64 = 8 << 20;
/// For every second of writing what nobody waits for, so many of leaving the disk to others.
const LEISURE: u32 = 9;
/// However long a list is, the rest after it is no longer.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Writes what is wanted soon, until `stop`. Whatever is wanted then is written first.
pub async fn run(host: Arc<Host>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = host.snapshots.nudge.notified() => {}
            () = stop.cancelled() => {}
        }
        let wanted =
            std::mem::take(&mut *host.snapshots.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        let last = stop.is_cancelled();
        for (group, shown) in wanted {
            let began = clock::monotonic();
            write(&host, &group, shown).await;
            let rest = (began.elapsed() * LEISURE).min(LONGEST_REST);
            if !last && !stop.is_cancelled() {
                tokio::time::sleep(rest).await;
            }
        }
        if last {
            return;
        }
    }
}

/// Writes all snapshots of `group`, and of main, which sees every group's.
pub async fn changed(host: &Arc<Host>, group: &Folder) {
    write(host, group, Shown::All).await;
    match host.store.main_group() {
        Ok(main) => {
            if let Some(main) = main.filter(|main| main != group) {
                write(host, &main, Shown::All).await;
            }
        }
        Err(error) => tracing::error!(error = %chain(&error), "finding main for a snapshot failed"),
    }
}

/// Has the lists of tasks of `group`, and of main, written in a moment.
pub(super) fn tasks_changed_soon(host: &Host, group: &Folder) {
    host.snapshots.soon(group, Shown::Tasks);
    show_main(host, group);
}

/// Has the tasks of a group, which changed, shown to main in a moment.
fn show_main(host: &Host, group: &Folder) {
    match host.store.main_group() {
        Ok(main) => {
            if let Some(main) = main.filter(|main| main != group) {
                host.snapshots.soon(&main, Shown::Tasks);
            }
        }
        Err(error) => tracing::error!(error = %chain(&error), "finding main for a snapshot failed"),
    }
}

/// Writes the snapshots of every group.
pub async fn write_all(host: &Arc<Host>) {
    match host.store.groups() {
        Ok(groups) => {
            for group in groups {
                write(host, &group.folder, Shown::All).await;
            }
        }
        Err(error) => {
            tracing::error!(error = %chain(&error), "reading the groups for their snapshots failed")
        }
    }
}

/// Writes snapshots of a group. What fails is logged: a command that was applied stays applied.
pub async fn write(host: &Arc<Host>, group: &Folder, shown: Shown) {
    let (host, group) = (Arc::clone(host), group.clone());
    let _ = tokio::task::spawn_blocking(move || write_now(&host, &group, shown)).await;
}

/// Writes snapshots of a group, on a thread that may block.
pub fn write_now(host: &Host, group: &Folder, shown: Shown) {
    let turn = host.snapshots.turn(group);
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = put_all(host, group, shown) {
        tracing::error!(group = %group, error, "writing a snapshot failed");
    }
}

fn put_all(host: &Host, group: &Folder, shown: Shown) -> Result<(), String> {
    let store = |error: StoreError| chain(&error);
    let Some(row) = host.store.group(group).map_err(store)? else { return Ok(()) };
    let boxes = host.boxes(group).map_err(|e| chain(&e))?;
    let scope = (!row.is_main).then_some(group);
    boxes
        .write_snapshot_with("current_tasks.json", |file| {
            // Row by row, as many as have room: of each group as much in the list of main, which holds every group's.
            let mut json = serde_json::Serializer::pretty(file);
            let mut list = json.serialize_seq(None)?;
            let mut failed = Ok(());
            let room = if row.is_main { LARGEST_OF_MAIN } else { LARGEST };
            let read = host.store.each_shown_task(scope, room, |task| {
                failed = list.serialize_element(&task);
                failed.is_ok()
            });
            failed?;
            read.map_err(io::Error::other)?;
            Ok(list.end()?)
        })
        .map_err(|e| chain(&e))?;
    if shown == Shown::Tasks {
        return Ok(());
    }
    let (groups, more) =
        if row.is_main { host.store.available_groups(LARGEST).map_err(store)? } else { (Vec::new(), 0) };
    let groups =
        AvailableGroups { groups, more: Some(more).filter(|more| *more > 0), last_sync: clock::now() };
    let bytes = serde_json::to_vec_pretty(&groups).unwrap_or_default();
    boxes.write_snapshot("available_groups.json", &bytes).map_err(|e| chain(&e))?;
    let history = host.store.session_history(group, LARGEST).map_err(store)?;
    let bytes = serde_json::to_vec_pretty(&history).unwrap_or_default();
    boxes.write_snapshot("session_history.json", &bytes).map_err(|e| chain(&e))
}
