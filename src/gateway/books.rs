//! What runs have used and were refused, until somebody writes it down. Adding waits for nothing; what waits is merged,
//! so that a container that asks a million times costs a few rows and a bounded amount of memory.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::meter::{Tokens, Usage};

/// Of how many models a run's use is told apart; further ones are `other`.
const MOST_MODELS: usize = 16;
/// How many refusals of a run are kept in full.
pub const KEPT_REFUSALS: usize = 20;

/// What came together since it was last taken, by run.
#[derive(Default)]
pub struct Books {
    pages: Mutex<BTreeMap<i64, Page>>,
    changed: Notify,
}

/// What one run added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// By model; the empty name holds what was answered without one, such as errors.
    pub models: BTreeMap<String, Sum>,
    pub refused: u64,
    /// The newest refusals, oldest first.
    pub refusals: VecDeque<Refusal>,
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
    fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.tokens.add(other.tokens);
    }
}

/// A request that was not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Method and path, without what follows a `?`; cut.
    pub asked: String,
    pub why: String,
}

impl Page {
    fn add(&mut self, model: &str, sum: Sum) {
        let known = self.models.contains_key(model) || model.is_empty() || self.models.len() < MOST_MODELS;
        self.models.entry(if known { model } else { "other" }.to_owned()).or_default().add(sum);
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refused = self.refused.saturating_add(1);
        self.refusals.push_back(refusal);
        if self.refusals.len() > KEPT_REFUSALS {
            self.refusals.pop_front();
        }
    }

    /// Puts `earlier` before what is here.
    fn put_back(&mut self, earlier: Self) {
        let later = std::mem::replace(self, earlier);
        for (model, sum) in later.models {
            self.add(&model, sum);
        }
        self.refused = self.refused.saturating_add(later.refused);
        self.refusals.extend(later.refusals);
        while self.refusals.len() > KEPT_REFUSALS {
            self.refusals.pop_front();
        }
    }
}

impl Books {
    /// Waits until there is something to take.
    pub async fn changed(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.with(|pages| pages.is_empty()) {
                return;
            }
            changed.await;
        }
    }

    /// Takes what there is.
    pub fn take(&self) -> BTreeMap<i64, Page> {
        self.with(std::mem::take)
    }

    /// Puts back what could not be written down.
    pub fn put_back(&self, earlier: BTreeMap<i64, Page>) {
        self.with(|pages| {
            for (run, page) in earlier {
                pages.entry(run).or_default().put_back(page);
            }
        });
    }

    pub(super) fn used(&self, run: i64, usage: &Usage, is_error: bool) {
        let sum = Sum { requests: 1, errors: u64::from(is_error), tokens: usage.tokens };
        self.with(|pages| pages.entry(run).or_default().add(&usage.model, sum));
        self.changed.notify_one();
    }

    pub(super) fn refused(&self, run: i64, refusal: Refusal) {
        self.with(|pages| pages.entry(run).or_default().refuse(refusal));
        self.changed.notify_one();
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<i64, Page>) -> T) -> T {
        work(&mut self.pages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(model: &str, output: u64) -> Usage {
        Usage { model: model.into(), tokens: Tokens { output, ..Tokens::default() } }
    }

    fn refusal(n: usize) -> Refusal {
        Refusal { asked: format!("GET /{n}"), why: "no".into() }
    }

    #[test]
    fn what_a_run_uses_is_summed_by_model_and_apart_from_other_runs() {
        let books = Books::default();
        books.used(1, &usage("a", 5), false);
        books.used(1, &usage("a", 6), true);
        books.used(2, &usage("a", 7), false);
        let pages = books.take();
        assert_eq!(pages[&1].models["a"], Sum { requests: 2, errors: 1, tokens: usage("", 11).tokens });
        assert_eq!(pages[&2].models["a"].tokens.output, 7);
        assert!(books.take().is_empty());
    }

    #[test]
    fn models_and_refusals_are_bounded_and_nothing_is_lost_from_the_sums() {
        let books = Books::default();
        for n in 0..100 {
            books.used(1, &usage(&format!("m{n}"), 1), false);
            books.refused(1, refusal(n));
        }
        let page = &books.take()[&1];
        assert!(page.models.len() <= MOST_MODELS + 1);
        assert_eq!(page.models.values().map(|sum| sum.tokens.output).sum::<u64>(), 100);
        assert_eq!((page.refused, page.refusals.len()), (100, KEPT_REFUSALS));
        assert_eq!(page.refusals.back(), Some(&refusal(99)));
    }

    #[test]
    fn what_is_put_back_comes_before_what_came_since() {
        let books = Books::default();
        (0..15).for_each(|n| books.refused(1, refusal(n)));
        books.used(1, &usage("a", 1), false);
        let taken = books.take();
        (15..30).for_each(|n| books.refused(1, refusal(n)));
        books.used(1, &usage("a", 2), false);
        books.put_back(taken);
        let page = &books.take()[&1];
        assert_eq!((page.refused, page.models["a"].tokens.output), (30, 3));
        assert_eq!((page.refusals.front(), page.refusals.back()), (Some(&refusal(10)), Some(&refusal(29))));
    }
}
