//! The one list of problems: `status`, `doctor` and the log say the same, with the daemon up or down.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

mod store;

/// The codes of what `status` finds, worst first, and its exit code.
fn found(root: &Root) -> (Vec<String>, Option<i32>) {
    let status = root.json(&["status"]);
    let findings = status["findings"].as_array().unwrap_or_else(|| panic!("{status}"));
    let texts: Vec<&Value> = findings.iter().map(|finding| &finding["text"]).collect();
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().collect::<Vec<_>>().ends_with(&texts), "{status}");
    for finding in findings {
        assert!(
            ["code", "about", "severity", "text", "fix"].iter().all(|f| finding[f].is_string()),
            "{finding}"
        );
    }
    let codes = findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    (codes, root.run(&["status"]).status.code())
}

/// The rows of `doctor` that are not well, as check and detail.
fn unwell(root: &Root) -> Vec<(String, String)> {
    let rows = root.rows(&["doctor"]);
    let bad = rows.iter().filter(|row| row["status"] != "ok");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    // The machine's file system and the boundary that the suite goes without are nobody's fault.
    let machine = ["file_system", "file_handles", "inodes", "sandbox"];
    bad.map(|row| (text(&row["check"]), text(&row["detail"])))
        .filter(|(check, _)| !machine.contains(&check.as_str()))
        .collect()
}

#[test]
fn a_folder_of_the_root_that_is_replaced_under_the_daemon_is_told_until_it_is_back() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(found(&root).0, Vec::<String>::new());
    for part in ["ipc", "claimed", "media"] {
        let (held, aside) = (root.data(part), root.data("aside"));
        std::fs::rename(&held, &aside).unwrap();
        std::fs::create_dir(&held).unwrap();
        assert_eq!(found(&root).0, ["root"], "{part}");
        let told = unwell(&root);
        let told =
            told.iter().find(|(check, _)| check == "root").unwrap_or_else(|| panic!("{part}: {told:?}"));
        assert!(told.1.contains(&format!("data/{part} was moved away or replaced")), "{told:?}");
        std::fs::remove_dir_all(&held).unwrap();
        std::fs::rename(&aside, &held).unwrap();
        assert_eq!(found(&root).0, Vec::<String>::new(), "{part}");
    }
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
}

#[test]
fn a_problem_is_told_by_status_doctor_and_once_by_the_log_until_it_is_fixed() {
    let root = Root::new("");
    let codes = |all: &[&str]| all.iter().map(|code| (*code).to_owned()).collect::<Vec<_>>();
    let twin = ["wirings", "set", "--group", "twin", "--chat", "local:main"];
    root.g2(&["groups", "add", "twin", "--chat", "local:main"]);
    assert_eq!(found(&root), (codes(&["answers_twice"]), Some(3)), "with the daemon down");
    assert_eq!(unwell(&root).len(), 1, "{:?}", unwell(&root));
    let _daemon = root.serve();
    for _ in 0..3 {
        assert_eq!(found(&root), (codes(&["answers_twice"]), Some(1)));
    }
    assert_eq!(unwell(&root).len(), 1, "{:?}", unwell(&root));
    let people = String::from_utf8(root.run(&["status"]).stdout).unwrap();
    assert!(people.contains("fix: `g2 wirings set --group twin"), "{people}");
    let appeared = |log: &str| log.matches("a problem: main and twin engage").count();
    assert_eq!(appeared(&root.log()), 1, "{}", root.log());
    root.g2(&[&twin[..], &["engage=mention"]].concat());
    assert_eq!(found(&root), (codes(&[]), Some(0)));
    assert!(root.log().contains("a problem is gone: main and twin engage"), "{}", root.log());
    root.g2(&[&twin[..], &["engage=pattern", "pattern=."]].concat());
    assert_eq!(found(&root).1, Some(1));
    assert_eq!(appeared(&root.log()), 2);
}

