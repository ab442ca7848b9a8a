//! Looks at what groups have used of their budgets: holds a group that has used one up, tells whom it concerns, and lets it go
//! on when the next day begins or the budget is raised.
//!
//! The gateway counts requests itself, and is never late; this loop decides about everything else. How a budget stands is written
//! down with what is said of that, before the group is held or released: a start does the rest again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, Live},
    domain::{
        host::{errors::chain, feed::EventKind},
        rows::Group,
        runs::{
            budget::{Budget, Day, Prices, Stand, Used, for_a_chat, for_the_owner, next_look, short, stand},
            lanes::{Event, Holding},
        },
        states::BudgetState,
    },
    gateway::{Filled, Gateway},
    store::{BudgetNews, BudgetRow, Result, Store},
    system::{clock, failpoint},
};

/// What may make a group stand otherwise, or a chat of it wait.
const KINDS: [EventKind; 5] =
    [EventKind::Group, EventKind::Run, EventKind::Judged, EventKind::Finished, EventKind::Task];
/// However far off the next change is, the clock is looked at this often; and so are tasks that have become due.
const LONGEST_SLEEP_MS: i64 = 60_000;
/// How long what happens is gathered before it is looked at.
const GATHER: Duration = Duration::from_millis(100);
/// How long after the store could not be read or written it is tried again, ms.
const AGAIN_MS: i64 = 1000;

/// The budgets of all groups, as they stand.
pub struct Budgets {
    live: Arc<Live>,
    /// As they were when everything was looked at last.
    config: Arc<Config>,
    store: Store,
    gateway: Arc<Gateway>,
    /// News for the lanes.
    lanes: mpsc::UnboundedSender<Event>,
    prices: Arc<Prices>,
    known: BTreeMap<Folder, Known>,
}

/// A group's budget, as it was looked at last.
struct Known {
    noted: BudgetRow,
    /// When it may stand otherwise although nothing happens.
    again: Time,
}

impl Budgets {
    /// Nothing is known of any group yet.
    #[must_use]
    pub fn new(
        live: Arc<Live>,
        store: Store,
        gateway: Arc<Gateway>,
        lanes: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let config = live.now();
        let prices = Arc::new(config.budget.prices.clone());
        Self { live, config, store, gateway, lanes, prices, known: BTreeMap::new() }
    }

