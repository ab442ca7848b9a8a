//! From what the daemon wants to a request of the Bot API. Pure.

use channel_protocol::{Amend, Button, File, Kind, Send};
use serde_json::{Map, Value, json};

use super::{read::GENERAL, spans::entities};
use crate::kit::Outcome;

/// The longest text, UTF-16 code units.
pub(super) const LONGEST_TEXT: usize = 4096;
/// The longest text beside a file, UTF-16 code units.
pub(super) const LONGEST_CAPTION: usize = 1024;
/// What one button carries at most, bytes.
pub(super) const LONGEST_PRESS: usize = 64;
pub(super) const MOST_BUTTONS: usize = 100;
pub(super) const MOST_IN_ROW: usize = 8;
/// The largest file that Telegram takes from a bot.
pub(super) const LARGEST_OUT: u64 = 50 << 20;
/// The largest picture that Telegram shows as one.
const LARGEST_PHOTO: u64 = 10 << 20;
/// The most files of one message.
pub(super) const MOST_FILES: usize = 10;
/// The longest answer to a press, characters.
const LONGEST_TOLD: usize = 200;

/// A request to the Bot API.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) params: Map<String, Value>,
    /// The field of each file, and the file.
    pub(super) files: Vec<(String, File)>,
}

impl Call {
    fn new(method: &'static str, params: Value) -> Self {
        let Value::Object(params) = params else {
            return Self { method, params: Map::new(), files: Vec::new() };
        };
        Self { method, params, files: Vec::new() }
    }

    fn with(mut self, name: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.params.insert(name.to_owned(), value);
        }
        self
    }
}

/// What the account's table sets about texts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// Whether Telegram fetches the pages that a text links to, to show a piece of them.
    pub(super) previews: bool,
}

/// Reads the id in an address: `PREFIX:ID`.
pub(super) fn chat_id(prefix: &str, chat: &str) -> Result<i64, Outcome> {
    let id = chat.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':'));
    id.and_then(|id| id.parse().ok()).ok_or_else(|| {
        let hint =
            format!("an address of this account is {prefix}: and a number, such as {prefix}:-1001234567890");
        Outcome::refused("bad_chat", format!("{chat:?} is no chat of Telegram"), &hint)
    })
}

/// Reads the id of a message.
pub(super) fn message_id(id: &str) -> Result<i64, Outcome> {
    let bad = || Outcome::refused("bad_id", format!("{id:?} is no message of Telegram"), "an id is a number");
    id.parse().map_err(|_| bad())
}

/// Returns the request that sends a text or files. `size` is that of the first file.
pub(super) fn send(prefix: &str, send: &Send, size: u64, ways: Ways) -> Result<Call, Outcome> {
    let chat = chat_id(prefix, &send.chat)?;
    let (call, files) = match &send.attachments[..] {
        [] => (text(send, ways)?, Vec::new()),
        [file] => single(send, file, size)?,
        files => album(send, files)?,
    };
    let reply = send.reply_to.as_deref().map(message_id).transpose()?;
    let call = call
        .with("chat_id", Some(chat.into()))
        .with("message_thread_id", thread(&send.thread)?)
        .with(
            "reply_parameters",
            reply.map(|id| json!({"message_id": id, "allow_sending_without_reply": true})),
        )
        .with("disable_notification", send.silent.then_some(true.into()));
    Ok(Call { files, ..call })
}

fn text(send: &Send, ways: Ways) -> Result<Call, Outcome> {
    within(&send.text, LONGEST_TEXT)?;
    Ok(Call::new("sendMessage", json!({"text": send.text, "entities": entities(&send.spans)}))
        .with("link_preview_options", (!ways.previews).then(|| json!({"is_disabled": true})))
        .with("reply_markup", keyboard(&send.buttons)?))
}

type WithFiles = (Call, Vec<(String, File)>);

fn single(send: &Send, file: &File, size: u64) -> Result<WithFiles, Outcome> {
    let (method, field) = place(file, size);
    let call = Call::new(method, caption(send)?).with("reply_markup", keyboard(&send.buttons)?);
    Ok((call, vec![(field.to_owned(), file.clone())]))
}

/// Returns the method for a file, and the field that holds it there.
fn place(file: &File, size: u64) -> (&'static str, &'static str) {
    let shown = ["image/jpeg", "image/png", "image/webp"].contains(&file.mime.as_str());
    match file.kind {
        Kind::Image if shown && size <= LARGEST_PHOTO => ("sendPhoto", "photo"),
        Kind::Video => ("sendVideo", "video"),
        Kind::Audio => ("sendAudio", "audio"),
        Kind::Voice => ("sendVoice", "voice"),
        Kind::Image | Kind::Document => ("sendDocument", "document"),
    }
}

