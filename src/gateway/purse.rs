//! What a group has left of its budget of the day, counted with each request: so exactly as many are passed on as it has.
//!
//! The loop that knows the days and the settings fills a purse; without it nothing is bounded. What one day used never leaves it
//! by itself, whatever the store has of it yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use ipc_handlers::{Folder, Time};
use tokio::sync::Notify;

use super::meter::Usage;
use crate::domain::runs::budget::{Budget, Day, Part, Prices, Used, admit, short};
use crate::system::locked::Locked as _;

/// The purses of all groups.
#[derive(Default)]
pub(super) struct Purses {
    all: Mutex<BTreeMap<Folder, Arc<Purse>>>,
    /// Groups that have used something since that was asked last.
    spent: Arc<Spent>,
}

#[derive(Default)]
struct Spent {
    groups: Mutex<BTreeSet<Folder>>,
    changed: Notify,
}

/// One group's.
pub(super) struct Purse {
    group: Folder,
    state: Mutex<State>,
    spent: Arc<Spent>,
}

#[derive(Default)]
struct State {
    /// `None`: any amount, and nothing is counted.
    filled: Option<Filled>,
    /// Requests that are not counted yet.
    under_way: u64,
}

/// What a group may use of a day, and has used.
#[derive(Clone, Debug)]
pub struct Filled {
    pub budget: Budget,
    pub day: Day,
    pub used: Used,
    pub prices: Arc<Prices>,
}

/// A budget is used up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the budget of group {group} for today is used up ({what}), so this is not passed on before {until}; the owner of the machine \
     may give more: `g2 groups set {group} budget.{part}=N`"
)]
pub(super) struct UsedUp {
    group: Folder,
    part: Part,
    what: String,
    until: Time,
}

impl Purses {
    pub(super) fn of(&self, group: &Folder) -> Arc<Purse> {
        let new = || {
            let (group, spent) = (group.clone(), Arc::clone(&self.spent));
            Arc::new(Purse { group, state: Mutex::default(), spent })
        };
        Arc::clone(self.all.locked().entry(group.clone()).or_insert_with(new))
    }

    /// Waits until groups have used something, and returns them.
    pub(super) async fn spent(&self) -> BTreeSet<Folder> {
        loop {
            let groups = std::mem::take(&mut *self.spent.groups.locked());
            if !groups.is_empty() {
                return groups;
            }
            self.spent.changed.notified().await;
        }
    }
}

impl Purse {
    /// Has another budget hold from now on, or none. Of the same day, what is known here to be used stays used; returns it.
    pub(super) fn fill(&self, filled: Option<Filled>) -> Used {
        let mut state = self.state.locked();
        let before = state.filled.take();
        state.filled = filled.map(|new| match before {
            Some(old) if old.day == new.day => Filled { used: new.used.at_least(old.used), ..new },
            Some(_) | None => new,
        });
        state.filled.as_ref().map(|filled| filled.used).unwrap_or_default()
    }

    /// Takes a request in, if there is something left for it.
    pub(super) fn enter(self: &Arc<Self>, now: Time) -> Result<Fare, UsedUp> {
        let mut state = self.state.locked();
        // A new day is another's to begin.
        if let Some(Filled { budget, day, used, .. }) =
            state.filled.as_ref().filter(|filled| !filled.day.is_over(now))
            && let Err(part) = admit(budget, used, state.under_way)
        {
            let used = Used { requests: used.requests.saturating_add(state.under_way), ..*used };
            let what = short(budget, &used, part);
            return Err(UsedUp { group: self.group.clone(), part, what, until: day.end });
        }
        state.under_way += 1;
        drop(state);
        Ok(Fare(Arc::clone(self)))
    }
}

/// A request that was taken in.
pub(super) struct Fare(Arc<Purse>);

impl Fare {
    /// Counts what the request used, as it went to the model's host.
    pub(super) fn pay(&self, usage: &Usage) {
        let purse = &self.0;
        let mut state = purse.state.locked();
        let Some(filled) = &mut state.filled else { return };
        let costs = filled.prices.cost(&usage.model, &usage.tokens);
        filled.used.add(1, &usage.tokens, costs);
        drop(state);
        purse.spent.groups.locked().insert(purse.group.clone());
        purse.spent.changed.notify_one();
    }
}

impl Drop for Fare {
    fn drop(&mut self) {
        let mut state = self.0.state.locked();
        state.under_way = state.under_way.saturating_sub(1);
    }
}
