//! What agents say, and what Slack says to it.

use channel_protocol::{Done, Format, NotSent, Scope, Unit, Up, Went};
use g2_fakes::slack::world::{Fault, World};

use super::*;

fn look(key: &str, thread: &str) -> Value {
    json!({"op": "look_for", "r": 5, "key": key, "chat": "slack:C700", "thread": thread, "since": "2026-11-01T00:00:00Z", "text": "x"})
}

fn found(adapter: &mut Adapter, line: &Value) -> channel_protocol::Found {
    match adapter.ask(line) {
        Up::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_goes_out_and_is_found_again_by_its_key_alone() {
    let (fake, mut adapter) = connected();
    let root = fake.say(GENERAL, ADA, "root");
    adapter.next_event();
    let sent = adapter.done(&send("k.1.1", "slack:C700", "hi 🎈 &lt;!channel&gt;")).ids;
    let mut inside = send("k.2.1", "slack:C700", "inside");
    inside["thread"] = root.as_str().into();
    let below = adapter.done(&inside).ids;
    let said = fake.said(GENERAL);
    assert_eq!((&said[0]["text"], &said[1]["thread_ts"]), (&json!("hi 🎈 &lt;!channel&gt;"), &json!(root)));
    assert_eq!(said[0]["ts"], json!(sent.as_ref().unwrap()[0]));
    for (key, thread, ids) in [("k.1.1", "", &sent), ("k.2.1", &root[..], &below)] {
        assert_eq!(found(&mut adapter, &look(key, thread)).ids, *ids, "{key}");
    }
    assert!(found(&mut adapter, &look("k.9.1", "")).not_sent);
    assert!(found(&mut adapter, &look("k.1.1", &root)).not_sent);
    let mut old = look("k.1.1", "");
    old["since"] = "2026-12-01T00:00:00Z".into();
    assert!(found(&mut adapter, &old).not_sent, "it is older");
    // Where Slack shows no keys, the text is looked for.
    let without = |text: &str| {
        let messages = json!([{"user": "U900", "ts": "1793491300.000100", "text": text}, {"user": ADA, "ts": "1793491400.000100", "text": "x"}]);
        Fault::Answer(200, None, json!({"ok": true, "messages": messages}))
    };
    fake.fault("conversations.history", without("x"));
    assert_eq!(found(&mut adapter, &look("k.9.1", "")).ids, Some(vec!["1793491300.000100".into()]));
    fake.fault("conversations.history", without("y"));
    assert!(found(&mut adapter, &look("k.9.1", "")).not_sent);
    // Far back, and beyond what is looked at.
    for n in 0..250 {
        let _ = fake.say(GENERAL, ADA, &n.to_string());
    }
    adapter.events(250);
    assert_eq!(found(&mut adapter, &look("k.1.1", "")).ids, sent);
    for _ in 0..10 {
        let page = json!({"ok": true, "messages": [], "response_metadata": {"next_cursor": "5"}});
        fake.fault("conversations.history", Fault::Answer(200, None, page));
    }
    assert!(found(&mut adapter, &look("k.9.1", "")).cannot_tell.is_some());
    let busy = |after| Fault::Answer(429, Some(after), json!({"ok": false, "error": "ratelimited"}));
    // Where nobody can tell it is sent again: a Slack that can't say it now is asked again, as long as the daemon waits.
    for fault in [Fault::Answer(503, None, json!({})), busy("0"), Fault::CutBefore] {
        fake.fault("conversations.history", fault);
    }
    assert_eq!(found(&mut adapter, &look("k.1.1", "")).ids, sent);
    fake.fault("conversations.history", busy("60"));
    assert!(found(&mut adapter, &look("k.1.1", "")).cannot_tell.is_some());
}

#[test]
fn what_is_said_in_a_thread_that_went_is_found_in_the_channel() {
    let (fake, mut adapter) = connected();
    let root = fake.say(GENERAL, ADA, "root");
    adapter.next_event();
    fake.world().delete(GENERAL, &root);
    adapter.next_event();
    let mut line = send("k.1.1", "slack:C700", "below");
    line["thread"] = root.as_str().into();
    fake.fault("chat.postMessage", Fault::CutAfter);
    assert!(adapter.done(&line).unknown.is_some());
    let said = fake.said(GENERAL);
    assert_eq!((said.len(), &said[0]["thread_ts"]), (1, &Value::Null));
    let ids = found(&mut adapter, &look("k.1.1", &root)).ids.unwrap();
    assert_eq!(json!(ids), json!([said[0]["ts"]]), "it is not sent a second time");
    line["key"] = "k.2.1".into();
    assert!(adapter.done(&line).ids.is_some());
    assert!(found(&mut adapter, &look("k.3.1", &root)).not_sent);
}

#[test]
fn a_text_is_looked_for_before_more_is_asked_for_that_was_missed() {
    let (fake, mut adapter) = connected();
    let _ = fake.say(GENERAL, ADA, "one");
    adapter.next_event();
    let sent = adapter.done(&send("k.1.1", "slack:C700", "x")).ids;
    fake.leave();
    let _ = fake.say(GENERAL, ADA, "missed");
    fake.forget();
    let busy = || Fault::Answer(429, Some("2"), json!({"ok": false, "error": "ratelimited"}));
    fake.fault("conversations.history", busy());
    fake.come_back();
    fake.wait("the first page", |world| world.asked.iter().any(|asked| asked.ends_with("history")));
    fake.fault("conversations.replies", busy());
    fake.fault("conversations.replies", busy());
    // It waits twice, and what was missed waits for it.
    let root = sent.as_ref().unwrap()[0].clone();
    assert!(found(&mut adapter, &look("k.2.1", &root)).not_sent);
    assert_eq!(adapter.next_event().text, "missed");
    let asked = fake.world().asked.clone();
    let last = |method: &str| asked.iter().rposition(|asked| asked.ends_with(method));
    assert!(last("conversations.replies") < last("conversations.history"), "{asked:?}");
}

#[test]
fn what_slack_says_to_a_send_is_what_became_of_it() {
    let (fake, mut adapter) = connected();
    let busy = json!({"ok": false, "error": "ratelimited"});
    fake.fault("chat.postMessage", Fault::Answer(429, Some("30"), busy));
    let not = adapter.done(&send("k.1.1", "slack:C700", "x")).not.unwrap();
    assert_eq!(not, NotSent::Busy { after_ms: 30_000, scope: Scope::Chat });
    for fault in [
        Fault::Answer(502, None, json!({})),
        Fault::Answer(200, None, json!({"ok": false, "error": "internal_error"})),
        Fault::CutBefore,
        Fault::CutAfter,
    ] {
        fake.fault("chat.postMessage", fault);
        assert!(adapter.done(&send("k.1.1", "slack:C700", "x")).unknown.is_some());
    }
    assert_eq!(fake.said(GENERAL).len(), 1, "it arrived once, and is found by its key");
    assert_eq!(found(&mut adapter, &look("k.1.1", "")).ids.map(|ids| ids.len()), Some(1));
    let refused = |adapter: &mut Adapter, line: &Value| match adapter.done(line).not {
        Some(NotSent::Refused { code, hint, .. }) => (code, hint),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut adapter, &send("k.2.1", "slack:C700", &"x".repeat(40_001))).0, "msg_too_long");
    assert_eq!(refused(&mut adapter, &send("k.2.2", "slack:C700", " \n")).0, "empty");
    for chat in ["tg:1", "slack:", "slack:c700", "slack:C7/x"] {
        assert_eq!(refused(&mut adapter, &send("k.2.3", chat, "x")).0, "no_channel", "{chat}");
    }
    fake.world().scopes.remove("chat:write");
    let (code, hint) = refused(&mut adapter, &send("k.3.1", "slack:C700", "x"));
    assert!(
        code == "missing_scope" && hint.contains("chat:write") && hint.contains("OAuth & Permissions"),
        "{hint}"
    );
    fake.world().scopes.insert("chat:write".into());
    fake.world().places.get_mut(RANDOM).unwrap().closed = true;
    for chat in ["slack:C701", "slack:C12345"] {
        let Done { not: Some(NotSent::Gone { what, hint, .. }), .. } =
            adapter.done(&send("k.4.1", chat, "x"))
        else {
            panic!()
        };
        assert!(what == Went::Chat && hint.contains("/invite"), "{hint}");
    }
    let mut line = send("k.5.1", "slack:C700", "x");
    line["thread"] = "1793000000.000100".into();
    let no = json!({"ok": false, "error": "restricted_action_thread_locked"});
    fake.fault("chat.postMessage", Fault::Answer(200, None, no));
    let Some(NotSent::Gone { what, .. }) = adapter.done(&line).not else { panic!() };
    assert_eq!(what, Went::Thread, "all of the channel read its threads");
    fake.world().places.get_mut(GENERAL).unwrap().archived = true;
    assert!(matches!(adapter.done(&send("k.6.1", "slack:C700", "x")).not, Some(NotSent::Gone { .. })));
}

#[test]
fn changes_deletions_and_signs_go_out_and_the_same_one_twice_is_one() {
    let (fake, mut adapter) = connected();
    let root = fake.say(GENERAL, ADA, "root");
    adapter.next_event();
    let mut line = send("k.1.1", "slack:C700", "mine");
    line["thread"] = root.as_str().into();
    let ours = adapter.done(&line).ids.unwrap().remove(0);
    let amend = |more: Value| {
        let mut line =
            json!({"op": "amend", "r": 3, "key": "k.1.2", "chat": "slack:C700", "thread": root, "id": ours});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    for _ in 0..2 {
        assert!(adapter.done(&amend(json!({"text": "mine, changed"}))).ids.is_some());
    }
    assert_eq!(fake.said(GENERAL)[0]["text"], "mine, changed");
    assert_eq!(found(&mut adapter, &look("k.1.1", &root)).ids, Some(vec![ours.clone()]), "it keeps its key");
    let signs = || fake.world().places[GENERAL].messages[&World::at(&root)]["reactions"].clone();
    for sign in ["👀", "👀", ":party-parrot:"] {
        assert!(adapter.done(&amend(json!({"react": sign, "id": root}))).ids.is_some());
    }
    assert_eq!((&signs()[0]["name"], &signs()[1]["name"]), (&json!("eyes"), &json!("party-parrot")));
    let not = adapter.done(&amend(json!({"react": "🎈", "id": root}))).not;
    assert!(matches!(not, Some(NotSent::Refused { code, .. }) if code == "invalid_name"));
    fake.world().react(GENERAL, &root, EVE, "eyes", true);
    for _ in 0..2 {
        assert!(adapter.done(&amend(json!({"react": "", "id": root}))).ids.is_some());
    }
    assert_eq!((signs().as_array().unwrap().len(), &signs()[0]["users"]), (1, &json!([EVE])));
    for _ in 0..2 {
        assert!(adapter.done(&amend(json!({"delete": true}))).ids.is_some());
    }
    assert!(fake.said(GENERAL).is_empty());
    for more in [
        json!({"text": "x"}),
        json!({"text": "x", "id": "77"}),
        json!({"text": "x", "id": "nothing"}),
        json!({"delete": true, "id": root}),
    ] {
        assert!(matches!(adapter.done(&amend(more)).not, Some(NotSent::Refused { .. })));
    }
    fake.fault("chat.update", Fault::CutAfter);
    assert!(matches!(adapter.done(&amend(json!({"text": "x"}))).not, Some(NotSent::Again { .. })));
}

#[test]
fn files_go_out_in_one_message_and_are_found_again_by_their_key() {
    let (fake, mut adapter) = connected();
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    std::fs::write(adapter.spool().join("out/z"), &bytes).unwrap();
    let mut line = send("k.1.1", "slack:C700", "here");
    line["attachments"] = json!([{"file": "out/z", "kind": "image", "mime": "image/png", "name": "z.png", "caption": true},
        {"file": "out/z", "kind": "image", "mime": "image/png", "name": "y é.png"}]);
    // Slack says late in which message it shows them.
    fake.world().slow_shares = 2;
    let ids = adapter.done(&line).ids.unwrap();
    let said = fake.said(GENERAL);
    assert_eq!((said.len(), &said[0]["text"], json!(ids[0]) == said[0]["ts"]), (1, &json!("here"), true));
    let kept = said[0]["files"].as_array().unwrap();
    assert_eq!((&kept[0]["name"], &kept[1]["title"]), (&json!("z.png"), &json!("y é.png")));
    assert!(kept.iter().all(|file| fake.world().files[file["id"].as_str().unwrap()].bytes == bytes));
    // It may have arrived: in this life and in the next one it is known that it did.
    line["key"] = "k.2.1".into();
    fake.fault("files.completeUploadExternal", Fault::CutAfter);
    assert!(adapter.done(&line).unknown.is_some());
    let second = fake.said(GENERAL)[1]["ts"].clone();
    assert_eq!(found(&mut adapter, &look("k.2.1", "")).ids.map(|ids| json!(ids[0])), Some(second));
    line["key"] = "k.3.1".into();
    fake.fault("files.completeUploadExternal", Fault::CutBefore);
    assert!(adapter.done(&line).unknown.is_some());
    assert!(found(&mut adapter, &look("k.3.1", "")).not_sent);
    // What failed before anything is shown is tried again.
    line["key"] = "k.4.1".into();
    for at in ["/upload/v1", "files.getUploadURLExternal"] {
        fake.fault(at, Fault::CutAfter);
        assert!(matches!(adapter.done(&line).not, Some(NotSent::Again { .. })), "{at}");
    }
    let answer = json!({"ok": true, "upload_url": "https://example.org/x", "file_id": "F1"});
    fake.fault("files.getUploadURLExternal", Fault::Answer(200, None, answer));
    assert!(matches!(adapter.done(&line).not, Some(NotSent::Again { .. })));
    // Where Slack does not say in time where it shows them, they go by their own ids.
    fake.world().slow_shares = 99;
    let ids = adapter.done(&line).ids.unwrap();
    assert!(ids.len() == 2 && ids[0].starts_with('F'), "{ids:?}");
    let gone =
        json!({"op": "amend", "r": 3, "key": "k.4.2", "chat": "slack:C700", "id": ids[0], "delete": true});
    for _ in 0..2 {
        assert!(adapter.done(&gone).ids.is_some());
    }
    line["attachments"][0]["file"] = "out/none".into();
    assert!(matches!(adapter.done(&line).not, Some(NotSent::Refused { code, .. }) if code == "no_file"));
    std::fs::write(adapter.spool().join("out/large"), vec![0; (50 << 20) + 1]).unwrap();
    line["attachments"][0]["file"] = "out/large".into();
    assert!(matches!(adapter.done(&line).not, Some(NotSent::Refused { code, .. }) if code == "too_large"));
}

#[test]
fn a_chat_with_one_person_is_opened_and_channels_are_listed() {
    let (fake, mut adapter) = connected();
    let Up::ChatOf { chat, .. } = adapter.ask(&json!({"op": "open_dm", "r": 4, "user": ADA})) else {
        panic!()
    };
    assert_eq!(chat, Some("slack:D100".into()));
    let Up::ChatOf { chat: None, why, .. } = adapter.ask(&json!({"op": "open_dm", "r": 4, "user": "U900"}))
    else {
        panic!()
    };
    assert!(why.contains("user_not_found"));
    for n in 0..250 {
        fake.world().open(&format!("C8{n:03}"), &format!("c{n}"), None);
    }
    let Up::Chats { chats, .. } = adapter.ask(&json!({"op": "list_chats", "r": 6})) else { panic!() };
    assert_eq!(
        (chats.len(), &chats[0].name[..], &chats[1].name[..]),
        (252, "#general (Home)", "#random (Home)")
    );
    fake.fault("users.conversations", Fault::Answer(200, None, json!({"ok": false, "error": "fatal_error"})));
    assert!(matches!(adapter.ask(&json!({"op": "list_chats", "r": 6})), Up::Chats { problem: Some(_), .. }));
}

#[test]
fn what_an_agent_writes_calls_nobody_and_its_marks_end_where_they_should() {
    let (fake, mut adapter) = connected();
    for max in [3000, 120] {
        let before = fake.said(GENERAL).len();
        let parts = super::texts::sends(super::texts::HOSTILE, max, Unit::Chars, Format::Slack);
        for (n, part) in parts.iter().enumerate() {
            let mut order = send(&format!("k.{max}.{n}"), "slack:C700", part["text"].as_str().unwrap());
            order["buttons"] = json!([[{"label": "Yes", "press": "y"}]]);
            assert!(adapter.done(&order).ids.is_some());
        }
        let said = fake.said(GENERAL);
        assert_eq!(said.len() - before, parts.len());
        for said in &said[before..] {
            let content = said["text"].as_str().unwrap();
            assert!(content.chars().count() <= max, "{content}");
            assert!(!content.contains("<!") && !content.contains("<@"), "{content}");
            assert_eq!(content.matches("```").count() % 2, 0, "{content}");
            assert_eq!(said["blocks"][0]["text"]["text"], said["text"]);
        }
    }
    assert!(
        fake.said(GENERAL)[0]["text"].as_str().unwrap().contains("<https://a.example/?a=1&amp;b=2|site>")
    );
}
