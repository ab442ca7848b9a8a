//! Groups whose own model is at a limit, and that ask another one meanwhile: that of their setting `model_fallback`.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::said::{Key, said};
use crate::domain::{
    runs::hindrance::{Fallback, Hindrance, LONGEST_WHY, Refused, Then, then},
    time::zone::Zones,
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{groups, outbox::Say},
    work::hindrances,
};

/// Of a group with a fallback whose own model is at a limit still.
const HOLDS: &str = "FROM fallbacks f JOIN groups g ON g.folder = f.group_folder
  WHERE f.until > ?1 AND g.config ->> '$.model_fallback' IS NOT NULL";

/// A group that asks another model than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackRow {
    pub group: Folder,
    pub model: String,
    /// What the host of its own model says.
    pub why: String,
    pub until: Time,
}

impl Store {
    /// Returns the model that a group asks now in place of its own, which is at a limit; `None`: its own.
    pub fn fallback_of(&self, group: &Folder, now: Time) -> Result<Option<String>> {
        self.read(|c| {
            let asked = format!("SELECT g.config ->> '$.model_fallback' {HOLDS} AND f.group_folder = ?2");
            let model = c.prepare_cached(&asked)?.query_row(params![now.0, group.as_str()], |r| r.get(0));
            Ok(model.optional()?)
        })
    }

    /// Whether a group whose work rests for a limit of its model has another one that nobody has asked.
    pub fn may_fall_back(&self, group: &Folder, now: Time) -> Result<bool> {
        self.read(|c| {
            let asked = "SELECT EXISTS (SELECT 1 FROM groups g WHERE g.folder = ?1 AND g.config ->> '$.model_fallback' IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM fallbacks f WHERE f.group_folder = g.folder AND f.until > ?2))";
            Ok(c.prepare_cached(asked)?.query_row(params![group.as_str(), now.0], |r| r.get(0))?)
        })
    }

    /// Returns the groups that ask another model than their own, by name.
    pub fn fallbacks(&self, now: Time) -> Result<Vec<FallbackRow>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                "SELECT f.group_folder, g.config ->> '$.model_fallback' AS model, f.why, f.until {HOLDS} ORDER BY f.group_folder"
            ))?;
            let row = |r: &rusqlite::Row<'_>| {
                Ok(FallbackRow {
                    group: r.folder("group_folder")?,
                    model: r.get("model")?,
                    why: r.get("why")?,
                    until: r.time("until")?,
                })
            };
            Ok(rows.query_map([now.0], row)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// A run of a group asks `model` in place of the group's own. The chat that it is for is told that once, with the hour.
    pub async fn falls_back(
        &self,
        (group, run): (&Folder, i64),
        model: String,
        zones: Zones,
        now: Time,
    ) -> Result<()> {
        let group = group.clone();
        self.write(move |c| {
            let row: Option<(Hindrance, Time, Time)> = c
                .prepare_cached("UPDATE fallbacks SET run_id = ?2 WHERE group_folder = ?1 RETURNING what, since, until")?
                .query_row(params![group.as_str(), run], |r| {
                    Ok((r.word("fallbacks", "what")?, r.time("since")?, r.time("until")?))
                })
                .optional()?;
            let lane: Option<(i64, String, String)> = c
                .prepare_cached(
                    "SELECT s.lane_id, s.chat_jid, s.thread FROM runs r JOIN sessions s ON s.lane_id = r.for_lane WHERE r.id = ?1",
                )?
                .query_row([run], |r| Ok((r.get("lane_id")?, r.get("chat_jid")?, r.get("thread")?)))
                .optional()?;
            let Some(((what, since, until), (lane, chat, thread))) = row.zip(lane) else { return Ok(()) };
            let zone = groups::zone_of(c, &group, &zones)?.zone;
            let text = Fallback { model, until }.notice(what, now, &zone);
            let cause = format!("run {run} asks another model");
            said(c, &Key::Hindered { lane, since }, &Say::notice(&chat, &thread, &text, &cause), now)?;
            Ok(())
        })
        .await
    }
}

/// A run of a group has met a limit of its model. Returns what follows for the group's work.
pub(in crate::store) fn met(
    c: &Connection,
    (group, run): (&Folder, i64),
    refused: &Refused,
    now: Time,
) -> Result<Then> {
    let model: Option<Option<String>> = c
        .prepare_cached("SELECT config ->> '$.model_fallback' FROM groups WHERE folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?;
    let row: Option<(Time, Option<i64>)> = c
        .prepare_cached("SELECT until, run_id FROM fallbacks WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| Ok((r.time("until")?, r.get("run_id")?)))
        .optional()?;
    let then = then(refused, model.flatten().is_some(), row.map(|(until, of)| (until, of == Some(run))), now);
    if let Then::FallBack { until } = then {
        let why: String = refused.why.chars().take(LONGEST_WHY).collect();
        c.prepare_cached(
            "INSERT OR REPLACE INTO fallbacks (group_folder, what, why, since, until) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![group.as_str(), refused.what.as_str(), why, now.0, until.0])?;
    }
    Ok(then)
}

/// A group is given another model: its next run asks that.
pub(in crate::store) fn forget(c: &Connection, group: &Folder) -> Result<()> {
    c.execute("DELETE FROM fallbacks WHERE group_folder = ?1", [group.as_str()])?;
    hindrances::has_other_models(c, group)
}
