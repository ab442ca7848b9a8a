//! The conversation outlives its container and its daemon, and ends when it is cleared.
#![expect(clippy::disallowed_methods, reason = "tests look at what the agent keeps")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::fs::PermissionsExt as _};

use rusqlite::Connection;
use serde_json::json;

use super::house::{CHAT, House, conversation, tool, until_go};
use crate::support::{run_docker, wait_for};

const KEPT: &str = "sessions/main/.claude/projects/-workspace-group";

/// The ids of the main group's conversations, as the agent keeps them.
fn transcripts(house: &House) -> Vec<String> {
    let folder = house.data(KEPT);
    let names = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect();
    ids.sort();
    ids
}

#[test]
fn a_conversation_goes_on_after_everything_was_restarted_and_begins_anew_when_it_is_cleared() {
    let mut clear = tool("clear_session", &json!({}));
    clear["when"] = json!({"last_user": "forget", "tool_result": false});
    let after = json!({"when": {"last_user": "forget", "tool_result": true}, "text": "forgotten"});
    let Some(house) = House::new("", &json!(["one", "two", clear, after, "three"])) else { return };
    let daemon = house.serve();
    assert_eq!(house.ask(CHAT, "what is first?"), "one\n");
    // The agent writes it down a moment after it was said.
    let first =
        wait_for("the conversation's file", || Some(transcripts(&house)).filter(|found| !found.is_empty()));
    let kept = house.data(&format!("{KEPT}/{}.jsonl", first[0]));
    wait_for("the answer to be kept", || {
        fs::read_to_string(&kept).unwrap().contains("\"one\"").then_some(())
    });
    assert_eq!(daemon.terminate(), Some(0));
    run_docker(&["rm", "--force", &house.container()]);

    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "what is next?"), "two\n");
    assert_eq!(transcripts(&house), first, "the same session");
    let told = conversation(&house.model.asked()[1]);
    assert!(told.contains("what is first?") && told.contains("\"one\""), "{told}");

    house.send(CHAT, "forget");
    wait_for("the container to leave", || house.containers().is_empty().then_some(()));
    assert_eq!(house.ask(CHAT, "what was first?"), "three\n");
    wait_for("a session of its own", || (transcripts(&house).len() == 2).then_some(()));
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("what was first?") && !told.contains("what is"), "{told}");
}

#[test]
fn a_conversation_that_rested_for_two_months_goes_on_and_the_cli_removes_no_transcript_by_itself() {
    let Some(house) = House::new("", &json!(["one", "two", "three"])) else { return };
    let daemon = house.serve();
    assert_eq!(house.ask(CHAT, "what is first?"), "one\n");
    let kept = wait_for("the conversation's file", || {
        let path = house.data(&format!("{KEPT}/{}.jsonl", transcripts(&house).first()?));
        fs::read_to_string(&path).unwrap().contains("\"one\"").then_some(path)
    });
    assert_eq!(daemon.terminate(), Some(0));
    run_docker(&["rm", "--force", &house.container()]);
    let another = kept.with_file_name("33333333-3333-4333-8333-333333333333.jsonl");
    fs::copy(&kept, &another).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(60 * 24);
    for path in [&kept, &another] {
        fs::File::open(path).unwrap().set_times(fs::FileTimes::new().set_modified(long_ago)).unwrap();
    }
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "what is next?"), "two\n");
    let told = conversation(&house.model.asked()[1]);
    assert!(told.contains("what is first?") && told.contains("\"one\""), "{told}");
    house.g2(&["groups", "restart", "main"]);
    wait_for("the container to leave", || house.containers().is_empty().then_some(()));
    assert!(another.exists() && kept.exists(), "{:?}", transcripts(&house));
}

const BEGINS_ANEW: &str = "I could not go on with our conversation, so I begin a new one. I can see the last messages of the old one.";

/// What the model was told last: of the conversation so far by a summary, in a session of its own.
#[track_caller]
fn summed_up(house: &House, earlier: &str) {
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("<earlier_conversation ") && told.contains(earlier), "{told}");
}

