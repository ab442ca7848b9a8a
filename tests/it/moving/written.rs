//! Exports as tests write them and read them.
#![expect(clippy::disallowed_methods, reason = "a test writes an export, and reads one")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

/// Files of rows, in the order in which they are read.
pub(super) const PARTS: [&str; 8] =
    ["settings", "groups", "people", "runs", "messages", "sessions", "tasks", "audit"];

/// Writes an export: lines of rows by their part.
pub(super) fn write(folder: &Path, root: &str, rows: &[(&str, String)]) {
    fs::create_dir_all(folder.join("rows")).unwrap();
    for part in PARTS {
        let lines = rows.iter().filter(|(of, _)| *of == part).map(|(_, line)| format!("{line}\n"));
        fs::write(folder.join(format!("rows/{part}.jsonl")), lines.collect::<String>()).unwrap();
    }
    let manifest =
        json!({"format": 1, "made_by": "a test", "made_at": "now", "root": root, "rows": {}, "files": 0});
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

/// Reads the rows of an export but the audit, as they are the same in each root: without keys of their own, runs by their place in the
/// ledger, and without what a new root has of its own.
pub(super) fn rows(folder: &Path) -> Vec<Value> {
    let mut all = Vec::new();
    for part in PARTS.into_iter().filter(|part| *part != "audit") {
        let text = fs::read_to_string(folder.join(format!("rows/{part}.jsonl"))).unwrap();
        all.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    let mut runs: BTreeMap<String, String> = BTreeMap::new();
    for row in &all {
        let key = match row["row"].as_str().unwrap() {
            "run" => &row["key"],
            "usage" => &row["run"],
            _ => continue,
        };
        let place = format!("run #{}", runs.len());
        runs.entry(key.as_str().unwrap().to_owned()).or_insert(place);
    }
    for row in &mut all {
        if let Some(run) = row["run"].as_str().map(str::to_owned) {
            let place = runs.get(&run).cloned().unwrap_or_default();
            if let Some(cause) = row["cause"].as_str() {
                row["cause"] = cause.replace(&format!("run {run} "), &format!("{place} ")).into();
            }
            row["run"] = place.into();
        }
        let kind = row["row"].as_str().unwrap().to_owned();
        if !["setting", "secret", "list", "group", "chat", "user"].contains(&kind.as_str()) {
            row["key"] = Value::Null;
        }
    }
    all
}
