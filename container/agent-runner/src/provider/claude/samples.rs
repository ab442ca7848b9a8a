//! Recorded conversations of the CLI, `tests/samples/<version>/<name>.jsonl`: `{"t", "dir": "in|out|err|exit", "line"}`.
#![expect(clippy::disallowed_methods, reason = "reads the recorded conversations")]

use std::{fs, path::PathBuf};

use serde_json::Value;

use super::event::{self, Event};

/// One recorded line.
pub(super) enum Spoken {
    /// What was said to the CLI.
    In(Value),
    Out(Event),
}

/// Returns the names of the recorded versions.
pub(super) const VERSIONS: [&str; 2] = ["2.1.197", "2.1.330"];

fn folder(version: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "samples", version].iter().collect()
}

/// Returns a conversation; every line of the CLI is one that we know.
pub(super) fn sample(version: &str, name: &str) -> Vec<Spoken> {
    let text = fs::read_to_string(folder(version).join(format!("{name}.jsonl"))).unwrap();
    let spoken = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        match line["dir"].as_str().unwrap() {
            "in" => Some(Spoken::In(line["line"].clone())),
            "out" => Some(Spoken::Out(event::parse(line["line"].to_string().as_bytes()).unwrap())),
            "err" | "exit" => None,
            other => panic!("{other}"),
        }
    };
    text.lines().filter_map(spoken).collect()
}

#[test]
fn every_line_that_was_ever_recorded_is_known() {
    for version in VERSIONS {
        let mut names: Vec<_> =
            fs::read_dir(folder(version)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names.len(), 15);
        for name in names {
            let name = name.to_str().unwrap().trim_end_matches(".jsonl");
            let spoken = sample(version, name);
            let mut results = 0;
            for line in &spoken {
                match line {
                    Spoken::Out(Event::Unknown(what)) => panic!("{version} {name}: {what}"),
                    Spoken::Out(Event::Result(_)) => results += 1,
                    Spoken::Out(_) | Spoken::In(_) => {}
                }
            }
            assert!(results > 0, "{version} {name}");
        }
    }
}

#[test]
fn what_is_not_known_is_no_error_and_what_is_no_json_is() {
    for (line, what) in [
        (r#"{"type":"surprise","x":1}"#, "type \"surprise\""),
        (r#"{"type":"system","subtype":"surprise"}"#, "type \"system\", subtype \"surprise\""),
        ("{}", "type \"\""),
        ("null", "type \"\""),
    ] {
        assert_eq!(event::parse(line.as_bytes()).unwrap(), Event::Unknown(what.to_owned()));
    }
    assert!(event::parse(b"Error: something").is_err());
}
