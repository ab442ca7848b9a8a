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
use tokio::sync::watch;

use super::ToLanes;
use crate::{
    config::{Config, Live},
    domain::{
        machine::loops::LoopName,
        rows::Group,
        runs::{
            budget::{Budget, Day, Prices, Stand, Used, for_a_chat, for_the_owner, next_look, short, stand},
            lanes::{Event, Holding},
        },
        shown::{errors::chain, feed::EventKind},
        states::BudgetState,
    },
    engine::{Either, Error, Loop, Plan, Read, Sole, Why, either},
    gateway::{Filled, Gateway},
    store::{BudgetNews, BudgetRow, Result, Store, StoreError},
    system::{failpoint, world::World},
};

/// What may make a group stand otherwise, or a chat of it wait.
const KINDS: [EventKind; 5] =
    [EventKind::Group, EventKind::Run, EventKind::Judged, EventKind::Finished, EventKind::Task];
/// However far off the next change is, the clock is looked at this often; and so are tasks that have become due.
const LONGEST_SLEEP_MS: i64 = 60_000;
/// How long what happens is gathered before it is looked at.
const GATHER: Duration = Duration::from_millis(100);

/// The budgets of all groups, as they stand.
pub struct Budgets {
    world: World,
    live: Arc<Live>,
    /// As they were when everything was looked at last.
    config: Arc<Config>,
    store: Store,
    gateway: Arc<Gateway>,
    /// News for the lanes.
    lanes: ToLanes,
    prices: Arc<Prices>,
    known: BTreeMap<Folder, Known>,
    /// Groups that could not be looked at: it is tried again after a rest.
    owed: BTreeSet<Folder>,
    /// Tells of changed settings, and whether it told of any since a look at all groups.
    changes: watch::Receiver<Arc<Config>>,
    has_changed: bool,
    /// Groups that have spent what the gateway was given for them, until they are looked at.
    spent: BTreeSet<Folder>,
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
    pub fn new(world: World, live: Arc<Live>, store: Store, gateway: Arc<Gateway>, lanes: ToLanes) -> Self {
        let config = live.now();
        let prices = Arc::new(config.budget.prices.clone());
        let (known, owed, spent) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (changes, has_changed) = (live.follow(), false);
        Self { world, live, config, store, gateway, lanes, prices, known, owed, changes, has_changed, spent }
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
            if let Err(error) = self.look_at(&group, now).await {
                tracing::error!(group = %group.folder, error = %chain(&error), "looking at a group's budget failed; it is tried again");
            }
        }
        let is_out = |known: &&Known| known.noted.state == BudgetState::Out;
        let out: Vec<_> = self.known.values().filter(is_out).map(|known| known.noted.group.clone()).collect();
        // The last daemon may have died before it told a run to leave.
        for group in &out {
            self.lanes.tell(Event::CloseAsked { group: group.clone() });
        }
        Ok(out)
    }

    /// Looks at groups one after the other, whatever becomes of the others. Returns the last failure.
    async fn look_at_each(&mut self, groups: impl Iterator<Item = &Group>, now: Time) -> Option<StoreError> {
        let mut failed = None;
        for group in groups {
            if let Err(error) = self.look_at(group, now).await {
                failed = Some(error);
            }
        }
        failed
    }

    /// Looks at one group. Of one that can't be looked at that is owed.
    async fn look_at(&mut self, group: &Group, now: Time) -> Result<()> {
        let looked = self.look_now(group, now).await;
        match &looked {
            Ok(()) => drop(self.owed.remove(&group.folder)),
            Err(_) => drop(self.owed.insert(group.folder.clone())),
        }
        looked
    }

    /// Whether a group is to be looked at although nothing tells of it.
    fn is_due(&self, group: &Folder, now: Time, again: bool) -> bool {
        match self.owed.contains(group) {
            true => again,
            false => self.known.get(group).is_some_and(|known| known.again <= now),
        }
    }

    /// Returns how long nothing is due.
    fn rests(&self, now: Time) -> Duration {
        let known = self.known.iter().filter(|(group, _)| !self.owed.contains(*group));
        let next = known.map(|(_, known)| known.again.ms_since(now)).min().unwrap_or(LONGEST_SLEEP_MS);
        Duration::from_millis(next.clamp(0, LONGEST_SLEEP_MS).unsigned_abs()).max(GATHER)
    }

    /// Looks at one group, and does what follows.
    async fn look_now(&mut self, group: &Group, now: Time) -> Result<()> {
        let (folder, budget) = (&group.folder, self.config.budget.of(group));
        if !budget.is_bounded() && !self.known.contains_key(folder) {
            return Ok(());
        }
        let zone = self.config.zones.of(None).zone;
        let day = Day::of(now, &zone);
        let stored = self.store.used_of_day(folder, day, &self.prices, now)?;
        let runs = self.store.active_run_of(folder)?.is_some();
        let filled = Filled { budget, day, used: stored, prices: Arc::clone(&self.prices) };
        let used = self.gateway.fill(folder, budget.is_bounded().then_some(filled)).at_least(stored);
        let stands = stand(&budget, &used);
        let what = stands.part().map(|part| (part, short(&budget, &used, part)));
        let row = BudgetRow { group: folder.clone(), day, state: stands.state(), what };
        let before = self.known.get(folder).map(|known| &known.noted);
        let was_out = before.is_some_and(|row| row.state == BudgetState::Out);
        // The list of those who wait changes without it.
        if before != Some(&row) || stands.is_out() {
            self.store.note_budget(news(&row, &budget, &used, stands, &zone), now).await?;
            failpoint::reach("budget.noted");
        }
        match (was_out, stands.is_out()) {
            (false, true) => {
                tracing::warn!(group = %folder, what = row.what.as_ref().map(|(_, what)| what), "a group's budget of the day is used up; its work waits");
                self.lanes.tell(Event::Hold { group: folder.clone(), reason: Holding::Budget });
                // The run may finish its work in hand, if it needs no more.
                self.lanes.tell(Event::CloseAsked { group: folder.clone() });
            }
            (true, false) => {
                tracing::info!(group = %folder, "a group has a budget again");
                self.lanes.tell(Event::Release { group: folder.clone(), reason: Holding::Budget });
            }
            (true, true) | (false, false) => {}
        }
        let ran_out = if runs { next_look(&budget, &used, now) } else { None };
        let again = ran_out.map_or(day.end, |at| at.min(day.end));
        // A task may become due, which nobody tells.
        let again = if stands.is_out() { again.min(now.plus_ms(LONGEST_SLEEP_MS)) } else { again };
        self.known.insert(folder.clone(), Known { noted: row, again });
        Ok(())
    }
}

