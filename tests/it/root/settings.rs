//! Settings that can't be used, and those that were changed since the start; what SIGHUP does.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Daemon, Root, Terminal, wait_for};

fn hang_up(daemon: &Daemon) {
    kill_process(Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap(), Signal::HUP).unwrap();
}

#[test]
fn a_hangup_without_a_terminal_has_the_settings_read_and_names_those_that_need_a_restart() {
    let root = Root::new("");
    let daemon = root.serve();
    hang_up(&daemon);
    wait_for("a look at the settings", || root.log().contains("none has changed").then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    let settings = "[outbox]\non_unknown = \"leave\"\n[housekeeping]\nruns_days = 7\n";
    root.settings(settings);
    fs::write(root.path().join(".env"), "TZ=Asia/Tokyo\nANTHROPIC_BASE_URL=https://localhost\n").unwrap();
    hang_up(&daemon);
    let told = "restart for ANTHROPIC_BASE_URL in .env, outbox.on_unknown";
    wait_for("what holds", || {
        root.log().contains("TZ in .env, housekeeping.runs_days hold now").then_some(())
    });
    wait_for("what needs a restart", || root.log().contains(told).then_some(()));
    // Nobody has to ask by a signal.
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "degraded");
    assert!(status["problems"].to_string().contains(told), "{status}");
    assert!(root.rows(&["doctor"]).iter().any(|row| row["detail"].as_str().unwrap().contains(told)));
    root.settings("[limits]\nmessages_per_minute = 0\n");
    hang_up(&daemon);
    wait_for("what can't be used", || root.log().contains("those of before hold").then_some(()));
    assert_eq!(root.ask("local:main", "still there?"), "echo: still there?\n");
    root.settings(settings);
    assert_eq!(daemon.terminate(), Some(0));
    assert!(root.log().lines().last().unwrap().contains("stopped"), "{}", root.log());
    let daemon = root.serve();
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert_eq!(daemon.terminate(), Some(0));
}

/// A daemon whose terminal is `terminal`, with SIGHUP as `signals` has it; its log is in `serve.log`.
fn on(terminal: &Terminal, root: &Root, signals: &str) -> Option<Child> {
    let log = File::options().create(true).append(true).open(root.path().join("serve.log")).unwrap();
    let mut command = Command::new("env");
    command.args([signals, "setsid", "--ctty", env!("CARGO_BIN_EXE_g2"), "--root"]);
    command.arg(root.path()).arg("serve").env("TZ", "UTC");
    let theirs = terminal.end();
    let child = command.stdin(theirs).stdout(Stdio::null()).stderr(log).spawn().ok()?;
    wait_for("the daemon", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
    Some(child)
}

#[test]
fn a_terminal_s_end_is_an_orderly_stop_unless_we_are_to_outlive_it() {
    for (signals, outlives) in [("--default-signal=HUP", false), ("--ignore-signal=HUP", true)] {
        let root = Root::new("");
        let terminal = Terminal::open();
        let Some(mut daemon) = on(&terminal, &root, signals) else { return eprintln!("skipped: no env") };
        drop(terminal);
        if outlives {
            wait_for("a look at the settings", || root.log().contains("none has changed").then_some(()));
            assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            continue;
        }
        let ended = wait_for("the daemon to end", || daemon.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0));
        let log = root.log();
        assert!(log.contains("the terminal has ended") && log.contains("stopped"), "{log}");
        assert!(!root.data("g2.sock").exists());
    }
}

#[test]
fn an_impossible_number_or_level_is_refused_with_its_line_and_its_range() {
    let root = Root::new("");
    for (text, words) in [
        ("[limits]\n\nmessages_per_minute = 0\n", ["line 3", "limits.messages_per_minute", "1 at least"]),
        ("[limits]\nbatch_messages = -1\n", ["line 2", "limits.batch_messages", "1 at least"]),
        ("[health]\nstartup_ms = -5\n", ["line 2", "health.startup_ms", "1 at least"]),
        ("log_level = \"chatty\"\n", ["log_level", "chatty", "\"debug\""]),
    ] {
        fs::write(root.path().join("g2.toml"), text).unwrap();
        let output = root.run(&["serve"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{text}: {said}");
        let doctor = root.rows(&["doctor"]);
        let row = doctor.iter().find(|row| row["check"] == "settings" && row["status"] == "fail").unwrap();
        assert!(row["detail"].as_str().unwrap().contains(words[1]), "{row}");
    }
}

#[test]
fn unusable_settings_outside_of_the_file_are_told_at_the_start_and_by_the_doctor() {
    let root = Root::new("");
    let env = "export ANTHROPIC_API_KEY=sk-secret\nANTHROPIC_API_KY=sk-secret\nTZ=UTC\n";
    fs::write(root.path().join(".env"), env).unwrap();
    let environment = [("LOG_LEVEL", "chatty"), ("IDLE_TIMEOUT", "soon"), ("MAX_CONCURRENT_CONTAINERS", "0")];
    let told = [
        "LOG_LEVEL",
        "chatty",
        "IDLE_TIMEOUT",
        "MAX_CONCURRENT_CONTAINERS",
        "without `export`",
        "ANTHROPIC_API_KY",
    ];
    let daemon = root.serve_with(&environment);
    wait_for("all to be told", || told.iter().all(|word| root.log().contains(word)).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let doctor = root.command(&["--json", "doctor"]).envs(environment).output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    for text in [root.log(), doctor] {
        for word in told {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("sk-secret"), "{text}");
    }
}
