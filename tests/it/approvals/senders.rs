//! Whether a sender is heard.

use g2::domain::heard::approvals::{LIFE_MS, State};
use g2::domain::heard::engage::EngageVerdict;
use g2::domain::heard::engage::Rule;
use g2::domain::heard::origin::Origin;
use g2::{
    domain::heard::people::Role,
    store::{How, Pick},
};

use super::world::{CHAT, DESK, OWNER, World, folder, judged, wiring};

const BOB: &str = "tg:bob";

#[tokio::test]
async fn a_stranger_s_first_message_asks_the_owner_where_they_are() {
    let world = World::new().await;
    let seq = world.hear(CHAT, BOB, "hello").await;
    let open = world.open().await;
    assert_eq!((open.len(), open[0].kind.as_str(), open[0].approver.as_str()), (1, "sender", OWNER));
    assert_eq!((open[0].groups.clone(), open[0].messages.clone()), (vec!["family".to_owned()], vec![seq]));
    let said = world.say_all(DESK).await;
    assert!(said[0].text.contains("bob (tg:bob) wants to talk to family"), "{}", said[0].text);
    let labels: Vec<&str> = said[0].buttons.iter().map(|button| button.label.as_str()).collect();
    assert_eq!(labels, ["Allow", "Deny"]);
    assert!(world.say_all(CHAT).await.is_empty(), "nothing is said to the stranger");
    assert!(world.woken("family", CHAT).is_empty() && world.dropped().await.is_empty());
    assert!(world.why(seq).contains("question 1 waits for local:me"), "{}", world.why(seq));
    assert_eq!(world.store.why(seq, world.now).unwrap().unwrap().approvals, open);
}

#[tokio::test]
async fn of_one_sender_in_one_chat_there_is_one_question_whatever_races() {
    let world = World::new().await;
    for text in ["one", "two", "three"] {
        world.accept(CHAT, BOB, text).await;
    }
    // Two loops that judge the same rows, and a third message between them.
    world.judge().await;
    world.hear(CHAT, BOB, "four").await;
    assert_eq!(world.open().await.len(), 1);
    assert_eq!(world.open().await[0].messages.len(), 4);
    assert_eq!(world.say_all(DESK).await.len(), 1, "one card");
    // The schema holds it, not the code.
    let twice = rusqlite::Connection::open(world.store.path()).unwrap().execute(
        "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at)
         SELECT kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at FROM approvals",
        [],
    );
    assert!(twice.is_err());
    // Other senders, and the same one elsewhere, are questions of their own.
    world.hear(CHAT, "tg:eve", "hi").await;
    world.store.add_wiring(wiring("family", "tg:-200"), world.now).await.unwrap();
    world.hear("tg:-200", BOB, "hi").await;
    assert_eq!(world.open().await.len(), 3);
}

#[tokio::test]
async fn all_that_a_sender_said_meanwhile_is_answered_in_order_and_once() {
    let world = World::new().await;
    let id = world.stranger(BOB, "one").await;
    world.hear(CHAT, "tg:eve", "between").await;
    world.hear(CHAT, BOB, "two").await;
    world.hear(CHAT, BOB, "three").await;
    world.yes(id).await;
    assert_eq!(world.woken("family", CHAT), ["one", "two", "three"]);
    assert_eq!(world.store.members(Some(&folder("family"))).await.unwrap()[0].user, BOB);
    // A second yes changes nothing, and says what was decided.
    let again = world.pick(id, Pick::Yes, OWNER).await;
    assert_eq!(again.how, How::Late);
    assert!(again.says.contains("was answered by local:me: allow"), "{}", again.says);
    assert_eq!(world.woken("family", CHAT).len(), 3);
    world.hear(CHAT, BOB, "four").await;
    assert_eq!(world.woken("family", CHAT).len(), 4);
    assert!(world.say_all(DESK).await.iter().any(|said| said.text.starts_with("Allowed by local:me")));
}

