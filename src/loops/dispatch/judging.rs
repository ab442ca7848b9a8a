//! Judges what came in: what each wiring makes of each message, written down with what follows from it.

use std::{collections::BTreeSet, time::Duration};

use super::{Dispatch, Event, LaneId, WaitingLane, chain};
use crate::{
    allowlists::senders::{self, Senders},
    config::Config,
    domain::heard::{
        access::Standing,
        engage::{EngageVerdict, Rule},
        hearing::Rules,
    },
    store::{self, AllJudged, Judged, Unjudged},
    system::{clock, failpoint},
};

/// How many inbox rows are judged in one transaction.
const JUDGE: usize = 500;

/// What messages are judged by, beside what the store says.
pub(super) struct Judging {
    rules: Rules,
    senders: Senders,
}

impl Judging {
    pub(super) fn new(config: &Config) -> Self {
        let mut this = Self { rules: Rules::default(), senders: Senders::new(config) };
        this.look_at_senders(config);
        this
    }

    /// Reads the sender list when it has changed, and says what is wrong with it.
    fn look_at_senders(&mut self, config: &Config) {
        if !self.senders.look(clock::now()) {
            return;
        }
        let problems = senders::problems(config, self.senders.list());
        if problems.is_empty() {
            tracing::info!("the sender list was read anew");
        }
        for problem in problems {
            tracing::error!(problem, "the sender list has a problem");
        }
    }

    fn judge(&mut self, row: &Unjudged) -> Judged {
        let list = self.senders.list();
        let decision = self.rules.decide(&row.asked(list.listed(&row.chat_jid, &row.sender)));
        let group = row.group.as_ref().map(ToString::to_string).unwrap_or_default();
        if let Some(problem) = &decision.problem {
            tracing::warn!(group, %problem, "a wiring's rule has a problem");
        }
        if decision.refused.is_some() && (decision.rule != Rule::SenderList || list.logs_denied()) {
            tracing::info!(
                group,
                chat = row.chat_jid,
                sender = row.sender,
                seq = row.seq,
                rule = %decision.rule,
                why = decision.reason,
                "a message was not heard"
            );
        }
        Judged {
            n: row.n,
            verdict: decision.outcome,
            rule: decision.rule,
            reason: decision.reason,
            sticks: decision.sticks,
            refused: decision.refused,
        }
    }
}

impl Dispatch {
    /// An owner's word ends the rest of its lane. What fails here leaves the rest as it is.
    async fn end_rest(&mut self, lane: &mut store::WaitingLane) {
        if lane.rest_until.is_some() {
            if let Err(error) = self.runs.store.wake_lane(lane.lane).await {
                return tracing::error!(error = %chain(&error), "ending a rest failed");
            }
            failpoint::reach("lane.woken");
            lane.rest_until = None;
        }
        self.tell(Event::Woken { group: lane.group.clone(), lane: LaneId(lane.lane) });
    }

    pub(super) async fn judge_all(&mut self) {
        loop {
            let rows = match self.runs.store.unjudged(JUDGE).await {
                Ok(rows) => rows,
                Err(error) => return tracing::error!(error = %chain(&error), "reading the inbox failed"),
            };
            if rows.is_empty() {
                return;
            }
            self.judging.look_at_senders(&self.runs.config);
            let more = rows.len() == JUDGE;
            let mut judged = Vec::new();
            let mut wakes = Vec::new();
            // Lanes in which an owner has written to the agent.
            let mut by_owner = BTreeSet::new();
            // Lanes that a row of these marks: the next row of theirs is judged with the mark.
            let mut stuck = BTreeSet::new();
            for mut row in rows {
                row.sticky |= stuck.contains(&row.lane);
                let verdict = self.judging.judge(&row);
                if verdict.sticks {
                    stuck.insert(row.lane);
                }
                let is_new = !wakes.contains(&row.lane);
                if row.group.is_some() && verdict.verdict == EngageVerdict::Wake {
                    if is_new {
                        wakes.push(row.lane);
                    }
                    if row.standing == Standing::Owner {
                        by_owner.insert(row.lane);
                    }
                }
                judged.push(verdict);
            }
            // Read before they are judged: a row that was judged is not looked at again.
            let mut woken = match self.runs.store.lanes(&wakes) {
                Ok(woken) => woken,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "reading lanes failed; looking again in a second");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    self.to_judge = true;
                    return;
                }
            };
            // Before they are judged, too: if we die in between, the rest is over all the same.
            for lane in &mut woken {
                if by_owner.contains(&lane.lane) {
                    self.end_rest(lane).await;
                }
            }
            match self.runs.store.judge(judged, clock::now()).await {
                Ok(AllJudged { again, .. }) => {
                    failpoint::reach("message.judged");
                    self.to_judge |= again;
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "writing judgements failed; looking again in a second");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    self.to_judge = true;
                    return;
                }
            }
            for lane in woken {
                let waiting = WaitingLane::from(&lane);
                self.tell(Event::Waiting { group: lane.group, waiting });
            }
            if !more {
                return;
            }
        }
    }
}
