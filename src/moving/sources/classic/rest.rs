//! Archives, tasks, and runs of tasks.

use std::collections::BTreeMap;

use ipc_handlers::{
    Folder, ScheduleKind, TaskStatus, Time,
    effect::{CatchUp, ContextMode, OutputMode},
    names::is_session_id,
    schedule::Schedule,
};

use super::{
    super::parts::{folder, jid, key, keyed, name},
    Classic,
    talk::{short, told_of},
    told,
};
use crate::{
    domain::{
        moved::{
            findings::{Finding, NotTaken},
            rows::{Archive, Kind, Row, Run, Task},
        },
        states::{RunKind, RunStatus, SandboxName, TaskOrigin},
    },
    moving::{
        foreign::{Foreign, Read},
        moment,
        source::{Batch, MOST_ROWS},
    },
};

/// As many tasks are known.
const MOST_TASKS: usize = 200_000;

impl Classic {
    /// Yields a page of archives; returns where the next one begins.
    pub(super) fn archives(&mut self, table: &str, after: i64, out: &mut Batch) -> Option<i64> {
        let columns = ["id", "group_folder", "session_id", "name", "content", "archived_at"];
        let page = self.store.page(table, &columns, after, 50);
        told(table, &page, Kind::Archive, &mut out.findings);
        for row in &page.rows {
            let at = told_of(table, row, row.text("name"));
            let Some(group) =
                folder(&row.text("group_folder").unwrap_or_default(), Kind::Archive, &at, &mut out.findings)
            else {
                continue;
            };
            let session = row.text("session_id").unwrap_or_default();
            let why = if row.too_long {
                "it is longer than an archive is"
            } else if !is_session_id(&session) {
                "its session has no id that an agent takes"
            } else if !self.registry.has(&group) {
                "no group of this folder is registered"
            } else {
                let number = row.number;
                let row = Archive {
                    name: name(row.text("name"), &session),
                    group,
                    session,
                    content: row.text("content").unwrap_or_default(),
                    archived_at: row
                        .text("archived_at")
                        .and_then(|at| moment::read(&at, &self.zone))
                        .unwrap_or(self.now),
                };
                out.rows.push(keyed(format!("{table} {number}"), Row::Archive(row)));
                continue;
            };
            out.findings.push(Finding::left(Kind::Archive, at, why));
        }
        page.next
    }

    /// Yields a page of tasks; returns where the next one begins.
    pub(super) fn tasks(&mut self, after: i64, out: &mut Batch) -> Option<i64> {
        let columns = [
            "id",
            "group_folder",
            "chat_jid",
            "prompt",
            "schedule_type",
            "schedule_value",
            "next_run",
            "last_run",
            "last_result",
            "status",
            "created_at",
            "context_mode",
            "script",
        ];
        let page = self.store.page("scheduled_tasks", &columns, after, 100);
        told("scheduled_tasks", &page, Kind::Task, &mut out.findings);
        for row in &page.rows {
            match self.task(row, &mut out.findings) {
                Ok(task) => out.rows.push(keyed(task.id.clone(), Row::Task(Box::new(task)))),
                Err(why) => {
                    let at = told_of("scheduled_tasks", row, row.text("id"));
                    out.findings.push(Finding::left(Kind::Task, at, why));
                }
            }
        }
        page.next
    }

