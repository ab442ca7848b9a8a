//! What others wrote judges ours: three clients log in to the strict server, and our client to a server.

use g2_fakes::peers::{Crabline, node, python};

use super::*;

/// Runs a judge to its end.
fn judged_by(judge: Option<Command>, script: &str) {
    let Some(mut judge) = judge else { return };
    let fake = Fake::start();
    let path = format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR"));
    let judged = judge.args([&path, &fake.url, TOKEN]).output().unwrap();
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
}

#[test]
fn aiogram_finds_a_telegram_server() {
    judged_by(python("telegram", "aiogram"), "aiogram_judge.py");
}

#[test]
fn python_telegram_bot_finds_a_telegram_server() {
    judged_by(python("telegram", "python-telegram-bot"), "ptb_judge.py");
}

#[test]
fn grammy_finds_a_telegram_server() {
    judged_by(node("grammy"), "grammy_judge.mjs");
}

fn hears(crabline: &Crabline, text: &str) {
    let said = json!({"chatId": ADA, "text": text, "senderId": ADA.to_string(), "senderName": "Ada"});
    let answer = crabline.hears("telegram", &said);
    assert_eq!(answer["ok"], true, "{answer}");
}

#[test]
fn a_server_that_others_wrote_takes_our_client_for_a_bot() {
    let Some(crabline) = Crabline::start("telegram", None, TOKEN) else { return };
    let fake = Fake::at(crabline.word("baseUrl").to_owned());
    let (mut account, hello) = Account::polling(&fake);
    assert!(hello.myself.handle.starts_with('@'));
    hears(&crabline, "one");
    let event = account.event();
    assert_eq!((event.chat.as_str(), event.text.as_str()), ("tg:12345", "one"));
    let spans = json!([{"at": 3, "len": 4, "is": "bold"}]);
    let buttons = json!([[{"label": "Yes", "press": "y"}]]);
    let sent = account
        .send(ADA, json!({"text": "😀 bold", "spans": spans, "buttons": buttons, "reply_to": event.id}));
    let id = sent.ids.unwrap().remove(0);
    assert_eq!(account.amend(ADA, &id, json!({"text": "changed", "buttons": []})).ids, Some(vec![]));
    assert_eq!(account.amend(ADA, &id, json!({"react": "👀"})).ids, Some(vec![]));
    std::fs::write(account.home.path().join("spool/out/1"), b"a picture").unwrap();
    for (kind, mime) in
        [("image", "image/png"), ("document", "text/plain"), ("video", "video/mp4"), ("audio", "audio/mpeg")]
    {
        let file = json!([{"file": "out/1", "kind": kind, "mime": mime, "name": "z"}]);
        let done = account.send(ADA, json!({"text": "with words", "attachments": file}));
        assert!(done.ids.is_some(), "{kind}: {done:?}");
    }
    assert_eq!(account.amend(ADA, &id, json!({"delete": true})).ids, Some(vec![]));
    // What was not stored before a kill comes again, and what was does not.
    hears(&crabline, "two");
    hears(&crabline, "three");
    assert_eq!(account.event().text, "two");
    let mut account = account.killed(&fake);
    assert_eq!(account.event().text, "three");
}
