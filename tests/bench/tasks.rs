//! Scheduled tasks: many at once, and one on time.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use ipc_handlers::{Schedule, Time};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::{
    Effort,
    events::Events,
    report::{Reached, Samples, Table, millis, ratio},
    rest,
    rig::{self, Daemon, Root},
};

/// Groups that the tasks belong to; one more looks on.
const GROUPS: usize = 100;

pub(crate) fn take(effort: Effort, table: &mut Table) {
    many(effort, table);
    on_time(effort, table);
    at_rest(effort, table);
    next_occurrence(effort, table);
}

/// A part of many stored tasks falls due at one instant, while another group goes on sending commands.
fn many(effort: Effort, table: &mut Table) {
    let (stored, due) = effort.pick((20_000, 2_000), (100_000, 10_000));
    let root = Root::new(GROUPS + 1);
    // Enough for the start, however slow it is today.
    let at = rig::wall_ms() + 4_000.0 + stored as f64 / 20.0;
    let each = stored / due;
    insert(&root, stored, |n| (n / each, if n % each == 0 { at } else { at + 86_400_000.0 }));
    let daemon = root.serve_with("debug");
    assert!(rig::wall_ms() < at - 1_500.0, "the tasks fell due before the daemon was up");
    let resident = daemon.resident_kib();
    let quiet = onlooker(&root, &daemon, "q", at - 200.0);
    while rig::wall_ms() < at {
        std::thread::yield_now();
    }
    let crowded = onlooker(&root, &daemon, "c", at + effort.pick(3_000.0, 10_000.0));
    let log = root.log();
    let asked: Vec<f64> = asked(&log).collect();
    let pass = Duration::from_secs_f64((asked.first().expect("no task was started") - at).max(0.0) / 1e3);
    let ended = log.iter().filter(|line| line["message"] == "run ended").count();
    let what = format!("{due} due of {stored} stored tasks");
    table.row(
        format!("{what}: due → first container asked for"),
        format!("{} ms", millis(pass)),
        "",
        "",
        "a pass ≤ 1 s",
        Reached::when(pass <= Duration::from_secs(1)),
    );
    table.row(
        format!("{what}: somebody else's command meanwhile (median / longest)"),
        format!("{} / {} ms", millis(crowded.delays.median()), millis(crowded.delays.max())),
        format!(
            "{} / {} ms (before they are due)",
            millis(quiet.delays.median()),
            millis(quiet.delays.max())
        ),
        "",
        "longest ≤ 50 ms more",
        Reached::when(crowded.delays.max() <= quiet.delays.max() + Duration::from_millis(50)),
    );
    let (before, most) = (resident.max(quiet.most_kib) as f64 / 1024.0, crowded.most_kib as f64 / 1024.0);
    table.row(
        format!("{what}: resident memory (before / most)"),
        format!("{before:.1} / {most:.1} MiB"),
        "",
        "",
        "flat (≤ 5 MiB more)",
        Reached::when(most <= before + 5.0),
    );
    let seconds = effort.pick(3.0, 10.0);
    table.row(
        format!("{what}: runs ended per second, 5 at a time, a process each"),
        format!("{:.0} /s", ended as f64 / seconds),
        "",
        "",
        "–",
        Reached::Open,
    );
}

/// What somebody saw who sent one command after the other.
struct Seen {
    delays: Samples,
    most_kib: u64,
}

