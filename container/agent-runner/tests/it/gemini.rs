//! The provider `acp` with Gemini CLI (`gemini --experimental-acp`) in front of a scripted model.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use ipc_handlers::wire::{Kind, Record};
use serde_json::{Value, json};

use crate::{
    claude::cli::{Cli, Stage},
    fixture::{Runner, go_on},
};

/// The model's place, and what it was asked.
struct Model {
    child: Child,
    port: u64,
    log: PathBuf,
}

impl Model {
    fn new(script: &Value, log: PathBuf) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/scripted_gemini.py");
        let mut child = Command::new("python3")
            .args([program, &script.to_string()])
            .arg(&log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = serde_json::from_str::<Value>(&line).unwrap()["port"].as_u64().unwrap();
        Self { child, port, log }
    }

    /// What the newest turn was asked with.
    fn asked(&self) -> String {
        fs::read_to_string(&self.log).unwrap().lines().last().unwrap().to_owned()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the agent keeps its things.
const HOME: &str = "home/.claude/acp/.gemini";

/// What the agent must have in its home: otherwise its next start removes each session that it has gone on with once.
const SETTINGS: &str = r#"{"general": {"sessionRetention": {"enabled": false}}}"#;

/// Returns a stage with the real agent, from where `peers.sh` puts it; says so where it is not there, unless
/// `G2_REQUIRE_ACP=1`.
fn stage(script: &Value, refuse: &[&str]) -> Option<(Stage, Model)> {
    let target = Path::new(env!("CARGO_BIN_EXE_g2-agent")).ancestors().nth(2).unwrap();
    let peers = env::var_os("G2_ACP_PEERS").map_or_else(|| target.join("peers/acp"), PathBuf::from);
    let program = peers.join("node_modules/.bin/gemini");
    if !program.exists() {
        assert!(env::var_os("G2_REQUIRE_ACP").is_none(), "{} is required", program.display());
        eprintln!("SKIPPED: {} is not there; src/adapters/tests/peers.sh installs it", program.display());
        return None;
    }
    let stage = Stage::new(&Cli::fake(), &json!([]));
    fs::create_dir_all(stage.home.path(HOME)).unwrap();
    fs::write(stage.home.path(format!("{HOME}/settings.json")), SETTINGS).unwrap();
    let model = Model::new(script, stage.home.path("asked"));
    let env = json!({
        "GEMINI_API_KEY": "placeholder",
        "GOOGLE_GEMINI_BASE_URL": format!("http://127.0.0.1:{}", model.port),
        // The CLI stays one process, and the runner ends that one.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    });
    let provider = json!({
        "name": "acp",
        "command": [program, "--experimental-acp"],
        "env": env,
        "authMethod": "gemini-api-key",
        "refuse": refuse,
        "timezone": "Europe/Berlin",
    });
    Some((stage.with(|all| *all = provider), model))
}

fn shell(command: &str) -> Value {
    json!({"call": {"name": "run_shell_command", "args": {"command": command, "description": "a test"}}})
}

/// Returns the next answer or error, and what was noted before it.
fn next(runner: &Runner) -> (Record, String) {
    let mut noted = String::new();
    loop {
        let record = runner.record();
        if record.kind != Kind::Progress {
            return (record, noted);
        }
        noted.push_str(&record.result.unwrap_or_default());
    }
}

/// Moves the beginning of each session to another minute, by its file's name. The agent empties a session that it loads in
/// the minute of its beginning.
fn let_time_pass(stage: &Stage) {
    let chats = stage.home.path(format!("{HOME}/tmp/group/chats"));
    for entry in fs::read_dir(chats).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let id = name.rsplit_once('-').unwrap().1;
        fs::rename(&path, path.with_file_name(format!("session-2024-01-01T00-00-{id}"))).unwrap();
    }
}

#[test]
fn turns_are_answered_and_the_session_is_gone_on_with() {
    let Some((stage, model)) = stage(&json!(["one", "two", "three", "four"]), &[]) else { return };
    let runner = stage.run("a").ready();
    let (first, _) = next(&runner);
    assert_eq!((first.result.as_deref(), &first.handled[..]), (Some("one"), &["1".to_owned()][..]));
    let session = first.new_session_id.expect("a session that a later run can go on with");
    stage.home.follow_up("2", "b");
    runner.says("two", &["2"]);
    stage.home.close();
    assert!(runner.end().success());
    let_time_pass(&stage);
    let runner = stage.run_with("c", |launch| go_on(launch, &session)).ready();
    let third = next(&runner).0;
    assert_eq!((third.result.as_deref(), third.new_session_id.as_ref()), (Some("three"), Some(&session)));
    let asked = model.asked();
    for text in ["a", "b", "c"] {
        assert!(asked.contains(&format!(">{text}</message>")), "the conversation is whole: {asked}");
    }
    assert!(!asked.contains("said before"), "{asked}");
    stage.home.close();
    assert!(runner.end().success());
    // What its own cleaning, or a load too early, leaves of a session.
    fs::remove_dir_all(stage.home.path(format!("{HOME}/tmp"))).unwrap();
    let runner = stage.run_with("d", |launch| go_on(launch, &session)).ready();
    let (fourth, noted) = next(&runner);
    assert_eq!(fourth.result.as_deref(), Some("four"));
    assert!(noted.contains("a fresh one begins") && fourth.new_session_id != Some(session), "{noted}");
    let asked = model.asked();
    assert!(asked.contains("said before") && asked.contains(">d</message>"), "{asked}");
}

#[test]
fn a_tool_that_the_rules_refuse_does_not_run_and_any_other_does() {
    for (refuse, runs) in [(&["execute"][..], false), (&[], true)] {
        let Some((stage, model)) = stage(&json!([shell("touch it-ran"), "done"]), refuse) else { return };
        let runner = stage.run("a").ready();
        let (answer, noted) = next(&runner);
        assert_eq!(answer.kind, Kind::Result, "{answer:?}");
        assert_eq!(stage.home.path("group/it-ran").exists(), runs, "{refuse:?} {noted}");
        assert_eq!(noted.contains("was refused"), !runs, "{refuse:?} {noted}");
        if runs {
            assert_eq!(answer.result.as_deref(), Some("done"));
            assert!(model.asked().contains("functionResponse"), "{}", model.asked());
        }
    }
}
