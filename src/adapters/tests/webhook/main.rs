//! The adapter of webhooks: what it is sent by programs of others, and a receiver of its answers.
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod foreign;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use channel_protocol::{Can, ChatKind, Done, EventKind, Light, NotSent, SentTwice, Up};
use g2_fakes::adapter::Adapter;
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn start(more: &Value) -> Adapter {
    let mut config = json!({"token": SECRET});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let account = json!({"instance": "webhook", "prefix": "hook", "config": config});
    Adapter::start(env!("CARGO_BIN_EXE_g2-adapters"), account)
}

fn ready(more: &Value) -> Adapter {
    let mut adapter = start(more);
    adapter.ready();
    adapter
}

fn request(r: u64, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
    json!({"op": "request", "r": r, "path": path, "headers": headers, "body": body})
}

/// What the sender of a request that is refused is told.
fn refused(adapter: &mut Adapter, request: &Value) -> (u16, String) {
    match adapter.ask(request) {
        Up::Response(response) => (response.status, response.says),
        other => panic!("{other:?}"),
    }
}

/// What the sender of a request is told that is taken, with its message.
fn taken(adapter: &mut Adapter, request: &Value) -> channel_protocol::Event {
    adapter.say(request);
    let event = adapter.next_event();
    let r = request["r"].as_u64().unwrap();
    match adapter.line() {
        Up::Response(response) => assert_eq!((response.r, response.status), (r, 202), "{response:?}"),
        other => panic!("{other:?}"),
    }
    event
}

fn bearer() -> (&'static str, String) {
    ("authorization", format!("Bearer {SECRET}"))
}

/// A request that a receiver got: its headers and its body.
type Got = (BTreeMap<String, String>, String);

/// A receiver of answers, which answers in turn.
struct Receives {
    url: String,
    got: Receiver<Got>,
    thread: std::thread::JoinHandle<()>,
}

