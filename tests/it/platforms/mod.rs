//! The real daemon, its real adapters, and platforms on loopback: Synapse, which is a real one, and strict servers of our own
//! in the place of Telegram, Discord and Slack (`src/adapters/fakes`).
//!
//! | file | tries |
//! |---|---|
//! | `accounts` | accounts that come and go while the daemon runs |
//! | `asked` | questions of agents, and answers to them |
//! | `claim` | a person who becomes an owner by a code |
//! | `files` | files both ways |
//! | `gone` | chats and threads that go while an agent works; a bot that is told only a part |
//! | `growing` | answers that grow in place |
//! | `mail` | mail, by servers of our own: whom the daemon hears, where answers go, kills |
//! | `meant` | whom a message is for, and whose words it is |
//! | `notices` | owners who are told of problems |
//! | `signal` | a person on Signal, and a group there |
//! | `talk` | what people do, and what they are answered, on each platform |
//! | `kills` | kills of the daemon, the adapters and the homeserver at any moment |
//! | `words` | words that are commands, and the platforms' lists of them |
//! | `outage` | what is written while nobody listens; an account that is turned away |
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "a test keeps tokens, and looks at what daemons wrote")]

use std::collections::BTreeMap;

use g2_fakes::{
    discord::{self, world},
    slack,
    synapse::{Person, Synapse, synapse},
    telegram,
};
use serde_json::{Value, json};

use crate::support::{Daemon, Root, adapters, wait_for};

mod accounts;
mod asked;
mod claim;
mod files;
mod gone;
mod growing;
mod kills;
mod mail;
mod meant;
mod notices;
mod outage;
mod signal;
mod talk;
mod words;

/// What the bot said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    id: String,
    text: String,
    thread: String,
}

/// A platform with a bot, and with one chat in which Ada is with it.
enum Town {
    Telegram(telegram::Fake),
    Discord(discord::Fake),
    Slack(slack::Fake),
    Matrix { server: &'static Synapse, ada: Box<Person>, bot: Box<Person>, room: String },
}

/// The channels and people of the fake Discord, and of the fake Slack.
const GENERAL: u64 = 700;
const ADA: u64 = 100;
const LOUNGE: &str = "C700";
const ADA_THERE: &str = "U100";

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

impl Town {
    /// Telegram, whose clock is this machine's, `hours` ago.
    fn telegram(hours: u64) -> Self {
        let fake = telegram::Fake::start();
        fake.ask("clock", &json!({"now": now_ms() / 1000 - hours * 3600}));
        Self::Telegram(fake)
    }

    /// Discord, whose clock is this machine's.
    fn discord_now() -> Self {
        let fake = discord::Fake::start();
        fake.world().live = true;
        Self::Discord(fake)
    }

    /// Discord, whose clock began a while ago, so that what is said comes from the present.
    fn discord(minutes: u64) -> Self {
        let fake = discord::Fake::start();
        let mut world = fake.world();
        (world.begin_ms, world.step) = (now_ms() - minutes * 60_000, 1000);
        drop(world);
        Self::Discord(fake)
    }

    /// Slack, whose clock is this machine's.
    fn slack_now() -> Self {
        let fake = slack::Fake::start();
        fake.world().live = true;
        Self::Slack(fake)
    }

    /// Slack, whose clock began a while ago.
    fn slack(minutes: u64) -> Self {
        let fake = slack::Fake::start();
        let mut world = fake.world();
        (world.begin, world.step) = ((now_ms() - minutes * 60_000) * 1000, 500_000);
        drop(world);
        Self::Slack(fake)
    }

    /// A room of the homeserver that tests share; `None`: there is no Synapse here.
    fn matrix(name: &str) -> Option<Self> {
        Some(Self::matrix_on(synapse()?, name))
    }

    fn matrix_on(server: &'static Synapse, name: &str) -> Self {
        let [ada, bot] = ["ada", "bot"].map(|who| Box::new(server.person(&format!("{name}-{who}"))));
        let room = ada.room(&[&bot.id]);
        Self::Matrix { server, ada, bot, room }
    }

    /// All of them.
    fn all(name: &str) -> Vec<Self> {
        let ours = [Self::telegram(0), Self::discord(30), Self::slack(30)];
        ours.into_iter().chain(Self::matrix(name)).collect()
    }

