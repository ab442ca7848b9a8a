//! What the Discord of the tests knows: people, channels, messages and sessions.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

pub const TOKEN: &str = "MTA.token.of.the.bot";
pub const BOT: u64 = 900;
pub const BOT_ID: &str = "900";
pub const APPLICATION: u64 = 901;
/// The role that is the bot's alone.
pub const OWN_ROLE: &str = "905";
pub const GUILD: u64 = 800;
/// Between the ids of two messages, ms.
const STEP: u64 = 10_000;
/// Discord's ids count the time from here, ms since 1970.
const DISCORD_MS: u64 = 1_420_070_400_000;
/// Ids begin on 2026-11-01, ms since 1970.
const BEGIN_MS: u64 = 1_793_491_200_000;

const GUILDS: u64 = 1;
const GUILD_MESSAGES: u64 = 1 << 9;
const GUILD_REACTIONS: u64 = 1 << 10;
const DIRECT_MESSAGES: u64 = 1 << 12;
const DIRECT_REACTIONS: u64 = 1 << 13;
pub const CONTENT: u64 = 1 << 15;

/// What a session's connection is told to write.
pub enum Write {
    Line(String),
    Close(u16),
    /// It goes without a word.
    Cut,
}

#[derive(Default)]
pub struct Session {
    pub intents: u64,
    pub lines: Vec<String>,
    pub connection: Option<UnboundedSender<Write>>,
}

#[derive(Default)]
pub struct Place {
    pub kind: u64,
    pub name: String,
    pub parent: Option<u64>,
    pub person: Option<u64>,
    pub messages: BTreeMap<u64, Value>,
    /// We are not in it.
    pub closed: bool,
    /// We may not view it.
    pub unseen: bool,
    /// A thread that was put to rest, and that only a moderator opens again.
    pub locked: bool,
    /// A thread that is at rest is not listed.
    pub at_rest: bool,
}

/// What is done to the next request that fits, instead of or after serving it.
#[derive(Clone)]
pub enum Fault {
    Answer(u16, Value),
    /// The connection ends before it is served.
    CutBefore,
    /// The connection ends after it was served.
    CutAfter,
}

pub struct World {
    pub rest: String,
    pub gateway: String,
    pub token: String,
    pub content_allowed: bool,
    pub places: BTreeMap<u64, Place>,
    pub people: BTreeMap<u64, Value>,
    pub sessions: BTreeMap<String, Session>,
    pub made: HashMap<(u64, String), u64>,
    pub files: HashMap<String, Vec<u8>>,
    /// `METHOD path` of what was asked, in order.
    pub asked: Vec<String>,
    pub faults: VecDeque<(String, Fault)>,
    /// Messages of ours that would have rung somebody's device.
    pub pings: Vec<Value>,
    /// Answers to presses: of the callback, and what the person was told.
    pub callbacks: Vec<(String, Value)>,
    pub whispers: Vec<(String, Value)>,
    /// The commands that are listed for everybody.
    pub commands: Value,
    /// Connections to the gateway wait.
    pub away: bool,
    pub identified: usize,
    pub resumed: usize,
    next: u64,
    pub step: u64,
    /// When the first id is made, ms since 1970.
    pub begin_ms: u64,
    /// Whether ids are made by this machine's clock.
    pub live: bool,
}

/// A file that comes with a message: its name and its bytes.
pub type File = (String, Vec<u8>);
pub type Files = Vec<File>;

/// A refusal of the API.
pub struct Refused(pub(super) u16, pub(super) Value);

pub fn refuse<T>(status: u16, code: u64, message: &str) -> Result<T, Refused> {
    Err(Refused(status, json!({"message": message, "code": code})))
}

