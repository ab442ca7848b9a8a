//! How answers are given.

use g2::domain::heard::approvals::State;
use g2::domain::heard::engage::Rule;
use g2::domain::heard::origin::Origin;
use g2::{
    domain::heard::people::Role,
    store::{How, Pick},
};

use super::world::{CHAT, DESK, OWNER, World, folder};

const BOB: &str = "tg:bob";

#[tokio::test]
async fn a_number_or_a_label_in_the_card_s_chat_is_the_answer_and_no_prompt() {
    for (text, allowed) in [("1", true), (" allow ", true), ("#1 1", true), ("2", false), ("DENY", false)] {
        let world = World::new().await;
        world.stranger(BOB, "hello").await;
        let seq = world.hear(DESK, OWNER, text).await;
        assert!(world.open().await.is_empty(), "{text:?}");
        assert_eq!(world.woken("family", CHAT).len(), usize::from(allowed), "{text:?}");
        assert!(world.woken("main", DESK).is_empty(), "{text:?} is no prompt");
        let why = world.store.why(seq, world.now).unwrap().unwrap();
        assert_eq!(why.wirings[0].rule, Some(Rule::Answer), "{text:?}");
        assert_eq!(world.say_all(DESK).await.len(), 1, "{text:?}: one confirmation");
    }
}

#[tokio::test]
async fn a_text_that_is_no_answer_is_a_prompt_and_the_card_stays() {
    let world = World::new().await;
    world.stranger(BOB, "hello").await;
    for text in ["3", "1 please", "yes", "who is that?", "#1 what?", "#7 1"] {
        world.hear(DESK, OWNER, text).await;
    }
    assert_eq!(world.open().await.len(), 1);
    assert_eq!(world.woken("main", DESK).len(), 6);
}

#[tokio::test]
async fn what_is_forwarded_or_edited_answers_nothing_and_its_sender_is_told() {
    for (origin, told) in [
        (Origin::Forwarded, "A forwarded message answers no"),
        (Origin::Edited, "An edited message answers no"),
    ] {
        for text in ["1", "allow", "#1 1"] {
            let world = World::new().await;
            world.stranger(BOB, "hello").await;
            let seq = world.hear_as(DESK, OWNER, text, |event| event.origin = origin).await;
            assert_eq!(world.open().await.len(), 1, "{origin} {text:?}");
            assert_eq!(world.woken("main", DESK), [text], "{origin}: it is a text as any other");
            let said = world.say_all(DESK).await;
            assert!(said.len() == 1 && said[0].text.starts_with(told), "{said:?}");
            let done = world.store.approval(1).await.unwrap().unwrap().1;
            assert!(
                done.iter().any(|event| event.what == "passed over" && event.message == Some(seq)),
                "{done:?}"
            );
            // The answer that its sender writes then is one, even a number alone.
            world.hear(DESK, OWNER, "1").await;
            assert!(world.open().await.is_empty(), "{origin} {text:?}");
            // Afterwards there is nothing that it could answer.
            world.hear_as(DESK, OWNER, "1", |event| event.origin = origin).await;
            assert!(world.say_all(DESK).await.iter().all(|said| !said.text.starts_with(told)));
        }
    }
}

#[tokio::test]
async fn a_number_of_somebody_without_the_right_is_a_message() {
    let world = World::new().await;
    world.stranger(BOB, "hello").await;
    world.hear(DESK, "local:guest", "1").await;
    world.hear_as(DESK, OWNER, "1", |event| event.bot = true).await;
    world.hear_as(DESK, OWNER, "1", |event| event.from_me = true).await;
    assert_eq!(world.open().await.len(), 1);
    assert_eq!(world.woken("main", DESK), ["1"], "the guest's");
    // The same number in another chat is one as well.
    world.hear("local:elsewhere", OWNER, "1").await;
    assert!(
        world
            .open()
            .await
            .iter()
            .any(|question| question.kind == g2::domain::heard::approvals::ApprovalKind::Sender)
    );
}

