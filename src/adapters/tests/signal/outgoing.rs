//! What agents say, and what signal-cli says to it.

use channel_protocol::{Light, NotSent, Up};
use g2_fakes::signal::{Fault, data};

use super::*;

fn amend(id: &str, change: Value) -> Value {
    let mut line = json!({"op": "amend", "r": 2, "key": "k.9.1", "chat": ADA_CHAT, "id": id});
    line.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    line
}

fn not(adapter: &mut Adapter, line: &Value) -> NotSent {
    let done = adapter.done(line);
    done.not.unwrap_or_else(|| panic!("{line}: {:?} {:?}", done.ids, done.unknown))
}

#[test]
fn a_text_goes_out_with_its_styles_and_with_what_it_answers() {
    let (fake, mut adapter) = connected();
    let at = fake.say(ADA, "which one?");
    let asked = adapter.next_event();
    let mut line = send("k.1.1", ADA_CHAT, "🎈 this");
    line["spans"] = json!([{"at": 3, "len": 4, "is": "bold"}]);
    line["reply_to"] = asked.id.as_str().into();
    line["silent"] = true.into();
    let id = adapter.done(&line).ids.unwrap().remove(0);
    let sent = fake.asked("send").remove(0);
    assert_eq!(
        (&sent["recipient"], &sent["message"], &sent["account"]),
        (&json!([ADA]), &json!("🎈 this"), &json!(US))
    );
    assert_eq!((&sent["textStyle"], &sent["noUrgent"]), (&json!(["3:4:BOLD"]), &json!(true)));
    assert_eq!(
        (&sent["quoteTimestamp"], &sent["quoteAuthor"], &sent["quoteMessage"]),
        (&json!(at), &json!(ADA), &json!("which one?"))
    );
    // An answer to it is one to us.
    let ours: u64 = id.strip_suffix(".self").unwrap().parse().unwrap();
    let quote =
        json!({"quote": {"id": ours, "author": US, "authorNumber": US, "authorUuid": null, "text": "this"}});
    fake.world().say(ADA, Some(GROUP), "thanks", &quote);
    let reply = adapter.next_event().reply_to.unwrap();
    assert_eq!((reply.id, reply.myself), (id, true));
    let mut all = send("k.2.1", GROUP_CHAT, "all");
    all["reply_to"] = "no message of Signal".into();
    let group = adapter.done(&all).ids;
    assert!(group.is_some() && fake.asked("send")[1]["groupId"] == GROUP);
    assert!(adapter.done(&send("k.3.1", &format!("signal:{US}"), "note")).ids.is_some());
    assert_eq!(fake.asked("send")[2]["noteToSelf"], true);
    for chat in ["signal:nobody", "signal:group.", "tg:7"] {
        assert!(matches!(not(&mut adapter, &send("k.4.1", chat, "x")), NotSent::Refused { .. }), "{chat}");
    }
}

#[test]
fn files_go_out_whole_with_their_names() {
    let (fake, mut adapter) = connected();
    std::fs::write(adapter.spool().join("out/1"), b"what it holds").unwrap();
    let file = |name: &str, mime: &str, kind: &str| json!({"file": "out/1", "kind": kind, "mime": mime, "name": name, "caption": false});
    let mut line = send("k.1.1", ADA_CHAT, "two");
    line["attachments"] = json!([
        file("a b;base64,ü.png", "image/png", "image"),
        file("x", "text/plain; charset=utf-8", "voice")
    ]);
    assert_eq!(adapter.done(&line).ids.unwrap().len(), 1);
    let sent = fake.asked("send").remove(0);
    let (kind, name, bytes) = data(sent["attachments"][0].as_str().unwrap()).unwrap();
    assert_eq!(
        (&kind[..], &name[..], &bytes[..]),
        ("image/png", "a%20b%3Bbase64%2C%C3%BC.png", &b"what it holds"[..])
    );
    assert_eq!(
        (data(sent["attachments"][1].as_str().unwrap()).unwrap().0, &sent["voiceNote"]),
        ("application/octet-stream".into(), &json!(true))
    );
    line["attachments"] = json!([file("x", "text/plain", "document")]);
    line["attachments"][0]["file"] = "out/none".into();
    assert!(matches!(not(&mut adapter, &line), NotSent::Refused { .. }));
}

