//! Messages of many kinds, each whole as the Bot API's documentation has it. Foreign clients read them too, so that none of them is
//! one that only our adapter would take for Telegram's.

use serde_json::{Value, json};

fn person(id: i64, name: &str) -> Value {
    json!({"id": id, "is_bot": false, "first_name": name})
}

fn photo(id: &str) -> Value {
    json!([{"file_id": id, "file_unique_id": id, "width": 90, "height": 90, "file_size": 7}])
}

fn video(id: &str) -> Value {
    json!({"file_id": id, "file_unique_id": id, "width": 90, "height": 90, "duration": 3})
}

fn sticker() -> Value {
    json!({"file_id": "s", "file_unique_id": "s", "type": "regular", "width": 512, "height": 512, "is_animated": false,
        "is_video": false, "emoji": "👍"})
}

fn poll(more: Value) -> Value {
    let option = |text: &str, votes: u64| json!({"persistent_id": text, "text": text, "voter_count": votes});
    with(
        json!({"id": "p1", "question": "Tea?", "options": [option("Yes", 0), option("No", 2)], "total_voter_count": 2,
            "is_closed": false, "is_anonymous": true, "type": "regular", "allows_multiple_answers": false,
            "allows_revoting": true, "members_only": false}),
        more,
    )
}

fn with(mut all: Value, more: Value) -> Value {
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// A message of before, as it stands in an answer to it.
fn before(chat: &Value, more: Value) -> Value {
    with(json!({"message_id": 3, "date": 1_800_000_000, "chat": chat, "from": person(7, "Bob")}), more)
}

/// Returns what each kind adds to a message of a chat, by a name for people.
#[must_use]
pub fn rows(chat: &Value) -> Vec<(&'static str, Value)> {
    let day = 1_800_000_000;
    let channel = json!({"id": -1_009, "type": "channel", "title": "News"});
    let link = |offset: u64, length: u64| json!([{"type": "text_link", "offset": offset, "length": length, "url": "https://a.example/b"}]);
    let forwarded = |origin: Value| json!({"text": "Transfer 500 to Bob now", "forward_origin": origin});
    let task = |id: u64, text: &str, more: Value| with(json!({"id": id, "text": text}), more);
    vec![
        (
            "forward of a person",
            forwarded(json!({"type": "user", "date": day, "sender_user": person(8, "Eve")})),
        ),
        (
            "forward of somebody hidden",
            forwarded(json!({"type": "hidden_user", "date": day, "sender_user_name": "Mallory"})),
        ),
        (
            "forward of a chat",
            forwarded(
                json!({"type": "chat", "date": day, "sender_chat": channel, "author_signature": "admin"}),
            ),
        ),
        (
            "forward of a channel",
            forwarded(
                json!({"type": "channel", "date": day, "chat": channel, "message_id": 5, "author_signature": "Ada"}),
            ),
        ),
        ("link", json!({"text": "Summarise this article please", "entities": link(10, 12)})),
        (
            "link below a photo",
            json!({"photo": photo("p"), "caption": "😀 read it", "caption_entities": link(3, 4)}),
        ),
        (
            "mention of a bot without a handle",
            json!({"text": "G2, look", "entities": [{"type": "text_mention", "offset": 0, "length": 2,
                "user": {"id": 424_242, "is_bot": true, "first_name": "G2"}}]}),
        ),
        ("live location", json!({"location": {"latitude": 52.5, "longitude": 13.4, "live_period": 900}})),
        (
            "venue",
            json!({"location": {"latitude": 52.5, "longitude": 13.4},
                "venue": {"location": {"latitude": 52.5, "longitude": 13.4}, "title": "Café", "address": "Main St 1"}}),
        ),
        ("contact", json!({"contact": {"phone_number": "+49", "first_name": "Bob"}})),
        ("poll", json!({"poll": poll(json!({"allows_multiple_answers": true}))})),
        ("quiz", json!({"poll": poll(json!({"type": "quiz", "is_closed": true}))})),
        (
            "checklist",
            json!({"checklist": {"title": "Trip", "tasks": [task(1, "pack", json!({})),
                task(2, "book", json!({"completed_by_user": person(8, "Eve"), "completion_date": day}))]}}),
        ),
        ("story", json!({"story": {"chat": channel, "id": 3}})),
        (
            "paid media",
            json!({"caption": "look", "paid_media": {"star_count": 25, "paid_media": [
                {"type": "preview", "width": 9, "height": 9, "duration": 3}, {"type": "photo", "photo": photo("paid")},
                {"type": "video", "video": video("film")}]}}),
        ),
        ("sticker", json!({"sticker": sticker()})),
        ("dice", json!({"dice": {"emoji": "🎲", "value": 4}})),
        ("game", json!({"game": {"title": "Go", "description": "a board", "photo": photo("g")}})),
        (
            "invoice",
            json!({"invoice": {"title": "Beans", "description": "1 kg", "start_parameter": "x", "currency": "EUR",
                "total_amount": 1450}}),
        ),
        (
            "giveaway",
            json!({"giveaway": {"chats": [channel], "winners_selection_date": day, "winner_count": 5,
                "prize_description": "a cup"}}),
        ),
        (
            "gift",
            json!({"gift": {"gift": {"id": "1", "sticker": sticker(), "star_count": 50}, "text": "for you"}}),
        ),
        ("video chat begins", json!({"video_chat_started": {}})),
        ("video chat ends", json!({"video_chat_ended": {"duration": 60}})),
        (
            "answer to a photo",
            json!({"text": "whose is it?", "reply_to_message": before(chat, json!({"photo": photo("cat")}))}),
        ),
        (
            "answer to a part",
            json!({"text": "why?", "quote": {"text": "at nine", "position": 5},
                "reply_to_message": before(chat, json!({"text": "come at nine"}))}),
        ),
        (
            "answer to another chat",
            json!({"text": "is it so?", "quote": {"text": "rain", "position": 0, "is_manual": true},
                "external_reply": {"chat": channel, "message_id": 5, "photo": photo("sky"),
                    "origin": {"type": "channel", "date": day, "chat": channel, "message_id": 5}}}),
        ),
        ("answer to a story", json!({"text": "nice", "reply_to_story": {"chat": channel, "id": 3}})),
    ]
}
