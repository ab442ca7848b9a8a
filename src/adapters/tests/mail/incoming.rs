//! What comes in.

use g2_fakes::mail::{Fault, answer, mail};

use super::*;

#[test]
fn the_adapter_does_all_on_our_own_servers() {
    let (fake, adapter, cursor) = connected();
    let deliver = |text: &str| {
        let _ = fake.deliver(text);
    };
    let got = |count: usize| {
        fake.wait("a mail", |world| world.handed.len() >= count);
        fake.world().handed.iter().map(|mail| mail.text.clone()).collect()
    };
    suite::does_all(suite::Servers { adapter, cursor, deliver: &deliver, got: &got });
}

#[test]
fn a_new_account_begins_with_the_next_mail_and_reads_are_marked_once_they_are_stored() {
    let fake = Fake::start();
    fake.deliver(&mail(ADA, "0@example.org", "old", "old"));
    let mut adapter = start_with(&fake, &json!({}), &BTreeMap::new());
    assert_eq!(ready(&mut adapter, BTreeMap::new())["uid"], "7:2");
    let uid = fake.deliver(&mail(ADA, "1@example.org", "new", "new"));
    let event = adapter.event();
    assert_eq!((&event.text[..], &event.cursor["uid"][..]), ("new", "7:3"));
    let seen = |fake: &Fake| fake.world().inbox.mails.iter().any(|mail| mail.flags.contains("\\Seen"));
    assert!(!seen(&fake));
    adapter.took(event.n);
    fake.wait("it is marked", |world| {
        world.inbox.mails.iter().any(|mail| mail.uid == uid && mail.flags.contains("\\Seen"))
    });
    assert_eq!(fake.world().inbox.mails.iter().filter(|mail| mail.flags.contains("\\Seen")).count(), 1);
    let (fake, mut adapter, _) = connected_with(&json!({"mark_seen": false}));
    fake.deliver(&mail(ADA, "1@example.org", "new", "new"));
    let _ = adapter.next_event();
    fake.wait("it listens again", |world| world.asked.iter().filter(|asked| *asked == "IDLE").count() > 1);
    assert!(!seen(&fake));
}

#[test]
fn from_is_no_identity_and_answers_to_strangers_stay_apart() {
    let (fake, mut adapter, _) = connected();
    let good = mail(ADA, "1@example.org", "plans", "I am Ada");
    fake.deliver(&good);
    let proven = adapter.next_event();
    fake.deliver(
        &good
            .replace("dkim=pass", "dkim=fail")
            .replace("<1@", "<2@")
            .replace("Subject", "In-Reply-To: <1@example.org>\nSubject"),
    );
    let forged = adapter.next_event();
    assert_eq!((&proven.chat[..], &proven.from.id[..]), ("mail:ada@example.org", ADA));
    assert_eq!(
        (&forged.chat[..], &forged.from.id[..]),
        ("mail:unproven:ada@example.org", "unproven:ada@example.org")
    );
    assert_eq!((proven.forwarded_from, forged.forwarded_from.as_deref()), (None, Some(ADA)));
    // The answer to the real Ada is for her mail, not for the forged one.
    let mut hostile = send("k.1", &proven.chat, &proven.thread, "secret");
    hostile["r"] = 3.into();
    assert!(adapter.done(&hostile).ids.is_some());
    let handed = fake.world().handed.remove(0);
    assert!(handed.to == [ADA] && handed.text.contains("In-Reply-To: <1@example.org>"), "{handed:?}");
    // An answer goes to the sender, whatever the mail says.
    fake.deliver(
        &mail(ADA, "3@example.org", "x", "x")
            .replace("\nTo:", "\nReply-To: eve@evil.example\nCc: bob@example.org\nTo:"),
    );
    let event = adapter.next_event();
    assert!(adapter.done(&send("k.2", &event.chat, &event.thread, "y")).ids.is_some());
    assert_eq!(fake.world().handed.remove(0).to, [ADA]);
}

#[test]
fn others_of_a_thread_are_answered_if_the_owner_wants_it() {
    let (fake, mut adapter, _) = connected_with(&json!({"reply_all": true}));
    fake.deliver(&mail(ADA, "3@example.org", "x", "x").replace("\nTo:", "\nCc: Bob <bob@example.org>\nTo:"));
    let event = adapter.next_event();
    assert!(adapter.done(&send("k.2", &event.chat, &event.thread, "y")).ids.is_some());
    assert_eq!(fake.world().handed[0].to, [ADA, "bob@example.org"]);
}

#[test]
fn automatic_mails_are_no_messages_and_the_place_behind_them_is_kept() {
    let (fake, mut adapter, _) = connected();
    for (n, header) in ["Auto-Submitted: auto-replied", "List-Id: <x>", "Precedence: bulk"].iter().enumerate()
    {
        let uid = fake.deliver(&mail(ADA, &format!("{n}@x"), "out", "x").replacen(
            "From:",
            &format!("{header}\nFrom:"),
            1,
        ));
        let event = adapter.next_event();
        assert_eq!((event.kind, &event.cursor["uid"]), (EventKind::Nothing, &format!("7:{}", uid + 1)));
        assert!(event.unread.is_empty());
    }
    assert!(fake.world().inbox.mails.iter().all(|mail| mail.flags.is_empty()), "they stay unread for people");
}

