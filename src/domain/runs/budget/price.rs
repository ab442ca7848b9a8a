//! What tokens cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::runs::usage::Tokens;

/// The highest price of a million tokens: more is a slip.
const MOST: f64 = 100_000.0;
/// How many millionths are one of the currency, and how many tokens a price is for.
const MILLION: u64 = 1_000_000;

/// An amount of money, in millionths of the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u64);

impl Money {
    /// Returns an amount in the currency's own unit as millionths of it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "settings are within bounds; a cast stays within those of the type"
    )]
    pub fn of(amount: f64) -> Self {
        Self((amount * 1e6).round() as u64)
    }

    /// Returns the amount in the currency's own unit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    pub fn whole(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.whole())
    }
}

/// What a million tokens of a model cost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Tokens that are written to a cache; `None`: as those that are read in.
    pub cache_write: Option<f64>,
    /// Tokens that are read from a cache; `None`: the same.
    pub cache_read: Option<f64>,
}

/// A price that can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the prices of {0:?} are 0 to 100000 for a million tokens, each a number such as 3.75")]
pub struct BadPrice(pub String);

/// The same in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    input: u64,
    output: u64,
    cache_write: u64,
    cache_read: u64,
}

impl Rate {
    fn of(price: &Price) -> Self {
        let millionths = |price: f64| Money::of(price).0;
        Self {
            input: millionths(price.input),
            output: millionths(price.output),
            cache_write: millionths(price.cache_write.unwrap_or(price.input)),
            cache_read: millionths(price.cache_read.unwrap_or(price.input)),
        }
    }

    fn dearest(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_write: self.cache_write.max(other.cache_write),
            cache_read: self.cache_read.max(other.cache_read),
        }
    }
}

/// The prices of models, by the beginnings of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    models: BTreeMap<String, Rate>,
    dearest: Rate,
}

impl Prices {
    /// Takes prices by the beginnings of models' names.
    ///
    /// # Errors
    /// [`BadPrice`]
    pub fn new(prices: &BTreeMap<String, Price>) -> Result<Self, BadPrice> {
        let is_bad = |price: &Price| {
            let all = [Some(price.input), Some(price.output), price.cache_write, price.cache_read];
            all.into_iter().flatten().any(|price| !(0.0..=MOST).contains(&price))
        };
        if let Some((model, _)) = prices.iter().find(|(_, price)| is_bad(price)) {
            return Err(BadPrice(model.clone()));
        }
        let models: BTreeMap<_, _> =
            prices.iter().map(|(model, price)| (model.clone(), Rate::of(price))).collect();
        let dearest = models.values().copied().fold(Rate::default(), Rate::dearest);
        Ok(Self { models, dearest })
    }

    /// Whether nothing has a price.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Returns what tokens of a model cost: by the longest beginning of its name that has a price. A model without any costs
    /// as much as the dearest, so that a budget holds.
    #[must_use]
    pub fn cost(&self, model: &str, tokens: &Tokens) -> Money {
        let priced = |(name, _): &(&String, &Rate)| model.starts_with(name.as_str());
        let rate = self.models.iter().filter(priced).max_by_key(|(name, _)| name.len());
        let rate = rate.map_or(self.dearest, |(_, rate)| *rate);
        let each = [
            (tokens.input, rate.input),
            (tokens.output, rate.output),
            (tokens.cache_creation, rate.cache_write),
            (tokens.cache_read, rate.cache_read),
        ];
        let all: u128 = each.into_iter().map(|(tokens, rate)| u128::from(tokens) * u128::from(rate)).sum();
        Money(u64::try_from(all.div_ceil(u128::from(MILLION))).unwrap_or(u64::MAX))
    }
}
