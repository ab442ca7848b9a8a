//! A store that a test breaks, to see what becomes of what others have in hand.

use super::{Result, Store};

impl Store {
    /// Has every read and write of a table fail, until it is mended.
    pub(crate) async fn breaks(&self, table: &'static str) -> Result<()> {
        self.rename(table.to_owned(), format!("{table}_broken")).await
    }

    pub(crate) async fn is_mended(&self, table: &'static str) -> Result<()> {
        self.rename(format!("{table}_broken"), table.to_owned()).await
    }

    async fn rename(&self, from: String, to: String) -> Result<()> {
        // Views and triggers are as they were, so they are broken, too.
        let change = format!("PRAGMA legacy_alter_table = ON; ALTER TABLE {from} RENAME TO {to}");
        self.write(move |c| Ok(c.execute_batch(&change)?)).await
    }
}
