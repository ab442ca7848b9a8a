//! Hosts outside: which are reached, from where, and how a no is told.
#![expect(clippy::disallowed_methods, reason = "tests play the user and the machine")]
#![expect(clippy::disallowed_types, reason = "tests play the machine")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use g2::{domain::runs::outside::Rules, gateway::OutsideLimits};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, IsCa, Issuer, KeyPair};
use serde_json::Value;

use super::{
    super::{
        launch::inside::{inside, put_probe},
        sandbox::house::probe,
        support::{DEADLINE, Daemon, Docked, Linkage, claude_image, docker, run_docker, skipped, wait_for},
    },
    host::{Host, message},
    scene::Scene,
};

pub(super) fn allowing(hosts: &[&str]) -> Rules {
    Rules { all: hosts.iter().map(|host| host.parse().unwrap()).collect(), own: Vec::new() }
}

/// Says something to a socket; returns all that comes until its end.
fn say(socket: &Path, text: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut said = String::new();
    let mut from = BufReader::new(stream);
    // The connection is kept after a no: its body has a length.
    let mut length = 0;
    while from.read_line(&mut said).unwrap() > 2 {
        let line = said.lines().last().unwrap().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    said + &String::from_utf8(body).unwrap()
}

fn connect(socket: &Path, to: &str) -> String {
    say(socket, &format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n"))
}

#[test]
fn a_host_that_is_not_allowed_is_refused_with_the_way_to_allow_it() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open_outside(7, "family", allowing(&["example.com:443"]));
    for (asked, place) in [
        ("CONNECT evil.example:443", "evil.example:443"),
        ("CONNECT EVIL.example.:443", "evil.example:443"),
        ("CONNECT example.com:22", "example.com:22"),
        ("CONNECT sub.example.com:443", "sub.example.com:443"),
        ("GET http://evil.example/secret", "evil.example:80"),
        ("POST http://evil.example:8080/", "evil.example:8080"),
    ] {
        let said =
            say(&socket, &format!("{asked} HTTP/1.1\r\nhost: example.com:443\r\ncontent-length: 0\r\n\r\n"));
        let how = format!("g2 egress allow {place} --group family");
        let status = said.lines().next().unwrap();
        assert!(status.starts_with("HTTP/1.1 403 g2: ") && status.contains(&how), "{said}");
        assert_eq!(said.matches(&how).count(), 2, "behind the status and in the body: {said}");
    }
    let page = scene.page(7);
    let places: Vec<_> =
        page.kept_in.iter().map(|(place, (why, times))| (place.as_str(), why.as_str(), *times)).collect();
    assert_eq!(
        places,
        [
            ("evil.example:443", "not allowed", 2),
            ("evil.example:80", "not allowed", 1),
            ("evil.example:8080", "not allowed", 1),
            ("example.com:22", "not allowed", 1),
            ("sub.example.com:443", "not allowed", 1)
        ]
    );
    assert_eq!(page.refused, 6);
    assert!(page.refusals[0].asked.starts_with("CONNECT evil.example:443"), "{page:?}");
}

#[test]
fn an_address_inside_is_never_reached_however_it_is_written_or_whatever_name_leads_there() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    // The name is allowed, and its address is ours.
    let socket = scene.open_outside(1, "main", allowing(&[&format!("localhost:{port}")]));
    for to in [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "10.0.0.1",
        "[fe80::1]",
    ] {
        let said = connect(&socket, &format!("{to}:{port}"));
        assert!(
            said.starts_with("HTTP/1.1 403 ") && said.contains("these are never reached"),
            "{to}: {said}"
        );
        let said = say(&socket, &format!("GET http://{to}:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 403 "), "{to}: {said}");
    }
    assert!(listener.accept().is_err(), "nobody came");
    let page = scene.page(1);
    assert_eq!(page.kept_in[&format!("localhost:{port}")].0, "no address outside");
}

