//! The conversation outlives its container and its daemon, and ends when it is cleared.
#![expect(clippy::disallowed_methods, reason = "tests look at what the agent keeps")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use serde_json::json;

use super::house::{CHAT, House, conversation, tool};
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
