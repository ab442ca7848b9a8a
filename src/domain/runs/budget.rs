//! How much a group may use in a day: requests to its model, tokens, money, minutes of its containers.
//!
//! A day is that of the user's zone. What is used up stays used up until the day is over or the budget is raised: until then
//! nothing is launched for the group, and the gateway passes on no request of it. The last request before that may go over,
//! for nobody knows beforehand how much it uses.

mod day;
mod price;
#[cfg(test)]
mod tests;
mod told;

pub use day::Day;
pub use price::{BadPrice, Money, Price, Prices};
pub use told::{for_a_chat, for_the_owner, short};

use ipc_handlers::Time;
use serde::{Deserialize, Serialize};

use super::usage::Tokens;
use crate::states::BudgetState;

/// The most requests or tokens of a budget: more is a slip.
pub const MOST_COUNTED: u64 = 1_000_000_000_000;
/// The most money of a budget, in whole units of the currency.
pub const MOST_MONEY: f64 = 1_000_000.0;
/// The most minutes of a budget: those of a day.
pub const MOST_MINUTES: u64 = 1440;

const MINUTE_MS: u64 = 60_000;
/// From which share of a part its owner is warned, per cent.
const NEAR: u128 = 80;

ipc_handlers::words! {
    /// What of a group is bounded.
    pub enum Part: "part of a budget" {
        /// Requests that went to the model's host.
        Requests = "requests",
        /// Of all kinds together.
        Tokens = "tokens",
        /// By the prices of the settings.
        Money = "money",
        /// Time in which its containers ran.
        Minutes = "minutes",
    }
}

impl Part {
    /// Every part, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::Money, Self::Minutes];
}

/// A budget as settings say it: of one group, or of all. 0 is no bound; `None`: what all groups have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wish {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// In the currency of the prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
}

impl Wish {
    /// Whether it wants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what is wrong with it: the part, and what it may be.
    #[must_use]
    pub fn fault(&self) -> Option<(Part, String)> {
        let whole = |part, value: Option<u64>, most: u64| {
            value
                .filter(|n| *n > most)
                .map(|_| (part, format!("use a whole number up to {most}; 0: no limit")))
        };
        let money = self.money.filter(|money| !(0.0..=MOST_MONEY).contains(money));
        whole(Part::Requests, self.requests, MOST_COUNTED)
            .or_else(|| whole(Part::Tokens, self.tokens, MOST_COUNTED))
            .or_else(|| {
                money.map(|_| (Part::Money, format!("use 0 to {MOST_MONEY}, such as 2.50; 0: no limit")))
            })
            .or_else(|| whole(Part::Minutes, self.minutes, MOST_MINUTES))
    }
}

/// How much a group may use in a day; `None`: any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
    pub money: Option<Money>,
    pub minutes: Option<u64>,
}

impl Budget {
    /// Returns the budget of a group that wants `own` where all have `all`.
    #[must_use]
    pub fn of(all: &Wish, own: &Wish) -> Self {
        let bound = |own: Option<u64>, all: Option<u64>| own.or(all).filter(|n| *n > 0);
        Self {
            requests: bound(own.requests, all.requests),
            tokens: bound(own.tokens, all.tokens),
            money: own.money.or(all.money).map(Money::of).filter(|money| *money > Money(0)),
            minutes: bound(own.minutes, all.minutes),
        }
    }

    /// Whether there is any bound.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the bound of a part, in the unit of [`Used::of`].
    fn bound(&self, part: Part) -> Option<u64> {
        match part {
            Part::Requests => self.requests,
            Part::Tokens => self.tokens,
            Part::Money => self.money.map(|money| money.0),
            Part::Minutes => self.minutes.map(|minutes| minutes.saturating_mul(MINUTE_MS)),
        }
    }
}

/// What a group has used of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub requests: u64,
    pub tokens: u64,
    pub money: Money,
    /// Of its containers, ms.
    pub ran_ms: u64,
}

impl Used {
    /// Returns how much of a part is used: a count, millionths of the currency, or ms.
    fn of(&self, part: Part) -> u64 {
        match part {
            Part::Requests => self.requests,
            Part::Tokens => self.tokens,
            Part::Money => self.money.0,
            Part::Minutes => self.ran_ms,
        }
    }

