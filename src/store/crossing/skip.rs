//! A person has a message passed over: its inbox rows wake nobody, and a batch that is left without any message ends.

use ipc_handlers::{Folder, Time};
use rusqlite::params;

use crate::domain::{heard::engage::Rule, states::BatchState};
use crate::store::{Result, Store, StoreError, columns::Columns as _};

/// An inbox row of the message.
struct Standing {
    n: i64,
    lane: i64,
    group: Folder,
    /// It wakes nobody.
    is_over: bool,
    batch: Option<(i64, BatchState, i64)>,
}

impl Store {
    /// Has a message passed over, for one group or for each for which it waits; returns these, with the lane. What an agent has in hand stays.
    pub async fn skip_message(
        &self,
        seq: i64,
        group: Option<&Folder>,
        reason: &str,
        now: Time,
    ) -> Result<Vec<(Folder, i64)>> {
        let (group, reason) = (group.cloned(), reason.to_owned());
        self.write(move |c| {
            let known: bool =
                c.query_row("SELECT EXISTS (SELECT 1 FROM messages WHERE seq = ?1)", [seq], |r| r.get(0))?;
            if !known {
                return Err(StoreError::NotFound { what: "message", id: seq.to_string() });
            }
            let rows: Vec<Standing> = c
                .prepare_cached(
                    "SELECT i.n, i.lane_id, l.group_folder, i.verdict IN ('ignore', 'context') AS over, b.id AS batch, b.state, b.run_id
                     FROM inbox i JOIN lanes l ON l.id = i.lane_id LEFT JOIN batches b ON b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last
                     WHERE i.seq = ?1 AND (?2 IS NULL OR l.group_folder = ?2) ORDER BY i.n",
                )?
                .query_map(params![seq, group.as_ref().map(Folder::as_str)], |r| {
                    let state: Option<BatchState> = r.word_or_null("batches", "state")?;
                    let (batch, run): (Option<i64>, Option<i64>) = (r.get("batch")?, r.get("run_id")?);
                    Ok(Standing {
                        n: r.get("n")?,
                        lane: r.get("lane_id")?,
                        group: r.folder("group_folder")?,
                        is_over: r.get::<_, Option<bool>>("over")?.unwrap_or(false),
                        batch: batch.zip(state).zip(run).map(|((batch, state), run)| (batch, state, run)),
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            let in_hand = rows.iter().find_map(|row| row.batch.filter(|(_, state, _)| !row.is_over && state.is_in_hand()));
            if let Some((_, _, run)) = in_hand {
                return Err(StoreError::refused(format!("an agent is at work on message {seq}"), format!("`g2 runs stop {run}` ends that")));
            }
            let mut skipped = Vec::new();
            for row in rows {
                let waits = row.batch.is_none_or(|(_, state, _)| state == BatchState::Returned);
                if row.is_over || !waits {
                    continue;
                }
                c.prepare_cached("UPDATE inbox SET verdict = 'ignore', rule = ?2, reason = ?3 WHERE n = ?1")?
                    .execute(params![row.n, Rule::Skipped.as_str(), reason])?;
                if let Some((batch, _, _)) = row.batch {
                    c.prepare_cached(
                        "UPDATE batches SET state = 'failed', ended_at = ?2, said_from = outbox_mark, said_to = outbox_mark
                         WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM inbox i INDEXED BY inbox_waking
                           WHERE i.lane_id = batches.lane_id AND i.n BETWEEN batches.first AND batches.last AND i.verdict = 'wake')",
                    )?
                    .execute(params![batch, now.0])?;
                    // What waits behind it need not wait for the end of its rest.
                    c.prepare_cached(
                        "UPDATE sessions SET rest_until = NULL WHERE lane_id = ?1 AND NOT EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open
                           WHERE b.lane_id = ?1 AND b.state = 'returned')",
                    )?
                    .execute([row.lane])?;
                }
                skipped.push((row.group, row.lane));
            }
            if skipped.is_empty() {
                return Err(StoreError::refused(format!("message {seq} waits for no agent"), format!("`g2 why {seq}` says what became of it")));
            }
            Ok(skipped)
        })
        .await
    }
}
