//! Three hundred groups that all write at once: slow and fast agents, follow-ups, a second chat, tasks, containers that do not
//! start, while the daemon is killed twice and stopped once. All is answered once; there are never more runs than the cap; and
//! nobody has a second turn while a group waits for its first. Waits are counted in turns, so a slow machine changes nothing.
//! The same with fewer groups in Docker, where the next daemon adopts the containers of the one before.
//!
//! `G2_CROWD` says how many rounds of messages are sent (1; CI does no more), `G2_SEED` when the daemon ends.
#![expect(clippy::disallowed_methods, reason = "the test is the machine: it kills, and looks at processes")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::print_stdout, reason = "figures of the long run")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Deref,
    time::Instant,
};

use serde_json::{Value, json};

use super::{
    ledger::Ledger,
    random::{Random, UNSAID, check_messages, number},
    scene::{nobody_left, workers},
};
use crate::support::{Daemon, Docked, Root, Socket, agent_image, run_docker, wait_for};

/// Containers of these groups never come up, and of those only the third does. In Docker the first ones' image is missing until
/// everybody else was answered.
fn never_starts(g: usize) -> bool {
    g % 50 == 3
}

fn starts_late(g: usize) -> bool {
    g % 50 == 7
}

/// These have a second chat.
fn has_two_chats(g: usize) -> bool {
    g.is_multiple_of(6)
}

/// These have a task that is due at once, and those one that is due every second.
fn has_a_task(g: usize) -> bool {
    g % 5 == 2
}

fn has_an_endless_task(g: usize) -> bool {
    g % 100 == 11
}

/// The number of batches that are done, or given up.
const OVER: &str = "SELECT count(*) FROM batches WHERE state IN ('done', 'failed')";

/// What is left to do, but for endless tasks.
const LEFT: &str = "SELECT (SELECT count(*) FROM inbox WHERE verdict IS NULL)
    + (SELECT count(*) FROM lanes l JOIN inbox i ON i.lane_id = l.id AND i.n > l.cursor WHERE i.verdict = 'wake')
    + (SELECT count(*) FROM batches WHERE state NOT IN ('done', 'failed'))
    + (SELECT count(*) FROM outbox WHERE status IN ('pending', 'sending', 'unknown'))
    + (SELECT count(*) FROM tasks WHERE schedule_type = 'once' AND status <> 'completed')";

/// Where agents run.
enum Place {
    Process(Root),
    Docker(Docked),
}

impl Deref for Place {
    type Target = Root;

    fn deref(&self) -> &Root {
        match self {
            Self::Process(root) => root,
            Self::Docker(docked) => docked,
        }
    }
}

impl Place {
    fn serve(&self) -> Daemon {
        match self {
            Self::Process(root) => root.serve(),
            Self::Docker(docked) => docked.serve(),
        }
    }

    /// What works for agents now: mailboxes with a process, or containers.
    fn at_work(&self) -> BTreeSet<String> {
        match self {
            Self::Process(root) => workers(root).into_iter().filter_map(mailbox_of).collect(),
            Self::Docker(docked) => {
                let label = format!("label=g2.instance={}", docked.instance());
                run_docker(&["ps", "--quiet", "--filter", &label]).lines().map(str::to_owned).collect()
            }
        }
    }
}

/// The mailbox that a process works for.
fn mailbox_of(pid: u32) -> Option<String> {
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
    environment.split('\0').find_map(|entry| Some(entry.strip_prefix("G2_IPC_DIR=")?.to_owned()))
}

/// Many groups, and at most `cap` containers.
struct Crowd {
    root: Place,
    groups: usize,
    cap: usize,
    /// What each chat was sent.
    sent: BTreeMap<String, Vec<(i64, String)>>,
    /// The number of the last event before each daemon but the first.
    restarts: Vec<i64>,
}

impl Crowd {
    /// With agents that are child processes.
    fn of_processes(groups: usize, cap: usize) -> Self {
        let g2 = env!("CARGO_BIN_EXE_g2");
        let root = Root::new("");
        // Nobody begins before all are written to. Each line of `broken` is a start that fails.
        let place = root.path().display();
        let gate = format!("until [ -e '{place}/gate' ]; do [ -d '{place}' ] || exit; sleep 0.02; done");
        let agent = format!("{gate}; [ -s broken ] && {{ sed -i 1d broken; exit 7; }}; exec '{g2}' agent");
        let command = format!("command = [\"/bin/sh\", \"-c\", \"{agent}\"]");
        let sandbox = "kind = \"process\"\nallow_unsandboxed = true";
        Self::laid_out(Place::Process(root), sandbox, &command, groups, cap)
    }

