//! `g2 serve` as a service manager sees it, and `g2 up`: readiness, watchdog, signals, one daemon a root, and an engine
//! that comes late.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::{UnixDatagram, UnixStream},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Daemon, Docked, Root, docker, fail_points, wait_for};

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// A service manager's ear.
struct Manager(UnixDatagram, String);

impl Manager {
    fn of(root: &Root) -> Self {
        let path = root.path().join("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(socket, path.to_str().unwrap().to_owned())
    }

    fn hear(&self) -> String {
        let mut buffer = [0; 1000];
        let n = self.0.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).trim().to_owned()
    }
}

#[test]
fn the_manager_hears_that_we_are_ready_once_the_socket_answers_then_that_we_live_then_that_we_stop() {
    let root = Root::new("");
    let manager = Manager::of(&root);
    let daemon = root.spawn(&[("NOTIFY_SOCKET", &manager.1), ("WATCHDOG_USEC", "200000")]);
    assert_eq!(manager.hear(), "READY=1");
    let mut client = UnixStream::connect(root.data("g2.sock")).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client.write_all(b"{\"op\":\"status\"}\n").unwrap();
    let mut first = [0; 1];
    client.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"{");
    for _ in 0..4 {
        assert_eq!(manager.hear(), "WATCHDOG=1");
    }
    signal(daemon.pid(), Signal::TERM);
    while manager.hear() != "STOPPING=1" {}
    assert_eq!(daemon.wait(), Some(0));
}

/// Has the store's writer stand still with a change in hand.
#[test]
fn a_daemon_whose_store_takes_no_change_any_more_is_not_told_to_live() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let manager = Manager::of(&root);
    let daemon = root.spawn(&[
        ("NOTIFY_SOCKET", &manager.1),
        ("WATCHDOG_USEC", "200000"),
        ("G2_FAILPOINT", "store.beat:3:pause"),
    ]);
    // It answers all the while, and says what is the matter.
    let status = wait_for("status to name it", || {
        let status = root.json(&["status"]);
        (status["findings"][0]["code"] == "store_writer").then_some(status)
    });
    assert_eq!(status["state"], "degraded", "{status}");
    signal(daemon.pid(), Signal::TERM);
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "STOPPING=1") {
        heard.push(manager.hear());
    }
    assert_eq!(heard, ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"]);
    daemon.kill();
}

#[test]
fn a_daemon_that_waits_for_another_program_to_unlock_the_store_is_told_to_live() {
    let root = Root::new("");
    let manager = Manager::of(&root);
    let daemon = root.spawn(&[("NOTIFY_SOCKET", &manager.1), ("WATCHDOG_USEC", "200000")]);
    assert_eq!(manager.hear(), "READY=1");
    let other = root.lock_store();
    wait_for("status to name it", || {
        (root.json(&["status"])["findings"][0]["code"] == "store_writer").then_some(())
    });
    // What came before was said before.
    manager.0.set_nonblocking(true).unwrap();
    while manager.0.recv(&mut [0; 1000]).is_ok() {}
    manager.0.set_nonblocking(false).unwrap();
    for _ in 0..3 {
        assert_eq!(manager.hear(), "WATCHDOG=1");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn the_service_managers_environment_does_not_reach_agents() {
    let root = Root::new(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"sh\", \"-c\", \"env > seen; exit 1\"]\n",
    );
    let manager = Manager::of(&root);
    let _daemon = root.serve_with(&[
        ("NOTIFY_SOCKET", &manager.1),
        ("WATCHDOG_USEC", "60000000"),
        ("LISTEN_FDS", "0"),
        ("SOME_SECRET", "x"),
    ]);
    root.g2(&["send", "look"]);
    let seen = root.path().join("groups/main/seen");
    let text = wait_for("what the agent sees", || {
        fs::read_to_string(&seen).ok().filter(|text| text.contains("G2_GROUP_DIR"))
    });
    for name in ["NOTIFY_SOCKET", "WATCHDOG", "LISTEN_FDS", "SOME_SECRET"] {
        assert!(!text.contains(name), "{text}");
    }
}

#[test]
fn a_second_daemon_on_a_root_is_refused_with_the_id_of_the_first() {
    let root = Root::new("");
    let first = root.serve();
    for command in ["serve", "up"] {
        let second = root.run(&[command]);
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("process {}", first.pid())) && said.contains("chat"), "{said}");
        assert!(second.stdout.is_empty());
    }
    assert_eq!(root.ask("local:main", "still there?"), "echo: still there?\n");
    assert_eq!(first.terminate(), Some(0));
    assert_eq!(root.serve().terminate(), Some(0));
}

