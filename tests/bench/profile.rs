//! What one command costs, counted: pages and commits of the store, system calls, threads crossed, bytes, instructions and
//! allocations. Counts are the same however busy the machine is, and nearly the same in any build, but for instructions.

use std::{path::Path, time::Duration};

use serde_json::Value;

use crate::{
    Effort,
    commands::{self, is_mains},
    events::Events,
    report::Table,
    rest,
    rig::{self, Daemon, Root},
};

mod calls;
mod pages;
mod work;

use calls::Calls;
use pages::Log;
use work::{ALLOCATIONS, BYTES, Tool, Valgrind};

/// How many commands come before the first that counts.
const WARM: usize = 12;
/// So long nothing is written when all that a command brought about is done.
const QUIET: Duration = Duration::from_millis(250);
/// From how many groups a command is profiled that might cost more where there are many.
const MANY: usize = 1_000;
/// How many commands wait, where it is counted what one of many costs.
const TOGETHER: usize = 256;
/// The least that is shown of a count: rarer ones are of the daemon, not of the command.
const LEAST: f64 = 0.2;
/// How many functions are shown, those that execute most.
const FUNCTIONS: usize = 12;
/// A text that is said after the answer is no part of the next command: so long the next one waits for it.
const PAUSE: Duration = Duration::from_millis(25);
/// The same beside valgrind, under which everything takes some fifty times as long.
const LONG_PAUSE: Duration = Duration::from_millis(150);

/// What one command costs.
struct Cost {
    name: String,
    /// How long the command is, and the reply, bytes.
    bytes: [f64; 2],
    commits: f64,
    /// Pages that the commits wrote, by the table or index that they belong to, most first.
    pages: Vec<(String, f64)>,
    /// How often a thread of the daemon went to sleep: each hand-over wakes one.
    sleeps: f64,
    written_kib: f64,
    processor_us: f64,
    /// System calls by their names, most first; `None`: there is no strace.
    calls: Option<Vec<(String, f64)>>,
    /// `None`: there is no valgrind.
    work: Option<Work>,
    drained: Drained,
}

/// What one of many costs that waited.
struct Drained {
    /// `None`: more than fit into one log.
    pages: Option<f64>,
    written_kib: f64,
    calls: Option<Vec<(String, f64)>>,
    work: Option<Work>,
}

/// What the daemon did for a command.
struct Work {
    instructions: f64,
    /// Instructions by the functions that they are of, most first.
    functions: Vec<(String, f64)>,
    allocations: f64,
    allocated_kib: f64,
}

impl Cost {
    /// A row of the table.
    fn row(&self) -> String {
        let Self { name, bytes: [command, reply], commits, sleeps, written_kib, processor_us, .. } = self;
        let (pages, calls) = (sum(&self.pages), in_all(self.calls.as_deref()));
        let Drained { pages: of_many, written_kib: kib_of_many, .. } = self.drained;
        let of_many = of_many.map_or_else(|| "–".into(), |pages| format!("{pages:.1}"));
        let calls_of_many = in_all(self.drained.calls.as_deref());
        let [work, work_of_many] = [&self.work, &self.drained.work].map(worked);
        format!(
            "| {name} | {command:.0}, {reply:.0} | {commits:.1} | {pages:.1} | {calls} | {sleeps:.1} | {written_kib:.0} | {processor_us:.0} | {work} | {of_many} | {calls_of_many} | {kib_of_many:.1} | {work_of_many} |"
        )
    }
}