#[test]
fn a_mailbox_that_is_numbered_anew_is_begun_anew_and_nothing_comes_twice() {
    let (fake, mut adapter, mut cursor) = connected();
    let old = mail(ADA, "1@example.org", "x", "one");
    fake.deliver(&old);
    cursor.extend(adapter.next_event().cursor);
    fake.renumber(&[&old, &mail(ADA, "2@example.org", "x", "two")]);
    let event = adapter.next_event();
    assert_eq!((event.kind, &event.cursor["uid"][..]), (EventKind::Nothing, "8:3"));
    assert!(event.unread.contains("numbered the mailbox anew"), "{event:?}");
    fake.wait("it listens", |world| world.idle > 0);
    fake.deliver(&mail(ADA, "3@example.org", "x", "three"));
    assert_eq!(adapter.next_event().text, "three");
    // The same after a start.
    let mut adapter = adapter.again(&cursor);
    assert_eq!(adapter.next_event().cursor["uid"], "8:4");
}

#[test]
fn broken_connections_are_mended_and_nothing_is_lost() {
    let (fake, mut adapter, _) = connected();
    fake.wait("it listens", |world| world.idle > 0);
    fake.world().faults.push(Fault::HalfRead);
    fake.deliver(&mail(ADA, "1@example.org", "x", "half"));
    assert_eq!(adapter.state().transport, Light::Waiting);
    assert_eq!(adapter.next_event().text, "half");
    fake.wait("it listens", |world| world.idle > 0);
    fake.hang_up();
    while adapter.state().inbound != Light::Waiting {}
    fake.deliver(&mail(ADA, "2@example.org", "x", "meanwhile"));
    assert_eq!(adapter.next_event().text, "meanwhile");
}

#[test]
fn an_answer_without_its_end_is_no_answer() {
    let (fake, mut adapter, _) = connected();
    fake.wait("it listens", |world| world.idle > 0);
    fake.world().faults.push(Fault::Silent);
    fake.deliver(&mail(ADA, "1@example.org", "x", "not told at first"));
    assert_eq!(adapter.next_event().text, "not told at first");
    fake.wait("it listens", |world| world.idle > 0);
    fake.world().faults.push(Fault::NoSearch);
    fake.deliver(&mail(ADA, "2@example.org", "x", "not found at first"));
    while !adapter.state().why.contains("not now") {}
    assert_eq!(adapter.next_event().text, "not found at first");
}

#[test]
fn what_nobody_can_read_is_passed_over_after_some_tries() {
    let (fake, mut adapter, _) = connected();
    fake.wait("it listens", |world| world.idle > 0);
    fake.world().faults.extend([Fault::Gibberish; 3]);
    fake.deliver(&mail(ADA, "1@example.org", "x", "odd"));
    fake.deliver(&mail(ADA, "2@example.org", "x", "even"));
    let event = adapter.next_event();
    assert!(event.kind == EventKind::Nothing && event.unread.contains("can't be read"), "{event:?}");
    assert_eq!(adapter.next_event().text, "even");
}

#[test]
fn a_mail_that_ended_lives_of_the_adapter_is_passed_over() {
    let (fake, mut adapter, cursor) = connected();
    // As lives leave it that ended while they read the mail.
    let noted = adapter.spool().parent().unwrap().join("state/reading");
    std::fs::write(&noted, "7 1 3\n").unwrap();
    adapter = adapter.again(&cursor);
    fake.deliver(&mail(ADA, "1@example.org", "x", "deadly"));
    fake.deliver(&mail(ADA, "2@example.org", "x", "harmless"));
    let event = adapter.next_event();
    assert!(event.kind == EventKind::Nothing && event.unread.contains("nobody can read"), "{event:?}");
    assert_eq!((&event.cursor["uid"][..], &adapter.next_event().text[..]), ("7:2", "harmless"));
    assert_eq!(std::fs::read_to_string(&noted).unwrap(), "7 1 3\n", "the other one is not blamed");
}

#[test]
fn a_server_that_tells_nothing_by_itself_is_asked() {
    let fake = Fake::start();
    fake.world().idles = false;
    let mut adapter = start_with(&fake, &json!({}), &BTreeMap::from([("uid".into(), "7:1".into())]));
    fake.deliver(&mail(ADA, "1@example.org", "x", "x"));
    assert_eq!(adapter.next_event().text, "x");
    assert!(!fake.world().asked.iter().any(|asked| asked == "IDLE"));
}

#[test]
fn an_answer_is_known_by_its_own_id_alone() {
    let (fake, mut adapter, _) = connected();
    fake.deliver(&mail(ADA, "1@example.org", "plans", "x"));
    let one = adapter.next_event();
    let id = adapter.done(&send("k.1", &one.chat, &one.thread, "y")).ids.unwrap().remove(0);
    // Its program names no first mail of the thread.
    let text = "Fine.\n\nOn Mon, 30 Nov 2026 at 10:00, G2 <agent@us.example> wrote:\n\n> y\n";
    fake.deliver(&answer(ADA, "2@example.org", &id, text));
    let two = adapter.next_event();
    assert_eq!((&two.thread, &two.text[..], two.references), (&one.thread, "Fine.", vec![id]));
}

#[test]
fn a_flood_is_told_in_order_and_leaves_little_memory() {
    let (fake, mut adapter, cursor) = connected();
    let mut adapter_gone = adapter.again(&cursor);
    adapter_gone.kill();
    let filling = "y".repeat(20_000);
    for n in 0..500 {
        fake.deliver(&mail(ADA, &format!("{n}@x"), "flood", &format!("{n}\n{filling}")));
    }
    adapter = adapter_gone.again(&cursor);
    for n in 0..500 {
        let event = adapter.next_event();
        assert!(event.text.starts_with(&format!("{n}\n")), "{n}");
    }
    fake.wait("it listens", |world| world.idle > 0);
    assert!(adapter.memory() < 12 << 10, "{} KiB", adapter.memory());
}
