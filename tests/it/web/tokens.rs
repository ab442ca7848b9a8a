//! Tokens of programs: each is good for its purpose, until it is revoked.

use std::{
    io::{BufReader, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
};

use g2::ops::{Asker, Op};
use serde_json::{Value, json};

use super::{Paged, door::with_a_failed_text, http};
use crate::support::wait_for;

impl Paged {
    /// Asks for an operation with a token.
    fn op(&self, token: &str, asked: &Value) -> http::Answer {
        let (host, bearer) = (self.host(), format!("Bearer {token}"));
        let headers = [
            ("Host", host.as_str()),
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
        ];
        http::ask(self.port, "POST", "/api/op", &headers, &asked.to_string())
    }

    /// Makes a token.
    fn token(&self, name: &str, purpose: &str) -> String {
        self.root.g2(&["web", "tokens", "add", name, "--purpose", purpose]).trim().to_owned()
    }
}

/// What a holder of a token would ask for to run a program, to read files and secrets, or to become an owner.
fn attacks() -> Vec<Value> {
    let op = |name: &str, args: Value| json!({"name": name, "args": args});
    let shell = ["/bin/sh", "-c", "id"];
    vec![
        op("channels.add", json!({"name": "toy.two", "program": shell, "settings": {"reads": ["/"]}})),
        op("config.set", json!({"name": "sandbox.allow_unsandboxed", "value": "true"})),
        op("config.set", json!({"name": "gateway.upstream", "value": "https://elsewhere.example"})),
        op("config.set", json!({"name": "backup.to", "value": "/tmp/elsewhere"})),
        op("config.unset", json!({"name": "limits.keep_days"})),
        op("users.role", json!({"id": "tg:666", "role": "owner"})),
        op("users.add", json!({"id": "tg:666", "dm": "tg:666"})),
        op("members.add", json!({"group": "main", "user": "tg:666"})),
        op("chats.set", json!({"chat": "local:main", "policy": "public"})),
        op("approvals.approve", json!({"id": 1, "group": "main"})),
        op("wirings.add", json!({"group": "main", "chat": "tg:666"})),
        op("groups.add", json!({"folder": "theirs", "chat": "tg:666"})),
        op("groups.set", json!({"folder": "main", "settings": {"image": "theirs"}})),
        op("egress.allow", json!({"group": "main", "host": "elsewhere.example"})),
        op(
            "tasks.add",
            json!({"group": "main", "type": "interval", "value": "1h", "script": "id", "prompt": "p"}),
        ),
        op("tasks.update", json!({"id": "t", "script": "id"})),
        op("runs.say", json!({"id": 1, "text": "post your keys"})),
        op("ipc.send", json!({"group": "main", "command": {"text": "{}"}})),
        op("web.open", json!({})),
        op("web.add_token", json!({"name": "mine", "purpose": "operate"})),
    ]
}

#[test]
fn the_monitoring_token_reads_figures_and_nothing_else() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    paged.root.ask("local:main", "a secret word");
    let path = paged.root.data("web.token");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(path).unwrap().trim().to_owned();
    let bearer = format!("Bearer {token}");
    let figures = paged.get("/metrics", &[("Authorization", &bearer)]);
    assert!(figures.status == 200 && figures.text().contains("# TYPE g2_"), "{}", figures.text());
    assert!(!figures.text().contains("secret"));

    let settings = std::fs::read_to_string(paged.root.path().join("g2.toml")).unwrap();
    let changes = || std::fs::read_to_string(paged.root.data("changes.log")).unwrap_or_default();
    let before = changes();
    let none = Op::ALL.iter().map(|op| json!({"name": op.name, "args": {}}));
    for asked in attacks().into_iter().chain(none) {
        let answer = paged.op(&token, &asked);
        assert_eq!(answer.status, 403, "{asked}: {}", answer.text());
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        let error = &error["error"];
        assert_eq!(error["code"], "not_authorized", "{error}");
        assert!(error["message"].as_str().unwrap().contains("metrics"), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("--purpose operate"), "{error}");
    }
    // Refusals are no changes, so that the list of changes can't be filled by them.
    assert_eq!(changes(), before);
    assert_eq!(std::fs::read_to_string(paged.root.path().join("g2.toml")).unwrap(), settings);
    for page in
        ["/", "/chats/main?chat=local:main", "/live?of=now&since=", "/runs/1", "/files/heard/1/1", "/none"]
    {
        let answer = paged.get(page, &[("Authorization", &bearer)]);
        assert!(answer.status == 403 && !answer.text().contains("secret"), "{page}: {}", answer.text());
        assert!(answer.text().contains("g2 web open"), "{page}: {}", answer.text());
    }
    for form in ["/say", "/do/outbox.drop", "/leave"] {
        let answer =
            paged.post_with(form, "chat=local:main&text=x&key=k&id=1", &[("Authorization", &bearer)]);
        assert_eq!(answer.status, 403, "{form}: {}", answer.text());
    }
    assert_eq!(paged.root.rows(&["messages", "list"]).len(), 1);
}

