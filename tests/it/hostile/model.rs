//! What a container can do over the way to its model, and what a neighbour in another container notices of it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "plays the user, runs Docker's client"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::scene::{image, peak_kib};
use crate::{
    gateway::host::{Host, STREAM, Seen, chunk, message, response},
    support::{Daemon, Docked, docker, wait_for},
};

/// The real key. What of it is written otherwise in addresses and JSON is here, too.
const KEY: &str = "sk-ant-api03-a+B/c_D-The-Real-One";
/// A word like it that is no secret.
const OTHER: &str = "sk-ant-api03-x+Y/z_W-The-Other-1";
/// How often a neighbour asks.
const TIMES: &str = "100";

/// Groups whose containers have a way to one model: `evil`; `free`, whose requests are not looked into; and `good`.
struct House {
    root: Docked,
    daemon: Daemon,
}

impl House {
    fn new(host: &Host) -> Option<Self> {
        if !docker() {
            return None;
        }
        let root = Docked::with_image(image(), "[agent]\nprovider = \"claude\"\n");
        for group in ["evil", "free", "good"] {
            root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
        }
        root.g2(&["groups", "set", "free", "egress=model_fetch"]);
        fs::write(root.path().join(".env"), format!("ANTHROPIC_API_KEY={KEY}\n")).unwrap();
        let daemon = root.serve_with(&[("ANTHROPIC_BASE_URL", &host.url())]);
        let house = Self { root, daemon };
        for group in ["evil", "free", "good"] {
            let seq = house.root.send(&format!("local:{group}"), "begin");
            wait_for("its container", || {
                (house.root.why(seq)["wirings"][0]["batch_state"] == "done").then_some(())
            });
        }
        Some(house)
    }

