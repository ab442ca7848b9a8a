//! What messages mean, as signal-cli writes them down.

use serde_json::json;

use super::*;

const ADA: &str = "a0000000-0000-4000-8000-000000000100";
const EVE: &str = "e0000000-0000-4000-8000-000000000101";
const US: &str = "90000000-0000-4000-8000-000000000900";
const GROUP: &str = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";
const GROUP_CHAT: &str = "signal:group.-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s";

fn reader() -> Reader {
    let mut people = People::new("signal".into(), Who::read("+4930").unwrap());
    let who = |uuid: &str, number: &str| Who::of(&json!(uuid), &json!(number), &json!(null)).unwrap();
    people.learn_listed(&who(US, "+4930"), "G2", None);
    people.learn_listed(&who(ADA, "+49301"), "Ada", Some("ada.01"));
    people.learn_listed(&who(EVE, ""), "Evie", None);
    Reader::new(people, &Start::default(), 1000)
}

fn envelope(uuid: &str, more: Value) -> Value {
    let mut envelope = json!({"source": uuid, "sourceNumber": null, "sourceUuid": uuid, "sourceName": "", "sourceDevice": 1,
        "timestamp": 2000, "serverReceivedTimestamp": 2001, "serverDeliveredTimestamp": 2002});
    envelope.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"account": "+4930", "envelope": envelope})
}

fn data(mut message: Value) -> Value {
    message["timestamp"] = 2000.into();
    envelope(ADA, json!({"dataMessage": message}))
}

fn event(told: &Value) -> Event {
    match reader().read(7, told) {
        Read::Event(event) => *event,
        other => panic!("{told}: {other:?}"),
    }
}

#[test]
fn a_message_has_its_author_s_ids_and_time_and_goes_on_behind_its_entry() {
    let event = event(&data(json!({"message": "hi ü", "expiresInSeconds": 0, "viewOnce": false})));
    assert_eq!(
        (&event.chat[..], &event.key[..], &event.id),
        (&format!("signal:{ADA}")[..], &format!("2000.{ADA}")[..], &event.key)
    );
    assert_eq!((&event.from.id[..], &event.from.name[..], &event.text[..]), (ADA, "Ada", "hi ü"));
    assert_eq!(event.from.also, ["+49301", "ada.01"]);
    assert_eq!(event.cursor, BTreeMap::from([("told".to_owned(), "7".to_owned())]));
    assert_eq!((event.late, event.at.as_deref()), (false, Some("1970-01-01T00:00:02.001Z")));
    assert_eq!(event.about.unwrap().kind, ChatKind::Direct);
}

#[test]
fn a_group_is_found_under_both_of_its_names() {
    for group in [
        json!({"groupInfo": {"groupId": GROUP, "groupName": "Plans", "revision": 1, "type": "DELIVER"}}),
        json!({"groupV2": {"id": GROUP, "name": "Plans"}}),
        json!({"groupInfo": {"id": GROUP, "name": "Plans"}}),
    ] {
        let mut message = json!({"message": "x"});
        message.as_object_mut().unwrap().extend(group.as_object().unwrap().clone());
        let event = event(&data(message));
        let about = event.about.unwrap();
        assert_eq!(
            (&event.chat[..], about.kind, &about.name[..]),
            (GROUP_CHAT, ChatKind::Group, "Plans"),
            "{group}"
        );
    }
    let update = data(
        json!({"message": null, "groupInfo": {"groupId": GROUP, "groupName": "Plan B", "type": "UPDATE"}}),
    );
    let Read::Group(chat) = reader().read(1, &update) else { panic!() };
    assert_eq!((&chat.chat[..], &chat.name[..]), (GROUP_CHAT, "Plan B"));
    assert_eq!(
        reader().read(1, &data(json!({"message": "x", "groupInfo": {"groupId": "no group!"}}))),
        Read::Nothing
    );
}

