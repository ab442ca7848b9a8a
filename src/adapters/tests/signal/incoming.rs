//! What people do, as it is told.

use channel_protocol::{ChatKind, EventKind, Fetch, Kind, Light, Mention, Up};
use g2_fakes::signal::{ADAS_NUMBER, OUR_ACI};

use super::*;

fn fetched(adapter: &mut Adapter, chat: &str, what: &str, most: u64) -> Result<Vec<u8>, String> {
    let asked = Fetch { r: 9, chat: chat.into(), what: what.into(), most };
    let mut line = serde_json::to_value(asked).unwrap();
    line["op"] = "fetch".into();
    match adapter.ask(&line) {
        Up::Fetched { file: Some(file), .. } => Ok(std::fs::read(adapter.spool().join(file)).unwrap()),
        Up::Fetched { problem, .. } => Err(problem.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_of_a_person_and_one_of_a_group_come_in_with_all_ids_of_their_author() {
    let (fake, mut adapter) = connected();
    let at = fake.say(ADA, "hello 🎈");
    let event = adapter.next_event();
    assert_eq!((&event.chat[..], &event.id, &event.key), (ADA_CHAT, &format!("{at}.{ADA}"), &event.id));
    assert_eq!((&event.from.id[..], &event.from.name[..], event.late), (ADA, "Ada", false));
    assert_eq!(event.from.also, [ADAS_NUMBER, "ada.01"]);
    let mention = json!({"mentions": [{"name": US, "number": US, "uuid": OUR_ACI, "start": 0, "length": 1}]});
    fake.world().say(EVE, Some(GROUP), "\u{fffc} look", &mention);
    let event = adapter.next_event();
    let about = event.about.unwrap();
    assert_eq!((&event.chat[..], &about.name[..], about.kind), (GROUP_CHAT, "Plans", ChatKind::Group));
    assert_eq!((&event.text[..], event.mention, &event.from.name[..]), ("@G2 look", Mention::Me, "Evie"));
    assert!(event.from.also.is_empty());
    // What is typed, read or shown in stories is told to nobody.
    let mut world = fake.world();
    let at = world.time();
    world.envelope(ADA, at, "typingMessage", json!({"action": "STARTED", "timestamp": at}));
    world.envelope(ADA, at, "receiptMessage", json!({"when": at, "isRead": true, "timestamps": [1]}));
    world.envelope(ADA, at, "storyMessage", json!({"allowsReplies": true}));
    drop(world);
    fake.say(ADA, "half \u{e000} a character");
    assert_eq!(adapter.next_event().text, "half \u{fffd} a character");
}

#[test]
fn other_ids_of_a_person_are_left_out_while_not_all_of_them_are_known() {
    let fake = Fake::start();
    fake.fault("listContacts", g2_fakes::signal::Fault::Status(500));
    let mut adapter = start_with(&fake.base, json!({"account": US}));
    adapter.ready();
    fake.say(ADA, "hello");
    let event = adapter.next_event();
    assert!(event.from.id == ADA && event.from.also.is_empty(), "{:?}", event.from);
}

#[test]
fn edits_deletions_and_reactions_are_told_by_the_message_s_id() {
    let (fake, mut adapter) = connected();
    let first = fake.say(ADA, "one");
    adapter.next_event();
    let (second, third) = {
        let mut world = fake.world();
        let mut edit = |to: u64, text: &str| {
            let at = world.time();
            let message = json!({"timestamp": at, "message": text});
            world.envelope(
                ADA,
                at,
                "editMessage",
                json!({"targetSentTimestamp": to, "dataMessage": message}),
            );
            at
        };
        let second = edit(first, "two");
        (second, edit(second, "three"))
    };
    let of = format!("{first}.{ADA}");
    for text in ["two", "three"] {
        let event = adapter.next_event();
        assert_eq!((event.kind, &event.of, &event.text[..]), (EventKind::Edit, &of, text));
    }
    let gone = json!({"reaction": {"emoji": "👍", "targetAuthor": ADA, "targetAuthorUuid": ADA, "targetSentTimestamp": third, "isRemove": false}});
    fake.world().say(EVE, None, "", &gone);
    let event = adapter.next_event();
    assert_eq!((event.kind, &event.of, &event.emoji[..], event.on), (EventKind::Reaction, &of, "👍", true));
    // The next life knows what was changed in this one.
    let mut adapter = adapter.again(
        &event.cursor.into_iter().chain([("edit.0".into(), format!("0 {second}.{ADA} {of}"))]).collect(),
    );
    adapter.ready();
    fake.world().say(ADA, None, "", &json!({"remoteDelete": {"timestamp": second}}));
    let event = adapter.next_event();
    assert_eq!((event.kind, &event.of), (EventKind::Delete, &of));
}

#[test]
fn files_come_by_signal_cli_s_answer_or_out_of_its_folder_and_never_larger_than_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("there.png"), b"from the folder").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
    let (fake, mut adapter) = connected_with(json!({"attachments": folder.path()}));
    fake.world().files.insert("a.png".into(), b"what it holds".to_vec());
    fake.world().files.insert("big".into(), vec![7; 20_000]);
    let file = json!({"contentType": "image/png", "filename": "a.png", "id": "a.png", "size": 13});
    fake.world().say(ADA, None, "", &json!({"attachments": [file]}));
    let file = adapter.next_event().attachments.remove(0);
    assert_eq!((file.kind, file.fetch.as_deref(), file.bytes), (Kind::Image, Some("a.png"), Some(13)));
    assert_eq!(fetched(&mut adapter, ADA_CHAT, "a.png", 1000).unwrap(), b"what it holds");
    assert_eq!(fetched(&mut adapter, GROUP_CHAT, "there.png", 1000).unwrap(), b"from the folder");
    assert!(fake.asked("getAttachment").len() == 1 && fake.asked("getAttachment")[0]["recipient"] == ADA);
    for (what, most) in [("big", 1000), ("link", 1000), ("nothing", 1000), ("../x", 10), ("there.png", 3)] {
        assert!(fetched(&mut adapter, GROUP_CHAT, what, most).is_err(), "{what}");
    }
}

#[test]
fn a_stream_that_ends_is_opened_again_and_what_waited_is_told() {
    let (fake, mut adapter) = connected();
    fake.cut();
    fake.say(ADA, "meanwhile");
    let mut failing = false;
    let event = loop {
        match adapter.line() {
            Up::State(state) => failing |= state.inbound == Light::Failing && state.transport == Light::Ok,
            Up::Event(event) => break event,
            _ => {}
        }
    };
    adapter.took(event.n);
    assert!(failing && event.text == "meanwhile");
    fake.wait("another stream", |world| world.opened >= 2);
    // What is no event harms none behind it.
    fake.world().raw("data:no JSON\n\ndata:{\"envelope\":7}\n\nid:1\n: alive\n\n".into());
    fake.say(ADA, "behind it");
    let unread = adapter.next_event();
    assert!((unread.kind, unread.unread.contains("no JSON")) == (EventKind::Nothing, true), "{unread:?}");
    assert_eq!(adapter.next_event().text, "behind it");
    // Where events have ids, those behind the last one are asked for again.
    fake.cut();
    fake.wait("a third stream", |world| world.opened >= 3);
    let mut adapter = adapter.again(&BTreeMap::new());
    adapter.ready();
    assert_eq!(fake.world().last, ["", "", "1", "1"], "the next life knows it, too");
}

#[test]
fn receipts_are_sent_once_a_message_is_stored_where_the_owner_wants_them() {
    let (fake, mut adapter) = connected_with(json!({"read_receipts": true}));
    let at = fake.say(ADA, "seen?");
    let event = adapter.event();
    assert!(fake.asked("sendReceipt").is_empty());
    adapter.took(event.n);
    fake.wait("a receipt", |world| world.asked.iter().any(|(method, _)| method == "sendReceipt"));
    let asked = fake.asked("sendReceipt").remove(0);
    assert_eq!(
        (&asked["recipient"], &asked["targetTimestamp"], &asked["type"]),
        (&json!(ADA), &json!(at), &json!("read"))
    );
}

#[test]
fn a_flood_of_people_and_a_slow_daemon_lose_nothing_and_take_little_memory() {
    const COUNT: usize = 6000;
    let (fake, mut adapter) = connected();
    let text = "x".repeat(4000);
    for n in 0..COUNT {
        fake.say(ADA, &format!("{n} {text}"));
    }
    // All of it is on the disk long before the daemon takes the first one.
    let inbox = adapter.spool().parent().unwrap().join("state/inbox");
    let lines = || std::fs::read(&inbox).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    let begun = std::time::Instant::now();
    while lines() < COUNT {
        assert!(begun.elapsed().as_secs() < 60, "{} of {COUNT}", lines());
        std::thread::yield_now();
    }
    for n in 0..COUNT {
        let event = adapter.next_event();
        assert!(event.text.starts_with(&format!("{n} ")), "{n}: {}", &event.text[..20]);
    }
    assert!(adapter.memory() < 12 << 10, "{} KiB", adapter.memory());
}
