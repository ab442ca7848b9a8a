//! Kills of the daemon, of its adapters and of the homeserver, while people write on four platforms at once. At the end no
//! message is lost or stored twice, and each is answered once; where nobody can know whether an answer arrived, or where a run
//! died over it, that is told. `G2_KILLS` says how often (24), `G2_SEED` when; the seed of a run is printed. The long run:
//! `G2_KILLS=1000 cargo test --test it platforms::kills -- --nocapture`.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

use super::*;

/// One kill in this many is the homeserver's: it takes seconds to be back.
const OF_THE_HOMESERVER: u64 = 12;
/// The most time that an answer takes, with either program killed meanwhile.
const PATIENCE: Duration = Duration::from_secs(180);

/// Small numbers that only depend on the seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What became of the messages on one platform.
#[derive(Debug, Default)]
struct Heard {
    asked: Vec<String>,
    answered: usize,
    /// A run died over it, and the chat was told so.
    cut_short: usize,
    /// Nobody knows whether the answer arrived, and the outbox says so.
    unknown: usize,
}

/// Writes to the bot and waits for the answer, again and again.
fn talk(home: &Home, town: &Town, stop: &AtomicBool, answered: &AtomicUsize) -> Heard {
    let mut heard = Heard::default();
    while !stop.load(Relaxed) {
        let text = format!("{} {}", town.channel(), heard.asked.len());
        let answer = format!("echo: {text}");
        // What is said to the chat beside answers: that a run ended over its message.
        let told = || {
            home.column(&format!(
                "SELECT text FROM outbox WHERE chat_jid = '{}' AND text NOT LIKE 'echo: %'",
                town.chat()
            ))
            .len()
        };
        let before = told();
        town.says(&text);
        heard.asked.push(text);
        let doubt = format!(
            "SELECT text FROM outbox WHERE status = 'failed' AND error LIKE '%may have arrived%' AND text = '{answer}'"
        );
        let since = Instant::now();
        loop {
            let said = town.newest();
            if said.contains(&answer) {
                heard.answered += 1;
                break;
            }
            if told() > before {
                heard.cut_short += 1;
                break;
            }
            if !home.column(&doubt).is_empty() {
                heard.unknown += 1;
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{answer} was not said: {said:?}");
            sleep(Duration::from_millis(10));
        }
        answered.fetch_add(1, Relaxed);
    }
    heard
}

/// The adapters of a daemon.
pub(super) fn adapters_of(daemon: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        let words: Vec<String> = read("cmdline").split('\0').map(str::to_owned).collect();
        if parent == Some(daemon) && words[0].ends_with("/g2-channels") {
            found.push((pid, words[1].clone()));
        }
    }
    found.sort();
    found
}

fn ready(home: &Home) -> Daemon {
    let daemon = home.root.serve();
    // Killed twice in a row in the moment in which it takes in what it found, the daemon sets that aside.
    for group in home.column("SELECT group_folder FROM holds") {
        home.root.g2(&["ipc", "release", &group]);
    }
    daemon
}

fn kill_again_and_again(
    home: &Home,
    server: Option<&Synapse>,
    kills: u64,
    random: &mut Random,
    answered: &AtomicUsize,
) -> (Daemon, BTreeMap<&'static str, usize>) {
    let mut killed = BTreeMap::new();
    let mut daemon = ready(home);
    for n in 0..kills {
        // Some live long enough for an answer to be heard.
        if random.below(3) == 0 {
            let before = answered.load(Relaxed);
            wait_for("an answer", || (answered.load(Relaxed) > before).then_some(()));
        }
        sleep(Duration::from_millis(random.below(400)));
        assert!(!daemon.has_ended(), "it ended by itself:\n{}", home.root.log());
        match server {
            Some(server) if n % OF_THE_HOMESERVER == OF_THE_HOMESERVER / 2 => {
                *killed.entry("homeserver").or_default() += 1;
                server.kill();
                sleep(Duration::from_millis(random.below(300)));
                server.again();
            }
            _ if n % 2 == 0 => {
                *killed.entry("daemon").or_default() += 1;
                daemon.kill();
                daemon = ready(home);
            }
            _ => {
                let adapters = adapters_of(daemon.pid());
                let Some((pid, name)) = adapters.get(usize::try_from(random.below(4)).unwrap()) else {
                    continue;
                };
                *killed.entry("adapter").or_default() += 1;
                let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                // Otherwise it would rest longer and longer.
                home.root.g2(&["channels", "restart", name]);
            }
        }
    }
    (daemon, killed)
}

#[test]
fn nothing_is_lost_and_nothing_is_said_twice_over_any_kill() {
    let kills = number("G2_KILLS").unwrap_or(24);
    let seed = number("G2_SEED").unwrap_or_else(now_ms);
    eprintln!("{kills} kills, G2_SEED={seed}");
    let mut random = Random(seed);
    // One of its own: it lives as long as this process.
    let server = Synapse::start().map(|server| &*Box::leak(Box::new(server)));
    assert!(server.is_some() || std::env::var_os("G2_REQUIRE_SYNAPSE").is_none(), "there is no Synapse");
    if server.is_none() {
        eprintln!("skipped: no Synapse; the other platforms are tried");
    }
    let mut towns = vec![Town::telegram(0), Town::discord_now(), Town::slack_now()];
    towns.extend(server.map(|server| Town::matrix_on(server, "kills")));
    let tables: Vec<String> = towns[1..].iter().map(Town::table).collect();
    let home = Home::new(&towns[0], &format!("{}[outbox]\non_unknown = \"leave\"\n", tables.concat()));
    for town in &towns[1..] {
        home.keep(town, &town.token());
        home.wire(&town.chat(), "pattern");
    }
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let daemon = ready(&home);
    for town in &towns {
        home.until_connected(town.channel());
        town.says("hello");
        wait_for("the first answer", || town.newest().contains(&"echo: hello".to_owned()).then_some(()));
    }
    daemon.kill();
    let (heard, killed) = std::thread::scope(|scope| {
        let talking: Vec<_> =
            towns.iter().map(|town| scope.spawn(|| talk(&home, town, &stop, &answered))).collect();
        let (daemon, killed) = kill_again_and_again(&home, server, kills, &mut random, &answered);
        stop.store(true, Relaxed);
        let heard: Vec<Heard> = talking.into_iter().map(|one| one.join().unwrap()).collect();
        wait_for("nothing to be left to say", || {
            let left =
                home.column("SELECT id || '' FROM outbox WHERE status IN ('pending', 'sending', 'unknown')");
            left.is_empty().then_some(())
        });
        drop(daemon);
        (heard, killed)
    });
    for (town, heard) in towns.iter().zip(&heard) {
        let came = home.column(&format!(
            "SELECT text FROM messages WHERE from_me = 0 AND chat_jid = '{}' ORDER BY seq",
            town.chat()
        ));
        assert_eq!(came[1..], heard.asked, "{}: each came once, in order", town.channel());
        let mut said: BTreeMap<String, usize> = BTreeMap::new();
        for text in town.texts() {
            *said.entry(text).or_default() += 1;
        }
        let twice: Vec<_> = said.iter().filter(|(text, n)| text.starts_with("echo: ") && **n > 1).collect();
        assert!(twice.is_empty(), "{}: said twice: {twice:?}", town.channel());
        eprintln!(
            "{}: {} messages, {} answered, {} cut short and told, {} unknown and told",
            town.channel(),
            heard.asked.len(),
            heard.answered,
            heard.cut_short,
            heard.unknown
        );
    }
    eprintln!("killed: {killed:?}");
}
