//! The root's own facts: instance id and what identifies its `data/`.

use rusqlite::{Connection, OptionalExtension};

use ipc_handlers::Time;
use serde::Deserialize;

use super::{Result, Store, Version};
use crate::system::failpoint;

/// How a newer program has changed the schema.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Upgrade {
    /// The versions of the schema before and after.
    pub from: Version,
    pub to: Version,
    at: i64,
    /// What was changed, a line each.
    pub changes: Vec<String>,
}

impl Upgrade {
    /// When it was done.
    #[must_use]
    pub fn at(&self) -> Time {
        Time(self.at)
    }
}

impl Store {
    /// Returns a fact by its name.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        self.read(|c| {
            Ok(c.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()?)
        })
    }

    /// Returns the last change of the schema by a newer program; `None`: there was none.
    pub fn upgrade(&self) -> Result<Option<Upgrade>> {
        Ok(self.meta("upgraded")?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Makes a change that nobody sees, and returns once it is durable: changes are stored.
    ///
    /// # Errors
    /// The store's.
    pub async fn beat(&self, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "INSERT INTO meta (key, value) VALUES ('beat', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
            )?
            .execute([now.to_string()])?;
            failpoint::reach("store.beat");
            Ok(())
        })
        .await
    }

    /// Empties a fact that is still this one.
    pub async fn clear_meta(&self, key: &str, is: &str) -> Result<()> {
        let (key, is) = (key.to_owned(), is.to_owned());
        self.write(move |c| {
            c.execute("UPDATE meta SET value = '' WHERE key = ?1 AND value = ?2", [key, is])?;
            Ok(())
        })
        .await
    }

    /// Writes a fact.
    pub async fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.write(move |c| {
            c.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
                [key, value],
            )?;
            Ok(())
        })
        .await
    }
}

/// Forgets a fact.
pub(in crate::store) fn forget_meta(c: &Connection, key: &str) -> Result<()> {
    c.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?;
    Ok(())
}
