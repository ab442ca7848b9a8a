//! Judges what came in: what each wiring makes of each message, written down with what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time, file::MediaKind};

use super::{Dispatch, Event, LaneId, Trouble, Unread, WaitingLane, chain};
use crate::{
    allowlists::senders::{self, Senders},
    config::Config,
    domain::heard::{
        access::{Listed, Standing},
        bots::Turn,
        engage::{EngageVerdict, Rule, Sticky},
        hearing::Rules,
        origin::Author,
    },
    engine::{Blame, Error},
    store::{self, AllJudged, FilesWanted, Judged, StoreError, Unjudged},
    system::{
        failpoint,
        panics::{Panicked, caught},
    },
};

/// How many inbox rows are judged in one transaction.
const JUDGE: usize = 500;

/// For how long a message waits for its files, and for what is read in them, ms.
const HOLD_MS: i64 = 300_000;
/// For how long a message that wakes an agent waits for files of messages before it, which it may ask about, ms.
const CONTEXT_HOLD_MS: i64 = 30_000;

/// The bots that had a turn, and when.
type BotTurns = Vec<(String, Time)>;

/// What one message hands on to those that are read with it.
#[derive(Default)]
struct Pass {
    /// Lanes in which a message waits for its files, or for us: what comes after it waits, too.
    held: BTreeSet<i64>,
    /// Lanes that a message marks: the next one of theirs is judged with the mark.
    stuck: BTreeSet<i64>,
    /// The newest message of each lane that is context, and whose files are wanted.
    files: BTreeMap<i64, i64>,
    /// Turns of bots, by group and chat.
    turns: BTreeMap<(Option<Folder>, String), BotTurns>,
}

/// Why messages were not judged.
pub(super) struct NotJudged {
    /// The act that failed.
    failed: &'static str,
    error: Error,
}

impl NotJudged {
    /// A fault of ours in an act.
    pub(super) fn ours(failed: &'static str, panicked: &Panicked) -> Self {
        Self { failed, error: Error::ours(panicked) }
    }
}

/// Says which act failed.
pub(super) fn because(failed: &'static str) -> impl FnOnce(StoreError) -> NotJudged {
    move |error| NotJudged { failed, error: error.into() }
}

/// What messages are judged by, beside what the store says.
pub(super) struct Judging {
    rules: Rules,
    senders: Senders,
}

