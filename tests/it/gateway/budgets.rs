//! A group's budget at the gateway: no request more than it has passes, of whichever run, and nobody else's is touched.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{collections::BTreeMap, sync::Arc, thread};

use g2::{
    domain::runs::budget::{Budget, Day, Money, Price, Prices, Used},
    gateway::Filled,
};
use ipc_handlers::{Folder, Time};

use super::{
    host::{Host, message},
    scene::{Scene, ask},
};

/// A day that is not over while this program runs.
const LONG: Day = Day { start: Time(0), end: Time(i64::MAX) };

fn filled(budget: Budget, used: Used) -> Filled {
    let price = Price { input: 1000.0, output: 2000.0, cache_write: None, cache_read: Some(0.0) };
    let prices = Prices::new(&BTreeMap::from([("claude-".to_owned(), price)])).unwrap();
    Filled { budget, day: LONG, used, prices: Arc::new(prices) }
}

fn requests(requests: u64) -> Budget {
    Budget { requests: Some(requests), ..Budget::default() }
}

fn group(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

#[test]
fn exactly_as_many_requests_pass_as_the_group_has_however_many_ask_at_once() {
    let host = Host::always(message("claude-x", 10, 7));
    let scene = Scene::new(&host);
    let socket = scene.open_of(1, "family");
    let others = scene.open_of(2, "other");
    scene.gateway.fill(&group("family"), Some(filled(requests(10), Used { requests: 3, ..Used::default() })));
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let socket = socket.clone();
            thread::spawn(move || ask(&socket, "{}").status)
        })
        .collect();
    let statuses: Vec<u16> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((passed, statuses.iter().filter(|status| **status == 402).count()), (7, 13), "{statuses:?}");
    assert_eq!(ask(&others, "{}").status, 200);
    assert!(scene.gateway.was_out_of_budget(1) && !scene.gateway.was_out_of_budget(2));
    // A new run begins with no more, and what the store knows less of stays used.
    scene.close(1);
    let next = scene.open_of(3, "family");
    assert_eq!(ask(&next, "{}").status, 402);
    let used = scene.gateway.fill(&group("family"), Some(filled(requests(11), Used::default())));
    assert_eq!(used.requests, 10);
    assert_eq!((ask(&next, "{}").status, ask(&next, "{}").status), (200, 402));
    scene.gateway.fill(&group("family"), None);
    assert_eq!(ask(&next, "{}").status, 200);
}

#[test]
fn tokens_and_money_are_counted_with_each_answer_and_a_new_day_begins_with_none() {
    let host = Host::always(message("claude-x", 10, 7));
    for budget in [
        Budget { tokens: Some(40), ..Budget::default() },
        // Ten in, seven out: 24 thousandths.
        Budget { money: Some(Money(48_000)), ..Budget::default() },
    ] {
        let scene = Scene::new(&host);
        let socket = scene.open_of(1, "main");
        scene.gateway.fill(&group("main"), Some(filled(budget, Used::default())));
        let statuses = [200, 200, 402].map(|_| ask(&socket, "{}").status);
        assert_eq!(statuses, [200, 200, 402], "{budget:?}");
        let day = Day { end: Time(i64::MAX - 1), ..LONG };
        let used =
            scene.gateway.fill(&group("main"), Some(Filled { day, ..filled(budget, Used::default()) }));
        assert_eq!((used, ask(&socket, "{}").status), (Used::default(), 200));
    }
}

#[test]
fn a_day_that_is_over_bounds_nothing_until_the_next_one_is_begun() {
    let host = Host::always(message("claude-x", 10, 7));
    let scene = Scene::new(&host);
    let socket = scene.open_of(1, "main");
    let used = Used { requests: 5, ..Used::default() };
    let over = Day { start: Time(0), end: Time(1) };
    scene.gateway.fill(&group("main"), Some(Filled { day: over, ..filled(requests(5), used) }));
    assert_eq!(ask(&socket, "{}").status, 200);
}