#[test]
fn a_session_that_the_cli_can_not_resume_is_followed_by_a_fresh_one_with_a_summary() {
    let settings = "[agent.claude]\npath = \"/workspace/group/cli\"\n";
    let Some(house) = House::new(settings, &json!(["nice to meet you", "you are Bob", "still Bob"])) else {
        return;
    };
    let cli = house.path().join("groups/main/cli");
    let program =
        "#!/bin/sh\nif [ -e broken ]; then case \"$*\" in *resume*) exit 3;; esac; fi\nexec claude \"$@\"\n";
    fs::write(&cli, program).unwrap();
    fs::set_permissions(&cli, fs::Permissions::from_mode(0o755)).unwrap();
    let _daemon = house.serve();
    house.ask(CHAT, "my name is Bob");
    let broken = house.path().join("groups/main/broken");
    fs::write(&broken, "").unwrap();
    house.g2(&["groups", "restart", "main"]);
    house.send(CHAT, "who am I?");
    assert_eq!(house.has_said(3), ["nice to meet you", BEGINS_ANEW, "you are Bob"]);
    summed_up(&house, "my name is Bob");
    // The new session is one like any.
    fs::remove_file(&broken).unwrap();
    house.g2(&["groups", "restart", "main"]);
    house.ask(CHAT, "and now?");
    let told = conversation(house.model.asked().last().unwrap());
    assert!(told.contains("you are Bob") && told.contains("and now?"), "{told}");
    assert_eq!(house.said(CHAT).len(), 4);
}

#[test]
fn a_transcript_that_is_damaged_is_in_no_messages_way() {
    for damage in ["", "not a transcript\n", "{\"type\":\"user\"}\n"] {
        let Some(house) = House::new("", &json!(["one", {"text": "two", "times": -1}])) else { return };
        let _daemon = house.serve();
        house.ask(CHAT, "first");
        let kept = wait_for("the transcript", || transcripts(&house).pop());
        house.g2(&["groups", "restart", "main"]);
        wait_for("the container to leave", || house.containers().is_empty().then_some(()));
        fs::write(house.data(&format!("{KEPT}/{kept}.jsonl")), damage).unwrap();
        house.send(CHAT, "second");
        wait_for("the answer", || (house.said(CHAT).last().is_some_and(|text| text == "two")).then_some(()));
    }
}

#[test]
fn a_container_that_dies_three_times_is_told_of_and_its_message_is_answered_in_a_fresh_session() {
    let Some(house) = House::new("", &json!(["one", until_go(), until_go(), until_go(), "answered"])) else {
        return;
    };
    let _daemon = house.serve();
    house.ask(CHAT, "first");
    let seq = house.send(CHAT, "second");
    for asked in 2..=4 {
        wait_for("the model to be asked", || (house.model.asked().len() == asked).then_some(()));
        house.at_work("Bash");
        run_docker(&["kill", &house.container()]);
    }
    let said = house.has_said(3);
    assert!(
        said[1].starts_with("I crashed three times within 15 minutes, so I begin a new conversation."),
        "{said:?}"
    );
    assert_eq!(said[2], "answered");
    summed_up(&house, "first");
    let woken = house.why(seq)["wirings"][0]["woken"].to_string();
    assert!(woken.contains("in a fresh session with a summary: its runs died three times"), "{woken}");
}

#[test]
fn a_conversation_that_was_silent_for_long_goes_on_in_a_fresh_session_where_the_settings_say_so() {
    let Some(house) = House::new("[health]\nfresh_after_hours = 12\n", &json!(["one", "two"])) else {
        return;
    };
    let daemon = house.serve();
    house.ask(CHAT, "first");
    // An answer is said before its turn is over; a turn that is cut off there was active until it was found.
    wait_for("the turn to be over", || {
        let store = Connection::open(house.data("g2.sqlite")).unwrap();
        let over = "SELECT count(*) FROM batches WHERE ended_at IS NOT NULL";
        (store.query_row(over, [], |row| row.get(0)) == Ok(1)).then_some(())
    });
    assert_eq!(daemon.terminate(), Some(0));
    run_docker(&["rm", "--force", &house.container()]);
    // Its run had nothing in hand for longer than that when it was found dead.
    house.change_store(
        "UPDATE batches SET handed_at = handed_at - 13 * 3600000, ended_at = ended_at - 13 * 3600000",
    );
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "second"), "two\n");
    summed_up(&house, "first");
    assert_eq!(house.said(CHAT), ["one", "two"], "nobody is told");
    wait_for("a session of its own", || (transcripts(&house).len() == 2).then_some(()));
}
