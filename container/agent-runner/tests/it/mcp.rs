//! `g2-agent mcp` with a client of the SDK's own, and with lines that no such client would write.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResult},
    service::{RunningService, ServiceExt},
};
use serde_json::{Value, json};

use crate::fixture::{Home, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_g2-agent");

fn environment(home: &Home, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let ipc = home.path("ipc").to_string_lossy().into_owned();
    [("G2_IPC_DIR", &*ipc), ("G2_CHAT_JID", "local:kitchen"), ("TZ", "Europe/Berlin")]
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Runs `with` a client of the SDK whose server is the real one.
fn with_client<F: Future<Output = ()>>(
    home: &Home,
    more: &[(&str, &str)],
    with: impl FnOnce(RunningService<RoleClient, ()>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut server = tokio::process::Command::new(PROGRAM)
            .arg("mcp")
            .env_clear()
            .envs(environment(home, more))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pipes = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        with(().serve(pipes).await.unwrap()).await;
        assert!(server.wait().await.unwrap().success());
    });
}

async fn call(
    client: &RunningService<RoleClient, ()>,
    name: &'static str,
    arguments: Value,
) -> (String, bool) {
    let mut request = CallToolRequestParams::new(name);
    request.arguments = arguments.as_object().cloned();
    let result: CallToolResult = client.call_tool(request).await.unwrap();
    let text = serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned();
    (text, result.is_error == Some(true))
}

/// Plays the host: each command is answered by `reply`; returns them when `of` have come.
fn host(
    home: &Home,
    of: usize,
    reply: impl Fn(&Value) -> Option<Value> + Send + 'static,
) -> std::thread::JoinHandle<Vec<Value>> {
    let ipc = home.path("ipc");
    std::thread::spawn(move || {
        let home = Home::at(ipc.parent().unwrap());
        let mut commands = Vec::new();
        while commands.len() < of {
            let command = home.command("ipc/tasks");
            if let Some(mut reply) = reply(&command) {
                let id = command["requestId"].as_str().unwrap();
                reply["requestId"] = id.into();
                home.put(&format!("ipc/responses/{id}.json"), reply.to_string());
            }
            commands.push(command);
        }
        commands
    })
}

#[test]
fn a_client_is_offered_the_tools_and_told_what_the_host_says() {
    let home = Home::new();
    let host = host(&home, 2, |command| {
        Some(match command["type"].as_str().unwrap() {
            "send_message" => json!({"ok": true, "result": {"outboxId": 5}}),
            _ => {
                json!({"ok": false, "error": {"code": "not_found", "message": "no task \"t\"", "hint": "look"}})
            }
        })
    });
    with_client(&home, &[], async |client| {
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
        assert!(
            names.contains(&"schedule_task".into()) && !names.contains(&"register_group".into()),
            "{names:?}"
        );
        let schedule =
            serde_json::to_value(tools.iter().find(|t| t.name == "schedule_task").unwrap()).unwrap();
        assert!(schedule["description"].as_str().unwrap().contains("Europe/Berlin"), "{schedule}");
        assert_eq!(schedule["inputSchema"]["required"], json!(["prompt", "schedule_type", "schedule_value"]));
        let said = call(&client, "send_message", json!({"text": "hi"})).await;
        assert_eq!(said, (r#"Done: {"outboxId":5}"#.to_owned(), false));
        let refused = call(&client, "cancel_task", json!({"task_id": "t"})).await;
        assert_eq!(refused, ("Refused (not_found): no task \"t\". Hint: look".to_owned(), true));
        client.cancel().await.unwrap();
    });
    let commands = host.join().unwrap();
    assert_eq!((&commands[0]["chatJid"], &commands[0]["text"]), (&json!("local:kitchen"), &json!("hi")));
    assert!(home.names("ipc/responses").is_empty());
}

#[test]
fn the_main_group_may_name_other_chats() {
    let home = Home::new();
    let host = host(&home, 1, |_| Some(json!({"ok": true, "result": {}})));
    with_client(&home, &[("G2_IS_MAIN", "1")], async |client| {
        let said = call(&client, "send_message", json!({"text": "hi", "chat_jid": "tg:1"})).await;
        assert_eq!(said, ("Done.".to_owned(), false));
        client.cancel().await.unwrap();
    });
    assert_eq!(host.join().unwrap()[0]["chatJid"], "tg:1");
}

#[test]
fn a_silent_host_may_have_applied_it_and_the_same_call_keeps_its_id() {
    let home = Home::new();
    // It hears all, and answers the second time.
    let heard = std::sync::atomic::AtomicUsize::new(0);
    let host = host(&home, 3, move |_| match heard.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => None,
        _ => Some(json!({"ok": true, "result": {"n": 1}})),
    });
    with_client(&home, &[("G2_REPLY_TIMEOUT_MS", "2000")], async |client| {
        let (words, failed) = call(&client, "send_message", json!({"text": "hi"})).await;
        assert!(failed && words.contains("may have been applied") && words.contains("2000 ms"), "{words}");
        for text in ["hi", "another"] {
            let (words, failed) = call(&client, "send_message", json!({"text": text})).await;
            assert!(!failed, "{words}");
        }
        client.cancel().await.unwrap();
    });
    let commands = host.join().unwrap();
    assert_eq!(commands[0], commands[1]);
    assert_ne!(commands[0]["requestId"], commands[2]["requestId"]);
}

#[test]
fn what_is_called_wrongly_is_refused_and_never_becomes_a_command() {
    let home = Home::new();
    with_client(&home, &[], async |client| {
        for (name, arguments, words) in [
            ("no_such", json!({}), "there is no tool \"no_such\"; there are: send_message"),
            ("register_group", json!({}), "there is no tool"),
            ("send_message", json!({"txt": "hi"}), "send_message has no argument \"txt\"; it has: text"),
            ("send_message", json!({"text": "x".repeat(2 << 20)}), "write long text into a file"),
        ] {
            let (said, failed) = call(&client, name, arguments).await;
            assert!(failed && said.contains(words), "{said}");
        }
        client.cancel().await.unwrap();
    });
    assert!(home.names("ipc/tasks").is_empty());
}

/// A client that writes lines.
struct Lines {
    server: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Lines {
    fn start(home: &Home, more: &[(&str, &str)]) -> Self {
        let mut server = Command::new(PROGRAM)
            .arg("mcp")
            .env_clear()
            .envs(environment(home, more))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        Self { server, stdin, stdout }
    }

    fn hello(home: &Home, more: &[(&str, &str)]) -> Self {
        let mut lines = Self::start(home, more);
        lines.write(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).to_string());
        let hello = lines.read();
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
        assert_eq!(hello["result"]["serverInfo"]["name"], "g2");
        lines.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        lines
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn call(&mut self, id: u64, text: &str) {
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "send_message", "arguments": {"text": text}}})
                .to_string(),
        );
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    fn end(&mut self) -> ExitStatus {
        self.stdin = None;
        self.server.wait().unwrap()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn lines_that_are_none_cost_nothing() {
    let home = Home::new();
    let mut client = Lines::hello(&home, &[]);
    for line in ["", "garbage", "{", "\u{0}", "{\"jsonrpc\":\"2.0\"", "\u{feff}", "nul"] {
        client.write(line);
    }
    // Longer than is held: passed over to its end.
    client.write(&"x".repeat((64 << 20) + 1));
    client.write(r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#);
    let answer = client.read();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32601)), "{answer}");
    for line in [r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":5}}"#, r#"{"id":9}"#] {
        client.write(line);
        assert!(client.read()["error"].is_object());
    }
    client.write(r#"{"jsonrpc":"2.0","id":10,"method":"ping"}"#);
    assert_eq!(client.read()["id"], 10);
    assert!(client.end().success());
    assert!(home.names("ipc/tasks").is_empty());
}

#[test]
fn commands_are_written_in_the_order_of_the_calls() {
    let home = Home::new();
    let host = host(&home, 20, |command| Some(json!({"ok": true, "result": {"text": command["text"]}})));
    let mut client = Lines::hello(&home, &[]);
    for n in 0..20 {
        client.call(100 + n, &n.to_string());
    }
    let mut answered: Vec<u64> = (0..20).map(|_| client.read()["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (100..120).collect::<Vec<_>>());
    let said: Vec<Value> = host.join().unwrap().iter().map(|command| command["text"].clone()).collect();
    assert_eq!(said, (0..20).map(|n| n.to_string().into()).collect::<Vec<Value>>());
}

#[test]
fn a_client_that_closes_its_end_after_a_call_is_answered_all_the_same() {
    let home = Home::new();
    let mut client = Lines::hello(&home, &[]);
    client.call(1, "hi");
    client.stdin = None;
    host(&home, 1, |_| Some(json!({"ok": true, "result": {}}))).join().unwrap();
    assert_eq!(client.read()["result"]["content"][0]["text"], "Done.");
    assert!(client.end().success());
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_call_ends_the_server_and_sends_nothing_twice() {
    let home = Home::new();
    let mut client = Lines::hello(&home, &[("G2_REPLY_TIMEOUT_MS", "600000")]);
    client.call(1, "hi");
    wait_until("the command", || home.names("ipc/tasks").iter().any(|name| name.ends_with(".json")));
    assert!(client.end().success());
    assert_eq!(home.names("ipc/tasks").len(), 1);
}

#[test]
fn a_call_that_is_taken_back_before_its_turn_is_never_sent() {
    let home = Home::new();
    let mut client = Lines::hello(&home, &[]);
    client.call(1, "first");
    client.call(2, "second");
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    client.call(3, "third");
    client.write(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#);
    assert_eq!(client.read()["id"], 4);
    let said = host(&home, 2, |_| Some(json!({"ok": true, "result": {}}))).join().unwrap();
    assert_eq!((&said[0]["text"], &said[1]["text"]), (&json!("first"), &json!("third")));
    assert_eq!(client.read()["id"], 1);
    assert_eq!(client.read()["id"], 3);
}

#[test]
fn a_mailbox_that_is_not_there_is_said_to_the_model() {
    let home = Home::new();
    let mut client = Lines::hello(&home, &[("G2_IPC_DIR", "/no/such/ipc")]);
    client.call(1, "hi");
    let answer = client.read();
    assert_eq!(answer["result"]["isError"], true);
    let words = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("writing the command failed") && words.contains("/no/such/ipc"), "{words}");
}

#[test]
fn a_server_that_does_not_know_its_chat_does_not_start() {
    let home = Home::new();
    for (name, value, words) in
        [("G2_CHAT_JID", "", "G2_CHAT_JID is not set"), ("G2_REPLY_TIMEOUT_MS", "soon", "\"soon\"")]
    {
        let output = Command::new(PROGRAM)
            .arg("mcp")
            .env_clear()
            .envs(environment(&home, &[(name, value)]))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    }
    let output = Command::new(PROGRAM).arg("mpc").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("g2-agent mcp"));
}
