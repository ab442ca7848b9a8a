//! Words in a chat that are commands: said, chosen from the platform's own list, and in that list.

use super::*;

/// Ada is an owner.
fn at_home(town: &Town, more: &str) -> Home {
    let home = Home::engaged(town, more, "mention");
    home.root.g2(&["users", "add", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    home
}

/// The names in a list of commands.
fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

const ALL: [&str; 9] = ["help", "status", "new", "model", "stop", "retry", "tasks", "why", "usage"];

#[test]
fn a_word_is_answered_once_in_its_chat_on_each_platform() {
    for town in Town::all("words") {
        let home = at_home(&town, "");
        let _daemon = home.serve(&town);
        town.says("/status");
        town.until_it_says("main: nothing is at work.");
        town.says("/model small");
        town.until_it_says("Model: small. It holds from the next message on.");
        town.says("/new");
        town.until_it_says("A new session begins with the next message.");
        let thread = town.says_in_thread("hello there");
        if town.threaded() == town.chat() {
            let before = town.said().len();
            match &town {
                Town::Discord(fake) => drop(fake.say(thread.parse().unwrap(), ADA, "/tasks")),
                Town::Matrix { ada, room, .. } => {
                    let content = json!({"msgtype": "m.text", "body": "/tasks", "m.relates_to": {"rel_type": "m.thread", "event_id": thread}});
                    ada.send(room, "m.room.message", content);
                }
                Town::Slack(fake) => drop(fake.reply(LOUNGE, &thread, ADA_THERE, "/tasks")),
                Town::Telegram(_) => {}
            }
            town.until_it_says("This group has no tasks.");
            let said = town.said().split_off(before);
            assert_eq!((said.len(), &said[0].thread), (1, &thread), "{}", town.channel());
        }
        let old = town.says("an old message");
        town.edits(&old, "/help");
        town.until_it_says("An edited message is no command");
        let texts = town.texts();
        assert!(!texts.iter().any(|text| text.contains('`') || text.contains("These words")), "{texts:?}");
        assert_eq!(texts.iter().filter(|text| text.contains("nothing is at work")).count(), 1, "{texts:?}");
    }
}

#[test]
fn the_menu_of_telegram_has_the_words_and_follows_the_settings() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = at_home(&town, "");
    let _daemon = home.serve(&town);
    let menu = || names(&fake.ask("state", &json!({}))["commands"], "command");
    wait_for("the menu", || (menu() == ALL).then_some(()));
    home.root.g2(&["config", "set", "words.stop", "/halt"]);
    home.root.g2(&["config", "set", "words.usage", ""]);
    let expected = ["help", "status", "new", "model", "halt", "retry", "tasks", "why"];
    wait_for("the other menu", || (menu() == expected).then_some(()));
    home.until_connected("telegram");
    town.says("/halt");
    town.until_it_says("Nothing is at work here.");
    // With the bot's handle, and a name behind it.
    let more = json!({"text": "/model@g2bot small", "entities": [{"type": "bot_command", "offset": 0, "length": 12}]});
    fake.message(telegram::GROUP, more);
    town.until_it_says("Model: small.");
    let more = json!({"text": "/status@other_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 17}]});
    fake.message(telegram::GROUP, more);
    town.says("/tasks");
    town.until_it_says("This group has no tasks.");
    assert!(!town.texts().iter().any(|text| text.contains("nothing is at work")), "{:?}", town.texts());
}

#[test]
fn the_commands_of_discord_are_chosen_by_people_as_words_of_theirs() {
    const EVE: u64 = 101;
    let town = Town::discord(30);
    let Town::Discord(fake) = &town else { panic!() };
    let home = at_home(&town, "");
    home.root.script(None, &json!([{"do": [{"say": "echo: {{text}}"}]}]));
    let _daemon = home.serve(&town);
    fake.wait("the list", |world| names(&world.commands, "name") == ALL);
    let mut callbacks = 0;
    let mut chosen = |name: &str, given: Option<&str>, who: u64| {
        fake.choose(GENERAL, name, given, who);
        callbacks += 1;
        fake.wait("an answer", |world| world.callbacks.len() == callbacks);
        let (_, answer) = fake.world().callbacks.last().unwrap().clone();
        assert_eq!((&answer["type"], &answer["data"]["flags"]), (&json!(4), &json!(64)), "{answer}");
    };
    chosen("status", None, ADA);
    town.until_it_says("main: nothing is at work.");
    chosen("model", Some("small"), ADA);
    town.until_it_says("Model: small.");
    assert_eq!(home.root.json(&["groups", "show", "main"])["config"]["model"], "small");
    // A stranger's is a message to the bot, as any that names it.
    chosen("stop", None, EVE);
    town.until_it_says("echo: /stop");
    home.root.g2(&["users", "add", "dc:101"]);
    home.root.g2(&["members", "add", "--group", "main", "dc:101"]);
    chosen("stop", None, EVE);
    town.until_it_says("Only owners and admins may use /stop here.");
    // Where the bot is shut out.
    fake.world().places.get_mut(&GENERAL).unwrap().unseen = true;
    chosen("status", None, ADA);
    let (_, answer) = fake.world().callbacks.last().unwrap().clone();
    assert!(answer["data"]["content"].as_str().unwrap().contains("can't see this channel"), "{answer}");
    fake.world().places.get_mut(&GENERAL).unwrap().unseen = false;
    chosen("usage", None, ADA);
    town.until_it_says("Today: ");
    let told = town.texts();
    assert_eq!(told.len(), 5, "{told:?}");
}
