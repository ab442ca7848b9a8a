//! A CLI, a model and a runner between them and the test.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{Home, Runner, launch, wait_until};

/// The version that the fixtures are of.
pub(crate) const VERSION: &str = "2.1.197";

/// Which CLI.
pub(crate) struct Cli {
    path: PathBuf,
    version: String,
    pub(crate) is: Is,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    Fake,
    Real,
}

impl Cli {
    pub(crate) fn fake() -> Self {
        static FAKE: OnceLock<PathBuf> = OnceLock::new();
        Self { path: FAKE.get_or_init(build).clone(), version: VERSION.to_owned(), is: Is::Fake }
    }

    /// Returns the real one, or `None` (said aloud) where it can't be had. `G2_REQUIRE_CLAUDE=1` makes that a failure;
    /// `G2_CLAUDE` names another one to be tried, of any version.
    pub(crate) fn real() -> Option<Self> {
        static REAL: OnceLock<Result<(PathBuf, String), String>> = OnceLock::new();
        match REAL.get_or_init(install) {
            Ok((path, version)) => Some(Self { path: path.clone(), version: version.clone(), is: Is::Real }),
            Err(why) => {
                assert!(
                    env::var("G2_REQUIRE_CLAUDE").is_err(),
                    "the real Claude Code CLI is required: {why}"
                );
                eprintln!("SKIPPED: the real Claude Code CLI {VERSION} can't be had here: {why}");
                None
            }
        }
    }
}

/// Builds the fake one: `cargo test --test it` alone does not.
fn build() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_g2-agent")).with_file_name("examples").join("fake-claude");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--quiet",
        "--offline",
        "--example",
        "fake-claude",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.status();
    assert!(path.exists(), "{} can't be built: {built:?}", path.display());
    path
}

/// Installs the native program by npm, once, below `target/`.
fn install() -> Result<(PathBuf, String), String> {
    if let Some(path) = env::var_os("G2_CLAUDE") {
        let output = Command::new(&path).arg("--version").output().map_err(|e| e.to_string())?;
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = words.split_whitespace().next().ok_or("it does not name its version")?;
        return Ok((path.into(), version.to_owned()));
    }
    let target = Path::new(env!("CARGO_BIN_EXE_g2-agent")).ancestors().nth(2).unwrap();
    let folder = target.join("claude-cli").join(VERSION);
    let program = folder.join("claude");
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("{program} failed: {words}")) }
    };
    run("python3", &["--version"])?;
    run(concat!(env!("CARGO_MANIFEST_DIR"), "/../claude.sh"), &[folder.to_str().unwrap()])?;
    run(program.to_str().unwrap(), &["--version"])?;
    Ok((program, VERSION.to_owned()))
}

/// A home with a CLI whose model follows a script.
pub(crate) struct Stage {
    pub(crate) home: Home,
    provider: Value,
    log: PathBuf,
    _files: TempDir,
    _model: Option<Model>,
}

struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Returns a stage whose model gives the answers of `script`, one after the other.
    pub(crate) fn new(cli: &Cli, script: &Value) -> Self {
        Self::with_key(cli, script, None)
    }

    /// The same, with a model that answers to this key only; the fake's takes any.
    pub(crate) fn with_key(cli: &Cli, script: &Value, key: Option<&str>) -> Self {
        let home = Home::new();
        let files = TempDir::new().unwrap();
        let (turns, log) = (files.path().join("script.json"), files.path().join("log.jsonl"));
        fs::write(&turns, script.to_string()).unwrap();
        fs::write(&log, "").unwrap();
        let mut provider = json!({
            "name": "claude", "path": cli.path, "version": cli.version, "timezone": "Europe/Berlin",
            "env": {"CLAUDE_CODE_MAX_RETRIES": "1"},
        });
        let model = match cli.is {
            Is::Fake => {
                provider["env"]["FAKE_SCRIPT"] = turns.to_str().into();
                provider["env"]["FAKE_LOG"] = log.to_str().into();
                None
            }
            Is::Real => {
                let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/scripted_model.py");
                let mut child = Command::new("python3")
                    .arg(program)
                    .arg("--script")
                    .arg(&turns)
                    .arg("--log-bodies")
                    .arg("--log")
                    .arg(&log)
                    .args(key.iter().flat_map(|key| ["--require-key", key]))
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut line = String::new();
                BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
                let port = serde_json::from_str::<Value>(&line).unwrap()["port"].clone();
                provider["baseUrl"] = format!("http://127.0.0.1:{port}").into();
                Some(Model(child))
            }
        };
        Self { home, provider, log, _files: files, _model: model }
    }

    /// Changes how the CLI is run.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.provider);
        self
    }

    /// Starts a runner with a first batch that says `text`.
    pub(crate) fn run(&self, text: &str) -> Runner {
        self.run_with(text, |_| {})
    }

    pub(crate) fn run_with(&self, text: &str, change: impl FnOnce(&mut Value)) -> Runner {
        let mut document = launch(text, None);
        document["provider"] = self.provider.clone();
        change(&mut document);
        self.home.launch_with(&document, |command| {
            command.env("HOME", self.home.path("home"));
            fs::create_dir_all(self.home.path("home")).unwrap();
        })
    }

    /// Runs the CLI without a runner, with our tools on a server of their own, until it has answered `prompt`; returns
    /// its answer.
    pub(crate) fn alone(&self, prompt: &str) -> String {
        let g2_agent = env!("CARGO_BIN_EXE_g2-agent");
        let seat = json!({"G2_IPC_DIR": self.home.path("ipc"), "G2_CHAT_JID": "local:kitchen"});
        let servers = json!({"mcpServers": {"g2": {"type": "stdio", "command": g2_agent, "args": ["mcp"], "env": seat}}});
        let output = Command::new(self.provider["path"].as_str().unwrap())
            .args(["-p", prompt, "--permission-mode", "bypassPermissions", "--strict-mcp-config"])
            .args(["--setting-sources", "", "--tools", "", "--mcp-config", &servers.to_string()])
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap())
            .env("CLAUDE_CONFIG_DIR", self.home.path("home"))
            .env("ANTHROPIC_BASE_URL", self.provider["baseUrl"].as_str().unwrap())
            .envs([
                ("ANTHROPIC_API_KEY", "placeholder"),
                ("IS_SANDBOX", "1"),
                ("ENABLE_TOOL_SEARCH", "false"),
            ])
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("MCP_CONNECTION_NONBLOCKING", "0")
            .current_dir(self.home.path("group"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns what the model saw with each of its requests: the whole conversation, or only what is new in it.
    pub(crate) fn seen(&self) -> Vec<String> {
        let text = |entry: &Value| match entry["body"]["messages"].as_array() {
            Some(messages) => Value::from(messages.clone()).to_string(),
            None => entry["new"].as_str().unwrap().to_owned(),
        };
        self.requests().iter().map(text).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).unwrap();
        // The last line may be written just now.
        log.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|entry| {
                let path = entry["path"].as_str().unwrap();
                path.contains("/v1/messages")
                    && !path.contains("count_tokens")
                    && entry["tools"].as_array().is_some_and(|tools| !tools.is_empty())
            })
            .collect()
    }

    /// Waits until `state/container_state.json` names this tool (`None`: no tool) and returns it.
    pub(crate) fn tool(&self, name: Option<&str>) -> Value {
        let path = "ipc/state/container_state.json";
        let mut state = Value::Null;
        wait_until(&format!("the tool {name:?}"), || {
            self.home.path(path).exists() && {
                state = self.home.json(path);
                state["current_tool"].as_str() == name
            }
        });
        state
    }

    /// Answers the next command and returns it.
    pub(crate) fn answer(&self, reply: &Value) -> Value {
        let command = self.home.command("ipc/tasks");
        let id = command["requestId"].as_str().unwrap();
        let mut reply = reply.clone();
        reply["requestId"] = id.into();
        self.home.put(&format!("ipc/responses/{id}.json"), reply.to_string());
        command
    }
}