impl Judging {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        let mut this = Self { rules: Rules::default(), senders: Senders::new(config) };
        this.look_at_senders(config, now);
        this
    }

    /// Reads the sender list when it has changed, and says what is wrong with it.
    fn look_at_senders(&mut self, config: &Config, now: Time) {
        if !self.senders.look(now) {
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

    /// What the sender list says of the sender of a message.
    pub(super) fn listed(&self, row: &Unjudged) -> Listed {
        self.senders.list().listed_any(&row.chat_jid, row.senders())
    }

    /// Whether a message wakes the agent as it is.
    pub(super) fn wakes(&mut self, row: &Unjudged) -> bool {
        let listed = self.listed(row);
        self.rules.decide(&row.asked(listed)).outcome == EngageVerdict::Wake
    }

    fn judge(&mut self, row: &Unjudged) -> Judged {
        let list = self.senders.list();
        let decision = self.rules.decide(&row.asked(self.listed(row)));
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
            read_as: row.read_as(),
            verdict: decision.outcome,
            rule: decision.rule,
            reason: decision.reason,
            sticks: decision.sticks,
            refused: decision.refused,
            answers: row.answers,
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

    /// The messages are looked at again a little later. Until then everything else goes on.
    fn judge_later(&mut self, unjudged: &NotJudged) {
        let NotJudged { failed, error } = unjudged;
        if error.blame == Blame::Ours && self.runs.machine.troubles.note(Trouble::Judging, error.why.clone())
        {
            tracing::error!(error = %chain(error), "our own fault: {failed} failed; messages are judged a little later, until that works");
        }
        self.to_judge = false;
        self.owed.insert(Unread::Inbox);
        self.failed = Some(error.clone());
    }

    /// Whether a spoken message may address the agent: a hook hears that.
    fn may_speak(&mut self, row: &Unjudged) -> bool {
        // What somebody else said addresses nobody.
        if row.author == Author::Other {
            return false;
        }
        let config = self.runs.config.now();
        let heard = |kind: &MediaKind| config.media.hooks.of(*kind).is_some();
        if !row.pending.iter().any(|kind| *kind == MediaKind::Voice && heard(kind)) {
            return false;
        }
        let Judging { rules, senders } = &mut self.judging;
        rules.would_wake(&row.asked(senders.list().listed_any(&row.chat_jid, row.senders())))
    }

    /// Judges new messages. Those that can't be judged now are looked at again a little later.
    ///
    /// Where we fail over one message, all are judged one by one until it is judged: what comes after it in its lane waits for
    /// it, and nothing else does.
    pub(super) async fn judge_all(&mut self) {
        // Lanes with a message over which we fail, and the row after which it goes on beside them.
        let (mut failed, mut after) = (BTreeSet::new(), 0);
        let alone = self.one_by_one;
        loop {
            let rows = match self.runs.store.unjudged_after(after, JUDGE).await {
                Ok(rows) => rows,
                Err(error) => return self.owe(Unread::Inbox, error),
            };
            let Some(last) = rows.last().map(|row| row.n) else { break };
            self.judging.look_at_senders(&self.runs.config.now(), self.runs.machine.world.now());
            let more = rows.len() == JUDGE;
            let mut pass = Pass { held: failed.clone(), ..Pass::default() };
            let pieces: Vec<Vec<Unjudged>> =
                if alone { rows.into_iter().map(|row| vec![row]).collect() } else { vec![rows] };
            for piece in pieces {
                let lane = piece.first().map(|row| row.lane);
                let Err(unjudged) = self.judge(piece, &mut pass).await else { continue };
                self.judge_later(&unjudged);
                if unjudged.error.blame == Blame::World {
                    return;
                }
                pass.held.extend(lane);
                failed.extend(lane);
            }
            if !more || !(alone || failed.is_empty()) {
                break;
            }
            if !failed.is_empty() {
                after = last;
            }
        }
        self.one_by_one = !failed.is_empty();
        if failed.is_empty() {
            self.runs.machine.troubles.is_over(&Trouble::Judging);
            self.owed.remove(&Unread::Inbox);
        }
    }

    /// Returns the message before a row whose files it has to wait for: the agent is handed both.
    async fn files_before(&self, row: &Unjudged, pass: &Pass) -> Result<Option<i64>, NotJudged> {
        if let Some(seq) = pass.files.get(&row.lane) {
            return Ok(Some(*seq));
        }
        if !row.files_wanted {
            return Ok(None);
        }
        let found = self.runs.store.files_of_context(row.lane, row.n).await;
        found.map_err(because("reading which files are fetched"))
    }

    /// Judges some of what came in, in one transaction.
    async fn judge(&mut self, rows: Vec<Unjudged>, pass: &mut Pass) -> Result<(), NotJudged> {
        let mut judged = Vec::new();
        let mut wakes = Vec::new();
        // Lanes in which an owner has written to the agent.
        let mut by_owner = BTreeSet::new();
        // Messages whose files are wanted.
        let mut wanted = Vec::new();
        for mut row in rows {
            // A word does not wait for files of messages before it.
            if let Some(said) = self.word_of(&row).await? {
                let Some(why) = row.origin.no_command() else {
                    // At once: it would be obeyed again where another message keeps the rest from being written.
                    let done = vec![self.obey(&row, said).await?];
                    let written = self.runs.store.judge(done, self.runs.machine.world.now()).await;
                    written.map_err(because("writing judgements"))?;
                    continue;
                };
                let told = self.runs.store.tell_no_command(row.n, why, self.runs.machine.world.now()).await;
                told.map_err(because("telling that a message is no command"))?;
            }
            if pass.held.contains(&row.lane) {
                continue;
            }
            if pass.stuck.contains(&row.lane) {
                row.sticky = Sticky::Yes;
            }
            let of_bots = row.bot.then(|| (row.group.clone(), row.chat_jid.clone()));
            let before = of_bots.as_ref().and_then(|chat| pass.turns.get(chat)).into_iter().flatten();
            row.turns.extend(before.map(|(sender, at)| Turn { at: *at, own: *sender == row.sender }));
            let verdict = caught(async { self.judging.judge(&row) }).await;
            let now = self.runs.machine.world.now();
            let verdict = verdict.map_err(|panicked| NotJudged::ours("judging a message", &panicked))?;
            if !row.pending.is_empty() && row.group.is_some() {
                let waits = verdict.verdict == EngageVerdict::Wake || self.may_speak(&row);
                if waits || verdict.verdict == EngageVerdict::Context {
                    wanted.push(FilesWanted {
                        seq: row.seq,
                        until: now.plus_ms(HOLD_MS),
                        held: waits.then_some((row.n, row.lane)),
                    });
                    pass.files.insert(row.lane, row.seq);
                }
                if waits {
                    pass.held.insert(row.lane);
                    continue;
                }
            }
            if row.group.is_some()
                && verdict.verdict == EngageVerdict::Wake
                && let Some(seq) = self.files_before(&row, pass).await?
            {
                let until = now.plus_ms(CONTEXT_HOLD_MS);
                wanted.push(FilesWanted { seq, until, held: Some((row.n, row.lane)) });
                pass.held.insert(row.lane);
                continue;
            }
            if let Some(chat) = of_bots
                && (verdict.verdict == EngageVerdict::Wake || verdict.rule == Rule::BotLoop)
            {
                pass.turns.entry(chat).or_default().push((row.sender.clone(), row.came));
            }
            if verdict.sticks {
                pass.stuck.insert(row.lane);
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
        if wanted.is_empty() && judged.is_empty() {
            return Ok(());
        }
        if !wanted.is_empty() {
            // Where no more files are wanted, the row is judged without them.
            self.to_judge = true;
            let asked = self.runs.store.want_files(wanted).await;
            asked.map_err(because("asking for files"))?;
            failpoint::reach("message.held");
        }
        // Read before they are judged: a row that was judged is not looked at again.
        let woken = self.runs.store.lanes(&wakes);
        let mut woken = woken.map_err(because("reading lanes"))?;
        // Before they are judged, too: if we die in between, the rest is over all the same.
        for lane in &mut woken {
            if by_owner.contains(&lane.lane) {
                self.end_rest(lane).await.map_err(because("ending a rest"))?;
            }
        }
        let AllJudged { again, .. } = self
            .runs
            .store
            .judge(judged, self.runs.machine.world.now())
            .await
            .map_err(because("writing judgements"))?;
        failpoint::reach("message.judged");
        self.to_judge |= again;
        for lane in woken {
            let waiting = WaitingLane::from(&lane);
            self.tell(Event::Waiting { group: lane.group, waiting });
        }
        Ok(())
    }
}
