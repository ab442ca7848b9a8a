//! The Discord adapter against a Discord of the tests' own, which discord.py judges (`foreign.rs`).
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs and look at what was left"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod foreign;
#[path = "../suite/mod.rs"]
mod suite;
#[path = "../texts/mod.rs"]
mod texts;
#[path = "../suite/told.rs"]
mod told;

use std::collections::{BTreeMap, BTreeSet};

use channel_protocol::{
    ChatKind, Done, Event, EventKind, Format, Kind, Light, Mention, NotSent, Scope, SentTwice, Unit, Up, Went,
};
use g2_fakes::{
    adapter::Adapter,
    discord::{
        Fake,
        world::{self, Fault, TOKEN, Write},
    },
};
use serde_json::{Value, json};

const GENERAL: u64 = 700;
const RANDOM: u64 = 701;
const ADA: u64 = 100;
const EVE: u64 = 101;

/// The adapter of a bot, which goes on at a place in the history.
fn start(base: &str, token: &str, cursor: &BTreeMap<String, String>) -> Adapter {
    start_with(base, json!({"token": token}), cursor)
}

fn start_with(base: &str, config: Value, cursor: &BTreeMap<String, String>) -> Adapter {
    let account =
        json!({"instance": "discord", "prefix": "dc", "config": config, "cursor": cursor, "upstream": base});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

/// A Discord, and the adapter connected to it.
fn connected() -> (Fake, Adapter) {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    adapter.ready();
    (fake, adapter)
}

fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &event.text[..]).collect()
}

fn send(key: &str, chat: &str, text: &str) -> Value {
    json!({"op": "send", "r": 1, "key": key, "chat": chat, "text": text})
}

#[test]
fn a_message_comes_in_and_its_answer_goes_out_once_however_often_it_is_sent() {
    let (fake, mut adapter) = connected();
    let id = fake.say(GENERAL, ADA, "<@900> hello").to_string();
    let event = adapter.next_event();
    assert_eq!((&event.id, &event.key, &event.chat[..], &event.thread[..]), (&id, &id, "dc:700", ""));
    assert_eq!((&event.from.id[..], &event.from.name[..], &event.from.handle[..]), ("100", "Ada", "ada"));
    assert_eq!((event.mention, event.late, &event.text[..]), (Mention::Me, false, "@G2 hello"));
    assert_eq!(event.at.as_deref().map(|at| &at[..8]), Some("2026-11-"));
    let about = event.about.unwrap();
    assert_eq!((&about.name[..], about.kind, about.threaded), ("#general (Home)", ChatKind::Group, true));
    let mut answer = send("k.1.1", &event.chat, "hi 🎈 @everyone <@100>");
    answer["reply_to"] = id.clone().into();
    let sent = adapter.done(&answer);
    assert_eq!(adapter.done(&answer).ids, sent.ids);
    let mut adapter = adapter.again(&event.cursor);
    adapter.ready();
    assert_eq!(adapter.done(&answer).ids, sent.ids);
    let said = fake.said(GENERAL);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["content"], "hi 🎈 @everyone <@100>");
    assert_eq!(said[0]["message_reference"]["message_id"], id);
    assert!(fake.world().pings.is_empty(), "nobody is pinged");
    // Where the key is forgotten, the text is looked for.
    let look = |text: &str, since: &str| json!({"op": "look_for", "r": 5, "key": "k.1.1", "chat": "dc:700", "since": since, "text": text});
    let Up::Found(found) = adapter.ask(&look("hi 🎈 @everyone <@100>\n", "2026-11-01T00:00:00Z")) else {
        panic!()
    };
    assert_eq!(found.ids, sent.ids);
    let Up::Found(found) = adapter.ask(&look("another", "2026-11-01T00:00:00Z")) else { panic!() };
    assert!(found.not_sent);
    let Up::Found(found) = adapter.ask(&look("hi 🎈 @everyone <@100>", "2026-12-01T00:00:00Z")) else {
        panic!()
    };
    assert!(found.not_sent, "it is older");
    let Up::Found(found) = adapter.ask(&look("", "2026-11-01T00:00:00Z")) else { panic!() };
    assert!(found.cannot_tell.is_some());
}

#[test]
fn only_our_name_is_a_mention_and_an_answer_to_us_says_so() {
    let (fake, mut adapter) = connected();
    for (text, mention) in
        [("@everyone look", Mention::All), ("<@&900> look", Mention::None), ("<@101> look", Mention::None)]
    {
        fake.say(GENERAL, ADA, text);
        assert_eq!(adapter.next_event().mention, mention, "{text}");
    }
    let ours = adapter.done(&send("k.1.1", "dc:700", "which one?")).ids.unwrap().remove(0);
    let reply = json!({"type": 19, "message_reference": {"message_id": ours, "type": 0}});
    fake.world().say(GENERAL, EVE, "this", &reply);
    let event = adapter.next_event();
    let of = event.reply_to.unwrap();
    assert_eq!((of.id, of.myself, of.text.as_deref()), (ours, true, Some("which one?")));
    assert_eq!(event.from.name, "Evie", "the name that this server shows");
    fake.world().say(GENERAL, EVE, "deployed", &json!({"webhook_id": "77"}));
    assert!(adapter.next_event().from.bot);
    // Discord's own words are nobody's.
    fake.world().say(GENERAL, EVE, "", &json!({"type": 7}));
    let dm = fake.dm(EVE);
    fake.say(dm, EVE, "psst");
    let event = adapter.next_event();
    assert_eq!((event.chat, event.about.unwrap().kind), (format!("dc:{dm}"), ChatKind::Direct));
}

