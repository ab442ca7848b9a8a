//! A person becomes an owner on their platform by a code, and what follows from it.

use super::*;

impl Town {
    /// Opens the chat in which Ada is alone with the bot.
    fn own_chat(&self) -> String {
        match self {
            Self::Telegram(_) => self.ada(),
            Self::Discord(fake) => format!("dc:{}", fake.dm(ADA)),
            Self::Slack(fake) => format!("slack:{}", fake.world().dm(ADA_THERE)),
            Self::Matrix { ada, bot, .. } => format!("mx:{}", ada.direct(&bot.id)),
        }
    }

    /// Ada writes there.
    fn confides(&self, chat: &str, text: &str) {
        match self {
            Self::Telegram(fake) => drop(fake.text(telegram::ADA, text)),
            Self::Discord(fake) => drop(fake.say(fake.dm(ADA), ADA, text)),
            Self::Slack(fake) => drop(fake.say(&chat["slack:".len()..], ADA_THERE, text)),
            Self::Matrix { ada, .. } => drop(ada.say(&chat[3..], text)),
        }
    }

    /// What the bot has said to her there.
    fn confided(&self, chat: &str) -> Vec<String> {
        let text = |said: &Value, name: &str| said[name].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Telegram(fake) => fake.said().iter().map(|said| text(said, "text")).collect(),
            Self::Discord(fake) => fake.said(fake.dm(ADA)).iter().map(|said| text(said, "content")).collect(),
            Self::Slack(fake) => {
                fake.said(&chat["slack:".len()..]).iter().map(|said| text(said, "text")).collect()
            }
            Self::Matrix { ada, bot, .. } => {
                ada.said_by(&chat[3..], &bot.id).iter().map(|said| text(&said["content"], "body")).collect()
            }
        }
    }
}

/// The findings of `doctor` of this name.
fn found(home: &Home, check: &str) -> Vec<String> {
    let rows: Vec<Value> = serde_json::from_slice(&home.root.run(&["doctor", "--json"]).stdout).unwrap();
    let of = |row: &&Value| row["check"] == check && row["state"] != "ok";
    rows.iter().filter(of).map(|row| row["detail"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_code_makes_ada_the_owner_of_her_phone_and_stop_from_there_is_a_word() {
    for town in Town::all("claim") {
        let home = Home::engaged(&town, "", "mention");
        let _daemon = home.serve(&town);
        let channel = town.channel();
        let missing = found(&home, "owners").concat();
        assert!(missing.contains(&format!("nobody is an owner on {channel}")), "{missing}");
        // Before it is hers, the word is nothing.
        let own = town.own_chat();
        town.confides(&own, "/stop");
        let made = home.root.json(&["users", "claim"]);
        let door = &made["doors"][0];
        assert_eq!((&door["channel"], made["doors"].as_array().map(Vec::len)), (&json!(channel), Some(1)));
        let link = door["link"].as_str().unwrap_or_else(|| panic!("{made}"));
        assert_eq!(link.contains(made["code"].as_str().unwrap()), channel == "telegram", "{link}");
        town.confides(&own, &made["code"].as_str().unwrap().to_lowercase());
        wait_for(&format!("the welcome on {channel}: {:?}", town.confided(&own)), || {
            town.confided(&own)
                .iter()
                .any(|text| text.starts_with("You are an owner from now on."))
                .then_some(())
        });
        let ada = home.root.rows(&["users", "list"]).into_iter().find(|row| row["id"] == town.ada()).unwrap();
        assert_eq!((&ada["roles"], &ada["dm_chat"]), (&json!(["owner"]), &json!(own)), "{ada}");
        assert_eq!(found(&home, "owners"), Vec::<String>::new());
        // No agent has read it, and no question was asked about the chat.
        assert_eq!(home.column("SELECT id || '' FROM runs"), Vec::<String>::new());
        town.confides(&own, "/stop");
        wait_for("the word", || {
            town.confided(&own).iter().any(|text| text == "Nothing is at work here.").then_some(())
        });
        let audit = home.root.rows(&["audit", "list"]);
        let is_told = |row: &Value| row["what"].as_str().is_some_and(|what| what.ends_with("is an owner"));
        assert!(audit.iter().any(is_told), "{audit:?}");
        assert!(!format!("{audit:?}").contains(made["code"].as_str().unwrap()));
    }
}
