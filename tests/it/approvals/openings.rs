//! People who are to be asked and are not reached: a chat with them is opened, or the next one is asked.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "a test looks at what an adapter wrote")]

use std::{fs, path::Path};

use g2::{
    domain::{
        heard::{
            approvals::{State, approver::Missed},
            people::Role,
        },
        platforms::{amends::What, channels::Then},
    },
    store::{How, NextDelivery, Pick},
};

use super::world::{CHAT, DESK, OWNER, World, folder};
use crate::{
    channels::folder::root_changed,
    support::{Root, fail_points, wait_for},
};

const ADA: &str = "tg:ada";
const BOB: &str = "tg:bob";
const EVE: &str = "tg:eve";

/// Somebody who may decide, and with whom no chat is known.
async fn stranger_to_us(world: &World, user: &str) {
    world.store.grant_role(user, Role::Admin, Some(folder("family")), "test", world.now).await.unwrap();
}

/// The card that is to be said to a chat can't be. Returns its row.
async fn fail(world: &World, chat: &str) -> i64 {
    let NextDelivery::Now(card) = world.store.begin_delivery(chat, world.now).await.unwrap() else {
        panic!("nothing is to be said to {chat}")
    };
    world.store.delivery_failed(card.id, "blocked", Then::GiveUp, None, world.now).await.unwrap();
    card.id
}

async fn asked(world: &World, id: i64) -> (State, String, String) {
    let question = world.question(id).await;
    (question.state, question.approver, question.card_chat)
}

fn pending(user: &str, chat: &str) -> (State, String, String) {
    (State::Pending, user.into(), chat.into())
}

#[tokio::test]
async fn a_chat_with_an_approver_is_opened_once_and_the_cards_wait_for_it() {
    let mut world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.hear(CHAT, EVE, "two").await;
    assert_eq!(asked(&world, 1).await, pending(ADA, ""));
    assert!(world.question(1).await.outcome().contains("with whom a chat is being opened"));
    assert!(world.store.outbox(None, None).await.unwrap().is_empty(), "nothing is said anywhere");
    world.restart();
    assert_eq!(world.store.openings().await.unwrap(), [ADA]);
    for _ in 0..2 {
        world.store.opened(ADA, "tg:77".into(), world.now).await.unwrap();
    }
    assert!(world.store.openings().await.unwrap().is_empty());
    assert_eq!(
        (asked(&world, 1).await, asked(&world, 2).await),
        (pending(ADA, "tg:77"), pending(ADA, "tg:77"))
    );
    let said = world.say_all("tg:77").await;
    assert!(said.len() == 2 && said[0].text.contains("“one”") && said[0].buttons.len() == 2, "{said:?}");
    // The chat is kept.
    world.hear(CHAT, "tg:zoe", "three").await;
    assert_eq!(asked(&world, 3).await, pending(ADA, "tg:77"));
    assert_eq!(world.store.chat("tg:77").await.unwrap().unwrap().kind.as_str(), "direct");
    world.hear("tg:77", ADA, "#1 1").await;
    assert_eq!(world.woken("family", CHAT), ["one"]);
}

#[tokio::test]
async fn where_no_chat_can_be_opened_the_next_one_is_asked_at_once_and_at_last_nobody() {
    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    stranger_to_us(&world, EVE).await;
    world.hear(CHAT, BOB, "one").await;
    let refuse = async |user: &str| {
        world.store.unopened(user, Missed::NotReached, "they blocked us", world.now).await.unwrap();
    };
    refuse(ADA).await;
    // The same twice, and of somebody who is not to be asked, changes nothing.
    refuse(ADA).await;
    refuse(BOB).await;
    assert_eq!(asked(&world, 1).await, pending(EVE, ""));
    refuse(EVE).await;
    assert_eq!(asked(&world, 1).await, pending(OWNER, DESK));
    fail(&world, DESK).await;
    assert_eq!(world.question(1).await.state, State::Undeliverable);
    let audit = world.audit(1).await;
    assert_eq!(
        audit,
        [
            "g2: asked",
            "tg:ada: not reached",
            "g2: asked next",
            "tg:eve: not reached",
            "g2: asked next",
            "local:me: not reached",
            "g2: undeliverable"
        ]
    );
    // A new message asks one of them again: the one who was missed first.
    world.hear(CHAT, BOB, "two").await;
    assert_eq!(asked(&world, 1).await, pending(ADA, ""));
    refuse(ADA).await;
    assert_eq!(world.question(1).await.state, State::Undeliverable, "one for each message");
    assert!(world.question(1).await.outcome().contains("reached nobody"));
    world.yes(1).await;
    assert_eq!(world.woken("family", CHAT), ["one", "two"]);
}

