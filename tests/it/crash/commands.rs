//! A command file, and the daemon dead at each step from its box to `done/` or `dead/`; and one of each kind whose effect shows
//! whether it was done twice, at the steps that know its kind.
//!
//! | died at | then it lies | receipt | the next daemon |
//! |---|---|---|---|
//! | `ipc.seen` | in its box | none | claims it |
//! | `ipc.in_hand` | in its box, by a name of ours | none | claims it |
//! | `ipc.linked` | there and claimed | none | decides it once; where it stood is not known |
//! | `ipc.claimed` `ipc.read` `ipc.decided` | claimed | none | decides it |
//! | `ipc.committed` `ipc.replied` `ipc.set_aside` | claimed | there | gives the stored reply, decides nothing |
//!
//! A search that is the only command of its group is made before its commit, as above, unless the index takes long. Any other
//! is made behind it:
//!
//! | died at | then it lies | receipt | the next daemon |
//! |---|---|---|---|
//! | `ipc.committed` `ipc.searched` | claimed | there, without a reply | searches again |
//! | `ipc.answered` | claimed | there, with its reply | gives the stored reply |
#![expect(clippy::disallowed_methods, reason = "tests look at what the daemon left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use serde_json::{Value, json};

use super::{
    ledger::Ledger,
    scene::{all_settled, die_at, for_each, names, read},
};
use crate::support::{Root, wait_for};

/// The steps of any command.
const STEPS: [&str; 9] = [
    "ipc.seen",
    "ipc.in_hand",
    "ipc.linked",
    "ipc.claimed",
    "ipc.read",
    "ipc.decided",
    "ipc.committed",
    "ipc.replied",
    "ipc.set_aside",
];

/// No step before these knows of which kind a command is, and those behind them only give a reply that is stored.
const STEPS_OF_A_KIND: [&str; 2] = ["ipc.decided", "ipc.committed"];

/// Where a command that is not obeyed differs: in whether its place is known, and in the files that are kept of it.
const STEPS_OF_A_REFUSAL: [&str; 2] = ["ipc.linked", "ipc.committed"];

/// Those of a search that is made behind its receipt.
const STEPS_OF_A_SEARCH: [&str; 3] = ["ipc.committed", "ipc.searched", "ipc.answered"];

/// Where a file ends that got through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Applied,
    Refused(&'static str),
    Dead,
}

/// One kind of command file.
struct Kind {
    group: &'static str,
    in_box: &'static str,
    bytes: Vec<u8>,
    end: End,
    /// Brings the root to where the command has something to act on. No daemon is left behind.
    prepare: fn(&Root),
    /// Looks at the effect: it is there exactly once.
    check: fn(&Root),
    steps: &'static [&'static str],
}

impl Kind {
    fn applied(in_box: &'static str, json: &Value, prepare: fn(&Root), check: fn(&Root)) -> Self {
        Self {
            group: "main",
            in_box,
            bytes: json.to_string().into_bytes(),
            end: End::Applied,
            prepare,
            check,
            steps: &STEPS_OF_A_KIND,
        }
    }

    fn is_search(&self) -> bool {
        self.bytes.windows(15).any(|at| at == b"search_sessions")
    }

    fn dies_everywhere(&self) {
        for_each(self.steps, |step| self.dies_at(step));
    }

    fn dies_at(&self, step: &str) {
        let root = Root::new("");
        (self.prepare)(&root);
        die_at(&root, step, || self.publish(&root));
        let known = self.check_what_is_left(&root, step);

        let _daemon = root.serve();
        let rows = all_settled(&root);
        let knows_where = step != "ipc.linked";
        let name = if knows_where { "it.json" } else { "unknown" };
        let ours: Vec<&Value> = rows.iter().filter(|row| row["name"] == name).collect();
        assert_eq!(ours.len(), 1, "{step}: one receipt: {rows:?}");
        let state = match self.end {
            End::Applied => "applied",
            End::Refused(_) => "refused",
            End::Dead => "dead",
        };
        let in_box = if knows_where { json!(self.in_box) } else { json!("unknown") };
        assert_eq!((&ours[0]["state"], &ours[0]["box"]), (&json!(state), &in_box), "{step}");
        assert_eq!(names(&root, &format!("ipc/{}/{}", self.group, self.in_box)), [""; 0], "{step}");
        let id = ours[0]["id"].as_i64().unwrap();
        let receipts = receipts(&Ledger::of_the_living(&root));
        assert_eq!(receipts.len(), 1, "{step}");
        match known {
            // Its reply is made after the commit.
            Some((id, None)) if self.is_search() => assert_eq!(receipts[0].0, id, "{step}"),
            Some(known) => assert_eq!(receipts[0], known, "{step}: what was committed is not decided again"),
            None => {}
        }
        self.check_what_is_kept(&root, step, id, receipts[0].1.as_deref());
        (self.check)(&root);
    }

