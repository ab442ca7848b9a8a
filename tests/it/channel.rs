//! The daemon's socket against clients of every kind.
#![expect(clippy::disallowed_methods, reason = "a test puts something else where the socket was")]
#![expect(clippy::disallowed_types, reason = "a test starts a daemon that may open few files")]

use serde_json::{Value, json};

use crate::support::{Root, Socket, wait_for};

/// Whatever was done to the socket before, somebody else gets his answer.
fn assert_serves(root: &Root, text: &str) {
    assert_eq!(root.ask("local:main", text), format!("echo: {text}\n"));
}

#[test]
fn a_line_that_is_no_request_gets_an_error_and_the_connection_goes_on() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for line in [
        "hello",
        "",
        "{}",
        "null",
        "[1]",
        r#"{"op":"launch"}"#,
        r#"{"op":5}"#,
        r#"{"op":"send"}"#,
        r#"{"op":"send","chat":"local:main","sender":"me","text":7,"key":"k"}"#,
        "{\"op\":\"status\"",
    ] {
        socket.write(format!("{line}\n").as_bytes());
        let answer = socket.hear();
        assert_eq!(answer["is"], "error", "{line}: {answer}");
        assert!(!answer["message"].as_str().unwrap().is_empty(), "{line}");
    }
    socket.write(b"\xff\xfe\x00{\n");
    assert_eq!(socket.hear()["is"], "error");
    assert_eq!(socket.call(&json!({"op": "status"}))["is"], "status");
    // Several requests in one write, and one in several.
    socket.write(b"{\"op\":\"status\"}\n{\"op\":\"status\"}\r\n{\"op\":");
    socket.hear();
    socket.hear();
    socket.write(b"\"status\"}\n");
    assert_eq!(socket.hear()["state"], "healthy");
}

#[test]
fn a_message_that_cannot_be_taken_in_is_refused_with_a_reason() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let long_name = format!("local:{}", "x".repeat(600));
    let long_text = "x".repeat((4 << 20) + 1);
    for (chat, text, reason) in [
        ("tg:-100", "hi", "no local chat"),
        ("main", "hi", "no local chat"),
        ("", "hi", "no local chat"),
        ("local:", "hi", "no local chat"),
        ("local:a\nb", "hi", "no local chat"),
        (&long_name, "hi", "512"),
        ("local:main", " \n", "nothing in this message"),
        ("local:main", &long_text, "4194304"),
    ] {
        let answer = socket.send(chat, text, "k");
        assert_eq!(answer["is"], "error", "{chat}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(reason), "{chat}: {answer}");
    }
    assert!(root.rows(&["messages", "list"]).is_empty());
    // Exactly as much as is allowed.
    let most = "y".repeat(4 << 20);
    socket.accepted("local:main", &most, "k");
    socket.rest("local:main");
    let said = root.said("local:main");
    assert!(said.iter().all(|part| part.len() <= 1 << 20), "{} parts", said.len());
    assert_eq!(said.concat(), format!("echo: {most}"));
}

#[test]
fn a_line_without_end_is_cut_off_and_costs_no_other_client() {
    let root = Root::new("");
    let daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        socket.write(&piece);
    }
    let mut last = None;
    while let Some(answer) = socket.next() {
        last = Some(answer);
    }
    assert_eq!(last.unwrap()["is"], "error");
    assert_serves(&root, "still there?");
    assert!(!daemon.has_ended());
}

#[test]
fn a_client_that_goes_away_while_it_waits_leaves_its_message_to_be_answered() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    for n in 0..10 {
        let mut socket = Socket::connect(&root);
        socket.call(&json!({"op": "listen", "chat": "local:main"}));
        socket.accepted("local:main", &n.to_string(), &n.to_string());
        socket.ask(&json!({"op": "rest", "chat": "local:main"}));
        if n % 2 == 0 {
            socket.write(b"{\"op\":\"send\",\"chat\":\"local:main\"");
        }
    }
    root.open_gate();
    Socket::connect(&root).rest("local:main");
    assert_eq!(root.said("local:main").last().unwrap(), "echo: 9");
    assert_eq!(root.rows(&["messages", "list"]).len(), 10);
    for seq in 1..=10 {
        assert_eq!(root.why(seq)["wirings"][0]["batch_state"], "done");
    }
}

