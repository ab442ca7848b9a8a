//! Whether a running container is well, and what to do when it is not.
//!
//! Ages are counted by the caller on the monotonic clock, from when we saw something change: no stamp of a container
//! is ever compared with our clock, and reading a record again is no sign of life. Limits are strict: exactly at a
//! limit nothing happens yet.
//!
//! What the host sees from outside counts too ([`AtWork`]): one whose request to the model is under way, or whose processes
//! use processor or disk, is alive though it says nothing, for a longer while; one that does nothing at all is not, though
//! its heartbeat goes on.
//!
//! A container is asked first (`_close`), then stopped, then killed:
//!
//! ```text
//! running ─close→ closing ─30 s→ stopping ─30 s→ killed
//!    └──── not ready in time, stuck with a batch, a blocked tool ────↑
//! ```

use ipc_handlers::Time;
use ipc_handlers::wire::ContainerState;

use super::work::AtWork;

/// The facts about a running container; ages in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vitals {
    pub runner: Runner,
    pub leaving: Leaving,
    /// Since it was started, or adopted.
    pub started_ms: i64,
    /// Since the last sign of life: a record, or a heartbeat that we saw change. Since the start when there is none.
    pub quiet_ms: i64,
    /// Since the last new record. Since the start when there is none.
    pub no_record_ms: i64,
    /// Since it began or ended a tool, as far as it says so. Since the start when it never did.
    pub since_tool_ms: i64,
    /// Since the last record with a result; `None` before the first. Only a v1 runner is judged by it.
    pub since_result_ms: Option<i64>,
    /// Since the oldest batch that is not finished was taken; `None` when nothing is in hand.
    pub in_hand_ms: Option<i64>,
    /// How long the tool that runs now may take, as [`declared_timeout_ms`] reads it.
    pub tool_timeout_ms: Option<i64>,
    /// A tool of the blocked list that ran all the same.
    pub blocked_tool: Option<String>,
    pub at_work: AtWork,
    pub patience: Patience,
}

/// How long an agent that was asked to leave may go on with a batch in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as it shows that it lives.
    WhileItLives,
    /// No longer than one without: a person wants it ended.
    None,
}

/// Which protocol a runner speaks, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// v1's: ready once started; every record is its sign of life; it leaves with 0 when all that it was given is
    /// done.
    One,
    /// Ours: it announces `ready`, names what it has handled, and has a heartbeat.
    Two(Readiness),
}

/// Whether an agent has said that it is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    NotYet,
    Ready,
}

/// How far a container is on its way out, and for how long, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    No,
    /// It has been asked to finish and leave.
    Closing(i64),
    /// It has been told to stop.
    Stopping(i64),
}

/// The limits, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthLimits {
    /// From the start to `ready`.
    pub ready_ms: i64,
    /// Without a sign of life: 30 minutes, or the group's `containerConfig.timeout`.
    pub ceiling_ms: i64,
    /// With a batch in hand and no sign of life since it was taken.
    pub claim_ms: i64,
    /// From one step of leaving to the next.
    pub leave_ms: i64,
    /// Without a record, whatever the heartbeat.
    pub record_ms: i64,
    /// v1 runners: from a result to `_close`; `IDLE_TIMEOUT`.
    pub idle_ms: i64,
}

impl Default for HealthLimits {
    fn default() -> Self {
        const MINUTE_MS: i64 = 60_000;
        Self {
            ready_ms: 3 * MINUTE_MS,
            ceiling_ms: 30 * MINUTE_MS,
            claim_ms: MINUTE_MS,
            leave_ms: MINUTE_MS / 2,
            record_ms: 24 * 60 * MINUTE_MS,
            idle_ms: 30 * MINUTE_MS,
        }
    }
}

/// The longest time that a tool may declare for itself, ms.
pub const MAX_TOOL_TIMEOUT_MS: i64 = 2 * 60 * 60 * 1_000;

/// How long one that shows no life may be at work as seen from outside, ms; with a batch that it has just taken, only as long
/// as the ceiling.
const MAX_SILENT_WORK_MS: i64 = MAX_TOOL_TIMEOUT_MS;

/// The action on a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine {
        /// When a limit is reached if nothing changes until then, at least 1.
        look_again_in_ms: i64,
    },
    /// Ask it to finish and leave.
    Close { reason: String },
    /// Tell it to stop.
    Stop { reason: String },
    /// End it now.
    Kill { reason: String },
}

/// Returns how long the tool that runs now may take, ms, as the container declares it: `Bash` only, and not longer
/// than [`MAX_TOOL_TIMEOUT_MS`].
#[must_use]
pub fn declared_timeout_ms(state: &ContainerState) -> Option<i64> {
    let declared =
        state.tool_declared_timeout_ms.filter(|_| state.current_tool.as_deref() == Some("Bash"))?;
    Some(i64::try_from(declared).unwrap_or(i64::MAX).min(MAX_TOOL_TIMEOUT_MS))
}