    /// Looks at every group before anything is launched, and returns those that have used their budget up.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn begin(&mut self, now: Time) -> Result<Vec<Folder>> {
        self.known = self
            .store
            .budget_rows()?
            .into_iter()
            .map(|noted| (noted.group.clone(), Known { noted, again: Time(i64::MIN) }))
            .collect();
        for group in self.store.groups().await? {
            self.look_and_log(&group, now).await;
        }
        let is_out = |known: &&Known| known.noted.state == BudgetState::Out;
        let out: Vec<_> = self.known.values().filter(is_out).map(|known| known.noted.group.clone()).collect();
        // The last daemon may have died before it told a run to leave.
        for group in &out {
            let _ = self.lanes.send(Event::CloseAsked { group: group.clone() });
        }
        Ok(out)
    }

    /// Runs until the daemon stops.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut feed = self.store.follow_kinds(&KINDS).await;
        let mut changed = self.live.follow();
        // What happened before it was followed.
        let mut all = true;
        let mut some = BTreeSet::new();
        loop {
            let is_done = self.look_at(std::mem::take(&mut all), std::mem::take(&mut some)).await;
            all = !is_done;
            let now = clock::now();
            let next = self.known.values().map(|known| known.again.ms_since(now)).min();
            let sleep =
                next.unwrap_or(LONGEST_SLEEP_MS).clamp(0, if all { AGAIN_MS } else { LONGEST_SLEEP_MS });
            let sleep = sleep.unsigned_abs();
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changed.changed() => all = true,
                groups = self.gateway.spent() => some.extend(groups),
                news = feed.next() => {
                    all |= news.missed;
                    some.extend(news.events.iter().filter_map(|event| event.group.clone()));
                }
                () = tokio::time::sleep(Duration::from_millis(sleep)) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(GATHER) => {}
            }
        }
    }

    /// Looks at all groups, or at some and those that may stand otherwise by now. Returns whether it could be done.
    async fn look_at(&mut self, all: bool, mut some: BTreeSet<Folder>) -> bool {
        let now = clock::now();
        if all {
            self.config = self.live.now();
            self.prices = Arc::new(self.config.budget.prices.clone());
        }
        let groups = match self.store.groups().await {
            Ok(groups) => groups,
            Err(error) => {
                tracing::error!(error = %chain(&error), "reading the groups failed; their budgets are looked at again in a second");
                return false;
            }
        };
        self.known.retain(|folder, _| groups.iter().any(|group| group.folder == *folder));
        some.extend(
            self.known.values().filter(|known| known.again <= now).map(|known| known.noted.group.clone()),
        );
        let mut is_done = true;
        for group in groups.iter().filter(|group| all || some.contains(&group.folder)) {
            is_done &= self.look_and_log(group, now).await;
        }
        is_done
    }

    /// Looks at one group. Returns false if it is to be looked at with all others again: nothing is known of it yet.
    async fn look_and_log(&mut self, group: &Group, now: Time) -> bool {
        let Err(error) = self.look(group, now).await else { return true };
        tracing::error!(group = %group.folder, error = %chain(&error), "looking at a group's budget failed; it is tried again in a second");
        match self.known.get_mut(&group.folder) {
            Some(known) => known.again = now.plus_ms(AGAIN_MS),
            None => return false,
        }
        true
    }

    /// Looks at one group, and does what follows.
    async fn look(&mut self, group: &Group, now: Time) -> Result<()> {
        let (folder, budget) = (&group.folder, self.config.budget.of(group));
        if !budget.is_bounded() && !self.known.contains_key(folder) {
            return Ok(());
        }
        let zone = self.config.zones.of(None).zone;
        let day = Day::of(now, &zone);
        let stored = self.store.used_of_day(folder, day, &self.prices, now)?;
        let filled = Filled { budget, day, used: stored, prices: Arc::clone(&self.prices) };
        let used = self.gateway.fill(folder, budget.is_bounded().then_some(filled)).at_least(stored);
        let stands = stand(&budget, &used);
        let what = stands.part().map(|part| (part, short(&budget, &used, part)));
        let row = BudgetRow { group: folder.clone(), day, state: stands.state(), what };
        let before = self.known.get(folder).map(|known| &known.noted);
        let was_out = before.is_some_and(|row| row.state == BudgetState::Out);
        // Who waits changes without it.
        if before != Some(&row) || stands.is_out() {
            self.store.note_budget(news(&row, &budget, &used, stands, &zone), now).await?;
            failpoint::reach("budget.noted");
        }
        match (was_out, stands.is_out()) {
            (false, true) => {
                tracing::warn!(group = %folder, what = row.what.as_ref().map(|(_, what)| what), "a group's budget of the day is used up; its work waits");
                let _ = self.lanes.send(Event::Hold { group: folder.clone(), reason: Holding::Budget });
                // What it has in hand it may finish, if it needs no more.
                let _ = self.lanes.send(Event::CloseAsked { group: folder.clone() });
            }
            (true, false) => {
                tracing::info!(group = %folder, "a group has a budget again");
                let _ = self.lanes.send(Event::Release { group: folder.clone(), reason: Holding::Budget });
            }
            (true, true) | (false, false) => {}
        }
        let ran_out =
            if self.store.active_run_of(folder)?.is_some() { next_look(&budget, &used, now) } else { None };
        let again = ran_out.map_or(day.end, |at| at.min(day.end));
        // A task may become due, which nobody tells.
        let again = if stands.is_out() { again.min(now.plus_ms(LONGEST_SLEEP_MS)) } else { again };
        self.known.insert(folder.clone(), Known { noted: row, again });
        Ok(())
    }
}

/// What is written down, and what is said.
fn news(row: &BudgetRow, budget: &Budget, used: &Used, stands: Stand, zone: &TimeZone) -> BudgetNews {
    BudgetNews {
        row: row.clone(),
        warning: for_the_owner(&row.group, budget, used, stands),
        notice: stands.is_out().then(|| for_a_chat(row.day.end, zone)),
    }
}
