//! Questions of agents: said on each platform, and answered as people answer there.

use super::*;

/// An agent that asks which hotel it is when it is told to book.
fn asks(home: &Home, more: &Value) {
    let mut question = json!({"type": "ask_user", "question": "Which hotel?", "options": ["Ibis", "Hilton"]});
    for (name, value) in more.as_object().unwrap() {
        question[name] = value.clone();
    }
    let rules = json!([
        {"when": {"contains": "book"}, "do": [{"command": {"box": "tasks", "json": question}}, {"say": "I have asked"}]},
        {"do": [{"say": "got {{text}}"}]},
    ]);
    home.root.script(None, &rules);
}

impl Town {
    /// All of them, on this machine's clock.
    fn on_time(name: &str) -> Vec<Self> {
        let ours = [Self::telegram(0), Self::discord_now(), Self::slack_now()];
        ours.into_iter().chain(Self::matrix(name)).collect()
    }

    /// Sets a clock that stands still.
    fn is_now(&self) {
        if let Self::Telegram(fake) = self {
            fake.ask("clock", &json!({"now": now_ms() / 1000}));
        }
    }

    /// Waits until the bot has said a text that contains this one, and returns the message.
    fn until_it_has_said(&self, text: &str) -> Said {
        wait_for(&format!("{text:?} on {}; there is {:?}", self.channel(), self.texts()), || {
            self.said().into_iter().find(|said| said.text.contains(text))
        })
    }
}

impl Home {
    fn asked(&self) -> Value {
        self.root.rows(&["questions", "list", "--all"]).into_iter().next().unwrap()
    }
}

const CARD: &str = "Which hotel?\n\n1. Ibis\n2. Hilton\n\nAnswer with a number, or reply to this in your own words (question #q1).";

#[test]
fn an_agent_asks_and_is_answered_by_a_number_or_in_a_reply() {
    for (name, way, answer) in [
        ("asked-n", "a number", "Hilton"),
        ("asked-r", "a reply", "the cheap one"),
        ("asked-b", "by name", "Ibis"),
    ] {
        for town in Town::on_time(name) {
            let home = Home::engaged(&town, "", "mention");
            asks(&home, &json!({}));
            let _daemon = home.serve(&town);
            town.names("book");
            let card = town.until_it_has_said("Which hotel?");
            // Discord shows text in marks.
            assert_eq!(card.text.replace('\\', ""), CARD, "{}", town.channel());
            town.until_it_has_said("I have asked");
            home.until_column("SELECT DISTINCT status FROM outbox", &["sent"]);
            town.is_now();
            match way {
                "a number" => drop(town.says("2")),
                "a reply" => {
                    // Talk between people is none.
                    town.says("what a question");
                    town.replies(&card.id, "the cheap one");
                }
                _ => {
                    town.says("what a question");
                    town.says("#q1 ibis");
                }
            }
            town.until_it_has_said("got ");
            // The agent sees what is answered.
            let quoted = home.column(
                "SELECT coalesce(reply_to_text, '') FROM messages WHERE answers = 1 AND reply_to_self",
            );
            assert!(
                quoted.len() == 1 && quoted[0].starts_with("Which hotel?"),
                "{way} on {}: {quoted:?}",
                town.channel()
            );
            let asked = home.asked();
            assert_eq!((&asked["state"], &asked["answer"]), (&json!("answered"), &json!(answer)), "{asked}");
            if !matches!(town, Town::Matrix { .. }) {
                let closed = town.until_it_has_said("\n\nAnswered by ").text;
                assert!(
                    closed.replace('\\', "").starts_with(CARD) && closed.ends_with(&format!(": {answer}.")),
                    "{closed}"
                );
            }
            home.until_column("SELECT outbox_id || '' FROM amends", &[]);
        }
    }
}

