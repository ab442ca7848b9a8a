//! Faults of our own: work that panics begins anew, the log and `status` name it, and nothing is lost by it.

use serde_json::{Value, json};

use super::reads::change;
use crate::support::{Root, Socket, fail_points, wait_for};

const CHAT: &str = "local:main";

#[test]
fn a_fault_over_what_is_said_to_a_chat_leaves_no_chat_mute() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "deliver.saying:1:panic")]);
    assert_eq!(root.ask(CHAT, "hello").trim(), "echo: hello");
    let log = root.log();
    let says = |line: &&str| {
        let parts = ["our own fault: work failed; it is tried again", "loop=deliver", &format!("key={CHAT}")];
        parts.iter().all(|part| line.contains(part))
    };
    assert!(log.lines().any(|line| says(&line)), "{log}");
    assert_eq!(root.json(&["status"])["state"], "healthy");
}

#[test]
fn status_names_a_chat_that_a_fault_of_ours_keeps_mute() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let daemon = root.serve_with(&[("G2_FAILPOINT", "deliver.saying:0:panic")]);
    root.send(CHAT, "hello");
    let finding = wait_for("status to name it", || {
        let status = root.json(&["status"]);
        status["findings"].as_array()?.iter().find(|finding| finding["code"] == "loop_key").cloned()
    });
    let about = format!("deliver {CHAT}");
    assert_eq!((&finding["about"], &finding["severity"]), (&json!(about), &json!("fail")), "{finding}");
    daemon.kill();
    let _daemon = root.serve();
    wait_for("it to be said", || (root.said(CHAT) == ["echo: hello"]).then_some(()));
}

/// The row of a loop as `g2 loops list` has it.
fn row(root: &Root, name: &str) -> Value {
    root.rows(&["loops", "list"]).into_iter().find(|row| row["loop"] == name).unwrap()
}

#[test]
fn work_that_is_set_aside_is_listed_and_goes_on_when_a_person_releases_it() {
    if !fail_points() {
        return;
    }
    let root = Root::new("");
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "deliver.saying:1+2+3+4+5:panic")]);
    assert_eq!(
        (row(&root, "deliver")["state"].clone(), row(&root, "amends")["state"].clone()),
        (json!("well"), json!("well"))
    );
    root.send(CHAT, "hello");
    let aside = wait_for("the chat to be set aside", || {
        Some(row(&root, "deliver")).filter(|row| row["state"] == "set_aside")
    });
    let key = &aside["keys"][0];
    assert_eq!((&key["key"], &key["failures"], &key["aside"]), (&json!(CHAT), &json!(5), &json!(true)));
    assert!(
        aside["trouble"].as_str().unwrap().starts_with("local:main failed 5 times in a row, set aside: "),
        "{aside}"
    );
    assert!(root.g2(&["loops", "list"]).contains("set_aside"));
    let output = root.run(&["status"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("\nloops      1 key of deliver set aside (`g2 loops list`)\n"), "{page}");
    let listed = root.json(&["status"])["loops"].clone();
    let of = listed.as_array().unwrap().iter().find(|row| row["loop"] == "deliver").unwrap();
    assert_eq!(of["keys"][0]["aside"], true);
    let figures = root.g2(&["metrics"]);
    for figure in [
        "g2_loop_failures_total{loop=\"deliver\"} 5\n",
        "g2_loop_keys{loop=\"deliver\",state=\"at_work\"} 0\n",
    ] {
        assert!(figures.contains(figure), "{figure}: {figures}");
    }
    assert!(!figures.contains(CHAT), "{figures}");
    let report = root.g2(&["report", "--show"]);
    assert!(report.contains("\"state\": \"set_aside\"") && !report.contains(CHAT), "{report}");
    let other = root.run(&["loops", "release", "deliver", "local:other"]);
    assert_eq!(other.status.code(), Some(1));
    let said = root.g2(&["loops", "release", "deliver", CHAT]);
    assert_eq!(said.trim(), "local:main of the loop deliver goes on");
    wait_for("it to be said", || (root.said(CHAT) == ["echo: hello"]).then_some(()));
    wait_for("it to be well", || (row(&root, "deliver")["state"] == "well").then_some(()));
    assert_eq!(root.json(&["status"])["state"], "healthy");
}