#[tokio::test]
async fn a_card_that_fails_goes_to_the_next_one_and_is_closed_if_it_arrives_after_all() {
    let world = World::new().await;
    world.role(ADA, Role::Admin, Some("family")).await;
    world.hear(CHAT, BOB, "one").await;
    let first = fail(&world, ADA).await;
    assert_eq!(asked(&world, 1).await, pending(OWNER, DESK));
    let card = world.say_all(DESK).await.remove(0);
    assert!(card.text.contains("“one”") && card.buttons.len() == 2, "{card:?}");
    // It arrives late. Its answer counts as that of the other one.
    world.store.retry_outbox(first).await.unwrap();
    world.say_all(ADA).await;
    let decided = world.store.click("1:1", ADA, world.now).await.unwrap();
    assert_eq!(decided.how, How::Done);
    assert_eq!(world.store.click("1:2", OWNER, world.now).await.unwrap().how, How::Late);
    let closed: Vec<i64> = world
        .store
        .amends(None)
        .await
        .unwrap()
        .into_iter()
        .filter(|amend| matches!(&amend.what, What::Close { ids, .. } if ids.len() == 1))
        .map(|amend| if amend.chat_jid == ADA { first } else { card.id })
        .collect();
    assert_eq!(closed, [first, card.id], "both cards are changed");
}

#[tokio::test]
async fn a_question_that_is_answered_or_whose_approver_changes_meanwhile_has_no_card_there() {
    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.yes(1).await;
    world.store.opened(ADA, "tg:77".into(), world.now).await.unwrap();
    assert!(world.store.outbox(None, None).await.unwrap().is_empty(), "nobody there knows of the question");

    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.store.revoke_roles(ADA, None).await.unwrap_or_default();
    world.store.revoke_roles(ADA, Some(folder("family"))).await.unwrap_or_default();
    world.store.opened(ADA, "tg:77".into(), world.now).await.unwrap();
    assert_eq!(asked(&world, 1).await, pending(OWNER, DESK));

    // They wrote to us meanwhile, whatever the platform says.
    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.hear("tg:8", ADA, "hello").await;
    world.store.unopened(ADA, Missed::NotReached, "no", world.now).await.unwrap();
    assert_eq!(asked(&world, 1).await, pending(ADA, "tg:8"));

    // A chat that a person has set goes first.
    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.store.put_user(ADA, "Ada", Some("tg:5".into()), world.now).await.unwrap();
    world.store.opened(ADA, "tg:77".into(), world.now).await.unwrap();
    assert_eq!(asked(&world, 1).await, pending(ADA, "tg:5"));
}

#[tokio::test]
async fn on_a_platform_that_opens_no_chats_the_address_of_the_id_is_tried_at_last() {
    let world = World::new().await;
    stranger_to_us(&world, ADA).await;
    world.hear(CHAT, BOB, "one").await;
    world.store.unopened(ADA, Missed::NoWay, "no", world.now).await.unwrap();
    assert_eq!(asked(&world, 1).await, pending(OWNER, DESK));
    fail(&world, DESK).await;
    assert_eq!(asked(&world, 1).await, pending(ADA, ADA));
    fail(&world, ADA).await;
    assert_eq!(world.question(1).await.state, State::Undeliverable);
    assert_eq!(world.pick(1, Pick::No, OWNER).await.how, How::Done);
}