    fn channel(&self) -> &'static str {
        match self {
            Self::Telegram(_) => "telegram",
            Self::Discord(_) => "discord",
            Self::Slack(_) => "slack",
            Self::Matrix { .. } => "matrix",
        }
    }

    fn token(&self) -> String {
        match self {
            Self::Telegram(_) => telegram::TOKEN.into(),
            Self::Discord(_) => world::TOKEN.into(),
            Self::Slack(_) => format!("{} {}", slack::world::APP_TOKEN, slack::world::BOT_TOKEN),
            Self::Matrix { bot, .. } => bot.token.clone(),
        }
    }

    /// The account's table in the settings.
    fn table(&self) -> String {
        let upstream = match self {
            Self::Telegram(fake) => format!("upstream = {:?}", fake.url),
            Self::Discord(fake) => format!("upstream = {:?}", fake.base),
            Self::Slack(fake) => format!("upstream = {:?}", fake.base),
            Self::Matrix { server, ada, .. } => {
                format!("homeserver = {:?}\ninvites_from = [{:?}]", server.base(), ada.id)
            }
        };
        format!("[channels.{}]\ntoken_file = \"{0}.token\"\n{upstream}\n", self.channel())
    }

    fn chat(&self) -> String {
        match self {
            Self::Telegram(_) => format!("tg:{}", telegram::GROUP),
            Self::Discord(_) => format!("dc:{GENERAL}"),
            Self::Slack(_) => format!("slack:{LOUNGE}"),
            Self::Matrix { room, .. } => format!("mx:{room}"),
        }
    }

    /// Ada, as users are named.
    fn ada(&self) -> String {
        match self {
            Self::Telegram(_) => format!("tg:{}", telegram::ADA),
            Self::Discord(_) => format!("dc:{ADA}"),
            Self::Slack(_) => format!("slack:{ADA_THERE}"),
            Self::Matrix { ada, .. } => format!("mx:{}", ada.id),
        }
    }

    /// Ada says something; returns its id.
    fn says(&self, text: &str) -> String {
        match self {
            Self::Telegram(fake) => fake.text(telegram::GROUP, text)["message_id"].to_string(),
            Self::Discord(fake) => fake.say(GENERAL, ADA, text).to_string(),
            Self::Slack(fake) => fake.say(LOUNGE, ADA_THERE, text),
            Self::Matrix { ada, room, .. } => ada.say(room, text),
        }
    }

    /// Ada names the bot.
    fn names(&self, text: &str) -> String {
        match self {
            Self::Telegram(fake) => {
                let more = json!({"text": format!("@g2bot {text}"), "entities": [{"type": "mention", "offset": 0, "length": 6}]});
                fake.message(telegram::GROUP, more)["message_id"].to_string()
            }
            Self::Discord(_) => self.says(&format!("<@{}> {text}", world::BOT)),
            Self::Slack(_) => self.says(&format!("<@{}> {text}", slack::world::BOT)),
            Self::Matrix { ada, bot, room, .. } => {
                let content =
                    json!({"msgtype": "m.text", "body": text, "m.mentions": {"user_ids": [bot.id]}});
                ada.send(room, "m.room.message", content)
            }
        }
    }

    /// Ada answers a message.
    fn replies(&self, to: &str, text: &str) -> String {
        match self {
            Self::Telegram(fake) => {
                let id: i64 = to.parse().unwrap();
                let said = fake.said().into_iter().find(|said| said["message_id"] == id).unwrap();
                let more = json!({"text": text, "reply_to_message": said});
                fake.message(telegram::GROUP, more)["message_id"].to_string()
            }
            Self::Discord(fake) => {
                let more = json!({"type": 19, "message_reference": {"message_id": to, "channel_id": GENERAL.to_string()}});
                fake.world().say(GENERAL, ADA, text, &more).to_string()
            }
            // An answer stands in the thread below.
            Self::Slack(fake) => fake.reply(LOUNGE, to, ADA_THERE, text),
            Self::Matrix { ada, room, .. } => {
                let content = json!({"msgtype": "m.text", "body": text, "m.relates_to": {"m.in_reply_to": {"event_id": to}}});
                ada.send(room, "m.room.message", content)
            }
        }
    }

