//! The whole story of one message, for `g2 why`.

use ipc_handlers::Time;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::{
    Result, Store,
    approvals::{APPROVAL, approval_row, with_messages},
    messages::{MESSAGE, message_row},
    outbox::{OUTBOX, outbox_row},
};
use crate::domain::{
    approvals::Approval,
    rows::{Message, OutboxRow, rfc3339_option},
};

/// What became of a message.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    pub message: Message,
    pub wirings: Vec<WhyWiring>,
    pub outbox: Vec<OutboxRow>,
    /// The questions that it raised, or waited for.
    pub approvals: Vec<Approval>,
    /// What the runs asked for in files, applied.
    pub commands: Vec<WhyCommand>,
    /// One sentence.
    pub answer: String,
}

/// What one wiring made of it.
#[derive(Clone, Debug, Serialize)]
pub struct WhyWiring {
    pub group: String,
    pub engages: bool,
    /// `wake`, `context`, `ignore` or `held`; `null` before it was judged.
    pub verdict: Option<String>,
    pub rule: Option<String>,
    pub reason: Option<String>,
    pub batch: Option<i64>,
    pub batch_state: Option<String>,
    pub run: Option<i64>,
    pub run_status: Option<String>,
    pub run_error: Option<String>,
    /// All that the agent answered was in `<internal>` blocks.
    pub unsaid: bool,
    /// From its arrival to its hand-over, or to now, ms.
    pub waited_ms: i64,
    /// Since when the lane's agent listens without being addressed again.
    #[serde(serialize_with = "rfc3339_option")]
    pub sticky_since: Option<Time>,
    /// What it waits for, when it does.
    pub waited_for: Option<String>,
}

/// A command of a run that had the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhyCommand {
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub run: i64,
    /// How the run is known: `token`, or `mount`.
    pub run_by: &'static str,
}

/// What a message waits for when nothing of its own group is in its way.
const A_SLOT: &str = "a free slot";

impl Why {
    /// Whether a wiring waits for nothing of its own: a slot, or to be judged at all.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.wirings.iter().any(WhyWiring::waits)
    }

    /// Says what those wirings wait for really.
    pub fn wait_for(&mut self, obstacle: &str) {
        for wiring in self.wirings.iter_mut().filter(|w| w.waits()) {
            wiring.waited_for = Some(obstacle.to_owned());
        }
        self.answer = answer(&self.message.chat_jid, &self.wirings, &self.outbox, self.approvals.last());
    }
}

impl WhyWiring {
    fn waits(&self) -> bool {
        self.rule.is_none() || self.waited_for.as_deref() == Some(A_SLOT)
    }
}

