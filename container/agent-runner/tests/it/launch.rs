//! From the launch document to the first turn.

use std::io::Write;

use ipc_handlers::wire::Kind;
use serde_json::{Value, json};

use crate::fixture::{Home, launch};

#[test]
fn without_a_script_the_last_message_is_echoed_and_close_ends_the_run() {
    let home = Home::new();
    let runner = home.launch(&launch("a <b> & \"c\" é 🦀", None)).ready();
    let record = runner.record();
    assert_eq!(record.result.as_deref(), Some("echo: a <b> & \"c\" é 🦀"));
    assert_eq!((record.seq, record.handled), (Some(2), vec!["1".to_owned()]));
    assert!(runner.raw().is_ascii());
    home.close();
    assert!(runner.end().success());
    assert!(home.names("ipc/input").is_empty());
}

#[test]
fn a_session_that_is_known_at_the_start_is_named_by_ready() {
    let home = Home::new();
    let runner = home.launch(&launch("x", None));
    let ready = runner.any_record();
    assert_eq!((ready.kind, ready.new_session_id.as_deref()), (Kind::Ready, Some("scripted-7")));
}

#[test]
fn the_session_is_kept_or_begun_and_said_with_each_result() {
    let home = Home::new();
    let runner = home.launch(&launch("x", None)).ready();
    assert_eq!(runner.record().new_session_id.as_deref(), Some("scripted-7"));
    let mut resumed = launch("x", None);
    resumed["sessionId"] = "abc-1".into();
    let runner = home.launch(&resumed).ready();
    assert_eq!(runner.record().new_session_id.as_deref(), Some("abc-1"));
}

#[test]
fn a_task_is_announced_as_one_and_its_end_is_a_record_without_text() {
    let home = Home::new();
    let mut task = launch("", Some(&json!([{"do": [{"say": "<{{text}}>"}]}])));
    task["prompt"] = "water the plants".into();
    task["isScheduledTask"] = true.into();
    task["batchId"] = "".into();
    let runner = home.launch(&task).ready();
    runner.says("<water the plants>", &[]);
    assert_eq!(runner.result(), (None, vec![]));
    home.close();
    assert!(runner.end().success());
}

#[test]
fn a_document_of_ten_megabytes_may_come_in_pieces_that_split_characters() {
    let home = Home::new();
    let text = "é🦀".repeat(10 << 20 >> 3);
    let document = launch(&text, None).to_string();
    let (runner, mut stdin) = home.start(|_| {});
    for piece in document.as_bytes().chunks(100_001) {
        stdin.write_all(piece).unwrap();
    }
    drop(stdin);
    let runner = runner.ready();
    assert_eq!(runner.result(), (Some(format!("echo: {text}")), vec!["1".to_owned()]));
}

#[test]
fn a_document_that_is_none_is_answered_with_an_error_and_exit_code_1() {
    let whole = launch("x", None).to_string();
    let mut no_prompt = launch("x", None);
    no_prompt.as_object_mut().unwrap().remove("prompt");
    let mut provider = launch("x", None);
    provider["provider"] = json!({"name": "other"});
    for document in
        ["", "null", "[1", &whole[..whole.len() / 2], &no_prompt.to_string(), &provider.to_string()]
    {
        let home = Home::new();
        let (runner, mut stdin) = home.start(|_| {});
        stdin.write_all(document.as_bytes()).unwrap();
        drop(stdin);
        let error = runner.error();
        assert!(error.contains("launch document"), "{document}: {error}");
        assert_eq!(runner.end().code(), Some(1), "{document}");
    }
}

#[test]
fn a_document_that_is_not_utf_8_is_answered_with_an_error() {
    let home = Home::new();
    let (runner, mut stdin) = home.start(|_| {});
    stdin.write_all(b"{\"prompt\": \"\xff\"}").unwrap();
    drop(stdin);
    runner.error();
    assert_eq!(runner.end().code(), Some(1));
}

#[test]
fn fields_that_are_not_known_are_ignored() {
    let home = Home::new();
    let mut document = launch("x", None);
    document["surprise"] = Value::Null;
    home.launch(&document).ready().says("echo: x", &["1"]);
}

#[test]
fn a_mailbox_that_is_not_there_is_named() {
    let home = Home::new();
    let runner = home.launch_with(&launch("x", None), |command| {
        command.env("G2_IPC_DIR", home.path("nowhere"));
    });
    let error = runner.error();
    assert!(error.contains("nowhere/input") && error.contains("is it mounted?"), "{error}");
    assert_eq!(runner.end().code(), Some(1));
}
