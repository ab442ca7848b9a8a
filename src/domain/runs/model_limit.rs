//! Limits of a model: its host has no room now, or what an account may use of it is used up. They are weather, not failures:
//! what meets one waits until it is over, at no cost. The host names the time in the headers of its answer or in words that
//! reach us through the agent.

use std::sync::LazyLock;

use ipc_handlers::Time;
use jiff::{ToSpan as _, civil};
use regex::{Captures, Regex};

use super::hindrance::Hindrance;
use crate::time::zone::Zones;

/// How far ahead a limit may end, ms: that of a week, and a day. A time further off is none.
pub const LONGEST_MS: i64 = 8 * DAY_MS;
/// How much later than at the named time work goes on, at most (ms): all groups meet a limit of the account at once.
const SPREAD_MS: u64 = 30_000;
/// How much of an error is read, bytes.
const READ: usize = 4_096;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A limit that an agent ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimit {
    /// [`Hindrance::Limit`] or [`Hindrance::Busy`].
    pub what: Hindrance,
    /// When it is over; `None`: nobody said.
    pub until: Option<Time>,
}

/// Whether an error is what an agent said, not a script before it.
#[must_use]
pub fn is_of_an_agent(error: &str) -> bool {
    error.starts_with("claude/") || error.starts_with("acp/")
}

/// Returns the limit that an agent's error speaks of, with the time by the clocks of zone `own` where the words name none.
#[must_use]
pub fn of_error(error: &str, now: Time, zones: &Zones, own: Option<&str>) -> Option<ModelLimit> {
    let mut end = error.len().min(READ);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    let error = error[..end].to_lowercase();
    // The gateway's own limits are for the agent that runs into them.
    if error.contains("g2: ") {
        return None;
    }
    let kind = if is_of_an_agent(&error) { error.split_once(':').map(|(kind, _)| kind) } else { None };
    let by_words = || match (LIMIT.is_match(&error), BUSY.is_match(&error)) {
        (true, _) => Some(Hindrance::Limit),
        (false, true) => Some(Hindrance::Busy),
        (false, false) => None,
    };
    let what = match kind {
        Some("claude/rate_limit") => Hindrance::Limit,
        Some("claude/overloaded") => Hindrance::Busy,
        Some("claude/execution" | "claude/not_the_model" | "claude/server_error" | "acp/agent") | None => {
            by_words()?
        }
        // Each other kind is about something else, whatever its words.
        Some(_) => return None,
    };
    Some(ModelLimit { what, until: until(&error, now, zones, own) })
}

/// The headers of an answer that say when to come again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// `retry-after`
    pub retry_after: Option<&'a str>,
    /// `anthropic-ratelimit-unified-reset`
    pub unified_reset: Option<&'a str>,
    /// `anthropic-ratelimit-*-reset` of what nothing remains of.
    pub resets: &'a [&'a str],
}

/// Returns when a host is to be asked again that has answered so.
#[must_use]
pub fn of_headers(headers: Headers<'_>, now: Time) -> Option<Time> {
    let Headers { retry_after, unified_reset, resets } = headers;
    let seconds = |text: &str| text.trim().parse::<i64>().ok();
    let instant = |text: &&str| text.trim().parse().ok().map(Time::from_jiff);
    let ahead = |at: &Time| is_ahead(*at, now);
    let after = retry_after.and_then(|text| match seconds(text) {
        Some(seconds) => Some(now.plus_ms(seconds.checked_mul(SECOND_MS)?)),
        None => {
            let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
            Some(Time::from_jiff(date.timestamp()))
        }
    });
    let of_account = || unified_reset.and_then(seconds)?.checked_mul(SECOND_MS).map(Time).filter(ahead);
    let of_all = || resets.iter().filter_map(instant).filter(ahead).max();
    after.filter(ahead).or_else(of_account).or_else(of_all)
}

/// Returns by how much later than its limit's end a group goes on, ms.
#[must_use]
pub fn spread_ms(group: &str) -> i64 {
    // FNV-1a: the same in each life, other for each name.
    let hash = group.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::try_from(hash % SPREAD_MS).unwrap_or(0)
}

fn is_ahead(at: Time, now: Time) -> bool {
    (1..=LONGEST_MS).contains(&at.ms_since(now))
}

fn pattern(text: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "a pattern of our own, which a test compiles")]
    Regex::new(text).expect("it is valid")
}

static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\b(rate[ _-]?limit|(usage|session|weekly|daily|monthly|\d+-hour) limit|hit your .{0,20}limit",
        r"|too many requests|exceeded your .{0,20}quota)",
    ))
});
static BUSY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\boverloaded\b"));