    /// With agents in containers.
    fn of_containers(groups: usize, cap: usize) -> Option<Self> {
        let docked = Docked::new("")?;
        let sandbox = format!("kind = \"docker\"\nimage = \"{}\"", agent_image());
        Some(Self::laid_out(Place::Docker(docked), &sandbox, "", groups, cap))
    }

    fn laid_out(root: Place, sandbox: &str, command: &str, groups: usize, cap: usize) -> Self {
        root.settings(&format!(
            "[sandbox]\n{sandbox}\n[agent]\nscript = \"script.json\"\n{command}\n\
             [limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\nmax_concurrent_containers = {cap}\n"
        ));
        let echo = json!({"say": "echo: {{text}}"});
        let script =
            json!([{"when": {"contains": "slowly"}, "do": [{"wait_ms": 700}, echo]}, {"do": [echo]}]);
        fs::write(root.path().join("script.json"), script.to_string()).unwrap();
        Self { root, groups, cap, sent: BTreeMap::new(), restarts: Vec::new() }
    }

    fn add_groups(&self, socket: &mut Socket) {
        for g in 0..self.groups {
            let folder = format!("g{g}");
            change(socket, "groups.add", &json!({"folder": folder, "chat": format!("local:c{g}")}));
            if has_two_chats(g) {
                let wiring = json!({"group": folder, "chat": format!("local:side{g}"), "engage": "pattern", "pattern": "."});
                change(socket, "wirings.add", &wiring);
            }
            match &self.root {
                Place::Process(root) => {
                    let failures = if never_starts(g) { 10_000 } else { usize::from(starts_late(g)) * 2 };
                    fs::write(root.path().join(format!("groups/{folder}/broken")), "x\n".repeat(failures))
                        .unwrap();
                }
                Place::Docker(docked) if never_starts(g) => {
                    docked.g2(&["groups", "set", &folder, "image=g2-nowhere:1"]);
                }
                Place::Docker(_) => {}
            }
        }
    }

    fn add_tasks(&self, socket: &mut Socket) {
        let mut add = |g: usize, id: &str, kind: &str, value: &str| {
            let chat = format!("local:c{g}");
            let task = json!({"group": format!("g{g}"), "chat": chat, "id": id, "type": kind, "value": value, "prompt": "tick"});
            change(socket, "tasks.add", &task);
        };
        for g in (0..self.groups).filter(|g| !never_starts(*g)) {
            if has_a_task(g) {
                add(g, "once", "once", &crate::support::due());
            }
            if has_an_endless_task(g) {
                add(g, "endless", "interval", "1000");
            }
        }
    }

    /// Sends one message to each group, and a follow-up to some, before any is answered; containers do not wait for that.
    fn send_round(&mut self, socket: &mut Socket, round: u64) {
        let _ = fs::remove_file(self.root.path().join("gate"));
        for n in 0..2 {
            for g in (0..self.groups).filter(|g| n == 0 || g.is_multiple_of(3)) {
                let slowly = if g.is_multiple_of(10) { " slowly" } else { "" };
                self.send(socket, format!("c{g}"), format!("{round}.{n} to g{g}{slowly}"));
                if n == 0 && has_two_chats(g) {
                    self.send(socket, format!("side{g}"), format!("{round}.{n} to the side of g{g}"));
                }
            }
        }
        if round == 0 {
            self.add_tasks(socket);
        }
        self.root.open_gate();
    }

    fn send(&mut self, socket: &mut Socket, chat: String, text: String) {
        let seq = socket.accepted(&format!("local:{chat}"), &text, &text);
        self.sent.entry(chat).or_default().push((seq, text));
    }

    fn ledger(&self) -> Ledger {
        Ledger::of_the_living(&self.root)
    }

    /// Waits until `sql` counts at most that many, or at least; as long as it changes, it is waited for. Sees meanwhile that there
    /// are no more processes than may be.
    fn wait_until(&self, what: &str, sql: &str, is_enough: impl Fn(i64) -> bool) {
        let mut last = i64::MIN;
        while !is_enough(last) {
            last = wait_for(what, || Some(self.ledger().number(sql)).filter(|now| *now != last));
            let at_work = self.root.at_work();
            assert!(at_work.len() <= self.cap, "{what}: {at_work:?}");
        }
    }

    /// Notes that the next daemon begins here, and starts it.
    fn next_daemon(&mut self) -> Daemon {
        self.restarts.push(self.ledger().number("SELECT max(seq) FROM events"));
        self.root.serve()
    }
}

