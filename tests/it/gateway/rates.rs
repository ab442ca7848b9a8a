//! How often a run may ask, and what one that asks all the time costs others.
#![expect(clippy::disallowed_methods, reason = "measures")]

use std::{
    io::Write as _,
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use g2::gateway::Limits;

use super::{
    super::support::{Root, wait_for},
    daemon::{AWAKE, awake},
    host::{Host, message, no_port},
    scene::{Agent, Scene, ask, long},
};

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_run_that_asks_too_often_waits_and_then_is_told_when_to_come_again() {
    let host = Host::always(message("m", 1, 2));
    let limits = Limits { requests_per_minute: 60, queue: SHORT, ..Limits::default() };
    let scene = Scene::with(&host.url(), limits);
    let socket = scene.open(1);
    let mut agent = Agent::connect(&socket);
    let denied = (0..600)
        .find_map(|_| {
            agent.ask("{}");
            Some(agent.answer()).filter(|answer| answer.status != 200)
        })
        .expect("a bound");
    assert_eq!((denied.status, denied.error().0.as_str()), (429, "rate_limit_error"));
    assert_eq!(denied.header("retry-after"), Some("1"));
    assert!(denied.error().1.contains("60 requests a minute"), "{denied:?}");
    // What is refused counts as well: asking for nothing that passes is no way around it.
    let refused = (0..60).find(|_| {
        agent.request("GET /v1/files", "", "");
        agent.answer().status == 429
    });
    assert!(refused.is_some());
    assert_eq!(ask(&scene.open(2), "{}").status, 200, "another run has its own");
}

#[test]
fn a_request_that_sends_much_counts_for_several() {
    let host = Host::always(message("m", 1, 2));
    let limits = Limits { requests_per_minute: 60, queue: Duration::ZERO, ..Limits::default() };
    let scene = Scene::with(&host.url(), limits);
    let socket = scene.open(1);
    let sent = (0..60).take_while(|_| ask(&socket, &long(20 << 20)).status == 200).count();
    assert!((3..=10).contains(&sent), "{sent} requests of 20 MiB");
}

#[test]
fn connections_over_the_rate_wait() {
    let host = Host::always(message("m", 1, 2));
    let limits = Limits { connections_per_minute: 120, ..Limits::default() };
    let scene = Scene::with(&host.url(), limits);
    let socket = scene.open(1);
    let begun = Instant::now();
    (0..122).for_each(|_| assert_eq!(ask(&socket, "{}").status, 200));
    // Two more than there were, half a second each.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
}

/// How long a neighbour waits for an answer, sorted.
fn latencies(socket: &Path) -> Vec<Duration> {
    let mut agent = Agent::connect(socket);
    let mut all: Vec<Duration> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            agent.ask("{}");
            assert_eq!(agent.answer().status, 200);
            begun.elapsed()
        })
        .collect();
    all.sort();
    all
}

#[test]
fn uploads_that_are_given_up_reach_nobody_and_a_neighbour_does_not_notice() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let (evil, good) = (scene.open(1), scene.open(2));
    let before = latencies(&good);
    let (stop, given_up) = (AtomicBool::new(false), AtomicUsize::new(0));
    let during = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut agent) = UnixStream::connect(&evil) else { return };
                    let half = "POST /v1/messages HTTP/1.1\r\nhost: model\r\ncontent-length: 1000000\r\n\r\n{\"half\":\"";
                    let _ = agent.write_all(half.as_bytes());
                    drop(agent);
                    given_up.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for("the attack", || (given_up.load(Ordering::Relaxed) > 500).then_some(()));
        let during = latencies(&good);
        stop.store(true, Ordering::Relaxed);
        // A request that waits to be taken gets no further.
        scene.close(1);
        during
    });
    let (median, worst) = (during[50], during[98]);
    println!(
        "a neighbour's answer: {:?} median, {:?} p99; while {} uploads were given up: {median:?}, {worst:?}; \
         connections to the model's host: {}",
        before[50],
        before[98],
        given_up.load(Ordering::Relaxed),
        host.connections()
    );
    assert_eq!(host.connections(), 1, "the neighbour's own, which is kept");
    assert!(median < before[50] + Duration::from_millis(50), "{median:?}");
}

#[test]
fn a_repeated_log_line_is_written_once_with_its_count() {
    let root = Root::new(AWAKE);
    let url = format!("http://127.0.0.1:{}", no_port());
    let (daemon, socket) = awake(&root, &[("ANTHROPIC_BASE_URL", &url)]);
    (0..200).for_each(|_| assert_eq!(ask(&socket, "{}").status, 502));
    wait_for("all of it to be stored", || (root.rows(&["usage"]).first()?["errors"] == 200).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    let log = root.log();
    let said: Vec<&str> =
        log.lines().filter(|line| line.contains("the model's host gave no answer")).collect();
    assert!((2..=4).contains(&said.len()), "{said:#?}");
    assert!(said[0].ends_with("times=1") && said[0].contains("refused"), "{said:#?}");
    let times: u32 = said
        .iter()
        .filter_map(|line| line.split("times=").nth(1)?.split(' ').next()?.parse::<u32>().ok())
        .sum();
    assert_eq!(times, 200, "{said:#?}");
}
