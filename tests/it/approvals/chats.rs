//! What to do with a chat that no group is wired to.

use g2::domain::heard::{
    chat_commands::{Word, Words},
    engage::Rule,
};
use g2::{
    domain::{heard::people::Role, platforms::chats::ChatKind, rows::ChatChanges},
    store::{Asking, How, Pick},
};
use ipc_handlers::effect::EngageMode;

use super::world::{DESK, OWNER, World, folder, wiring};

const NEW: &str = "tg:-200";
const BOB: &str = "tg:bob";

#[tokio::test]
async fn a_mention_in_an_unknown_group_asks_and_chatter_there_does_not() {
    let world = World::new().await;
    world.hear(NEW, BOB, "anybody here?").await;
    assert!(world.open().await.is_empty() && world.dropped().await.is_empty());
    let seq = world.hear(NEW, BOB, "@G2 hello").await;
    let open = world.open().await;
    assert_eq!((open.len(), open[0].kind.as_str(), open[0].approver.as_str()), (1, "channel", OWNER));
    let main = "Connect to main (can act in every chat)";
    assert_eq!(open[0].options, ["Connect to family", "Create a new agent", "Ignore", main]);
    assert_eq!(open[0].messages, [seq]);
    let said = world.say_all(DESK).await;
    assert!(said[0].text.contains("a group that no agent is connected to"), "{}", said[0].text);
    assert!(world.why(seq).contains("question 1 waits for local:me"), "{}", world.why(seq));
}

#[tokio::test]
async fn a_command_wires_no_chat_but_the_direct_one_of_an_owner_and_asks_nobody() {
    let words = Words::new([(Word::Status, Some("/status".to_owned()))]);
    let world = World::with(Asking { words, ..super::world::asking() }, &[]).await;
    world.role("tg:ada", Role::Owner, None).await;
    for (kind, who) in [("direct", BOB), ("group", "tg:ada")] {
        world.set_chat(NEW, "kind", kind);
        let seq = world.hear(NEW, who, " /STATUS ").await;
        assert!(world.wirings_of(NEW).await.is_empty() && world.open().await.is_empty(), "{who}");
        assert!(world.why(seq).contains("no group is wired"), "{}", world.why(seq));
    }
    world.set_chat(NEW, "kind", "direct");
    world.hear(NEW, "tg:ada", "/status").await;
    assert_eq!(world.wirings_of(NEW).await.len(), 1);
}

#[tokio::test]
async fn an_owner_whose_command_no_group_hears_reads_how_the_chat_is_wired_and_others_read_nothing() {
    let words = Words::new([(Word::Status, Some("/status".to_owned()))]);
    let mut world = World::with(Asking { words, ..super::world::asking() }, &["family"]).await;
    world.role("tg:ada", Role::Owner, None).await;
    world.role("tg:amy", Role::Admin, Some("family")).await;
    for chat in ["tg:ada", "tg:amy", BOB] {
        world.set_chat(chat, "kind", "direct");
    }
    world.hear("tg:amy", "tg:amy", "/status").await;
    world.hear(BOB, BOB, "/status").await;
    world.hear_as("tg:ada", "tg:ada", "/status", |event| event.late = true).await;
    world.hear_as("tg:ada", "tg:ada", "/status", |event| event.bot = true).await;
    for chat in ["tg:ada", "tg:amy", BOB] {
        assert_eq!(world.say_all(chat).await.len(), 0, "{chat}");
    }
    let seq = world.hear("tg:ada", "tg:ada", "/status").await;
    world.hear("tg:ada", "tg:ada", "/status").await;
    let said = world.say_all("tg:ada").await;
    let told = "No group listens here. This wires one, with its folder from g2 groups list: g2 wirings add --group FOLDER --chat tg:ada";
    assert_eq!(said.iter().map(|said| said.text.as_str()).collect::<Vec<_>>(), [told]);
    assert!(world.why(seq).contains("no group is wired to this chat"), "{}", world.why(seq));
    let reasons = world.column::<String>("SELECT reason FROM dropped WHERE sender = 'tg:ada'");
    assert!(reasons.iter().any(|why| why.contains("its sender was told how to")), "{reasons:?}");
    assert!(world.wirings_of("tg:ada").await.is_empty() && world.open().await.is_empty());
    world.later(600_001);
    world.hear("tg:ada", "tg:ada", "/status").await;
    assert_eq!(world.say_all("tg:ada").await.len(), 1, "after ten minutes it is told again");
    // A choice was made: the command can be typed as it stands.
    world.store.add_wiring(super::world::wiring("family", "tg:ada"), world.now).await.unwrap();
    world.later(600_001);
    world.hear("tg:ada", "tg:ada", "/status").await;
    assert_eq!(world.say_all("tg:ada").await.len(), 0);
}

