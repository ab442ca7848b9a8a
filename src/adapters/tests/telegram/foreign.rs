//! What others wrote judges ours: three clients log in to the strict server, and our client to a server.

use g2_fakes::{
    adapter::Adapter,
    peers::{Crabline, node, python},
};

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

/// The adapter of the bot, and a chat with Ada, at a server.
fn does_all(url: &str, hears: &dyn Fn(&str)) {
    let account =
        json!({"instance": "telegram", "prefix": "tg", "config": {"token": TOKEN}, "upstream": url});
    let mut adapter = Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account);
    adapter.ready();
    let chat = &format!("tg:{ADA}");
    suite::does_all(suite::Platform { adapter, chat, hears, forgets: false });
}

#[test]
fn the_adapter_does_all_on_our_own_server() {
    let fake = Fake::start();
    does_all(&fake.url, &|text| drop(fake.text(ADA, text)));
}

#[test]
fn the_adapter_does_all_on_a_server_that_others_wrote() {
    let Some(crabline) = Crabline::start("telegram", None, TOKEN) else { return };
    does_all(crabline.word("baseUrl"), &|text| {
        let said = json!({"chatId": ADA, "text": text, "senderId": ADA.to_string(), "senderName": "Ada"});
        let answer = crabline.hears("telegram", &said);
        assert_eq!(answer["ok"], true, "{answer}");
    });
}