#[tokio::test]
async fn a_no_is_told_only_to_its_author_and_is_counted() {
    let world = World::new().await;
    let id = world.stranger(BOB, "one").await;
    let second = world.hear(CHAT, BOB, "two").await;
    assert_eq!(world.pick(id, Pick::No, OWNER).await.how, How::Done);
    assert!(world.woken("family", CHAT).is_empty() && world.say_all(CHAT).await.is_empty());
    assert_eq!(world.dropped().await, [(BOB.to_owned(), 2)]);
    assert!(world.store.members(None).await.unwrap().is_empty());
    assert!(world.why(second).contains("was answered by local:me: deny"), "{}", world.why(second));
    assert_eq!(world.audit(id).await, ["g2: asked", "local:me: denied"]);
    assert_eq!(world.pick(id, Pick::Yes, OWNER).await.how, How::Late, "a no is not undone by a late yes");
}

#[tokio::test]
async fn a_yes_when_all_groups_are_gone_allows_nothing_and_says_so() {
    let world = World::new().await;
    let id = world.stranger(BOB, "hello").await;
    world.sql("PRAGMA foreign_keys = ON; DELETE FROM groups WHERE folder = 'family'");
    let decided = world.pick(id, Pick::Yes, OWNER).await;
    assert_eq!(decided.how, How::Late);
    assert!(decided.says.contains("is not allowed anything: every group"), "{}", decided.says);
    assert_eq!(world.question(id).await.state, State::Expired);
    assert!(
        world.question(id).await.outcome().contains("were removed"),
        "{}",
        world.question(id).await.outcome()
    );
    assert!(world.store.users().await.unwrap().iter().all(|user| user.id != BOB));
    assert_eq!(world.pick(id, Pick::Yes, OWNER).await.how, How::Late);
}

#[tokio::test]
async fn a_user_is_asked_in_the_first_direct_chat_that_they_write_in_and_not_where_nobody_is() {
    let world = World::new().await;
    world.role("tg:7", Role::Admin, Some("family")).await;
    world.sql("UPDATE users SET dm_chat = NULL WHERE id = 'tg:7'");
    let asked = async || world.open().await.last().unwrap().card_chat.clone();
    world.hear(CHAT, "tg:eve", "hi").await;
    assert_eq!(asked().await, "", "nobody has seen them in tg:7: a chat is to be opened");
    world.hear(CHAT, "tg:7", "a group is no direct chat").await;
    world.hear("tg:70", "tg:7", "hello").await;
    world.hear("tg:7", "tg:7", "hello").await;
    world.hear(CHAT, BOB, "hi").await;
    assert_eq!(asked().await, "tg:70");
    // Somebody of the command line's choice is asked where it says.
    world.store.put_user("tg:7", "Ada", Some("tg:-5".into()), world.now).await.unwrap();
    world.hear("tg:7", "tg:7", "again").await;
    world.hear(CHAT, "tg:carl", "hi").await;
    assert_eq!(asked().await, "tg:-5");
    // What was written before somebody was a user counts as well.
    world.sql("UPDATE users SET dm_chat = NULL WHERE id = 'tg:7'");
    world.hear(CHAT, "tg:dan", "hi").await;
    assert_eq!(asked().await, "tg:7");
}

#[tokio::test]
async fn an_admin_of_the_group_is_asked_before_the_owner_and_may_answer() {
    let world = World::new().await;
    world.role("tg:ada", Role::Admin, Some("family")).await;
    world.hear(CHAT, BOB, "hello").await;
    assert_eq!(
        (world.open().await[0].approver.as_str(), world.open().await[0].card_chat.as_str()),
        ("tg:ada", "tg:ada")
    );
    assert_eq!(world.pick(1, Pick::Yes, "tg:ada").await.how, How::Done);
    assert_eq!(world.woken("family", CHAT), ["hello"]);
}

#[tokio::test]
async fn only_owners_and_admins_of_everything_or_of_the_group_may_answer() {
    for (role, group, how) in [
        (Some(Role::Owner), None, How::Done),
        (Some(Role::Admin), None, How::Done),
        (Some(Role::Admin), Some("family"), How::Done),
        (Some(Role::Admin), Some("main"), How::NotAllowed),
        (None, None, How::NotAllowed),
    ] {
        let world = World::new().await;
        let id = world.stranger(BOB, "hello").await;
        if let Some(role) = role {
            world.role("tg:ada", role, group).await;
        }
        assert_eq!(world.pick(id, Pick::Yes, "tg:ada").await.how, how, "{role:?} {group:?}");
        assert_eq!(world.open().await.is_empty(), how == How::Done, "{role:?} {group:?}");
    }
}

