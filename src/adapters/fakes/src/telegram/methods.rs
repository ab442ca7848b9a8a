//! The methods of the Bot API. A parameter that a method does not have is refused: Telegram ignores it, and a misspelt one
//! would go unseen.

use serde_json::{Value, json};

use super::{
    Answer, No, bad, check, no,
    params::Params,
    world::{BOT, Kept, Place, World},
};

/// What bots may react with; Telegram has more of them.
const REACTIONS: [&str; 8] = ["👍", "👎", "❤", "🔥", "👀", "🎉", "🤔", "👌"];
/// What each `send…` has.
const SEND: &str = "business_connection_id chat_id message_thread_id direct_messages_topic_id disable_notification \
    protect_content allow_paid_broadcast message_effect_id suggested_post_parameters reply_parameters reply_markup";
const CAPTION: &str = "caption parse_mode caption_entities show_caption_above_media has_spoiler";

pub(crate) fn perform(world: &mut World, method: &str, params: &Params) -> Answer {
    let lower = method.to_ascii_lowercase();
    let known = match lower.as_str() {
        "getme" | "getwebhookinfo" | "close" | "logout" => String::new(),
        "deletewebhook" => "drop_pending_updates".into(),
        "setwebhook" => "url drop_pending_updates allowed_updates secret_token max_connections ip_address".into(),
        "sendmessage" => format!("{SEND} text parse_mode entities link_preview_options"),
        "sendphoto" => format!("{SEND} {CAPTION} photo"),
        "senddocument" => format!("{SEND} {CAPTION} document thumbnail disable_content_type_detection"),
        "sendvideo" => format!("{SEND} {CAPTION} video duration width height supports_streaming"),
        "sendaudio" => format!("{SEND} {CAPTION} audio duration performer title"),
        "sendvoice" => format!("{SEND} {CAPTION} voice duration"),
        "sendmediagroup" => format!("{SEND} media"),
        "sendchataction" => "chat_id message_thread_id action business_connection_id".into(),
        "editmessagetext" => {
            "business_connection_id chat_id message_id inline_message_id text parse_mode entities link_preview_options reply_markup".into()
        }
        "editmessagecaption" => format!("{CAPTION} business_connection_id chat_id message_id inline_message_id reply_markup"),
        "editmessagereplymarkup" => "business_connection_id chat_id message_id inline_message_id reply_markup".into(),
        "deletemessage" => "chat_id message_id".into(),
        "setmessagereaction" => "chat_id message_id reaction is_big".into(),
        "answercallbackquery" => "callback_query_id text show_alert url cache_time".into(),
        "getfile" => "file_id".into(),
        "getchat" => "chat_id".into(),
        "getchatmember" => "chat_id user_id".into(),
        "setmycommands" => "commands scope language_code".into(),
        "getmycommands" => "scope language_code".into(),
        _ => return no(404, "Not Found: method not found"),
    };
    let known: Vec<&str> = known.split_whitespace().collect();
    let attached = |name: &str| params.text("media").contains(&format!("attach://{name}"));
    let names = params.values.keys().chain(params.files.keys());
    if let Some(name) = names.into_iter().find(|name| !known.contains(&name.as_str()) && !attached(name)) {
        // A file may stand under any name that a field refers to.
        let referred = params.values.values().any(|v| v.as_str() == Some(&format!("attach://{name}")));
        if !referred {
            return bad(format_args!("{method} has no parameter {name}"));
        }
    }
    if !params.text("parse_mode").is_empty() {
        return bad("this server parses no text; send entities");
    }
    match lower.as_str() {
        "getme" => {
            let mut me = World::me();
            me["can_join_groups"] = true.into();
            me["can_read_all_group_messages"] = world.hears_all.into();
            me["supports_inline_queries"] = false.into();
            Ok(me)
        }
        "getwebhookinfo" => Ok(
            json!({"url": world.webhook, "has_custom_certificate": false, "pending_update_count": world.unread()}),
        ),
        "deletewebhook" => {
            world.webhook.clear();
            Ok(true.into())
        }
        "setwebhook" => {
            world.webhook = params.text("url");
            Ok(true.into())
        }
        "close" | "logout" => Ok(true.into()),
        "sendmessage" => send_text(world, params),
        "sendphoto" => send_file(world, params, "photo"),
        "senddocument" => send_file(world, params, "document"),
        "sendvideo" => send_file(world, params, "video"),
        "sendaudio" => send_file(world, params, "audio"),
        "sendvoice" => send_file(world, params, "voice"),
        "sendmediagroup" => send_group(world, params),
        "sendchataction" => {
            let place = world.place(params)?;
            if params.text("action") != "typing" {
                return bad("wrong parameter action in request");
            }
            let thread = params.int("message_thread_id")?;
            match thread {
                // Here the topic General has its number.
                Some(1) if place.is_forum => Ok(true.into()),
                _ => topic(&place, thread).map(|_| true.into()),
            }
        }
        "editmessagetext" => edit(world, params, "text", "entities", 4096),
        "editmessagecaption" => edit(world, params, "caption", "caption_entities", 1024),
        "editmessagereplymarkup" => edit_buttons(world, params),
        "deletemessage" => match ours(world, params, "delete")? {
            Some(at) => {
                world.messages.remove(at);
                Ok(true.into())
            }
            None => bad("message to delete not found"),
        },
        "setmessagereaction" => react(world, params),
        "answercallbackquery" => {
            if params.text("text").chars().count() > 200 {
                return bad("MESSAGE_TOO_LONG");
            }
            if !world.presses.remove(&params.text("callback_query_id")) {
                return bad("query is too old and response timeout expired or query ID is invalid");
            }
            Ok(true.into())
        }
        "getfile" => {
            let id = params.text("file_id");
            let Some(kept) = world.files.get(&id) else {
                return bad("wrong file_id or the file is temporarily unavailable");
            };
            if kept.size > 20 << 20 {
                return bad("file is too big");
            }
            Ok(json!({"file_id": id, "file_unique_id": id, "file_size": kept.size, "file_path": kept.path}))
        }
        "getchat" => {
            let place = world.place(params)?;
            let mut shown = place.shown();
            shown["accent_color_id"] = 0.into();
            shown["max_reaction_count"] = 11.into();
            shown["accepted_gift_types"] = json!({"unlimited_gifts": false, "limited_gifts": false, "unique_gifts": false, "premium_subscription": false, "gifts_from_channels": false});
            Ok(shown)
        }
        "getchatmember" => {
            let place = world.place(params)?;
            if params.int("user_id")? != Some(BOT) {
                return bad("PARTICIPANT_ID_INVALID");
            }
            let status = if place.is_admin { "administrator" } else { "member" };
            Ok(json!({"status": status, "user": World::me()}))
        }
        "setmycommands" => {
            world.commands = params.json("commands")?;
            let wrong = |command: &Value| {
                let name = command["command"].as_str().unwrap_or_default();
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                let does = command["description"].as_str().unwrap_or_default();
                name.is_empty()
                    || name.len() > 32
                    || !name.chars().all(plain)
                    || !(1..=256).contains(&does.len())
            };
            if world.commands.as_array().is_none_or(|all| all.len() > 100 || all.iter().any(wrong)) {
                return bad("BOT_COMMAND_INVALID");
            }
            Ok(true.into())
        }
        "getmycommands" => Ok(world.commands.clone()),
        _ => no(404, "Not Found: method not found"),
    }
}