    /// A word of the hostile program in a group's container.
    fn command(&self, group: &str, word: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["exec", &container(&self.root, group), "/hostile", word]).args(arguments);
        command
    }

    /// Runs it to its end; returns what it says.
    fn inside(&self, group: &str, word: &str, arguments: &[&str]) -> String {
        let output = self.command(group, word, arguments).output().unwrap();
        assert!(output.status.success(), "{word}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Has the neighbour ask its model, many times.
    fn neighbour(&self) -> Waits {
        Waits::of(self.neighbours().output().unwrap())
    }

    fn neighbours(&self) -> Command {
        self.command("good", "asks", &[TIMES])
    }

    /// Runs a flood, and has the neighbour ask alone, and beside it; returns what the flood says.
    fn flooded(&self, group: &str, word: &str, arguments: &[&str]) -> String {
        let (quiet, alone) = (peak_kib(self.daemon.pid()), self.neighbour());
        let attack = Attack::begin(&self.root, group, self.command(group, word, arguments));
        let beside = self.neighbour();
        let said = attack.end();
        // What the start needed may have been let go of meanwhile.
        let more = peak_kib(self.daemon.pid()).saturating_sub(quiet);
        eprintln!("{word} {arguments:?}: alone {alone:?}, beside {beside:?}, {more} KiB more; {said}");
        assert!(said.contains("under way: true"), "{said}");
        assert!(beside.median <= 5 * alone.median + Duration::from_millis(40), "{beside:?} after {alone:?}");
        assert!(more < 64 << 10, "{more} KiB");
        said
    }
}

/// How long a neighbour waits for its model.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
struct Waits {
    median: Duration,
    p99: Duration,
    max: Duration,
}

impl Waits {
    /// As the neighbour says them, who must never be refused.
    fn of(output: Output) -> Self {
        let said: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        assert_eq!(said["refused"], 0, "{said}");
        let us = |name: &str| Duration::from_micros(said[name].as_u64().unwrap());
        Self { median: us("median"), p99: us("p99"), max: us("max") }
    }
}

/// The container of a group's run that lives.
pub(super) fn container(root: &Docked, group: &str) -> String {
    let runs = root.rows(&["runs", "list"]);
    let run = runs.iter().rfind(|run| run["group"] == group && run["ended_at"].is_null()).unwrap();
    run["container"].as_str().unwrap().to_owned()
}

/// An attack that goes on until it is ended.
pub(super) struct Attack {
    child: Child,
    stop: PathBuf,
}

impl Attack {
    /// Begins it, and waits until it says that it is under way.
    pub(super) fn begin(root: &Docked, group: &str, mut command: Command) -> Self {
        let place = |name: &str| root.path().join("groups").join(group).join(name);
        let (under_way, stop) = (place("under-way"), place("stop"));
        for file in [&under_way, &stop] {
            let _ = fs::remove_file(file);
        }
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        wait_for("the attack", || under_way.exists().then_some(()));
        Self { child, stop }
    }

    /// Ends it; returns what it says.
    pub(super) fn end(self) -> String {
        fs::write(&self.stop, "").unwrap();
        String::from_utf8(self.child.wait_with_output().unwrap().stdout).unwrap()
    }
}

#[test]
fn uploads_that_a_container_gives_up_cost_no_neighbour_anything_and_the_log_a_few_lines() {
    let host = Host::always(message("m", 1, 2));
    let Some(house) = House::new(&host) else { return };
    let lines = house.root.log().lines().count();
    // More than may be begun in a minute; the rest waits to be taken.
    house.flooded("evil", "given-up", &["650"]);
    // There is a bound on those at a time; the next are told to come again.
    let said = house.flooded("free", "unfinished", &[]);
    assert!(host.connections() <= 2, "only the neighbour got through: {}", host.connections());
    let seen = host.seen();
    assert_eq!(seen.len(), 400, "half a request is none: {said}");
    assert!(seen.iter().all(|seen| seen.body == b"{}"));
    assert_eq!(house.daemon.terminate(), Some(0));
    let more = house.root.log().lines().count() - lines;
    eprintln!("{more} lines of log");
    assert!(more < 30, "{}", house.root.log());
}

/// Says the key, or the other word, in the way that is asked for.
fn echo(seen: &Seen, out: &mut dyn Write) -> bool {
    let way = seen.head.split("echo=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let (way, word) = way.strip_prefix("other.").map_or((way, KEY), |way| (way, OTHER));
    let (kind, cut) = way.rsplit_once('-').map_or((way, 0), |(kind, cut)| (kind, cut.parse().unwrap_or(0)));
    let (first, second) = word.split_at(cut);
    let stars = |body: &str| response("404 Not Found", "content-type: application/json\r\n", body);
    let percent = word.replace('+', "%2B").replace('/', "%2F");
    let headed = |headers: &str| response("404 Not Found", &format!("{headers}\r\n"), "{}");
    let said = match kind {
        "text" => stars(&format!("no such key: {word}")),
        "json" => stars(&format!(r#"{{"type":"error","error":{{"type":"{word}","message":"x"}}}}"#)),
        "slashes" => stars(&format!(r#"{{"message":"{}"}}"#, word.replace('/', "\\/"))),
        "base64" => stars(&STANDARD.encode(word)),
        "basic" => stars(&format!("Basic {}", STANDARD.encode(format!("user:{word}")))),
        "bearer" => stars(&STANDARD.encode(format!("Bearer {word}, and more"))),
        "percent" => stars(&format!("https://host/?key={percent}&x=1")),
        "small" => {
            stars(&format!("https://host/?key={}&x=1", percent.replace("%2B", "%2b").replace("%2F", "%2f")))
        }
        "header" => headed(&format!("anthropic-echo: {word}")),
        "cut" => headed(&format!("anthropic-echo: {first} {second}")),
        "comma" => headed(&format!("anthropic-echo: {first}, {second}")),
        "capitals" => headed(&format!("request-id: {}", word.to_uppercase())),
        "coded" => headed(&format!("request-id: {}", STANDARD.encode(word))),
        "reason" => response(&format!("404 {word}"), "", "{}"),
        "trailer" => format!("{STREAM}{}0\r\nanthropic-echo: {word}\r\n\r\n", chunk("data: {}\n\n")),
        "sse" => {
            // Two pieces, each on its way by itself.
            let begun = write!(out, "{STREAM}{}", chunk(&format!("data: {{\"text\":\"{first}")));
            if begun.and_then(|()| out.flush()).is_err() {
                return false;
            }
            format!("{}0\r\n\r\n", chunk(&format!("{second}\"}}\n\n")))
        }
        _ => message("m", 1, 2),
    };
    out.write_all(said.as_bytes()).is_ok()
}

/// All ways, a cut at each position among them.
fn ways() -> Vec<String> {
    let whole = ["text", "json", "slashes", "base64", "basic", "bearer", "percent", "small", "header"];
    let headers = ["capitals", "coded", "reason", "trailer"];
    let cuts = (1..OTHER.len()).flat_map(|cut| ["sse", "cut", "comma"].map(|kind| format!("{kind}-{cut}")));
    whole.into_iter().chain(headers).map(str::to_owned).chain(cuts).collect()
}

#[test]
fn no_container_finds_the_key_in_answers_of_the_host_and_a_neighbour_goes_on() {
    let host = Host::start(echo);
    let Some(house) = House::new(&host) else { return };
    let ways = ways();
    let of = |word: &str, prefix: &str| {
        let ways: Vec<String> = ways.iter().map(|way| format!("{prefix}{way}")).collect();
        let arguments: Vec<&str> = [word].into_iter().chain(ways.iter().map(String::as_str)).collect();
        house.inside("evil", "echoes", &arguments)
    };
    let neighbour = house.neighbours().stdout(Stdio::piped()).spawn().unwrap();
    let said = of(KEY, "");
    eprintln!("a neighbour beside the echoes: {:?}", Waits::of(neighbour.wait_with_output().unwrap()));
    let streams = |way: &str| way.starts_with("sse") || way == "trailer";
    let status = |way: &str| if streams(way) { 200 } else { 404 };
    let hidden: Vec<String> = ways.iter().map(|way| format!("{way}: {} hidden", status(way))).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), hidden);
    // A container that looks finds no key in anything that passes.
    let passes = |way: &str| if ["reason", "trailer"].contains(&way) { "hidden" } else { "SEEN" };
    let seen: Vec<String> =
        ways.iter().map(|way| format!("other.{way}: {} {}", status(way), passes(way))).collect();
    assert_eq!(of(OTHER, "other.").lines().collect::<Vec<_>>(), seen);
}

/// Requests that are no JSON as it is to be.
const NOT_UNDERSTOOD: [&str; 6] =
    ["too-deep", "two-documents", "a-comment", "a-mark", "a-form", "wide-letters"];

#[test]
fn a_request_that_makes_the_models_host_reach_out_is_refused_from_a_container_however_it_is_written() {
    let host = Host::always(message("m", 1, 2));
    let Some(house) = House::new(&host) else { return };
    let said = house.inside("evil", "fetches", &[]);
    assert!(said.lines().count() > 60, "{said}");
    for line in said.lines() {
        let (name, answer) = line.split_once(": ").unwrap();
        let kind = name.trim_end_matches("-in-pieces");
        let expected = match kind {
            _ if kind.starts_with("honest") => "200",
            "too-large" => "413, told why",
            "packed" | "packed-unsaid" => "400, told why",
            "batched" | "a-file" => "403",
            _ if NOT_UNDERSTOOD.contains(&kind) => "400, told why",
            _ => "403, told why",
        };
        assert_eq!(answer, expected, "{name}");
    }
    let seen = host.seen().len();
    assert_eq!(seen, 6, "only what is honest passed, each in one piece and in many");
    // Where the owner allows it, all of it is the model's host's own business.
    let said = house.inside("free", "fetches", &[]);
    for line in said.lines() {
        let (name, answer) = line.split_once(": ").unwrap();
        let expected = match name.trim_end_matches("-in-pieces") {
            "too-large" => "413, told why",
            "batched" | "a-file" => "403",
            _ => "200",
        };
        assert_eq!(answer, expected, "{name}");
    }
    // The largest there are, again and again, each found out at its very end.
    let seen = host.seen().len();
    house.flooded("evil", "largest", &[]);
    assert_eq!(host.seen().len(), seen + 200, "none of them came to its end");
}