#[tokio::test]
async fn two_groups_that_do_not_know_a_sender_make_one_question_and_one_answer() {
    let world = World::with(super::world::asking(), &["family", "work"]).await;
    let id = world.stranger(BOB, "hello").await;
    assert_eq!((world.open().await.len(), world.question(id).await.groups.len()), (1, 2));
    world.yes(id).await;
    for group in ["family", "work"] {
        assert_eq!(world.woken(group, CHAT), ["hello"], "{group}");
    }
}

#[tokio::test]
async fn a_question_that_an_answer_does_not_cover_goes_to_another_person() {
    for pick in [Pick::Yes, Pick::No] {
        let world = World::with(super::world::asking(), &["family", "work"]).await;
        world.role("tg:ada", Role::Admin, Some("family")).await;
        let id = world.stranger(BOB, "hello").await;
        assert_eq!(world.question(id).await.approver, OWNER, "the one who may answer all of it");
        world.pick(id, pick.clone(), "tg:ada").await;
        let left = world.open().await;
        assert_eq!((left.len(), left[0].groups.clone()), (1, vec!["work".to_owned()]), "{pick:?}");
        assert!(world.woken("work", CHAT).is_empty());
        assert_eq!(world.woken("family", CHAT).len(), usize::from(pick == Pick::Yes));
        world.yes(left[0].id).await;
        assert_eq!(world.woken("work", CHAT), ["hello"]);
    }
}

#[tokio::test]
async fn a_replay_touches_no_other_group_of_the_chat() {
    let world = World::with(super::world::asking(), &["family", "work"]).await;
    world.store.add_member(BOB, folder("work"), OWNER, world.now).await.unwrap();
    let id = world.stranger(BOB, "hello").await;
    assert_eq!(world.woken("work", CHAT), ["hello"], "it knows him");
    world.yes(id).await;
    assert_eq!(world.woken("work", CHAT), ["hello"]);
    assert_eq!(world.woken("family", CHAT), ["hello"]);
    assert_eq!(world.column::<i64>("SELECT count(*) FROM inbox"), [2]);
}

#[tokio::test]
async fn somebody_who_is_admitted_while_their_message_is_judged_is_not_asked_about() {
    let world = World::new().await;
    world.accept(CHAT, BOB, "hello").await;
    let row = world.store.unjudged(10).await.unwrap().remove(0);
    world.store.add_member(BOB, folder("family"), OWNER, world.now).await.unwrap();
    let stale = g2::store::Judged {
        n: row.n,
        read_as: row.read_as(),
        verdict: EngageVerdict::Ignore,
        rule: Rule::UnknownSender,
        reason: "stale".into(),
        sticks: false,
        refused: Some(g2::domain::heard::access::Unheeded::Asked),
        answers: None,
    };
    assert!(world.store.judge(vec![stale], world.now).await.unwrap().again);
    assert!(world.open().await.is_empty());
    world.judge().await;
    assert_eq!(world.woken("family", CHAT), ["hello"]);
}

#[tokio::test]
async fn a_wiring_for_known_senders_counts_and_does_not_ask() {
    let world = World::new().await;
    world.set_chat(CHAT, "unknown_sender_policy", "public");
    world.sql("UPDATE wirings SET sender_scope = 'known'");
    world.hear(CHAT, BOB, "hello").await;
    assert_eq!((world.open().await.len(), world.dropped().await), (0, vec![(BOB.to_owned(), 1)]));
}

#[tokio::test]
async fn a_message_that_would_wake_nobody_asks_nothing() {
    let world = World::new().await;
    world.sql("UPDATE wirings SET engage_mode = 'mention', engage_pattern = NULL WHERE chat_jid = 'tg:-100'");
    world.hear(CHAT, BOB, "hello").await;
    assert!(world.open().await.is_empty() && world.dropped().await.is_empty());
    world.hear(CHAT, BOB, "@G2 hello").await;
    assert_eq!(world.open().await.len(), 1);
}

