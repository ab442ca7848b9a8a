//! What of the host, or of the model's, keeps groups' runs from their work, and the end of the rests that follow from it.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::domain::runs::hindrance::{Hindrance, LONGEST_REST_MS, LONGEST_WHY, Refused, STEP_MS};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    crossing::waiting::{WaitingLane, waiting},
    talk::groups,
};

/// What keeps the runs of a group from their work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HindranceRow {
    pub group: Folder,
    pub what: Hindrance,
    pub why: String,
    pub since: Time,
    /// Until then what has met it rests; in the past, it is being tried again.
    pub until: Time,
    /// When a limit of the model is over, as its host says.
    pub ends: Option<Time>,
    /// It is a model that there is not, and the group was set to others since.
    pub has_other_models: bool,
}

/// Of a task: it waits for what keeps it from its work. While its run is under way, its next time is that of its next occurrence.
const RESTS: &str = "t.status = 'active' AND t.held_up_since IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_one_per_group
    WHERE r.group_folder = t.group_folder AND r.for_task = t.id AND r.status IN ('queued', 'running'))";

impl Store {
    /// Returns what keeps groups' runs from their work, by group, where something of them waits or is at work.
    pub fn hindrances(&self) -> Result<Vec<HindranceRow>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                // A task rests by a rule of its own, for longer than a lane in the end.
                "SELECT group_folder, what, why, since, ends, other_models,
                   max(until, coalesce((SELECT max(t.next_run) FROM tasks t
                     WHERE t.group_folder = h.group_folder AND {RESTS}), until)) AS until
                 FROM hindrances h
                 WHERE EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open JOIN sessions s ON s.lane_id = b.lane_id
                     WHERE (b.state = 'handed' OR b.state = 'claimed' OR b.state = 'returned') AND s.group_folder = h.group_folder)
                   OR EXISTS (SELECT 1 FROM tasks t WHERE t.group_folder = h.group_folder AND t.status = 'active' AND t.held_up_since IS NOT NULL)
                 ORDER BY group_folder",
            ))?;
            let row = |r: &rusqlite::Row<'_>| {
                Ok(HindranceRow {
                    group: r.folder("group_folder")?,
                    what: r.word("hindrances", "what")?,
                    why: r.get("why")?,
                    since: r.time("since")?,
                    until: r.time("until")?,
                    ends: r.time_or_null("ends")?,
                    has_other_models: r.get("other_models")?,
                })
            };
            Ok(rows.query_map([], row)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Nothing keeps a group's run from its work any more. Returns the lanes that rested until the end of a limit.
    pub async fn hinders_no_more(&self, group: &Folder, now: Time) -> Result<Vec<i64>> {
        let group = group.clone();
        self.write(move |c| over(c, &group, now)).await
    }

    /// Prolongs the rests of a group's lanes that wait for the end of a limit and are nearly over: none is longer than [`STEP_MS`].
    /// Returns the lanes in which something waits, with their rests, if one was prolonged.
    pub async fn prolong(&self, group: &Folder, now: Time) -> Result<Vec<WaitingLane>> {
        const NEARLY_OVER: &str =
            "s.group_folder = ?1 AND s.rest_until > ?2 AND s.rest_until < min(h.until, ?3)
            AND h.group_folder = ?1 AND h.ends IS NOT NULL";
        let (group, soon) = (group.clone(), now.plus_ms(STEP_MS / 2));
        // Most looks find none.
        let is_due: bool = self.read(|c| {
            let asked = format!("SELECT EXISTS (SELECT 1 FROM sessions s, hindrances h WHERE {NEARLY_OVER})");
            Ok(c.prepare_cached(&asked)?.query_row(params![group.as_str(), now.0, soon.0], |r| r.get(0))?)
        })?;
        if !is_due {
            return Ok(Vec::new());
        }
        self.write(move |c| {
            c.prepare_cached(&format!(
                "UPDATE sessions AS s SET rest_until = min(h.until, ?4) FROM hindrances h WHERE {NEARLY_OVER}"
            ))?
            .execute(params![group.as_str(), now.0, soon.0, now.plus_ms(STEP_MS).0])?;
            waiting(c, Some(&group))
        })
        .await
    }

    /// Ends the rests of a group's lanes and tasks that follow from what kept its runs from their work: it may be put right.
    /// Returns the lanes that rested. Rests for another reason last longer, and stay.
    pub async fn try_again(&self, group: &Folder, now: Time) -> Result<Vec<i64>> {
        let group = group.clone();
        self.write(move |c| {
            let until = c
                .prepare_cached("SELECT until FROM hindrances WHERE group_folder = ?1")?
                .query_row([group.as_str()], |r| r.time("until"))
                .optional()?;
            let Some(until) = until else { return Ok(Vec::new()) };
            let set =
                "UPDATE hindrances SET until = min(until, ?2), other_models = 0 WHERE group_folder = ?1";
            c.prepare_cached(set)?.execute(params![group.as_str(), now.0])?;
            end_rests(c, &group, until, now)
        })
        .await
    }
}

