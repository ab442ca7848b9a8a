use ipc_handlers::effect::{EngageMode, IgnoredMessages, SenderScope};
use serde_json::json;

use super::{
    there::{Dialect, Mentions, Registrations},
    *,
};
use crate::{
    heard::{access::UnknownSenders, chat_commands, engage, people::Role as Right, sender_list::SenderList},
    moved::rows::{Chat, Fate, Group, Heard, Lane, List, ListName, Member, Role, Row, Wiring},
    platforms::addresses::Addresses,
    platforms::chats::ChatKind,
};

const CHAT: &str = "tg:-5";

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

fn group(name: &str, trigger: &str, config: &serde_json::Value) -> Row {
    Row::Group(Group {
        folder: folder(name),
        name: name.into(),
        is_main: name == "main",
        trigger: trigger.into(),
        provider: None,
        script: None,
        image: None,
        config: config.as_object().unwrap().clone(),
        held: None,
        hosts: vec![],
        created_at: Time(0),
    })
}

fn chat(jid: &str, unknown_senders: UnknownSenders) -> Row {
    Row::Chat(Chat {
        jid: jid.into(),
        channel: "telegram".into(),
        name: "Family".into(),
        kind: ChatKind::Group,
        unknown_senders,
        threaded: false,
        members: None,
        alias_of: None,
        wired_before: false,
        created_at: Time(0),
    })
}

fn wiring(group: &str, mode: EngageMode, pattern: Option<&str>) -> Row {
    Row::Wiring(Wiring {
        group: folder(group),
        chat: CHAT.into(),
        engage_mode: mode,
        engage_pattern: pattern.map(str::to_owned),
        sender_scope: SenderScope::All,
        ignored_messages: IgnoredMessages::Accumulate,
        trigger: None,
        created_at: Time(0),
    })
}

fn message(n: i64, text: &str) -> Message {
    serde_json::from_value(json!({
        "chat": CHAT, "replay_key": n.to_string(), "id": n.to_string(), "sender": "7", "sender_name": "Ada", "text": text,
        "received_at": Time(n * 1000).to_string(),
    }))
    .unwrap()
}

fn words() -> chat_commands::Words {
    chat_commands::Words::new([(chat_commands::Word::Status, Some("/status".to_owned()))])
}

fn here(rows: &[Row]) -> Here {
    let mut here = Here::new(words(), SenderList::Absent, Addresses::default());
    rows.iter().for_each(|row| assert!(here.take(row)));
    here
}

/// What differs: the number of the message, what it does there and here, and the command that changes it.
fn differing(found: &Rehearsal) -> Vec<(&str, Effect, Effect, Option<&str>)> {
    let told = found.differences.iter();
    told.map(|of| (of.message.as_str(), of.there.effect, of.here.effect, of.fix.as_deref())).collect()
}

#[test]
fn a_group_with_a_trigger_of_v1_is_woken_by_the_same_messages_here() {
    let mut there = Registrations::new(Dialect::Name, "Andy", SenderList::Absent);
    there.register(CHAT, folder("family"), "@Andy", true);
    let (mode, _) = engage::from_v1(engage::V1Group::Other, Some(true));
    let (mode, pattern) = mode.columns();
    let rows = [
        group("family", "@Andy", &json!({})),
        chat(CHAT, UnknownSenders::Public),
        wiring("family", mode, pattern.as_deref()),
    ];
    let texts = ["hello", "@Andy hi", " @andy, hi", "@Andyx", "@Andyé", "hi @Andy", "", "Andy: said it"];
    let all: Vec<Message> = texts.iter().zip(0..).map(|(text, n)| message(n, text)).collect();
    let found = rehearse(&all, &There::Registered(there), &mut here(&rows));
    assert_eq!(
        (found.messages, found.woke_there, found.wakes_here, found.differ),
        (8, 3, 3, 0),
        "{found:#?}"
    );
    assert_eq!(found.notes.len(), 1);
}

