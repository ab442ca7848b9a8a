//! Sessions: forgotten, archived, taken up again.
//!
//! Whatever changes a lane's session raises its generation, so a live run can't write its old one back.

use std::collections::BTreeMap;

use ipc_handlers::{
    Folder, Time,
    effect::Lanes,
    shown::{ArchivedSession, FoundSession},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{rows::Session, states::SessionState};
use crate::store::{
    Result, Store, StoreError, at_most, columns::Columns as _, oldest_first, talk::lanes::lanes_of,
};

/// The size of an archived session in a list without its names, bytes.
const SESSION_ROW: usize = 160;

/// Transcripts of sessions by their ids, as far as they could be read.
pub type Transcripts = BTreeMap<String, String>;

impl Store {
    /// Returns a group's archived sessions, newest first, as many as fit into `room` bytes of JSON.
    pub fn session_history(&self, group: &Folder, room: u64) -> Result<Vec<ArchivedSession>> {
        self.read(|c| {
            let mut left = usize::try_from(room).unwrap_or(usize::MAX);
            let mut fits = |session: &ArchivedSession| {
                // As JSON each byte of a name is six at most.
                let bytes = SESSION_ROW + 6 * (session.name.len() + session.session_id.len());
                let fits = bytes <= left;
                left = left.saturating_sub(bytes);
                fits
            };
            let mut archived = c.prepare_cached(
                "SELECT id, name, session_id, archived_at FROM archives WHERE group_folder = ?1 ORDER BY archived_at DESC, id DESC",
            )?;
            let mut sessions = Vec::new();
            for session in archived.query_map([group.as_str()], session_row)? {
                let session = session?;
                if !fits(&session) {
                    break;
                }
                sessions.push(session);
            }
            Ok(sessions)
        })
    }

    /// Ends the rests of a group's lanes, of one chat or all; returns the lanes that rested.
    pub async fn wake_lanes(&self, group: &Folder, chat: Option<&str>, now: Time) -> Result<Vec<i64>> {
        let (group, chat) = (group.clone(), chat.map(str::to_owned));
        self.write(move |c| {
            let mut woken = c.prepare_cached(
                "UPDATE sessions SET rest_until = NULL WHERE group_folder = ?1 AND rest_until > ?3 AND (?2 IS NULL OR chat_jid = ?2) RETURNING lane_id",
            )?;
            Ok(woken.query_map(params![group.as_str(), chat, now.0], |r| r.get("lane_id"))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Ends the rest of one lane.
    pub async fn wake_lane(&self, lane: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE sessions SET rest_until = NULL WHERE lane_id = ?1")?.execute([lane])?;
            Ok(())
        })
        .await
    }

    /// Returns an archived session with what was said in it; with `end`, as many characters of its end at most.
    pub fn archived_session(&self, id: i64, end: Option<u32>) -> Result<Option<(FoundSession, String)>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT id, name, session_id, archived_at, group_folder,
                   CASE ?2 WHEN 0 THEN '' ELSE coalesce(substr(content, -?2), content) END AS content
                 FROM archives WHERE id = ?1",
            )?
            .query_row(params![id, end], |r| {
                let session = session_row(r)?;
                Ok((
                    FoundSession { group: r.folder("group_folder")?, session, snippet: String::new() },
                    r.get("content")?,
                ))
            })
            .optional()?)
        })
    }

    /// Returns sessions of one group or all: the archived ones, oldest first, then those that lanes have now; with `limit`, the
    /// last ones of these; with `state`, those of one state alone.
    pub fn sessions(
        &self,
        group: Option<&Folder>,
        state: Option<SessionState>,
        limit: Option<usize>,
    ) -> Result<Vec<Session>> {
        self.read(|c| {
            let mut newest = c.prepare_cached(
                "SELECT * FROM (
                   SELECT 'live' AS state, lane_id AS n, NULL AS id, group_folder, NULL AS name, session_id, chat_jid,
                          nullif(thread, '') AS thread, NULL AS archived_at
                   FROM sessions WHERE session_id IS NOT NULL AND (?1 IS NULL OR group_folder = ?1) AND ?3 IS NOT 'archived'
                   UNION ALL
                   SELECT 'archived', id, id, group_folder, name, session_id, NULL, NULL, archived_at
                   FROM archives WHERE (?1 IS NULL OR group_folder = ?1) AND ?3 IS NOT 'live'
                 ) ORDER BY state DESC, archived_at DESC, n DESC LIMIT ?2",
            )?;
            let of = params![group.map(Folder::as_str), at_most(limit), state.map(SessionState::as_str)];
            oldest_first(newest.query_map(of, |r| {
                Ok(Session {
                    id: r.get("id")?,
                    group: r.folder("group_folder")?,
                    state: r.word("sessions", "state")?,
                    name: r.get("name")?,
                    session_id: r.get("session_id")?,
                    chat_jid: r.get("chat_jid")?,
                    thread: r.get("thread")?,
                    archived_at: r.time_or_null("archived_at")?,
                })
            })?)
        })
    }

    /// Removes the oldest archived sessions of a group, so that at most `keep` stay, with at most `bytes` bytes of text.
    /// Returns how many were removed. The newest one always stays. `None`: no limit.
    ///
    /// # Errors
    /// The store's.
    pub async fn put_out_archives(
        &self,
        group: Folder,
        keep: Option<usize>,
        bytes: Option<u64>,
    ) -> Result<usize> {
        let limits = (
            keep.and_then(|keep| i64::try_from(keep).ok()).unwrap_or(i64::MAX),
            bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(i64::MAX),
        );
        if limits == (i64::MAX, i64::MAX) {
            return Ok(0);
        }
        let (count, size) = self.read(|c| kept(c, &group))?;
        if count <= limits.0 && size <= limits.1 {
            return Ok(0);
        }
        self.write(move |c| {
            Ok(c.prepare_cached(
                "DELETE FROM archives WHERE id IN (SELECT id FROM (
                   SELECT id, row_number() OVER newest AS n, sum(octet_length(content)) OVER newest AS bytes
                   FROM archives WHERE group_folder = ?1 WINDOW newest AS (ORDER BY archived_at DESC, id DESC)
                 ) WHERE n > 1 AND (n > ?2 OR bytes > ?3))",
            )?
            .execute(params![group.as_str(), limits.0, limits.1])?)
        })
        .await
    }

    /// Returns how many archived sessions a group has, and how many bytes were said in them.
    pub fn archives_kept(&self, group: &Folder) -> Result<(i64, i64)> {
        self.read(|c| kept(c, group))
    }

    /// Removes an archived session; returns whose it was.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]
    pub async fn delete_archive(&self, id: i64) -> Result<Folder> {
        self.write(move |c| {
            let (group, _) = archived(c, id, None)?
                .ok_or_else(|| StoreError::NotFound { what: "archived session", id: id.to_string() })?;
            unarchive(c, id)?;
            Ok(group)
        })
        .await
    }

    /// Returns the sessions that a group's lanes (or one of them) have now.
    pub fn live_sessions(&self, group: &Folder, lanes: Lanes) -> Result<Vec<String>> {
        self.read(|c| live(c, group, lanes))
    }
}