/// Begins the message that a request sends, with the rules that all have in common.
fn message(world: &mut World, params: &Params) -> Result<Value, No> {
    let place = world.place(params)?;
    let thread = topic(&place, params.int("message_thread_id")?)?;
    let reply = params.json("reply_parameters")?;
    let mut answered = None;
    if let Some(id) = reply.get("message_id").and_then(Value::as_i64) {
        match world.find(place.id, id) {
            Some(at) => answered = Some(world.messages[at].clone()),
            None if reply["allow_sending_without_reply"] == true => {}
            None => return bad("message to be replied not found"),
        }
    }
    let markup = params.json("reply_markup")?;
    check::keyboard(&markup)?;
    world.now += 1;
    let mut message = json!({"message_id": world.message_id(), "date": world.now, "chat": place.shown(), "from": World::me()});
    if let Some(thread) = thread {
        message["message_thread_id"] = thread.into();
        message["is_topic_message"] = true.into();
    }
    if let Some(answered) = answered {
        message["reply_to_message"] = answered;
    }
    if markup.get("inline_keyboard").is_some() {
        message["reply_markup"] = markup;
    }
    Ok(message)
}

fn topic(place: &Place, thread: Option<i64>) -> Result<Option<i64>, No> {
    match thread {
        None if place.is_forum && place.closed_topics.contains(&1) => bad("TOPIC_CLOSED"),
        None => Ok(None),
        // The topic General is the chat itself: its number is no thread.
        Some(thread) if place.is_forum && place.topics.contains(&thread) && thread != 1 => {
            if place.closed_topics.contains(&thread) { bad("TOPIC_CLOSED") } else { Ok(Some(thread)) }
        }
        Some(_) => bad("message thread not found"),
    }
}