    fn publish(&self, root: &Root) {
        root.put_bytes(self.group, self.in_box, "it.json", &self.bytes);
    }

    /// Compares what the dead daemon left with the table; returns the receipt, if there is one.
    fn check_what_is_left(&self, root: &Root, step: &str) -> Option<(i64, Option<Vec<u8>>)> {
        let in_box = names(root, &format!("ipc/{}/{}", self.group, self.in_box));
        let claimed = names(root, "claimed");
        let lies = match step {
            "ipc.seen" | "ipc.in_hand" => (1, 0),
            "ipc.linked" => (1, 1),
            _ => (0, 1),
        };
        assert_eq!((in_box.len(), claimed.len()), lies, "{step}: {claimed:?}");
        let receipts = receipts(&Ledger::of_the_dead(root));
        let is_committed = !STEPS[..6].contains(&step);
        assert_eq!(receipts.len(), usize::from(is_committed), "{step}: receipts");
        let replied = root.data(&format!("ipc/{}/responses/r1.json", self.group)).exists();
        let is_replied = ["ipc.replied", "ipc.set_aside"].contains(&step);
        assert_eq!(replied, is_replied && self.end != End::Dead, "{step}: reply");
        receipts.into_iter().next()
    }

    /// What people and the asker find: the file, and the one reply or reason.
    fn check_what_is_kept(&self, root: &Root, step: &str, id: i64, reply: Option<&[u8]>) {
        let group = self.group;
        let place = if self.end == End::Dead { "dead" } else { "done" };
        assert_eq!(read(root, format!("{place}/{group}/{id}.json")), self.bytes, "{step}");
        let replied = || read(root, format!("ipc/{group}/responses/r1.json"));
        let reply = reply.map(<[u8]>::to_vec);
        if self.end != End::Dead {
            assert_eq!(Some(replied()), reply, "{step}");
        }
        match self.end {
            End::Applied => {
                let kept = read(root, format!("done/{group}/{id}.reply.json"));
                assert_eq!(Some(&kept), reply.as_ref(), "{step}");
                let reply: Value = serde_json::from_slice(&kept).unwrap();
                assert_eq!((&reply["requestId"], &reply["ok"]), (&json!("r1"), &json!(true)), "{step}");
            }
            End::Refused(code) => {
                let why: Value =
                    serde_json::from_slice(&read(root, format!("done/{group}/{id}.why.json"))).unwrap();
                let name = if step == "ipc.linked" { Value::Null } else { json!("it.json") };
                assert_eq!((&why["code"], &why["name"]), (&json!(code), &name), "{step}");
            }
            End::Dead => {
                let why: Value =
                    serde_json::from_slice(&read(root, format!("dead/{group}/{id}.why.json"))).unwrap();
                let in_box = if step == "ipc.linked" { Value::Null } else { json!(self.in_box) };
                assert_eq!((&why["code"], &why["box"]), (&json!("malformed"), &in_box), "{step}");
            }
        }
    }
}

/// The receipts of the file under test: claim and reply.
fn receipts(ledger: &Ledger) -> Vec<(i64, Option<Vec<u8>>)> {
    ledger
        .pairs("SELECT claim_id, reply FROM receipts WHERE name IN ('it.json', 'unknown') ORDER BY claim_id")
}

fn nothing(_: &Root) {}

/// One task is there, made by a daemon that has stopped.
fn one_task(root: &Root) {
    let daemon = root.serve();
    let task = json!({"type": "schedule_task", "prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 1 1 *", "taskId": "kept"});
    root.put_command("main", "tasks", "before.json", &task);
    assert_eq!(root.settled(1)[0]["state"], "applied");
    assert_eq!(daemon.terminate(), Some(0));
}

fn snapshot(root: &Root) -> Value {
    serde_json::from_slice(&read(root, "ipc/main/current_tasks.json")).unwrap()
}

#[test]
fn send_message_says_it_once_wherever_the_daemon_died() {
    let json = json!({"type": "send_message", "requestId": "r1", "chatJid": "local:main", "text": "by file"});
    let say = Kind::applied("messages", &json, nothing, |root| {
        wait_for("it to be said", || (!root.said("local:main").is_empty()).then_some(()));
        assert_eq!(root.rows(&["outbox", "list"]).len(), 1);
        assert_eq!(root.said("local:main"), ["by file"]);
    });
    Kind { steps: &STEPS, ..say }.dies_everywhere();
}

#[test]
fn cancel_task_is_a_success_once_wherever_the_daemon_died() {
    let json = json!({"type": "cancel_task", "requestId": "r1", "taskId": "kept"});
    Kind::applied("tasks", &json, one_task, |root| {
        assert_eq!(root.rows(&["tasks", "list"]).len(), 0);
        assert_eq!(snapshot(root), json!([]));
    })
    .dies_everywhere();
}

