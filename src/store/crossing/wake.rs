//! A lane's agent is woken: with its session, or in a fresh one that is told what was said last. It is decided, kept and told in
//! the transaction that makes the run.

use ipc_handlers::Time;
use rusqlite::{Connection, params};

use super::{
    handover::Seat,
    said::{Key, said},
};
use crate::domain::runs::wake::{
    FreshWhy, Line, SUMMARY_LINE_CHARS, SUMMARY_LINES, Standing, Wake, Woken, wake,
};
use crate::store::{Result, columns::Columns as _, talk::outbox::Say, work::sessions};

/// How many of a lane's newest runs are looked at for deaths.
const LOOKED_AT: usize = 16;

/// How a lane's agent is woken now.
pub(super) fn decide(c: &Connection, seat: &Seat, fresh_after_ms: Option<i64>, now: Time) -> Result<Wake> {
    let standing = c
        .prepare_cached(
            "SELECT session_id IS NOT NULL AS has_session, proven, failed_resumes, fresh_why, active_at FROM sessions WHERE lane_id = ?1",
        )?
        .query_row([seat.lane], |r| {
            Ok(Standing {
                has_session: r.get("has_session")?,
                is_proven: r.get("proven")?,
                failed_resumes: r.get("failed_resumes")?,
                fresh_why: r.word_or_null("sessions", "fresh_why")?,
                deaths: Vec::new(),
                active_at: r.time_or_null("active_at")?,
            })
        })?;
    if !standing.has_session {
        return Ok(wake(&standing, fresh_after_ms, now));
    }
    let newest: Vec<(Option<Woken>, Option<Time>)> = c
        .prepare_cached(
            "SELECT wake, iif(died, ended_at, NULL) AS died_at FROM runs WHERE group_folder = ?1 AND for_lane = ?2 AND ended_at IS NOT NULL
             ORDER BY id DESC LIMIT ?3",
        )?
        .query_map(params![seat.group.as_str(), seat.lane, LOOKED_AT], |r| {
            Ok((r.word_or_null("runs", "wake")?, r.time_or_null("died_at")?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    // Deaths before the session was begun are none of it.
    let since = newest.iter().position(|(woken, _)| matches!(woken, Some(Woken::Fresh | Woken::First)));
    let of_it = &newest[..since.map_or(newest.len(), |at| at + 1)];
    let deaths = of_it.iter().filter_map(|(_, died)| *died).collect();
    Ok(wake(&Standing { deaths, ..standing }, fresh_after_ms, now))
}

/// Keeps with a run how its agent was woken. A session that is not resumed is archived if a turn of it was
/// finished, and its chat is told. Returns what was said before the inbox row `before`; of a first session nothing.
pub(super) fn keep(
    c: &Connection,
    seat: &mut Seat,
    run: i64,
    decided: Wake,
    before: i64,
    now: Time,
) -> Result<Vec<Line>> {
    let (woken, why) = match decided {
        Wake::First => (Woken::First, None),
        Wake::Resume => (Woken::Resume, None),
        Wake::Fresh(why) => (Woken::Fresh, Some(why)),
    };
    c.prepare_cached("UPDATE runs SET wake = ?2, fresh_why = ?3 WHERE id = ?1")?.execute(params![
        run,
        woken.as_str(),
        why.map(FreshWhy::as_str)
    ])?;
    let Some(why) = why else {
        return match woken {
            Woken::First => Ok(Vec::new()),
            // Its agent may turn out not to know the session any more.
            Woken::Resume | Woken::Fresh => lines(c, seat, before),
        };
    };
    let was_decided: bool = c
        .prepare_cached("SELECT fresh_why IS NOT NULL AS decided FROM sessions WHERE lane_id = ?1")?
        .query_row([seat.lane], |r| r.get("decided"))?;
    if !was_decided {
        if let Some(session) = seat.session_id.as_ref().filter(|_| why != FreshWhy::Unfinished) {
            sessions::archive(c, &seat.group, session, &format!("until run {run}"), "", now)?;
        }
        if let Some(text) = why.notice() {
            let cause = format!("run {run} begins a new session");
            let notice = Say::notice(&seat.chat_jid, &seat.thread, text, &cause);
            said(c, &Key::Fresh { run }, &notice, now)?;
        }
    }
    c.prepare_cached(
        "UPDATE sessions SET session_id = NULL, fresh_why = ?2, failed_resumes = 0, proven = 0 WHERE lane_id = ?1",
    )?
    .execute(params![seat.lane, why.as_str()])?;
    seat.session_id = None;
    lines(c, seat, before)
}

/// What was said last in a lane before the inbox row `before`, oldest first: messages that its agent was given or could see, and
/// what it said itself.
fn lines(c: &Connection, seat: &Seat, before: i64) -> Result<Vec<Line>> {
    let most = SUMMARY_LINE_CHARS + 1;
    let mut said: Vec<Line> = c
        .prepare_cached(
            "SELECT m.received_at AS at, m.sender_name, substr(m.shown, 1, ?3) AS text FROM inbox i INDEXED BY inbox_by_lane JOIN messages m ON m.seq = i.seq
             WHERE i.lane_id = ?1 AND i.n < ?2 AND i.verdict IN ('wake', 'context') ORDER BY i.n DESC LIMIT ?4",
        )?
        .query_map(params![seat.lane, before, most, SUMMARY_LINES], |r| {
            Ok(Line { at: r.time("at")?, sender: r.get("sender_name")?, text: r.get("text")? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let ours = c
        .prepare_cached(
            "SELECT created_at AS at, substr(text, 1, ?4) AS text FROM outbox WHERE chat_jid = ?1 AND thread = ?2 AND group_folder = ?3 AND status IN ('sent', 'unknown')
               -- However much else is said there.
               AND id > (SELECT coalesce(max(id), 0) FROM outbox) - 5000
             ORDER BY id DESC LIMIT ?5",
        )?
        .query_map(params![seat.chat_jid, seat.thread, seat.group.as_str(), most, SUMMARY_LINES], |r| {
            Ok(Line { at: r.time("at")?, sender: None, text: r.get("text")? })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    said.extend(ours);
    said.sort_by_key(|line| line.at);
    let oldest = said.len().saturating_sub(SUMMARY_LINES);
    Ok(said.split_off(oldest))
}
