//! Agents in real containers. Skipped, and it is said, where no Docker answers.

use std::{fs, os::unix::fs::MetadataExt as _};

use serde_json::{Value, json};

use crate::support::{Docked, EngineProxy, Socket, run_docker, wait_for};

#[test]
fn a_message_and_its_follow_up_are_answered_by_one_container() {
    let Some(root) = Docked::new("") else { return };
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    assert_eq!(root.ask("local:main", "é 🦀 <b>"), "echo: é 🦀 <b>\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(
        (runs.len(), &runs[0]["sandbox"], &runs[0]["status"]),
        (1, &json!("docker"), &json!("running"))
    );
    let containers = root.containers();
    assert_eq!([runs[0]["container"].as_str().unwrap()], containers[..]);
    let seen: Value = serde_json::from_str(&run_docker(&["inspect", &containers[0]])).unwrap();
    let host = &seen[0]["HostConfig"];
    assert_eq!((&seen[0]["Config"]["User"], &host["NetworkMode"]), (&json!("1000:1000"), &json!("none")));
    assert_eq!((&host["ReadonlyRootfs"], &host["CapDrop"]), (&json!(true), &json!(["ALL"])));
    // When its conversation begins anew the container leaves, and is removed.
    root.put_command("main", "tasks", "x.json", &json!({"type": "clear_session"}));
    wait_for("the container to be removed", || root.containers().is_empty().then_some(()));
    assert_eq!(root.rows(&["runs", "list"])[0]["status"], "succeeded");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_missing_image_gives_no_message_up_keeps_no_other_group_and_is_seen_when_it_is_there() {
    let Some(root) =
        Docked::new("[limits]\nretry_base_ms = 600000\npoll_interval_ms = 100\nmin_free_mib = 1\n")
    else {
        return;
    };
    let name = format!("g2-test-missing-{}", std::process::id());
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root.g2(&["groups", "set", "family", &format!("image={name}")]);
    let _daemon = root.serve();
    let seq = root.send("local:family", "hello");
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "family",
        "--id",
        "t",
        "--type",
        "once",
        "--value",
        &crate::support::due(),
        "p",
    ]);
    wait_for("the task to be put off", || {
        root.json(&["tasks", "show", "t"])["last_result"].as_str()?.contains("is not there").then_some(())
    });
    let wiring = wait_for("the message to wait", || {
        let wiring = root.why(seq)["wirings"][0].clone();
        wiring["waited_for"].as_str()?.contains("is not there").then_some(wiring)
    });
    assert_eq!((&wiring["tries"], &wiring["batch_state"]), (&json!(0), &json!("returned")));
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n", "only that group waits");
    let status = root.json(&["status"]);
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.len() == 1 && problems[0].as_str().unwrap().contains("does not exist"), "{status}");
    assert!(root.said("local:family").is_empty());
    run_docker(&["tag", crate::support::agent_image(), &name]);
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("the answer", || (root.said("local:family") == ["echo: hello"]).then_some(()));
        wait_for("the task to be done", || {
            (root.json(&["tasks", "show", "t"])["status"] == "completed").then_some(())
        });
    }));
    run_docker(&["rmi", &name]);
    answered.unwrap();
}

#[test]
fn an_agent_acts_by_files_which_its_own_user_writes() {
    let Some(root) = Docked::new("") else { return };
    root.script(
        None,
        &json!([{"do": [
            {"command": {"box": "messages", "json": {"type": "send_message", "requestId": "r1", "chatJid": "{{chat_jid}}", "text": "by file"}}},
            {"command": {"box": "tasks", "json": {"type": "send_message", "requestId": "r2", "chatJid": "local:nowhere", "text": "x"}}},
            {"say": "{{reply}}"},
        ]}]),
    );
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    root.ask("local:family", "go");
    let said = root.said("local:family");
    assert_eq!(said[0], "by file");
    let reply: Value = serde_json::from_str(&said[1]).unwrap();
    assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!("not_authorized")));
    // The box and what the agent left in it are its own; the snapshots beside it are not.
    let owner = |path: &str| fs::symlink_metadata(root.data(path)).unwrap().uid();
    let us = rustix::process::geteuid().as_raw();
    let agent = if us == 0 { 1000 } else { us };
    for path in ["ipc/family/messages", "ipc/family/state", "ipc/family/state/heartbeat"] {
        assert_eq!(owner(path), agent, "{path}");
    }
    assert_eq!(owner("ipc/family/current_tasks.json"), us);
}

