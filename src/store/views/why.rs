//! The whole story of one message, for `g2 why`.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use super::turns::{A_SLOT, at_work_or_a_slot, rest_in_words};
use crate::domain::{
    heard::{
        approvals::Approval,
        engage::{EngageVerdict, Rule},
    },
    rows::{Message, OutboxRow, lost_folder, rfc3339_option},
    runs::{
        retry,
        wake::{FreshWhy, Woken},
    },
    shown::counted::{counted, number},
    states::{BatchState, CauseKind, DeliveryStatus, RunBy, RunStatus, Via},
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    talk::{
        approvals::{APPROVAL, approval_row, with_messages},
        attachments::{with_files, with_files_said},
        messages::{MESSAGE, message_row, searched, wanted},
        outbox::{OUTBOX, outbox_row},
    },
    which::Which,
};

/// What became of a message.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    pub message: Message,
    pub wirings: Vec<WhyWiring>,
    /// What was said: answers to this message, what its runs sent by command meanwhile, and notices about it.
    pub outbox: Vec<OutboxRow>,
    /// Those rows of the outbox that are answers to it.
    pub answers: Vec<i64>,
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
    /// `null` before it was judged.
    pub verdict: Option<EngageVerdict>,
    pub rule: Option<Rule>,
    pub reason: Option<String>,
    pub batch: Option<i64>,
    pub batch_state: Option<BatchState>,
    pub run: Option<i64>,
    pub run_status: Option<RunStatus>,
    pub run_error: Option<String>,
    /// How its agent was woken: in its live run, with its session, or in a fresh one, and why.
    pub woken: Option<String>,
    /// All that the agent answered was in `<internal>` blocks.
    pub unsaid: bool,
    /// How long it waited for an agent, or waits by now, ms.
    pub waited_ms: i64,
    /// Since when the lane's agent listens without being addressed again.
    #[serde(serialize_with = "rfc3339_option")]
    pub sticky_since: Option<Time>,
    /// What it waits for, when it does.
    pub waited_for: Option<String>,
    /// Since when it is as it is: it came, was handed to an agent, or was done with.
    #[serde(serialize_with = "rfc3339_option")]
    pub since: Option<Time>,
    /// When its run was last heard of, while that is at work on it.
    #[serde(serialize_with = "rfc3339_option")]
    pub last_sign: Option<Time>,
    /// How often a run failed with it.
    pub tries: u32,
    /// What comes next, where that is known.
    pub next: Option<String>,
    /// Who launched the run that is in its way or at work on it, where its group is set aside.
    #[serde(skip)]
    pub launched_by: Option<String>,
}

/// A command of a run that had the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhyCommand {
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub run: i64,
    /// How the run is known.
    pub run_by: RunBy,
}

/// Facts about waiting work that the store has not.
pub struct Beside<'a> {
    /// What keeps the daemon from launching anything.
    pub obstacle: Option<String>,
    /// Whether the daemon that launched a run lives, by the owner on the run's row.
    pub lives: &'a dyn Fn(&str) -> bool,
    /// Whether a group's folder is lost.
    pub is_lost: &'a dyn Fn(&Folder) -> bool,
    /// When a group's run gave its last sign of life.
    pub heard_of: &'a dyn Fn(&Folder) -> Option<Time>,
}

impl Why {
    /// Whether a wiring waits for nothing of its own: a slot, or to be judged at all.
    #[must_use]
    fn waits(&self) -> bool {
        self.wirings.iter().any(WhyWiring::waits)
    }

