//! What passes, and how.

use super::{
    host::{Host, STREAM, chunk, message, no_port, response, stream_end, stream_start},
    scene::{Agent, KEY, Scene, ask, figures},
};
use g2::gateway::Limits;

#[test]
fn the_real_key_goes_up_in_the_place_of_the_containers_own() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with(&format!("{}/prefix/", host.url()), Limits::default());
    let mut agent = Agent::connect(&scene.open(1));
    agent.request(
        "POST /v1/messages?beta=true",
        "authorization: Bearer mine\r\ncookie: a=b\r\nproxy-authorization: x\r\nx-forwarded-for: 1\r\n\
         anthropic-beta: one,two\r\nanthropic-version: 2023-06-01\r\naccept-encoding: gzip\r\nuser-agent: claude-cli/2\r\n",
        "{\"model\":\"m\"}",
    );
    assert_eq!(agent.answer().status, 200);
    let seen = host.one();
    assert!(seen.head.starts_with("post /prefix/v1/messages?beta=true http/1.1\r\n"), "{}", seen.head);
    for (name, value) in [
        ("x-api-key", Some(KEY)),
        ("authorization", None),
        ("cookie", None),
        ("proxy-authorization", None),
        ("x-forwarded-for", None),
        ("host", Some(host.url().trim_start_matches("http://"))),
        ("anthropic-beta", Some("one,two")),
        ("anthropic-version", Some("2023-06-01")),
        ("accept-encoding", Some("identity")),
        ("user-agent", Some("claude-cli/2")),
        ("content-length", Some("13")),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert_eq!(seen.body, b"{\"model\":\"m\"}");
}

#[test]
fn the_first_piece_of_a_stream_arrives_while_the_host_still_holds_the_rest() {
    let start = format!("{STREAM}{}", chunk(&stream_start("claude-x", 25)));
    let rest = format!("{}{}", chunk(&stream_end(15)), "0\r\n\r\n");
    let (host, go) = Host::halting(start, rest);
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(7));
    agent.ask("{}");
    let head = agent.head().unwrap();
    assert!(head.status == 200 && head.head.contains("transfer-encoding: chunked"), "{}", head.head);
    assert_eq!(agent.piece(), Some(Some(stream_start("claude-x", 25))));
    go.send(()).unwrap();
    let mut text = String::new();
    while let Some(piece) = agent.piece().expect("the stream ends as it should") {
        text.push_str(&piece);
    }
    assert_eq!(text, stream_end(15));
    assert_eq!(figures(&scene.page(7), "claude-x"), (1, 0, 25, 15));
}

#[test]
fn one_connection_serves_many_requests_and_small_bodies_have_a_length() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(1));
    for _ in 0..3 {
        agent.ask("{}");
        let answer = agent.answer();
        assert!(answer.status == 200 && answer.header("content-length").is_some(), "{answer:?}");
    }
    agent.request("HEAD /", "", "");
    assert_eq!(agent.head().unwrap().status, 200);
    assert_eq!(host.seen().len(), 3, "a probe is answered here");
}

#[test]
fn errors_pass_with_when_to_come_again_and_without_cookies() {
    for (status, code) in [
        ("401 Unauthorized", 401),
        ("429 Too Many Requests", 429),
        ("500 Oops", 500),
        ("529 Overloaded", 529),
    ] {
        let body = "{\"type\":\"error\",\"error\":{\"type\":\"some_error\",\"message\":\"no\"}}";
        let headers = format!(
            "content-type: application/json\r\nretry-after: 7\r\nset-cookie: a=b\r\nserver: x\r\n\
             x-api-key: {KEY}\r\nanthropic-note: {KEY}\r\nrequest-id: req_1\r\n"
        );
        let host = Host::always(response(status, &headers, body));
        let scene = Scene::new(&host);
        let answer = ask(&scene.open(1), "{}");
        assert_eq!((answer.status, answer.body.as_str()), (code, body));
        assert_eq!((answer.header("retry-after"), answer.header("request-id")), (Some("7"), Some("req_1")));
        assert!(
            answer.header("set-cookie").is_none() && answer.header("server").is_none(),
            "{}",
            answer.head
        );
        assert!(!answer.head.contains(KEY), "{}", answer.head);
        assert_eq!(figures(&scene.page(1), ""), (1, 1, 0, 0));
    }
}

#[test]
fn a_redirect_is_not_followed_and_not_passed_on() {
    let elsewhere = Host::always(message("m", 1, 2));
    let location = format!("location: {}/v1/messages\r\n", elsewhere.url());
    let host = Host::always(response("307 Temporary Redirect", &location, ""));
    let scene = Scene::new(&host);
    let answer = ask(&scene.open(1), "{}");
    let (kind, text) = answer.error();
    assert_eq!((answer.status, kind.as_str()), (502, "api_error"));
    assert!(text.contains("redirect") && answer.header("location").is_none(), "{answer:?}");
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn a_host_that_is_away_is_told_as_an_error_of_the_api() {
    let scene = Scene::with(&format!("http://127.0.0.1:{}", no_port()), Limits::default());
    let answer = ask(&scene.open(1), "{}");
    let (kind, text) = answer.error();
    assert_eq!((answer.status, kind.as_str()), (502, "api_error"));
    assert!(text.starts_with("g2: ") && text.contains("refused") && !text.contains(KEY), "{text}");
    let page = scene.page(1);
    assert_eq!(figures(&page, ""), (1, 1, 0, 0));
    assert!(page.refusals[0].why.contains("http://127.0.0.1:") && page.refused == 0, "{page:?}");
}

#[test]
fn a_key_that_the_host_does_not_accept_is_told_beside_the_refusal() {
    let scene = Scene::new(&Host::always(response("401 Unauthorized", "", "{}")));
    assert_eq!(ask(&scene.open(1), "{}").status, 401);
    let page = scene.page(1);
    assert_eq!(figures(&page, ""), (1, 1, 0, 0));
    assert!(page.refusals[0].why.contains("does not accept the key"), "{page:?}");
}

#[test]
fn a_request_that_no_agent_needs_is_refused_with_an_explanation_and_recorded() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    for target in ["GET /v1/organizations/api_keys?x=1", "POST /v1/files", "DELETE /v1/models/m", "GET /"] {
        let mut agent = Agent::connect(&socket);
        agent.request(target, "", "");
        let answer = agent.answer();
        let (kind, text) = answer.error();
        assert_eq!((answer.status, kind.as_str()), (403, "permission_error"), "{target}");
        assert!(text.contains("POST /v1/messages"), "{text}");
    }
    assert!(host.seen().is_empty());
    let page = scene.page(1);
    let asked: Vec<&str> = page.refusals.iter().map(|refusal| refusal.asked.as_str()).collect();
    assert_eq!(asked, ["GET /v1/organizations/api_keys", "POST /v1/files", "DELETE /v1/models/m", "GET /"]);
    assert!(page.refused == 4 && page.models.is_empty());
}

#[test]
fn models_and_counting_pass_and_use_nothing() {
    let counted = response("200 OK", "content-type: application/json\r\n", "{\"input_tokens\":2095}");
    let host = Host::always(counted);
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(1));
    for target in
        ["POST /v1/messages/count_tokens?beta=true", "GET /v1/models?limit=1000", "GET /v1/models/claude-x"]
    {
        let body = if target.starts_with("POST") { "{}" } else { "" };
        agent.request(target, "", body);
        assert_eq!(agent.answer().status, 200, "{target}");
    }
    assert_eq!(host.seen().len(), 3);
    assert_eq!(figures(&scene.page(1), ""), (3, 0, 0, 0));
}
