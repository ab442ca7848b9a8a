//! `g2 doctor`: each check finds what was really broken, and says why and how to mend it.
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
        assert_eq!(fields, ["check", "detail", "fix", "status"], "{row}");
        assert_eq!(row["fix"].is_null(), row["status"] == "ok", "{row}");
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

/// A row of `check` with this status, whose detail and mend hold these words.
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
fn a_root_that_is_as_it_should_be_has_nothing_to_mend_but_the_missing_boundary() {
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
fn people_get_a_table_with_the_mend_below_what_it_mends() {
    let root = Root::new("");
    let text = root.g2(&["doctor"]);
    assert!(text.lines().any(|line| line.starts_with("ok    store ")), "{text}");
    let at = text.lines().position(|line| line.starts_with("WARN  sandbox ")).unwrap();
    assert!(text.lines().nth(at + 1).unwrap().trim_start().starts_with("mend: "), "{text}");
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
        finds(command, "root", "fail", "can't be looked into", "chown -R");
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
    finds(doctor(&root), "secrets", "ok", "closed to others", "");
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
fn a_store_of_a_newer_program_is_told_and_left_alone() {
    let root = Root::new("");
    let path = settle_store(&root);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    finds(doctor(&root), "store", "fail", "schema 99, newer than", "install");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 0).unwrap();
    finds(doctor(&root), "store", "warn", "schema 0", "the next start");
    let at: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(at, 0);
}

#[test]
fn who_serves_the_root_is_told() {
    let root = Root::new("");
    finds(doctor(&root), "socket", "ok", "no daemon runs", "");
    let daemon = root.serve();
    let pid = format!("process {}", daemon.pid());
    finds(doctor(&root), "lock", "ok", &pid, "");
    finds(doctor(&root), "socket", "ok", &pid, "");
    daemon.kill();
    finds(doctor(&root), "socket", "warn", "was killed or crashed", "g2 serve");
    assert_eq!(root.serve().terminate(), Some(0));
    finds(doctor(&root), "socket", "ok", "no daemon runs", "");
}

#[test]
fn a_holder_of_the_lock_that_does_not_answer_is_told() {
    let root = Root::new("");
    let lock = fs::File::options().create(true).truncate(false).write(true).open(root.data("lock")).unwrap();
    lock.lock().unwrap();
    finds(doctor(&root), "socket", "warn", "listens nowhere", "look again");
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
fn what_the_daemon_says_of_itself_is_passed_on() {
    let root = Root::new("");
    let _daemon = root.serve_with(&[("TZ", "Mars/Base")]);
    finds(doctor(&root), "daemon", "warn", "Mars/Base", "g2 status");
}

#[test]
fn a_zone_that_is_none_is_told_with_the_one_that_was_meant() {
    let root = Root::new("");
    let mut command = doctor(&root);
    command.env("TZ", "America/NewYork");
    finds(command, "time_zone", "warn", "\"America/NewYork\" names no time zone", "America/New_York");
    fs::write(root.path().join("g2.toml"), "timezone = \"Nowhere\"\n").unwrap();
    let mut command = doctor(&root);
    command.env_remove("TZ");
    finds(command, "time_zone", "warn", "\"Nowhere\"", "Europe/Paris");
    finds(doctor(&root), "time_zone", "ok", "UTC", "");
    finds(doctor(&root), "zone_data", "ok", "ours", "");
}

#[test]
fn an_engine_that_is_away_fails_where_it_is_asked_for_and_is_told_elsewhere() {
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let away = |root: &Root| {
        let mut command = doctor(root);
        command.env("DOCKER_HOST", "unix:///nonexistent");
        command
    };
    finds(away(&root), "docker", "fail", "does not answer at /nonexistent", "start Docker");
    finds(away(&root), "sandbox", "ok", "containers", "");
    root.settings("[sandbox]\nkind = \"auto\"\n");
    finds(away(&root), "docker", "warn", "does not answer", "start Docker");
    finds(away(&root), "sandbox", "warn", "no boundary", "build.sh");
    let mut elsewhere = doctor(&root);
    elsewhere.env("DOCKER_HOST", "tcp://1.2.3.4:2375");
    finds(elsewhere, "docker", "warn", "only Unix sockets", "DOCKER_HOST");
    root.settings("[sandbox]\nkind = \"auto\"\n[agent]\nprovider = \"claude\"\n");
    finds(away(&root), "docker", "fail", "does not answer", "start Docker");
    finds(away(&root), "sandbox", "fail", "its messages wait", "build.sh");
}

#[test]
fn an_image_that_is_not_there_is_told_with_the_command_that_builds_it() {
    if !docker() {
        return;
    }
    let root = Root::new("[sandbox]\nkind = \"docker\"\nimage = \"g2-doctor-none:1\"\n");
    finds(doctor(&root), "docker", "ok", "answers", "");
    finds(doctor(&root), "image", "fail", "g2-doctor-none:1 is not there", "build.sh g2-doctor-none:1");
    root.g2(&["groups", "set", "main", "image=g2-doctor-none:2"]);
    finds(doctor(&root), "image", "fail", "g2-doctor-none:2 is not there", "build.sh g2-doctor-none:2");
}

#[test]
fn an_image_of_v1_or_of_another_runner_is_told() {
    if !docker() {
        return;
    }
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let ours = agent_runner::ID;
    let (other, claude) = ("g2.protocol=2 g2.runner=0.0.1+a", "g2.claude=9.9");
    for (labels, status, detail, fix) in [
        ("some=thing", "warn", "announces no protocol".to_owned(), "g2.protocol=2"),
        ("g2.protocol=2", "ok", "does not say which runner".to_owned(), ""),
        (&*format!("g2.protocol=2 g2.runner={ours} {claude}"), "ok", "with Claude Code 9.9".to_owned(), ""),
        (
            other,
            "warn",
            format!("its runner is 0.0.1+a, and this g2 goes with {ours}"),
            "build.sh --bare g2-doctor",
        ),
        (&*format!("{other} {claude}"), "warn", "its runner is 0.0.1+a".to_owned(), "--offline"),
    ] {
        let image = Labelled::new(labels);
        let mut command = doctor(&root);
        command.args(["--image", &image.0]);
        finds(command, "image", status, &detail, fix);
    }
    let image = Labelled::new(&format!("g2.protocol=2 g2.runner={ours}"));
    root.g2(&["groups", "set", "main", "provider=claude", &format!("image={}", image.0)]);
    finds(doctor(&root), "image", "warn", "Claude Code is to run in it", "--offline");
    drop(image);
    let image = Labelled::new(&format!("g2.protocol=2 g2.runner={ours} {claude}"));
    root.g2(&["groups", "set", "main", &format!("image={}", image.0)]);
    finds(doctor(&root), "image", "fail", "let only Claude Code 2.1.197 run", "version = \"9.9\"");
}

/// An empty image with labels, removed at the end.
struct Labelled(String);

impl Labelled {
    fn new(labels: &str) -> Self {
        let image = format!("g2-doctor-labelled:{}", std::process::id());
        let mut build = Command::new("docker")
            .args(["build", "--quiet", "--tag", &image, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let text = format!("FROM scratch\nLABEL {labels}\n");
        build.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(build.wait().unwrap().success());
        Self(image)
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", "--force", &self.0]).output();
    }
}

#[test]
fn the_missing_boundary_of_child_processes_is_told() {
    let root = Root::new("");
    finds(doctor(&root), "sandbox", "warn", "no boundary", "sandbox.kind = \"docker\"");
    let _daemon = root.serve();
    root.settings("[sandbox]\nkind = \"docker\"\n");
    // What is in force is the daemon's, whatever the settings say by now.
    finds(doctor(&root), "sandbox", "warn", "no boundary", "restart");
}

#[test]
fn a_command_that_would_run_without_a_sandbox_fails() {
    let root = Root::new("[agent]\ncommand = [\"cat\"]\n");
    finds(doctor(&root), "sandbox", "fail", "agent.command (cat)", "allow_unsandboxed");
}

#[test]
fn a_script_that_can_not_be_followed_is_told() {
    let root = Root::new("[agent]\nscript = \"all.json\"\n");
    finds(doctor(&root), "script", "fail", "can't be read", "put the file there");
    fs::write(root.path().join("all.json"), "[{\"do\": [").unwrap();
    finds(doctor(&root), "script", "fail", "not a JSON list", "\"do\"");
    root.script(Some("main"), &json!([{"do": [{"say": "a"}, {"sing": "b"}]}]));
    finds(doctor(&root), "script", "fail", "rule 1, step 2", "\"do\"");
    fs::write(root.path().join("all.json"), "[]").unwrap();
    finds(doctor(&root), "script", "ok", "all.json ([agent] script) can be followed", "");
}

#[test]
fn a_root_without_a_main_group_is_told() {
    let root = Root::new("");
    root.g2(&["groups", "remove", "main"]);
    finds(doctor(&root), "main_group", "fail", "no group is the privileged one", "groups add main");
}

#[test]
fn a_group_without_its_folder_is_told() {
    let root = Root::new("");
    let folder = root.path().join("groups/main");
    fs::remove_dir_all(&folder).unwrap();
    finds(doctor(&root), "group_folder", "warn", "group main has lost its memory", "mkdir");
    fs::write(&folder, "").unwrap();
    finds(doctor(&root), "group_folder", "fail", "is no folder", "move it away");
}

#[test]
fn boxes_of_a_wrong_mode_owner_or_kind_are_told() {
    let root = Root::new("");
    assert_eq!(root.serve().terminate(), Some(0));
    let at = |name: &str| root.data("ipc/main").join(name);
    finds(doctor(&root), "boxes", "ok", "as it should be", "");
    chmod(&at("tasks"), 0o755);
    finds(doctor(&root), "boxes", "fail", "has mode 0755", "chmod 700");
    if is_root() {
        chown(at("messages"), Some(4321), Some(4321)).unwrap();
        finds(
            doctor(&root),
            "boxes",
            "fail",
            "belongs to user 4321, and its agent runs as 1000",
            "chown 1000:1000",
        );
    }
    fs::remove_dir(at("state")).or_else(|_| fs::remove_dir_all(at("state"))).unwrap();
    symlink("/etc", at("state")).unwrap();
    finds(doctor(&root), "boxes", "fail", "is a symbolic link where a folder belongs", "rm ");
}

#[test]
fn a_group_that_is_wired_to_nothing_is_told() {
    let root = Root::new("");
    root.g2(&["wirings", "remove", "--group", "main", "--chat", "local:main"]);
    finds(doctor(&root), "wirings", "warn", "group main is wired to no chat", "wirings add --group main");
}

#[test]
fn a_pattern_that_can_not_be_used_is_told() {
    let root = Root::new("");
    let said = root.run(&["wirings", "set", "--group", "main", "--chat", "local:main", "pattern=("]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("every message engages"), "{said:?}");
    finds(
        doctor(&root),
        "engage_pattern",
        "fail",
        "no JavaScript regular expression",
        "wirings set --group main",
    );
}

#[test]
fn a_chat_that_is_answered_twice_is_told() {
    let root = Root::new("");
    root.g2(&["groups", "add", "twin", "--chat", "local:main"]);
    finds(
        doctor(&root),
        "answers_twice",
        "warn",
        "main and twin engage on every message of local:main",
        "engage=mention",
    );
    root.g2(&["wirings", "set", "--group", "twin", "--chat", "local:main", "engage=mention"]);
    finds(doctor(&root), "answers_twice", "ok", "", "");
}

#[test]
fn what_could_not_be_said_and_what_could_not_be_understood_is_told() {
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
    finds(doctor(&root), "commands", "warn", "1 commands", "g2 ipc list --state dead");
    daemon.kill();
    finds(doctor(&root), "outbox", "warn", "1 messages could not be said", "outbox list");
}

#[test]
fn a_run_without_an_owner_is_told_by_name() {
    let root = Root::new("");
    let connection = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    connection
        .execute(
            "INSERT INTO runs (group_folder, chat_jid, kind, source, status, sandbox, generation, created_at)
             VALUES ('main', 'local:main', 'message', 'lane:7', 'queued', 'process', 0, 1)",
            [],
        )
        .unwrap();
    finds(doctor(&root), "runs", "warn", "run 1 of group main (lane:7) has no owner", "g2 serve");
}

#[test]
fn a_run_that_a_killed_daemon_left_is_told_until_the_next_start_ends_it() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let daemon = root.serve();
    root.g2(&["send", "stay"]);
    wait_for("a run", || root.rows(&["runs", "list"]).iter().any(|r| r["status"] == "running").then_some(()));
    finds(doctor(&root), "runs", "ok", "1 under way", "");
    daemon.kill();
    finds(doctor(&root), "runs", "warn", "run 1 of group main", "g2 serve");
    fs::write(root.path().join("script-all.json"), "[]").unwrap();
    let _daemon = root.serve();
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "failed");
    finds(doctor(&root), "runs", "ok", "", "");
}

#[test]
fn a_disk_that_is_too_full_to_launch_is_told() {
    let root = Root::new("[limits]\nmin_free_mib = 4000000000\n");
    finds(doctor(&root), "disk", "fail", "no agent is launched", "min_free_mib");
}

/// The doctor in a world of its own, made by a shell script that ends with `exec "$@"`. `None` where the machine does
/// not let us make one.
fn in_a_world(root: &Root, unshare: &str, script: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args([unshare, "sh", "-ec", &format!("{script}\necho made >&2; exec \"$@\""), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_g2")).arg("--root").arg(root.path()).args(["--json", "doctor"]);
    let output = command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).output().ok()?;
    if String::from_utf8_lossy(&output.stderr).contains("made") {
        return Some(output);
    }
    eprintln!("skipped: the machine does not let us: {}", String::from_utf8_lossy(&output.stderr));
    None
}

fn finds_in(output: &Output, check: &str, status: &str, detail: &str, fix: &str) {
    let rows: Vec<Value> = report(output).into_iter().filter(|row| row["check"] == check).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["status"], status, "{rows:#?}");
    assert!(rows[0]["detail"].as_str().unwrap().contains(detail), "{rows:#?}");
    assert!(rows[0]["fix"].as_str().unwrap().contains(fix), "{rows:#?}");
}

#[test]
fn a_file_system_that_is_out_of_inodes_is_told() {
    let root = Root::new("");
    settle_store(&root);
    let script = format!(
        "cd {}; cp data/g2.sqlite kept; mount -t tmpfs -o nr_inodes=100 none data; cp kept data/g2.sqlite
         i=0; while : 2>/dev/null >data/f$i; do i=$((i+1)); done; rm data/f0 data/f1 data/f2 data/f3",
        root.path().display()
    );
    let Some(output) = in_a_world(&root, "--mount", &script) else { return };
    finds_in(&output, "inodes", "warn", "of 100 files more", "remove small files");
}

#[test]
fn a_file_system_without_file_handles_is_told() {
    let root = Root::new("");
    settle_store(&root);
    let script = format!(
        "cd {}; mkdir upper work; mount -t overlay -o lowerdir=data,upperdir=upper,workdir=work none data",
        root.path().display()
    );
    let Some(output) = in_a_world(&root, "--mount", &script) else { return };
    let rows = report(&output);
    let row = rows.iter().find(|row| row["check"] == "file_handles").unwrap();
    // Some kernels give an overlay handles.
    if row["status"] == "warn" {
        finds_in(&output, "file_handles", "warn", "two syncs more", "ext4");
    }
}

#[test]
fn limits_on_watches_that_do_not_suffice_are_told() {
    let root = Root::new("");
    root.g2(&["groups", "add", "second", "--chat", "local:second"]);
    assert_eq!(root.serve().terminate(), Some(0));
    // Another user's boxes are closed to the root of a world of its own.
    for group in ["main", "second"] {
        for name in ["messages", "tasks"] {
            let own = rustix::process::geteuid().as_raw();
            chown(root.data("ipc").join(group).join(name), Some(own), None).unwrap();
        }
    }
    let none = "echo 0 > /proc/sys/user/max_inotify_instances";
    let Some(output) = in_a_world(&root, "--map-root-user", none) else { return };
    finds_in(&output, "inotify", "warn", "no inotify instance left", "max_user_instances");
    let few = "echo 3 > /proc/sys/user/max_inotify_watches";
    let Some(output) = in_a_world(&root, "--map-root-user", few) else { return };
    finds_in(&output, "inotify", "warn", "only 3 of 4 boxes can be watched", "max_user_watches");
}

#[test]
fn a_limit_on_open_files_that_does_not_suffice_is_told() {
    let root = Root::new("");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_g2"));
    command.arg("--root").arg(root.path()).args(["--json", "doctor"]);
    finds(command, "open_files", "fail", "100 are allowed", "LimitNOFILE");
}
