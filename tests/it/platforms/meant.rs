//! Whom a message is for, and whose words it is.

use super::*;

impl Town {
    /// Ada forwards what somebody else wrote. Returns whether the platform says that it is forwarded.
    fn forwards(&self, text: &str) -> bool {
        match self {
            Self::Telegram(fake) => {
                let eve = json!({"id": 777, "is_bot": false, "first_name": "Eve"});
                let origin = json!({"type": "user", "date": 1, "sender_user": eve});
                fake.message(telegram::GROUP, json!({"text": text, "forward_origin": origin}));
            }
            Self::Discord(fake) => {
                let more = json!({"message_reference": {"type": 1, "message_id": "1", "channel_id": "1"},
                    "message_snapshots": [{"message": {"content": text, "type": 0}}]});
                fake.world().say(GENERAL, ADA, "", &more);
            }
            Self::Slack(fake) => {
                let shared = json!({"is_share": true, "author_name": "Eve", "text": text});
                fake.world().say(LOUNGE, ADA_THERE, "", &json!({"attachments": [shared]}));
            }
            Self::Matrix { .. } => return false,
        }
        true
    }

    /// Ada shows a picture, and says nothing.
    fn shows(&self, name: &str) {
        match self {
            Self::Telegram(fake) => {
                fake.ask(
                    "file",
                    &json!({"file_id": name, "path": format!("photos/{name}"), "text": "GIF89a"}),
                );
                let photo = json!([{"file_id": name, "file_unique_id": name, "width": 1, "height": 1, "file_size": 6}]);
                fake.message(telegram::GROUP, json!({"photo": photo}));
            }
            Self::Discord(fake) => {
                let file = fake.world().file(name, "image/gif", b"GIF89a".to_vec(), 0);
                fake.world().say(GENERAL, ADA, "", &json!({"attachments": [file]}));
            }
            Self::Slack(fake) => {
                let file = fake.world().file("F1", name, "image/gif", b"GIF89a".to_vec());
                fake.world().say(LOUNGE, ADA_THERE, "", &json!({"files": [file]}));
            }
            Self::Matrix { ada, room, .. } => {
                let content = json!({"msgtype": "m.image", "body": name, "filename": name, "url": ada.upload(b"GIF89a"),
                    "info": {"mimetype": "image/gif", "size": 6}});
                ada.send(room, "m.room.message", content);
            }
        }
    }

    pub(super) fn until_it_says(&self, text: &str) {
        wait_for(&format!("{text:?} on {}; there is {:?}", self.channel(), self.texts()), || {
            self.texts().iter().any(|said| said.contains(text)).then_some(())
        });
    }
}

impl Home {
    /// The rule by which a wiring judged a text.
    fn judged(&self, text: &str) -> String {
        let sql = format!(
            "SELECT i.rule || ' ' || i.verdict FROM inbox i JOIN messages m ON m.seq = i.seq WHERE m.text LIKE '%{text}' AND i.verdict IS NOT NULL"
        );
        wait_for(&format!("{text:?} to be judged"), || self.column(&sql).pop())
    }

    /// The states of questions, in order.
    fn questions(&self) -> Vec<String> {
        self.column("SELECT state FROM approvals ORDER BY id")
    }
}

#[test]
fn in_a_main_line_each_message_has_to_address_the_agent_and_in_a_thread_one() {
    for town in [Town::telegram(0), Town::discord(30)] {
        let home = Home::engaged(&town, "", "mention-sticky");
        let _daemon = home.serve(&town);
        town.names("first");
        assert_eq!(home.judged("first"), "mention wake", "{}", town.channel());
        town.until_said(&["echo: @g2bot first"].map(|text| match &town {
            Town::Discord(_) => "echo: @G2 first",
            _ => text,
        }));
        town.says("between people");
        assert_eq!(home.judged("between people"), "none ignore", "{}", town.channel());
        town.replies(&town.said()[0].id, "an answer to the agent");
        assert_eq!(home.judged("an answer to the agent"), "mention wake", "{}", town.channel());
        town.says("between people again");
        assert_eq!(home.judged("between people again"), "none ignore", "{}", town.channel());
        let wirings = home.root.rows(&["wirings", "list"]);
        let marks = wirings.iter().find(|row| row["chat_jid"] == town.chat()).unwrap();
        assert_eq!(marks["sticky"], json!([]), "{marks}");
    }
    let town = Town::discord(30);
    let Town::Discord(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention-sticky");
    let _daemon = home.serve(&town);
    let thread = fake.thread(GENERAL, "plans");
    fake.say(thread, ADA, &format!("<@{}> join us", world::BOT));
    assert_eq!(home.judged("join us"), "mention wake");
    fake.say(thread, ADA, "and hear this");
    assert_eq!(home.judged("and hear this"), "sticky wake");
    fake.say(GENERAL, ADA, "not this");
    assert_eq!(home.judged("not this"), "none ignore");
}

#[test]
fn the_topic_general_of_a_forum_is_its_main_line() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention");
    home.wire(&town.threaded(), "mention-sticky");
    let _daemon = home.serve(&town);
    let says = |text: &str, topic: bool| {
        let mut said = json!({"text": text});
        if topic {
            said["message_thread_id"] = 42.into();
            said["is_topic_message"] = true.into();
        }
        if text.starts_with("@g2bot") {
            said["entities"] = json!([{"type": "mention", "offset": 0, "length": 6}]);
        }
        fake.message(telegram::FORUM, said);
    };
    for (text, topic, judged) in [
        ("@g2bot in general", false, "mention wake"),
        ("still in general", false, "none ignore"),
        ("@g2bot in a topic", true, "mention wake"),
        ("on in a topic", true, "sticky wake"),
    ] {
        says(text, topic);
        assert_eq!(home.judged(text), judged, "{text}");
    }
}

