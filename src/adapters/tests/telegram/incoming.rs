//! What comes in: each once, in order, and acknowledged only when it is stored.

use super::*;

#[test]
fn a_message_comes_with_all_that_is_known_of_it() {
    let fake = Fake::start();
    fake.ask("clock", &json!({"now": 1_800_000_000}));
    let (mut account, _) = Account::polling(&fake);
    let ours = account.sent(FORUM, "ours");
    let text = "😀 @g2bot look";
    fake.message(
        FORUM,
        json!({
            "text": text, "message_thread_id": 42, "is_topic_message": true,
            "entities": [{"type": "mention", "offset": 3, "length": 6}],
            "reply_to_message": {"message_id": ours.parse::<i64>().unwrap(), "text": "ours",
                                 "from": {"id": 424_242, "is_bot": true, "first_name": "G2"},
                                 "date": 1, "chat": {"id": FORUM, "type": "supergroup"}},
        }),
    );
    let event = serde_json::to_value(account.event()).unwrap();
    assert_eq!(
        event,
        json!({
            "n": 1, "key": "u845120001", "cursor": {"updates": "845120001"}, "kind": "message",
            "chat": "tg:-1001000", "thread": "42", "id": "2", "at": "2027-01-15T08:00:02Z",
            "from": {"id": "12345", "name": "Ada L", "handle": "@ada"},
            "text": text, "mention": "me",
            "reply_to": {"id": ours, "from": "G2", "self": true, "text": "ours"},
            "about": {"chat": "tg:-1001000", "name": "Club", "kind": "group", "threaded": true},
        })
    );
}

#[test]
fn updates_are_acknowledged_once_all_of_them_are_stored() {
    let fake = Fake::start();
    fake.text(GROUP, "one");
    fake.text(GROUP, "two");
    let mut account = Account::start(&fake);
    account.hello();
    let (one, two) = (account.told(), account.told());
    assert_eq!((one.text.as_str(), two.text.as_str()), ("one", "two"));
    account.took(&two);
    account.say(&json!({"op": "ping", "r": 1}));
    assert_eq!(account.next(), Up::Pong { r: 1 });
    let state = fake.ask("state", &json!({}));
    assert_eq!(state["unread"], 2, "one of the two is not stored");
    account.took(&one);
    assert_eq!(fake.wait("getUpdates", 2)["offset"], 845_120_003);
    assert_eq!(fake.ask("state", &json!({}))["unread"], 0);
}

#[test]
fn nothing_is_lost_or_doubled_however_often_the_program_is_killed() {
    let fake = Fake::start();
    let all: Vec<String> = (0..12).map(|n| format!("message {n}")).collect();
    for text in &all {
        fake.text(GROUP, text);
    }
    // As the daemon's table has it: unique by chat and key.
    let (mut stored, mut heard): (BTreeMap<(String, String), u64>, Vec<String>) = Default::default();
    let mut account = Account::start(&fake);
    account.hello();
    let mut life = 0;
    while heard.len() < all.len() {
        // Lives die at different lines: before an event is stored, after that, and after `took`.
        for _ in 0..=life % 4 {
            let event = account.told();
            if life % 3 == 0 && event.n > 1 {
                break;
            }
            if stored.insert((event.chat.clone(), event.key.clone()), event.n).is_none() {
                heard.push(event.text.clone());
            }
            account.cursor.extend(event.cursor.clone());
            if life % 3 != 1 {
                account.took(&event);
            }
            if heard.len() == all.len() {
                break;
            }
        }
        life += 1;
        account = account.killed(&fake);
    }
    assert_eq!(heard, all);
    fake.text(GROUP, "after");
    assert_eq!(account.event().text, "after");
}

#[test]
fn what_is_written_while_the_connection_is_broken_is_late() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let polls = fake.calls("getUpdates") as u64;
    fake.text(GROUP, "in time");
    assert!(!account.event().late);
    // The fault is for the poll after the next one.
    fake.wait("getUpdates", polls + 1);
    let now = fake.ask("state", &json!({}))["now"].as_i64().unwrap();
    fake.ask("clock", &json!({"now": now + 100}));
    fake.fault("getUpdates", 1, json!("cut_before"));
    fake.message(GROUP, json!({"text": "the last one before", "date": now + 1}));
    assert!(!account.event().late);
    account.state(|state| state.inbound == Light::Waiting && !state.why.is_empty());
    account.state(|state| state.inbound == Light::Ok);
    fake.message(GROUP, json!({"text": "meanwhile", "date": now + 2}));
    assert!(account.event().late);
    fake.text(GROUP, "after");
    assert!(!account.event().late);
}