    /// Whether it waits for anything, or is at work: then it matters whether there is a daemon.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.wirings.iter().any(WhyWiring::is_open)
    }

    /// Leaves out what other groups made of it: one group's chats are told of that group.
    pub fn keep_of(&mut self, group: &Folder) {
        self.wirings.retain(|wiring| wiring.group == group.as_str());
        self.answer = answer(self);
    }

    /// Says what the store can't know of work that is open: what keeps all work from beginning, whether a group is set aside or its
    /// folder is lost, and when a run at work was heard of. Each place that tells a person why asks here, so all say the same.
    pub fn look_beside(&mut self, beside: &Beside<'_>) {
        if !self.is_open() {
            return;
        }
        if let Some(obstacle) = beside.obstacle.as_ref().filter(|_| self.waits()) {
            self.put_off(&format!("a problem to be fixed: {obstacle}"), WhyWiring::waits);
        }
        self.wait_for_release(beside.lives);
        self.wait_for_folder(beside.is_lost);
        let at_work: Vec<Folder> = self.at_work().filter_map(|group| Folder::parse(group).ok()).collect();
        for group in at_work {
            if let Some(at) = (beside.heard_of)(&group) {
                self.heard_of(group.as_str(), at);
            }
        }
    }

    /// Says that no daemon runs, whatever the message waited for before.
    pub fn wait_for_daemon(&mut self, obstacle: &str) {
        self.put_off(obstacle, WhyWiring::is_open);
    }

    /// Says which of them wait for their group's release: it is set aside, and its run was launched by a daemon that
    /// `lives` no more, so nobody reads what it says.
    fn wait_for_release(&mut self, lives: impl Fn(&str) -> bool) {
        for wiring in &mut self.wirings {
            if wiring.launched_by.as_deref().is_some_and(|owner| !lives(owner)) {
                wiring.waited_for = Some(format!(
                    "its group to be released, which is set aside: `g2 ipc release {}`",
                    wiring.group
                ));
            }
        }
        self.answer = answer(self);
    }

    /// Says which of them wait for their group's folder, which is lost.
    fn wait_for_folder(&mut self, is_lost: impl Fn(&Folder) -> bool) {
        let waiting = |wiring: &&mut WhyWiring| wiring.is_open() && !wiring.is_at_work();
        let lost = |wiring: &&mut WhyWiring| Folder::parse(&wiring.group).is_ok_and(|group| is_lost(&group));
        for wiring in self.wirings.iter_mut().filter(waiting).filter(lost) {
            wiring.waited_for = Some(lost_folder(&wiring.group));
        }
        self.answer = answer(self);
    }

    fn put_off(&mut self, obstacle: &str, which: fn(&WhyWiring) -> bool) {
        for wiring in self.wirings.iter_mut().filter(|wiring| which(wiring)) {
            wiring.waited_for = Some(obstacle.to_owned());
        }
        self.answer = answer(self);
    }

    /// The groups whose agents are at work on it.
    fn at_work(&self) -> impl Iterator<Item = &str> {
        self.wirings.iter().filter(|wiring| wiring.is_at_work()).map(|wiring| wiring.group.as_str())
    }

    /// A group's run gave a sign of life then, which the store does not know.
    fn heard_of(&mut self, group: &str, at: Time) {
        for wiring in self.wirings.iter_mut().filter(|w| w.group == group && w.is_at_work()) {
            wiring.last_sign = wiring.last_sign.max(Some(at));
        }
        self.answer = answer(self);
    }
}

impl WhyWiring {
    fn waits(&self) -> bool {
        self.rule.is_none() || self.waited_for.as_deref() == Some(A_SLOT)
    }

    fn is_open(&self) -> bool {
        self.rule.is_none() || self.waited_for.is_some() || self.is_at_work()
    }

    fn is_at_work(&self) -> bool {
        self.engages && self.batch_state.is_some_and(BatchState::is_in_hand)
    }
}

/// What says that a row of the outbox is what a run answered, and not what it sent by command or we said of it.
const AN_ANSWER: &str = "cause_kind = 'record'";

/// How the agent of a batch's run was woken, in words.
fn woken(r: &Row<'_>) -> rusqlite::Result<Option<String>> {
    let via: Option<Via> = r.word_or_null("batches", "via")?;
    let (woken, why): (Option<Woken>, Option<FreshWhy>) =
        (r.word_or_null("runs", "wake")?, r.word_or_null("runs", "fresh_why")?);
    Ok(match (via, woken) {
        (None, _) | (Some(Via::Stdin), None) => None,
        (Some(Via::Input), _) => Some("in its live run".to_owned()),
        (Some(Via::Stdin), Some(Woken::First)) => Some("in its first session".to_owned()),
        (Some(Via::Stdin), Some(Woken::Resume)) => Some("its session was resumed".to_owned()),
        (Some(Via::Stdin), Some(Woken::Fresh)) => Some(match why {
            Some(why) => format!("in a fresh session with a summary: {}", why.in_words()),
            None => "in a fresh session: its agent did not know its session any more".to_owned(),
        }),
    })
}

/// Returns the number of the next try, by the number of failed ones.
fn try_after(tries: u32) -> String {
    format!("try {} of {}", tries.saturating_add(1), retry::MAX_RETRIES + 1)
}