#[test]
fn a_client_that_does_not_read_keeps_nobody() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut deaf = Socket::connect(&root);
    deaf.call(&json!({"op": "listen", "chat": "local:main"}));
    let mut socket = Socket::connect(&root);
    // More than a socket's buffers hold.
    let big = "z".repeat(1 << 20);
    for n in 0..4 {
        socket.accepted("local:main", &big, &n.to_string());
        socket.rest("local:main");
    }
    assert_serves(&root, "quick");
    // What it did not read is there when it does.
    let mut heard = 0;
    while heard < 5 {
        assert_eq!(deaf.hear()["is"], "said");
        heard += 1;
    }
}

#[test]
fn a_client_that_reads_late_hears_a_long_backlog_in_order_and_then_that_the_chat_rests() {
    let root = Root::new("");
    let texts: Vec<String> =
        (0..250).map(|n| format!("{n} {}", "z".repeat(if n % 50 == 0 { 200 << 10 } else { 10 }))).collect();
    let says: Vec<Value> = texts.iter().map(|text| json!({"say": text})).collect();
    root.script(None, &json!([{"do": says}]));
    let _daemon = root.serve();
    let mut late = Socket::connect(&root);
    late.call(&json!({"op": "listen", "chat": "local:main"}));
    let mut socket = Socket::connect(&root);
    socket.accepted("local:main", "go", "k");
    socket.rest("local:main");
    late.ask(&json!({"op": "rest", "chat": "local:main"}));
    for text in &texts {
        assert_eq!(late.hear()["text"].as_str(), Some(text.as_str()));
    }
    assert_eq!(late.hear(), json!({"is": "rest"}));
}

#[test]
fn a_message_that_comes_again_is_as_wired_as_the_first_time() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    let first = socket.send("local:main", "hi", "k");
    assert_eq!((&first["seq"], &first["wired"]), (&json!(1), &json!(1)), "{first}");
    assert_eq!(socket.send("local:main", "hi", "k"), first);
}

#[test]
fn more_clients_than_are_served_are_told_so_and_keep_nobody_from_work() {
    let root = Root::new("");
    let mut limited = std::process::Command::new("/bin/sh");
    limited.arg("-c").arg(format!(
        "ulimit -n 190; exec '{}' --root '{}' serve",
        env!("CARGO_BIN_EXE_g2"),
        root.path().display()
    ));
    let _daemon = root.spawn_by(limited);
    wait_for("the daemon to be ready", || (root.run(&["status"]).status.code() == Some(0)).then_some(()));
    let ping = json!({"op": "ping"});
    let served = || {
        let mut socket = Socket::connect(&root);
        (socket.call(&ping)["is"] == "done").then_some(socket)
    };
    let mut clients: Vec<Socket> = std::iter::from_fn(served).collect();
    assert!((1..=60).contains(&clients.len()), "{}", clients.len());
    for _ in 0..50 {
        let told = Socket::connect(&root).call(&ping);
        assert!(told["message"].as_str().unwrap().contains("programs at once"), "{told}");
    }
    let told = root.run(&["status"]);
    assert_eq!(told.status.code(), Some(3), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stdout).contains("programs at once"), "{told:?}");
    root.put_command("main", "messages", "1.json", &json!({"type": "list_tasks", "requestId": "r"}));
    assert_eq!(root.reply("main", "r")["ok"], true);
    assert_eq!(clients[0].call(&ping)["is"], "done");
    clients.clear();
    wait_for("a client to be served", || served().map(drop));
    assert_serves(&root, "and now?");
    let lines = root.log().lines().filter(|line| line.contains("are turned away")).count();
    assert_eq!(lines, 1, "once a minute: {}", root.log());
}

