//! Sessions: forgotten, archived, taken up again, found.

use ipc_handlers::{Folder, NotApplied, Outcome, Time, effect::Lanes};
use rusqlite::Connection;

use super::Applied;
use crate::store::{
    talk,
    work::sessions::{self, Transcripts},
};

/// Makes lanes forget their session, and that their agent was addressed.
pub(super) fn clear(
    c: &Connection,
    target: &Folder,
    lanes: Lanes,
    archive_as: Option<&str>,
    said: &Transcripts,
    now: Time,
) -> Applied {
    let archived_id = match archive_as {
        Some(name) => sessions::archive_live(c, target, lanes, name, said, now)?,
        None => None,
    };
    sessions::give(c, target, lanes, None)?;
    talk::lanes::unstick(c, target, lanes)?;
    Ok(Ok(Outcome::SessionCleared { archived_id }))
}

/// A session to be taken up again.
pub(super) struct Resume<'a> {
    pub target: &'a Folder,
    pub lanes: Lanes,
    pub archive: i64,
    pub save_as: Option<&'a str>,
}

/// Makes lanes go on with an archived session, which is then no archive any more.
pub(super) fn resume(c: &Connection, resume: &Resume<'_>, said: &Transcripts, now: Time) -> Applied {
    let Resume { target, lanes, archive, save_as } = *resume;
    let Some((_, session_id)) = sessions::archived(c, archive, Some(target))? else {
        return Ok(Err(NotApplied::ArchiveGone { id: archive }));
    };
    if let Some(name) = save_as {
        sessions::archive_live(c, target, lanes, name, said, now)?;
    }
    talk::lanes::make_lanes(c, target)?;
    sessions::give(c, target, lanes, Some(&session_id))?;
    sessions::unarchive(c, archive)?;
    Ok(Ok(Outcome::SessionResumed { session_id }))
}

/// A session to be kept.
pub(super) struct Archive<'a> {
    pub target: &'a Folder,
    pub session_id: &'a str,
    pub name: &'a str,
    pub content: Option<&'a str>,
}

/// Keeps a session, which goes on.
pub(super) fn archive(c: &Connection, archive: &Archive<'_>, said: &Transcripts, now: Time) -> Applied {
    let read = said.get(archive.session_id).map(String::as_str);
    let content = archive.content.or(read).unwrap_or_default();
    let id = sessions::archive(c, archive.target, archive.session_id, archive.name, content, now)?;
    Ok(Ok(Outcome::SessionArchived { id }))
}