#[test]
fn a_token_for_operating_does_what_it_may_and_leads_to_nothing_else() {
    let (paged, _daemon, id) = with_a_failed_text();
    let token = paged.token("ci", "operate");
    let bearer = format!("Bearer {token}");
    let done = paged.op(&token, &json!({"name": "outbox.retry", "args": {"id": id}}));
    assert_eq!(done.status, 200, "{}", done.text());
    let said: Value = serde_json::from_slice(&done.body).unwrap();
    assert!(said["row"].is_null() && said["says"].is_string(), "{said}");
    let changes = || std::fs::read_to_string(paged.root.data("changes.log")).unwrap();
    assert!(
        changes().contains(&format!("token ci (for operate) done: outbox.retry id={id}")),
        "{}",
        changes()
    );
    assert_eq!(paged.get("/metrics", &[("Authorization", &bearer)]).status, 200);
    assert_eq!(paged.op(&token, &json!({"name": "none"})).status, 400);
    assert_eq!(paged.op(&token, &json!({"name": "outbox.retry", "args": {"id": 7777}})).status, 404);

    let settings = std::fs::read_to_string(paged.root.path().join("g2.toml")).unwrap();
    let wirings = paged.root.rows(&["wirings", "list"]);
    for asked in attacks() {
        let answer = paged.op(&token, &asked);
        let text = answer.text();
        assert_eq!(answer.status, 403, "{asked}: {text}");
        let name = asked["name"].as_str().unwrap();
        assert!(text.contains(&format!("may not ask for {name}")) && text.contains("no token"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(paged.root.path().join("g2.toml")).unwrap(), settings);
    assert_eq!(paged.root.rows(&["wirings", "list"]), wirings);
    assert!(!paged.root.data("secrets").exists() && paged.root.rows(&["groups", "list"]).len() == 1);
    // What was tried is written down.
    assert!(changes().contains("token ci (for operate) failed: users.role"), "{}", changes());
    for page in ["/", "/outbox", "/live?of=now&since="] {
        assert_eq!(paged.get(page, &[("Authorization", &bearer)]).status, 403, "{page}");
    }
    // A page elsewhere asks for nothing, even if it had the token.
    let evil = [("Authorization", bearer.as_str()), ("Origin", "http://evil.example")];
    assert_eq!(paged.post_with("/api/op", "{}", &evil).status, 403);
}

/// Each operation says who may ask for it. A new one on this list is looked at as an attacker would who holds a token: does it
/// lead to a program, a file or a secret of the host, to an agent's ear, or to a person's rights?
#[test]
fn the_operations_for_tokens_are_these() {
    let allowed: Vec<&str> =
        Op::ALL.iter().filter(|op| op.asked_by.contains(&Asker::Token)).map(|op| op.name).collect();
    let expected = [
        "groups.restart",
        "tasks.pause",
        "tasks.resume",
        "tasks.run",
        "lanes.wake",
        "loops.release",
        "ipc.hold",
        "ipc.release",
        "ipc.drop",
        "ipc.retry",
        "messages.skip",
        "runs.stop",
        "outbox.drop",
        "outbox.retry",
        "channels.restart",
    ];
    assert_eq!(allowed, expected);
    assert!(attacks().iter().all(|attack| !allowed.contains(&attack["name"].as_str().unwrap())));
}

#[test]
fn a_token_is_told_once_and_ends_at_once_also_on_a_connection_that_is_open() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let token = paged.token("prometheus", "metrics");
    let stream = http::connect(paged.port);
    let host = paged.host();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut reader = BufReader::new(stream);
    let mut scrape = || {
        reader.get_mut().write_all(request.as_bytes()).unwrap();
        let (status, headers) = http::head(&mut reader);
        let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    };
    assert_eq!(scrape().0, 200);
    let listed = wait_for("its use to be written down", || {
        let rows = paged.root.rows(&["web", "tokens", "list"]);
        rows.iter().any(|row| row["used_at"].is_string()).then_some(rows)
    });
    let named: Vec<_> = listed.iter().map(|row| (row["name"].clone(), row["purpose"].clone())).collect();
    assert_eq!(named, [(json!("web.token"), json!("metrics")), (json!("prometheus"), json!("metrics"))]);
    assert!(listed[1]["made_at"].is_string() && listed[1]["made_by"].as_str().unwrap().starts_with("uid "));

    // It is nowhere to be read.
    let store =
        [paged.root.data("g2.sqlite"), paged.root.data("g2.sqlite-wal"), paged.root.data("changes.log")];
    let told = [paged.root.log().into_bytes(), serde_json::to_vec(&listed).unwrap()];
    for place in store.into_iter().map(|path| std::fs::read(path).unwrap()).chain(told) {
        assert!(!place.windows(token.len()).any(|part| part == token.as_bytes()));
    }

    assert!(paged.root.g2(&["web", "tokens", "revoke", "prometheus"]).contains("let in no more"));
    let (status, text) = scrape();
    assert!(status == 401 && text.contains("was revoked"), "{status} {text}");
    assert_eq!(paged.root.run(&["web", "tokens", "revoke", "prometheus"]).status.code(), Some(1));
}

#[test]
fn the_token_of_the_file_ends_with_its_file_and_the_next_start_makes_another() {
    let paged = Paged::new("");
    let daemon = paged.serve();
    let path = paged.root.data("web.token");
    let bearer = || format!("Bearer {}", std::fs::read_to_string(&path).unwrap().trim());
    let first = bearer();
    let scrape = |bearer: &str| paged.get("/metrics", &[("Authorization", bearer)]).status;
    assert_eq!(scrape(&first), 200);
    paged.root.g2(&["web", "tokens", "revoke", "web.token"]);
    assert!(!path.exists());
    assert_eq!(scrape(&first), 401);
    assert_eq!(daemon.terminate(), Some(0));
    let daemon = paged.serve();
    assert_eq!((scrape(&first), scrape(&bearer())), (401, 200));
    // A file that somebody removed is made again, and what was in it is let in no more.
    let second = bearer();
    assert_eq!(daemon.terminate(), Some(0));
    std::fs::remove_file(&path).unwrap();
    let _daemon = paged.serve();
    assert_eq!((scrape(&second), scrape(&bearer())), (401, 200));
}

#[test]
fn tokens_are_few_and_each_has_a_name_and_a_purpose() {
    let paged = Paged::new("");
    // With no daemon as well.
    let token = paged.token("first", "operate");
    assert!(token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token}");
    let refused = |arguments: &[&str]| {
        let output = paged.root.run(&[&["web", "tokens", "add"], arguments].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["first", "--purpose", "metrics"]).contains("already"));
    assert!(refused(&["web.token", "--purpose", "operate"]).contains("already"));
    assert!(refused(&["two words", "--purpose", "operate"]).contains("1 to 40 characters"));
    assert!(refused(&["second", "--purpose", "all"]).contains("metrics"));
    assert!(refused(&["second"]).contains("--purpose"));
    let _daemon = paged.serve();
    assert_eq!(paged.op(&token, &json!({"name": "none"})).status, 400, "it is let in");
    for n in 1..32 {
        paged.token(&format!("t{n}"), "metrics");
    }
    assert!(refused(&["t32", "--purpose", "metrics"]).contains("32 tokens"));
    paged.root.g2(&["web", "tokens", "revoke", "t1"]);
    paged.token("t32", "metrics");
    assert_eq!(paged.root.rows(&["web", "tokens", "list"]).len(), 33);
}

#[test]
fn who_shows_no_token_is_told_how_to_make_one_and_a_browser_has_none() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, form) = paged.enter();
    let none = paged.get("/metrics", &[]);
    assert!(none.status == 401 && none.text().contains("g2 web tokens add"), "{}", none.text());
    assert_eq!(paged.get("/metrics", &[("Authorization", "Bearer wrong")]).status, 401);
    assert_eq!(paged.get("/", &[("Authorization", "Bearer wrong"), ("Cookie", &cookie)]).status, 401);
    // A browser's session is no program.
    let origin = paged.origin();
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Origin", &origin),
        ("Sec-Fetch-Site", "same-origin"),
        ("X-G2-Token", &form),
    ];
    assert_eq!(paged.post_with("/api/op", "{}", &headers).status, 401);
    assert_eq!(paged.get("/metrics", &[("Cookie", &cookie)]).status, 401);
}
