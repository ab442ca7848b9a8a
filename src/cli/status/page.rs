//! The page that people read: how it is, what needs them, and then a few lines of facts.

use ipc_handlers::Time;
use serde_json::Value;

use super::super::{
    channels,
    colours::Paint,
    show::{Sheet, cell, size},
};
use crate::domain::{
    machine::loops::{Condition, LoopState},
    problems::Finding,
    shown::screen::{counted, on_screen},
    time::times::length,
};

/// What the page is made of.
pub(super) struct Facts<'a> {
    /// The document that programs get.
    pub(super) status: &'a Value,
    pub(super) channels: &'a [channels::Row],
    pub(super) findings: &'a [Finding],
    pub(super) loops: &'a [LoopState],
    pub(super) root: &'a str,
    /// Bytes of the store, and those that are free on its disk.
    pub(super) disk: (Option<u64>, Option<u64>),
    /// The groups that take most of it, a line each.
    pub(super) largest: &'a [String],
    pub(super) now: Time,
}

/// Returns the lines of the page.
pub(super) fn page(facts: &Facts<'_>, sheet: &Sheet) -> Vec<String> {
    let mut lines = vec![headline(facts, sheet), format!("root: {}", on_screen(facts.root))];
    lines.push(String::new());
    lines.extend(problems(facts, sheet));
    lines.push(String::new());
    let told =
        |name: &str, text: &str| format!("{}  {text}", sheet.painted(Paint::Bold, &format!("{name:<9}")));
    for (name, text) in [
        ("groups", facts.number("groups").map(|n| n.to_string())),
        ("at work", facts.number("running").map(|n| and_command(&counted(n, "run"), n, "g2 ps"))),
        ("waiting", Some(waiting(facts))),
    ] {
        lines.extend(text.map(|text| told(name, &text)));
    }
    lines.extend(waiters(facts));
    let held = facts.status["held"].as_array().filter(|held| !held.is_empty());
    lines.extend(held.map(|held| told("held", &held.iter().map(cell).collect::<Vec<_>>().join(", "))));
    if let Some(dead) = facts.number("dead").filter(|dead| *dead > 0) {
        lines.push(told("commands", &and_command(&format!("{dead} dead"), dead, "g2 ipc list --state dead")));
    }
    let loops: Vec<String> = facts.loops.iter().filter_map(in_trouble).collect();
    if !loops.is_empty() {
        lines.push(told("loops", &format!("{} (`g2 loops list`)", loops.join("; "))));
    }
    lines.push(told("answers", &answers(facts, sheet)));
    let mut name = "channels";
    for channel in facts.channels.iter().filter(|channel| !channel.is_built_in()) {
        lines.push(told(name, &on_screen(&channel.line(sheet))));
        name = "";
    }
    let room = [(facts.disk.0, "in the store"), (facts.disk.1, "free")];
    let room: Vec<String> =
        room.iter().filter_map(|(bytes, what)| Some(format!("{} {what}", size((*bytes)?)))).collect();
    if !room.is_empty() {
        lines.push(told("disk", &room.join(", ")));
    }
    lines.extend(facts.largest.iter().map(|line| told("", &on_screen(line))));
    let mut name = "upgraded";
    for line in facts.status["upgraded"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.push(told(name, &on_screen(line)));
        name = "";
    }
    lines
}

impl Facts<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        self.status[name].as_i64()
    }

    fn time(&self, name: &str) -> Option<Time> {
        Some(Time::from_jiff(self.status[name].as_str()?.parse().ok()?))
    }
}

/// How it is, in one line.
fn headline(facts: &Facts<'_>, sheet: &Sheet) -> String {
    let state = facts.status["state"].as_str().unwrap_or("unknown");
    let paint = match state {
        "healthy" => Paint::Good,
        "degraded" => Paint::Waits,
        _ => Paint::Bad,
    };
    let up = facts.time("since").map(|since| format!("up for {}", length(facts.now.ms_since(since))));
    let of = |what: &str, name: &str| facts.status[name].as_str().map(|text| format!("{what} {text}"));
    let process = facts.number("pid").map(|pid| format!("process {pid}"));
    let is_other = facts.status["program"] != facts.status["version"];
    let program = of("this program is version", "program").filter(|_| is_other);
    let more: Vec<String> = [up, of("version", "version"), program, process, of("sandbox", "sandbox")]
        .into_iter()
        .flatten()
        .collect();
    format!("{}: {}", sheet.painted(paint, &format!("g2 is {state}")), more.join(", "))
}

