//! The order of texts, and clocks that jump.

use g2::domain::platforms::channels::Then;

use super::*;

#[tokio::test]
async fn a_chat_is_said_to_in_order_and_rests_when_all_is_said() {
    let world = world().await;
    for (claim, text) in [(1, "a"), (2, "b")] {
        let ask = format!(r#"{{"type":"send_message","chatJid":"local:main","text":"{text}"}}"#);
        world.store.settle(command("main", claim, ask.as_bytes()), Zones::utc(), NOW).await.unwrap();
    }
    let NextDelivery::Now(first) = world.store.begin_delivery("local:main", NOW).await.unwrap() else {
        panic!()
    };
    world
        .store
        .delivery_failed(first.id, "away", Then::Again { after_ms: 1000, counts: true }, None, NOW)
        .await
        .unwrap();
    let next = world.store.begin_delivery("local:main", NOW).await.unwrap();
    assert_eq!(next, NextDelivery::NotBefore(NOW.plus_ms(1000)), "the second waits behind the first");
    assert!(!world.store.chat_at_rest("local:main").await.unwrap());
    for text in ["a", "b"] {
        let now = NOW.plus_ms(1000);
        let NextDelivery::Now(delivery) = world.store.begin_delivery("local:main", now).await.unwrap() else {
            panic!()
        };
        assert_eq!(delivery.text, text);
        world.store.delivered(delivery.id, 1, delivery.id.to_string(), now).await.unwrap();
    }
    assert!(world.store.chat_at_rest("local:main").await.unwrap());
}

#[tokio::test]
async fn a_clock_that_is_set_back_or_forth_loses_no_message_and_changes_no_order() {
    let world = world().await;
    let year = 365 * 86_400_000;
    for (n, now) in [NOW, NOW.plus_ms(-year), NOW.plus_ms(10 * year), Time(0), NOW].into_iter().enumerate() {
        let inbound = Inbound {
            chat_jid: "local:main".into(),
            replay_key: n.to_string(),
            id: n.to_string(),
            sender: "local:me".into(),
            sender_name: "me".into(),
            text: format!("message {n}"),
            at: Some(now),
            ..Inbound::default()
        };
        world.store.accept(inbound, now).await.unwrap();
    }
    world.message("local:main", "last", "message 5", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    let prompt = handed.content.prompt(&Zones::utc().of(None));
    let order: Vec<Option<usize>> = (0..6).map(|n| prompt.find(&format!("message {n}<"))).collect();
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "{prompt}");
}

#[tokio::test]
async fn a_text_that_failed_while_the_clock_was_ahead_does_not_wait_for_that_time() {
    let world = world().await;
    let say = br#"{"type":"send_message","chatJid":"local:main","text":"hi"}"#;
    world.store.settle(command("main", 1, say), Zones::utc(), NOW).await.unwrap();
    let next = |now: Time| world.store.begin_delivery("local:main", now);
    let NextDelivery::Now(row) = next(NOW).await.unwrap() else { panic!() };
    let again = NOW.plus_ms(2_000);
    world
        .store
        .delivery_failed(row.id, "away", Then::Again { after_ms: 2_000, counts: true }, None, NOW)
        .await
        .unwrap();
    assert_eq!(next(NOW).await.unwrap(), NextDelivery::NotBefore(again));
    world
        .store
        .delivery_failed(row.id, "away", Then::Again { after_ms: 365 * 86_400_000, counts: true }, None, NOW)
        .await
        .unwrap();
    assert!(matches!(next(NOW).await.unwrap(), NextDelivery::Now(_)));
}
