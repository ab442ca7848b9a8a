//! A chat as a person reads it: both sides in one order, and how far each person has read.

use rusqlite::{OptionalExtension, params};

use crate::store::{
    Result, Store,
    talk::lines::{LONGEST_SHOWN, Line, line_row},
};

/// The newest lines of a chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Oldest first.
    pub lines: Vec<Line>,
    /// How many of them the reader has not seen, all at the end.
    pub new: usize,
    /// How many the reader has not seen and that are not among the lines.
    pub older: usize,
}

/// Both sides of a chat that are there to be read, newest first.
const BOTH: &str = "SELECT * FROM (
   SELECT * FROM (SELECT 0 AS ours, seq AS id, sender, sender_name, substr(shown, 1, ?2) AS text, length(shown) > ?2 AS cut, received_at AS at, files
                  FROM messages WHERE chat_jid = ?1 ORDER BY seq DESC LIMIT ?3)
   UNION ALL
   SELECT * FROM (SELECT 1, o.id, '', coalesce(o.sender, (SELECT ltrim(g.trigger, '@') FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = o.run_id)),
                         substr(o.text, 1, ?2), length(o.text) > ?2, o.sent_at, o.files
                  FROM outbox o WHERE o.chat_jid = ?1 AND o.status = 'sent' AND o.growth IS NOT 'growing' ORDER BY o.id DESC LIMIT ?3)
 ) ORDER BY at DESC, ours DESC, id DESC LIMIT ?3";

impl Store {
    /// Returns the newest lines of a chat for `user`: at least `few` of them, and up to `many` where the user has not seen
    /// all of them. Nothing is new to a user who was never there.
    pub async fn conversation(
        &self,
        chat: &str,
        user: &str,
        few: usize,
        many: usize,
    ) -> Result<Conversation> {
        let (chat, user) = (chat.to_owned(), user.to_owned());
        self.ask(move |c| {
            let seen: Option<(i64, i64)> = c
                .prepare_cached("SELECT message, said FROM visits WHERE chat_jid = ?1 AND user_id = ?2")?
                .query_row([&chat, &user], |r| Ok((r.get("message")?, r.get("said")?)))
                .optional()?;
            let new: usize = match seen {
                None => 0,
                Some((message, said)) => c
                    .prepare_cached(
                        "SELECT (SELECT count(*) FROM messages WHERE chat_jid = ?1 AND seq > ?2)
                              + (SELECT count(*) FROM outbox WHERE chat_jid = ?1 AND id > ?3 AND status = 'sent' AND growth IS NOT 'growing')",
                    )?
                    .query_row(params![chat, message, said], |r| r.get(0))?,
            };
            let lines = new.clamp(few, many.max(few));
            let limit = i64::try_from(lines).unwrap_or(i64::MAX);
            let mut newest = c.prepare_cached(BOTH)?;
            let mut newest = newest.query(params![chat, LONGEST_SHOWN, limit])?;
            let mut lines: Vec<Line> = Vec::new();
            while let Some(row) = newest.next()? {
                lines.push(line_row(c, row)?);
            }
            lines.reverse();
            let shown = new.min(lines.len());
            Ok(Conversation { lines, new: shown, older: new - shown })
        })
        .await
    }

    /// Whether all messages of a chat are done: judged, given to an agent, finished, and the answers sent.
    pub async fn chat_at_rest(&self, chat: &str) -> Result<bool> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT NOT EXISTS (SELECT 1 FROM lanes l WHERE l.chat_jid = ?1 AND (
                     EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_unjudged WHERE i.lane_id = l.id AND i.verdict IS NULL)
                  OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'
                             AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid))
                  OR EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND (b.state = 'handed' OR b.state = 'claimed' OR b.state = 'returned'))))
                 AND NOT EXISTS (SELECT 1 FROM outbox o INDEXED BY outbox_open WHERE o.chat_jid = ?1 AND (o.status = 'pending' OR o.status = 'sending' OR o.status = 'unknown'))",
            )?
            .query_row([chat], |r| r.get(0))?)
        })
        .await
    }

    /// Returns who said a row of the outbox: the word that mentions the agent, or the name that it gave itself; `None`: the
    /// host, or nobody.
    pub async fn speaker(&self, outbox_id: i64) -> Result<Option<String>> {
        self.ask(move |c| {
            Ok(c.prepare_cached(
                "SELECT coalesce(o.sender, (SELECT ltrim(g.trigger, '@') FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = o.run_id))
                 FROM outbox o WHERE o.id = ?1",
            )?
            .query_row([outbox_id], |r| r.get(0))
            .optional()?
            .flatten())
        })
        .await
    }
}
