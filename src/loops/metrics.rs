//! Figures for Prometheus, gathered when somebody asks. With the daemon up it tells of itself too.

use std::path::Path;

use ipc_handlers::Time;

use crate::{
    domain::{
        machine::loops::LoopState,
        platforms::channels::{Connection, Lamp},
        problems::{Finding, Severity},
        rows::ChannelState,
        shown::metrics::{Family, Histogram, Kind, Total, seconds},
        states::RunStatus,
    },
    ipc::peek,
    loops::lost::is_lost,
    store::{Figures, Store, StoreError},
    system::{disk, process},
};

use Kind::{Counter, Gauge};

/// What only the daemon knows.
pub struct Live<'a> {
    pub since: Time,
    pub commits: Histogram,
    pub commands: Histogram,
    pub findings: &'a [Finding],
    pub loops: &'a [LoopState],
}

/// Gathers all figures of a root; `live`: the daemon that serves it.
///
/// # Errors
/// The store's.
pub async fn gather(
    store: &Store,
    root: &Path,
    live: Option<&Live<'_>>,
    now: Time,
) -> Result<Vec<Family>, StoreError> {
    let figures = store.figures(now, |group| is_lost(root, store, group))?;
    let mut families = vec![
        Family::new("g2_up", Gauge, "Whether the daemon answers.")
            .with(&[], f64::from(u8::from(live.is_some()))),
        Family::new("g2_build_info", Gauge, "The version of the program that tells.")
            .with(&[("version", env!("CARGO_PKG_VERSION"))], 1.0),
    ];
    families.extend(rows(&figures));
    families.extend(queues(store, root, &figures, now).await?);
    families.extend(channels(store, now).await?);
    families.extend(room(store, root));
    if let Some(live) = live {
        families.extend(daemon(live));
        families.extend(loops(live.loops));
    }
    Ok(families)
}

fn rows(figures: &Figures) -> Vec<Family> {
    let given = |name: &str| figures.given.get(name).copied().unwrap_or(0) as f64;
    let active = |status| {
        figures.active.iter().filter(|(of, _)| *of == status).map(|(_, count)| *count).sum::<i64>() as f64
    };
    let total = |name, help, what, labels: [&'static str; 2]| {
        let rows = figures.totals.iter().filter(move |(of, ..)| *of == what);
        Family::new(name, Counter, help).with_all(rows.map(|(_, label, kind, count)| {
            let mut pairs = vec![(labels[0], label.as_str()), (labels[1], kind.as_str())];
            pairs.retain(|(name, _)| !name.is_empty());
            (pairs, *count as f64)
        }))
    };
    vec![
        Family::new("g2_groups", Gauge, "Groups.").with(&[], figures.groups as f64),
        Family::new("g2_tasks", Gauge, "Tasks by status.").with_all(
            figures.tasks.iter().map(|(status, count)| (vec![("status", status.as_str())], *count as f64)),
        ),
        Family::new("g2_messages_total", Counter, "Messages that came in.").with(&[], given("messages")),
        Family::new("g2_texts_total", Counter, "Texts for chats.").with(&[], given("outbox")),
        Family::new("g2_runs_total", Counter, "Runs.").with(&[], given("runs")),
        Family::new("g2_runs_active", Gauge, "Runs under way by status.")
            .with(&[("status", "queued")], active(RunStatus::Queued))
            .with(&[("status", "running")], active(RunStatus::Running)),
        total(
            "g2_runs_ended_total",
            "Runs that ended, by kind and outcome.",
            Total::Runs,
            ["kind", "outcome"],
        ),
        total("g2_kills_total", "Runs that were killed, by verdict.", Total::Kills, ["verdict", ""]),
        total("g2_tokens_total", "Tokens of models, by model and kind.", Total::Tokens, ["model", "kind"]),
        total("g2_model_requests_total", "Requests to models, by outcome.", Total::Requests, ["", "outcome"]),
    ]
}

async fn queues(store: &Store, root: &Path, figures: &Figures, now: Time) -> Result<Vec<Family>, StoreError> {
    let groups = store.groups().await?;
    let (mut files, mut oldest_file): (i64, Option<Time>) = (0, None);
    let looked = peek::each_waiting(&root.join("data"), groups.iter().map(|group| &group.folder), |lying| {
        if !lying.is_directory {
            files += 1;
            oldest_file = Some(oldest_file.map_or(lying.since, |oldest| oldest.min(lying.since)));
        }
    });
    let texts = figures.outbox.iter().map(|(_, count)| count).sum::<i64>();
    let mut queues = vec![
        ("messages", store.messages_waiting()?, store.health(now)?.oldest_waiting_at),
        ("texts", texts, figures.oldest_text),
        ("questions", figures.questions, figures.oldest_question),
    ];
    // What can't be read is left out.
    if looked.unread.is_empty() {
        queues.push(("commands", files, oldest_file));
    }
    let age = |oldest: Option<Time>| oldest.map_or(0.0, |at| now.ms_since(at).max(0) as f64 / 1_000.0);
    let each = |value: &dyn Fn(i64, Option<Time>) -> f64| {
        queues
            .iter()
            .map(|(queue, count, oldest)| (vec![("queue", *queue)], value(*count, *oldest)))
            .collect::<Vec<_>>()
    };
    Ok(vec![
        Family::new("g2_queue_length", Gauge, "Messages, texts, questions and commands that wait.")
            .with_all(each(&|count, _| count as f64)),
        Family::new("g2_queue_oldest_seconds", Gauge, "Age of the oldest of each, seconds; 0 if none waits.")
            .with_all(each(&|_, oldest| age(oldest))),
        Family::new("g2_texts_open", Gauge, "Texts that are not sent, by status.").with_all(
            figures.outbox.iter().map(|(status, count)| (vec![("status", status.as_str())], *count as f64)),
        ),
        Family::new("g2_waits", Gauge, "Conversations in which something waits, by what for.").with_all(
            figures.waits.iter().map(|(cause, count)| (vec![("cause", cause.as_str())], *count as f64)),
        ),
    ])
}