/// Returns a request as it is for a file that Telegram shows by its name only.
pub(super) fn as_document(call: &Call) -> Option<Call> {
    if call.method == "sendMediaGroup" {
        let mut call = call.clone();
        for item in call.params.get_mut("media")?.as_array_mut()? {
            item["type"] = "document".into();
        }
        return Some(call);
    }
    let [(_, file)] = &call.files[..] else { return None };
    let others = ["sendPhoto", "sendVideo", "sendAudio", "sendVoice"];
    others.contains(&call.method).then(|| Call {
        method: "sendDocument",
        params: call.params.clone(),
        files: vec![("document".to_owned(), file.clone())],
    })
}

/// Returns the request that changes the text beside a file, made from the one that changes a text.
pub(super) fn as_caption(call: &Call) -> Option<Call> {
    let mut params = call.params.clone();
    for (from, to) in [("text", "caption"), ("entities", "caption_entities")] {
        let value = params.remove(from)?;
        params.insert(to.to_owned(), value);
    }
    params.remove("link_preview_options");
    (call.method == "editMessageText").then(|| Call {
        method: "editMessageCaption",
        params,
        files: Vec::new(),
    })
}

/// Several files in one message: all of them come, or none.
fn album(send: &Send, files: &[File]) -> Result<WithFiles, Outcome> {
    let hint = "send the files one by one";
    if files.len() > MOST_FILES {
        let text = format!("a message has at most {MOST_FILES} files");
        return Err(Outcome::refused("too_many_files", text, hint));
    }
    if !send.buttons.is_empty() {
        return Err(Outcome::refused("unsupported", "a message of several files has no buttons", hint));
    }
    let kind = |file: &File| match file.kind {
        Kind::Image => "photo",
        Kind::Video => "video",
        Kind::Audio | Kind::Voice => "audio",
        Kind::Document => "document",
    };
    let looks = files.iter().all(|file| ["photo", "video"].contains(&kind(file)));
    if !looks && files.iter().any(|file| kind(file) != kind(&files[0])) {
        let text = "one message holds pictures and videos, or documents, or sounds";
        return Err(Outcome::refused("mixed_files", text, hint));
    }
    let mut media = Vec::new();
    let mut named = Vec::new();
    for (n, file) in files.iter().enumerate() {
        let field = format!("file{n}");
        let mut item = json!({"type": kind(file), "media": format!("attach://{field}")});
        if n == 0
            && let (Value::Object(item), Value::Object(caption)) = (&mut item, caption(send)?)
        {
            item.extend(caption);
        }
        media.push(item);
        named.push((field, file.clone()));
    }
    Ok((Call::new("sendMediaGroup", json!({"media": media})), named))
}

fn caption(send: &Send) -> Result<Value, Outcome> {
    within(&send.text, LONGEST_CAPTION)?;
    Ok(if send.text.is_empty() {
        json!({})
    } else {
        json!({"caption": send.text, "caption_entities": entities(&send.spans)})
    })
}

fn within(text: &str, most: usize) -> Result<(), Outcome> {
    let units = text.encode_utf16().count();
    let hint = "send it in parts";
    let long =
        || Outcome::refused("too_long", format!("it has {units} UTF-16 units, and at most {most} go"), hint);
    if units > most { Err(long()) } else { Ok(()) }
}

fn thread(thread: &str) -> Result<Option<Value>, Outcome> {
    // What is sent to the topic General goes to the chat itself: Telegram knows no thread 1 there.
    if thread.is_empty() || thread == GENERAL {
        return Ok(None);
    }
    let bad =
        || Outcome::refused("bad_thread", format!("{thread:?} is no topic"), "a topic's id is a number");
    thread.parse::<i64>().map(|id| Some(id.into())).map_err(|_| bad())
}

