//! Updates of each kind, as Telegram tells them.

use serde_json::{Value, json};

use super::*;

fn us() -> Us {
    Us { prefix: "tg.work".into(), id: 42, handle: "g2bot".into(), since: Some(100) }
}

fn read(update: Value) -> Vec<Item> {
    us().read(number(&update, "update_id").unwrap(), &update)
}

/// Reads a message of Ada's with more fields.
fn message(more: Value) -> Event {
    let mut message = json!({
        "message_id": 9, "date": 200, "from": {"id": 7, "first_name": "Ada"},
        "chat": {"id": -5, "type": "group", "title": "Chess"}, "text": "hello",
    });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match read(json!({"update_id": 3, "message": message})).remove(0) {
        Item::Event(event) => *event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pieces_of_an_album_are_one_message_where_nothing_stands_between_them() {
    let piece = |update: i64, album: &str, more: Value| {
        let mut message = json!({
            "message_id": update, "date": 200, "from": {"id": 7, "first_name": "Ada"}, "media_group_id": album,
            "chat": {"id": -5, "type": "group"}, "photo": [{"file_id": format!("p{update}")}],
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(json!({"update_id": update, "message": message}))
    };
    let of = |items: Vec<Item>| -> Vec<(String, usize, String, Option<String>)> {
        let event = |item: Item| match item {
            Item::Event(e) => (e.key, e.attachments.len(), e.text, e.cursor.get("updates").cloned()),
            other => panic!("{other:?}"),
        };
        joined(items).into_iter().map(event).collect()
    };
    let one = |key: &str, files, text: &str, cursor: &str| {
        (key.to_owned(), files, text.to_owned(), Some(cursor.to_owned()))
    };
    let named = json!({"caption": "@g2bot look", "caption_entities": [{"type": "mention", "offset": 0, "length": 6}]});
    let album =
        [piece(1, "a", json!({"caption": "x"})), piece(2, "a", json!({})), piece(3, "a", named)].concat();
    assert_eq!(of(album), [one("u1", 3, "x\n@g2bot look", "3")]);
    let mixed = [
        piece(1, "a", json!({})),
        piece(2, "a", json!({"from": {"id": 8, "first_name": "Bob"}})),
        piece(3, "b", json!({})),
        piece(4, "b", json!({"chat": {"id": -6, "type": "group"}})),
    ];
    assert_eq!(of(mixed.concat()).len(), 4);
    let ends = |updates: Value| ends_in_album(&updates);
    let (piece, plain) = (json!({"message": {"media_group_id": "a"}}), json!({"message": {}}));
    assert!(ends(json!([plain, piece])) && !ends(json!([piece, plain])) && !ends(json!([])));
    assert!(ends(json!([{"channel_post": {"media_group_id": "a"}}])));
}

#[test]
fn addresses_have_the_prefix_of_the_account_and_senders_their_plain_numbers() {
    let event = message(json!({}));
    assert_eq!((event.chat.as_str(), event.from.id.as_str()), ("tg.work:-5", "7"));
    assert_eq!((event.key.as_str(), event.cursor["updates"].as_str()), ("u3", "3"));
    assert!(!event.late && message(json!({"date": 99})).late);
}

#[test]
fn the_bot_is_named_by_its_handle_a_command_a_link_or_an_answer() {
    let entity = |kind: &str, at: usize, len: usize| json!([{"type": kind, "offset": at, "length": len}]);
    for (more, is) in [
        (json!({}), Mention::None),
        (json!({"text": "@G2BOT hi", "entities": entity("mention", 0, 6)}), Mention::Me),
        (json!({"text": "@g2bot2 hi", "entities": entity("mention", 0, 7)}), Mention::None),
        (json!({"text": "@g2bot in no entity"}), Mention::None),
        (json!({"text": "/help@g2bot", "entities": entity("bot_command", 0, 11)}), Mention::Me),
        (json!({"text": "/help", "entities": entity("bot_command", 0, 5)}), Mention::None),
        (
            json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5, "user": {"id": 42}}]}),
            Mention::Me,
        ),
        (
            json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5, "user": {"id": 43}}]}),
            Mention::None,
        ),
        (
            json!({"entities": [{"type": "text_link", "offset": 0, "length": 5, "url": "tg://user?id=42"}]}),
            Mention::Me,
        ),
        (
            json!({"entities": [{"type": "text_link", "offset": 0, "length": 5, "url": "tg://user?id=421"}]}),
            Mention::None,
        ),
        (json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5}]}), Mention::None),
        (json!({"entities": entity("mention", 4000, 9)}), Mention::None),
        (json!({"reply_to_message": {"message_id": 1, "from": {"id": 42}}}), Mention::Me),
        (json!({"reply_to_message": {"message_id": 1, "from": {"id": 43}}}), Mention::None),
        (
            json!({"text": null, "caption": "@g2bot", "photo": [{"file_id": "p"}],
                "caption_entities": entity("mention", 0, 6)}),
            Mention::Me,
        ),
    ] {
        assert_eq!(message(more.clone()).mention, is, "{more}");
    }
}