fn wrong<T>(field: &str, why: &str) -> Result<T, Refused> {
    let errors = json!({field: {"_errors": [{"code": "BASE_TYPE_BAD_LENGTH", "message": why}]}});
    Err(Refused(400, json!({"message": "Invalid Form Body", "code": 50035, "errors": errors})))
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

impl World {
    pub fn new(rest: String, gateway: String) -> Self {
        let bot = json!({"id": BOT.to_string(), "username": "g2", "discriminator": "0", "global_name": "G2", "avatar": null, "bot": true});
        let mut this = Self {
            rest,
            gateway,
            token: TOKEN.into(),
            content_allowed: true,
            places: BTreeMap::new(),
            people: BTreeMap::from([(BOT, bot)]),
            sessions: BTreeMap::new(),
            made: HashMap::new(),
            files: HashMap::new(),
            asked: Vec::new(),
            faults: VecDeque::new(),
            pings: Vec::new(),
            callbacks: Vec::new(),
            whispers: Vec::new(),
            commands: json!([]),
            away: false,
            identified: 0,
            resumed: 0,
            next: 1,
            step: STEP,
            begin_ms: BEGIN_MS,
            live: false,
        };
        this.places.insert(700, Place { name: "general".into(), ..Place::default() });
        this.places.insert(701, Place { name: "random".into(), ..Place::default() });
        this.person(100, "ada", Some("Ada"), false);
        this.person(101, "eve", None, false);
        this
    }

    fn person(&mut self, id: u64, name: &str, shown: Option<&str>, bot: bool) {
        let person = json!({"id": id.to_string(), "username": name, "discriminator": "0", "global_name": shown, "avatar": null, "bot": bot});
        self.people.insert(id, person);
    }

    pub fn id(&mut self) -> u64 {
        if self.live {
            self.begin_ms = now_ms().max(self.begin_ms + 1);
            return (self.begin_ms - DISCORD_MS) << 22;
        }
        self.next += 1;
        (self.begin_ms - DISCORD_MS + self.next * self.step) << 22
    }

    /// The time that an id was made at, which is the time of its message.
    pub fn time(id: u64) -> String {
        let ms = i64::try_from((id >> 22) + DISCORD_MS).unwrap();
        jiff::Timestamp::from_millisecond(ms).unwrap().strftime("%Y-%m-%dT%H:%M:%S.000000+00:00").to_string()
    }

    pub fn channel(&self, id: u64) -> Value {
        let place = &self.places[&id];
        let last = place.messages.keys().next_back().map(u64::to_string);
        let mut channel =
            json!({"id": id.to_string(), "type": place.kind, "last_message_id": last, "flags": 0});
        let more = match (place.person, place.parent) {
            (Some(person), _) => json!({"recipients": [self.people[&person]]}),
            (None, Some(parent)) => json!({
                "name": place.name, "guild_id": GUILD.to_string(), "parent_id": parent.to_string(), "owner_id": "100",
                "message_count": place.messages.len(), "member_count": 2, "rate_limit_per_user": 0,
                "thread_metadata": {"archived": place.at_rest, "auto_archive_duration": 1440, "locked": false,
                    "archive_timestamp": "2026-11-01T00:00:00.000000+00:00"},
            }),
            (None, None) => json!({
                "name": place.name, "guild_id": GUILD.to_string(), "position": 0, "permission_overwrites": [],
                "nsfw": false, "rate_limit_per_user": 0, "topic": null, "parent_id": null,
            }),
        };
        channel.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        channel
    }

    pub fn guild(&self) -> Value {
        let all = |threads: bool| -> Vec<Value> {
            let of = self
                .places
                .iter()
                .filter(|(_, place)| place.person.is_none() && place.parent.is_some() == threads);
            of.filter(|(_, place)| !place.at_rest).map(|(id, _)| self.channel(*id)).collect()
        };
        let members: Vec<Value> = self.people.values().map(|user| self.member(user)).collect();
        json!({
            "id": GUILD.to_string(), "name": "Home", "unavailable": false, "joined_at": "2026-10-01T00:00:00.000000+00:00",
            "channels": all(false), "threads": all(true), "members": members, "member_count": members.len(), "roles": [
                {"id": GUILD.to_string(), "name": "@everyone", "color": 0, "colors": {"primary_color": 0}, "hoist": false,
                 "position": 0, "permissions": "2251799813685247", "managed": false, "mentionable": false, "flags": 0},
                super::rows::own_role()],
            "emojis": [], "stickers": [], "features": [], "owner_id": "100", "icon": null, "large": false, "presences": [],
            "voice_states": [], "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [], "mfa_level": 0,
            "verification_level": 0, "explicit_content_filter": 0, "default_message_notifications": 0, "premium_tier": 0,
            "premium_progress_bar_enabled": false, "nsfw_level": 0, "system_channel_flags": 0, "preferred_locale": "en-US",
            "afk_timeout": 300, "splash": null, "discovery_splash": null, "description": null, "banner": null,
            "afk_channel_id": null, "system_channel_id": null, "rules_channel_id": null, "public_updates_channel_id": null,
            "vanity_url_code": null, "application_id": null, "safety_alerts_channel_id": null,
        })
    }

    fn member(&self, user: &Value) -> Value {
        let nick = (user["username"] == "eve").then_some("Evie");
        json!({"user": user, "nick": nick, "roles": [], "joined_at": "2026-10-01T00:00:00.000000+00:00", "deaf": false,
            "mute": false, "flags": 0, "avatar": null, "premium_since": null})
    }

    /// Tells all sessions that want it.
    pub fn dispatch(&mut self, name: &str, data: &Value) {
        let direct = data.get("guild_id").is_none();
        let wanted = match name {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" if direct => DIRECT_MESSAGES,
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" => GUILD_MESSAGES,
            "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" if direct => DIRECT_REACTIONS,
            "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => GUILD_REACTIONS,
            "GUILD_CREATE" | "THREAD_CREATE" | "CHANNEL_CREATE" | "GUILD_ROLE_UPDATE"
            | "GUILD_ROLE_DELETE" => GUILDS,
            _ => 0,
        };
        for session in self.sessions.values_mut().filter(|session| session.intents & wanted == wanted) {
            let mut data = data.clone();
            let named =
                data["mentions"].as_array().is_some_and(|all| all.iter().any(|user| user["id"] == BOT_ID));
            if name == "MESSAGE_CREATE" && session.intents & CONTENT == 0 && !direct && !named {
                data["content"] = "".into();
            }
            session.tell(name, &data);
        }
    }

    /// Makes a message and tells of it.
    pub fn say(&mut self, channel: u64, author: u64, content: &str, more: &Value) -> u64 {
        let id = self.id();
        let named: Vec<Value> = self
            .people
            .values()
            .filter(|user| content.contains(&format!("<@{}>", user["id"].as_str().unwrap())))
            .cloned()
            .collect();
        let mut message = json!({
            "id": id.to_string(), "channel_id": channel.to_string(), "author": self.people[&author], "content": content,
            "timestamp": Self::time(id), "edited_timestamp": null, "tts": false, "mention_everyone": content.contains("@everyone"),
            "mentions": named, "mention_roles": [], "attachments": [], "embeds": [], "pinned": false, "type": 0, "flags": 0,
            "components": [],
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if message["message_reference"]["type"] != 1
            && let Some(of) = message["message_reference"]["message_id"].as_str()
        {
            let of = of.parse::<u64>().ok().and_then(|of| self.places[&channel].messages.get(&of)).cloned();
            message["referenced_message"] = of.unwrap_or_default();
        }
        let place = self.places.get_mut(&channel).unwrap();
        place.at_rest = false;
        // What is read later has no nonce.
        let mut kept = message.clone();
        kept.as_object_mut().unwrap().remove("nonce");
        place.messages.insert(id, kept);
        let told = self.placed(channel, message, author);
        self.dispatch("MESSAGE_CREATE", &told);
        id
    }

    /// A thing of a server names the server and the member.
    pub fn placed(&self, channel: u64, mut data: Value, who: u64) -> Value {
        if self.places[&channel].person.is_none() {
            data["guild_id"] = GUILD.to_string().into();
            let mut member = self.member(&self.people[&who]);
            if data.get("author").is_some() {
                member.as_object_mut().unwrap().remove("user");
            }
            data["member"] = member;
        }
        data
    }

    /// Makes a message of the bot's, as strictly as Discord does.
    pub fn post(&mut self, channel: u64, body: &Value, files: &[File]) -> Result<Value, Refused> {
        self.check(body, files)?;
        let nonce = body["nonce"].as_str().map_or_else(|| body["nonce"].to_string(), str::to_owned);
        if body["enforce_nonce"] == true
            && let Some(id) = self.made.get(&(channel, nonce.clone()))
        {
            return Ok(self.places[&channel].messages[id].clone());
        }
        let content = body["content"].as_str().unwrap_or_default();
        let allowed = &body["allowed_mentions"];
        let parsed = allowed.get("parse").and_then(Value::as_array).is_none_or(|parse| !parse.is_empty());
        let replies = body["message_reference"].is_object() && allowed["replied_user"] != false;
        if (parsed && content.contains('@')) || replies {
            self.pings.push(body.clone());
        }
        let mut more = json!({"components": body["components"].as_array().cloned().unwrap_or_default(),
            "mention_everyone": false, "mentions": [], "nonce": body["nonce"]});
        // Discord reads ids as texts and as numbers.
        let of = &body["message_reference"]["message_id"];
        if !of.is_null() {
            let of = of.as_str().map_or_else(|| of.to_string(), str::to_owned);
            let there = self.places[&channel].messages.contains_key(&of.parse().unwrap_or(0));
            if there {
                more["message_reference"] =
                    json!({"message_id": of, "channel_id": channel.to_string(), "type": 0});
                more["type"] = 19.into();
            } else if body["message_reference"]["fail_if_not_exists"] != false {
                return wrong("message_reference", "Unknown message");
            }
        }
        let mut kept = Vec::new();
        for (n, (name, bytes)) in files.iter().enumerate() {
            kept.push(self.file(name, "application/octet-stream", bytes.clone(), n));
        }
        more["attachments"] = kept.into();
        let id = self.say(channel, BOT, content.trim(), &more);
        self.made.insert((channel, nonce), id);
        let mut message = self.places[&channel].messages[&id].clone();
        message["nonce"] = body["nonce"].clone();
        Ok(message)
    }

    pub fn check(&self, body: &Value, files: &[File]) -> Result<(), Refused> {
        let content = body["content"].as_str().unwrap_or_default();
        if content.chars().count() > 2000 {
            return wrong("content", "Must be 2000 or fewer in length.");
        }
        if files.iter().any(|(_, bytes)| bytes.len() > 10 << 20) {
            return refuse(413, 40005, "Request entity too large");
        }
        if body["nonce"].as_str().is_some_and(|nonce| nonce.len() > 25) {
            return wrong("nonce", "Must be 25 or fewer in length.");
        }
        let rows = body["components"].as_array().cloned().unwrap_or_default();
        let mut seen = Vec::new();
        for row in &rows {
            let buttons = row["components"].as_array().cloned().unwrap_or_default();
            if row["type"] != 1 || buttons.is_empty() || buttons.len() > 5 || rows.len() > 5 {
                return wrong("components", "Must be between 1 and 5 in length.");
            }
            for button in buttons {
                let id = button["custom_id"].as_str().unwrap_or_default().to_owned();
                let label = button["label"].as_str().unwrap_or_default();
                if button["type"] != 2
                    || id.is_empty()
                    || id.chars().count() > 100
                    || label.chars().count() > 80
                    || seen.contains(&id)
                {
                    return wrong("components", "Component custom id cannot be duplicated, or is too long");
                }
                seen.push(id);
            }
        }
        Ok(())
    }

    /// Lists commands, as strictly as Discord does.
    pub fn list_commands(&mut self, commands: &Value) -> Result<Value, Refused> {
        let Some(all) = commands.as_array().filter(|all| all.len() <= 100) else {
            return wrong("commands", "Must be 100 or fewer in length.");
        };
        let plain = |c: char| c.is_alphanumeric() && !c.is_uppercase() || c == '-' || c == '_';
        let is_named = |of: &Value| {
            let (name, about) =
                (of["name"].as_str().unwrap_or_default(), of["description"].as_str().unwrap_or_default());
            (1..=32).contains(&name.chars().count())
                && name.chars().all(plain)
                && (1..=100).contains(&about.chars().count())
        };
        for command in all {
            let options = command["options"].as_array().cloned().unwrap_or_default();
            if !is_named(command) || options.len() > 25 || !options.iter().all(is_named) {
                return wrong("name", "Command name is invalid");
            }
        }
        self.commands = all
            .iter()
            .enumerate()
            .map(|(n, command)| {
                let mut command = command.clone();
                command["id"] = (6000 + n).to_string().into();
                command["application_id"] = APPLICATION.to_string().into();
                command["version"] = "1".into();
                command["default_member_permissions"] = Value::Null;
                command["nsfw"] = false.into();
                command
            })
            .collect();
        Ok(self.commands.clone())
    }

    /// Keeps a file; returns it as an attachment.
    pub fn file(&mut self, name: &str, mime: &str, bytes: Vec<u8>, n: usize) -> Value {
        let path = format!("/attachments/{}/{n}/{name}", self.files.len());
        let size = bytes.len();
        self.files.insert(path.clone(), bytes);
        json!({"id": (self.files.len() + 5000).to_string(), "filename": name, "content_type": mime, "size": size,
            "url": format!("{}{path}?ex=1", self.rest), "proxy_url": format!("{}{path}", self.rest)})
    }
}

impl Session {
    pub fn tell(&mut self, name: &str, data: &Value) {
        let line = crate::on_the_wire(&json!({"op": 0, "s": self.lines.len() + 1, "t": name, "d": data}));
        if let Some(connection) = &self.connection {
            let _ = connection.send(Write::Line(line.clone()));
        }
        self.lines.push(line);
    }
}
