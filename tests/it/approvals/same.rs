//! People with several ids: rights and refusals hold for all of them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;

use g2::{
    domain::heard::{people::Role, same::Person},
    store::{Arrival, Asking, How, Pick},
};

use super::world::{CHAT, OWNER, World, asking, folder};

const BOB: &str = "tg:bob";
const DAY: i64 = 86_400_000;

/// The account tells that these ids are one person's.
async fn tell(world: &World, ids: &[&str]) {
    let also: Vec<String> = ids[1..].iter().map(|id| (*id).to_owned()).collect();
    let person = Person::told("tg", ids[0], &also).unwrap();
    let told = Arrival::By { person, then: Box::new(Arrival::Nothing) };
    world.store.arrive("telegram", BTreeMap::new(), told, world.now).await.unwrap();
}

#[tokio::test]
async fn a_no_to_one_id_is_a_no_to_all_of_them_and_a_question_about_one_is_about_all() {
    let world = World::with(Asking { deny_ttl_ms: DAY, ..asking() }, &["family"]).await;
    let id = world.stranger(BOB, "one").await;
    tell(&world, &["bob2", "bob"]).await;
    world.hear(CHAT, "tg:bob2", "two").await;
    assert_eq!(world.open().await.len(), 1, "nobody is asked about one person twice");
    world.pick(id, Pick::No, OWNER).await;
    let seq = world.hear(CHAT, "tg:bob2", "three").await;
    assert!(world.open().await.is_empty());
    assert!(world.why(seq).contains("said no to question 1"), "{}", world.why(seq));
    // An id that goes over to somebody takes the no along.
    tell(&world, &["eve", "bob"]).await;
    world.hear(CHAT, "tg:eve", "hi").await;
    assert!(world.open().await.is_empty());
    world.hear(CHAT, "tg:ann", "hi").await;
    assert_eq!(world.open().await.len(), 1);
}

#[tokio::test]
async fn who_is_admitted_under_one_id_is_heard_under_all_of_them() {
    let world = World::new().await;
    let id = world.stranger(BOB, "one").await;
    world.yes(id).await;
    world.hear(CHAT, "tg:bob2", "two").await;
    assert_eq!(world.open().await.len(), 1);
    tell(&world, &["bob", "bob2"]).await;
    world.hear(CHAT, "tg:bob2", "three").await;
    assert_eq!(world.woken("family", CHAT), ["one", "three"]);
}

#[tokio::test]
async fn a_card_is_answered_under_any_id_of_somebody_with_the_right_and_not_under_one_that_moved() {
    let world = World::new().await;
    world.role("tg:7", Role::Admin, Some("family")).await;
    let id = world.stranger(BOB, "one").await;
    assert_ne!(world.pick(id, Pick::Yes, "tg:8").await.how, How::Done);
    tell(&world, &["8", "7"]).await;
    // The number goes over to somebody, who comes into no rights.
    tell(&world, &["9", "7"]).await;
    for nobody in ["tg:9", "tg:8"] {
        assert_ne!(world.pick(id, Pick::Yes, nobody).await.how, How::Done, "{nobody}");
    }
    assert_eq!(world.store.standing("tg:7", &folder("family")).await.unwrap().as_str(), "admin");
    tell(&world, &["a", "b"]).await;
    world.role("tg:a", Role::Admin, Some("family")).await;
    assert_eq!(world.pick(id, Pick::Yes, "tg:b").await.how, How::Done);
}
