//! What runs have used and were refused, until somebody writes it down. Adding waits for nothing; what waits is merged,
//! so that a container that asks a million times costs a few rows and a bounded amount of memory.

use std::{collections::BTreeMap, sync::Mutex};

use tokio::sync::Notify;

use super::meter::Usage;
use crate::domain::runs::{
    outside::{NoWay, Place},
    usage::{FailedRequest, Page, Sum},
};
use crate::system::locked::Locked as _;

/// What came together since it was last taken, by run.
#[derive(Default)]
pub struct Books {
    pages: Mutex<BTreeMap<i64, Page>>,
    changed: Notify,
}

impl Books {
    /// Waits until there is something to take.
    pub async fn changed(&self) {
        while self.with(|pages| pages.is_empty()) {
            self.changed.notified().await;
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
                pages.entry(run).or_default().put_before(page);
            }
        });
    }

    pub(super) fn used(&self, run: i64, usage: &Usage, is_error: bool) {
        let sum = Sum { requests: 1, errors: u64::from(is_error), tokens: usage.tokens };
        self.with(|pages| pages.entry(run).or_default().used(&usage.model, sum));
        self.changed.notify_one();
    }

    pub(super) fn refused(&self, run: i64, refusal: FailedRequest) {
        self.with(|pages| pages.entry(run).or_default().refused(refusal));
        self.changed.notify_one();
    }

    pub(super) fn kept_in(&self, run: i64, place: &Place, why: &NoWay) {
        self.with(|pages| pages.entry(run).or_default().kept_in(place, why));
        self.changed.notify_one();
    }

    pub(super) fn failed(&self, run: i64, why: FailedRequest) {
        self.with(|pages| pages.entry(run).or_default().failed(why));
        self.changed.notify_one();
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<i64, Page>) -> T) -> T {
        work(&mut self.pages.locked())
    }
}
