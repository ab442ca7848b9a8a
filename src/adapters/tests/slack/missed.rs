//! Sockets that end, and what was missed meanwhile.

use channel_protocol::Light;
use g2_fakes::slack::world::Fault;

use super::*;

#[test]
fn another_program_with_the_app_token_is_told_to_a_person() {
    let fake = Fake::start();
    fake.world().others = 1;
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    // Slack may still count an earlier life of ours; at the next connection it does not any more.
    fake.warn();
    let state = adapter.state();
    assert!(state.inbound == Light::Ok && state.why.contains("another program"), "{state:?}");
    fake.wait("one socket", |world| world.sockets.len() == 1);
    fake.world().others = 0;
    fake.warn();
    assert_eq!(adapter.state().why, "");
}

#[test]
fn before_slack_closes_a_socket_another_one_stands_and_nothing_is_asked() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    for n in 2..5 {
        fake.warn();
        // Once it says the same again, that is no other warning.
        fake.warn();
        fake.wait("the second socket alone", |world| world.opened == n && world.sockets.len() == 1);
        let text = n.to_string();
        let _ = fake.say(GENERAL, ADA, &text);
        assert_eq!(adapter.next_event().text, text);
    }
    assert_eq!(fake.world().most_at_once, 2);
    assert_eq!(asked(&fake, "conversations.history"), 0, "nothing was missed");
    fake.wait("all are taken", |world| world.envelopes.is_empty());
}

#[test]
fn a_socket_that_slack_warned_of_stands_until_what_it_told_is_taken() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    let event = adapter.event();
    fake.warn();
    fake.wait("a second socket", |world| world.opened == 2 && world.sockets.len() == 2);
    adapter.took(event.n);
    fake.wait("taken, and one socket", |world| world.envelopes.is_empty() && world.sockets.len() == 1);
}

#[test]
fn a_socket_that_slack_does_not_want_is_left_and_another_one_opened_after_a_rest() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    fake.line(&json!({"type": "disconnect", "reason": "too_many_websockets"}));
    let state = adapter.state();
    assert!(state.transport == Light::Waiting && state.why.contains("too_many_websockets"), "{state:?}");
    fake.wait("another socket", |world| world.opened == 2 && world.sockets.len() == 1);
    assert_eq!(fake.world().most_at_once, 1, "none was opened beside it");
    let _ = fake.say(GENERAL, ADA, "two");
    assert_eq!(adapter.next_event().text, "two");
}

#[test]
fn a_lost_socket_is_opened_anew_and_what_was_missed_is_told_whole_late_and_in_order() {
    let (fake, mut adapter) = connected();
    let dm = fake.world().dm(ADA);
    let root = fake.say(GENERAL, ADA, "before");
    let _ = fake.say(&dm, ADA, "before");
    let _ = fake.reply(GENERAL, &root, ADA, "inside");
    adapter.events(3);
    fake.leave();
    // More than one page has, where we were, and where we never were; a thread that is known, and one that is new.
    let all: Vec<String> = (0..430).map(|n| n.to_string()).collect();
    for text in &all {
        let ts = fake.say(GENERAL, ADA, text);
        if text.len() == 1 {
            let _ = fake.say(RANDOM, EVE, text);
            let _ = fake.say(&dm, ADA, text);
            let _ = fake.reply(GENERAL, &root, EVE, text);
        }
        if text == "7" {
            let _ = fake.reply(GENERAL, &ts, EVE, "below seven");
        }
    }
    fake.forget();
    // Slack wants to be left alone once, is in trouble once, and says what nobody can read once.
    fake.fault(
        "conversations.history",
        Fault::Answer(429, Some("0"), json!({"ok": false, "error": "ratelimited"})),
    );
    fake.fault("conversations.history", Fault::Answer(503, None, json!({})));
    fake.fault("conversations.replies", Fault::Answer(200, None, json!([])));
    fake.come_back();
    let events = adapter.events(430 + 31);
    assert!(events.iter().all(|event| event.late));
    let of = |chat: &str, thread: Option<&str>| {
        let here =
            events.iter().filter(|event| event.chat == chat && event.thread == thread.unwrap_or_default());
        here.map(|event| event.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("slack:C700", None), all);
    for few in [of("slack:C701", None), of(&format!("slack:{dm}"), None), of("slack:C700", Some(&root))] {
        assert_eq!(few, all[..10]);
    }
    assert_eq!(events.iter().filter(|event| event.text == "below seven").count(), 1);
    adapter.ready();
    let _ = fake.say(RANDOM, ADA, "now");
    let event = adapter.next_event();
    assert_eq!((&event.text[..], event.late), ("now", false));
}

/// Slack answers once that it wants to be left alone for so long.
fn busy(after: &'static str) -> Fault {
    Fault::Answer(429, Some(after), json!({"ok": false, "error": "ratelimited"}))
}

#[test]
fn what_is_said_now_does_not_hide_what_was_missed_before_it_in_its_thread() {
    let (fake, mut adapter) = connected();
    let root = fake.say(GENERAL, ADA, "root");
    adapter.next_event();
    fake.leave();
    let _ = fake.reply(GENERAL, &root, ADA, "<@U900> missed");
    fake.forget();
    fake.fault("conversations.history", busy("2"));
    fake.come_back();
    fake.wait("a socket", |world| world.sockets.len() == 1);
    let _ = fake.reply(GENERAL, &root, ADA, "now");
    let told = adapter.events(3);
    assert!(texts(&told).contains(&"@G2 missed") && texts(&told).contains(&"now"), "{:?}", texts(&told));
}

#[test]
fn what_is_said_now_does_not_hide_what_was_missed_in_a_channel_where_nothing_was_told() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    fake.leave();
    let _ = fake.say(RANDOM, ADA, "missed");
    fake.forget();
    fake.fault("users.conversations", busy("2"));
    fake.come_back();
    fake.wait("a socket", |world| world.sockets.len() == 1);
    fake.wait("it is asked", |world| world.asked.iter().any(|asked| asked.ends_with("users.conversations")));
    let _ = fake.say(RANDOM, ADA, "now");
    let told = adapter.events(3);
    assert!(texts(&told).contains(&"missed") && texts(&told).contains(&"now"), "{:?}", texts(&told));
}