#[tokio::test]
async fn in_a_direct_chat_every_message_asks_and_there_is_one_question_a_chat() {
    let world = World::new().await;
    world.set_chat(NEW, "kind", "direct");
    world.hear(NEW, BOB, "hello").await;
    world.hear(NEW, BOB, "anybody?").await;
    world.hear(NEW, "tg:eve", "me too").await;
    assert_eq!(world.open().await.len(), 1);
    assert_eq!(world.open().await[0].messages.len(), 3);
    let said = world.say_all(DESK).await;
    assert!(said.len() == 1 && said[0].text.starts_with("New direct chat"), "{said:?}");
}

#[tokio::test]
async fn every_message_that_waited_is_answered_oldest_first() {
    let world = World::new().await;
    world.set_chat(NEW, "kind", "direct");
    for text in ["one", "two", "three"] {
        world.hear(NEW, BOB, text).await;
    }
    assert_eq!(world.pick(1, Pick::Connect(folder("family")), OWNER).await.how, How::Done);
    assert_eq!(world.wirings_of(NEW).await, [("family".to_owned(), "pattern".to_owned())]);
    assert_eq!(world.woken("family", NEW), ["one", "two", "three"]);
    assert_eq!(world.store.members(None).await.unwrap()[0].user, BOB);
    assert!(world.open().await.is_empty());
    let shown = serde_json::to_value(world.store.approvals(true).await.unwrap()).unwrap();
    assert_eq!(
        (&shown[0]["decision"], &shown[0]["decided_group"]),
        (&"connect family".into(), &"family".into())
    );
}

#[tokio::test]
async fn only_whom_the_card_names_is_admitted_and_others_are_asked_about() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 one").await;
    world.hear(NEW, "tg:eve", "@G2 two").await;
    world.pick(1, Pick::Connect(folder("family")), OWNER).await;
    assert_eq!(world.woken("family", NEW), ["@G2 one"]);
    let open = world.open().await;
    assert_eq!((open.len(), open[0].kind.as_str(), open[0].sender.as_str()), (1, "sender", "tg:eve"));
    world.yes(open[0].id).await;
    assert_eq!(world.woken("family", NEW), ["@G2 one", "@G2 two"]);
}

#[tokio::test]
async fn a_chat_is_wired_as_its_kind_says_whatever_its_messages_threads() {
    for (kind, threaded, thread, mode) in [
        ("group", "0", "", "mention"),
        ("group", "0", "t1", "mention"),
        ("group", "1", "", "mention-sticky"),
        ("direct", "0", "t1", "pattern"),
    ] {
        let world = World::new().await;
        world.set_chat(NEW, "kind", kind);
        world.set_chat(NEW, "threaded", threaded);
        world.hear_as(NEW, BOB, "@G2 hello", |event| event.thread = thread.into()).await;
        world.pick(1, Pick::Connect(folder("family")), OWNER).await;
        assert_eq!(
            world.wirings_of(NEW).await,
            [("family".to_owned(), mode.to_owned())],
            "{kind} {threaded} {thread:?}"
        );
        assert_eq!(world.woken("family", NEW), ["@G2 hello"], "{kind} {thread:?}");
        // What it does not answer it reads with what it answers, as a group that was added by hand does.
        let kept: Vec<String> =
            world.column(&format!("SELECT ignored_message_policy FROM wirings WHERE chat_jid = '{NEW}'"));
        assert_eq!(kept, [if mode == "pattern" { "drop" } else { "accumulate" }], "{kind} {threaded}");
    }
}

#[tokio::test]
async fn a_message_that_was_asked_about_engages_once_approved_even_if_its_chat_has_changed() {
    for threaded in [false, true] {
        let world = World::new().await;
        world.set_chat(NEW, "kind", "direct");
        let seq = world.hear(NEW, BOB, "hello").await;
        assert!(world.say_all(DESK).await[0].text.contains("will answer every message there"));
        let now_a_group =
            ChatChanges { kind: Some(ChatKind::Group), threaded: Some(threaded), ..ChatChanges::default() };
        world.store.set_chat(NEW, now_a_group).await.unwrap();
        let decided = world.pick(1, Pick::Connect(folder("family")), OWNER).await;
        assert!(decided.says.contains("when it is mentioned"), "{}", decided.says);
        assert_eq!(world.woken("family", NEW), ["hello"]);
        let why = &world.store.why(seq, world.now).unwrap().unwrap().wirings[0];
        assert_eq!(why.rule, Some(Rule::Approved), "{why:?}");
        // What comes later is heard as the chat's kind says: its main line is no thread in which the agent listens on.
        world.hear(NEW, BOB, "la la").await;
        assert_eq!(world.woken("family", NEW), ["hello"]);
    }
}

