//! `g2 setup`: from nothing to a first answer, by hand and by flags, without Docker and with it, and killed at each step.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::{
    gateway::host::{Host, response},
    support::{Terminal, docker, fail_points, run_docker, wait_for},
};

const NO_DOCKER: &str = "unix:///nowhere/docker.sock";

/// A user who has nothing yet.
struct Newcomer {
    home: tempfile::TempDir,
}

impl Newcomer {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("g2")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_default()
    }

    /// `g2 setup` without Docker and systemd.
    fn setup(&self, words: &[&str]) -> Command {
        self.command(&[&["setup", "--service", "no"], words].concat())
    }

    /// `g2` without Docker and systemd.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
        command.args(words).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.home.path());
        command.env("G2_ROOT", self.root()).env("DOCKER_HOST", NO_DOCKER).stdin(Stdio::null());
        command
    }

    fn key_file(&self, key: &str) -> String {
        let path = self.home.path().join("key.txt");
        fs::write(&path, format!("{key}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The states of all steps, by their names.
fn states(output: &Output) -> Vec<(String, String)> {
    let rows: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter().map(|row| (word(row, "step"), word(row, "state"))).collect()
}

fn state(output: &Output, step: &str) -> String {
    states(output).into_iter().find(|(name, _)| name == step).unwrap().1
}

fn detail(output: &Output, step: &str) -> String {
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let row = rows.iter().find(|row| row["step"] == step).unwrap();
    format!("{} {}", row["detail"], row["fix"])
}

#[test]
fn from_nothing_to_an_answer_without_docker_and_the_second_time_only_the_answer_is_new() {
    let newcomer = Newcomer::new();
    let first = newcomer.setup(&["--yes", "--json", "--tz", "Asia/Tokyo"]).output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let steps: Vec<String> = states(&first).into_iter().map(|(step, _)| step).collect();
    assert_eq!(
        steps,
        ["root", "engine", "image", "key", "time zone", "channel", "service", "answer", "owner"]
    );
    assert_eq!((state(&first, "root"), state(&first, "time zone")), ("done".into(), "done".into()));
    assert!(detail(&first, "answer").contains("echo: Hello"), "{first:?}");
    assert!(newcomer.text("g2.toml").contains("timezone = \"Asia/Tokyo\"\n"));

    let second = newcomer.setup(&["--yes"]).output().unwrap();
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    assert!(said.contains("Asia/Tokyo") && !said.contains("is laid out"), "{said}");
    assert!(said.contains("8/9  answer     echo: Hello") && said.contains("All is set up"), "{said}");
}

#[test]
fn without_a_terminal_nothing_is_asked_and_nothing_done() {
    let newcomer = Newcomer::new();
    let output = newcomer.setup(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!newcomer.root().exists());
}

#[test]
fn what_was_asked_for_and_is_missing_is_the_last_line() {
    let newcomer = Newcomer::new();
    let output = newcomer.setup(&["--yes", "--engine", "docker"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("Missing: engine: ") && last.contains("apt-get install docker.io"), "{said}");
    assert!(said.contains("echo: Hello"), "the rest goes on: {said}");

    let output = newcomer.setup(&["--yes", "--json", "--tz", "Asia/Tokio"]).output().unwrap();
    assert_eq!((output.status.code(), state(&output, "time zone")), (Some(1), "missing".into()));
    assert!(detail(&output, "time zone").contains("did you mean Asia/Tokyo"), "{output:?}");
}

#[test]
fn a_key_is_tried_with_one_request_and_kept_for_its_owner_alone() {
    const KEY: &str = "sk-ant-api03-planted";
    let newcomer = Newcomer::new();
    let file = newcomer.key_file(KEY);
    let words = ["--yes", "--json", "--key-file", &file, "--patience", "1"];

    let refusing = Host::always(response("401 Unauthorized", "", "{}"));
    let output = newcomer.setup(&words).env("ANTHROPIC_BASE_URL", refusing.url()).output().unwrap();
    assert_eq!((output.status.code(), state(&output, "key")), (Some(1), "missing".into()), "{output:?}");
    assert!(detail(&output, "key").contains("401") && newcomer.text(".env").is_empty(), "{output:?}");
    assert!(!newcomer.text("g2.toml").contains("\"claude\" #"), "the agent is the built-in one");

    let taking = Host::always(response("200 OK", "", "{}"));
    let output = newcomer.setup(&words).env("ANTHROPIC_BASE_URL", taking.url()).output().unwrap();
    assert_eq!(state(&output, "key"), "done", "{output:?}");
    let asked = taking.one();
    assert!(asked.head.starts_with("get /v1/models?limit=1 "), "{}", asked.head);
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    assert_eq!(newcomer.text(".env"), format!("ANTHROPIC_API_KEY={KEY}\n"));
    let mode = fs::metadata(newcomer.root().join(".env")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(newcomer.text("g2.toml").contains("\nprovider = \"claude\""));
    for shown in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(shown).contains(KEY), "{output:?}");
    }
    // Claude Code runs in containers only: the one thing that is missing.
    assert_eq!(state(&output, "answer"), "missing");
    assert!(detail(&output, "answer").contains("Docker"), "{output:?}");
}

#[test]
fn a_person_is_asked_step_by_step_and_a_key_that_is_typed_is_not_shown() {
    let newcomer = Newcomer::new();
    let taking = Host::always(response("200 OK", "", "{}"));
    let mut terminal = Terminal::open();
    let mut command = newcomer.setup(&["--key-file", "-", "--patience", "1"]);
    command.env("ANTHROPIC_BASE_URL", taking.url());
    let mut child = terminal.start(command);
    terminal.until("Make it?");
    terminal.until("[y] ");
    terminal.keys("what\n");
    terminal.until("type one of y, s");
    terminal.until("[y] ");
    terminal.keys("\n");
    terminal.until("is laid out");
    terminal.until("Key: ");
    terminal.keys("sk-ant-api03-typed\n");
    let shown = terminal.until("ANTHROPIC_API_KEY is kept");
    assert!(!shown.contains("typed"), "{shown}");
    terminal.until("[y] ");
    terminal.keys("Europe/Paris\n");
    terminal.until("Europe/Paris");
    terminal.until("telegram");
    terminal.until("[s] ");
    terminal.keys("\n");
    terminal.until("Missing: answer");
    let ended = wait_for("the set-up to end", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
    assert!(terminal.is_plain());
    assert!(newcomer.text("g2.toml").contains("timezone = \"Europe/Paris\""));
}

#[test]
fn without_a_root_nothing_else_is_set_up() {
    let newcomer = Newcomer::new();
    let mut terminal = Terminal::open();
    let mut child = terminal.start(newcomer.setup(&[]));
    terminal.until("[y] ");
    terminal.keys("s\n");
    terminal.until("Missing: root");
    let ended = wait_for("the set-up to end", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
    assert!(!newcomer.root().exists());
}

#[test]
fn a_terminal_shows_keys_again_after_somebody_gave_up_over_a_secret() {
    let newcomer = Newcomer::new();
    let mut terminal = Terminal::open();
    let mut child = terminal.start(newcomer.setup(&["--yes", "--key-file", "-"]));
    terminal.until("Key: ");
    assert!(!terminal.is_plain());
    terminal.keys("sk-ant\u{3}");
    terminal.until("Key was not given");
    wait_for("the set-up to end", || child.try_wait().unwrap());
    assert!(terminal.is_plain() && newcomer.text(".env").is_empty());
}

#[test]
fn the_doctor_tries_the_key_of_a_root_where_it_is_asked_to() {
    let newcomer = Newcomer::new();
    assert!(newcomer.command(&["init"]).output().unwrap().status.success());
    fs::write(newcomer.root().join(".env"), "ANTHROPIC_API_KEY=sk-ant-api03-planted\n").unwrap();
    for (answer, status, exit) in [("200 OK", "ok", None), ("401 Unauthorized", "fail", Some(1))] {
        let host = Host::always(response(answer, "", "{}"));
        let mut doctor = newcomer.command(&["--json", "doctor", "--online"]);
        let output = doctor.env("ANTHROPIC_BASE_URL", host.url()).output().unwrap();
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let key = rows.iter().find(|row| row["check"] == "key").unwrap();
        assert_eq!(key["status"], status, "{key}");
        assert!(exit.is_none() || output.status.code() == exit, "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("planted"));
    }
}

#[test]
fn killed_after_any_step_it_goes_on_where_it_stood() {
    if !fail_points() {
        return;
    }
    let taking = Host::always(response("200 OK", "", "{}"));
    for point in ["setup.root", "setup.key", "setup.provider", "setup.zone"] {
        let newcomer = Newcomer::new();
        let file = newcomer.key_file("sk-ant-api03-k");
        let setup = || {
            let mut command = newcomer.setup(&[
                "--yes",
                "--json",
                "--key-file",
                &file,
                "--tz",
                "Asia/Tokyo",
                "--patience",
                "1",
            ]);
            command.env("ANTHROPIC_BASE_URL", taking.url());
            command
        };
        let killed = setup().env("G2_FAILPOINT", point).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{point}: {killed:?}");
        let output = setup().output().unwrap();
        assert_eq!(newcomer.text(".env"), "ANTHROPIC_API_KEY=sk-ant-api03-k\n", "{point}");
        let toml = newcomer.text("g2.toml");
        assert_eq!(toml.matches("\nprovider = \"claude\"").count(), 1, "{point}");
        assert_eq!(toml.matches("\ntimezone = \"Asia/Tokyo\"").count(), 1, "{point}");
        let missing: Vec<String> = states(&output)
            .into_iter()
            .filter(|(_, state)| state == "missing")
            .map(|(step, _)| step)
            .collect();
        assert_eq!(missing, ["answer"], "{point}: {output:?}");
        let left: Vec<String> = fs::read_dir(newcomer.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".new"))
            .collect();
        assert!(left.is_empty(), "{point}: {left:?}");
    }
}

#[test]
fn without_the_adapters_the_command_that_brings_them_is_named_and_nothing_is_written() {
    let newcomer = Newcomer::new();
    assert!(newcomer.command(&["init"]).output().unwrap().status.success());
    let (alone, token) = (newcomer.home.path().join("alone"), newcomer.key_file("123:t"));
    fs::create_dir(&alone).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_g2"), alone.join("g2")).unwrap();
    let add = Command::new(alone.join("g2"))
        .args(["channels", "add", "telegram", "--token-file", &token, "--no-check"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", newcomer.home.path())
        .env("G2_ROOT", newcomer.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&add.stderr);
    assert_eq!(add.status.code(), Some(1), "{add:?}");
    assert!(
        said.contains("no g2-channels beside g2") && said.contains("cargo install --path . --locked"),
        "{said}"
    );
    assert!(!newcomer.text("g2.toml").contains("channels.telegram"), "{said}");
    assert!(!newcomer.root().join("data/secrets/telegram.token").exists());
}

#[test]
fn killed_after_an_account_was_added_it_is_there_once() {
    if !fail_points() {
        return;
    }
    let newcomer = Newcomer::new();
    crate::support::adapters();
    let token = newcomer.key_file("123:telegram-token");
    let setup = || {
        newcomer.setup(&[
            "--yes",
            "--json",
            "--no-check",
            "--channel",
            "telegram",
            "--token-file",
            &token,
            "--patience",
            "60",
        ])
    };
    let killed = setup().env("G2_FAILPOINT", "setup.channel").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    for _ in 0..2 {
        let output = setup().output().unwrap();
        assert_eq!(state(&output, "channel"), "stands", "{output:?}");
        assert!(detail(&output, "answer").contains("echo: "), "{output:?}");
        let toml: toml::Table = newcomer.text("g2.toml").parse().unwrap();
        assert_eq!(toml["channels"].as_table().unwrap().keys().collect::<Vec<_>>(), ["telegram"]);
        assert_eq!(newcomer.text("data/secrets/telegram.token").trim(), "123:telegram-token");
        let secrets = fs::read_dir(newcomer.root().join("data/secrets")).unwrap().count();
        assert_eq!(secrets, 1, "no half of a token is left");
    }
}

#[test]
fn with_docker_the_image_is_built_and_its_agent_answers_also_after_a_kill() {
    if !docker() || !fail_points() {
        return;
    }
    let image = format!("g2-test-setup:{}", std::process::id());
    let newcomer = Newcomer::new();
    let setup = || {
        let mut command = newcomer.setup(&["--yes", "--json", "--patience", "120"]);
        command.env_remove("DOCKER_HOST").env("CONTAINER_IMAGE", &image);
        if let Some(host) = std::env::var_os("DOCKER_HOST") {
            command.env("DOCKER_HOST", host);
        }
        command
    };
    let killed = setup().env("G2_FAILPOINT", "setup.image").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    let output = setup().output().unwrap();
    run_docker(&["image", "rm", "--force", &image]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(state(&output, "image"), "stands", "it was built before the kill");
    assert!(detail(&output, "answer").contains("echo: Hello"), "{output:?}");
}