#[test]
fn what_others_may_read_and_a_folder_that_is_missed_are_named_by_status_as_by_doctor() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(found(&root), (vec![], Some(0)));
    let settings = root.path().join("g2.toml");
    let mode = |mode| std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    root.g2(&["groups", "set", "main", r#"mounts=[{"hostPath": "/nowhere/at-all", "containerPath": "x"}]"#]);
    let (codes, exit) = found(&root);
    assert_eq!((codes, exit), (vec!["root".to_owned(), "mount".to_owned()], Some(1)));
    let findings = root.json(&["status"])["findings"].clone();
    let told = unwell(&root);
    assert_eq!(told.len(), 2, "{told:?}");
    for (n, part) in [(0, "g2.toml (mode 0644)"), (1, "main goes without /nowhere/at-all: ")] {
        assert_eq!(findings[n]["text"], told[n].1.as_str(), "one list for both");
        assert!(told[n].1.contains(part), "{told:?}");
    }
    mode(0o600);
    root.g2(&["groups", "set", "main", "mounts="]);
    assert_eq!(found(&root), (vec![], Some(0)));
}

#[test]
fn a_failure_of_doctor_is_in_the_log_from_the_start() {
    let root = Root::new("[limits]\nmin_free_mib = 4000000000\n[agent]\nscript = \"none.json\"\n");
    let _daemon = root.serve();
    for (code, says) in [("disk", "so no agent is launched"), ("script", "none.json")] {
        let told = |line: &str| line.contains("WARN") && line.contains("a problem: ") && line.contains(says);
        wait_for(code, || root.log().lines().any(told).then_some(()));
    }
    let (codes, exit) = found(&root);
    assert_eq!((codes, exit), (vec!["disk".to_owned(), "script".to_owned()], Some(1)));
    let rows = unwell(&root);
    assert_eq!(
        rows.iter().map(|(check, _)| check.as_str()).collect::<Vec<_>>(),
        ["disk", "script"],
        "{rows:?}"
    );
    std::fs::write(root.path().join("none.json"), "[]").unwrap();
    assert_eq!(found(&root).0, ["disk"]);
}

/// Settings under which a failure is tried again at once, or not within the hour.
fn after(rest_ms: u32) -> String {
    format!("[limits]\nretry_base_ms = {rest_ms}\npoll_interval_ms = 100\nmin_free_mib = 1\n")
}

#[test]
fn runs_that_fail_each_time_and_messages_that_were_given_up_are_told_until_a_run_goes_well() {
    let root = Root::new("");
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let daemon = root.serve();
    let seq = root.send("local:main", "hello");
    wait_for("it to be given up", || {
        root.why(seq)["answer"].as_str().unwrap().starts_with("given up").then_some(())
    });
    let codes = || found(&root).0;
    assert_eq!(codes(), ["runs_fail", "given_up"]);
    let status = root.json(&["status"]);
    assert!(status["problems"][0].as_str().unwrap().contains("exited with code 3"), "{status}");
    assert_eq!((&status["failed_24h"], &status["given_up_24h"]), (&json!(6), &json!(1)), "{status}");
    assert_eq!((&status["last_answer_at"], &status["oldest_waiting_ms"]), (&Value::Null, &Value::Null));
    assert_eq!(unwell(&root).len(), 2, "{:?}", unwell(&root));
    daemon.kill();
    assert_eq!(codes(), ["runs_fail", "given_up"], "with the daemon down");
    std::fs::write(root.path().join("script-all.json"), r#"[{"do": [{"say": "well"}]}]"#).unwrap();
    let _daemon = root.serve();
    root.ask("local:main", "and now?");
    assert_eq!(codes(), ["given_up"]);
    assert!(root.json(&["status"])["last_answer_at"].is_string());
}

#[test]
fn a_conversation_that_rests_while_messages_wait_is_told() {
    let root = Root::new(&after(3_600_000));
    root.script(None, &json!([{"do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    root.send("local:main", "hello");
    wait_for("the lane to rest", || (found(&root).0 == ["lane_rests"]).then_some(()));
    let status = root.json(&["status"]);
    assert!(status["oldest_waiting_ms"].is_i64() && status["messages_waiting"] == 1, "{status}");
}

#[test]
fn a_task_that_keeps_failing_and_unsent_texts_are_told() {
    let root = Root::new("");
    root.script(None, &json!([{"when": {"contains": "chore"}, "do": [{"exit": 3}]}]));
    let _daemon = root.serve();
    root.g2(&["tasks", "add", "--group", "main", "--type", "interval", "--value", "3600000", "chore"]);
    let id = root.rows(&["tasks", "list"])[0]["id"].as_str().unwrap().to_owned();
    root.g2(&["tasks", "run", &id]);
    wait_for("the task to fail each time", || {
        found(&root).0.contains(&"task_fails".to_owned()).then_some(())
    });
    wait_for("the task to be given up", || (root.said("local:main").len() == 1).then_some(()));
    // The group works, and the task does not.
    root.ask("local:main", "hello");
    assert_eq!(found(&root).0, ["task_fails"]);
    let lost = json!({"type": "send_message", "chatJid": "nochannel:1", "text": "into the void"});
    root.put_command("main", "messages", "lost.json", &lost);
    wait_for("what could not be said", || (found(&root).0 == ["task_fails", "outbox"]).then_some(()));
    root.g2(&["tasks", "pause", &id]);
    assert_eq!(found(&root).0, ["outbox"]);
}

#[test]
fn a_broken_set_up_names_each_cause_once_and_no_fix_that_is_done_already() {
    let claude = "[agent]\nprovider = \"claude\"\n";
    let unsandboxed = format!("[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n{claude}");
    for (settings, break_it, check) in [
        ("[limits]\nmin_free_mib = 4000000000\n", &[][..], "disk"),
        ("[agent]\nscript = \"none.json\"\n", &[], "script"),
        (&unsandboxed, &[], "model_key"),
        ("", &["groups", "add", "twin", "--chat", "local:main"], "answers_twice"),
        ("[gateway]\nupstream = \"http://api.example\"\n", &[], "gateway"),
    ] {
        let root = Root::new(settings);
        if !break_it.is_empty() && !root.run(break_it).status.success() {
            // Before it asked whether that is meant.
            root.g2(&break_it[..break_it.len() - 1]);
        }
        let checks: Vec<String> = unwell(&root).into_iter().map(|(check, _)| check).collect();
        assert_eq!(checks, [check], "{settings}");
    }
    let root = Root::new("");
    root.change_store("UPDATE groups SET is_main = 0");
    let checks: Vec<String> = unwell(&root).into_iter().map(|(check, _)| check).collect();
    assert_eq!(checks, ["main_group"]);
    // What a key needs is not advised once it is there.
    let root = Root::new(&unsandboxed);
    let env = root.path().join(".env");
    std::fs::write(&env, "ANTHROPIC_API_KEY=sk-ant-api03-x\n").unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&env, own).unwrap();
    assert_eq!(unwell(&root), []);
}

/// The rows of a check of `doctor` that are not well, but for files that a test made for all to read.
fn bad_rows(root: &Root, check: &str) -> Vec<Value> {
    let mut rows = root.rows(&["doctor"]);
    rows.retain(|row| row["check"] == check && row["status"] != "ok");
    rows.retain(|row| !row["detail"].as_str().unwrap().starts_with("other users"));
    rows
}

/// Removes the store with its log, as where its disk is not mounted.
fn remove_store(root: &Root) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(root.data(&format!("g2.sqlite{end}")));
    }
}

#[test]
fn status_and_doctor_name_the_reason_for_which_serve_would_refuse() {
    type Break = fn(&Root);
    let nothing: Break = |_| {};
    let cases: [(&str, Break, &str, &str); 9] = [
        ("", |root| std::fs::remove_dir_all(root.path()).unwrap(), "root", "is not laid out"),
        ("", remove_store, "root", "data/g2.sqlite missing"),
        (
            "",
            |root| {
                remove_store(root);
                std::fs::create_dir_all(root.data("runs/1")).unwrap();
            },
            "root",
            "restore it from a backup",
        ),
        (
            "",
            |root| {
                remove_store(root);
                std::fs::write(root.data("g2.sqlite"), "").unwrap();
            },
            "root",
            "contents of data/g2.sqlite",
        ),
        (
            "",
            |root| {
                remove_store(root);
                std::fs::write(root.data("g2.sqlite"), "no store".repeat(999)).unwrap();
            },
            "store",
            "not a database",
        ),
        (
            "",
            |root| std::fs::write(root.path().join("g2.toml"), "log_level = \"chatty\"\n").unwrap(),
            "settings",
            "log_level",
        ),
        ("[gateway]\nupstream = \"http://api.example\"\n", nothing, "gateway", "http://api.example"),
        (
            "[sandbox]\nkind = \"process\"\n[agent]\nprovider = \"claude\"\n",
            nothing,
            "sandbox",
            "Claude Code",
        ),
        ("[agent]\nkind = 1\n", nothing, "settings", "unknown field"),
    ];
    for (settings, break_it, check, says) in cases {
        let root = Root::new(settings);
        let serve = |root: &Root| root.spawn(&[]).wait();
        break_it(&root);
        let (codes, exit) = found(&root);
        assert_eq!((codes[0].as_str(), exit), (check, Some(3)), "{codes:?}");
        let status = root.json(&["status"]);
        let first = &status["findings"][0];
        assert!(format!("{} {}", first["text"], first["fix"]).contains(says), "{first}");
        assert!(status["problems"][0].as_str().unwrap().contains("after you fix the problem below"));
        assert_eq!(codes.iter().filter(|code| *code == check).count(), 1, "{codes:?}");
        let rows = bad_rows(&root, check);
        assert_eq!(rows.len(), 1, "{rows:?}");
        if root.path().exists() {
            assert_eq!(serve(&root), Some(1), "{check}: {says}");
        }
    }
    // One that starts is not said to be hindered.
    let root = Root::new("");
    let problem = root.json(&["status"])["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.ends_with("start it with `g2 start`"), "{problem}");
}

#[test]
fn the_env_file_of_v1_is_read_and_is_no_problem() {
    let root = Root::new("");
    let env = root.path().join(".env");
    std::fs::write(
        &env,
        "\u{feff}ASSISTANT_NAME=\"Andy\" # ours\r\nASSISTANT_HAS_OWN_NUMBER=true\r\nCONTAINER_MAX_OUTPUT_SIZE=10485760 # bytes\r\n\
         IDLE_TIMEOUT=600000\r\nMAX_CONCURRENT_CONTAINERS=3\r\nTZ=Europe/Vienna\r\n",
    )
    .unwrap();
    std::fs::set_permissions(&env, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let _daemon = root.serve();
    assert_eq!(found(&root), (vec![], Some(0)));
    let shown = root.rows(&["config", "show"]);
    let of = |name: &str| shown.iter().find(|row| row["name"] == name).map(|row| &row["value"]);
    assert_eq!(of("assistant_name"), Some(&Value::from("\"Andy\"")));
    assert_eq!(of("health.idle_ms"), Some(&Value::from("600000")));
    assert_eq!(of("limits.max_concurrent_containers"), Some(&Value::from("3")));
    // What is no setting is named with what is there instead.
    let checked = root.run(&["config", "check"]);
    let told = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{told}");
    for name in [
        "ASSISTANT_HAS_OWN_NUMBER in .env",
        "CONTAINER_MAX_OUTPUT_SIZE in .env has no effect: sandbox.output_mib",
    ] {
        assert!(told.contains(name), "{told}");
    }
    let rows = root.rows(&["doctor"]);
    let row =
        rows.iter().find(|row| row["detail"].to_string().contains("CONTAINER_MAX_OUTPUT_SIZE")).unwrap();
    assert_eq!((&row["check"], &row["status"]), (&"settings".into(), &"ok".into()));
    // A change in the file holds as that of its setting does.
    std::fs::write(&env, "ASSISTANT_NAME=Bert\n").unwrap();
    let said = root.g2(&["config", "set", "assistant_name", "Carl"]);
    assert!(said.contains("ASSISTANT_NAME in .env wins"), "{said}");
}

#[test]
fn unusable_settings_outside_of_the_file_are_in_the_one_list() {
    let root = Root::new("");
    let env = root.path().join(".env");
    let set_mode = |mode| {
        std::fs::set_permissions(&env, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    std::fs::write(&env, "export ANTHROPIC_API_KEY=sk-secret\nANTHROPIC_API_KY=sk-secret\n").unwrap();
    set_mode(0o644);
    assert_eq!(found(&root).0, ["settings", "settings", "secrets"]);
    let rows = unwell(&root);
    assert_eq!(rows.iter().filter(|(check, _)| check == "settings").count(), 2, "{rows:?}");
    assert_eq!(rows.iter().filter(|(check, _)| check == "secrets").count(), 1, "{rows:?}");
    // The start closes it; what it can't do is read what nobody knows.
    let _daemon = root.serve();
    assert_eq!(found(&root), (vec!["settings".to_owned(); 2], Some(1)));
    set_mode(0o644);
    let status = root.json(&["status"]);
    assert!(
        status.to_string().contains("mode 0644") && !status.to_string().contains("sk-secret"),
        "{status}"
    );
    std::fs::remove_file(&env).unwrap();
    assert_eq!(found(&root).0, [] as [&str; 0]);
}

#[test]
fn unreadable_settings_say_nothing_about_those_of_the_running_daemon() {
    let root = Root::new("[sandbox]\nkind = \"process\"\n");
    let _daemon = root.serve();
    let settings = "log_level = \"chatty\"\n[sandbox]\nkind = \"process\"\n";
    std::fs::write(root.path().join("g2.toml"), settings).unwrap();
    let rows = root.rows(&["doctor"]);
    let of = |check: &str| rows.iter().filter(|row| row["check"] == check).collect::<Vec<_>>();
    assert_eq!(of("sandbox").len(), 1, "{rows:?}");
    let detail = of("sandbox")[0]["detail"].as_str().unwrap();
    assert_eq!(detail, "agents run as plain child processes of this user: no boundary");
    assert_eq!((of("docker").len(), of("image").len()), (0, 0), "{rows:?}");
}

#[tokio::test]
async fn a_platform_that_refuses_the_connection_is_a_problem_until_it_takes_it() {
    use g2::domain::platforms::channels::Connection::{Connected, Refused};
    let root = Root::new("");
    let store = g2::store::Store::open(&root.data("g2.sqlite")).unwrap();
    let is = async |channel: &str, state| {
        let since = ipc_handlers::Time(1_800_000_000_000);
        store.set_connection(channel.into(), state, Some("bad token".into()), since).await.unwrap();
    };
    is("local", Refused).await;
    // This program does not have it.
    is("gone", Refused).await;
    assert_eq!(found(&root), (vec!["channel".to_owned()], Some(3)));
    assert!(root.json(&["status"])["findings"][0]["text"].as_str().unwrap().ends_with(": bad token"));
    is("local", Connected).await;
    assert_eq!(found(&root), (vec![], Some(3)));
}