/// A daemon whose agent is in the middle of a turn.
fn at_work(root: &Root, then: &Value) -> Daemon {
    let begin = json!({"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r", "chatJid": "local:main", "text": "working"}}});
    let steps: Vec<Value> = [begin].into_iter().chain(then.as_array().unwrap().clone()).collect();
    root.script(None, &json!([{"when": {"contains": "work"}, "do": steps}]));
    let daemon = root.serve();
    root.g2(&["send", "work"]);
    wait_for("an agent at work", || (!root.said("local:main").is_empty()).then_some(()));
    daemon
}

#[test]
fn asked_to_stop_it_lets_agents_finish_their_turn() {
    for asked in [Signal::TERM, Signal::INT] {
        let root = Root::new("");
        let daemon = at_work(&root, &json!([{"wait_ms": 700}, {"say": "finished"}]));
        signal(daemon.pid(), asked);
        assert_eq!(daemon.wait(), Some(0));
        let texts: Vec<Value> =
            root.rows(&["outbox", "list"]).iter().map(|row| row["text"].clone()).collect();
        assert_eq!(texts, ["working", "finished"]);
        let runs = root.rows(&["runs", "list"]);
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("succeeded")), "{runs:#?}");
        // The next start says what was left to say, and asks nobody again.
        let daemon = root.serve();
        wait_for("the rest to be said", || (root.said("local:main").len() == 2).then_some(()));
        assert_eq!(root.rows(&["runs", "list"]).len(), 1);
        assert_eq!(daemon.terminate(), Some(0));
        assert!(!root.data("g2.sock").exists());
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let root = Root::new("");
    let daemon = at_work(&root, &json!([{"hang": true}]));
    signal(daemon.pid(), Signal::TERM);
    wait_for("the stop to begin", || root.log().contains("stopping; a second signal").then_some(()));
    signal(daemon.pid(), Signal::INT);
    // An orderly stop would end with 0, once the agent's grace is over.
    assert_eq!(daemon.wait(), Some(1));
    assert!(root.log().contains("ended at once"));
}

#[test]
fn it_waits_for_an_engine_that_is_not_up_yet_and_says_so() {
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let _daemon = root.serve_with(&[("DOCKER_HOST", "unix:///nonexistent")]);
    let status = root.run(&["--json", "status"]);
    assert_eq!(status.status.code(), Some(1));
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["state"], "degraded");
    let problem = status["problems"][0].as_str().unwrap();
    assert!(problem.contains("/nonexistent") && problem.contains("is Docker running?"), "{status}");
    let sent = root.json(&["send", "are you there?"]);
    let why = root.json(&["why", &sent["seq"].to_string()]);
    let waits = why["wirings"][0]["waited_for"].as_str().unwrap();
    assert!(waits.contains("/nonexistent"), "{why}");
    assert!(why["answer"].as_str().unwrap().starts_with("it waits for"), "{why}");
}

