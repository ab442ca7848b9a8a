//! Scheduled prompts.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Schedule, ScheduleKind, TaskRow, TaskStatus, Time, facts::TaskFacts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    rows::Task,
    runs::{
        judge,
        slots::WINDOW_MS,
        tasks::{Candidate, TEXT_SHOWN, VALUE_SHOWN, WORDS_SHOWN, page, select, shown, shown_reason},
    },
    time::{
        clocks::{Clocks, Stands},
        zone::{Zone, Zones},
    },
};
use crate::store::{
    Result, Store, StoreError, at_most,
    columns::Columns as _,
    crossing::said::{Key, said},
    oldest_first,
    talk::{groups::zone_of, outbox::Say},
    work::runs::ActiveRun,
};

impl Store {
    /// Returns tasks in the order in which they were made, of one group or all; with `limit`, the newest ones.
    pub fn tasks(&self, group: Option<&Folder>, limit: Option<usize>) -> Result<Vec<Task>> {
        self.read(|c| tasks(c, group, limit))
    }

    /// Shows tasks as agents see them, newest first, of one group or all, until `visit` says `false`: as many as have room
    /// in `room` bytes of JSON, of each group as much.
    pub fn each_shown_task(
        &self,
        group: Option<&Folder>,
        room: u64,
        zones: &Zones,
        mut visit: impl FnMut(TaskRow) -> bool,
    ) -> Result<()> {
        self.read(|c| {
            // One transaction, so that the rows that were chosen are the ones that are read.
            let c = c.unchecked_transaction()?;
            let mut groups: BTreeMap<Folder, Vec<Candidate>> = BTreeMap::new();
            let mut weights = c.prepare_cached(if group.is_some() { OF_GROUP } else { OF_ALL_GROUPS })?;
            let mut rows = weights.query(params![group.map(Folder::as_str), i64::MAX])?;
            while let Some(row) = rows.next()? {
                let candidate = Candidate { n: row.get("n")?, bytes: row.get("bytes")? };
                groups.entry(row.folder("group_folder")?).or_default().push(candidate);
            }
            let selection = select(&groups, room);
            let mut words = Words::new(&c, zones);
            for n in selection.rows {
                let Some(mut row) = shown_row(&c, n, selection.text, &mut words)? else { continue };
                row.more = selection.left_out.get(&n).copied().unwrap_or(0);
                if !visit(row) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns one task of a group.
    pub fn task(&self, group: &Folder, id: &str) -> Result<Option<Task>> {
        self.read(|c| task(c, group, id))
    }

    /// Returns the groups that have a task of this id, or had one that ran.
    pub fn groups_of_task(&self, id: &str) -> Result<Vec<Folder>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT group_folder FROM tasks WHERE id = ?1 UNION SELECT group_folder FROM runs WHERE for_task = ?1 ORDER BY 1",
            )?
            .query_map([id], |r| r.folder(0))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns when the next task that is not due yet will be.
    pub fn next_due(&self, after: Time) -> Result<Option<Time>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT min(next_run) FROM tasks WHERE status = 'active' AND next_run > ?1")?
                .query_row([after.0], |r| r.get::<_, Option<i64>>(0))?
                .map(Time))
        })
    }
}