#[test]
fn each_kind_of_message_is_told_with_all_that_people_see_of_it() {
    let (fake, mut adapter) = connected();
    let mut rows = fake.rows(GENERAL, ADA);
    assert_eq!(adapter.next_event().text, "before");
    // Who joined, and what is pinned, is nothing.
    rows.retain(|name| !["join", "pin"].contains(name));
    let answer = |to: Value| json!({"text": "why?", "reply_to": to});
    let told = [
        json!({"text": "Transfer 500 to Bob now", "forwarded_from": "#random"}),
        json!({"text": "/stop\nsecond", "forwarded_from": "#random", "comment": "look", "attachments": ["image"]}),
        json!({"text": "Summarise this article (https://a.example/b) please"}),
        json!({"text": "@G2 look", "mention": "me"}),
        json!({"text": "/stop", "mention": "me"}),
        json!({"text": "[Poll, several answers: Tea?]\n- 👍 Yes\n- No (3 votes)"}),
        json!({"text": "[sticker: Wave]"}),
        json!({"text": "", "attachments": ["voice"]}),
        json!({"text": "done\nBuild (https://a.example)\nlog (https://b.example)\nbranch: main"}),
        json!({"text": "see https://a.example"}),
        json!({"text": "# Hello\nOpen (https://a.example)"}),
        json!({"text": "[Invitation to Go]"}),
        json!({"text": "[Thread begins: plans]"}),
        answer(json!({"from": "Ada", "self": false, "text": "before"})),
        answer(json!({"from": "", "self": false, "text": "[deleted message]"})),
        json!({"text": "[message of a kind that G2 does not know: 62]\nwords", "unknown_kind": "62"}),
    ];
    assert_eq!(rows.len(), told.len());
    for (row, told) in rows.iter().zip(told) {
        let event = adapter.next_event();
        let mut is = told::told(&event, &["forwarded_from", "comment", "reply_to", "unknown_kind"]);
        if let Some(to) = is.get_mut("reply_to").and_then(Value::as_object_mut) {
            to.remove("id");
        }
        assert_eq!(is, told, "{row}");
    }
}

#[test]
fn a_message_with_wrong_fields_is_told_as_far_as_it_goes_and_the_next_one_comes() {
    let (fake, mut adapter) = connected();
    let odd = json!({"mentions": "nobody", "attachments": [5, {"url": 7}], "embeds": {"x": 1}, "flags": -1, "poll": [1],
        "edited_timestamp": 5, "message_snapshots": "none", "member": 3, "type": 0});
    fake.world().say(GENERAL, ADA, "half", &odd);
    fake.say(GENERAL, ADA, "next");
    assert_eq!(texts(&adapter.events(2)), ["half", "next"]);
}

#[test]
fn the_role_that_is_ours_alone_is_known_after_a_session_that_goes_on_too() {
    let (fake, mut adapter) = connected();
    let named = json!({"mention_roles": ["905"]});
    fake.world().say(GENERAL, ADA, "<@&905> one", &named);
    let event = adapter.next_event();
    assert_eq!((event.mention, &event.text[..]), (Mention::Me, "@G2 one"));
    adapter.kill();
    let mut adapter = adapter.again(&event.cursor);
    fake.world().say(GENERAL, ADA, "<@&905> two", &named);
    assert_eq!(adapter.next_event().mention, Mention::Me);
    fake.wait("asked once", |world| world.asked.iter().any(|asked| asked == "GET /api/v10/guilds/800/roles"));
    let role = json!({"guild_id": "800", "role": {"id": "905", "name": "Helper", "tags": {"bot_id": "900"}}});
    fake.world().dispatch("GUILD_ROLE_UPDATE", &role);
    fake.world().say(GENERAL, ADA, "<@&905> three", &named);
    assert_eq!(adapter.next_event().text, "@Helper three");
    fake.world().dispatch("GUILD_ROLE_DELETE", &json!({"guild_id": "800", "role_id": "905"}));
    fake.world().say(GENERAL, ADA, "<@&905> four", &named);
    assert_eq!(adapter.next_event().mention, Mention::None);
}

#[test]
fn a_role_of_ours_that_is_named_while_we_are_away_is_a_mention_too() {
    let (fake, mut adapter) = connected();
    let thread = fake.thread(GENERAL, "plans");
    fake.say(thread, ADA, "before");
    fake.say(GENERAL, ADA, "before");
    let cursor = adapter.events(2).remove(1).cursor;
    adapter.kill();
    fake.forget_sessions();
    let named = json!({"mention_roles": ["905"]});
    fake.world().say(GENERAL, ADA, "<@&905> one", &named);
    fake.world().say(thread, ADA, "<@&905> two", &named);
    for place in [GENERAL, thread] {
        let world = fake.world();
        assert!(world.places[&place].messages.values().all(|message| message.get("guild_id").is_none()));
    }
    let mut adapter = adapter.again(&cursor);
    let mut events = adapter.events(2);
    events.sort_by(|a, b| a.text.cmp(&b.text));
    assert_eq!(texts(&events), ["@G2 one", "@G2 two"]);
    assert!(events.iter().all(|event| event.mention == Mention::Me));
}