fn send_text(world: &mut World, params: &Params) -> Answer {
    let text = params.text("text");
    world.place(params)?;
    if text.trim().is_empty() {
        return bad("message text is empty");
    }
    let entities = check::text(&text, &params.json("entities")?, 4096, "message")?;
    let mut message = message(world, params)?;
    message["text"] = text.into();
    if !entities.is_empty() {
        message["entities"] = entities.into();
    }
    world.messages.push(message.clone());
    Ok(message)
}

fn send_file(world: &mut World, params: &Params, field: &str) -> Answer {
    world.place(params)?;
    let refers = params.text(field);
    let sent = match refers.strip_prefix("attach://") {
        Some(name) => params.files.get(name),
        None => params.files.get(field),
    };
    let Some(sent) = sent else { return bad(format_args!("there is no {field} in the request")) };
    let most = if field == "photo" { 10 << 20 } else { 50 << 20 };
    if sent.bytes.len() > most {
        return no(413, "Request Entity Too Large");
    }
    if sent.bytes.is_empty() {
        return bad("file must be non-empty");
    }
    if field == "photo" && sent.bytes.starts_with(b"not a picture") {
        return bad("IMAGE_PROCESS_FAILED");
    }
    let (name, mime, bytes) = (sent.name.clone(), sent.mime.clone(), sent.bytes.clone());
    let caption = params.text("caption");
    let entities = check::text(&caption, &params.json("caption_entities")?, 1024, "message caption")?;
    let mut message = message(world, params)?;
    message[field] = keep(world, field, &name, &mime, bytes);
    if !caption.is_empty() {
        message["caption"] = caption.into();
        message["caption_entities"] = entities.into();
    }
    world.messages.push(message.clone());
    Ok(message)
}

/// Keeps a file, and returns it as a message shows it.
fn keep(world: &mut World, field: &str, name: &str, mime: &str, bytes: Vec<u8>) -> Value {
    let id = format!("sent-{}", world.files.len());
    let size = bytes.len();
    let path = format!("{field}s/file_{}", world.files.len());
    world.files.insert(id.clone(), Kept { path, size: size as u64, bytes });
    let mut file = json!({"file_id": id, "file_unique_id": id, "file_size": size});
    match field {
        "photo" => {
            file["width"] = 1.into();
            file["height"] = 1.into();
            return json!([file]);
        }
        "video" => {
            file["width"] = 1.into();
            file["height"] = 1.into();
            file["duration"] = 1.into();
        }
        "audio" | "voice" => file["duration"] = 1.into(),
        _ => {}
    }
    file["mime_type"] = mime.into();
    if field != "voice" {
        file["file_name"] = name.into();
    }
    file
}