impl Loop for Budgets {
    const NAME: LoopName = LoopName::Budgets;
    const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(4);
    const FOLLOWS: &'static [EventKind] = &KINDS;
    const NOT_SOONER: Duration = GATHER;
    type Key = Sole;
    type Job = ();
    type Hands = ();

    fn hands(&self) -> Arc<()> {
        Arc::default()
    }

    async fn asked(&mut self) {
        let (changes, has_changed) = (&mut self.changes, &mut self.has_changed);
        let changes = async {
            // Where nobody can change them any more, they stay as they are.
            if *has_changed || changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            *has_changed = true;
        };
        match either(changes, self.gateway.spent()).await {
            Either::First(()) => {}
            Either::Second(groups) => self.spent.extend(groups),
        }
    }

    /// Looks at all groups, or at those that something tells of and those that may stand otherwise by now.
    async fn look(&mut self, why: &Why<Sole>) -> std::result::Result<Plan<Sole, ()>, Error> {
        let now = self.world.now();
        let all = why.all || self.has_changed;
        let groups = self.store.groups().await?;
        if all {
            self.config = self.live.now();
            self.prices = Arc::new(self.config.budget.prices.clone());
        }
        let is_there = |folder: &Folder| groups.iter().any(|group| group.folder == *folder);
        self.known.retain(|folder, _| is_there(folder));
        self.owed.retain(|folder| is_there(folder));
        let mut some = self.spent.clone();
        some.extend(why.events.iter().filter_map(|event| event.group.clone()));
        some.extend(
            groups
                .iter()
                .map(|group| &group.folder)
                .filter(|folder| self.is_due(folder, now, why.again))
                .cloned(),
        );
        let chosen = groups.iter().filter(|group| all || some.contains(&group.folder));
        let read = match self.look_at_each(chosen, now).await {
            Some(error) => Read::Failed(error.into()),
            None if self.owed.is_empty() => Read::All,
            None => Read::NotTried,
        };
        // What could not be looked at is owed by now.
        self.spent.clear();
        self.has_changed = false;
        let again = Some(self.rests(self.world.now()));
        Ok(Plan { again, read, ..Plan::default() })
    }
}