#[test]
fn who_writes_in_the_name_of_a_chat_has_its_number() {
    let channel = json!({"id": -100, "type": "channel", "title": "News", "username": "news"});
    let event = message(json!({"from": {"id": 1_087_968_824, "is_bot": true}, "sender_chat": channel}));
    assert_eq!((event.from.id.as_str(), event.from.name.as_str(), event.from.bot), ("-100", "News", false));
    let event = message(json!({"from": {"id": 8, "is_bot": true, "first_name": "Other"}}));
    assert!(event.from.bot && !event.from.myself);
    let post = json!({"message_id": 1, "date": 200, "chat": channel, "sender_chat": channel, "text": "x"});
    let Item::Event(event) = read(json!({"update_id": 3, "channel_post": post})).remove(0) else { panic!() };
    assert_eq!((event.chat.as_str(), event.from.handle.as_str()), ("tg.work:-100", "@news"));
}

#[test]
fn a_topic_is_a_thread_and_an_answer_in_a_plain_group_is_none() {
    let forum = json!({"id": -5, "type": "supergroup", "title": "Club", "is_forum": true});
    let created = json!({"message_id": 4, "from": {"id": 42}, "forum_topic_created": {"name": "t"}});
    let event = message(
        json!({"chat": forum, "message_thread_id": 4, "is_topic_message": true, "reply_to_message": created}),
    );
    assert_eq!((event.thread.as_str(), event.reply_to, event.mention), ("4", None, Mention::None));
    assert_eq!(message(json!({"chat": forum})).thread, "1");
    assert_eq!(message(json!({"message_thread_id": 4})).thread, "");
}

fn without_text(more: Value) -> Event {
    let mut all = json!({"text": null});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message(all)
}

