//! Lanes: which of them wait, and their sessions.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Result, Store, folder};
use crate::domain::typing::Place;

/// A lane in which something waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingLane {
    pub lane: i64,
    pub group: Folder,
    pub generation: i64,
    /// Until when it rests after a failure.
    pub rest_until: Option<Time>,
}

impl Store {
    /// Returns every lane in which a waking message or a returned batch waits, and whose wiring is still there.
    pub fn waiting_lanes(&self) -> Result<Vec<WaitingLane>> {
        self.read(|c| waiting(c, None))
    }

    /// Returns the chat and thread of a lane.
    pub fn place_of_lane(&self, lane: i64) -> Result<Option<Place>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT chat_jid, thread FROM lanes WHERE id = ?1")?
                .query_row([lane], |r| Ok(Place { chat_jid: r.get(0)?, thread: r.get(1)? }))
                .optional()?)
        })
    }
}

/// Lanes that wait, of one group or of all, in the order in which their oldest waiting row came.
pub(super) fn waiting(c: &Connection, group: Option<&Folder>) -> Result<Vec<WaitingLane>> {
    let mut rows = c.prepare_cached(
        "SELECT l.id, l.group_folder, l.generation, l.rest_until FROM lanes l
         WHERE (?1 IS NULL OR l.group_folder = ?1)
           AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid)
           AND (EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND b.state IN ('handed', 'claimed', 'returned') AND b.state = 'returned')
             OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'))
         ORDER BY (SELECT min(i.n) FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'), l.id",
    )?;
    Ok(rows.query_map(params![group.map(Folder::as_str)], waiting_row)?.collect::<rusqlite::Result<_>>()?)
}

fn waiting_row(r: &Row<'_>) -> rusqlite::Result<WaitingLane> {
    Ok(WaitingLane {
        lane: r.get(0)?,
        group: folder(r.get(1)?)?,
        generation: r.get(2)?,
        rest_until: r.get::<_, Option<i64>>(3)?.map(Time),
    })
}

/// Clears the session of lanes: a live run can't write its old one back, since the generation has moved on.
/// Returns the archive's id when `archive_as` was given and there was a session.
pub(super) fn clear_sessions(
    c: &Connection,
    group: &Folder,
    lane: Option<i64>,
    archive_as: Option<&str>,
    now: Time,
) -> Result<Option<i64>> {
    let mut archived = None;
    if let Some(name) = archive_as {
        let sessions: Vec<String> = c
            .prepare_cached("SELECT session_id FROM lanes WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2) AND session_id IS NOT NULL ORDER BY id")?
            .query_map(params![group.as_str(), lane], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for session in sessions {
            c.prepare_cached(
                "INSERT INTO archives (group_folder, session_id, name, archived_at) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![group.as_str(), session, name, now.0])?;
            archived = Some(c.last_insert_rowid());
        }
    }
    c.prepare_cached("UPDATE lanes SET session_id = NULL, generation = generation + 1 WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2)")?
        .execute(params![group.as_str(), lane])?;
    Ok(archived)
}

/// An archived session as `session_history.json` shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ArchivedSession {
    pub id: i64,
    pub name: String,
    pub session_id: String,
    #[serde(serialize_with = "crate::domain::rows::rfc3339")]
    pub archived_at: Time,
}

/// A chat as `available_groups.json` shows it.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AvailableGroup {
    pub jid: String,
    pub name: String,
    #[serde(serialize_with = "crate::domain::rows::rfc3339_option")]
    pub last_activity: Option<Time>,
    pub is_registered: bool,
}

impl Store {
    /// Returns a group's archived sessions, newest first.
    pub fn session_history(&self, group: &Folder) -> Result<Vec<ArchivedSession>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT id, name, session_id, archived_at FROM archives WHERE group_folder = ?1 ORDER BY id DESC")?
                .query_map([group.as_str()], |r| {
                    Ok(ArchivedSession { id: r.get(0)?, name: r.get(1)?, session_id: r.get(2)?, archived_at: Time(r.get(3)?) })
                })?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns every group chat, newest activity first.
    pub fn available_groups(&self) -> Result<Vec<AvailableGroup>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT jid, name, (SELECT max(m.received_at) FROM messages m WHERE m.seq = (SELECT max(seq) FROM messages x WHERE x.chat_jid = jid)) AS last,
                        EXISTS (SELECT 1 FROM wirings w WHERE w.chat_jid = jid)
                 FROM chats WHERE kind = 'group' ORDER BY last DESC, jid",
            )?
            .query_map([], |r| {
                Ok(AvailableGroup {
                    jid: r.get(0)?,
                    name: r.get(1)?,
                    last_activity: r.get::<_, Option<i64>>(2)?.map(Time),
                    is_registered: r.get(3)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?)
        })
    }
}

impl Store {
    /// Returns the lanes of one group in which something waits.
    pub fn waiting_lanes_of(&self, group: &Folder) -> Result<Vec<WaitingLane>> {
        self.read(|c| waiting(c, Some(group)))
    }
}
