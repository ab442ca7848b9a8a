//! A chat as a person reads it: both sides in one order, and how far each person has read.

use rusqlite::{OptionalExtension, Row, params};

use crate::store::{Result, Store};

/// How much of a line is shown, characters; `g2 messages list` and `g2 outbox list` have it whole.
const LONGEST_SHOWN: i64 = 4096;

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

/// Something that somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub by: By,
    /// The beginning of a very long text.
    pub text: String,
    /// The text goes on.
    pub cut: bool,
}

/// Whose line it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A person, by the name that the channel gives; `id` is the user's.
    Person { id: String, name: String },
    /// An agent, by the word that mentions it; `None`: the host itself.
    Agent(Option<String>),
}

/// A message of a chat, when it is known whether an agent was woken by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub seq: i64,
    pub line: Line,
    /// Why no agent acts on it; `None`: one does, or the message was an answer to a question.
    pub asleep: Option<String>,
}

/// Both sides of a chat that are there to be read, newest first.
const BOTH: &str = "SELECT * FROM (
   SELECT * FROM (SELECT 0 AS ours, seq AS id, sender, sender_name, substr(text, 1, ?2) AS text, length(text) > ?2 AS cut, received_at AS at
                  FROM messages WHERE chat_jid = ?1 ORDER BY seq DESC LIMIT ?3)
   UNION ALL
   SELECT * FROM (SELECT 1, o.id, '', coalesce(o.sender, (SELECT ltrim(g.trigger, '@') FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = o.run_id)),
                         substr(o.text, 1, ?2), length(o.text) > ?2, o.sent_at
                  FROM outbox o WHERE o.chat_jid = ?1 AND o.status = 'sent' ORDER BY o.id DESC LIMIT ?3)
 ) ORDER BY at DESC, ours DESC, id DESC LIMIT ?3";

impl Store {
    /// Returns the newest lines of a chat for `user`: at least `few` of them, and up to `many` where the user has not seen
    /// all of them. Nothing is new to a user who was never there.
    pub fn conversation(&self, chat: &str, user: &str, few: usize, many: usize) -> Result<Conversation> {
        self.read(|c| {
            let seen: Option<(i64, i64)> = c
                .prepare_cached("SELECT message, said FROM visits WHERE chat_jid = ?1 AND user_id = ?2")?
                .query_row([chat, user], |r| Ok((r.get("message")?, r.get("said")?)))
                .optional()?;
            let new: usize = match seen {
                None => 0,
                Some((message, said)) => c
                    .prepare_cached(
                        "SELECT (SELECT count(*) FROM messages WHERE chat_jid = ?1 AND seq > ?2)
                              + (SELECT count(*) FROM outbox WHERE chat_jid = ?1 AND id > ?3 AND status = 'sent')",
                    )?
                    .query_row(params![chat, message, said], |r| r.get(0))?,
            };
            let lines = new.clamp(few, many.max(few));
            let mut lines: Vec<Line> = c
                .prepare_cached(BOTH)?
                .query_map(params![chat, LONGEST_SHOWN, i64::try_from(lines).unwrap_or(i64::MAX)], line_row)?
                .collect::<rusqlite::Result<_>>()?;
            lines.reverse();
            let shown = new.min(lines.len());
            Ok(Conversation { lines, new: shown, older: new - shown })
        })
    }

    /// Returns the messages of a chat after number `after`, in order, up to the first that is still to be judged; at most
    /// `limit`.
    pub fn heard_since(&self, chat: &str, after: i64, limit: usize) -> Result<Vec<Heard>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(
                "SELECT 0 AS ours, m.seq, m.sender, m.sender_name, substr(m.text, 1, ?4) AS text, length(m.text) > ?4 AS cut,
                        EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.verdict IS NULL) AS unjudged,
                        EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.verdict = 'wake')
                          OR EXISTS (SELECT 1 FROM approval_messages a WHERE a.seq = m.seq) AS woken,
                        (SELECT group_concat(l.group_folder || ': ' || coalesce(i.reason, i.rule), '; ')
                         FROM inbox i JOIN lanes l ON l.id = i.lane_id WHERE i.seq = m.seq) AS why
                 FROM messages m WHERE m.chat_jid = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3",
            )?;
            let mut heard = Vec::new();
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = rows.query(params![chat, after, limit, LONGEST_SHOWN])?;
            while let Some(row) = rows.next()? {
                if row.get("unjudged")? {
                    break;
                }
                let woken: bool = row.get("woken")?;
                let why: Option<String> = row.get("why")?;
                let asleep = (!woken).then(|| why.unwrap_or_else(|| "no group is wired to this chat".into()));
                heard.push(Heard { seq: row.get("seq")?, line: line_row(row)?, asleep });
            }
            Ok(heard)
        })
    }

    /// Whether everything that came in for a chat has been dealt with: judged, handed over, finished and said.
    pub fn chat_at_rest(&self, chat: &str) -> Result<bool> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT NOT EXISTS (SELECT 1 FROM lanes l WHERE l.chat_jid = ?1 AND (
                     EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_unjudged WHERE i.lane_id = l.id AND i.verdict IS NULL)
                  OR EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = l.id AND i.n > l.cursor AND i.verdict = 'wake'
                             AND EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid))
                  OR EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open WHERE b.lane_id = l.id AND b.state IN ('handed', 'claimed', 'returned'))))
                 AND NOT EXISTS (SELECT 1 FROM outbox o INDEXED BY outbox_open WHERE o.chat_jid = ?1 AND o.status IN ('pending', 'sending', 'unknown'))",
            )?
            .query_row([chat], |r| r.get(0))?)
        })
    }

    /// Returns who said a row of the outbox: the word that mentions the agent, or the name that it gave itself; `None`: the
    /// host, or nobody.
    pub fn speaker(&self, outbox_id: i64) -> Result<Option<String>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT coalesce(o.sender, (SELECT ltrim(g.trigger, '@') FROM runs r JOIN groups g ON g.folder = r.group_folder WHERE r.id = o.run_id))
                 FROM outbox o WHERE o.id = ?1",
            )?
            .query_row([outbox_id], |r| r.get(0))
            .optional()?
            .flatten())
        })
    }
}

fn line_row(r: &Row<'_>) -> rusqlite::Result<Line> {
    let by = match r.get("ours")? {
        0 => By::Person { id: r.get("sender")?, name: r.get("sender_name")? },
        _ => By::Agent(r.get("sender_name")?),
    };
    Ok(Line { by, text: r.get("text")?, cut: r.get("cut")? })
}
