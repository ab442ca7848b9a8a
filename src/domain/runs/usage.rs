//! What runs use of a model, and what they asked for in vain: sums, and how rows for people come of them.

use std::collections::{BTreeMap, VecDeque};

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{
    budget::{Money, Prices},
    outside::{KEPT_PLACES, NoWay, Place},
};

/// How many refusals of a run are kept in full; all are counted.
pub const KEPT_REFUSALS: usize = 20;
/// Use is stored by quarters of an hour, ms: every zone's midnight is the start of one.
pub const QUARTER_MS: i64 = 900_000;

/// Tokens, as they are billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Neither written to a cache nor read from one.
    pub input: u64,
    pub cache_creation: u64,
    pub cache_read: u64,
    pub output: u64,
}

impl Tokens {
    /// Returns how many they are, of all kinds together.
    #[must_use]
    pub fn all(&self) -> u64 {
        [self.input, self.cache_creation, self.cache_read, self.output]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.output = self.output.saturating_add(other.output);
    }
}

/// Requests that went to the model's host, and what they used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub requests: u64,
    /// Those that were not answered in full with a success.
    pub errors: u64,
    pub tokens: Tokens,
}

impl Sum {
    /// Adds more of the same.
    pub fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.tokens.add(other.tokens);
    }
}

/// A request that was in vain: not passed on, or not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Method and path, without what follows a `?`; cut.
    pub asked: String,
    pub why: String,
}

/// What one run added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// By model; the empty name holds what was answered without one, such as errors.
    pub models: BTreeMap<String, Sum>,
    pub refused: u64,
    /// The newest of what was in vain, oldest first.
    pub refusals: VecDeque<FailedRequest>,
    /// Places outside that were not reached, by host and port, with the reason and how often.
    pub kept_in: BTreeMap<String, (String, u64)>,
}

impl Page {
    /// Adds a request's use.
    pub fn used(&mut self, model: &str, sum: Sum) {
        self.models.entry(model.to_owned()).or_default().add(sum);
    }

    /// Adds a refusal.
    pub fn refused(&mut self, refusal: FailedRequest) {
        self.refused = self.refused.saturating_add(1);
        self.keep(refusal);
    }

    /// Adds why a request that was passed on came to nothing; it is counted with the errors of what was used.
    pub fn failed(&mut self, why: FailedRequest) {
        self.keep(why);
    }

    /// Adds a place outside that is not to be reached. Beyond the number that is kept, further ones are left out.
    pub fn kept_in(&mut self, place: &Place, why: &NoWay) {
        let place = place.to_string();
        if self.kept_in.len() < KEPT_PLACES || self.kept_in.contains_key(&place) {
            let (reason, times) = self.kept_in.entry(place).or_default();
            why.short().clone_into(reason);
            *times = times.saturating_add(1);
        }
    }

    /// Puts `earlier` before these.
    pub fn put_before(&mut self, earlier: Self) {
        let later = std::mem::replace(self, earlier);
        later.models.into_iter().for_each(|(model, sum)| self.used(&model, sum));
        self.refused = self.refused.saturating_add(later.refused);
        later.refusals.into_iter().for_each(|refusal| self.keep(refusal));
        for (place, (why, times)) in later.kept_in {
            if self.kept_in.len() < KEPT_PLACES || self.kept_in.contains_key(&place) {
                let entry = self.kept_in.entry(place).or_default();
                *entry = (why, entry.1.saturating_add(times));
            }
        }
    }

    fn keep(&mut self, refusal: FailedRequest) {
        self.refusals.push_back(refusal);
        if self.refusals.len() > KEPT_REFUSALS {
            self.refusals.pop_front();
        }
    }
}

/// What use is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Run,
    Group,
    Model,
    /// The day in the user's zone.
    Day,
}

/// Whose use a row tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Whose {
    Run {
        run: i64,
        group: Folder,
    },
    Group {
        group: Folder,
    },
    Model {
        /// `None`: no answer named one.
        model: Option<String>,
    },
    Day {
        /// `YYYY-MM-DD`.
        day: String,
    },
}

/// Use, as `g2 usage` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    #[serde(flatten)]
    pub whose: Whose,
    #[serde(flatten)]
    pub total: Total,
}