#[test]
fn list_tasks_gives_the_list_that_was_decided_on() {
    let json = json!({"type": "list_tasks", "requestId": "r1"});
    Kind::applied("tasks", &json, one_task, |root| {
        let reply: Value = serde_json::from_slice(&read(root, "ipc/main/responses/r1.json")).unwrap();
        assert_eq!(reply["result"]["tasks"][0]["id"], "kept");
    })
    .dies_everywhere();
}

/// A session, from a daemon that has stopped.
fn a_session(root: &Root) {
    let daemon = root.serve();
    root.ask("local:main", "hello");
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(
        Ledger::of_the_dead(root).number("SELECT count(*) FROM sessions WHERE session_id IS NOT NULL"),
        1
    );
}

fn an_archive(root: &Root) {
    a_session(root);
    root.g2(&["sessions", "clear", "main", "--name", "before"]);
}

fn history(root: &Root) -> Value {
    serde_json::from_slice(&read(root, "ipc/main/session_history.json")).unwrap()
}

fn result(root: &Root) -> Value {
    let reply: Value = serde_json::from_slice(&read(root, "ipc/main/responses/r1.json")).unwrap();
    reply["result"].clone()
}

#[test]
fn register_group_makes_one_group_with_its_folder_wherever_the_daemon_died() {
    let json = json!({"type": "register_group", "requestId": "r1", "jid": "local:team", "name": "Team", "folder": "team",
                      "trigger": "@T", "requiresTrigger": false});
    let a_template = |root: &Root| {
        fs::create_dir_all(root.path().join("groups/_template")).unwrap();
        fs::write(root.path().join("groups/_template/CLAUDE.md"), "# Remember\n").unwrap();
    };
    Kind::applied("tasks", &json, a_template, |root| {
        assert_eq!(root.json(&["groups", "show", "team"])["chats"], json!(["local:team"]));
        assert_eq!(root.rows(&["wirings", "list"]).len(), 2);
        assert!(root.path().join("groups/team/CLAUDE.md").is_file());
        assert_eq!(root.ask("local:team", "hello").trim(), "echo: hello");
    })
    .dies_everywhere();
}

#[test]
fn a_folder_of_a_group_that_was_only_begun_is_finished_by_the_next_start() {
    for half_written in [false, true] {
        let root = Root::new("");
        root.g2(&["groups", "add", "team", "--chat", "local:team"]);
        fs::create_dir_all(root.path().join("groups/_template")).unwrap();
        fs::write(root.path().join("groups/_template/CLAUDE.md"), "# Remember\n").unwrap();
        let folder = root.path().join("groups/team");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        if half_written {
            fs::write(folder.join(".CLAUDE.md.new"), "# Re").unwrap();
        }
        let _daemon = root.serve();
        assert_eq!(fs::read_to_string(folder.join("CLAUDE.md")).unwrap(), "# Remember\n", "{half_written}");
    }
}

#[test]
fn clear_session_archives_and_clears_once_wherever_the_daemon_died() {
    let json = json!({"type": "clear_session", "requestId": "r1", "name": "before"});
    Kind::applied("messages", &json, a_session, |root| {
        let ledger = Ledger::of_the_living(root);
        assert_eq!(ledger.number("SELECT count(*) FROM archives"), 1);
        assert_eq!(ledger.number("SELECT generation FROM sessions"), 1);
        assert_eq!(ledger.number("SELECT count(*) FROM sessions WHERE session_id IS NOT NULL"), 0);
        assert_eq!(history(root)[0]["name"], "before");
    })
    .dies_everywhere();
}

#[test]
fn resume_session_takes_it_up_once_wherever_the_daemon_died() {
    let json = json!({"type": "resume_session", "requestId": "r1", "sessionHistoryId": 1});
    Kind::applied("tasks", &json, an_archive, |root| {
        let ledger = Ledger::of_the_living(root);
        assert_eq!(ledger.number("SELECT count(*) FROM archives"), 0);
        assert_eq!(ledger.number("SELECT generation FROM sessions"), 2);
        assert_eq!(
            ledger.column::<String>("SELECT session_id FROM sessions"),
            [result(root)["sessionId"].as_str().unwrap()]
        );
        assert_eq!(history(root), json!([]));
    })
    .dies_everywhere();
}

#[test]
fn search_sessions_is_answered_once_wherever_the_daemon_died() {
    let json = json!({"type": "search_sessions", "requestId": "r1", "schemaVersion": 1, "query": "before"});
    Kind::applied("tasks", &json, an_archive, |root| {
        assert_eq!(result(root)["sessions"][0]["name"], "before");
    })
    .dies_everywhere();
}