fn problems(facts: &Facts<'_>, sheet: &Sheet) -> Vec<String> {
    let all: Vec<&str> =
        facts.status["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let title = match all.len() {
        0 => return ["no problems".into()].into_iter().chain(noted(facts, sheet)).collect(),
        1 => "1 problem needs you:".to_owned(),
        n => format!("{n} problems need you:"),
    };
    let mut lines = vec![sheet.painted(Paint::Bad, &title)];
    for problem in all {
        let fix = facts.findings.iter().find(|finding| finding.text == problem);
        let id = fix.map(|finding| sheet.painted(Paint::Dim, &format!(" [{}]", on_screen(&finding.id()))));
        lines.push(format!("  {}{}", on_screen(problem), id.unwrap_or_default()));
        lines.extend(fix.map(|finding| {
            format!("    {}", sheet.painted(Paint::Dim, &format!("fix: {}", on_screen(&finding.fix))))
        }));
    }
    lines.extend(noted(facts, sheet));
    lines
}

/// Problems that their owner lets stand, on one line.
fn noted(facts: &Facts<'_>, sheet: &Sheet) -> Option<String> {
    let ids: Vec<String> = facts
        .findings
        .iter()
        .filter(|finding| finding.noted)
        .map(|finding| on_screen(&finding.id()).into_owned())
        .collect();
    let line = format!("noted: {} (`g2 status ack ID --undo`)", ids.join(", "));
    (!ids.is_empty()).then(|| sheet.painted(Paint::Dim, &line))
}