#[test]
fn an_answer_that_nobody_can_read_is_passed_over_after_three_tries() {
    let (fake, mut adapter) = connected();
    fake.say(GENERAL, ADA, "before");
    fake.say(RANDOM, ADA, "before");
    let cursor = adapter.events(2).remove(1).cursor;
    adapter.kill();
    fake.forget_sessions();
    fake.say(GENERAL, ADA, &format!("broken {}", g2_fakes::BROKEN));
    fake.say(RANDOM, ADA, "missed");
    let mut adapter = adapter.again(&cursor);
    assert_eq!(adapter.next_event().text, "missed");
    adapter.ready();
    let asked = fake.world().asked.iter().filter(|asked| asked.contains("/channels/700/messages")).count();
    assert_eq!(asked, 3);
    fake.say(GENERAL, ADA, "now");
    assert_eq!(adapter.next_event().text, "now");
}

#[test]
fn after_an_outage_without_a_session_everything_is_told_late_whole_and_in_order() {
    let (fake, mut adapter) = connected();
    let dm = fake.dm(ADA);
    let thread = fake.thread(GENERAL, "plans");
    let mut cursor = BTreeMap::new();
    for (place, text) in [(GENERAL, "before"), (dm, "before"), (thread, "before")] {
        fake.say(place, ADA, text);
        cursor.extend(adapter.next_event().cursor);
    }
    adapter.kill();
    fake.forget_sessions();
    // More than one answer has, where we were, and where we never were; a thread that came to rest, and a new one.
    let all: Vec<String> = (0..130).map(|n| n.to_string()).collect();
    for text in &all {
        fake.say(GENERAL, ADA, text);
        if text.len() == 1 {
            fake.say(RANDOM, EVE, text);
            fake.say(dm, ADA, text);
            fake.say(thread, EVE, text);
        }
    }
    fake.world().places.get_mut(&thread).unwrap().at_rest = true;
    let new = fake.thread(GENERAL, "new");
    fake.say(new, ADA, "0");
    let mut adapter = adapter.again(&cursor);
    let events = adapter.events(130 + 31);
    assert!(events.iter().all(|event| event.late && !event.cursor.contains_key("session")));
    let of = |chat: u64, thread: Option<u64>| {
        let thread = thread.map(|id| id.to_string()).unwrap_or_default();
        let chat = format!("dc:{chat}");
        let of = events.iter().filter(|event| event.chat == chat && event.thread == thread).cloned();
        texts(&of.collect::<Vec<_>>()).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of(GENERAL, None), all);
    for few in [of(RANDOM, None), of(dm, None), of(GENERAL, Some(thread))] {
        assert_eq!(few, all[..10]);
    }
    assert_eq!(of(GENERAL, Some(new)), all[..1]);
    adapter.ready();
    fake.say(RANDOM, ADA, "now");
    let event = adapter.next_event();
    assert_eq!((&event.text[..], event.late, event.cursor.contains_key("session")), ("now", false, true));
}

#[test]
fn half_a_character_spoils_no_other_message_whichever_way_it_comes() {
    let (fake, mut adapter) = connected();
    let half = |n: u32| format!("half {} of {n}", g2_fakes::HALF);
    fake.say(GENERAL, ADA, &half(1));
    let event = adapter.next_event();
    assert_eq!(event.text, "half \u{fffd} of 1");
    adapter.kill();
    fake.forget_sessions();
    fake.say(GENERAL, ADA, &half(2));
    fake.say(GENERAL, ADA, "after");
    let mut adapter = adapter.again(&event.cursor);
    assert_eq!(texts(&adapter.events(2)), ["half \u{fffd} of 2", "after"]);
}

#[test]
fn what_is_newer_than_its_id_says_is_asked_for_too() {
    let (fake, mut adapter) = connected();
    fake.world().step = 1000;
    fake.say(GENERAL, ADA, "first");
    let slow = fake.world().id();
    fake.say(GENERAL, ADA, "third");
    let cursor = adapter.events(2).remove(1).cursor;
    adapter.kill();
    fake.forget_sessions();
    let mut world = fake.world();
    let mut second = world.places[&GENERAL].messages.values().next().unwrap().clone();
    second["id"] = slow.to_string().into();
    second["content"] = "second".into();
    world.places.get_mut(&GENERAL).unwrap().messages.insert(slow, second);
    drop(world);
    fake.say(GENERAL, ADA, "fourth");
    let mut adapter = adapter.again(&cursor);
    assert_eq!(
        texts(&adapter.events(3)),
        ["first", "second", "fourth"],
        "what is told again has the same key"
    );
}

#[test]
fn an_adapter_that_is_killed_at_any_event_loses_none() {
    let (fake, mut adapter) = connected();
    let all: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
    for text in &all {
        fake.say(GENERAL, ADA, text);
    }
    let (mut stored, mut cursor, mut order) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for life in 0.. {
        // Each life stores a few events more, the last one without being able to say so.
        while order.len() < all.len() {
            let event = adapter.event();
            let new = stored.insert(event.key.clone());
            if new {
                order.push(event.text.clone());
            }
            cursor.extend(event.cursor.clone());
            if new && order.len() % 7 == life % 7 {
                break;
            }
            adapter.took(event.n);
        }
        adapter.kill();
        if order.len() == all.len() {
            break;
        }
        if life % 3 == 2 {
            fake.forget_sessions();
        }
        adapter = adapter.again(&cursor);
    }
    assert_eq!(order, all);
    let world = fake.world();
    assert!(world.resumed > 1 && world.identified > 1);
}

