//! The methods of Slack's Web API, and what it refuses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::world::{APP, BOT, BOT_ID, File, TEAM, World};

/// What a method is given.
pub(super) type Given = BTreeMap<String, Value>;

/// A refusal: its word, and the scope that is missing.
pub(super) struct Refused(pub(super) &'static str, pub(super) Option<&'static str>);

type Answered = Result<Value, Refused>;

fn no<T>(word: &'static str) -> Result<T, Refused> {
    Err(Refused(word, None))
}

fn word<'a>(given: &'a Given, name: &str) -> &'a str {
    given.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A field that is JSON, as itself or written in a text.
fn json_of(given: &Given, name: &str) -> Result<Value, ()> {
    match given.get(name) {
        Some(Value::String(text)) if text.is_empty() => Ok(Value::Null),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| ()),
        Some(other) => Ok(other.clone()),
        None => Ok(Value::Null),
    }
}

impl World {
    fn needs(&self, scope: &'static str) -> Result<(), Refused> {
        if self.scopes.contains(scope) { Ok(()) } else { Err(Refused("missing_scope", Some(scope))) }
    }

    /// Checks that a channel is there, and that we are in it.
    fn place(&self, id: &str) -> Result<(), Refused> {
        match self.places.get(id) {
            None => no("channel_not_found"),
            Some(place) if place.closed => no("not_in_channel"),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn asked_as_bot(&mut self, method: &str, given: &Given) -> Answered {
        let channel = word(given, "channel").to_owned();
        match method {
            "auth.test" => {
                Ok(json!({"url": "https://home.slack.com/", "team": "Home", "user": "g2", "team_id": TEAM,
                "user_id": BOT, "bot_id": BOT_ID, "is_enterprise_install": false}))
            }
            "users.info" => {
                self.needs("users:read")?;
                let user = self.people.get(word(given, "user")).cloned();
                user.map_or_else(|| no("user_not_found"), |user| Ok(json!({"user": user})))
            }
            "conversations.info" => {
                self.needs("channels:read")?;
                match self.places.contains_key(&channel) {
                    true => Ok(json!({"channel": self.channel(&channel)})),
                    false => no("channel_not_found"),
                }
            }
            "users.conversations" => {
                self.needs("channels:read")?;
                let wants = word(given, "types").to_owned();
                let is_wanted = |id: &str| {
                    wants.split(',').any(|kind| match &self.places[id].person {
                        Some(_) => kind == "im",
                        None => kind == "public_channel",
                    })
                };
                let all: Vec<Value> = self
                    .places
                    .keys()
                    .filter(|id| !self.places[*id].closed && is_wanted(id))
                    .map(|id| self.channel(id))
                    .collect();
                Ok(paged("channels", all, given))
            }
            "conversations.open" => {
                self.needs("im:write")?;
                let who = word(given, "users").to_owned();
                if who == BOT || !self.people.contains_key(&who) {
                    return no("user_not_found");
                }
                Ok(json!({"channel": {"id": self.dm(&who)}}))
            }
            "conversations.history" | "conversations.replies" => {
                self.needs("channels:history")?;
                self.place(&channel)?;
                self.history(method, &channel, given)
            }
            "chat.postMessage" => {
                self.needs("chat:write")?;
                self.post(&channel, given)
            }
            "chat.postEphemeral" => {
                self.needs("chat:write")?;
                self.place(&channel)?;
                let who = word(given, "user").to_owned();
                if !self.people.contains_key(&who) {
                    return no("user_not_in_channel");
                }
                self.whispers.push((who, word(given, "text").to_owned()));
                Ok(json!({"message_ts": "1.1"}))
            }
            "chat.update" => self.update(&channel, given),
            "chat.delete" => {
                self.needs("chat:write")?;
                let ts = word(given, "ts").to_owned();
                match self.places.get(&channel).and_then(|place| place.messages.get(&Self::at(&ts))) {
                    None => no("message_not_found"),
                    Some(message) if message["user"] != BOT => no("cant_delete_message"),
                    Some(_) => {
                        self.delete(&channel, &ts);
                        Ok(json!({"channel": channel, "ts": ts}))
                    }
                }
            }
            "reactions.add" | "reactions.remove" => {
                self.needs("reactions:write")?;
                self.sign(&channel, word(given, "timestamp"), word(given, "name"), method == "reactions.add")
            }
            "reactions.get" => {
                self.needs("reactions:read")?;
                let at = Self::at(word(given, "timestamp"));
                let message = self.places.get(&channel).and_then(|place| place.messages.get(&at)).cloned();
                message.map_or_else(
                    || no("message_not_found"),
                    |message| Ok(json!({"type": "message", "message": message})),
                )
            }
            "files.getUploadURLExternal" => {
                self.needs("files:write")?;
                let length = given.get("length").and_then(|length| match length {
                    Value::String(text) => text.parse::<u64>().ok(),
                    other => other.as_u64(),
                });
                if word(given, "filename").is_empty() || length.is_none_or(|length| length == 0) {
                    return no("invalid_arguments");
                }
                self.next += 1;
                let id = format!("F{}", self.next);
                self.uploads.insert(id.clone(), (word(given, "filename").to_owned(), Vec::new()));
                Ok(json!({"upload_url": format!("{}/upload/v1/{id}", self.rest), "file_id": id}))
            }
            "files.completeUploadExternal" => {
                self.needs("files:write")?;
                self.complete(given)
            }
            "files.info" => {
                self.needs("files:read")?;
                let Some(file) = self.files.get(word(given, "file")) else { return no("file_not_found") };
                let mut about = file.about.clone();
                if self.slow_shares > 0 {
                    self.slow_shares -= 1;
                    about["shares"] = json!({});
                }
                Ok(json!({"file": about}))
            }
            "files.delete" => match self.files.remove(word(given, "file")) {
                Some(_) => Ok(json!({})),
                None => no("file_not_found"),
            },
            _ => no("unknown_method"),
        }
    }

    pub(super) fn socket_url(&mut self) -> Value {
        self.next += 1;
        let ticket = format!("ticket-{}", self.next);
        self.tickets.insert(ticket.clone());
        json!({"url": format!("{}/link/?ticket={ticket}&app_id={APP}", self.socket)})
    }

    pub fn dm(&mut self, who: &str) -> String {
        let known = self.places.iter().find(|(_, place)| place.person.as_deref() == Some(who));
        let known = known.map(|(id, _)| id.clone());
        known.unwrap_or_else(|| {
            let id = format!("D{}", who.trim_start_matches('U'));
            self.open(&id, "", Some(who));
            id
        })
    }

    fn history(&self, method: &str, channel: &str, given: &Given) -> Answered {
        let messages = &self.places[channel].messages;
        let oldest = Self::at(word(given, "oldest"));
        let with_metadata = ["true", "1"].contains(&word(given, "include_all_metadata"))
            || given.get("include_all_metadata") == Some(&Value::Bool(true));
        let shown = |message: &Value| {
            let mut message = message.clone();
            if !with_metadata {
                message.as_object_mut().unwrap().remove("metadata");
            }
            message
        };
        let root = word(given, "ts");
        let is_reply =
            |message: &Value| !message["thread_ts"].is_null() && message["thread_ts"] != message["ts"];
        let mut all: Vec<Value> = if method == "conversations.replies" {
            if !messages.contains_key(&Self::at(root)) {
                return no("thread_not_found");
            }
            // The root comes first, however old it is.
            let of = |message: &&Value| message["ts"] == root || message["thread_ts"] == root;
            messages
                .values()
                .filter(of)
                .filter(|one| one["ts"] == root || Self::at(one["ts"].as_str().unwrap()) > oldest)
                .map(shown)
                .collect()
        } else {
            let in_channel =
                |message: &&Value| !is_reply(message) || message["subtype"] == "thread_broadcast";
            messages.range(oldest + 1..).map(|(_, message)| message).filter(in_channel).map(shown).collect()
        };
        if method == "conversations.history" {
            all.reverse();
        }
        Ok(paged("messages", all, given))
    }

    fn has(&self, channel: &str, ts: &str) -> bool {
        self.places[channel].messages.contains_key(&Self::at(ts))
    }

    fn check(text: &str, blocks: &Value) -> Result<(), Refused> {
        if text.chars().count() > 40_000 {
            return no("msg_too_long");
        }
        let Some(blocks) = blocks.as_array() else {
            return if blocks.is_null() { Ok(()) } else { no("invalid_blocks_format") };
        };
        let mut ids = std::collections::BTreeSet::new();
        let fits = blocks.iter().all(|block| match block["type"].as_str() {
            Some("section") => {
                (1..=3000).contains(&block["text"]["text"].as_str().unwrap_or_default().chars().count())
            }
            Some("actions") => {
                let elements = block["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
                (1..=25).contains(&elements.len())
                    && elements.iter().all(|one| {
                        let label = one["text"]["text"].as_str().unwrap_or_default().chars().count();
                        one["type"] == "button"
                            && one["text"]["type"] == "plain_text"
                            && (1..=75).contains(&label)
                            && one["value"].as_str().unwrap_or_default().chars().count() <= 2000
                            && ids.insert(one["action_id"].to_string())
                    })
            }
            _ => false,
        });
        if fits && blocks.len() <= 50 { Ok(()) } else { no("invalid_blocks") }
    }

    fn post(&mut self, channel: &str, given: &Given) -> Answered {
        self.place(channel)?;
        if self.places[channel].archived {
            return no("is_archived");
        }
        let text = word(given, "text").to_owned();
        let Ok(blocks) = json_of(given, "blocks") else { return no("invalid_blocks_format") };
        let Ok(metadata) = json_of(given, "metadata") else { return no("invalid_metadata_format") };
        if text.trim().is_empty() && blocks.is_null() {
            return no("no_text");
        }
        Self::check(&text, &blocks)?;
        if !metadata.is_null()
            && (!metadata["event_type"].is_string() || !metadata["event_payload"].is_object())
        {
            return no("invalid_metadata_schema");
        }
        let thread = word(given, "thread_ts").to_owned();
        // What is said in a thread that went stands in the channel itself.
        let thread = if self.has(channel, &thread) { thread } else { String::new() };
        let mut more = json!({"bot_id": BOT_ID, "app_id": APP, "bot_profile": {"id": BOT_ID, "name": "G2", "app_id": APP}});
        if !thread.is_empty() {
            more["thread_ts"] = thread.into();
        }
        if !blocks.is_null() {
            more["blocks"] = blocks;
        }
        if !metadata.is_null() {
            more["metadata"] = metadata;
        }
        let ts = self.say(channel, BOT, &text, &more);
        let message = self.places[channel].messages[&Self::at(&ts)].clone();
        Ok(json!({"channel": channel, "ts": ts, "message": message}))
    }

    fn update(&mut self, channel: &str, given: &Given) -> Answered {
        self.needs("chat:write")?;
        let ts = word(given, "ts").to_owned();
        let Some(message) =
            self.places.get(channel).and_then(|place| place.messages.get(&Self::at(&ts))).cloned()
        else {
            return no("message_not_found");
        };
        if message["user"] != BOT {
            return no("cant_update_message");
        }
        let Ok(blocks) = json_of(given, "blocks") else { return no("invalid_blocks_format") };
        let text = given
            .get("text")
            .and_then(Value::as_str)
            .or(message["text"].as_str())
            .unwrap_or_default()
            .to_owned();
        if text.trim().is_empty() {
            return no("no_text");
        }
        Self::check(&text, &blocks)?;
        self.edit(channel, &ts, &text, &blocks);
        Ok(json!({"channel": channel, "ts": ts, "text": text}))
    }

    /// A message has other words; `blocks` that are `null` stay as they are.
    pub fn edit(&mut self, channel: &str, ts: &str, text: &str, blocks: &Value) {
        let edited = Self::ts(self.time());
        let message = self.places.get_mut(channel).unwrap().messages.get_mut(&Self::at(ts)).unwrap();
        let before = message.clone();
        message["text"] = text.into();
        message["edited"] = json!({"user": message["user"], "ts": edited});
        if !blocks.is_null() {
            message["blocks"] = blocks.clone();
        }
        let message = message.clone();
        self.changed(channel, &message, &before, &edited);
    }

    /// Tells that a message is another one now.
    pub fn changed(&mut self, channel: &str, message: &Value, before: &Value, at: &str) {
        self.dispatch(json!({"type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "ts": at,
            "event_ts": at, "message": message, "previous_message": before, "channel_type": "channel"}));
    }

    pub fn delete(&mut self, channel: &str, ts: &str) {
        let at = Self::ts(self.time());
        let before = self.places.get_mut(channel).unwrap().messages.remove(&Self::at(ts)).unwrap();
        self.dispatch(json!({"type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel, "ts": at,
            "event_ts": at, "deleted_ts": ts, "previous_message": before, "channel_type": "channel"}));
    }

    /// Somebody puts a sign to a message, or takes it back.
    pub fn react(&mut self, channel: &str, ts: &str, who: &str, name: &str, on: bool) {
        let at = Self::ts(self.time());
        let message = self.places.get_mut(channel).unwrap().messages.get_mut(&Self::at(ts)).unwrap();
        let mut signs = message["reactions"].as_array().cloned().unwrap_or_default();
        let mut users: Vec<Value> = signs
            .iter()
            .find(|sign| sign["name"] == name)
            .and_then(|sign| sign["users"].as_array().cloned())
            .unwrap_or_default();
        users.retain(|user| user != who);
        if on {
            users.push(who.into());
        }
        signs.retain(|sign| sign["name"] != name);
        if !users.is_empty() {
            signs.push(json!({"name": name, "users": users, "count": users.len()}));
        }
        message["reactions"] = signs.into();
        let kind = if on { "reaction_added" } else { "reaction_removed" };
        let user = message["user"].clone();
        self.dispatch(json!({"type": kind, "user": who, "reaction": name, "item_user": user, "event_ts": at,
            "item": {"type": "message", "channel": channel, "ts": ts}}));
    }

    fn sign(&mut self, channel: &str, ts: &str, name: &str, on: bool) -> Answered {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-+':".contains(&b);
        if name.is_empty() || !name.bytes().all(fits) || name.starts_with(':') {
            return no("invalid_name");
        }
        let Some(message) = self.places.get(channel).and_then(|place| place.messages.get(&Self::at(ts)))
        else {
            return no("message_not_found");
        };
        let signs = message["reactions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours =
            |sign: &Value| sign["users"].as_array().is_some_and(|users| users.iter().any(|user| user == BOT));
        match (on, signs.iter().any(|sign| sign["name"] == name && ours(sign))) {
            (true, true) => return no("already_reacted"),
            (false, false) => return no("no_reaction"),
            _ => {}
        }
        self.react(channel, ts, BOT, name, on);
        Ok(json!({}))
    }

    fn complete(&mut self, given: &Given) -> Answered {
        let channel = word(given, "channel_id").to_owned();
        self.place(&channel)?;
        let Ok(Value::Array(named)) = json_of(given, "files") else { return no("invalid_arguments") };
        let ids: Vec<String> =
            named.iter().filter_map(|file| file["id"].as_str().map(str::to_owned)).collect();
        if ids.is_empty()
            || !ids.iter().all(|id| self.uploads.get(id).is_some_and(|(_, bytes)| !bytes.is_empty()))
        {
            return no("file_not_found");
        }
        let thread = word(given, "thread_ts").to_owned();
        let thread = if self.has(&channel, &thread) { thread } else { String::new() };
        let mut files = Vec::new();
        for (id, named) in ids.iter().zip(&named) {
            let (name, bytes) = self.uploads.remove(id).unwrap();
            let mime = if name.ends_with(".png") { "image/png" } else { "application/octet-stream" };
            files.push(self.file(id, &name, mime, bytes));
            files.last_mut().unwrap()["title"] = named["title"].clone();
        }
        let mut more =
            json!({"subtype": "file_share", "files": files, "bot_id": BOT_ID, "app_id": APP, "upload": true});
        if !thread.is_empty() {
            more["thread_ts"] = thread.as_str().into();
        }
        let ts = self.say(&channel, BOT, word(given, "initial_comment"), &more);
        let kind = if self.places[&channel].person.is_some() { "private" } else { "public" };
        let mut share = json!({"ts": ts});
        if !thread.is_empty() {
            share["thread_ts"] = thread.into();
        }
        for id in &ids {
            self.files.get_mut(id).unwrap().about["shares"] = json!({kind: {&channel: [share]}});
        }
        let told: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "title": self.files[id].about["title"]})).collect();
        Ok(json!({"files": told}))
    }

    /// A file that can be fetched. Returns what a message says of it.
    pub fn file(&mut self, id: &str, name: &str, mime: &str, bytes: Vec<u8>) -> Value {
        let url = format!("{}/files-pri/{TEAM}-{id}/download/{name}", self.rest);
        let about = json!({"id": id, "name": name, "title": name, "mimetype": mime, "size": bytes.len(), "mode": "hosted",
            "is_external": false, "file_access": "visible", "url_private": url, "url_private_download": url, "shares": {}});
        self.files.insert(id.to_owned(), File { about: about.clone(), bytes });
        about
    }
}

/// A page of a list; the cursor is where the next one begins.
fn paged(name: &str, all: Vec<Value>, given: &Given) -> Value {
    let number = |name: &str| match given.get(name) {
        Some(Value::String(text)) => text.parse::<usize>().ok(),
        Some(other) => other.as_u64().and_then(|number| usize::try_from(number).ok()),
        None => None,
    };
    let (limit, from) = (number("limit").unwrap_or(100).clamp(1, 999), number("cursor").unwrap_or(0));
    let next = if from + limit < all.len() { (from + limit).to_string() } else { String::new() };
    let page: Vec<Value> = all.into_iter().skip(from).take(limit).collect();
    json!({name: page, "has_more": !next.is_empty(), "response_metadata": {"next_cursor": next}})
}
