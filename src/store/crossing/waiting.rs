//! What waits to be handed to an agent: messages in their lanes, and tasks that are due.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::runs::lanes;
use crate::store::{Result, Store, columns::Columns as _};

/// A lane in which something waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingLane {
    pub lane: i64,
    pub group: Folder,
    pub generation: i64,
    /// Until when it rests after a failure.
    pub rest_until: Option<Time>,
}

impl From<&WaitingLane> for lanes::WaitingLane {
    fn from(lane: &WaitingLane) -> Self {
        Self { lane: lanes::LaneId(lane.lane), generation: lane.generation, not_before: lane.rest_until }
    }
}

impl Store {
    /// Returns every lane in which a waking message or a returned batch waits, and whose wiring is still there.
    pub fn waiting_lanes(&self) -> Result<Vec<WaitingLane>> {
        self.read(|c| waiting(c, None))
    }

    /// Returns how many messages wait to be judged or given to an agent, each once, however many groups it waits for.
    pub fn messages_waiting(&self) -> Result<i64> {
        self.read(|c| {
            // `CROSS`, as SQLite would begin with all messages that ever woke somebody.
            Ok(c.prepare_cached(
                "SELECT count(*) FROM (
                   SELECT i.seq FROM inbox i INDEXED BY inbox_unjudged WHERE i.verdict IS NULL
                   UNION SELECT i.seq FROM wirings w CROSS JOIN lanes l ON l.group_folder = w.group_folder AND l.chat_jid = w.chat_jid
                     CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'
                   UNION SELECT i.seq FROM wirings w CROSS JOIN lanes l ON l.group_folder = w.group_folder AND l.chat_jid = w.chat_jid
                     CROSS JOIN batches b INDEXED BY batches_open ON b.lane_id = l.id AND b.state = 'returned'
                     CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake')",
            )?
            .query_row([], |r| r.get(0))?)
        })
    }
}

/// A lane with the state of its session. A lane without any agent so far has no session yet.
const LANE: &str = "SELECT l.id, l.group_folder, coalesce(s.generation, 0) AS generation, s.rest_until
         FROM lanes l LEFT JOIN sessions s ON s.lane_id = l.id";

/// Lanes that wait, of one group or of all, in the order in which their oldest waiting row came. One that came back was handed
/// out before all that still wait behind it.
pub(in crate::store) fn waiting(c: &Connection, group: Option<&Folder>) -> Result<Vec<WaitingLane>> {
    let whose = if group.is_some() { "l.group_folder = ?1" } else { "?1 IS NULL" };
    let mut rows = c.prepare_cached(&format!(
        "{LANE}
         WHERE {whose}
           AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid)
           AND (EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND b.state = 'returned')
             OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'))
         ORDER BY coalesce(
             (SELECT min(b.first) FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND b.state = 'returned'),
             (SELECT min(i.n) FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake')), l.id",
    ))?;
    Ok(rows.query_map(params![group.map(Folder::as_str)], waiting_row)?.collect::<rusqlite::Result<_>>()?)
}

fn waiting_row(r: &Row<'_>) -> rusqlite::Result<WaitingLane> {
    Ok(WaitingLane {
        lane: r.get("id")?,
        group: r.folder("group_folder")?,
        generation: r.get("generation")?,
        rest_until: r.time_or_null("rest_until")?,
    })
}

impl Store {
    /// Returns lanes in the order that is given, whether something waits in them or not; those that are gone are left out.
    pub fn lanes(&self, lanes: &[i64]) -> Result<Vec<WaitingLane>> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        self.read(|c| {
            let mut one = c.prepare_cached(&format!("{LANE} WHERE l.id = ?1"))?;
            let mut found = Vec::new();
            for lane in lanes {
                found.extend(one.query_row([lane], waiting_row).optional()?);
            }
            Ok(found)
        })
    }

    /// Returns the lanes of one group in which something waits.
    pub fn waiting_lanes_of(&self, group: &Folder) -> Result<Vec<WaitingLane>> {
        self.read(|c| waiting(c, Some(group)))
    }
}

impl Store {
    /// Returns of each group the task that is due longest and whose source has no active run, longest due first, as
    /// (group, id). A group runs one at a time, so more of them would only be carried about.
    pub fn due_tasks(&self, now: Time) -> Result<Vec<(Folder, String)>> {
        let due = self.read(|c| first_due(c, now))?;
        Ok(due.into_iter().map(|task| (task.group, task.id)).collect())
    }

    /// Returns the task of a group that is due longest and whose source has no active run.
    pub fn due_task_of(&self, group: &Folder, now: Time) -> Result<Option<String>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!(
                "SELECT id FROM groups g JOIN tasks ON tasks.n = ({FIRST_DUE}) WHERE g.folder = ?2"
            ))?
            .query_row(params![now.0, group.as_str()], |r| r.get(0))
            .optional()?)
        })
    }
}

/// A task that is due.
pub(in crate::store) struct Due {
    pub(in crate::store) group: Folder,
    pub(in crate::store) id: String,
    pub(in crate::store) chat_jid: String,
    pub(in crate::store) since: Time,
}

/// Of each group the task that is due longest and whose source has no active run, longest due first.
pub(in crate::store) fn first_due(c: &Connection, now: Time) -> Result<Vec<Due>> {
    Ok(c.prepare_cached(&format!(
        "SELECT group_folder, id, chat_jid, next_run FROM groups g JOIN tasks ON tasks.n = ({FIRST_DUE}) ORDER BY next_run, n"
    ))?
    .query_map([now.0], |r| {
        Ok(Due {
            group: r.folder("group_folder")?,
            id: r.get("id")?,
            chat_jid: r.get("chat_jid")?,
            since: r.time("next_run")?,
        })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// Finds the number of the task of group `g.folder` that is due longest at ?1 and can be started, by walking the index
/// in its order. By a clock that is beyond the last instant of cron (`CRON_ENDS`) no such task is: it waits for the clock to be set.
const FIRST_DUE: &str = "SELECT t.n FROM tasks t INDEXED BY tasks_due_by_group
    WHERE t.group_folder = g.folder AND t.status = 'active' AND t.next_run IS NOT NULL AND t.next_run <= ?1
      AND (?1 < 4102444800000 OR t.schedule_type <> 'cron')
      AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_one_per_group WHERE r.group_folder = t.group_folder AND r.for_task = t.id AND r.status IN ('queued', 'running'))
    ORDER BY t.next_run, t.n LIMIT 1";