#[test]
fn names_stand_where_somebody_is_mentioned_and_a_command_behind_ours_is_one() {
    let mention = |uuid: &str, start: usize| json!({"name": "+1", "number": null, "uuid": uuid, "start": start, "length": 1});
    let ours = json!({"name": "+4930", "number": "+4930", "uuid": null, "start": 0, "length": 1});
    for (text, mentions, reads, of) in [
        (
            "🎈\u{fffc} and \u{fffc}!",
            json!([mention(US, 8), mention(EVE, 2)]),
            "🎈@Evie and @G2!",
            Mention::Me,
        ),
        ("\u{fffc} hello", json!([ours]), "@G2 hello", Mention::Me),
        ("\u{fffc}: /stop", json!([mention(US, 0)]), "/stop", Mention::Me),
        ("\u{fffc} /stop it", json!([mention(US, 0)]), "@G2 /stop it", Mention::Me),
        ("a \u{fffc} /stop", json!([mention(US, 2)]), "a @G2 /stop", Mention::Me),
        ("\u{fffc} /stop", json!([mention(EVE, 0)]), "@Evie /stop", Mention::None),
        ("x", json!([mention(US, 99), {"start": -1, "uuid": US}, 7]), "x", Mention::None),
        ("\u{fffc}", json!([mention(EVE, 0), mention(US, 0)]), "@Evie", Mention::None),
        ("@G2 hello", json!(null), "@G2 hello", Mention::None),
    ] {
        let event = event(&data(json!({"message": text, "mentions": mentions})));
        assert_eq!((&event.text[..], event.mention), (reads, of), "{text}");
    }
    // A mention may cover nothing, or more than there is.
    for length in [0, 5, u64::MAX] {
        let mentions = json!([{"uuid": EVE, "start": 1, "length": length}]);
        event(&data(json!({"message": "a🎈b", "mentions": mentions})));
    }
}

#[test]
fn an_answer_names_what_it_answers_also_by_an_earlier_text_of_it() {
    let quote = |at: u64, uuid: &str| {
        json!({"message": "yes", "quote": {"id": at, "author": uuid, "authorNumber": null, "authorUuid": uuid, "text": "\u{fffc} which?",
            "mentions": [{"uuid": EVE, "start": 0, "length": 1}], "attachments": [{"contentType": "image/png", "filename": null}]}})
    };
    let reply = event(&data(quote(1500, US))).reply_to.unwrap();
    assert_eq!(
        (&reply.id[..], reply.myself, reply.quote.as_deref(), reply.text),
        ("1500.self", true, Some("@Evie which?"), None)
    );
    assert_eq!((reply.kind, &reply.from[..]), (Some(Kind::Image), "G2"));
    let mut reader = reader();
    reader.changed("1600.self".into(), "1500.self".into());
    let Read::Event(event) = reader.read(8, &data(quote(1600, US))) else { panic!() };
    assert_eq!(event.reply_to.unwrap().id, "1500.self");
    assert_eq!(event.cursor["edit.0"], "0 1600.self 1500.self");
}

