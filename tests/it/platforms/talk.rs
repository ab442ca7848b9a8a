//! What people do, and what they are answered.

use super::*;

#[test]
fn a_message_is_answered_once_and_an_answer_to_that_names_the_agent() {
    for town in Town::all("talk") {
        let home = Home::engaged(&town, "", "mention");
        let _daemon = home.serve(&town);
        town.says("nobody is named");
        town.names("hello");
        let first = wait_for("an answer", || town.said().into_iter().next());
        assert!(first.text.starts_with("echo: ") && first.text.ends_with("hello"), "{first:?}");
        town.replies(&first.id, "and again");
        wait_for("another answer", || (town.said().len() == 2).then_some(()));
        assert_eq!(town.texts()[1], "echo: and again", "{}", town.channel());
        let shown = home.root.json(&["channels", "show", town.channel()]);
        assert!(shown["last_in"].is_string() && shown["last_out"].is_string(), "{shown}");
        assert_eq!((&shown["unsent"], &shown["starts"]), (&json!(0), &json!(1)), "{shown}");
    }
}

#[test]
fn edits_signs_and_deletions_are_kept_and_an_edit_is_read_by_the_agent() {
    for town in Town::all("edits") {
        let home = Home::new(&town, "");
        let _daemon = home.serve(&town);
        let id = town.says("one");
        town.until_said(&["echo: one"]);
        town.reacts(&id);
        home.until_column(
            "SELECT kind || ' ' || reaction || ' ' || sender FROM message_marks",
            &[&format!("reaction 👍 {}", town.ada())],
        );
        town.edits(&id, "two");
        town.until_said(&["echo: one", "echo: two"]);
        let same = "SELECT count(*) || ' of ' || count(DISTINCT id) FROM messages WHERE from_me = 0";
        home.until_column(same, &["2 of 1"]);
        if town.deletes(&id) {
            home.until_column("SELECT kind FROM message_marks WHERE kind = 'deleted'", &["deleted"]);
        }
    }
}

#[test]
fn a_thread_is_answered_in_the_thread() {
    for town in Town::all("threads") {
        let home = Home::new(&town, "");
        if town.threaded() != town.chat() {
            home.wire(&town.threaded(), "pattern");
        }
        let _daemon = home.serve(&town);
        let thread = town.says_in_thread("inside");
        let said = wait_for("the answer in the thread", || {
            town.said().into_iter().find(|said| said.text == "echo: inside")
        });
        assert_eq!(said.thread, thread, "{}", town.channel());
        home.until_column("SELECT DISTINCT thread FROM lanes WHERE thread <> ''", &[&thread]);
    }
}

#[test]
fn a_pressed_button_answers_a_question_and_the_presser_is_told() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    home.root.g2(&["chats", "set", &town.chat(), "policy=request_approval"]);
    let _daemon = home.serve(&town);
    let eve = json!({"id": 777, "is_bot": false, "first_name": "Eve"});
    fake.message(telegram::GROUP, json!({"text": "let me in", "from": eve}));
    let card = wait_for("the question", || fake.said().into_iter().next());
    assert_eq!(card["chat"]["id"], telegram::ADA);
    let press = card["reply_markup"]["inline_keyboard"][0][0]["callback_data"].clone();
    let ada = json!({"id": telegram::ADA, "is_bot": false, "first_name": "Ada"});
    let pressed = |from: &Value| {
        fake.ask("update", &json!({"callback_query": {"from": from, "message": card, "data": press}}));
    };
    // Nobody but who may decide decides.
    pressed(&eve);
    let told = fake.wait("answerCallbackQuery", 1);
    assert_ne!(told["text"], Value::Null, "{told}");
    assert!(home.root.rows(&["members", "list"]).is_empty());
    pressed(&ada);
    wait_for("the stranger to be answered", || {
        fake.said().iter().any(|said| said["text"] == "echo: let me in").then_some(())
    });
    let told = fake.wait("answerCallbackQuery", 2);
    assert!(told["text"].as_str().is_some_and(|text| !text.is_empty()), "{told}");
    let state = fake.ask("state", &json!({}));
    assert_eq!(state["presses"], json!([]), "each press was answered");
    until_closed(fake);
}

/// Waits until the card says that it is answered, and has no buttons.
fn until_closed(fake: &telegram::Fake) {
    wait_for("the card to be closed", || {
        let cards: Vec<Value> =
            fake.said().into_iter().filter(|said| said["chat"]["id"] == telegram::ADA).collect();
        let text = cards[0]["text"].as_str().unwrap();
        let asked = cards.iter().filter(|card| card["text"].as_str().unwrap().contains("New sender"));
        assert_eq!(asked.count(), 1, "{cards:?}");
        (text.ends_with("\n\nQuestion 1 was answered by local:me: allow.")
            || text.ends_with(&format!("\n\nQuestion 1 was answered by tg:{}: allow.", telegram::ADA)))
        .then(|| assert_eq!(cards[0]["reply_markup"], Value::Null, "{cards:?}"))
    });
}

