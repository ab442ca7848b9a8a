//! What comes in: each event once and in order, durable before the platform is told so.

use g2::domain::{
    heard::approvals::State,
    platforms::channels::{Connection, MarkKind, SentTwice},
    states::DeliveryStatus,
};

use super::{NOW, Rig, World};

#[tokio::test]
async fn an_event_that_the_platform_tells_again_is_one_also_over_a_restart() {
    for rig in Rig::all() {
        let mut world = World::new(rig).await;
        for n in 0..10 {
            world.hears(&format!("k{n}"), &n.to_string(), &format!("message {n}"), None).await;
        }
        // The same event once more, from the platform's side.
        world.hears("k3", "3", "message 3", None).await;
        let expected: Vec<String> = (0..10).map(|n| format!("message {n}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        world.until_came(&expected).await;
        // A channel that is new to the platform is told everything again.
        world.restart().await;
        world.hears("k10", "10", "the last", None).await;
        world.until_came(&[&expected[..], &["the last"]].concat()).await;
        assert_eq!(world.store.unjudged(100).await.unwrap().len(), 11, "a row each for the group");
    }
}

#[tokio::test]
async fn an_edit_is_read_after_the_message_and_has_its_id() {
    for rig in Rig::all() {
        let world = World::new(rig).await;
        world.hears("k1", "7", "helo", None).await;
        world.hears("k1:edit1", "7", "hello", None).await;
        world.until_came(&["helo", "hello"]).await;
        let newest = world.store.quoted(world.rig.chat(), "7").await.unwrap().unwrap();
        assert_eq!(newest.text, "hello");
    }
}

#[tokio::test]
async fn deletions_reactions_and_facts_about_a_chat_are_kept_and_wake_nobody() {
    for rig in Rig::fakes(SentTwice::Never) {
        let world = World::new(rig).await;
        world.hears("k1", "7", "hello", None).await;
        for event in [
            ["reaction", "fake:1", "r1", "7", "bob", "👍"],
            ["reaction", "fake:1", "r1", "7", "bob", "👍"],
            ["reaction_gone", "fake:1", "r2", "7", "bob", "👍"],
            ["deleted", "fake:1", "d1", "7", "ada", ""],
        ] {
            world.platform(&[&["happens"][..], &event].concat()).await;
        }
        world.platform(&["happens", "chat", "fake:1", "Chess", "7"]).await;
        world
            .until("the chat's name", async || {
                world.store.chat("fake:1").await.unwrap().unwrap().name == "Chess"
            })
            .await;
        let marks = world.store.marks_of("fake:1", "7").await.unwrap();
        let mark = |kind, who: &str, what: &str| (kind, who.to_owned(), what.to_owned());
        assert_eq!(
            marks,
            [
                mark(MarkKind::Reaction, "fake:bob", "👍"),
                mark(MarkKind::ReactionGone, "fake:bob", "👍"),
                mark(MarkKind::Deleted, "fake:ada", ""),
            ]
        );
        assert_eq!((world.came().await.len(), world.store.unjudged(100).await.unwrap().len()), (1, 1));
        world
            .until("the connection to be told", async || {
                let states = world.store.connections().await.unwrap();
                states
                    .iter()
                    .any(|state| (state.channel.as_str(), state.state) == ("fake", Connection::Connected))
            })
            .await;
    }
}

/// A stranger writes in a chat that no group hears; the owner is asked on the platform.
async fn asked(world: &World) -> (i64, String) {
    let chat = world.rig.chat();
    let owner = chat.replace(":1", ":owner").replace(":main", ":owner");
    world.store.put_user(&owner, "Owner", Some(chat.into()), NOW).await.unwrap();
    world.store.grant_role(&owner, g2::domain::heard::people::Role::Owner, None, "test", NOW).await.unwrap();
    let stranger = g2::domain::rows::Inbound {
        chat_jid: chat.replace(":1", ":2").replace(":main", ":other"),
        replay_key: "s".into(),
        id: "s".into(),
        sender: "eve".into(),
        sender_name: "eve".into(),
        text: "let me in".into(),
        mentioned: true,
        ..Default::default()
    };
    world.store.accept(stranger, NOW).await.unwrap();
    let question = world.store.approvals(false).await.unwrap().remove(0);
    (question.id, owner)
}

#[tokio::test]
async fn a_card_is_answered_by_its_button_once_and_only_by_a_person_with_the_right() {
    for rig in Rig::fakes(SentTwice::Never) {
        let world = World::new(rig).await;
        let (id, owner) = asked(&world).await;
        let card = world.rows().await[0].id;
        world.until_row(card, DeliveryStatus::Sent).await;
        let called = world.store.parts_of(card).await.unwrap().pop().unwrap().platform_id.unwrap();
        let buttons = world.platform(&["buttons", &called]).await.remove(0);
        let press = buttons.split(',').next_back().unwrap().to_owned();
        world.platform(&["happens", "press", &press, "mallory"]).await;
        world.platform(&["happens", "press", &press, owner.strip_prefix("fake:").unwrap()]).await;
        world.until("the answer", async || world.store.approvals(false).await.unwrap().is_empty()).await;
        let (answered, audit) = world.store.approval(id).await.unwrap().unwrap();
        assert_eq!(answered.decided_by.as_deref(), Some(owner.as_str()));
        assert!(
            audit.iter().any(|event| event.who == "fake:mallory" && event.what == "not allowed"),
            "{audit:?}"
        );
    }
}

#[tokio::test]
async fn a_reply_to_a_card_is_known_by_the_platforms_id() {
    for rig in Rig::fakes(SentTwice::Never) {
        let world = World::new(rig).await;
        // What the platform shows first is called m1 and m2, which no card's row is.
        world.say("something").await;
        let (id, _) = asked(&world).await;
        world
            .store
            .grant_role("fake:ada", g2::domain::heard::people::Role::Owner, None, "test", NOW)
            .await
            .unwrap();
        let card = world.rows().await.last().unwrap().id;
        world.until_row(card, DeliveryStatus::Sent).await;
        let called = world.store.parts_of(card).await.unwrap().pop().unwrap().platform_id.unwrap();
        // A reply to something else of the platform's, and one to nothing: messages.
        world.hears("k1", "x1", "1", Some("m1")).await;
        world.until_came(&["1"]).await;
        assert_eq!(world.store.approval(id).await.unwrap().unwrap().0.state, State::Pending);
        world.hears("k2", "x2", "3", Some(&called)).await;
        world
            .until("the answer", async || {
                world.store.approval(id).await.unwrap().unwrap().0.state != State::Pending
            })
            .await;
    }
}

#[tokio::test]
async fn a_reply_to_a_text_of_ours_is_a_mention() {
    for rig in Rig::fakes(SentTwice::Never) {
        let world = World::new(rig).await;
        let id = world.say("something").await;
        world.until_row(id, DeliveryStatus::Sent).await;
        world.hears("k1", "x1", "why?", Some("m1")).await;
        world.hears("k2", "x2", "who?", Some("x1")).await;
        world.until_came(&["why?", "who?"]).await;
        let messages = world.store.messages(None, None).await.unwrap();
        assert_eq!(messages.iter().map(|message| message.mentioned).collect::<Vec<_>>(), [true, false]);
    }
}