/// Containers of a root's instance, by the state that Docker tells.
fn containers(instance: &Value) -> Vec<String> {
    let label = format!("label=g2.instance={}", instance.as_str().unwrap());
    let listed =
        Command::new("docker").args(["ps", "--all", "--filter", &label, "--format", "{{.State}}"]).output();
    String::from_utf8(listed.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}

fn instance(root: &Root) -> Value {
    let connection = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    let id: String =
        connection.query_row("SELECT value FROM meta WHERE key = 'instance'", [], |row| row.get(0)).unwrap();
    id.into()
}

#[test]
fn a_message_that_waited_for_the_engine_is_answered_when_it_comes() {
    if !docker() {
        return;
    }
    let real = std::env::var("DOCKER_HOST").unwrap_or_default();
    let real = real.strip_prefix("unix://").unwrap_or("/var/run/docker.sock");
    let root = Root::new(&Docked::settings(""));
    let socket = root.path().join("docker.sock");
    let host = format!("unix://{}", socket.display());
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let daemon = root.serve_with(&[("DOCKER_HOST", &host)]);
    root.g2(&["send", "--chat", "local:family", "hello?"]);
    assert_eq!(root.run(&["status"]).status.code(), Some(1));
    std::os::unix::fs::symlink(real, &socket).unwrap();
    wait_for("the answer", || (root.said("local:family") == ["echo: hello?"]).then_some(()));
    assert_eq!(root.run(&["status"]).status.code(), Some(0));
    // A group whose container idles is removed all the same, and its container goes with it.
    root.g2(&["groups", "remove", "family", "--yes"]);
    wait_for("its container to be gone", || containers(&instance(&root)).is_empty().then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

/// `g2 up`, or another command that reads lines, fed by a pipe.
fn fed(root: &Root, command: &[&str], lines: &str) -> (Option<i32>, String, String) {
    fed_with(root, command, lines, &[])
}

/// The same, with more in its environment.
fn fed_with(
    root: &Root,
    command: &[&str],
    lines: &str,
    environment: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let mut child: Child = root
        .command(command)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn up_answers_each_line_on_stdout_and_ends() {
    let root = Root::new("");
    let (code, said, _) = fed(&root, &["up"], "one\n\ntwo\nthree");
    assert_eq!(code, Some(0));
    // Lines that come together may be handed over together; the scripted agent answers the last of a batch.
    assert!(said.ends_with("echo: three\n"), "{said}");
    assert!(said.lines().all(|line| line.starts_with("echo: ")), "{said}");
    let texts: Vec<Value> = root.rows(&["messages", "list"]).iter().map(|row| row["text"].clone()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let active = root.rows(&["runs", "list"]).iter().filter(|run| run["ended_at"].is_null()).count();
    assert_eq!(active, 0);
}

#[test]
fn up_ends_with_an_error_when_a_loop_of_the_daemon_in_it_has_failed() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let (code, said, log) =
        fed_with(&root, &["up"], "hello\n", &[("G2_FAILPOINT", "message.judged:1:panic")]);
    assert_eq!((code, said.as_str()), (Some(1), ""), "{log}");
    let ends = ["our own fault: a loop failed", "our own fault: a loop ended"];
    assert!(ends.iter().any(|end| log.contains(end)), "{log}");
    // The next one answers what was left.
    let daemon = root.serve();
    wait_for("the answer", || (root.said("local:main") == ["echo: hello"]).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn up_makes_the_root_and_logs_to_stderr_only() {
    let root = Root::new("");
    let fresh = root.path().join("fresh");
    let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
    command.arg("up").arg("--root").arg(&fresh).args(["--log-format", "json"]).env_clear();
    command.env("LOG_LEVEL", "debug").env("DOCKER_HOST", "unix:///nonexistent").env("PATH", "/usr/bin:/bin");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "echo: hi\n");
    let log = String::from_utf8(output.stderr).unwrap();
    let whole = log.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert!(whole > 3 && whole == log.lines().count(), "{log}");
    assert!(fresh.join("g2.toml").is_file() && fresh.join("groups/main/CLAUDE.md").is_file());
}

#[test]
fn up_leaves_no_container_behind() {
    if !docker() {
        return;
    }
    let root = Root::new(&Docked::settings(""));
    let (code, said, log) = fed(&root, &["up"], "hello\n");
    assert_eq!((code, said.as_str()), (Some(0), "echo: hello\n"), "{log}");
    assert_eq!(containers(&instance(&root)), Vec::<String>::new());
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(
        (&runs[0]["status"], &runs[0]["sandbox"]),
        (&json!("succeeded"), &json!("docker")),
        "{runs:#?}"
    );
}

#[test]
fn a_chat_that_is_no_terminal_sends_each_line_and_ends_when_all_is_answered() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    let chat = ["chat", "--chat", "local:family", "--as", "Ann"];
    let (code, said, log) = fed(&root, &chat, "hello\n");
    assert_eq!((code, said.as_str()), (Some(0), "echo: hello\n"), "{log}");
    assert_eq!(root.rows(&["messages", "list"])[0]["sender_name"], "Ann");
    // What was said before is not said again to a client that comes later.
    let (_, said, _) = fed(&root, &chat, "more\n");
    assert_eq!(said, "echo: more\n");
}
