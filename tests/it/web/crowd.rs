//! Many connections and streams: what one client holds costs nobody else.

use std::{io::BufReader, net::TcpStream, time::Duration};

use super::{
    Paged,
    http::{self, answer, connect, event, head, say},
};

fn stream(paged: &Paged, cookie: &str, of: &str) -> (u16, BufReader<TcpStream>) {
    let mut stream = connect(paged.port);
    let host = paged.host();
    say(&mut stream, "GET", &format!("/live?of={of}&since="), &[("Host", &host), ("Cookie", cookie)], "");
    let mut reader = BufReader::new(stream);
    let (status, _) = head(&mut reader);
    (status, reader)
}

#[test]
fn connections_that_say_nothing_give_way_to_others() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    // One of ours stays: it has shown its session.
    let (status, mut ours) = stream(&paged, &cookie, "now");
    assert_eq!(status, 200);
    let mut slow: Vec<TcpStream> = (0..400).map(|_| connect(paged.port)).collect();
    for stream in &mut slow {
        // One that was cut may be closed by now.
        let _ = std::io::Write::write_all(stream, b"GET / HTTP/1.1\r\nHost: g2");
    }
    assert_eq!(paged.get("/", &[("Cookie", &cookie)]).status, 200);
    paged.root.ask("local:main", "hello");
    assert!(event(&mut ours, Duration::from_secs(60)).is_some(), "the stream was cut");
}

#[test]
fn a_session_has_a_few_streams_and_others_have_theirs() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let ((one, _), (other, _)) = (paged.enter(), paged.enter());
    let held: Vec<_> = (0..12).map(|_| stream(&paged, &one, "now")).collect();
    assert!(held.iter().all(|(status, _)| *status == 200));
    assert_eq!(stream(&paged, &one, "now").0, 503);
    assert_eq!(stream(&paged, &other, "now").0, 200);
    assert_eq!(paged.get("/", &[("Cookie", &one)]).status, 200);
    assert_eq!(stream(&paged, &other, "nowhere").0, 404);
    drop(held);
    crate::support::wait_for("room for another stream", || {
        (stream(&paged, &one, "now").0 == 200).then_some(())
    });
}

#[test]
fn a_stream_says_that_something_changed_and_never_what() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let (_, mut runs) = stream(&paged, &cookie, "runs");
    // What the page shows is of another state than ours: it is told at once.
    assert_eq!(event(&mut runs, Duration::from_secs(60)).as_deref(), Some("event: changed"));
    event(&mut runs, Duration::from_secs(60));
    paged.root.ask("local:main", "a secret word");
    let mut told = String::new();
    while !told.contains("data: ") {
        told.push_str(&event(&mut runs, Duration::from_secs(60)).expect("news"));
        told.push('\n');
    }
    assert!(told.contains("event: changed") && !told.contains("secret"), "{told}");
    let kinds = told.split("data: ").nth(1).unwrap();
    assert!(kinds.split_whitespace().all(|kind| ["run", "handed", "finished"].contains(&kind)), "{told}");
}

#[test]
fn a_page_that_was_away_is_told_so_and_one_that_is_right_is_not() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let page = paged.get("/", &[("Cookie", &cookie)]).text();
    let live =
        page.split("hx-sse:connect=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let open = |path: &str| {
        let mut stream = connect(paged.port);
        say(&mut stream, "GET", path, &[("Host", &paged.host()), ("Cookie", &cookie)], "");
        let mut reader = BufReader::new(stream);
        assert_eq!(head(&mut reader).0, 200);
        reader
    };
    // Nothing has changed since, so the first that it hears is the message.
    let mut right = open(&live);
    paged.root.ask("local:main", "hello");
    event(&mut right, Duration::from_secs(60)).unwrap();
    let data = event(&mut right, Duration::from_secs(60)).unwrap();
    assert!(data.starts_with("data: ") && data.len() > 6, "{data}");
    let mut late = open(&live);
    event(&mut late, Duration::from_secs(60)).unwrap();
    assert_eq!(event(&mut late, Duration::from_secs(60)).as_deref(), Some("data:"));
}

#[test]
fn a_session_that_is_ended_is_asked_to_come_in_again() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let left = paged.post("/leave", &cookie, &format!("token={token}"));
    assert!(left.status == 200 && left.header("set-cookie").contains("Max-Age=0"), "{}", left.text());
    assert_eq!(paged.get("/", &[("Cookie", &cookie)]).status, 401);
    let mut stream = connect(paged.port);
    say(&mut stream, "GET", "/live?of=now&since=", &[("Host", &paged.host()), ("Cookie", &cookie)], "");
    assert_eq!(answer(stream).status, 401);
    assert!(
        http::ask(paged.port, "GET", "/", &[("Host", &paged.host())], "").text().contains("Not signed in")
    );
}

#[test]
fn a_flood_of_changes_is_four_messages_a_second_at_most() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let begun = std::time::Instant::now();
    let (_, mut now) = stream(&paged, &cookie, "chats");
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut told = 0_u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                let command = serde_json::json!({"type": "send_message", "chatJid": "local:main", "text": "x", "requestId": format!("f{n}")});
                paged.root.put_command("main", "messages", &format!("f{n}.json"), &command);
                paged.root.reply("main", &format!("f{n}"));
            }
        });
        while told < 9 {
            let line = event(&mut now, Duration::from_secs(60)).expect("news");
            told += u32::from(line.starts_with("event: "));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Nine messages have eight pauses of a quarter of a second between them, on the slowest machine too.
    assert!(begun.elapsed() >= Duration::from_millis(8 * 250), "{:?}", begun.elapsed());
}

/// Opens a connection that shows a session and stays open; returns it with the status of its answer.
fn held(paged: &Paged, cookie: &str) -> (u16, BufReader<TcpStream>) {
    let mut stream = connect(paged.port);
    let host = paged.host();
    let request = format!("GET /devices HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (status, _) = head(&mut reader);
    (status, reader)
}

#[test]
fn a_session_that_holds_many_connections_locks_nobody_out() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let ((greedy, _), (other, _)) = (paged.enter(), paged.enter());
    let mut all: Vec<_> = (0..128).map(|_| held(&paged, &greedy)).collect();
    assert_eq!(paged.get("/", &[("Cookie", &other)]).status, 200);
    let (last, mut reader) = all.pop().unwrap();
    assert_eq!(last, 503);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut reader, &mut told).unwrap();
    assert!(told.contains("too many connections"), "{told}");
    // With several such sessions, each that comes finds a place, and so do those who are there.
    for _ in 0..4 {
        let (cookie, _) = paged.enter();
        all.extend((0..30).map(|_| held(&paged, &cookie)));
        assert_eq!(paged.get("/", &[("Cookie", &other)]).status, 200);
    }
    drop(all);
}