impl Store {
    /// Tells what became of the message with sequence number `seq`.
    pub fn why(&self, seq: i64, now: Time) -> Result<Option<Why>> {
        self.read(|c| {
            let message =
                c.prepare_cached(&format!("{MESSAGE} WHERE seq = ?1"))?.query_row([seq], message_row).optional()?;
            let Some(message) = message else { return Ok(None) };
            let received = message.received_at;
            // The batch of an inbox row is the last one of its lane that begins no later.
            let mut rows = c.prepare_cached(
                "SELECT l.group_folder, i.verdict, i.rule, i.reason, b.id AS batch, b.state, r.id AS run, r.status, r.error, r.wake, r.fresh_why, b.via, b.handed_at, s.rest_until,
                        EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = l.group_folder AND w.chat_jid = l.chat_jid) AS wired, l.sticky_at,
                        i.verdict IS NULL AND EXISTS (SELECT 1 FROM file_holds h WHERE h.lane_id = i.lane_id AND h.n <= i.n) AS held,
                        coalesce(b.unsaid, 0) AS unsaid, b.ended_at, coalesce(b.tries, 0) AS tries,
                        (SELECT a.owner FROM runs a WHERE a.group_folder = l.group_folder AND a.status IN ('queued', 'running')
                           AND EXISTS (SELECT 1 FROM holds h WHERE h.group_folder = a.group_folder AND h.aside)) AS launched_by,
                        max(coalesce(r.started_at, 0), coalesce(r.ready_at, 0),
                            coalesce((SELECT o.created_at FROM outbox o WHERE o.run_id = r.id ORDER BY o.id DESC LIMIT 1), 0),
                            coalesce((SELECT x.at FROM receipts x WHERE x.run_id = r.id AND x.outcome = 'applied' ORDER BY x.claim_id DESC LIMIT 1), 0)) AS last_sign
                 FROM inbox i JOIN lanes l ON l.id = i.lane_id LEFT JOIN sessions s ON s.lane_id = l.id
                 LEFT JOIN batches b ON b.id = (SELECT x.id FROM batches x WHERE x.lane_id = i.lane_id AND x.first <= i.n ORDER BY x.first DESC LIMIT 1) AND b.last >= i.n
                 LEFT JOIN runs r ON r.id = b.run_id
                 WHERE i.seq = ?1 ORDER BY i.n",
            )?;
            let wirings = rows
                .query_map([seq], |r| {
                    let verdict: Option<EngageVerdict> = r.word_or_null("inbox", "verdict")?;
                    let handed_at: Option<i64> = r.get("handed_at")?;
                    let rest_until: Option<i64> = r.get("rest_until")?;
                    let state: Option<BatchState> = r.word_or_null("batches", "state")?;
                    let handed = handed_at.is_some() && state != Some(BatchState::Returned);
                    let wired: bool = r.get("wired")?;
                    let waiting = verdict == Some(EngageVerdict::Wake) && !handed;
                    let waited_for = match (waiting, rest_until.filter(|at| *at > now.0)) {
                        (false, _) if r.get("held")? => Some("its files, or those of a message before it".to_owned()),
                        (false, _) if verdict.is_none() => Some("to be judged".to_owned()),
                        (false, _) => None,
                        (true, _) if !wired => Some("its wiring, which was removed".to_owned()),
                        (true, Some(at)) => Some(rest_in_words(c, &r.get::<_, String>("group_folder")?, Time(at))?),
                        (true, None) => Some(at_work_or_a_slot(c, &r.get::<_, String>("group_folder")?, now)?),
                    };
                    let (ended_at, tries): (Option<i64>, u32) = (r.get("ended_at")?, r.get("tries")?);
                    let is_handed = state.is_some_and(BatchState::is_in_hand);
                    let sign: i64 = r.get("last_sign")?;
                    let next = match (is_handed, &waited_for) {
                        (true, _) if tries > 0 => Some(format!("this is {}", try_after(tries))),
                        (false, Some(_)) if tries > 0 && wired => {
                            Some(format!("{}{}", if rest_until.is_some_and(|at| at > now.0) { "then " } else { "" }, try_after(tries)))
                        }
                        (true | false, _) => None,
                    };
                    Ok(WhyWiring {
                        since: Some(ended_at.or(handed_at.filter(|_| is_handed)).map_or(received, Time)),
                        last_sign: (is_handed && sign > 0).then_some(Time(sign)),
                        tries,
                        next,
                        launched_by: r.get::<_, Option<String>>("launched_by")?.filter(|_| wired && (waiting || is_handed)),
                        group: r.get("group_folder")?,
                        engages: verdict == Some(EngageVerdict::Wake),
                        verdict,
                        sticky_since: r.time_or_null("sticky_at")?,
                        rule: r.word_or_null("inbox", "rule")?,
                        reason: r.get("reason")?,
                        batch: r.get("batch")?,
                        batch_state: state,
                        run: r.get("run")?,
                        run_status: r.word_or_null("runs", "status")?,
                        run_error: r.get("error")?,
                        woken: woken(r)?,
                        unsaid: r.get("unsaid")?,
                        waited_ms: Time(handed_at.filter(|_| handed).unwrap_or(now.0)).ms_since(received),
                        waited_for,
                    })
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut commands = Vec::new();
            let mut answers = Vec::new();
            let mut outbox = Vec::new();
            for (run, batch) in wirings.iter().filter_map(|w| w.run.zip(w.batch)) {
                for command in commands_of(c, run, batch)? {
                    if !commands.contains(&command) {
                        commands.push(command);
                    }
                }
                let of_batch = answers_to(c, run, batch)?;
                answers.extend(of_batch.iter().map(|row| row.id));
                outbox.extend(of_batch);
                outbox.extend(notices_of(c, run, batch)?);
            }
            for command in &commands {
                outbox.extend(said_by(c, command)?);
            }
            outbox.sort_by_key(|row: &OutboxRow| row.id);
            outbox.dedup_by_key(|row| row.id);
            answers.sort_unstable();
            answers.dedup();
            let approvals = c
                .prepare_cached(&format!(
                    "{APPROVAL} WHERE id IN (SELECT approval_id FROM approval_messages WHERE seq = ?1) ORDER BY id"
                ))?
                .query_map([seq], approval_row)?
                .collect::<rusqlite::Result<Vec<_>>>()?
                .into_iter()
                .map(|approval| with_messages(c, approval))
                .collect::<Result<Vec<_>>>()?;
            let mut why = Why { message, wirings, outbox, answers, approvals, commands, answer: String::new() };
            why.answer = answer(&why);
            Ok(Some(why))
        })
    }

    /// Returns the messages that were to wake an agent, or may be yet, and that have no answer, in order: those of them that
    /// are wanted.
    pub fn unanswered(&self, which: &Which) -> Result<Vec<Message>> {
        self.read(|c| {
            // The batch of an inbox row is the last one of its lane that begins no later.
            let conditions = wanted(which)
                .is("EXISTS (SELECT 1 FROM inbox i WHERE i.seq = messages.seq AND (i.verdict IS NULL OR i.verdict IN ('wake', 'held')))")
                .is(&format!("NOT EXISTS (SELECT 1 FROM inbox i
                     JOIN batches b ON b.id = (SELECT x.id FROM batches x WHERE x.lane_id = i.lane_id AND x.first <= i.n ORDER BY x.first DESC LIMIT 1) AND b.last >= i.n
                     JOIN outbox o ON o.run_id = b.run_id AND o.id > b.said_from AND o.id <= b.said_to AND o.{AN_ANSWER}
                     WHERE i.seq = messages.seq AND i.verdict = 'wake')"));
            with_files(c, which.rows(c, (MESSAGE, "seq"), conditions, message_row, searched)?)
        })
    }
}

/// What a run answered to a batch: what it said since the hand-over, and since it finished others, until it finished this.
fn answers_to(c: &Connection, run: i64, batch: i64) -> Result<Vec<OutboxRow>> {
    let rows = c.prepare_cached(&format!(
        "{OUTBOX} WHERE run_id = ?1 AND {AN_ANSWER}
           AND id > (SELECT coalesce(b.said_from, max(b.outbox_mark, r.answered)) FROM batches b JOIN runs r ON r.id = b.run_id WHERE b.id = ?2)
           AND id <= (SELECT coalesce(said_to, {}) FROM batches WHERE id = ?2) ORDER BY id",
        i64::MAX
    ))?
    .query_map([run, batch], outbox_row)?
    .collect::<rusqlite::Result<_>>()?;
    with_files_said(c, rows)
}

fn notices_of(c: &Connection, run: i64, batch: i64) -> Result<Vec<OutboxRow>> {
    Ok(c.prepare_cached(&format!(
        "{OUTBOX} WHERE run_id = ?1 AND cause_kind = 'batch_failed' AND cause_id = ?2"
    ))?
    .query_map([run, batch], outbox_row)?
    .collect::<rusqlite::Result<_>>()?)
}

/// What a run asked for from the hand-over of a batch on, until it was given something after it had finished that batch: a
/// file may be taken in later than the record that came after it.
fn commands_of(c: &Connection, run: i64, batch: i64) -> Result<Vec<WhyCommand>> {
    Ok(c.prepare_cached(
        "SELECT x.claim_id, x.type, x.token_id IS NOT NULL AS by_token FROM batches b JOIN receipts x ON x.run_id = ?1 AND x.outcome = 'applied' AND x.claim_id > b.claim_mark
         WHERE b.id = ?2 AND x.claim_id <= coalesce((SELECT min(n.claim_mark) FROM batches n WHERE n.run_id = ?1 AND n.id <> b.id AND n.handed_at >= b.ended_at), ?3)
         ORDER BY x.claim_id",
    )?
    .query_map([run, batch, i64::MAX], |r| {
        let run_by = if r.get("by_token")? { RunBy::Token } else { RunBy::Mount };
        Ok(WhyCommand { id: r.get("claim_id")?, kind: r.get("type")?, run, run_by })
    })?
    .collect::<rusqlite::Result<_>>()?)
}

/// What a command had said.
fn said_by(c: &Connection, command: &WhyCommand) -> Result<Vec<OutboxRow>> {
    let rows = c
        .prepare_cached(&format!("{OUTBOX} WHERE run_id = ?1 AND cause_kind = 'command' AND cause_id = ?2"))?
        .query_map([command.run, command.id], outbox_row)?
        .collect::<rusqlite::Result<_>>()?;
    with_files_said(c, rows)
}

fn answer(why: &Why) -> String {
    let Why { message, wirings, outbox, answers, approvals, .. } = why;
    let (chat, approval) = (&message.chat_jid, approvals.last());
    let held = |w: &&WhyWiring| w.verdict == Some(EngageVerdict::Held);
    let first = wirings.iter().find(|w| w.engages).or(wirings.iter().find(held)).or(wirings.first());
    let Some(first) = first else {
        if let Some(approval) = approval {
            return format!("no group is wired to this chat; {}", approval.outcome());
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
        && first.rule == Some(Rule::UnknownSender)
        && let Some(approval) = approval
    {
        return format!("the group does not know its sender: {}", approval.outcome());
    }
    if !first.engages {
        return format!("nobody was woken: {}", first.reason.as_deref().unwrap_or("it was not judged yet"));
    }
    let next = first.next.as_deref().map(|next| format!("; {next}")).unwrap_or_default();
    if let Some(waits) = &first.waited_for {
        let failed = first.run_error.as_deref().map(|error| format!("; the last run: {error}"));
        return format!("it waits for {waits}{next}{}", failed.unwrap_or_default());
    }
    let said = outbox.iter().rfind(|row| answers.contains(&row.id));
    let by_command = outbox.iter().filter(|row| row.cause_kind == CauseKind::Command).count();
    match (first.batch_state, said) {
        (Some(BatchState::Done), Some(row)) => {
            let unsaid = row.error.as_ref().filter(|_| row.status != DeliveryStatus::Sent);
            let error = unsaid.map(|error| format!(": {error}")).unwrap_or_default();
            let thread =
                row.thread_gone.as_ref().map(|why| format!(", without its topic, which is gone: {why}"));
            format!("answered; the answer is {}{error}{}", row.status, thread.unwrap_or_default())
        }
        (Some(BatchState::Done), None) if first.unsaid => {
            "the agent finished with it and said nothing: all of its answer was <internal>".into()
        }
        (Some(BatchState::Done), None) if by_command > 0 => {
            let sent = counted(number(by_command), "message");
            format!("the agent finished with it and did not answer; it sent {sent} by command")
        }
        (Some(BatchState::Done), None) => "the agent finished with it and said nothing".into(),
        (Some(BatchState::Failed), _) => {
            format!("given up: {}", first.run_error.as_deref().unwrap_or("its runs failed"))
        }
        (Some(BatchState::Handed | BatchState::Claimed | BatchState::Returned) | None, _) => {
            let since = first.since.map(|at| format!(" since {at}")).unwrap_or_default();
            let sign =
                first.last_sign.map(|at| format!("; its last sign of life was at {at}")).unwrap_or_default();
            format!("an agent is at work on it{since}{sign}{next}")
        }
    }
}