#[test]
fn without_a_daemon_no_loop_is_listed_and_nothing_rests() {
    let root = Root::new("");
    let listed = root.run(&["loops", "list"]);
    let told = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert_eq!(listed.status.code(), Some(3));
    assert!(listed.stdout.is_empty() && told.contains("no daemon runs"), "{told}");
    assert!(root.json(&["status"])["loops"].is_null());
    let said = root.g2(&["loops", "release", "deliver", "--all"]);
    assert_eq!(said.trim(), "no key of the loop deliver is set aside or rests after a failure");
    let released = root.run(&["loops", "release", "deliver", CHAT]);
    let told = String::from_utf8_lossy(&released.stderr).into_owned();
    assert_eq!(released.status.code(), Some(1));
    assert!(told.contains("no key local:main of the loop deliver is set aside or rests"), "{told}");
    for wrong in [&["loops", "release", "deliver"][..], &["loops", "release", "nothing", "--all"]] {
        assert_eq!(root.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_message_over_which_we_fail_keeps_back_its_own_lane_alone_and_is_judged_once_we_do_not() {
    // Each message has a turn of its own.
    let root = Root::new(
        "[limits]\nbatch_messages = 1\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    );
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    let _daemon = root.serve();
    change(
        &root,
        "CREATE TRIGGER no_verdict BEFORE UPDATE OF verdict ON inbox
           WHEN (SELECT text FROM messages WHERE seq = new.seq) = 'poison'
         BEGIN SELECT RAISE(ABORT, 'a fault of ours'); END",
    );
    root.send(CHAT, "poison");
    root.send(CHAT, "later");
    for text in ["one", "two"] {
        assert_eq!(root.ask("local:other", text).trim(), format!("echo: {text}"));
    }
    let names_it = || {
        let status = root.json(&["status"]);
        let names = |finding: &Value| finding["code"] == "our_fault";
        status["findings"].as_array().unwrap().iter().any(names)
    };
    wait_for("status to name it", || names_it().then_some(()));
    assert!(root.said(CHAT).is_empty());
    // More wait there than are judged at once.
    let mut socket = Socket::connect(&root);
    for n in 0..600 {
        socket.accepted(CHAT, &format!("filler {n}"), &n.to_string());
    }
    assert_eq!(root.ask("local:other", "three").trim(), "echo: three");
    change(&root, "DROP TRIGGER no_verdict");
    // In their order, in one turn or two.
    wait_for("the answers", || {
        let said = root.said(CHAT).join("\n");
        said.find("poison").zip(said.find("later")).filter(|(first, then)| first < then)
    });
    wait_for("status to be healthy", || (root.json(&["status"])["state"] == "healthy").then_some(()));
}

/// A root whose agent says a word and leaves.
fn leaving() -> Root {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"say": "bye"}, {"exit": 0}]}]));
    root
}

/// Whether `status` says that a fault of ours is in the way of main's commands.
fn names_main(root: &Root) -> bool {
    let status = root.json(&["status"]);
    let names = |finding: &Value| finding["code"] == "our_fault" && finding["about"] == "main";
    status["findings"].as_array().unwrap().iter().any(names)
}

fn reply_to_list(root: &Root, name: &str) {
    root.put_command(
        "main",
        "tasks",
        &format!("{name}.json"),
        &json!({"type": "list_tasks", "requestId": name}),
    );
    assert_eq!(root.reply("main", name)["ok"], true);
}

#[test]
fn a_fault_over_the_last_commands_of_a_run_has_them_drained_anew_before_it_is_judged() {
    if !fail_points() {
        return;
    }
    let root = leaving();
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.draining/main:1:panic")]);
    root.send(CHAT, "hello");
    wait_for("the run to be judged", || {
        root.rows(&["runs", "list"]).first()?["ended_at"].is_string().then_some(())
    });
    let log = root.log();
    assert!(log.contains("our own fault: the work on a group's commands failed"), "{log}");
    assert!(log.contains("that is asked for anew before it is judged"), "{log}");
    reply_to_list(&root, "after");
    assert!(!names_main(&root));
}

#[test]
fn a_run_whose_last_commands_cannot_be_settled_by_a_fault_of_ours_is_not_judged_and_its_group_is_named() {
    if !fail_points() {
        return;
    }
    let root = leaving();
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.draining/main:0:panic")]);
    root.send(CHAT, "hello");
    let again = "that is asked for anew before it is judged";
    wait_for("some tries", || (root.log().matches(again).count() > 1).then_some(()));
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "running");
    wait_for("status to name the group", || names_main(&root).then_some(()));
    // What comes meanwhile is settled.
    reply_to_list(&root, "beside");
}

#[test]
fn work_on_a_groups_commands_that_dies_begins_anew_and_each_command_is_done_once_in_order() {
    if !fail_points() {
        return;
    }
    let root = leaving();
    root.g2(&["groups", "add", "beside", "--chat", "local:beside"]);
    root.serve().terminate();
    let say = |text: &str| json!({"type": "send_message", "chatJid": "local:beside", "text": text});
    let texts: Vec<String> = (100..160).map(|n| n.to_string()).collect();
    let (first, then) = texts.split_at(30);
    let put = |texts: &[String]| {
        texts
            .iter()
            .for_each(|text| root.put_command("main", "messages", &format!("{text}.json"), &say(text)));
    };
    // One of them is claimed, and its daemon dead.
    put(first);
    assert_ne!(root.spawn(&[("G2_FAILPOINT", "ipc.claimed")]).signal(), None);
    let daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.draining/main:1+2:panic")]);
    root.send(CHAT, "hello");
    put(then);
    let died = "our own fault: the work on a group's commands failed; it begins anew";
    wait_for("it to die twice", || (root.log().matches(died).count() >= 2).then_some(()));
    wait_for("the run to be judged", || {
        root.rows(&["runs", "list"]).first()?["ended_at"].is_string().then_some(())
    });
    wait_for("all of it to be settled", || {
        let rows = root.rows(&["ipc", "list", "--group", "main", "--limit", "1000"]);
        let open = rows.iter().any(|row| row["state"] == "waiting" || row["state"] == "claimed");
        (!open && rows.len() >= texts.len()).then_some(())
    });
    let rows = root.rows(&["outbox", "list", "--chat", "local:beside", "--limit", "1000"]);
    assert_eq!(rows.iter().map(|row| row["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
    assert_eq!(daemon.terminate(), Some(0));
}
