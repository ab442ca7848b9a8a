//! Who waits for what, since when: lanes, and tasks that are due.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::{
    rows::{Lane, Waiter},
    runs::{lanes::Work, retry},
    shown::metrics::WaitCause,
};
use crate::store::{
    Result, Store, at_most,
    columns::Columns as _,
    crossing::waiting::{first_due, waiting},
    oldest_first,
    work::{budgets, hindrances, runs::work},
};

/// A rest that ends that much later than a limit still waits for its end.
const JUST_AFTER_MS: i64 = 60_000;

/// What a message or a task waits for when nothing of its own group is in its way.
pub(super) const A_SLOT: &str = "a free slot";

/// The run that a group has now.
struct AtWork {
    run: i64,
    work: Work,
    since: Time,
}

impl AtWork {
    fn of(c: &Connection, group: &str) -> Result<Option<Self>> {
        Ok(c.prepare_cached(
            "SELECT id, for_lane, for_task, coalesce(started_at, created_at) AS since FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running')",
        )?
        .query_row([group], |r| Ok(Self { run: r.get("id")?, work: work(r)?, since: r.time("since")? }))
        .optional()?)
    }

    /// What waits for the end of this run.
    fn in_words(&self) -> String {
        let Self { run, work, since } = self;
        match work {
            Work::Task(task) => {
                format!(
                    "the group's container, which is at other work (run {run}, of task {task}, since {since})"
                )
            }
            Work::Lane(_) => {
                format!("the group's container, which is at other work (run {run}, since {since})")
            }
        }
    }
}

/// What waits for the end of a rest of a group's lane.
pub(super) fn rest_in_words(c: &Connection, group: &str, until: Time) -> rusqlite::Result<String> {
    Ok(match hindrances::in_words(c, group, until)? {
        Some((why, Some(ends))) if until.ms_since(ends) <= JUST_AFTER_MS => {
            format!("the end of a limit of the model, at {ends}: {why}")
        }
        Some((why, _)) => format!("the lane, which rests until {until} or until this is put right: {why}"),
        None => format!("the lane, which rests until {until} after a failure"),
    })
}

/// Names the attempt after `failed` ones.
pub(super) fn attempt_after(failed: u32) -> String {
    format!("attempt {} of {}", failed.saturating_add(1), retry::MAX_RETRIES + 1)
}

/// Which lanes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanesShown {
    All,
    /// Those in which something waits or is at work, and those that rest.
    Busy,
}

