//! What Synapse never does, as a homeserver of a script's does it.

use g2_fakes::homeserver::{ADA, BOT, Homeserver, ROOM};

use channel_protocol::{NotSent, Went};

use super::*;

fn connected(config: Value, cursor: &BTreeMap<String, String>) -> (Homeserver, Adapter) {
    let server = Homeserver::start();
    let adapter = start_at(&server, config, cursor);
    (server, adapter)
}

fn start_at(server: &Homeserver, mut config: Value, cursor: &BTreeMap<String, String>) -> Adapter {
    config["token"] = "secret".into();
    let account = json!({"instance": "matrix", "prefix": "mx", "config": config, "cursor": cursor, "upstream": server.base});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

#[test]
fn a_homeserver_that_denies_us_once_is_asked_again_and_the_account_goes_on() {
    let (server, mut adapter) = connected(json!({}), &BTreeMap::new());
    adapter.ready();
    // It is asked who we are once it has denied us, which may be before the next line.
    server.denies("/whoami");
    server.denies("/sync");
    server.say("before");
    server.say("after");
    let events = adapter.events(2);
    assert_eq!(texts(&events), ["before", "after"]);
    let asked = server.world().asked.iter().filter(|asked| asked.contains("/whoami")).count();
    assert_eq!(asked, 3, "at the start, and until it knows us again");
    // And at the start of an account that was let in before.
    adapter.kill();
    server.denies("/whoami");
    let mut adapter = start_at(&server, json!({}), &events[1].cursor);
    let state = adapter.state();
    assert!(
        state.transport == Light::Waiting && state.why.contains("asked again") && !state.hint.is_empty(),
        "{state:?}"
    );
    server.say("again");
    assert_eq!(adapter.next_event().text, "again");
}

#[test]
fn a_homeserver_that_denies_us_for_good_is_believed() {
    let cursor = BTreeMap::from([("since".to_owned(), "s0".to_owned())]);
    let (server, mut adapter) = connected(json!({"sure_after_s": 0}), &cursor);
    adapter.ready();
    server.denies("/whoami");
    server.denies("/whoami");
    server.denies("/sync");
    // A poll that has begun ends with it; where none had, the first one is denied and nobody sees it.
    server.say("ends the poll");
    let refused = loop {
        match adapter.line() {
            Up::Event(event) => adapter.took(event.n),
            Up::State(state) if state.transport == Light::Refused => break state,
            _ => {}
        }
    };
    assert!(!refused.hint.is_empty());
    assert_eq!(adapter.exit(), Some(1));
}

#[test]
fn news_that_nobody_can_read_are_passed_over_after_three_tries_and_the_next_ones_come() {
    let (server, mut adapter) = connected(json!({"sure_after_s": 0}), &BTreeMap::new());
    adapter.ready();
    server.say(&format!("broken {}", g2_fakes::BROKEN));
    server.say("the next one");
    let event = adapter.next_event();
    assert_eq!((event.kind, event.cursor["since"].as_str()), (EventKind::Nothing, "s1"));
    assert_eq!(adapter.next_event().text, "the next one");
    server.say(&format!("half {}", g2_fakes::HALF));
    assert_eq!(adapter.next_event().text, "half \u{fffd}");
}

#[test]
fn an_answer_is_told_though_what_it_answers_can_not_be_had() {
    let (server, mut adapter) = connected(json!({}), &BTreeMap::new());
    adapter.ready();
    let answer = |to: &str| {
        let content =
            json!({"msgtype": "m.text", "body": "why?", "m.relates_to": {"m.in_reply_to": {"event_id": to}}});
        server.event(ADA, "m.room.message", content);
    };
    answer("$none");
    let to = adapter.next_event().reply_to.unwrap();
    assert_eq!((&to.id[..], &to.from[..], to.text), ("$none", "", None));
    server.fault("/event/", 502, json!({}));
    answer("$some");
    assert_eq!(adapter.next_event().reply_to.unwrap().text, None);
    let said = json!({"type": "m.room.message", "event_id": "$some", "sender": BOT, "origin_server_ts": 1, "room_id": ROOM,
        "content": {"msgtype": "m.text", "body": "ours"}});
    server.world().events.insert("$some".into(), said);
    answer("$some");
    let to = adapter.next_event().reply_to.unwrap();
    assert_eq!((&to.from[..], to.myself, to.text.as_deref()), ("g2", true, Some("ours")));
    // It is remembered.
    answer("$some");
    assert!(adapter.next_event().reply_to.unwrap().myself);
    let asked = server.world().asked.iter().filter(|asked| asked.contains("/event/")).count();
    assert_eq!(asked, 3);
}

#[test]
fn a_change_of_a_message_that_is_not_remembered_is_its_senders_or_nothing() {
    let (server, mut adapter) = connected(json!({}), &BTreeMap::new());
    adapter.ready();
    let change = |sender: &str, of: &str, body: &str| {
        let content = json!({"msgtype": "m.text", "body": "*", "m.new_content": {"msgtype": "m.text", "body": body},
            "m.relates_to": {"rel_type": "m.replace", "event_id": of}});
        server.event(sender, "m.room.message", content);
    };
    let old = json!({"type": "m.room.message", "event_id": "$old", "sender": ADA, "origin_server_ts": 1, "room_id": ROOM,
        "content": {"msgtype": "m.text", "body": "pay Bob"}});
    server.world().events.insert("$old".into(), old);
    let eve = "@eve:example.org";
    change(eve, "$old", "pay Eve");
    change(eve, "$none", "pay Eve");
    server.fault("/event/%24later", 502, json!({}));
    change(eve, "$later", "pay Eve");
    change(ADA, "$old", "pay nobody");
    let edit = adapter.next_event();
    assert_eq!((edit.kind, &edit.of[..], &edit.text[..]), (EventKind::Edit, "$old", "pay nobody"));
    let answer =
        json!({"msgtype": "m.text", "body": "why?", "m.relates_to": {"m.in_reply_to": {"event_id": "$old"}}});
    server.event(ADA, "m.room.message", answer);
    let to = adapter.next_event().reply_to.unwrap();
    assert_eq!((&to.from[..], to.text.as_deref()), ("ada", Some("pay nobody")));
    let asked = server.world().asked.iter().filter(|asked| asked.contains("/event/")).count();
    assert_eq!(asked, 3);
}

#[test]
fn what_stands_before_a_homeserver_and_has_no_code_of_its_is_waited_for() {
    let server = Homeserver::start();
    for status in [401, 404] {
        server.fault("/whoami", status, json!({}));
        let mut adapter = start_at(&server, json!({}), &BTreeMap::new());
        let state = adapter.state();
        assert_eq!((state.transport, &state.hint[..]), (Light::Waiting, ""), "{state:?}");
        adapter.ready();
    }
    server.fault("/whoami", 403, json!({"errcode": "M_FORBIDDEN", "error": "no"}));
    let mut adapter = start_at(&server, json!({}), &BTreeMap::new());
    assert_eq!(adapter.state().transport, Light::Refused);
}

#[test]
fn what_a_homeserver_forbids_is_a_right_where_we_are_in_the_room_and_a_room_that_went_otherwise() {
    let (server, mut adapter) = connected(json!({}), &BTreeMap::new());
    adapter.ready();
    let mut n = 0;
    let mut not = |status, error: Value, joined: Option<(u16, Value)>, thread: &str| {
        n += 1;
        server.fault("/send/", status, error);
        if let Some((status, joined)) = joined {
            server.fault("/joined_rooms", status, joined);
        }
        let send = json!({"op": "send", "r": n, "key": format!("k.{n}.1"), "chat": format!("mx:{ROOM}"), "thread": thread, "text": "x"});
        adapter.done(&send).not.unwrap()
    };
    let forbidden = || json!({"errcode": "M_FORBIDDEN", "error": "You may not"});
    let rooms = |rooms: Value| Some((200, json!({"joined_rooms": rooms})));
    let gone = |not: NotSent| match not {
        NotSent::Gone { what, .. } => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(gone(not(403, forbidden(), rooms(json!(["!other:example.org"])), "")), Went::Chat);
    assert_eq!(gone(not(403, forbidden(), rooms(json!([])), "$root")), Went::Chat);
    let right = not(403, forbidden(), rooms(json!([ROOM])), "");
    assert!(matches!(&right, NotSent::Refused { hint, .. } if hint.contains("power level")), "{right:?}");
    let asked = not(403, forbidden(), Some((502, json!({}))), "");
    assert!(matches!(asked, NotSent::Again { .. }), "{asked:?}");
    let unknown = json!({"errcode": "M_NOT_FOUND", "error": "Unknown room"});
    assert_eq!(gone(not(404, unknown, None, "")), Went::Chat);
    // The first event of a thread is not there any more.
    let relation = || json!({"errcode": "M_UNKNOWN", "error": "Can't send relation to unknown event"});
    assert_eq!(gone(not(400, relation(), None, "$root")), Went::Thread);
    let alone = not(400, relation(), None, "");
    assert!(matches!(alone, NotSent::Refused { .. }), "{alone:?}");
}
