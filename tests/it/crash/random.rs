//! SIGKILL at any moment, many times, while commands and messages keep coming.
//!
//! At the end nothing is lost, nothing was done twice, and within a group everything came in its order. `G2_KILLS` says
//! how often the daemon is killed (50), `G2_SEED` when; the seed of a run is printed. The long run of the README:
//! `G2_KILLS=1000 cargo test --test it crash::random -- --nocapture`.
//!
//! An agent that had the message in its hands after something was said in the same run may have acted on it, so such a
//! message is not handed out again: its chat is told so, once. These are counted and shown, and are the only ones
//! without an answer.
#![expect(clippy::disallowed_methods, reason = "the test is the machine: it has the clock, and kills")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde_json::json;

use super::{
    client::{Client, rest, send},
    ledger::Ledger,
    scene::{all_settled, names, nobody_left},
};
use crate::support::{Root, wait_for};

/// Groups that only write commands, and groups that are only talked to: a command counts as said by the turn in whose
/// time it was written, which would hide what becomes of messages.
const WRITERS: [&str; 3] = ["main", "w1", "w2"];
const TALKERS: [&str; 3] = ["t1", "t2", "t3"];

/// More files than this a writer does not let pile up in its boxes, nor texts that are not said yet.
const MOST_WAITING: usize = 200;

/// Small numbers that only depend on the seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

pub(super) fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

pub(super) const UNSAID: &str =
    "SELECT count(*) FROM outbox WHERE status IN ('pending', 'sending', 'unknown')";

/// Tells writers and talkers how to go on.
#[derive(Default)]
struct Flow {
    hold: AtomicBool,
    stop: AtomicBool,
}

/// The files that a writer published: their number, and their expected outcome.
#[derive(Default)]
struct Published {
    files: usize,
    texts: Vec<String>,
    kept: BTreeSet<String>,
}

/// How many files of a group wait in its boxes.
fn waiting(root: &Root, group: &str) -> usize {
    ["messages", "tasks"].iter().map(|in_box| names(root, &format!("ipc/{group}/{in_box}")).len()).sum()
}

/// Publishes commands of every sort until told to stop.
fn write_commands(root: &Root, group: &str, mut random: Random, flow: &Flow) -> Published {
    let chat = format!("local:{group}");
    let mut published = Published::default();
    for n in 0.. {
        if flow.stop.load(Ordering::Relaxed) {
            break;
        }
        let task = format!("{group}-task-{}", n / 10);
        let json = match n % 10 {
            3 => {
                published.kept.insert(task.clone());
                json!({"type": "schedule_task", "taskId": task, "prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 1 1 *", "targetJid": chat})
            }
            // Of every second one nothing is left.
            7 if (n / 10) % 2 == 0 => {
                published.kept.remove(&task);
                json!({"type": "cancel_task", "taskId": task})
            }
            _ => {
                let text = format!("{group} says {n}");
                published.texts.push(text.clone());
                json!({"type": "send_message", "chatJid": chat, "text": text})
            }
        };
        let mut json = json;
        json["requestId"] = format!("r{n}").into();
        let name = format!("{n:08}.json");
        let in_box = if random.below(2) == 0 { "messages" } else { "tasks" };
        root.put_command(group, in_box, &name, &json);
        published.files = n + 1;
        // As an agent that waits for replies now and then: what piles up is not what is looked at here.
        while (waiting(root, group) > MOST_WAITING || flow.hold.load(Ordering::Relaxed))
            && !flow.stop.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(random.below(20)));
    }
    published
}

/// Talks to a group until told to stop; every message is repeated until a daemon has accepted it.
fn talk(root: &Root, group: &str, mut random: Random, flow: &Flow) -> Vec<(i64, String)> {
    let chat = format!("local:{group}");
    let mut accepted: Vec<(i64, String)> = Vec::new();
    while !flow.stop.load(Ordering::Relaxed) {
        let text = format!("{group} asks {}", accepted.len());
        let seq = send(root, &chat, &text);
        assert!(accepted.last().is_none_or(|(last, _)| seq > *last), "{text}: {seq}");
        accepted.push((seq, text));
        thread::sleep(Duration::from_millis(random.below(60)));
    }
    accepted
}