#[test]
fn edits_deletions_and_reactions_are_about_the_first_text() {
    let edit = |to: u64, at: u64, text: &str| {
        let message = json!({"timestamp": at, "message": text});
        envelope(
            ADA,
            json!({"timestamp": at, "editMessage": {"targetSentTimestamp": to, "dataMessage": message}}),
        )
    };
    let mut reader = reader();
    let mut read = |told: &Value| match reader.read(9, told) {
        Read::Event(event) => *event,
        other => panic!("{told}: {other:?}"),
    };
    let first = format!("1500.{ADA}");
    let one = read(&edit(1500, 2000, "two"));
    assert_eq!((one.kind, &one.of, &one.text[..]), (EventKind::Edit, &first, "two"));
    assert_eq!(one.key, format!("edit.2000.{ADA}"));
    assert_eq!(read(&edit(2000, 3000, "three")).of, first);
    let reaction = |on: bool| {
        data(
            json!({"message": null, "reaction": {"emoji": "👀", "targetAuthor": ADA, "targetAuthorNumber": null, "targetAuthorUuid": ADA,
            "targetSentTimestamp": 3000, "isRemove": !on}}),
        )
    };
    for on in [true, false] {
        let event = read(&reaction(on));
        assert_eq!(
            (event.kind, &event.of, &event.emoji[..], event.on),
            (EventKind::Reaction, &first, "👀", on)
        );
    }
    let gone = read(&data(json!({"remoteDelete": {"timestamp": 2000}})));
    assert_eq!((gone.kind, &gone.of), (EventKind::Delete, &first));
    let by_admin = json!({"adminDelete": {"targetAuthorUuid": US, "targetSentTimestamp": 77}});
    assert_eq!(read(&data(by_admin)).of, "77.self");
    // What was changed is known in the next life.
    let cursor = BTreeMap::from([
        ("edit.255".to_owned(), format!("255 2000.{ADA} {first}")),
        ("told".to_owned(), "9".to_owned()),
    ]);
    let start = Start { cursor, ..Start::default() };
    let people = People::new("signal".into(), Who::read("+4930").unwrap());
    let mut again = Reader::new(people, &start, 0);
    let Read::Event(event) = again.read(10, &edit(2000, 3000, "x")) else { panic!() };
    assert_eq!((stored(&start), &event.of), (9, &first));
    assert!(event.cursor.contains_key("edit.0"), "{:?}", event.cursor);
}

#[test]
fn what_is_no_text_is_told_in_words_and_what_says_nothing_is_not_told() {
    for (message, text) in [
        (json!({"sticker": {"packId": "00", "stickerId": 1}}), "[sticker]"),
        (
            json!({"contacts": [{"name": {"given": "Eve", "family": "Doe"}, "phone": [{"value": "+49302", "type": "HOME"}], "organization": null}]}),
            "[contact: Eve Doe, +49302]",
        ),
        (json!({"payment": {"note": "pizza", "receipt": "AA=="}}), "[payment: pizza]"),
        (
            json!({"pollCreate": {"question": "Tea?", "allowMultiple": true, "options": ["Yes", "No"]}}),
            "[Poll, several answers: Tea?]\n- Yes\n- No",
        ),
        (
            json!({"message": "nice", "storyContext": {"authorUuid": US, "sentTimestamp": 1}}),
            "[answers a story]\nnice",
        ),
        (
            json!({"viewOnce": true, "attachments": [{"contentType": "image/png", "id": "a"}]}),
            "[a file that can be seen once; G2 does not have it]",
        ),
        (json!({"previews": [{"url": "https://a.example", "title": "A"}]}), "https://a.example"),
    ] {
        let event = event(&data(message.clone()));
        assert_eq!(
            (&event.text[..], event.attachments.len(), &event.unknown_kind[..]),
            (text, 0, ""),
            "{message}"
        );
    }
    let hologram = event(&data(json!({"message": null, "hologram": {"id": 1}})));
    assert_eq!(
        (&hologram.text[..], &hologram.unknown_kind[..]),
        ("[message of a kind that G2 does not know: hologram]", "hologram")
    );
    let call = envelope(
        ADA,
        json!({"callMessage": {"offerMessage": {"id": 1, "type": "AUDIO_CALL", "opaque": ""}}}),
    );
    assert!(matters(&call));
    assert_eq!(event(&call).text, "[call]");
    for message in [
        json!({"message": null}),
        json!({"message": null, "isExpirationUpdate": true, "expiresInSeconds": 3600}),
        json!({"pollVote": {"authorUuid": US, "targetSentTimestamp": 1, "optionIndexes": [0]}}),
        json!({"pinMessage": {"targetAuthorUuid": US}}),
        json!({"reaction": {"emoji": "x"}}),
    ] {
        assert_eq!(reader().read(1, &data(message.clone())), Read::Nothing, "{message}");
    }
    for quiet in [
        json!({"typingMessage": {"action": "STARTED"}}),
        json!({"receiptMessage": {"isRead": true}}),
        json!({"storyMessage": {"allowsReplies": true}}),
        json!({"syncMessage": {"readMessages": []}}),
        json!({"callMessage": {"iceUpdateMessages": [{}]}}),
    ] {
        assert!(!matters(&envelope(ADA, quiet.clone())), "{quiet}");
    }
}

