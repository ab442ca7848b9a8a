//! Bounds in size, in time and in number.

use std::time::Duration;

use g2::gateway::Limits;

use super::{
    host::{Host, STREAM, chunk, message, response, stream_start},
    scene::{Agent, Scene, ask, figures, long},
};

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_request_that_is_too_large_is_refused_by_its_length_or_when_it_gets_too_long() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with(&host.url(), Limits { request_bytes: 1000, ..Limits::default() });
    let socket = scene.open(1);
    let answer = ask(&socket, &long(1001));
    assert_eq!((answer.status, answer.error().0.as_str()), (413, "request_too_large"));

    let mut agent = Agent::connect(&socket);
    agent.write(b"POST /v1/messages HTTP/1.1\r\nhost: model\r\ntransfer-encoding: chunked\r\n\r\n");
    agent.write(chunk("{\"system\":\"").as_bytes());
    for _ in 0..11 {
        agent.write(chunk(&"x".repeat(100)).as_bytes());
    }
    let answer = agent.answer();
    assert_eq!((answer.status, answer.error().0.as_str()), (413, "request_too_large"));
    assert!(host.seen().is_empty(), "half a request is none");
    assert_eq!(ask(&socket, &long(900)).status, 200);
}

#[test]
fn an_answer_that_says_it_is_too_large_is_an_error_and_one_that_gets_too_large_is_cut_off() {
    let limits = Limits { response_bytes: 1000, ..Limits::default() };
    let host = Host::always(response("200 OK", "content-type: application/json\r\n", &"x".repeat(5000)));
    let scene = Scene::with(&host.url(), limits);
    let answer = ask(&scene.open(1), "{}");
    assert_eq!((answer.status, answer.error().0.as_str()), (502, "api_error"));
    assert_eq!(figures(&scene.page(1), ""), (1, 1, 0, 0));

    let (host, go) = Host::halting(format!("{STREAM}{}", chunk("data: 1\n\n")), chunk(&"x".repeat(1000)));
    let scene = Scene::with(&host.url(), limits);
    let mut agent = Agent::connect(&scene.open(1));
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert!(agent.piece().is_some());
    go.send(()).unwrap();
    assert_eq!(agent.piece(), None);
    assert_eq!(figures(&scene.page(1), ""), (1, 1, 0, 0));
}

#[test]
fn a_host_that_says_nothing_is_told_as_an_error_of_the_api() {
    let (host, _go) = Host::halting(String::new(), message("m", 1, 2));
    let scene = Scene::with(&host.url(), Limits { answer: SHORT, ..Limits::default() });
    let answer = ask(&scene.open(1), "{}");
    assert_eq!((answer.status, answer.error().0.as_str()), (504, "timeout_error"));
    assert_eq!(figures(&scene.page(1), ""), (1, 1, 0, 0));
}

#[test]
fn a_stream_that_falls_silent_is_cut_off_and_metered_so_far() {
    let (host, _go) = Host::halting(format!("{STREAM}{}", chunk(&stream_start("m", 25))), String::new());
    let scene = Scene::with(&host.url(), Limits { silence: SHORT, ..Limits::default() });
    let mut agent = Agent::connect(&scene.open(1));
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert!(agent.piece().is_some());
    assert_eq!(agent.piece(), None, "no last chunk: the stream did not end as it should");
    assert_eq!(figures(&scene.page(1), "m"), (1, 1, 25, 1));
}

#[test]
fn a_stream_that_breaks_off_breaks_off_for_the_agent_too() {
    let host = Host::start(|_, out| {
        let _ = write!(out, "{STREAM}{}", chunk(&stream_start("m", 25)));
        false
    });
    let scene = Scene::new(&host);
    let mut agent = Agent::connect(&scene.open(1));
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert!(agent.piece().is_some());
    assert_eq!(agent.piece(), None);
    assert_eq!(figures(&scene.page(1), "m"), (1, 1, 25, 1));
}

#[test]
fn a_request_that_falls_silent_is_given_up() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with(&host.url(), Limits { upload_silence: SHORT, ..Limits::default() });
    let mut agent = Agent::connect(&scene.open(1));
    agent.write(b"POST /v1/messages HTTP/1.1\r\nhost: model\r\ncontent-length: 100\r\n\r\n{\"half");
    let answer = agent.answer();
    assert_eq!((answer.status, answer.error().0.as_str()), (408, "invalid_request_error"));
    assert!(host.seen().is_empty());
}

#[test]
fn a_head_that_comes_too_slowly_or_is_too_long_ends_its_connection() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with(&host.url(), Limits { head: SHORT, ..Limits::default() });
    let socket = scene.open(1);
    let mut slow = Agent::connect(&socket);
    slow.write(b"POST /v1/messages HTTP/1.1\r\nx-a: ");
    assert!(slow.is_cut());
    let mut long = Agent::connect(&socket);
    long.write(format!("POST /v1/messages HTTP/1.1\r\nx-a: {}\r\n\r\n", "x".repeat(200_000)).as_bytes());
    assert!(long.head().is_none_or(|reply| reply.status == 431));
    let mut many = Agent::connect(&socket);
    many.write(format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)).as_bytes());
    assert!(many.head().is_none_or(|reply| reply.status == 431));
    assert_eq!(ask(&socket, "{}").status, 200);
    assert_eq!(host.seen().len(), 1);
}

#[test]
fn requests_over_the_bound_wait_and_then_are_told_to_come_again() {
    let (host, go) = Host::halting(format!("{STREAM}{}", chunk("data: 1\n\n")), "0\r\n\r\n".into());
    let limits = Limits { requests: 2, queue: SHORT, ..Limits::default() };
    let scene = Scene::with(&host.url(), limits);
    let socket = scene.open(1);
    let held: Vec<Agent> = (0..2)
        .map(|_| {
            let mut agent = Agent::connect(&socket);
            agent.ask("{}");
            assert_eq!(agent.head().unwrap().status, 200);
            agent
        })
        .collect();
    let answer = ask(&socket, "{}");
    assert_eq!((answer.status, answer.error().0.as_str()), (429, "rate_limit_error"));
    assert_eq!(answer.header("retry-after"), Some("1"));

    let other = scene.open(2);
    let mut free = Agent::connect(&other);
    free.ask("{}");
    assert_eq!(free.head().unwrap().status, 200, "another run has its own bound");
    go.send(()).unwrap();
    drop(held);
}

#[test]
fn connections_over_the_bound_wait_until_one_ends() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::with(&host.url(), Limits { connections: 2, ..Limits::default() });
    let socket = scene.open(1);
    let (first, _second) = (Agent::connect(&socket), Agent::connect(&socket));
    let mut third = Agent::connect(&socket);
    third.ask("{}");
    drop(first);
    assert_eq!(third.answer().status, 200);
}