/// Decides the action on a container.
#[must_use]
pub fn judge(vitals: &Vitals, limits: &HealthLimits) -> Verdict {
    let tool_ms = vitals.tool_timeout_ms.unwrap_or_default().min(MAX_TOOL_TIMEOUT_MS);
    let mut watch = Watch { soonest_ms: i64::MAX };
    let reached = kill(vitals, limits, tool_ms, &mut watch).or_else(|| match vitals.leaving {
        Leaving::No => close(vitals, limits, tool_ms, &mut watch),
        Leaving::Closing(ms) => closing(ms, vitals, limits, tool_ms, &mut watch),
        Leaving::Stopping(ms) => watch
            .over(ms, limits.leave_ms)
            .then(|| Verdict::Kill { reason: format!("did not stop within {}", human(limits.leave_ms)) }),
    });
    reached.unwrap_or(Verdict::Fine { look_again_in_ms: watch.soonest_ms })
}

/// Returns the next action on a container if nothing changes until then, and in how many ms that is.
#[must_use]
pub fn coming(vitals: &Vitals, limits: &HealthLimits) -> Option<(i64, Verdict)> {
    /// A limit that is reached need not bring about an action: another one may have to be reached too.
    const LIMITS: usize = 8;
    let mut in_ms: i64 = 0;
    for _ in 0..LIMITS {
        match judge(&vitals.after(in_ms), limits) {
            Verdict::Fine { look_again_in_ms: i64::MAX } => return None,
            Verdict::Fine { look_again_in_ms } => in_ms = in_ms.saturating_add(look_again_in_ms),
            verdict @ (Verdict::Close { .. } | Verdict::Stop { .. } | Verdict::Kill { .. }) => {
                return Some((in_ms, verdict));
            }
        }
    }
    None
}

/// Returns the reason of an action; of none it is empty.
#[must_use]
pub fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Fine { .. } => "",
        Verdict::Close { reason } | Verdict::Stop { reason } | Verdict::Kill { reason } => reason,
    }
}

impl Vitals {
    /// The same container, this long (ms) after a look, with nothing changed.
    fn after(&self, ms: i64) -> Self {
        let later = |age: i64| age.saturating_add(ms);
        Self {
            leaving: match self.leaving {
                Leaving::No => Leaving::No,
                Leaving::Closing(age) => Leaving::Closing(later(age)),
                Leaving::Stopping(age) => Leaving::Stopping(later(age)),
            },
            started_ms: later(self.started_ms),
            quiet_ms: later(self.quiet_ms),
            no_record_ms: later(self.no_record_ms),
            since_tool_ms: later(self.since_tool_ms),
            since_result_ms: self.since_result_ms.map(later),
            in_hand_ms: self.in_hand_ms.map(later),
            at_work: match self.at_work {
                at_work @ (AtWork::Unseen | AtWork::Asking) => at_work,
                AtWork::Ago(age) => AtWork::Ago(later(age)),
            },
            ..self.clone()
        }
    }
}

/// What ends a container at once.
fn kill(vitals: &Vitals, limits: &HealthLimits, tool_ms: i64, watch: &mut Watch) -> Option<Verdict> {
    if let Some(tool) = &vitals.blocked_tool {
        return Some(Verdict::Kill { reason: format!("ran the tool {tool}, which nobody can answer here") });
    }
    match vitals.runner {
        Runner::One => None,
        Runner::Two(Readiness::NotYet) => {
            let limit = vitals.at_work.extends(vitals.started_ms, limits.ready_ms, limits.ceiling_ms);
            watch
                .over(vitals.started_ms, limit)
                .then(|| Verdict::Kill { reason: format!("was not ready within {}", human(limits.ready_ms)) })
        }
        Runner::Two(Readiness::Ready) => {
            // A sign of life at the very moment of the taking is none since.
            let in_hand_ms = vitals.in_hand_ms.filter(|in_hand_ms| vitals.quiet_ms >= *in_hand_ms)?;
            let limit = limits.claim_ms.max(tool_ms);
            let extended = vitals.at_work.extends(in_hand_ms, limit, limits.ceiling_ms);
            watch.over(in_hand_ms, extended).then(|| Verdict::Kill {
                reason: format!("took a message and gave no sign of life for {}", human(limit)),
            })
        }
    }
}