fn change(socket: &mut Socket, name: &str, args: &Value) {
    let answer = socket.call(&json!({"op": "op", "do": {"name": name, "args": args}}));
    assert!(answer["error"].is_null() && answer["is"] != "error", "{name} {args}: {answer}");
}

/// When things happened, by the numbers of events.
struct Order {
    /// By run: its group, when it was queued, and when it had ended.
    runs: Vec<(String, i64, i64)>,
}

impl Order {
    fn read(ledger: &Ledger) -> Self {
        let groups: BTreeMap<i64, String> =
            ledger.pairs("SELECT id, group_folder FROM runs").into_iter().collect();
        let of = |which: &str| -> BTreeMap<i64, i64> {
            let sql = format!(
                "SELECT CAST(subject AS INTEGER), {which}(seq) FROM events WHERE kind = 'run' GROUP BY subject"
            );
            ledger.pairs(&sql).into_iter().collect()
        };
        let (queued, ended) = (of("min"), of("max"));
        let runs = groups.into_iter().map(|(run, group)| (group, queued[&run], ended[&run])).collect();
        Self { runs }
    }

    /// The most runs that were under way at any one time.
    fn most_at_once(&self) -> i64 {
        let mut changes: Vec<(i64, i64)> =
            self.runs.iter().flat_map(|(_, queued, ended)| [(*queued, 1), (*ended, -1)]).collect();
        changes.sort_unstable();
        let mut now = 0;
        changes
            .into_iter()
            .map(|(_, change)| {
                now += change;
                now
            })
            .max()
            .unwrap_or(0)
    }

    /// How many runs each other group began while `group` waited for its own, from `since` to `until`.
    fn passed_by(&self, group: &str, since: i64, until: i64) -> BTreeMap<&str, usize> {
        let own: Vec<_> = self.runs.iter().filter(|run| run.0 == group).collect();
        let is_at_work = |at: i64| own.iter().any(|(_, queued, ended)| (*queued..=*ended).contains(&at));
        let mut began = BTreeMap::new();
        for (other, queued, _) in &self.runs {
            if other != group && (since..until).contains(queued) && !is_at_work(*queued) {
                *began.entry(other.as_str()).or_default() += 1;
            }
        }
        began
    }
}

/// A message's way, by the numbers of events: its group, when it was judged, and when an agent was given it first.
fn waits(ledger: &Ledger) -> Vec<(String, i64, i64)> {
    let text: Vec<String> = ledger.column(
        "SELECT json_array(l.group_folder,
           (SELECT min(e.seq) FROM events e WHERE e.kind = 'judged' AND e.subject = CAST(i.seq AS TEXT)),
           (SELECT min(e.seq) FROM events e WHERE e.kind = 'handed' AND e.subject = CAST(b.id AS TEXT)))
         FROM inbox i JOIN lanes l ON l.id = i.lane_id JOIN batches b ON b.lane_id = l.id AND b.first = i.n",
    );
    text.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

/// Nobody waits for long, in turns. Returns how many messages were alone in their group, and the most turns of others that a
/// message waited for.
fn check_waits(crowd: &Crowd, order: &Order) -> (usize, usize) {
    let (mut alone, mut most) = (0, 0);
    for (group, judged, handed) in waits(&crowd.ledger()) {
        let g: usize = group[1..].parse().unwrap_or(0);
        if group == "main" || never_starts(g) || starts_late(g) {
            continue; // These rest in between.
        }
        // A daemon that follows another forms the line anew.
        let since = crowd.restarts.iter().copied().filter(|at| *at < handed).fold(judged, i64::max);
        let began = order.passed_by(&group, since, handed);
        // While a group waits for a slot, each other group has one turn, beside one that was decided on before. Before a
        // message there are, in its group, a follow-up, the other chat and two tasks: five turns at most.
        let of_group = order.runs.iter().filter(|(of, queued, _)| *of == group && *queued <= handed);
        let own = of_group.clone().map(|(_, queued, _)| *queued).max().unwrap_or(0);
        let was_alone =
            own > since && !of_group.clone().any(|(_, queued, ended)| *queued < own && *ended > since);
        let bound = if was_alone { 2 } else { 5 * 2 };
        let worst = began.iter().max_by_key(|(_, count)| **count);
        assert!(worst.is_none_or(|(_, count)| *count <= bound), "{group}: {since} to {handed}: {worst:?}");
        alone += usize::from(was_alone);
        most = most.max(began.values().sum());
    }
    (alone, most)
}