#[test]
fn two_hundred_clients_hear_the_texts_of_their_own_chat_only() {
    let root = Root::new("");
    let _daemon = root.serve();
    let mut clients: Vec<Socket> = (0..200).map(|_| Socket::connect(&root)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        let chat = if n % 2 == 0 { "local:main" } else { "local:other" };
        assert_eq!(client.call(&json!({"op": "listen", "chat": chat})), json!({"is": "listening"}));
    }
    assert_serves(&root, "everybody?");
    for (n, client) in clients.iter_mut().enumerate() {
        if n % 2 == 0 {
            let said = client.hear();
            assert_eq!(
                [&said["is"], &said["text"], &said["chat_jid"]],
                [&json!("said"), &json!("echo: everybody?"), &json!("local:main")]
            );
        } else {
            assert_eq!(client.call(&json!({"op": "status"}))["is"], "status");
        }
    }
    drop(clients);
    assert_serves(&root, "and now?");
}

#[test]
fn the_command_line_says_with_its_exit_code_that_no_daemon_runs() {
    let root = Root::new("");
    assert_eq!(root.run(&["send", "hi"]).status.code(), Some(3));
    assert_eq!(root.run(&["status"]).status.code(), Some(3));
    assert_eq!(root.json(&["status"])["state"], "not running");
    let daemon = root.serve();
    let status = root.json(&["status"]);
    for name in "state instance pid version since groups running waiting outbox_pending dead stale_recoveries_24h problems".split(' ') {
        assert!(status.get(name).is_some(), "{name}: {status}");
    }
    assert_eq!((&status["pid"], &status["groups"]), (&json!(daemon.pid()), &json!(1)));
    // A second daemon is refused, and the first one serves on.
    assert_eq!(root.spawn(&[]).wait(), Some(1));
    assert_serves(&root, "hi");
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(root.run(&["status"]).status.code(), Some(3));
}

#[test]
fn a_mute_listener_on_the_socket_keeps_no_command_waiting() {
    let root = Root::new("");
    let daemon = root.serve();
    root.ask("local:main", "hi");
    daemon.kill();
    let path = root.data("g2.sock");
    let _ = std::fs::remove_file(&path);
    let _squatter = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let status = root.json(&["status"]);
    assert_eq!(status["state"], "not answering", "{status}");
    assert!(status["problems"][0].as_str().unwrap().contains("no answer within 2 s"), "{status}");
    for (arguments, code, says) in [
        (vec!["status"], 3, ""),
        (vec!["send", "hi"], 3, "does not answer"),
        (vec!["send", "--wait", "60", "hi"], 3, "does not answer"),
        (vec!["chat"], 3, "does not answer"),
        (vec!["why", "1"], 0, ""),
        // The lock says that no daemon serves the root, so changes are made here.
        (vec!["groups", "set", "main", "name=Other"], 0, ""),
        (vec!["groups", "add", "family", "--chat", "local:family"], 0, ""),
        (vec!["groups", "remove", "family", "--yes"], 0, ""),
    ] {
        let output = root.run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn a_daemon_that_does_not_answer_keeps_changes_from_being_made_beside_it() {
    let root = Root::new("");
    let daemon = root.serve();
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let output = root.run(&["--json", "groups", "set", "main", "name=Other"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(said["error"]["code"], "not_answering", "{said}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(root.json(&["groups", "show", "main"])["name"], "Main");
    root.g2(&["groups", "set", "main", "name=Other"]);
}

#[test]
fn a_time_out_of_a_waiting_send_is_told_by_its_exit_code() {
    let root = Root::new("");
    root.close_gate("");
    let _daemon = root.serve();
    let output = root.run(&["send", "--wait", "0", "hi"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    root.open_gate();
    wait_for("the answer", || (root.said("local:main") == ["echo: hi"]).then_some(()));
}
