//! All that the server knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, No, bad, no, params::Params};

/// The bot's own id.
pub(crate) const BOT: i64 = 424_242;

pub(crate) struct World {
    pub(crate) token: String,
    /// Seconds; each message takes one.
    pub(crate) now: i64,
    pub(crate) chats: BTreeMap<i64, Place>,
    /// By chat and id, in the order of their coming.
    pub(crate) messages: Vec<Value>,
    pub(crate) calls: Vec<Value>,
    pub(crate) files: BTreeMap<String, Kept>,
    /// Presses that nobody answered, by id.
    pub(crate) presses: BTreeSet<String>,
    pub(crate) commands: Value,
    pub(crate) webhook: String,
    /// The bot's privacy mode is off.
    pub(crate) hears_all: bool,
    /// Which poll is the newest.
    pub(crate) poll: u64,
    updates: VecDeque<Value>,
    next_update: i64,
    next_message: i64,
    allowed: Option<BTreeSet<String>>,
    faults: Vec<Fault>,
}

/// A chat as the server has it.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    pub(crate) id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) is_forum: bool,
    pub(crate) topics: Vec<i64>,
    /// Topics in which no bot may write; 1 is General.
    pub(crate) closed_topics: Vec<i64>,
    /// The bot is an admin there.
    pub(crate) is_admin: bool,
    /// The bot was put out of it, or blocked.
    pub(crate) is_closed: bool,
    pub(crate) moved_to: Option<i64>,
}

/// A file that the server has.
pub(crate) struct Kept {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What goes wrong, and how often.
#[derive(Deserialize)]
pub(crate) struct Fault {
    method: String,
    #[serde(default = "one")]
    times: u32,
    #[serde(rename = "do")]
    what: Do,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Do {
    /// The connection breaks before the body is read: nothing is done.
    CutBefore,
    /// The connection breaks after it was done.
    CutAfter,
    Hang,
    Answer {
        status: u16,
        body: Value,
    },
}

impl Default for World {
    fn default() -> Self {
        Self {
            token: "424242:fake-token-fake-token".into(),
            now: 1_800_000_000,
            chats: BTreeMap::new(),
            messages: Vec::new(),
            calls: Vec::new(),
            files: BTreeMap::new(),
            presses: BTreeSet::new(),
            commands: json!([]),
            webhook: String::new(),
            hears_all: true,
            poll: 0,
            updates: VecDeque::new(),
            next_update: 845_120_001,
            next_message: 1,
            allowed: None,
            faults: Vec::new(),
        }
    }
}

/// The kinds that are told if a bot names none.
const NOT_BY_DEFAULT: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];

impl World {
    pub(crate) fn me() -> Value {
        json!({"id": BOT, "is_bot": true, "first_name": "G2", "username": "g2bot"})
    }

    pub(crate) fn note(&mut self, method: &str, params: &Params) {
        self.calls.push(json!({"method": method, "params": params.noted()}));
    }

    pub(crate) fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn fault(&mut self, method: &str) -> Option<Do> {
        let fault = self.faults.iter_mut().find(|f| f.times > 0 && f.method.eq_ignore_ascii_case(method))?;
        fault.times -= 1;
        Some(fault.what.clone())
    }

    /// Takes an update in, as a person would make it, and fills in what the server gives.
    pub(crate) fn update(&mut self, mut update: Value) -> Value {
        let id = self.next_update;
        let Some(kind) = update.as_object().and_then(|update| update.keys().next().cloned()) else {
            return json!({"error": "no kind"});
        };
        let is_message = ["message", "channel_post"].contains(&kind.as_str());
        let what = &mut update[&kind];
        if what.get("chat").is_some() || is_message {
            if what.get("date").is_none() {
                self.now += 1;
                what["date"] = self.now.into();
            }
            if is_message && what.get("message_id").is_none() {
                what["message_id"] = self.message_id().into();
            }
            if let Some(chat) = what["chat"]["id"].as_i64()
                && let Some(place) = self.chats.get(&chat)
            {
                what["chat"] = place.shown();
            }
        }
        if kind == "callback_query" {
            let query = what["id"].as_str().map_or_else(|| format!("q{id}"), str::to_owned);
            what["id"] = query.clone().into();
            what["chat_instance"] = "1".into();
            self.presses.insert(query);
        }
        if is_message {
            self.messages.push(what.clone());
        }
        let message = what["message_id"].clone();
        let told = match &self.allowed {
            Some(allowed) if !allowed.is_empty() => allowed.contains(&kind),
            _ => !NOT_BY_DEFAULT.contains(&kind.as_str()),
        };
        if told {
            self.next_update += 1;
            update["update_id"] = id.into();
            self.updates.push_back(update);
        }
        json!({"update_id": id, "message_id": message, "told": told})
    }