#[test]
fn what_has_no_words_is_said_in_words() {
    let bob = json!({"id": 8, "first_name": "Bob"});
    let day = 1_800_000_000;
    for (more, words) in [
        (json!({"sticker": {"emoji": "👍"}}), "[Sticker 👍]"),
        (json!({"sticker": {}}), "[Sticker]"),
        (json!({"location": {"latitude": 52.5, "longitude": 13.4}}), "[Location: 52.5, 13.4]"),
        (json!({"location": {"latitude": "x"}}), "[Location: ?, ?]"),
        (
            json!({"venue": {"title": "Café", "address": "Main St 1", "location": {}}, "location": {"latitude": 1.0}}),
            "[Location: Café, Main St 1]",
        ),
        (json!({"contact": {"first_name": "Bob", "phone_number": "+49"}}), "[Contact: Bob, +49]"),
        (
            json!({"poll": {"question": "Tea?", "options": [{"text": "Yes", "voter_count": 0}, {"text": "No", "voter_count": 2}]}}),
            "[Poll: Tea?]\n- Yes\n- No (2 votes)",
        ),
        (
            json!({"poll": {"question": "2 + 2?", "type": "quiz", "is_closed": true, "allows_multiple_answers": true,
                "description": "think", "options": [{"text": "4", "voter_count": 1}, 5]}}),
            "[Quiz, several answers, closed: 2 + 2?]\nthink\n- 4 (1 vote)\n- ",
        ),
        (json!({"dice": {"emoji": "🎲", "value": 4}}), "[Dice 🎲 4]"),
        (
            json!({"checklist": {"title": "Trip", "tasks": [{"id": 1, "text": "pack", "completion_date": 0},
                {"id": 2, "text": "book", "completed_by_user": bob, "completion_date": day}]}}),
            "[Checklist: Trip]\n- [ ] pack\n- [x] book",
        ),
        (
            json!({"checklist_tasks_done": {"marked_as_done_task_ids": [2], "marked_as_not_done_task_ids": [9],
                "checklist_message": {"checklist": {"title": "Trip", "tasks": [{"id": 2, "text": "book"}]}}}}),
            "[Changed in the checklist Trip]\n- [x] book\n- [ ] item 9",
        ),
        (
            json!({"checklist_tasks_added": {"tasks": [{"id": 3, "text": "eat"}]}}),
            "[Added to the checklist]\n- [ ] eat",
        ),
        (json!({"story": {"chat": {"id": 8, "first_name": "Bob"}, "id": 3}}), "[Story of Bob]"),
        (
            json!({"paid_media": {"star_count": 25, "paid_media": [{"type": "preview"}, {"type": "preview"}]}}),
            "[Paid media: 2 files for 25 stars]",
        ),
        (json!({"game": {"title": "Go", "description": "a board"}}), "[Game: Go, a board]"),
        (
            json!({"invoice": {"title": "Beans", "description": "1 kg", "currency": "EUR", "total_amount": 1450}}),
            "[Invoice: Beans, 1 kg, 14.50 EUR]",
        ),
        (json!({"successful_payment": {"currency": "JPY", "total_amount": 500}}), "[Payment: 500 JPY]"),
        (json!({"refunded_payment": {"currency": "XTR", "total_amount": 1}}), "[Payment taken back: 1 star]"),
        (
            json!({"giveaway": {"winner_count": 1, "winners_selection_date": day, "prize_description": "a cup"}}),
            "[Giveaway: 1 winner, until 2027-01-15T08:00:00Z, a cup]",
        ),
        (json!({"giveaway_created": {}}), "[Giveaway begins]"),
        (
            json!({"giveaway_winners": {"winners": [bob, {"username": "eve"}]}}),
            "[Winners of a giveaway: Bob, @eve]",
        ),
        (json!({"giveaway_completed": {"winner_count": 2}}), "[Giveaway has ended: 2 winners]"),
        (json!({"gift": {"gift": {"star_count": 50}, "text": "for you"}}), "[Gift: 50 stars]\nfor you"),
        (json!({"unique_gift": {"gift": {"base_name": "Cake", "number": 7}}}), "[Gift: Cake #7]"),
        (json!({"video_chat_started": {}}), "[Video chat begins]"),
        (json!({"video_chat_ended": {"duration": 60}}), "[Video chat has ended after 60 s]"),
        (
            json!({"video_chat_scheduled": {"start_date": day}}),
            "[Video chat planned for 2027-01-15T08:00:00Z]",
        ),
        (json!({"video_chat_participants_invited": {"users": [bob]}}), "[Invited to the video chat: Bob]"),
        (
            json!({"proximity_alert_triggered": {"traveler": bob, "watcher": {"first_name": "Ada"}, "distance": 40}}),
            "[Bob is within 40 m of Ada]",
        ),
        (json!({"boost_added": {"boost_count": 2}}), "[Boost of the chat: 2]"),
        (json!({"poll_option_added": {"option_text": "Maybe"}}), "[Added to the poll: Maybe]"),
        (json!({"users_shared": {"users": [bob]}}), "[Shared people: Bob]"),
        (
            json!({"web_app_data": {"button_text": "Order", "data": "2 teas"}}),
            "[Data of a web app, Order]\n2 teas",
        ),
    ] {
        let event = without_text(more);
        assert_eq!((event.text.as_str(), event.unknown_kind.as_str()), (words, ""));
    }
    let paid = without_text(json!({"caption": "look", "paid_media": {"star_count": 1, "paid_media": [
        {"type": "photo", "photo": [{"file_id": "p"}]}, {"type": "video", "video": {"file_id": "v"}}, 7]}}));
    assert_eq!((paid.text.as_str(), paid.attachments.len()), ("[Paid media: 3 files for 1 star]\nlook", 2));
    let long = without_text(
        json!({"poll": {"question": "x".repeat(9000), "options": vec![json!({"text": "y"}); 999]}}),
    );
    assert!(long.text.len() < 5000, "{}", long.text.len());
}

