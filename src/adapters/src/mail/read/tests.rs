use serde_json::{Value, json};

use super::*;

fn settings(more: &Value) -> Settings {
    let mut table = json!({"token": "x", "user": "agent@us.example", "imap": "x", "smtp": "x", "authserv": "mx.us.example"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Settings::read(table.as_object().unwrap()).unwrap()
}

fn raw(text: &str) -> Raw {
    let bytes = text.replace('\n', "\r\n").into_bytes();
    Raw { uid: 5, at: None, size: bytes.len() as u64, bytes }
}

const PASS: &str = "Authentication-Results: mx.us.example; dkim=pass header.d=example.org\n";
const HEAD: &str =
    "From: Ada <ada@example.org>\nTo: agent@us.example\nSubject: plans\nMessage-ID: <1@example.org>\n";

fn read(text: &str) -> Mail {
    match mail(&raw(text), 7, &settings(&json!({}))) {
        Read::Mail(mail) => *mail,
        Read::Nothing(why) => panic!("{why}"),
    }
}

fn nothing(text: &str) -> String {
    match mail(&raw(text), 7, &settings(&json!({}))) {
        Read::Nothing(why) => why,
        Read::Mail(mail) => panic!("{mail:?}"),
    }
}

#[test]
fn a_sender_counts_only_where_the_named_server_vouches_for_the_domain_of_the_one_from() {
    let mail = read(&format!("{PASS}{HEAD}\nhello\n"));
    assert!(mail.proven && mail.address == "ada@example.org" && mail.name == "Ada" && mail.text == "hello");
    assert!(!read(&format!("{HEAD}\nhello\n")).proven, "nobody says anything");
    let forged = format!("Authentication-Results: mx.us.example; dkim=none\n{PASS}{HEAD}\nx\n");
    let forged = read(&forged);
    assert!(!forged.proven && forged.doubt.contains("mx.us.example"));
    // The server copies words of the sender's into its own header.
    let unread = format!("Authentication-Results: mx.us.example; dkim=none (\"(\")\n{PASS}{HEAD}\nx\n");
    assert!(read(&unread).doubt.contains("can't be read"));
    let mut bytes =
        b"Authentication-Results: mx.us.example; dkim=fail header.i=\xff@evil.example\r\n".to_vec();
    bytes.extend(raw(&format!("{PASS}{HEAD}\nx\n")).bytes);
    let Read::Mail(odd) = super::mail(&Raw { bytes, ..raw("") }, 7, &settings(&json!({}))) else { panic!() };
    assert!(!odd.proven, "a header that is no UTF-8 is the server's all the same");
    let evil = format!(
        "{PASS}{}\nx\n",
        HEAD.replace("Ada <ada@example.org>", "\"ada@example.org\" <eve@evil.example>")
    );
    assert!(!read(&evil).proven, "a name is no address");
    let elsewhere = format!("{PASS}{}\nx\n", HEAD.replace("To: agent@us.example", "To: bob@example.org"));
    assert!(read(&elsewhere).doubt.contains("To nor Cc"), "a signed mail to somebody else is sent on");
    let copied = format!("{PASS}{}\nx\n", HEAD.replace("To: agent@us.example", "Cc: Agent@Us.Example"));
    assert!(read(&copied).doubt.contains("no signature covers it"), "anybody can add a Cc");
    assert!(read(&format!("DKIM-Signature: v=1; d=example.org; h=from:to:cc; b=x\n{copied}")).proven);
    // What is put above the signed headers breaks no signature.
    for more in ["To: agent@us.example", "Message-ID: <2@x>", "subject : x"] {
        let twice = format!("{more}\nIn-Reply-To: <5@x>\n{PASS}{HEAD}\nx\n");
        let twice =
            if more.starts_with('s') { twice } else { twice.replace("To: agent", "Cc: x@y.z\nTo: agent") };
        assert!(read(&twice).doubt.contains("it has two"), "{twice}");
    }
    let dated = raw(&format!("{PASS}{HEAD}Date: Mon, 30 Nov 2026 10:00:00 +0000\n\nx\n"));
    for (at, is_proven) in [("2026-12-07T09:00:00Z", true), ("2026-12-07T11:00:00Z", false)] {
        let dated = Raw { at: Some(at.into()), ..dated.clone() };
        let Read::Mail(dated) = super::mail(&dated, 7, &settings(&json!({}))) else { panic!() };
        assert_eq!(dated.proven, is_proven, "{at}");
    }
    // A filter that takes away forged headers may not see these.
    for name in ["Authentication-Results ", "Authentication- Results", ":Authentication-Results"] {
        let odd = format!("{}{PASS}{HEAD}\nx\n", PASS.replace("Authentication-Results", name));
        assert!(!read(&odd).proven, "{name}");
    }
    for two in [
        format!("{PASS}From: eve@evil.example\n{HEAD}\nx\n"),
        format!("{PASS}{}\nx\n", HEAD.replace("Ada <ada@example.org>", "ada@example.org, eve@evil.example")),
        format!("{PASS}{}\nx\n", HEAD.replace("Ada <ada@example.org>", "nobody")),
        format!("{PASS}To: agent@us.example\n\nx\n"),
    ] {
        assert!(nothing(&two).contains("one plain address"), "{two}");
    }
    let us = format!("{PASS}{}\nx\n", HEAD.replace("Ada <ada@example.org>", "Agent@us.example"));
    assert!(nothing(&us).contains("our own"));
    let only = settings(&json!({"only_from": ["@other.example"]}));
    assert!(matches!(super::mail(&raw(&format!("{PASS}{HEAD}\nx\n")), 7, &only), Read::Nothing(_)));
}

#[test]
fn what_nobody_waits_for_an_answer_to_wakes_nobody() {
    for header in [
        "Auto-Submitted: auto-replied",
        "auto-submitted: (x)\n auto-generated; y=z",
        "Precedence: Bulk",
        "Precedence: list",
        "Precedence: first-class\nPrecedence: auto_reply",
        "Auto-Submitted: no\nAuto-Submitted: auto-replied",
        "X-Autoreply-From: a@b.c",
        "List-Id: <a.example>",
        "List-Unsubscribe: <https://a.example>",
        "Return-Path: <>",
        "Content-Type: multipart/report; boundary=x",
    ] {
        let why = nothing(&format!("{header}\n{PASS}{HEAD}\nx\n"));
        assert!(!why.is_empty(), "{header}");
    }
    let program = format!("{PASS}{}\nx\n", HEAD.replace("ada@", "MAILER-DAEMON@"));
    assert!(nothing(&program).contains("a program"));
    for header in ["Auto-Submitted: no", "Precedence: first-class", "Return-Path: <ada@example.org>"] {
        assert!(read(&format!("{header}\n{PASS}{HEAD}\nx\n")).proven, "{header}");
    }
}

#[test]
fn a_thread_is_named_by_its_first_mail_and_by_ours() {
    let first = read(&format!("{PASS}{HEAD}\nx\n"));
    let with = |headers: &str| read(&format!("{PASS}{}{headers}\nx\n", HEAD.replace("<1@", "<9@")));
    let second = with("In-Reply-To: <5@x>\nReferences: <1@example.org>\n <5@x>\n");
    assert_eq!((&second.thread, second.references.len()), (&first.thread, 2));
    assert!(is_thread(&first.thread));
    let ours = own_id("k.1", &first.thread, "us.example");
    let answer = with(&format!("In-Reply-To: <{ours}>\n"));
    assert_eq!((&answer.thread, answer.answers_ours.as_ref()), (&first.thread, Some(&ours)));
    // Somebody else's id that looks like ours is none.
    let other = with(&format!("In-Reply-To: <{}>\n", own_id("k.1", &first.thread, "evil.example")));
    assert!(other.thread != first.thread && other.answers_ours.is_none());
    let alone = own_id("k.1", "", "us.example");
    assert_eq!(with(&format!("References: <{alone}>\n")).thread, thread_of(&alone));
    assert!(
        nothing(&format!("{PASS}{}\nx\n", HEAD.replace("<1@example.org>", &format!("<{alone}>"))))
            .contains("our own")
    );
    let without = read(&format!("{PASS}{}\nx\n", HEAD.replace("Message-ID: <1@example.org>\n", "")));
    assert!(without.id.starts_with('h') && !without.has_id && without.id.len() < 40);
    let long = read(&format!("{PASS}{}\nx\n", HEAD.replace("<1@", &format!("<{}@", "1".repeat(600)))));
    assert!(!long.has_id && long.id.len() < 40);
}

#[test]
fn files_are_named_and_found_again() {
    let mail = format!(
        "{PASS}{HEAD}Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nsee\n--x\n\
         Content-Type: image/png; name=\"a\"\nContent-Disposition: attachment; filename=\"../cat\x07.png\"\n\
         Content-Transfer-Encoding: base64\n\nYWJj\n--x\nContent-Type: message/rfc822\n\nSubject: in\n\ninner\n--x--\n"
    );
    let told = read(&mail);
    assert_eq!(told.text, "see");
    let [cat, inner] = &told.files[..] else { panic!("{:?}", told.files) };
    assert_eq!((cat.kind, cat.name.as_deref(), cat.bytes), (Kind::Image, Some("../cat.png"), Some(3)));
    assert_eq!(inner.mime, "message/rfc822");
    let file =
        |what: &Attached| Wanted::read(what.fetch.as_deref().unwrap()).unwrap().file(&raw(&mail)).unwrap();
    assert_eq!(file(cat), b"abc");
    assert!(String::from_utf8(file(inner)).unwrap().contains("inner"));
    for bad in ["", "7.5", "7.5.1.2", "7.5.x", "-1.5.1"] {
        assert_eq!(Wanted::read(bad), None, "{bad}");
    }
    assert_eq!(Wanted::read("7.5.99").unwrap().file(&raw(&mail)), None);
    let only = read(&format!("{PASS}{HEAD}\n\n"));
    assert_eq!(only.text, "plans", "a mail may say all in its subject");
}

#[test]
fn hostile_mails_are_read_within_bounds() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(20_000);
    let mail = read(&format!("{PASS}{HEAD}{nested}"));
    let unread = |mail: &Mail| mail.text.contains("too many parts") && mail.files.is_empty();
    assert!(unread(&mail));
    // Blanks in the name of a header count for nothing, and parts of a digest need no headers at all.
    assert!(unread(&read(&format!("{PASS}{HEAD}{}", "C ontent- Type:message/rfc822\n\n".repeat(20_000)))));
    let parts = "--x\n\n\n".repeat(200_000);
    assert!(unread(&read(&format!("{PASS}{HEAD}Content-Type: multipart/digest; boundary=x\n\n{parts}"))));
    assert_eq!(types(b"content-type: a\r\nC ontent-\tTYPE :b\ncontent-\ntype: c\nccontent-type"), 3);
    let lines = "a:b\n".repeat(MOST_HEADERS);
    assert!(nothing(&format!("{PASS}{HEAD}{lines}\nx\n")).contains("too many"));
    let below = read(&format!("{PASS}{HEAD}\n{lines}a:b\n"));
    assert!(unread(&below) && below.proven, "its headers are all read");
    let endless: String =
        (0..400).map(|n| format!("Content-Type: multipart/mixed; boundary=never{n}\n\n")).collect();
    assert!(unread(&read(&format!("{PASS}{HEAD}{endless}{}", "x\n".repeat(6 << 20)))));
    let deep = "Content-Type: message/rfc822\n\n".repeat(400);
    assert!(read(&format!("{PASS}{HEAD}{deep}x\n")).files.len() <= 50);
    let digest: String =
        (0..400).map(|n| format!("Content-Type: multipart/digest; boundary=b{n}\n\n--b{n}\n\n")).collect();
    let _ = read(&format!("{PASS}{HEAD}{digest}"));
    let _ = read(&format!("{PASS}{HEAD}{}\nx\n", "X-Y: z\n".repeat(100_000)));
    let ids: String = (0..5000).map(|n| format!("<{n}@x>\n ")).collect();
    let many = read(&format!("{PASS}{HEAD}References: {ids}\n\nx\n"));
    assert!(many.references.len() <= MOST_REFERENCES && many.thread == thread_of("0@x"));
    let addresses = "a@b.c, ".repeat(20_000);
    assert!(read(&format!("{PASS}{HEAD}Cc: {addresses}\n\nx\n")).others.len() <= 20);
    let long = read(&format!("{PASS}{}\nx\n", HEAD.replace("plans", &"p".repeat(50_000))));
    assert!(long.subject.chars().count() <= LONGEST_TITLE);
    let hidden = read(&format!(
        "{PASS}{HEAD}Content-Type: text/html\n\n<p>see<span style='display:none'>obey</span></p>\n"
    ));
    assert_eq!(hidden.text, "see");
    let cut = Raw { size: 90 << 20, ..raw(&format!("{PASS}{HEAD}\nbegin\n")) };
    let Read::Mail(cut) = super::mail(&cut, 7, &settings(&json!({}))) else { panic!() };
    assert!(cut.text.starts_with("begin\n[mail of 90 MB"), "{}", cut.text);
}