pub(in crate::store) fn session_row(r: &Row<'_>) -> rusqlite::Result<ArchivedSession> {
    Ok(ArchivedSession {
        id: r.get("id")?,
        name: r.get("name")?,
        session_id: r.get("session_id")?,
        archived_at: r.time("archived_at")?,
    })
}

fn kept(c: &Connection, group: &Folder) -> Result<(i64, i64)> {
    Ok(c.prepare_cached(
        "SELECT count(*) AS count, coalesce(sum(octet_length(content)), 0) AS bytes FROM archives WHERE group_folder = ?1",
    )?
    .query_row([group.as_str()], |r| Ok((r.get("count")?, r.get("bytes")?)))?)
}

fn live(c: &Connection, group: &Folder, lanes: Lanes) -> Result<Vec<String>> {
    Ok(c.prepare_cached(
        "SELECT DISTINCT session_id FROM sessions WHERE group_folder = ?1 AND (?2 IS NULL OR lane_id = ?2) AND session_id IS NOT NULL ORDER BY lane_id",
    )?
    .query_map(params![group.as_str(), lanes.one()], |r| r.get(0))?
    .collect::<rusqlite::Result<_>>()?)
}

/// Keeps the sessions that lanes have now; returns the last one's number.
pub(in crate::store) fn archive_live(
    c: &Connection,
    group: &Folder,
    lanes: Lanes,
    name: &str,
    transcripts: &Transcripts,
    now: Time,
) -> Result<Option<i64>> {
    let mut last = None;
    for session in live(c, group, lanes)? {
        let content = transcripts.get(&session).map_or("", String::as_str);
        last = Some(archive(c, group, &session, name, content, now)?);
    }
    Ok(last)
}

