//! What the command line tells of one message, one command.

use super::*;

#[test]
fn why_tells_the_whole_story_of_a_message() {
    let root = Root::new("");
    let daemon = root.serve();
    root.ask("local:main", "hello");
    let why = root.json(&["why", "1"]);
    has(&why, &["message", "wirings", "outbox", "answer"]);
    has(
        &why["wirings"][0],
        &["group", "engages", "rule", "reason", "batch", "run", "waited_ms", "waited_for"],
    );
    assert_eq!(why["message"]["text"], "hello");
    let wiring = &why["wirings"][0];
    assert_eq!(
        (&wiring["group"], &wiring["engages"], &wiring["rule"]),
        (&json!("main"), &json!(true), &json!("pattern"))
    );
    assert_eq!((&wiring["run"], &wiring["waited_for"]), (&json!(1), &Value::Null));
    assert_eq!(why["outbox"][0]["text"], "echo: hello");
    assert_eq!(why["answer"], "answered; the answer is sent");
    assert!(root.g2(&["why", "1"]).starts_with("answered"));

    root.g2(&["wirings", "set", "--group", "main", "--chat", "local:main", "engage=mention"]);
    root.ask("local:main", "not you");
    let why = root.json(&["why", "2"]);
    assert_eq!(why["wirings"][0]["engages"], false);
    assert!(why["answer"].as_str().unwrap().starts_with("nobody was woken"), "{why}");

    let sent = root.json(&["send", "--chat", "local:nobody", "--as", "guest", "anyone?"]);
    let why = root.json(&["why", &sent["seq"].to_string()]);
    assert!(why["answer"].as_str().unwrap().contains("no group is wired"), "{why}");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn why_says_that_an_answer_was_wholly_internal() {
    let root = Root::new("");
    root.script(
        None,
        &json!([
            {"when": {"contains": "think"}, "do": [{"say": "<internal>a thought that is never closed"}]},
            {"when": {"contains": "both"}, "do": [{"say": "<internal>a thought</internal>"}, {"say": "a word"}]},
            {"do": []},
        ]),
    );
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "think"), "");
    let why = root.why(1);
    assert_eq!(
        why["answer"],
        "the agent finished with it and said nothing: all of its answer was <internal>"
    );
    assert_eq!((&why["wirings"][0]["unsaid"], why["outbox"].as_array().unwrap().len()), (&json!(true), 0));
    assert_eq!(root.ask("local:main", "both"), "a word\n");
    assert_eq!(root.why(2)["answer"], "answered; the answer is sent");
    root.ask("local:main", "nothing");
    assert_eq!(root.why(3)["answer"], "the agent finished with it and said nothing");
}

#[test]
fn why_names_a_daemon_that_is_down_and_a_lane_that_rests() {
    let root = Root::new("[limits]\nretry_base_ms = 3600000\npoll_interval_ms = 100\nmin_free_mib = 1\n");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let daemon = root.serve();
    root.g2(&["send", "fail"]);
    let resting = wait_for("a lane that rests", || {
        let why = root.json(&["why", "1"]);
        let waits = why["wirings"][0]["waited_for"].as_str().map(str::to_owned);
        waits.filter(|waits| waits.contains("rests until")).map(|_| why)
    });
    assert!(resting["answer"].as_str().unwrap().contains("code 3"), "{resting}");
    assert_eq!(daemon.terminate(), Some(0));

    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let daemon = root.serve_with(&[("DOCKER_HOST", "unix:///nonexistent")]);
    root.g2(&["send", "hello"]);
    daemon.kill();
    let why = root.json(&["why", "1"]);
    assert!(why["answer"].as_str().unwrap().contains("the daemon, which is not running"), "{why}");
}

