//! What people do, as it is told.

use channel_protocol::{ChatKind, EventKind, Kind, Mention, Up};
use g2_fakes::slack::world::{Fault, World};

use super::*;

#[test]
fn a_message_comes_in_once_it_is_stored_slack_hears_that_it_was_taken() {
    let (fake, mut adapter) = connected();
    let ts = fake.say(GENERAL, ADA, "<@U900> hello &amp; <https://a.example/b|this>");
    let event = adapter.event();
    assert_eq!((&event.id, &event.key, &event.chat[..], &event.thread[..]), (&ts, &ts, "slack:C700", ""));
    assert_eq!((&event.from.id[..], &event.from.name[..], &event.from.handle[..]), ("U100", "Ada", "ada"));
    assert_eq!((event.mention, event.late), (Mention::Me, false));
    assert_eq!(event.text, "@G2 hello & this (https://a.example/b)");
    assert_eq!(event.at.as_deref().map(|at| &at[..8]), Some("2026-11-"));
    let about = event.about.unwrap();
    assert_eq!((&about.name[..], about.kind, about.threaded), ("#general (Home)", ChatKind::Group, true));
    assert!(fake.world().taken.is_empty(), "it is not stored yet");
    adapter.took(event.n);
    fake.wait("taken", |world| world.taken.len() == 1 && world.envelopes.is_empty());
    let dm = fake.world().dm(EVE);
    let _ = fake.say(&dm, EVE, "psst");
    let event = adapter.next_event();
    let about = event.about.unwrap();
    assert_eq!((event.chat, about.kind, &about.name[..]), ("slack:D101".into(), ChatKind::Direct, "Evie"));
}

#[test]
fn what_is_not_taken_comes_again_by_the_same_key() {
    let (fake, mut adapter) = connected();
    let ts = fake.say(GENERAL, ADA, "one");
    let first = adapter.event();
    // The daemon is slow: Slack hears nothing, and tells it again.
    fake.world().again(None);
    let again = adapter.next_event();
    assert_eq!((&first.key, &again.key, again.late), (&ts, &ts, true));
    // The same message as a mention, with an envelope and an id of its own.
    let told = json!({"type": "app_mention", "channel": GENERAL, "user": ADA, "text": "one", "ts": ts, "event_ts": ts});
    fake.world().dispatch(told);
    assert_eq!(adapter.next_event().key, ts);
    adapter.took(first.n);
    fake.wait("taken", |world| world.envelopes.is_empty());
}

#[test]
fn only_our_name_is_a_mention_and_bots_are_told_apart() {
    let (fake, mut adapter) = connected();
    for (text, mention) in
        [("<!here> look", Mention::All), ("<@U101> look", Mention::None), ("@G2 look", Mention::None)]
    {
        let _ = fake.say(GENERAL, ADA, text);
        assert_eq!(adapter.next_event().mention, mention, "{text}");
    }
    fake.world().say(
        GENERAL,
        "U77",
        "deployed",
        &json!({"bot_id": "B77", "bot_profile": {"name": "Deploys"}}),
    );
    let event = adapter.next_event();
    assert_eq!((&event.from.name[..], event.from.bot), ("Deploys", true));
    // What we say ourselves is not told, nor that somebody joined.
    let ours = adapter.done(&send("k.1.1", "slack:C700", "which one?")).ids.unwrap().remove(0);
    fake.world().say(GENERAL, EVE, "<@U101> has joined", &json!({"subtype": "channel_join"}));
    let _ = fake.reply(GENERAL, &ours, EVE, "this");
    let event = adapter.next_event();
    assert_eq!((&event.text[..], &event.thread, event.reply_to.unwrap().myself), ("this", &ours, true));
}

