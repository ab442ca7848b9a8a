//! A new agent's name.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::{
    domain::heard::people::Role,
    store::{How, Pick},
};

use super::world::{DESK, OWNER, World};

const NEW: &str = "tg:-200";
const BOB: &str = "tg:bob";

/// Bob waits in a new chat, and the owner has said that a new agent is to be made.
async fn asked() -> World {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, "2").await;
    let said = world.say_all(DESK).await;
    assert!(said[0].text.starts_with("What is the new agent to be called?"), "{said:?}");
    world
}

async fn folders(world: &World) -> Vec<String> {
    world.store.groups().await.unwrap().iter().map(|group| group.folder.to_string()).collect()
}

#[tokio::test]
async fn a_name_that_is_forwarded_is_none() {
    let world = asked().await;
    let before = folders(&world).await;
    world
        .hear_as(DESK, OWNER, "Chess Club", |event| {
            event.origin = g2::domain::heard::origin::Origin::Forwarded
        })
        .await;
    assert_eq!(folders(&world).await, before);
    let said = world.say_all(DESK).await;
    assert!(said[0].text.starts_with("A forwarded message answers no question"), "{said:?}");
    world.hear(DESK, OWNER, "Chess Club").await;
    assert_eq!(folders(&world).await.len(), before.len() + 1);
}

#[tokio::test]
async fn the_next_text_is_the_name_and_waiting_messages_are_answered() {
    let world = asked().await;
    let accepted = world.accept(DESK, OWNER, " Chess Club ").await;
    assert_eq!(accepted.made.map(|made| made.to_string()).as_deref(), Some("chess-club"));
    world.judge().await;
    let group =
        world.store.groups().await.unwrap().into_iter().find(|g| g.folder.as_str() == "chess-club").unwrap();
    assert_eq!(
        (group.name.as_str(), group.is_main, group.chats),
        ("Chess Club", false, vec![NEW.to_owned()])
    );
    assert_eq!(world.woken("chess-club", NEW), ["@G2 hello"]);
    assert!(world.woken("main", DESK).is_empty() && world.open().await.is_empty());
    world.hear(DESK, OWNER, "next").await;
    assert_eq!(world.woken("main", DESK), ["next"], "the wait is over");
}

#[tokio::test]
async fn a_name_is_waited_for_across_restarts_and_asked_for_again() {
    let mut world = asked().await;
    for (text, says) in [
        ("7", "a name needs a letter"),
        ("?!", "a name needs a letter"),
        ("global", "keeps for itself"),
        (&"x".repeat(65), "at most 64 characters"),
    ] {
        world.restart();
        world.hear(DESK, OWNER, text).await;
        let said = world.say_all(DESK).await;
        assert!(said[0].text.contains(says), "{text:?}: {said:?}");
        assert_eq!(folders(&world).await, ["family", "main"], "{text:?}");
    }
    world.restart();
    world.hear(DESK, OWNER, "Chess").await;
    assert_eq!(folders(&world).await, ["chess", "family", "main"]);
    assert!(world.woken("main", DESK).is_empty());
}

#[tokio::test]
async fn a_folder_that_is_taken_gets_a_number() {
    let world = asked().await;
    world.hear(DESK, OWNER, "Family!").await;
    assert_eq!(folders(&world).await, ["family", "family-2", "main"]);
}

#[tokio::test]
async fn a_name_that_an_agent_has_makes_no_twin_and_the_question_stays_open() {
    let world = asked().await;
    for text in ["FAMILY", " family "] {
        world.hear(DESK, OWNER, text).await;
        let said = world.say_all(DESK).await;
        let told = &said[0].text;
        assert!(told.contains(r#"called "family" already"#) && told.contains("another name"), "{told}");
    }
    let decided = world.pick(1, Pick::New("Family".into()), OWNER).await;
    assert!(decided.how == How::Not && decided.says.contains("its folder is family"), "{decided:?}");
    assert_eq!((folders(&world).await.len(), world.open().await.len()), (2, 1));
    world.hear(DESK, OWNER, "Second family").await;
    assert_eq!(folders(&world).await, ["family", "main", "second-family"]);
}

#[tokio::test]
async fn cancel_leaves_the_question_open() {
    let world = asked().await;
    world.hear(DESK, OWNER, "Cancel").await;
    assert_eq!((world.open().await.len(), folders(&world).await.len()), (1, 2));
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, "Chess").await;
    assert_eq!(world.woken("main", DESK), ["Chess"], "no name is waited for");
    world.hear(DESK, OWNER, "4").await;
    assert_eq!(world.woken("main", NEW), ["@G2 hello"], "the card works on");
}

#[tokio::test]
async fn another_choice_takes_the_place_of_a_name() {
    let world = asked().await;
    world.hear(DESK, OWNER, "1").await;
    assert_eq!((world.woken("family", NEW).len(), folders(&world).await.len()), (1, 2));
}

#[tokio::test]
async fn the_name_comes_from_the_person_who_was_asked() {
    let world = asked().await;
    world.role("local:ada", Role::Owner, None).await;
    world.hear(DESK, "local:ada", "Hers").await;
    world.hear(DESK, "local:guest", "Theirs").await;
    assert_eq!(folders(&world).await, ["family", "main"]);
    assert_eq!(world.woken("main", DESK), ["Hers", "Theirs"]);
    world.hear("local:elsewhere", OWNER, "Elsewhere").await;
    assert_eq!(folders(&world).await, ["family", "main"]);
    world.hear(DESK, OWNER, "Mine").await;
    assert_eq!(folders(&world).await, ["family", "main", "mine"]);
}

#[tokio::test]
async fn a_name_is_waited_for_ten_minutes_and_not_before_it_was_asked_for_nor_once_an_agent_spoke() {
    let world = asked().await;
    world.agent_says(DESK, "By the way: what is for lunch?");
    world.hear(DESK, OWNER, "soup").await;
    assert_eq!((folders(&world).await.len(), world.woken("main", DESK)), (2, vec!["soup".to_owned()]));
    let mut world = asked().await;
    world.later(600_001);
    world.hear(DESK, OWNER, "remind me of lunch").await;
    assert_eq!((folders(&world).await.len(), world.woken("main", DESK).len()), (2, 1));
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, "2").await;
    world.hear(DESK, OWNER, "by the way").await;
    assert_eq!((folders(&world).await.len(), world.woken("main", DESK)), (2, vec!["by the way".to_owned()]));
}

#[tokio::test]
async fn the_command_line_gives_the_name_at_once() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    assert_eq!(world.pick(1, Pick::New("!".into()), OWNER).await.how, How::Not);
    assert_eq!(world.pick(1, Pick::Yes, OWNER).await.how, How::Not, "which group is to be said");
    let decided = world.pick(1, Pick::New("Chess".into()), OWNER).await;
    assert_eq!((decided.how, decided.made.map(|made| made.to_string())), (How::Done, Some("chess".into())));
    assert_eq!(world.woken("chess", NEW), ["@G2 hello"]);
}
