//! Messages of each kind, as Discord tells them.

use serde_json::json;

use super::*;

const US: Us<'static> = Us { id: "9", role: None };

fn message(more: Value) -> Message {
    let mut message = json!({
        "id": "7", "channel_id": "5", "type": 0, "content": "hi", "timestamp": "2026-11-23T10:00:00.000000+00:00",
        "author": {"id": "1", "username": "ada", "global_name": null}, "edited_timestamp": null, "nonce": 5,
    });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(message).unwrap()
}

#[test]
fn only_a_name_of_ours_is_a_mention() {
    let me = json!({"id": "9", "username": "g2", "global_name": "G2"});
    for (more, mention, text) in [
        (json!({"content": "<@9> <@!9> hi", "mentions": [me]}), Mention::Me, "@G2 @G2 hi"),
        (json!({"content": "@everyone", "mention_everyone": true}), Mention::All, "@everyone"),
        (json!({"content": "<@&9>", "mention_roles": ["9"]}), Mention::None, "<@&9>"),
        (json!({"content": "<@1>", "mentions": [{"id": "1", "username": "ada"}]}), Mention::None, "@ada"),
    ] {
        let event = message(more).event(US, "").unwrap();
        assert_eq!((event.mention, &event.text[..]), (mention, text));
    }
}

#[test]
fn a_name_is_the_one_that_is_shown_and_a_webhook_is_a_bot() {
    let more = json!({"member": {"nick": "Countess"}, "author": {"id": "1", "username": "ada", "global_name": "Ada"}});
    let from = message(more).event(US, "").unwrap().from;
    assert_eq!((&from.name[..], &from.handle[..], from.bot), ("Countess", "ada", false));
    assert!(message(json!({"webhook_id": "3"})).event(US, "").unwrap().from.bot);
}

#[test]
fn answers_forwards_embeds_stickers_and_spoken_messages_say_what_they_are() {
    let of = json!({"id": "6", "content": "card", "author": {"id": "9", "username": "g2"}});
    let event =
        message(json!({"type": 19, "message_reference": {"message_id": "6"}, "referenced_message": of}))
            .event(US, "")
            .unwrap();
    let reply = event.reply_to.unwrap();
    assert_eq!((&reply.id[..], reply.myself, reply.text.as_deref()), ("6", true, Some("card")));
    let file = json!({"url": "https://cdn.discordapp.com/v", "filename": "v.ogg", "content_type": "audio/ogg", "size": 4, "duration_secs": 1.6});
    let event = message(json!({"content": "", "message_reference": {"type": 1, "message_id": "6"},
        "message_snapshots": [{"message": {"content": "before", "flags": 8192, "attachments": [file]}}]}))
    .event(US, "")
    .unwrap();
    assert_eq!(
        (&event.text[..], event.reply_to, event.forwarded_from.as_deref()),
        ("before", None, Some(""))
    );
    assert_eq!((event.attachments[0].kind, event.attachments[0].seconds), (Kind::Voice, Some(2)));
    let event = message(
        json!({"content": "", "embeds": [{"title": "a", "description": null}, {"description": "b"}]}),
    )
    .event(US, "")
    .unwrap();
    assert_eq!(event.text, "a\nb");
    assert_eq!(
        message(json!({"content": "", "sticker_items": [{"name": "Wave"}]})).event(US, "").unwrap().text,
        "[sticker: Wave]"
    );
}

#[test]
fn the_role_that_is_ours_alone_is_a_mention_and_a_command_behind_our_name_is_one() {
    let role = Role { id: "5".into(), name: "G2".into(), ..Role::default() };
    let us = Us { id: "9", role: Some(&role) };
    let me = json!([{"id": "9", "username": "g2", "global_name": "G2"}]);
    for (more, mention, text) in [
        (json!({"content": "<@&5> look", "mention_roles": ["5"]}), Mention::Me, "@G2 look"),
        (json!({"content": "<@&6> look", "mention_roles": ["6"]}), Mention::None, "<@&6> look"),
        (json!({"content": "<@9> /stop", "mentions": me}), Mention::Me, "/stop"),
        (json!({"content": "<@&5> /stop", "mention_roles": ["5"]}), Mention::Me, "/stop"),
        (json!({"content": "<@9> /stop it", "mentions": me}), Mention::Me, "@G2 /stop it"),
        (
            json!({"content": "<@8> /stop", "mentions": [{"id": "8", "username": "other"}]}),
            Mention::None,
            "@other /stop",
        ),
    ] {
        let event = message(more).event(us, "").unwrap();
        assert_eq!((event.mention, &event.text[..]), (mention, text));
    }
}