#[test]
fn what_is_no_request_for_a_host_is_refused() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open_outside(1, "main", allowing(&["*.example.com"]));
    for asked in [
        "CONNECT example.com",
        "CONNECT a@a.example.com:443",
        "CONNECT :443",
        "CONNECT a.example.com:0",
        "CONNECT a..example.com:443",
        "GET /",
        "GET https://a.example.com/",
        "GET ftp://a.example.com/",
        "OPTIONS *",
        "CONNECT *.example.com:443",
        "CONNECT a.example.com:70000",
        "CONNECT a.example.com:443/x",
    ] {
        let said = say(&socket, &format!("{asked} HTTP/1.1\r\nhost: a.example.com:443\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 400 "), "{asked}: {said}");
    }
    assert_eq!(scene.page(1).kept_in.len(), 0);
    // The model's own socket goes nowhere else, and this one does not lead to the model.
    let model = scene.open(2);
    assert!(connect(&model, "a.example.com:443").starts_with("HTTP/1.1 403 "));
    assert_eq!(host.connections(), 0);
}

#[test]
fn what_a_group_asks_for_is_bounded_and_a_new_run_begins_with_no_more() {
    let host = Host::always(message("m", 1, 2));
    let limits = OutsideLimits { per_minute: 3, queue: Duration::ZERO, ..OutsideLimits::default() };
    let scene = Scene::bounded_outside(&host, limits);
    let first = scene.open_outside(1, "main", Rules::default());
    let status = |said: String| said[9..12].to_owned();
    for _ in 0..2 {
        assert_eq!(status(connect(&first, "a.example:443")), "403");
    }
    scene.close(1);
    let second = scene.open_outside(2, "main", Rules::default());
    assert_eq!(status(connect(&second, "a.example:443")), "403");
    let said = connect(&second, "a.example:443");
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("3 connections a minute"), "{said}");
    let others = scene.open_outside(3, "other", Rules::default());
    assert_eq!(status(connect(&others, "a.example:443")), "403");
}

#[test]
fn other_bounds_hold_at_once_for_a_live_run_too() {
    let host = Host::always(message("m", 1, 2));
    let limits = OutsideLimits { queue: Duration::ZERO, ..OutsideLimits::default() };
    let scene = Scene::bounded_outside(&host, OutsideLimits { per_minute: 1, ..limits });
    let first = scene.open_outside(1, "main", Rules::default());
    let status = |socket: &Path| connect(socket, "a.example:443")[9..12].to_owned();
    assert_eq!(status(&first), "403");
    // One more in this minute would not even be taken.
    scene.gateway.bound_outside(OutsideLimits { per_minute: 60_000, ..limits });
    assert_eq!(status(&first), "403");
    scene.gateway.bound_outside(OutsideLimits { per_minute: 1, ..limits });
    assert_eq!(status(&first), "403");
    let second = scene.open_outside(2, "main", Rules::default());
    let said = connect(&second, "a.example:443");
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("1 connections a minute"), "{said}");
}