fn send_group(world: &mut World, params: &Params) -> Answer {
    world.place(params)?;
    let Value::Array(media) = params.json("media")? else { return bad("media is empty") };
    if !(2..=10).contains(&media.len()) {
        return bad("the album must have 2 to 10 files");
    }
    if !params.json("reply_markup")?.is_null() {
        return bad("an album has no reply_markup");
    }
    let kinds: Vec<&str> = media.iter().map(|item| item["type"].as_str().unwrap_or_default()).collect();
    let looks = kinds.iter().all(|kind| ["photo", "video"].contains(kind));
    if !looks && kinds.iter().any(|kind| *kind != kinds[0]) {
        return bad("this kind of media can't be mixed with others in an album");
    }
    let group = format!("album-{}", world.messages.len());
    let mut sent = Vec::new();
    for (item, kind) in media.iter().zip(kinds) {
        let name =
            item["media"].as_str().and_then(|media| media.strip_prefix("attach://")).unwrap_or_default();
        let Some(file) = params.files.get(name) else { return bad("a file of the album is missing") };
        let caption = item["caption"].as_str().unwrap_or_default();
        let entities = check::text(caption, &item["caption_entities"], 1024, "message caption")?;
        let mut message = message(world, params)?;
        message["media_group_id"] = group.as_str().into();
        message[kind] = keep(world, kind, &file.name, &file.mime, file.bytes.clone());
        if !caption.is_empty() {
            message["caption"] = caption.into();
            message["caption_entities"] = entities.into();
        }
        sent.push(message);
    }
    world.messages.extend(sent.iter().cloned());
    Ok(sent.into())
}

/// Finds the bot's own message that a request is about.
fn ours(world: &World, params: &Params, what: &str) -> Result<Option<usize>, No> {
    let place = world.place(params)?;
    let Some(id) = params.int("message_id")? else { return bad("message_id is empty") };
    let Some(at) = world.find(place.id, id) else { return Ok(None) };
    if world.messages[at]["from"]["id"] != BOT {
        return bad(format_args!("message can't be {what}{}d", if what.ends_with('e') { "" } else { "e" }));
    }
    Ok(Some(at))
}

fn edit(world: &mut World, params: &Params, field: &str, beside: &str, most: usize) -> Answer {
    let Some(at) = ours(world, params, "edit")? else { return bad("message to edit not found") };
    if field == "text" && world.messages[at].get("text").is_none() {
        return bad("there is no text in the message to edit");
    }
    let text = params.text(field);
    if text.trim().is_empty() {
        return bad("message text is empty");
    }
    let entities = check::text(&text, &params.json(beside)?, most, "message")?;
    let markup = params.json("reply_markup")?;
    check::keyboard(&markup)?;
    let mut new = world.messages[at].clone();
    let object = new.as_object_mut().unwrap();
    object.insert(field.into(), text.into());
    object.remove(beside);
    object.remove("reply_markup");
    if !entities.is_empty() {
        object.insert(beside.into(), entities.into());
    }
    if markup.get("inline_keyboard").is_some() {
        object.insert("reply_markup".into(), markup);
    }
    changed(world, at, new)
}

fn edit_buttons(world: &mut World, params: &Params) -> Answer {
    let Some(at) = ours(world, params, "edit")? else { return bad("message to edit not found") };
    let markup = params.json("reply_markup")?;
    check::keyboard(&markup)?;
    let mut new = world.messages[at].clone();
    let object = new.as_object_mut().unwrap();
    object.remove("reply_markup");
    if markup.get("inline_keyboard").is_some() {
        object.insert("reply_markup".into(), markup);
    }
    changed(world, at, new)
}

fn changed(world: &mut World, at: usize, mut new: Value) -> Answer {
    new["edit_date"] = world.messages[at]["edit_date"].clone();
    if new["edit_date"].is_null() {
        new.as_object_mut().unwrap().remove("edit_date");
    }
    if new == world.messages[at] {
        return bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current \
             content and reply markup of the message",
        );
    }
    world.now += 1;
    new["edit_date"] = world.now.into();
    world.messages[at] = new.clone();
    Ok(new)
}

fn react(world: &mut World, params: &Params) -> Answer {
    let place = world.place(params)?;
    let Some(at) = world.find(place.id, params.int("message_id")?.unwrap_or_default()) else {
        return bad("message to react not found");
    };
    let reaction = params.json("reaction")?;
    let all = reaction.as_array().cloned().unwrap_or_default();
    if all.len() > 1 {
        return bad("REACTIONS_TOO_MANY");
    }
    if all.iter().any(|one| !REACTIONS.contains(&one["emoji"].as_str().unwrap_or_default())) {
        return bad("REACTION_INVALID");
    }
    world.messages[at]["_reaction"] = all.into();
    Ok(true.into())
}
