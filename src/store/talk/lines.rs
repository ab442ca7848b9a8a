//! A chat line by line, as people read it.

use rusqlite::{Connection, Row, params};

use crate::domain::platforms::attachments::{Goes, told};
use crate::store::{
    Result, Store,
    talk::attachments::{beside_message, beside_said},
};

/// How much of a line is shown, characters; `g2 messages list` and `g2 outbox list` have it whole.
pub(in crate::store) const LONGEST_SHOWN: i64 = 4096;

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
    /// Why no agent acts on it; `None`: one does, or the message was an answer to a question, or a word that is answered itself.
    pub asleep: Option<String>,
}

impl Store {
    /// Returns the number of the newest message of a chat.
    pub async fn newest_message(&self, chat: &str) -> Result<Option<i64>> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            Ok(c.prepare_cached("SELECT max(seq) FROM messages WHERE chat_jid = ?1")?
                .query_row([chat], |r| r.get(0))?)
        })
        .await
    }

    /// Returns the messages of a chat after number `after`, in order, up to the first that is still to be judged; at most
    /// `limit`.
    pub async fn heard_since(&self, chat: &str, after: i64, limit: usize) -> Result<Vec<Heard>> {
        let chat = chat.to_owned();
        self.ask(move |c| {
            let mut rows = c.prepare_cached(
                "SELECT 0 AS ours, m.seq, m.seq AS id, m.files, m.sender, m.sender_name, substr(m.shown, 1, ?4) AS text, length(m.shown) > ?4 AS cut,
                        EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.verdict IS NULL) AS unjudged,
                        EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.verdict = 'wake')
                          OR EXISTS (SELECT 1 FROM approval_messages a WHERE a.seq = m.seq)
                          OR EXISTS (SELECT 1 FROM inbox i WHERE i.seq = m.seq AND i.rule = 'word') AS woken,
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
                heard.push(Heard { seq: row.get("seq")?, line: line_row(c, row)?, asleep });
            }
            Ok(heard)
        })
        .await
    }
}

/// A row with a line for each of its files, the number of which is in `files`, below the text.
pub(in crate::store) fn line_row(c: &Connection, r: &Row<'_>) -> Result<Line> {
    let by = match r.get("ours")? {
        0 => By::Person { id: r.get("sender")?, name: r.get("sender_name")? },
        _ => By::Agent(r.get("sender_name")?),
    };
    let text: String = r.get("text")?;
    let files = match (r.get::<_, u32>("files")?, &by) {
        (0, _) => return Ok(Line { by, text, cut: r.get("cut")? }),
        (_, By::Person { .. }) => beside_message(c, r.get("id")?)?,
        (_, By::Agent(_)) => beside_said(c, r.get("id")?)?,
    };
    Ok(Line { by, text: told(&text, &files, |_| Goes::ToFolder), cut: r.get("cut")? })
}