#[test]
fn edits_deletions_and_signs_are_told_and_what_slack_adds_is_none() {
    let (fake, mut adapter) = connected();
    let ts = fake.say(GENERAL, ADA, "see <https://a.example>");
    adapter.next_event();
    // Slack shows the page: no edit.
    let (before, mut after) = {
        let world = fake.world();
        let message = world.places[GENERAL].messages[&World::at(&ts)].clone();
        (message.clone(), message)
    };
    after["attachments"] = json!([{"from_url": "https://a.example", "title": "A page", "text": "words"}]);
    fake.world().changed(GENERAL, &after, &before, "1793491999.000100");
    fake.world().edit(GENERAL, &ts, "two", &Value::Null);
    let edit = adapter.next_event();
    assert_eq!((edit.kind, &edit.of, &edit.text[..]), (EventKind::Edit, &ts, "two"));
    for (name, sign, on) in [
        ("+1::skin-tone-3", "👍", true),
        ("party-parrot", ":party-parrot:", true),
        ("party-parrot", ":party-parrot:", false),
    ] {
        fake.world().react(GENERAL, &ts, EVE, name, on);
        let event = adapter.next_event();
        assert_eq!((event.kind, &event.emoji[..], event.on), (EventKind::Reaction, sign, on));
        assert_eq!((&event.from.id[..], &event.from.name[..], &event.of), ("U101", "Evie", &ts));
    }
    fake.world().delete(GENERAL, &ts);
    let gone = adapter.next_event();
    assert_eq!((gone.kind, &gone.of), (EventKind::Delete, &ts));
    fake.wait("all are taken", |world| world.envelopes.is_empty());
}

#[test]
fn a_pressed_button_is_confirmed_once_it_is_stored_and_answered_to_that_person_alone() {
    let (fake, mut adapter) = connected();
    let mut card = send("k.1.1", "slack:C700", "Allow?");
    card["buttons"] = json!([[{"label": "Yes", "press": "yes:1"}, {"label": "No", "press": "no:1"}]]);
    let ts = adapter.done(&card).ids.unwrap().remove(0);
    let envelope = fake.press(GENERAL, &ts, "yes:1", EVE);
    let event = adapter.event();
    assert_eq!((event.kind, &event.press[..], &event.of), (EventKind::Press, "yes:1", &ts));
    assert_eq!((&event.from.id[..], &event.from.name[..]), ("U101", "Evie"));
    let taken = |world: &World| world.taken.iter().any(|(of, payload)| *of == envelope && payload.is_null());
    assert!(!taken(&fake.world()), "it is not stored yet");
    adapter.took(event.n);
    fake.wait("confirmed", |world| taken(world));
    adapter.say(&json!({"op": "told", "n": event.n, "text": "You may not, <@U101>."}));
    fake.wait("told", |world| world.whispers.len() == 1);
    assert_eq!(fake.world().whispers[0], (EVE.into(), "You may not, &lt;@U101&gt;.".into()));
    let done = json!({"op": "amend", "r": 4, "key": "k.1.2", "chat": "slack:C700", "id": ts, "text": "Allowed.", "buttons": []});
    assert!(adapter.done(&done).ids.is_some());
    let said = fake.said(GENERAL);
    assert_eq!((&said[0]["text"], &said[0]["blocks"]), (&json!("Allowed."), &json!([])));
}

#[test]
fn a_command_is_a_message_to_the_bot_and_its_sender_alone_sees_its_words() {
    let (fake, mut adapter) = connected();
    let dm = fake.world().dm(EVE);
    for (channel, command, given, text, name) in [
        // Nothing is asked before: Slack tells a name with it.
        (GENERAL, "/g2", "model small", "/model small", "eve"),
        (GENERAL, "/g2", "", "/help", "Evie"),
        (&dm, "/stop", "", "/stop", "Evie"),
    ] {
        let envelope = fake.command(channel, command, given, EVE);
        let event = adapter.event();
        assert_eq!((event.kind, &event.text[..], event.mention), (EventKind::Message, text, Mention::Me));
        assert_eq!((event.chat.clone(), &event.from.name[..]), (format!("slack:{channel}"), name));
        let answered = |world: &World| {
            world.taken.iter().find(|(of, _)| *of == envelope).map(|(_, words)| words.clone())
        };
        assert_eq!(answered(&fake.world()), None, "it is not stored yet");
        adapter.took(event.n);
        fake.wait("answered", |world| answered(world).is_some());
        let words = answered(&fake.world()).unwrap();
        assert_eq!(words, json!({"response_type": "ephemeral", "text": text}));
    }
    // Where the bot is not, nothing is done.
    fake.world().places.get_mut(RANDOM).unwrap().closed = true;
    let envelope = fake.command(RANDOM, "/g2", "stop", EVE);
    fake.wait("refused", |world| world.taken.iter().any(|(of, _)| *of == envelope));
    let words = fake.world().taken.last().unwrap().1.clone();
    assert!(words["text"].as_str().unwrap().contains("not in this channel"));
    fake.world().places.get_mut(RANDOM).unwrap().closed = false;
    let _ = fake.command(RANDOM, "/g2", "stop", EVE);
    assert_eq!(adapter.next_event().chat, "slack:C701", "it has been invited meanwhile");
}