#[test]
fn what_was_missed_before_anything_was_told_is_asked_for() {
    let (fake, mut adapter) = connected();
    fake.world().live = true;
    fake.leave();
    let _ = fake.say(GENERAL, ADA, "missed");
    fake.forget();
    fake.come_back();
    assert_eq!(adapter.next_event().text, "missed");
}

#[test]
fn what_a_killed_life_did_not_ask_for_any_more_is_asked_for_by_the_next_one() {
    let (fake, mut adapter) = connected();
    let old = fake.say(GENERAL, ADA, "old");
    let _ = fake.say(GENERAL, ADA, "one");
    let mut cursor = BTreeMap::new();
    adapter.events(2).into_iter().for_each(|event| cursor.extend(event.cursor));
    adapter.kill();
    let _ = fake.say(RANDOM, ADA, "missed");
    let _ = fake.reply(GENERAL, &old, ADA, "below");
    fake.forget();
    // The second life tells what is said just now, two days later, and is killed before it asked for all.
    fake.world().step = 86_400_000_000;
    fake.fault("users.conversations", busy("60"));
    fake.fault("conversations.replies", busy("60"));
    let mut adapter = adapter.again(&cursor);
    fake.wait("it is asked", |world| {
        world.asked.iter().any(|asked| asked.ends_with("replies") || asked.ends_with("users.conversations"))
    });
    let _ = fake.say(GENERAL, ADA, "now");
    let event = adapter.next_event();
    assert_eq!(&event.text[..], "now");
    assert!(event.cursor.contains_key("since"), "{:?}", event.cursor);
    cursor.extend(event.cursor);
    fake.wait("taken", |world| world.envelopes.is_empty());
    fake.world().faults.clear();
    let mut adapter = adapter.again(&cursor);
    let told = adapter.events(2);
    let mut told = texts(&told);
    told.sort_unstable();
    assert_eq!(told, ["below", "missed"]);
    adapter.ready();
    // Once all is told, the next event says so.
    let _ = fake.say(GENERAL, ADA, "after");
    let cursor = adapter.next_event().cursor;
    assert_eq!(cursor.get("since").map(String::as_str), Some(""), "{cursor:?}");
}

#[test]
fn an_answer_that_is_shown_in_the_channel_hides_none_before_it_in_its_thread() {
    let (fake, mut adapter) = connected();
    let root = fake.say(GENERAL, ADA, "root");
    fake.world().step = 86_400_000_000;
    let _ = fake.say(GENERAL, ADA, "two days later");
    let _ = fake.say(GENERAL, ADA, "and later");
    adapter.events(3);
    fake.leave();
    let _ = fake.reply(GENERAL, &root, ADA, "first");
    let more = json!({"thread_ts": root, "subtype": "thread_broadcast"});
    fake.world().say(GENERAL, ADA, "second", &more);
    fake.forget();
    fake.come_back();
    let told = adapter.events(3);
    assert!(texts(&told).contains(&"first") && texts(&told).contains(&"second"), "{:?}", texts(&told));
}

#[test]
fn after_a_death_it_goes_on_where_the_daemon_has_stored_it() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    let cursor = adapter.next_event().cursor;
    adapter.kill();
    let _ = fake.say(GENERAL, ADA, "two");
    let _ = fake.say(RANDOM, ADA, "three");
    fake.forget();
    // What is between us and Slack answers in its place: the channel is asked again.
    fake.fault("conversations.history", Fault::Answer(403, None, json!("<html>")));
    let mut adapter = adapter.again(&cursor);
    let mut events = adapter.events(2);
    events.sort_by(|a, b| a.chat.cmp(&b.chat));
    assert_eq!(texts(&events), ["two", "three"]);
    adapter.ready();
    // A first start asks for no past.
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    let _ = fake.say(GENERAL, ADA, "four");
    assert_eq!(adapter.next_event().text, "four");
}

#[test]
fn a_place_that_can_not_be_read_any_more_keeps_nobody_out() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    let _ = fake.say(RANDOM, ADA, "one");
    let mut cursor = BTreeMap::new();
    adapter.events(2).into_iter().for_each(|event| cursor.extend(event.cursor));
    adapter.kill();
    let _ = fake.say(GENERAL, ADA, "two");
    fake.world().places.get_mut(RANDOM).unwrap().closed = true;
    fake.forget();
    let mut adapter = adapter.again(&cursor);
    assert_eq!(adapter.next_event().text, "two");
    adapter.ready();
}

#[test]
fn lights_say_how_it_stands() {
    let (fake, mut adapter) = connected();
    fake.leave();
    let state = adapter.state();
    assert!(state.transport == Light::Waiting && state.why.contains("socket"), "{state:?}");
    fake.come_back();
    adapter.ready();
}
