//! Questions that nobody answers, and bounds.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::domain::heard::approvals::State;
use g2::{
    domain::heard::{approvals::full, people::Role},
    store::{Asking, How, NextDelivery, Pick},
};

use super::world::{CHAT, DESK, OWNER, World, asking, wiring};

const BOB: &str = "tg:bob";
const DAY: i64 = 24 * 3_600_000;

/// The card that is to be said to a chat can't be.
async fn fail(world: &World, chat: &str) {
    let NextDelivery::Now(card) = world.store.begin_delivery(chat, world.now).await.unwrap() else {
        panic!()
    };
    world
        .store
        .delivery_failed(
            card.id,
            "blocked by the user",
            g2::domain::platforms::channels::Then::GiveUp,
            None,
            world.now,
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn a_card_that_cannot_be_sent_blocks_nothing_and_another_person_is_asked_at_once() {
    let world = World::new().await;
    world.role("tg:ada", Role::Admin, Some("family")).await;
    world.hear(CHAT, BOB, "one").await;
    fail(&world, "tg:ada").await;
    let open = world.open().await;
    assert_eq!((open.len(), open[0].id, open[0].approver.as_str()), (1, 1, OWNER));
    world.hear(CHAT, BOB, "two").await;
    assert_eq!(world.audit(1).await, ["g2: asked", "tg:ada: not reached", "g2: asked next"]);
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, "1").await;
    assert_eq!(world.woken("family", CHAT), ["one", "two"], "nothing that waited is lost");
}

#[tokio::test]
async fn a_question_that_could_not_be_sent_can_be_answered_from_the_command_line() {
    let world = World::new().await;
    world.hear(CHAT, BOB, "one").await;
    fail(&world, DESK).await;
    world.yes(1).await;
    assert_eq!(world.woken("family", CHAT), ["one"]);
    assert_eq!(world.question(1).await.state, State::Approved);
}

#[tokio::test]
async fn after_a_week_a_question_is_over_and_the_next_message_asks_anew() {
    let mut world = World::new().await;
    let id = world.stranger(BOB, "one").await;
    world.later(7 * DAY - 1);
    assert_eq!(world.store.expire_approvals(world.now).await.unwrap(), 0);
    world.later(1);
    // No sweep was needed: a person who answers is told.
    let late = world.pick(id, Pick::Yes, OWNER).await;
    assert_eq!((late.how, late.says.as_str()), (How::Late, "nobody answered question 1 in time"));
    assert_eq!(world.audit(id).await, ["g2: asked", "g2: expired"]);
    assert_eq!(world.dropped().await, [(BOB.to_owned(), 1)]);
    let second = world.stranger(BOB, "two").await;
    assert_ne!(id, second);
    world.yes(second).await;
    assert_eq!(world.woken("family", CHAT), ["two"]);
}

#[tokio::test]
async fn a_number_typed_after_a_week_is_a_message() {
    let mut world = World::new().await;
    world.stranger(BOB, "one").await;
    world.later(7 * DAY);
    world.hear(DESK, OWNER, "1").await;
    assert_eq!((world.woken("main", DESK), world.woken("family", CHAT).len()), (vec!["1".to_owned()], 0));
}

#[tokio::test]
async fn a_no_is_forgotten_unless_it_is_to_be_remembered() {
    let world = World::new().await;
    let id = world.stranger(BOB, "one").await;
    world.pick(id, Pick::No, OWNER).await;
    world.hear(CHAT, BOB, "two").await;
    assert_eq!(world.open().await.len(), 1);

    let mut world = World::with(Asking { deny_ttl_ms: DAY, ..asking() }, &["family"]).await;
    let id = world.stranger(BOB, "one").await;
    world.pick(id, Pick::No, OWNER).await;
    world.later(DAY - 1);
    let seq = world.hear(CHAT, BOB, "two").await;
    assert!(world.open().await.is_empty());
    assert!(world.why(seq).contains("said no to question 1"), "{}", world.why(seq));
    assert_eq!(world.dropped().await, [(BOB.to_owned(), 2)]);
    world.hear(CHAT, "tg:eve", "hi").await;
    assert_eq!(world.open().await.len(), 1, "it was about one sender");
    world.later(1);
    world.hear(CHAT, BOB, "three").await;
    assert_eq!(world.open().await.len(), 2);

    let world = World::with(Asking { deny_ttl_ms: DAY, ..asking() }, &["family"]).await;
    world.hear("tg:-200", BOB, "@G2 one").await;
    world.pick(1, Pick::No, OWNER).await;
    world.hear("tg:-200", "tg:eve", "@G2 two").await;
    assert_eq!((world.open().await.len(), world.dropped().await.len()), (0, 2), "it was about the chat");
}

#[tokio::test]
async fn of_a_sender_fifty_messages_wait_and_older_ones_are_counted() {
    let world = World::new().await;
    for n in 0..55 {
        world.hear(CHAT, BOB, &n.to_string()).await;
    }
    assert_eq!(
        (world.open().await[0].messages.len(), world.dropped().await),
        (50, vec![(BOB.to_owned(), 5)])
    );
    world.yes(1).await;
    let woken = world.woken("family", CHAT);
    assert_eq!((woken.len(), woken[0].as_str(), woken[49].as_str()), (50, "5", "54"));
}

#[tokio::test]
async fn strangers_cannot_fill_a_chat_with_cards() {
    let world = World::new().await;
    for n in 0..25 {
        world.hear(CHAT, &format!("tg:{n}"), "hi").await;
    }
    assert_eq!((world.open().await.len(), world.dropped().await.len()), (20, 5), "of one chat");
    let last = world.hear(CHAT, "tg:24", "again").await;
    let reason = world.store.why(last, world.now).unwrap().unwrap().wirings[0].reason.clone().unwrap();
    assert!(reason.contains("20 questions about senders of this chat"), "{reason}");
    assert!(full(&world.open().await).unwrap().contains(CHAT));
    // Others are asked about all the same, until there are too many.
    for chat in 0..6 {
        let jid = format!("tg:-20{chat}");
        world.store.add_wiring(wiring("family", &jid), world.now).await.unwrap();
        for n in 0..15 {
            world.hear(&jid, &format!("tg:{n}"), "hi").await;
        }
    }
    assert_eq!(world.open().await.len(), 100);
    assert!(full(&world.open().await).unwrap().starts_with("100 questions"));
    assert_eq!(world.say_all(DESK).await.len(), 100);
    world.pick(1, Pick::No, OWNER).await;
    assert_eq!(full(&world.open().await), None, "a chat and all have room again");
}

#[tokio::test]
async fn many_questions_are_closed_at_once_by_a_person_with_the_right() {
    let world = World::new().await;
    world.store.add_wiring(wiring("family", "tg:-200"), world.now).await.unwrap();
    for (chat, sender) in [(CHAT, "tg:1"), (CHAT, "tg:2"), ("tg:-200", "tg:1")] {
        world.hear(chat, sender, "hi").await;
    }
    world.say_all(DESK).await;
    let nobody = world.store.deny_many(None, "local:eve", "for a try", world.now).await.unwrap();
    assert_eq!((nobody, world.open().await.len()), ((0, 3), 3));
    let closed = world.store.deny_many(Some(CHAT), OWNER, "a flood", world.now).await.unwrap();
    assert_eq!((closed, world.open().await.len(), world.dropped().await.len()), ((2, 0), 1, 2));
    assert_eq!(world.audit(2).await[2..], ["local:me: denied", "local:me: denied with others"]);
    let said = world.say_all(DESK).await;
    assert_eq!(said.len(), 1, "it is told once");
    assert_eq!(said[0].text, "local:me said no to 2 questions at once: a flood.");
    assert_eq!(world.store.deny_many(None, OWNER, "the rest", world.now).await.unwrap(), (1, 0));
    assert!(world.open().await.is_empty());
}
