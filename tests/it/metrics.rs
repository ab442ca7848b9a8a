//! `g2 metrics`: what it tells, judged by Prometheus's own tools.
#![expect(clippy::disallowed_methods, reason = "a test reads what is asked of it, and files of the docs")]
#![expect(clippy::disallowed_types, reason = "Prometheus is a program")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Root, wait_for};

/// Whether `promtool` is there; otherwise the test says that it is skipped.
fn promtool() -> bool {
    let there =
        Command::new("promtool").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        let required = std::env::var_os("G2_REQUIRE_PROMETHEUS").is_some_and(|value| value == "1");
        assert!(!required, "G2_REQUIRE_PROMETHEUS is set, and there is no promtool");
        eprintln!("skipped: no promtool");
    }
    there
}

/// A program that is ended when the test is over.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has promtool judge something, given on its standard input.
fn judged(arguments: &[&str], input: &str) {
    let mut tool = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "promtool {arguments:?}: {output:?}\n{input}");
}

/// The value of a figure with these labels, as they are printed.
fn figure(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(figure, _)| figure == name));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn docs(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prometheus").join(name).to_str().unwrap().to_owned()
}

#[test]
fn figures_follow_what_happens_and_outlast_prune_and_restarts() {
    let root = Root::new("");
    assert_eq!(figure(&root.g2(&["metrics"]), "g2_up"), 0.0);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    wait_for("the run to be counted", || {
        let text = root.g2(&["metrics"]);
        text.contains("g2_messages_total 1\n").then_some(())
    });
    root.put_command("main", "tasks", "1.json", &serde_json::json!({"type": "list_tasks", "requestId": "l"}));
    root.reply("main", "l");
    let text = root.g2(&["metrics"]);
    assert_eq!(figure(&text, "g2_up"), 1.0);
    assert_eq!(figure(&text, "g2_groups"), 1.0);
    assert_eq!(figure(&text, "g2_queue_length{queue=\"messages\"}"), 0.0);
    assert!(figure(&text, "g2_commit_seconds_count") >= 3.0);
    wait_for("the command to be counted", || {
        (figure(&root.g2(&["metrics"]), "g2_command_seconds_count") >= 1.0).then_some(())
    });
    assert!(figure(&text, "process_resident_memory_bytes") > 1e6);
    assert!(figure(&text, "process_open_fds") > 5.0);
    if promtool() {
        judged(&["check", "metrics"], &text);
    }
    root.g2(&["groups", "restart", "main"]);
    let ended = "g2_runs_ended_total{kind=\"message\",outcome=\"succeeded\"}";
    wait_for("the run to end", || root.g2(&["metrics"]).contains(ended).then_some(()));
    assert_eq!(daemon.terminate(), Some(0));
    root.g2(&["prune", "--yes"]);
    let text = root.g2(&["metrics"]);
    assert_eq!((figure(&text, "g2_up"), figure(&text, ended)), (0.0, 1.0));
    assert!(!text.contains("g2_commit_seconds"));
    if promtool() {
        judged(&["check", "metrics"], &text);
    }
}

#[test]
fn texts_names_and_chats_are_not_in_the_figures() {
    let root = Root::new("");
    root.g2(&["groups", "add", "secretfolder", "--chat", "local:secretchat"]);
    let _daemon = root.serve();
    root.g2(&["send", "--chat", "local:secretchat", "--as", "secretperson", "--wait", "60", "secrettext"]);
    let text = root.g2(&["metrics"]);
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn alert_rules_and_the_dashboard_are_whole() {
    if !promtool() {
        return;
    }
    judged(&["check", "rules", &docs("alerts.yml")], "");
    judged(&["test", "rules", &docs("alerts_test.yml")], "");
    // Each query of the dashboard is a rule that has to be right.
    let text = std::fs::read_to_string(docs("grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    let mut count = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            count += 1;
            rules.push_str(&format!("  - record: panel:{count}\n    expr: {}\n", target["expr"]));
        }
    }
    assert!(count > 15, "{count} queries");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yml");
    std::fs::write(&file, rules).unwrap();
    judged(&["check", "rules", file.to_str().unwrap()], "");
}

/// Each figure that a rule or a panel asks for is one that `g2 metrics` tells.
#[test]
fn rules_and_dashboard_ask_for_figures_that_there_are() {
    let told =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loops/metrics.rs")).unwrap();
    let names = regex::Regex::new(r"\b(g2_[a-z_]+|process_[a-z_]+)\b").unwrap();
    for file in ["alerts.yml", "alerts_test.yml", "grafana.json"] {
        let text = std::fs::read_to_string(docs(file)).unwrap();
        for found in names.find_iter(&text) {
            let name = found.as_str().trim_end_matches("_bucket");
            assert!(told.contains(&format!("\"{name}\"")), "{file} asks for {name}");
        }
    }
}

/// The configuration is the one of docs/metrics.md, with other places.
#[test]
fn a_real_prometheus_scrapes_the_page_and_has_no_fault_in_alert_rules() {
    if !promtool() {
        return;
    }
    let (page, own) = (free_port(), free_port());
    let root = Root::new(&format!("[web]\nlisten = \"127.0.0.1:{page}\"\n"));
    let _daemon = root.serve();
    wait_for("the page", || root.json(&["status"])["page"].as_str().map(drop));
    let text = std::fs::read_to_string(docs("../metrics.md")).unwrap();
    let example = text.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = example
        .replace("/srv/g2/data/web.token", root.data("web.token").to_str().unwrap())
        .replace("127.0.0.1:4747", &format!("127.0.0.1:{page}"))
        .replace("[alerts.yml]", &format!("[{}]", docs("alerts.yml")));
    assert!(config != example && config.contains(&format!(":{page}")), "{config}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, format!("global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{config}"))
        .unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{own}"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _prometheus = Started(prometheus);
    let told = wait_for("a scrape", || {
        let answer = Command::new("promtool")
            .args(["query", "instant", &format!("http://127.0.0.1:{own}"), "g2_up"])
            .output()
            .unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        text.contains("g2_up{").then_some(text)
    });
    assert!(told.contains("job=\"g2\"") && told.contains("=> 1 @"), "{told}");
}

/// A port that nobody listened at a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