impl Store {
    /// Has a task of a group run now. A paused one, or one whose run is under way, is refused. What it was to try again, or to
    /// make up for, it does now.
    pub async fn run_task_now(&self, group: &Folder, id: &str, now: Time) -> Result<()> {
        let (group, id) = (group.clone(), id.to_owned());
        self.write(move |c| {
            let status = status(c, &group, &id)?.ok_or_else(|| StoreError::NotFound { what: "task", id: id.clone() })?;
            let running: bool = c
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_one_per_group WHERE for_task = ?1 AND group_folder = ?2 AND status IN ('queued', 'running'))")?
                .query_row([id.as_str(), group.as_str()], |r| r.get(0))?;
            if running {
                return Err(StoreError::refused(format!("task {id} is running already"), format!("see `g2 tasks history {id}`")));
            }
            if status == TaskStatus::Paused {
                return Err(StoreError::refused(format!("task {id} is paused"), format!("resume it with `g2 tasks resume {id}`")));
            }
            c.prepare_cached("UPDATE tasks SET status = 'active', next_run = ?3, asked_slot = ?3, tries = 0, free_returns = 0, held_up_since = NULL, rest_until = NULL WHERE id = ?1 AND group_folder = ?2")?
                .execute(params![id, group.as_str(), now.0])?;
            Ok(())
        })
        .await
    }

    /// Returns what changed about the clocks since they were noted last: the name of everybody's zone, the `stamp` of the zone
    /// data, or a clock that shows less than at the end of the newest run. In a new store, nothing.
    pub fn clocks_changed(&self, zone: &str, stamp: &str, now: Time) -> Result<Option<Clocks>> {
        self.read(|c| {
            let noted = |key: &str| -> Result<Option<String>> {
                let mut value = c.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
                Ok(value.query_row([key], |r| r.get(0)).optional()?)
            };
            let newest: Option<i64> = c
                .prepare_cached("SELECT max(ended_at) FROM runs WHERE ended_at IS NOT NULL")?
                .query_row([], |r| r.get(0))?;
            Ok(match (noted("zone")?, noted("zone_data")?) {
                (None, _) => None,
                (Some(name), _) if name != zone => Some(Clocks::Zone),
                _ if newest.is_some_and(|newest| newest > now.0) => Some(Clocks::SetBack),
                (Some(_), data) => (data.as_deref() != Some(stamp)).then_some(Clocks::Data),
            })
        })
    }

    /// Notes by which clocks tasks run, once all are in step with them.
    pub async fn note_clocks(&self, zone: &str, stamp: &str) -> Result<()> {
        let noted = [("zone", zone.to_owned()), ("zone_data", stamp.to_owned())];
        self.write(move |c| {
            for (key, value) in noted {
                c.execute(
                    "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2 WHERE value <> ?2",
                    [key, &value],
                )?;
            }
            Ok(())
        })
        .await
    }

    /// Finds anew when tasks run next, after their clocks changed: of a few tasks, so that others can write in between.
    /// Begins after row `after`; returns where to go on.
    pub async fn read_clocks(
        &self,
        changed: Clocks,
        zones: Zones,
        after: i64,
        now: Time,
    ) -> Result<Option<i64>> {
        self.write(move |c| read_clocks_again(c, None, changed, &zones, after, now)).await
    }
}

/// Has a task rest, as its runs were killed: the occurrence that comes next is put off. Its chat is told so once.
pub(in crate::store) fn rest(
    c: &Connection,
    run: &ActiveRun,
    id: &str,
    until: Time,
    now: Time,
) -> Result<()> {
    let group = run.group.as_str();
    let rests = c
        .prepare_cached(
            "UPDATE tasks SET slot = coalesce(slot, next_run), next_run = max(next_run, ?3), rest_until = ?3
             WHERE id = ?1 AND group_folder = ?2 AND status = 'active' AND next_run IS NOT NULL
             RETURNING chat_jid, prompt, failures_told",
        )?
        .query_row(params![id, group, until.0], |r| {
            Ok((
                r.get::<_, String>("chat_jid")?,
                r.get::<_, String>("prompt")?,
                r.get::<_, bool>("failures_told")?,
            ))
        })
        .optional()?;
    let Some((chat_jid, prompt, false)) = rests else { return Ok(()) };
    c.prepare_cached("UPDATE tasks SET failures_told = 1 WHERE id = ?1 AND group_folder = ?2")?
        .execute([id, group])?;
    let (text, cause) = (judge::rest_notice(id, &prompt), format!("task {id} rests"));
    let notice = Say { run: Some(run.id), ..Say::notice(&chat_jid, "", &text, &cause) };
    said(c, &Key::Killed { run: run.id }, &notice, now)?;
    Ok(())
}

