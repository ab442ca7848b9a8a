//! Runners on trial: good ones pass, each broken one fails by the rule that it breaks, and none holds the doctor.

use super::*;
use crate::support::{agent_image, example, run_docker};

/// The rows of a trial, by rule.
fn trial(root: &Root, arguments: &[&str]) -> Vec<(String, Value)> {
    let mut command = root.command(&["doctor", "--json"]);
    let rows = report(&command.args(arguments).output().unwrap());
    let of_runner = |row: Value| Some((row["check"].as_str()?.strip_prefix("runner")?.to_owned(), row));
    rows.into_iter().filter_map(of_runner).collect()
}

fn with_status<'a>(rows: &'a [(String, Value)], status: &str) -> Vec<&'a str> {
    rows.iter().filter(|(_, row)| row["status"] == status).map(|(rule, _)| &**rule).collect()
}

/// A runner in Python: the example, changed.
fn example_with(root: &Root, changes: &[(&str, &str)]) -> String {
    example_at(&root.path().join("runner.py"), changes)
}

fn example_at(path: &Path, changes: &[(&str, &str)]) -> String {
    let mut text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/container/examples/runner.py")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    fs::write(path, text).unwrap();
    path.display().to_string()
}

const ALL: [&str; 14] = [
    "_starts",
    "_ready",
    "_stale_close",
    "_answers",
    "_heartbeat",
    "_follow_ups",
    "_repeats",
    "_bad_input",
    "_close",
    "_handled",
    "_records",
    "_unknown_session",
    "_term",
    "_bad_document",
];

#[test]
fn the_example_and_our_own_runner_keep_every_rule() {
    let root = Root::new("");
    let example = example_with(&root, &[]);
    for command in [["python3", &example], [env!("CARGO_BIN_EXE_g2"), "agent"]] {
        let rows = trial(&root, &["--", command[0], command[1]]);
        assert_eq!(with_status(&rows, "ok"), ALL, "{command:?}: {rows:#?}");
    }
}

#[test]
fn a_runner_of_v1_keeps_what_v1_promised() {
    let root = Root::new("");
    let rows = trial(&root, &["--", example("v1-runner").to_str().unwrap()]);
    assert_eq!(with_status(&rows, "warn"), [""], "{rows:#?}");
    let of_v2 = ["_ready", "_heartbeat", "_repeats", "_handled"];
    let of_v1: Vec<&str> = ALL.into_iter().filter(|rule| !of_v2.contains(rule)).collect();
    assert_eq!(with_status(&rows, "ok"), of_v1, "{rows:#?}");
}

#[test]
fn each_broken_runner_fails_by_the_rule_that_it_breaks() {
    let root = Root::new("");
    let breaks: [(&str, &[(&str, &str)]); 13] = [
        ("_starts", &[("    launch = json.load(sys.stdin)", "    os._exit(3)")]),
        ("_ready", &[("record(type=\"ready\", protocol=2)", "record(type=\"progress\")")]),
        ("_ready", &[("protocol=2)", "protocol=9)")]),
        ("_stale_close", &[("    close.unlink(missing_ok=True)  # of an earlier life\n", "")]),
        ("_answers", &[("handled=[batch] if batch else []", "handled=[]")]),
        ("_heartbeat", &[("HEARTBEAT.touch()", "pass")]),
        ("_follow_ups", &[("claimed.unlink()", "pass")]),
        ("_repeats", &[("path.unlink(missing_ok=True)\n", "pass\n")]),
        ("_bad_input", &[("path.rename(f\"{path}.bad\")", "raise")]),
        ("_close", &[("while not close.exists():", "while True:")]),
        ("_handled", &[("handled=[batch]", "handled=[batch, \"77\"]")]),
        ("_records", &[("    seq += 1\n", "    seq += 2\n")]),
        ("_bad_document", &[("sys.exit(1)", "sys.exit(0)")]),
    ];
    // Most of them are waited for until patience ends, so they are all tried at once.
    std::thread::scope(|threads| {
        for (at, (rule, changes)) in breaks.into_iter().enumerate() {
            let root = &root;
            threads.spawn(move || {
                let runner = example_at(&root.path().join(format!("{at}.py")), changes);
                let rows = trial(root, &["--patience", "10", "--", "python3", &runner]);
                assert!(with_status(&rows, "fail").contains(&rule), "{rule} {changes:?}: {rows:#?}");
                let row = &rows.iter().find(|(of, _)| of == rule).unwrap().1;
                assert!(row["fix"].as_str().is_some_and(|fix| fix.len() > 10), "{row}");
            });
        }
    });
}

#[test]
fn a_hostile_runner_ends_with_its_trial() {
    let root = Root::new("");
    let flood = "import sys\nwhile True: sys.stdout.write('---G2_OUTPUT_START---\\n' + 'x' * 100000)";
    let deaf =
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)";
    let chatty = "import json\nn = 0\nwhile True:\n  n += 1\n  print('---G2_OUTPUT_START---\\n' + json.dumps({'status': 'success', 'seq': n, 'type': 'ready', 'protocol': 2}) + '\\n---G2_OUTPUT_END---', flush=True)";
    for (program, patience, rule, words) in [
        (flood, "60", "_starts", "more than a run may"),
        (deaf, "2", "_ready", "within 2 s"),
        (chatty, "10", "_answers", ""),
    ] {
        let rows = trial(&root, &["--patience", patience, "--", "python3", "-c", program]);
        let row = &rows.iter().find(|(of, _)| of == rule).unwrap_or_else(|| panic!("{rows:#?}")).1;
        assert!(row["status"] == "fail" && row["detail"].as_str().unwrap().contains(words), "{rows:#?}");
        assert!(with_status(&rows, "warn").contains(&"_not_tried"), "{rows:#?}");
    }
}

#[test]
fn an_image_is_tried_in_containers_of_which_none_stays() {
    if !docker() {
        return;
    }
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    // A name of this test's own tells its containers from those of others.
    let image = format!("g2-test-trial:{}", std::process::id());
    run_docker(&["tag", agent_image(), &image]);
    let whole = trial(&root, &["--image", &image]);
    // The same image with a program that is not there, and with one that is no runner.
    let others = ["/nowhere", "/usr/local/bin/g2-agent --version"].map(|program| {
        let words: Vec<&str> = program.split(' ').collect();
        trial(&root, &[&["--image", &image, "--"], &words[..]].concat())
    });
    let names = run_docker(&["ps", "--all", "--format", "{{.Image}}"]);
    run_docker(&["rmi", &image]);
    assert_eq!(with_status(&whole, "ok"), ALL, "{whole:#?}");
    for rows in others {
        assert_eq!(with_status(&rows, "fail")[0], "_starts", "{rows:#?}");
    }
    assert!(!names.lines().any(|name| name == image), "{names}");
}

#[test]
fn an_agent_of_a_third_party_is_the_command_of_the_settings() {
    let root = Root::new("");
    let runner = example_with(&root, &[("\"heard: \"", "\"third party: \"")]);
    root.settings(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"python3\", \"{runner}\"]\n"
    ));
    let _daemon = root.serve();
    for text in ["one", "two"] {
        assert!(root.ask("local:main", text).contains("third party: "), "{text}");
    }
    let runs = root.rows(&["runs", "list"]);
    assert_eq!(
        (runs.len(), &runs[0]["status"]),
        (1, &json!("running")),
        "the follow-up went to the live run"
    );
}