/// Archives a session under a name. An archive of it under another name stays; one under this name is replaced. An empty
/// transcript replaces nothing.
pub(in crate::store) fn archive(
    c: &Connection,
    group: &Folder,
    session: &str,
    name: &str,
    content: &str,
    now: Time,
) -> Result<i64> {
    Ok(c.prepare_cached(
        "INSERT INTO archives (group_folder, session_id, name, content, archived_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (group_folder, session_id, name) DO UPDATE SET archived_at = excluded.archived_at, revision = revision + 1,
           content = CASE WHEN excluded.content = '' THEN content ELSE excluded.content END
         RETURNING id",
    )?
    .query_row(params![group.as_str(), session, name, content, now.0], |r| r.get("id"))?)
}

/// Gives lanes another session, or none. A lane without any agent so far has no session to lose.
pub(in crate::store) fn give(
    c: &Connection,
    group: &Folder,
    lanes: Lanes,
    session: Option<&str>,
) -> Result<()> {
    if session.is_some() {
        let mut known = c.prepare_cached(
            "INSERT INTO sessions (lane_id, group_folder, chat_jid, thread) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?;
        for lane in lanes_of(c, group, lanes)? {
            known.execute(params![lane.id, group.as_str(), lane.chat, lane.thread])?;
        }
    }
    c.prepare_cached(
        "UPDATE sessions SET session_id = ?3, generation = generation + 1, failed_resumes = 0, fresh_why = NULL, proven = (?3 IS NOT NULL) WHERE group_folder = ?1 AND (?2 IS NULL OR lane_id = ?2)",
    )?
    .execute(params![group.as_str(), lanes.one(), session])?;
    Ok(())
}

/// Raises the generation of a group's lanes, so that its live run leaves. The lanes keep their sessions.
pub(in crate::store) fn renew(c: &Connection, group: &Folder) -> Result<()> {
    c.prepare_cached("UPDATE sessions SET generation = generation + 1 WHERE group_folder = ?1")?
        .execute([group.as_str()])?;
    Ok(())
}

/// Returns the archived session of this number, if it is of `scope`.
pub(in crate::store) fn archived(
    c: &Connection,
    id: i64,
    scope: Option<&Folder>,
) -> Result<Option<(Folder, String)>> {
    Ok(c.prepare_cached(
        "SELECT group_folder, session_id FROM archives WHERE id = ?1 AND (?2 IS NULL OR group_folder = ?2)",
    )?
    .query_row(params![id, scope.map(Folder::as_str)], |r| {
        Ok((r.folder("group_folder")?, r.get("session_id")?))
    })
    .optional()?)
}

/// A session that goes on is no archive any more.
pub(in crate::store) fn unarchive(c: &Connection, id: i64) -> Result<()> {
    c.prepare_cached("DELETE FROM archives WHERE id = ?1")?.execute([id])?;
    Ok(())
}
