//! Groups whose own model is at a limit, and that ask another one meanwhile: that of their setting `model_fallback`.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::domain::runs::hindrance::{Fallback, LONGEST_WHY, Refused};
use crate::store::{Result, Store, columns::Columns as _};

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
}

/// A run of a group has met a limit of its model: from the next run on it asks that of its `model_fallback`. `None`: it has none, or
/// that one is at its limit, too.
pub(in crate::store) fn begin(
    c: &Connection,
    group: &Folder,
    refused: &Refused,
    now: Time,
) -> Result<Option<Fallback>> {
    if !refused.what.is_weather() {
        return Ok(None);
    }
    let model: Option<Option<String>> = c
        .prepare_cached(
            "SELECT config ->> '$.model_fallback' FROM groups g WHERE folder = ?1
               AND NOT EXISTS (SELECT 1 FROM fallbacks f WHERE f.group_folder = g.folder AND f.until > ?2)",
        )?
        .query_row(params![group.as_str(), now.0], |r| r.get(0))
        .optional()?;
    let Some(model) = model.flatten() else { return Ok(None) };
    let fallback = Fallback::new(model, refused.until, now);
    let why: String = refused.why.chars().take(LONGEST_WHY).collect();
    c.prepare_cached(
        "INSERT OR REPLACE INTO fallbacks (group_folder, why, since, until) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![group.as_str(), why, now.0, fallback.until.0])?;
    Ok(Some(fallback))
}
