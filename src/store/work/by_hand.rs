//! What people do to the queue: holds, and what they decided about a claim before it was settled.
//!
//! A decision is a row of its own, written before the file is touched. So a daemon that finds the file after a crash
//! settles it as it was meant, and a row whose file never came to be means nothing.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use crate::domain::{mailbox::holds::Hold, states::CommandOutcome};
use crate::store::{Result, Store, StoreError, columns::Columns as _};

/// What a person decided about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is this command, tried again.
    RetryOf(i64),
    /// It is set aside, for this reason.
    Dropped(String),
}

/// What the receipt of a command says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledFile {
    pub group: Folder,
    pub box_name: String,
    pub name: String,
    pub outcome: CommandOutcome,
    digest: Vec<u8>,
}

impl SettledFile {
    /// Whether these are the bytes that were decided on, all of them.
    #[must_use]
    pub fn held(&self, bytes: &[u8]) -> bool {
        Sha256::digest(bytes).as_slice() == self.digest
    }
}

impl Store {
    /// Returns what the receipt of a command says of its file.
    pub fn settled_file(&self, claim: i64) -> Result<Option<SettledFile>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT group_folder, box, name, outcome, digest FROM receipts WHERE claim_id = ?1",
            )?
            .query_row([claim], |r| {
                Ok(SettledFile {
                    group: r.folder("group_folder")?,
                    box_name: r.get("box")?,
                    name: r.get("name")?,
                    outcome: r.word("receipts", "outcome")?,
                    digest: r.get("digest")?,
                })
            })
            .optional()?)
        })
    }

    /// Returns the holds, oldest first.
    pub fn holds(&self) -> Result<Vec<Hold>> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT group_folder, box, name, reason, at, aside FROM holds ORDER BY id")?
                .query_map([], |r| {
                    let (in_box, name): (String, Vec<u8>) = (r.get("box")?, r.get("name")?);
                    Ok(Hold {
                        group: r.folder("group_folder")?,
                        file: (!name.is_empty()).then_some((in_box, name)),
                        reason: r.get("reason")?,
                        at: r.time("at")?,
                        aside: r.get("aside")?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Holds a group's commands, or one file. A second hold replaces the first one's reason; the group is set aside if either
    /// hold says so.
    pub async fn hold(&self, hold: Hold) -> Result<()> {
        self.write(move |c| {
            let (in_box, name) = hold.file.unwrap_or_default();
            c.prepare_cached(
                "INSERT INTO holds (group_folder, box, name, reason, at, aside) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (group_folder, box, name) DO UPDATE SET reason = ?4, aside = max(aside, ?6)",
            )?
            .execute(params![hold.group.as_str(), in_box, name, hold.reason, hold.at.0, hold.aside])?;
            Ok(())
        })
        .await
    }

    /// Lets go of one file, or of a group with all its files; returns how many holds there were.
    pub async fn release(&self, group: Folder, file: Option<(String, Vec<u8>)>) -> Result<usize> {
        self.write(move |c| match file {
            Some((in_box, name)) => Ok(c
                .prepare_cached("DELETE FROM holds WHERE group_folder = ?1 AND box = ?2 AND name = ?3")?
                .execute(params![group.as_str(), in_box, name])?),
            None => Ok(c
                .prepare_cached("DELETE FROM holds WHERE group_folder = ?1")?
                .execute([group.as_str()])?),
        })
        .await
    }

    /// Writes down that a claim must be dropped when it is settled.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it is settled already.
    pub async fn note_drop(&self, claim: i64, reason: String, now: Time) -> Result<()> {
        self.write(move |c| {
            if let Some(outcome) = outcome(c, claim)? {
                return Err(StoreError::refused(format!("command {claim} is settled already: {outcome}"), ""));
            }
            c.prepare_cached(
                "INSERT INTO by_hand (claim_id, drop_reason, at) VALUES (?1, ?2, ?3) ON CONFLICT (claim_id) DO UPDATE SET drop_reason = ?2, retry_of = NULL",
            )?
            .execute(params![claim, reason, now.0])?;
            Ok(())
        })
        .await
    }

    /// Writes down that `claim` will be the command `of`, tried again. Its file must not be there yet.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] when it was applied, or tried again before.
    pub async fn note_retry(&self, claim: i64, of: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            let not_found = || StoreError::NotFound { what: "command", id: of.to_string() };
            let outcome = outcome(c, of)?.ok_or_else(not_found)?;
            if outcome == CommandOutcome::Applied {
                return Err(StoreError::refused(
                    format!("command {of} was applied"),
                    "trying it again would do it twice",
                ));
            }
            if let Some(tried) = tried_as(c, of)? {
                return Err(StoreError::refused(
                    format!("command {of} was tried again as {tried}"),
                    format!("see `g2 ipc trace {tried}`"),
                ));
            }
            c.prepare_cached("INSERT INTO by_hand (claim_id, retry_of, at) VALUES (?1, ?2, ?3)")?
                .execute(params![claim, of, now.0])?;
            Ok(())
        })
        .await
    }

    /// Removes a decision of which nothing came: its file never was there.
    pub async fn forget_note(&self, claim: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "DELETE FROM by_hand WHERE claim_id = ?1 AND NOT EXISTS (SELECT 1 FROM receipts WHERE claim_id = ?1)",
            )?
            .execute([claim])?;
            Ok(())
        })
        .await
    }

    /// Returns what a person decided about a claim.
    pub fn note(&self, claim: i64) -> Result<Option<Note>> {
        self.read(|c| note(c, claim))
    }

    /// Returns the claim that a command was tried again as.
    pub fn tried_as(&self, claim: i64) -> Result<Option<i64>> {
        self.read(|c| tried_as(c, claim))
    }
}

