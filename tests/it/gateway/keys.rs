//! Where the real key comes from, and where it must not get to.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests play the user")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use g2::gateway::{CredentialKind, Limits};
use serde_json::Value;

use super::{
    host::{Host, STREAM, chunk, message, response, stream_end, stream_start},
    scene::{Agent, KEY, Scene, ask, figures},
};

#[test]
fn a_token_that_is_replaced_is_used_from_the_next_request_on() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with_token_file(&host, "sk-ant-oat01-one\n");
    assert_eq!(scene.gateway.kind().unwrap(), CredentialKind::Login);
    let socket = scene.open(1);
    assert_eq!(ask(&socket, "{}").status, 200);
    let login = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-two","expiresAt":99999999999999}}"#;
    fs::write(scene.path().join("new"), login).unwrap();
    fs::rename(scene.path().join("new"), scene.path().join("token")).unwrap();
    assert_eq!(ask(&socket, "{}").status, 200);
    fs::write(scene.path().join("token"), "sk-ant-api03-three").unwrap();
    assert_eq!(ask(&socket, "{}").status, 200);
    let seen = host.seen();
    let sent: Vec<_> = seen.iter().map(|s| (s.header("authorization"), s.header("x-api-key"))).collect();
    assert_eq!(
        sent,
        [
            (Some("bearer sk-ant-oat01-one"), None),
            (Some("bearer sk-ant-oat01-two"), None),
            (None, Some("sk-ant-api03-three"))
        ]
    );
}

#[test]
fn without_a_key_the_agent_is_told_the_fix_and_nothing_goes_up() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    fs::write(scene.path().join(".env"), "TZ=UTC\n").unwrap();
    let answer = ask(&socket, "{}");
    let (kind, text) = answer.error();
    assert_eq!((answer.status, kind.as_str()), (401, "authentication_error"));
    assert!(text.contains("ANTHROPIC_API_KEY") && text.contains("gateway.token_file"), "{text}");
    fs::write(scene.path().join(".env"), "ANTHROPIC_AUTH_TOKEN=later\n").unwrap();
    assert_eq!(ask(&socket, "{}").status, 200);
    assert_eq!(host.one().header("authorization"), Some("bearer later"));
    assert_eq!(scene.page(1).refused, 1);
}

#[test]
fn a_token_that_has_ended_is_told_and_not_sent() {
    let host = Host::always(message("m", 1, 2));
    let login = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-old","expiresAt":1000}}"#;
    let scene = Scene::with_token_file(&host, login);
    let answer = ask(&scene.open(1), "{}");
    assert_eq!(answer.status, 401);
    assert!(answer.error().1.contains("ended at 1970") && !answer.body.contains("sk-ant"), "{answer:?}");
    assert!(host.seen().is_empty());
}

/// A model that is ended with the test.
struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_model_that_takes_the_real_key_only_answers_an_agent_that_has_a_placeholder() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("turns.json");
    fs::write(&script, "[\"hello from the model\"]").unwrap();
    let program =
        concat!(env!("CARGO_MANIFEST_DIR"), "/container/agent-runner/tests/fixtures/scripted_model.py");
    let started = Command::new("python3")
        .args([program, "--require-key", KEY, "--script"])
        .arg(&script)
        .arg("--log")
        .arg(dir.path().join("log"))
        .stdout(Stdio::piped())
        .spawn();
    let Ok(child) = started else {
        eprintln!("skipped: no python3");
        return;
    };
    let mut model = Model(child);
    let mut line = String::new();
    BufReader::new(model.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = serde_json::from_str::<Value>(&line).unwrap()["port"].clone();
    let scene = Scene::with(&format!("http://127.0.0.1:{port}"), Limits::default());
    let socket = scene.open(1);
    let body = r#"{"model":"claude-x","stream":true,"max_tokens":9,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = ask(&socket, body);
    assert!(answer.status == 200 && answer.body.contains("message_stop"), "{answer:?}");
    let (requests, errors, _, output) = figures(&scene.page(1), "claude-x");
    assert!((requests, errors) == (1, 0) && output > 0);
    fs::write(scene.path().join(".env"), "ANTHROPIC_API_KEY=another\n").unwrap();
    assert_eq!(ask(&scene.open(2), body).status, 401);
}

#[test]
fn a_key_that_the_host_says_back_reaches_no_agent_wherever_it_is_cut() {
    let stars = "*".repeat(KEY.len());
    let body = format!("{{\"error\":\"no such key: {KEY}\",\"model\":\"{KEY}\"}}");
    for status in ["200 OK", "401 Unauthorized"] {
        let host = Host::always(response(status, "content-type: application/json\r\n", &body));
        let scene = Scene::new(&host);
        let answer = ask(&scene.open(1), "{}");
        assert_eq!(answer.body, body.replace(KEY, &stars), "as long as before");
        let page = scene.page(1);
        assert!(!format!("{page:?}").contains(KEY), "what is stored of it: {page:?}");
    }
    for cut in 1..KEY.len() {
        let (first, second) = KEY.split_at(cut);
        let stream = [format!("data: {first}"), format!("{second}\n\n"), "data: sk-an".to_owned()];
        let stream: String = stream.iter().map(|piece| chunk(piece)).collect();
        let host = Host::always(format!("{STREAM}{stream}0\r\n\r\n"));
        let answer = ask(&Scene::new(&host).open(1), "{}");
        assert_eq!(answer.body, format!("data: {stars}\n\ndata: sk-an"), "cut after {cut}");
    }
}