impl Store {
    /// Tells what became of the message with sequence number `seq`.
    pub fn why(&self, seq: i64, now: Time) -> Result<Option<Why>> {
        self.read(|c| {
            let message =
                c.prepare_cached(&format!("{MESSAGE} WHERE seq = ?1"))?.query_row([seq], message_row).optional()?;
            let Some(message) = message else { return Ok(None) };
            let received = message.received_at;
            let mut rows = c.prepare_cached(
                "SELECT l.group_folder, i.verdict, i.rule, i.reason, b.id, b.state, r.id, r.status, r.error, b.handed_at, l.rest_until,
                        (SELECT a.id FROM runs a WHERE a.group_folder = l.group_folder AND a.status IN ('queued', 'running')),
                        EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid), l.sticky_at, coalesce(b.unsaid, 0)
                 FROM inbox i JOIN lanes l ON l.id = i.lane_id
                 LEFT JOIN batches b ON b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last
                 LEFT JOIN runs r ON r.id = b.run_id
                 WHERE i.seq = ?1 ORDER BY i.n",
            )?;
            let wirings = rows
                .query_map([seq], |r| {
                    let verdict: Option<String> = r.get(1)?;
                    let handed_at: Option<i64> = r.get(9)?;
                    let rest_until: Option<i64> = r.get(10)?;
                    let active: Option<i64> = r.get(11)?;
                    let state: Option<String> = r.get(5)?;
                    let handed = handed_at.is_some() && state.as_deref() != Some("returned");
                    let wired: bool = r.get(12)?;
                    let waiting = verdict.as_deref() == Some("wake") && !handed;
                    let waited_for = match (waiting, rest_until.filter(|at| *at > now.0), active) {
                        (false, _, _) if verdict.is_none() => Some("to be judged".to_owned()),
                        (false, _, _) => None,
                        (true, _, _) if !wired => Some("its wiring, which was removed".to_owned()),
                        (true, Some(at), _) => Some(format!("the lane rests until {} after a failure", Time(at))),
                        (true, None, Some(run)) => Some(format!("the group's container, which is at other work (run {run})")),
                        (true, None, None) => Some(A_SLOT.to_owned()),
                    };
                    Ok(WhyWiring {
                        group: r.get(0)?,
                        engages: verdict.as_deref() == Some("wake"),
                        verdict,
                        sticky_since: r.get::<_, Option<i64>>(13)?.map(Time),
                        rule: r.get(2)?,
                        reason: r.get(3)?,
                        batch: r.get(4)?,
                        batch_state: r.get(5)?,
                        run: r.get(6)?,
                        run_status: r.get(7)?,
                        run_error: r.get(8)?,
                        unsaid: r.get(14)?,
                        waited_ms: Time(handed_at.filter(|_| handed).unwrap_or(now.0)).ms_since(received),
                        waited_for,
                    })
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut outbox = Vec::new();
            for (run, batch) in wirings.iter().filter_map(|w| w.run.zip(w.batch)) {
                let mut said = c.prepare_cached(&format!(
                    "{OUTBOX} WHERE run_id = ?1 AND (id > (SELECT outbox_mark FROM batches WHERE id = ?2) OR cause = 'notice: batch ' || ?2 || ' failed') ORDER BY id"
                ))?;
                outbox.extend(said.query_map(params![run, batch], outbox_row)?.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            outbox.dedup_by_key(|row: &mut OutboxRow| row.id);
            let mut commands = Vec::new();
            let mut runs: Vec<i64> = wirings.iter().filter_map(|w| w.run).collect();
            runs.dedup();
            for run in runs {
                let mut asked = c.prepare_cached(
                    "SELECT claim_id, type, token_id IS NOT NULL FROM receipts WHERE run_id = ?1 AND outcome = 'applied' ORDER BY claim_id",
                )?;
                commands.extend(
                    asked
                        .query_map([run], |r| {
                            let run_by = if r.get(2)? { "token" } else { "mount" };
                            Ok(WhyCommand { id: r.get(0)?, kind: r.get(1)?, run, run_by })
                        })?
                        .collect::<rusqlite::Result<Vec<_>>>()?,
                );
            }
            let approvals = c
                .prepare_cached(&format!(
                    "{APPROVAL} WHERE id IN (SELECT approval_id FROM approval_messages WHERE seq = ?1) ORDER BY id"
                ))?
                .query_map([seq], approval_row)?
                .collect::<rusqlite::Result<Vec<_>>>()?
                .into_iter()
                .map(|question| with_messages(c, question))
                .collect::<Result<Vec<_>>>()?;
            let answer = answer(&message.chat_jid, &wirings, &outbox, approvals.last());
            Ok(Some(Why { message, wirings, outbox, approvals, commands, answer }))
        })
    }
}

fn answer(chat: &str, wirings: &[WhyWiring], outbox: &[OutboxRow], question: Option<&Approval>) -> String {
    let held = |w: &&WhyWiring| w.verdict.as_deref() == Some("held");
    let first = wirings.iter().find(|w| w.engages).or(wirings.iter().find(held)).or(wirings.first());
    let Some(first) = first else {
        if let Some(question) = question {
            return format!("no group is wired to this chat; {}", question.outcome());
        }
        return "no group is wired to this chat; wire one with `g2 wirings add`".into();
    };
    if held(&first) {
        let reason = first.reason.as_deref().unwrap_or("it is held");
        return format!(
            "{reason}; it is judged again after `g2 wirings set --group {} --chat {chat} 'pattern=…'`",
            first.group
        );
    }
    if !first.engages
        && first.rule.is_none()
        && let Some(waits) = &first.waited_for
    {
        return format!("it waits for {waits}");
    }
    if !first.engages
        && first.rule.as_deref() == Some("unknown_sender")
        && let Some(question) = question
    {
        return format!("the group does not know its sender: {}", question.outcome());
    }
    if !first.engages {
        return format!("nobody was woken: {}", first.reason.as_deref().unwrap_or("it was not judged yet"));
    }
    if let Some(waits) = &first.waited_for {
        let failed = first.run_error.as_deref().map(|error| format!("; the last run: {error}"));
        return format!("it waits for {waits}{}", failed.unwrap_or_default());
    }
    match (first.batch_state.as_deref(), outbox.last()) {
        (Some("done"), Some(row)) => format!("answered; the answer is {}", row.status),
        (Some("done"), None) if first.unsaid => {
            "the agent finished with it and said nothing: all of its answer was <internal>".into()
        }
        (Some("done"), None) => "the agent finished with it and said nothing".into(),
        (Some("failed"), _) => {
            format!("given up: {}", first.run_error.as_deref().unwrap_or("its runs failed"))
        }
        (Some(_) | None, _) => "an agent is at work on it".into(),
    }
}
