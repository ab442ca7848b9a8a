//! Lanes: group, chat and thread, the unit of order.

use ipc_handlers::{Folder, effect::Lanes};
use rusqlite::{Connection, Row, params};

use crate::store::Result;

/// A lane, and where it is.
pub(in crate::store) struct Lane {
    pub(in crate::store) id: i64,
    pub(in crate::store) chat: String,
    pub(in crate::store) thread: String,
}

/// Returns lanes of a group.
pub(in crate::store) fn lanes_of(c: &Connection, group: &Folder, lanes: Lanes) -> Result<Vec<Lane>> {
    let lane =
        |r: &Row<'_>| Ok(Lane { id: r.get("id")?, chat: r.get("chat_jid")?, thread: r.get("thread")? });
    Ok(c.prepare_cached(
        "SELECT id, chat_jid, thread FROM lanes WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2) ORDER BY id",
    )?
    .query_map(params![group.as_str(), lanes.one()], lane)?
    .collect::<rusqlite::Result<_>>()?)
}

/// Makes the lane of each chat of a group that never had a message.
pub(in crate::store) fn make_lanes(c: &Connection, group: &Folder) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO lanes (group_folder, chat_jid) SELECT group_folder, chat_jid FROM wirings WHERE group_folder = ?1 ON CONFLICT DO NOTHING",
    )?
    .execute([group.as_str()])?;
    Ok(())
}

/// Has the agent of lanes wait until it is addressed again.
pub(in crate::store) fn unstick(c: &Connection, group: &Folder, lanes: Lanes) -> Result<()> {
    c.prepare_cached(
        "UPDATE lanes SET sticky_at = NULL WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2) AND sticky_at IS NOT NULL",
    )?
    .execute(params![group.as_str(), lanes.one()])?;
    Ok(())
}