#[test]
fn engage_explain_tells_each_wirings_rule_and_stores_nothing() {
    let root = Root::new("");
    root.g2(&["groups", "add", "team", "--chat", "tg:-1"]);
    root.g2(&[
        "wirings",
        "add",
        "--group",
        "main",
        "--chat",
        "tg:-1",
        "--engage",
        "pattern",
        "--pattern",
        "(?:deploy|ship) it",
    ]);
    let explain = |more: &[&str]| {
        let command: Vec<&str> =
            ["engage", "explain", "--chat", "tg:-1"].iter().chain(more).copied().collect();
        let rows = root.rows(&command);
        let row = |group: &str| rows.iter().find(|row| row["group"] == group).unwrap().clone();
        let told = |row: Value| (row["engages"].as_bool().unwrap(), row["rule"].as_str().unwrap().to_owned());
        (told(row("team")), told(row("main")))
    };
    let told = |engages, rule: &str| (engages, rule.to_owned());
    assert_eq!(explain(&["hello"]), (told(false, "none"), told(false, "none")));
    assert_eq!(explain(&["@G2 ship it"]), (told(true, "trigger"), told(true, "pattern")));
    assert_eq!(explain(&["--mention", "hello"]), (told(true, "mention"), told(false, "none")));
    let rows = root.rows(&["engage", "explain", "--chat", "tg:-1", "hello"]);
    assert!(rows.iter().all(|row| !row["reason"].as_str().unwrap().is_empty()));
    root.g2(&["users", "role", "tg:me", "owner"]);
    // A whole id is one of the chat's channel; that of another is a name there, and nobody's.
    let sender = |who: &str| {
        let row = &root.rows(&["engage", "explain", "--chat", "tg:-1", "--as", who, "hello"])[0];
        ["sender", "standing"].map(|name| row[name].as_str().unwrap().to_owned())
    };
    assert_eq!(sender("tg:me"), ["tg:me", "owner"]);
    assert_eq!(sender("local:me"), ["tg:local:me", "unknown"]);
    // A chat that was only spoken in, and one that nobody has heard of.
    root.g2(&["wirings", "remove", "--group", "main", "--chat", "local:main"]);
    for (chat, more) in [("local:main", ""), ("tg:-2", "; nobody has spoken there yet either")] {
        let reason = format!(
            "no group is wired to {chat}{more}; wire one with `g2 wirings add --group FOLDER --chat {chat} --engage pattern`"
        );
        let output = root.run(&["engage", "explain", "--chat", chat, "hello", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        has(&rows[0], &["group", "engages", "rule", "reason"]);
        assert_eq!((&rows[0]["group"], &rows[0]["engages"]), (&Value::Null, &json!(false)), "{rows}");
        assert_eq!(rows[0]["reason"], reason);
        let output = root.run(&["engage", "explain", "--chat", chat, "hello"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).trim(), format!("g2: {reason}"));
        let output = root.run(&["engage", "explain", "--chat", chat, "hello", "--json"]);
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["code"], "refused", "{error}");
    }
    assert!(root.rows(&["messages", "list"]).is_empty());
}

#[test]
fn watching_the_mailbox_prints_each_command_as_it_reaches_a_state() {
    let root = Root::new("");
    let _daemon = root.serve();
    let child =
        root.command(&["--json", "ipc", "watch", "--count", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    // Until it prints, for it does not say when it has begun to look.
    let done = std::sync::atomic::AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                root.put_command("main", "tasks", &format!("{n}.json"), &json!({"type": "list_tasks"}));
                root.settled(n);
            }
        });
        let output = child.wait_with_output().unwrap();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        output
    });
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    has(&row, &["id", "group", "box", "name", "type", "state", "age_ms"]);
}

#[test]
fn events_are_told_from_a_number_an_instant_or_an_age_of_one_group_or_all() {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let all = root.rows(&["events"]);
    let of = |arguments: &[&str]| root.rows(&[&["events"], arguments].concat());
    let last = all.last().unwrap()["seq"].to_string();
    assert!(of(&["--since", &last]).is_empty());
    assert_eq!(of(&["--limit", "2"]), all[all.len() - 2..]);
    assert_eq!(of(&["--since", "1d"]), all);
    assert_eq!(of(&["--since", "2020-01-01T00:00:00Z"]), all);
    assert!(of(&["--since", "2099-01-01T00:00:00Z"]).is_empty());
    let family = of(&["--group", "family"]);
    let kinds: Vec<&str> = family.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"group") && kinds.contains(&"wiring"), "{family:?}");
    assert!(family.iter().all(|event| event["group"] == "family"));
    assert_eq!(root.run(&["events", "--group", "nobody"]).status.code(), Some(1));
    assert_eq!(of(&["--since", "yesterday"]), all);
    assert!(of(&["--until", "yesterday"]).is_empty());
    assert_eq!(root.run(&["events", "--since", "one day"]).status.code(), Some(1));
    assert!(root.g2(&["events"]).contains("local:family"));
}
