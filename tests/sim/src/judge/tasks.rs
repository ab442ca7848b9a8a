//! Tasks that come again: each instant has one run, or the store says why it has none.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Schedule, Time};

use super::{Case, rows};
use crate::{Asked, Wants, agent::is_answer};

/// A run of a task.
struct Run {
    id: i64,
    slot: i64,
    attempt: i64,
    is_done: bool,
    is_begun: bool,
}

pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    for command in case.asked {
        if let Wants::Tasks(token) = &command.wants {
            judge_task(case, command, token, broken);
        }
    }
}

fn judge_task(case: &Case<'_>, command: &Asked, token: &str, broken: &mut Vec<String>) {
    let id = &command.request;
    let runs: Vec<Run> = rows(
        case.c,
        "SELECT id, slot, attempt, status = 'succeeded' AS done, started_at IS NOT NULL AS begun FROM runs WHERE source = 'task:' || ?1 AND group_folder = ?2 ORDER BY id",
        [id, &command.group],
        |r| {
            Ok(Run {
                id: r.get("id")?,
                slot: r.get("slot")?,
                attempt: r.get("attempt")?,
                is_done: r.get("done")?,
                is_begun: r.get("begun")?,
            })
        },
    );
    let mut of_slots: BTreeMap<i64, Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        of_slots.entry(run.slot).or_default().push(run);
    }
    for (slot, runs) in &of_slots {
        let at = Time(*slot);
        let done = runs.iter().filter(|run| run.is_done).count();
        if done > 1 {
            broken.push(format!("the task {id} is done {done} times for {at}"));
        }
        let begun = || runs.iter().filter(|run| run.is_begun);
        let tries: BTreeSet<i64> = begun().map(|run| run.attempt).collect();
        if tries.len() < begun().count() {
            broken.push(format!("a try of the task {id} for {at} is made twice"));
        }
        let said: BTreeSet<i64> = runs
            .iter()
            .flat_map(|run| rows(case.c, "SELECT id FROM outbox WHERE run_id = ?1", [run.id], |r| r.get(0)))
            .collect();
        let answers = case.shown.iter().filter(|(kind, shown)| {
            case.counts(kind) && said.contains(&shown.row) && is_answer(&shown.text, token)
        });
        let answers = answers.count();
        if answers > 1 {
            broken.push(format!("the task {id} is answered {answers} times for {at}"));
        }
    }
    // Where the clock was set, instants are found anew.
    if case.plan.jumps.is_empty() {
        judge_instants(case, command, &of_slots.keys().copied().collect(), broken);
    }
}

/// Each run is for an instant, and each instant before the pause has a run, or was passed over for a reason.
fn judge_instants(case: &Case<'_>, command: &Asked, slots: &BTreeSet<i64>, broken: &mut Vec<String>) {
    let id = &command.request;
    let task: Vec<(String, String, i64, Option<i64>)> = rows(
        case.c,
        "SELECT schedule_type, schedule_value, created_at, coalesce(slot, next_run) AS open FROM tasks WHERE id = ?1 AND group_folder = ?2",
        [id, &command.group],
        |r| Ok((r.get("schedule_type")?, r.get("schedule_value")?, r.get("created_at")?, r.get("open")?)),
    );
    let [(kind, value, made, open)] = &task[..] else { return };
    let zone = Folder::parse(&command.group).ok().and_then(|group| case.zones.get(&group));
    let Some(zone) = zone.map(|zone| &zone.zone) else { return };
    let Ok(schedule) = Schedule::parse(kind, value, zone, Time(*made)) else {
        broken.push(format!("the schedule of the task {id} can't be read: {kind} {value}"));
        return;
    };
    let last = open.unwrap_or(case.now.0);
    let instants: BTreeSet<i64> = schedule
        .instants(Time(*made), zone)
        .map(|at| at.0)
        .take_while(|at| *at <= last)
        .take(10_000)
        .collect();
    for slot in slots.iter().filter(|slot| **slot <= last && !instants.contains(*slot)) {
        broken.push(format!("the task {id} ({value}) ran for {}, when it was not due", Time(*slot)));
    }
    let passed: Vec<(i64, i64)> = rows(
        case.c,
        "SELECT first, last FROM slots WHERE task = ?1 AND group_folder = ?2",
        [id, &command.group],
        |r| Ok((r.get("first")?, r.get("last")?)),
    );
    for at in instants.iter().filter(|at| **at < last && !slots.contains(*at)) {
        if !passed.iter().any(|(first, last)| (first..=last).contains(&at)) {
            broken.push(format!("the task {id} ({value}) was due at {}, and nothing tells of it", Time(*at)));
        }
    }
}