/// A lane with what waits in it.
const LANE: &str = "SELECT * FROM (
  SELECT l.id, l.group_folder, l.chat_jid, l.thread, iif(s.rest_until > ?1, s.rest_until, NULL) AS rest_until,
    (SELECT count(*) FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake')
    + (SELECT count(*) FROM batches b INDEXED BY batches_open CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
       WHERE b.lane_id = l.id AND b.state = 'returned') AS waiting,
    (SELECT m.received_at FROM messages m WHERE m.seq = (SELECT min(seq) FROM (
       SELECT (SELECT i.seq FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake' ORDER BY i.n LIMIT 1) AS seq
       UNION ALL SELECT (SELECT min(i.seq) FROM batches b INDEXED BY batches_open CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
         WHERE b.lane_id = l.id AND b.state = 'returned')))) AS since,
    (SELECT r.id FROM runs r INDEXED BY runs_one_per_group WHERE r.group_folder = l.group_folder AND r.for_lane = l.id AND r.status IN ('queued', 'running')) AS run,
    (SELECT r.error FROM runs r WHERE r.group_folder = l.group_folder AND r.for_lane = l.id ORDER BY r.id DESC LIMIT 1) AS error,
    (SELECT coalesce(max(b.tries), 0) FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND (b.state = 'handed' OR b.state = 'claimed' OR b.state = 'returned')) AS tries,
    EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid) AS wired
  FROM lanes l LEFT JOIN sessions s ON s.lane_id = l.id";

fn lane_row(c: &Connection, r: &rusqlite::Row<'_>, now: Time) -> rusqlite::Result<Lane> {
    let (group, rest_until) = (r.folder("group_folder")?, r.time_or_null("rest_until")?);
    let (waiting, wired): (i64, bool) = (r.get("waiting")?, r.get("wired")?);
    let error: Option<String> = r.get("error")?;
    let failed_attempts: u32 = r.get("tries")?;
    let waits_for = match rest_until {
        _ if waiting == 0 => None,
        _ if !wired => Some((WaitCause::Wiring, "its wiring, which was removed".to_owned())),
        Some(until) if failed_attempts > 0 => {
            let rest = rest_in_words(c, group.as_str(), until)?;
            Some((WaitCause::Rest, format!("{rest}; then comes {}", attempt_after(failed_attempts))))
        }
        Some(until) => Some((WaitCause::Rest, rest_in_words(c, group.as_str(), until)?)),
        None => Some(group_or_a_slot(c, group.as_str(), now)?),
    };
    let (wait_cause, waits_for) = waits_for.unzip();
    Ok(Lane {
        group,
        chat_jid: r.get("chat_jid")?,
        thread: Some(r.get::<_, String>("thread")?).filter(|thread| !thread.is_empty()),
        waiting,
        since: r.time_or_null("since")?,
        waits_for,
        wait_cause,
        failed_attempts,
        rest_until,
        why: error.filter(|_| rest_until.is_some()),
        run: r.get("run")?,
    })
}

/// What waits in a group for nothing of its own.
pub(super) fn at_work_or_a_slot(c: &Connection, group: &str, now: Time) -> rusqlite::Result<String> {
    group_or_a_slot(c, group, now).map(|(_, words)| words)
}

fn group_or_a_slot(c: &Connection, group: &str, now: Time) -> rusqlite::Result<(WaitCause, String)> {
    if let Some(out) = budgets::out_in_words(c, group, now)? {
        return Ok((WaitCause::Budget, out));
    }
    let at_work =
        AtWork::of(c, group).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    Ok(match at_work {
        Some(at_work) => (WaitCause::Group, at_work.in_words()),
        None => (WaitCause::Slot, A_SLOT.to_owned()),
    })
}

impl Store {
    /// Returns lanes of one group or all in the order in which they were made; with `limit`, the newest ones.
    pub fn shown_lanes(
        &self,
        group: Option<&Folder>,
        which: LanesShown,
        limit: Option<usize>,
        now: Time,
    ) -> Result<Vec<Lane>> {
        self.read(|c| {
            let busy = match which {
                LanesShown::All => "",
                LanesShown::Busy => "WHERE waiting > 0 OR rest_until IS NOT NULL OR run IS NOT NULL",
            };
            let mut newest = c.prepare_cached(&format!(
                "{LANE} WHERE ?2 IS NULL OR l.group_folder = ?2) {busy} ORDER BY id DESC LIMIT ?3"
            ))?;
            let group = group.map(Folder::as_str);
            oldest_first(newest.query_map(params![now.0, group, at_most(limit)], |r| lane_row(c, r, now))?)
        })
    }

    /// Returns lanes by their ids.
    pub fn lanes_called(&self, lanes: &[i64], now: Time) -> Result<Vec<Lane>> {
        self.read(|c| {
            let mut one = c.prepare_cached(&format!("{LANE} WHERE l.id = ?2)"))?;
            let mut found = Vec::new();
            for lane in lanes {
                found.extend(one.query_row([now.0, *lane], |r| lane_row(c, r, now)).optional()?);
            }
            Ok(found)
        })
    }

    /// Returns who waits for what, longest first, at most `most` of them: lanes, and of each group the task that is due
    /// longest.
    pub fn waiters(&self, most: usize, now: Time) -> Result<Vec<Waiter>> {
        let lanes: Vec<i64> = self.read(|c| Ok(waiting(c, None)?.iter().map(|lane| lane.lane).collect()))?;
        let lanes = self.lanes_called(&lanes, now)?;
        let mut waiters: Vec<Waiter> = lanes
            .into_iter()
            .filter_map(|lane| {
                let (since, waits_for) = lane.since.zip(lane.waits_for)?;
                let (group, chat_jid, thread) = (lane.group, lane.chat_jid, lane.thread);
                Some(Waiter { group, chat_jid, thread, task: None, since, waits_for })
            })
            .collect();
        let due = self.read(|c| {
            first_due(c, now)?
                .into_iter()
                .map(|task| {
                    let waits_for = at_work_or_a_slot(c, task.group.as_str(), now)?;
                    let (group, chat_jid, since) = (task.group, task.chat_jid, task.since);
                    Ok(Waiter { group, chat_jid, thread: None, task: Some(task.id), since, waits_for })
                })
                .collect::<Result<Vec<_>>>()
        })?;
        waiters.extend(due);
        waiters.sort_by_key(|waiter| waiter.since);
        waiters.truncate(most);
        Ok(waiters)
    }
}