/// What waits, and where to look.
fn waiting(facts: &Facts<'_>) -> String {
    let oldest = facts.number("oldest_waiting_ms").map(|ms| format!(", the oldest for {}", length(ms)));
    let some = |name: &str| facts.number(name).filter(|n| *n > 0);
    let parts = [
        some("messages_waiting").map(|n| format!("{}{}", counted(n, "message"), oldest.unwrap_or_default())),
        some("files_waiting").map(|n| counted(n, "command file")),
        some("outbox_pending").map(|n| format!("{} to send", counted(n, "text"))),
        some("approvals_pending").map(|n| and_command(&counted(n, "question"), n, "g2 approvals list")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    // Without a daemon nobody counts the others.
    let of_daemon: &[&str] = match facts.number("pid") {
        Some(_) => &["outbox_pending", "approvals_pending"],
        None => &[],
    };
    let mut counts = ["messages_waiting", "files_waiting"].iter().chain(of_daemon);
    match (parts.is_empty(), counts.all(|name| facts.number(name).is_some())) {
        (true, true) => "nothing".into(),
        (true, false) => "not known".into(),
        (false, true) => parts.join("; "),
        (false, false) => format!("{}; the rest is not known", parts.join("; ")),
    }
}

/// Who waits for what.
fn waiters(facts: &Facts<'_>) -> Vec<String> {
    let all = facts.status["waits"].as_array().into_iter().flatten();
    let line = |waiter: &Value| {
        let since = waiter["since"].as_str().and_then(|at| at.parse().ok()).map(Time::from_jiff);
        let waited = since.map(|since| format!(", for {}", length(facts.now.ms_since(since))));
        let task = waiter["task"].as_str().map(|task| format!(" (task {task})"));
        let whose =
            format!("{} {}{}", cell(&waiter["group"]), cell(&waiter["chat_jid"]), task.unwrap_or_default());
        format!("{:11}{whose}: {}{}", "", cell(&waiter["waits_for"]), waited.unwrap_or_default())
    };
    all.map(line).collect()
}

/// How a loop stands that is worth a person's look; others try again by themselves.
fn in_trouble(state: &LoopState) -> Option<String> {
    let name = state.name;
    let aside = state.keys.iter().filter(|key| key.aside).count();
    match state.condition() {
        Condition::Stuck => Some(format!("{name} has not come round")),
        Condition::Failing => Some(format!("{name} can't look")),
        Condition::SetAside => {
            Some(format!("{} of {name} set aside", counted(i64::try_from(aside).unwrap_or(i64::MAX), "key")))
        }
        Condition::Retrying | Condition::Well => None,
    }
}

fn answers(facts: &Facts<'_>, sheet: &Sheet) -> String {
    // They are read at once.
    if facts.number("failed_24h").is_none() {
        return "not known".into();
    }
    let last = facts.time("last_answer_at").map(|at| format!("the last one {}", sheet.time(at)));
    let last = last.unwrap_or_else(|| "none yet".into());
    let day = [
        facts.number("failed_24h").map(|n| counted(n, "failed run")),
        facts.number("given_up_24h").map(|n| format!("{} given up", counted(n, "message"))),
    ];
    let day: Vec<String> = day.into_iter().flatten().collect();
    format!("{last}; in 24 hours {}", day.join(", "))
}

fn and_command(text: &str, n: i64, command: &str) -> String {
    if n > 0 { format!("{text} (`{command}`)") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{
        machine::loops::{KeyState, LoopName},
        problems::checks::Check,
    };

    fn shown(status: &Value, findings: &[Finding]) -> String {
        shown_with(status, findings, &[])
    }

    fn shown_with(status: &Value, findings: &[Finding], loops: &[LoopState]) -> String {
        let facts = Facts {
            status,
            channels: &[],
            findings,
            loops,
            root: "/g2",
            disk: (Some(3 << 20), Some(120 << 30)),
            largest: &[],
            now: Time::from_jiff("2026-11-23T12:00:00Z".parse().unwrap()),
        };
        page(&facts, &Sheet { colours: false, screen: None }).join("\n")
    }

    #[test]
    fn what_is_well_is_told_in_a_few_lines() {
        let status = json!({
            "state": "healthy", "since": "2026-11-23T08:50:00.000Z", "version": "1.0.0", "program": "1.1.0", "pid": 12, "sandbox": "docker",
            "groups": 3, "running": 0, "dead": 0, "problems": [], "held": [], "waits": [], "failed_24h": 0, "given_up_24h": 1,
            "last_answer_at": "2026-11-23T11:57:00.000Z", "messages_waiting": 0, "files_waiting": 0,
            "outbox_pending": 0, "approvals_pending": 0,
        });
        assert_eq!(
            shown(&status, &[]),
            "g2 is healthy: up for 3 h 10 min, version 1.0.0, this program is version 1.1.0, process 12, sandbox docker\nroot: /g2\n\nno problems\n\n\
             groups     3\nat work    0 runs\nwaiting    nothing\n\
             answers    the last one 2026-11-23T11:57:00.000Z; in 24 hours 0 failed runs, 1 message given up\n\
             disk       3.0 MiB in the store, 120 GiB free"
        );
    }

    #[test]
    fn what_needs_a_person_comes_first_with_its_fix() {
        let status = json!({
            "state": "degraded", "groups": 1, "running": 2, "dead": 4, "problems": ["a is broken", "b"], "held": ["main"],
            "waits": [{"group": "main", "chat_jid": "local:main", "task": "t", "since": "2026-11-23T11:56:00.000Z", "waits_for": "a free container"}],
            "messages_waiting": 2, "oldest_waiting_ms": 240_000, "files_waiting": 1, "outbox_pending": 3, "approvals_pending": 1,
            "failed_24h": 2, "given_up_24h": 2,
        });
        let fix = Finding::fail(Check::Root, "a is broken", "mend a");
        let noted = Finding { noted: true, ..Finding::warn((Check::Owners, "telegram"), "c", "d") };
        let page = shown(&status, &[fix, noted]);
        for part in [
            "2 problems need you:\n  a is broken [root]\n    fix: mend a\n  b\nnoted: owners/telegram (`g2 status ack ID --undo`)\n",
            "at work    2 runs (`g2 ps`)\n",
            "waiting    2 messages, the oldest for 4 min; 1 command file; 3 texts to send; 1 question (`g2 approvals list`)\n",
            "           main local:main (task t): a free container, for 4 min\nheld       main\n",
            "commands   4 dead (`g2 ipc list --state dead`)\n",
            "answers    none yet; in 24 hours 2 failed runs, 2 messages given up\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_called_nothing() {
        let mut status =
            json!({"pid": 12, "messages_waiting": 0, "files_waiting": 0, "approvals_pending": 0});
        let page = shown(&status, &[]);
        assert!(page.contains("waiting    not known\nanswers    not known\n"), "{page}");
        status["files_waiting"] = 2.into();
        let page = shown(&status, &[]);
        assert!(page.contains("waiting    2 command files; the rest is not known\n"), "{page}");
    }

    #[test]
    fn a_loop_is_shown_only_if_it_is_worth_a_look() {
        let key = |aside| KeyState { key: "local:main".into(), failures: 5, aside, why: "x".into() };
        let of = |name| LoopState { failures: 3, ..LoopState::new(name) };
        let retrying = LoopState { keys: vec![key(false)], ..of(LoopName::Usage) };
        let all = [of(LoopName::Amends), retrying];
        assert!(!shown_with(&json!({}), &[], &all).contains("loops"));
        let aside = LoopState { keys: vec![key(true), key(true), key(false)], ..of(LoopName::Deliver) };
        let blind = LoopState { why: Some("x".into()), ..of(LoopName::Media) };
        let stuck = LoopState { stuck_secs: Some(70), ..of(LoopName::Search) };
        let page = shown_with(&json!({}), &[], &[aside, blind, stuck]);
        let line = "loops      2 keys of deliver set aside; media can't look; search has not come round (`g2 loops list`)\n";
        assert!(page.contains(line), "{page}");
    }
}