pub(crate) fn take(effort: Effort, _: &mut Table) {
    let count = effort.pick(24, 36);
    let wanted = commands::wanted();
    let mut costs: Vec<Cost> = wanted.iter().map(|name| cost(name, 1, count)).collect();
    costs.extend(wanted.iter().filter(|name| **name == "register_group").map(|name| cost(name, MANY, count)));
    println!(
        "| command | bytes of it, of its reply | commits | pages | system calls | sleeps of threads | KiB written | processor, µs | 1000 instructions | allocations, KiB of them | of {TOGETHER} that wait: pages | system calls | KiB written | 1000 instructions | allocations, KiB of them |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    costs.iter().for_each(|cost| println!("{}", cost.row()));
    println!("\n| command | pages, by table and index |\n|---|---|");
    costs.iter().for_each(|cost| println!("| {} | {} |", cost.name, listed(&cost.pages)));
    println!("\n| command | system calls | of {TOGETHER} that wait |\n|---|---|---|");
    for cost in &costs {
        let calls = [&cost.calls, &cost.drained.calls]
            .map(|calls| calls.as_deref().map_or_else(|| "–".into(), listed));
        println!("| {} | {} |", cost.name, calls.join(" | "));
    }
    println!("\n| command | instructions, by function | of {TOGETHER} that wait |\n|---|---|---|");
    for cost in &costs {
        let functions =
            [&cost.work, &cost.drained.work].map(|work| work.as_ref().map_or_else(|| "–".into(), busiest));
        println!("| {} | {} |", cost.name, functions.join(" | "));
    }
    println!();
}

/// Shows instructions and allocations as two columns.
fn worked(work: &Option<Work>) -> String {
    let show = |work: &Work| {
        let Work { instructions, allocations, allocated_kib, .. } = work;
        format!("{:.0} | {allocations:.0}, {allocated_kib:.0}", instructions / 1e3)
    };
    work.as_ref().map_or_else(|| "– | –".into(), show)
}

/// Names the functions that execute most, with their share.
fn busiest(work: &Work) -> String {
    let shown = work.functions.iter().take(FUNCTIONS);
    let show = |(name, count): &(String, f64)| format!("`{name}` {:.1} %", count / work.instructions * 100.0);
    shown.map(show).collect::<Vec<_>>().join(", ")
}

fn sum(counts: &[(String, f64)]) -> f64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn in_all(calls: Option<&[(String, f64)]>) -> String {
    calls.map_or_else(|| "–".into(), |calls| format!("{:.0}", sum(calls)))
}

fn listed(counts: &[(String, f64)]) -> String {
    let shown = counts.iter().filter(|(_, count)| *count >= LEAST);
    shown.map(|(name, count)| format!("{name} {count:.1}")).collect::<Vec<_>>().join(", ")
}

/// Gives commands one by one, each when the one before it is answered and done, and counts: once as they are, and once more with
/// strace, under which the rest would not be what it is.
fn cost(name: &str, groups: usize, count: usize) -> Cost {
    let root = Root::new(groups.max(2));
    root.serve().stop();
    let writers = &root.groups[..1];
    commands::prepare(&mut root.store(), name, WARM + 2 * count, writers);
    let daemon = root.serve();
    rest::is_through(&daemon);
    let mut giver = Giver::new(&root, name);
    let log = Log::of(&root);
    log.begin_anew(&root);
    giver.give(WARM);
    done(&log, &daemon);
    let (before, from) = (Counts::of(&daemon), log.end());
    let bytes = giver.give(count);
    done(&log, &daemon);
    let (after, to) = (Counts::of(&daemon), log.end());
    let calls = Calls::begin(&daemon).map(|calls| {
        giver.give(count);
        done(&log, &daemon);
        each(calls.end(), count)
    });
    let n = count as f64;
    let cost = Cost {
        name: if groups == 1 { format!("`{name}`") } else { format!("`{name}`, {groups} groups") },
        bytes: bytes.map(|all| all as f64 / n),
        commits: f64::from(to.commits.wrapping_sub(from.commits)) / n,
        pages: each(log.pages(&root, &from, &to).expect("few commands fit into one log"), count),
        sleeps: (after.sleeps - before.sleeps) as f64 / n,
        written_kib: (after.written - before.written) as f64 / 1024.0 / n,
        processor_us: (after.processor - before.processor).as_secs_f64() * 1e6 / n,
        calls,
        work: work(groups, count, |tool| one_by_one(name, count, tool)),
        drained: drained(name, groups),
    };
    eprintln!("{}", cost.row());
    cost
}

/// Gives many commands at once, which want no reply, and counts: once as they are, and once more with strace.
fn drained(name: &str, groups: usize) -> Drained {
    let root = Root::new(groups.max(2));
    root.serve().stop();
    commands::prepare(&mut root.store(), name, 2 * TOGETHER, &root.groups[..1]);
    let daemon = root.serve();
    rest::is_through(&daemon);
    let log = Log::of(&root);
    let give = |from: usize| {
        put_together(&root, name, from);
        done(&log, &daemon);
    };
    let take = || {
        take_together(&root);
        done(&log, &daemon);
    };
    log.begin_anew(&root);
    give(0);
    let (before, from) = (daemon.written_bytes(), log.end());
    take();
    let (written, to) = (daemon.written_bytes() - before, log.end());
    give(TOGETHER);
    let calls = Calls::begin(&daemon).map(|calls| {
        take();
        each(calls.end(), TOGETHER)
    });
    Drained {
        pages: log.pages(&root, &from, &to).map(|pages| sum(&each(pages, TOGETHER))),
        written_kib: written as f64 / 1024.0 / TOGETHER as f64,
        calls,
        work: work(groups, TOGETHER, |tool| together(name, tool)),
    }
}

/// Has both tools count what `count` commands cost, at the same time. Not where there are many groups: to start takes too long.
fn work(groups: usize, count: usize, take: impl Fn(Tool) -> Option<work::Counts> + Sync) -> Option<Work> {
    if groups > 1 || !work::is_there() {
        return None;
    }
    let (instructions, allocations) = std::thread::scope(|scope| {
        let instructions = scope.spawn(|| take(Tool::Callgrind));
        let allocations = take(Tool::Massif);
        (instructions.join().unwrap(), allocations)
    });
    let (instructions, allocations) = (instructions?, allocations?);
    let n = count as f64;
    let mut functions: Vec<(String, f64)> =
        instructions.into_iter().map(|(name, count)| (name, count / n)).collect();
    functions.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Work {
        instructions: sum(&functions),
        functions,
        allocations: allocations[ALLOCATIONS] / n,
        allocated_kib: allocations[BYTES] / 1024.0 / n,
    })
}

