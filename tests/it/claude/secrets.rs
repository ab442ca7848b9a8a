//! The real key is nowhere but on the host, and nothing inside reaches a network.
#![expect(clippy::disallowed_methods, reason = "tests look everywhere")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::house::{CHAT, House, bash, told};
use crate::support::run_docker;

/// A word that is everywhere the search looks, so that a search that finds nothing has searched.
const DECOY: &str = "quetzal-in-plain-sight";

/// Letters moved by 13 places: the model's own words must not hold what it looks for.
fn rot13(text: &str) -> String {
    let turn = |c: u8, first: u8| char::from((c - first + 13) % 26 + first);
    text.bytes()
        .map(|c| match c {
            b'a'..=b'z' => turn(c, b'a'),
            b'A'..=b'Z' => turn(c, b'A'),
            _ => char::from(c),
        })
        .collect()
}

/// Looks for a word in every file that the agent can read, in the environment of every process and in what they were
/// called with, and prints where it stands. No process is called with the word itself.
fn search(word: &str) -> String {
    format!(
        "word() {{ printf %s '{}' | tr A-Za-z N-ZA-Mn-za-m; }}; echo files:; \
         word | grep --recursive --text --files-with-matches --fixed-strings --file=- --devices=skip \
           --exclude-dir=proc --exclude-dir=sys / 2>/dev/null; echo processes:; \
         for p in /proc/[0-9]*; do for f in environ cmdline; do \
           if word | grep --quiet --text --fixed-strings --file=- $p/$f 2>/dev/null; then echo $f; fi; done; done; echo end",
        rot13(word)
    )
}

/// Every file below `folder` that holds `word`.
fn holding(folder: &Path, word: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(holding(&path, word));
        } else if meta.is_file() && contains(&fs::read(&path).unwrap_or_default(), word) {
            found.push(path);
        }
    }
    found
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

#[test]
fn the_real_key_is_found_nowhere_but_on_the_host() {
    let Some(house) = House::new("", &json!([])) else { return };
    fs::write(house.path().join("groups/main/decoy.txt"), DECOY).unwrap();
    house.model.then(&json!([
        bash(&format!("env DECOY={DECOY} sleep 60 & {}; kill $!", search(DECOY))),
        bash(&search(&house.key)),
        "searched",
    ]));
    let daemon = house.serve_with(&[("LOG_LEVEL", "debug")]);
    assert_eq!(house.ask(CHAT, "where is the key?"), "searched\n");
    let asked = house.model.asked();
    assert_eq!((&asked[0]["auth"], &asked[0]["auth_ok"]), (&json!("x-api-key"), &json!(true)));
    let decoy = told(&asked[1]);
    assert!(decoy.contains("/workspace/group/decoy.txt") && decoy.contains("environ"), "{decoy}");
    assert_eq!(told(&asked[2]).trim(), "files:\nprocesses:\nend");

    // From outside: what the engine knows and kept, what the processes were given, what lies on the disk.
    let container = house.container();
    for arguments in [&["inspect", &container][..], &["logs", &container]] {
        assert!(!contains(run_docker(arguments).as_bytes(), &house.key), "docker {arguments:?}");
    }
    let listed = run_docker(&["top", &container, "-eo", "pid"]);
    let inside: Vec<&str> = listed.lines().skip(1).map(str::trim).collect();
    assert!(inside.len() >= 3, "init, runner, agent: {listed}");
    let daemon_s = daemon.pid().to_string();
    for pid in inside.iter().copied().chain([daemon_s.as_str()]) {
        for of in ["environ", "cmdline"] {
            let bytes = fs::read(format!("/proc/{pid}/{of}")).unwrap();
            assert!(!bytes.is_empty() && !contains(&bytes, &house.key), "{of} of process {pid}");
        }
    }
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(holding(house.path(), &house.key), [house.path().join(".env")]);
}

#[test]
fn nothing_inside_reaches_a_network_but_its_model() {
    let Some(house) = House::new("", &json!([])) else { return };
    let port = house.model.port();
    house.model.then(&json!([
        bash(&format!(
            "ls /sys/class/net; \
             for to in 1.1.1.1/443 127.0.0.1/{port} 172.17.0.1/{port} 169.254.169.254/80; do \
               (exec 3<>/dev/tcp/$to) 2>/dev/null && echo reached $to; done; \
             curl --silent --max-time 5 https://api.anthropic.com && echo reached api; \
             getent hosts api.anthropic.com && echo resolved; \
             curl --silent --unix-socket /run/g2/model.sock http://model/_/log; echo; \
             touch /run/g2/x 2>/dev/null && echo wrote; echo end"
        )),
        "tried",
    ]));
    let _daemon = house.serve();
    assert_eq!(house.ask(CHAT, "get out"), "tried\n");
    let tried = told(&house.model.asked()[1]);
    let lines: Vec<&str> = tried.lines().collect();
    assert_eq!((lines[0], lines.len(), lines[2]), ("lo", 3, "end"), "{tried}");
    assert!(lines[1].contains("g2: "), "the gateway passes only what a model is asked: {tried}");
}
