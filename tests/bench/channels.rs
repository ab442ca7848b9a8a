//! Accounts on platforms: how soon an event is taken, by an adapter that has nothing else to do, and what adapters cost at rest.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Effort,
    floor::Floor,
    report::{Reached, Samples, Table, millis, ratio},
    rig::{Root, wait_until},
};

/// The argument by which this program is the adapter.
pub(crate) const ADAPTER: &str = "be-an-adapter";
const CHATS: u64 = 1000;

/// Adapters that do harm, each in a shell.
const EVILS: [(&str, &str); 4] = [
    ("junk", "exec yes nonsense"),
    (
        "loud",
        "echo '{\"is\":\"hello\",\"v\":1,\"adapter\":\"x\",\"self\":{\"id\":\"1\",\"name\":\"x\"}}'; exec yes aloud >&2",
    ),
    ("endless", "head -c 1000000000 /dev/zero"),
    ("forks", "for i in $(seq 100); do sleep 600 & done; wait"),
];
/// The size of a file that comes in beside a neighbour's events.
const LARGE: usize = 100 << 20;

pub(crate) fn take(effort: Effort, table: &mut Table) {
    events(effort, table);
    neighbours(effort, table);
    adapters(table);
}

/// How long an account's events take, one after the other, with these settings beside it.
fn one_by_one(count: u64, more: &str) -> Samples {
    let this = std::env::current_exe().unwrap().display().to_string();
    let settings = format!(
        "[sandbox]\nkind = \"process\"\n[limits]\nmin_free_mib = 1\n[media]\nlargest_mib = 128\nchat_mib_per_hour = 100000\n{more}[channels.toy]\ncommand = [{this:?}, {ADAPTER:?}]\none_by_one = {count}\nat_once = 0\n"
    );
    let root = Root::with(&settings, 1);
    let daemon = root.serve();
    let figures = root.data("channels/toy/state/figures.json");
    wait_until("the events to be taken", || figures.exists());
    let figures: Value = serde_json::from_slice(&fs::read(figures).unwrap()).unwrap();
    daemon.stop();
    let micros = |value: &Value| Duration::from_micros(value.as_u64().unwrap());
    Samples::new(figures["took"].as_array().unwrap().iter().map(micros).collect())
}

/// The same events alone, beside accounts that do harm, and beside files of 100 MB that another account brings.
fn neighbours(effort: Effort, table: &mut Table) {
    let count = effort.pick(300, 2000);
    let this = std::env::current_exe().unwrap().display().to_string();
    let evils: String = EVILS
        .iter()
        .map(|(name, script)| format!("[channels.{name}]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n"))
        .collect();
    let brings = format!("[channels.heavy]\ncommand = [{this:?}, {ADAPTER:?}]\nlarge = {LARGE}\n");
    let alone = one_by_one(count, "");
    for (name, more) in
        [("accounts that flood, fork and end", evils), ("files of 100 MB that come in", brings)]
    {
        let beside = one_by_one(count, &more);
        table.row(
            format!("the same event beside {name} (median, p99)"),
            format!("{} ms, {} ms", millis(beside.median()), millis(beside.quantile(0.99))),
            format!("{} ms, {} ms (alone)", millis(alone.median()), millis(alone.quantile(0.99))),
            format!("{:.1} ×", ratio(beside.median(), alone.median())),
            "–",
            Reached::Open,
        );
    }
}