#[test]
fn a_text_is_changed_by_its_newest_time_and_deleted_and_signed_by_its_first() {
    let (fake, mut adapter) = connected();
    let id = adapter.done(&send("k.1.1", ADA_CHAT, "one")).ids.unwrap().remove(0);
    let first: u64 = id.strip_suffix(".self").unwrap().parse().unwrap();
    for text in ["two", "three"] {
        assert_eq!(adapter.done(&amend(&id, json!({"text": text}))).ids, Some(vec![]));
    }
    let times: Vec<Value> = fake.asked("send").iter().map(|sent| sent["editTimestamp"].clone()).collect();
    assert!(times[1] == first && times[2].as_u64().unwrap() > first, "{times:?}");
    for (sign, shown, remove) in [("👀", "👀", false), ("", "👀", true), ("", "👍", true)] {
        assert_eq!(adapter.done(&amend(&id, json!({"react": sign}))).ids, Some(vec![]));
        let asked = fake.asked("sendReaction").pop().unwrap();
        assert_eq!(
            (&asked["emoji"], &asked["remove"], &asked["targetTimestamp"]),
            (&json!(shown), &json!(remove), &json!(first))
        );
    }
    // Somebody signs the newest text: it is known by the first one, in the next life, too.
    fake.say(ADA, "kept with this");
    let cursor = adapter.next_event().cursor;
    let mut adapter = adapter.again(&cursor);
    adapter.ready();
    let newest = *fake.world().messages.keys().filter(|(_, by)| by == US).map(|(at, _)| at).max().unwrap();
    let sign = json!({"reaction": {"emoji": "👍", "targetAuthor": US, "targetAuthorNumber": US, "targetSentTimestamp": newest, "isRemove": false}});
    fake.world().say(ADA, None, "", &sign);
    assert_eq!(adapter.next_event().of, id);
    assert_eq!(adapter.done(&amend(&id, json!({"delete": true}))).ids, Some(vec![]));
    assert_eq!(fake.asked("remoteDelete")[0]["targetTimestamp"], first);
    adapter.say(&json!({"op": "show", "chat": GROUP_CHAT, "typing": true}));
    fake.wait("typing", |world| {
        world.asked.iter().any(|(method, asked)| method == "sendTyping" && asked["stop"] == false)
    });
}

#[test]
fn what_signal_cli_says_decides_whether_a_text_is_tried_again() {
    let (fake, mut adapter) = connected();
    let line = send("k.1.1", ADA_CHAT, "x");
    let failed = |kind: &str, more: Value| {
        let mut one = json!({"recipientAddress": {"uuid": ADA}, "type": kind});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"response": {"timestamp": 1, "results": [one]}})
    };
    fake.fault(
        "send",
        Fault::Error(
            -4,
            "Failed to send message due to untrusted identities".into(),
            failed("IDENTITY_FAILURE", json!({})),
        ),
    );
    let NotSent::Refused { code, hint, .. } = not(&mut adapter, &line) else { panic!() };
    assert!(code == "untrusted" && hint.contains("signal-cli trust"), "{hint}");
    fake.fault(
        "send",
        Fault::Error(
            -5,
            "rate".into(),
            failed("RATE_LIMIT_FAILURE", json!({"retryAfterSeconds": 90, "token": "t"})),
        ),
    );
    adapter.say(&line);
    let state = adapter.state();
    assert_eq!(
        (state.inbound, state.outbound, state.hint.contains("submitRateLimitChallenge")),
        (Light::Ok, Light::Failing, true)
    );
    let Up::Done(done) = adapter.line() else { panic!() };
    assert!(matches!(done.not, Some(NotSent::Busy { after_ms: 90_000, .. })), "{done:?}");
    adapter.say(&line);
    assert_eq!((adapter.state().outbound, fake.asked("send").len()), (Light::Ok, 3));
    assert!(matches!(adapter.line(), Up::Done(done) if done.ids.is_some()));
    assert!(matches!(
        not(&mut adapter, &send("k.2.1", "signal:f0000000-0000-4000-8000-000000000100", "x")),
        NotSent::Gone { .. }
    ));
    fake.world().groups[0]["isMember"] = false.into();
    assert!(matches!(not(&mut adapter, &send("k.2.1", GROUP_CHAT, "x")), NotSent::Gone { .. }));
    fake.fault("send", Fault::Status(421));
    adapter.say(&line);
    let state = adapter.state();
    assert!(state.outbound == Light::Failing && state.hint.contains("url"), "{state:?}");
    let Up::Done(done) = adapter.line() else { panic!() };
    assert!(matches!(done.not, Some(NotSent::Busy { after_ms: 300_000, .. })), "{done:?}");
    for fault in [
        Fault::CutAfter,
        Fault::Status(500),
        Fault::Error(-32603, "Failed to send message: closed (IOException)".into(), Value::Null),
        Fault::Error(-1, "Failed to send message".into(), failed("NETWORK_FAILURE", json!({}))),
    ] {
        fake.fault("send", fault);
        assert!(adapter.done(&line).unknown.is_some());
    }
}

#[test]
fn a_person_is_found_by_each_of_their_ids_and_chats_are_listed() {
    let (_fake, mut adapter) = connected();
    let mut of = |user: &str| match adapter.ask(&json!({"op": "open_dm", "r": 3, "user": user})) {
        Up::ChatOf { chat, why, .. } => chat.ok_or(why),
        other => panic!("{other:?}"),
    };
    for user in [ADA, "+4930100000", "ada.01"] {
        assert_eq!(of(user), Ok(ADA_CHAT.into()), "{user}");
    }
    assert!(of("+4999999").is_err() && of(&"x".repeat(100)).is_err());
    let Up::Chats { chats, problem: None, .. } = adapter.ask(&json!({"op": "list_chats", "r": 4})) else {
        panic!()
    };
    let told: Vec<(&str, &str)> = chats.iter().map(|chat| (&chat.chat[..], &chat.name[..])).collect();
    assert_eq!(told, [(GROUP_CHAT, "Plans"), (ADA_CHAT, "Ada"), (&format!("signal:{EVE}"), "Evie")]);
}