/// Deletes a task of a group; returns whether there was one.
pub(in crate::store) fn cancel(c: &Connection, group: &Folder, id: &str) -> Result<bool> {
    let gone = c
        .prepare_cached("DELETE FROM tasks WHERE id = ?1 AND group_folder = ?2")?
        .execute([id, group.as_str()])?;
    Ok(gone > 0)
}

/// Returns the groups that have a task of this id now: that one where it is given, otherwise `first` before the others.
pub(in crate::store) fn facts_of(
    c: &Connection,
    id: &str,
    group: Option<&Folder>,
    first: &Folder,
) -> Result<Vec<TaskFacts>> {
    Ok(c.prepare_cached(
        "SELECT id, group_folder, schedule_type, schedule_value, status, next_run, coalesce(slot, next_slot) AS slot, catch_up FROM tasks
         WHERE id = ?1 AND (?2 IS NULL OR group_folder = ?2) ORDER BY group_folder <> ?3, group_folder",
    )?
    .query_map(params![id, group.map(Folder::as_str), first.as_str()], |r| {
        Ok(TaskFacts {
            id: r.get("id")?,
            group: r.folder("group_folder")?,
            schedule_type: r.word("tasks", "schedule_type")?,
            schedule_value: r.get("schedule_value")?,
            status: r.word("tasks", "status")?,
            next_run: r.time_or_null("next_run")?,
            slot: r.time_or_null("slot")?,
            catch_up: r.word("tasks", "catch_up")?,
        })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

fn status(c: &Connection, group: &Folder, id: &str) -> Result<Option<TaskStatus>> {
    Ok(facts_of(c, id, Some(group), group)?.first().map(|task| task.status))
}

/// How many tasks are looked at in one transaction.
const AT_A_TIME: usize = 200;

/// Finds anew when tasks run next, of one group or of all, after their clocks changed; returns where to go on. A task that
/// is due already stays as it is.
pub(in crate::store) fn read_clocks_again(
    c: &Connection,
    group: Option<&Folder>,
    changed: Clocks,
    zones: &Zones,
    after: i64,
    now: Time,
) -> Result<Option<i64>> {
    // Without their prompts: of all groups these are many.
    let coming: Vec<Coming> = c
        .prepare_cached(
            "SELECT n, id, group_folder, schedule_type, schedule_value, next_run, slot, next_slot,
               EXISTS (SELECT 1 FROM runs r INDEXED BY runs_one_per_group WHERE r.for_task = tasks.id
                 AND r.group_folder = tasks.group_folder AND r.status IN ('queued', 'running')) AS is_running
             FROM tasks WHERE n > ?1 AND next_run > ?2 AND (?3 IS NULL OR group_folder = ?3) ORDER BY n LIMIT ?4",
        )?
        .query_map(params![after, now.0, group.map(Folder::as_str), AT_A_TIME], |r| {
            Ok(Coming {
                n: r.get("n")?,
                id: r.get("id")?,
                group: r.folder("group_folder")?,
                kind: r.word("tasks", "schedule_type")?,
                value: r.get("schedule_value")?,
                next: Time(r.get("next_run")?),
                stands: match (r.time_or_null("slot")?, r.time_or_null("next_slot")?) {
                    (_, Some(slot)) => Stands::MakesUp(slot),
                    (Some(slot), None) if r.get("is_running")? => Stands::Runs(slot),
                    (Some(slot), None) => Stands::Rests(slot),
                    (None, None) => Stands::Waits,
                },
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    for task in &coming {
        let zone = zone_of(c, &task.group, zones)?.zone;
        let Ok(schedule) = Schedule::parse(task.kind.as_str(), &task.value, &zone, now) else { continue };
        let ran = |at: Time| has_run(c, task, at);
        let Some(anew) = changed.anew(&schedule, task.stands, task.next, now, &zone, ran)? else { continue };
        c.prepare_cached(
            "UPDATE tasks SET next_run = ?2, slot = iif(?3, NULL, slot), tries = iif(?3, 0, tries), next_slot = iif(?3, NULL, next_slot),
               free_returns = iif(?3, 0, free_returns), held_up_since = iif(?3, NULL, held_up_since),
               rest_until = iif(?3, NULL, min(rest_until, ?2)) WHERE n = ?1 AND (next_run <> ?2 OR ?3)",
        )?
        .execute(params![task.n, anew.next.0, anew.gives_up])?;
    }
    Ok(coming.last().filter(|_| coming.len() == AT_A_TIME).map(|last| last.n))
}

/// A task that is not due yet.
struct Coming {
    n: i64,
    id: String,
    group: Folder,
    kind: ScheduleKind,
    value: String,
    next: Time,
    stands: Stands,
}

/// Whether a slot of a task has had a run.
fn has_run(c: &Connection, task: &Coming, slot: Time) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_slot_once
         WHERE group_folder = ?1 AND for_task = ?2 AND slot = ?3 AND slot IS NOT NULL AND started_at IS NOT NULL)",
    )?
    .query_row(params![task.group.as_str(), task.id, slot.0], |r| r.get(0))?)
}

/// What the tasks of a group, or of every group, weigh, newest first after ?2, each from an index alone.
const OF_GROUP: &str = "SELECT n, bytes, group_folder FROM tasks INDEXED BY tasks_by_group WHERE group_folder = ?1 AND n < ?2 ORDER BY n DESC";
const OF_ALL_GROUPS: &str = "SELECT n, bytes, group_folder FROM tasks INDEXED BY tasks_by_number WHERE ?1 IS NULL AND n < ?2 ORDER BY n DESC";

/// Reads a page of the tasks of a group or of all, newest first after row `after`: at most `limit`, and as many as have
/// room in `room` bytes of JSON. Returns it with where the next page begins.
pub(in crate::store) fn page_of(
    c: &Connection,
    group: Option<&Folder>,
    after: Option<i64>,
    limit: usize,
    room: u64,
    zones: &Zones,
) -> Result<(Vec<TaskRow>, Option<i64>)> {
    let mut weights = c.prepare_cached(if group.is_some() { OF_GROUP } else { OF_ALL_GROUPS })?;
    let candidates: Vec<Candidate> = weights
        .query_map(params![group.map(Folder::as_str), after.unwrap_or(i64::MAX)], |r| {
            Ok(Candidate { n: r.get("n")?, bytes: r.get("bytes")? })
        })?
        .take(limit.saturating_add(1))
        .collect::<rusqlite::Result<_>>()?;
    let shown = page(&candidates, room).min(limit);
    let (mut rows, mut words) = (Vec::new(), Words::new(c, zones));
    for candidate in candidates.iter().take(shown) {
        rows.extend(shown_row(c, candidate.n, TEXT_SHOWN, &mut words)?);
    }
    let last = candidates.get(shown.wrapping_sub(1)).filter(|_| shown < candidates.len());
    Ok((rows, last.map(|last| last.n)))
}

/// Reads a task as agents see it, with at most `most` bytes of its prompt and its script.
fn shown_row(c: &Connection, n: i64, most: usize, words: &mut Words<'_>) -> Result<Option<TaskRow>> {
    let mut statement = c.prepare_cached(
        "SELECT id, group_folder, prompt, script, schedule_type, schedule_value, status, next_run, paused_for FROM tasks WHERE n = ?1",
    )?;
    let mut cut = false;
    let mut text = |r: &Row<'_>, at: &str, most: usize| -> rusqlite::Result<Option<String>> {
        let Some(whole) = r.get_ref(at)?.as_str_or_null()? else { return Ok(None) };
        let (text, is_whole) = shown(whole, most);
        cut |= !is_whole;
        Ok(Some(text.to_owned()))
    };
    let row = statement
        .query_row([n], |r| {
            Ok(TaskRow {
                id: r.get("id")?,
                group_folder: r.get("group_folder")?,
                prompt: text(r, "prompt", most)?.unwrap_or_default(),
                script: text(r, "script", most)?,
                schedule_type: r.word("tasks", "schedule_type")?,
                schedule_value: text(r, "schedule_value", VALUE_SHOWN)?.unwrap_or_default(),
                schedule_in_words: None,
                status: r.word("tasks", "status")?,
                next_run: r.time_or_null("next_run")?,
                paused_for: r.get("paused_for")?,
                cut: false,
                more: 0,
            })
        })
        .optional()?;
    let Some(row) = row else { return Ok(None) };
    let schedule_in_words = words.of(&row)?;
    let reason = row.paused_for.as_deref();
    let paused_for = reason.map(|why| shown_reason(why, schedule_in_words.as_deref()).to_owned());
    Ok(Some(TaskRow { cut, schedule_in_words, paused_for, ..row }))
}

/// The schedules of tasks in plain words, each by the clocks of its group.
struct Words<'a> {
    c: &'a Connection,
    zones: &'a Zones,
    known: BTreeMap<String, Zone>,
}

impl<'a> Words<'a> {
    fn new(c: &'a Connection, zones: &'a Zones) -> Self {
        Self { c, zones, known: BTreeMap::new() }
    }

    /// Returns what a row has; `None` where a schedule can't be read, or is shown in part.
    fn of(&mut self, row: &TaskRow) -> Result<Option<String>> {
        let group = row.group_folder.as_str();
        if !self.known.contains_key(group) {
            let Ok(folder) = Folder::parse(group) else { return Ok(None) };
            self.known.insert(group.to_owned(), zone_of(self.c, &folder, self.zones)?);
        }
        Ok(self.known.get(group).and_then(|clock| in_words(row.schedule_type, &row.schedule_value, clock)))
    }
}

/// Returns a schedule in plain words; `None` where it can't be read, or they would be longer than [`WORDS_SHOWN`].
pub(in crate::store) fn in_words(kind: ScheduleKind, value: &str, clock: &Zone) -> Option<String> {
    // Any instant will do: it was checked when it was stored that there is a next one.
    let schedule = Schedule::parse(kind.as_str(), value, &clock.zone, Time(0)).ok()?;
    Some(schedule.in_words(&clock.zone, &clock.name)).filter(|words| words.len() <= WORDS_SHOWN)
}

fn tasks(c: &Connection, group: Option<&Folder>, limit: Option<usize>) -> Result<Vec<Task>> {
    let which = if group.is_some() { "WHERE group_folder = ?1" } else { "WHERE ?1 IS NULL" };
    let mut newest = c.prepare_cached(&format!("{TASK} {which} ORDER BY n DESC LIMIT ?2"))?;
    oldest_first(newest.query_map(params![group.map(Folder::as_str), at_most(limit)], task_row)?)
}

pub(in crate::store) fn task(c: &Connection, group: &Folder, id: &str) -> Result<Option<Task>> {
    Ok(c.prepare_cached(&format!("{TASK} WHERE id = ?1 AND group_folder = ?2"))?
        .query_row([id, group.as_str()], task_row)
        .optional()?)
}

const TASK: &str = "SELECT id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, catch_up_window_ms, output, origin, status, next_run, last_run, last_result, failures, rest_until, paused_for FROM tasks";

fn task_row(r: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: r.get("id")?,
        group: r.folder("group_folder")?,
        chat_jid: r.get("chat_jid")?,
        prompt: r.get("prompt")?,
        script: r.get("script")?,
        schedule_type: r.word("tasks", "schedule_type")?,
        schedule_value: r.get("schedule_value")?,
        context_mode: r.word("tasks", "context_mode")?,
        catch_up: r.word("tasks", "catch_up")?,
        catch_up_window_ms: r.get::<_, Option<i64>>("catch_up_window_ms")?.unwrap_or(WINDOW_MS),
        output: r.word("tasks", "output")?,
        origin: r.word("tasks", "origin")?,
        status: r.word("tasks", "status")?,
        next_run: r.time_or_null("next_run")?,
        last_run: r.time_or_null("last_run")?,
        last_result: r.get("last_result")?,
        failures: r.get("failures")?,
        rest_until: r.time_or_null("rest_until")?,
        paused_for: r.get("paused_for")?,
    })
}
