//! Cards that are to say that their question is closed. A row is there from the commit that closes it until the platform shows
//! that, or it is given up.

use rusqlite::{OptionalExtension as _, params};

use super::approvals::{APPROVAL, approval_row};
use crate::{
    domain::states::DeliveryStatus,
    store::{Result, Store, columns::Columns as _},
};

/// A card, and what came of its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amend {
    pub chat_jid: String,
    pub card: String,
    /// Whether the card was said.
    pub status: DeliveryStatus,
    pub outcome: String,
}

impl Store {
    /// Returns the cards whose question is closed and of which it is known whether they were said, at most `limit`.
    pub async fn amends(&self, limit: usize) -> Result<Vec<i64>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT m.outbox_id FROM amends m CROSS JOIN approvals a ON a.id = m.approval_id CROSS JOIN outbox o ON o.id = m.outbox_id
                 WHERE a.state <> 'pending' AND o.status IN ('sent', 'failed') LIMIT ?1",
            )?
            .query_map([limit], |r| r.get("outbox_id"))?
            .collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns a card that is to be changed; `None`: it is not, or its question is open again.
    pub async fn amend(&self, outbox: i64) -> Result<Option<Amend>> {
        self.ask(move |c| {
            let card = c
                .prepare_cached(
                    "SELECT o.chat_jid, o.text, o.status, m.approval_id FROM amends m JOIN outbox o ON o.id = m.outbox_id
                     JOIN approvals a ON a.id = m.approval_id WHERE m.outbox_id = ?1 AND a.state <> 'pending'",
                )?
                .query_row([outbox], |r| {
                    let amend = Amend {
                        chat_jid: r.get("chat_jid")?,
                        card: r.get("text")?,
                        status: r.word("outbox", "status")?,
                        outcome: String::new(),
                    };
                    Ok((amend, r.get::<_, i64>("approval_id")?))
                })
                .optional()?;
            let Some((amend, approval)) = card else { return Ok(None) };
            let mut question = c.prepare_cached(&format!("{APPROVAL} WHERE id = ?1"))?;
            let outcome = question.query_row([approval], approval_row)?.outcome();
            Ok(Some(Amend { outcome, ..amend }))
        })
        .await
    }

    /// A card is changed, or that is given up.
    pub async fn drop_amend(&self, outbox: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("DELETE FROM amends WHERE outbox_id = ?1")?.execute(params![outbox])?;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_card_that_may_have_arrived_keeps_no_other_back_and_is_listed_once_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("g2.sqlite")).unwrap();
        let cards = "INSERT INTO outbox (chat_jid, text, status, cause, created_at, sent_at)
               VALUES ('tg:1', 'one', 'unknown', 'test', 0, NULL), ('tg:1', 'two', 'pending', 'test', 0, NULL), ('tg:1', 'three', 'sent', 'test', 0, 0);
             INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at)
               VALUES ('sender', 'tg:1', 'tg:2', 'one', 'expired', 'tg:3', 'tg:3', '[]', 0, 0, 0);
             INSERT INTO amends (outbox_id, approval_id) SELECT o.id, a.id FROM outbox o, approvals a";
        store.write(move |c| Ok(c.execute_batch(cards)?)).await.unwrap();
        assert_eq!(store.amends(1).await.unwrap(), [3]);
        store
            .write(|c| Ok(c.execute_batch("UPDATE outbox SET status = 'sent', sent_at = 0")?))
            .await
            .unwrap();
        assert_eq!(store.amends(8).await.unwrap(), [1, 2, 3]);
    }
}
