//! Many groups and few slots: the cap holds, everybody is served, nobody gets a second turn before a waiting one has
//! had the first.

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

const GROUPS: usize = 20;
const CAP: usize = 3;

/// A root with twenty groups in chats of their own, and three slots.
fn crowd() -> Root {
    let root = Root::new(&format!(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nmax_concurrent_containers = {CAP}\n"
    ));
    for n in 0..GROUPS {
        root.g2(&["groups", "add", &format!("g{n:02}"), "--chat", &format!("local:g{n:02}")]);
    }
    root
}

/// The instants between which a run held a slot, from the ledger.
fn span(run: &Value) -> (String, String) {
    let text = |name: &str| run[name].as_str().map(str::to_owned);
    (text("started_at").unwrap_or_default(), text("ended_at").unwrap_or_else(|| "9999".into()))
}

fn runs_at_once(runs: &[Value]) -> usize {
    let spans: Vec<_> = runs.iter().map(span).collect();
    spans
        .iter()
        .map(|(start, _)| spans.iter().filter(|(from, to)| from <= start && start < to).count())
        .max()
        .unwrap_or(0)
}

#[test]
fn twenty_groups_share_three_slots_and_all_are_answered() {
    let root = crowd();
    let _daemon = root.serve();
    for n in 0..GROUPS {
        root.g2(&["send", "--chat", &format!("local:g{n:02}"), &format!("hello {n}")]);
    }
    for n in 0..GROUPS {
        let chat = format!("local:g{n:02}");
        let said = wait_for(&format!("the answer in {chat}"), || {
            Some(root.said(&chat)).filter(|said| !said.is_empty())
        });
        assert_eq!(said, [format!("echo: hello {n}")]);
    }
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.len(), GROUPS);
    assert!(runs_at_once(&runs) <= CAP, "{runs:#?}");
}

#[test]
fn nobody_gets_a_second_turn_while_another_waits_for_the_first() {
    let root = crowd();
    root.script(None, &json!([{"do": [{"wait_ms": 30}, {"say": "done: {{text}}"}]}]));
    let daemon = root.serve();
    // The first groups have more to say than there are slots; the others come after them.
    for round in 0..3 {
        for n in 0..CAP {
            root.g2(&["send", "--chat", &format!("local:g{n:02}"), "--thread", &format!("t{round}"), "busy"]);
        }
    }
    for n in CAP..GROUPS {
        root.g2(&["send", "--chat", &format!("local:g{n:02}"), "first"]);
    }
    wait_for("everybody to be served", || {
        let status = root.json(&["status"]);
        let said = root.rows(&["outbox", "list"]).iter().filter(|row| row["status"] == "sent").count();
        (status["waiting"] == 0 && said == CAP * 3 + GROUPS - CAP).then_some(())
    });
    drop(daemon);
    let runs = root.rows(&["runs", "list"]);
    assert!(runs_at_once(&runs) <= CAP, "{runs:#?}");
    // Runs are numbered in the order in which they were given a slot.
    let late_firsts = runs.iter().filter(|run| run["lane"] == format!("local:g{:02}", GROUPS - 1)).count();
    assert_eq!(late_firsts, 1);
    let sent: Vec<String> = root
        .rows(&["messages", "list"])
        .iter()
        .map(|m| m["received_at"].as_str().unwrap_or_default().to_owned())
        .collect();
    let last_sent = sent.last().cloned().unwrap_or_default();
    let mut served = std::collections::BTreeMap::<String, usize>::new();
    for run in &runs {
        let group = run["group"].as_str().unwrap_or_default().to_owned();
        let turns = served.entry(group.clone()).or_default();
        *turns += 1;
        let turns = *turns;
        let started = span(run).0;
        if turns > 1 && started > last_sent {
            let waiting = (CAP..GROUPS).filter(|n| !served.contains_key(&format!("g{n:02}"))).count();
            assert_eq!(
                waiting, 0,
                "{group} got turn {turns} at {started} while {waiting} groups waited for their first"
            );
        }
    }
}

#[test]
fn an_idle_container_gives_way_to_other_work_of_its_group_and_to_waiting_groups() {
    let root = Root::new(
        "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nmax_concurrent_containers = 1\n",
    );
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:second", "--engage", "pattern"]);
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "one"), "echo: one\n");
    assert_eq!(root.ask("local:second", "two"), "echo: two\n");
    assert_eq!(root.ask("local:other", "three"), "echo: three\n");
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 3);
    assert!(runs[..2].iter().all(|run| run["status"] == "succeeded"), "{runs:#?}");
    assert_eq!(runs_at_once(&runs), 1);
}