    fn edits(&self, id: &str, text: &str) {
        match self {
            Self::Telegram(fake) => {
                let edited = json!({"edited_message": {"chat": {"id": telegram::GROUP}, "message_id": id.parse::<i64>().unwrap(),
                    "date": now_ms() / 1000, "edit_date": now_ms() / 1000, "text": text,
                    "from": {"id": telegram::ADA, "is_bot": false, "first_name": "Ada"}}});
                fake.ask("update", &edited);
            }
            Self::Discord(fake) => fake.edit(GENERAL, id.parse().unwrap(), text),
            Self::Slack(fake) => fake.world().edit(LOUNGE, id, text, &Value::Null),
            Self::Matrix { ada, room, .. } => {
                let content = json!({"msgtype": "m.text", "body": format!("* {text}"),
                    "m.new_content": {"msgtype": "m.text", "body": text}, "m.relates_to": {"rel_type": "m.replace", "event_id": id}});
                ada.send(room, "m.room.message", content);
            }
        }
    }

    /// Ada puts a thumb to a message.
    fn reacts(&self, id: &str) {
        match self {
            Self::Telegram(fake) => {
                let reaction = json!({"message_reaction": {"chat": {"id": telegram::GROUP}, "message_id": id.parse::<i64>().unwrap(),
                    "user": {"id": telegram::ADA, "is_bot": false, "first_name": "Ada"}, "date": now_ms() / 1000,
                    "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}});
                fake.ask("update", &reaction);
            }
            Self::Discord(fake) => {
                fake.react(GENERAL, id.parse().unwrap(), ADA, &json!({"id": null, "name": "👍"}), true);
            }
            Self::Slack(fake) => fake.world().react(LOUNGE, id, ADA_THERE, "+1", true),
            Self::Matrix { ada, room, .. } => {
                let content =
                    json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": id, "key": "👍"}});
                ada.send(room, "m.reaction", content);
            }
        }
    }

    /// Ada deletes a message. Returns whether the platform tells of that.
    fn deletes(&self, id: &str) -> bool {
        match self {
            Self::Telegram(_) => return false,
            Self::Discord(fake) => fake.delete(GENERAL, id.parse().unwrap()),
            Self::Slack(fake) => fake.world().delete(LOUNGE, id),
            Self::Matrix { ada, room, .. } => ada.redact(room, id),
        }
        true
    }

    /// Ada opens a thread, and says something in it. Returns the thread.
    fn says_in_thread(&self, text: &str) -> String {
        match self {
            Self::Telegram(fake) => {
                let more = json!({"text": text, "message_thread_id": 42, "is_topic_message": true});
                fake.message(telegram::FORUM, more);
                "42".into()
            }
            Self::Discord(fake) => {
                let thread = fake.thread(GENERAL, "plans");
                fake.say(thread, ADA, text);
                thread.to_string()
            }
            Self::Slack(fake) => {
                let root = fake.say(LOUNGE, ADA_THERE, "a root");
                let _ = fake.reply(LOUNGE, &root, ADA_THERE, text);
                root
            }
            Self::Matrix { ada, room, .. } => {
                let root = ada.say(room, "a root");
                let content = json!({"msgtype": "m.text", "body": text, "m.relates_to": {"rel_type": "m.thread", "event_id": root}});
                ada.send(room, "m.room.message", content);
                root
            }
        }
    }

    /// The chat that has threads, and a thread of it by name.
    fn threaded(&self) -> String {
        match self {
            Self::Telegram(_) => format!("tg:{}", telegram::FORUM),
            _ => self.chat(),
        }
    }

    /// What the bot said anywhere, in order.
    fn said(&self) -> Vec<Said> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let known = |value: &Value| (!value.is_null()).then(|| text(value));
        match self {
            Self::Telegram(fake) => {
                let read = |said: &Value| Said {
                    id: text(&said["message_id"]),
                    text: text(&said["text"]),
                    thread: known(&said["message_thread_id"]).unwrap_or_default(),
                };
                fake.said().iter().map(read).collect()
            }
            Self::Discord(fake) => {
                let places: Vec<(u64, bool)> = {
                    let world = fake.world();
                    world.places.iter().map(|(id, place)| (*id, place.parent.is_some())).collect()
                };
                let mut all = BTreeMap::new();
                for (place, is_thread) in places {
                    for said in fake.said(place) {
                        let one = Said {
                            id: text(&said["id"]),
                            text: text(&said["content"]),
                            thread: if is_thread { place.to_string() } else { String::new() },
                        };
                        all.insert(one.id.clone(), one);
                    }
                }
                all.into_values().collect()
            }
            Self::Slack(fake) => {
                let read = |said: &Value| Said {
                    id: text(&said["ts"]),
                    text: text(&said["text"]),
                    thread: known(&said["thread_ts"]).filter(|root| said["ts"] != **root).unwrap_or_default(),
                };
                fake.said(LOUNGE).iter().map(read).collect()
            }
            Self::Matrix { ada, bot, room, .. } => {
                let read = |said: Value| {
                    let content = &said["content"];
                    let relates = &content["m.relates_to"];
                    Said {
                        id: text(&said["event_id"]),
                        text: text(&content["body"]),
                        thread: known(&relates["event_id"]).unwrap_or_default(),
                    }
                };
                ada.said_by(room, &bot.id).into_iter().map(read).collect()
            }
        }
    }

    /// The newest of it, for who looks often.
    fn newest(&self) -> Vec<String> {
        match self {
            Self::Matrix { ada, bot, room, .. } => {
                let all = ada.newest_by(room, &bot.id);
                all.iter()
                    .map(|said| said["content"]["body"].as_str().unwrap_or_default().to_owned())
                    .collect()
            }
            _ => self.texts(),
        }
    }

    fn texts(&self) -> Vec<String> {
        self.said().into_iter().map(|said| said.text).collect()
    }

    /// Waits until the bot has said these texts, and nothing more.
    fn until_said(&self, texts: &[&str]) {
        wait_for(&format!("{texts:?} on {}; there is {:?}", self.channel(), self.texts()), || {
            (self.texts() == texts).then_some(())
        });
    }
}

/// A root whose daemon has an account on a platform.
struct Home {
    root: Root,
}

impl Home {
    /// A root with this account; main's agent answers everything in its chat.
    fn new(town: &Town, more: &str) -> Self {
        Self::engaged(town, more, "pattern")
    }

    fn engaged(town: &Town, more: &str, mode: &str) -> Self {
        adapters();
        let root = Root::new(&format!("{}{more}", town.table()));
        let home = Self { root };
        home.keep(town, &town.token());
        home.wire(&town.chat(), mode);
        home
    }

    /// Keeps the token of an account.
    fn keep(&self, town: &Town, token: &str) {
        std::fs::write(self.root.path().join(format!("{}.token", town.channel())), token).unwrap();
    }

    fn wire(&self, chat: &str, mode: &str) {
        self.root.g2(&["wirings", "add", "--group", "main", "--chat", chat, "--engage", mode]);
        self.root.g2(&["chats", "set", chat, "policy=public"]);
    }

    /// Starts the daemon, and waits until the account is connected.
    fn serve(&self, town: &Town) -> Daemon {
        let daemon = self.root.serve();
        self.until_connected(town.channel());
        daemon
    }

    fn until_connected(&self, channel: &str) {
        self.until(channel, |row| row["connection"] == "connected" && row["inbound"] == "ok");
    }

    /// Waits until an account stands so, and returns how.
    fn until(&self, channel: &str, stands: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("{channel} to stand otherwise"), || {
            let row = self.root.json(&["channels", "show", channel]);
            stands(&row).then_some(row)
        })
    }

    /// Reads one column of the store.
    fn column(&self, sql: &str) -> Vec<String> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let store = rusqlite::Connection::open_with_flags(self.root.data("g2.sqlite"), flags).unwrap();
        store.busy_timeout(crate::support::DEADLINE).unwrap();
        let mut rows = store.prepare(sql).unwrap();
        rows.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn until_column(&self, sql: &str, expected: &[&str]) {
        wait_for(&format!("{expected:?} by {sql}, there is {:?}", self.column(sql)), || {
            (self.column(sql) == expected).then_some(())
        });
    }
}