#[test]
fn a_card_is_closed_although_daemon_and_adapter_die_over_it() {
    if !crate::support::fail_points() {
        return;
    }
    for place in ["amend.begun", "amend.made", "adapter"] {
        let town = Town::telegram(0);
        let Town::Telegram(fake) = &town else { panic!() };
        let home = Home::new(&town, "");
        home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
        home.root.g2(&["users", "role", &town.ada(), "owner"]);
        home.root.g2(&["chats", "set", &town.chat(), "policy=request_approval"]);
        let daemon = home.serve(&town);
        let eve = json!({"id": 777, "is_bot": false, "first_name": "Eve"});
        fake.message(telegram::GROUP, json!({"text": "let me in", "from": eve}));
        wait_for("the question", || fake.said().into_iter().next());
        home.until_column("SELECT status FROM outbox", &["sent"]);
        if place == "adapter" {
            // The platform never answers the change; then the adapter is gone.
            fake.fault("editMessageText", 1, json!("hang"));
            home.root.g2(&["approvals", "approve", "1"]);
            fake.wait("editMessageText", 1);
            for (pid, _) in super::kills::adapters_of(daemon.pid()) {
                let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            until_closed(fake);
            home.until_column("SELECT outbox_id || '' FROM amends", &[]);
        } else {
            daemon.kill();
            let reached = home.root.path().join("reached");
            let file = reached.display().to_string();
            home.root.g2(&["approvals", "approve", "1"]);
            let daemon = home.root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &file)]);
            wait_for(place, || reached.exists().then_some(()));
            daemon.wait();
            assert_eq!(home.column("SELECT outbox_id || '' FROM amends").len(), 1, "{place}");
            let _daemon = home.serve(&town);
            until_closed(fake);
            home.until_column("SELECT outbox_id || '' FROM amends", &[]);
        }
    }
}

#[test]
fn a_press_on_discord_is_confirmed_and_answered_to_the_presser_alone() {
    let town = Town::discord(30);
    let Town::Discord(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    let dm = fake.dm(ADA);
    home.root.g2(&["users", "add", &town.ada(), "--dm", &format!("dc:{dm}")]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    home.root.g2(&["chats", "set", &town.chat(), "policy=request_approval"]);
    let _daemon = home.serve(&town);
    fake.say(GENERAL, 101, "let me in");
    let card = wait_for("the question", || fake.said(dm).into_iter().next());
    let press = card["components"][0]["components"][0]["custom_id"].as_str().unwrap().to_owned();
    fake.press(dm, card["id"].as_str().unwrap().parse().unwrap(), &press, ADA);
    wait_for("the stranger to be answered", || {
        fake.said(GENERAL).iter().any(|said| said["content"] == "echo: let me in").then_some(())
    });
    fake.wait("the presser to be told", |world| world.whispers.len() == 1 && world.callbacks.len() == 1);
}

#[test]
fn a_group_that_becomes_a_supergroup_goes_on_with_all_it_had() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    let _daemon = home.serve(&town);
    town.says("before");
    town.until_said(&["echo: before"]);
    let to = -1_000_055;
    fake.ask("migrate", &json!({"from": telegram::GROUP, "to": to}));
    fake.text(to, "after");
    town.until_said(&["echo: before", "echo: after"]);
    assert_eq!(fake.said()[1]["chat"]["id"], to);
    let chats: Vec<Value> =
        home.root.rows(&["wirings", "list"]).iter().map(|row| row["chat_jid"].clone()).collect();
    assert!(chats.contains(&json!(format!("tg:{to}"))) && !chats.contains(&json!(town.chat())), "{chats:?}");
    // One session goes on: the lane moved, and there is no second one.
    home.until_column("SELECT chat_jid FROM lanes WHERE chat_jid LIKE 'tg:%'", &[&format!("tg:{to}")]);
}

#[test]
fn an_approver_with_whom_the_bot_never_spoke_is_asked_in_a_chat_of_their_own() {
    let town = Town::discord(30);
    let Town::Discord(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    home.root.g2(&["chats", "set", &town.chat(), "policy=request_approval"]);
    // Discord knows nobody of the first number.
    for user in ["dc:900", &town.ada()] {
        home.root.g2(&["users", "role", user, "admin", "--group", "main"]);
    }
    let _daemon = home.serve(&town);
    fake.say(GENERAL, 101, "let me in");
    let card = wait_for("the question", || fake.said(fake.dm(ADA)).into_iter().next());
    assert!(card["content"].as_str().unwrap().contains("let me in"), "{card}");
    let users = home.root.rows(&["users", "list"]);
    let dm = |user: &str| users.iter().find(|row| row["id"] == user).unwrap()["dm_chat"].clone();
    assert_eq!((dm("dc:900"), dm(&town.ada())), (Value::Null, json!(format!("dc:{}", fake.dm(ADA)))));
    let events = home.root.json(&["approvals", "show", "1"])["events"].clone();
    assert!(events[1]["detail"].as_str().unwrap().contains("Invalid Recipient"), "{events}");
    assert!(home.root.said("local:main").is_empty());
}

#[test]
fn channels_where_nobody_has_spoken_are_known_by_their_names() {
    let town = Town::discord(30);
    let home = Home::new(&town, "");
    let _daemon = home.serve(&town);
    let told = home.root.json(&["chats", "refresh", "discord"]);
    assert_eq!(told["accounts"][0]["chats"], 2, "{told}");
    let names: Vec<Value> = home
        .root
        .rows(&["chats", "list"])
        .iter()
        .filter(|row| row["channel"] == "discord")
        .map(|row| row["name"].clone())
        .collect();
    assert_eq!(names, ["#general (Home)", "#random (Home)"]);
}