/// The figures of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    pub requests: u64,
    pub errors: u64,
    pub refused: u64,
    pub input_tokens: u64,
    pub cache_creation_tokens: u64,
    pub cache_read_tokens: u64,
    pub output_tokens: u64,
    /// What the tokens cost; `None`: no model has a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Total {
    /// Returns this, used of one model, with what it cost.
    #[must_use]
    pub fn priced(self, model: &str, prices: &Prices) -> Self {
        let tokens = Tokens {
            input: self.input_tokens,
            cache_creation: self.cache_creation_tokens,
            cache_read: self.cache_read_tokens,
            output: self.output_tokens,
        };
        Self { money: (!prices.is_empty()).then(|| prices.cost(model, &tokens)), ..self }
    }

    /// Adds other figures.
    pub fn add(&mut self, other: Self) {
        let both = self.money.zip(other.money).map(|(one, other)| Money(one.0.saturating_add(other.0)));
        self.money = both.or(self.money).or(other.money);
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.refused = self.refused.saturating_add(other.refused);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cache_creation_tokens = self.cache_creation_tokens.saturating_add(other.cache_creation_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Returns the quarter of an hour in which `at` lies, by its start.
#[must_use]
pub fn quarter(at: Time) -> Time {
    Time(at.0.div_euclid(QUARTER_MS).saturating_mul(QUARTER_MS))
}

/// Returns the day of `zone` in which a quarter of an hour lies, as `YYYY-MM-DD`.
#[must_use]
pub fn day(quarter: Time, zone: &TimeZone) -> String {
    quarter.to_jiff().to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}

/// A refusal, as `g2 runs show` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusalRow {
    #[serde(serialize_with = "crate::rows::rfc3339")]
    pub at: Time,
    pub asked: String,
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(n: usize) -> FailedRequest {
        FailedRequest { asked: format!("GET /{n}"), why: "no".into() }
    }

    fn output(output: u64) -> Sum {
        Sum { requests: 1, errors: 0, tokens: Tokens { output, ..Tokens::default() } }
    }

    #[test]
    fn refusals_are_bounded_and_all_are_counted() {
        let mut page = Page::default();
        (0..100).for_each(|n| page.refused(refusal(n)));
        assert_eq!((page.refused, page.refusals.len()), (100, KEPT_REFUSALS));
        assert_eq!(page.refusals.back(), Some(&refusal(99)));
    }

    #[test]
    fn what_is_put_back_comes_before_what_came_since() {
        let (mut earlier, mut page) = (Page::default(), Page::default());
        (0..15).for_each(|n| earlier.refused(refusal(n)));
        earlier.used("a", output(1));
        (15..30).for_each(|n| page.refused(refusal(n)));
        page.used("a", output(2));
        page.put_before(earlier);
        assert_eq!((page.refused, page.models["a"].tokens.output, page.models["a"].requests), (30, 3, 2));
        assert_eq!((page.refusals.front(), page.refusals.back()), (Some(&refusal(10)), Some(&refusal(29))));
    }

    #[test]
    fn a_day_is_the_users() {
        let kathmandu = TimeZone::get("Asia/Kathmandu").unwrap();
        // 5:45 ahead: its midnight is 18:15.
        for (at, here, there) in [
            ("2026-03-01T18:14:59Z", "2026-03-01", "2026-03-01"),
            ("2026-03-01T18:15:00Z", "2026-03-01", "2026-03-02"),
            ("2026-03-02T18:14:59Z", "2026-03-02", "2026-03-02"),
        ] {
            let quarter = quarter(Time::from_jiff(at.parse().unwrap()));
            assert_eq!((day(quarter, &TimeZone::UTC), day(quarter, &kathmandu)), (here.into(), there.into()));
        }
    }

    #[test]
    fn money_is_added_up_where_there_are_prices() {
        let total =
            |requests, money: Option<u64>| Total { requests, money: money.map(Money), ..Total::default() };
        for (one, other, both) in [(None, None, None), (Some(1), Some(2), Some(3)), (None, Some(2), Some(2))]
        {
            let mut sum = total(1, one);
            sum.add(total(2, other));
            assert_eq!(sum, total(3, both));
        }
        assert_eq!(total(1, None).priced("m", &Prices::default()), total(1, None));
    }
}
