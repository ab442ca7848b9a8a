//! Ours beside the programs that it rebuilds, in one run: the same groups, command files, messages and tasks, the same stand-in for
//! agents, on the same disk, in turns.
//!
//! `G2_RIVAL_V1` and `G2_RIVAL_G2` name checkouts of them that were built; nothing of theirs is in this repository.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use crate::{
    Effort,
    report::{Reached, Samples, Table, millis},
};

pub(crate) mod agent;
pub(crate) mod channel;
mod hub;
mod scene;

use agent::SLOWLY;
use hub::Heard;
use scene::{Host, Scene};

/// However slow a host is, it has said a text by then.
const LONGEST: Duration = Duration::from_secs(90);

pub(crate) fn take(effort: Effort, table: &mut Table) {
    let hosts: Vec<Host> =
        Host::ALL.into_iter().filter(|host| *host == Host::Ours || host.checkout().is_some()).collect();
    if hosts.len() == 1 {
        eprintln!("rivals: skipped, as neither G2_RIVAL_V1 nor G2_RIVAL_G2 is set");
        return;
    }
    commands(&hosts, effort, table);
    prompts(&hosts, effort, table);
    follow_ups(&hosts, effort, table);
    drains(&hosts, effort, table);
    starts(&hosts, effort, table);
    rests(&hosts, effort, table);
    tasks(&hosts, effort, table);
    kills(&hosts, effort, table);
}

/// Values of all hosts.
type Of<T> = BTreeMap<Host, T>;

/// Adds a row: ours, the rivals beside it, and how many times theirs is ours.
fn row(table: &mut Table, what: &str, of: &Of<f64>, more_is_better: bool, show: impl Fn(f64) -> String) {
    let ours = of[&Host::Ours];
    let rivals = || of.iter().filter(|(host, _)| **host != Host::Ours);
    let join = |texts: Vec<String>| texts.join("; ");
    table.row(
        what,
        show(ours),
        join(rivals().map(|(host, value)| format!("{} {}", host.name(), show(*value))).collect()),
        join(rivals().map(|(host, value)| format!("{} {:.2} ×", host.name(), value / ours)).collect()),
        "no rival is better",
        Reached::when(
            rivals().all(|(_, value)| if more_is_better { *value <= ours } else { *value >= ours }),
        ),
    );
}

/// Adds rows for the median and the slowest of durations.
fn times(table: &mut Table, what: &str, of: Of<Vec<Duration>>) {
    let of: Of<Samples> = of.into_iter().map(|(host, taken)| (host, Samples::new(taken))).collect();
    for (of_what, pick) in
        [("median", Samples::median as fn(&Samples) -> Duration), ("slowest", Samples::max)]
    {
        let values = of.iter().map(|(host, samples)| (*host, pick(samples).as_secs_f64())).collect();
        row(table, &format!("{what} ({of_what})"), &values, false, |seconds| {
            format!("{} ms", millis(Duration::from_secs_f64(seconds)))
        });
    }
}

/// A rest that is another one each time: hosts that look once in a while are not always met at the same moment.
fn rest(n: usize) {
    std::thread::sleep(Duration::from_millis(100 + n as u64 * 271 % 1000));
}

/// Waits for the host to say a text with this in it.
fn said(scene: &Scene, part: &str) -> Instant {
    let found =
        scene.hub.wait(LONGEST, |heard| matches!(heard, Heard::Said { text, .. } if text.contains(part)));
    found.unwrap_or_else(|| panic!("{}: {part} was never said; {}", scene.host.name(), scene.log()))
}

fn commands(hosts: &[Host], effort: Effort, table: &mut Table) {
    let mut of = Of::<Vec<Duration>>::new();
    let mut scenes: Vec<Scene> = hosts.iter().map(|host| Scene::new(*host, 10, 5)).collect();
    for round in 0..effort.pick(2, 5) {
        for scene in &mut scenes {
            let daemon = scene.start();
            for n in 0..effort.pick(8, 15) {
                rest(n);
                let text = format!("text-{round}-{n};");
                let group = scene.groups[n % scene.groups.len()].clone();
                let before = scene.command(&group, &text);
                of.entry(scene.host).or_default().push(said(scene, &text) - before);
            }
            daemon.kill();
        }
    }
    times(table, "command file renamed → text at the platform", of);
}