/// Returns the request that changes a message, or refuses it.
pub(super) fn amend(prefix: &str, amend: &Amend, ways: Ways) -> Result<Call, Outcome> {
    let at = json!({"chat_id": chat_id(prefix, &amend.chat)?, "message_id": message_id(&amend.id)?});
    if amend.delete {
        return Ok(Call::new("deleteMessage", at));
    }
    if let Some(emoji) = &amend.react {
        let reaction = if emoji.is_empty() { json!([]) } else { json!([{"type": "emoji", "emoji": emoji}]) };
        return Ok(Call::new("setMessageReaction", at).with("reaction", Some(reaction)));
    }
    let buttons = keyboard(&amend.buttons)?;
    let Some(text) = &amend.text else {
        return Ok(Call::new("editMessageReplyMarkup", at).with("reply_markup", buttons));
    };
    within(text, LONGEST_TEXT)?;
    Ok(Call::new("editMessageText", at)
        .with("text", Some(text.as_str().into()))
        .with("entities", Some(entities(&amend.spans)))
        .with("link_preview_options", (!ways.previews).then(|| json!({"is_disabled": true})))
        .with("reply_markup", buttons))
}

/// Returns the request that shows that something is being written.
pub(super) fn typing(prefix: &str, chat: &str, thread: &str) -> Result<Call, Outcome> {
    let call = Call::new("sendChatAction", json!({"chat_id": chat_id(prefix, chat)?, "action": "typing"}));
    // Here the topic General has its number: without it nobody there sees the sign.
    Ok(call.with("message_thread_id", thread.parse::<i64>().ok().map(Value::from)))
}

/// Returns the request that answers who pressed a button.
pub(super) fn told(query: &str, text: &str) -> Call {
    let text: String = if text.chars().count() > LONGEST_TOLD {
        text.chars().take(LONGEST_TOLD - 1).chain(['…']).collect()
    } else {
        text.to_owned()
    };
    let text = (!text.is_empty()).then(|| text.into());
    Call::new("answerCallbackQuery", json!({"callback_query_id": query})).with("text", text)
}

/// Returns rows of buttons; `None` where there are none.
fn keyboard(rows: &[Vec<Button>]) -> Result<Option<Value>, Outcome> {
    let buttons = || rows.iter().flatten();
    if buttons().next().is_none() {
        return Ok(None);
    }
    if buttons().count() > MOST_BUTTONS || rows.iter().any(|row| row.len() > MOST_IN_ROW) {
        let text = format!("a text has at most {MOST_BUTTONS} buttons, {MOST_IN_ROW} in a row");
        return Err(Outcome::refused("too_many_buttons", text, ""));
    }
    if buttons().any(|button| button.press.is_empty() || button.press.len() > LONGEST_PRESS) {
        let text = format!("a button carries 1 to {LONGEST_PRESS} bytes");
        return Err(Outcome::refused("bad_button", text, ""));
    }
    let row = |row: &Vec<Button>| -> Value {
        row.iter().map(|button| json!({"text": button.label, "callback_data": button.press})).collect()
    };
    Ok(Some(
        json!({"inline_keyboard": rows.iter().filter(|row| !row.is_empty()).map(row).collect::<Value>()}),
    ))
}

#[cfg(test)]
mod tests {
    use channel_protocol::{Span, Style};

    use super::*;

    fn sent(send: Send) -> Value {
        let call = super::send("tg", &Send { chat: "tg:-5".into(), ..send }, 1, Ways::default()).unwrap();
        json!({"method": call.method, "params": call.params})
    }

    fn refused(send: Send) -> String {
        match super::send("tg", &send, 1, Ways::default()) {
            Err(Outcome::NotSent(channel_protocol::NotSent::Refused { code, .. })) => code,
            other => panic!("{other:?}"),
        }
    }

    fn file(kind: Kind, mime: &str) -> File {
        File { file: "out/1".into(), kind, mime: mime.into(), ..File::default() }
    }

    #[test]
    fn a_text_has_its_spans_as_entities_and_is_never_parsed() {
        let spans = vec![
            Span { at: 0, len: 2, is: Style::Bold },
            Span { at: 3, len: 1, is: Style::Link { to: "https://a.example".into() } },
            Span { at: 5, len: 1, is: Style::Pre { lang: Some("rust".into()) } },
            Span { at: 6, len: 0, is: Style::Italic },
        ];
        let buttons = vec![vec![Button { label: "Yes".into(), press: "a1".into() }], vec![]];
        let call = sent(Send {
            text: "😀 x *y".into(),
            spans,
            buttons,
            thread: "7".into(),
            reply_to: Some("3".into()),
            silent: true,
            ..Send::default()
        });
        assert_eq!(
            call,
            json!({"method": "sendMessage", "params": {
                "chat_id": -5, "text": "😀 x *y", "message_thread_id": 7, "disable_notification": true,
                "entities": [
                    {"type": "bold", "offset": 0, "length": 2},
                    {"type": "text_link", "offset": 3, "length": 1, "url": "https://a.example"},
                    {"type": "pre", "offset": 5, "length": 1, "language": "rust"},
                ],
                "reply_parameters": {"message_id": 3, "allow_sending_without_reply": true},
                "reply_markup": {"inline_keyboard": [[{"text": "Yes", "callback_data": "a1"}]]},
                "link_preview_options": {"is_disabled": true},
            }})
        );
    }

