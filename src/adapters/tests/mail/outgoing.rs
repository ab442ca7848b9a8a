//! What goes out, and what is known of it where a connection ends.

use channel_protocol::{Found, NotSent};
use g2_fakes::mail::{Fault, Stored};

use super::*;

const CHAT: &str = "mail:ada@example.org";

fn look(adapter: &mut Adapter, key: &str) -> Found {
    let look = json!({"op": "look_for", "r": 8, "key": key, "chat": CHAT, "since": "2026-11-30T00:00:00Z"});
    match adapter.ask(&look) {
        Up::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

fn drafts(fake: &Fake) -> Vec<bool> {
    fake.world().sent.mails.iter().map(|mail: &Stored| mail.flags.contains("\\Draft")).collect()
}

#[test]
fn a_mail_that_is_handed_over_has_a_copy_and_one_that_may_be_has_a_draft() {
    let (fake, mut adapter, _) = connected();
    assert!(adapter.done(&send("k.1", CHAT, "", "one")).ids.is_some());
    assert_eq!(drafts(&fake), [false]);
    assert!(look(&mut adapter, "k.1").ids.is_some());
    assert!(look(&mut adapter, "k.2").not_sent);
    // The server took it, and its answer is lost.
    fake.world().faults.push(Fault::CutAfterMail);
    assert!(adapter.done(&send("k.2", CHAT, "", "two")).unknown.is_some());
    assert!(look(&mut adapter, "k.2").cannot_tell.is_some());
    // It did not take it, and nobody here can know.
    fake.world().faults.push(Fault::CutInsteadOfMail);
    assert!(adapter.done(&send("k.3", CHAT, "", "three")).unknown.is_some());
    assert!(look(&mut adapter, "k.3").cannot_tell.is_some());
    assert_eq!(drafts(&fake), [false, true, true]);
    // Sent once more after all, it is the same mail with the same copy.
    assert!(adapter.done(&send("k.3", CHAT, "", "three")).ids.is_some());
    assert_eq!(drafts(&fake), [false, true, false]);
    assert_eq!(fake.world().handed.len(), 3);
}

#[test]
fn what_the_server_certainly_has_not_is_said_so_and_leaves_no_copy_where_it_is_final() {
    let (fake, mut adapter, _) = connected();
    let mut one = |fault: Fault, key: &str| {
        fake.world().faults.push(fault);
        adapter.done(&send(key, CHAT, "", "x")).not
    };
    let not = one(Fault::CutBeforeMail, "k.1");
    assert!(matches!(not, Some(NotSent::Busy { .. })), "{not:?}");
    assert!(matches!(one(Fault::Recipient(451), "k.2"), Some(NotSent::Again { .. })));
    assert!(matches!(one(Fault::Mail(421), "k.3"), Some(NotSent::Busy { .. })));
    assert_eq!(drafts(&fake).len(), 3);
    let not = one(Fault::Recipient(550), "k.4");
    assert!(
        matches!(&not, Some(NotSent::Refused { code, text, .. }) if code == "550" && text.contains("nobody here")),
        "{not:?}"
    );
    assert!(matches!(one(Fault::Mail(552), "k.5"), Some(NotSent::Refused { .. })));
    assert_eq!(drafts(&fake).len(), 3, "what never goes out leaves nothing");
    assert!(
        matches!(one(Fault::NoCopy, "k.6"), Some(NotSent::Busy { .. })),
        "nothing goes out without a copy"
    );
    assert!(fake.world().handed.is_empty());
    assert!(look(&mut adapter, "k.5").not_sent);
}

#[test]
fn a_search_that_fails_is_no_proof_that_there_is_no_copy() {
    let (fake, mut adapter, _) = connected();
    assert!(adapter.done(&send("k.1", CHAT, "", "one")).ids.is_some());
    fake.world().faults.push(Fault::NoSearch);
    assert!(look(&mut adapter, "k.1").ids.is_some(), "it is searched for again");
    fake.world().faults.push(Fault::NoSearch);
    let not = adapter.done(&send("k.1", CHAT, "", "one")).not;
    assert!(matches!(not, Some(NotSent::Busy { .. })), "{not:?}");
    assert!(fake.world().handed.len() == 1 && drafts(&fake) == [false]);
}

#[test]
fn where_the_server_keeps_copies_itself_none_is_no_proof() {
    let fake = Fake::start();
    fake.world().keeps_sent = true;
    let mut adapter = start_with(&fake, &json!({}), &BTreeMap::new());
    let _ = ready(&mut adapter, BTreeMap::new());
    assert!(adapter.done(&send("k.1", CHAT, "", "one")).ids.is_some());
    assert!(fake.world().sent.mails.is_empty() && fake.world().handed.len() == 1);
    let found = look(&mut adapter, "k.1");
    assert!(found.cannot_tell.is_some_and(|why| why.contains("has none yet")) && !found.not_sent);
}

#[test]
fn without_a_folder_for_copies_nobody_can_tell() {
    let (fake, mut adapter, _) = connected_with(&json!({"sent": ""}));
    assert!(adapter.done(&send("k.1", CHAT, "", "one")).ids.is_some());
    assert!(look(&mut adapter, "k.1").cannot_tell.is_some());
    assert!(fake.world().sent.mails.is_empty() && fake.world().handed.len() == 1);
}

#[test]
fn words_are_written_as_text_and_as_html() {
    let (fake, mut adapter, _) = connected();
    let hostile = "# Plan\n\n**bold** <img src=x onerror=1>\n.\n\nFrom here on\n";
    for (n, part) in
        g2_text::parts(hostile, channel_protocol::Format::Matrix, 100_000, channel_protocol::Unit::Chars)
            .into_iter()
            .enumerate()
    {
        let mut line = send(&format!("k.{n}"), CHAT, "", &part.text);
        line["html"] = json!(part.html);
        assert!(adapter.done(&line).ids.is_some());
    }
    let handed = &fake.world().handed[0];
    assert!(
        handed.text.contains("multipart/alternative") && handed.text.contains("<strong>bold</strong>"),
        "{}",
        handed.text
    );
    assert!(handed.text.contains("</strong> &lt;img"), "{}", handed.text);
    assert_eq!((&handed.from[..], &handed.to[..]), (USER, &["ada@example.org".to_owned()][..]));
}