#[test]
fn sixty_four_events_are_open_and_no_more() {
    let fake = Fake::start();
    for n in 0..100 {
        fake.text(GROUP, &n.to_string());
    }
    let mut account = Account::start(&fake);
    account.hello();
    let open: Vec<Event> = (0..64).map(|_| account.told()).collect();
    account.say(&json!({"op": "ping", "r": 1}));
    assert_eq!(account.next(), Up::Pong { r: 1 });
    for event in &open {
        account.took(event);
    }
    let rest: Vec<String> = (64..100).map(|_| account.event().text).collect();
    assert_eq!(rest, (64..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_update_that_makes_no_sense_is_told_as_far_as_it_goes_and_the_next_one_comes() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.ask("update", &json!({"message": {"chat": {"id": GROUP}, "text": {"not": "a text"}}}));
    let event = account.told();
    assert_eq!((event.unknown_kind.as_str(), event.cursor["updates"].as_str()), ("text", "845120001"));
    account.took(&event);
    fake.message(
        GROUP,
        json!({"text": "half", "entities": "none", "reply_to_message": 7, "message_thread_id": []}),
    );
    assert_eq!(account.event().text, "half");
    fake.ask("update", &json!({"a_kind_to_come": {"x": 1}}));
    fake.ask("update", &json!({"message": {"chat": {"id": "nowhere"}, "text": "lost"}}));
    fake.message(GROUP, json!({"pinned_message": {"message_id": 1}}));
    for _ in 0..2 {
        let event = account.told();
        assert_eq!(event.kind, EventKind::Nothing);
        account.took(&event);
    }
    fake.text(GROUP, "goes on");
    assert_eq!(account.event().text, "goes on");
    account.logs("update 845120003 names no chat");
}

#[test]
fn an_update_that_nobody_can_read_is_passed_over_after_three_tries_and_the_next_one_comes() {
    let fake = Fake::start();
    let mut account = Account::soon_sure(&fake);
    let broken = fake.message(GROUP, json!({"text": format!("{BROKEN} of one")}));
    fake.text(GROUP, "the next one");
    let event = account.told();
    let cursor = broken["update_id"].to_string();
    assert_eq!((event.kind, event.cursor["updates"].clone()), (EventKind::Nothing, cursor.clone()));
    account.took(&event);
    let state = account.state(|state| state.inbound == Light::Failing);
    assert!(state.why.contains("can't be read"), "{state:?}");
    assert_eq!(account.event().text, "the next one");
    assert_eq!(account.states.last().unwrap().inbound, Light::Ok);
    let of_one = |call: &&Value| call["method"] == "getUpdates" && call["params"]["limit"] == 1;
    let calls = fake.ask("state", &json!({}))["calls"].clone();
    assert_eq!(calls.as_array().unwrap().iter().filter(of_one).count(), 2);
    account.logs(&format!("update {cursor} was asked for three times"));
    // A restart does not meet it again.
    let mut account = account.killed(&fake);
    fake.text(GROUP, "after");
    assert_eq!(account.event().text, "after");
}

#[test]
fn an_update_without_a_number_is_passed_over_after_three_tries_and_the_next_one_comes() {
    let fake = Fake::start();
    let mut account = Account::soon_sure(&fake);
    fake.text(GROUP, "before");
    assert_eq!(account.event().text, "before");
    let lost = fake
        .ask("update", &json!({"without_number": true, "message": {"chat": {"id": GROUP}, "text": "lost"}}));
    let event = account.told();
    let cursor = lost["update_id"].to_string();
    assert_eq!((event.kind, &event.cursor["updates"]), (EventKind::Nothing, &cursor));
    assert!(!event.unread.is_empty());
    account.took(&event);
    let state = account.state(|state| state.inbound == Light::Failing);
    assert!(state.why.contains("no update has a number"), "{state:?}");
    fake.text(GROUP, "the next one");
    assert_eq!(account.event().text, "the next one");
    assert_eq!(account.states.last().unwrap().inbound, Light::Ok);
    account.logs(&format!("update {cursor} was asked for three times"));
}

#[test]
fn half_a_character_in_an_update_spoils_none() {
    let fake = Fake::start();
    for text in ["before", &format!("half {HALF} of one"), "after"] {
        fake.text(GROUP, text);
    }
    let mut account = Account::start(&fake);
    account.hello();
    for text in ["before", "half \u{fffd} of one", "after"] {
        let event = account.told();
        assert_eq!(event.text, text);
        account.took(&event);
    }
    assert_eq!(fake.wait("getUpdates", 2)["offset"], 845_120_004);
}

#[test]
fn what_was_written_while_the_program_was_away_is_late() {
    let fake = Fake::start();
    fake.text(GROUP, "before");
    fake.ask("clock", &json!({"now": 1_800_001_000}));
    let mut account = Account::start(&fake);
    account.hello();
    let event = account.event();
    assert_eq!((event.text.as_str(), event.late), ("before", true));
    fake.text(GROUP, "after");
    let event = account.event();
    assert_eq!((event.text.as_str(), event.late), ("after", false));
}

#[test]
fn an_edit_names_its_message() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let id = fake.text(GROUP, "teh")["message_id"].clone();
    account.event();
    fake.ask(
        "update",
        &json!({"edited_message": {"message_id": id, "chat": {"id": GROUP}, "from": {"id": ADA}, "date": 1_800_000_001,
                                   "edit_date": 1_800_000_009, "text": "the"}}),
    );
    let event = account.event();
    assert_eq!((event.kind, event.of.as_str(), event.text.as_str()), (EventKind::Edit, "1", "the"));
    assert_eq!(event.at.as_deref(), Some("2027-01-15T08:00:09Z"));
}

#[test]
fn each_kind_of_message_is_told_with_all_that_people_see_of_it() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let rows = fake.ask("rows", &json!({"chat": GROUP}))["rows"].clone();
    let forward = |from: &str| json!({"text": "Transfer 500 to Bob now", "forwarded_from": from});
    let answer = |text: &str, to: Value| json!({"text": text, "reply_to": to});
    let told = [
        forward("Eve"),
        forward("Mallory"),
        forward("News (admin)"),
        forward("News (Ada)"),
        json!({"text": "Summarise this article (https://a.example/b) please"}),
        json!({"text": "😀 read (https://a.example/b) it", "attachments": ["image"]}),
        json!({"text": "G2, look", "mention": "me"}),
        json!({"text": "[Live location: 52.5, 13.4]"}),
        json!({"text": "[Location: Café, Main St 1]"}),
        json!({"text": "[Contact: Bob, +49]"}),
        json!({"text": "[Poll, several answers: Tea?]\n- Yes\n- No (2 votes)"}),
        json!({"text": "[Quiz, closed: Tea?]\n- Yes\n- No (2 votes)"}),
        json!({"text": "[Checklist: Trip]\n- [ ] pack\n- [x] book"}),
        json!({"text": "[Story of News]"}),
        json!({"text": "[Paid media: 3 files for 25 stars]\nlook", "attachments": ["image", "video"]}),
        json!({"text": "[Sticker 👍]"}),
        json!({"text": "[Dice 🎲 4]"}),
        json!({"text": "[Game: Go, a board]"}),
        json!({"text": "[Invoice: Beans, 1 kg, 14.50 EUR]"}),
        json!({"text": "[Giveaway: 5 winners, until 2027-01-15T08:00:00Z, a cup]"}),
        json!({"text": "[Gift: 50 stars]\nfor you"}),
        json!({"text": "[Video chat begins]"}),
        json!({"text": "[Video chat has ended after 60 s]"}),
        answer("whose is it?", json!({"id": "3", "from": "Bob", "self": false, "kind": "image"})),
        answer(
            "why?",
            json!({"id": "3", "from": "Bob", "self": false, "text": "come at nine", "quote": "at nine"}),
        ),
        answer(
            "is it so?",
            json!({"id": "", "from": "News", "self": false, "quote": "rain", "kind": "image", "elsewhere": "News"}),
        ),
        answer("nice", json!({"id": "", "from": "News", "self": false, "text": "[Story]"})),
    ];
    assert_eq!(rows.as_array().unwrap().len(), told.len());
    for (row, told) in rows.as_array().unwrap().iter().zip(told) {
        let is = told::told(&account.event(), &["forwarded_from", "reply_to", "unknown_kind", "quiet"]);
        assert_eq!(is, told, "{row}");
    }
}