/// Waits for a line of an agent.
fn heard(scene: &Scene, fits: impl Fn(&Heard) -> bool) -> Instant {
    let found = scene.hub.wait(LONGEST, fits);
    found.unwrap_or_else(|| panic!("{}: no agent was asked; {}", scene.host.name(), scene.log()))
}

fn prompts(hosts: &[Host], effort: Effort, table: &mut Table) {
    let mut of = Of::<Vec<Duration>>::new();
    let count = effort.pick(12, 40);
    for host in hosts {
        let mut scene = Scene::new(*host, count, count);
        let daemon = scene.start();
        for (n, group) in scene.groups.clone().iter().enumerate() {
            rest(n);
            let before = scene.message(group, &format!("m-{n}"), "");
            of.entry(*host).or_default().push(heard(&scene, |heard| matches!(heard, Heard::Asked)) - before);
        }
        daemon.kill();
    }
    times(table, "message of a person → an agent was started and has its prompt", of);
}

fn follow_ups(hosts: &[Host], effort: Effort, table: &mut Table) {
    let mut of = Of::<Vec<Duration>>::new();
    for host in hosts {
        let mut scene = Scene::new(*host, 1, 5);
        let daemon = scene.start();
        let group = scene.groups[0].clone();
        scene.message(&group, "m-0", "");
        said(&scene, "m-0");
        for n in 1..=effort.pick(12, 40) {
            rest(n);
            let id = format!("m-{n}");
            let before = scene.message(&group, &id, "");
            of.entry(*host).or_default().push(heard(&scene, |heard| matches!(heard, Heard::Given)) - before);
            said(&scene, &id);
        }
        daemon.kill();
    }
    times(table, "message of a person → a live agent was given it", of);
}

fn drains(hosts: &[Host], effort: Effort, table: &mut Table) {
    let count = effort.pick(1_000, 5_000);
    let (mut rates, mut processor) = (Of::new(), Of::new());
    for host in hosts {
        let mut scene = Scene::new(*host, 10, 5);
        // The first start makes the boxes.
        scene.start().kill();
        for n in 0..count {
            let group = scene.groups[n % 10].clone();
            scene.command(&group, &format!("text-{n};"));
        }
        let daemon = scene.start();
        let (mut left, mut first) = (count, None);
        while left > 0 {
            let (at, heard) = scene.hub.next(LONGEST).expect("the host stopped saying texts");
            if matches!(heard, Heard::Said { .. }) {
                first.get_or_insert(at);
                left -= 1;
            }
        }
        let taken = first.unwrap().elapsed().as_secs_f64();
        rates.insert(*host, count as f64 / taken);
        processor.insert(*host, daemon.processor_time_in_all().as_secs_f64() / count as f64);
        daemon.kill();
    }
    row(
        table,
        &format!("{count} command files that wait at the start: texts at the platform"),
        &rates,
        true,
        |rate| format!("{rate:.0} /s"),
    );
    row(table, "processor time of each, the start included", &processor, false, |seconds| {
        format!("{} ms", millis(Duration::from_secs_f64(seconds)))
    });
}

fn starts(hosts: &[Host], effort: Effort, table: &mut Table) {
    let mut of = Of::<Vec<Duration>>::new();
    let mut scenes: Vec<Scene> = hosts.iter().map(|host| Scene::new(*host, 100, 5)).collect();
    for scene in &mut scenes {
        scene.start().kill();
    }
    for round in 0..effort.pick(3, 10) {
        for scene in &mut scenes {
            let text = format!("text-{round};");
            let group = scene.groups[round].clone();
            scene.command(&group, &text);
            scene.hub.clear();
            let daemon = scene.start();
            of.entry(scene.host).or_default().push(said(scene, &text) - daemon.spawned);
            daemon.kill();
        }
    }
    times(table, "program started, 100 groups → a command that waited is carried out", of);
}

fn rests(hosts: &[Host], effort: Effort, table: &mut Table) {
    let (mut memory, mut processor) = (Of::new(), Of::new());
    for host in hosts {
        let mut scene = Scene::new(*host, 100, 5);
        scene.start().kill();
        let daemon = scene.start();
        std::thread::sleep(Duration::from_secs(effort.pick(10, 40)));
        processor.insert(*host, daemon.share(Duration::from_secs(effort.pick(10, 60))) * 100.0);
        memory.insert(*host, daemon.resident_kib() as f64 / 1024.0);
        daemon.kill();
    }
    row(table, "idle, 100 groups: resident memory", &memory, false, |mib| format!("{mib:.1} MiB"));
    row(table, "idle, 100 groups: share of a processor", &processor, false, |share| format!("{share:.3} %"));
}