    /// Adds what requests used of a model.
    pub fn add(&mut self, requests: u64, tokens: &Tokens, costs: Money) {
        self.requests = self.requests.saturating_add(requests);
        self.tokens = self.tokens.saturating_add(tokens.all());
        self.money = Money(self.money.0.saturating_add(costs.0));
    }

    /// Returns the larger one of each part: what one place knows of, another may not yet.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            tokens: self.tokens.max(other.tokens),
            money: self.money.max(other.money),
            ran_ms: self.ran_ms.max(other.ran_ms),
        }
    }
}

/// How a budget stands, and the part that decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stand {
    Enough,
    /// Most of it is used.
    Near(Part),
    /// It is used up.
    Out(Part),
}

impl Stand {
    /// Whether it is used up.
    #[must_use]
    pub fn is_out(self) -> bool {
        self.state() == BudgetState::Out
    }

    /// Returns it without the part.
    #[must_use]
    pub fn state(self) -> BudgetState {
        match self {
            Self::Enough => BudgetState::Enough,
            Self::Near(_) => BudgetState::Near,
            Self::Out(_) => BudgetState::Out,
        }
    }

    /// Returns the part that decides it.
    #[must_use]
    pub fn part(self) -> Option<Part> {
        match self {
            Self::Enough => None,
            Self::Near(part) | Self::Out(part) => Some(part),
        }
    }
}

/// Judges how a budget stands.
#[must_use]
pub fn stand(budget: &Budget, used: &Used) -> Stand {
    let first = |wanted: BudgetState| {
        let stands =
            |part: &Part| budget.bound(*part).is_some_and(|bound| state(bound, used.of(*part)) == wanted);
        Part::ALL.into_iter().find(stands)
    };
    let near = || first(BudgetState::Near).map(Stand::Near);
    first(BudgetState::Out).map(Stand::Out).or_else(near).unwrap_or(Stand::Enough)
}

/// Judges one part of a budget.
fn state(bound: u64, used: u64) -> BudgetState {
    if used >= bound {
        BudgetState::Out
    } else if u128::from(used) * 100 >= u128::from(bound) * NEAR {
        BudgetState::Near
    } else {
        BudgetState::Enough
    }
}

/// Judges whether another request may go to the model while `under_way` have gone that are not counted yet.
///
/// # Errors
/// The part that is used up.
pub fn admit(budget: &Budget, used: &Used, under_way: u64) -> Result<(), Part> {
    let used = Used { requests: used.requests.saturating_add(under_way), ..*used };
    match stand(budget, &used) {
        Stand::Out(part) => Err(part),
        Stand::Enough | Stand::Near(_) => Ok(()),
    }
}

/// Returns when a group whose container runs has to be looked at again although nothing happens: when it has run for so long that
/// it stands otherwise.
#[must_use]
pub fn next_look(budget: &Budget, used: &Used, now: Time) -> Option<Time> {
    let all = budget.bound(Part::Minutes)?;
    let near = u64::try_from((u128::from(all) * NEAR).div_ceil(100)).unwrap_or(all);
    let at = [near, all].into_iter().find(|at| *at > used.ran_ms)?;
    Some(now.plus_ms(i64::try_from(at - used.ran_ms).unwrap_or(i64::MAX)))
}

/// One part of a group's budget, as people are shown it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    pub part: Part,
    /// What was used of it today: a count, money or minutes.
    pub used: f64,
    pub budget: f64,
    pub percent: u64,
    pub state: BudgetState,
}

/// Returns how much of each part that is bounded was used.
#[must_use]
pub fn shares(budget: &Budget, used: &Used) -> Vec<Share> {
    let share = |part| {
        let (bound, used) = (budget.bound(part)?, used.of(part));
        Some(Share {
            part,
            used: shown(part, used),
            budget: shown(part, bound),
            percent: percent(bound, used),
            state: state(bound, used),
        })
    };
    Part::ALL.into_iter().filter_map(share).collect()
}

/// How much of a bound is used, whole per cents.
fn percent(bound: u64, used: u64) -> u64 {
    u64::try_from(u128::from(used) * 100 / u128::from(bound.max(1))).unwrap_or(u64::MAX)
}

/// An amount in the unit that people know.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn shown(part: Part, amount: u64) -> f64 {
    match part {
        Part::Requests | Part::Tokens => amount as f64,
        Part::Money => Money(amount).whole(),
        Part::Minutes => (amount / (MINUTE_MS / 10)) as f64 / 10.0,
    }
}