#[test]
fn a_location_that_moves_five_times_is_one_message() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let place = |latitude: f64| json!({"latitude": latitude, "longitude": 13.4, "live_period": 900});
    let id = fake.message(GROUP, json!({"location": place(52.0)}))["message_id"].clone();
    assert_eq!(account.event().text, "[Live location: 52, 13.4]");
    for n in 1..=5 {
        let moved = json!({"message_id": id, "chat": {"id": GROUP}, "from": {"id": ADA}, "date": 1_800_000_001,
            "edit_date": 1_800_000_001 + n, "location": place(f64::from(n))});
        fake.ask("update", &json!({"edited_message": moved}));
    }
    for n in 1..=5 {
        let event = account.event();
        assert_eq!((event.kind, event.quiet, event.of.as_str()), (EventKind::Edit, true, "1"));
        assert_eq!(event.text, format!("[Live location: {n}, 13.4]"));
    }
}

#[test]
fn a_command_for_this_bot_is_told_without_its_name_and_one_for_another_is_nothing() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    for (text, kind, told) in [
        ("/stop@other_bot", EventKind::Nothing, ""),
        ("/stop@G2Bot", EventKind::Message, "/stop"),
        ("/retry@g2bot", EventKind::Message, "/retry"),
    ] {
        let entities = json!([{"type": "bot_command", "offset": 0, "length": text.len()}]);
        fake.message(GROUP, json!({"text": text, "entities": entities}));
        let event = account.told();
        account.took(&event);
        assert_eq!((event.kind, event.text.as_str()), (kind, told), "{text}");
    }
}