/// `limit reached|1750000000`
static EPOCH: LazyLock<Regex> = LazyLock::new(|| pattern(r"\|\s?(\d{10})(\d{3})?\b"));
/// `try again in 1 h 20 min`
static AFTER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:again|resets?|retry|wait)(?: in| after| for)?:? (\d{1,6}) ?(ms|s|m|h|d|(?:milli)?sec[a-z]*|min[a-z]*|h(?:ou)?rs?|days?)(?:,? (?:and )?(\d{1,3}) ?(s|m|h|sec[a-z]*|min[a-z]*|h(?:ou)?rs?))?\b",
    )
});
/// `resets 3pm (Europe/Berlin)`, `resets at 15:30`, `resets Oct 9, 5pm`, `resets on Mon at 9:00 am`
static AT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:resets?|again)(?: (?:on|at))? ",
        r"(?:(?:(?<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (?<day>\d{1,2})|(?<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*),?(?: at)? )?",
        r"(?<hour>\d{1,2})(?::(?<minute>\d{2}))? ?(?<half>am|pm)?\b(?: ?\(?(?<zone>[a-z_]+/[a-z_/+-]+|utc|gmt)\)?)?",
    ))
});

/// When a limit is over, as words say it.
fn until(words: &str, now: Time, zones: &Zones, own: Option<&str>) -> Option<Time> {
    let found = |pattern: &Regex| pattern.captures(words);
    let at = if let Some(epoch) = found(&EPOCH) {
        Time(number(&epoch, 1)?.checked_mul(SECOND_MS)?)
    } else if let Some(after) = found(&AFTER) {
        let part = |n: usize, unit: usize| -> Option<i64> {
            let ms = match after.get(unit)?.as_str() {
                unit if unit.starts_with("ms") || unit.starts_with("milli") => 1,
                unit if unit.starts_with('s') => SECOND_MS,
                unit if unit.starts_with('m') => MINUTE_MS,
                unit if unit.starts_with('h') => HOUR_MS,
                _ => DAY_MS,
            };
            number(&after, n)?.checked_mul(ms)
        };
        now.plus_ms(part(1, 2)?.saturating_add(part(3, 4).unwrap_or(0)))
    } else {
        on_the_clock(&found(&AT)?, now, zones, own)?
    };
    Some(at).filter(|at| is_ahead(*at, now))
}

fn number(of: &Captures<'_>, n: usize) -> Option<i64> {
    of.get(n)?.as_str().parse().ok()
}