    fn task(&self, row: &Read, findings: &mut Vec<Finding>) -> Result<Task, NotTaken> {
        if row.too_long {
            return Err("it is longer than a task is".into());
        }
        let id = key(row.text("id"))?;
        if id.len() > 128 {
            return Err("its id is longer than one is".into());
        }
        let group = row.text("group_folder").unwrap_or_default();
        let group = Folder::parse(&group).map_err(|invalid| invalid.why())?;
        if !self.registry.has(&group) {
            return Err("no group of this folder is registered".into());
        }
        let text = |column| row.text(column).unwrap_or_default();
        let time = |column| row.text(column).and_then(|at| moment::read(&at, &self.zone));
        let kind = text("schedule_type");
        let schedule_type = ScheduleKind::from_name(&kind)
            .ok_or_else(|| format!("it has a schedule of the kind {:?}", short(&kind)))?;
        let schedule_value = text("schedule_value");
        let status = match text("status").as_str() {
            "paused" => TaskStatus::Paused,
            "completed" => TaskStatus::Completed,
            _ => TaskStatus::Active,
        };
        let mut next_run = time("next_run");
        if status != TaskStatus::Completed {
            let schedule = Schedule::parse(&kind, &schedule_value, &self.zone, self.now);
            let schedule = schedule.map_err(|refusal| refusal.message)?;
            if next_run.is_none() {
                next_run = schedule.first_run(self.now, &self.zone);
                let why = "its next time was lost; it is reckoned anew";
                findings.push(Finding::changed(Kind::Task, id.as_str(), why));
            }
        }
        Ok(Task {
            chat: jid(row.text("chat_jid"))?,
            prompt: text("prompt"),
            script: row.text("script").filter(|script| !script.is_empty()),
            context_mode: if text("context_mode") == "group" {
                ContextMode::Group
            } else {
                ContextMode::Isolated
            },
            catch_up: CatchUp::Latest,
            catch_up_window_ms: None,
            // What a task said went to its chat.
            output: OutputMode::Chat,
            origin: TaskOrigin::Asked,
            last_run: time("last_run"),
            last_result: row.text("last_result"),
            paused_for: None,
            created_at: time("created_at").unwrap_or(self.now),
            id,
            group,
            schedule_type,
            schedule_value,
            status,
            next_run,
        })
    }

    /// Yields a page of runs; returns where the next one begins.
    pub(super) fn runs(&mut self, after: i64, out: &mut Batch) -> Option<i64> {
        let columns = ["id", "task_id", "run_at", "duration_ms", "status", "result", "error"];
        let page = self.store.page("task_run_logs", &columns, after, 200);
        told("task_run_logs", &page, Kind::Run, &mut out.findings);
        for row in &page.rows {
            match self.run(row) {
                Ok(run) => {
                    out.rows.push(keyed(format!("task_run_logs {}", row.number), Row::Run(Box::new(run))))
                }
                Err(why) => {
                    let at = told_of("task_run_logs", row, row.text("task_id"));
                    out.findings.push(Finding::left(Kind::Run, at, why));
                }
            }
        }
        page.next
    }

    fn run(&mut self, row: &Read) -> Result<Run, NotTaken> {
        if row.too_long {
            return Err("it is longer than a run is".into());
        }
        let task = key(row.text("task_id"))?;
        let (group, chat) = self.of_task(&task).ok_or("its task is gone")?;
        let ended_at =
            row.text("run_at").and_then(|at| moment::read(&at, &self.zone)).ok_or("its time is none")?;
        let took = row.int("duration_ms").unwrap_or(0).clamp(0, 86_400_000);
        let started_at = Time((ended_at.0 - took).max(0));
        Ok(Run {
            group,
            chat,
            thread: String::new(),
            kind: RunKind::Task,
            task: Some(task),
            // Its program notes no other time.
            slot: Some(started_at),
            attempt: 1,
            status: if row.text("status").as_deref() == Some("success") {
                RunStatus::Succeeded
            } else {
                RunStatus::Failed
            },
            sandbox: SandboxName::Docker,
            created_at: started_at,
            started_at: Some(started_at),
            ended_at,
            error: row.text("error"),
            result: row.text("result"),
        })
    }

    /// The group and the chat of a task.
    fn of_task(&mut self, id: &str) -> Option<(Folder, String)> {
        let (store, owners) = (&self.store, &mut self.owners);
        owners.get_or_insert_with(|| owners_of(store)).get(id).cloned()
    }
}

/// Reads whose each task is.
fn owners_of(store: &Foreign) -> BTreeMap<String, (Folder, String)> {
    let (mut owners, mut after) = (BTreeMap::new(), i64::MIN);
    loop {
        let page = store.page("scheduled_tasks", &["id", "group_folder", "chat_jid"], after, MOST_ROWS);
        owners.extend(page.rows.iter().filter_map(|row| {
            let group = Folder::parse(&row.text("group_folder")?).ok()?;
            Some((row.text("id")?, (group, jid(row.text("chat_jid")).ok()?)))
        }));
        match page.next {
            // What is beyond has no runs here, and each of these is told.
            Some(next) if owners.len() < MOST_TASKS => after = next,
            Some(_) | None => return owners,
        }
    }
}
