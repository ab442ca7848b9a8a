//! The daemon dies at each step of a turn; the container works on, the next daemon adopts it, and every turn is
//! answered once.
#![expect(clippy::disallowed_methods, reason = "tests look at how far the daemon came")]

use std::fs;

use serde_json::{Value, json};

use super::house::{CHAT, House, tool};
use crate::support::{Socket, wait_for};

/// Where it dies, turn by turn; without a number at the first time. Each turn asks for one command, says two things and
/// ends with one record, but for the first, whose run begins with a record of its own.
const STEPS: [&str; 10] = [
    "run.record",
    "run.record",
    "message.stored",
    "run.piped",
    "ipc.seen",
    "ipc.committed",
    "deliver.saying",
    "deliver.said:2",
    "run.record",
    "run.record",
];

#[test]
fn a_daemon_that_dies_in_each_of_ten_turns_leaves_each_answered_once() {
    let turns: Vec<Value> = (1..=STEPS.len())
        .flat_map(|n| {
            let mut says = tool("send_message", &json!({"text": format!("a{n}")}));
            says["when"] = json!({"last_user": format!(">m{n}<"), "tool_result": false});
            says["times"] = json!(-1);
            let ends = json!({"when": {"last_user": format!(">m{n}<"), "tool_result": true}, "text": format!("b{n}"), "times": -1});
            [says, ends]
        })
        .collect();
    let Some(house) = House::new("", &json!(turns)) else { return };
    let mark = house.path().join("reached");
    for (n, step) in STEPS.iter().enumerate().map(|(at, step)| (at + 1, *step)) {
        let _ = fs::remove_file(&mark);
        // A daemon that adopts a run reads all its records again.
        let known = house.rows(&["runs", "list"]).first().map_or(0, |run| run["records"].as_i64().unwrap());
        let armed = if step == "run.record" { format!("{step}:{}", known + 1) } else { step.to_owned() };
        let daemon =
            house.serve_with(&[("G2_FAILPOINT", &armed), ("G2_FAILPOINT_FILE", mark.to_str().unwrap())]);
        // It may die of it before it says that it has taken the message.
        Socket::connect(&house).send_unheard(CHAT, &format!("m{n}"));
        assert_eq!(daemon.signal(), Some(9), "turn {n}");
        assert_eq!(fs::read_to_string(&mark).unwrap(), step.split(':').next().unwrap());
        let daemon = house.serve();
        let last = format!("b{n}");
        wait_for(&last, || (house.said(CHAT).last() == Some(&last)).then_some(()));
        Socket::connect(&house).rest(CHAT);
        // Who dies twice over an adoption does not do it a third time.
        wait_for("the run to be adopted", || (!house.data("starts.json").exists()).then_some(()));
        daemon.kill();
    }
    let expected: Vec<String> = (1..=STEPS.len()).flat_map(|n| [format!("a{n}"), format!("b{n}")]).collect();
    assert_eq!(house.said(CHAT), expected);
    let runs = house.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 1, "one container did it all: {runs:#?}");
}

#[test]
fn an_answer_that_breaks_off_with_its_daemon_is_asked_for_again_and_said_once() {
    let slow = json!({"text": "one two three four five six seven eight", "chunk_delay": 0.3, "times": -1});
    let Some(house) = House::new("", &json!([slow])) else { return };
    let daemon = house.serve();
    house.send(CHAT, "count");
    wait_for("the model to be asked", || (!house.model.asked().is_empty()).then_some(()));
    daemon.kill();
    let _daemon = house.serve();
    assert_eq!(house.has_said(1), ["one two three four five six seven eight"]);
    Socket::connect(&house).rest(CHAT);
    assert_eq!((house.said(CHAT).len(), house.rows(&["runs", "list"]).len()), (1, 1));
}
