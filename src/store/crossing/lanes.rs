//! Lanes: which of them wait.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{platforms::typing::Place, runs::lanes};
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
                     CROSS JOIN batches b INDEXED BY batches_open ON b.lane_id = l.id AND b.state IN ('handed', 'claimed', 'returned') AND b.state = 'returned'
                     CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = l.id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake')",
            )?
            .query_row([], |r| r.get(0))?)
        })
    }

    /// Returns the chat and thread of a lane.
    pub fn place_of_batch(&self, batch: i64) -> Result<Option<Place>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT l.chat_jid, l.thread FROM batches b JOIN lanes l ON l.id = b.lane_id WHERE b.id = ?1",
            )?
            .query_row([batch], place_row)
            .optional()?)
        })
    }

    /// Returns the batches that agents have in hand, with where their messages came from.
    pub fn in_hand(&self) -> Result<Vec<(i64, Place)>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT b.id, l.chat_jid, l.thread FROM batches b INDEXED BY batches_open JOIN lanes l ON l.id = b.lane_id
                 WHERE b.state IN ('handed', 'claimed', 'returned') AND b.state <> 'returned'",
            )?
            .query_map([], |r| Ok((r.get("id")?, place_row(r)?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns whose a lane is, and how often its session was another one.
    pub fn session_of_lane(&self, lane: i64) -> Result<Option<(Folder, i64)>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT group_folder, generation FROM lanes WHERE id = ?1")?
                .query_row([lane], |r| Ok((r.folder("group_folder")?, r.get("generation")?)))
                .optional()?)
        })
    }
}

fn place_row(r: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place { chat_jid: r.get("chat_jid")?, thread: r.get("thread")? })
}

/// Lanes that wait, of one group or of all, in the order in which their oldest waiting row came.
pub(in crate::store) fn waiting(c: &Connection, group: Option<&Folder>) -> Result<Vec<WaitingLane>> {
    let whose = if group.is_some() { "l.group_folder = ?1" } else { "?1 IS NULL" };
    let mut rows = c.prepare_cached(&format!(
        "SELECT l.id, l.group_folder, l.generation, l.rest_until FROM lanes l
         WHERE {whose}
           AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid)
           AND (EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND b.state IN ('handed', 'claimed', 'returned') AND b.state = 'returned')
             OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'))
         ORDER BY (SELECT min(i.n) FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'), l.id",
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
    /// Returns the lanes of one group in which something waits.
    pub fn waiting_lanes_of(&self, group: &Folder) -> Result<Vec<WaitingLane>> {
        self.read(|c| waiting(c, Some(group)))
    }
}