/// A root whose platform opens a chat with everybody but 9, and notes in `opened` whom it was asked for. The chat with 8 takes nothing.
fn root() -> Root {
    root_changed(
        &[
            (
                r#"tell({"is": "chat_of", "r": r, "why": "a folder has no chats with one person"})"#,
                r#"tell(open_dm(folder, prefix, r, order["user"]))"#,
            ),
            (r#""media_out", "list_chats"]"#, r#""media_out", "open_dm"]"#),
            (
                "def main():",
                r#"def open_dm(folder, prefix, r, user):
    with open(os.path.join(folder, "opened"), "a") as file:
        file.write(user)
    if user == "9":
        return {"is": "chat_of", "r": r, "why": "9 wants to be left alone"}
    if user != "8":
        os.makedirs(os.path.join(folder, "in", f"with-{user}"), exist_ok=True)
    return {"is": "chat_of", "r": r, "chat": f"{prefix}:with-{user}"}


def main():"#,
            ),
        ],
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    )
}

fn toy(root: &Root) -> std::path::PathBuf {
    root.path().join("toy")
}

/// A stranger of the platform writes.
fn writes(root: &Root, name: &str) {
    let chess = toy(root).join("in/chess");
    fs::write(chess.join("new.part"), name).unwrap();
    fs::rename(chess.join("new.part"), chess.join(format!("{name}.txt"))).unwrap();
}

fn cards(root: &Root, user: &str) -> Vec<String> {
    let Ok(files) = fs::read_dir(toy(root).join(format!("out/with-{user}"))) else { return Vec::new() };
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

fn opened(root: &Root) -> String {
    fs::read_to_string(toy(root).join("opened")).unwrap_or_default()
}

#[test]
fn a_daemon_opens_the_chat_of_an_approver_and_where_it_can_t_the_next_one_is_asked() {
    let root = root();
    root.g2(&["chats", "set", "folder:chess", "policy=request_approval"]);
    for user in ["folder:9", "folder:8", "folder:7"] {
        root.g2(&["users", "role", user, "admin", "--group", "main"]);
    }
    let _daemon = root.serve();
    writes(&root, "1");
    // The file is there before its text is.
    let is_asked = |card: &String| card.starts_with("New sender (question #1)");
    wait_for("the card", || cards(&root, "7").first().is_some_and(is_asked).then_some(()));
    // The second one was asked in a chat that does not take it.
    assert_eq!(opened(&root), "987");
    let listed = root.rows(&["approvals", "list"]);
    assert_eq!(
        (&listed[0]["approver"], &listed[0]["card_chat"]),
        (&"folder:7".into(), &"folder:with-7".into())
    );
    let events = root.json(&["approvals", "show", "1"])["events"].clone();
    let events: Vec<&str> =
        events.as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(events, ["asked", "not reached", "asked next", "not reached", "asked next"]);
    root.g2(&["approvals", "deny", "1"]);
    // Who refused is not asked for again so soon, and the known chats are not opened anew.
    writes(&root, "2");
    wait_for("the second card", || (cards(&root, "7").len() == 3).then_some(()));
    assert_eq!(opened(&root), "987");
    // An owner is told, once, that a chat went.
    let told = root.said("local:main");
    assert_eq!(told.iter().filter(|said| said.contains("folder:with-8")).count(), 1, "{told:?}");
}

#[test]
fn a_daemon_that_dies_with_an_opened_chat_asks_once_in_it() {
    if !fail_points() {
        return;
    }
    let root = root();
    root.g2(&["chats", "set", "folder:chess", "policy=request_approval"]);
    root.g2(&["users", "role", "folder:7", "admin", "--group", "main"]);
    let reached = root.path().join("reached");
    let file = reached.display().to_string();
    writes(&root, "1");
    let daemon = root.spawn(&[("G2_FAILPOINT", "approver.opened"), ("G2_FAILPOINT_FILE", &file)]);
    wait_for("the chat", || Path::new(&reached).exists().then_some(()));
    daemon.wait();
    assert_eq!(root.rows(&["approvals", "list"])[0]["card_chat"], "");
    assert!(cards(&root, "7").is_empty());
    let _daemon = root.serve();
    wait_for("the card", || (!cards(&root, "7").is_empty()).then_some(()));
    wait_for("all to be said", || (root.json(&["channels", "show", "folder"])["unsent"] == 0).then_some(()));
    assert_eq!((cards(&root, "7").len(), opened(&root).as_str()), (1, "77"));
}
