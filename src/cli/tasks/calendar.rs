//! `g2 tasks calendar`: what runs when.

use clap::Args;
use ipc_handlers::{Folder, Schedule, TaskStatus};
use serde_json::{Value, json};

use super::{
    super::{CliResult, Context, out, show},
    Words,
};
use crate::domain::{
    rows::TaskSlot,
    runs::calendar::{self, Planned, calendar},
};

/// How many rows are shown at most: agents can make tasks with very many.
const MOST: usize = 10_000;
/// In how many rows of a task's history its last run is looked for.
const LOOKED_AT: usize = 24;

#[derive(Debug, Args)]
pub(in crate::cli) struct Calendar {
    /// Number of days, 1 to 366
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
    /// Only tasks of this group, by its folder
    #[arg(long)]
    group: Option<Folder>,
    /// Show only the soonest N, at most 10000
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Calendar {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        let config = context.config()?;
        let tasks = store.tasks(self.group.as_ref(), None)?;
        super::check_group(&store, &tasks, self.group.as_ref()).await?;
        let now = context.world.now();
        let mut words = Words::new(context);
        let (mut planned, mut names) = (Vec::new(), Vec::new());
        for task in &tasks {
            let (Some(next), TaskStatus::Active) = (task.next_run, task.status) else { continue };
            let Some(zone) = words.zone(&store, &task.group).await? else { continue };
            let (kind, value) = (task.schedule_type.as_str(), &task.schedule_value);
            let Ok(schedule) = Schedule::parse(kind, value, &zone.zone, now) else { continue };
            names.push(schedule.in_words(&zone.zone, &zone.name));
            let took = |run: &TaskSlot| Some(run.ended_at?.ms_since(run.started_at?));
            let newest = store.task_history(&task.group, &task.id, Some(LOOKED_AT))?;
            let took_ms = newest.iter().rev().find_map(took).unwrap_or(0);
            let (group, id) = (task.group.clone(), task.id.clone());
            planned.push(Planned { group, id, schedule, zone: zone.zone, next, took_ms });
        }
        let until = now.plus_ms(i64::from(self.days) * 86_400_000);
        let calendar::Calendar { entries, more } = calendar(&planned, now, until, MOST);
        let shown = self.limit.unwrap_or(MOST).min(entries.len());
        let rows: Vec<Value> = entries[..shown]
            .iter()
            .map(|entry| {
                let task = &planned[entry.task];
                // One clock for all: the user's.
                let local = entry.at.to_jiff().to_zoned(config.zone.zone.clone());
                let named = entry.overlaps.iter().map(|task| planned[*task].id.as_str());
                let dots = (entry.overlaps_more && !context.json).then_some("…");
                let overlaps: Vec<&str> = named.chain(dots).collect();
                json!({
                    "local": local.strftime("%a %Y-%m-%d %H:%M").to_string(),
                    "utc": entry.at.to_string(),
                    "group": task.group,
                    "task": task.id,
                    "schedule": names[entry.task],
                    "note": if entry.often { Some("and so on".to_owned()) } else { task.schedule.note(entry.at, &task.zone) },
                    "overlaps": overlaps,
                    "overlaps_more": entry.overlaps_more,
                })
            })
            .collect();
        show::rows(context, &rows, &["local", "group", "task", "~schedule", "-overlaps", "-note"])?;
        if more || shown < entries.len() {
            out::tell(format!("these are the soonest {}; --group and --days show others", rows.len()));
        }
        Ok(())
    }
}
