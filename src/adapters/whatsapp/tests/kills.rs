//! Deaths at any moment, floods, and memory. The long form: `G2_KILLS=300 cargo test kills`.

use std::collections::BTreeSet;

use channel_protocol::{EventKind, MOST_OPEN, Up};
use serde_json::json;

use crate::{daemon::Adapter, fake::Fake};

const EVE: &str = "492000000001";
const EVES: &str = "492000000001@s.whatsapp.net";
const GROUP: &str = "120363000000000001";

/// How much memory a process has, KiB.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn whenever_it_dies_each_text_is_told_and_what_was_received_is_stored() {
    let kills: u64 = std::env::var("G2_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    fake.group(GROUP, "Garden", &[EVE]);
    let mut adapter = Adapter::linked(&fake, json!({}));
    let (mut stored, mut sent) = (BTreeSet::new(), Vec::new());
    let mut seed = 0x9e37_79b9_u64;
    for round in 0..kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for n in 0..4 {
            let text = format!("{round}.{n}");
            let id =
                if n % 2 == 0 { fake.writes(EVE, &text) } else { fake.writes_to_group(EVE, GROUP, &text) };
            sent.push((id, text));
        }
        // Some are stored, one is heard and not stored, and the adapter dies. Those of one chat come one after the other.
        for _ in 0..(seed >> 33) % 4 {
            stored.insert(adapter.stored().text);
        }
        if seed >> 63 == 1 {
            adapter.event();
        }
        for (id, text) in &sent {
            assert!(stored.contains(text) || !fake.has_receipt(id), "{text} is received and not stored");
        }
        adapter = adapter.again(&[EVES]);
        adapter.hello();
    }
    while !sent.iter().all(|(_, text)| stored.contains(text)) {
        stored.insert(adapter.stored().text);
    }
    for (id, _) in &sent {
        fake.until_received(id);
    }
}

#[test]
fn a_flood_waits_for_its_places_and_takes_little_memory() {
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    let mut adapter = Adapter::linked(&fake, json!({}));
    fake.writes(EVE, "first");
    adapter.stored();
    adapter.sends(EVES, "a.1", json!({"text": "hello"}));
    let before = memory(adapter.process());
    for n in 0..400 {
        fake.writes(EVE, &format!("{n} {}", "x".repeat(10_000)));
    }
    // The daemon stores nothing for a while: the window holds.
    let r = adapter.order(json!({"op": "list_chats"}));
    adapter.next("answer", |up| matches!(up, Up::Chats { r: of, .. } if *of == r).then_some(()));
    let mut open = Vec::new();
    open.push(adapter.event());
    assert!(open.len() as u64 <= MOST_OPEN);
    for event in open.drain(..) {
        adapter.took(event.n);
    }
    for n in 1..400 {
        let event = adapter.stored();
        assert!(event.kind == EventKind::Message && event.text.starts_with(&format!("{n} ")), "{n}");
    }
    let after = memory(adapter.process());
    assert!(after < before + (40 << 10), "{before} KiB became {after} KiB");
}