#[test]
fn what_differs_from_v1_is_named_with_the_command_that_changes_it() {
    let list = json!({"default": {"allow": "*", "mode": "trigger"}, "chats": {CHAT: {"allow": 5}}});
    let read = |value: &serde_json::Value| SenderList::parse(value.to_string().as_bytes());
    let mut there = Registrations::new(Dialect::Name, "Andy", read(&list));
    there.register(CHAT, folder("main"), "@Andy", false);
    let rows = [
        group("main", "@Andy", &json!({})),
        chat(CHAT, UnknownSenders::Ask),
        wiring("main", EngageMode::Pattern, Some(".")),
    ];
    let mut own = message(1, "by the owner's own phone");
    own.from_me = true;
    let mut bot = message(2, "by a bot");
    bot.bot = true;
    let all = [own, bot, message(3, "hello"), message(4, "Andy: as the agent"), message(5, "/status")];
    let mut known = here(&rows);
    let there = There::Registered(there);
    let found = rehearse(&all, &there, &mut known);
    let told = differing(&found);
    let add = Some("g2 members add --group main tg:7");
    assert_eq!(
        told,
        [
            ("1", Effect::Wakes, Effect::Nothing, None),
            ("3", Effect::Wakes, Effect::Asks, add),
            ("5", Effect::Wakes, Effect::Asks, add),
        ]
    );
    // An owner is heard; a text with the agent's name is a person's; the word is a command.
    let owner = Row::Role(Role {
        user: "tg:7".into(),
        role: Right::Owner,
        group: None,
        granted_by: "import".into(),
        granted_at: Time(0),
    });
    assert!(known.take(&owner));
    let found = rehearse(&all[2..], &there, &mut known);
    assert_eq!(
        differing(&found),
        [
            ("4", Effect::Nothing, Effect::Wakes, None),
            ("5", Effect::Wakes, Effect::Command, Some("g2 config set words.status ''")),
        ]
    );
    // A list with a fault lets everybody in there, and the owner alone here.
    let list = Row::List(List { name: ListName::Senders, content: list });
    let strangers = [&rows[..], &[list.clone(), chat(CHAT, UnknownSenders::Public)]].concat();
    let found = rehearse(&[message(1, "hello")], &there, &mut here(&strangers));
    assert_eq!(differing(&found), [("1", Effect::Wakes, Effect::Nothing, None)]);
    // A list that is in force here already goes before.
    let mut own =
        Here::new(words(), read(&json!({"default": {"allow": "*", "mode": "drop"}})), Addresses::default());
    for row in &strangers {
        own.take(row);
    }
    assert_eq!(rehearse(&[message(1, "hello")], &there, &mut own).differ, 0);
}

