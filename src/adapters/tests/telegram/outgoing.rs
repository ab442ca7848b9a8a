//! What goes out, and what its end says.

use channel_protocol::{Format, NotSent, Scope, Unit, Went};

use super::*;

fn refused(done: Done) -> (String, String) {
    match done.not {
        Some(NotSent::Refused { code, hint, .. }) => (code, hint),
        other => panic!("{other:?} {:?} {:?}", done.ids, done.unknown),
    }
}

#[test]
fn a_text_of_the_full_length_in_astral_characters_goes_with_its_spans() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let text = "😀".repeat(2048);
    let spans = json!([{"at": 0, "len": 4096, "is": "bold"}, {"at": 2, "len": 4, "is": "link", "to": "https://a.example"}]);
    let done = account.send(GROUP, json!({"text": text, "spans": spans}));
    assert_eq!(done.ids, Some(vec!["1".to_owned()]));
    let said = &fake.said()[0];
    assert_eq!(said["text"], text);
    assert_eq!(
        said["entities"][1],
        json!({"type": "text_link", "offset": 2, "length": 4, "url": "https://a.example"})
    );
    assert_eq!(fake.wait("sendMessage", 1).get("parse_mode"), None);
    let done = account.send(GROUP, json!({"text": format!("{text}x")}));
    assert_eq!(refused(done).0, "too_long");
    assert_eq!(fake.calls("sendMessage"), 1);
    let nested = json!([{"at": 0, "len": 5, "is": "bold"}, {"at": 1, "len": 2, "is": "code"}]);
    account.send(GROUP, json!({"text": "a b c", "spans": nested})).ids.unwrap();
    assert_eq!(fake.said()[1]["entities"].as_array().unwrap().len(), 3, "Telegram nests no code");
    // A span that cuts a character is a fault of the host's, and said.
    let done = account.send(GROUP, json!({"text": "😀x", "spans": [{"at": 1, "len": 1, "is": "bold"}]}));
    assert_eq!(refused(done).0, "400");
}

#[test]
fn texts_of_one_chat_keep_their_order_and_say_what_they_answer() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let asked = fake.text(GROUP, "ask")["message_id"].to_string();
    account.event();
    for n in 0..20 {
        account.sent(GROUP, &n.to_string());
    }
    let said: Vec<String> =
        fake.said().iter().map(|said| said["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(said, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    account.send(GROUP, json!({"text": "a", "reply_to": asked, "silent": true}));
    assert_eq!(fake.said()[20]["reply_to_message"]["text"], "ask");
    assert_eq!(fake.wait("sendMessage", 21)["disable_notification"], true);
    let done = account.send(GROUP, json!({"text": "b", "reply_to": "9999"}));
    assert!(done.ids.is_some(), "what was answered is gone, and the answer comes all the same");
}

#[test]
fn a_text_to_a_topic_goes_there_and_general_is_the_chat_itself() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    account.send(FORUM, json!({"text": "topic", "thread": "42"})).ids.unwrap();
    account.send(FORUM, json!({"text": "general", "thread": "1"})).ids.unwrap();
    let said = fake.said();
    assert_eq!((&said[0]["message_thread_id"], said[1].get("message_thread_id")), (&json!(42), None));
    account.say(&json!({"op": "show", "chat": "tg:-1001000", "thread": "1", "typing": true}));
    let typing = fake.wait("sendChatAction", 1);
    assert_eq!((&typing["message_thread_id"], &typing["action"]), (&json!(1), &json!("typing")));
    let gone = |done: Done| match done.not {
        Some(NotSent::Gone { what, text, hint }) => (what, text, hint),
        other => panic!("{other:?} {:?} {:?}", done.ids, done.unknown),
    };
    let (what, text, _) = gone(account.send(FORUM, json!({"text": "x", "thread": "43"})));
    assert_eq!((what, &text[..]), (Went::Thread, "Bad Request: message thread not found (400)"));
    let club = |closed: Value| {
        let club = json!({"id": FORUM, "type": "supergroup", "title": "Club", "is_forum": true, "topics": [42],
            "closed_topics": closed});
        fake.ask("chat", &club);
    };
    club(json!([42]));
    let (what, text, hint) = gone(account.send(FORUM, json!({"text": "x", "thread": "42"})));
    assert!(
        what == Went::Thread && text.contains("TOPIC_CLOSED") && hint.contains("open the topic"),
        "{text} {hint}"
    );
    assert!(account.send(FORUM, json!({"text": "x"})).ids.is_some(), "the group is there");
    club(json!([1]));
    let (what, ..) = gone(account.send(FORUM, json!({"text": "x", "thread": "1"})));
    assert_eq!(what, Went::Thread);
    club(json!([]));
    fake.message(FORUM, json!({"text": "in general"}));
    assert_eq!(account.event().thread, "1");
}

