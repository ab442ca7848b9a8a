//! Tasks: which are due, their start, and slots that come during their runs.

use std::sync::Arc;

use ipc_handlers::{Folder, Time};

use super::{Beginning, Dispatch, Event, Unread, awake, chain};
use crate::{
    store::{Started, TaskClock},
    system::failpoint,
};

impl Dispatch {
    pub(super) fn look_for_due_tasks(&mut self) {
        match self.runs.store.due_tasks(self.runs.machine.world.now()) {
            Ok(due) => {
                for (group, task) in due {
                    self.tell(Event::TaskDue { group, task });
                }
            }
            Err(error) => self.owe(Unread::Due, error),
        }
    }

    pub(super) async fn start_task(&mut self, group: Folder, task: String) {
        let runs = Arc::clone(&self.runs);
        let now = self.runs.machine.world.now();
        let clock = self.task_clock(now);
        let start = runs.store.start_task(&group, &task, runs.sandbox.kind(), &self.owner, clock, now).await;
        failpoint::reach("run.handed");
        let start = match start {
            Ok(start) => start,
            Err(error) => return self.could_not_start(group, &error),
        };
        awake::log(&group, &task, &start.passed);
        match start.what {
            Started::Run(handed) => {
                tracing::info!(group = %group, run = handed.run, task, "run queued");
                self.supervise(group, handed.run, Beginning::Task(handed));
            }
            Started::Paused { reason } => {
                tracing::warn!(group = %group, task, reason, "a task can't run and is paused");
                self.nothing_to_start(group, None);
            }
            Started::Passed | Started::NotDue => self.nothing_to_start(group, None),
        }
    }

    /// By which clocks tasks run now.
    fn task_clock(&mut self, now: Time) -> TaskClock {
        TaskClock {
            zones: self.runs.config.now().zones.clone(),
            up_since: self.awake.since(now, self.runs.machine.world.monotonic()),
            spacing_ms: self.runs.config.now().limits.catch_up_spacing_ms,
        }
    }

    /// Passes over the slots of tasks that have come while their runs are under way.
    pub(super) async fn skip_slots(&mut self) {
        let now = self.runs.machine.world.now();
        let clock = self.task_clock(now);
        let running: Vec<(Folder, String)> =
            self.live.iter().filter_map(|(group, live)| Some((group.clone(), live.task.clone()?))).collect();
        for (group, task) in running {
            match self.runs.store.skip_slots(&group, &task, &clock, now).await {
                Ok(passed) => awake::log(&group, &task, &passed),
                Err(error) => {
                    tracing::error!(group = %group, task, error = %chain(&error), "passing over a slot failed");
                }
            }
        }
    }
}
