//! How a lane's agent is woken: in its live run, by resuming its session, or in a fresh session with a summary of the lane.
//!
//! ```text
//! live run ─ otherwise ─▶ resume, twice at most ─ otherwise ─▶ fresh, with a summary, until a turn of it is finished
//! ```

use ipc_handlers::{Time, words};
use jiff::tz::TimeZone;

use super::{
    judge::{Cause, End, Ended},
    prompt::{escape, local_time},
};

/// How often in a row a session may fail to be resumed.
pub const MAX_RESUMES: u32 = 2;
/// How many deaths of a lane's runs within [`DEATHS_WITHIN_MS`] are a crash loop.
pub const MAX_DEATHS: usize = 3;
/// The time within which deaths count, ms.
pub const DEATHS_WITHIN_MS: i64 = 15 * 60 * 1_000;

words! {
    /// Why a session begins afresh.
    pub enum FreshWhy: "reason of a fresh session" {
        /// It failed twice in a row when it was resumed.
        NotResumed = "not_resumed",
        /// The lane's runs died three times within 15 minutes.
        CrashLoop = "crash_loop",
        /// Nothing was heard of it for longer than the settings allow.
        Silent = "silent",
        /// It failed so, and no turn of it was ever finished.
        Unfinished = "unfinished",
    }
}

impl FreshWhy {
    /// Returns the reason as `why` shows it.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NotResumed => "its session could not be resumed, twice in a row",
            Self::CrashLoop => "its runs died three times within 15 minutes",
            Self::Silent => "its session was silent for longer than health.fresh_after_hours",
            Self::Unfinished => "no turn of its session was ever finished",
        }
    }

    /// Returns what the chat is told; of silence, and of a session that never said anything, it is told nothing.
    #[must_use]
    pub fn notice(self) -> Option<&'static str> {
        match self {
            Self::NotResumed => Some(
                "I could not go on with our conversation, so I begin a new one. I can see the last messages of the old one.",
            ),
            Self::CrashLoop => Some(
                "I crashed three times within 15 minutes, so I begin a new conversation. I can see the last messages of the old one.",
            ),
            Self::Silent | Self::Unfinished => None,
        }
    }
}

words! {
    /// With which session a run begins.
    pub enum Woken: "way of waking" {
        /// The lane had none.
        First = "first",
        Resume = "resume",
        Fresh = "fresh",
    }
}

/// A lane's session, as it stands before a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub has_session: bool,
    /// A turn of it was finished. Otherwise there is no conversation yet that could be lost.
    pub is_proven: bool,
    /// How often in a row it failed when it was resumed.
    pub failed_resumes: u32,
    /// It was to begin afresh, and no turn of the new one is finished yet.
    pub fresh_why: Option<FreshWhy>,
    /// When its newest runs died, back to the last fresh one.
    pub deaths: Vec<Time>,
    /// When a run of it ended last.
    pub active_at: Option<Time>,
}

/// How the agent is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    First,
    Resume,
    Fresh(FreshWhy),
}

/// Decides how an agent without a live run is woken. `fresh_after_ms`: for how long a session may be silent; `None`: for ever.
/// Instants that lie in the future, as the clock was set back, do not count.
#[must_use]
pub fn wake(session: &Standing, fresh_after_ms: Option<i64>, now: Time) -> Wake {
    if let Some(why) = session.fresh_why {
        return Wake::Fresh(why);
    }
    if !session.has_session {
        return Wake::First;
    }
    let fresh = |why| Wake::Fresh(if session.is_proven { why } else { FreshWhy::Unfinished });
    let recent = |death: &&Time| (0..=DEATHS_WITHIN_MS).contains(&now.ms_since(**death));
    if session.deaths.iter().filter(recent).count() >= MAX_DEATHS {
        return fresh(FreshWhy::CrashLoop);
    }
    if session.failed_resumes >= MAX_RESUMES {
        return fresh(FreshWhy::NotResumed);
    }
    match (fresh_after_ms, session.active_at) {
        (Some(most), Some(at)) if now.ms_since(at) > most => fresh(FreshWhy::Silent),
        (_, _) => Wake::Resume,
    }
}

/// Whether a bad end is the session's fault, for all that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    Session,
    /// The model's API, the host, a person.
    Nothing,
}

/// Errors of a provider that are none of the session: they would come with any other.
const NOT_THE_SESSIONS: [&str; 14] = [
    "authentication",
    "billing",
    "rate_limit",
    "overloaded",
    "server_error",
    "model_not_found",
    "connection",
    "timeout",
    "stalled_before_answer",
    "stalled_mid_answer",
    "refusal",
    "interrupted",
    "tools",
    "version",
];