/// The next instant at which clocks show what the words say; `None`: there is none, or that was within the last hour, so it is over.
fn on_the_clock(at: &Captures<'_>, now: Time, zones: &Zones, own: Option<&str>) -> Option<Time> {
    let named = |name: &str| at.name(name).map(|found| found.as_str());
    let zone = match named("zone") {
        Some(name) => zones.get(name)?,
        None => zones.of(own).zone,
    };
    let hour: i8 = named("hour")?.parse().ok()?;
    let minute: i8 = named("minute").map_or(Some(0), |minute| minute.parse().ok())?;
    let hour = match named("half") {
        Some("pm") if (1..12).contains(&hour) => hour + 12,
        Some("am") if hour == 12 => 0,
        // A number alone is no time of day.
        None if named("minute").is_none() => return None,
        _ => hour,
    };
    let clock = civil::Time::new(hour, minute, 0, 0).ok()?;
    let here = now.to_jiff().to_zoned(zone.clone());
    let next = |days: i64| here.date().checked_add(days.days()).ok();
    let fits = |date: &civil::Date| match (named("month"), named("weekday")) {
        (Some(month), _) => {
            let day = named("day").and_then(|day| day.parse().ok());
            date.strftime("%b").to_string().to_lowercase() == month && Some(date.day()) == day
        }
        (None, Some(weekday)) => date.strftime("%a").to_string().to_lowercase() == weekday,
        (None, None) => true,
    };
    let instant = |date: civil::Date| {
        Some(Time::from_jiff(date.to_datetime(clock).to_zoned(zone.clone()).ok()?.timestamp()))
    };
    (0..=LONGEST_MS / DAY_MS)
        .filter_map(next)
        .filter(fits)
        .filter_map(instant)
        .find(|at| *at > now.plus_ms(-HOUR_MS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Time {
        Time::from_jiff(text.parse().unwrap())
    }

    fn now() -> Time {
        at("2025-10-07T12:00:00Z")
    }

    fn limit(error: &str) -> Option<(Hindrance, Option<Time>)> {
        of_error(error, now(), &Zones::utc(), Some("Europe/Berlin")).map(|limit| (limit.what, limit.until))
    }

    #[test]
    fn a_limit_is_known_by_its_kind_or_its_words_and_what_else_went_wrong_is_none() {
        use Hindrance::{Busy, Limit};
        for (error, expected) in [
            ("claude/rate_limit: API Error: 429", Some(Limit)),
            ("claude/overloaded: API Error: 529", Some(Busy)),
            ("claude/execution: You've hit your weekly limit", Some(Limit)),
            ("Claude AI usage limit reached", Some(Limit)),
            ("acp/agent: Internal error: overloaded", Some(Busy)),
            ("acp/agent: RateLimitError: too many requests", Some(Limit)),
            ("acp/agent: you exceeded your current quota", Some(Limit)),
            ("claude/server_error: API Error: 529 overloaded_error", None),
            ("claude/server_error: Overloaded", Some(Busy)),
            ("claude/rate_limit: 429 g2: a run has at most 600 requests a minute", None),
            ("claude/max_turns: turn limit reached", None),
            ("acp/max_tokens: weekly limit", None),
            ("acp/agent: context limit reached", None),
            ("acp/agent: Disk quota exceeded (os error 122)", None),
            ("unexpected quotation mark", None),
            ("claude/authentication: the rate limit of your login", None),
            ("claude/prompt_too_long: limit reached", None),
            ("the operator is overloadedly busy", None),
            ("no such file", None),
            ("", None),
        ] {
            assert_eq!(limit(error).map(|(what, _)| what), expected, "{error}");
        }
    }

    #[test]
    fn the_time_is_read_in_each_way_that_agents_say_it() {
        for (words, expected) in [
            ("Claude AI usage limit reached|1759870800", Some("2025-10-07T21:00:00Z")),
            ("usage limit reached|1759870800123", Some("2025-10-07T21:00:00Z")),
            ("5-hour limit reached ∙ resets 3pm", Some("2025-10-07T13:00:00Z")),
            ("5-hour limit reached ∙ resets 3pm (UTC)", Some("2025-10-07T15:00:00Z")),
            ("You've hit your limit · resets 3:30 am (America/New_York)", Some("2025-10-08T07:30:00Z")),
            ("usage limit · resets at 11:59", Some("2025-10-08T09:59:00Z")),
            ("weekly limit reached ∙ resets Oct 9, 5pm", Some("2025-10-09T15:00:00Z")),
            ("weekly limit reached, resets on Friday at 9:00 am", Some("2025-10-10T07:00:00Z")),
            ("rate limit: Please try again in 820ms.", Some("2025-10-07T12:00:00.820Z")),
            ("rate limit: retry after 500 ms", Some("2025-10-07T12:00:00.500Z")),
            ("rate limit: retry after 1 hour and 5 minutes", Some("2025-10-07T13:05:00Z")),
            ("rate limit: resets 2pm", None),
            ("rate limit: resets 1:30pm (Europe/Berlin)", None),
            ("rate limit: resets 12:59", Some("2025-10-08T10:59:00Z")),
            ("rate limit: try again in 90 seconds", Some("2025-10-07T12:01:30Z")),
            ("rate limit: please retry after 2h 5m", Some("2025-10-07T14:05:00Z")),
            ("rate limit, resets in 3 days", Some("2025-10-10T12:00:00Z")),
            ("rate limit: resets at 12am (GMT)", Some("2025-10-08T00:00:00Z")),
            ("rate limit: resets 25:00", None),
            ("rate limit: resets 9", None),
            ("rate limit: resets in 9 days", None),
            ("rate limit reached|1600000000", None),
            ("rate limit reached|9999999999", None),
            ("rate limit: resets Oct 30, 5pm", None),
            ("rate limit: resets 3pm (Nowhere/Land)", None),
            ("rate limit", None),
        ] {
            let found = limit(words).unwrap();
            assert_eq!(found, (Hindrance::Limit, expected.map(at)), "{words}");
        }
    }

    #[test]
    fn headers_name_the_time_and_the_most_exact_one_counts() {
        let found = |retry_after, unified_reset, resets: &[&str]| {
            of_headers(Headers { retry_after, unified_reset, resets }, now())
        };
        let later = |seconds: i64| Some(now().plus_ms(seconds * 1_000));
        assert_eq!(found(Some("30"), Some("1759870800"), &[]), later(30));
        assert_eq!(found(Some("Tue, 07 Oct 2025 12:10:00 GMT"), None, &[]), later(600));
        assert_eq!(
            found(None, Some("1759870800"), &["2025-10-07T12:00:05Z"]),
            Some(at("2025-10-07T21:00:00Z"))
        );
        assert_eq!(found(None, None, &["2025-10-07T12:00:05Z", "2025-10-07T12:01:00Z", "x"]), later(60));
        assert_eq!(found(Some("0"), Some("1759870800"), &[]), Some(at("2025-10-07T21:00:00Z")));
        for odd in ["-1", "0", "", "soon", "99999999999999999999", "9223372036854775807"] {
            assert_eq!(found(Some(odd), Some(odd), &[odd]), None, "{odd}");
        }
    }

    #[test]
    fn groups_go_on_one_after_the_other_within_half_a_minute() {
        let mut all: Vec<i64> = (0..100).map(|n| spread_ms(&format!("group-{n}"))).collect();
        assert!(all.iter().all(|ms| (0..30_000).contains(ms)));
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 90, "{}", all.len());
        assert_eq!(spread_ms("main"), spread_ms("main"));
    }

    proptest! {
        #[test]
        fn words_of_all_kinds_name_a_time_ahead_or_none(words in ".{0,200}", more in "(resets?|again|\\|)[ 0-9apm:(]{0,20}") {
            for error in [format!("claude/rate_limit: {words}"), format!("rate limit {words} {more}")] {
                let (_, until) = limit(&error).unwrap();
                prop_assert!(until.is_none_or(|at| is_ahead(at, now())));
            }
        }
    }
}