#[test]
fn v1s_sender_list_holds_back_a_trigger_and_nothing_without_one() {
    let list = SenderList::parse(br#"{"default": {"allow": ["8"], "mode": "trigger"}}"#);
    let mut there = Registrations::new(Dialect::Name, "Andy", list);
    there.register(CHAT, folder("family"), "@Andy", true);
    let there = There::Registered(there);
    let judge = |message: &Message| there.judge(message, &folder("family")).effect;
    let mut told = message(1, "@Andy hi");
    assert_eq!(judge(&told), Effect::Context);
    told.from_me = true;
    assert_eq!(judge(&told), Effect::Wakes);
    told = Message { sender: "tg:8".into(), from_me: false, ..told };
    assert_eq!(judge(&told), Effect::Wakes);
    let listed = SenderList::parse(br#"{"default": {"allow": [], "mode": "drop"}}"#);
    let mut open = Registrations::new(Dialect::Name, "Andy", listed);
    open.register(CHAT, folder("main"), "@Andy", false);
    assert_eq!(There::Registered(open).judge(&told, &folder("main")).effect, Effect::Wakes);
}

#[test]
fn patterns_of_the_typescript_program_are_found_anywhere_in_any_case() {
    let written = crate::heard::js_regex::ignoring_case("\\bjo\\b|help").unwrap();
    let mut there = Registrations::new(Dialect::Pattern, "G2", SenderList::Absent);
    there.register(CHAT, folder("work"), "\\bjo\\b|help", true);
    let rows = [
        group("work", "@G2", &json!({})),
        chat(CHAT, UnknownSenders::Public),
        wiring("work", EngageMode::Pattern, Some(&written)),
    ];
    let texts = ["ask JO!", "John", "HELPless", "no", "g2: help", ""];
    let all: Vec<Message> = texts.iter().zip(0..).map(|(text, n)| message(n, text)).collect();
    let found = rehearse(&all, &There::Registered(there), &mut here(&rows));
    assert_eq!(differing(&found), [("4", Effect::Nothing, Effect::Wakes, None)]);
    assert_eq!((found.woke_there, found.wakes_here), (2, 3));

    // One that is broken stopped that program; here it would take every message.
    let mut broken = Registrations::new(Dialect::Pattern, "G2", SenderList::Absent);
    broken.register(CHAT, folder("work"), "(", true);
    let judged = There::Registered(broken).judge(&message(1, "("), &folder("work"));
    assert_eq!(judged.effect, Effect::Nothing);
    assert!(judged.why.contains("is broken"), "{judged:?}");
}

#[test]
fn what_v2_stored_is_what_happened_there() {
    let rows = [
        group("a", "@a", &json!({})),
        group("b", "@b", &json!({"bots": "heard"})),
        chat(CHAT, UnknownSenders::Public),
        wiring("a", EngageMode::MentionSticky, None),
        wiring("b", EngageMode::Pattern, Some("^deploy")),
    ];
    let heard = |group: &str, fate: Fate| Heard { group: folder(group), fate, rule: None, reason: None };
    let of = |n: i64, text: &str, a: Fate, b: Fate| Message {
        heard: vec![heard("a", a), heard("b", b)],
        ..message(n, text)
    };
    let all = [
        of(1, "@bot hello", Fate::Answered, Fate::Kept),
        // It listened on in the whole chat; here each message outside of a thread has to mention the agent.
        of(2, "and more", Fate::Waits, Fate::Ignored),
        of(3, "deploy now", Fate::Kept, Fate::Answered),
        of(4, "Deploy now", Fate::Ignored, Fate::Kept),
    ];
    let there = |mentions| There::Stored { mentions };
    let found = rehearse(&all, &there(Mentions::Guessed), &mut here(&rows));
    // What woke it there counts as a mention, so that nothing is said to differ that is only not known.
    assert_eq!((found.woke_there, found.wakes_here, found.differ), (3, 3, 0), "{found:#?}");
    assert_eq!(found.notes.len(), 1);
    let found = rehearse(&all, &there(Mentions::Stored), &mut here(&rows));
    let fix = Some("g2 wirings set --group a --chat tg:-5 engage=pattern pattern=.");
    assert_eq!(
        differing(&found),
        [("1", Effect::Wakes, Effect::Context, fix), ("2", Effect::Wakes, Effect::Context, fix)]
    );
    // In a thread that is marked it listens on.
    let lane = Row::Lane(Lane {
        group: folder("a"),
        chat: CHAT.into(),
        thread: "9".into(),
        sticky_at: Some(Time(0)),
        session: None,
        active_at: None,
    });
    let mut marked = here(&rows);
    assert!(marked.take(&lane));
    let told = Message { thread: "9".into(), ..all[1].clone() };
    assert_eq!(rehearse(&[told], &there(Mentions::Stored), &mut marked).differ, 0);
}

#[test]
fn a_wiring_for_known_senders_and_a_group_without_a_wiring_are_told_apart() {
    let mut scoped = wiring("a", EngageMode::Pattern, Some("."));
    if let Row::Wiring(wiring) = &mut scoped {
        wiring.sender_scope = SenderScope::Known;
    }
    let rows = [group("a", "@a", &json!({})), chat(CHAT, UnknownSenders::Public), scoped];
    let heard = |name: &str| Heard {
        group: folder(name),
        fate: Fate::Answered,
        rule: None,
        reason: Some("so".into()),
    };
    let told = Message { heard: vec![heard("a"), heard("gone")], ..message(1, "hello") };
    let there = There::Stored { mentions: Mentions::Stored };
    let mut known = here(&rows);
    let found = rehearse(std::slice::from_ref(&told), &there, &mut known);
    assert_eq!(
        differing(&found),
        [
            (
                "1",
                Effect::Wakes,
                Effect::Nothing,
                Some("g2 wirings set --group a --chat tg:-5 sender_scope=all")
            ),
            ("1", Effect::Wakes, Effect::Nothing, Some("g2 wirings add --group gone --chat tg:-5")),
        ]
    );
    assert_eq!(found.differences[0].there.why, "so");
    let member = Member { user: "tg:7".into(), group: folder("a"), added_by: "x".into(), added_at: Time(0) };
    assert!(known.take(&Row::Member(member)));
    assert_eq!(rehearse(&[told], &there, &mut known).differ, 1);
}

#[test]
fn differences_are_counted_in_full_and_told_in_part() {
    let heard = vec![Heard { group: folder("a"), fate: Fate::Answered, rule: None, reason: None }];
    let long = "é".repeat(5_000);
    let all: Vec<Message> = (0..600).map(|n| Message { heard: heard.clone(), ..message(n, &long) }).collect();
    let there = There::Stored { mentions: Mentions::Stored };
    let found = rehearse(&all, &there, &mut here(&[]));
    assert_eq!((found.differ, found.differences.len()), (600, TOLD));
    assert!(found.differences.iter().all(|of| of.text.chars().count() == SHOWN + 1));
}

#[test]
fn an_address_can_be_pasted_into_a_shell() {
    let odd = Message { chat: "x:a b'; rm".into(), ..message(1, "hello") };
    let heard = vec![Heard { group: folder("a"), fate: Fate::Answered, rule: None, reason: None }];
    let there = There::Stored { mentions: Mentions::Stored };
    let found = rehearse(&[Message { heard, ..odd }], &there, &mut here(&[]));
    let fix = found.differences[0].fix.as_deref().unwrap();
    assert_eq!(fix, r"g2 wirings add --group a --chat 'x:a b'\''; rm'");
}