#[test]
fn what_telegram_wants_to_wait_for_is_said_with_its_time() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.answers("sendMessage", 2, 429, "Too Many Requests: retry after 490", json!({"retry_after": 490}));
    let busy = |scope| Some(NotSent::Busy { after_ms: 490_000, scope });
    assert_eq!(account.send(GROUP, json!({"text": "x"})).not, busy(Scope::Chat));
    assert_eq!(
        account.send(ADA, json!({"text": "x"})).not,
        busy(Scope::Account),
        "a second chat within that time"
    );
    account.sent(GROUP, "x");
}

#[test]
fn a_connection_that_breaks_says_what_can_be_known() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.fault("sendMessage", 1, json!("cut_after"));
    let done = account.send(GROUP, json!({"text": "once"}));
    assert!(done.unknown.is_some(), "{done:?}");
    assert_eq!(fake.said().len(), 1);
    std::fs::write(account.home.path().join("spool/out/1"), vec![b'x'; 40 << 20]).unwrap();
    fake.fault("sendDocument", 1, json!("cut_before"));
    let file = json!([{"file": "out/1", "kind": "document", "mime": "application/zip", "name": "a.zip"}]);
    let done = account.send(GROUP, json!({"attachments": file}));
    assert!(matches!(done.not, Some(NotSent::Again { .. })), "{done:?}");
    fake.answers("sendMessage", 1, 502, "Bad Gateway", json!({}));
    assert!(account.send(GROUP, json!({"text": "x"})).unknown.is_some());
    let _nobody = fake.gone();
    let done = account.send(GROUP, json!({"text": "x"}));
    assert_eq!(done.not, Some(NotSent::Offline));
}

#[test]
fn a_chat_that_is_no_more_is_gone_and_one_that_moved_is_told() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.ask("chat", &json!({"id": 77, "type": "private", "title": "Bob", "is_closed": true}));
    for (chat, says) in [(77, "blocked"), (78, "chat not found")] {
        let Some(NotSent::Gone { text, hint, what }) = account.send(chat, json!({"text": "x"})).not else {
            panic!()
        };
        assert!(text.contains(says) && !hint.is_empty() && what == Went::Chat, "{text} {hint}");
    }
    fake.answers(
        "sendMessage",
        1,
        400,
        "Bad Request: group chat was upgraded",
        json!({"migrate_to_chat_id": -1_000_077}),
    );
    account.say(&json!({"op": "send", "r": 90, "key": "k", "chat": "tg:-55", "text": "x"}));
    let Up::ChatMoved { n, from, to } = account.next() else { panic!() };
    assert_eq!((from.as_str(), to.as_str()), ("tg:-55", "tg:-1000077"));
    account.say(&json!({"op": "took", "n": n}));
    assert!(matches!(account.next(), Up::Done(Done { r: 90, not: Some(NotSent::Again { .. }), .. })));
}

#[test]
fn what_was_said_can_be_changed_and_a_change_twice_is_one() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let buttons = json!([[{"label": "Yes", "press": "y"}]]);
    let id = account.send(GROUP, json!({"text": "Allow?", "buttons": buttons})).ids.unwrap().remove(0);
    let bold = json!({"text": "Allowed.", "spans": [{"at": 0, "len": 7, "is": "bold"}], "buttons": []});
    for _ in 0..2 {
        assert_eq!(account.amend(GROUP, &id, bold.clone()).ids, Some(vec![]));
    }
    let said = &fake.said()[0];
    assert_eq!((said["text"].as_str(), said.get("reply_markup")), (Some("Allowed."), None));
    // The answer to a change is lost: it is made again, which changes nothing.
    fake.fault("editMessageText", 1, json!("cut_after"));
    assert_eq!(account.amend(GROUP, &id, json!({"text": "Done.", "buttons": []})).ids, Some(vec![]));
    account.amend(GROUP, &id, json!({"buttons": buttons})).ids.unwrap();
    assert!(fake.said()[0].get("reply_markup").is_some());
    account.amend(GROUP, &id, json!({"react": "👀"})).ids.unwrap();
    assert_eq!(fake.said()[0]["_reaction"], json!([{"type": "emoji", "emoji": "👀"}]));
    account.amend(GROUP, &id, json!({"react": ""})).ids.unwrap();
    assert_eq!(fake.said()[0]["_reaction"], json!([]));
    assert_eq!(refused(account.amend(GROUP, &id, json!({"react": "🦀"}))).0, "bad_reaction");
    for _ in 0..2 {
        assert_eq!(account.amend(GROUP, &id, json!({"delete": true})).ids, Some(vec![]));
    }
    assert!(fake.said().is_empty());
    assert_eq!(refused(account.amend(GROUP, &id, json!({"text": "x", "buttons": []}))).0, "not_found");
}