/// Counts what commands cost that are given one by one.
fn one_by_one(name: &str, count: usize, tool: Tool) -> Option<work::Counts> {
    let root = Root::new(2);
    root.serve().stop();
    commands::prepare(&mut root.store(), name, WARM + count, &root.groups[..1]);
    let mut valgrind = Valgrind::serve(&root, tool)?;
    let mut giver = Giver { pause: LONG_PAUSE, ..Giver::new(&root, name) };
    giver.give(WARM);
    valgrind.rests();
    Some(valgrind.count(|| {
        giver.give(count);
    }))
}

/// Counts what commands cost that wait.
fn together(name: &str, tool: Tool) -> Option<work::Counts> {
    let root = Root::new(2);
    root.serve().stop();
    commands::prepare(&mut root.store(), name, TOGETHER, &root.groups[..1]);
    let mut valgrind = Valgrind::serve(&root, tool)?;
    put_together(&root, name, 0);
    valgrind.rests();
    Some(valgrind.count(|| take_together(&root)))
}

/// Has commands wait, from number `from` on.
fn put_together(root: &Root, name: &str, from: usize) {
    let group = root.groups[0].as_str();
    root.run(&["ipc", "hold", group]);
    for n in from..from + TOGETHER {
        let command = commands::command(name, group, n, &root.groups, false);
        root.put(group, &format!("{n:08}.json"), command.to_string().as_bytes());
    }
}

/// Lets commands go that wait, until each is taken.
fn take_together(root: &Root) {
    let group = root.groups[0].as_str();
    root.run(&["ipc", "release", group]);
    rig::wait_until("every command to be taken", || {
        is_empty(&root.in_box(group, "messages")) && is_empty(&root.data("claimed"))
    });
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn each(counts: Vec<(String, u64)>, count: usize) -> Vec<(String, f64)> {
    counts.into_iter().map(|(name, all)| (name, all as f64 / count as f64)).collect()
}

/// Who gives commands of one kind.
struct Giver<'a> {
    root: &'a Root,
    name: &'a str,
    group: &'a str,
    answers: Events,
    given: usize,
    /// How long the next command waits after an answer.
    pause: Duration,
}

impl<'a> Giver<'a> {
    fn new(root: &'a Root, name: &'a str) -> Self {
        let group = root.groups[0].as_str();
        assert!(!is_mains(name) || group == "main");
        let mut answers = Events::new();
        answers.watch(&root.in_box(group, "responses"));
        Self { root, name, group, answers, given: 0, pause: PAUSE }
    }

    /// Gives `count` commands; returns how long they are together, and their replies, bytes.
    fn give(&mut self, count: usize) -> [usize; 2] {
        let mut bytes = [0; 2];
        for _ in 0..count {
            let command = commands::command(self.name, self.group, self.given, &self.root.groups, true);
            self.given += 1;
            let id = command["requestId"].as_str().unwrap().to_owned();
            let text = command.to_string();
            self.root.put(self.group, &format!("{id}.json"), text.as_bytes());
            let answers = self.root.in_box(self.group, "responses");
            self.answers.wait(&answers, |name| name == format!("{id}.json"));
            let reply = std::fs::read(answers.join(format!("{id}.json"))).unwrap();
            let parsed: Value = serde_json::from_slice(&reply).unwrap();
            assert!(parsed.is_array() || parsed["ok"] == true, "{parsed}");
            bytes[0] += text.len();
            bytes[1] += reply.len();
            std::thread::sleep(self.pause);
        }
        bytes
    }
}

/// Waits until the daemon has written nothing for a while.
fn done(log: &Log, daemon: &Daemon) {
    let mut last = (log.end(), daemon.written_bytes());
    rig::wait_until("rest", || {
        std::thread::sleep(QUIET);
        let now = (log.end(), daemon.written_bytes());
        std::mem::replace(&mut last, now) == last
    });
}

/// What the kernel counts of the daemon.
struct Counts {
    sleeps: u64,
    written: u64,
    processor: Duration,
}

impl Counts {
    fn of(daemon: &Daemon) -> Self {
        Self {
            sleeps: daemon.sleeps(),
            written: daemon.written_bytes(),
            processor: daemon.processor_time().values().sum(),
        }
    }
}
