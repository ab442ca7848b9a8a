//! Settings through the real program: refusals, the order of sources, and the place of the root.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::Root;

fn settings(root: &Root, text: &str) {
    fs::write(root.path().join("g2.toml"), text).unwrap();
}

#[test]
fn an_unknown_setting_is_refused_by_name_and_line() {
    let root = Root::new("");
    settings(&root, "[limits]\n\nmax_containers = 3\n");
    for command in ["serve", "up", "init"] {
        let output = root.run(&[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("max_containers") && said.contains("line 3"), "{said}");
    }
    // What needs no settings works all the same.
    assert!(root.run(&["groups", "list"]).status.success());
}

#[test]
fn a_setting_of_the_wrong_kind_or_value_is_refused_with_its_name() {
    let root = Root::new("");
    for (text, words) in [
        ("[sandbox]\nkind = \"podman\"\n", ["line 2", "podman"]),
        ("[limits]\nbatch_messages = \"many\"\n", ["line 2", "many"]),
        ("[agent]\nprovider = \"oracle\"\n", ["agent.provider", "oracle"]),
        ("[outbox]\non_unknown = \"maybe\"\n", ["outbox.on_unknown", "maybe"]),
        ("[limits\n", ["line 1", "g2.toml"]),
    ] {
        settings(&root, text);
        let output = root.run(&["serve"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{text}: {said}");
    }
}

fn trigger(root: &Root, environment: &[(&str, &str)], folder: &str) -> Value {
    let mut command = root.command(&["groups", "add", folder, "--chat", "tg:1"]);
    assert!(command.envs(environment.iter().copied()).output().unwrap().status.success());
    root.json(&["groups", "show", folder])["trigger"].clone()
}

#[test]
fn v1s_environment_names_win_over_the_file() {
    let root = Root::new("");
    assert_eq!(trigger(&root, &[], "a"), "@G2");
    settings(&root, "assistant_name = \"Bob\"\n");
    assert_eq!(trigger(&root, &[], "b"), "@Bob");
    assert_eq!(trigger(&root, &[("ASSISTANT_NAME", "Andy")], "c"), "@Andy");
    assert_eq!(trigger(&root, &[("ASSISTANT_NAME", "")], "d"), "@Bob");
}

#[test]
fn a_setting_that_the_environment_overrides_is_not_told_as_holding() {
    let root = Root::new("");
    let _daemon = root.serve_with(&[("LOG_LEVEL", "warn"), ("POLL_INTERVAL", "soon")]);
    let said = root.g2(&["config", "set", "log_level", "debug"]);
    assert!(said.contains("LOG_LEVEL in the environment wins") && !said.contains("at once"), "{said}");
    let said = root.json(&["config", "unset", "log_level"]);
    assert_eq!(
        (&said["takes"], &said["overridden_by"]),
        (&"restart".into(), &"LOG_LEVEL in the environment".into())
    );
    // What is no number wins over nothing.
    let said = root.json(&["config", "set", "limits.poll_interval_ms", "1500"]);
    assert_eq!((&said["takes"], &said["overridden_by"]), (&"now".into(), &Value::Null));
    fs::write(root.path().join(".env"), "ANTHROPIC_BASE_URL=https://b\n").unwrap();
    let said = root.g2(&["config", "set", "gateway.upstream", "https://c"]);
    assert!(said.contains("ANTHROPIC_BASE_URL in .env wins"), "{said}");
}

#[test]
fn a_time_zone_that_is_none_is_not_set() {
    let root = Root::new("");
    let refused = root.run(&["config", "set", "timezone", "Europe/Pariss"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("did you mean Europe/Paris?"), "{said}");
    assert!(root.g2(&["config", "set", "timezone", "Europe/Paris"]).contains("timezone is Europe/Paris"));
}

#[test]
fn a_section_that_stands_twice_is_told_with_what_to_do() {
    let root = Root::new("");
    let text = fs::read_to_string(root.path().join("g2.toml")).unwrap();
    settings(&root, &format!("{text}\n[limits]\nkeep_days = 3\n"));
    let said = String::from_utf8_lossy(&root.run(&["config", "check"]).stderr).into_owned();
    assert!(
        said.contains("[limits]") && said.contains("stands twice") && said.contains("`g2 config set`"),
        "{said}"
    );
}

/// The offset at which a schedule is read.
fn offset(root: &Root, tz: Option<&str>) -> Value {
    let mut command = root.command(&[
        "--json",
        "schedule",
        "next",
        "0 9 * * *",
        "--after",
        "2026-01-15T00:00:00Z",
        "--count",
        "1",
    ]);
    command.env_remove("TZ");
    if let Some(tz) = tz {
        command.env("TZ", tz);
    }
    let output = command.output().unwrap();
    serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))[0]["offset"]
        .clone()
}

#[test]
fn the_zone_comes_from_the_environment_then_the_settings_then_the_env_file() {
    let root = Root::new("");
    settings(&root, "");
    fs::write(root.path().join(".env"), "# mine\nTZ='Asia/Tokyo'\n").unwrap();
    assert_eq!(offset(&root, None), "+09:00");
    settings(&root, "timezone = \"America/New_York\"\n");
    assert_eq!(offset(&root, None), "-05:00");
    assert_eq!(offset(&root, Some("Asia/Kolkata")), "+05:30");
    // What names no zone is passed over.
    assert_eq!(offset(&root, Some("IST-2")), "-05:00");
}

#[test]
fn the_level_of_the_log_is_a_setting_and_the_environment_wins() {
    let root = Root::new("");
    fs::write(root.path().join("g2.toml"), "log_level = \"error\"\n[sandbox]\nkind = \"process\"\n").unwrap();
    assert_eq!(root.serve().terminate(), Some(0));
    assert_eq!(root.log(), "");
    assert_eq!(root.serve_with(&[("LOG_LEVEL", "info")]).terminate(), Some(0));
    assert!(root.log().contains("ready"));
}

#[test]
fn init_writes_every_setting_commented_at_its_default_and_twice_changes_nothing() {
    let root = Root::new("");
    let fresh = root.path().join("fresh");
    let init = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
        let output = command.arg("init").arg("--root").arg(&fresh).env_clear().output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    init();
    let text = fs::read_to_string(fresh.join("g2.toml")).unwrap();
    let is_setting = |line: &str| line.contains(" = ");
    assert!(text.lines().filter(|line| is_setting(line)).all(|line| line.starts_with("# ")));
    for setting in
        ["assistant_name", "timezone", "kind", "image", "max_concurrent_containers", "on_unknown", "idle_ms"]
    {
        assert!(text.lines().any(|line| line.starts_with(&format!("# {setting} = "))), "{setting}");
    }
    let list = |what: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
        let output = command.args(["--json", "--root"]).arg(&fresh).args(what).env_clear().output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (groups, wirings) = (list(&["groups", "list"]), list(&["wirings", "list"]));
    assert_eq!(groups[0]["folder"], "main");
    assert_eq!(groups[0]["is_main"], true);
    assert_eq!(groups[0]["trigger"], "@G2");
    assert_eq!(wirings[0]["chat_jid"], "local:main");
    assert_eq!((&wirings[0]["engage_mode"], &wirings[0]["engage_pattern"]), (&"pattern".into(), &".".into()));
    for folder in ["groups/main", "groups/global", "groups/_template", "data"] {
        assert!(fresh.join(folder).is_dir(), "{folder}");
    }
    // What a checkout has, so that agents of every root have the same.
    let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("container/skills");
    let folders =
        fs::read_dir(&checkout).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    for skill in folders.map(|path| path.file_name().unwrap().to_owned()) {
        let text =
            |skills: &std::path::Path| fs::read_to_string(skills.join(&skill).join("SKILL.md")).unwrap();
        assert_eq!(text(&fresh.join("container/skills")), text(&checkout), "{skill:?}");
    }
    fs::remove_dir_all(fresh.join("container/skills/browsing")).unwrap();
    fs::write(fresh.join("g2.toml"), "assistant_name = \"Mine\"\n").unwrap();
    fs::write(fresh.join("groups/main/CLAUDE.md"), "mine").unwrap();
    init();
    assert_eq!(fs::read_to_string(fresh.join("g2.toml")).unwrap(), "assistant_name = \"Mine\"\n");
    assert!(!fresh.join("container/skills/browsing").exists(), "what its owner removed stays away");
    assert_eq!(fs::read_to_string(fresh.join("groups/main/CLAUDE.md")).unwrap(), "mine");
    assert_eq!((list(&["groups", "list"]), list(&["wirings", "list"])), (groups, wirings));
}

/// Runs `g2 status` in a folder, with an environment; returns the root that it looked at.
fn root_of(here: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
    command.current_dir(here).args(arguments).args(["--json", "status"]).env_clear();
    let Output { stdout, stderr, status } = command.envs(environment.iter().copied()).output().unwrap();
    assert_eq!(status.code(), Some(3), "{}", String::from_utf8_lossy(&stderr));
    let status: Value = serde_json::from_slice(&stdout).unwrap();
    let problem = status["problems"][0].as_str().unwrap();
    problem.strip_prefix("no daemon runs at ").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn the_root_is_named_by_the_flag_then_the_environment_then_the_working_directory_then_the_users_data_folder()
{
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let at = |name: &str| dir.join(name);
    for folder in ["checkout/groups", "checkout/data", "half/groups", "named", "elsewhere"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    let (home, named, data_home) = (at("home"), at("named"), at("xdg"));
    let home_only: &[(&str, &Path)] = &[("HOME", &home)];
    let all: &[(&str, &Path)] = &[("HOME", &home), ("XDG_DATA_HOME", &data_home), ("G2_ROOT", &named)];
    let shown = |path: std::path::PathBuf| path.display().to_string();
    assert_eq!(
        root_of(&at("checkout"), &["--root", "../elsewhere"], all),
        shown(at("checkout/../elsewhere"))
    );
    assert_eq!(root_of(&at("checkout"), &[], all), shown(at("named")));
    assert_eq!(root_of(&at("checkout"), &[], home_only), shown(at("checkout")));
    assert_eq!(root_of(&at("half"), &[], &all[..2]), shown(at("xdg/g2")));
    assert_eq!(root_of(&at("half"), &[], home_only), shown(at("home/.local/share/g2")));
}

#[test]
fn a_setting_is_changed_by_a_command_with_the_daemon_up_or_down() {
    let root = Root::new("# mine\n[outbox]   # texts\non_unknown = \"leave\" # wait\n");
    let file = || fs::read_to_string(root.path().join("g2.toml")).unwrap();
    let before = file();
    assert_eq!(
        root.g2(&["config", "set", "outbox.on_unknown", "resend"]),
        "outbox.on_unknown is resend; a running daemon needs a restart for it\n"
    );
    assert_eq!(file(), before.replace("\"leave\"", "\"resend\""));
    for (arguments, why) in [
        (["config", "set", "outbox.on_unknown", "maybe"], "outbox.on_unknown can't be \"maybe\""),
        (["config", "set", "limits.tasks", "0"], "limits.tasks can't be 0"),
        (["config", "set", "limits.task", "5"], "limits.tasks is one"),
    ] {
        let refused = root.run(&arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        assert_eq!(file(), before.replace("\"leave\"", "\"resend\""), "nothing is changed");
    }
    let daemon = root.serve();
    assert_eq!(root.g2(&["config", "set", "limits.tasks", "5"]), "limits.tasks is 5; it holds at once\n");
    assert_eq!(
        root.g2(&["config", "set", "agent.claude.model", "m"]),
        "agent.claude.model is m; it holds for runs that begin from now on\n"
    );
    assert_eq!(root.json(&["status"])["state"], "healthy");
    root.g2(&["config", "set", "outbox.on_unknown", "leave"]);
    let status = root.json(&["status"]);
    let problems = status["problems"].to_string();
    assert!(problems.contains("restart for outbox.on_unknown"), "{problems}");
    root.g2(&["config", "set", "outbox.on_unknown", "resend"]);
    root.g2(&["config", "set", "backup.keep", "5"]);
    root.g2(&["config", "unset", "limits.tasks"]);
    root.g2(&["config", "unset", "agent.claude.model"]);
    root.g2(&["config", "unset", "backup.keep"]);
    assert_eq!(daemon.terminate(), Some(0));
    assert!(file().contains("# mine\n[outbox]   # texts\non_unknown = \"resend\" # wait\n"), "{}", file());
    assert_eq!(root.g2(&["config", "check"]), "the settings can be used\n");
}

#[test]
fn settings_are_shown_with_their_sources() {
    let root = Root::new("[limits]\nkeep_days = 3\n");
    let mut command = root.command(&["--json", "config", "show", "--effective"]);
    let output = command.env("LOG_LEVEL", "error").output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| all.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(
        (&of("limits.keep_days")["value"], &of("limits.keep_days")["source"]),
        (&"3".into(), &"g2.toml".into())
    );
    assert_eq!(of("log_level")["source"], "environment");
    assert_eq!(of("limits.tasks")["source"], "default");
    assert_eq!(of("backup.at")["takes"], "now");
    let changed = root.rows(&["config", "show"]);
    assert!(changed.iter().all(|one| one["source"] != "default"), "{changed:?}");
    let one = root.rows(&["config", "show", "limits.keep_days"]);
    assert_eq!((one.len(), &one[0]["value"]), (1, &"3".into()));
    assert_eq!(root.run(&["config", "show", "limits.keep"]).status.code(), Some(1));
}
