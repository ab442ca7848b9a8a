//! Our reactions to messages that agents have in hand. A row is there from before the reaction is put until it is taken away, so
//! that a restart takes away what an earlier daemon put.

use rusqlite::{OptionalExtension as _, Row, params};

use crate::{
    domain::platforms::signs::Sign,
    store::{Result, Store},
};

impl Store {
    /// Writes down a reaction before it is put.
    pub async fn put_sign(&self, batch: i64, sign: Sign) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "INSERT OR REPLACE INTO signs (batch, chat_jid, message_id, sign) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![batch, sign.chat_jid, sign.message_id, sign.sign])?;
            Ok(())
        })
        .await
    }

    /// Writes down what the platform calls a reaction.
    pub async fn name_sign(&self, batch: i64, id: String) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE signs SET sign_id = substr(?2, 1, 512) WHERE batch = ?1")?
                .execute(params![batch, id])?;
            Ok(())
        })
        .await
    }

    /// A reaction is taken away, or that is given up.
    pub async fn drop_sign(&self, batch: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("DELETE FROM signs WHERE batch = ?1")?.execute([batch])?;
            Ok(())
        })
        .await
    }

    /// Returns the reaction that is put for a batch.
    pub async fn sign_put(&self, batch: i64) -> Result<Option<Sign>> {
        self.ask(move |c| {
            Ok(c.prepare_cached("SELECT chat_jid, message_id, sign, sign_id FROM signs WHERE batch = ?1")?
                .query_row([batch], sign_row)
                .optional()?)
        })
        .await
    }

    /// Returns all reactions that are put, each with its batch.
    pub async fn signs(&self) -> Result<Vec<(i64, Sign)>> {
        self.ask(|c| {
            Ok(c.prepare_cached(
                "SELECT batch, chat_jid, message_id, sign, sign_id FROM signs ORDER BY batch",
            )?
            .query_map([], |r| Ok((r.get("batch")?, sign_row(r)?)))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

fn sign_row(r: &Row<'_>) -> rusqlite::Result<Sign> {
    Ok(Sign {
        chat_jid: r.get("chat_jid")?,
        message_id: r.get("message_id")?,
        sign: r.get("sign")?,
        sign_id: r.get("sign_id")?,
    })
}
