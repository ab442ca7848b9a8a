//! Judges what came in: what each wiring makes of each message, written down with what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Time, file::MediaKind};
use tokio::time::Instant;

use super::{Dispatch, Event, LaneId, UNREAD, Unread, WaitingLane, chain};
use crate::{
    allowlists::senders::{self, Senders},
    config::Config,
    domain::heard::{
        access::Standing,
        bots::Turn,
        engage::{EngageVerdict, Rule, Sticky},
        hearing::Rules,
        words::Word,
    },
    store::{self, AllJudged, FilesWanted, Judged, Spoken, Unjudged},
    system::{clock, failpoint},
};

/// How many inbox rows are judged in one transaction.
const JUDGE: usize = 500;

/// For how long a message waits for its files, and for what is read in them, ms.
const HOLD_MS: i64 = 300_000;

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
    /// An owner's word ends the rest of its lane.
    async fn end_rest(&mut self, lane: &mut store::WaitingLane) -> store::Result<()> {
        if lane.rest_until.is_some() {
            self.runs.store.wake_lane(lane.lane).await?;
            failpoint::reach("lane.woken");
            lane.rest_until = None;
        }
        self.tell(Event::Woken { group: lane.group.clone(), lane: LaneId(lane.lane) });
        Ok(())
    }

    /// What came in is looked at again a little later. Until then everything else goes on.
    fn judge_later(&mut self, error: &store::StoreError, failed: &str) {
        tracing::error!(error = %chain(error), "{failed} failed; messages are judged a little later");
        // What the world does to all changes is told of the store.
        if !error.is_worlds_fault() {
            self.runs.machine.troubles.note(UNREAD, chain(error));
        }
        self.to_judge = false;
        self.owed.add(Unread::Inbox, Instant::now());
    }

    /// Returns the word that a message consists of, where its sender may say it and the chat is its group's.
    fn word_of(&self, row: &Unjudged) -> Option<Word> {
        let is_said =
            row.group.is_some() && row.engage_mode.is_some() && !row.from_me && !row.bot && !row.late;
        self.runs.config.now().words.of(&row.text, row.standing).filter(|_| is_said)
    }

    /// Does what a word asks for, and returns how its message is judged; `None`: the store failed, and it is judged later.
    async fn obey(&mut self, row: &Unjudged, word: Word) -> Option<Judged> {
        let group = row.group.clone()?;
        let spoken = Spoken { lane: row.lane, seq: row.seq, by: row.sender.clone() };
        let done = match self.runs.store.heard_word(spoken, word, clock::now()).await {
            Ok(done) => done,
            Err(error) => {
                self.judge_later(&error, "doing what a word in a chat asks for");
                return None;
            }
        };
        failpoint::reach("word.done");
        if let Some(run) = done.stops {
            self.hear(Event::StopAsked { group: group.clone(), run });
        }
        if done.wakes {
            self.tell(Event::Woken { group: group.clone(), lane: LaneId(row.lane) });
            for waiting in self.waiting_in(&group) {
                self.tell(Event::Waiting { group: group.clone(), waiting });
            }
        }
        Some(Judged {
            n: row.n,
            verdict: EngageVerdict::Ignore,
            rule: Rule::Word,
            reason: done.note,
            sticks: false,
            refused: None,
        })
    }

    /// Whether a spoken message may address the agent: a hook hears that.
    fn may_speak(&mut self, row: &Unjudged) -> bool {
        let config = self.runs.config.now();
        let heard = |kind: &MediaKind| config.media.hooks.of(*kind).is_some();
        if !row.pending.iter().any(|kind| *kind == MediaKind::Voice && heard(kind)) {
            return false;
        }
        let Judging { rules, senders } = &mut self.judging;
        rules.would_wake(&row.asked(senders.list().listed(&row.chat_jid, &row.sender)))
    }

    /// Judges what came in. What can't be judged now is looked at again a little later.
    pub(super) async fn judge_all(&mut self) {
        loop {
            let rows = match self.runs.store.unjudged(JUDGE).await {
                Ok(rows) => rows,
                Err(error) => return self.owe(Unread::Inbox, &error),
            };
            if rows.is_empty() {
                return self.has_read();
            }
            self.judging.look_at_senders(&self.runs.config.now());
            let more = rows.len() == JUDGE;
            let (mut judged, mut is_left) = (Vec::new(), false);
            let mut wakes = Vec::new();
            // Lanes in which an owner has written to the agent.
            let mut by_owner = BTreeSet::new();
            // Messages whose files are wanted, and lanes in which a row waits for them: what comes after it waits, too.
            let (mut wanted, mut held) = (Vec::new(), BTreeSet::new());
            // Lanes that a row of these marks: the next row of theirs is judged with the mark.
            let mut stuck = BTreeSet::new();
            // Turns of bots among these rows, by group and chat.
            let mut turns: BTreeMap<_, Vec<(String, Time)>> = BTreeMap::new();
            for mut row in rows {
                // A word does not wait for files of messages before it.
                if let Some(word) = self.word_of(&row) {
                    let Some(why) = row.origin.no_command() else {
                        match self.obey(&row, word).await {
                            Some(done) => judged.push(done),
                            None => is_left = true,
                        }
                        continue;
                    };
                    if let Err(error) = self.runs.store.tell_no_command(row.n, why, clock::now()).await {
                        self.judge_later(&error, "telling that a message is no command");
                        is_left = true;
                        // What comes after it waits, too.
                        held.insert(row.lane);
                        continue;
                    }
                }
                if held.contains(&row.lane) {
                    continue;
                }
                if stuck.contains(&row.lane) {
                    row.sticky = Sticky::Yes;
                }
                let of_bots = row.bot.then(|| (row.group.clone(), row.chat_jid.clone()));
                let before = of_bots.as_ref().and_then(|chat| turns.get(chat)).into_iter().flatten();
                row.turns.extend(before.map(|(sender, at)| Turn { at: *at, own: *sender == row.sender }));
                let verdict = self.judging.judge(&row);
                if !row.pending.is_empty() && row.group.is_some() {
                    let waits = verdict.verdict == EngageVerdict::Wake || self.may_speak(&row);
                    if waits || verdict.verdict == EngageVerdict::Context {
                        wanted.push(FilesWanted { seq: row.seq, held: waits.then_some((row.n, row.lane)) });
                    }
                    if waits {
                        held.insert(row.lane);
                        continue;
                    }
                }
                if let Some(chat) = of_bots
                    && (verdict.verdict == EngageVerdict::Wake || verdict.rule == Rule::BotLoop)
                {
                    turns.entry(chat).or_default().push((row.sender.clone(), row.came));
                }
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
            if !wanted.is_empty() {
                // Where no more files are wanted, the row is judged without them.
                self.to_judge = true;
                if let Err(error) = self.runs.store.want_files(wanted, clock::now().plus_ms(HOLD_MS)).await {
                    return self.judge_later(&error, "asking for files");
                }
                failpoint::reach("message.held");
            }
            // Read before they are judged: a row that was judged is not looked at again.
            let mut woken = match self.runs.store.lanes(&wakes) {
                Ok(woken) => woken,
                Err(error) => return self.owe(Unread::Inbox, &error),
            };
            // Before they are judged, too: if we die in between, the rest is over all the same.
            for lane in &mut woken {
                if by_owner.contains(&lane.lane)
                    && let Err(error) = self.end_rest(lane).await
                {
                    return self.judge_later(&error, "ending a rest");
                }
            }
            match self.runs.store.judge(judged, clock::now()).await {
                Ok(AllJudged { again, .. }) => {
                    failpoint::reach("message.judged");
                    self.to_judge |= again;
                }
                Err(error) => {
                    return self.judge_later(&error, "writing judgements");
                }
            }
            for lane in woken {
                let waiting = WaitingLane::from(&lane);
                self.tell(Event::Waiting { group: lane.group, waiting });
            }
            if is_left {
                return;
            }
            if !more {
                return self.has_read();
            }
        }
    }
}
