//! How far each person has read in a chat.

use ipc_handlers::Time;
use rusqlite::params;

use crate::store::{Result, Store};

impl Store {
    /// Notes that `user` has now seen all of a chat.
    pub async fn visit(&self, chat: &str, user: &str, now: Time) -> Result<()> {
        let (chat, user) = (chat.to_owned(), user.to_owned());
        self.write(move |c| {
            c.prepare_cached(
                "INSERT INTO visits (chat_jid, user_id, message, said, at)
                 SELECT ?1, ?2, (SELECT coalesce(max(seq), 0) FROM messages WHERE chat_jid = ?1),
                        (SELECT coalesce(max(id), 0) FROM outbox WHERE chat_jid = ?1 AND status = 'sent'), ?3
                 ON CONFLICT (chat_jid, user_id) DO UPDATE SET message = excluded.message, said = excluded.said, at = excluded.at",
            )?
            .execute(params![chat, user, now.0])?;
            Ok(())
        })
        .await
    }
}
