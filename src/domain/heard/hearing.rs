//! What one wiring makes of a message: whether it engages ([`super::engage`]), and whether its sender is heard
//! ([`super::access`]). The daemon and `g2 engage explain` both ask here.

use std::collections::BTreeMap;

use ipc_handlers::{
    Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use super::{
    access::{self, Listed, Speaker, Standing, Unheeded, UnknownSenders},
    bots::{self, Bots, Turn},
    engage::{
        Author, EngageVerdict, Engages, Heard, Listener, Mentioned, Problem, Rule, Sticky, Verdict,
        WiringRule,
    },
};

/// How many rules are kept ready; more wirings than this only cost making them again.
const READY: usize = 10_000;

/// A message, as one wiring is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// `None` when the wiring was removed meanwhile.
    pub wired: Option<Wired<'a>>,
    pub text: &'a str,
    pub mentioned: bool,
    pub from_me: bool,
    pub bot: bool,
    /// What the group makes of bots.
    pub bots: Bots,
    /// The turns of the chat's bots before this one, and when this one came.
    pub turns: &'a [Turn],
    pub came: Time,
    /// Whether it was written long before it came.
    pub late: bool,
    /// Whether the agent was addressed before in its thread.
    pub sticky: Sticky,
    /// The question that it waited for, and that was answered so that this group hears it.
    pub approved: Option<i64>,
    /// The question of this wiring's agent that it answers, or tells the end of.
    pub answers: Option<i64>,
    /// Whether the channel says who it is from.
    pub named: bool,
    pub standing: Standing,
    pub listed: Listed,
    pub unknown_senders: UnknownSenders,
}

/// The columns of a wiring.
#[derive(Clone, Copy, Debug)]
pub struct Wired<'a> {
    pub mode: EngageMode,
    pub pattern: Option<&'a str>,
    pub trigger: &'a str,
    pub ignored: IgnoredMessages,
    pub sender_scope: SenderScope,
}

/// What the wiring makes of it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub outcome: EngageVerdict,
    pub rule: Rule,
    /// A sentence for people.
    pub reason: String,
    /// Set when it would have engaged, and its sender was not heard.
    pub refused: Option<Unheeded>,
    /// From now on the lane's agent listens without being addressed again.
    pub sticks: bool,
    /// A fault to report to the person who set the rule.
    pub problem: Option<Problem>,
}

/// The rules of wirings, made ready when they are first asked.
#[derive(Debug, Default)]
pub struct Rules(BTreeMap<(EngageMode, IgnoredMessages, String, String), Listener>);

impl Rules {
    /// Decides what a wiring makes of a message.
    pub fn decide(&mut self, asked: &Asked<'_>) -> Decision {
        let Some(wired) = asked.wired else {
            return Decision {
                outcome: EngageVerdict::Ignore,
                rule: Rule::None,
                reason: "the wiring was removed".into(),
                refused: None,
                sticks: false,
                problem: None,
            };
        };
        let verdict = self.listener(&wired).decide(&Heard {
            text: asked.text,
            author: match (asked.from_me, asked.bot, asked.bots) {
                (true, _, _) => Author::Me,
                (false, true, Bots::Ignored) => Author::Bot,
                (false, true, Bots::Heard) | (false, false, _) => Author::Person,
            },
            mentioned: if asked.mentioned { Mentioned::Yes } else { Mentioned::No },
            sticky: asked.sticky,
        });
        let verdict = no_loop(too_late(as_promised(verdict, asked), asked), asked);
        let keeps = wired.ignored == IgnoredMessages::Accumulate;
        // The host tells the agent of its question.
        let standing =
            if asked.from_me && asked.answers.is_some() { Standing::Owner } else { asked.standing };
        let speaker = Speaker { standing, named: asked.named, listed: asked.listed };
        let heard = access::hear(&verdict, keeps, speaker, asked.unknown_senders, wired.sender_scope);
        Decision {
            sticks: wired.mode == EngageMode::MentionSticky
                && heard.outcome == EngageVerdict::Wake
                && asked.sticky == Sticky::No,
            outcome: heard.outcome,
            rule: heard.rule,
            reason: heard.reason,
            refused: heard.refused,
            problem: verdict.problem,
        }
    }

    /// Whether a message would wake the agent if it addressed it: a file beside it may say so.
    pub fn would_wake(&mut self, asked: &Asked<'_>) -> bool {
        let addressed = Asked { approved: Some(0), ..*asked };
        let is_heard = !asked.from_me && (!asked.bot || asked.bots == Bots::Heard);
        is_heard && !asked.late && self.decide(&addressed).outcome == EngageVerdict::Wake
    }

    fn listener(&mut self, wired: &Wired<'_>) -> &Listener {
        if self.0.len() > READY {
            self.0.clear();
        }
        let pattern = wired.pattern.unwrap_or(".");
        let key = (wired.mode, wired.ignored, pattern.to_owned(), wired.trigger.to_owned());
        self.0.entry(key).or_insert_with(|| Listener::new(&rule(wired)))
    }
}

/// A message that waited for an answer was addressed to an agent, and the approver has seen it: it engages, whatever
/// became of the chat or of the wiring since. So does an answer to the agent.
fn as_promised(verdict: Verdict, asked: &Asked<'_>) -> Verdict {
    let (rule, reason) = match (asked.answers, asked.approved) {
        _ if verdict.outcome == EngageVerdict::Wake => return verdict,
        (Some(question), _) if asked.from_me => {
            (Rule::Asked, format!("it tells the agent what became of its question #q{question}"))
        }
        (Some(question), _) => (Rule::Asked, format!("it answers the agent's question #q{question}")),
        (None, Some(approval)) => {
            (Rule::Approved, format!("it waited for the answer to question {approval}, which was yes"))
        }
        (None, None) => return verdict,
    };
    Verdict { outcome: EngageVerdict::Wake, rule, reason, ..verdict }
}

/// A message that came long after it was written is read with the next one, and wakes nobody.
fn too_late(verdict: Verdict, asked: &Asked<'_>) -> Verdict {
    if !asked.late
        || verdict.outcome != EngageVerdict::Wake
        || asked.approved.is_some()
        || asked.answers.is_some()
    {
        return verdict;
    }
    Verdict {
        outcome: EngageVerdict::Context,
        rule: Rule::Late,
        reason: "it was written more than an hour before it came, while the channel was away".into(),
        ..verdict
    }
}

/// A bot that the agent answers all the time is read with the next message, and wakes nobody.
fn no_loop(verdict: Verdict, asked: &Asked<'_>) -> Verdict {
    if !asked.bot || verdict.outcome != EngageVerdict::Wake || !bots::is_loop(asked.turns, asked.came) {
        return verdict;
    }
    Verdict { outcome: EngageVerdict::Context, rule: Rule::BotLoop, reason: bots::WHY.into(), ..verdict }
}

/// Returns how a wiring listens, from its columns.
fn rule(wired: &Wired<'_>) -> WiringRule {
    WiringRule {
        mode: Engages::of_columns(wired.mode, wired.pattern),
        trigger: wired.trigger.to_owned(),
        ignored: wired.ignored,
    }
}

#[cfg(test)]
mod tests;