#[test]
fn files_go_by_the_way_that_shows_them_and_their_words_can_be_changed() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let out = account.home.path().join("spool/out");
    std::fs::write(out.join("1"), b"a picture").unwrap();
    std::fs::write(out.join("2"), b"not a picture").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", out.join("3")).unwrap();
    let file = |n: u32, kind: &str, mime: &str| json!({"file": format!("out/{n}"), "kind": kind, "mime": mime, "name": "z.png"});
    let picture = json!([file(1, "image", "image/png")]);
    let spans = json!([{"at": 0, "len": 1, "is": "bold"}]);
    let id = account
        .send(GROUP, json!({"text": "A z", "spans": spans, "attachments": picture}))
        .ids
        .unwrap()
        .remove(0);
    let said = &fake.said()[0];
    assert_eq!((said["caption"].as_str(), &said["photo"][0]["file_size"]), (Some("A z"), &json!(9)));
    assert_eq!(said["caption_entities"][0]["type"], "bold");
    account.amend(GROUP, &id, json!({"text": "B", "buttons": []})).ids.unwrap();
    assert_eq!(fake.said()[0]["caption"], "B");
    for (kind, mime) in
        [("video", "video/mp4"), ("audio", "audio/mpeg"), ("voice", "audio/ogg"), ("document", "text/plain")]
    {
        account.send(GROUP, json!({"attachments": [file(1, kind, mime)]})).ids.unwrap();
        assert!(fake.said().last().unwrap().get(kind).is_some());
    }
    account.send(GROUP, json!({"text": "x", "attachments": [file(2, "image", "image/png")]})).ids.unwrap();
    let said = fake.said().pop().unwrap();
    assert_eq!(
        (said["document"]["file_name"].as_str(), said["caption"].as_str()),
        (Some("z.png"), Some("x"))
    );
    let both = json!([file(1, "image", "image/png"), file(1, "video", "video/mp4")]);
    let ids = account.send(FORUM, json!({"text": "both", "thread": "42", "attachments": both})).ids.unwrap();
    assert_eq!(ids.len(), 2);
    let said = fake.said().pop().unwrap();
    assert_eq!(said["message_thread_id"], 42);
    for file in [file(3, "document", "text/plain"), json!({"file": "../state"}), json!({"file": "out/none"})]
    {
        assert_eq!(refused(account.send(GROUP, json!({"attachments": [file]}))).0, "no_file");
    }
}

#[test]
fn the_chat_with_a_person_is_there_once_the_person_wrote() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    account.say(&json!({"op": "open_dm", "r": 1, "user": "12345"}));
    assert_eq!(account.next(), Up::ChatOf { r: 1, chat: Some("tg:12345".into()), why: String::new() });
    account.say(&json!({"op": "open_dm", "r": 2, "user": "99"}));
    let Up::ChatOf { chat: None, why, .. } = account.next() else { panic!() };
    assert!(why.contains("write to the bot first"));
}

#[test]
fn what_an_agent_writes_comes_as_words_and_spans_that_telegram_takes() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    for max in [4096, 60] {
        let before = fake.said().len();
        let parts = texts::sends(texts::HOSTILE, max, Unit::Utf16, Format::Spans);
        for part in &parts {
            assert!(account.send(GROUP, part.clone()).ids.is_some(), "{part}");
        }
        let said = fake.said();
        let texts: Vec<&str> = said[before..].iter().map(|said| said["text"].as_str().unwrap()).collect();
        assert_eq!(texts, parts.iter().map(|part| part["text"].as_str().unwrap()).collect::<Vec<_>>());
    }
    let said = fake.said();
    assert!(said[0]["text"].as_str().unwrap().contains("bolt           3"), "{}", said[0]);
    let kinds = said[0]["entities"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap());
    let kinds: std::collections::BTreeSet<&str> = kinds.collect();
    assert!(
        ["bold", "code", "italic", "spoiler", "pre", "blockquote", "text_link"]
            .iter()
            .all(|kind| kinds.contains(kind)),
        "{kinds:?}"
    );
}
