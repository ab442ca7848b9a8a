//! `g2 doctor --fix`: each fault that it can mend is real, is listed first, and is gone afterwards.

use std::os::unix::net::UnixListener;

use super::*;

/// A root with every fault that can be mended without Docker.
fn broken() -> Root {
    let root = Root::new("");
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    fs::write(root.path().join(".env"), "ANTHROPIC_API_KEY=k\n").unwrap();
    chmod(&root.path().join(".env"), 0o644);
    chmod(&root.path().join("groups/main"), 0o755);
    fs::remove_dir_all(root.path().join("groups/family")).unwrap();
    chmod(&root.data("ipc/main/tasks"), 0o755);
    fs::write(root.path().join("g2.toml.new"), "half").unwrap();
    drop(UnixListener::bind(root.data("g2.sock")).unwrap());
    root
}

#[test]
fn all_that_can_be_mended_is_listed_asked_about_and_mended_once() {
    let root = broken();
    let asked = root.run(&["doctor", "--fix"]);
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    assert!(said.contains("close messages, memories") && root.path().join("g2.toml.new").exists(), "{said}");

    let mended: Value =
        serde_json::from_slice(&root.run(&["--json", "doctor", "--fix", "--yes"]).stdout).unwrap();
    let done = mended["mended"].as_array().unwrap();
    assert!(done.iter().all(|one| one["done"] == true), "{done:?}");
    let words: Vec<&str> = done.iter().map(|one| one["mend"].as_str().unwrap()).collect();
    for word in [
        "close messages",
        ".env to other users",
        "folder of group family",
        "mailboxes",
        "g2.toml.new",
        "g2.sock",
    ] {
        assert_eq!(words.iter().filter(|words| words.contains(word)).count(), 1, "{word}: {words:?}");
    }
    for (path, mode) in
        [(".env", 0o600), ("groups/main", 0o700), ("groups/family", 0o700), ("data/ipc/main/tasks", 0o700)]
    {
        let is = fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(is, mode, "{path}");
    }
    assert!(!root.path().join("g2.toml.new").exists() && !root.data("g2.sock").exists());
    let again: Value =
        serde_json::from_slice(&root.run(&["--json", "doctor", "--fix", "--yes"]).stdout).unwrap();
    assert_eq!(again["mended"], json!([]), "{again}");
    let daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello").trim(), "echo: hello");
    daemon.terminate();
}

#[test]
fn with_a_daemon_its_socket_and_its_boxes_are_left_to_it() {
    let root = Root::new("");
    let daemon = root.serve();
    let mended: Value =
        serde_json::from_slice(&root.run(&["--json", "doctor", "--fix", "--yes"]).stdout).unwrap();
    assert_eq!(mended["mended"], json!([]), "{mended}");
    assert!(root.data("g2.sock").exists());
    daemon.terminate();
}

#[test]
fn a_secret_in_the_settings_themselves_is_a_finding() {
    let toml = "[channels.toy]\ncommand = [\"/bin/true\"]\ntoken = \"12345:hush\"\npassword_file = \"data/secrets/p\"\n";
    let root = Root::new(toml);
    let rows = root.rows(&["doctor"]);
    let found: Vec<&Value> =
        rows.iter().filter(|row| row["detail"].to_string().contains("g2.toml itself")).collect();
    assert_eq!(found.len(), 1, "{rows:?}");
    assert_eq!((&found[0]["check"], &found[0]["status"]), (&"secrets".into(), &"warn".into()));
    let said = found[0].to_string();
    assert!(said.contains("channels.toy.token") && said.contains("token_file"), "{said}");
    assert!(!Value::from(rows).to_string().contains("12345:hush"));
}
