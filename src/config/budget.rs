//! `[budget]`: what each group may use in a day, and what models cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use crate::domain::{
    rows::Group,
    runs::budget::{Budget, Price, Prices, Wish},
};

/// The budget of groups that have none of their own, and the prices by which money is counted.
#[derive(Clone, Debug)]
pub struct Budgets {
    pub all: Wish,
    pub prices: Prices,
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    requests: u64,
    tokens: u64,
    money: f64,
    minutes: u64,
    prices: BTreeMap<String, Price>,
}

impl<'de> Deserialize<'de> for Budgets {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Section { requests, tokens, money, minutes, prices } = Section::deserialize(from)?;
        let all = Wish {
            requests: Some(requests),
            tokens: Some(tokens),
            money: Some(money),
            minutes: Some(minutes),
        };
        if let Some((part, why)) = all.fault() {
            return Err(D::Error::custom(format!("budget.{part}: {why}")));
        }
        let prices = Prices::new(&prices).map_err(D::Error::custom)?;
        if money > 0.0 && prices.is_empty() {
            let why = "budget.money has no effect before models have prices: write them to budget.prices";
            return Err(D::Error::custom(why));
        }
        Ok(Self { all, prices })
    }
}

impl Budgets {
    /// Returns a group's budget. One whose own settings can't be read has that of all: other code reports them.
    #[must_use]
    pub fn of(&self, group: &Group) -> Budget {
        Budget::of(&self.all, &group.config().map(|config| config.budget).unwrap_or_default())
    }
}