#[test]
fn files_are_told_with_what_fetches_them_or_why_nothing_does() {
    let file = |id: Value, size: u64, kind: &str, name: Value| json!({"contentType": kind, "filename": name, "id": id, "size": size});
    let files = json!([
        file(json!("abc-1.png"), 10, "image/png", json!("a.png")),
        file(json!("x.aac"), 10, "audio/aac", json!(null)),
        file(json!("m.mp3"), 10, "audio/mpeg", json!("song.mp3")),
        file(json!("../../etc/passwd"), 10, "text/plain", json!("x")),
        file(json!(null), 10, "video/mp4", json!(null)),
        file(json!("big"), 80 << 20, "application/zip", json!("big.zip")),
        file(json!("t"), 10, LONG_TEXT, json!(null)),
    ]);
    let event = event(&data(json!({"message": "", "attachments": files})));
    let told: Vec<_> = event
        .attachments
        .iter()
        .map(|file| (file.kind, file.fetch.as_deref(), file.problem.is_some()))
        .collect();
    assert_eq!(
        told,
        [
            (Kind::Image, Some("abc-1.png"), false),
            (Kind::Voice, Some("x.aac"), false),
            (Kind::Audio, Some("m.mp3"), false),
            (Kind::Document, None, true),
            (Kind::Video, None, true),
            (Kind::Document, None, true),
        ]
    );
}

#[test]
fn what_our_own_phone_writes_is_ours_but_in_the_note_to_self() {
    let sent = |more: Value| {
        let mut sent = json!({"destination": "+49301", "destinationNumber": "+49301", "destinationUuid": ADA, "timestamp": 2000, "message": "x"});
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        envelope(US, json!({"syncMessage": {"sentMessage": sent}}))
    };
    let one = event(&sent(json!({})));
    assert_eq!(
        (&one.chat[..], one.from.myself, &one.id[..]),
        (&format!("signal:{ADA}")[..], true, "2000.self")
    );
    let group = event(&sent(
        json!({"destination": null, "destinationNumber": null, "destinationUuid": null, "groupInfo": {"groupId": GROUP}}),
    ));
    assert_eq!((&group.chat[..], group.from.myself), (GROUP_CHAT, true));
    let note =
        event(&sent(json!({"destination": "+4930", "destinationNumber": "+4930", "destinationUuid": US})));
    let about = note.about.unwrap();
    assert_eq!(
        (&note.chat[..], note.from.myself, &about.name[..]),
        (&format!("signal:{US}")[..], false, "Note to Self")
    );
    let edit = event(&sent(
        json!({"message": null, "editMessage": {"targetSentTimestamp": 1500, "dataMessage": {"timestamp": 2000, "message": "y"}}}),
    ));
    assert_eq!((edit.kind, &edit.of[..], &edit.text[..]), (EventKind::Edit, "1500.self", "y"));
}

#[test]
fn another_account_of_the_same_signal_cli_is_not_ours() {
    let mut told = data(json!({"message": "x"}));
    told["account"] = "+4931".into();
    let Read::Event(event) = reader().read(1, &told) else { panic!() };
    assert_eq!((event.kind, &event.text[..], &event.chat[..]), (EventKind::Nothing, "", ""));
    assert!(event.unread.contains("+4931") && event.cursor["told"] == "1", "{}", event.unread);
    told["account"] = Value::Null;
    assert!(matches!(reader().read(1, &told), Read::Event(_)));
}

