//! Events of each kind, as homeservers tell them.

use serde_json::json;

use super::*;

fn reader() -> Reader {
    Reader::new("@g2:example.org".into(), "The Helper", "mx".into(), 1000)
}

fn event(kind: &str, content: Value) -> Value {
    json!({"type": kind, "event_id": "$1", "sender": "@ada:example.org", "origin_server_ts": 2000, "content": content})
}

fn read(kind: &str, content: Value) -> Event {
    match reader().read("!r:example.org", &event(kind, content)) {
        Read::Event(event) => *event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_has_its_chat_its_sender_and_its_time() {
    let found = read("m.room.message", json!({"msgtype": "m.text", "body": "hello"}));
    assert_eq!((&found.key[..], &found.chat[..], &found.text[..]), ("$1", "mx:!r:example.org", "hello"));
    assert_eq!((&found.from.id[..], &found.from.name[..]), ("@ada:example.org", "ada"));
    assert_eq!((found.at.as_deref(), found.late), (Some("1970-01-01T00:00:02.000Z"), false));
    let emote = read("m.room.message", json!({"msgtype": "m.emote", "body": "waves"}));
    assert_eq!(emote.text, "* ada waves");
    assert!(read("m.room.message", json!({"msgtype": "m.notice", "body": "x"})).from.bot);
    let of_g2 = json!({"msgtype": "m.text", "body": "x", "dev.g2.key": "other.1"});
    assert!(read("m.room.message", of_g2).from.bot);
}

#[test]
fn a_mention_is_meant_and_not_found_in_other_words() {
    for (content, mention) in [
        (json!({"body": "x", "m.mentions": {"user_ids": ["@g2:example.org"]}}), Mention::Me),
        (json!({"body": "@g2:example.org", "m.mentions": {}}), Mention::None),
        (json!({"body": "@room", "m.mentions": {"room": true}}), Mention::All),
        (json!({"body": "G2: look"}), Mention::Me),
        (json!({"body": "ask the helper."}), Mention::Me),
        (json!({"body": "g2x and ag2"}), Mention::None),
        (
            json!({"body": "hi", "formatted_body": "<a href=\"https://matrix.to/#/@g2:example.org\">G2</a>"}),
            Mention::Me,
        ),
    ] {
        let mut content = content;
        content["msgtype"] = "m.text".into();
        assert_eq!(read("m.room.message", content.clone()).mention, mention, "{content}");
    }
}

#[test]
fn threads_answers_and_edits_are_told_apart() {
    let relates = |relation: Value| json!({"msgtype": "m.text", "body": "> <@g2:example.org> old\n> more\n\nnew", "m.relates_to": relation});
    let answer = read("m.room.message", relates(json!({"m.in_reply_to": {"event_id": "$0"}})));
    assert_eq!((answer.text.as_str(), answer.reply_to.unwrap().id), ("new", "$0".into()));
    let thread = json!({"rel_type": "m.thread", "event_id": "$t", "is_falling_back": true, "m.in_reply_to": {"event_id": "$0"}});
    let thread = read("m.room.message", relates(thread));
    assert_eq!((thread.thread.as_str(), thread.reply_to), ("$t", None));
    let edit = json!({
        "msgtype": "m.text", "body": "* now", "m.new_content": {"msgtype": "m.text", "body": "now"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$1"},
    });
    let mut reader = reader();
    reader.read("!r", &event("m.room.message", json!({"msgtype": "m.text", "body": "then"})));
    let mut edit = event("m.room.message", edit);
    edit["event_id"] = "$2".into();
    let Read::Event(edit) = reader.read("!r", &edit) else { panic!() };
    assert_eq!((edit.kind, &edit.of[..], &edit.text[..]), (EventKind::Edit, "$1", "now"));
}

#[test]
fn an_answer_keeps_a_quote_of_its_own() {
    let marked = "<mx-reply><blockquote>old</blockquote></mx-reply>new";
    for (body, html, text) in [
        ("> <@bob:example.org> old\n> more\n\nnew", "", "new"),
        ("> * <@bob:example.org> waves\n\nnew", "", "new"),
        ("> old\n\nnew", marked, "new"),
        ("> 5 apples are too many", "", "> 5 apples are too many"),
        ("> old\n\nnew", "<blockquote>old</blockquote>new <mx-reply>", "> old\n\nnew"),
        (">_<", "", ">_<"),
    ] {
        let content = json!({"msgtype": "m.text", "body": body, "format": "org.matrix.custom.html",
            "formatted_body": html, "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}});
        assert_eq!(read("m.room.message", content).text, text, "{body}");
    }
}

#[test]
fn a_removed_reaction_was_taken_back_and_a_removed_message_deleted() {
    let mut reader = reader();
    let sign = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}});
    let Read::Event(on) = reader.read("!r", &event("m.reaction", sign)) else { panic!() };
    assert_eq!((on.kind, &on.of[..], &on.emoji[..], on.on), (EventKind::Reaction, "$0", "👍", true));
    let mut off = |of: &str| {
        let event = json!({"type": "m.room.redaction", "event_id": "$2", "sender": "@ada:example.org", "redacts": of, "content": {}});
        let Read::Event(off) = reader.read("!r", &event) else { panic!() };
        off
    };
    let off_sign = off("$1");
    assert_eq!((off_sign.kind, &off_sign.of[..], off_sign.on), (EventKind::Reaction, "$0", false));
    let gone = off("$0");
    assert_eq!((gone.kind, &gone.of[..]), (EventKind::Delete, "$0"));
}

#[test]
fn a_file_is_named_with_its_text_and_one_that_is_encrypted_has_its_problem() {
    let content = json!({"msgtype": "m.image", "body": "look!", "filename": "a.png", "url": "mxc://e/1",
        "info": {"mimetype": "image/png", "size": 7}});
    let found = read("m.room.message", content);
    let file = &found.attachments[0];
    assert_eq!((&found.text[..], file.name.as_deref(), file.bytes), ("look!", Some("a.png"), Some(7)));
    assert_eq!((file.kind, file.fetch.as_deref()), (Kind::Image, Some("mxc://e/1")));
    let found = read("m.room.message", json!({"msgtype": "m.file", "body": "b.pdf", "file": {}}));
    assert!(found.text.is_empty() && found.attachments[0].problem.is_some());
}

#[test]
fn words_have_the_address_behind_them_and_a_pill_is_a_mention() {
    let said = |body: &str, html: &str| {
        let content = json!({"msgtype": "m.text", "body": body, "format": "org.matrix.custom.html", "formatted_body": html});
        read("m.room.message", content)
    };
    let event = said("read this article", "read <a href=\"https://a.example/b\">this article</a>");
    assert_eq!(event.text, "read this article (https://a.example/b)");
    let event = said("Hey, look", "<a href=\"https://matrix.to/#/%40g2%3Aexample.org\">Hey</a>, look");
    assert_eq!((event.mention, &event.text[..]), (Mention::Me, "Hey, look"));
    let other = said("x, look", "<a href=\"https://matrix.to/#/@g2:example.org.evil\">x</a>, look");
    assert_eq!(other.mention, Mention::None);
    // Who is quoted is not named by that.
    let quoted = json!({"msgtype": "m.text", "body": "> <@g2:example.org> old\n\nnew", "format": "org.matrix.custom.html",
        "formatted_body": "<mx-reply><a href=\"https://matrix.to/#/@g2:example.org\">G2</a> old</mx-reply>new",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}});
    let event = read("m.room.message", quoted);
    assert_eq!((event.mention, &event.text[..]), (Mention::None, "new"));
}

#[test]
fn a_command_behind_our_name_is_one() {
    for (body, text) in [
        ("G2: /stop", "/stop"),
        ("@g2:example.org /stop", "/stop"),
        ("The Helper: /Retry", "/Retry"),
        ("@G2 /stop", "/stop"),
        ("g2, /stop", "/stop"),
        ("G2: /stop it", "G2: /stop it"),
        ("G23 /stop", "G23 /stop"),
        ("other: /stop", "other: /stop"),
        ("/stop", "/stop"),
        ("İ2: /stop", "İ2: /stop"),
    ] {
        assert_eq!(read("m.room.message", json!({"msgtype": "m.text", "body": body})).text, text);
    }
}

#[test]
fn each_kind_says_what_people_see_and_an_unknown_one_its_name() {
    let answers = json!([{"m.id": "a", "m.text": [{"body": "Yes"}]}, {"m.id": "b", "m.text": [{"mimetype": "text/html", "body": "<b>No</b>"}, {"body": "No"}]}]);
    let unstable =
        json!([{"id": "a", "org.matrix.msc1767.text": "Yes"}, {"id": "b", "org.matrix.msc1767.text": "No"}]);
    for (kind, content, text, unknown) in [
        (
            "m.poll.start",
            json!({"m.poll": {"question": {"m.text": [{"body": "Tea?"}]}, "max_selections": 2, "answers": answers}, "m.text": [{"body": "x"}]}),
            "[Poll, several answers: Tea?]\n- Yes\n- No",
            "",
        ),
        (
            "org.matrix.msc3381.poll.start",
            json!({"org.matrix.msc3381.poll.start": {"question": {"org.matrix.msc1767.text": "Tea?", "body": "Tea?"}, "answers": unstable}}),
            "[Poll: Tea?]\n- Yes\n- No",
            "",
        ),
        (
            "m.poll.start",
            json!({"m.poll": 7, "m.text": [{"body": "Tea? 1. Yes"}]}),
            "[Poll]\nTea? 1. Yes",
            "",
        ),
        (
            "org.matrix.msc3381.poll.end",
            json!({"org.matrix.msc1767.text": "Top answer: No", "m.relates_to": {"rel_type": "m.reference", "event_id": "$p"}}),
            "[Poll has ended]\nTop answer: No",
            "",
        ),
        (
            "m.room.message",
            json!({"msgtype": "m.location", "body": "x", "geo_uri": "geo:52.5,13.4;u=35"}),
            "[Location: 52.5, 13.4]",
            "",
        ),
        (
            "m.room.message",
            json!({"msgtype": "m.location", "body": "x", "m.location": {"uri": "geo:1,2,3", "description": "Café"}}),
            "[Location: 1, 2]\nCafé",
            "",
        ),
        ("m.sticker", json!({"body": "Wave", "url": "mxc://e/1", "info": {}}), "[sticker: Wave]", ""),
        ("m.beacon_info", json!({"live": true, "description": "my way"}), "[Live location]\nmy way", ""),
        ("m.call.invite", json!({"call_id": "1"}), "[Call begins]", ""),
        (
            "m.room.message",
            json!({"msgtype": "org.example.hologram", "body": "a ship"}),
            "[message of a kind that G2 does not know: org.example.hologram]\na ship",
            "org.example.hologram",
        ),
        (
            "m.room.message",
            json!({"msgtype": 7, "body": {}}),
            "[message of a kind that G2 does not know: m.room.message]",
            "m.room.message",
        ),
        (
            "m.room.message",
            json!({"msgtype": "m.text"}),
            "[message of a kind that G2 does not know: m.text]",
            "m.text",
        ),
        (
            "org.example.dance",
            json!({"body": "a step"}),
            "[message of a kind that G2 does not know: org.example.dance]\na step",
            "org.example.dance",
        ),
    ] {
        let mut event = event(kind, content.clone());
        if kind == "m.beacon_info" {
            event["state_key"] = event["sender"].clone();
        }
        let Read::Event(event) = reader().read("!r", &event) else { panic!("{content}") };
        assert_eq!((&event.text[..], &event.unknown_kind[..]), (text, unknown), "{content}");
    }
    assert_eq!(
        read("m.sticker", json!({"body": "Wave", "url": "mxc://e/1"})).attachments[0].kind,
        Kind::Image
    );
    for (kind, content) in [
        ("m.poll.response", json!({"m.selections": ["a"]})),
        ("m.call.candidates", json!({"call_id": "1"})),
        ("org.example.dance", json!({"steps": 3})),
    ] {
        assert_eq!(reader().read("!r", &event(kind, content)), Read::Nothing, "{kind}");
    }
    let mut state = event("org.example.state", json!({"body": "of the room"}));
    state["state_key"] = "".into();
    assert_eq!(reader().read("!r", &state), Read::Nothing);
}

#[test]
fn a_location_that_moves_changes_one_message_and_only_its_own() {
    let mut reader = reader();
    let mut info = event("m.beacon_info", json!({"live": true}));
    info["state_key"] = "@ada:example.org".into();
    assert!(matches!(reader.read("!r", &info), Read::Event(began) if began.kind == EventKind::Message));
    let moved = |sender: &str| {
        let mut moved = event(
            "m.beacon",
            json!({"m.location": {"uri": "geo:52.5,13.4"}, "m.relates_to": {"rel_type": "m.reference", "event_id": "$1"}}),
        );
        (moved["event_id"], moved["sender"]) = ("$2".into(), sender.into());
        moved
    };
    let Read::Event(edit) = reader.read("!r", &moved("@ada:example.org")) else { panic!() };
    assert_eq!((edit.kind, edit.quiet, &edit.of[..]), (EventKind::Edit, true, "$1"));
    assert_eq!(edit.text, "[Live location: 52.5, 13.4]");
    assert_eq!(reader.read("!r", &moved("@eve:example.org")), Read::Nothing);
    let mut end = event("m.beacon_info", json!({"live": false}));
    (end["event_id"], end["state_key"]) = ("$3".into(), "@ada:example.org".into());
    assert_eq!(reader.read("!r", &end), Read::Nothing);
    end["unsigned"] = json!({"replaces_state": "$1"});
    let Read::Event(ended) = reader.read("!r", &end) else { panic!() };
    assert_eq!((ended.quiet, &ended.of[..], &ended.text[..]), (true, "$1", "[Live location, ended]"));
}

#[test]
fn an_answer_says_who_and_what_is_answered_as_far_as_it_is_known() {
    let mut reader = reader();
    let said = |id: &str, sender: &str, content: Value| {
        let mut said = event("m.room.message", content);
        (said["event_id"], said["sender"]) = (id.into(), sender.into());
        said
    };
    let text = |body: &str| json!({"msgtype": "m.text", "body": body});
    let change = |of: &str, body: &str| {
        json!({"msgtype": "m.text", "body": "*", "m.new_content": {"msgtype": "m.text", "body": body},
            "m.relates_to": {"rel_type": "m.replace", "event_id": of}})
    };
    assert_eq!(reader.read("!r", &said("$ours", "@g2:example.org", text("which one?"))), Read::Nothing);
    reader.read("!r", &said("$b", "@bob:example.org", text("at nine")));
    reader.read("!r", &said("$c", "@bob:example.org", change("$b", "at ten")));
    assert_eq!(reader.read("!r", &said("$d", "@eve:example.org", change("$b", "never"))), Read::Nothing);
    let photo = json!({"msgtype": "m.image", "body": "a.png", "url": "mxc://e/1"});
    reader.read("!r", &said("$photo", "@bob:example.org", photo));
    let mut answer = |to: &str| {
        let mut content = text("why?");
        content["m.relates_to"] = json!({"m.in_reply_to": {"event_id": to}});
        let Read::Event(event) = reader.read("!r", &said("$9", "@ada:example.org", content)) else {
            panic!()
        };
        event.reply_to.unwrap()
    };
    let ours = answer("$ours");
    assert_eq!(
        (&ours.from[..], ours.myself, ours.text.as_deref()),
        ("@g2:example.org", true, Some("which one?"))
    );
    let changed = answer("$b");
    assert_eq!(
        (&changed.from[..], changed.myself, changed.text.as_deref()),
        ("@bob:example.org", false, Some("at ten"))
    );
    let shown = answer("$photo");
    assert_eq!((shown.text, shown.kind), (None, Some(Kind::Image)));
    assert_eq!(answer("$other"), ReplyTo { id: "$other".into(), ..ReplyTo::default() });
    // What was removed says so; what was asked for is known, with its newest change.
    let removed = json!({"type": "m.room.redaction", "event_id": "$x", "sender": "@bob:example.org", "redacts": "$b", "content": {}});
    reader.read("!r", &removed);
    let of = |id: &str| {
        let mut to = ReplyTo { id: id.into(), ..ReplyTo::default() };
        reader.answered("!r", &mut to);
        to.text
    };
    assert_eq!(of("$b").as_deref(), Some("[deleted message]"));
    let mut old = said("$old", "@bob:example.org", text("old"));
    old["unsigned"] =
        json!({"m.relations": {"m.replace": said("$new", "@bob:example.org", change("$old", "new"))}});
    reader.learn("!r", &old);
    let mut gone = said("$gone", "@bob:example.org", json!({}));
    gone["unsigned"] = json!({"redacted_because": {}});
    reader.learn("!r", &gone);
    let of = |id: &str| {
        let mut to = ReplyTo { id: id.into(), ..ReplyTo::default() };
        reader.answered("!r", &mut to);
        to.text
    };
    assert_eq!((of("$old").as_deref(), of("$gone").as_deref()), (Some("new"), Some("[deleted message]")));
}

#[test]
fn a_change_of_a_message_that_is_not_known_waits_for_it_and_only_its_sender_changes_it() {
    let mut reader = reader();
    let said = |id: &str, sender: &str, kind: &str, content: Value| {
        let mut said = event(kind, content);
        (said["event_id"], said["sender"]) = (id.into(), sender.into());
        said
    };
    let change = |id: &str, sender: &str, of: Value, body: &str| {
        said(
            id,
            sender,
            "m.room.message",
            json!({"msgtype": "m.text", "body": "*",
            "m.new_content": {"msgtype": "m.text", "body": body},
            "m.relates_to": {"rel_type": "m.replace", "event_id": of}}),
        )
    };
    let moved = |id: &str, sender: &str, of: &str| {
        said(
            id,
            sender,
            "m.beacon",
            json!({"m.location": {"uri": "geo:1,2"},
            "m.relates_to": {"rel_type": "m.reference", "event_id": of}}),
        )
    };
    let unknown = |of: &str| Read::Unknown(of.into());
    let (ada, eve) = ("@ada:example.org", "@eve:example.org");
    let forged = change("$f", eve, "$old".into(), "pay Eve");
    assert_eq!(reader.read("!r", &forged), unknown("$old"));
    assert_eq!(reader.read("!r", &moved("$g", eve, "$way")), unknown("$way"));
    // It left no trace: the writer's own change is told, and answers quote the writer.
    let text = json!({"msgtype": "m.text", "body": "pay Bob"});
    reader.learn("!r", &said("$old", ada, "m.room.message", text));
    assert_eq!(reader.read("!r", &forged), Read::Nothing);
    let own = reader.read("!r", &change("$h", ada, "$old".into(), "pay nobody"));
    assert!(matches!(own, Read::Event(own) if own.of == "$old" && own.text == "pay nobody"));
    assert_eq!(reader.read("!r", &change("$i", eve, "$old".into(), "pay Eve")), Read::Nothing);
    let mut to = ReplyTo { id: "$old".into(), ..ReplyTo::default() };
    reader.answered("!r", &mut to);
    assert_eq!((&to.from[..], to.text.as_deref()), (ada, Some("pay nobody")));
    // A live location too, and only a person's own one begins or ends.
    let mut began = said("$way", ada, "m.beacon_info", json!({"live": true}));
    began["state_key"] = eve.into();
    assert_eq!(reader.read("!r", &began), Read::Nothing);
    began["state_key"] = ada.into();
    reader.learn("!r", &began);
    assert_eq!(reader.read("!r", &moved("$j", eve, "$way")), Read::Nothing);
    assert!(matches!(reader.read("!r", &moved("$k", ada, "$way")), Read::Event(own) if own.quiet));
    let mut ended = said("$l", eve, "m.beacon_info", json!({"live": false}));
    (ended["state_key"], ended["unsigned"]) = (ada.into(), json!({"replaces_state": "$way"}));
    assert_eq!(reader.read("!r", &ended), Read::Nothing);
    // A change that names nothing, one of the room's state, and an encrypted one ask for nothing.
    assert_eq!(reader.read("!r", &change("$m", eve, 7.into(), "x")), Read::Nothing);
    let mut state = change("$n", eve, "$other".into(), "x");
    state["state_key"] = "".into();
    assert!(!matches!(reader.read("!r", &state), Read::Unknown(_)));
    let mut hidden = change("$o", eve, "$other".into(), "x");
    hidden["type"] = "m.room.encrypted".into();
    assert_eq!(reader.read("!r", &hidden), Read::Encrypted);
}

#[test]
fn a_message_of_another_room_is_another_one_though_it_has_the_same_id() {
    let mut reader = reader();
    let mut said = event("m.room.message", json!({"msgtype": "m.text", "body": "the code is 7"}));
    said["event_id"] = "$secret".into();
    reader.read("!private", &said);
    let mut asks = event("m.room.message", json!({"msgtype": "m.text", "body": "what?"}));
    asks["content"]["m.relates_to"] = json!({"m.in_reply_to": {"event_id": "$secret"}});
    let Read::Event(asked) = reader.read("!public", &asks) else { panic!() };
    assert_eq!(asked.reply_to, Some(ReplyTo { id: "$secret".into(), ..ReplyTo::default() }));
    let removal = json!({"type": "m.room.redaction", "event_id": "$x", "sender": "@eve:example.org", "redacts": "$secret", "content": {}});
    reader.read("!public", &removal);
    let mut to = ReplyTo { id: "$secret".into(), ..ReplyTo::default() };
    reader.answered("!private", &mut to);
    assert_eq!(to.text.as_deref(), Some("the code is 7"));
    said["sender"] = "@bob:example.org".into();
    reader.read("!public", &said);
    let mut to = ReplyTo { id: "$secret".into(), ..ReplyTo::default() };
    reader.answered("!private", &mut to);
    assert_eq!(to.from, "@ada:example.org");
}

#[test]
fn what_is_remembered_has_bounds() {
    let mut reader = reader();
    for n in 0..3000 {
        let mut said = event("m.room.message", json!({"msgtype": "m.text", "body": "x".repeat(5000)}));
        said["event_id"] = format!("${n}").into();
        reader.read("!r", &said);
    }
    let mut long = event("m.room.message", json!({"msgtype": "m.text", "body": "x"}));
    long["event_id"] = "$".repeat(5000).into();
    reader.read("!r", &long);
    let bytes: usize = reader
        .remembered
        .iter()
        .map(|(room, id, known)| room.len() + id.len() + known.text.len() + known.sender.len())
        .sum();
    assert!(reader.remembered.len() == REMEMBERED && bytes < REMEMBERED * (REMEMBERED_TEXT + 100), "{bytes}");
}

#[test]
fn whatever_stands_in_place_of_whatever_is_read() {
    let whole = json!({"msgtype": "m.text", "body": "x", "format": "org.matrix.custom.html", "formatted_body": "<a href=\"https://a.example\">x</a>",
        "m.mentions": {"user_ids": []}, "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}, "info": {"size": 1}, "url": "mxc://e/1",
        "m.new_content": {"body": "y"}, "filename": "z", "geo_uri": "geo:1,2", "m.poll": {"answers": []}, "m.location": {}});
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!("x"),
        json!("geo:"),
        json!([[]]),
        json!({"event_id": 7, "rel_type": "m.replace"}),
    ];
    for kind in [
        "m.room.message",
        "m.sticker",
        "m.poll.start",
        "m.poll.end",
        "m.beacon",
        "m.beacon_info",
        "m.reaction",
        "m.room.redaction",
    ] {
        for field in whole.as_object().unwrap().keys() {
            for value in &odd {
                let mut content = whole.clone();
                content[field] = value.clone();
                let _ = reader().read("!r", &event(kind, content));
            }
        }
    }
}

#[test]
fn what_is_ours_odd_or_of_no_use_is_passed_over() {
    let mut reader = reader();
    let mut own = event("m.room.message", json!({"msgtype": "m.text", "body": "x"}));
    own["sender"] = "@g2:example.org".into();
    for event in [
        own,
        event("m.room.message", json!({})),
        event("m.room.message", json!("x")),
        event("m.reaction", json!({"m.relates_to": 7})),
        event("m.room.topic", json!({"topic": "x"})),
        json!(null),
        json!([1]),
    ] {
        assert_eq!(reader.read("!r", &event), Read::Nothing, "{event}");
    }
    assert_eq!(reader.read("!r", &event("m.room.encrypted", json!({}))), Read::Encrypted);
    let moved = event("m.room.tombstone", json!({"replacement_room": "!new"}));
    assert_eq!(reader.read("!r", &moved), Read::Moved("!new".into()));
}
