//! What each adapter has to do on each platform, on a server of ours as on one of others.

use channel_protocol::{Event, EventKind};
use g2_fakes::adapter::Adapter;
use serde_json::{Value, json};

/// An account that is connected, a chat of it, and how somebody says something there.
pub(super) struct Platform<'a> {
    pub(super) adapter: Adapter,
    pub(super) chat: &'a str,
    pub(super) hears: &'a dyn Fn(&str),
    /// A session of this server's tells nothing again, which the platform's would.
    pub(super) forgets: bool,
}

/// Texts, changes, signs, files and deletions go out, in order; what comes in is told, and again until it is stored.
pub(super) fn does_all(platform: Platform) {
    let Platform { mut adapter, chat, hears, forgets } = platform;
    hears("one");
    let one = adapter.next_event();
    assert_eq!((one.kind, &one.chat[..], &one.text[..]), (EventKind::Message, chat, "one"));
    assert!(!one.from.id.is_empty() && !one.from.myself && !one.key.is_empty() && !one.id.is_empty());

    let mut r = 0;
    let mut order = |adapter: &mut Adapter, more: Value| {
        r += 1;
        let mut line = json!({"op": "send", "r": r, "key": format!("k.{r}.1"), "chat": chat, "text": ""});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let done = adapter.done(&line);
        done.ids.unwrap_or_else(|| panic!("{more}: {:?} {:?}", done.not, done.unknown))
    };
    let buttons = json!([[{"label": "Yes", "press": "y"}]]);
    let card = json!({"text": "a card 🎈", "buttons": buttons, "reply_to": one.id});
    let card = order(&mut adapter, card).remove(0);
    let mut ids: Vec<String> =
        (0..5).map(|n| order(&mut adapter, json!({"text": format!("text {n}")})).remove(0)).collect();
    ids.push(card.clone());
    for change in [json!({"text": "changed", "buttons": []}), json!({"react": "👀"}), json!({"react": ""})]
    {
        let mut amend = json!({"op": "amend", "id": card});
        amend.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        order(&mut adapter, amend);
    }
    std::fs::write(adapter.spool().join("out/1"), b"what it holds").unwrap();
    for (kind, mime) in
        [("image", "image/png"), ("document", "text/plain"), ("video", "video/mp4"), ("audio", "audio/mpeg")]
    {
        let file = json!({"file": "out/1", "kind": kind, "mime": mime, "name": "z", "caption": true});
        ids.extend(order(&mut adapter, json!({"text": "with words", "attachments": [file]})));
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "each has an id of its own");
    order(&mut adapter, json!({"op": "amend", "id": card, "delete": true}));

    // What was not stored before a kill comes again; what was comes by its key, if at all.
    hears("two");
    let two = next_text(&mut adapter);
    hears("three");
    assert_eq!(adapter.event().text, "three");
    let mut cursor = two.cursor;
    if forgets {
        cursor.remove("session");
    }
    let mut adapter = adapter.again(&cursor);
    let again = std::iter::repeat_with(|| next_text(&mut adapter))
        .find(|event| ![&one.key, &two.key].contains(&&event.key))
        .unwrap();
    assert_eq!(again.text, "three");
}

/// The next message, which it takes; some platforms tell of our own deletions before it.
fn next_text(adapter: &mut Adapter) -> Event {
    std::iter::repeat_with(|| adapter.next_event()).find(|event| event.kind == EventKind::Message).unwrap()
}