#[test]
fn what_is_not_known_is_named_by_its_kind_and_what_says_nothing_stays_nothing() {
    for (more, kind, text) in [
        (json!({"hologram": {"id": 1}}), "hologram", "[message of a kind that G2 does not know: hologram]"),
        (json!({"text": {"not": "a text"}}), "text", "[message of a kind that G2 does not know: text]"),
        (json!({"photo": "no list"}), "photo", "[message of a kind that G2 does not know: photo]"),
        (json!({"poll": 5, "reply_markup": {}}), "poll", "[message of a kind that G2 does not know: poll]"),
        (json!({}), "empty", "[message of which Telegram shows bots nothing]"),
    ] {
        let event = without_text(more);
        assert_eq!((event.unknown_kind.as_str(), event.text.as_str()), (kind, text));
    }
    assert_eq!(without_text(json!({"x".repeat(9000): 1})).unknown_kind.len(), 64);
    let beside = message(json!({"hologram": {"id": 1}}));
    assert_eq!((beside.text.as_str(), beside.unknown_kind.as_str()), ("hello", ""));
    for silent in
        ["new_chat_members", "left_chat_member", "pinned_message", "new_chat_title", "forum_topic_closed"]
    {
        assert_eq!(without_text(json!({silent: {"x": 1}})).kind, EventKind::Nothing, "{silent}");
    }
}

#[test]
fn a_rich_message_is_told_as_its_readers_see_it() {
    let rich = json!({"blocks": [
        {"type": "heading", "size": 1, "text": "Plan"},
        {"type": "paragraph", "text": ["read ", {"type": "bold", "text": "this"}, " ",
            {"type": "url", "text": "page", "url": "https://a.example"}, {"type": "custom_emoji", "alternative_text": "👍"}]},
        {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "one"}]},
            {"label": "-", "has_checkbox": true, "is_checked": true, "blocks": [{"type": "paragraph", "text": "done"}]}]},
        {"type": "table", "cells": [[{"text": "a"}, {"text": "b"}], [{"text": "c"}, {}]]},
        {"type": "photo", "photo": [{"file_id": "p"}], "caption": {"text": "a cat", "credit": "Bob"}},
        {"type": "blockquote", "blocks": [{"type": "paragraph", "text": "said"}], "credit": "Eve"},
        {"type": "paragraph", "text": {"type": "mention", "text": "@g2bot", "username": "g2bot"}},
        7, {"type": "hologram"},
    ]});
    let event = without_text(json!({"rich_message": rich}));
    assert_eq!(
        event.text,
        "Plan\nread this page (https://a.example)👍\n1. one\n- [x] done\na | b\nc | \na cat\nsaid\n — Eve\n@g2bot"
    );
    assert_eq!((event.mention, event.attachments.len()), (Mention::Me, 1));
    let long = json!({"blocks": vec![json!({"type": "paragraph", "text": "x".repeat(1000)}); 2000]});
    let answered = json!({"message_id": 4, "rich_message": long});
    let event = without_text(json!({"rich_message": long, "reply_to_message": answered}));
    let answered = event.reply_to.and_then(|to| to.text).unwrap_or_default();
    assert!(event.text.len() <= LONGEST_TEXT && (1..=LONGEST_ANSWERED).contains(&answered.len()));
}

