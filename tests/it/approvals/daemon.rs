//! Questions on local chats, through the real daemon and the real command line.
#![expect(clippy::disallowed_methods, reason = "a test plays the user, who writes a template")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::json;

use crate::support::{Root, Socket, wait_for};

/// A root whose group `family` is asked about strangers in `local:family`.
pub(crate) fn root() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store
        .execute("UPDATE chats SET unknown_sender_policy = 'request_approval' WHERE jid = 'local:family'", [])
        .unwrap();
    root
}

/// Waits until a chat was said something that begins so; returns all that it was said.
pub(crate) fn said(root: &Root, chat: &str, begins: &str) -> Vec<String> {
    wait_for(begins, || {
        let said = root.said(chat);
        said.iter().any(|text| text.starts_with(begins)).then_some(said)
    })
}

#[test]
fn a_stranger_on_a_local_chat_is_heard_once_the_owner_types_the_number() {
    let root = root();
    let _daemon = root.serve();
    let send = |text: &str| root.g2(&["send", "--chat", "local:family", "--as", "bob", "--wait", "60", text]);
    assert_eq!(send("hello"), "", "nothing is said to a stranger");
    said(&root, "local:main", "New sender (question #1)");
    assert_eq!(send("anybody?"), "");
    assert_eq!(root.json(&["status"])["approvals_pending"], 1);
    let listed = root.rows(&["approvals", "list"]);
    assert_eq!(
        (listed.len(), &listed[0]["kind"], &listed[0]["sender"], &listed[0]["messages"]),
        (1, &json!("sender"), &json!("local:bob"), &json!([1, 2]))
    );
    let output = root.run(&["send", "--wait", "60", "1"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.starts_with("Allowed by local:me: family knows bob (local:bob)"), "{output:?}");
    said(&root, "local:family", "echo: anybody?");
    assert_eq!(root.ask("local:family", "and now?"), "echo: and now?\n");
    assert!(root.rows(&["approvals", "list"]).is_empty());
    let shown = root.json(&["approvals", "show", "1"]);
    assert_eq!((&shown["state"], &shown["decided_by"]), (&json!("approved"), &json!("local:me")));
    assert_eq!(shown["events"].as_array().unwrap().len(), 2);
    assert!(root.why(3)["answer"].as_str().unwrap().contains("it answers question 1"), "{}", root.why(3));
}

#[test]
fn no_question_names_the_owner_for_somebody_whose_name_looks_like_theirs() {
    let root = root();
    let _daemon = root.serve();
    let mut socket = Socket::connect(&root);
    for (n, sender) in ["me ", " ME", "me\u{a0}", "m\u{200b}e", "local:me", "bob\u{3164}"].iter().enumerate()
    {
        let request = json!({"op": "send", "chat": "local:family", "sender": sender, "text": "hi", "key": n.to_string()});
        let answer = socket.call(&request);
        let why = answer["message"].as_str().unwrap_or_default();
        assert!(answer["is"] == "error" && why.starts_with("the sender"), "{sender:?}: {answer}");
        let output = root.run(&["send", "--chat", "local:family", "--as", sender, "hi"]);
        assert_eq!(output.status.code(), Some(2), "{sender:?}: {output:?}");
    }
    assert!(
        root.rows(&["messages", "list"]).is_empty() && root.rows(&["approvals", "list", "--all"]).is_empty()
    );
}

#[test]
fn the_command_line_answers_with_the_daemon_up_or_down() {
    let root = root();
    let daemon = root.serve();
    for sender in ["bob", "eve", "zoe"] {
        root.g2(&["send", "--chat", "local:family", "--as", sender, "--wait", "60", sender]);
    }
    root.g2(&["approvals", "approve", "1"]);
    said(&root, "local:family", "echo: bob");
    let refused = root.run(&["approvals", "approve", "2", "--as", "eve"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("local:eve may not answer"), "{refused:?}");
    daemon.terminate();
    root.g2(&["approvals", "approve", "2"]);
    root.g2(&["approvals", "deny", "3"]);
    let late = root.run(&["approvals", "approve", "3"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&late.stderr).contains("answered by local:me: deny"), "{late:?}");
    assert_eq!(root.run(&["approvals", "show", "9"]).status.code(), Some(1));
    let _daemon = root.serve();
    assert_eq!(said(&root, "local:family", "echo: eve"), ["echo: bob", "echo: eve"]);
    let states: Vec<_> =
        root.rows(&["approvals", "list", "--all"]).iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["approved", "approved", "denied"]);
    assert_eq!(root.rows(&["approvals", "list", "--all", "--limit", "1"])[0]["id"], 3);
}

#[test]
fn an_unknown_chat_becomes_an_agent_of_its_own_by_two_words_of_the_owner() {
    let root = root();
    std::fs::write(root.path().join("groups/_template/CLAUDE.md"), "made from the template").unwrap();
    let _daemon = root.serve();
    let output = root.run(&["send", "--chat", "local:chess", "--as", "bob", "who wins?"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("it waits for the answer to question 1"), "{told}");
    assert!(root.why(1)["answer"].as_str().unwrap().contains("question 1 waits for local:me"));
    said(&root, "local:main", "New direct chat (question #1)");
    root.send("local:main", "2");
    said(&root, "local:main", "What is the new agent to be called?");
    root.send("local:main", "Chess Club");
    assert_eq!(said(&root, "local:chess", "echo: who wins?"), ["echo: who wins?"]);
    let memory = std::fs::read_to_string(root.path().join("groups/chess-club/CLAUDE.md")).unwrap();
    assert_eq!(memory, "made from the template");
    assert!(root.data("ipc/chess-club/messages").is_dir());
    assert_eq!(root.rows(&["groups", "list"]).len(), 3);
}

#[test]
fn the_owner_s_own_new_chat_is_wired_at_once_where_there_is_one_group() {
    let root = Root::new("");
    let _daemon = root.serve();
    let output = root.run(&["send", "--chat", "local:new", "--wait", "60", "hello"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "echo: hello\n", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("local:new is wired to group main now"));
    root.g2(&["wirings", "remove", "--group", "main", "--chat", "local:new"]);
    let output = root.run(&["send", "--chat", "local:new", "hello"]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("question 1"),
        "asked, as it was unwired: {output:?}"
    );
}

#[test]
fn a_press_comes_in_by_the_socket() {
    let root = root();
    let _daemon = root.serve();
    root.g2(&["send", "--chat", "local:family", "--as", "bob", "--wait", "60", "hello"]);
    let mut socket = Socket::connect(&root);
    let press = |sender: &str| json!({"op": "click", "press": "1:1", "sender": sender});
    let refused = socket.call(&press("bob"));
    assert_eq!((&refused["is"], &refused["done"]), (&json!("answered"), &json!(false)), "{refused}");
    assert_eq!(socket.call(&press("me"))["done"], true);
    assert_eq!(socket.call(&press("me"))["done"], false, "once");
    assert_eq!(said(&root, "local:family", "echo: hello"), ["echo: hello"]);
    assert_eq!(socket.call(&json!({"op": "click", "press": "nonsense", "sender": "me"}))["is"], "error");
}

#[test]
fn too_many_questions_are_a_problem_that_is_told_of_until_many_are_closed() {
    let root = root();
    let _daemon = root.serve();
    root.g2(&["send", "--chat", "local:family", "--as", "bob", "--wait", "60", "hello"]);
    assert_eq!(root.json(&["status"])["state"], "healthy");
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store
        .execute_batch(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 19)
             INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at)
             SELECT kind, chat_jid, sender || n, '', state, approver, card_chat, options, created_at, expires_at FROM approvals, n",
        )
        .unwrap();
    let status = root.run(&["--json", "status"]);
    assert_eq!(status.status.code(), Some(1));
    let told = String::from_utf8(status.stdout).unwrap();
    assert!(
        told.contains("degraded") && told.contains("20 questions about senders of local:family"),
        "{told}"
    );
    let row =
        |root: &Root| root.rows(&["doctor"]).into_iter().find(|row| row["check"] == "approvals").unwrap();
    assert_eq!(row(&root)["status"], "warn", "{}", row(&root));
    assert_eq!(root.run(&["approvals", "deny"]).status.code(), Some(2));
    assert_eq!(root.run(&["approvals", "deny", "1", "--all"]).status.code(), Some(2));
    assert_eq!(root.run(&["approvals", "deny", "--all", "--as", "eve"]).status.code(), Some(1));
    assert!(root.g2(&["approvals", "deny", "--chat", "local:family"]).contains("20 questions are closed"));
    assert_eq!(root.json(&["status"])["state"], "healthy");
    assert!(root.g2(&["approvals", "deny", "--all"]).contains("0 questions are closed"));
}

#[test]
fn the_doctor_says_when_nobody_can_be_asked_and_names_unsent_questions() {
    let root = root();
    let rows = |root: &Root| -> Vec<String> {
        let all = root.rows(&["doctor"]);
        let of_check = all.iter().filter(|row| row["check"] == "approvals");
        of_check
            .map(|row| format!("{}: {}", row["status"].as_str().unwrap(), row["detail"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(rows(&root), ["ok: no question waits; local:me would be asked"]);
    let store = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    store.execute("UPDATE users SET dm_chat = 'tg:1'", []).unwrap();
    assert!(rows(&root)[0].starts_with("warn: nobody who may decide can be reached"), "{:?}", rows(&root));
}
