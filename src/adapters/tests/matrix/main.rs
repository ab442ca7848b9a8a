//! The Matrix adapter against Synapse, a real homeserver. `tests/peers.sh` installs it; without it each test says
//! `skipped: no Synapse`, and fails where `G2_REQUIRE_SYNAPSE=1`.
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod foreign;
mod scripted;
#[path = "../suite/mod.rs"]
mod suite;
#[path = "../texts/mod.rs"]
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use channel_protocol::{Done, Event, EventKind, Format, Light, Mention, Unit, Up};
use g2_fakes::{
    adapter::Adapter,
    synapse::{Person, Synapse, synapse},
};
use serde_json::{Value, json};

/// The adapter of somebody's account.
fn start(server: &Synapse, as_whom: &Person, config: &Value) -> Adapter {
    let mut config = config.clone();
    config["token"] = as_whom.token.clone().into();
    config["homeserver"] = server.base().into();
    let account = json!({"instance": "matrix", "prefix": "mx", "config": config});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

/// A room with a person and the bot in it, and the bot's adapter.
fn room(name: &str) -> Option<(Person, Person, String, Adapter)> {
    let server = synapse()?;
    let (ada, bot) = (server.person(&format!("{name}-ada")), server.person(&format!("{name}-bot")));
    let mut adapter = start(server, &bot, &json!({"invites_from": [ada.id]}));
    adapter.ready();
    let room = ada.room(&[&bot.id]);
    ada.wait_for_member(&room, &bot.id);
    Some((ada, bot, room, adapter))
}

fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &event.text[..]).collect()
}

#[test]
fn a_message_comes_in_and_its_answer_goes_out_once_however_often_it_is_sent() {
    let Some((ada, bot, room, mut adapter)) = room("once") else { return };
    let id = ada.say(&room, &format!("{}: hello", bot.id));
    let event = adapter.event();
    assert_eq!((&event.id, &event.chat), (&id, &format!("mx:{room}")));
    assert_eq!((&event.from.id, event.mention, event.late), (&ada.id, Mention::Me, false));
    adapter.took(event.n);
    let send = json!({"op": "send", "r": 1, "key": "k.1.1", "chat": event.chat, "reply_to": id,
        "text": "hi 🎈", "html": "<b>hi</b> 🎈"});
    let sent = adapter.done(&send);
    let again = adapter.done(&send);
    assert_eq!(sent.ids, again.ids);
    // Another start of the same account, which the homeserver takes for the same device.
    let mut adapter = adapter.again(&BTreeMap::new());
    adapter.ready();
    assert_eq!(adapter.done(&send).ids, sent.ids);
    let said = ada.said_by(&room, &bot.id);
    assert_eq!(said.len(), 1);
    let content = &said[0]["content"];
    assert_eq!((&content["body"], &content["formatted_body"]), (&json!("hi 🎈"), &json!("<b>hi</b> 🎈")));
    assert_eq!(content["m.mentions"], json!({}), "nobody is pinged");
    assert_eq!(content["m.relates_to"]["m.in_reply_to"]["event_id"], json!(id));
    // Where our ids are forgotten, what was sent can be looked for.
    let look = |key: &str| json!({"op": "look_for", "r": 5, "key": key, "chat": event.chat, "since": "2020-01-01T00:00:00Z"});
    let Up::Found(found) = adapter.ask(&look("k.1.1")) else { panic!() };
    assert_eq!(found.ids, sent.ids);
    let Up::Found(found) = adapter.ask(&look("k.1.2")) else { panic!() };
    assert!(found.not_sent);
}

#[test]
fn what_was_written_meanwhile_is_told_late_whole_and_in_order() {
    let Some((ada, _, room, mut adapter)) = room("meanwhile") else { return };
    ada.say(&room, "first");
    let first = adapter.event();
    adapter.took(first.n);
    let cursor = first.cursor.clone();
    assert!(cursor.contains_key("since"));
    adapter.kill();
    // More than a homeserver tells at once.
    let all: Vec<String> = (0..130).map(|n| n.to_string()).collect();
    for text in &all {
        ada.say(&room, text);
    }
    let mut adapter = adapter.again(&cursor);
    adapter.ready();
    let events = adapter.events(all.len());
    assert_eq!(texts(&events), all);
    assert!(events.iter().all(|event| event.late));
    let with_cursor = events.iter().filter(|event| !event.cursor.is_empty()).count();
    assert_eq!((with_cursor, events.last().unwrap().cursor.is_empty()), (1, false));
}