/// All this happens, and everything is as it should be. The daemon ends three times in each round.
fn live_through(mut crowd: Crowd, rounds: u64) {
    let seed = number("G2_SEED").unwrap_or(1);
    println!("{rounds} rounds; again with G2_SEED={seed}");
    let (mut random, begun) = (Random(seed), Instant::now());
    let mut daemon = crowd.root.serve();
    let mut socket = Socket::connect(&crowd.root);
    crowd.add_groups(&mut socket);
    println!("laid out after {:?}", begun.elapsed());
    for round in 0..rounds {
        let before = crowd.ledger().number(OVER);
        crowd.send_round(&mut socket, round);
        let quarter = u64::try_from(crowd.groups * 3 / 8).unwrap();
        for (n, is_killed) in [(1, true), (2, false), (3, true)] {
            let until = before + i64::try_from(quarter * n - random.below(quarter / 2)).unwrap();
            crowd.wait_until("answers", OVER, |over| over >= until);
            drop(socket);
            if is_killed {
                daemon.kill();
            } else {
                assert_eq!(daemon.terminate(), Some(0));
            }
            daemon = crowd.next_daemon();
            socket = Socket::connect(&crowd.root);
            println!("{until} were answered after {:?}", begun.elapsed());
        }
    }
    for g in (0..crowd.groups).filter(|g| has_an_endless_task(*g) && !never_starts(*g)) {
        change(&mut socket, "tasks.cancel", &json!({"group": format!("g{g}"), "id": "endless"}));
    }
    if let Place::Docker(docked) = &crowd.root {
        let late: Vec<String> =
            (0..crowd.groups).filter(|g| never_starts(*g)).map(|g| format!("g{g}")).collect();
        let others = format!("l.group_folder NOT IN ('{}')", late.join("','"));
        let left = format!(
            "SELECT (SELECT count(*) FROM lanes l JOIN inbox i ON i.lane_id = l.id AND i.n > l.cursor WHERE i.verdict = 'wake' AND {others})
               + (SELECT count(*) FROM lanes l JOIN batches b ON b.lane_id = l.id WHERE b.state NOT IN ('done', 'failed') AND {others})"
        );
        crowd.wait_until("all others to be answered", &left, |left| left == 0);
        for folder in &late {
            docked.g2(&["groups", "set", folder, "image="]);
        }
    }
    crowd.wait_until("all to be answered", LEFT, |left| left == 0);
    println!("all were answered after {:?}", begun.elapsed());

    let ledger = crowd.ledger();
    assert_eq!(ledger.number(UNSAID), 0);
    let (mut answered, mut given_up) = (0, 0);
    for (chat, sent) in &crowd.sent {
        let (done, failed) = check_messages(&ledger, chat, sent);
        let g: usize = chat.trim_start_matches(char::is_alphabetic).parse().unwrap();
        // Of a container that lives on nothing is cut short, and an image is waited for.
        let may_be_given_up = matches!(crowd.root, Place::Process(_));
        assert!(!may_be_given_up || !never_starts(g) || done == 0, "{chat} can't be answered");
        assert!(may_be_given_up || failed == 0, "{chat}: {failed} were given up");
        (answered, given_up) = (answered + done, given_up + failed);
    }
    // A task whose run its daemon took along runs again.
    let twice = "SELECT group_folder FROM runs WHERE source = 'task:once' AND status = 'succeeded' GROUP BY group_folder HAVING count(*) <> 1";
    assert_eq!(ledger.column::<String>(twice), [""; 0]);
    let order = Order::read(&ledger);
    assert_eq!(order.most_at_once(), i64::try_from(crowd.cap).unwrap());
    let (alone, most) = check_waits(&crowd, &order);
    assert!(alone >= crowd.groups / 2, "{alone}");
    println!(
        "{} runs, {answered} answers, {given_up} given up and told; a message waited for {most} turns of others at most; {:?}",
        order.runs.len(),
        begun.elapsed()
    );
    assert_eq!(daemon.terminate(), Some(0));
    if let Place::Process(root) = &crowd.root {
        nobody_left(root);
    }
}

#[test]
fn three_hundred_groups_at_once_are_answered_once_each_within_the_cap_and_in_turn() {
    live_through(Crowd::of_processes(300, 8), number("G2_CROWD").unwrap_or(1));
}

#[test]
fn containers_that_are_adopted_in_the_middle_count_and_nothing_of_theirs_is_lost() {
    let Some(crowd) = Crowd::of_containers(24, 4) else { return };
    live_through(crowd, 1);
}
