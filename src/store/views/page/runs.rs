//! Runs, newest first, and what one run heard, said and asked for.

use ipc_handlers::{Folder, Time};
use rusqlite::params;

use crate::domain::{rows::Run, states::DeliveryStatus};
use crate::store::{
    Result, Store, at_most,
    columns::Columns as _,
    work::runs::{RUN, run_row},
};

/// How many lines of each kind are shown of a run, and how much of a text, characters.
const MOST: usize = 50;
const SHOWN: usize = 240;

/// A message that a run was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub seq: i64,
    pub chat: String,
    pub name: String,
    pub at: Time,
    /// The beginning of its text.
    pub text: String,
}

/// What a run heard, said and asked for: the first of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStory {
    pub heard: Vec<Heard>,
    /// By number, chat, state, and the beginning of the text.
    pub said: Vec<(i64, String, DeliveryStatus, String)>,
    /// By claim, kind, outcome and reason.
    pub asked: Vec<(i64, Option<String>, String, Option<String>)>,
}

impl Store {
    /// Returns runs before `before`, newest first, of one group or all.
    pub fn runs_on_page(&self, group: Option<&Folder>, before: i64, most: usize) -> Result<Vec<Run>> {
        self.read(|c| {
            let which = if group.is_some() { "group_folder = ?2" } else { "?2 IS NULL" };
            let mut rows =
                c.prepare_cached(&format!("{RUN} WHERE id < ?1 AND {which} ORDER BY id DESC LIMIT ?3"))?;
            let given = params![before, group.map(Folder::as_str), at_most(Some(most))];
            Ok(rows.query_map(given, run_row)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns what a run heard, said and asked for.
    pub fn run_story(&self, run: i64) -> Result<RunStory> {
        self.read(|c| {
            let mut heard = c.prepare_cached(
                "SELECT m.seq, m.chat_jid, m.sender_name, m.received_at, substr(m.text, 1, ?3) AS text
                 FROM batches b CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake'
                   CROSS JOIN messages m ON m.seq = i.seq
                 WHERE b.run_id = ?1 ORDER BY b.id, i.n LIMIT ?2",
            )?;
            let heard = heard.query_map(params![run, MOST, SHOWN], |r| {
                Ok(Heard {
                    seq: r.get("seq")?,
                    chat: r.get("chat_jid")?,
                    name: r.get("sender_name")?,
                    at: r.time("received_at")?,
                    text: r.get("text")?,
                })
            })?;
            let mut said = c.prepare_cached(
                "SELECT id, chat_jid, status, substr(text, 1, ?3) AS text FROM outbox INDEXED BY outbox_by_run WHERE run_id = ?1 ORDER BY id LIMIT ?2",
            )?;
            let said = said.query_map(params![run, MOST, SHOWN], |r| {
                Ok((r.get("id")?, r.get("chat_jid")?, r.word("outbox", "status")?, r.get("text")?))
            })?;
            let mut asked = c.prepare_cached(
                "SELECT claim_id, type, outcome, reason FROM receipts
                 WHERE claim_id IN (SELECT claim_id FROM receipts INDEXED BY receipts_by_run WHERE run_id = ?1 ORDER BY claim_id LIMIT ?2)
                 ORDER BY claim_id",
            )?;
            let asked = asked.query_map(params![run, MOST], |r| {
                Ok((r.get("claim_id")?, r.get("type")?, r.get("outcome")?, r.get("reason")?))
            })?;
            Ok(RunStory {
                heard: heard.collect::<rusqlite::Result<_>>()?,
                said: said.collect::<rusqlite::Result<_>>()?,
                asked: asked.collect::<rusqlite::Result<_>>()?,
            })
        })
    }
}
