//! Tasks that look first whether there is anything to do.

use serde_json::{Value, json};

use crate::fixture::{Home, launch};

fn task(script: &str) -> Value {
    let mut task = launch("", None);
    task["prompt"] = "tidy up".into();
    task["isScheduledTask"] = true.into();
    task["script"] = script.into();
    task["batchId"] = "".into();
    task
}

#[test]
fn a_script_that_sees_nothing_to_do_ends_the_run_without_the_agent() {
    let home = Home::new();
    let runner = home.launch(&task(r#"echo '{"wakeAgent": false}'"#)).ready();
    assert_eq!(runner.result(), (None, vec![]));
    assert!(runner.end().success());
}

#[test]
fn a_script_that_fails_ends_the_run_without_the_agent_and_says_why() {
    for (script, why) in [("exit 1", "the task script failed: exit status: 1"), ("echo hello", "hello")] {
        let home = Home::new();
        let runner = home.launch(&task(script)).ready();
        let error = runner.error();
        assert!(error.contains(why), "{script}: {error}");
        runner.end();
    }
}

#[test]
fn without_bash_the_task_has_failed() {
    let home = Home::new();
    let runner = home.launch_with(&task("true"), |command| {
        command.env("PATH", "/nowhere");
    });
    let runner = runner.ready();
    let error = runner.error();
    assert!(error.starts_with("starting bash for the task script failed"), "{error}");
    runner.end();
}

#[test]
fn what_the_script_found_comes_before_the_instructions() {
    let home = Home::new();
    let script = r#"echo "{\"wakeAgent\": true, \"data\": {\"here\": \"$(basename "$PWD")\"}}""#;
    let runner = home.launch(&task(script)).ready();
    runner.says("echo: Script output:\n{\n  \"here\": \"group\"\n}\n\nInstructions:\ntidy up", &[]);
    assert_eq!(runner.result(), (None, vec![]));
}

#[test]
fn a_script_is_for_tasks_only() {
    let home = Home::new();
    let mut document = launch("hi", None);
    document["script"] = json!("exit 1");
    home.launch(&document).ready().says("echo: hi", &["1"]);
}