#[test]
fn a_lost_connection_is_resumed_and_edits_signs_and_deletions_are_told_again_too() {
    let (fake, mut adapter) = connected();
    let id = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    // Discord asks for it, leaves with a code, and goes without a word.
    for (n, loss) in [
        Write::Line(json!({"op": 7, "s": null, "t": null, "d": null}).to_string()),
        Write::Close(4000),
        Write::Cut,
    ]
    .into_iter()
    .enumerate()
    {
        let loss = std::cell::Cell::new(Some(loss));
        fake.leave(|| loss.take().unwrap());
        fake.edit(GENERAL, id, &format!("two {n}"));
        fake.react(GENERAL, id, ADA, &json!({"id": null, "name": "👍"}), true);
        let gone = fake.say(GENERAL, ADA, "gone");
        fake.delete(GENERAL, gone);
        fake.come_back();
        let events = adapter.events(4);
        let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Edit, EventKind::Reaction, EventKind::Message, EventKind::Delete]);
        assert!(events.iter().all(|event| event.late));
        fake.wait("resumed", |world| world.resumed == n + 1);
    }
    // And over an end of the process.
    fake.say(GENERAL, ADA, "last");
    let cursor = adapter.next_event().cursor;
    adapter.kill();
    fake.edit(GENERAL, id, "three");
    let mut adapter = adapter.again(&cursor);
    let edit = adapter.next_event();
    assert_eq!((edit.kind, &edit.text[..]), (EventKind::Edit, "three"));
    let world = fake.world();
    assert_eq!((world.identified, world.resumed), (1, 4));
}

#[test]
fn of_very_many_channels_the_oldest_places_are_forgotten() {
    let fake = Fake::start();
    let known = |n: u64| format!("c{}", 10_000 + n);
    let cursor: BTreeMap<String, String> = (0..1010).map(|n| (known(n), (1000 + n).to_string())).collect();
    let mut adapter = start(&fake.base, TOKEN, &cursor);
    adapter.ready();
    fake.say(GENERAL, ADA, "one");
    let cursor = adapter.next_event().cursor;
    let forgotten: BTreeSet<String> =
        cursor.iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| key.clone()).collect();
    assert_eq!(forgotten, (0..8).map(known).collect());
    assert!(cursor.contains_key("c700"));
}

#[test]
fn a_session_that_discord_forgot_is_begun_anew_and_nothing_is_missed() {
    let (fake, mut adapter) = connected();
    fake.say(GENERAL, ADA, "one");
    assert_eq!(adapter.next_event().text, "one");
    fake.forget_sessions();
    fake.say(GENERAL, ADA, "two");
    let event = adapter.next_event();
    assert_eq!((&event.text[..], event.late), ("two", true));
    assert_eq!(fake.world().identified, 2);
}

#[test]
fn what_discord_says_to_a_send_is_what_became_of_it() {
    let (fake, mut adapter) = connected();
    let messages = "POST /api/v10/channels/700/messages";
    let busy = json!({"message": "You are being rate limited.", "retry_after": 0.65, "global": false});
    fake.fault(messages, Fault::Answer(429, busy));
    let not = adapter.done(&send("k.1.1", "dc:700", "x")).not.unwrap();
    assert_eq!(not, NotSent::Busy { after_ms: 650, scope: Scope::Chat });
    fake.fault(messages, Fault::Answer(502, json!({})));
    assert!(adapter.done(&send("k.1.1", "dc:700", "x")).unknown.is_some());
    fake.fault(messages, Fault::CutBefore);
    assert!(adapter.done(&send("k.1.1", "dc:700", "x")).unknown.is_some());
    fake.fault(messages, Fault::CutAfter);
    assert!(adapter.done(&send("k.1.1", "dc:700", "x")).unknown.is_some());
    let ids = adapter.done(&send("k.1.1", "dc:700", "x")).ids.unwrap();
    assert_eq!((fake.said(GENERAL).len(), ids.len()), (1, 1), "the key makes it once");
    let Some(NotSent::Refused { code, .. }) = adapter.done(&send("k.2.1", "dc:700", &"é".repeat(2001))).not
    else {
        panic!()
    };
    assert_eq!(code, "50035");
    assert!(adapter.done(&send("k.3.1", "dc:700", &"🎈".repeat(2000))).ids.is_some());
    fake.world().places.get_mut(&RANDOM).unwrap().closed = true;
    for chat in ["dc:701", "dc:12345"] {
        let Done { not: Some(not), .. } = adapter.done(&send("k.4.1", chat, "x")) else { panic!() };
        assert!(matches!(not, NotSent::Gone { .. }), "{not:?}");
    }
    let Done { not: Some(not), .. } = adapter.done(&send("k.5.1", "tg:1", "x")) else { panic!() };
    assert!(matches!(not, NotSent::Refused { .. }), "{not:?}");
}