async fn channels(store: &Store, now: Time) -> Result<Vec<Family>, StoreError> {
    let states = store.connections().await?;
    let lights = |state: &ChannelState| {
        [
            ("transport", state.state == Connection::Connected),
            ("in", state.inbound == Lamp::Ok),
            ("out", state.outbound == Lamp::Ok),
        ]
    };
    let mut light =
        Family::new("g2_channel_ok", Gauge, "Whether each light of an account on a platform is green.");
    let mut last = Family::new(
        "g2_channel_last_seconds",
        Gauge,
        "When the newest event came in and the newest text went out, seconds since 1970.",
    );
    let mut starts = Family::new("g2_channel_starts_total", Counter, "Starts of an account's adapter.");
    let mut unknown = Family::new(
        "g2_channel_unknown_kinds_total",
        Counter,
        "Messages of a kind that the account's adapter does not know.",
    );
    let mut passed_over = Family::new(
        "g2_channel_passed_over_total",
        Counter,
        "Events of an account that could not be taken in.",
    );
    let mut unsent = Family::new("g2_channel_unsent", Gauge, "Texts that an account has still to send.");
    let mut oldest = Family::new(
        "g2_channel_oldest_unsent_seconds",
        Gauge,
        "Age of the oldest of them, seconds; 0 if there is none.",
    );
    for state in &states {
        let channel = ("channel", state.channel.as_str());
        for (name, ok) in lights(state) {
            light = light.with(&[channel, ("light", name)], f64::from(u8::from(ok)));
        }
        for (way, at) in [("in", state.last_in), ("out", state.last_out)] {
            if let Some(at) = at {
                last = last.with(&[channel, ("way", way)], seconds(at));
            }
        }
        let (count, since) = store.unsent(&state.channel).await?;
        starts = starts.with(&[channel], state.starts as f64);
        unknown = unknown.with(&[channel], state.unknown_kinds as f64);
        passed_over = passed_over.with(&[channel], state.passed_over as f64);
        unsent = unsent.with(&[channel], count as f64);
        oldest = oldest.with(&[channel], since.map_or(0.0, |at| now.ms_since(at).max(0) as f64 / 1_000.0));
    }
    Ok(vec![light, last, starts, unknown, passed_over, unsent, oldest])
}

/// Room on the disk. What can't be found out is left out.
fn room(store: &Store, root: &Path) -> Vec<Family> {
    let mut families = Vec::new();
    // A store that can't be read fails the other figures.
    if let Ok(size) = store.size() {
        let store = Family::new("g2_store_bytes", Gauge, "Size of the store's file, bytes.");
        families.push(store.with(&[], size.bytes as f64));
    }
    if let Some(free) = disk::free_bytes(root) {
        let disk = Family::new("g2_disk_free_bytes", Gauge, "Free room on the disk of the root, bytes.");
        families.push(disk.with(&[], free as f64));
    }
    families
}

fn daemon(live: &Live<'_>) -> Vec<Family> {
    let of =
        |severity: Severity| live.findings.iter().filter(|found| found.severity == severity).count() as f64;
    let mut families = vec![
        Family::new("g2_problems", Gauge, "Problems that need a person, by severity.")
            .with(&[("severity", "fail")], of(Severity::Fail))
            .with(&[("severity", "warn")], of(Severity::Warn)),
        Family::new("g2_commit_seconds", Kind::Histogram, "Time of a durable commit, of all that shared it.")
            .histogram(&live.commits),
        Family::new(
            "g2_command_seconds",
            Kind::Histogram,
            "Time from a command's being claimed to its reply, in whole ms.",
        )
        .histogram(&live.commands),
        Family::new("process_start_time_seconds", Gauge, "Start of the daemon, seconds since 1970.")
            .with(&[], seconds(live.since)),
        Family::new("process_cpu_seconds_total", Counter, "Processor time of the daemon, seconds.")
            .with(&[], process::own_cpu().as_secs_f64()),
    ];
    if let Some(bytes) = process::own_memory() {
        let memory = Family::new("process_resident_memory_bytes", Gauge, "Memory of the daemon, bytes.");
        families.push(memory.with(&[], bytes as f64));
    }
    if let Some(open) = process::own_open_files() {
        families
            .push(Family::new("process_open_fds", Gauge, "Open files of the daemon.").with(&[], open as f64));
    }
    families
}

/// How the loops stand.
fn loops(states: &[LoopState]) -> Vec<Family> {
    let mut keys = Family::new(
        "g2_loop_keys",
        Gauge,
        "Keys (chats, groups, runs) of each loop of the daemon, by state.",
    );
    let mut failures =
        Family::new("g2_loop_failures_total", Counter, "Looks and work of each loop that failed.");
    let mut last = Family::new(
        "g2_loop_last_look_seconds",
        Gauge,
        "When each loop looked last at what is to be done, seconds since 1970.",
    );
    for state in states {
        let name = ("loop", state.name.as_str());
        for (of, count) in
            [("at_work", state.at_work), ("waiting", state.waiting), ("resting", state.resting)]
        {
            keys = keys.with(&[name, ("state", of)], count as f64);
        }
        failures = failures.with(&[name], state.failures as f64);
        if let Some(at) = state.looked {
            last = last.with(&[name], seconds(at));
        }
    }
    vec![keys, failures, last]
}