#[test]
fn what_signal_cli_could_not_read_is_told_to_a_person_unless_it_came_before() {
    let failed = |kind: &str| {
        let mut told = envelope(ADA, json!({}));
        told["exception"] = json!({"message": "x", "type": kind});
        told
    };
    let event = event(&failed("UntrustedIdentityException"));
    assert_eq!(
        (event.kind, event.unread.contains("safety number"), event.unread.contains(ADA)),
        (EventKind::Nothing, true, true)
    );
    assert!(reader().read(1, &failed("ProtocolDuplicateMessageException")) == Read::Nothing);
    let Read::Event(event) = reader().read(1, &json!({"exception": {"type": "X"}})) else { panic!() };
    assert!(event.unread.contains("somebody: X"), "{}", event.unread);
}

#[test]
fn a_chat_that_was_known_by_a_number_moves_to_the_account_s_id_once() {
    let chats = BTreeMap::from([("signal:+49301".to_owned(), "1".to_owned())]);
    let start = Start { chats, ..Start::default() };
    let mut reader = Reader::new(reader().people, &start, 0);
    let mut told = data(json!({"message": "x"}));
    let Read::Event(event) = reader.read(1, &told) else { panic!() };
    assert_eq!(reader.moved(&event), None, "the number was theirs earlier");
    told["envelope"]["sourceNumber"] = "+49301".into();
    let Read::Event(event) = reader.read(2, &told) else { panic!() };
    assert_eq!((reader.moved(&event), reader.moved(&event)), (Some("signal:+49301".into()), None));
}

#[test]
fn whatever_a_stranger_writes_is_bounded() {
    let long = "ü".repeat(60_000);
    let mentions: Value = (0..5000).map(|start| json!({"uuid": EVE, "start": start, "length": 1})).collect();
    let files: Value = (0..40).map(|_| json!({"contentType": long, "filename": long, "id": long})).collect();
    let contacts: Value =
        (0..20).map(|_| json!({"name": {"given": long}, "phone": [{"value": long}]})).collect();
    let message = json!({"message": long, "mentions": mentions, "attachments": files, "contacts": contacts,
        "quote": {"id": 1, "authorUuid": EVE, "text": long}, "groupInfo": {"groupId": GROUP, "groupName": long},
        "pollCreate": {"question": long, "options": [long]}});
    let mut told = data(message);
    told["envelope"]["sourceName"] = long.clone().into();
    let event = event(&told);
    let line = serde_json::to_vec(&event).unwrap();
    assert!(line.len() < 256 << 10, "{}", line.len());
    let Read::Event(event) = reader().read(
        1,
        &data(json!({"reaction": {"emoji": long, "targetAuthorUuid": ADA, "targetSentTimestamp": u64::MAX}})),
    ) else {
        panic!()
    };
    assert!(event.emoji.len() <= LONGEST_SIGN);
    // Times that are none do no harm.
    for at in [json!(u64::MAX), json!(-1), json!(1.5), json!("x"), json!(null)] {
        let mut told = data(json!({"message": "x"}));
        told["envelope"]["dataMessage"]["timestamp"] = at.clone();
        told["envelope"]["timestamp"] = at.clone();
        told["envelope"]["serverReceivedTimestamp"] = at;
        reader().read(1, &told);
    }
}

#[test]
fn changes_come_back_in_their_order_and_go_out_a_few_with_each_event() {
    let mut before = reader();
    let mut cursor = BTreeMap::new();
    for n in 0..300 {
        before.changed(format!("{}.self", 2000 + n), "1.self".into());
        if n % 20 == 0 {
            cursor.extend(before.cursor(n));
        }
    }
    assert_eq!(before.cursor(300).len(), 1 + 19);
    for n in 0..40 {
        before.changed(format!("{}.self", 3000 + n), "1.self".into());
    }
    for n in 0..2 {
        let some = before.cursor(n);
        assert!(some.len() <= 1 + MOST_SAVED);
        cursor.extend(some);
    }
    let start = Start { cursor, ..Start::default() };
    let mut again = Reader::new(reader().people, &start, 0);
    assert_eq!(again.people.newest("1.self"), "3039.self");
    again.changed("4000.self".into(), "1.self".into());
    assert_eq!(again.cursor(1)[&format!("edit.{}", 340 % MOST_CHANGES)], "340 4000.self 1.self");
}
