//! Requests that mean to be more than one, or to be read differently by two who read them.

use std::time::Duration;

use g2::gateway::Limits;

use super::{
    host::{Host, message},
    scene::{Scene, send},
};

/// A gateway that waits for a further request only shortly.
fn scene(host: &Host) -> Scene {
    let limits = Limits {
        head: Duration::from_millis(300),
        upload_silence: Duration::from_millis(300),
        ..Limits::default()
    };
    Scene::with(&host.url(), limits)
}

/// What the host saw of `bytes`: the targets of the requests, and how the first was answered.
fn passed(bytes: &str) -> (Vec<String>, Option<u16>) {
    let host = Host::always(message("m", 1, 2));
    let scene = scene(&host);
    // What is in a body is not to matter here.
    let answer = send(&scene.open_unseen(1), bytes.as_bytes());
    let target = |head: &str| head.lines().next().unwrap_or_default().to_owned();
    (host.seen().iter().map(|seen| target(&seen.head)).collect(), answer.map(|answer| answer.status))
}

const LINE: &str = "post /v1/messages http/1.1";
const SECRET: &str = "GET /v1/organizations/api_keys HTTP/1.1\r\nhost: x\r\n\r\n";

#[test]
fn a_request_hidden_in_anothers_body_stays_its_body() {
    let hidden = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: model\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{SECRET}",
        SECRET.len()
    );
    assert_eq!(passed(&hidden), (vec![LINE.to_owned()], Some(200)));
}

#[test]
fn a_request_that_has_no_body_by_its_nature_passes_with_none() {
    // A host may read no body there, and take it for a request of its own.
    for framing in [format!("content-length: {}", SECRET.len()), "transfer-encoding: chunked".to_owned()] {
        let body = match framing.starts_with("content") {
            true => SECRET.to_owned(),
            false => format!("{:x}\r\n{SECRET}\r\n0\r\n\r\n", SECRET.len()),
        };
        let bytes = format!("GET /v1/models HTTP/1.1\r\nhost: model\r\n{framing}\r\n\r\n{body}");
        assert_eq!(passed(&bytes), (vec![], Some(400)), "{framing}");
    }
}

#[test]
fn two_ways_to_tell_a_length_never_make_two_requests() {
    for framing in [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
        "transfer-encoding: xchunked\r\ncontent-length: 4",
        "transfer-encoding: chunked, identity\r\ncontent-length: 4",
        "transfer-encoding : chunked\r\ncontent-length: 4",
        "content-length: 4\r\ncontent-length: 400",
        "content-length: +4",
        "content-length: 4, 4",
        "content-length: 0x4",
    ] {
        let bytes =
            format!("POST /v1/messages HTTP/1.1\r\nhost: model\r\n{framing}\r\n\r\n0\r\n\r\n{SECRET}");
        let (targets, _) = passed(&bytes);
        assert!(targets.iter().all(|target| target == LINE), "{framing}: {targets:?}");
        assert!(targets.len() <= 1, "{framing}: {targets:?}");
    }
}

#[test]
fn a_second_request_on_the_connection_is_judged_as_the_first_was() {
    let first = "POST /v1/messages HTTP/1.1\r\nhost: model\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(passed(&format!("{first}{SECRET}{first}")).0, [LINE, LINE]);
}

#[test]
fn a_header_can_not_bring_another_one_along() {
    for header in [
        "anthropic-beta: a\nx-evil: 1",
        "anthropic-beta: a\r\n x-evil: 1",
        "anthropic-beta: a\rx-evil: 1",
        "anthropic-beta: a\0b",
    ] {
        let host = Host::always(message("m", 1, 2));
        let scene = scene(&host);
        let bytes = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: model\r\n{header}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        send(&scene.open(1), bytes.as_bytes());
        for seen in host.seen() {
            assert_eq!(seen.header("x-evil"), None, "{header:?}: {}", seen.head);
        }
    }
}

#[test]
fn a_target_that_names_a_host_goes_to_ours() {
    let other = Host::always(message("m", 1, 2));
    let request = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}",
            other.url()
        )
    };
    assert_eq!(passed(&request(&format!("{}/v1/messages", other.url()))), (vec![LINE.to_owned()], Some(200)));
    for target in
        ["//evil.example/v1/messages", "/v1/messages/../../x", "/v1/messages%00", "*", "/v1/messages#x\\"]
    {
        let (targets, status) = passed(&request(target));
        assert!(targets.iter().all(|target| target == LINE), "{target}: {targets:?}");
        assert!(targets.is_empty() == (status != Some(200)), "{target}: {status:?}");
    }
    assert!(other.seen().is_empty());
}

#[test]
fn tunnels_upgrades_trailers_and_other_protocols_lead_nowhere() {
    for bytes in [
        "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}".to_owned(),
        format!("GET /v1/files HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n{SECRET}"),
    ] {
        let (targets, status) = passed(&bytes);
        assert!(
            targets.is_empty() && status != Some(200) && status != Some(101),
            "{bytes:?}: {targets:?} {status:?}"
        );
    }
    let host = Host::always(message("m", 1, 2));
    let scene = scene(&host);
    let upgrading = "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: upgrade, x-api-key, close\r\nupgrade: websocket\r\n\
                     transfer-encoding: chunked\r\ntrailer: x-api-key\r\n\r\n2\r\n{}\r\n0\r\nx-api-key: mine\r\n\r\n";
    assert_eq!(send(&scene.open(1), upgrading.as_bytes()).map(|answer| answer.status), Some(200));
    let seen = host.one();
    for name in ["upgrade", "trailer", "te", "connection"] {
        assert_eq!(seen.header(name), None, "{}", seen.head);
    }
    assert!(seen.header("x-api-key").is_some() && !seen.head.contains("mine"), "{}", seen.head);
}