/// Decides whether a bad end counts against the session that the run went on in. What nobody knows a better reason for does:
/// a session must not take its lane with it.
#[must_use]
pub fn against(ended: &Ended, is_task: bool) -> Against {
    match (&ended.cause, &ended.end) {
        (
            Cause::Cancelled { .. }
            | Cause::NoSpace { .. }
            | Cause::OutOfBudget
            | Cause::Refused(_)
            | Cause::OwnerGone,
            _,
        ) => Against::Nothing,
        (Cause::Unwell { .. } | Cause::NeverReady { .. } | Cause::Flooded { .. } | Cause::Gap { .. }, _) => {
            Against::Session
        }
        (
            Cause::Itself | Cause::Closed,
            End::NeverCreated | End::NoImage { .. } | End::Engine { .. } | End::NotNow { .. } | End::Gone,
        ) => Against::Nothing,
        (Cause::Itself | Cause::Closed, End::Exited { .. }) => match &ended.error_record {
            Some(error) => of_error(error, is_task),
            None if ended.cause == Cause::Closed => Against::Nothing,
            None => Against::Session,
        },
    }
}

fn of_error(error: &str, is_task: bool) -> Against {
    let kind = error.strip_prefix("claude/").or_else(|| error.strip_prefix("acp/"));
    match kind.and_then(|rest| rest.split_once(':')) {
        Some((kind, _)) if NOT_THE_SESSIONS.contains(&kind) => Against::Nothing,
        Some(_) => Against::Session,
        // The script of a task runs before any session does.
        None if is_task => Against::Nothing,
        None => Against::Session,
    }
}

/// Something that was said in the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: Time,
    /// The name of a person; `None`: the agent itself.
    pub sender: Option<String>,
    pub text: String,
}

/// How many lines of a lane its summary has at most.
pub const SUMMARY_LINES: usize = 20;
/// How much of one of them, characters.
pub const SUMMARY_LINE_CHARS: usize = 600;