#[tokio::test]
async fn a_group_with_another_trigger_answers_messages_that_were_addressed_to_main() {
    let world = World::new().await;
    world.sql("UPDATE groups SET trigger = '@Ann' WHERE folder = 'family'");
    world.hear_as(NEW, BOB, "@G2 hello", |event| event.mentioned = false).await;
    world.pick(1, Pick::Connect(folder("family")), OWNER).await;
    assert_eq!(world.woken("family", NEW), ["@G2 hello"]);
    world.hear_as(NEW, BOB, "@G2 again", |event| event.mentioned = false).await;
    assert_eq!(world.woken("family", NEW).len(), 1);
}

#[tokio::test]
async fn a_chat_that_is_wired_by_hand_is_heard_by_the_rule_that_was_given() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.store.add_member(BOB, folder("family"), OWNER, world.now).await.unwrap();
    let by_mention = g2::store::NewWiring {
        engage_mode: EngageMode::Pattern,
        engage_pattern: Some("^deploy".into()),
        ..wiring("family", NEW)
    };
    world.store.add_wiring(by_mention, world.now).await.unwrap();
    world.judge().await;
    assert!(world.woken("family", NEW).is_empty());
}

#[tokio::test]
async fn an_owner_s_word_wires_at_once_where_there_is_one_group() {
    let world = World::with(super::world::asking(), &[]).await;
    world.role("tg:ada", Role::Admin, None).await;
    world.hear(NEW, "tg:ada", "just talk").await;
    assert!(world.wirings_of(NEW).await.is_empty(), "nobody was addressed");
    let accepted = world.accept(NEW, "tg:ada", "@G2 hello").await;
    assert_eq!((accepted.wired, accepted.note.as_deref()), (1, Some("tg:-200 is wired to group main now")));
    world.judge().await;
    assert_eq!(world.wirings_of(NEW).await, [("main".to_owned(), "mention".to_owned())]);
    assert_eq!(world.woken("main", NEW), ["@G2 hello"]);
    assert!(world.store.approvals(true).await.unwrap().is_empty());
    // Who unwired it meant that.
    world.store.remove_wiring(folder("main"), NEW).await.unwrap();
    world.hear(NEW, "tg:ada", "@G2 hello again").await;
    assert!(world.wirings_of(NEW).await.is_empty());
    assert_eq!(world.open().await.len(), 1);
}

#[tokio::test]
async fn an_owner_with_several_groups_and_another_person_with_one_are_asked() {
    let several = World::new().await;
    several.role("tg:ada", Role::Owner, None).await;
    several.hear(NEW, "tg:ada", "@G2 hello").await;
    let open = several.open().await;
    assert_eq!((open.len(), open[0].approver.as_str()), (1, "tg:ada"), "on her channel");
    let one = World::with(super::world::asking(), &[]).await;
    one.hear(NEW, BOB, "@G2 hello").await;
    assert_eq!((one.open().await.len(), one.wirings_of(NEW).await.len()), (1, 0));
}

#[tokio::test]
async fn a_strict_chat_asks_about_nobody_that_is_unknown_and_counts_them() {
    let world = World::new().await;
    world.set_chat(NEW, "unknown_sender_policy", "strict");
    let accepted = world.accept(NEW, BOB, "@G2 hello").await;
    assert!(accepted.note.unwrap().contains("strict"));
    assert_eq!((world.open().await.len(), world.dropped().await), (0, vec![(BOB.to_owned(), 1)]));
    assert_eq!(world.store.dropped(None).await.unwrap()[0].rule, "unknown_chat");
}

#[tokio::test]
async fn without_an_owner_or_without_a_group_nobody_is_asked_and_it_is_counted() {
    let world = World::new().await;
    world.sql("DELETE FROM roles");
    world.hear(NEW, BOB, "@G2 hello").await;
    assert_eq!((world.open().await.len(), world.dropped().await), (0, vec![(BOB.to_owned(), 1)]));
    let world = World::new().await;
    world.sql("DELETE FROM groups");
    world.hear(NEW, BOB, "@G2 hello").await;
    assert_eq!((world.open().await.len(), world.dropped().await), (0, vec![(BOB.to_owned(), 1)]));
}

