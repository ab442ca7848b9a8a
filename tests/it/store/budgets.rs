//! How budgets stand from one day to the next, at instants of our own.

use std::{collections::BTreeMap, sync::Arc};

use g2::{
    config::{Config, Environment, Live},
    domain::runs::{
        lanes::{Event, Holding},
        usage::{Page, Sum},
    },
    gateway::{Credentials, Gateway, Limits, Upstream},
    loops::{Budgets, ForLanes, ToLanes},
};

use super::*;

/// A day, ms.
const DAY: i64 = 24 * 3_600_000;

impl World {
    /// What budgets say at an instant, on a machine that begins anew: who is held, and what the lanes are told.
    async fn budgets(&self, requests: u64, now: Time) -> (Vec<Folder>, Vec<Event>) {
        let mut config = Config::defaults(&Environment::default()).unwrap();
        config.budget.all.requests = Some(requests);
        let credentials = Credentials::new(self._dir.path().join(".env"), None);
        let gateway = Gateway::new(
            g2::system::world::World::real(),
            Upstream::parse("http://127.0.0.1:9").unwrap(),
            credentials,
            Limits::default(),
        );
        let (lanes, mut news) = ToLanes::new();
        let live = Live::new(self._dir.path().to_owned(), Environment::default(), config);
        let mut budgets = Budgets::new(
            g2::system::world::World::real(),
            Arc::new(live),
            self.store.clone(),
            Arc::new(gateway),
            lanes,
        );
        let held = budgets.begin(now).await.unwrap();
        drop(budgets);
        let mut told = Vec::new();
        while let Some(ForLanes::Event(event)) = news.recv().await {
            told.push(event);
        }
        (held, told)
    }

    async fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        while let NextDelivery::Now(row) = self.store.begin_delivery("local:main", NOW).await.unwrap() {
            self.store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap();
            told.push(row.text);
        }
        told
    }
}

#[tokio::test]
async fn a_group_that_has_used_its_budget_up_is_held_to_the_end_of_the_day_and_told_once() {
    let world = world().await;
    world.message("local:main", "a", "hello", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    let used = |requests| BTreeMap::from([("m".to_owned(), Sum { requests, ..Sum::default() })]);
    let page = |requests| BTreeMap::from([(handed.run, Page { models: used(requests), ..Page::default() })]);
    world.store.add_usage(page(4), NOW).await.unwrap();
    assert_eq!(world.budgets(5, NOW).await, (vec![], vec![]));
    let told = world.told().await;
    assert!(told.len() == 1 && told[0].contains("80 % of today's budget (4 of 5 requests)"), "{told:?}");

    // It is used up; nothing waits yet, so nobody else is told.
    world.store.add_usage(page(1), NOW).await.unwrap();
    let main = folder("main");
    let hold = Event::Hold { group: main.clone(), reason: Holding::Budget };
    let close = Event::CloseAsked { group: main.clone() };
    let (held, news) = world.budgets(5, NOW).await;
    assert_eq!(held, std::slice::from_ref(&main));
    assert!(news.contains(&hold) && news.contains(&close), "{news:?}");
    assert!(world.told().await.is_empty());
    world.message("local:main", "b", "and now?", EngageVerdict::Wake).await;
    for _ in 0..2 {
        assert_eq!(world.budgets(5, NOW).await.0, std::slice::from_ref(&main));
    }
    let told = world.told().await;
    assert!(told.len() == 1 && told[0].starts_with("Today's budget for my work is used up."), "{told:?}");

    // A higher budget, and a lower one again: it was told already.
    let release = Event::Release { group: main.clone(), reason: Holding::Budget };
    assert_eq!(world.budgets(50, NOW).await, (vec![], vec![release.clone()]));
    assert_eq!(world.budgets(5, NOW).await.0, std::slice::from_ref(&main));
    assert!(world.told().await.is_empty());

    // Up to the last moment of the day it is held, and not from the first one of the next.
    let midnight = Time((NOW.0 / DAY + 1) * DAY);
    assert_eq!(world.budgets(5, midnight.plus_ms(-1)).await.0, std::slice::from_ref(&main));
    assert_eq!(world.budgets(5, midnight).await, (vec![], vec![release]));
    // The next day has messages of its own.
    world.store.add_usage(page(5), midnight).await.unwrap();
    assert_eq!(world.budgets(5, midnight).await.0, [main]);
    assert_eq!(world.told().await.len(), 2);
}