/// What makes us ask a container to leave.
fn close(vitals: &Vitals, limits: &HealthLimits, tool_ms: i64, watch: &mut Watch) -> Option<Verdict> {
    match vitals.runner {
        Runner::Two(Readiness::NotYet) => return None,
        Runner::Two(Readiness::Ready) => {
            let limit = limits.ceiling_ms.max(tool_ms);
            let extended = vitals.at_work.extends(vitals.quiet_ms, limit, MAX_SILENT_WORK_MS);
            if watch.over(vitals.quiet_ms, extended) {
                return Some(Verdict::Close { reason: format!("no sign of life for {}", human(limit)) });
            }
            if idle_ms(vitals).is_some_and(|ms| watch.over(ms, limit)) {
                return Some(Verdict::Close {
                    reason: format!("did nothing for {}, though its heartbeat goes on", human(limit)),
                });
            }
        }
        Runner::One => {
            let hard_ms = limits.ceiling_ms.max(limits.idle_ms.saturating_add(30_000));
            if watch.over(vitals.no_record_ms, hard_ms) {
                return Some(Verdict::Stop { reason: format!("no record for {}", human(hard_ms)) });
            }
            if vitals.since_result_ms.is_some_and(|ms| watch.over(ms, limits.idle_ms)) {
                return Some(Verdict::Close { reason: format!("idle for {}", human(limits.idle_ms)) });
            }
        }
    }
    watch
        .over(vitals.no_record_ms, limits.record_ms)
        .then(|| Verdict::Close { reason: format!("no record for {}", human(limits.record_ms)) })
}

/// Since when a container with a batch in hand has done nothing at all although its heartbeat goes on: it wrote no record,
/// began and ended no tool, asked its model nothing, used neither processor nor disk. `None`: that is not so, or can't be seen. Whose heartbeat has
/// stopped, too, is only silent.
fn idle_ms(vitals: &Vitals) -> Option<i64> {
    match (vitals.at_work, vitals.in_hand_ms) {
        (AtWork::Ago(ms), Some(in_hand_ms)) => {
            let idle_ms = ms.min(in_hand_ms).min(vitals.no_record_ms).min(vitals.since_tool_ms);
            (vitals.quiet_ms < idle_ms / 2).then_some(idle_ms)
        }
        (AtWork::Unseen | AtWork::Asking, _) | (_, None) => None,
    }
}

/// What makes us stop a container that was asked to leave.
///
/// One that is at work on a batch may finish it, as it was asked to, while it shows that it lives, is in a tool that may
/// take its time, or is seen at work. It is stopped all the same once it is over the limit for which a container is asked to
/// leave, or has said nothing for the time after which any run ends.
fn closing(
    ms: i64,
    vitals: &Vitals,
    limits: &HealthLimits,
    tool_ms: i64,
    watch: &mut Watch,
) -> Option<Verdict> {
    let ceiling_ms = limits.ceiling_ms.max(tool_ms);
    let lives = !watch.over(vitals.quiet_ms, ceiling_ms)
        && !idle_ms(vitals).is_some_and(|ms| watch.over(ms, ceiling_ms));
    let (age, limit) = match (vitals.in_hand_ms, vitals.patience) {
        (Some(_), Patience::WhileItLives) if lives => {
            let age = vitals.quiet_ms.min(ms);
            (age, vitals.at_work.extends(age, limits.leave_ms.max(tool_ms), ceiling_ms))
        }
        (Some(_), Patience::WhileItLives | Patience::None) | (None, _) => (ms, limits.leave_ms),
    };
    let stop = watch.over(age, limit)
        || (watch.over(vitals.no_record_ms, limits.record_ms) && watch.over(ms, limits.leave_ms));
    stop.then(|| Verdict::Stop { reason: format!("did not leave within {}", human(limits.leave_ms)) })
}

/// Compares ages with limits, and remembers which limit comes next.
struct Watch {
    soonest_ms: i64,
}

impl Watch {
    fn over(&mut self, age_ms: i64, limit_ms: i64) -> bool {
        let over = age_ms > limit_ms;
        if !over {
            let left = limit_ms.saturating_sub(age_ms).saturating_add(1);
            self.soonest_ms = self.soonest_ms.min(left);
        }
        over
    }
}

/// How often a lane's runs may be killed within [`KILLS_WITHIN_MS`].
pub const MAX_KILLS: usize = 3;
/// The time within which kills count, and how long the lane then rests, ms.
pub const KILLS_WITHIN_MS: i64 = 60 * 60 * 1_000;

/// Whether a lane may run again after its kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillLoop {
    No,
    /// It rests until then, or until a person says otherwise.
    RestUntil(Time),
}

/// Returns whether a lane whose runs were killed at these times is in a kill loop: [`MAX_KILLS`] within an hour mean
/// an hour's rest from the last. Kills that lie in the future (the clock was set back) do not count.
#[must_use]
pub fn kill_loop(kills: &[Time], now: Time) -> KillLoop {
    let mut past: Vec<Time> = kills.iter().copied().filter(|kill| *kill <= now).collect();
    past.sort_unstable();
    let Some(first) = past.len().checked_sub(MAX_KILLS).and_then(|index| past.get(index)) else {
        return KillLoop::No;
    };
    let last = past.last().copied().unwrap_or(*first);
    let until = last.plus_ms(KILLS_WITHIN_MS);
    if last.ms_since(*first) <= KILLS_WITHIN_MS && now < until {
        KillLoop::RestUntil(until)
    } else {
        KillLoop::No
    }
}

/// Returns a time in words: minutes, seconds or milliseconds.
#[must_use]
pub fn human(ms: i64) -> String {
    match ms {
        ms if ms >= 120_000 && ms % 60_000 == 0 => format!("{} minutes", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests;