#[test]
fn of_a_thread_that_is_gone_it_is_said_whether_its_channel_has_the_same_readers() {
    let (fake, mut adapter) = connected();
    const FORUM: u64 = 750;
    fake.world().places.insert(FORUM, world::Place { kind: 15, name: "posts".into(), ..Default::default() });
    let about = fake.world().channel(FORUM);
    fake.world().dispatch("CHANNEL_CREATE", &about);
    let opened: Vec<(u64, u64, Went)> =
        [(GENERAL, 11, Went::Thread), (GENERAL, 12, Went::ClosedThread), (FORUM, 11, Went::ClosedThread)]
            .map(|(above, kind, went)| (above, fake.thread_of(above, "plans", kind), went))
            .into();
    let gone = |adapter: &mut Adapter, (above, thread): (u64, u64)| {
        let mut line = send("k.1.1", &format!("dc:{above}"), "x");
        line["thread"] = thread.to_string().into();
        match adapter.done(&line).not {
            Some(NotSent::Gone { what, text, hint }) => (what, text, hint),
            other => panic!("{other:?}"),
        }
    };
    // What is said there shows that the adapter has heard of it.
    for (_, thread, _) in &opened {
        fake.say(*thread, ADA, "here");
        assert_eq!(adapter.next_event().thread, thread.to_string());
    }
    for (above, thread, went) in &opened {
        fake.world().places.get_mut(thread).unwrap().locked = true;
        let (what, _, hint) = gone(&mut adapter, (*above, *thread));
        assert!(what == *went && hint.contains("moderator"), "{what:?} {went:?} {hint}");
        fake.world().places.remove(thread);
        let (what, text, _) = gone(&mut adapter, (*above, *thread));
        assert_eq!((what, &text[..]), (*went, "Unknown Channel"));
    }
    // A deleted thread that it has not heard of in this life may have been anybody's.
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    adapter.ready();
    let (what, ..) = gone(&mut adapter, (GENERAL, opened[0].1));
    assert_eq!(what, Went::ClosedThread);
    // One that is locked can be asked about.
    let thread = fake.thread(GENERAL, "plans");
    let place = |fake: &Fake| {
        fake.world().places.get_mut(&thread).map(|place| (place.locked, place.at_rest) = (true, true))
    };
    place(&fake).unwrap();
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    adapter.ready();
    assert_eq!(gone(&mut adapter, (GENERAL, thread)).0, Went::Thread);
}

