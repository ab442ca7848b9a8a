//! Talking: tools, tasks, refusals, follow-ups, and what people write.

use serde_json::json;

use super::house::{CHAT, House, bash, conversation, told, tool, until_go};
use crate::support::wait_for;

#[test]
fn the_model_speaks_by_its_tool_and_corrects_a_refused_task_which_fires() {
    let task = |value: &str| json!({"prompt": "say the time", "schedule_type": "interval", "schedule_value": value, "context_mode": "isolated"});
    let fired = json!({"last_user": "SCHEDULED TASK"});
    let mut knock = tool("send_message", &json!({"text": "it is time"}));
    knock["when"] = fired.clone();
    let Some(house) = House::new(
        "",
        &json!([
            knock,
            {"when": fired, "text": "nobody hears this"},
            tool("send_message", &json!({"text": "on it"})),
            tool("schedule_task", &task("soon")),
            tool("schedule_task", &task("1000")),
            "done",
        ]),
    ) else {
        return;
    };
    let _daemon = house.serve();
    house.send(CHAT, "remind me");
    assert_eq!(house.has_said(3), ["on it", "done", "it is time"]);
    let asked = house.model.asked();
    assert!(told(&asked[1]).contains("outboxId"), "{}", asked[1]);
    assert!(told(&asked[2]).contains("Refused (invalid_schedule)"), "{}", asked[2]);
    assert!(told(&asked[3]).contains("nextRunLocal"), "{}", asked[3]);
    assert!(house.model.requests().iter().all(|request| request["auth_ok"] == true));
    wait_for("the task's history", || {
        let tasks = house.rows(&["tasks", "list"]);
        (tasks[0]["last_result"] == "nobody hears this").then_some(())
    });
}

#[test]
fn a_message_in_the_middle_of_a_turn_joins_it_and_is_neither_a_command_nor_a_path() {
    // "/clear" is no word of the daemon's here, and reaches the agent.
    let words = "[words]\nclear = \"\"\n";
    let script = json!([until_go(), {"times": -1, "text": "answered"}]);
    let Some(house) = House::new(words, &script) else { return };
    let _daemon = house.serve();
    let first = house.send(CHAT, "begin");
    house.at_work("Bash");
    let texts = ["/clear", "@/etc/passwd"];
    let seqs: Vec<i64> = texts.iter().map(|text| house.send(CHAT, text)).collect();
    wait_for("the agent to have them", || {
        let batches = |seq| house.why(seq)["wirings"][0]["batch"].is_i64();
        seqs.iter().all(|seq| batches(*seq)).then_some(())
    });
    house.go();
    house.ask(CHAT, "/clear");
    let runs = house.rows(&["runs", "list"]);
    assert_eq!(runs.len(), 1, "one container did it all: {runs:#?}");
    for seq in [first].iter().chain(&seqs) {
        assert_eq!(house.why(*seq)["wirings"][0]["run"], 1);
    }
    let last = conversation(house.model.asked().last().unwrap());
    assert!(last.contains("begin") && texts.iter().all(|text| last.contains(text)), "{last}");
    assert!(!last.contains("root:x:0"), "{last}");
}

#[test]
fn ordinary_tools_are_told_by_the_proxy_what_is_not_allowed_and_the_model_has_its_own_way() {
    let command = "curl -sS https://evil.example; git ls-remote https://git.example/x; curl -sS http://plain.example/; \
                   curl -sS -v https://evil.example 2>&1 | grep 'HTTP/1.1 403'; curl -sS --noproxy '*' http://9.9.9.9";
    let Some(house) = House::new("", &json!([bash(command), "done"])) else {
        return;
    };
    house.g2(&["groups", "set", "main", "network=allowlist"]);
    let _daemon = house.serve();
    house.ask(CHAT, "look around");
    assert_eq!(house.has_said(1), ["done"]);
    let seen = told(&house.model.asked()[1]).to_owned();
    for words in [
        "g2 egress allow evil.example:443 --group main",
        "g2 egress allow plain.example:80 --group main",
        "git.example",
        "CONNECT tunnel failed, response 403",
    ] {
        assert!(seen.contains(words), "{words} in {seen}");
    }
    wait_for("the refusals to be listed", || {
        let rows = house.rows(&["egress", "list", "--group", "main"]);
        let hosts: Vec<_> = rows.iter().filter_map(|row| row["host"].as_str()).collect();
        ["evil.example:443", "git.example:443", "plain.example:80"]
            .iter()
            .all(|host| hosts.contains(host))
            .then_some(hosts.len())
    });
    let rows = house.rows(&["egress", "list", "--group", "main"]);
    assert!(
        !rows.iter().any(|row| row["host"].as_str().is_some_and(|host| host.starts_with("model"))),
        "{rows:?}"
    );
}