#[test]
fn a_forward_has_its_words_and_its_forwarders_own() {
    let file = |name: &str| json!({"url": format!("https://cdn.discordapp.com/{name}"), "filename": name, "content_type": "image/png"});
    let snapshot = |text: &str, name: &str| {
        json!({"message": {"content": text, "attachments": [file(name)],
        "mentions": [{"id": "9", "username": "g2"}]}})
    };
    let event = message(json!({"content": "see <@9>", "mentions": [{"id": "9", "username": "g2"}], "attachments": [file("c")],
        "message_reference": {"type": 1, "message_id": "6", "channel_id": "4"},
        "message_snapshots": [snapshot("Transfer 500 to Bob now", "a"), snapshot("[this](https://a.example)", "b")]}))
    .event(US, "#general")
    .unwrap();
    assert_eq!(event.text, "Transfer 500 to Bob now\nthis (https://a.example)");
    assert_eq!((&event.comment[..], event.forwarded_from.as_deref()), ("see @g2", Some("#general")));
    assert_eq!((event.mention, event.reply_to), (Mention::Me, None));
    let names: Vec<_> = event.attachments.iter().filter_map(|file| file.name.as_deref()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let named = message(json!({"content": "", "message_reference": {"type": 1},
        "message_snapshots": [snapshot("/stop <@9>", "a")]}));
    let event = named.event(US, "").unwrap();
    assert_eq!((event.mention, &event.text[..], &event.comment[..]), (Mention::None, "/stop @g2", ""));
    let gone = message(json!({"content": "", "message_reference": {"type": 1}})).event(US, "").unwrap();
    assert_eq!((gone.text.contains("shows bots nothing"), gone.forwarded_from.as_deref()), (true, Some("")));
}

#[test]
fn each_kind_says_what_people_see_and_an_unknown_one_its_number() {
    let answers = json!([{"answer_id": 1, "poll_media": {"text": "Yes", "emoji": {"name": "👍"}}}, {"answer_id": 2, "poll_media": {"text": "No"}}]);
    let poll = |finalized: bool| {
        json!({"question": {"text": "Tea?"}, "answers": answers, "allow_multiselect": true,
        "results": {"is_finalized": finalized, "answer_counts": [{"id": 2, "count": 3}]}})
    };
    let field = |name: &str, value: &str| json!({"name": name, "value": value});
    let starter = json!({"content": "plans", "author": {"id": "9", "username": "g2"}});
    for (more, text) in [
        (
            json!({"content": "", "poll": poll(false)}),
            Some("[Poll, several answers: Tea?]\n- 👍 Yes\n- No (3 votes)"),
        ),
        (
            json!({"poll": poll(true)}),
            Some("hi\n[Poll, several answers, closed: Tea?]\n- 👍 Yes\n- No (3 votes)"),
        ),
        (
            json!({"sticker_items": [{"name": "Wave"}, {"name": "Hm"}]}),
            Some("hi\n[sticker: Wave] [sticker: Hm]"),
        ),
        (
            json!({"content": "", "activity": {"type": 3}, "application": {"name": "Go"}}),
            Some("[Invitation to Go]"),
        ),
        (json!({"content": "", "activity": {"type": 3}}), Some("[Invitation to an activity]")),
        (json!({"embeds": [{"type": "link", "title": "a page"}]}), Some("hi")),
        (
            json!({"embeds": [{"type": "rich", "title": "Build", "url": "https://a.example", "description": "[log](https://b.example)",
                "fields": [field("branch", "main")], "footer": {"text": "5 s"}, "author": {"name": "CI"}}]}),
            Some("hi\nCI\nBuild (https://a.example)\nlog (https://b.example)\nbranch: main\n5 s"),
        ),
        (
            json!({"content": "", "flags": 1 << 15, "components": [{"type": 17, "components": [{"type": 10, "content": "# Hello"},
                {"type": 9, "components": [{"type": 10, "content": "more"}], "accessory": {"type": 2, "label": "Open", "url": "https://a.example"}}]},
                {"type": 2, "label": "Press", "custom_id": "x"}]}),
            Some("# Hello\nmore\nOpen (https://a.example)"),
        ),
        (json!({"type": 3}), Some("[Call begins]")),
        (json!({"type": 18, "content": "plans"}), Some("[Thread begins: plans]")),
        (
            json!({"type": 21, "content": "", "referenced_message": starter}),
            Some("[Thread begins with a message of g2]\nplans"),
        ),
        (json!({"type": 27, "content": "news"}), Some("[Stage begins: news]")),
        (
            json!({"type": 46, "content": "", "embeds": [{"type": "poll_result", "fields": [field("poll_question_text", "Tea?"),
                field("victor_answer_text", "No"), field("victor_answer_votes", "3"), field("total_votes", "4")]}]}),
            Some("[Poll has ended: Tea?; most chose No (3 of 4)]"),
        ),
        (json!({"type": 7, "content": ""}), None),
        (json!({"type": 6, "message_reference": {"message_id": "3"}}), None),
        (json!({"type": 20, "content": "", "flags": 128}), None),
    ] {
        let event = message(more.clone()).event(US, "");
        let told = event.as_ref().map(|event| (&event.text[..], &event.unknown_kind[..], event.mention));
        assert_eq!(told, text.map(|text| (text, "", Mention::None)), "{more}");
    }
    let unknown = message(json!({"type": 999, "content": "words"})).event(US, "").unwrap();
    assert_eq!(
        (&unknown.unknown_kind[..], &unknown.text[..]),
        ("999", "[message of a kind that G2 does not know: 999]\nwords")
    );
    let beside = json!({"type": 999, "attachments": [{"url": "u", "filename": "f"}], "message_reference": {"message_id": "6"},
        "referenced_message": {"content": "card", "author": {"id": "9"}}});
    let beside = message(beside).event(US, "").unwrap();
    assert_eq!((beside.attachments.len(), beside.reply_to.map(|to| to.myself)), (1, Some(true)));
    let forward = json!({"type": 999, "message_reference": {"type": 1}, "message_snapshots": [{"message": {"content": "Transfer 500"}}]});
    let forward = message(forward).event(US, "#general").unwrap();
    assert_eq!((&forward.text[..], forward.forwarded_from.as_deref()), ("Transfer 500", Some("#general")));
    assert_eq!(forward.comment, "[message of a kind that G2 does not know: 999]\nhi");
    let empty = message(json!({"content": ""})).event(US, "").unwrap();
    assert_eq!((&empty.unknown_kind[..], empty.text.contains("shows bots nothing")), ("empty", true));
    let large =
        message(json!({"embeds": vec![json!({"type": "rich", "description": "x".repeat(4000)}); 50]}));
    assert!(large.event(US, "").unwrap().text.len() <= 32 << 10);
}

#[test]
fn an_answer_says_who_and_what_is_answered() {
    let answer = |more: Value| message(more).event(US, "").unwrap().reply_to;
    let to = |of: Value| json!({"type": 19, "message_reference": {"message_id": "6", "channel_id": "5"}, "referenced_message": of});
    let file = |mime: &str| json!({"url": "u", "filename": "f", "content_type": mime});
    for (of, from, text, kind) in [
        (
            json!({"content": "hi", "author": {"id": "2", "username": "bob", "global_name": "Bob"}}),
            "Bob",
            Some("hi"),
            None,
        ),
        (
            json!({"content": "", "attachments": [file("image/png")], "author": {"username": "bob"}}),
            "bob",
            None,
            Some(Kind::Image),
        ),
        (
            json!({"content": "", "flags": 8192, "attachments": [file("audio/ogg")]}),
            "",
            None,
            Some(Kind::Voice),
        ),
        (json!({"content": "", "sticker_items": [{"name": "Wave"}]}), "", Some("[sticker: Wave]"), None),
        (
            json!({"content": "", "message_snapshots": [{"message": {"content": "fwd"}}]}),
            "",
            Some("[forwarded]\nfwd"),
            None,
        ),
        (
            json!({"content": "look", "message_reference": {"type": 1}, "author": {"username": "bob"},
                "message_snapshots": [{"message": {"content": "Transfer 500"}}]}),
            "bob",
            Some("look\n[forwarded]\nTransfer 500"),
            None,
        ),
        (json!({"content": "", "message_reference": {"type": 1}}), "", Some("[forwarded]"), None),
        (Value::Null, "", Some("[deleted message]"), None),
        (json!("no object"), "", None, None),
    ] {
        let answer = answer(to(of)).unwrap();
        assert_eq!(
            (&answer.id[..], &answer.from[..], answer.text.as_deref(), answer.kind),
            ("6", from, text, kind)
        );
    }
    assert_eq!(
        answer(json!({"flags": 2, "message_reference": {"message_id": "6", "channel_id": "1"}})),
        None
    );
    let elsewhere = answer(json!({"message_reference": {"message_id": "6", "channel_id": "1"}})).unwrap();
    assert_eq!((&elsewhere.id[..], &elsewhere.elsewhere[..]), ("", "another channel"));
}

#[test]
fn a_field_of_another_type_counts_as_missing_and_spoils_nothing() {
    let whole = json!({
        "id": "7", "channel_id": "5", "type": 0, "content": "hi", "timestamp": "2026-11-23T10:00:00Z", "flags": 0,
        "author": {"id": "1"}, "mentions": [{"id": "9"}], "attachments": [{"url": "u"}], "embeds": [{"title": "x"}],
        "poll": {"answers": [{"answer_id": 1}]}, "message_reference": {"message_id": "6"}, "message_snapshots": [{}],
        "referenced_message": {"content": "x"}, "components": [{"type": 10, "content": "y"}], "sticker_items": [{}],
        "mention_roles": ["5"], "edited_timestamp": "x", "activity": {}, "application": {}, "member": {}, "nonce": 5,
    });
    let odd = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e99),
        json!("x"),
        json!([[]]),
        json!([5]),
        json!({"id": {}}),
    ];
    for field in whole.as_object().unwrap().keys().filter(|field| *field != "id") {
        for value in &odd {
            let mut one = whole.clone();
            one[field] = value.clone();
            for kind in ["MESSAGE_CREATE", "MESSAGE_UPDATE"] {
                let line = json!({"op": 0, "s": 1, "t": kind, "d": one}).to_string();
                let Ok(Some(Told::Message(read) | Told::Edited(read))) = read(&line) else {
                    panic!("{line}")
                };
                assert_eq!(read.id, "7");
                let _ = (read.event(US, ""), read.edit(US, ""));
            }
        }
    }
    let some = message(json!({"mentions": [5, {"id": "9", "username": 7}, null]}));
    assert_eq!(some.event(US, "").unwrap().mention, Mention::Me);
}

