//! Ways to go wrong that only the fake can be made to take.

use ipc_handlers::wire::Status;
use serde_json::json;

use super::cli::{Cli, Stage};

fn fails(fault: &str, kind: &str) -> String {
    let stage = Stage::new(&Cli::fake(), &json!(["never seen"]))
        .with(|provider| provider["env"]["FAKE_FAULT"] = fault.into());
    let runner = stage.run("a");
    let record = loop {
        let record = runner.record();
        assert_eq!(record.result, None, "{fault}");
        if record.status == Status::Error {
            break record;
        }
    };
    assert_eq!(runner.end().code(), Some(1), "{fault}");
    let error = record.error.unwrap();
    assert!(error.starts_with(&format!("claude/{kind}: ")), "{fault}: {error}");
    error
}

#[test]
fn a_cli_that_dies_in_the_middle_is_reported_with_its_last_words() {
    let error = fails("dies", "exited");
    assert!(error.contains("something terrible") && error.contains('3'), "{error}");
}

#[test]
fn a_cli_that_ends_without_a_word_does_not_start() {
    fails("no_result", "start");
}

#[test]
fn tools_that_are_not_connected_are_reported() {
    fails("tools", "tools");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let stage =
        Stage::new(&Cli::fake(), &json!([])).with(|provider| provider["path"] = "/no/such/claude".into());
    let runner = stage.run("a");
    let error = runner.error();
    assert!(error.starts_with("claude/start: ") && error.contains("/no/such/claude"), "{error}");
    assert_eq!(runner.end().code(), Some(1));
}

#[test]
fn lines_that_are_not_known_or_not_json_cost_nothing() {
    let stage = Stage::new(&Cli::fake(), &json!(["fine"]))
        .with(|provider| provider["env"]["FAKE_FAULT"] = "garbage".into());
    stage.run("a").ready().says("fine", &["1"]);
}

#[test]
fn a_cli_that_was_killed_in_the_middle_of_a_turn_leaves_its_batch_unhandled() {
    let kill = json!({"tool_use": {"name": "Bash", "input": {"command": "kill -9 $PPID"}}});
    let runner = Stage::new(&Cli::fake(), &json!([kill])).run("a").ready();
    // Passes over an error that names no batch.
    assert!(runner.error().starts_with("claude/exited: "));
    assert_eq!(runner.end().code(), Some(1));
}

#[test]
fn a_folder_that_the_cli_can_t_write_to_is_named() {
    // Not even root can write there.
    for (name, at) in [("CLAUDE_CONFIG_DIR", "/proc/self"), ("TMPDIR", "/proc/self/task")] {
        let stage = Stage::new(&Cli::fake(), &json!(["never seen"]))
            .with(|provider| provider["env"][name] = at.into());
        let runner = stage.run("a");
        let error = runner.error();
        assert!(error.starts_with("claude/start: the agent can't write to /proc/self"), "{error}");
        assert_eq!(error.contains("TMPDIR"), name == "TMPDIR", "{error}");
        assert_eq!(runner.end().code(), Some(1));
    }
}

#[test]
fn a_home_that_is_a_file_is_named() {
    let stage = Stage::new(&Cli::fake(), &json!(["never seen"]));
    std::fs::create_dir(stage.home.path("home")).unwrap();
    stage.home.put("home/.claude", "no folder");
    let error = stage.run("a").error();
    assert!(error.contains("home/.claude, where it keeps its sessions"), "{error}");
}