#[test]
fn files_come_whole_within_bounds_and_from_slack_alone() {
    let (fake, mut adapter) = connected();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let file = fake.world().file("F1", "a b.png", "image/png", bytes.clone());
    fake.world().say(GENERAL, ADA, "look", &json!({"files": [file], "subtype": "file_share"}));
    let event = adapter.next_event();
    let told = &event.attachments[0];
    assert_eq!(
        (told.kind, &told.mime[..], told.name.as_deref(), told.bytes),
        (Kind::Image, "image/png", Some("a b.png"), Some(200_000))
    );
    let fetch = |what: &str, most: u64| json!({"op": "fetch", "r": 9, "chat": "slack:C700", "what": what, "most": most});
    let problem = |adapter: &mut Adapter, what: &str, most: u64| match adapter.ask(&fetch(what, most)) {
        Up::Fetched { file: None, problem: Some(problem), .. } => problem,
        other => panic!("{what}: {other:?}"),
    };
    fake.world().files.get_mut("F1").unwrap().about["url_private_download"] =
        format!("{}/files-pri/T1-F1/x", fake.base).into();
    let Up::Fetched { file: Some(place), .. } = adapter.ask(&fetch("F1", 1 << 20)) else { panic!() };
    assert_eq!(std::fs::read(adapter.spool().join(place)).unwrap(), bytes);
    assert!(problem(&mut adapter, "F1", 199_999).contains("199999 bytes"));
    assert!(problem(&mut adapter, "F2", 1 << 20).contains("file_not_found"));
    // A size that Slack does not tell the truth of.
    fake.world().files.get_mut("F1").unwrap().about["size"] = 5.into();
    problem(&mut adapter, "F1", 1000);
    for foreign in ["https://example.org/a.png", "http://127.0.0.1:1/a"] {
        fake.world().files.get_mut("F1").unwrap().about["url_private_download"] = foreign.into();
        assert!(problem(&mut adapter, "F1", 1 << 20).contains("no address of a file on Slack"));
    }
    // Nor is a call of Slack's own, which our token would make.
    let url = format!("{}/files-pri/T1-F1/x", fake.base);
    for call in ["api/chat.delete?x=1", "files-pri/../api/chat.delete", "files-pri/%2e%2E/api/chat.delete"] {
        let call = format!("{}/{call}", fake.base);
        fake.world().files.get_mut("F1").unwrap().about["url_private_download"] = call.into();
        assert!(problem(&mut adapter, "F1", 1 << 20).contains("no address of a file on Slack"));
    }
    {
        let mut world = fake.world();
        let about = &mut world.files.get_mut("F1").unwrap().about;
        about["url_private_download"] = url.clone().into();
        (about["mode"], about["is_external"]) = ("external".into(), true.into());
    }
    assert!(problem(&mut adapter, "F1", 1 << 20).contains("elsewhere"));
    assert_eq!(asked(&fake, "chat.delete"), 0);
    // Slack may have it at another of its addresses; it does not lead on for ever.
    {
        let mut world = fake.world();
        world.moves = 3;
        let about = &mut world.files.get_mut("F1").unwrap().about;
        (about["mode"], about["is_external"]) = ("hosted".into(), false.into());
    }
    assert!(matches!(adapter.ask(&fetch("F1", 1 << 20)), Up::Fetched { file: Some(_), .. }));
    fake.world().moves = 4;
    assert!(problem(&mut adapter, "F1", 1 << 20).contains("to the next"));
    // The page where people log in is no file.
    fake.world().bot_token = "xoxb-another".into();
    fake.fault(
        "files.info",
        Fault::Answer(200, None, json!({"ok": true, "file": fake.world().files["F1"].about.clone()})),
    );
    assert!(problem(&mut adapter, "F1", 1 << 20).contains("files:read"));
}