/// Killed twice in a row in the moment in which it takes in what it found, the daemon sets that aside. A person, who knows
/// who killed it, lets it go on.
fn release_what_is_set_aside(root: &Root) {
    let aside: Vec<String> = Ledger::of_the_living(root).column("SELECT group_folder FROM holds");
    for group in aside {
        root.g2(&["ipc", "release", &group]);
    }
}

/// Kills and restarts, and sees that no cursor ever moves back.
fn kill_again_and_again(root: &Root, kills: u64, random: &mut Random, flow: &Flow) {
    let mut cursors: BTreeMap<i64, i64> = BTreeMap::new();
    let mut start_ms = 100;
    for _ in 0..kills {
        let since = Instant::now();
        let daemon = root.spawn(&[]);
        // One in three is killed while it starts, however long that takes on this machine.
        if random.below(3) == 0 {
            thread::sleep(Duration::from_millis(random.below(1 + start_ms)));
        } else {
            wait_for("the daemon to be ready", || {
                assert!(!daemon.has_ended(), "it ended by itself:\n{}", root.log());
                Client::connect(root).ok()?.call(&json!({"op": "status"})).ok()
            });
            start_ms = u64::try_from(since.elapsed().as_millis()).unwrap();
            release_what_is_set_aside(root);
            // Some live long enough for an agent to finish something.
            if random.below(3) == 0 {
                let finished = || {
                    Ledger::of_the_living(root).number("SELECT count(*) FROM batches WHERE state = 'done'")
                };
                let before = finished();
                wait_for("a message to be answered", || (finished() > before).then_some(()));
            }
            thread::sleep(Duration::from_millis(random.below(300)));
        }
        assert!(!daemon.has_ended(), "it ended by itself:\n{}", root.log());
        let ledger = Ledger::of_the_living(root);
        let unsaid = usize::try_from(ledger.number(UNSAID)).unwrap();
        flow.hold.store(unsaid > MOST_WAITING, Ordering::Relaxed);
        for (lane, cursor) in ledger.pairs::<i64, i64>("SELECT id, cursor FROM lanes") {
            let before = cursors.insert(lane, cursor).unwrap_or(0);
            assert!(cursor >= before, "the cursor of lane {lane} went from {before} to {cursor}");
        }
        daemon.kill();
    }
}

/// Every command got through once, in the order in which its group published it.
fn check_commands(root: &Root, group: &str, published: &Published) {
    let ledger = Ledger::of_the_living(root);
    let settled: Vec<(String, String)> = ledger.pairs(&format!(
        "SELECT request_id, outcome FROM receipts WHERE group_folder = '{group}' ORDER BY claim_id"
    ));
    let expected: Vec<(String, String)> =
        (0..published.files).map(|n| (format!("r{n}"), "applied".to_owned())).collect();
    assert_eq!(first_difference(&settled, &expected), None, "{group}: receipts in the order of publication");
    let said = root.said(&format!("local:{group}"));
    assert_eq!(first_difference(&said, &published.texts), None, "{group}: said once and in order");
    let tasks: BTreeSet<String> =
        ledger.column(&format!("SELECT id FROM tasks WHERE group_folder = '{group}'")).into_iter().collect();
    assert_eq!(tasks, published.kept, "{group}: tasks");
}

fn first_difference<T: PartialEq + Clone>(
    found: &[T],
    expected: &[T],
) -> Option<(usize, Option<T>, Option<T>)> {
    let most = found.len().max(expected.len());
    (0..most)
        .find(|n| found.get(*n) != expected.get(*n))
        .map(|n| (n, found.get(n).cloned(), expected.get(n).cloned()))
}

