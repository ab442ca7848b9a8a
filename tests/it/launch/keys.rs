//! Keys: where they are, and where they never are.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::Root;

/// A root whose agent keeps what it was told on stdin.
fn root(sandbox: &str) -> Root {
    let runner = r#"cat > stdin.json; printf '%s\n' ---NANOCLAW_OUTPUT_START--- '{"status":"success","result":"done"}' ---NANOCLAW_OUTPUT_END---"#;
    let root = Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n{sandbox}[agent]\nprovider = \"claude\"\ncommand = [\"/bin/sh\", \"-c\", '''{runner}''']\n"
    ));
    fs::write(root.path().join(".env"), "CLAUDE_CODE_OAUTH_TOKEN=sk-real\nAWS_REGION=x\nOTHER=sk-other\n")
        .unwrap();
    root
}

fn told(root: &Root) -> Value {
    serde_json::from_slice(&fs::read(root.path().join("groups/main/stdin.json")).unwrap()).unwrap()
}

/// The files below a folder that hold these words.
fn holding(folder: &Path, words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(holding(&path, words)),
            kind if kind.is_file() => {
                let bytes = fs::read(&path).unwrap();
                if bytes.windows(words.len()).any(|part| part == words.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_key_on_stdin_is_in_no_file_and_no_log() {
    let root = root("network = \"open\"\ncredentials = \"stdin\"\n");
    let _daemon = root.serve_with(&[("LOG_LEVEL", "trace")]);
    assert_eq!(root.ask("local:main", "hello"), "done\n");
    let told = told(&root);
    assert_eq!(told["secrets"]["CLAUDE_CODE_OAUTH_TOKEN"], "sk-real");
    assert_eq!((&told["secrets"]["AWS_REGION"], &told["secrets"]["OTHER"]), (&"x".into(), &Value::Null));
    assert_eq!(told["provider"]["env"], Value::Null);
    fs::remove_file(root.path().join("groups/main/stdin.json")).unwrap();
    assert_eq!(holding(root.path(), "sk-real"), [root.path().join(".env").display().to_string()]);
}

#[test]
fn by_the_gateway_the_agent_has_a_placeholder_of_the_same_kind() {
    let root = root("");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let told = told(&root);
    assert_eq!(told["secrets"], Value::Null);
    let provider = &told["provider"];
    assert_eq!((&provider["name"], &provider["version"]), (&"claude".into(), &"2.1.197".into()));
    assert_eq!(provider["baseUrl"], "http://model");
    assert_eq!(provider["env"]["CLAUDE_CODE_OAUTH_TOKEN"], "placeholder");
    let socket = root.data("runs/1/gateway/model.sock").display().to_string();
    assert_eq!(provider["env"]["ANTHROPIC_UNIX_SOCKET"], socket.as_str());
    let global = root.path().join("groups/global").display().to_string();
    assert_eq!(provider["directories"][0], global.as_str());
    assert!(!told.to_string().contains("sk-real"));
}

#[test]
fn claude_does_not_run_without_a_sandbox_unless_that_is_meant() {
    let root = Root::new("");
    root.g2(&["groups", "set", "main", "provider=claude"]);
    let daemon = root.serve();
    root.send("local:main", "hello");
    let run = crate::support::wait_for("the run to end", || {
        root.rows(&["runs", "list"]).into_iter().find(|run| run["ended_at"].is_string())
    });
    assert!(run["error"].as_str().unwrap().contains("without any sandbox"), "{run}");
    daemon.terminate();
    root.settings("[agent]\nprovider = \"claude\"\n");
    let output = root.run(&["serve"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("without any sandbox"), "{output:?}");
}

#[test]
fn a_group_s_time_without_a_sign_of_life_is_its_own() {
    let root = Root::new("[health]\nclose_grace_ms = 100\n");
    root.script(
        None,
        &serde_json::json!([{"times": 1, "do": [{"say": "one"}, {"hang": true}]}, {"do": [{"say": "two"}]}]),
    );
    root.g2(&["groups", "set", "main", "timeout=1000"]);
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let run = crate::support::wait_for("the run to end", || {
        root.rows(&["runs", "list"]).into_iter().find(|run| run["ended_at"].is_string())
    });
    let why = "ended because it did not leave within 100 ms after it was asked to: no sign of life for 1 s (";
    assert!(run["error"].as_str().unwrap().starts_with(why), "{run}");
}
