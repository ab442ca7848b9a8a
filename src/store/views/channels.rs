//! What channels are asked to say, and for whom.

use ipc_handlers::Time;
use rusqlite::Connection;

use crate::{
    domain::{
        heard::{approvals::wording, questions},
        platforms::amends::{Amend, What},
        states::DeliveryStatus,
    },
    store::{
        NextDelivery, Result, Store,
        columns::Columns as _,
        talk::{
            approvals::{APPROVAL, approval_row},
            outbox::{next_delivery, parts_of},
        },
    },
};

impl Store {
    /// Returns what of ours is to be changed on the platform of a chat now, or of all. Cards come first, and reactions go before others
    /// are put.
    pub async fn amends(&self, chat: Option<&str>) -> Result<Vec<Amend>> {
        let chat = chat.map(str::to_owned);
        self.ask(move |c| {
            let mut all = is_closed(c, chat.as_deref())?;
            all.extend(goes(c, chat.as_deref())?);
            all.extend(is_put(c, chat.as_deref())?);
            Ok(all)
        })
        .await
    }

    /// Returns the oldest open row of a chat, and whether a person waits for it. Nothing is marked.
    pub async fn next_delivery(&self, chat: &str, now: Time) -> Result<NextDelivery> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            let mut next = next_delivery(c, &chat, now)?;
            if let NextDelivery::Now(delivery) = &mut next {
                delivery.for_people = c
                    .prepare_cached(
                        "SELECT NOT EXISTS (SELECT 1 FROM outbox o JOIN runs r ON r.id = o.run_id WHERE o.id = ?1 AND r.kind <> 'message') AS for_people",
                    )?
                    .query_row([delivery.id], |r| r.get("for_people"))?;
            }
            Ok(next)
        })
        .await
    }
}

/// Returns the reactions to messages that no agent has in hand any more.
fn goes(c: &Connection, chat: Option<&str>) -> Result<Vec<Amend>> {
    Ok(c.prepare_cached(
        "SELECT m.id, m.chat_jid, m.message_id, m.sign_id
         FROM amends m LEFT JOIN batches b ON b.id = m.batch AND (b.state = 'handed' OR b.state = 'claimed')
         WHERE m.batch IS NOT NULL AND b.id IS NULL AND (?1 IS NULL OR m.chat_jid = ?1) ORDER BY m.id",
    )?
    .query_map([chat], |r| {
        let what = What::TakeAway {
            row: r.get("id")?,
            message_id: r.get("message_id")?,
            sign_id: r.get("sign_id")?,
        };
        Ok(Amend { chat_jid: r.get("chat_jid")?, what })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// Returns the reactions that the newest messages are to have of those that agents have in hand, where their groups want that.
fn is_put(c: &Connection, chat: Option<&str>) -> Result<Vec<Amend>> {
    Ok(c.prepare_cached(
        "SELECT t.chat_jid, b.id AS batch, t.id, g.config ->> '$.seen' AS sign
         FROM batches b INDEXED BY batches_open CROSS JOIN sessions s ON s.lane_id = b.lane_id CROSS JOIN groups g ON g.folder = s.group_folder
           CROSS JOIN messages t ON t.seq = (SELECT i.seq FROM inbox i
             WHERE i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake' ORDER BY i.n DESC LIMIT 1)
         WHERE (b.state = 'handed' OR b.state = 'claimed') AND t.id <> '' AND g.config ->> '$.seen' IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM amends m WHERE m.batch = b.id) AND (?1 IS NULL OR t.chat_jid = ?1) ORDER BY b.id",
    )?
    .query_map([chat], |r| {
        let what = What::Put { batch: r.get("batch")?, message_id: r.get("id")?, sign: r.get("sign")? };
        Ok(Amend { chat_jid: r.get("chat_jid")?, what })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// Returns the cards whose question is closed and of which it is known whether they were said.
fn is_closed(c: &Connection, chat: Option<&str>) -> Result<Vec<Amend>> {
    let mut cards = c.prepare_cached(
        "SELECT m.id, m.outbox_id, m.approval_id, m.outcome, o.chat_jid, o.text, o.status, o.group_folder IS NOT NULL AS is_markdown
         FROM amends m CROSS JOIN outbox o ON o.id = m.outbox_id LEFT JOIN approvals a ON a.id = m.approval_id
         WHERE (m.outcome IS NOT NULL OR a.state <> 'pending') AND o.status IN ('sent', 'failed') AND (?1 IS NULL OR o.chat_jid = ?1) ORDER BY m.id",
    )?;
    let mut question = c.prepare_cached(&format!("{APPROVAL} WHERE id = ?1"))?;
    let (mut all, mut cards) = (Vec::new(), cards.query([chat])?);
    while let Some(r) = cards.next()? {
        let is_said = r.word::<DeliveryStatus>("outbox", "status")? == DeliveryStatus::Sent;
        let parts = if is_said { parts_of(c, r.get("outbox_id")?)? } else { Vec::new() };
        let (card, is_markdown): (String, bool) = (r.get("text")?, r.get("is_markdown")?);
        let outcome = match r.get("outcome")? {
            Some(outcome) => outcome,
            None => question.query_row([r.get::<_, i64>("approval_id")?], approval_row)?.outcome(),
        };
        let what = What::Close {
            row: r.get("id")?,
            ids: parts.into_iter().filter_map(|part| part.platform_id).collect(),
            closed: if is_markdown {
                questions::closed(&card, &outcome)
            } else {
                wording::closed(&card, &outcome)
            },
            card,
            is_markdown,
        };
        all.push(Amend { chat_jid: r.get("chat_jid")?, what });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_card_that_may_have_arrived_is_to_be_changed_once_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("g2.sqlite")).unwrap();
        let cards = "INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:1', 'tg', 'one', 'direct', 0);
             INSERT INTO outbox (chat_jid, text, status, cause, created_at, sent_at)
               VALUES ('tg:1', 'one', 'unknown', 'test', 0, NULL), ('tg:1', 'two', 'pending', 'test', 0, NULL), ('tg:1', 'three', 'sent', 'test', 0, 0);
             INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at)
               VALUES ('sender', 'tg:1', 'tg:2', 'one', 'expired', 'tg:3', 'tg:1', '[]', 0, 0, 0);
             INSERT INTO amends (outbox_id, approval_id) SELECT o.id, a.id FROM outbox o, approvals a ORDER BY o.id";
        store.write(move |c| Ok(c.execute_batch(cards)?)).await.unwrap();
        let cards = async |chat| -> Vec<String> {
            let all = store.amends(chat).await.unwrap().into_iter();
            all.filter_map(|amend| match amend.what {
                What::Close { card, .. } => Some(card),
                What::Put { .. } | What::TakeAway { .. } => None,
            })
            .collect()
        };
        assert_eq!(cards(None).await, ["three"]);
        store
            .write(|c| Ok(c.execute_batch("UPDATE outbox SET status = 'sent', sent_at = 0")?))
            .await
            .unwrap();
        assert_eq!(cards(Some("tg:1")).await, ["one", "two", "three"]);
        assert!(cards(Some("tg:2")).await.is_empty());
    }
}