    #[test]
    fn the_topic_general_has_no_number_when_sending_and_one_when_typing() {
        let call = sent(Send { text: "x".into(), thread: "1".into(), ..Send::default() });
        assert_eq!(call["params"].get("message_thread_id"), None);
        assert_eq!(typing("tg", "tg:-5", "1").unwrap().params["message_thread_id"], 1);
        assert_eq!(typing("tg", "tg:-5", "").unwrap().params.get("message_thread_id"), None);
    }

    #[test]
    fn a_file_goes_by_the_way_that_shows_it() {
        for (kind, mime, size, method) in [
            (Kind::Image, "image/png", 1, "sendPhoto"),
            (Kind::Image, "image/png", (10 << 20) + 1, "sendDocument"),
            (Kind::Image, "image/svg+xml", 1, "sendDocument"),
            (Kind::Video, "video/mp4", 1, "sendVideo"),
            (Kind::Audio, "audio/mpeg", 1, "sendAudio"),
            (Kind::Voice, "audio/ogg", 1, "sendVoice"),
            (Kind::Document, "text/plain", 1, "sendDocument"),
        ] {
            let one = Send { chat: "tg:5".into(), attachments: vec![file(kind, mime)], ..Send::default() };
            let call = super::send("tg", &one, size, Ways::default()).unwrap();
            assert_eq!((call.method, call.files.len()), (method, 1), "{kind:?} {mime}");
            assert_eq!(as_document(&call).is_some(), method != "sendDocument");
        }
        let pictures = vec![file(Kind::Image, "image/png"), file(Kind::Video, "video/mp4")];
        let both = Send { text: "both".into(), attachments: pictures, ..Send::default() };
        let album =
            super::send("tg", &Send { chat: "tg:5".into(), ..both.clone() }, 1, Ways::default()).unwrap();
        let plain = as_document(&album).unwrap();
        assert!([0, 1].iter().all(|n| plain.params["media"][n]["type"] == "document"));
        let call = sent(both);
        assert_eq!(
            call["params"]["media"],
            json!([
                {"type": "photo", "media": "attach://file0", "caption": "both", "caption_entities": []},
                {"type": "video", "media": "attach://file1"},
            ])
        );
    }

    #[test]
    fn what_telegram_would_not_take_is_refused_before_it_is_sent() {
        let to = Send { chat: "tg:5".into(), text: "x".into(), ..Send::default() };
        let press = |press: &str| vec![vec![Button { label: "b".into(), press: press.into() }]];
        let picture = file(Kind::Image, "image/png");
        for (send, code) in [
            (Send { chat: "dc:5".into(), ..to.clone() }, "bad_chat"),
            (Send { chat: "tg.work:5".into(), ..to.clone() }, "bad_chat"),
            (Send { thread: "x".into(), ..to.clone() }, "bad_thread"),
            (Send { reply_to: Some("$1".into()), ..to.clone() }, "bad_id"),
            (Send { text: "😀".repeat(2049), ..to.clone() }, "too_long"),
            (Send { text: "x".repeat(1025), attachments: vec![picture.clone()], ..to.clone() }, "too_long"),
            (Send { buttons: press(&"x".repeat(65)), ..to.clone() }, "bad_button"),
            (Send { buttons: vec![press("x").remove(0); 101], ..to.clone() }, "too_many_buttons"),
            (Send { attachments: vec![picture.clone(); 11], ..to.clone() }, "too_many_files"),
            (
                Send { attachments: vec![picture, file(Kind::Audio, "audio/mpeg")], ..to.clone() },
                "mixed_files",
            ),
        ] {
            assert_eq!(refused(send), code);
        }
        assert!(super::send("tg", &Send { text: "😀".repeat(2048), ..to }, 0, Ways::default()).is_ok());
    }

    #[test]
    fn an_answer_to_a_press_is_cut_where_telegram_would_refuse_it() {
        assert_eq!(told("q", &"é".repeat(200)).params["text"].as_str().unwrap().chars().count(), 200);
        let cut = told("q", &"é".repeat(201));
        assert!(cut.params["text"].as_str().unwrap().ends_with("é…"));
        assert_eq!(told("q", "").params.get("text"), None);
    }
}
