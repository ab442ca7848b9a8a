//! Others of this user have used up the file events: commands are found all the same, and events are taken when they are
//! there again. Boxes that can't be opened are opened once they can.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts a daemon where the kernel gives no events; replaces boxes"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{io::Write as _, process::Command};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::{Root, skipped, wait_for};

/// How many instances a user may have, in a user namespace of its own.
const MOST: &str = "/proc/sys/user/max_inotify_instances";

#[test]
fn without_file_events_commands_are_found_soon_and_events_come_back_by_themselves() {
    // The regular scan is a minute away: it finds nothing here.
    let root = Root::new("[limits]\npoll_interval_ms = 60000\n");
    // Within, the daemon is another user to itself and nobody to others: all of it is to be its own.
    let mut chown = Command::new("chown");
    chown.args(["-R", "--reference"]).arg(root.path()).arg(root.data("")).arg(root.path().join("groups"));
    assert!(chown.status().is_ok_and(|status| status.success()));
    let serve = root.command(&["serve"]);
    let mut within = Command::new("unshare");
    within.args(["--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c"]);
    // Who is born there may change it, and gives it back when it is told to, or after a minute.
    let told = root.path().join("told");
    let later = format!(
        "n=0; until [ -e '{}' ] || [ $n = 1200 ]; do n=$((n+1)); sleep 0.05; done; echo 9 > {MOST}",
        told.display()
    );
    within.arg(format!("echo 0 > {MOST} && {{ ({later}) & exec \"$0\" \"$@\"; }}"));
    within.arg(serve.get_program()).args(serve.get_args());
    let is_possible =
        Command::new("unshare").args(["--user", "--map-user=1000", "--keep-caps", "true"]).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        skipped("no user namespaces");
        return;
    }
    let daemon = root.spawn_by(within);
    let problem = || {
        let status = root.json(&["status"]);
        let all = status["problems"].as_array().cloned().unwrap_or_default();
        all.iter().any(|problem| problem.as_str().is_some_and(|text| text.contains("no event tells")))
    };
    wait_for("the daemon to say that it sees nothing", || problem().then_some(()));
    let ask = |request: &str| {
        let command = json!({"type": "list_tasks", "requestId": request});
        root.put_command("main", "tasks", &format!("{request}.json"), &command);
        assert_eq!(root.reply("main", request)["ok"], true);
    };
    (0..5).for_each(|n| ask(&format!("blind-{n}")));
    assert!(problem(), "they were found by looking");

    std::fs::write(told, "").unwrap();
    wait_for("events", || (!problem()).then_some(()));
    (0..5).for_each(|n| ask(&format!("seen-{n}")));
    assert_eq!(daemon.terminate(), Some(0));
    let log = root.log();
    assert_eq!(log.matches("that is tried again").count(), 1, "said once: {log}");
    assert!(log.contains("watched again"), "{log}");
}

/// The regular scan is an hour away: it finds nothing here.
const RARELY: &str = "[limits]\npoll_interval_ms = 3600000\n";

/// Returns whether people are told of boxes that no event tells of.
fn is_told(root: &Root) -> bool {
    let status = root.json(&["status"]);
    let all = status["problems"].as_array().cloned().unwrap_or_default();
    all.iter().any(|problem| problem.as_str().is_some_and(|text| text.contains("can't be opened")))
}

fn ask(root: &Root, request: &str) {
    let command = json!({"type": "list_tasks", "requestId": request});
    root.put_command("main", "tasks", &format!("{request}.json"), &command);
    assert_eq!(root.reply("main", request)["ok"], true);
}

/// Puts a link where a group's box is, which can't be opened then; what is returned puts the box back.
fn break_box(root: &Root, group: &str, which: &str) -> impl Fn() + use<> {
    let (in_box, away) =
        (root.data(&format!("ipc/{group}/{which}")), root.data(&format!("ipc/{group}/away")));
    std::os::unix::fs::symlink(&away, &away).unwrap();
    // At once: a box that is not there is made.
    let exchange = move || renameat_with(CWD, &in_box, CWD, &away, RenameFlags::EXCHANGE).unwrap();
    exchange();
    exchange
}