fn receiver(answers: &[&'static str]) -> Receives {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/{{name}}", listener.local_addr().unwrap());
    let answers = answers.to_vec();
    let (tell, got) = channel();
    let thread = std::thread::spawn(move || {
        for answer in answers {
            let mut reader = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let mut headers: BTreeMap<String, String> = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            headers.insert("line".into(), head.lines().next().unwrap().into());
            let mut body = vec![0; headers["content-length"].parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            tell.send((headers, String::from_utf8(body).unwrap())).unwrap();
            if !answer.is_empty() {
                let _ = reader
                    .get_mut()
                    .write_all(format!("HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n").as_bytes());
            }
        }
    });
    Receives { url, got, thread }
}

impl Receives {
    fn next(&self) -> Got {
        self.got.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

#[test]
fn a_request_is_answered_once_its_message_is_stored() {
    let mut adapter = start(&json!({}));
    let hello = adapter.hello();
    assert_eq!(hello.sent_twice, SentTwice::Key { window_ms: None, readback: false });
    assert!(hello.can.contains(&Can::Requests) && hello.myself.id.is_empty());
    adapter.ready();
    let bearer = bearer();
    let headers = [(bearer.0, &bearer.1[..]), ("content-type", "application/json"), ("idempotency-key", "7")];
    let request = request(1, "home", &headers, r#"{"text":"the door is open","from":"Door"}"#);
    adapter.say(&request);
    let event = adapter.event();
    // Nothing is answered before.
    adapter.say(&json!({"op": "ping", "r": 2}));
    assert_eq!(adapter.line(), Up::Pong { r: 2 });
    adapter.took(event.n);
    let Up::Response(response) = adapter.line() else { panic!() };
    assert_eq!((response.r, response.status), (1, 202));
    assert_eq!(
        (&event.chat[..], event.kind, &event.text[..]),
        ("hook:home", EventKind::Message, "the door is open")
    );
    assert_eq!((&event.from.id[..], &event.from.name[..], event.from.bot), ("home", "Door", false));
    let about = event.about.clone().unwrap();
    assert_eq!((about.kind, &about.name[..]), (ChatKind::Direct, "home"));
    // The same again has the same key, by which the daemon knows it; without an id each is one of its own.
    assert_eq!(taken(&mut adapter, &request).key, event.key);
    let plain = |r| self::request(r, "home", &[(bearer.0, &bearer.1)], "again");
    let (one, two) = (taken(&mut adapter, &plain(3)), taken(&mut adapter, &plain(4)));
    assert!(one.key != two.key && one.id != two.id);
    assert_eq!(taken(&mut adapter, &self::request(5, &format!("home/{SECRET}"), &[], "x")).text, "x");
}

#[test]
fn what_can_not_be_taken_is_told_in_a_line_and_no_message_comes_of_it() {
    let mut adapter = ready(&json!({}));
    let bearer = bearer();
    let known = (bearer.0, &bearer.1[..]);
    for (status, path, headers, body) in [
        (401, "home", vec![], "x"),
        (401, "home", vec![("authorization", "Bearer wrong")], "x"),
        (401, "home", vec![known, ("x-hub-signature-256", "sha256=00")], "x"),
        (
            401,
            "home",
            vec![known, ("webhook-signature", "v1,00"), ("webhook-id", "1"), ("webhook-timestamp", "1")],
            "x",
        ),
        (401, "home/wrong", vec![], "x"),
        (404, "", vec![known], "x"),
        (404, "A B", vec![known], "x"),
        (404, "../x", vec![known], "x"),
        (400, "home", vec![known], " \n"),
        (400, "home", vec![known, ("content-type", "application/json")], "{\"text\":"),
        (415, "home", vec![known, ("content-type", "application/x-www-form-urlencoded")], "payload=%7B%7D"),
        (415, "home", vec![known, ("content-type", "multipart/form-data; boundary=x")], "--x--"),
    ] {
        let (got, says) = refused(&mut adapter, &request(1, path, &headers, body));
        assert_eq!(got, status, "{path} {headers:?}: {says}");
        assert!(!says.is_empty() && !says.contains(SECRET), "{says}");
    }
    // What we said ourselves does not come back.
    let own = request(1, "home", &[known, ("idempotency-key", "g2-g2.7.1")], "x");
    assert_eq!(refused(&mut adapter, &own).0, 401);
    // One that keeps on sending is asked to wait, and the others are not.
    for n in 0..120 {
        taken(&mut adapter, &request(n, "flood", &[known], "x"));
    }
    let flood: Vec<u16> = (0..5)
        .map(|r| {
            adapter.say(&request(r, "flood", &[known], "x"));
            match adapter.line() {
                Up::Event(event) => {
                    adapter.took(event.n);
                    let Up::Response(response) = adapter.line() else { panic!() };
                    response.status
                }
                Up::Response(response) => response.status,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(flood.contains(&429), "{flood:?}");
    assert_eq!(taken(&mut adapter, &request(9, "calm", &[known], "y")).text, "y");
}

#[test]
fn an_answer_goes_out_signed_with_its_key_and_is_judged_by_what_the_receiver_says() {
    let receiver = receiver(&[
        "200 OK\r\ncontent-length: 11\r\n\r\n{\"id\":\"77\"}",
        "500 Oops\r\ncontent-length: 0",
        "429 Slow\r\nretry-after: 3\r\ncontent-length: 0",
        "410 Gone\r\ncontent-length: 0",
        "302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0",
        "",
    ]);
    let mut adapter = ready(&json!({"reply_url": receiver.url}));
    let send = |r: u64| json!({"op": "send", "r": r, "key": "g2.7.1", "chat": "hook:home", "text": "it is shut", "reply_to": "i-7"});
    let mut done = |r| adapter.done(&send(r));
    assert_eq!(done(1).ids, Some(vec!["77".into()]));
    let (headers, body) = receiver.next();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(headers["line"].starts_with("POST /home "), "{headers:?}");
    assert_eq!(
        (&headers["webhook-id"], &headers["idempotency-key"]),
        (&"g2-g2.7.1".to_owned(), &"g2-g2.7.1".to_owned())
    );
    assert_eq!(
        (&body["text"], &body["chat"], &body["name"], &body["reply_to"]),
        (&json!("it is shut"), &json!("hook:home"), &json!("home"), &json!("7"))
    );
    assert!(!format!("{headers:?}").contains(SECRET), "the secret stays here");
    assert!(matches!(done(2).not, Some(NotSent::Again { .. })));
    assert!(matches!(done(3).not, Some(NotSent::Busy { after_ms: 3000, .. })));
    assert!(matches!(done(4).not, Some(NotSent::Gone { .. })));
    assert!(matches!(done(5).not, Some(NotSent::Refused { .. })), "nobody is led elsewhere");
    // It broke off after it was heard: nobody knows, and the next one has the same key.
    assert!(matches!(done(6), Done { unknown: Some(_), .. }));
    for _ in 2..=6 {
        assert_eq!(receiver.next().0["webhook-id"], "g2-g2.7.1");
    }
    receiver.thread.join().unwrap();
    assert!(matches!(done(7).not, Some(NotSent::Busy { .. })), "nobody listens any more: it waits");
}

#[test]
fn without_a_receiver_answers_stay_here_and_a_bad_account_is_not_begun() {
    let mut adapter = ready(&json!({"names": ["home"]}));
    let send = json!({"op": "send", "r": 1, "key": "k", "chat": "hook:home", "text": "x"});
    assert_eq!(adapter.done(&send).ids, Some(vec!["k".into()]));
    // Only the names that the owner lists are there.
    let bearer = bearer();
    assert_eq!(refused(&mut adapter, &request(1, "other", &[(bearer.0, &bearer.1)], "x")).0, 404);
    assert_eq!(taken(&mut adapter, &request(2, "home", &[(bearer.0, &bearer.1)], "x")).text, "x");
    for (config, part) in [
        (json!({"token": ""}), "shorter than 16 bytes"),
        (json!({"token": "short"}), "shorter than 16 bytes"),
        (json!({"reply_url": "http://192.0.2.7/x"}), "reply_url"),
        (json!({"reply_url": "x"}), "reply_url"),
    ] {
        let state = start(&config).state();
        assert_eq!(state.transport, Light::Refused);
        assert!(state.why.contains(part) && !state.hint.is_empty(), "{state:?}");
    }
}

/// The long form: `G2_KILLS=1000 cargo test -p g2-channels --test webhook kill`.
#[test]
fn a_kill_at_any_moment_loses_no_request_that_was_answered_and_makes_none_two() {
    let kills: usize = std::env::var("G2_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20);
    let bearer = bearer();
    let (mut adapter, mut stored) = (ready(&json!({})), std::collections::BTreeSet::new());
    for n in 0..kills {
        let id = n.to_string();
        let request = request(1, "home", &[(bearer.0, &bearer.1), ("idempotency-key", &id)], "x");
        // It dies before it has told, after it has, or after it was told that all is stored; its sender, unanswered, tries again.
        adapter.say(&request);
        if n % 3 > 0 {
            let event = adapter.event();
            stored.insert(event.key.clone());
            if n % 3 == 2 {
                adapter.took(event.n);
            }
        }
        adapter = adapter.again(&BTreeMap::new());
        adapter.ready();
        stored.insert(taken(&mut adapter, &request).key);
    }
    assert_eq!(stored.len(), kills, "each is one message, however often it came");
}