pub(in crate::store) fn note(c: &Connection, claim: i64) -> Result<Option<Note>> {
    Ok(c.prepare_cached("SELECT retry_of, drop_reason FROM by_hand WHERE claim_id = ?1")?
        .query_row([claim], |r| {
            let retry_of: Option<i64> = r.get("retry_of")?;
            Ok(match retry_of {
                Some(of) => Note::RetryOf(of),
                None => Note::Dropped(r.get("drop_reason")?),
            })
        })
        .optional()?)
}

/// Returns the last claim of the earlier groups of a group's name; 0 where there were none.
pub(in crate::store) fn begun_after(c: &Connection, group: &Folder) -> Result<i64> {
    Ok(c.prepare_cached("SELECT after_claim FROM begins WHERE group_folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?
        .unwrap_or(0))
}

/// Takes in that the claims up to this one are of earlier groups of a group's name.
pub(in crate::store) fn begin_after(c: &Connection, group: &Folder, claim: i64) -> Result<()> {
    c.prepare_cached("UPDATE begins SET after_claim = ?2 WHERE group_folder = ?1 AND after_claim < ?2")?
        .execute(params![group.as_str(), claim])?;
    Ok(())
}

/// Returns the highest claim of which a receipt or a decision of a person is known; 0 where there is none.
pub(in crate::store) fn last_claim(c: &Connection) -> Result<i64> {
    Ok(c.prepare_cached(
        "SELECT max(coalesce((SELECT max(claim_id) FROM receipts), 0), coalesce((SELECT max(claim_id) FROM by_hand), 0))",
    )?
    .query_row([], |r| r.get(0))?)
}

pub(in crate::store) fn tried_as(c: &Connection, claim: i64) -> Result<Option<i64>> {
    Ok(c.prepare_cached("SELECT claim_id FROM by_hand WHERE retry_of = ?1")?
        .query_row([claim], |r| r.get(0))
        .optional()?)
}

fn outcome(c: &Connection, claim: i64) -> Result<Option<CommandOutcome>> {
    Ok(c.prepare_cached("SELECT outcome FROM receipts WHERE claim_id = ?1")?
        .query_row([claim], |r| r.word("receipts", 0))
        .optional()?)
}
