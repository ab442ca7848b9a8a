//! A root whose agents are Claude Code, and the model they ask.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user, and look at what agents do"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{env, fs, ops::Deref, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::{Value, json};

use super::model::Model;
use crate::support::{Docked, claude_image, docker, wait_for};

pub(super) const CHAT: &str = "local:main";

pub(super) struct House {
    docked: Docked,
    pub(super) model: Model,
    /// The real key, which only the daemon and the model know.
    pub(super) key: String,
}

impl House {
    /// Lays out a root whose model follows `script`; `toml` comes after the settings. `None` (said aloud) where the
    /// agent can't be had.
    pub(super) fn new(toml: &str, script: &Value) -> Option<Self> {
        let required = env::var_os("G2_REQUIRE_CLAUDE").is_some();
        if !docker() {
            assert!(!required, "G2_REQUIRE_CLAUDE is set and no Docker answers");
            return None;
        }
        if Command::new("python3").arg("--version").output().is_err() {
            assert!(!required, "G2_REQUIRE_CLAUDE is set and there is no python3");
            eprintln!("skipped: no python3");
            return None;
        }
        let image = claude_image()?;
        let key = format!("sk-ant-api03-{:016x}{:016x}", random(), random());
        let model = Model::new(&key);
        model.then(script);
        let settings =
            format!("[agent]\nprovider = \"claude\"\n[gateway]\nupstream = \"{}\"\n{toml}", model.address());
        let docked = Docked::with_image(image, &settings);
        let house = Self { docked, model, key };
        house.put_key(&house.key);
        Some(house)
    }

    /// Puts a key where the daemon looks for it.
    pub(super) fn put_key(&self, key: &str) {
        let dotenv = self.path().join(".env");
        fs::write(&dotenv, format!("ANTHROPIC_API_KEY={key}\n")).unwrap();
        fs::set_permissions(&dotenv, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Waits until the main group's agent is at work with a tool.
    pub(super) fn at_work(&self, tool: &str) {
        let path = self.data("ipc/main/state/container_state.json");
        wait_for(&format!("the agent to work with {tool}"), || {
            let state: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (state["current_tool"] == tool).then_some(())
        });
    }

    /// Lets a command go on that waits for the file `go`.
    pub(super) fn go(&self) {
        fs::write(self.path().join("groups/main/go"), "").unwrap();
    }

    /// Waits until this many answers were said, and no less; returns them.
    pub(super) fn has_said(&self, count: usize) -> Vec<String> {
        wait_for(&format!("{count} answers"), || Some(self.said(CHAT)).filter(|said| said.len() >= count))
    }

    /// The only container of this root.
    pub(super) fn container(&self) -> String {
        let all = self.containers();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }
}

impl Deref for House {
    type Target = Docked;

    fn deref(&self) -> &Docked {
        &self.docked
    }
}

/// A turn in which the model calls `command`, which may take a while.
pub(super) fn bash(command: &str) -> Value {
    json!({"tool_use": {"name": "Bash", "input": {"command": command, "timeout": 100_000}}})
}

/// A turn in which the model works until [`House::go`].
pub(super) fn until_go() -> Value {
    bash("until [ -e go ]; do sleep 0.05; done; rm go; echo went")
}

/// A turn in which the model uses one of our tools.
pub(super) fn tool(name: &str, input: &Value) -> Value {
    json!({"tool_use": {"name": format!("mcp__g2__{name}"), "input": input}})
}

/// What the model was told of its last tool call, in one request.
pub(super) fn told(request: &Value) -> String {
    request["tool_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["text"].as_str().unwrap())
        .collect()
}

/// The whole conversation that a request carries.
pub(super) fn conversation(request: &Value) -> String {
    request["body"]["messages"].to_string()
}

fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish()
}