#[tokio::test]
async fn a_number_typed_before_the_card_was_said_is_a_message() {
    let world = World::new().await;
    world.hear(CHAT, BOB, "hello").await;
    world.hear(DESK, OWNER, "1").await;
    assert_eq!((world.open().await.len(), world.woken("main", DESK)), (1, vec!["1".to_owned()]));
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, "1").await;
    assert!(world.open().await.is_empty());
}

#[tokio::test]
async fn of_several_open_cards_a_plain_number_is_none_s_and_the_name_or_the_reply_says_which() {
    let world = World::new().await;
    let (bob, eve) = (world.stranger(BOB, "hello").await, world.stranger("tg:eve", "hi").await);
    world.agent_says(DESK, "Pick 1 or 2?");
    for text in ["1", "allow", "deny"] {
        world.hear(DESK, OWNER, text).await;
    }
    assert_eq!(world.open().await.len(), 2, "nothing is guessed");
    assert_eq!(world.woken("main", DESK), ["1", "allow", "deny"], "they are messages to the agent");
    world.hear(DESK, OWNER, &format!("#{eve} 1")).await;
    assert_eq!(world.question(eve).await.state, State::Approved);
    let _third = world.stranger("tg:zoe", "hey").await;
    let card: Vec<i64> = world.column(&format!("SELECT card FROM approvals WHERE id = {bob}"));
    world.hear_as(DESK, OWNER, "2", |event| event.reply_to_id = Some(format!("p{}", card[0]))).await;
    assert_eq!(world.question(bob).await.state, State::Denied);
    assert_eq!(world.open().await.len(), 1);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_told_the_decision() {
    let world = World::new().await;
    let id = world.stranger(BOB, "hello").await;
    world.role("local:ada", Role::Owner, None).await;
    world.pick(id, Pick::No, "local:ada").await;
    world.say_all(DESK).await;
    world.hear(DESK, OWNER, &format!("#{id} 1")).await;
    let told = world.say_all(DESK).await;
    assert_eq!(told[0].text, "question 1 was answered by local:ada: deny");
    assert!(world.woken("family", CHAT).is_empty() && world.woken("main", DESK).is_empty());
    // So is a reply to its card, by number or label; every other reply is a message.
    let card: Vec<i64> = world.column(&format!("SELECT card FROM approvals WHERE id = {id}"));
    for text in ["1", "allow", "Deny"] {
        world.hear_as(DESK, OWNER, text, |event| event.reply_to_id = Some(format!("p{}", card[0]))).await;
        let told = world.say_all(DESK).await;
        assert_eq!(told[0].text, "question 1 was answered by local:ada: deny", "{text}");
    }
    assert!(world.woken("main", DESK).is_empty());
    world.hear_as(DESK, OWNER, "why?", |event| event.reply_to_id = Some(format!("p{}", card[0]))).await;
    assert_eq!(world.woken("main", DESK), ["why?"]);
    // A person who has no part in it is told nothing.
    world.hear(DESK, "local:guest", &format!("#{id} 1")).await;
    assert_eq!(world.woken("main", DESK), ["why?", "#1 1"]);
}

#[tokio::test]
async fn a_press_acts_as_the_number_does_and_once() {
    let world = World::new().await;
    world.hear(CHAT, BOB, "hello").await;
    let card = world.say_all(DESK).await.remove(0);
    let press = &card.buttons[0].press;
    let first = world.store.click(press, OWNER, world.now).await.unwrap();
    assert_eq!(first.how, How::Done);
    for press in [press, &card.buttons[1].press] {
        let again = world.store.click(press, OWNER, world.now).await.unwrap();
        assert_eq!(
            (again.how, again.says.as_str()),
            (How::Late, "question 1 was answered by local:me: allow")
        );
    }
    world.judge().await;
    assert_eq!(world.woken("family", CHAT), ["hello"]);
    for bad in ["", "1:9", "x:1", "99:1"] {
        let outcome = world.store.click(bad, OWNER, world.now).await;
        assert!(outcome.is_err() || outcome.is_ok_and(|decided| decided.how == How::Not), "{bad:?}");
    }
}

#[tokio::test]
async fn a_press_without_the_right_changes_nothing_and_is_audited() {
    let world = World::new().await;
    world.hear(CHAT, BOB, "hello").await;
    let card = world.say_all(DESK).await.remove(0);
    for user in [BOB, "tg:eve"] {
        let decided = world.store.click(&card.buttons[0].press, user, world.now).await.unwrap();
        assert_eq!(decided.how, How::NotAllowed);
    }
    assert_eq!(world.open().await.len(), 1);
    assert!(world.store.members(None).await.unwrap().is_empty() && world.say_all(DESK).await.is_empty());
    assert_eq!(world.audit(1).await, ["g2: asked", "tg:bob: not allowed", "tg:eve: not allowed"]);
    // The card works on.
    assert_eq!(world.store.click(&card.buttons[0].press, OWNER, world.now).await.unwrap().how, How::Done);
}

#[tokio::test]
async fn a_person_who_lost_the_right_since_the_question_may_not_answer() {
    let world = World::new().await;
    world.role("tg:ada", Role::Admin, Some("family")).await;
    world.hear(CHAT, BOB, "hello").await;
    world.say_all("tg:ada").await;
    world.store.revoke_roles("tg:ada", Some(folder("family"))).await.unwrap();
    world.hear("tg:ada", "tg:ada", "1").await;
    assert_eq!(
        world
            .open()
            .await
            .iter()
            .filter(|question| question.kind == g2::domain::heard::approvals::ApprovalKind::Sender)
            .count(),
        1
    );
    assert_eq!(world.pick(1, Pick::Yes, "tg:ada").await.how, How::NotAllowed);
}

#[tokio::test]
async fn a_number_after_which_somebody_spoke_is_a_message_and_a_named_one_or_a_reply_is_the_answer() {
    // An agent that speaks after the card, somebody who writes after it, nobody.
    for (agent, person, answers) in [(true, false, false), (false, true, false), (false, false, true)] {
        for text in ["1", "deny"] {
            let mut world = World::new().await;
            world.agent_says(DESK, "What shall I order?\n1. Pizza\n2. Pasta");
            let card = world.stranger(BOB, "hello").await;
            world.later(1000);
            if agent {
                world.agent_says(DESK, "Anything else?");
            }
            if person {
                world.hear(DESK, "local:guest", "hi").await;
            }
            let before = world.woken("main", DESK).len();
            world.hear(DESK, OWNER, text).await;
            assert_eq!(world.open().await.is_empty(), answers, "{agent} {person} {text:?}");
            if !answers {
                assert_eq!(world.woken("main", DESK)[before..], [text], "it goes to the agent");
                world.hear(DESK, OWNER, &format!("#{card} {text}")).await;
                assert!(world.open().await.is_empty(), "named, it is the card's");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_to_one_of_several_questions_keeps_no_number_from_being_the_answer_to_the_last() {
    let mut world = World::new().await;
    let first = world.stranger(BOB, "hello").await;
    world.stranger("tg:eve", "hi").await;
    world.later(1000);
    world.hear(DESK, OWNER, &format!("#{first} 1")).await;
    world.say_all(DESK).await;
    world.later(1000);
    world.hear(DESK, OWNER, "2").await;
    assert!(world.open().await.is_empty());
}

#[tokio::test]
async fn a_reply_names_the_platforms_id_and_never_a_row_of_ours() {
    let world = World::new().await;
    let (bob, eve) = (world.stranger(BOB, "hello").await, world.stranger("tg:eve", "hi").await);
    let card: Vec<i64> = world.column(&format!("SELECT card FROM approvals WHERE id = {bob}"));
    // A message of the platform's that is called as the row of a card is.
    world.hear_as(DESK, OWNER, "1", |event| event.reply_to_id = Some(card[0].to_string())).await;
    assert_eq!(world.open().await.len(), 2, "it is no reply to the card");
    // The same in another chat.
    let id = format!("p{}", card[0]);
    world.hear_as("local:elsewhere", OWNER, "1", |event| event.reply_to_id = Some(id.clone())).await;
    assert_eq!(world.question(bob).await.state, State::Pending);
    world.hear_as(DESK, OWNER, "1", |event| event.reply_to_id = Some(id.clone())).await;
    assert_eq!(
        (world.question(bob).await.state, world.question(eve).await.state),
        (State::Approved, State::Pending)
    );
}
