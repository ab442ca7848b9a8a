//! The tasks that stand in a group's `HEARTBEAT.md`: they come and go with its lines.

use std::collections::BTreeMap;

use ipc_handlers::{
    Folder, NewTask,
    effect::{OutputMode, TaskChange},
};
use rusqlite::Connection;

use super::tasks;
use crate::domain::{
    runs::heartbeat::{Entry, Fault},
    time::zone::Zone,
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    stored::tasks_of,
    talk::groups::chats_of,
    work::receipts::{change_task, create_task},
};
use ipc_handlers::Time;

/// What a file's tasks have become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatSet {
    /// How many tasks were made, changed or removed.
    pub changed: usize,
    /// What could not be made.
    pub faults: Vec<Fault>,
}

impl Store {
    /// Returns the groups that have tasks of a `HEARTBEAT.md`.
    pub fn groups_with_heartbeat(&self) -> Result<Vec<Folder>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT DISTINCT group_folder FROM tasks INDEXED BY tasks_of_heartbeat WHERE origin = 'heartbeat'",
            )?
            .query_map([], |r| r.folder("group_folder"))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Makes the tasks of a group's `HEARTBEAT.md` those that it says now, for the chat that the group was wired to first. What
    /// has not changed stays as it is, so that to do this twice changes nothing.
    pub async fn set_heartbeat(
        &self,
        group: Folder,
        entries: Vec<Entry>,
        clock: Zone,
        now: Time,
    ) -> Result<HeartbeatSet> {
        let limits = self.bounds_now().tasks;
        self.write(move |c| {
            let mut set = HeartbeatSet::default();
            let Some(chat_jid) = chats_of(c, &group)?.into_iter().next() else {
                let why = format!("group {group} has no chat that its tasks could be for");
                set.faults.extend(entries.first().map(|entry| Fault { line: entry.line, why }));
                return Ok(set);
            };
            let mut known = known(c, &group)?;
            for entry in entries {
                let id = entry.id();
                let (kind, value) = (entry.schedule.kind(), entry.schedule.value());
                let same =
                    |old: &Known| (old.kind.as_str(), old.value.as_str()) == (kind.as_str(), value.as_str());
                let Some(next_run) = entry.schedule.first_run(now, &clock.zone) else { continue };
                let old = known.remove(&id);
                if old.as_ref().is_some_and(|old| same(old) && old.prompt == entry.prompt) {
                    continue;
                }
                let (count, bytes) = tasks_of(c, &group)?;
                let before = old.as_ref().map_or(0, |old| old.prompt.len() + old.value.len());
                let more = (entry.prompt.len() + value.len()).saturating_sub(before) as u64;
                if old.is_none() && count >= limits.count
                    || more > 0 && bytes + more > limits.bytes
                    || entry.prompt.len() > limits.prompt
                {
                    let why = format!(
                        "{:?} has no room: the group has as many tasks, or as much text, as it may have",
                        entry.name
                    );
                    set.faults.push(Fault { line: entry.line, why });
                    continue;
                }
                match old {
                    Some(old) => {
                        // A new schedule is a new slot. Whatever changed, the failures were those of the old lines.
                        let is_new = !same(&old);
                        let change = TaskChange {
                            prompt: Some(entry.prompt),
                            schedule: is_new.then_some(entry.schedule),
                            next_run: is_new.then_some(next_run),
                            afresh: true,
                            ..TaskChange::default()
                        };
                        if change_task(c, &group, &id, &change, &limits, &clock, now)?.is_err() {
                            let why = format!("the group has no task {id} any more");
                            set.faults.push(Fault { line: entry.line, why });
                            continue;
                        }
                    }
                    None => {
                        let new = NewTask {
                            id: Some(id.clone()),
                            group: group.clone(),
                            chat_jid: chat_jid.clone(),
                            prompt: entry.prompt,
                            schedule: entry.schedule,
                            context_mode: Default::default(),
                            script: None,
                            catch_up: Default::default(),
                            catch_up_window_ms: None,
                            output: OutputMode::Chat,
                            next_run,
                        };
                        if create_task(c, &new, &limits, &clock, now)?.is_err() {
                            let why = format!("the group has another task {id}");
                            set.faults.push(Fault { line: entry.line, why });
                            continue;
                        }
                        c.prepare_cached(
                            "UPDATE tasks SET origin = 'heartbeat' WHERE id = ?1 AND group_folder = ?2",
                        )?
                        .execute([id.as_str(), group.as_str()])?;
                    }
                }
                set.changed += 1;
            }
            for id in known.keys() {
                tasks::cancel(c, &group, id)?;
                set.changed += 1;
            }
            Ok(set)
        })
        .await
    }
}

/// A task of the file as it is stored.
struct Known {
    kind: String,
    value: String,
    prompt: String,
}

fn known(c: &Connection, group: &Folder) -> Result<BTreeMap<String, Known>> {
    Ok(c.prepare_cached(
        "SELECT id, schedule_type, schedule_value, prompt FROM tasks INDEXED BY tasks_of_heartbeat
         WHERE group_folder = ?1 AND origin = 'heartbeat'",
    )?
    .query_map([group.as_str()], |r| {
        let known = Known {
            kind: r.get("schedule_type")?,
            value: r.get("schedule_value")?,
            prompt: r.get("prompt")?,
        };
        Ok((r.get("id")?, known))
    })?
    .collect::<rusqlite::Result<_>>()?)
}
