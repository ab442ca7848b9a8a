//! Questions that nobody answers: they expire, or their card can't be said.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    ApprovalKind, Asking, US,
    ask::{miss, speak},
    note, open_one,
};
use crate::domain::heard::approvals::{Action, approver::Missed};
use crate::store::{
    Result, Store,
    talk::{messages::replay, people},
};

impl Store {
    /// Ends the questions that nobody answered in time; returns how many.
    pub async fn expire_approvals(&self, now: Time) -> Result<usize> {
        self.write(move |c| expire(c, now)).await
    }
}

/// Ends the questions that nobody answered in time; returns how many.
pub(super) fn expire(c: &Connection, now: Time) -> Result<usize> {
    let over: Vec<i64> = c
        .prepare_cached("SELECT id FROM approvals INDEXED BY approvals_open_by_end WHERE state IN ('pending', 'undeliverable') AND expires_at <= ?1 ORDER BY id")?
        .query_map([now.0], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for id in &over {
        c.prepare_cached(
            "UPDATE approvals SET state = 'expired', decided_at = ?2, naming = NULL WHERE id = ?1",
        )?
        .execute(params![id, now.0])?;
        note(c, *id, US, "expired", "", None, now)?;
        give_up(c, *id, &format!("nobody answered question {id} in time"), None, now)?;
    }
    Ok(over.len())
}

/// What was to be said about a question can't be: somebody else is asked at once. Where nobody is left, the next message asks again.
pub(in crate::store) fn wording_failed(
    c: &Connection,
    asking: &Asking,
    outbox: i64,
    why: &str,
    now: Time,
) -> Result<()> {
    let id: Option<i64> = c
        .prepare_cached("SELECT id FROM approvals WHERE card = ?1 AND state = 'pending'")?
        .query_map([outbox], |r| r.get(0))?
        .next()
        .transpose()?;
    match id {
        Some(id) => miss(c, asking, id, (Missed::NotReached, why), now),
        None => Ok(()),
    }
}

/// A chat was wired to a group by other means: whatever was asked about it is settled, and the group hears what waits.
/// Nobody is admitted by that. Returns whether there was such a question.
pub(in crate::store) fn wired(c: &Connection, chat: &str, group: &Folder, now: Time) -> Result<bool> {
    let asked: Option<(i64, String)> = c
        .prepare_cached(
            "SELECT id, card_chat FROM approvals WHERE chat_jid = ?1 AND kind = 'channel' AND state IN ('pending', 'undeliverable')
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row([chat], |r| Ok((r.get("id")?, r.get("card_chat")?)))
        .optional()?;
    let Some((id, card_chat)) = asked else { return Ok(false) };
    let action = Action::Connect(group.clone());
    c.prepare_cached(
        "UPDATE approvals SET state = 'approved', decided_at = ?2, decided_by = ?3, decision = ?4, decided_group = ?5, naming = NULL WHERE id = ?1",
    )?
    .execute(params![id, now.0, US, action.decision().as_str(), group.as_str()])?;
    note(c, id, US, "wired otherwise", &action.name(), None, now)?;
    let waiting: Vec<(i64, String)> = c
        .prepare_cached(
            "SELECT m.seq, m.thread FROM approval_messages w JOIN messages m ON m.seq = w.seq WHERE w.approval_id = ?1 ORDER BY m.seq",
        )?
        .query_map([id], |r| Ok((r.get("seq")?, r.get("thread")?)))?
        .collect::<rusqlite::Result<_>>()?;
    waiting.iter().try_for_each(|(seq, thread)| replay(c, group, chat, thread, *seq))?;
    speak(c, id, &card_chat, &format!("Question #{id} is settled: {chat} was wired to {group}."), &[], now)?;
    Ok(true)
}

/// Counts what waits for an answer as not heard, and says why; with `up_to`, the messages up to that one.
pub(super) fn give_up(c: &Connection, id: i64, why: &str, up_to: Option<i64>, now: Time) -> Result<()> {
    let Some(approval) = open_one(c, id)? else { return Ok(()) };
    let waiting: Vec<(i64, String)> = c
        .prepare_cached(
            "SELECT seq, group_folder FROM approval_messages WHERE approval_id = ?1 AND (?2 IS NULL OR seq <= ?2) ORDER BY seq",
        )?
        .query_map(params![id, up_to], |r| Ok((r.get("seq")?, r.get("group_folder")?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (seq, group) in waiting {
        match approval.kind {
            ApprovalKind::Channel => people::count_unwired(c, seq, why, now)?,
            ApprovalKind::Sender => {
                let unheard: Vec<i64> = c
                    .prepare_cached(
                        "UPDATE inbox SET reason = 'the group does not know this sender; ' || ?3
                         WHERE seq = ?1 AND verdict = 'ignore' AND lane_id IN (SELECT id FROM lanes WHERE group_folder = ?2) RETURNING n",
                    )?
                    .query_map(params![seq, group, why], |r| r.get(0))?
                    .collect::<rusqlite::Result<_>>()?;
                unheard.into_iter().try_for_each(|n| people::count_dropped(c, n, now))?;
            }
        }
    }
    Ok(())
}