fn tasks(hosts: &[Host], effort: Effort, table: &mut Table) {
    let (stored, due) = effort.pick((5_000, 500), (20_000, 2_000));
    let most = Duration::from_secs(effort.pick(30, 120));
    let mut of = Of::new();
    for host in hosts {
        let mut scene = Scene::new(*host, 100, 5);
        scene.add_tasks(stored, due);
        let daemon = scene.start();
        let until = daemon.spawned + most;
        let (mut done, mut last) = (BTreeSet::new(), Instant::now());
        while done.len() < due
            && let Some((at, heard)) = scene.hub.next(until.saturating_duration_since(Instant::now()))
        {
            if let Heard::Said { text, .. } = heard {
                done.insert(text);
                last = at;
            }
        }
        of.insert(*host, done.len() as f64 / (last - daemon.spawned).as_secs_f64());
        eprintln!("{}: {} of {due} tasks", host.name(), done.len());
        daemon.kill();
    }
    row(
        table,
        &format!("{due} due of {stored} tasks, 5 agents at a time: answers at the platform"),
        &of,
        true,
        |rate| format!("{rate:.1} /s"),
    );
}

/// What became of messages.
struct Fate {
    lost: usize,
    twice: usize,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lost, {} answered twice", self.lost, self.twice)
    }
}

/// Messages come in all the time; the host is killed again and again. What it has not taken its platform brings again.
fn kills(hosts: &[Host], effort: Effort, table: &mut Table) {
    let count = effort.pick(200, 600);
    let fates: Of<Fate> = hosts.iter().map(|host| (*host, killed(*host, count))).collect();
    let rivals = fates.iter().filter(|(host, _)| **host != Host::Ours);
    let ours = &fates[&Host::Ours];
    table.row(
        format!("{count} messages in 5 chats, agents that think for 0.4 s, the host killed {KILLS} times"),
        ours.to_string(),
        rivals.map(|(host, fate)| format!("{} {fate}", host.name())).collect::<Vec<_>>().join("; "),
        "",
        "nothing lost, nothing twice",
        Reached::when(ours.lost + ours.twice == 0),
    );
}

const KILLS: usize = 10;

fn killed(host: Host, count: usize) -> Fate {
    const BETWEEN: Duration = Duration::from_millis(80);
    const SILENCE: Duration = Duration::from_secs(45);
    let mut scene = Scene::new(host, 5, 5);
    let mut daemon = scene.start();
    let mut open = BTreeSet::<usize>::new();
    let mut answers = BTreeMap::<usize, usize>::new();
    let number = |id: &str| id.strip_prefix("m-").and_then(|n| n.parse::<usize>().ok());
    let (mut told, mut kills) = (0, 0);
    let mut last = Instant::now();
    while answers.len() < count && last.elapsed() < SILENCE {
        if told < count && open.len() < 32 {
            let group = scene.groups[told % 5].clone();
            scene.message(&group, &format!("m-{told}"), SLOWLY);
            open.insert(told);
            told += 1;
        }
        let until = Instant::now() + BETWEEN;
        while let Some((_, heard)) = scene.hub.next(until.saturating_duration_since(Instant::now())) {
            match heard {
                Heard::Took { id } => {
                    open.remove(&number(&id).unwrap());
                }
                Heard::Said { text, .. } => {
                    for n in text.split(' ').filter_map(number) {
                        *answers.entry(n).or_default() += 1;
                        last = Instant::now();
                    }
                }
                Heard::Channel | Heard::Asked | Heard::Given => {}
            }
        }
        // Spread over the time in which messages come, never at the same distance.
        if kills < KILLS && told > (kills + 1) * count / (KILLS + 1) + kills * 7 % 5 {
            kills += 1;
            daemon.kill();
            daemon = scene.start();
            for n in open.clone() {
                let group = scene.groups[n % 5].clone();
                scene.message(&group, &format!("m-{n}"), SLOWLY);
            }
            last = Instant::now();
        }
    }
    // What is said twice is said soon.
    while let Some((_, heard)) = scene.hub.next(Duration::from_secs(10)) {
        if let Heard::Said { text, .. } = heard {
            for n in text.split(' ').filter_map(number) {
                *answers.entry(n).or_default() += 1;
            }
        }
    }
    daemon.kill();
    Fate { lost: count - answers.len(), twice: answers.values().filter(|times| **times > 1).count() }
}
