//! What the adapter has to do on servers of ours as on those of others.

use channel_protocol::Done;
use g2_fakes::mail::{answer, mail};

use super::*;

/// Servers, as the suite uses them.
pub(super) struct Servers<'a> {
    pub(super) adapter: Adapter,
    /// The place in the mailbox.
    pub(super) cursor: BTreeMap<String, String>,
    /// A mail comes in.
    pub(super) deliver: &'a dyn Fn(&str),
    /// Mails that Ada got from us.
    pub(super) got: &'a dyn Fn(usize) -> Vec<String>,
}

pub(super) fn does_all(servers: Servers) {
    let Servers { mut adapter, mut cursor, deliver, got } = servers;
    deliver(&mail(ADA, "1@example.org", "plans", "Tea?"));
    let one = adapter.next_event();
    cursor.extend(one.cursor.clone());
    assert_eq!(
        (one.kind, &one.chat[..], &one.from.id[..]),
        (EventKind::Message, "mail:ada@example.org", ADA)
    );
    assert_eq!((&one.text[..], &one.title[..], &one.id[..]), ("Tea?", "plans", "1@example.org"));
    assert!(!one.thread.is_empty() && one.at.is_some() && !one.late);

    // The answer goes into the thread, and its answer is in the same one.
    let done = adapter.done(&send("k.1.1", &one.chat, &one.thread, "Yes, grüne.\n\n.\n.. a line with dots"));
    let id = done.ids.unwrap().remove(0);
    let mails = got(1);
    for line in [
        &format!("Message-ID: <{id}>")[..],
        "In-Reply-To: <1@example.org>",
        "Subject: Re: plans",
        "Auto-Submitted: auto-replied",
    ] {
        assert!(mails[0].lines().any(|one| one.trim_end() == line), "{line}: {}", mails[0]);
    }
    deliver(&answer(ADA, "2@example.org", &id, "Good."));
    let two = adapter.next_event();
    cursor.extend(two.cursor.clone());
    assert_eq!((&two.thread, &two.text[..]), (&one.thread, "Good."));
    assert!(two.reply_to.is_some_and(|to| to.myself && to.id == id));

    // The same again is not sent a second time, and is found.
    let again = adapter.done(&send("k.1.1", &one.chat, &one.thread, "Yes, grüne."));
    assert_eq!(again.ids, Some(vec![id.clone()]));
    let look = |key: &str| json!({"op": "look_for", "r": 9, "key": key, "chat": one.chat, "thread": one.thread, "since": "2026-11-30T00:00:00Z"});
    let Up::Found(found) = adapter.ask(&look("k.1.1")) else { panic!() };
    assert_eq!(found.ids, Some(vec![id]));
    let Up::Found(found) = adapter.ask(&look("k.9.9")) else { panic!() };
    assert!(found.not_sent, "{found:?}");

    // Files both ways.
    std::fs::write(adapter.spool().join("out/1"), b"what it holds").unwrap();
    let file =
        json!({"file": "out/1", "kind": "document", "mime": "text/plain", "name": "z.txt", "caption": true});
    let mut with_file = send("k.2.1", &one.chat, &one.thread, "see");
    with_file["attachments"] = json!([file]);
    assert!(adapter.done(&with_file).ids.is_some());
    assert!(got(2)[1].contains("filename=\"z.txt\""));
    let head = mail(ADA, "3@example.org", "file", "");
    let head = head
        .trim_end()
        .replace("\nSubject", "\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\nSubject");
    deliver(&format!(
        "{head}\n\n--x\n\nsee\n--x\nContent-Type: text/x-z; name=z\nContent-Disposition: attachment\n\nwhat it holds\n--x--\n"
    ));
    let three = adapter.next_event();
    cursor.extend(three.cursor.clone());
    assert_eq!(three.text, "see");
    let fetch =
        json!({"op": "fetch", "r": 5, "chat": three.chat, "what": three.attachments[0].fetch, "most": 1000});
    let Up::Fetched { file: Some(file), .. } = adapter.ask(&fetch) else { panic!() };
    assert_eq!(std::fs::read(adapter.spool().join(file)).unwrap().trim_ascii_end(), b"what it holds");
    let fetch =
        json!({"op": "fetch", "r": 6, "chat": three.chat, "what": three.attachments[0].fetch, "most": 3});
    assert!(matches!(adapter.ask(&fetch), Up::Fetched { file: None, problem: Some(_), .. }));

    // A mail of its own, to somebody who has not written.
    let Up::ChatOf { chat: Some(bob), .. } =
        adapter.ask(&json!({"op": "open_dm", "r": 7, "user": "Bob@Example.org"}))
    else {
        panic!()
    };
    assert_eq!(bob, "mail:bob@example.org");
    assert!(matches!(
        adapter.done(&send("k.3.1", "mail:not an address", "", "x")),
        Done { not: Some(_), .. }
    ));

    // What was not stored before a kill comes again, late; what was does not.
    deliver(&mail(ADA, "4@example.org", "plans", "four"));
    let four = adapter.next_event();
    cursor.extend(four.cursor);
    deliver(&mail(ADA, "5@example.org", "plans", "five"));
    assert_eq!(adapter.event().text, "five");
    let mut adapter = adapter.again(&cursor);
    let five = adapter.next_event();
    assert_eq!((&five.text[..], five.late), ("five", true));
}