#[test]
fn a_press_is_told_and_who_pressed_is_answered() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let buttons = json!([[{"label": "Allow", "press": "a3:1"}, {"label": "No", "press": "a3:0"}]]);
    let card = account.send(GROUP, json!({"text": "Allow Ada?", "buttons": buttons})).ids.unwrap().remove(0);
    assert_eq!(fake.said()[0]["reply_markup"]["inline_keyboard"][0][1]["callback_data"], "a3:0");
    let id: i64 = card.parse().unwrap();
    fake.ask(
        "update",
        &json!({"callback_query": {"from": {"id": ADA, "first_name": "Ada"}, "data": "a3:1",
                                   "message": {"message_id": id, "date": 1, "chat": {"id": GROUP, "type": "group"}}}}),
    );
    let event = account.event();
    assert_eq!(
        (event.kind, event.press.as_str(), event.of.as_str()),
        (EventKind::Press, "a3:1", card.as_str())
    );
    assert_eq!(event.from.id, "12345");
    account.say(&json!({"op": "told", "n": event.n, "text": "Ada is allowed."}));
    assert_eq!(fake.wait("answerCallbackQuery", 1)["text"], "Ada is allowed.");
    assert_eq!(fake.ask("state", &json!({}))["presses"], json!([]));
}

#[test]
fn reactions_come_one_by_one_as_they_are_put_and_taken() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let emoji = |emoji: &str| json!({"type": "emoji", "emoji": emoji});
    fake.ask(
        "update",
        &json!({"message_reaction": {"chat": {"id": GROUP}, "message_id": 9, "user": {"id": ADA}, "date": 1_800_000_009,
                                     "old_reaction": [emoji("👍")], "new_reaction": [emoji("🔥"), emoji("👀")]}}),
    );
    let mut told = Vec::new();
    for _ in 0..3 {
        let event = account.event();
        assert_eq!((event.kind, event.of.as_str()), (EventKind::Reaction, "9"));
        told.push((event.key, event.emoji, event.on, event.cursor.len()));
    }
    let one = |key: &str, emoji: &str, on, cursor| (key.to_owned(), emoji.to_owned(), on, cursor);
    assert_eq!(
        told,
        [
            one("u845120001", "👍", false, 0),
            one("u845120001.1", "🔥", true, 0),
            one("u845120001.2", "👀", true, 1),
        ]
    );
}

