//! `g2 doctor`: each check finds a real fault, and names its reason and its fix.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Root, docker, wait_for};

mod fix;
mod groups;
mod machine;
mod pages;
mod runner;
mod sandbox;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What the doctor said, with its exit code, which must go with it.
fn report(output: &Output) -> Vec<Value> {
    let rows: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let failed = rows.iter().any(|row| row["status"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{output:?}");
    for row in &rows {
        let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["check", "detail", "fix", "see", "status"], "{row}");
        assert_eq!(row["fix"].is_null(), row["status"] == "ok", "{row}");
        assert_eq!(row["see"].is_null(), row["status"] == "ok", "{row}");
    }
    rows
}

fn doctor(root: &Root) -> Command {
    root.command(&["doctor", "--json"])
}

/// The rows of one check.
fn rows_of(command: &mut Command, check: &str) -> Vec<Value> {
    report(&command.output().unwrap()).into_iter().filter(|row| row["check"] == check).collect()
}

/// A row of `check` with this status, whose detail and fix hold these words.
fn finds(mut command: Command, check: &str, status: &str, detail: &str, fix: &str) {
    let rows = rows_of(&mut command, check);
    let found = rows.iter().any(|row| {
        row["status"] == status
            && row["detail"].as_str().unwrap().contains(detail)
            && row["fix"].as_str().unwrap_or("").contains(fix)
    });
    assert!(found, "no {status} of {check} with {detail:?} and {fix:?}: {rows:#?}");
}

#[test]
fn a_root_in_order_has_nothing_to_fix_but_the_missing_boundary() {
    let root = Root::new("");
    let rows = report(&doctor(&root).output().unwrap());
    let not_ok: Vec<&Value> = rows.iter().filter(|row| row["status"] != "ok").collect();
    // Where the suite runs may be an overlay or a network file system; that is the machine's.
    let ours: Vec<&&Value> = not_ok
        .iter()
        .filter(|row| !["file_system", "file_handles", "inodes"].contains(&row["check"].as_str().unwrap()))
        .collect();
    assert_eq!(ours.len(), 1, "{ours:#?}");
    assert_eq!(ours[0]["check"], "sandbox");
}

#[test]
fn people_get_a_table_with_each_fix_below_its_problem() {
    let root = Root::new("");
    let text = root.g2(&["doctor"]);
    assert!(text.lines().any(|line| line.starts_with("ok    store ")), "{text}");
    let at = text.lines().position(|line| line.starts_with("WARN  sandbox ")).unwrap();
    assert!(text.lines().nth(at + 1).unwrap().trim_start().starts_with("fix: "), "{text}");
    assert!(text.ends_with("to look at\n"), "{text}");
}

#[test]
fn a_look_at_a_root_that_is_not_laid_out_makes_nothing() {
    let root = Root::new("");
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for place in [empty.clone(), root.path().join("nowhere")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_g2"));
        command.args(["--json", "doctor", "--root"]).arg(&place).env_clear();
        command.env("DOCKER_HOST", "unix:///nonexistent");
        finds(command, "root", "fail", "is not laid out: groups, data, data/g2.sqlite missing", "init");
    }
    assert!(fs::read_dir(&empty).unwrap().next().is_none());
    assert!(!root.path().join("nowhere").exists());
}

#[test]
fn a_root_that_this_user_can_not_write_to_is_told() {
    let root = Root::new("");
    chmod(root.path(), 0o755);
    chmod(&root.data(""), 0o555);
    let mut command = doctor(&root);
    if is_root() {
        command.uid(1000).gid(1000);
    }
    finds(command, "root", "fail", "can't be written: Permission denied", "chown -R");
    chmod(&root.data(""), 0o700);
    let mut command = doctor(&root);
    if is_root() {
        command.uid(1000).gid(1000);
        finds(command, "root", "fail", "this user may not read", "chown -R");
    }
}

#[test]
fn settings_that_can_not_be_read_are_told_with_their_line_and_the_rest_is_checked_all_the_same() {
    let root = Root::new("");
    fs::write(root.path().join("g2.toml"), "[limits]\n# one\nmax_containers = 3\n").unwrap();
    finds(
        doctor(&root),
        "settings",
        "fail",
        "at line 3, column 1: unknown field `max_containers`",
        "g2.toml",
    );
    assert_eq!(rows_of(&mut doctor(&root), "store")[0]["status"], "ok");
    fs::write(root.path().join("g2.toml"), "[outbox]\non_unknown = \"maybe\"\n").unwrap();
    finds(doctor(&root), "settings", "fail", "outbox.on_unknown", "g2.toml");
}

#[test]
fn secrets_that_others_can_read_are_told() {
    let root = Root::new("");
    assert!(rows_of(&mut doctor(&root), "secrets").is_empty());
    let path = root.path().join(".env");
    fs::write(&path, "KEY=x\n").unwrap();
    chmod(&path, 0o640);
    finds(doctor(&root), "secrets", "warn", "mode 0640", "chmod 600");
    chmod(&path, 0o600);
    finds(doctor(&root), "secrets", "ok", "is private", "");
    fs::write(root.path().join("key"), "sk-ant-api03-x").unwrap();
    chmod(&root.path().join("key"), 0o644);
    root.settings("[gateway]\ntoken_file = \"key\"\n");
    finds(doctor(&root), "secrets", "warn", "key has mode 0644", "chmod 600");
}

/// The store as one file, nothing of it beside.
fn settle_store(root: &Root) -> std::path::PathBuf {
    let path = root.data("g2.sqlite");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    path
}

#[test]
fn a_damaged_store_is_told() {
    let root = Root::new("");
    let path = settle_store(&root);
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    // Everything but the schema's own page.
    for page in 1..pages {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xff; 100]).unwrap();
    }
    finds(doctor(&root), "store", "fail", "is damaged", "backup");
    fs::write(&path, "this is no database, and long enough to be looked at as one".repeat(100)).unwrap();
    finds(doctor(&root), "store", "fail", "not a database", "backup");
}

