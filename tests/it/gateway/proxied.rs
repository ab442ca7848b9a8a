//! A proxy between the gateway and the hosts outside, and a model's host that is reached without TLS.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
    thread,
};

use super::{
    super::support::{DEADLINE, Root},
    daemon::{AWAKE, awake},
    host::{Host, message},
    outside::allowing,
    scene::{Scene, Whole, ask},
    tls::host,
};

/// A proxy that answers each `CONNECT` with a status, and leads it to one port of this machine where that is 200.
struct Proxy {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(status: &'static str, to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    all.lock().unwrap().push(head(&mut stream));
                    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nvia: test\r\n\r\n").as_bytes());
                    if status.starts_with("200") {
                        lead(stream, TcpStream::connect(("127.0.0.1", to)).unwrap());
                    }
                });
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads to the end of a head.
fn head(stream: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Carries bytes both ways.
fn lead(one: TcpStream, other: TcpStream) {
    let (mut from, mut to) = (one.try_clone().unwrap(), other.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (other, one);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Asks the model's host `https://model.example`, which this machine does not know, with these variables.
fn asked(authority: &str, more: &[(&str, &str)]) -> Whole {
    let root = Root::new(AWAKE);
    let file = root.path().join("authorities.pem");
    fs::write(&file, authority).unwrap();
    let file = file.display().to_string();
    let environment = [("ANTHROPIC_BASE_URL", "https://model.example"), ("SSL_CERT_FILE", file.as_str())];
    let (_daemon, socket) = awake(&root, &[&environment, more].concat());
    ask(&socket, "{}")
}

#[test]
fn requests_to_the_model_go_by_the_proxy_that_sees_their_host_alone() {
    let (host, authority) = host("model.example");
    let proxy = Proxy::start("200 Connection established", host.port());
    let address = format!("http://ada:p%40ss@127.0.0.1:{}", proxy.port);
    for name in ["HTTPS_PROXY", "https_proxy"] {
        assert_eq!(asked(&authority, &[(name, &address)]).status, 200, "{name}");
    }
    assert_eq!(host.seen().len(), 2);
    for seen in proxy.seen() {
        assert!(
            seen.starts_with("CONNECT model.example:443 HTTP/1.1\r\nHost: model.example:443\r\n"),
            "{seen}"
        );
        assert!(seen.contains("Proxy-Authorization: Basic YWRhOnBAc3M=\r\n"), "{seen}");
    }
    // Its certificate is the host's own: the proxy can't stand in for it.
    let (other, _) = super::tls::host("other.example");
    let between = Proxy::start("200 OK", other.port());
    let answer = asked(&authority, &[("HTTPS_PROXY", &format!("127.0.0.1:{}", between.port))]);
    assert!(answer.status == 502 && answer.error().1.contains("certificate"), "{answer:?}");
    assert!(other.seen().is_empty());
}

#[test]
fn a_proxy_that_says_no_is_named_and_one_that_is_not_for_a_host_is_not_asked() {
    let (host, authority) = host("model.example");
    let proxy = Proxy::start("407 Proxy Authentication Required", host.port());
    let address = format!("http://ada:hush-hush@127.0.0.1:{}", proxy.port);
    let answer = asked(&authority, &[("HTTPS_PROXY", &address)]);
    let why = answer.error().1;
    assert!(answer.status == 502 && why.contains("407 Proxy Authentication Required"), "{answer:?}");
    assert!(why.contains(&format!("the proxy 127.0.0.1:{}", proxy.port)) && !why.contains("hush"), "{why}");
    let before = proxy.seen().len();
    assert!(before > 0);
    let answer = asked(&authority, &[("HTTPS_PROXY", &address), ("NO_PROXY", "lan, .example")]);
    assert_eq!((answer.status, proxy.seen().len()), (502, before), "{answer:?}");
    // Nobody listens there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let answer = asked(&authority, &[("HTTPS_PROXY", &nobody.to_string())]);
    assert!(answer.error().1.contains("can't be reached"), "{answer:?}");
    assert!(host.seen().is_empty());
}

#[test]
fn hosts_that_agents_may_reach_are_reached_by_the_proxy_and_no_others() {
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start("200 OK", there.local_addr().unwrap().port());
    thread::spawn(move || {
        for mut stream in there.incoming().map_while(Result::ok) {
            let mut said = [0; 5];
            // The host speaks first.
            let _ = stream.write_all(b"welcome ");
            if stream.read_exact(&mut said).is_ok() {
                let _ = stream.write_all(&said);
            }
        }
    });
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::behind(&host, &format!("127.0.0.1:{}", proxy.port));
    let rules = allowing(&["good.example:443"]);
    let socket = scene.open_outside(7, "family", rules);
    let connect = |to: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n").unwrap();
        let said = head(&mut stream);
        (stream, said)
    };
    let (mut stream, said) = connect("good.example:443");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    stream.write_all(b"hello").unwrap();
    let mut heard = [0; 13];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"welcome hello");
    assert_eq!(proxy.seen().len(), 1);
    assert!(proxy.seen()[0].starts_with("CONNECT good.example:443 "), "{:?}", proxy.seen());
    for to in ["evil.example:443", "127.0.0.1:443", "10.0.0.1:443"] {
        let (_, said) = connect(to);
        assert!(said.starts_with("HTTP/1.1 403 "), "{to}: {said}");
    }
    assert_eq!(proxy.seen().len(), 1);
}

#[test]
fn a_model_on_a_network_that_is_trusted_may_be_reached_without_tls() {
    let host = Host::always(message("m", 1, 2));
    // The same machine, written so that nobody sees it.
    let upstream = format!("http://127.1:{}", host.port());
    let root = Root::new(&format!("{AWAKE}[gateway]\nupstream = \"{upstream}\"\n"));
    let output = root.run(&["serve"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("g2 config set gateway.allow_plain true"), "{said}");
    root.g2(&["config", "set", "gateway.allow_plain", "true"]);
    let (_daemon, socket) = awake(&root, &[]);
    assert_eq!(ask(&socket, "{}").status, 200);
    assert_eq!(host.seen().len(), 1);
}