#[test]
fn a_chat_that_was_wired_by_an_answer_reads_along() {
    for town in [Town::telegram(0), Town::discord(30)] {
        adapters();
        let home = Home { root: Root::new(&town.table()) };
        home.keep(&town, &town.token());
        home.root.g2(&["groups", "add", "family", "--chat", "local:family"]);
        // Each message has a run of its own, so its prompt has all that the agent reads.
        home.root.script(None, &json!([{"do": [{"say": "heard {{text}}"}, {"exit": 0}]}]));
        let _daemon = home.serve(&town);
        town.names("are you there?");
        wait_for("the question", || (home.questions() == ["pending"]).then_some(()));
        home.root.g2(&["approvals", "approve", "1", "--group", "family"]);
        town.until_it_says("are you there?");
        town.shows("cat.gif");
        // At once: the question waits for the picture.
        town.names("what is it?");
        town.until_it_says("what is it?");
        let seq = home.column("SELECT max(seq) || '' FROM messages WHERE from_me = 0")[0].parse().unwrap();
        let run = home.root.why(seq)["wirings"][0]["run"].as_i64().unwrap();
        let prompt = home.root.prompt(run);
        assert!(prompt.contains("[image: ") && prompt.contains("/media"), "{}: {prompt}", town.channel());
    }
}

#[test]
fn what_is_forwarded_or_edited_answers_no_question() {
    for town in Town::all("forwards") {
        let home = Home::engaged(&town, "", "mention");
        home.root.g2(&["users", "add", &town.ada(), "--dm", &town.chat()]);
        // The only one who may be asked.
        home.root.g2(&["users", "role", &town.ada(), "owner"]);
        home.root.g2(&["users", "role", "local:me", "none"]);
        home.root.g2(&["wirings", "add", "--group", "main", "--chat", "local:club", "--engage", "pattern"]);
        home.root.g2(&["chats", "set", "local:club", "policy=request_approval"]);
        let _daemon = home.serve(&town);
        // The bot is in the chat, and can be reached there.
        town.says("good morning");
        home.judged("good morning");
        home.root.g2(&["send", "--chat", "local:club", "--as", "eve", "let me in"]);
        town.until_it_says("question #1");
        let card = town.said().into_iter().find(|said| said.text.contains("question #1")).unwrap();
        if town.forwards("#1 1") {
            town.until_it_says("A forwarded message answers no question");
            assert_eq!(home.questions(), ["pending"], "{}", town.channel());
        }
        let old = town.says("an old message");
        town.edits(&old, "#1 1");
        town.until_it_says("An edited message answers no question");
        assert_eq!(home.questions(), ["pending"], "{}", town.channel());
        // Both are texts like any other, and both are told of once.
        let kept = home.column("SELECT text FROM messages WHERE text = '#1 1'").len();
        let told = town.texts().iter().filter(|text| text.contains("answers no question")).count();
        assert_eq!(kept, told, "{}: {:?}", town.channel(), town.texts());
        town.replies(&card.id, "1");
        wait_for("the answer", || (home.questions() == ["approved"]).then_some(()));
    }
}

#[test]
fn what_is_forwarded_or_edited_is_no_command() {
    for town in Town::all("forwarded-words") {
        let home = Home::engaged(&town, "", "mention");
        home.root.g2(&["users", "add", &town.ada()]);
        home.root.g2(&["users", "role", &town.ada(), "owner"]);
        home.root.script(None, &json!([{"when": {"contains": "work"}, "do": [{"hang": true}]}]));
        let _daemon = home.serve(&town);
        town.names("work");
        let run = wait_for("its run", || {
            home.root.rows(&["runs", "list"]).into_iter().find(|run| run["status"] == "running")
        });
        let old = town.says("an old message");
        town.edits(&old, "/stop");
        town.until_it_says("An edited message is no command");
        if town.forwards("/stop") {
            town.until_it_says("A forwarded message is no command");
        }
        let status = || home.root.json(&["runs", "show", &run["id"].to_string()])["status"].clone();
        assert_eq!(status(), "running", "{}", town.channel());
        town.says("/stop");
        wait_for("its end", || (status() == "cancelled").then_some(()));
    }
}

#[test]
fn a_text_with_half_a_character_arrives_and_the_account_goes_on() {
    let half = g2_fakes::HALF;
    for town in [Town::telegram(0), Town::discord(30)] {
        // Each message has a turn of its own, whatever came together.
        let limits =
            "[limits]\nbatch_messages = 1\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n";
        let home = Home::new(&town, limits);
        {
            let _daemon = home.serve(&town);
            town.says("one");
            town.until_it_says("one");
            town.says(&format!("two {half} halves"));
            town.says("three");
            town.until_it_says("three");
            town.until_it_says("two \u{fffd} halves");
        }
        // What was written while nobody listened, too.
        town.says(&format!("four {half}"));
        town.says("five");
        let _daemon = home.serve(&town);
        town.until_it_says("four \u{fffd}");
        town.until_it_says("five");
    }
}
