//! `g2 start`, `g2 restart`, `g2 logs`, `g2 stop`: a daemon without a service manager and without a terminal.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "a test looks at a process")]

use std::process::Output;

use crate::support::{Root, wait_for};

/// A root whose daemon in the background ends with it.
struct Home(Root);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.0.run(&["stop"]);
    }
}

impl Home {
    /// What a command says, which has to go well.
    fn says(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.0.run(words);
        let said = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&stderr));
        said
    }

    fn pid(&self) -> u64 {
        self.0.json(&["status"])["pid"].as_u64().unwrap()
    }
}

#[test]
fn a_daemon_in_the_background_goes_on_is_started_anew_and_has_a_log() {
    let home = Home(Root::new(""));
    let none = home.0.run(&["logs"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("`g2 start` does so"), "{none:?}");
    assert!(home.says(&["start"]).contains("runs in the background"));
    assert_eq!(home.0.ask("local:main", "hello"), "echo: hello\n");
    let first = home.pid();
    assert!(home.says(&["start"]).contains("runs already"));
    assert!(home.says(&["logs"]).contains(" ready "));
    assert_eq!(home.says(&["logs", "--lines", "1"]).lines().count(), 1);
    home.says(&["restart"]);
    let second = home.pid();
    assert_ne!(first, second);
    // The old log goes on.
    assert_eq!(home.says(&["logs"]).matches(" ready ").count(), 2);
    home.says(&["stop"]);
    assert!(home.says(&["restart"]).contains("runs in the background"), "one that does not run is started");
    assert_eq!(home.0.ask("local:main", "again"), "echo: again\n");
    // It has no terminal, and leads a session of its own.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", home.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!((fields[3], fields[4]), (home.pid().to_string().as_str(), "0"), "{stat}");
}

#[test]
fn a_daemon_in_the_background_logs_as_its_command_line_says() {
    let home = Home(Root::new(""));
    home.says(&["--color", "never", "start", "--log-format", "json"]);
    let log = home.says(&["logs"]);
    let is_ready =
        |line: &serde_json::Value| line["message"].as_str().is_some_and(|says| says.contains("ready"));
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    assert!(lines.iter().any(is_ready), "{log}");
    home.says(&["restart"]);
    let log = home.says(&["logs", "--lines", "1"]);
    assert!(serde_json::from_str::<serde_json::Value>(&log).is_err(), "as text again: {log}");
}

#[test]
fn one_that_can_t_start_says_why_and_leaves_nothing_behind() {
    let home = Home(Root::new("[sandbox]\nkind = \"nonsense\"\n"));
    let failed = home.0.run(&["start"]);
    let why = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{why}");
    assert!(why.contains("nonsense"), "{why}");
    wait_for("nobody", || (!home.0.run(&["status"]).status.success()).then_some(()));
}
