//! Kills of the adapter at any moment, while people write. `G2_KILLS` says how often (12): the long run is
//! `G2_KILLS=1000 cargo test -p g2-channels --test slack kills -- --nocapture`.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn an_adapter_that_is_killed_at_any_event_loses_none() {
    let kills: usize = std::env::var("G2_KILLS").map_or(12, |text| text.parse().unwrap());
    let (fake, mut adapter) = connected();
    // A day has some fifty messages.
    fake.world().step = 600_000_000;
    let root = fake.say(GENERAL, ADA, "root");
    let mut cursor = adapter.next_event().cursor;
    let (mut said, mut stored, mut order) = (0, BTreeSet::new(), Vec::new());
    let mut expected = Vec::new();
    for life in 0..kills {
        for _ in 0..5 {
            let text = format!("m{said}");
            // One in five stands in a thread.
            let _ = if said % 5 == 4 {
                fake.reply(GENERAL, &root, ADA, &text)
            } else {
                fake.say(GENERAL, ADA, &text)
            };
            expected.push(text);
            said += 1;
        }
        // Each life stores a few events more, the last one without being able to say so.
        let enough = order.len() + 1 + life % 6;
        while order.len() < enough.min(expected.len()) {
            let event = adapter.event();
            if stored.insert(event.key.clone()) {
                order.push(event.text.clone());
            }
            cursor.extend(event.cursor.clone());
            if order.len() < enough {
                adapter.took(event.n);
            }
        }
        adapter.kill();
        // Slack tells again what was not taken, or has given it up.
        if life % 3 == 2 {
            fake.wait("its socket is gone", |world| world.sockets.is_empty());
            fake.forget();
        }
        adapter = adapter.again(&cursor);
    }
    while order.len() < expected.len() {
        let event = adapter.next_event();
        if stored.insert(event.key.clone()) {
            order.push(event.text);
        }
    }
    let place = |text: &String| text[1..].parse::<usize>().unwrap();
    let (threads, channel): (Vec<usize>, Vec<usize>) = order.iter().map(place).partition(|n| n % 5 == 4);
    for mut all in [threads, channel] {
        let told = all.clone();
        all.sort_unstable();
        assert_eq!(told, all, "in order");
    }
    let told: BTreeMap<&String, usize> = order.iter().map(|text| (text, 1)).collect();
    assert_eq!((told.len(), order.len()), (expected.len(), expected.len()), "each once");
}
