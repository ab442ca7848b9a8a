//! A word of an owner or an admin in a chat: the work on its conversation is stopped, or tried again.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, params};

use super::said::{Key, said};
use crate::domain::{
    heard::chat_commands::Word,
    runs::stop::{StopThen, StopWhen},
};
use crate::store::{Result, Store, audit, talk::outbox::Say};

/// What came of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordDone {
    /// The run that is to be stopped.
    pub stops: Option<i64>,
    /// What rested in the lane, or was given up, is to be tried now.
    pub wakes: bool,
    /// For `why`.
    pub note: String,
}

/// The lane of a word, and the message.
#[derive(Clone, Debug)]
pub struct Spoken {
    pub lane: i64,
    pub seq: i64,
    pub by: String,
}

impl Store {
    /// Does what a word asks for: the run that is at work on the lane is marked to be stopped, or what failed there last waits
    /// again. The chat is told where nothing is to be done, and where something is tried again.
    pub async fn heard_word(&self, spoken: Spoken, word: Word, now: Time) -> Result<WordDone> {
        self.write(move |c| {
            let by: String = spoken.by.chars().filter(|c| !c.is_control()).take(50).collect();
            let at_work: Option<i64> = c
                .prepare_cached(
                    "SELECT id FROM runs r WHERE r.lane_id = ?1 AND r.status IN ('queued', 'running') AND (r.kind <> 'message' AND r.handled_at IS NULL
                       OR EXISTS (SELECT 1 FROM batches b WHERE b.run_id = r.id AND b.state IN ('handed', 'claimed')))",
                )?
                .query_row([spoken.lane], |r| r.get("id"))
                .optional()?;
            let then = match word {
                Word::Stop => StopThen::GiveUp,
                Word::Retry => StopThen::AskAgain,
            };
            if let Some(run) = at_work {
                c.prepare_cached("UPDATE runs SET stop_by = ?2, stop_when = ?3, stop_then = ?4 WHERE id = ?1")?
                    .execute(params![run, by, StopWhen::Now.as_str(), then.as_str()])?;
                audit::append_in_chat(c, &by, format!("word {}: run {run} is stopped", word.name()), now)?;
                return Ok(WordDone { stops: Some(run), wakes: false, note: format!("it stopped run {run}") });
            }
            let (text, note, wakes) = match word {
                Word::Stop => ("Nothing is at work here.", "nothing was at work", false),
                Word::Retry if waits_again(c, spoken.lane)? => {
                    ("I try it again now.", "what failed or rested is tried again", true)
                }
                Word::Retry => ("There is nothing to try again here.", "nothing had failed", false),
            };
            if wakes {
                audit::append_in_chat(c, &by, format!("word {}: {note}", word.name()), now)?;
            }
            tell(c, &spoken, text, now)?;
            Ok(WordDone { stops: None, wakes, note: note.to_owned() })
        })
        .await
    }
}

/// Has what rests in a lane, or was given up last, wait for its turn now; whether there is any.
fn waits_again(c: &Connection, lane: i64) -> Result<bool> {
    let newest: Option<(i64, bool)> = c
        .prepare_cached(
            "SELECT b.id, b.state = 'returned' AS returned FROM batches b WHERE b.lane_id = ?1 AND b.state IN ('returned', 'failed')
               AND EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking WHERE i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake')
               AND (b.state = 'returned' OR b.id = (SELECT max(x.id) FROM batches x WHERE x.lane_id = ?1))
             ORDER BY b.state DESC, b.id DESC LIMIT 1",
        )?
        .query_row([lane], |r| Ok((r.get("id")?, r.get("returned")?)))
        .optional()?;
    let Some((batch, is_returned)) = newest else { return Ok(false) };
    if !is_returned {
        c.prepare_cached(
            "UPDATE batches SET state = 'returned', tries = 0, free_returns = 0, ended_at = NULL, said_from = NULL, said_to = NULL WHERE id = ?1",
        )?
        .execute([batch])?;
    }
    c.prepare_cached("UPDATE sessions SET rest_until = NULL WHERE lane_id = ?1")?.execute([lane])?;
    Ok(true)
}

fn tell(c: &Connection, spoken: &Spoken, text: &str, now: Time) -> Result<()> {
    let (chat, thread): (String, String) = c
        .prepare_cached("SELECT chat_jid, thread FROM lanes WHERE id = ?1")?
        .query_row([spoken.lane], |r| Ok((r.get("chat_jid")?, r.get("thread")?)))?;
    let cause = format!("answer to message {}", spoken.seq);
    let key = Key::Word { lane: spoken.lane, seq: spoken.seq };
    said(c, &key, &Say::notice(&chat, &thread, text, &cause), now)?;
    Ok(())
}
