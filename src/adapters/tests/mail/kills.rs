//! Kills of the adapter at any moment, while mails come and go. `G2_KILLS` says how often (12): the long run is
//! `G2_KILLS=1000 cargo test -p g2-channels --test mail kills -- --nocapture`.

use std::collections::BTreeSet;

use g2_fakes::mail::mail;

use super::*;

#[test]
fn an_adapter_that_is_killed_at_any_event_loses_no_mail_and_sends_none_twice() {
    let kills: usize = std::env::var("G2_KILLS").map_or(12, |text| text.parse().unwrap());
    let (fake, mut adapter, mut cursor) = connected();
    let (mut said, mut stored, mut order) = (0, BTreeSet::new(), Vec::new());
    let mut owed: Vec<usize> = Vec::new();
    for life in 0..kills {
        for _ in 0..3 {
            fake.deliver(&mail(ADA, &format!("{said}@x"), "x", &format!("m{said}")));
            said += 1;
        }
        let enough = (order.len() + 1 + life % 4).min(said);
        while order.len() < enough {
            let event = adapter.event();
            if event.kind == EventKind::Message && stored.insert(event.key.clone()) {
                order.push(event.text.clone());
            }
            cursor.extend(event.cursor.clone());
            if order.len() < enough || event.kind == EventKind::Nothing {
                adapter.took(event.n);
            }
        }
        // A mail is on its way out when it dies: at another point each time.
        adapter.say(&send(&format!("k.{life}"), "mail:ada@example.org", "", "out"));
        owed.push(life);
        let steps = fake.world().asked.len() + life % 9;
        let is_done = |fake: &Fake| fake.world().asked.len() >= steps;
        for _ in 0..200 {
            if is_done(&fake) {
                break;
            }
            std::thread::yield_now();
        }
        adapter = adapter.again(&cursor);
        // As the daemon does: it looks for what may have been sent, and sends what certainly was not.
        owed.retain(|life| {
            let key = format!("k.{life}");
            let look =
                json!({"op": "look_for", "r": 8, "key": key, "chat": "mail:ada@example.org", "since": ""});
            let Up::Found(found) = adapter.ask(&look) else { panic!() };
            if found.not_sent {
                assert!(adapter.done(&send(&key, "mail:ada@example.org", "", "out")).ids.is_some());
            }
            false
        });
    }
    while order.len() < said {
        let event = adapter.next_event();
        if event.kind == EventKind::Message && stored.insert(event.key.clone()) {
            order.push(event.text);
        }
    }
    let expected: Vec<String> = (0..said).map(|n| format!("m{n}")).collect();
    assert_eq!(order, expected, "in order, each once");
    let mut handed: Vec<String> = fake
        .world()
        .handed
        .iter()
        .map(|mail| mail.text.lines().find(|line| line.starts_with("Message-ID")).unwrap().to_owned())
        .collect();
    let count = handed.len();
    handed.sort();
    handed.dedup();
    assert_eq!(count, handed.len(), "none twice");
}
