//! What is written while nobody listens, and accounts that are turned away.

use super::*;

#[test]
fn what_is_written_while_the_daemon_is_away_is_answered_when_it_is_back() {
    for town in Town::all("away") {
        let home = Home::new(&town, "");
        let daemon = home.serve(&town);
        town.says("before");
        town.until_said(&["echo: before"]);
        // A platform that knows no keys is told again what a death left in doubt.
        home.until_column("SELECT text FROM outbox WHERE status = 'sent'", &["echo: before"]);
        daemon.kill();
        for text in ["one", "two", "three"] {
            town.says(text);
        }
        let _daemon = home.serve(&town);
        // They came together, or one after the other: the last one is answered in any case.
        wait_for("the last one to be answered", || (town.texts().last()? == "echo: three").then_some(()));
        let came = "SELECT text FROM messages WHERE from_me = 0 ORDER BY seq";
        home.until_column(came, &["before", "one", "two", "three"]);
        assert_eq!(town.texts().iter().filter(|text| *text == "echo: before").count(), 1);
    }
}

#[test]
fn what_is_older_than_an_hour_wakes_nobody_and_the_chat_is_told_once() {
    for town in [Town::telegram(2), Town::discord(180)] {
        let home = Home::new(&town, "");
        let daemon = home.serve(&town);
        town.says("before");
        town.until_said(&["echo: before"]);
        // A platform that knows no keys is told again what a death left in doubt.
        home.until_column("SELECT text FROM outbox WHERE status = 'sent'", &["echo: before"]);
        daemon.kill();
        if let Town::Discord(fake) = &town {
            fake.forget_sessions();
        }
        for text in ["old one", "old two"] {
            town.says(text);
        }
        match &town {
            Town::Telegram(fake) => drop(fake.ask("clock", &json!({"now": now_ms() / 1000}))),
            Town::Discord(fake) => fake.world().begin_ms = now_ms() - 60_000,
            Town::Slack(_) | Town::Matrix { .. } => panic!(),
        }
        let _daemon = home.serve(&town);
        home.until_column(
            "SELECT text || late FROM messages WHERE from_me = 0 ORDER BY seq",
            &["before0", "old one1", "old two1"],
        );
        let told = wait_for("the chat to be told", || town.texts().into_iter().nth(1));
        town.says("new");
        town.until_said(&["echo: before", &told, "echo: new"]);
        let prompt = home.root.prompt(2);
        assert!(prompt.contains("old one") && prompt.contains("old two"), "{prompt}");
    }
}

#[test]
fn a_token_that_is_wrong_is_said_with_a_way_out_and_a_new_one_counts_without_a_restart() {
    for town in Town::all("refused") {
        let home = Home::new(&town, "");
        home.keep(&town, "424242:not-this-one");
        let _daemon = home.root.serve();
        let row = home.until(town.channel(), |row| row["connection"] == "refused");
        let hint = row["hint"].as_str().unwrap();
        assert!(!hint.is_empty() && row["inbound"] == "refused" && row["starts"] == 1, "{row}");
        let shown = row.to_string();
        assert!(!shown.contains("not-this-one") && !home.root.log().contains("not-this-one"), "{shown}");
        let problems = home.root.json(&["status"])["problems"].to_string();
        assert!(problems.contains(town.channel()), "{problems}");
        town.says("are you there");
        home.keep(&town, &town.token());
        home.root.g2(&["channels", "restart", town.channel()]);
        home.until_connected(town.channel());
        if !matches!(town, Town::Discord(_) | Town::Matrix { .. }) {
            town.until_said(&["echo: are you there"]);
        }
    }
}

#[test]
fn a_second_program_with_the_same_bot_is_told_and_waits_for_a_person() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home::new(&town, "");
    let _daemon = home.serve(&town);
    let other = std::sync::atomic::AtomicBool::new(true);
    let row = std::thread::scope(|scope| {
        scope.spawn(|| {
            while other.load(std::sync::atomic::Ordering::Relaxed) {
                let path = format!("/bot{}/getUpdates", telegram::TOKEN);
                telegram::post(&fake.url, &path, "", &json!({"timeout": 1}));
            }
        });
        let row = home.until("telegram", |row| row["connection"] == "refused");
        other.store(false, std::sync::atomic::Ordering::Relaxed);
        row
    });
    assert!(row["why"].as_str().unwrap().contains("another program"), "{row}");
    assert!(row["hint"].as_str().unwrap().contains("/revoke"), "{row}");
    home.root.g2(&["channels", "restart", "telegram"]);
    home.until_connected("telegram");
    town.says("now");
    town.until_said(&["echo: now"]);
}