#[test]
fn a_search_behind_its_receipt_is_answered_once_wherever_the_daemon_died() {
    let json = json!({"type": "search_sessions", "requestId": "r1", "schemaVersion": 1, "query": "before",
                      "targetFolder": "other"});
    let of_another = |root: &Root| {
        root.g2(&["groups", "add", "other", "--chat", "local:other"]);
        let daemon = root.serve();
        root.ask("local:other", "hello");
        assert_eq!(daemon.terminate(), Some(0));
        root.g2(&["sessions", "clear", "other", "--name", "before"]);
    };
    let search = Kind::applied("tasks", &json, of_another, |root| {
        assert_eq!(result(root)["sessions"][0]["name"], "before");
    });
    Kind { steps: &STEPS_OF_A_SEARCH, ..search }.dies_everywhere();
}

#[test]
fn archive_session_keeps_it_once_wherever_the_daemon_died() {
    let json = json!({"type": "archive_session", "requestId": "r1", "sessionId": "s-1", "name": "kept", "content": "words"});
    Kind::applied("tasks", &json, nothing, |root| {
        assert_eq!(Ledger::of_the_living(root).number("SELECT count(*) FROM archives"), 1);
        assert_eq!(root.rows(&["sessions", "search", "words"])[0]["name"], "kept");
        assert_eq!(history(root)[0]["id"], result(root)["id"]);
    })
    .dies_everywhere();
}

#[test]
fn a_refusal_is_answered_once_wherever_the_daemon_died() {
    let json =
        json!({"type": "send_message", "requestId": "r1", "chatJid": "local:main", "text": "not mine"});
    Kind {
        group: "other",
        in_box: "messages",
        bytes: json.to_string().into_bytes(),
        end: End::Refused("not_authorized"),
        prepare: |root| drop(root.g2(&["groups", "add", "other", "--chat", "local:other"])),
        check: |root| assert_eq!(root.rows(&["outbox", "list"]).len(), 0),
        steps: &STEPS_OF_A_REFUSAL,
    }
    .dies_everywhere();
}

#[test]
fn a_malformed_file_is_dead_once_wherever_the_daemon_died() {
    Kind {
        group: "main",
        in_box: "tasks",
        bytes: b"{\"type\": \"send_mess".to_vec(),
        end: End::Dead,
        prepare: nothing,
        check: |root| assert_eq!(root.json(&["status"])["dead"], 1),
        steps: &STEPS_OF_A_REFUSAL,
    }
    .dies_everywhere();
}

#[test]
fn a_dead_command_that_came_back_without_a_note_of_where_it_stood_says_what_its_receipt_knows() {
    let root = Root::new("");
    let daemon = root.serve();
    // Two names for one file: what a rename that was lost leaves.
    let (written, back) = (root.data("ipc/main/tasks/.it.tmp"), root.data("back"));
    fs::write(&written, b"{\"type\": \"send_mess").unwrap();
    fs::hard_link(&written, &back).unwrap();
    fs::rename(&written, root.data("ipc/main/tasks/it.json")).unwrap();
    wait_for("it to be dead", || (names(&root, "dead/main").len() == 2).then_some(()));
    all_settled(&root);
    daemon.kill();
    // The note lay beside the file, and was not synced either.
    let _ = rustix::fs::removexattr(&back, "user.g2.from");
    fs::rename(&back, root.data("claimed/50-main.json")).unwrap();
    let _daemon = root.serve();
    all_settled(&root);
    let why: Value = serde_json::from_slice(&read(&root, "dead/main/50.why.json")).unwrap();
    assert_eq!((&why["box"], &why["name"]), (&json!("tasks"), &json!("it.json")), "{why}");
    assert_eq!(why["receipt"], 1, "{why}");
    assert_eq!(receipts(&Ledger::of_the_living(&root)).len(), 1);
}

#[test]
fn files_in_done_are_left_alone() {
    let root = Root::new("");
    let json = json!({"type": "send_message", "requestId": "r1", "chatJid": "local:main", "text": "by file"});
    let daemon = root.serve();
    root.put_command("main", "messages", "it.json", &json);
    all_settled(&root);
    daemon.kill();
    let before = (names(&root, "done/main"), receipts(&Ledger::of_the_dead(&root)));
    // The agent has taken the reply away: it is not given again.
    fs::remove_file(root.data("ipc/main/responses/r1.json")).unwrap();
    let _daemon = root.serve();
    wait_for("it to be said", || (root.said("local:main").len() == 1).then_some(()));
    assert_eq!((names(&root, "done/main"), receipts(&Ledger::of_the_living(&root))), before);
    assert!(names(&root, "ipc/main/responses").is_empty());
}