#[test]
fn a_store_of_another_program_is_told_and_left_alone() {
    let root = Root::new("");
    let path = settle_store(&root);
    let store = || rusqlite::Connection::open(&path).unwrap();
    for (version, judged, said, fix) in [
        (1099, "fail", "schema 99, newer than", "install"),
        (63, "fail", "schema 63 of the old count", "start a g2 that has schema 67"),
        (67, "warn", "schema 67 of the old count", "the next start"),
        (0, "warn", "schema 0", "the next start"),
    ] {
        store().pragma_update(None, "user_version", version).unwrap();
        finds(doctor(&root), "store", judged, said, fix);
        let at: i64 = store().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(at, version);
    }
}

#[test]
fn the_process_that_serves_the_root_is_named() {
    let root = Root::new("");
    finds(doctor(&root), "socket", "ok", "no daemon runs", "");
    let daemon = root.serve();
    let pid = format!("process {}", daemon.pid());
    finds(doctor(&root), "lock", "ok", &pid, "");
    finds(doctor(&root), "socket", "ok", &pid, "");
    daemon.kill();
    finds(doctor(&root), "socket", "warn", "was killed or crashed", "g2 start");
    assert_eq!(root.serve().terminate(), Some(0));
    finds(doctor(&root), "socket", "ok", "no daemon runs", "");
}

#[test]
fn a_holder_of_the_lock_that_does_not_answer_is_told() {
    let root = Root::new("");
    let lock = fs::File::options().create(true).truncate(false).write(true).open(root.data("lock")).unwrap();
    lock.lock().unwrap();
    finds(doctor(&root), "socket", "warn", "does not listen", "in a moment");
    drop(std::os::unix::net::UnixListener::bind(root.data("g2.sock")).unwrap());
    finds(doctor(&root), "socket", "fail", "does not answer", "restart");
}

#[test]
fn a_daemon_whose_lock_was_replaced_is_told() {
    let root = Root::new("");
    let _daemon = root.serve();
    fs::remove_file(root.data("lock")).unwrap();
    finds(doctor(&root), "lock", "fail", "does not hold data/lock", "never remove");
}

#[test]
fn the_daemons_findings_are_told_and_not_those_of_this_command() {
    let root = Root::new("");
    let _daemon = root.serve_with(&[("TZ", "Mars/Base")]);
    finds(doctor(&root), "time_zone", "warn", "Mars/Base", "Europe/Paris");
}

#[test]
fn an_unknown_zone_is_told_with_a_suggestion() {
    let root = Root::new("");
    let mut command = doctor(&root);
    command.env("TZ", "America/NewYork");
    finds(command, "time_zone", "warn", "\"America/NewYork\" is not a time zone", "America/New_York");
    fs::write(root.path().join("g2.toml"), "timezone = \"Nowhere\"\n").unwrap();
    let mut command = doctor(&root);
    command.env_remove("TZ");
    finds(command, "time_zone", "warn", "\"Nowhere\"", "Europe/Paris");
    finds(doctor(&root), "time_zone", "ok", "UTC", "");
    finds(doctor(&root), "zone_data", "ok", "ours", "");
}

#[test]
fn unsent_texts_and_unreadable_commands_are_told() {
    let root = Root::new("");
    let daemon = root.serve();
    let lost = json!({"type": "send_message", "chatJid": "nochannel:1", "text": "into the void"});
    root.put_command("main", "messages", "lost.json", &lost);
    root.put_bytes("main", "messages", "broken.json", b"{\"type\":");
    wait_for("a message that failed and a dead command", || {
        let failed = root.rows(&["outbox", "list"]).iter().any(|row| row["status"] == "failed");
        let dead = root.json(&["status"])["dead"] == 1;
        (failed && dead).then_some(())
    });
    finds(doctor(&root), "outbox", "warn", "no channel of this daemon owns nochannel:1", "g2 outbox retry 1");
    finds(doctor(&root), "commands", "warn", "1 command of agents", "g2 ipc list --state dead");
    daemon.kill();
    finds(doctor(&root), "outbox", "warn", "texts for chats that could not be sent: 1", "outbox list");
}

#[test]
fn a_run_without_an_owner_is_told_by_name() {
    let root = Root::new("");
    let connection = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    connection
        .execute(
            "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at)
             VALUES ('main', 'local:main', 'message', 7, 'queued', 'process', 0, 1)",
            [],
        )
        .unwrap();
    finds(doctor(&root), "runs", "warn", "run 1 of group main (lane:7) has no daemon", "g2 start");
}

#[test]
fn a_run_that_a_killed_daemon_left_is_told_until_the_next_start_ends_it() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    root.g2(&["send", "stay"]);
    wait_for("a run", || root.rows(&["runs", "list"]).iter().any(|r| r["status"] == "running").then_some(()));
    finds(doctor(&root), "runs", "ok", "1 live", "");
    daemon.kill();
    finds(doctor(&root), "runs", "warn", "run 1 of group main", "g2 start");
    fs::write(root.path().join("script-all.json"), "[]").unwrap();
    let _daemon = root.serve();
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "failed");
    finds(doctor(&root), "runs", "ok", "", "");
}
