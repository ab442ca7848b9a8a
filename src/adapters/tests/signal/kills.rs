//! Kills of the adapter at any moment, while people write. `G2_KILLS` says how often (12): the long run is
//! `G2_KILLS=1000 cargo test -p g2-channels --test signal kills -- --nocapture`.

use std::collections::BTreeSet;

use super::*;

#[test]
fn an_adapter_that_is_killed_at_any_event_loses_nothing_that_reached_it() {
    let kills: usize = std::env::var("G2_KILLS").map_or(12, |text| text.parse().unwrap());
    let (fake, mut adapter) = connected();
    let inbox = adapter.spool().parent().unwrap().join("state/inbox");
    let (mut said, mut stored, mut order) = (0, BTreeSet::new(), Vec::new());
    let mut cursor = BTreeMap::new();
    for life in 0..kills {
        // Some are written while nobody listens: they wait with Signal.
        let away = life % 4 == 3;
        if away {
            adapter.kill();
            fake.wait("nobody listens", |world| world.listeners.is_empty());
        }
        for _ in 0..5 {
            let text = format!("m{said}");
            match said % 3 {
                2 => fake.world().say(EVE, Some(GROUP), &text, &json!({})),
                _ => fake.say(ADA, &text),
            };
            said += 1;
        }
        if away {
            adapter = adapter.again(&cursor);
        }
        // Each life stores a few events more, the last one without being able to say so.
        let enough = (order.len() + 1 + life % 6).min(said);
        while order.len() < enough {
            let event = adapter.event();
            cursor.extend(event.cursor.clone());
            if stored.insert(event.key.clone()) {
                order.push(event.text.clone());
            }
            if order.len() < enough {
                adapter.took(event.n);
            }
        }
        // What signal-cli wrote has to have come: what is on its way in this moment is lost, and no test can say how much that is.
        let last = format!("m{}\"", said - 1);
        let begun = std::time::Instant::now();
        while order.len() < said && !std::fs::read_to_string(&inbox).unwrap_or_default().contains(&last) {
            assert!(begun.elapsed().as_secs() < 60, "{last} did not come");
            std::thread::yield_now();
        }
        adapter.kill();
        fake.wait("nobody listens", |world| world.listeners.is_empty());
        adapter = adapter.again(&cursor);
    }
    while order.len() < said {
        let event = adapter.next_event();
        if stored.insert(event.key.clone()) {
            order.push(event.text);
        }
    }
    let expected: Vec<String> = (0..said).map(|n| format!("m{n}")).collect();
    assert_eq!(order, expected, "each once, in order");
}
