//! Commands: from the bytes of a claimed file to its receipt, in one savepoint. Whatever the outcome, there is one.

use std::sync::Arc;

use ipc_handlers::{Folder, Refusal, Time, envelope};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Result, Store};
use crate::domain::rows::IpcRow;

mod effects;
mod facts;
mod settle;

use settle::{Verdict, keep, settle};

/// A claimed file, ready to be decided.
#[derive(Clone, Debug)]
pub struct CommandFile {
    pub claim: i64,
    pub group: Folder,
    pub box_name: String,
    pub name: String,
    /// What identifies the file itself, wherever it lies.
    pub origin: Vec<u8>,
    /// The group's run when the file was claimed.
    pub run: Option<i64>,
    /// The bytes, or why there are none that could be a command.
    pub body: std::result::Result<Arc<Vec<u8>>, Refusal>,
}

/// What was decided about a file, and what to do with it.
#[derive(Clone, Debug)]
pub struct Settled {
    pub receipt: Receipt,
    /// Whether this call decided it (and not an earlier one).
    pub fresh: bool,
    /// The snapshots of tasks show something else now.
    pub tasks_changed: bool,
    /// Something is to be said.
    pub said: bool,
    /// Lanes whose session was cleared, with their new generation.
    pub cleared: Vec<(i64, i64)>,
}

/// The proof that a command file was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub claim: i64,
    pub box_name: String,
    pub name: String,
    pub kind: Option<String>,
    pub request_id: Option<String>,
    /// `applied refused malformed`.
    pub outcome: String,
    pub code: Option<String>,
    pub reason: Option<String>,
    pub hint: Option<String>,
    pub reply: Option<Vec<u8>>,
    pub at: Time,
}

impl Store {
    /// Decides a command file and applies its effects, once: a file that was decided before gets its first outcome.
    pub fn settle(
        &self,
        file: CommandFile,
        zone: (String, jiff::tz::TimeZone),
        now: Time,
    ) -> impl Future<Output = Result<Settled>> + Send + use<> {
        self.write(move |c| settle(c, &file, &zone, now))
    }

    /// Writes down that a command was refused for a reason that lies outside it, so that it is answered and not tried
    /// for ever.
    pub async fn refuse(&self, file: CommandFile, refusal: Refusal, now: Time) -> Result<Settled> {
        self.write(move |c| {
            let envelope = file.body.as_deref().ok().and_then(|bytes| envelope::parse(bytes).ok());
            let kind = envelope.as_ref().map(|e| e.command.type_name().to_owned());
            let id = envelope.as_ref().and_then(|e| e.request_id.as_ref());
            keep(c, &file, Verdict::refused(kind, id, refusal), now)
        })
        .await
    }

    /// Returns the highest claim id of any receipt.
    pub fn last_claim(&self) -> Result<i64> {
        self.read(|c| Ok(c.query_row("SELECT coalesce(max(claim_id), 0) FROM receipts", [], |r| r.get(0))?))
    }

    /// Returns one receipt.
    pub fn receipt(&self, claim: i64) -> Result<Option<Receipt>> {
        self.read(|c| receipt(c, "claim_id = ?1", params![claim]))
    }

    /// Returns receipts as rows of `ipc list`, newest last.
    pub fn ipc_rows(&self, limit: usize, now: Time) -> Result<Vec<IpcRow>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT * FROM (SELECT claim_id, group_folder, box, name, type, request_id, outcome, at, code, reason FROM receipts ORDER BY claim_id DESC LIMIT ?1) ORDER BY claim_id",
            )?
            .query_map([limit], |r| {
                Ok(IpcRow {
                    id: r.get(0)?,
                    group: r.get(1)?,
                    box_name: r.get(2)?,
                    name: r.get(3)?,
                    kind: r.get(4)?,
                    request_id: r.get(5)?,
                    state: match r.get::<_, String>(6)?.as_str() {
                        "malformed" => "dead".into(),
                        other => other.into(),
                    },
                    age_ms: now.ms_since(Time(r.get(7)?)),
                    code: r.get(8)?,
                    reason: r.get(9)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Counts malformed commands.
    pub fn dead_commands(&self) -> Result<i64> {
        self.read(|c| {
            Ok(c.query_row("SELECT count(*) FROM receipts WHERE outcome = 'malformed'", [], |r| r.get(0))?)
        })
    }
}

fn receipt(c: &Connection, which: &str, with: impl rusqlite::Params) -> Result<Option<Receipt>> {
    let sql = format!(
        "SELECT claim_id, box, name, type, request_id, outcome, code, reason, hint, reply, at FROM receipts WHERE {which} ORDER BY claim_id LIMIT 1"
    );
    Ok(c.prepare_cached(&sql)?
        .query_row(with, |r| {
            Ok(Receipt {
                claim: r.get(0)?,
                box_name: r.get(1)?,
                name: r.get(2)?,
                kind: r.get(3)?,
                request_id: r.get(4)?,
                outcome: r.get(5)?,
                code: r.get(6)?,
                reason: r.get(7)?,
                hint: r.get(8)?,
                reply: r.get(9)?,
                at: Time(r.get(10)?),
            })
        })
        .optional()?)
}
