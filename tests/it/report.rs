//! `g2 report`: nothing that people, agents or platforms wrote is in it, and no secret.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

/// What is planted in the root, each in another place.
const PLANTED: [&str; 16] = [
    "wolverine-key",
    "walrus",
    "zebra",
    "quokka",
    "xylophone",
    "marmalade",
    "ocelot",
    "pelican",
    "tapir",
    "badger",
    "lemur",
    "narwhal",
    "gibbon",
    "heron",
    "okapi",
    "puffin",
];

/// A root with secrets, names and texts in every place that holds such.
fn planted() -> Root {
    let root = Root::new(
        "assistant_name = \"heron\"\n[sandbox]\nkind = \"process\"\n[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\n\
         min_free_mib = 1\n[channels.\"telegram.walrus\"]\ntoken_file = \"data/secrets/gibbon\"\ncommand = [\"/bin/false\"]\n\
         [agent.acp.env]\nOKAPI_URL = \"https://okapi\"\n[budget.prices.puffin-2]\ninput = 1.0\noutput = 2.0\n",
    );
    fs::write(root.path().join(".env"), "ANTHROPIC_API_KEY=wolverine-key\nOTHER=marmalade\n").unwrap();
    fs::create_dir_all(root.data("secrets")).unwrap();
    fs::write(root.data("secrets/gibbon"), "marmalade").unwrap();
    root.g2(&["groups", "add", "zebra", "--chat", "local:quokka", "--name", "ocelot"]);
    root.script(
        Some("zebra"),
        &json!([
            {"when": {"contains": "fail"}, "do": [{"error": "pelican"}]},
            {"do": [{"say": "tapir"}]},
        ]),
    );
    root.g2(&["tasks", "add", "--group", "zebra", "--cron", "0 9 * * *", "badger"]);
    fs::write(root.path().join("groups/zebra/lemur.txt"), "lemur").unwrap();
    let _ = root.run(&["narwhal"]);
    let daemon = root.serve();
    root.g2(&["send", "--chat", "local:quokka", "--as", "lemur", "xylophone"]);
    root.g2(&["send", "--chat", "local:quokka", "--as", "lemur", "fail narwhal"]);
    wait_for("the runs", || (!root.rows(&["runs", "list"]).is_empty()).then_some(()));
    root.g2(&["stop", "--agents"]);
    daemon.wait();
    root
}

/// The words that stand in a text although they were planted.
fn leaked(bytes: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    PLANTED.into_iter().filter(|word| text.contains(word)).collect()
}

/// The parts of an archive.
fn unpacked(file: &Path, into: &Path) -> Vec<String> {
    assert!(Command::new("tar").arg("-xf").arg(file).arg("-C").arg(into).status().unwrap().success());
    let mut names: Vec<String> = fs::read_dir(into.join("g2-report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_that_was_planted_is_in_it_and_what_helps_is() {
    let root = planted();
    let file = root.path().join("report.tar");
    let name = file.to_str().unwrap();
    let said = root.g2(&["report", "--yes", name]);
    assert!(said.contains("runs.json") && said.contains("together"), "{said}");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(leaked(&bytes), Vec::<&str>::new());
    assert_eq!(leaked(said.replace(name, "").as_bytes()), Vec::<&str>::new());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!String::from_utf8_lossy(&bytes).contains(root.path().to_str().unwrap()));

    let place = tempfile::tempdir().unwrap();
    let names = unpacked(&file, place.path());
    let all = [
        "changes.txt",
        "channels.json",
        "checks.json",
        "daemon.json",
        "groups.json",
        "log.txt",
        "program.json",
        "rows.json",
        "runs.json",
        "settings.json",
    ];
    assert_eq!(names, all);
    let read = |name: &str| fs::read_to_string(place.path().join("g2-report").join(name)).unwrap();
    let json = |name: &str| -> Value { serde_json::from_str(&read(name)).unwrap() };
    assert_eq!(json("program.json")["runner"], agent_runner::ID);
    assert_eq!(json("rows.json")["messages"], 2);
    assert_eq!(json("settings.json")["assistant_name"], "set");
    assert_eq!(json("settings.json")["limits.poll_interval_ms"], "100");
    assert_eq!(json("daemon.json")["state"], "down");
    assert!(json("checks.json").as_array().unwrap().len() > 10);
    // A mark is the same in all parts.
    let groups = json("groups.json");
    let mark = groups.as_array().unwrap().iter().find(|group| group["is_main"] == false).unwrap();
    assert_eq!(json("runs.json")[0]["group"], mark["group"]);
    assert!(
        read("changes.txt").contains("done groups.add") || read("changes.txt").contains("groups"),
        "{}",
        read("changes.txt")
    );

    let shown = root.g2(&["report", "--show"]);
    assert_eq!(leaked(shown.as_bytes()), Vec::<&str>::new());
    assert!(all.iter().all(|name| shown.contains(&format!("== {name}"))), "{shown}");
}

#[test]
fn it_is_written_after_a_yes_and_replaces_nothing() {
    let root = Root::new("");
    let file = root.path().join("report.tar");
    let name = file.to_str().unwrap();
    let asked = root.run(&["report", name]);
    assert_eq!((asked.status.code(), file.exists()), (Some(2), false), "{asked:?}");
    fs::write(&file, "mine").unwrap();
    assert_eq!(root.run(&["report", "--yes", name]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_root_that_is_broken_or_absent_can_be_reported() {
    let root = Root::new("");
    fs::write(root.path().join("g2.toml"), "not toml narwhal").unwrap();
    fs::write(root.data("g2.sqlite"), "no store").unwrap();
    let shown = root.g2(&["report", "--show"]);
    assert!(shown.contains("\"check\": \"settings\"") && shown.contains("\"fail\""), "{shown}");
    assert_eq!(leaked(shown.as_bytes()), Vec::<&str>::new());
}