/// Every accepted message was answered once and in order, or its chat was told once that it will not be. Returns how
/// many batches were answered and given up.
pub(super) fn check_messages(ledger: &Ledger, group: &str, accepted: &[(i64, String)]) -> (usize, usize) {
    let chat = format!("local:{group}");
    let stored: Vec<(i64, String)> =
        ledger.pairs(&format!("SELECT seq, text FROM messages WHERE chat_jid = '{chat}' ORDER BY seq"));
    assert_eq!(first_difference(&stored, accepted), None, "{group}: stored once and in order");
    // One row a message: the batch that it went with.
    let handed: Vec<(i64, String)> = ledger.pairs(&format!(
        "SELECT b.id, b.state FROM messages m JOIN inbox i ON i.seq = m.seq
         JOIN batches b ON b.lane_id = i.lane_id AND i.n BETWEEN b.first AND b.last
         WHERE m.chat_jid = '{chat}' ORDER BY m.seq"
    ));
    assert_eq!(handed.len(), accepted.len(), "{group}: each message went with one batch");
    let mut expected = Vec::new();
    let (mut answered, mut given_up) = (0, 0);
    for (n, (batch, state)) in handed.iter().enumerate() {
        if handed.get(n + 1).is_some_and(|(next, _)| next == batch) {
            continue; // The agent answers the last message of a batch.
        }
        match state.as_str() {
            "done" => {
                answered += 1;
                expected.push(format!("echo: {}", accepted[n].1));
            }
            "failed" => given_up += 1,
            other => panic!("{group}: batch {batch} is {other}"),
        }
    }
    let said: Vec<String> = ledger.column(&format!(
        "SELECT text FROM outbox WHERE chat_jid = '{chat}' AND status = 'sent' ORDER BY id"
    ));
    let (notices, echoes): (Vec<_>, Vec<_>) = said.into_iter().partition(|text| !text.starts_with("echo: "));
    assert_eq!(first_difference(&echoes, &expected), None, "{group}: answered once and in order");
    assert_eq!(notices.len(), given_up, "{group}: told once of each that was given up: {notices:?}");
    (answered, given_up)
}

#[test]
fn nothing_is_lost_and_nothing_done_twice_however_often_the_daemon_is_killed() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("G2_SEED").unwrap_or(since.as_secs());
    let kills = number("G2_KILLS").unwrap_or(50);
    println!("{kills} kills; again with G2_SEED={seed}");
    let begun = Instant::now();

    let root = Root::new("");
    for group in WRITERS.iter().chain(&TALKERS).filter(|group| **group != "main") {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    // Lays the boxes out.
    root.serve().kill();
    let flow = Flow::default();
    let mut random = Random(seed);
    let seeds: Vec<u64> = (0..6).map(|_| random.below(u64::MAX)).collect();
    let (published, accepted, last) = thread::scope(|scope| {
        let (root, flow) = (&root, &flow);
        let writers: Vec<_> = WRITERS
            .iter()
            .zip(&seeds)
            .map(|(group, seed)| scope.spawn(move || write_commands(root, group, Random(*seed), flow)))
            .collect();
        let talkers: Vec<_> = TALKERS
            .iter()
            .zip(&seeds[3..])
            .map(|(group, seed)| scope.spawn(move || talk(root, group, Random(*seed), flow)))
            .collect();
        kill_again_and_again(root, kills, &mut random, flow);
        flow.stop.store(true, Ordering::Relaxed);
        let last = root.serve();
        release_what_is_set_aside(root);
        let published: Vec<Published> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let accepted: Vec<_> = talkers.into_iter().map(|talker| talker.join().unwrap()).collect();
        (published, accepted, last)
    });

    all_settled(&root);
    let mut unsaid = i64::MAX;
    while unsaid > 0 {
        // As long as it gets less, it is waited for.
        unsaid = wait_for("more to be said", || {
            Some(Ledger::of_the_living(&root).number(UNSAID)).filter(|now| *now < unsaid)
        });
    }
    for group in WRITERS.iter().chain(&TALKERS) {
        rest(&root, &format!("local:{group}"));
    }
    let mut commands = 0;
    for (group, published) in WRITERS.iter().zip(&published) {
        check_commands(&root, group, published);
        commands += published.files;
    }
    let (mut answered, mut given_up, mut messages) = (0, 0, 0);
    let ledger = Ledger::of_the_living(&root);
    for (group, accepted) in TALKERS.iter().zip(&accepted) {
        let (done, failed) = check_messages(&ledger, group, accepted);
        (answered, given_up, messages) = (answered + done, given_up + failed, messages + accepted.len());
    }
    println!(
        "{kills} kills in {:?}: {commands} commands applied once and in order; {messages} messages in {answered} answered batches, \
         {given_up} given up and told",
        begun.elapsed()
    );
    assert_eq!(last.terminate(), Some(0));
    nobody_left(&root);
}