#[test]
fn a_turn_goes_on_while_the_daemon_is_killed_and_started_again() {
    let Some(root) = Docked::new("") else { return };
    root.script(None, &json!([
        {"when": {"contains": "long"}, "do": [{"say": "one"}, {"wait_ms": 1500}, {"say": "two"}, {"wait_ms": 1500}, {"say": "three"}]},
        {"do": [{"say": "{{text}} too"}]},
    ]));
    let mut daemon = root.serve();
    root.send("local:main", "long");
    wait_for("the first word", || (root.said("local:main") == ["one"]).then_some(()));
    daemon.kill();
    // What is written meanwhile counts as written in the turn.
    root.put_command(
        "main",
        "messages",
        "x.json",
        &json!({"type": "send_message", "chatJid": "local:main", "text": "meanwhile"}),
    );
    daemon = root.serve();
    let follow_up = root.send("local:main", "short");
    wait_for("the second word", || root.said("local:main").contains(&"two".to_owned()).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let _daemon = root.serve();
    Socket::connect(&root).rest("local:main");
    let mut said = root.said("local:main");
    said.retain(|text| text != "meanwhile");
    assert_eq!(said, ["one", "two", "three", "short too"]);
    let runs = root.rows(&["runs", "list"]);
    assert_eq!((runs.len(), &runs[0]["error"]), (1, &Value::Null), "one container did it all");
    assert_eq!(root.why(follow_up)["wirings"][0]["run"], 1);
}

#[test]
fn never_more_containers_than_the_cap() {
    let Some(root) = Docked::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nmax_concurrent_containers = 2\n",
    ) else {
        return;
    };
    for n in 0..5 {
        root.g2(&["groups", "add", &format!("g{n}"), "--chat", &format!("local:c{n}")]);
    }
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for n in 0..5 {
        socket.accepted(&format!("local:c{n}"), &format!("hello {n}"), "k");
    }
    let mut most = 0;
    wait_for("everybody to be answered", || {
        most = most.max(root.containers().len());
        (root.rows(&["outbox", "list"]).len() == 5).then_some(())
    });
    assert!((1..=2).contains(&most), "{most} containers at once");
    for n in 0..5 {
        assert_eq!(root.said(&format!("local:c{n}")), [format!("echo: hello {n}")]);
    }
}

#[test]
fn an_image_that_is_not_there_is_named_and_the_message_waits_for_it() {
    let Some(root) = Docked::new("") else { return };
    root.g2(&["groups", "set", "main", "image=g2-no-such-image:none"]);
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let error =
        "image g2-no-such-image:none is not there; build it with `g2 image build g2-no-such-image:none`";
    wait_for("the run to end", || {
        root.rows(&["runs", "list"]).iter().any(|run| run["error"] == error).then_some(())
    });
    // It is the host's to mend, and nothing is given up.
    assert_eq!(root.said("local:main"), [] as [&str; 0]);
    assert!(root.json(&["status"])["problems"].to_string().contains("g2-no-such-image:none"));
    // Once it is mended the chat goes on.
    root.g2(&["groups", "set", "main", "image="]);
    wait_for("the message to be answered", || {
        root.said("local:main").iter().any(|said| said == "echo: hello").then_some(())
    });
    assert_eq!(root.ask("local:main", "again"), "echo: again\n");
}

