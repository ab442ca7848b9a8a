//! Tasks, which are messages that are due later.

use ipc_handlers::{
    ScheduleKind, TaskStatus,
    effect::{CatchUp, ContextMode, OutputMode},
    schedule::Schedule,
};

use super::{
    super::parts::{key, keyed, read_json},
    NanoclawV2,
    content::text_of,
    sessions::Session,
};
use crate::{
    domain::{
        moved::{
            findings::{Finding, NotTaken},
            rows::{Kind, Row, Task},
        },
        states::TaskOrigin,
    },
    moving::{foreign::Read, moment, source::Batch},
};

/// As many tasks are taken of all sessions.
const MOST_TASKS: usize = 10_000;

impl NanoclawV2 {
    /// A task is a message that is due later; of one that comes again each occurrence is a row of its own.
    pub(super) fn task(&mut self, row: &Read, session: &Session, out: &mut Batch) {
        let status = match row.text("status").as_deref() {
            Some("pending" | "processing") | None => TaskStatus::Active,
            Some("paused") => TaskStatus::Paused,
            // What is over has no successor in this row.
            Some(_) => return,
        };
        let told = format!("{}: messages_in row {}", session.id, row.number);
        if self.tasks.len() >= MOST_TASKS {
            out.findings.push(Finding::left(
                Kind::Task,
                told,
                format!("there are more than {MOST_TASKS} tasks"),
            ));
            return;
        }
        match self.read_task(row, session, status, &mut out.findings) {
            Ok(task) => self.tasks.push_back(keyed(task.id.clone(), Row::Task(Box::new(task)))),
            Err(why) => out.findings.push(Finding::left(Kind::Task, told, why)),
        }
    }

    fn read_task(
        &self,
        row: &Read,
        session: &Session,
        status: TaskStatus,
        findings: &mut Vec<Finding>,
    ) -> Result<Task, NotTaken> {
        let id = key(row.text("series_id").or_else(|| row.text("id")))?;
        if id.len() > 128 {
            return Err("its id is longer than one is".into());
        }
        let (chat, _) = self.place(row, session)?;
        let content = row.text("content").unwrap_or_default();
        let read = read_json(&content).ok_or("its content is no JSON")?;
        let next_run = row.text("process_after").and_then(|at| moment::read(&at, &self.zone));
        let (schedule_type, schedule_value) = match row.text("recurrence").filter(|cron| !cron.is_empty()) {
            Some(cron) => (ScheduleKind::Cron, cron),
            None => (ScheduleKind::Once, next_run.unwrap_or(self.now).to_string()),
        };
        let schedule = Schedule::parse(schedule_type.as_str(), &schedule_value, &self.zone, self.now)
            .map_err(|refusal| refusal.message)?;
        let next_run = next_run.or_else(|| {
            let why = "its next time is not there, or none; it is reckoned anew";
            findings.push(Finding::changed(Kind::Task, id.as_str(), why));
            schedule.first_run(self.now, &self.zone)
        });
        Ok(Task {
            prompt: text_of(&read, &["prompt"]).ok_or("it has no prompt")?,
            script: text_of(&read, &["script"]),
            context_mode: ContextMode::Group,
            catch_up: CatchUp::Latest,
            catch_up_window_ms: None,
            output: OutputMode::Chat,
            origin: TaskOrigin::Asked,
            last_run: None,
            last_result: None,
            paused_for: None,
            created_at: row
                .text("timestamp")
                .and_then(|at| moment::read(&at, &self.zone))
                .unwrap_or(self.now),
            group: session.group.clone(),
            id,
            chat,
            schedule_type,
            schedule_value,
            status,
            next_run,
        })
    }
}