#[tokio::test]
async fn where_nobody_can_be_asked_it_is_counted_and_says_why() {
    let world = World::new().await;
    world.role("sms:1", Role::Owner, None).await;
    world.sql("UPDATE users SET dm_chat = 'sms:2' WHERE id = 'local:me'");
    let seq = world.hear(CHAT, BOB, "hello").await;
    assert!(world.open().await.is_empty());
    assert_eq!(world.dropped().await, [(BOB.to_owned(), 1)]);
    assert!(world.why(seq).contains("nobody who may decide can be reached"), "{}", world.why(seq));
    world.sql("DELETE FROM roles");
    let seq = world.hear(CHAT, BOB, "hello").await;
    assert!(world.why(seq).contains("neither an owner nor an admin"), "{}", world.why(seq));
    assert_eq!(world.dropped().await, [(BOB.to_owned(), 2)]);
}

#[tokio::test]
async fn a_wiring_that_is_gone_by_the_answer_hears_nothing_and_the_audit_says_so() {
    let world = World::new().await;
    let id = world.stranger(BOB, "hello").await;
    world.store.remove_wiring(folder("family"), CHAT).await.unwrap();
    world.yes(id).await;
    assert_eq!(world.audit(id).await, ["g2: asked", "local:me: approved", "g2: not replayed"]);
    assert!(world.woken("family", CHAT).is_empty());
}

#[tokio::test]
async fn a_group_that_is_removed_while_a_stranger_is_judged_stops_nobody_elses_judgement() {
    let world = World::with(super::world::asking(), &["family", "work"]).await;
    world.accept(CHAT, BOB, "hello").await;
    let rows = world.store.unjudged(10).await.unwrap();
    world.store.remove_group(folder("work")).await.unwrap();
    world.store.judge(rows.iter().map(judged).collect(), world.now).await.unwrap();
    let open = world.open().await;
    assert_eq!((rows.len(), open.len()), (2, 1));
    assert_eq!(open[0].groups, ["family"]);
}

#[tokio::test]
async fn an_edit_after_a_question_has_ended_is_judged_as_its_sender_stands_by_then() {
    let mut world = World::new().await;
    let edit = async |world: &World, of: &str, text: &str| {
        let change = |event: &mut g2::domain::rows::Inbound| {
            (event.id, event.origin) = (of.into(), Origin::Edited);
        };
        world.hear_as(CHAT, BOB, text, change).await
    };
    let id = world.stranger(BOB, "hello").await;
    assert_eq!(world.pick(id, Pick::No, OWNER).await.how, How::Done);
    // The no is not remembered, so the new words ask again; nobody answers in time.
    edit(&world, "k1", "hello again").await;
    assert_eq!(world.open().await.len(), 1);
    world.later(LIFE_MS + 1);
    assert_eq!(world.store.expire_approvals(world.now).await.unwrap(), 1);
    // Meanwhile the group knows him.
    world.store.add_member(BOB, folder("family"), OWNER, world.now).await.unwrap();
    edit(&world, "k1", "hello once more").await;
    assert_eq!(world.woken("family", CHAT), ["hello once more"]);
    // A chat that nobody hears asks anew, too.
    world.hear("tg:new", BOB, "@G2 hi").await;
    let id = world.open().await[0].id;
    assert_eq!(world.pick(id, Pick::No, OWNER).await.how, How::Done);
    let change = |event: &mut g2::domain::rows::Inbound| {
        (event.id, event.origin) = ("k4".into(), Origin::Edited);
    };
    world.hear_as("tg:new", BOB, "@G2 please", change).await;
    assert_eq!(world.open().await.len(), 1);
}

#[tokio::test]
async fn an_edit_under_a_question_waits_behind_the_words_that_were_shown() {
    let world = World::new().await;
    let id = world.stranger(BOB, "hello").await;
    for text in ["pay me", "pay me at once"] {
        let change = |event: &mut g2::domain::rows::Inbound| {
            (event.id, event.origin) = ("k1".into(), Origin::Edited);
        };
        world.hear_as(CHAT, BOB, text, change).await;
    }
    assert_eq!((world.open().await.len(), world.open().await[0].messages.len()), (1, 3));
    assert!(world.question(id).await.messages.len() == 3 && world.woken("family", CHAT).is_empty());
    world.yes(id).await;
    assert_eq!(world.woken("family", CHAT), ["hello", "pay me", "pay me at once"]);
}