/// One event after the other, each once the one before was taken; then as many at once as may be open, in a thousand chats.
fn events(effort: Effort, table: &mut Table) {
    let (one_by_one, at_once) = (effort.pick(300, 2000), effort.pick(5000, 20_000));
    let this = std::env::current_exe().unwrap();
    let root = Root::with(
        &format!(
            "[sandbox]\nkind = \"process\"\n[limits]\nmin_free_mib = 1\n[channels.toy]\ncommand = [{:?}, {ADAPTER:?}]\none_by_one = {one_by_one}\nat_once = {at_once}\n",
            this.display().to_string()
        ),
        1,
    );
    // The machine's own pace is taken before and afterwards.
    let mut floor = Floor::new();
    let mut floors: Vec<Duration> = (0..one_by_one / 2).map(|_| floor.commit()).collect();
    let daemon = root.serve();
    let figures = root.data("channels/toy/state/figures.json");
    wait_until("the events to be taken", || figures.exists());
    let figures: Value = serde_json::from_slice(&fs::read(figures).unwrap()).unwrap();
    let micros = |value: &Value| Duration::from_micros(value.as_u64().unwrap());
    let samples = Samples::new(figures["took"].as_array().unwrap().iter().map(micros).collect());
    floors.extend((0..one_by_one / 2).map(|_| floor.commit()));
    let floor = Samples::new(floors);
    let times = ratio(samples.median(), floor.median());
    table.row(
        "an adapter's event → durable → `took` (median, p99)",
        format!("{} ms, {} ms", millis(samples.median()), millis(samples.quantile(0.99))),
        format!("{} ms (one durable commit)", millis(floor.median())),
        format!("{times:.1} ×"),
        "≤ 2 ×",
        Reached::when(times <= 2.0),
    );
    let rate = at_once as f64 / micros(&figures["at_once"]).as_secs_f64();
    table.row(
        format!("{CHATS} chats of one account, {at_once} events, 64 of them open"),
        format!("{rate:.0} /s, daemon {:.1} MiB afterwards", daemon.resident_kib() as f64 / 1024.0),
        "",
        "",
        "–",
        Reached::Open,
    );
    daemon.stop();
}

