//! The order on the disk, as the kernel was asked for it: under load, no reply is placed and no claimed file removed
//! before the commit of its receipt was synced.
#![expect(clippy::disallowed_methods, reason = "reads the trace")]
#![expect(clippy::disallowed_types, reason = "starts strace")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Root, wait_for};

/// How many commands the load is, over two groups.
const COMMANDS: usize = 300;

/// One system call with its arguments as strace writes them; the lines on which it began and ended.
struct Call {
    name: String,
    args: String,
    began: usize,
    ended: usize,
}

/// Returns the calls of a trace that succeeded, in the order of their ends.
fn calls(trace: &str) -> Vec<Call> {
    let mut under_way: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            under_way.insert(pid, (at, begun));
            continue;
        }
        let (began, whole) = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, end)) => match under_way.remove(pid) {
                Some((began, begun)) => (began, format!("{begun}{end}")),
                None => continue,
            },
            None => (at, rest.to_owned()),
        };
        let (Some((name, args)), Some((_, result))) = (whole.split_once('('), whole.rsplit_once(" = "))
        else {
            continue;
        };
        if !result.starts_with('-') {
            found.push(Call { name: name.into(), args: args.into(), began, ended: at });
        }
    }
    found
}

/// The bytes of the first text among the arguments.
fn bytes(args: &str) -> Vec<u8> {
    let mut found = Vec::new();
    let mut text = args.bytes().skip_while(|byte| *byte != b'"').skip(1).peekable();
    while let Some(byte) = text.next() {
        match byte {
            b'"' => break,
            b'\\' => match text.next().unwrap_or(b'\\') {
                b'n' => found.push(b'\n'),
                b't' => found.push(b'\t'),
                b'r' => found.push(b'\r'),
                b'v' => found.push(0x0b),
                b'f' => found.push(0x0c),
                first @ b'0'..=b'7' => {
                    let mut value = u32::from(first - b'0');
                    for _ in 0..2 {
                        let Some(digit) = text.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    found.push(value as u8);
                }
                other => found.push(other),
            },
            other => found.push(other),
        }
    }
    found
}

/// What was done before its receipt was durable, and how many replies and removals were looked at.
#[derive(Debug, Default, PartialEq)]
struct Judged {
    too_early: Vec<String>,
    replies: usize,
    removals: usize,
}

/// Goes through a trace. A receipt holds its request id in plain text; it is durable once the log's frame that commits it
/// was written, and the log synced after that.
fn judge(trace: &str, request_of: &BTreeMap<i64, String>) -> Judged {
    let id = Regex::new(r"rq-\d{4}-x").unwrap();
    let reply = Regex::new(r#"/responses>, "(rq-\d{4}-x)\.json""#).unwrap();
    let claimed = Regex::new(r#"/claimed>, "(\d+)-[a-z]+\.json""#).unwrap();
    let mut judged = Judged::default();
    // Written, not yet part of a transaction that is; committed with the line of that; durable.
    let (mut written, mut committed) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let mut durable = BTreeMap::<String, usize>::new();
    let mut is_commit = false;
    for call in calls(trace) {
        let of_the_log = call.args.split(',').next().is_some_and(|fd| fd.contains("g2.sqlite-wal>"));
        match call.name.as_str() {
            "pwrite64" if of_the_log => {
                let bytes = bytes(&call.args);
                if bytes.len() == 24 {
                    // A frame's head: after the page's number, how large the file is if this frame commits, else 0.
                    is_commit = bytes[4..8] != [0; 4];
                    continue;
                }
                let text = String::from_utf8_lossy(&bytes);
                written.extend(id.find_iter(&text).map(|found| found.as_str().to_owned()));
                if std::mem::take(&mut is_commit) {
                    for id in std::mem::take(&mut written) {
                        committed.entry(id).or_insert(call.ended);
                    }
                }
            }
            "fdatasync" | "fsync" if of_the_log => {
                for (id, since) in &committed {
                    if *since < call.began {
                        durable.entry(id.clone()).or_insert(call.ended);
                    }
                }
            }
            "rename" | "renameat" | "renameat2" | "unlinkat" => {
                let request = if let Some(found) = reply.captures(&call.args) {
                    judged.replies += 1;
                    Some(found[1].to_owned())
                } else if let Some(found) = claimed.captures(&call.args).filter(|_| call.name == "unlinkat") {
                    let request = found[1].parse().ok().and_then(|claim: i64| request_of.get(&claim));
                    judged.removals += usize::from(request.is_some());
                    request.cloned()
                } else {
                    None
                };
                if let Some(request) = request
                    && durable.get(&request).is_none_or(|since| *since >= call.began)
                {
                    judged.too_early.push(format!("line {}: {}({}", call.began + 1, call.name, call.args));
                }
            }
            _ => {}
        }
    }
    judged
}

/// Whether strace can be used. Where it can't, the test says so and is over, unless `G2_REQUIRE_STRACE=1`.
fn strace() -> bool {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if works.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("G2_REQUIRE_STRACE").is_none(),
        "G2_REQUIRE_STRACE is set and strace can't trace"
    );
    eprintln!("skipped: no strace");
    false
}

/// A daemon that is traced. The tracer's end would not be the daemon's.
struct Traced {
    strace: Child,
    lock: PathBuf,
}

impl Traced {
    fn signal(&self, signal: Signal) {
        let lock = fs::read_to_string(&self.lock).ok();
        let pid = lock.and_then(|lock| Pid::from_raw(lock.split_whitespace().next()?.parse().ok()?));
        let _ = kill_process(pid.expect("the lock begins with the daemon's number"), signal);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // A tracer that is killed takes nothing with it that it did not start: the daemon is killed first.
        if self.strace.try_wait().ok().flatten().is_none() {
            if self.lock.exists() {
                self.signal(Signal::KILL);
            }
            let _ = self.strace.kill();
            let _ = self.strace.wait();
        }
    }
}

impl Traced {
    /// Starts the daemon of a root, and waits until it answers. Its `calls` go to the file `trace` in the root.
    fn serve(root: &Root, calls: &str) -> Self {
        let g2 = root.command(&["serve"]);
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-y", "-s", "8192", "-e", "signal=none", "-o"])
            .arg(root.path().join("trace"))
            .args(["-e", &format!("trace={calls}")])
            .arg(g2.get_program())
            .args(g2.get_args())
            .env_clear()
            .envs(g2.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(root.path().join("serve.log")).unwrap());
        let traced = Self { strace: traced.spawn().unwrap(), lock: root.data("lock") };
        wait_for("the daemon to be ready", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
        traced
    }

    /// Stops the daemon, and returns what it called.
    fn stop(mut self, root: &Root) -> String {
        self.signal(Signal::TERM);
        wait_for("the daemon to stop", || self.strace.try_wait().unwrap());
        fs::read_to_string(root.path().join("trace")).unwrap()
    }
}

#[test]
fn no_reply_and_no_removal_goes_before_the_synced_commit_of_its_receipt() {
    if !strace() {
        return;
    }
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let traced = Traced::serve(&root, "pwrite64,fdatasync,fsync,rename,renameat,renameat2,unlinkat");
    for n in 0..COMMANDS {
        let (group, in_box) = (["main", "family"][n % 2], ["messages", "tasks"][n / 2 % 2]);
        let chat = format!("local:{group}");
        let mut command = match n % 3 {
            0 => json!({"type": "list_tasks"}),
            // Some are refused, which is written down too.
            1 => json!({"type": "cancel_task", "taskId": "none"}),
            _ => json!({"type": "send_message", "chatJid": chat, "text": "x"}),
        };
        command["requestId"] = format!("rq-{n:04}-x").into();
        root.put_command(group, in_box, &format!("{n:04}.json"), &command);
    }
    let request_of: BTreeMap<i64, String> = root
        .settled(COMMANDS)
        .iter()
        .map(|row| (row["id"].as_i64().unwrap(), row["request_id"].as_str().unwrap().to_owned()))
        .collect();
    wait_for("nothing to stay claimed", || {
        fs::read_dir(root.data("claimed")).unwrap().next().is_none().then_some(())
    });
    let judged = judge(&traced.stop(&root), &request_of);
    assert_eq!(judged, Judged { too_early: Vec::new(), replies: COMMANDS, removals: COMMANDS });
}

/// What the file system keeps of a file beside its bytes, a commit does not wait for; and nothing is written to be undone that
/// memory can hold.
#[test]
fn a_commit_waits_for_the_bytes_of_the_log_and_makes_no_file_beside_it() {
    if !strace() {
        return;
    }
    let root = Root::new("");
    let traced = Traced::serve(&root, "fdatasync,fsync,open,openat");
    for n in 0..20 {
        root.put_command(
            "main",
            "tasks",
            &format!("{n}.json"),
            &json!({"type": "schedule_task", "requestId": format!("r{n}"), "prompt": "x", "schedule_type": "interval",
                    "schedule_value": "3600000", "targetJid": "local:main"}),
        );
        root.reply("main", &format!("r{n}"));
    }
    let trace = traced.stop(&root);
    let calls = calls(&trace);
    let of_the_log = |name: &str| {
        calls.iter().filter(|call| call.name == name && call.args.contains("g2.sqlite-wal>")).count()
    };
    assert!(of_the_log("fdatasync") >= 20, "{trace}");
    assert_eq!(of_the_log("fsync"), 0);
    let beside: Vec<&str> = calls
        .iter()
        .filter(|call| {
            call.name.starts_with("open") && call.args.contains("O_EXCL") && call.args.contains("/tmp\"")
        })
        .map(|call| call.args.as_str())
        .collect();
    assert_eq!(beside, [""; 0]);
}

/// The renames of a trace from one directory to another, and how many there are within one.
fn moves(trace: &str) -> (Vec<String>, usize) {
    let by_descriptor = Regex::new(r#"^\d+<([^>]*)>, "[^"]*", \d+<([^>]*)>,"#).unwrap();
    let by_path = Regex::new(r#"^"([^"]*)/[^"/]*", "([^"]*)/[^"/]*""#).unwrap();
    let (mut across, mut within) = (Vec::new(), 0);
    for call in calls(trace).into_iter().filter(|call| call.name.starts_with("rename")) {
        let found = by_descriptor.captures(&call.args).or_else(|| by_path.captures(&call.args));
        if found.is_some_and(|found| found[1] == found[2]) {
            within += 1;
        } else {
            across.push(format!("{}({}", call.name, call.args));
        }
    }
    (across, within)
}

/// The kernel has one lock for such renames on each file system, and any container can hold it for seconds.
#[test]
fn nothing_is_renamed_from_one_directory_to_another_on_the_way_of_commands_replies_and_follow_ups() {
    if !strace() {
        return;
    }
    let root = Root::new("");
    root.script(
        None,
        &json!([
            {"when": {"contains": "first"}, "do": [
                {"command": {"box": "tasks", "json": {"type": "list_tasks", "requestId": "of-the-run"}}},
                {"say": "one"},
            ]},
            {"when": {"contains": "second"}, "do": [{"say": "two"}]},
            {"when": {"contains": "third"}, "do": [{"hang": true}]},
        ]),
    );
    let traced = Traced::serve(&root, "rename,renameat,renameat2");
    assert_eq!(root.ask("local:main", "first").trim(), "one");
    assert_eq!(root.ask("local:main", "second").trim(), "two");
    let asked = root.send("local:main", "third");
    wait_for("the third to be taken", || root.why(asked)["wirings"][0]["batch"].as_i64());
    assert_eq!(root.rows(&["runs", "list"]).len(), 1, "two of them are follow-ups");
    for n in 0..20 {
        root.put_command(
            "main",
            "tasks",
            &format!("{n}.json"),
            &json!({"type": "list_tasks", "requestId": format!("r{n}")}),
        );
        root.reply("main", &format!("r{n}"));
    }
    root.put_command("main", "messages", "bad.json", &json!({"type": "nonsense"}));
    root.settled_file("main", "bad.json");
    // The run ends with its daemon, and the follow-up that it has taken is claimed back.
    let trace = traced.stop(&root);
    let (across, within) = moves(&trace);
    assert_eq!(across, [""; 0]);
    assert!(within > 40, "{within}");
    let is_claim =
        |line: &str| line.contains("/main/input>") && line.contains(".claimed\", RENAME_NOREPLACE");
    assert!(trace.lines().any(is_claim), "{trace}");
}

#[test]
fn a_trace_in_the_wrong_order_is_told_from_one_in_the_right_one() {
    let (head, page) = (
        r#"7 pwrite64(9</d/g2.sqlite-wal>, "\0\0\0\3\0\0\0\11\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10", 24, 32) = 24"#,
        r#"7 pwrite64(9</d/g2.sqlite-wal>, "\0\n\"rq-0001-x\\\377", 4096, 56) = 4096"#,
    );
    let sync = "7 fdatasync(9</d/g2.sqlite-wal>) = 0";
    let reply = r#"8 renameat(5</d/tmp>, "3", 6</d/ipc/main/responses>, "rq-0001-x.json") = 0"#;
    let removal = r#"8 unlinkat(4</d/claimed>, "12-main.json", 0) = 0"#;
    let request_of = BTreeMap::from([(12, "rq-0001-x".to_owned())]);
    let judge = |lines: &[&str]| judge(&lines.join("\n"), &request_of);
    let right = judge(&[head, page, sync, reply, removal]);
    assert_eq!(right, Judged { too_early: Vec::new(), replies: 1, removals: 1 });
    let (begun, ended) =
        ("7 fdatasync(9</d/g2.sqlite-wal> <unfinished ...>", "7 <... fdatasync resumed>) = 0");
    for (lines, early) in [
        (vec![reply, removal, head, page, sync], 2),
        (vec![head, page, reply, sync, removal], 1),
        // Synced before the commit, or not yet at its end.
        (vec![sync, head, page, reply, removal], 2),
        (vec![begun, head, page, ended, reply], 1),
        (vec![head, page, begun, reply, ended, removal], 1),
        // The transaction goes on.
        (vec![&head.replace(r"\11", r"\0"), page, sync, reply], 1),
        (vec![head, page, "7 fdatasync(9</d/g2.sqlite-wal>) = -1 EIO", reply], 1),
    ] {
        assert_eq!(judge(&lines).too_early.len(), early, "{lines:#?}");
    }
}
