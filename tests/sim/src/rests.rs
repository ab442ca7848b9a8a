//! What rests when a daemon has died, and until when: the next one keeps to it.

use std::collections::BTreeSet;

use rusqlite::Connection;

/// A lane or a task that rests.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// The source of its runs, and their group.
    source: Source,
    group: String,
    /// From when on it was looked at, and until when it rests, by the wall clock, ms.
    since: i64,
    until: i64,
}

#[derive(Clone, Debug)]
enum Source {
    Lane(i64),
    Task(String),
}

/// Returns what rests beyond `now`. A group that a refused key or a missing image holds up is tried at once by the next daemon.
pub(crate) fn of(c: &Connection, now: i64) -> Vec<Rest> {
    const LANES: &str = "SELECT group_folder, lane_id, NULL AS id, rest_until FROM sessions
         WHERE rest_until > ?1 AND group_folder NOT IN (SELECT group_folder FROM hindrances)
       UNION ALL SELECT group_folder, NULL, id, rest_until FROM tasks
         WHERE status = 'active' AND rest_until > ?1 AND group_folder NOT IN (SELECT group_folder FROM hindrances)";
    let rests = c.prepare(LANES).and_then(|mut rows| {
        rows.query_map([now], |r| {
            let source = match r.get::<_, Option<i64>>("lane_id")? {
                Some(lane) => Source::Lane(lane),
                None => Source::Task(r.get("id")?),
            };
            Ok(Rest { source, group: r.get("group_folder")?, since: now, until: r.get("rest_until")? })
        })?
        .collect()
    });
    rests.unwrap_or_default()
}

/// Returns the rows for chats that are put off beyond `now`.
pub(crate) fn put_off(c: &Connection, now: i64) -> BTreeSet<i64> {
    let rows = c.prepare("SELECT id FROM outbox WHERE next_try_at > ?1");
    rows.and_then(|mut rows| rows.query_map([now], |r| r.get("id"))?.collect()).unwrap_or_default()
}

/// Returns which rests were not kept.
pub(crate) fn broken(c: &Connection, rests: &[Rest]) -> Vec<String> {
    let early = |rest: &Rest| {
        let (what, source) = match &rest.source {
            Source::Lane(lane) => ("kind = 'message' AND lane_id = ?1", lane.to_string()),
            Source::Task(id) => ("source = 'task:' || ?1", id.clone()),
        };
        let sql = format!(
            "SELECT min(created_at) FROM runs WHERE {what} AND group_folder = ?2 AND created_at >= ?3 AND created_at < ?4"
        );
        let at: Option<i64> =
            c.query_row(&sql, (source, &rest.group, rest.since, rest.until), |r| r.get(0)).ok().flatten();
        at.map(|at| format!("{rest:?} is not kept by a restart: a run is made at {at}"))
    };
    rests.iter().filter_map(early).collect()
}