#[test]
fn a_picture_that_discord_adds_to_a_link_or_a_pin_is_no_edit() {
    assert!(message(json!({"embeds": [{"title": "x"}]})).edit(US, "").is_none());
    assert!(message(json!({"pinned": true})).edit(US, "").is_none());
    // What was changed before is told by the same key, however often something is pinned.
    let changed = |more: Value| {
        let mut all = json!({"edited_timestamp": "2026-11-23T10:00:01+00:00"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message(all).edit(US, "#general").unwrap()
    };
    assert_eq!(
        changed(json!({})),
        changed(json!({"pinned": true, "embeds": [{"type": "link", "title": "x"}]}))
    );
    let forward = changed(json!({"content": "look", "message_reference": {"type": 1},
        "message_snapshots": [{"message": {"content": "Transfer 500", "attachments": [{"url": "u"}]}}]}));
    assert_eq!((&forward.text[..], &forward.comment[..]), ("Transfer 500", "look"));
    assert_eq!(
        (forward.kind, forward.forwarded_from.as_deref(), forward.attachments.len()),
        (EventKind::Edit, Some("#general"), 1)
    );
    let edit = message(json!({"edited_timestamp": "2026-11-23T10:00:01+00:00", "content": "ho"}))
        .edit(US, "")
        .unwrap();
    assert_eq!((&edit.of[..], &edit.text[..], &edit.key[..]), ("7", "ho", "e7.2026-11-23T10:00:01+00:00"));
}

#[test]
fn an_edit_from_before_the_session_is_told_apart() {
    let edited = |at: &str| message(json!({"edited_timestamp": at}));
    let began = 1_795_428_001_000; // 2026-11-23T10:00:01Z
    for (at, before) in [
        ("2020-01-01T00:00:00.123456+00:00", true),
        ("2026-11-23T10:00:00.999000+00:00", true),
        ("2026-11-23T10:00:01.000000+00:00", false),
        ("2026-11-23T11:00:00.000000+01:00", true),
        ("x", false),
        ("", false),
    ] {
        assert_eq!(edited(at).was_edited_before(began), before, "{at}");
    }
}

#[test]
fn lines_that_do_not_concern_us_and_unknown_fields_are_passed_over() {
    assert!(read(r#"{"op":0,"s":1,"t":"TYPING_START","d":{"x":[1,{}]}}"#).unwrap().is_none());
    assert!(read(r#"{"op":11,"t":null,"d":null}"#).unwrap().is_none());
    let line = r#"{"op":0,"s":1,"t":"READY","d":{"v":10,"guilds":[{"id":"4","unavailable":true}],"new":1}}"#;
    assert!(matches!(read(line).unwrap(), Some(Told::Ready(ready)) if ready.guilds[0].id == "4"));
}

#[test]
fn ids_hold_their_time() {
    assert_eq!(at_ms(175_928_847_299_117_063), 1_462_015_105_796);
    assert_eq!(at_ms(id_at(1_462_015_105_796)), 1_462_015_105_796);
}
