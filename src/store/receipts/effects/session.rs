//! Sessions: forgotten, archived, taken up again.

use ipc_handlers::{Folder, Outcome, Time, effect::Lanes};
use rusqlite::{Connection, params};

use super::{
    super::{super::lanes::clear_sessions, settle::Verdict},
    Applied,
};

/// Makes lanes forget their session.
pub(super) fn clear(
    c: &Connection,
    target: &Folder,
    lanes: Lanes,
    archive_as: Option<&str>,
    verdict: &mut Verdict,
    now: Time,
) -> Applied {
    let lane = match lanes {
        Lanes::One(lane) => Some(lane),
        Lanes::All => None,
    };
    let archived_id = clear_sessions(c, target, lane, archive_as, now)?;
    verdict.cleared = c
        .prepare_cached(
            "SELECT id, generation FROM lanes WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2)",
        )?
        .query_map(params![target.as_str(), lane], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Ok(Outcome::SessionCleared { archived_id }))
}