#[tokio::test]
async fn bots_and_our_own_messages_ask_nothing() {
    let world = World::new().await;
    world.set_chat(NEW, "kind", "direct");
    world.hear_as(NEW, BOB, "@G2 beep", |event| event.bot = true).await;
    world.hear_as(NEW, BOB, "@G2 hello", |event| event.from_me = true).await;
    assert!(world.open().await.is_empty() && world.dropped().await.is_empty());
}

#[tokio::test]
async fn a_group_that_is_gone_cannot_be_chosen_and_the_question_stays() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.store.remove_group(folder("family")).await.unwrap();
    let decided = world.pick(1, Pick::Choice(0), OWNER).await;
    assert_eq!(decided.how, How::Not);
    assert!(decided.says.contains("there is no group family any more"), "{}", decided.says);
    assert_eq!((world.open().await.len(), world.wirings_of(NEW).await.len()), (1, 0));
    assert_eq!(world.pick(1, Pick::Choice(3), OWNER).await.how, How::Done);
    assert_eq!(world.woken("main", NEW), ["@G2 hello"]);
}

#[tokio::test]
async fn no_group_is_made_of_a_name_that_is_being_removed() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.store.remove_group(folder("family")).await.unwrap();
    let decided = world.pick(1, Pick::New("Family".into()), OWNER).await;
    assert_eq!(decided.how, How::Not);
    assert!(decided.says.contains("An earlier group family is being removed"), "{}", decided.says);
    assert_eq!(world.open().await.len(), 1);
    world.store.has_left(folder("family")).await.unwrap();
    assert_eq!(world.pick(1, Pick::New("Family".into()), OWNER).await.how, How::Done);
    assert_eq!(world.woken("family", NEW), ["@G2 hello"]);
}

#[tokio::test]
async fn above_the_bound_on_groups_no_answer_makes_one_and_its_question_stays_open() {
    let world = World::with(Asking { groups: 2, ..super::world::asking() }, &["family"]).await;
    world.hear(NEW, BOB, "@G2 hello").await;
    let decided = world.pick(1, Pick::New("Chess".into()), OWNER).await;
    assert_eq!(decided.how, How::Not);
    assert!(decided.says.contains("limits.groups allows 2"), "{}", decided.says);
    assert_eq!(world.open().await.len(), 1);
    assert_eq!(world.pick(1, Pick::Connect(folder("family")), OWNER).await.how, How::Done);
}

#[tokio::test]
async fn a_group_s_admin_may_only_connect_a_chat_to_that_group() {
    let world = World::new().await;
    world.role("tg:ada", Role::Admin, Some("family")).await;
    world.hear(NEW, BOB, "@G2 hello").await;
    for pick in [Pick::Connect(folder("main")), Pick::New("Mine".into()), Pick::No, Pick::Choice(2)] {
        assert_eq!(world.pick(1, pick.clone(), "tg:ada").await.how, How::NotAllowed, "{pick:?}");
    }
    assert_eq!(world.pick(1, Pick::Connect(folder("family")), "tg:ada").await.how, How::Done);
}

#[tokio::test]
async fn a_sender_without_a_name_makes_a_question_and_no_member() {
    let world = World::new().await;
    world
        .hear_as(NEW, BOB, "@G2 hello", |event| {
            event.sender = String::new();
            event.sender_name = String::new();
        })
        .await;
    assert!(world.say_all(DESK).await[0].text.contains("somebody writes"));
    world.pick(1, Pick::Connect(folder("family")), OWNER).await;
    assert!(world.store.members(None).await.unwrap().is_empty());
    assert_eq!(world.wirings_of(NEW).await.len(), 1);
}

#[tokio::test]
async fn a_chat_that_is_wired_by_other_means_gets_waiting_messages_and_admits_nobody() {
    let world = World::new().await;
    world.hear(NEW, BOB, "@G2 hello").await;
    world.store.add_member("tg:eve", folder("family"), OWNER, world.now).await.unwrap();
    world.hear(NEW, "tg:eve", "@G2 me too").await;
    world.store.add_wiring(wiring("family", NEW), world.now).await.unwrap();
    world.judge().await;
    assert_eq!(
        (world.question(1).await.state.as_str(), world.audit(1).await),
        ("approved", vec!["g2: asked".into(), "g2: wired otherwise".into()])
    );
    assert_eq!(world.woken("family", NEW), ["@G2 me too"]);
    let open = world.open().await;
    assert_eq!((open.len(), open[0].kind.as_str(), open[0].sender.as_str()), (1, "sender", BOB));
    assert_eq!(world.pick(1, Pick::Connect(folder("main")), OWNER).await.how, How::Late);
    assert_eq!(world.say_all(DESK).await[1].text, "Question #1 is settled: tg:-200 was wired to family.");
}