    /// Takes in a message of each kind, of Ada's. Returns what the kinds are called, in order.
    pub(crate) fn rows(&mut self, chat: i64) -> Value {
        let place = self.chats.get(&chat).map(Place::shown).unwrap_or_default();
        let mut names = Vec::new();
        for (name, more) in super::rows(&place) {
            let ada = json!({"id": super::ADA, "is_bot": false, "first_name": "Ada"});
            let mut message = json!({"chat": {"id": chat}, "from": ada});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            self.update(json!({"message": message}));
            names.push(name);
        }
        json!({"rows": names})
    }

    /// A group becomes a supergroup.
    pub(crate) fn migrate(&mut self, from: i64, to: i64) {
        let Some(place) = self.chats.get_mut(&from) else { return };
        place.moved_to = Some(to);
        let new = Place { id: to, kind: "supergroup".into(), moved_to: None, ..place.clone() };
        self.chats.insert(to, new);
        let person = json!({"id": 7, "is_bot": false, "first_name": "Ada"});
        self.update(json!({"message": {"chat": {"id": from}, "from": person, "migrate_to_chat_id": to}}));
        self.update(json!({"message": {"chat": {"id": to}, "from": person, "migrate_from_chat_id": from}}));
    }

    /// Begins a poll: acknowledges what it names, and ends the poll before it.
    pub(crate) fn begin_poll(&mut self, params: &Params) -> Result<u64, No> {
        if !self.webhook.is_empty() {
            return no(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            );
        }
        if let Value::Array(kinds) = params.json("allowed_updates")? {
            self.allowed = Some(kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        }
        match params.int("offset")?.unwrap_or(0) {
            back if back < 0 => {
                let keep = usize::try_from(-back).unwrap_or(0);
                self.updates.drain(..self.updates.len().saturating_sub(keep));
            }
            // A number from the future is a mistake, or of the time before the numbers began anew.
            offset if offset <= self.next_update + 10 => {
                self.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
            }
            _ => {}
        }
        self.poll += 1;
        Ok(self.poll)
    }

    pub(crate) fn waiting(&self, limit: usize) -> Vec<Value> {
        let as_sent = |update: &Value| {
            let mut update = update.clone();
            if let Some(fields) =
                update.as_object_mut().filter(|fields| fields.contains_key("without_number"))
            {
                fields.retain(|name, _| name != "without_number" && name != "update_id");
            }
            update
        };
        self.updates.iter().take(limit).map(as_sent).collect()
    }

    pub(crate) fn unread(&self) -> usize {
        self.updates.len()
    }

    pub(crate) fn message_id(&mut self) -> i64 {
        self.next_message += 1;
        self.next_message - 1
    }

    /// The chat that a request names, if the bot may write there.
    pub(crate) fn place(&self, params: &Params) -> Result<Place, No> {
        let Some(id) = params.int("chat_id")? else { return bad("chat_id is empty") };
        let Some(place) = self.chats.get(&id) else { return bad("chat not found") };
        if let Some(to) = place.moved_to {
            let parameters = json!({"migrate_to_chat_id": to});
            let text = "Bad Request: group chat was upgraded to a supergroup chat";
            return Err(No { code: 400, text: text.into(), parameters });
        }
        if place.is_closed {
            let why = if place.kind == "private" {
                "bot was blocked by the user"
            } else {
                "bot was kicked from the supergroup chat"
            };
            return no(403, format!("Forbidden: {why}"));
        }
        Ok(place.clone())
    }

    pub(crate) fn find(&self, chat: i64, id: i64) -> Option<usize> {
        self.messages.iter().position(|m| m["chat"]["id"] == chat && m["message_id"] == id)
    }

    pub(crate) fn perform(&mut self, method: &str, params: &Params) -> Answer {
        super::methods::perform(self, method, params)
    }
}

impl Place {
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({"id": self.id, "type": self.kind});
        if self.kind == "private" {
            shown["first_name"] = self.title.as_str().into();
        } else {
            shown["title"] = self.title.as_str().into();
        }
        if self.is_forum {
            shown["is_forum"] = true.into();
        }
        shown
    }
}