#[test]
fn the_pieces_of_an_album_are_one_message_with_all_its_files() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    let photo =
        |id: &str| json!([{"file_id": "small", "file_size": 10}, {"file_id": id, "file_size": 81_234}]);
    fake.message(GROUP, json!({"media_group_id": "138", "photo": photo("p1")}));
    fake.message(GROUP, json!({"media_group_id": "138", "photo": photo("p2"), "caption": "both"}));
    fake.message(GROUP, json!({"media_group_id": "139", "photo": photo("p3")}));
    let both = account.event();
    assert_eq!((both.album.as_deref(), both.text.as_str()), (Some("138"), "both"));
    let files = serde_json::to_value(&both.attachments).unwrap();
    let file = |id| json!({"fetch": id, "kind": "image", "mime": "image/jpeg", "bytes": 81_234});
    assert_eq!(files, json!([file("p1"), file("p2")]));
    assert_eq!((both.key.as_str(), both.cursor["updates"].as_str()), ("u845120001", "845120002"));
    let other = account.event();
    assert_eq!((other.album.as_deref(), other.attachments.len()), (Some("139"), 1));
    assert_eq!(other.key, "u845120003");
    fake.text(GROUP, "and words");
    assert_eq!(account.event().text, "and words");
}

#[test]
fn a_file_is_fetched_when_it_is_asked_for_and_never_beyond_its_bound() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.ask("file", &json!({"file_id": "v1", "path": "voice/file_1.oga", "text": "OggS…"}));
    fake.ask(
        "file",
        &json!({"file_id": "lies", "path": "voice/file_2.oga", "text": "x".repeat(5000), "size": 10}),
    );
    fake.message(
        GROUP,
        json!({"voice": {"file_id": "v1", "duration": 12, "mime_type": "audio/ogg", "file_size": 7}}),
    );
    fake.message(GROUP, json!({"document": {"file_id": "big", "file_name": "a.zip", "file_size": 31 << 20}}));
    let voice = account.event().attachments.remove(0);
    assert_eq!((voice.seconds, voice.problem), (Some(12), None));
    let big = account.event().attachments.remove(0);
    assert_eq!((big.fetch, big.name.as_deref(), big.bytes), (None, Some("a.zip"), Some(31 << 20)));
    assert!(big.problem.unwrap().contains("31 MB"));
    assert_eq!(fake.calls("getFile"), 0);

    account.say(&json!({"op": "fetch", "r": 5, "chat": "tg:-55", "what": voice.fetch, "most": 1 << 20}));
    assert_eq!(account.next(), Up::Fetched { r: 5, file: Some("in/5".into()), problem: None });
    let stored = std::fs::read(account.home.path().join("spool/in/5")).unwrap();
    assert_eq!(stored, "OggS…".as_bytes());
    for (r, what, most, says) in [
        (6, "v1", 3, "more than 3 bytes"),
        (7, "lies", 1000, "more than 1000 bytes"),
        (8, "none", 9, "wrong file_id"),
    ] {
        account.say(&json!({"op": "fetch", "r": r, "chat": "tg:-55", "what": what, "most": most}));
        let Up::Fetched { file: None, problem: Some(problem), .. } = account.next() else { panic!() };
        assert!(problem.contains(says), "{problem}");
    }
    assert_eq!(
        std::fs::read_dir(account.home.path().join("spool/in")).unwrap().count(),
        1,
        "nothing half stays"
    );
}

#[test]
fn a_group_that_becomes_a_supergroup_is_told_with_both_addresses() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.ask("migrate", &json!({"from": GROUP, "to": -1_000_077}));
    for _ in 0..2 {
        let Up::ChatMoved { n, from, to } = account.next() else { panic!() };
        assert_eq!((from.as_str(), to.as_str()), ("tg:-55", "tg:-1000077"));
        account.say(&json!({"op": "took", "n": n}));
        let event = account.told();
        assert_eq!(event.kind, EventKind::Nothing);
        account.took(&event);
    }
    fake.text(-1_000_077, "here we are");
    assert_eq!(account.event().chat, "tg:-1000077");
}

#[test]
fn being_let_into_a_chat_tells_its_facts() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.ask("update", &json!({"my_chat_member": {"chat": {"id": FORUM}, "from": {"id": ADA}}}));
    let Up::Chat(chat) = account.next() else { panic!() };
    assert_eq!((chat.chat.as_str(), chat.name.as_str(), chat.threaded), ("tg:-1001000", "Club", true));
    let event = account.told();
    assert_eq!(event.kind, EventKind::Nothing);
}