#[test]
fn a_button_answers_once_and_the_presser_is_told() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention");
    asks(&home, &json!({}));
    let daemon = home.serve(&town);
    town.names("book");
    town.until_it_has_said("I have asked");
    home.until_column("SELECT DISTINCT status FROM outbox", &["sent"]);
    let card = fake.said().into_iter().find(|said| said["text"] == CARD).unwrap();
    let press = card["reply_markup"]["inline_keyboard"].to_string();
    assert!(press.contains("q1:1") && press.contains("q1:2"), "{press}");
    let pressed = |who: i64, data: &str| {
        let from = json!({"id": who, "is_bot": false, "first_name": "X"});
        fake.ask("update", &json!({"callback_query": {"from": from, "message": card, "data": data}}));
    };
    // A restart in between loses nothing.
    daemon.kill();
    let _daemon = home.serve(&town);
    pressed(telegram::ADA, "q1:9");
    assert_eq!(fake.wait("answerCallbackQuery", 1)["text"], "question #q1 has no answer number 9");
    pressed(telegram::ADA, "q1:2");
    assert_eq!(fake.wait("answerCallbackQuery", 2)["text"], "Your answer: Hilton");
    let got = town.until_it_has_said("got ").text;
    assert_eq!(got, "got Hilton");
    home.until_column("SELECT sender_name FROM messages WHERE answers = 1", &["Ada L"]);
    town.until_it_has_said("\n\nAnswered by Ada L: Hilton.");
    pressed(777, "q1:1");
    assert_eq!(fake.wait("answerCallbackQuery", 3)["text"], "Ada L has answered this already.");
    let runs = home.column("SELECT count(*) || '' FROM messages WHERE answers = 1");
    assert_eq!(runs, ["1"]);
}

#[test]
fn a_stranger_who_answers_is_asked_about_and_the_question_stays_open() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention");
    home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    home.root.g2(&["chats", "set", &town.chat(), "policy=request_approval"]);
    asks(&home, &json!({}));
    let _daemon = home.serve(&town);
    town.names("book");
    town.until_it_has_said("I have asked");
    home.until_column("SELECT DISTINCT status FROM outbox", &["sent"]);
    let card = fake.said().into_iter().find(|said| said["text"] == CARD).unwrap();
    let eve = json!({"id": 777, "is_bot": false, "first_name": "Eve"});
    fake.ask("update", &json!({"callback_query": {"from": eve, "message": card, "data": "q1:1"}}));
    home.until_column("SELECT kind || ' ' || state FROM approvals", &["sender pending"]);
    assert_eq!(home.asked()["state"], "open");
    // Once somebody says yes, her answer counts.
    home.root.g2(&["approvals", "approve", "1"]);
    assert_eq!(town.until_it_has_said("got ").text, "got Ibis");
    home.until_column("SELECT state || ' ' || answer FROM questions", &["answered Ibis"]);
}

#[test]
fn an_agent_is_told_when_nobody_answers_and_when_it_could_not_be_asked() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::engaged(&town, "", "mention");
    asks(&home, &json!({"timeout": "7d"}));
    let daemon = home.serve(&town);
    town.names("book");
    town.until_it_has_said("I have asked");
    home.until_column("SELECT DISTINCT status FROM outbox", &["sent"]);
    daemon.kill();
    // Its time runs out while nobody is there.
    let store = rusqlite::Connection::open(home.root.data("g2.sqlite")).unwrap();
    store.execute("UPDATE questions SET expires_at = 1", []).unwrap();
    drop(store);
    let _daemon = home.serve(&town);
    let got = town.until_it_has_said("got ").text;
    assert!(got.contains("Nobody answered your question #q1 in time: “Which hotel?”"), "{got}");
    town.until_it_has_said("\n\nNobody answered in time.");
    assert_eq!(home.asked()["state"], "expired");
    // The card, and what the agent says meanwhile.
    fake.fault("sendMessage", 2, json!({"answer": {"status": 400, "body": {"ok": false, "error_code": 400, "description": "Bad Request: message text is empty"}}}));
    town.names("book again");
    home.until_column(
        "SELECT coalesce(i.verdict || ' ' || i.rule, 'unjudged') FROM inbox i JOIN messages m ON m.seq = i.seq WHERE m.text LIKE 'Your question%'",
        &["wake asked"],
    );
    let got = wait_for("the agent to be told", || {
        town.said().into_iter().find(|said| said.text.contains("Your question #q2 could not be asked"))
    });
    assert!(got.text.contains("“Which hotel?”"), "{}", got.text);
    home.until_column("SELECT state FROM questions ORDER BY id", &["expired", "undeliverable"]);
}