#[test]
fn a_key_in_parts_or_small_letters_stays_out_of_the_headers() {
    let (first, second) = KEY.split_at(9);
    let headers = format!(
        "anthropic-a: {first} {second}\r\nanthropic-b: {first},{second}\r\nanthropic-c: {}\r\nanthropic-{KEY}: 1\r\n\
         retry-after: 7\r\n",
        KEY.to_uppercase()
    );
    let host = Host::always(response("200 OK", &headers, "{}"));
    let answer = ask(&Scene::new(&host).open(1), "{}");
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert!(!answer.head.contains("anthropic-"), "{}", answer.head);
}

#[test]
fn a_stream_is_not_held_back_while_the_key_is_looked_for() {
    let start = format!("{STREAM}{}", chunk(&stream_start("m", 25)));
    let (host, go) = Host::halting(start, format!("{}0\r\n\r\n", chunk(&stream_end(3))));
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(1));
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert_eq!(agent.piece(), Some(Some(stream_start("m", 25))), "the host still holds the rest");
    go.send(()).unwrap();
    assert_eq!(agent.piece(), Some(Some(stream_end(3))));
}

#[test]
fn a_packed_answer_is_an_error_as_it_can_not_be_looked_through() {
    let host = Host::always(response("200 OK", "content-encoding: gzip\r\n", "whatever"));
    let scene = Scene::new(&host);
    let answer = ask(&scene.open(1), "{}");
    let (kind, text) = answer.error();
    assert_eq!((answer.status, kind.as_str()), (502, "api_error"));
    assert!(text.contains("packs its answer (gzip)"), "{text}");
    assert_eq!(host.one().header("accept-encoding"), Some("identity"));
    let host = Host::always(response("200 OK", "content-encoding: identity\r\n", "{}"));
    assert_eq!(ask(&Scene::new(&host).open(1), "{}").status, 200);
}

#[test]
fn an_answer_that_is_packed_on_its_way_or_without_saying_so_is_an_error_too() {
    let gzip = [&[0x1f, 0x8b, 8, 0][..], b"whatever"].concat();
    let head = |headers: &str, body: &[u8]| {
        [format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}\r\n").as_bytes(), body]
            .concat()
    };
    let length = format!("content-length: {}\r\n", gzip.len());
    let chunks = [format!("{:x}\r\n", gzip.len()).as_bytes(), &gzip, b"\r\n0\r\n\r\n"].concat();
    for (answer, words) in [
        (head("transfer-encoding: gzip, chunked\r\n", &chunks), "packs its answer (gzip, chunked)"),
        (head(&length, &gzip), "packs its answer without saying so"),
        (head("transfer-encoding: chunked\r\n", &chunks), "packs its answer without saying so"),
    ] {
        let answer = ask(&Scene::new(&Host::always(answer)).open(1), "{}");
        let (kind, text) = answer.error();
        assert_eq!((answer.status, kind.as_str()), (502, "api_error"));
        assert!(text.contains(words), "{text}");
    }
    // Behind a first piece of text nothing packed passes either.
    let begun = [STREAM.as_bytes(), chunk("data: {}\n\n").as_bytes(), &chunks].concat();
    let mut agent = Agent::connect(&Scene::new(&Host::always(begun)).open(1));
    agent.ask("{}");
    // What is cut off before it was on its way may be lost whole.
    let head = agent.head();
    let passed: String = std::iter::from_fn(|| head.as_ref().and_then(|_| agent.piece()).flatten()).collect();
    assert!(["", "data: {}\n\n"].contains(&passed.as_str()), "{passed:?}");
    assert!(agent.is_cut());
}

#[test]
fn a_key_that_the_host_escapes_or_writes_otherwise_reaches_no_agent_wherever_it_is_cut() {
    let every = |form: &dyn Fn(u8) -> String| KEY.bytes().map(form).collect::<String>();
    for echo in [
        every(&|byte| format!("\\u{byte:04x}")),
        every(&|byte| format!("%{byte:02X}")),
        every(&|byte| format!("{byte:02x}")),
        format!("{}{}", &KEY[..9], every(&|byte| format!("\\u{byte:04x}")).split_off(54)),
        KEY.to_uppercase(),
    ] {
        let body = format!("{{\"error\":\"{echo}\"}}");
        for cut in [9, 11, 14, body.len() - 4] {
            let (first, second) = body.split_at(cut);
            let stream = format!("{STREAM}{}{}0\r\n\r\n", chunk(first), chunk(second));
            let answer = ask(&Scene::new(&Host::always(stream)).open(1), "{}");
            assert_eq!(answer.body, body.replace(&echo, &"*".repeat(echo.len())), "cut after {cut}");
        }
    }
}

#[test]
fn a_key_that_was_used_before_is_looked_for_too() {
    let host = Host::always(response("200 OK", "", "one sk-one, two sk-two"));
    let scene = Scene::with_token_file(&host, "sk-one");
    let socket = scene.open(1);
    ask(&socket, "{}");
    fs::write(scene.path().join("token"), "sk-two").unwrap();
    assert_eq!(ask(&socket, "{}").body, "one ******, two ******");
}
