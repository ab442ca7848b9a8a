//! What channels are asked to say, and for whom.

use ipc_handlers::Time;
use rusqlite::OptionalExtension;

use crate::{
    domain::platforms::signs::Sign,
    store::{NextDelivery, Result, Store, talk::outbox::next_delivery},
};

impl Store {
    /// Returns the reaction that the newest message of a batch is to have, where its group wants one.
    pub async fn sign_of(&self, batch: i64) -> Result<Option<Sign>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT m.chat_jid, m.id, g.config ->> '$.seen' AS sign
                 FROM batches b JOIN sessions s ON s.lane_id = b.lane_id JOIN groups g ON g.folder = s.group_folder
                   JOIN inbox i ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                   JOIN messages m ON m.seq = i.seq
                 WHERE b.id = ?1 AND g.config ->> '$.seen' IS NOT NULL ORDER BY i.n DESC LIMIT 1",
            )?
            .query_row([batch], |r| {
                Ok(Sign { chat_jid: r.get("chat_jid")?, message_id: r.get("id")?, sign: r.get("sign")?, sign_id: None })
            })
            .optional()?)
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