#[test]
fn edits_deletions_signs_and_threads_go_both_ways() {
    let (fake, mut adapter) = connected();
    let id = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    fake.edit(GENERAL, id, "two");
    let edit = adapter.next_event();
    assert_eq!((edit.kind, &edit.of, &edit.text[..]), (EventKind::Edit, &id.to_string(), "two"));
    for on in [true, false] {
        fake.react(GENERAL, id, EVE, &json!({"id": "55", "name": "party"}), on);
        let sign = adapter.next_event();
        assert_eq!(
            (sign.kind, &sign.emoji[..], sign.on, &sign.from.id[..]),
            (EventKind::Reaction, "party:55", on, "101")
        );
    }
    fake.delete(GENERAL, id);
    let gone = adapter.next_event();
    assert_eq!((gone.kind, &gone.of), (EventKind::Delete, &id.to_string()));
    let thread = fake.thread(GENERAL, "plans");
    let root = fake.say(thread, ADA, "inside").to_string();
    let event = adapter.next_event();
    assert_eq!((&event.chat[..], &event.thread), ("dc:700", &thread.to_string()));
    assert_eq!(event.about.unwrap().name, "#general (Home)");
    let mut line = send("k.1.1", "dc:700", "mine");
    line["thread"] = thread.to_string().into();
    let ours = adapter.done(&line).ids.unwrap().remove(0);
    let amend = |more: Value| {
        let mut line = json!({"op": "amend", "r": 3, "key": "k.1.2", "chat": "dc:700", "thread": thread.to_string(), "id": ours});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    assert!(adapter.done(&amend(json!({"text": "mine, changed"}))).ids.is_some());
    assert_eq!(fake.said(thread)[0]["content"], "mine, changed");
    assert!(adapter.done(&amend(json!({"react": "👀", "id": root}))).ids.is_some());
    let signs =
        |fake: &Fake| fake.world().places[&thread].messages.values().next().unwrap()["reactions"].clone();
    assert_eq!(signs(&fake)[0]["emoji"]["name"], "👀");
    assert!(adapter.done(&amend(json!({"react": "", "id": root}))).ids.is_some());
    assert_eq!(signs(&fake), json!([]));
    for _ in 0..2 {
        assert!(adapter.done(&amend(json!({"delete": true}))).ids.is_some());
    }
    assert!(fake.said(thread).is_empty());
    assert!(matches!(adapter.done(&amend(json!({"text": "x"}))).not, Some(NotSent::Refused { .. })));
}

#[test]
fn a_pressed_button_is_confirmed_once_it_is_stored_and_answered_to_that_person_alone() {
    let (fake, mut adapter) = connected();
    let mut card = send("k.1.1", "dc:700", "Allow?");
    card["buttons"] = json!([[{"label": "Yes", "press": "yes:1"}, {"label": "No", "press": "no:1"}]]);
    let id: u64 = adapter.done(&card).ids.unwrap()[0].parse().unwrap();
    let press = fake.press(GENERAL, id, "yes:1", EVE);
    let event = adapter.event();
    assert_eq!(
        (event.kind, &event.press[..], &event.of, &event.key),
        (EventKind::Press, "yes:1", &id.to_string(), &press)
    );
    assert_eq!((&event.from.id[..], &event.from.name[..]), ("101", "Evie"));
    assert!(fake.world().callbacks.is_empty(), "it is not stored yet");
    adapter.took(event.n);
    fake.wait("confirmed", |world| world.callbacks.len() == 1);
    assert_eq!(fake.world().callbacks[0], (press.clone(), json!({"type": 6})));
    adapter.say(&json!({"op": "told", "n": event.n, "text": "You may not."}));
    fake.wait("told", |world| world.whispers.len() == 1);
    let (of, said) = fake.world().whispers[0].clone();
    assert_eq!((of, &said["content"], &said["flags"]), (press, &json!("You may not."), &json!(64)));
    // The buttons go with the answer.
    let done = json!({"op": "amend", "r": 4, "key": "k.1.2", "chat": "dc:700", "id": id.to_string(), "text": "Allowed.", "buttons": []});
    assert!(adapter.done(&done).ids.is_some());
    assert_eq!(fake.said(GENERAL)[0]["components"], json!([]));
    // A press that nobody stores is confirmed before Discord gives it up.
    fake.press(GENERAL, id, "no:1", ADA);
    assert_eq!(adapter.event().press, "no:1");
    fake.wait("confirmed", |world| world.callbacks.len() == 2);
}

#[test]
fn commands_are_listed_once_and_one_that_is_chosen_is_a_message_to_the_bot() {
    let fake = Fake::start();
    let commands = json!([{"name": "status", "does": "how it stands"}, {"name": "model", "does": "é".repeat(200), "takes": "name"}]);
    let account = json!({"instance": "discord", "prefix": "dc", "config": {"token": TOKEN}, "commands": commands, "upstream": fake.base});
    let mut adapter = Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account);
    adapter.ready();
    fake.wait("the list", |world| world.commands.as_array().unwrap().len() == 2);
    let listed = fake.world().commands.clone();
    assert_eq!((&listed[0]["name"], &listed[0]["options"]), (&json!("status"), &json!([])));
    assert_eq!(listed[1]["description"].as_str().unwrap().chars().count(), 100);
    assert_eq!(
        (&listed[1]["options"][0]["name"], &listed[1]["options"][0]["required"]),
        (&json!("name"), &json!(false))
    );
    let dm = fake.dm(EVE);
    let thread = fake.thread(GENERAL, "plans");
    for (n, (place, chat, in_thread, given, text)) in [
        (GENERAL, "dc:700".to_owned(), String::new(), Some(" small "), "/model small"),
        (GENERAL, "dc:700".to_owned(), String::new(), Some(" "), "/model"),
        (thread, "dc:700".to_owned(), thread.to_string(), None, "/model"),
        (dm, format!("dc:{dm}"), String::new(), None, "/model"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = fake.choose(place, "model", given, EVE);
        let event = adapter.event();
        assert_eq!(
            (event.kind, &event.id, &event.key, &event.text[..]),
            (EventKind::Message, &id, &id, text)
        );
        assert_eq!((&event.chat, &event.thread, event.mention), (&chat, &in_thread, Mention::Me));
        assert_eq!((&event.from.id[..], event.from.bot), ("101", false));
        assert!(event.at.as_deref().is_some_and(|at| at.starts_with("2026-11-")), "{:?}", event.at);
        assert_eq!(fake.world().callbacks.len(), n, "it is not stored yet");
        adapter.took(event.n);
        fake.wait("an answer", |world| world.callbacks.len() == n + 1);
        let (of, answer) = fake.world().callbacks[n].clone();
        assert_eq!((of, &answer["type"], &answer["data"]["content"]), (id, &json!(4), &json!(text)));
        assert_eq!(answer["data"]["flags"], 64, "nobody beside its sender sees it");
    }
    // A list that is there is not written again.
    let cursor = BTreeMap::new();
    let mut adapter = adapter.again(&cursor);
    adapter.ready();
    fake.choose(GENERAL, "status", None, ADA);
    assert_eq!(adapter.event().text, "/status");
    let put = fake
        .world()
        .asked
        .iter()
        .filter(|asked| asked.starts_with("PUT ") && asked.ends_with("/commands"))
        .count();
    assert_eq!(put, 1);
}

#[test]
fn a_list_of_commands_that_is_not_ours_stays_and_one_that_is_refused_keeps_nobody_out() {
    let (fake, mut adapter) = connected();
    fake.say(GENERAL, ADA, "hello");
    adapter.next_event();
    assert!(!fake.world().asked.iter().any(|asked| asked.ends_with("/commands")));
    fake.fault("/commands", Fault::Answer(403, json!({"message": "Missing Access", "code": 50001})));
    let account = json!({"instance": "discord", "prefix": "dc", "config": {"token": TOKEN},
        "commands": [{"name": "status", "does": "how it stands"}], "upstream": fake.base});
    let mut adapter = Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account);
    adapter.ready();
    fake.say(GENERAL, ADA, "again");
    assert_eq!(adapter.next_event().text, "again");
    assert_eq!(fake.world().commands, json!([]));
}

