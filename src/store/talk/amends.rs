//! What of ours on platforms is to be changed there, row by row. Rows of cards are made by triggers, in the commit that closes the
//! question. What is to be changed now is read in `views/channels.rs`.

use rusqlite::params;

use crate::store::{Result, Store};

impl Store {
    /// Writes down a reaction before it is put. Returns its row.
    pub async fn put_sign(&self, batch: i64, chat: &str, message_id: &str) -> Result<i64> {
        let (chat, message_id) = (chat.to_owned(), message_id.to_owned());
        self.write(move |c| {
            c.prepare_cached("INSERT INTO amends (batch, chat_jid, message_id) VALUES (?1, ?2, ?3)")?
                .execute(params![batch, chat, message_id])?;
            Ok(c.last_insert_rowid())
        })
        .await
    }

    /// Writes down what the platform calls a reaction.
    pub async fn name_sign(&self, row: i64, id: String) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE amends SET sign_id = substr(?2, 1, 512) WHERE id = ?1")?
                .execute(params![row, id])?;
            Ok(())
        })
        .await
    }

    /// The platform shows a change, or it is given up.
    pub async fn drop_amend(&self, row: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("DELETE FROM amends WHERE id = ?1")?.execute([row])?;
            Ok(())
        })
        .await
    }
}