#[test]
fn a_box_that_could_not_be_opened_anew_is_watched_once_it_is_put_right() {
    let root = Root::new(RARELY);
    let daemon = root.serve();
    ask(&root, "before");
    let mend = break_box(&root, "main", "messages");
    wait_for("the problem", || is_told(&root).then_some(()));
    mend();
    wait_for("its end", || (!is_told(&root)).then_some(()));
    (0..5).for_each(|n| ask(&root, &format!("after-{n}")));
    let say = json!({"type": "send_message", "chatJid": "local:main", "text": "in the box that was away"});
    root.put_command("main", "messages", "x.json", &say);
    wait_for("the text", || (root.said("local:main").len() == 1).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_mailbox_that_could_not_be_opened_at_the_start_is_opened_once_it_is_put_right() {
    let root = Root::new(RARELY);
    root.serve().terminate();
    let mend = break_box(&root, "main", "tasks");
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    mend();
    ask(&root, "late");
    wait_for("the problem's end", || (!is_told(&root)).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let log = root.log();
    assert_eq!(log.matches("that is tried again").count(), 1, "said once: {log}");
}

#[test]
fn what_came_into_a_box_before_it_is_seen_to_be_another_one_is_found_then() {
    let root = Root::new(RARELY);
    let daemon = root.serve();
    ask(&root, "before");
    let tasks = root.data("ipc/main/tasks");
    // It is held: its end is no event.
    std::fs::remove_dir(&tasks).unwrap();
    std::fs::create_dir(&tasks).unwrap();
    let command = json!({"type": "list_tasks", "requestId": "early"});
    root.put_command("main", "tasks", "early.json", &command);
    // A change of the pause begins with a look, and the next one is an hour away.
    root.g2(&["config", "set", "limits.poll_interval_ms", "3500000"]);
    assert_eq!(root.reply("main", "early")["ok"], true);
    ask(&root, "after");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn each_group_whose_mailbox_can_not_be_opened_is_told_of_and_a_whole_one_goes_on() {
    let root = Root::new(RARELY);
    for group in ["two", "three"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let daemon = root.serve();
    ask(&root, "before");
    let mend = ["two", "three"].map(|group| break_box(&root, group, "tasks"));
    let told = |group: &str| {
        let status = root.json(&["status"]).to_string();
        status.contains(&format!("the mailbox of {group} can't be opened"))
    };
    wait_for("both problems", || (told("two") && told("three")).then_some(()));
    ask(&root, "beside");
    let [two, three] = mend;
    two();
    wait_for("the first one's end", || (!told("two")).then_some(()));
    assert!(told("three"));
    three();
    wait_for("the second one's end", || (!told("three")).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

/// Puts a command into the box of a group, claimed by a daemon that is gone before its writer was done; returns what finishes it.
fn claimed_unfinished(root: &Root, group: &str, command: &Value) -> impl FnOnce() + use<> {
    let daemon = root.serve();
    let path = root.data(&format!("ipc/{group}/messages/x.part"));
    let whole = command.to_string();
    let (most, rest) = whole.split_at(whole.len() - 1);
    std::fs::write(&path, most).unwrap();
    let mut writes = std::fs::File::options().append(true).open(&path).unwrap();
    std::fs::rename(&path, path.with_extension("json")).unwrap();
    wait_for("the claim", || (claimed(root) == 1).then_some(()));
    daemon.kill();
    let rest = rest.to_owned();
    move || writes.write_all(rest.as_bytes()).unwrap()
}

fn claimed(root: &Root) -> usize {
    std::fs::read_dir(root.data("claimed")).unwrap().count()
}

fn say(text: &str) -> Value {
    json!({"type": "send_message", "chatJid": "local:team", "text": text})
}

/// Asks for what is refused; returns what is said of it.
fn refused(root: &Root, arguments: &[&str]) -> String {
    let tried = root.run(arguments);
    assert!(!tried.status.success(), "{tried:?}");
    String::from_utf8(tried.stderr).unwrap()
}

fn with_a_team() -> Root {
    let root = Root::new(RARELY);
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
    root
}

#[test]
fn a_group_whose_commands_can_not_be_settled_is_not_removed_and_loses_none() {
    let root = with_a_team();
    let finish = claimed_unfinished(&root, "team", &say("claimed"));
    root.put_command("team", "messages", "y.json", &say("waiting"));
    let mend = break_box(&root, "team", "tasks");
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    let why = refused(&root, &["groups", "remove", "team", "--yes"]);
    assert!(why.contains("ipc/team/tasks"), "{why}");
    finish();
    mend();
    wait_for("both", || (root.said("local:team").len() == 2).then_some(()));
    assert_eq!(root.said("local:team"), ["claimed", "waiting"]);
    root.g2(&["groups", "remove", "team", "--yes"]);
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
    root.put_command("team", "messages", "z.json", &say("of the second"));
    wait_for("the second", || (root.said("local:team").len() == 3).then_some(()));
    assert_eq!(claimed(&root), 0);
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn the_reply_to_a_claim_that_is_settled_while_its_box_can_not_be_opened_is_there_once_it_can() {
    let root = with_a_team();
    let mut command = say("x");
    command["requestId"] = "asked".into();
    let finish = claimed_unfinished(&root, "team", &command);
    finish();
    let mend = break_box(&root, "team", "state");
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    wait_for("the receipt", || (root.said("local:team").len() == 1).then_some(()));
    mend();
    assert_eq!(root.reply("team", "asked")["ok"], true);
    wait_for("the claim's end", || (claimed(&root) == 0).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

/// Has commands of the team refused, as many as are wanted.
fn refusals(root: &Root, count: i64) {
    for n in 1..=count {
        let foreign = json!({"type": "send_message", "chatJid": "local:main", "text": n.to_string()});
        root.put_command("team", "messages", &format!("{n}.json"), &foreign);
        assert_eq!(root.settled_file("team", &format!("{n}.json"))["state"], "refused");
    }
}

#[test]
fn a_command_of_a_group_that_is_gone_is_not_tried_again() {
    let root = with_a_team();
    let daemon = root.serve();
    refusals(&root, 1);
    root.g2(&["groups", "remove", "team", "--yes"]);
    let why = refused(&root, &["ipc", "retry", "1"]);
    assert!(why.contains("group team, which is gone"), "{why}");
    assert_eq!(claimed(&root), 0);
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn what_a_person_decides_on_a_command_waits_for_the_mailbox_to_be_put_right() {
    let root = with_a_team();
    let daemon = root.serve();
    refusals(&root, 2);
    assert_eq!(daemon.terminate(), Some(0));
    let mend = break_box(&root, "team", "tasks");
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    root.g2(&["ipc", "retry", "1"]);
    root.g2(&["ipc", "retry", "2"]);
    root.g2(&["ipc", "drop", "4", "--reason", "not now", "--yes"]);
    assert_eq!(claimed(&root), 2);
    // The others are listed.
    root.put_command("main", "messages", "m.json", &json!({"type": "list_tasks"}));
    let listed = wait_for("the others", || {
        let listed = root.run(&["ipc", "list"]);
        String::from_utf8_lossy(&listed.stdout).contains("m.json").then_some(listed)
    });
    assert!(!listed.status.success());
    assert!(String::from_utf8(listed.stderr).unwrap().contains("ipc/team/tasks"));
    mend();
    wait_for("both claims' end", || (claimed(&root) == 0).then_some(()));
    let rows = root.rows(&["ipc", "list", "--group", "team"]);
    let of = |id: i64| rows.iter().find(|row| row["id"] == id).unwrap().clone();
    assert_eq!((&of(3)["state"], &of(3)["code"]), (&json!("refused"), &json!("not_authorized")));
    assert_eq!(of(4)["state"], "refused");
    assert!(of(4)["reason"].as_str().unwrap().contains("not now"), "{}", of(4));
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_later_group_has_nothing_of_an_earlier_one_whose_mailbox_was_never_opened() {
    let root = with_a_team();
    root.serve().terminate();
    let mend = break_box(&root, "team", "responses");
    std::fs::write(root.data("ipc/team/input/secret.json"), "{}").unwrap();
    let daemon = root.serve();
    wait_for("the problem", || is_told(&root).then_some(()));
    root.g2(&["groups", "remove", "team", "--yes"]);
    assert!(!is_told(&root), "nobody has such a mailbox any more");
    // By the command of an agent: nothing is cleared beforehand.
    let register = json!({"type": "register_group", "jid": "local:team", "name": "Team", "folder": "team", "trigger": "@G2", "requestId": "r"});
    root.put_command("main", "messages", "r.json", &register);
    assert_eq!(root.reply("main", "r")["ok"], true);
    root.put_command("team", "messages", "x.json", &say("of the second"));
    wait_for("the second", || (root.said("local:team").len() == 1).then_some(()));
    assert!(!root.data("ipc/team/input/secret.json").exists());
    assert_eq!(daemon.terminate(), Some(0));
    drop(mend);
}

fn renew_team(root: &Root) {
    root.g2(&["groups", "remove", "team", "--yes"]);
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
}

#[test]
fn what_an_earlier_group_asked_for_is_no_answer_to_a_later_one_of_its_name() {
    let root = with_a_team();
    let daemon = root.serve();
    let schedule = json!({"type": "schedule_task", "taskId": "t", "prompt": "p", "schedule_type": "interval",
        "schedule_value": "3600000", "requestId": "same"});
    root.put_command("team", "tasks", "1.json", &schedule);
    assert_eq!(root.reply("team", "same")["ok"], true);
    renew_team(&root);
    assert!(root.rows(&["tasks", "list"]).is_empty());
    root.put_command("team", "tasks", "2.json", &schedule);
    assert_eq!(root.reply("team", "same")["ok"], true);
    assert_eq!(root.rows(&["tasks", "list"]).len(), 1, "it is done for this one");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_command_of_an_earlier_group_is_not_tried_again_for_a_later_one_of_its_name() {
    let root = with_a_team();
    let daemon = root.serve();
    refusals(&root, 1);
    renew_team(&root);
    let why = refused(&root, &["ipc", "retry", "1"]);
    assert!(why.contains("group team, which is gone"), "{why}");
    // Its own can be.
    refusals(&root, 2);
    root.g2(&["ipc", "retry", "3"]);
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn commands_that_a_groups_limits_keep_waiting_do_not_keep_it() {
    let root = Root::new("[limits]\npoll_interval_ms = 3600000\ncommands_per_minute = 3\n");
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
    let daemon = root.serve();
    for n in 0..10 {
        root.put_command("team", "messages", &format!("{n}.json"), &say(&n.to_string()));
    }
    wait_for("the first ones", || (root.said("local:team").len() >= 3).then_some(()));
    let told = root.g2(&["groups", "remove", "team", "--yes"]);
    assert!(told.contains("commands that waited went unread"), "{told}");
    assert!(!root.data("ipc/team").exists());
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_removal_that_is_refused_changes_nothing_for_the_messages_that_wait() {
    let root = with_a_team();
    root.g2(&["config", "set", "limits.min_free_mib", "100000000"]);
    let daemon = root.serve();
    root.send("local:team", "@G2 hello");
    let mend = break_box(&root, "team", "tasks");
    refused(&root, &["groups", "remove", "team", "--yes"]);
    mend();
    root.g2(&["config", "set", "limits.min_free_mib", "1"]);
    wait_for("the answer", || (!root.said("local:team").is_empty()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn what_is_left_claimed_of_a_group_that_is_gone_is_refused_before_a_later_one_has_its_name() {
    let root = with_a_team();
    let daemon = root.serve();
    root.g2(&["groups", "remove", "team", "--yes"]);
    let mut left = say("of the first");
    left["requestId"] = "old".into();
    std::fs::write(root.data("claimed/77-team.json"), left.to_string()).unwrap();
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
    assert_eq!(claimed(&root), 0);
    let rows = root.rows(&["ipc", "list", "--group", "team"]);
    assert_eq!((&rows[0]["id"], &rows[0]["state"]), (&json!(77), &json!("refused")));
    // The next claim comes after this one, which the daemon had not given.
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve();
    root.put_command("team", "messages", "x.json", &say("of the second"));
    wait_for("the second", || (root.said("local:team").len() == 1).then_some(()));
    assert_eq!(root.said("local:team"), ["of the second"]);
    assert!(!root.data("ipc/team/responses/old.json").exists(), "it did not ask");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_group_whose_mailbox_can_not_be_removed_is_gone_and_its_name_is_taken_until_it_is() {
    let root = with_a_team();
    let daemon = root.serve();
    std::fs::remove_dir_all(root.data("tmp/trash")).unwrap();
    let removed = root.run(&["groups", "remove", "team", "--yes"]);
    let told = [removed.stdout, removed.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(removed.status.success() && told.contains("something is left of it"), "{told}");
    assert!(root.data("ipc/team").exists());
    root.put_command("team", "messages", "x.json", &say("of nobody"));
    // By the command of an agent, and by hand.
    let register = |id: &str| {
        let made = json!({"type": "register_group", "jid": "local:team", "name": "Team", "folder": "team", "trigger": "@G2", "requestId": id});
        root.put_command("main", "messages", &format!("{id}.json"), &made);
        root.reply("main", id)
    };
    let told = register("early");
    assert_eq!((&told["ok"], &told["error"]["code"]), (&json!(false), &json!("conflict")), "{told}");
    let why = refused(&root, &["groups", "add", "team", "--chat", "local:team"]);
    assert!(why.contains("ipc/team"), "{why}");
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = root.serve();
    assert!(!root.data("ipc/team").exists());
    assert_eq!(register("late")["ok"], true);
    root.put_command("team", "messages", "y.json", &say("of the second"));
    wait_for("the second", || (root.said("local:team").len() == 1).then_some(()));
    assert_eq!(root.said("local:team"), ["of the second"]);
    assert_eq!(daemon.terminate(), Some(0));
}
