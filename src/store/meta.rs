//! The root's own facts: instance id and what identifies its `data/`.

use rusqlite::OptionalExtension;

use super::{Result, Store};

impl Store {
    /// Returns a fact by its name.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        self.read(|c| {
            Ok(c.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()?)
        })
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
