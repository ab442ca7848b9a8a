//! The part of the story in which people are asked.

use crate::domain::platforms::channels::Then;

use super::*;

/// A message of somebody, and what the wirings of its chat would make of it if they were asked about its sender.
async fn stranger(store: &Store, chat: &str, sender: &str, key: &str) {
    let event = Inbound {
        chat_jid: chat.into(),
        sender: sender.into(),
        sender_name: sender.into(),
        mentioned: true,
        ..inbound(key)
    };
    store.accept(event, NOW).await.unwrap();
    let judged = store.unjudged(100).await.unwrap().into_iter().map(|row| {
        let refused = (row.standing == access::Standing::Unknown).then_some(access::Unheeded::Asked);
        let verdict = if refused.is_some() { EngageVerdict::Ignore } else { EngageVerdict::Wake };
        Judged {
            n: row.n,
            read_as: row.read_as(),
            verdict,
            rule: Rule::UnknownSender,
            reason: "test".into(),
            sticks: false,
            refused,
            answers: row.answers,
        }
    });
    store.judge(judged.collect(), NOW).await.unwrap();
}

/// Questions about strangers and new chats: asked, said, answered in every way, or ended.
pub(super) async fn of_questions(store: &Store) {
    const CHAT: &str = "tg:-1";
    let wiring = NewWiring { chat_jid: CHAT.into(), ..wiring() };
    store.add_wiring(wiring, NOW).await.unwrap();
    for (n, sender) in ["1", "2", "3", "4", "5", "6"].into_iter().enumerate() {
        stranger(store, CHAT, sender, &format!("s{n}")).await;
    }
    stranger(store, CHAT, "1", "again").await;
    for n in 1..=4 {
        stranger(store, &format!("tg:{n}"), "42", &format!("c{n}")).await;
    }
    assert_eq!(store.approvals(false).await.unwrap().len(), 10);
    store.why(store.approvals(false).await.unwrap()[0].messages[0], NOW).unwrap().unwrap();
    // The cards are said, but for one whose chat does not take it: it is asked again.
    while let NextDelivery::Now(row) = store.begin_delivery("local:main", NOW).await.unwrap() {
        match row.text.contains("question #6") {
            true => store.delivery_failed(row.id, "gone", Then::GiveUp, None, NOW).await.unwrap(),
            false => store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap(),
        }
    }
    stranger(store, CHAT, "6", "once more").await;
    // Typed, by number and by name, unclear, late, by a reply; pressed; at the command line.
    for (key, text) in [
        ("a1", "#1 1"),
        ("a2", "1"),
        ("a3", "#1 1"),
        ("a4", "#7 2"),
        ("a5", "A name"),
        ("a6", "#8 2"),
        ("a7", "cancel"),
    ] {
        store.accept(Inbound { text: text.into(), ..inbound(key) }, NOW).await.unwrap();
        while let NextDelivery::Now(row) = store.begin_delivery("local:main", NOW).await.unwrap() {
            store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap();
        }
    }
    assert!(store.group(&Folder::parse("a-name").unwrap()).await.unwrap().is_some(), "made by its name");
    let card = store.last_sent("local:main").await.unwrap();
    let reply = Inbound { text: "1".into(), reply_to_id: Some(card.to_string()), ..inbound("a8") };
    store.accept(reply, NOW).await.unwrap();
    store.click("2:1", "local:me", NOW).await.unwrap();
    store.decide(3, Pick::No, "local:me", NOW).await.unwrap();
    store.decide(9, Pick::Connect(main_folder()), "local:me", NOW).await.unwrap();
    let wiring = NewWiring { chat_jid: "tg:4".into(), ..super::wiring() };
    store.add_wiring(wiring, NOW).await.unwrap();
    store.deny_many(Some(CHAT), "local:me", "test", NOW).await.unwrap();
    assert!(
        store
            .approval(1)
            .await
            .unwrap()
            .is_some_and(|(one, events)| one.state == crate::domain::heard::approvals::State::Approved
                && !events.is_empty())
    );
    stranger(store, "tg:9", "42", "c9").await;
    assert!(store.expire_approvals(NOW.plus_ms(8 * 24 * 3_600_000)).await.unwrap() > 0);
}