/// Returns what stands before the prompt of a fresh session: what was said last in the lane, oldest first. Empty if nothing was.
#[must_use]
pub fn summary(lines: &[Line], zone: &TimeZone) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<earlier_conversation note=\"This conversation goes on in a new session. These are its last messages, for you to know. Do not answer them.\">\n",
    );
    let oldest = lines.len().saturating_sub(SUMMARY_LINES);
    for line in &lines[oldest..] {
        let said = escape(&line.text.chars().take(SUMMARY_LINE_CHARS).collect::<String>());
        let cut = if line.text.chars().nth(SUMMARY_LINE_CHARS).is_some() { "…" } else { "" };
        let who = line.sender.as_deref().map_or_else(|| "you".to_owned(), escape);
        let time = local_time(Some(line.at), zone);
        text.push_str(&format!("<said by=\"{who}\" time=\"{time}\">{said}{cut}</said>\n"));
    }
    text.push_str("</earlier_conversation>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{
        health::{Readiness, Runner},
        stop::StopThen,
    };

    const NOW: Time = Time(100 * DEATHS_WITHIN_MS);
    const HOUR_MS: i64 = 3_600_000;

    fn standing() -> Standing {
        Standing {
            has_session: true,
            is_proven: true,
            active_at: Some(NOW.plus_ms(-HOUR_MS)),
            ..Standing::default()
        }
    }

    #[test]
    fn a_session_is_resumed_until_it_fails_twice_its_runs_die_thrice_or_it_was_silent_for_too_long() {
        use FreshWhy::{CrashLoop, NotResumed, Silent, Unfinished};
        let minutes_ago = |minutes: &[i64]| minutes.iter().map(|m| NOW.plus_ms(-m * 60_000)).collect();
        let died = |minutes: &[i64]| Standing { deaths: minutes_ago(minutes), ..standing() };
        let failed = |failed_resumes| Standing { failed_resumes, ..standing() };
        let none = Standing { has_session: false, ..standing() };
        let day = Some(12 * HOUR_MS);
        let silent = |ms: i64| Standing { active_at: Some(NOW.plus_ms(-ms)), ..standing() };
        for (session, fresh_after_ms, expected) in [
            (none.clone(), day, Wake::First),
            (Standing { failed_resumes: 9, ..none.clone() }, None, Wake::First),
            (standing(), day, Wake::Resume),
            (Standing { is_proven: false, ..failed(1) }, day, Wake::Resume),
            (Standing { is_proven: false, ..failed(2) }, day, Wake::Fresh(Unfinished)),
            (Standing { is_proven: false, ..died(&[1, 2, 3]) }, day, Wake::Fresh(Unfinished)),
            (failed(1), day, Wake::Resume),
            (failed(2), day, Wake::Fresh(NotResumed)),
            (died(&[1, 2]), None, Wake::Resume),
            (died(&[1, 2, 15]), None, Wake::Fresh(CrashLoop)),
            (died(&[1, 2, 16]), None, Wake::Resume),
            (died(&[1, 2, -1]), None, Wake::Resume),
            (silent(12 * HOUR_MS), day, Wake::Resume),
            (silent(12 * HOUR_MS + 1), day, Wake::Fresh(Silent)),
            (silent(1000 * HOUR_MS), None, Wake::Resume),
            (silent(-HOUR_MS), day, Wake::Resume),
            (Standing { active_at: None, ..standing() }, day, Wake::Resume),
            (Standing { fresh_why: Some(Silent), ..standing() }, None, Wake::Fresh(Silent)),
            (Standing { fresh_why: Some(CrashLoop), ..none }, None, Wake::Fresh(CrashLoop)),
        ] {
            assert_eq!(wake(&session, fresh_after_ms, NOW), expected, "{session:?}");
        }
    }

    #[test]
    fn what_counts_against_a_session_is_what_it_may_have_caused() {
        use Against::{Nothing, Session};
        let exited = |code| End::Exited { code, oom: false };
        let end = |cause: Cause, end: End, error: Option<&str>| Ended {
            end,
            cause,
            runner: Runner::Two(Readiness::NotYet),
            error_record: error.map(str::to_owned),
        };
        let unwell = || Cause::Unwell { reason: "x".into() };
        for (ended, expected) in [
            (end(Cause::NeverReady { limit_ms: 1, seen: String::new() }, exited(137), None), Session),
            (end(unwell(), exited(137), None), Session),
            (end(unwell(), End::Gone, None), Session),
            (end(Cause::Flooded { limit_bytes: 1 }, exited(137), None), Session),
            (end(Cause::Gap { expected: 1, got: 2 }, exited(137), None), Session),
            (end(Cause::Itself, exited(3), None), Session),
            (end(Cause::Itself, exited(0), None), Session),
            (end(Cause::Itself, End::Exited { code: 137, oom: true }, None), Session),
            (end(Cause::Closed, exited(0), Some("claude/exited: x")), Session),
            (end(Cause::Closed, exited(0), Some("claude/execution: x")), Session),
            (end(Cause::Closed, exited(0), Some("claude/prompt_too_long: x")), Session),
            (end(Cause::Closed, exited(0), Some("claude/invalid_request: x")), Session),
            (end(Cause::Closed, exited(0), Some("the agent's own words")), Session),
            (end(Cause::Closed, exited(0), None), Nothing),
            (end(Cause::Closed, exited(0), Some("acp/agent: x")), Session),
            (end(Cause::Closed, exited(0), Some("acp/authentication: x")), Nothing),
            (end(Cause::Closed, exited(0), Some("claude/rate_limit: x")), Nothing),
            (end(Cause::Itself, exited(1), Some("claude/overloaded: x")), Nothing),
            (end(Cause::Itself, exited(1), Some("claude/authentication: x")), Nothing),
            (end(Cause::Itself, exited(1), Some("claude/connection: x")), Nothing),
            (end(Cause::Itself, exited(1), Some("claude/stalled_mid_answer: x")), Nothing),
            (end(Cause::OwnerGone, exited(137), None), Nothing),
            (end(Cause::OutOfBudget, exited(1), Some("claude/billing: x")), Nothing),
            (end(Cause::Cancelled { by: "x".into(), then: StopThen::GiveUp }, exited(137), None), Nothing),
            (end(Cause::NoSpace { reason: "x".into() }, exited(137), None), Nothing),
            (end(Cause::Itself, End::NoImage { image: "i".into() }, None), Nothing),
            (end(Cause::Itself, End::Engine { doing: "d".into(), why: "w".into() }, None), Nothing),
            (end(Cause::Itself, End::NotNow { why: "w".into() }, None), Nothing),
            (end(Cause::Itself, End::NeverCreated, None), Nothing),
            (end(Cause::Itself, End::Gone, None), Nothing),
        ] {
            assert_eq!(against(&ended, false), expected, "{ended:?}");
        }
        let script = end(Cause::Closed, exited(0), Some("script failed"));
        assert_eq!((against(&script, true), against(&script, false)), (Nothing, Session));
    }

    #[test]
    fn a_summary_is_bounded_and_nothing_in_it_reads_as_anything_else() {
        let line = |sender: Option<&str>, text: &str| Line {
            at: Time(1_704_067_200_000),
            sender: sender.map(str::to_owned),
            text: text.to_owned(),
        };
        assert_eq!(summary(&[], &TimeZone::UTC), "");
        let told = summary(&[line(Some("Bo\"b"), "</said>&"), line(None, &"ä".repeat(700))], &TimeZone::UTC);
        let expected = "<said by=\"Bo&quot;b\" time=\"Jan 1, 2024, 12:00 AM\">&lt;/said&gt;&amp;</said>\n<said by=\"you\"";
        assert!(told.contains(expected), "{told}");
        assert!(told.contains(&format!(">{}…</said>", "ä".repeat(600))), "{told}");
        let many: Vec<Line> = (0..50).map(|n| line(Some("x"), &format!("line {n}."))).collect();
        let told = summary(&many, &TimeZone::UTC);
        assert!(told.contains("line 30.") && !told.contains("line 29."), "{told}");
    }
}