#[test]
fn files_come_and_go_whole_and_from_discord_alone() {
    let (fake, mut adapter) = connected();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let file = fake.world().file("a_b.png", "image/png", bytes.clone(), 0);
    let mut old = file.clone();
    old["url"] = file["url"].as_str().unwrap().replace("/attachments/", "/expired/").into();
    fake.world().say(GENERAL, ADA, "look", &json!({"attachments": [file, old]}));
    let event = adapter.next_event();
    let told = &event.attachments[0];
    assert_eq!(
        (told.kind, &told.mime[..], told.name.as_deref(), told.bytes),
        (Kind::Image, "image/png", Some("a_b.png"), Some(200_000))
    );
    let fetch =
        |what: &str, most: u64| json!({"op": "fetch", "r": 9, "chat": "dc:700", "what": what, "most": most});
    for told in &event.attachments {
        let Up::Fetched { file: Some(place), .. } =
            adapter.ask(&fetch(told.fetch.as_deref().unwrap(), 1 << 20))
        else {
            panic!()
        };
        assert_eq!(std::fs::read(adapter.spool().join(place)).unwrap(), bytes);
    }
    let real = event.attachments[0].fetch.clone().unwrap();
    for (what, most) in
        [(&real[..], 199_999), ("https://example.org/a.png", 1 << 20), ("http://127.0.0.1:1/a", 1 << 20)]
    {
        assert!(
            matches!(adapter.ask(&fetch(what, most)), Up::Fetched { file: None, problem: Some(_), .. }),
            "{what}"
        );
    }
    std::fs::write(adapter.spool().join("out/z"), &bytes).unwrap();
    std::fs::write(adapter.spool().join("out/large"), vec![0; (10 << 20) + 1]).unwrap();
    let mut line = send("k.1.1", "dc:700", "here");
    line["attachments"] =
        json!([{"file": "out/z", "kind": "image", "mime": "image/png", "name": "z.png", "caption": true}]);
    let sent = adapter.done(&line);
    assert_eq!(adapter.done(&line).ids, sent.ids);
    let said = fake.said(GENERAL);
    assert_eq!(
        (said.len(), &said[0]["content"], &said[0]["attachments"][0]["filename"]),
        (1, &json!("here"), &json!("z.png"))
    );
    let kept =
        said[0]["attachments"][0]["proxy_url"].as_str().unwrap().strip_prefix(&fake.base).unwrap().to_owned();
    assert_eq!(fake.world().files[&kept], bytes);
    line["key"] = "k.2.1".into();
    line["attachments"][0]["file"] = "out/large".into();
    assert!(matches!(adapter.done(&line).not, Some(NotSent::Refused { code, .. }) if code == "too_large"));
    line["attachments"][0]["file"] = "out/none".into();
    assert!(matches!(adapter.done(&line).not, Some(NotSent::Refused { code, .. }) if code == "no_file"));
}

#[test]
fn typing_shows_a_chat_with_one_person_is_opened_and_channels_are_listed() {
    let (fake, mut adapter) = connected();
    adapter.say(&json!({"op": "show", "chat": "dc:700", "typing": true}));
    fake.wait("typing", |world| world.asked.iter().any(|asked| asked == "POST /api/v10/channels/700/typing"));
    let open = json!({"op": "open_dm", "r": 4, "user": "100"});
    let Up::ChatOf { chat, .. } = adapter.ask(&open) else { panic!() };
    assert_eq!(chat, Some(format!("dc:{}", fake.dm(ADA))));
    let Up::ChatOf { chat: None, why, .. } = adapter.ask(&json!({"op": "open_dm", "r": 4, "user": "900"}))
    else {
        panic!()
    };
    assert!(why.contains("Invalid Recipient"));
    let Up::Chats { chats, .. } = adapter.ask(&json!({"op": "list_chats", "r": 6})) else { panic!() };
    let names: Vec<&str> = chats.iter().map(|chat| &chat.name[..]).collect();
    assert_eq!(names, ["#general (Home)", "#random (Home)"]);
}

#[test]
fn hello_says_what_discord_can() {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    let hello = adapter.hello();
    assert_eq!((&hello.myself.id[..], &hello.myself.name[..], hello.text.max), ("900", "G2", 2000));
    assert_eq!(hello.sent_twice, SentTwice::Key { window_ms: Some(120_000), readback: true });
}

#[test]
fn a_wrong_token_and_a_missing_intent_are_refused_with_a_way_out() {
    let fake = Fake::start();
    let refused = |mut adapter: Adapter, hint: &str| {
        let state = std::iter::repeat_with(|| adapter.state())
            .find(|state| state.transport == Light::Refused)
            .unwrap();
        assert!(state.hint.contains(hint), "{state:?}");
        assert_eq!(adapter.exit(), Some(1));
    };
    refused(start(&fake.base, "nonsense", &BTreeMap::new()), "Reset Token");
    fake.world().content_allowed = false;
    refused(start(&fake.base, TOKEN, &BTreeMap::new()), "Message Content Intent");
    fake.world().content_allowed = true;
    // The token is replaced while it runs: the text waits, and a person is told.
    let sure = |token: &str| json!({"token": token, "sure_after_s": 0});
    let mut adapter = start_with(&fake.base, sure(TOKEN), &BTreeMap::new());
    adapter.ready();
    fake.world().token = "another".into();
    assert_eq!(adapter.done(&send("k.1.1", "dc:700", "x")).not, Some(NotSent::Offline));
    refused(adapter, "Reset Token");
    let mut adapter = start_with(&fake.base, sure("another"), &BTreeMap::new());
    adapter.ready();
    fake.world().token = "a third".into();
    fake.connections(|| Write::Close(4004));
    refused(adapter, "Reset Token");
}

