//! Webhooks: programs of others write to an agent by the page's listener, and have its answers.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::Command,
    sync::mpsc::{Receiver, channel},
};

use serde_json::{Value, json};

use super::{Paged, http};
use crate::support::{DEADLINE, adapters, wait_for};

/// A receiver of answers, which takes each.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/{{name}}", listener.local_addr().unwrap());
    let (tell, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let at = head.len();
                reader.read_line(&mut head).unwrap();
                if let Some(value) = head[at..].to_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
            if tell.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (url, got)
}

/// Posts with curl, as people try it; returns the status and what was said.
fn curl(url: &str, headers: &[&str], body: &str) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-w", "\n%{http_code}", "-d", body, url]);
    for header in headers {
        curl.args(["-H", header]);
    }
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (says, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), says.trim().to_owned())
}

#[test]
fn a_program_writes_to_an_agent_and_has_its_answer() {
    adapters();
    let paged = Paged::new("");
    let daemon = paged.serve();
    let (reply_url, answers) = receiver();
    let set = format!("reply_url={reply_url}");
    let added = paged.root.run(&["channels", "add", "webhook", "--new-token", "--set", &set]);
    let added = String::from_utf8([added.stdout, added.stderr].concat()).unwrap();
    let added = added.split_whitespace().collect::<Vec<_>>().join(" ");
    let token = added.split("shown this once: ").nth(1).unwrap_or_else(|| panic!("{added}"));
    let token = token.split(' ').next().unwrap().to_owned();
    let url = format!("http://127.0.0.1:{}/hook/webhook", paged.port);
    assert!(added.contains(&format!("{url}/NAME")), "{added}");
    wait_for("the account", || {
        let row = paged.root.json(&["channels", "show", "webhook"]);
        (row["connection"] == "connected").then_some(())
    });
    // Nobody is an owner there, and nobody has to be.
    let found: Vec<Value> = serde_json::from_slice(&paged.root.run(&["doctor", "--json"]).stdout).unwrap();
    let owners = |row: &&Value| row["check"] == "owners" && row["about"] == "webhook";
    assert!(!found.iter().any(|row| owners(&row)), "{found:?}");

    let bearer = format!("Authorization: Bearer {token}");
    let home = format!("{url}/home");
    assert_eq!(curl(&home, &[], "the door is open").0, "401");
    // The new chat is asked about, and then the message is answered.
    assert_eq!(curl(&home, &[&bearer], "the door is open"), ("202".into(), "the message is stored".into()));
    let card = wait_for("the question", || {
        let open = paged.root.rows(&["approvals", "list"]);
        open.into_iter().find(|row| row.to_string().contains("hook:home"))
    });
    paged.root.g2(&["approvals", "approve", &card["id"].to_string(), "--group", "main"]);
    let answer = answers.recv_timeout(DEADLINE).unwrap();
    assert_eq!((&answer["chat"], &answer["name"]), (&json!("hook:home"), &json!("home")), "{answer}");
    assert!(!answer["text"].as_str().unwrap().is_empty());
    let heard = paged.root.rows(&["messages", "list", "--chat", "hook:home"]);
    assert_eq!((heard.len(), &heard[0]["text"]), (1, &json!("the door is open")), "{heard:?}");

    // A chat that was wired before is heard at once, once it is public.
    paged.root.g2(&["wirings", "add", "--group", "main", "--chat", "hook:wired"]);
    paged.root.g2(&["chats", "set", "hook:wired", "policy=public"]);
    assert_eq!(curl(&format!("{url}/wired"), &[&bearer], "it rains").0, "202");
    assert_eq!(answers.recv_timeout(DEADLINE).unwrap()["name"], "wired");

    // What comes again is one message, and a daemon that is away takes none.
    for _ in 0..2 {
        let headers = [&bearer[..], "Idempotency-Key: 7", "Content-Type: application/json"];
        assert_eq!(curl(&home, &headers, r#"{"text":"it is shut"}"#).0, "202");
    }
    let both = paged.root.rows(&["messages", "list", "--chat", "hook:home"]);
    assert_eq!(both.len(), 2, "{both:?}");
    answers.recv_timeout(DEADLINE).unwrap();
    drop(daemon);
    let log = paged.root.g2(&["channels", "log", "webhook"]);
    assert!(log.contains("a request for home is refused with 401") && !log.contains(&token), "{log}");
}

#[test]
fn what_is_no_request_to_an_account_is_told_why_and_opens_nothing() {
    adapters();
    let paged = Paged::new("[channels.webhook]\ntoken_env = \"T\"\n");
    let _daemon = paged.serve_with(&[("T", "0123456789abcdef")]);
    wait_for("the account", || {
        let row = paged.root.json(&["channels", "show", "webhook"]);
        (row["connection"] == "connected").then_some(())
    });
    let bearer = ("Authorization", "Bearer 0123456789abcdef");
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let answer = http::ask(paged.port, method, path, headers, body);
        assert!(answer.header("set-cookie").is_empty());
        (answer.status, answer.text())
    };
    let long = "x".repeat((256 << 10) + 1);
    for (status, method, path, headers, body) in [
        (405, "GET", "/hook/webhook/home", vec![bearer], ""),
        (404, "POST", "/hook/", vec![bearer], "x"),
        (404, "POST", "/hook/telegram/home", vec![bearer], "x"),
        (404, "POST", "/hook/local/home", vec![bearer], "x"),
        (405, "GET", "/hook/nothing/home", vec![bearer], ""),
        (404, "POST", "/hook/..%2f/home", vec![bearer], "x"),
        (404, "POST", "/hook/webhook", vec![bearer], "x"),
        (413, "POST", "/hook/webhook/home", vec![bearer], &long),
        (401, "POST", "/hook/webhook/home", vec![("Cookie", "x=y")], "x"),
        (401, "POST", "/hook/webhook/home/wrong", vec![], "x"),
    ] {
        // Whatever name it is reached by: the secret counts.
        let all = [&[("Host", "elsewhere.example")], &headers[..]].concat();
        let (got, says) = ask(method, path, &all, body);
        assert_eq!(got, status, "{method} {path}: {says}");
        assert!(says.trim().len() > 8 && !says.contains("0123456789abcdef"), "{says}");
    }
    assert_eq!(ask("POST", "/hook/webhook/home", &[bearer], "x").0, 202);
    // The secret of an account lets nobody in elsewhere, and a token of the page is none here.
    assert_eq!(ask("POST", "/api/op", &[("Host", &paged.host()), bearer], "{}").0, 401);
    let token = paged.root.g2(&["web", "tokens", "add", "ci", "--purpose", "operate"]);
    let page = format!("Bearer {}", token.trim());
    assert_eq!(ask("POST", "/hook/webhook/home", &[("Authorization", &page)], "x").0, 401);
    let texts = paged.root.rows(&["messages", "list", "--chat", "hook:home"]);
    assert_eq!(texts.len(), 1, "{texts:?}");
}
