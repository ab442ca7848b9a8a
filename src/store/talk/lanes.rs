//! Lanes: group, chat and thread, the unit of order.

use ipc_handlers::{Folder, effect::Lanes};
use rusqlite::{Connection, OptionalExtension, Row, params};

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

/// Returns the lane of a group in a chat and thread, which is made where there is none; `None`: the group was removed, or nobody
/// knows the chat.
pub(in crate::store) fn lane_of(
    c: &Connection,
    group: &Folder,
    chat: &str,
    thread: &str,
) -> Result<Option<i64>> {
    c.prepare_cached(
        "INSERT INTO lanes (group_folder, chat_jid, thread) SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM chats WHERE jid = ?2)
           AND EXISTS (SELECT 1 FROM groups WHERE folder = ?1)
         ON CONFLICT DO NOTHING",
    )?
    .execute([group.as_str(), chat, thread])?;
    Ok(c.prepare_cached("SELECT id FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND thread = ?3")?
        .query_row([group.as_str(), chat, thread], |r| r.get("id"))
        .optional()?)
}

/// Has the agent of lanes wait until it is addressed again.
pub(in crate::store) fn unstick(c: &Connection, group: &Folder, lanes: Lanes) -> Result<()> {
    c.prepare_cached(
        "UPDATE lanes SET sticky_at = NULL WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2) AND sticky_at IS NOT NULL",
    )?
    .execute(params![group.as_str(), lanes.one()])?;
    Ok(())
}