#[test]
fn a_container_that_crashes_hangs_or_floods_ends_with_its_reason() {
    let Some(root) = Docked::new("output_mib = 1\n[health]\nclaim_ms = 2000\n") else { return };
    for (n, steps, reason) in [
        (0, json!([{"exit": 3}]), "exited with code 3"),
        (1, json!([{"hang": true}]), "ended because it took a message and gave no sign of life for 2 s"),
        (2, json!([{"print": "x".repeat(2 << 20)}, {"hang": true}]), "wrote more than 1048576 bytes"),
    ] {
        let (group, chat) = (format!("g{n}"), format!("local:c{n}"));
        root.g2(&["groups", "add", &group, "--chat", &chat]);
        root.script(Some(&group), &json!([{"do": steps}]));
        let daemon = root.serve();
        root.send(&chat, "hello");
        let run = wait_for("the run to end", || {
            root.rows(&["runs", "list"])
                .into_iter()
                .find(|run| run["group"] == *group && run["ended_at"].is_string())
        });
        root.script(Some(&group), &json!([{"do": [{"say": "better now"}]}]));
        assert!(run["error"].as_str().unwrap().starts_with(reason), "{run}");
        Socket::connect(&root).rest(&chat);
        assert_eq!(root.said(&chat), ["better now"]);
        daemon.terminate();
    }
}

#[test]
fn an_engine_that_is_away_in_the_middle_of_a_turn_ends_nothing() {
    let Some(root) = Docked::new("") else { return };
    root.script(None, &json!([{"do": [{"say": "one"}, {"wait_ms": 6000}, {"say": "two"}]}]));
    let proxy = EngineProxy::listen(&root.path().join("engine.sock"));
    let _daemon = root.serve_with(&[("DOCKER_HOST", &proxy.host())]);
    let seq = root.send("local:main", "go");
    wait_for("the first word", || (root.said("local:main") == ["one"]).then_some(()));
    proxy.cut();
    wait_for("the daemon to notice", || (root.json(&["status"])["state"] == "degraded").then_some(()));
    let run = &root.rows(&["runs", "list"])[0];
    assert_eq!((&run["status"], &run["error"]), (&json!("running"), &Value::Null), "{run}");
    proxy.mend();
    wait_for("the rest of the answer", || (root.said("local:main") == ["one", "two"]).then_some(()));
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    assert_eq!(root.why(seq)["wirings"][0]["batch_state"], "done");
}

#[test]
fn groups_that_wait_for_an_engine_that_is_away_at_the_start_are_answered_once_and_within_the_cap() {
    let Some(root) = Docked::new(
        "[limits]\nmax_concurrent_containers = 2\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\n",
    ) else {
        return;
    };
    let groups = ["main", "ada", "bob", "cleo", "dan"];
    for group in &groups[1..] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let proxy = EngineProxy::listen(&root.path().join("engine.sock"));
    proxy.cut();
    let _daemon = root.serve_with(&[("DOCKER_HOST", &proxy.host())]);
    let asked: Vec<i64> =
        groups.iter().map(|group| root.send(&format!("local:{group}"), &format!("I am {group}"))).collect();
    for command in ["status", "doctor"] {
        wait_for(command, || {
            let shown = String::from_utf8(root.run(&[command]).stdout).unwrap();
            shown.contains("the container engine does not answer").then_some(())
        });
    }
    assert!(root.containers().is_empty());
    proxy.mend();
    let mut most = 0;
    for group in groups {
        let said = [format!("echo: I am {group}")];
        wait_for(group, || {
            most = most.max(root.containers().len());
            (root.said(&format!("local:{group}")) == said).then_some(())
        });
    }
    assert!((1..=2).contains(&most), "{most} containers at a time");
    for (group, seq) in groups.iter().zip(asked) {
        Socket::connect(&root).rest(&format!("local:{group}"));
        assert_eq!(root.said(&format!("local:{group}")), [format!("echo: I am {group}")]);
        assert_eq!(root.why(seq)["wirings"][0]["batch_state"], "done", "{group}");
    }
    wait_for("what was wrong to be over", || (root.json(&["status"])["state"] != "degraded").then_some(()));
}