/// Sends commands in the last group until an instant, one each 10 ms.
fn onlooker(root: &Root, daemon: &Daemon, prefix: &str, until_ms: f64) -> Seen {
    let group = root.groups.last().unwrap();
    let responses = root.in_box(group, "responses");
    let mut events = Events::new();
    events.watch(&responses);
    let (mut delays, mut most_kib) = (Vec::new(), 0);
    let mut next = Instant::now();
    for n in 0.. {
        if rig::wall_ms() >= until_ms {
            break;
        }
        let id = format!("{prefix}{n}");
        let command = json!({ "type": "send_message", "chatJid": format!("local:{group}"), "text": "me too", "requestId": id });
        let before = root.put(group, &format!("{id}.json"), command.to_string().as_bytes());
        let (after, _) = events.wait(&responses, |name| name == format!("{id}.json"));
        delays.push(after - before);
        most_kib = most_kib.max(daemon.resident_kib());
        next = (next + Duration::from_millis(10)).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Seen { delays: Samples::new(delays), most_kib }
}

/// Tasks that fall due one by one while slots are free.
fn on_time(effort: Effort, table: &mut Table) {
    let count = effort.pick(15, 50);
    let root = Root::new(GROUPS + 1);
    let began = rig::wall_ms() + 4_000.0;
    let due = |n: usize| began + n as f64 * 200.0;
    insert(&root, count, |n| (n, due(n)));
    let _daemon = root.serve_with("debug");
    assert!(rig::wall_ms() < began, "the tasks fell due before the daemon was up");
    let last = due(count - 1);
    rig::wait_until("the last task's run", || {
        std::thread::sleep(Duration::from_millis(100));
        rig::wall_ms() > last && asked(&root.log()).count() >= count
    });
    let log = root.log();
    let groups: HashSet<&str> = log.iter().filter_map(|line| line["group"].as_str()).collect();
    assert!(groups.len() >= count.min(GROUPS), "each task in a group of its own");
    let late = asked(&log)
        .enumerate()
        .map(|(n, asked)| Duration::from_secs_f64((asked - due(n)).max(0.0) / 1e3))
        .collect();
    let late = Samples::new(late);
    table.row(
        "due task → container asked for, a slot is free (median / p95 / p99)",
        late.to_string(),
        "",
        "",
        "≤ 50 ms",
        Reached::when(late.max() <= Duration::from_millis(50)),
    );
}

/// Stored tasks of which none is due, beside the same groups without any.
fn at_rest(effort: Effort, table: &mut Table) {
    let stored = effort.pick(20_000, 100_000);
    let window = Duration::from_secs(effort.pick(10, 60));
    let [without, with] = [0, stored].map(|tasks| {
        let root = Root::new(GROUPS + 1);
        let at = rig::wall_ms() + 86_400_000.0;
        insert(&root, tasks, |n| (n, at));
        let daemon = root.serve();
        rest::settle(&daemon);
        daemon.share(window) * 100.0
    });
    table.row(
        format!("{stored} stored tasks, none due: processor, idle over {} s", window.as_secs()),
        format!("{with:.3} %"),
        format!("{without:.3} % (no task)"),
        "",
        "≤ 0.1 %",
        Reached::when(with <= 0.1),
    );
}

/// A schedule's next instant, found once it is read, beside an instant shown on the clocks of a zone.
fn next_occurrence(effort: Effort, table: &mut Table) {
    let times = effort.pick(10_000, 100_000);
    let zone = TimeZone::get("Europe/Paris").unwrap();
    let began = Time(1_800_000_000_000);
    let each = |step: &dyn Fn(Time) -> Time| {
        let (since, mut at) = (Instant::now(), began);
        for _ in 0..times {
            at = step(at);
        }
        std::hint::black_box(at);
        since.elapsed() / times
    };
    let floor = each(&|at| {
        std::hint::black_box(at.to_jiff().to_zoned(zone.clone()).datetime());
        at.plus_ms(300_000)
    });
    for (kind, value) in
        [("cron", "*/5 9-17 * * 1-5"), ("cron", "30 2 * * *"), ("cron", "0 9 29 2 *"), ("interval", "15m")]
    {
        let schedule = Schedule::parse(kind, value, &zone, began).unwrap();
        // Beyond the last one it begins anew.
        let taken = each(&|at| schedule.next_after(at, at, &zone).unwrap_or(began));
        table.row(
            format!("next occurrence of {kind} `{value}`"),
            format!("{:.2} µs", micros(taken)),
            format!("{:.2} µs (an instant on the zone's clocks)", micros(floor)),
            format!("{:.1} ×", ratio(taken, floor)),
            "≤ 100 µs",
            Reached::when(taken <= Duration::from_micros(100)),
        );
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// When containers were asked for, ms since the epoch, in order.
fn asked(log: &[Value]) -> impl Iterator<Item = f64> {
    log.iter().filter(|line| line["message"] == "asking for a container").map(rig::logged_at_ms)
}

/// Stores tasks that run once, in all groups but main and the last: `task` says the number of the group and when the
/// task is due.
fn insert(root: &Root, count: usize, task: impl Fn(usize) -> (usize, f64)) {
    let mut store = root.store();
    let all = store.transaction().unwrap();
    for n in 0..count {
        let (group, due_ms) = task(n);
        let group = &root.groups[1 + group % (GROUPS - 1)];
        all.prepare_cached(
            "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
             VALUES (?1, ?2, ?3, ?4, 'once', '2030-01-01T00:00:00', 'isolated', 'active', ?5, 0)",
        )
        .unwrap()
        .execute((format!("bench-{n}"), group, format!("local:{group}"), format!("look after thing {n}"), due_ms as i64))
        .unwrap();
    }
    all.commit().unwrap();
}