#[test]
fn a_forwarded_message_names_where_it_is_from() {
    for (origin, name) in [
        (json!({"type": "user", "sender_user": {"first_name": "Bob", "last_name": "K"}}), "Bob K"),
        (json!({"type": "hidden_user", "sender_user_name": "Somebody"}), "Somebody"),
        (json!({"type": "channel", "chat": {"id": -1, "title": "News"}}), "News"),
        (json!({"type": "channel", "chat": {"title": "News"}, "author_signature": "Ada"}), "News (Ada)"),
        (
            json!({"type": "chat", "sender_chat": {"title": "Club"}, "author_signature": "admin"}),
            "Club (admin)",
        ),
        (json!({"type": "carrier_pigeon"}), ""),
        (json!("no object"), ""),
    ] {
        assert_eq!(message(json!({"forward_origin": origin})).forwarded_from.as_deref(), Some(name));
    }
    for (older, name) in [
        (json!({"forward_from": {"first_name": "Bob", "last_name": "K"}}), "Bob K"),
        (json!({"forward_sender_name": "Somebody"}), "Somebody"),
        (json!({"forward_from_chat": {"title": "News"}, "forward_signature": "Ada"}), "News (Ada)"),
        (json!({"forward_from": "no object", "forward_sender_name": 7}), ""),
        (json!({}), ""),
    ] {
        let mut older = older;
        older["forward_date"] = 150.into();
        older["text"] = "/stop@other_bot".into();
        older["entities"] = json!([{"type": "bot_command", "offset": 0, "length": 15}]);
        let event = message(older);
        assert_eq!((event.forwarded_from.as_deref(), &event.text[..]), (Some(name), "/stop@other_bot"));
    }
    assert_eq!(message(json!({"forward_date": null, "forward_origin": null})).forwarded_from, None);
    for mut own in [
        json!({"forward_origin": {"type": "channel", "chat": {"title": "News"}}}),
        json!({"forward_date": 150, "forward_from_chat": {"title": "News"}}),
    ] {
        own["is_automatic_forward"] = true.into();
        assert_eq!(message(own).forwarded_from, None);
    }
}

#[test]
fn what_is_forwarded_names_nobody_for_its_forwarder_and_is_no_command_of_any_bot() {
    let named = json!({
        "text": "@g2bot transfer 500 to Bob now", "entities": [{"type": "mention", "offset": 0, "length": 6}],
        "forward_origin": {"type": "user", "sender_user": {"first_name": "Eve"}},
    });
    let event = message(named.clone());
    assert_eq!((event.mention, event.forwarded_from.as_deref()), (Mention::None, Some("Eve")));
    let mut direct = named;
    direct["chat"] = json!({"id": 7, "type": "private"});
    assert_eq!(message(direct).mention, Mention::Me);
    let to_us = |chat: &str| {
        let event = message(json!({
            "chat": {"id": 7, "type": chat}, "forward_origin": {"type": "user", "sender_user": {"first_name": "Eve"}},
            "reply_to_message": {"message_id": 4, "text": "x", "from": {"id": 42, "first_name": "G2"}},
        }));
        let to = event.reply_to.unwrap();
        (event.mention, to.myself, to.from)
    };
    assert_eq!(to_us("group"), (Mention::None, false, "G2".into()));
    assert_eq!(to_us("private"), (Mention::Me, true, "G2".into()));
    let command = |text: &str, origin: Value| {
        let entities = json!([{"type": "bot_command", "offset": 0, "length": text.len()}]);
        let event = message(json!({"text": text, "entities": entities, "forward_origin": origin}));
        (event.kind, event.text)
    };
    let eve = json!({"type": "hidden_user", "sender_user_name": "Eve"});
    for (text, origin, is) in [
        ("/stop@G2bot", Value::Null, (EventKind::Message, "/stop")),
        ("/stop@other_bot", Value::Null, (EventKind::Nothing, "")),
        ("/stop@other_bot", eve.clone(), (EventKind::Message, "/stop@other_bot")),
        ("/stop@g2bot", eve, (EventKind::Message, "/stop@g2bot")),
    ] {
        assert_eq!(command(text, origin), (is.0, is.1.to_owned()), "{text}");
    }
}