#[test]
fn an_adapter_that_is_killed_at_any_event_loses_none() {
    let Some((ada, _, room, mut adapter)) = room("killed") else { return };
    let all: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
    let (mut stored, mut cursor) = (BTreeSet::new(), BTreeMap::new());
    for text in &all {
        ada.say(&room, text);
    }
    let mut order = Vec::new();
    for life in 0.. {
        // Each life stores a few events more, the last one without being able to say so.
        while order.len() < all.len() {
            let event = adapter.event();
            if stored.insert(event.key.clone()) {
                order.push(event.text.clone());
            }
            cursor.extend(event.cursor.clone());
            if order.len() % 7 == life % 7 {
                break;
            }
            adapter.took(event.n);
        }
        adapter.kill();
        if order.len() == all.len() {
            break;
        }
        adapter = adapter.again(&cursor);
        adapter.ready();
    }
    assert_eq!(order, all);
}

#[test]
fn edits_reactions_deletions_and_threads_are_told_with_what_they_are_about() {
    let Some((ada, bot, room, mut adapter)) = room("changes") else { return };
    let id = ada.say(&room, "one");
    let event = adapter.next_event();
    ada.send(&room, "m.room.message", json!({"msgtype": "m.text", "body": "* two",
        "m.new_content": {"msgtype": "m.text", "body": "two"}, "m.relates_to": {"rel_type": "m.replace", "event_id": id}}));
    let edit = adapter.next_event();
    assert_eq!((edit.kind, &edit.of, &edit.text[..]), (EventKind::Edit, &id, "two"));
    let sign = ada.send(
        &room,
        "m.reaction",
        json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": id, "key": "👍"}}),
    );
    let on = adapter.next_event();
    assert_eq!((on.kind, &on.of, &on.emoji[..], on.on), (EventKind::Reaction, &id, "👍", true));
    ada.redact(&room, &sign);
    let off = adapter.next_event();
    assert_eq!((off.kind, &off.of, off.on), (EventKind::Reaction, &id, false));
    ada.redact(&room, &id);
    let gone = adapter.next_event();
    assert_eq!((gone.kind, &gone.of), (EventKind::Delete, &id));
    // And ours: a thread, a changed text, a sign, a removal.
    let root = ada.say(&room, "root");
    adapter.next_event();
    let sent = adapter.done(
        &json!({"op": "send", "r": 2, "key": "k.2.1", "chat": event.chat, "thread": root, "text": "inside"}),
    );
    let ours = sent.ids.unwrap().remove(0);
    let amend = |more: serde_json::Value| {
        let mut line = json!({"op": "amend", "r": 3, "key": format!("k.3.{}", more.to_string().len()), "chat": event.chat, "id": ours});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    assert!(adapter.done(&amend(json!({"text": "inside, changed"}))).ids.is_some());
    assert!(adapter.done(&amend(json!({"react": "👀", "id": root}))).ids.is_some());
    let said = ada.said_by(&room, &bot.id);
    assert_eq!(said[0]["content"]["m.relates_to"]["event_id"], json!(root));
    assert_eq!(said[1]["content"]["m.new_content"]["body"], "inside, changed");
    assert!(adapter.done(&amend(json!({"delete": true}))).ids.is_some());
    assert!(ada.event(&room, &ours)["content"].as_object().unwrap().is_empty());
}

#[test]
fn each_kind_of_message_is_told_with_all_that_people_see_of_it() {
    let Some((ada, bot, room, mut adapter)) = room("kinds") else { return };
    let ours = adapter.done(
        &json!({"op": "send", "r": 1, "key": "k.1.1", "chat": format!("mx:{room}"), "text": "which one?"}),
    );
    let ours = ours.ids.unwrap().remove(0);
    let text = |body: &str| json!({"msgtype": "m.text", "body": body});
    let with = |mut content: Value, name: &str, value: Value| {
        content[name] = value;
        content
    };
    let html = |body: &str, html: &str| {
        with(with(text(body), "format", "org.matrix.custom.html".into()), "formatted_body", html.into())
    };
    let answer = |to: &str| with(text("why?"), "m.relates_to", json!({"m.in_reply_to": {"event_id": to}}));
    let pill = format!(
        "<a href=\"https://matrix.to/#/{}\">Helper</a> look",
        bot.id.replace('@', "%40").replace(':', "%3A")
    );
    let photo = json!({"msgtype": "m.image", "body": "a.png", "url": ada.upload(b"png"), "info": {"mimetype": "image/png", "size": 3}});
    let shown = ada.send(&room, "m.room.message", photo);
    assert_eq!(adapter.next_event().attachments.len(), 1);
    let me = ada.id.trim_start_matches('@').split(':').next().unwrap().to_owned();
    let bots = bot.id.trim_start_matches('@').split(':').next().unwrap().to_owned();
    for (kind, content, told) in [
        (
            "m.room.message",
            html(
                "Summarise this article please",
                "Summarise <a href=\"https://a.example/b\">this article</a> please",
            ),
            json!({"text": "Summarise this article (https://a.example/b) please"}),
        ),
        ("m.room.message", html("Helper look", &pill), json!({"text": "Helper look", "mention": "me"})),
        ("m.room.message", text(&format!("{}: /stop", bot.id)), json!({"text": "/stop", "mention": "me"})),
        (
            "m.room.message",
            answer(&ours),
            json!({"text": "why?", "reply_to": {"id": ours, "from": bots, "self": true, "text": "which one?"}}),
        ),
        (
            "m.room.message",
            answer(&shown),
            json!({"text": "why?", "reply_to": {"id": shown, "from": me, "self": false, "kind": "image"}}),
        ),
        (
            "org.matrix.msc3381.poll.start",
            json!({"org.matrix.msc1767.text": "Tea? 1. Yes", "org.matrix.msc3381.poll.start": {"kind": "org.matrix.msc3381.poll.disclosed",
                "max_selections": 1, "question": {"org.matrix.msc1767.text": "Tea?", "body": "Tea?", "msgtype": "m.text"},
                "answers": [{"id": "a", "org.matrix.msc1767.text": "Yes"}]}}),
            json!({"text": "[Poll: Tea?]\n- Yes"}),
        ),
        (
            "m.room.message",
            json!({"msgtype": "m.location", "body": "here", "geo_uri": "geo:52.5,13.4;u=35"}),
            json!({"text": "[Location: 52.5, 13.4]"}),
        ),
        (
            "m.sticker",
            json!({"body": "Wave", "url": "mxc://example.test/none", "info": {}}),
            json!({"text": "[sticker: Wave]"}),
        ),
        (
            "m.room.message",
            json!({"msgtype": "org.example.hologram", "body": "a ship"}),
            json!({"text": "[message of a kind that G2 does not know: org.example.hologram]\na ship", "unknown_kind": "org.example.hologram"}),
        ),
    ] {
        ada.send(&room, kind, content);
        let event = serde_json::to_value(adapter.next_event()).unwrap();
        let mut is = json!({"text": event["text"]});
        for field in ["reply_to", "unknown_kind"] {
            if !event[field].is_null() {
                is[field] = event[field].clone();
            }
        }
        if event["mention"] != "none" {
            is["mention"] = event["mention"].clone();
        }
        assert_eq!(is, told);
    }
}

#[test]
fn what_is_answered_is_asked_for_where_it_was_said_in_an_earlier_life() {
    let Some((ada, bot, room, mut adapter)) = room("asked") else { return };
    let old = ada.say(&room, "at nine");
    ada.send(&room, "m.room.message", json!({"msgtype": "m.text", "body": "* at ten",
        "m.new_content": {"msgtype": "m.text", "body": "at ten"}, "m.relates_to": {"rel_type": "m.replace", "event_id": old}}));
    let gone = ada.say(&room, "never mind");
    let cursor = adapter.events(3).remove(2).cursor;
    adapter.kill();
    ada.redact(&room, &gone);
    let mut adapter = adapter.again(&cursor);
    assert_eq!(adapter.next_event().kind, EventKind::Delete);
    let mut answered = |to: &str| {
        ada.send(
            &room,
            "m.room.message",
            json!({"msgtype": "m.text", "body": "why?",
            "m.relates_to": {"m.in_reply_to": {"event_id": to}}}),
        );
        adapter.next_event().reply_to.unwrap()
    };
    let to = answered(&old);
    assert_eq!((to.text.as_deref(), to.myself, &to.from[..]), (Some("at ten"), false, "asked-ada"));
    assert_eq!(answered(&gone).text.as_deref(), Some("[deleted message]"));
    let nothing = answered("$none:example.test");
    assert_eq!((nothing.text, &nothing.from[..], nothing.id.is_empty()), (None, "", false));
    let _ = bot;
}

#[test]
fn a_file_comes_and_goes_whole() {
    let Some((ada, bot, room, mut adapter)) = room("files") else { return };
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let mxc = ada.upload(&bytes);
    ada.send(
        &room,
        "m.room.message",
        json!({"msgtype": "m.image", "body": "look", "filename": "a.png", "url": mxc,
        "info": {"mimetype": "image/png", "size": bytes.len()}}),
    );
    let event = adapter.next_event();
    let file = event.attachments[0].clone();
    assert_eq!((&event.text[..], file.name.as_deref()), ("look", Some("a.png")));
    let fetch = json!({"op": "fetch", "r": 9, "chat": event.chat, "what": file.fetch, "most": 1 << 20});
    let Up::Fetched { file: Some(place), .. } = adapter.ask(&fetch) else { panic!() };
    assert_eq!(std::fs::read(adapter.spool().join(place)).unwrap(), bytes);
    let short = json!({"op": "fetch", "r": 10, "chat": event.chat, "what": file.fetch, "most": 1000});
    assert!(matches!(adapter.ask(&short), Up::Fetched { file: None, problem: Some(_), .. }));
    std::fs::write(adapter.spool().join("out/z"), &bytes).unwrap();
    let sent = adapter.done(&json!({"op": "send", "r": 11, "key": "k.9.1", "chat": event.chat, "text": "here",
        "attachments": [{"file": "out/z", "kind": "image", "mime": "image/png", "name": "z.png", "caption": true}]}));
    assert_eq!(sent.ids.unwrap().len(), 1);
    let said = ada.said_by(&room, &bot.id);
    assert_eq!(
        (&said[0]["content"]["body"], &said[0]["content"]["filename"]),
        (&json!("here"), &json!("z.png"))
    );
    assert_eq!(ada.download(said[0]["content"]["url"].as_str().unwrap()), bytes);
}

#[test]
fn only_who_may_invite_brings_us_in_and_what_they_wrote_before_is_told() {
    let Some(server) = synapse() else { return };
    let (ada, eve, bot) = (server.person("in-ada"), server.person("in-eve"), server.person("in-bot"));
    let mut adapter = start(server, &bot, &json!({"invites_from": [ada.id]}));
    adapter.ready();
    let wrong = eve.room(&[&bot.id]);
    let right = ada.quiet_room();
    ada.say(&right, "before you came");
    ada.invite(&right, &bot.id);
    ada.say(&right, "hello");
    let event = adapter.next_event();
    assert_eq!((event.chat, &event.text[..]), (format!("mx:{right}"), "hello"));
    assert_eq!(bot.joined(), std::slice::from_ref(&right));
    assert!(!bot.joined().contains(&wrong));
    // Another room only says that it goes on for this one.
    let claim = ada.successor_by_claim(&right, &bot.id);
    ada.wait_for_member(&claim, &bot.id);
    ada.say(&claim, "follow me");
    let event = adapter.next_event();
    assert_eq!((event.chat, &event.text[..]), (format!("mx:{claim}"), "follow me"), "and nothing was moved");
    // The room goes on elsewhere.
    let to = ada.upgrade(&right);
    ada.invite(&to, &bot.id);
    let (from, moved_to) = adapter.moved();
    assert_eq!((from, moved_to), (format!("mx:{right}"), format!("mx:{to}")));
}

#[test]
fn typing_shows_and_a_chat_with_one_person_is_opened_once() {
    let Some((ada, bot, room, mut adapter)) = room("typing") else { return };
    adapter.say(&json!({"op": "show", "chat": format!("mx:{room}"), "typing": true}));
    assert_eq!(ada.typing(&room), std::slice::from_ref(&bot.id));
    let open = json!({"op": "open_dm", "r": 4, "user": ada.id});
    let Up::ChatOf { chat: Some(chat), .. } = adapter.ask(&open) else { panic!() };
    let Up::ChatOf { chat: again, .. } = adapter.ask(&open) else { panic!() };
    assert_eq!(Some(chat), again);
    let Up::Chats { chats, .. } = adapter.ask(&json!({"op": "list_chats", "r": 6})) else { panic!() };
    assert!(chats.iter().any(|chat| chat.chat == format!("mx:{room}")));
}

#[test]
fn a_wrong_token_is_refused_with_a_way_out_and_a_room_that_is_not_ours_is_gone() {
    let Some((ada, bot, room, mut adapter)) = room("refused") else { return };
    let foreign = ada.quiet_room();
    let send = |chat: String| json!({"op": "send", "r": 1, "key": "k.1.1", "chat": chat, "text": "x"});
    let Done { not: Some(not), .. } = adapter.done(&send(format!("mx:{foreign}"))) else { panic!() };
    assert!(matches!(not, channel_protocol::NotSent::Gone { .. }), "{not:?}");
    let Done { not: Some(not), .. } = adapter.done(&send("tg:1".into())) else { panic!() };
    assert!(matches!(not, channel_protocol::NotSent::Refused { .. }), "{not:?}");
    // A thread whose first message the homeserver does not know, a room in which the bot has no right, one that put it out.
    let mut in_thread = send(format!("mx:{room}"));
    in_thread["thread"] = "$nothing".into();
    let Done { not: Some(not), .. } = adapter.done(&in_thread) else { panic!() };
    let thread = channel_protocol::Went::Thread;
    assert!(matches!(not, channel_protocol::NotSent::Gone { what, .. } if what == thread), "{not:?}");
    ada.silence(&room);
    let Done { not: Some(not), .. } = adapter.done(&send(format!("mx:{room}"))) else { panic!() };
    assert!(matches!(not, channel_protocol::NotSent::Refused { .. }), "{not:?}");
    ada.kick(&room, &bot.id);
    let Done { not: Some(not), .. } = adapter.done(&send(format!("mx:{room}"))) else { panic!() };
    let chat = channel_protocol::Went::Chat;
    assert!(matches!(not, channel_protocol::NotSent::Gone { what, .. } if what == chat), "{not:?}");
    let wrong = Person { token: "nonsense".into(), ..bot };
    let mut adapter = start(synapse().unwrap(), &wrong, &json!({}));
    let state = adapter.state();
    assert_eq!(state.transport, Light::Refused);
    assert!(!state.hint.is_empty());
    assert_eq!(adapter.exit(), Some(1));
}

#[test]
fn what_an_agent_writes_pings_nobody_and_holds_no_tag_but_ours() {
    let Some((ada, bot, room, mut adapter)) = room("written") else { return };
    let parts = texts::sends(texts::HOSTILE, 32_000, Unit::Bytes, Format::Matrix);
    assert_eq!(parts.len(), 1);
    let mut send = json!({"op": "send", "r": 1, "key": "k.9.1", "chat": format!("mx:{room}")});
    send.as_object_mut().unwrap().extend(parts[0].as_object().unwrap().clone());
    assert!(adapter.done(&send).ids.is_some());
    let content = ada.said_by(&room, &bot.id)[0]["content"].clone();
    assert_eq!((&content["body"], &content["formatted_body"]), (&parts[0]["text"], &parts[0]["html"]));
    assert_eq!(content["m.mentions"], json!({}));
    let html = content["formatted_body"].as_str().unwrap();
    assert!(!html.contains("@room") && !html.contains("<img") && html.contains("&lt;img"), "{html}");
    for tag in ["pre", "code", "blockquote", "strong", "em"] {
        let count = |mark: &str| html.matches(&format!("<{mark}{tag}")).count();
        assert_eq!(count(""), count("/"), "{tag}: {html}");
    }
    assert!(html.contains("bolt           3"), "{html}");
}