/// Ends the rests of a group's lanes that last until then at most, and those of its tasks. Returns the lanes.
fn end_rests(c: &Connection, group: &Folder, until: Time, now: Time) -> Result<Vec<i64>> {
    c.prepare_cached(&format!(
        "UPDATE tasks AS t SET next_run = ?2 WHERE t.group_folder = ?1 AND t.next_run > ?2 AND {RESTS}"
    ))?
    .execute(params![group.as_str(), now.0])?;
    let lanes = c
        .prepare_cached(
            "UPDATE sessions SET rest_until = NULL WHERE group_folder = ?1 AND rest_until > ?2 AND rest_until <= ?3
             RETURNING lane_id",
        )?
        .query_map(params![group.as_str(), now.0, until.0], |r| r.get("lane_id"))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(lanes)
}

/// A hindrance that a run has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Met {
    /// Since when runs of the group meet it.
    pub(in crate::store) since: Time,
    /// How long what has met it rests, ms.
    pub(in crate::store) rest_ms: i64,
    /// When a limit is over, as its host says.
    pub(in crate::store) ends: Option<Time>,
}

/// Notes that a run of a group has met what keeps it from its work.
pub(in crate::store) fn met(
    c: &Connection,
    group: &Folder,
    refused: &Refused,
    base_ms: i64,
    now: Time,
) -> Result<Met> {
    let Refused { what, ref why, until: ends } = *refused;
    let known: Option<(Hindrance, Time, u32, Time)> = c
        .prepare_cached("SELECT what, since, times, until FROM hindrances WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| {
            Ok((r.word("hindrances", "what")?, r.time("since")?, r.get("times")?, r.time("until")?))
        })
        .optional()?;
    // A host says now that a limit is reached, and now that it has no room.
    let is_same = |known: Hindrance| known == what || (known.is_weather() && what.is_weather());
    let (since, times) = match known {
        Some((known, since, times, until)) if is_same(known) && now.ms_since(until) <= LONGEST_REST_MS => {
            // What another lane meets within the rest is the same attempt.
            (since, times.saturating_add(u32::from(until <= now)))
        }
        // It is another one, or the last time is too long ago to be of the same row.
        Some(_) | None => (now, 1),
    };
    let rest_ms = what.rests_ms(ends, times, base_ms, group.as_str(), now);
    // Of a limit the newest word counts; of what else there is, another lane may rest longer.
    let longest_ms = if what.is_weather() { 0 } else { LONGEST_REST_MS };
    if groups::is_known(c, group)? {
        let why: String = why.chars().take(LONGEST_WHY).collect();
        c.prepare_cached(
            "INSERT INTO hindrances (group_folder, what, why, since, times, until, ends) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?8)
             ON CONFLICT (group_folder) DO UPDATE SET what = excluded.what, why = excluded.why, since = excluded.since, times = excluded.times,
               until = max(excluded.until, iif(until <= ?7, until, 0)), ends = excluded.ends,
               other_models = iif(excluded.what = 'no_model', other_models, 0)",
        )?
        .execute(params![
            group.as_str(), what.as_str(), why, since.0, times, now.plus_ms(rest_ms).0, now.plus_ms(longest_ms).0, ends.map(|ends| ends.0)
        ])?;
    }
    Ok(Met { since, rest_ms, ends })
}

/// A group is set to other models: what waits for one that there is may go on.
pub(in crate::store) fn has_other_models(c: &Connection, group: &Folder) -> Result<()> {
    let set = "UPDATE hindrances SET other_models = 1 WHERE group_folder = ?1 AND what = 'no_model'";
    c.prepare_cached(set)?.execute([group.as_str()])?;
    Ok(())
}

/// A run of a group has done its work, so nothing keeps it from that. What waits for the end of a limit goes on: it was lifted, or an
/// earlier word of it was wrong. Returns the lanes that rested until then.
pub(in crate::store) fn over(c: &Connection, group: &Folder, now: Time) -> Result<Vec<i64>> {
    let was: Option<(Option<Time>, Time)> = c
        .prepare_cached("DELETE FROM hindrances WHERE group_folder = ?1 RETURNING ends, until")?
        .query_row([group.as_str()], |r| Ok((r.time_or_null("ends")?, r.time("until")?)))
        .optional()?;
    match was {
        Some((Some(_), until)) => end_rests(c, group, until, now),
        Some((None, _)) | None => Ok(Vec::new()),
    }
}

/// Returns for what a rest of a group until then waits, in words, and when that ends if it is a limit of the model; `None`: it rests
/// for a reason of its own.
pub(in crate::store) fn in_words(
    c: &Connection,
    group: &str,
    until: Time,
) -> rusqlite::Result<Option<(String, Option<Time>)>> {
    c.prepare_cached("SELECT why, ends FROM hindrances WHERE group_folder = ?1 AND until >= ?2")?
        .query_row(params![group, until.0], |r| Ok((r.get("why")?, r.time_or_null("ends")?)))
        .optional()
}