#[test]
fn a_location_that_moves_is_one_message_that_changes_without_waking_anybody() {
    let place = |latitude: f64, more: Value| {
        let mut location = json!({"latitude": latitude, "longitude": 13.4});
        location.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"message_id": 9, "date": 200, "edit_date": 260, "from": {"id": 7, "first_name": "Ada"},
            "chat": {"id": -5, "type": "group"}, "location": location})
    };
    let live = json!({"live_period": 900});
    for (kind, message, is) in [
        ("message", place(52.5, live.clone()), ("[Live location: 52.5, 13.4]", EventKind::Message, false)),
        ("edited_message", place(52.6, live), ("[Live location: 52.6, 13.4]", EventKind::Edit, true)),
        (
            "edited_message",
            place(52.7, json!({})),
            ("[Live location, ended: 52.7, 13.4]", EventKind::Edit, true),
        ),
    ] {
        let Item::Event(event) = read(json!({"update_id": 3, kind: message})).remove(0) else { panic!() };
        assert_eq!((event.text.as_str(), event.kind, event.quiet), is);
        assert_eq!(event.of, if event.quiet { "9" } else { "" });
    }
    let words = json!({"message_id": 9, "date": 1, "chat": {"id": -5}, "text": "the", "from": {"id": 7}});
    let Item::Event(event) = read(json!({"update_id": 3, "edited_message": words})).remove(0) else {
        panic!()
    };
    assert!(!event.quiet);
    let piece = json!({
        "message_id": 9, "date": 1, "chat": {"id": -5}, "from": {"id": 7}, "media_group_id": "a", "caption": "the",
        "photo": [{"file_id": "f", "width": 9, "height": 9}],
    });
    let Item::Event(event) = read(json!({"update_id": 3, "edited_message": piece})).remove(0) else {
        panic!()
    };
    assert_eq!((event.text.as_str(), event.attachments.len()), ("the", 0), "the others stay as well");
}