/// The row to write down, and the notices.
fn news(row: &BudgetRow, budget: &Budget, used: &Used, stands: Stand, zone: &TimeZone) -> BudgetNews {
    BudgetNews {
        row: row.clone(),
        warning: for_the_owner(&row.group, budget, used, stands),
        notice: stands.is_out().then(|| for_a_chat(row.day.end, zone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::world::World;
    use crate::{
        config::Environment,
        gateway::{Credentials, Limits, Upstream},
        store::NewGroup,
    };

    #[tokio::test]
    async fn a_budget_that_cant_be_read_is_read_after_a_rest() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let folder = Folder::parse("team").unwrap();
        let group =
            NewGroup { folder: folder.clone(), name: "Team".into(), is_main: false, trigger: "@G2".into() };
        store.add_group(group, Vec::new(), Time(0)).await.unwrap();
        let mut config = Config::defaults(&Environment::default()).unwrap();
        config.budget.all.requests = Some(1);
        let live = Arc::new(Live::new(dir.path().to_owned(), Environment::default(), config));
        let credentials = Credentials::new(dir.path().join(".env"), None);
        let upstream = Upstream::parse("http://127.0.0.1:9").unwrap();
        let gateway = Arc::new(Gateway::new(World::real(), upstream, credentials, Limits::default()));
        let (lanes, mut told) = ToLanes::new();
        let mut budgets = Budgets::new(World::real(), live, store.clone(), gateway, lanes);
        let why = |all, time, again| Why { all, time, again, ..Why::default() };

        store.breaks("usage").await.unwrap();
        assert_eq!(budgets.begin(Time(0)).await.unwrap(), [], "the other groups go on");
        let plan = budgets.look(&why(true, false, false)).await.unwrap();
        assert!(matches!(plan.read, Read::Failed(_)), "{plan:?}");
        assert!(
            plan.again.is_some_and(|after| after >= Duration::from_secs(1)),
            "it is not in a hurry: {plan:?}"
        );
        let plan = budgets.look(&why(false, true, false)).await.unwrap();
        assert_eq!(plan.read, Read::NotTried, "it rests");
        assert!(matches!(budgets.look(&why(false, false, true)).await.unwrap().read, Read::Failed(_)));
        assert!(budgets.known.is_empty());
        store.is_mended("usage").await.unwrap();
        assert_eq!(budgets.look(&why(false, true, true)).await.unwrap().read, Read::All);
        assert_eq!(budgets.known[&folder].noted.state, BudgetState::Enough);
        assert!(budgets.owed.is_empty() && told.try_recv().is_err());
        // One that is known stays as it is while it can't be read, and is no reason to hurry.
        let again = budgets.known[&folder].again;
        store.breaks("usage").await.unwrap();
        let plan = budgets.look(&why(true, false, false)).await.unwrap();
        assert!(matches!(plan.read, Read::Failed(_)), "{plan:?}");
        assert_eq!((budgets.known[&folder].again, plan.again), (again, Some(Duration::from_mins(1))));
    }
}
