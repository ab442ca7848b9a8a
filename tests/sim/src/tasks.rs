//! Tasks that come again: stopped by people once all is calm.

use g2::{
    domain::time::zone::Zones,
    store::{Store, Transcripts},
};
use ipc_handlers::{
    Caller, Command, Folder, Time,
    commands::{CancelTask, PauseTask},
};
use rusqlite::Connection;

/// Stops all tasks that come again: some are cancelled, some paused.
pub(crate) async fn stop(store: &Store, c: &Connection, zones: &Zones, now: Time) {
    let found: Vec<(i64, String, String)> = c
        .prepare("SELECT n, group_folder, id FROM tasks WHERE status = 'active' AND schedule_type <> 'once' ORDER BY n")
        .and_then(|mut rows| rows.query_map([], |r| Ok((r.get("n")?, r.get("group_folder")?, r.get("id")?)))?.collect())
        .unwrap_or_default();
    for (n, group, task_id) in found {
        let Ok(group) = Folder::parse(&group) else { continue };
        let command = match n % 3 {
            0 => Command::CancelTask(CancelTask { task_id, target_folder: None }),
            _ => Command::PauseTask(PauseTask { task_id, target_folder: None }),
        };
        let caller = Caller { group, is_main: false, run: None };
        // What can't be stopped now is stopped soon.
        let _ = store.act(caller, command, Transcripts::new(), zones.clone(), now).await;
    }
}