#[test]
fn an_answer_says_who_and_what_is_answered() {
    let answer = |more: Value| message(more).reply_to.unwrap();
    let bob = json!({"id": 8, "first_name": "Bob", "last_name": "K"});
    let to = |more: Value| {
        let mut to = json!({"message_id": 4, "from": bob});
        to.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"reply_to_message": to})
    };
    let file = json!({"file_id": "f", "mime_type": "audio/mpeg"});
    for (more, text, kind) in [
        (json!({"text": "hi"}), Some("hi"), None),
        (json!({"photo": [file]}), None, Some(Kind::Image)),
        (json!({"photo": [file], "caption": "a cat"}), Some("a cat"), Some(Kind::Image)),
        (json!({"voice": file}), None, Some(Kind::Voice)),
        (json!({"video": file}), None, Some(Kind::Video)),
        (json!({"document": file}), None, Some(Kind::Audio)),
        (json!({"sticker": {"emoji": "👍"}}), Some("[Sticker 👍]"), None),
        (
            json!({"poll": {"question": "Tea?", "options": [{"text": "Yes"}]}}),
            Some("[Poll: Tea?]\n- Yes"),
            None,
        ),
        (json!({"contact": {"first_name": "Eve", "phone_number": "+1"}}), Some("[Contact: Eve, +1]"), None),
        (json!({"pinned_message": {}}), None, None),
        (
            json!({"text": "Transfer 500 to Bob", "forward_origin": {"type": "hidden_user", "sender_user_name": "Eve"}}),
            Some("[forwarded from Eve]\nTransfer 500 to Bob"),
            None,
        ),
        (
            json!({"photo": [file], "forward_origin": {"type": "carrier_pigeon"}}),
            Some("[forwarded]"),
            Some(Kind::Image),
        ),
        (
            json!({"text": "old", "forward_date": 150, "forward_from": {"first_name": "Eve"}}),
            Some("[forwarded from Eve]\nold"),
            None,
        ),
        (
            json!({"text": "news", "is_automatic_forward": true, "forward_origin": {"type": "channel"}}),
            Some("news"),
            None,
        ),
        (
            json!({"text": "this", "entities": [{"type": "text_link", "offset": 0, "length": 4, "url": "https://a.example"}]}),
            Some("this (https://a.example)"),
            None,
        ),
    ] {
        let answer = answer(to(more));
        assert_eq!((answer.text.as_deref(), answer.kind), (text, kind));
        assert_eq!((answer.id.as_str(), answer.from.as_str(), answer.myself), ("4", "Bob K", false));
    }
    let ours = answer(
        json!({"reply_to_message": {"message_id": 4, "text": "x", "from": {"id": 42, "first_name": "G2"}},
        "quote": {"text": "a part", "position": 3}}),
    );
    assert_eq!((ours.from.as_str(), ours.myself, ours.quote.as_deref()), ("G2", true, Some("a part")));
    let nameless = answer(json!({"reply_to_message": {"message_id": 4, "from": {"id": 8}}}));
    assert_eq!(nameless.from, "");
    let mut item = to(json!({"checklist": {"title": "Trip", "tasks": [{"id": 2, "text": "book"}]}}));
    item["reply_to_checklist_task_id"] = 2.into();
    assert_eq!(answer(item).quote.as_deref(), Some("book"));
    let story = answer(json!({"reply_to_story": {"chat": {"id": 8, "first_name": "Bob"}, "id": 3}}));
    assert_eq!((story.from.as_str(), story.text.as_deref(), story.id.as_str()), ("Bob", Some("[Story]"), ""));
}

#[test]
fn an_answer_to_another_chat_names_it_and_has_no_id_of_this_one() {
    let external = json!({
        "origin": {"type": "channel", "chat": {"title": "News"}, "author_signature": "Eve", "message_id": 4},
        "chat": {"id": -9, "type": "channel", "title": "News"}, "message_id": 4, "photo": [{"file_id": "p"}],
    });
    let to =
        message(json!({"external_reply": external, "quote": {"text": "the part", "position": 0}})).reply_to;
    let is = ReplyTo {
        from: "News (Eve)".into(),
        quote: Some("the part".into()),
        kind: Some(Kind::Image),
        elsewhere: "News".into(),
        ..ReplyTo::default()
    };
    assert_eq!(to, Some(is));
    let ours = json!({"external_reply": {"origin": {"type": "user", "sender_user": {"id": 42, "first_name": "G2"}}}});
    let event = message(ours);
    let to = event.reply_to.unwrap();
    assert_eq!((event.mention, to.myself, to.elsewhere.as_str()), (Mention::Me, true, "another chat"));
    // Another topic of the same chat.
    let here =
        json!({"external_reply": {"origin": {}, "chat": {"id": -5, "title": "Chess"}, "message_id": 6}});
    let to = message(here).reply_to.unwrap();
    assert_eq!((to.id.as_str(), to.elsewhere.as_str()), ("6", ""));
}