#[test]
fn what_nobody_can_read_is_named_and_the_next_one_comes() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "before");
    adapter.next_event();
    for line in [
        json!([1, 2]),
        json!("x"),
        json!({"type": "brand_new"}),
        json!({"envelope_id": 7}),
        json!({"envelope_id": ""}),
    ] {
        fake.line(&line);
    }
    // Another workspace of the same app, and things that are no messages.
    let mut world = fake.world();
    let foreign = world.envelope("events_api", json!({"team_id": "T2", "event": {"type": "message", "channel": GENERAL, "ts": "1.1", "user": "U5", "text": "psst"}}));
    let unknown = world.envelope("events_api", json!({"team_id": "T1", "event": {"type": "brand_new"}}));
    world.envelope("events_api", json!({"team_id": "T1", "event": {"type": "message", "channel": "C7/../x", "ts": "1.1", "text": "x"}}));
    world.envelope("events_api", json!("nothing"));
    world.say(
        GENERAL,
        ADA,
        "half",
        &json!({"attachments": [5], "files": {"x": 1}, "blocks": "none", "thread_ts": 5}),
    );
    world.say(GENERAL, ADA, &format!("half {} of one", g2_fakes::HALF), &json!({}));
    world.say(GENERAL, ADA, &"é".repeat(1 << 20), &json!({}));
    world.say(GENERAL, ADA, "words", &json!({"subtype": "brand_new"}));
    drop(world);
    for _ in 0..2 {
        let event = adapter.next_event();
        assert_eq!(event.kind, EventKind::Nothing);
        assert!(event.unread.contains("can't be read"), "{}", event.unread);
    }
    let events = adapter.events(4);
    assert_eq!((&events[0].text[..], &events[1].text[..]), ("half", "half \u{fffd} of one"));
    assert!(events[2].text.len() <= 100 << 10 && events[2].text.starts_with("éé"));
    assert_eq!(events[3].unknown_kind, "brand_new");
    fake.wait("all but another workspace's are taken", |world| world.envelopes.len() == 1);
    let world = fake.world();
    let is_taken = |id: &String| world.taken.iter().any(|(of, _)| of == id);
    assert!(is_taken(&unknown) && !is_taken(&foreign), "whose it is may have a connection of its own");
}

#[test]
fn an_envelope_that_is_too_long_for_a_socket_costs_a_connection_and_no_message() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "before");
    adapter.next_event();
    fake.line(&json!({"type": "x", "padding": "x".repeat(5 << 20)}));
    fake.wait("another socket", |world| world.opened == 2 && world.sockets.len() == 1);
    let _ = fake.say(GENERAL, ADA, "after");
    assert_eq!(adapter.next_event().text, "after");
}

#[test]
fn a_flood_is_told_in_order_and_waits_for_the_daemon() {
    let (fake, mut adapter) = connected();
    let all: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    for text in &all {
        let _ = fake.say(GENERAL, ADA, text);
    }
    let events: Vec<Event> = (0..64).map(|_| adapter.event()).collect();
    assert!(fake.world().taken.is_empty());
    for event in &events {
        adapter.took(event.n);
    }
    let rest = adapter.events(all.len() - 64);
    let told: Vec<&str> = events.iter().chain(&rest).map(|event| &event.text[..]).collect();
    assert_eq!(told, all);
    fake.wait("all are taken", |world| world.envelopes.is_empty());
}

#[test]
fn names_that_slack_does_not_tell_now_delay_nothing() {
    let fake = Fake::start();
    fake.fault("users.info", Fault::Answer(429, Some("600"), json!({"ok": false, "error": "ratelimited"})));
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    for text in ["one", "two"] {
        let _ = fake.say(GENERAL, ADA, text);
        let event = adapter.next_event();
        assert_eq!((&event.text[..], &event.from.name[..]), (text, "U100"));
    }
    assert_eq!(asked(&fake, "users.info"), 1, "it is left alone");
}