#[test]
fn a_discord_that_denies_us_once_is_asked_again_and_the_account_goes_on() {
    let (fake, mut adapter) = connected();
    let no = || Fault::Answer(401, json!({"message": "401: Unauthorized", "code": 0}));
    fake.say(GENERAL, ADA, "before");
    let cursor = adapter.next_event().cursor;
    // The gateway says so, and the first answer to the question, too.
    fake.fault("GET /api/v10/users/@me", no());
    let left = std::cell::Cell::new(false);
    fake.leave(|| {
        left.set(true);
        Write::Close(4004)
    });
    fake.say(GENERAL, ADA, "meanwhile");
    fake.come_back();
    assert_eq!(adapter.next_event().text, "meanwhile");
    assert!(left.get());
    // A text is refused so.
    fake.fault("POST /api/v10/channels/700/messages", no());
    assert_eq!(adapter.done(&send("k.1.1", "dc:700", "x")).not, Some(NotSent::Offline));
    assert!(adapter.done(&send("k.1.1", "dc:700", "x")).ids.is_some());
    fake.say(GENERAL, ADA, "after");
    assert_eq!(adapter.next_event().text, "after");
    // And at the start of an account that was let in before.
    adapter.kill();
    fake.fault("GET /api/v10/users/@me", no());
    let mut adapter = adapter.again(&cursor);
    let state = adapter.state();
    assert!(state.transport == Light::Waiting && state.why.contains("asked again"), "{state:?}");
    assert_eq!(texts(&adapter.events(2)), ["meanwhile", "after"]);
}

#[test]
fn a_discord_that_rests_is_waited_for() {
    let fake = Fake::start();
    fake.fault("GET /api/v10/users/@me", Fault::Answer(503, json!({})));
    let mut adapter = start(&fake.base, TOKEN, &BTreeMap::new());
    assert_eq!(adapter.state().transport, Light::Waiting);
    adapter.ready();
    fake.say(GENERAL, ADA, "one");
    let cursor = adapter.next_event().cursor;
    adapter.kill();
    fake.forget_sessions();
    fake.say(GENERAL, ADA, "two");
    let busy = json!({"message": "slow", "retry_after": 0.01, "global": true});
    fake.fault("GET /api/v10/channels/700/messages", Fault::Answer(429, busy));
    fake.fault("GET /api/v10/channels/700/messages", Fault::CutBefore);
    let mut adapter = adapter.again(&cursor);
    assert_eq!(adapter.next_event().text, "two");
    adapter.ready();
}

#[test]
fn all_is_well_again_once_something_that_was_waited_for_is_not_for_us() {
    let (fake, mut adapter) = connected();
    for status in [403, 418] {
        let dm = fake.dm(EVE);
        let asked = format!("GET /api/v10/channels/{dm}");
        fake.fault(&asked, Fault::Answer(502, json!({})));
        fake.fault(&asked, Fault::Answer(status, json!({})));
        fake.say(dm, EVE, "psst");
        let mut lights = Vec::new();
        let event = loop {
            match adapter.line() {
                Up::State(state) => lights.push(state.inbound),
                Up::Event(event) => break event,
                _ => {}
            }
        };
        adapter.took(event.n);
        assert_eq!((&event.text[..], lights.last()), ("psst", Some(&Light::Ok)), "{lights:?}");
        assert!(lights.contains(&Light::Waiting));
        fake.world().places.remove(&dm);
    }
}

#[test]
fn a_pin_that_shows_an_edit_from_before_the_session_is_late() {
    let (fake, mut adapter) = connected();
    // The fake's clock: 2015, then 2100.
    for (ms, late) in [(1_420_156_800_000, true), (4_102_444_800_000, false)] {
        fake.world().begin_ms = ms;
        let id = fake.say(GENERAL, ADA, "one");
        adapter.next_event();
        fake.edit(GENERAL, id, "two");
        let edit = adapter.next_event();
        assert_eq!((edit.kind, &edit.text[..], edit.late), (EventKind::Edit, "two", late));
    }
}

#[test]
fn what_an_agent_writes_pings_nobody_and_its_marks_end_where_they_should() {
    let (fake, mut adapter) = connected();
    for max in [2000, 120] {
        let before = fake.said(GENERAL).len();
        let parts = texts::sends(texts::HOSTILE, max, Unit::Chars, Format::Discord);
        for (n, part) in parts.iter().enumerate() {
            let order = send(&format!("k.{max}.{n}"), "dc:700", part["text"].as_str().unwrap());
            assert!(adapter.done(&order).ids.is_some());
        }
        let said = fake.said(GENERAL);
        assert_eq!(said.len() - before, parts.len());
        for said in &said[before..] {
            let content = said["content"].as_str().unwrap();
            assert!(content.chars().count() <= max, "{content}");
            assert!(!content.contains("@everyone") && !content.contains("<@1"), "{content}");
            assert_eq!(content.matches("```").count() % 2, 0, "{content}");
        }
    }
    assert!(
        fake.said(GENERAL)[0]["content"].as_str().unwrap().contains("bolt           3"),
        "{}",
        fake.said(GENERAL)[0]
    );
    assert!(fake.world().pings.is_empty());
}
