//! A client that others wrote sees what the adapter does as it is meant.

use std::process::Stdio;

use channel_protocol::{Mention, NotSent};
use g2_fakes::peers::python;

use super::*;

#[test]
fn matrix_nio_sees_texts_changes_signs_files_and_threads_as_they_are_meant() {
    let Some(server) = synapse() else { return };
    let Some(mut nio) = python("matrix", "matrix-nio") else { return };
    let (ada, bot) = (server.person("nio-ada"), server.person("nio-bot"));
    let mut adapter = start(server, &bot, &json!({"invites_from": [ada.id]}));
    adapter.ready();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/nio_judge.py");
    let nio = nio.args([script, &server.base(), &ada.id, "secret", &bot.id]).stderr(Stdio::piped());
    let nio = nio.spawn().unwrap();
    let hello = adapter.next_event();
    assert_eq!((&hello.from.id, hello.mention, &hello.text[..]), (&ada.id, Mention::Me, "hello"));
    let chat = hello.chat.clone();
    let order = |more: serde_json::Value| {
        let mut line = json!({"r": 1, "key": format!("k.{more}"), "chat": chat});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let said = order(json!({"op": "send", "text": "hi 🎈", "html": "<b>hi</b> 🎈", "reply_to": hello.id}));
    let said = adapter.done(&said).ids.unwrap().remove(0);
    let sign = adapter.next_event();
    assert_eq!((sign.kind, &sign.of, &sign.emoji[..], sign.on), (EventKind::Reaction, &said, "👍", true));
    let edit = order(json!({"op": "amend", "id": said, "text": "changed"}));
    assert!(adapter.done(&edit).ids.is_some());
    let picture = adapter.next_event().attachments.remove(0);
    let fetch = order(json!({"op": "fetch", "what": picture.fetch, "most": 100}));
    let Up::Fetched { file: Some(place), .. } = adapter.ask(&fetch) else { panic!() };
    assert_eq!(std::fs::read(adapter.spool().join(place)).unwrap(), b"a picture");
    std::fs::write(adapter.spool().join("out/z"), b"a picture of ours").unwrap();
    let file =
        json!({"file": "out/z", "kind": "image", "mime": "image/png", "name": "z.png", "caption": true});
    for order in [
        order(json!({"op": "send", "text": "here", "attachments": [file]})),
        order(json!({"op": "amend", "id": hello.id, "react": "👀"})),
        order(json!({"op": "send", "text": "inside", "thread": hello.id})),
    ] {
        assert!(adapter.done(&order).ids.is_some(), "{order}");
    }
    adapter.say(&order(json!({"op": "show", "typing": true})));
    let gone = adapter.next_event();
    assert_eq!((gone.kind, &gone.of), (EventKind::Delete, &hello.id));
    let delete = order(json!({"op": "amend", "id": said, "delete": true}));
    assert!(adapter.done(&delete).ids.is_some());
    let end = nio.wait_with_output().unwrap();
    assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
    // It was shown the door.
    let Up::Chats { chats, .. } = adapter.ask(&json!({"op": "list_chats", "r": 6})) else { panic!() };
    assert!(chats.is_empty(), "{chats:?}");
    let Done { not: Some(not), .. } = adapter.done(&order(json!({"op": "send", "text": "still there?"})))
    else {
        panic!()
    };
    assert!(matches!(not, NotSent::Gone { .. }), "{not:?}");
}

#[test]
fn the_adapter_does_all_on_a_real_homeserver() {
    let Some(server) = synapse() else { return };
    let (ada, bot) = (server.person("all-ada"), server.person("all-bot"));
    let mut adapter = start(server, &bot, &json!({"invites_from": [ada.id]}));
    adapter.ready();
    let room = ada.room(&[&bot.id]);
    ada.wait_for_member(&room, &bot.id);
    let chat = &format!("mx:{room}");
    let hears = |text: &str| drop(ada.say(&room, text));
    suite::does_all(suite::Platform { adapter, chat, hears: &hears, forgets: false });
}