/// A process that is killed when the test is over.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end; whether it succeeded.
fn ran(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Waits until a process has a network of its own.
fn has_own_network(pid: u32) {
    wait_for("a network of its own", || {
        let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/net")).ok();
        (of(&pid.to_string())? != of("self")?).then_some(())
    });
}

/// A network of two machines: the daemon's, and another at 9.9.9.9 that has some names.
struct Two {
    daemon: Daemon,
    _far: Held,
}

/// The names that the daemon's machine knows.
const HOSTS: &str =
    "127.0.0.1 localhost\n9.9.9.9 good.example later.example other.example\n10.1.2.3 inner.example\n";

impl Two {
    /// Starts a daemon whose agent runs in a real container, and `serving` on the other machine; `None` (said aloud) where there
    /// are no networks of its own.
    fn new(root: &Docked, serving: &str) -> Option<Self> {
        if !ran("unshare", &["--net", "--mount", "ip", "link"]) {
            skipped("no networks of its own");
            return None;
        }
        put_probe(root, "main");
        // Once in the machine's own network, so that the root knows its containers.
        assert_eq!(root.serve().terminate(), Some(0));
        let wait = |device: &str, address: &str| {
            format!(
                "ip link set lo up; until ip -o addr show {device} 2>/dev/null | grep -q {address}; do sleep 0.05; done"
            )
        };
        let serving = format!("{}; exec {serving}", wait("far", "9.9.9.9"));
        let far = Held(Command::new("unshare").args(["--net", "sh", "-c", &serving]).spawn().unwrap());
        let hosts = root.path().join("hosts");
        fs::write(&hosts, HOSTS).unwrap();
        let script = format!(
            "{}; mount --bind {} /etc/hosts; exec {} --root {} serve",
            wait("near", "9.9.9.1"),
            hosts.display(),
            env!("CARGO_BIN_EXE_g2"),
            root.path().display()
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", &script]);
        let daemon = root.spawn_by(command);
        let (far_pid, near_pid) = (far.0.id(), daemon.pid());
        has_own_network(far_pid);
        has_own_network(near_pid);
        let (far_pid, near_pid) = (far_pid.to_string(), near_pid.to_string());
        let at = |pid: &str, words: &str| {
            let words: Vec<&str> = ["-t", pid, "-n", "ip"].into_iter().chain(words.split(' ')).collect();
            assert!(ran("nsenter", &words), "{words:?}");
        };
        at(&far_pid, &format!("link add far type veth peer name near netns {near_pid}"));
        at(&far_pid, "link set far up");
        at(&near_pid, "link set near up");
        at(&far_pid, "addr add 9.9.9.9/24 dev far");
        at(&near_pid, "addr add 9.9.9.1/24 dev near");
        wait_for("the daemon to be ready", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
        assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
        Some(Self { daemon, _far: far })
    }
}

/// What the other machine runs: it answers with what it hears.
fn answering() -> String {
    format!("{} serve 9.9.9.9:443 9.9.9.9:80", probe(Linkage::Static).display())
}

#[test]
fn a_container_reaches_what_is_allowed_through_the_gateway_and_has_no_other_way_out() {
    let Some(root) =
        Docked::new("network = \"allowlist\"\n[egress]\nallow = [\"good.example\", \"inner.example\"]\n")
    else {
        return;
    };
    let Some(two) = Two::new(&root, &answering()) else { return };

    let env = inside(&root, &["env"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        assert!(env.contains(&format!("{name}=http://127.0.0.1:3128\n")), "{env}");
    }
    assert!(env.contains("NO_PROXY=localhost,127.0.0.1,::1,model\n"), "{env}");

    let through = |place: &str| {
        let said = inside(&root, &["through", "127.0.0.1:3128", place]);
        said.trim().strip_prefix(&format!("{place}: ")).unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    wait_for("the other machine", || (through("good.example:443") == "heard hello").then_some(()));
    // Plain HTTP: a host of our own making, nothing of the proxy's, and a redirect is the agent's to follow.
    let said = through("http://good.example/path?q");
    assert!(
        said.starts_with("HTTP/1.1 302 ") && said.contains("GET /path?q HTTP/1.1 host: good.example"),
        "{said}"
    );
    assert!(!said.contains("proxy-authorization") && !said.contains("elsewhere"), "{said}");
    // Allowed by its name, and leading inside.
    for place in ["inner.example:443", "http://inner.example/"] {
        let said = through(place);
        assert!(said.contains(" 403 ") && said.contains("leads to 10.1.2.3"), "{said}");
    }
    // This machine's own address looks as any other.
    root.g2(&["egress", "allow", "9.9.9.1", "--group", "main"]);
    assert!(through("9.9.9.1:443").contains("these are never reached"));

    // What is refused is listed, and allowed from there, for the live run.
    assert!(through("later.example:443").contains("g2 egress allow later.example:443 --group main"));
    let refused = |host: &str| -> Option<Value> {
        let rows = root.rows(&["egress", "list", "--group", "main"]);
        rows.into_iter().find(|row| row["host"] == host && row["state"] == "refused")
    };
    let row = wait_for("the refusal to be listed", || refused("later.example:443"));
    let run = root.rows(&["runs", "list"])[0]["id"].clone();
    assert_eq!((&row["run"], &row["why"], &row["times"]), (&run, &"not allowed".into(), &1.into()));
    let shown = root.json(&["runs", "show", &run.to_string()]);
    assert!(shown.to_string().contains("later.example:443"), "{shown}");
    let happened = root.rows(&["activity", "main", "--grep", "later.example"]);
    assert_eq!(happened[0]["text"], "later.example:443: not allowed", "{happened:?}");
    assert_eq!((&happened[0]["what"], &happened[0]["run"]), (&Value::from("refused"), &run));
    root.g2(&["egress", "allow", "later.example:443", "--group", "main"]);
    assert_eq!(through("later.example:443"), "heard hello");
    assert!(refused("later.example:443").is_none());
    root.g2(&["egress", "deny", "good.example", "--group", "main"]);
    assert!(through("good.example:443").contains("denied to main"));
    root.g2(&["egress", "remove", "good.example", "--group", "main"]);
    assert_eq!(through("good.example:443"), "heard hello");

    // The settings hold at once, too.
    root.g2(&["config", "set", "egress.allow", "[\"inner.example\"]"]);
    assert!(through("good.example:443").contains("g2 egress allow good.example:443"));
    root.g2(&["config", "set", "egress.allow", "[\"inner.example\", \"good.example\"]"]);
    assert_eq!(through("good.example:443"), "heard hello");
    assert_eq!(root.json(&["status"])["state"], "healthy");

    // Nothing else leads out: no address, no name, no other protocol, no version of it.
    let ways = [
        "tcp:9.9.9.9:443",
        "tcp:9.9.9.1:443",
        "udp:9.9.9.9:53",
        "udp:8.8.8.8:53",
        "tcp:172.17.0.1:22",
        "udp:172.17.0.1:53",
        "tcp:169.254.169.254:80",
        "tcp:[2606:4700::1]:443",
        "udp:[2606:4700::1]:53",
        "tcp:good.example:443",
        "udp:good.example:53",
    ];
    let tried = inside(&root, &[&["reach"], &ways[..]].concat());
    assert_eq!(tried.matches(": no way (").count(), ways.len(), "{tried}");

    // The next daemon takes the way over with the run.
    two.daemon.kill();
    let _daemon = root.serve();
    wait_for("the run to be adopted", || through("never.example:443").contains("--group main").then_some(()));
}

#[test]
fn an_open_connection_is_closed_within_a_second_when_a_rule_allows_its_host_no_more() {
    let toml = "network = \"allowlist\"\n[egress]\nallow = [\"good.example\", \"*.example:443\"]\n";
    let Some(root) = Docked::new(toml) else { return };
    let Some(_two) = Two::new(&root, &answering()) else { return };
    root.g2(&["egress", "allow", "9.9.9.9", "--group", "main"]);
    let mark = |name: &str| root.path().join("groups/main").join(name);
    let open = |place: &str, name: &str| {
        let container = &root.containers()[0];
        let path = format!("/workspace/group/{name}");
        run_docker(&[
            "exec",
            "-d",
            container,
            "/workspace/group/probe",
            "open",
            "127.0.0.1:3128",
            place,
            &path,
        ]);
        wait_for(&format!("{place} to be open"), || {
            fs::read_to_string(mark(name)).ok().filter(|said| said == "open").map(drop)
        });
    };
    let is = |name: &str| fs::read_to_string(mark(name)).unwrap();
    let closed =
        |name: &str| wait_for(&format!("{name} to be closed"), || (is(name) == "closed").then_some(()));
    wait_for("the other machine", || {
        let said = inside(&root, &["through", "127.0.0.1:3128", "good.example:443"]);
        said.contains("heard hello").then_some(())
    });
    let before = root.rows(&["events"]).len();
    for (place, name) in [
        ("good.example:443", "good"),
        ("good.example:80", "good-80"),
        ("later.example:443", "later"),
        ("9.9.9.9:443", "address"),
    ] {
        open(place, name);
    }
    // Of one port; of an address, whose rule is gone; of all below a name.
    let asked = Instant::now();
    root.g2(&["egress", "deny", "good.example:443", "--group", "main"]);
    closed("good");
    assert!(asked.elapsed() < Duration::from_secs(60), "at once, beside a machine that is busy");
    assert_eq!([is("good-80"), is("later"), is("address")], ["open"; 3]);
    root.g2(&["egress", "remove", "9.9.9.9", "--group", "main"]);
    closed("address");
    // What no rule forbids is not touched by one about another host.
    root.g2(&["egress", "deny", "nobody.example", "--group", "main"]);
    root.g2(&["egress", "deny", "*.example", "--group", "main"]);
    closed("later");
    closed("good-80");
    let told = root.rows(&["events"]);
    let told =
        told[before..].iter().filter(|event| event["kind"] == "group" && event["group"] == "main").count();
    assert_eq!(told, 4, "the feed tells of each change");
}

/// Asks with the curl of a container for addresses over TLS, through the proxy that its environment names.
#[test]
fn curl_in_a_container_reaches_an_allowed_host_over_tls_and_no_redirect_leads_inside() {
    let Some(image) = claude_image().filter(|_| docker()) else { return };
    let allow = "[\"good.example\", \"other.example\", \"inner.example\"]";
    let root = Docked::with_image(image, &format!("network = \"allowlist\"\n[egress]\nallow = {allow}\n"));
    let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).unwrap().pem();
    let names = ["good.example", "other.example"].map(str::to_owned);
    let mut signed = CertificateParams::new(names.to_vec()).unwrap();
    // A certificate that has its authority's name counts as signed by itself.
    signed.distinguished_name = DistinguishedName::new();
    let signed = signed.signed_by(&own, &Issuer::new(authority, key)).unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("certificate.pem"), signed.pem()).unwrap();
    fs::write(at("key.pem"), own.serialize_pem()).unwrap();
    fs::create_dir_all(at("groups/main")).unwrap();
    fs::write(at("groups/main/authority.pem"), pem).unwrap();
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls_host.py");
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| at(name).display().to_string());
    let Some(_two) = Two::new(&root, &format!("python3 {host} {certificate} {key} 9.9.9.9 443")) else {
        return;
    };
    let curl = |address: &str| {
        let authority = "/workspace/group/authority.pem";
        let line =
            format!("curl -sSL --max-time 20 --cacert {authority} {address} 2>&1 || echo; echo \"code $?\"");
        run_docker(&["exec", &root.containers()[0], "sh", "-c", &line])
    };
    wait_for("the other machine", || {
        curl("https://good.example/here").starts_with("heard /here").then_some(())
    });
    // From one allowed host to another.
    assert!(curl("https://other.example/to/other").starts_with("heard /here"));
    // The certificate is the host's own: nobody in between reads along.
    let line = "curl -sS --max-time 20 https://good.example/ 2>&1 || true";
    let said = run_docker(&["exec", &root.containers()[0], "sh", "-c", line]);
    assert!(said.contains("certificate"), "{said}");
    for to in ["inner", "private", "link-local", "metadata", "loopback"] {
        let said = curl(&format!("https://good.example/to/{to}"));
        let is_refused = said.contains("response 403")
            || said.contains("these are never reached")
            || said.contains("leads to");
        assert!(is_refused && !said.contains("heard"), "{to}: {said}");
    }
    let refused = root.rows(&["egress", "list", "--group", "main"]);
    for place in ["inner.example:443", "10.1.2.3:80", "169.254.1.1:80", "169.254.169.254:80"] {
        assert!(
            refused.iter().any(|row| row["host"] == place && row["why"] == "no address outside"),
            "{place}: {refused:#?}"
        );
    }
}