#[test]
fn a_field_of_another_type_counts_as_missing_and_spoils_nothing() {
    for (more, is) in [
        (json!({"from": "Ada"}), ("hello", "")),
        (json!({"entities": "none", "message_thread_id": "x", "is_topic_message": 1}), ("hello", "7")),
        (json!({"reply_to_message": [1], "forward_origin": null, "quote": 5}), ("hello", "7")),
        (json!({"date": "200", "message_id": {}, "edit_date": []}), ("hello", "7")),
        (json!({"text": "a\u{fffd}", "media_group_id": 5, "photo": {"x": 1}}), ("a\u{fffd}", "7")),
        (json!({"from": {"id": "7", "first_name": 5, "last_name": ["x"], "username": {}}}), ("hello", "7")),
    ] {
        let event = message(more.clone());
        assert_eq!((event.text.as_str(), event.from.id.as_str()), is, "{more}");
    }
    // Whatever stands in place of whatever, an update has its event and its place.
    let whole = json!({
        "message_id": 9, "date": 200, "from": {"id": 7}, "chat": {"id": -5, "type": "group"}, "text": "x",
        "entities": [{"type": "text_link", "offset": 0, "length": 1, "url": "https://a.example"}],
        "reply_to_message": {"message_id": 3}, "external_reply": {"origin": {}}, "poll": {"options": []},
        "forward_origin": {"type": "user"}, "photo": [{"file_id": "p"}], "location": {"latitude": 1.0},
        "rich_message": {"blocks": [{"text": "x"}]}, "paid_media": {"paid_media": []}, "sender_chat": {"id": -1},
    });
    let odd = [Value::Null, json!(true), json!(-1), json!(1.5), json!("x"), json!([[]]), json!({"id": {}})];
    for field in whole.as_object().unwrap().keys() {
        for value in &odd {
            for kind in ["message", "edited_message", "channel_post"] {
                let mut one = whole.clone();
                one[field] = value.clone();
                let items = us().read(8, &json!({kind: one}));
                let Some(Item::Event(last)) = items.last() else { panic!("{field} {value}") };
                assert_eq!(last.cursor["updates"], "8", "{field} {value}");
            }
        }
    }
}

#[test]
fn a_file_that_is_shown_twice_is_one_and_says_its_kind() {
    let gif = json!({"file_id": "g", "mime_type": "video/mp4", "duration": 3});
    let files = message(json!({"animation": gif, "document": gif})).attachments;
    assert_eq!((files.len(), files[0].kind, files[0].seconds), (1, Kind::Video, Some(3)));
    let picture = json!({"file_id": "d", "mime_type": "image/png", "file_name": "a.png"});
    let files = message(json!({"document": picture})).attachments;
    assert_eq!((files[0].kind, files[0].name.as_deref()), (Kind::Image, Some("a.png")));
}

#[test]
fn every_update_ends_with_an_event_that_has_the_cursor() {
    for update in [
        json!({}),
        json!({"poll_answer": {"x": 1}}),
        json!({"message": {"chat": {"id": 1}, "new_chat_title": "x"}}),
        json!({"my_chat_member": {"chat": {"id": 1}}}),
        json!({"message": {"chat": {"id": 1}, "migrate_to_chat_id": -100}}),
        json!({"callback_query": {"id": "q", "data": "x"}}),
        json!({"message_reaction": {"chat": {"id": 1}, "old_reaction": [], "new_reaction": []}}),
        json!({"message": "no object", "message_reaction": {"chat": 5}, "my_chat_member": {"chat": {}}}),
        json!({"message": {"chat": {"id": null}, "text": "nowhere"}}),
        json!({"a_kind_to_come": {"chat": {"id": 1}}}),
    ] {
        let mut with_id = update.clone();
        with_id["update_id"] = 8.into();
        let Some(Item::Event(last)) = read(with_id).pop() else { panic!("{update}") };
        assert_eq!((last.kind, last.cursor["updates"].as_str()), (EventKind::Nothing, "8"), "{update}");
    }
}
