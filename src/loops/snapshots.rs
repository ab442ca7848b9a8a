//! The files in which an agent reads the state of things: `current_tasks.json`, `available_groups.json`,
//! `session_history.json`, as v1 wrote them. Written atomically, each from a state that was read after its turn came.

use std::{sync::Arc, time::Duration};

use ipc_handlers::{Folder, TaskRow};
use tokio::sync::Mutex;

use super::Host;
use crate::clock;

/// One writer at a time, so that an older state never lands on a newer one.
static TURN: Mutex<()> = Mutex::const_new(());

/// How long main's snapshot may lag behind the runs of tasks, which may be many at once.
const LAG: Duration = Duration::from_millis(500);

/// Writes the snapshots of tasks of `group`, and of main, which sees every group's.
pub async fn tasks_changed(host: &Arc<Host>, group: &Folder) {
    write(host, group).await;
    if let Some(main) = main_group(host).filter(|main| main != group) {
        write(host, &main).await;
    }
}

/// A task of `group` has run. Main's snapshot follows a little later, once for all that ran meanwhile.
pub(super) async fn task_ran(host: &Arc<Host>, group: &Folder) {
    write(host, group).await;
    host.nudges.tasks_ran.notify_one();
}

/// Keeps main's snapshot up with the tasks that run. Runs until the daemon stops.
pub async fn run(host: Arc<Host>) {
    loop {
        tokio::select! {
            () = host.stop.cancelled() => return,
            () = host.nudges.tasks_ran.notified() => {}
        }
        if let Some(main) = main_group(&host) {
            write(&host, &main).await;
        }
        tokio::select! {
            () = host.stop.cancelled() => return,
            () = tokio::time::sleep(LAG) => {}
        }
    }
}

fn main_group(host: &Host) -> Option<Folder> {
    match host.store.groups() {
        Ok(groups) => groups.into_iter().find(|g| g.is_main).map(|g| g.folder),
        Err(error) => {
            tracing::error!(%error, "reading the groups for a snapshot failed");
            None
        }
    }
}

/// Writes the snapshots of every group.
pub async fn write_all(host: &Arc<Host>) {
    match host.store.groups() {
        Ok(groups) => {
            for group in groups {
                write(host, &group.folder).await;
            }
        }
        Err(error) => tracing::error!(%error, "reading the groups for their snapshots failed"),
    }
}

/// Writes all snapshots of a group. What fails is logged: a command that was applied stays applied.
pub async fn write(host: &Arc<Host>, group: &Folder) {
    let _turn = TURN.lock().await;
    let (host, group) = (Arc::clone(host), group.clone());
    let written = tokio::task::spawn_blocking(move || write_now(&host, &group)).await;
    if let Ok(Err(error)) = written {
        tracing::error!(error, "writing a snapshot failed");
    }
}

fn write_now(host: &Host, group: &Folder) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let Some(row) = host.store.group(group).map_err(|e| text(&e))? else { return Ok(()) };
    let boxes = host.boxes(group).map_err(|e| text(&e))?;
    let scope = (!row.is_main).then_some(group);
    let tasks: Vec<TaskRow> =
        host.store.tasks(scope).map_err(|e| text(&e))?.into_iter().map(TaskRow::from).collect();
    let put = |name: &str, value: &serde_json::Value| {
        let bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
        boxes.write_snapshot(name, &bytes).map_err(|e| text(&e))
    };
    put("current_tasks.json", &serde_json::json!(tasks))?;
    let groups = if row.is_main { host.store.available_groups().map_err(|e| text(&e))? } else { Vec::new() };
    put(
        "available_groups.json",
        &serde_json::json!({ "groups": groups, "lastSync": clock::now().to_string() }),
    )?;
    let history = host.store.session_history(group).map_err(|e| text(&e))?;
    put("session_history.json", &serde_json::json!(history))
}