/// The adapter: tells events, and writes down how long it took until they were stored.
pub(crate) fn adapter() {
    let mut lines = BufReader::new(std::io::stdin()).lines().map_while(Result::ok);
    let start: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let mut out = std::io::stdout();
    let mut say = |line: &Value| {
        out.write_all(format!("{line}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    say(&json!({"is": "hello", "v": 1, "adapter": "bench", "self": {"id": "toy:0", "name": "toy"}}));
    say(&json!({"is": "state", "transport": "ok", "inbound": "ok", "outbound": "ok"}));
    let event = |n: u64| {
        json!({"is": "event", "n": n, "key": format!("k{n}"), "cursor": {"at": n.to_string()}, "kind": "message",
            "chat": format!("toy:{}", n % CHATS), "id": n.to_string(), "from": {"id": "7", "name": "Ada"}, "text": "hello there",
            "about": {"chat": format!("toy:{}", n % CHATS), "name": "a chat", "kind": "group"}})
    };
    let mut took = || {
        loop {
            let line = lines.next().unwrap();
            let heard: Value = serde_json::from_str(&line).unwrap();
            if heard["op"] == "took" {
                return heard["n"].as_u64().unwrap();
            }
        }
    };
    if let Some(large) = start["config"]["large"].as_u64() {
        return bring(&start, large, say, took);
    }
    let count = |name: &str| start["config"][name].as_u64().unwrap();
    let (one_by_one, at_once) = (count("one_by_one"), count("at_once"));
    let mut each = Vec::new();
    for n in 1..=one_by_one {
        let since = Instant::now();
        say(&event(n));
        assert_eq!(took(), n);
        each.push(u64::try_from(since.elapsed().as_micros()).unwrap());
    }
    let since = Instant::now();
    let (mut told, last) = (one_by_one, one_by_one + at_once);
    let mut taken = one_by_one;
    while taken < last {
        while told < last && told < taken + 64 {
            told += 1;
            say(&event(told));
        }
        taken = took();
    }
    let figures = json!({"took": each, "at_once": u64::try_from(since.elapsed().as_micros()).unwrap()});
    let place = Path::new(start["state_dir"].as_str().unwrap());
    fs::write(place.join("new"), figures.to_string()).unwrap();
    fs::rename(place.join("new"), place.join("figures.json")).unwrap();
    lines.for_each(drop);
}

/// Tells of one large file after the other, each with bytes of its own, for as long as the daemon is there.
fn bring(start: &Value, large: u64, mut say: impl FnMut(&Value), mut took: impl FnMut() -> u64) {
    let spool = Path::new(start["spool"].as_str().unwrap());
    let mut bytes = vec![0; usize::try_from(large).unwrap()];
    for n in 1_u64.. {
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        let place = format!("in/{n}");
        fs::write(spool.join(&place), &bytes).unwrap();
        say(
            &json!({"is": "event", "n": n, "key": format!("k{n}"), "kind": "message", "chat": "heavy:1", "id": n.to_string(),
            "from": {"id": "7", "name": "Ada"}, "text": "", "attachments": [{"file": place, "kind": "document", "bytes": large}]}),
        );
        took();
    }
}

/// The memory of the adapters at rest, connected to platforms on loopback.
fn adapters(table: &mut Table) {
    let beside = Path::new(env!("CARGO_BIN_EXE_g2")).with_file_name("g2-channels");
    if !beside.exists() {
        eprintln!("no {}: `cargo build --release --bin g2-channels` makes it", beside.display());
        return;
    }
    let (telegram, discord) = (g2_fakes::telegram::Fake::start(), g2_fakes::discord::Fake::start());
    let mut settings = format!(
        "[sandbox]\nkind = \"process\"\n[channels.telegram]\ntoken = {:?}\nupstream = {:?}\n[channels.discord]\ntoken = {:?}\nupstream = {:?}\n",
        g2_fakes::telegram::TOKEN,
        telegram.url,
        g2_fakes::discord::world::TOKEN,
        discord.base
    );
    let slack = g2_fakes::slack::Fake::start();
    let tokens = format!("{} {}", g2_fakes::slack::world::APP_TOKEN, g2_fakes::slack::world::BOT_TOKEN);
    settings.push_str(&format!("[channels.slack]\ntoken = {tokens:?}\nupstream = {:?}\n", slack.base));
    let mail = g2_fakes::mail::Fake::start();
    let (imap, smtp) = mail.places();
    settings.push_str(&format!(
        "[channels.mail]\ntoken = {:?}\nuser = {:?}\nimap = {imap:?}\nsmtp = {smtp:?}\n",
        g2_fakes::mail::PASSWORD,
        g2_fakes::mail::USER
    ));
    let signal = g2_fakes::signal::Fake::start();
    settings.push_str(&format!(
        "[channels.signal]\naccount = {:?}\nupstream = {:?}\n",
        g2_fakes::signal::US,
        signal.base
    ));
    let mut count = 5;
    if let Some(server) = g2_fakes::synapse::synapse() {
        let token = server.person("bench").token;
        settings
            .push_str(&format!("[channels.matrix]\ntoken = {token:?}\nhomeserver = {:?}\n", server.base()));
        count += 1;
    }
    let root = Root::with(&settings, 1);
    let daemon = root.serve();
    let connected = "SELECT count(*) FROM channel_states WHERE state = 'connected' AND inbound = 'ok'";
    wait_until("the adapters to be connected", || {
        root.look().query_row(connected, [], |row| row.get::<_, i64>(0)).is_ok_and(|is| is >= count)
    });
    std::thread::sleep(Duration::from_secs(10));
    for (name, kib) in resident() {
        let mib = kib as f64 / 1024.0;
        table.row(
            format!("adapter of {name}, resident memory, idle"),
            format!("{mib:.1} MiB"),
            "",
            "",
            "≤ 12 MiB",
            Reached::when(mib <= 12.0),
        );
    }
    daemon.stop();
}

/// The resident memory of each adapter that runs beside this build's `g2`, KiB.
fn resident() -> BTreeMap<String, u64> {
    let beside = Path::new(env!("CARGO_BIN_EXE_g2")).with_file_name("g2-channels").display().to_string();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let words: Vec<String> = read("cmdline").split('\0').map(str::to_owned).collect();
        let status = read("status");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = rss.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        if let (true, Some(kib)) = (words[0] == beside, kib) {
            found.insert(words[1].clone(), kib);
        }
    }
    found
}
