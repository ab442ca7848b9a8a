//! How the CLI is called: its arguments and its environment. Pure.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use ipc_handlers::wire::{Claude, Launch};

use super::hooks;

/// The CLI's own tools that are offered when the launch does not say.
const TOOLS: [&str; 13] = [
    "Bash",
    "Read",
    "Write",
    "Edit",
    "Glob",
    "Grep",
    "WebSearch",
    "WebFetch",
    "Task",
    "TaskOutput",
    "TaskStop",
    "Skill",
    "NotebookEdit",
];
/// How long the CLI may say nothing when the launch does not say; longer than it waits for an answer to begin.
const STALL: Duration = Duration::from_secs(240);
/// What keeps the CLI quiet, alone and talkative about what we need. The launch may say otherwise.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("ENABLE_TOOL_SEARCH", "false"),
    ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD", "1"),
    ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "165000"),
    ("API_TIMEOUT_MS", "120000"),
    ("LANG", "C.UTF-8"),
];
/// How long a tool server may take to come up, and to answer a call, ms; and that the first turn waits until each has come up, or
/// has not. The launch may say otherwise.
const OF_SERVERS: [(&str, &str); 3] =
    [("MCP_TIMEOUT", "15000"), ("MCP_TOOL_TIMEOUT", "600000"), ("MCP_CONNECTION_NONBLOCKING", "0")];
/// What the CLI takes for a key; with none of them it does not start.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
/// Keys that the CLI reads from a pipe, and the variable that names its descriptor.
const PIPED: [(&str, &str); 2] = [
    ("ANTHROPIC_API_KEY", "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"),
    ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR"),
];

/// A session to be begun or gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Session {
    Fresh(String),
    Resumed(String),
}

/// What all of a run's processes have in common. It holds secrets, so it can't be printed.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) program: String,
    pub(super) version: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    /// Keys that go through a pipe: the variable that names its descriptor, and the key.
    pub(super) piped: Vec<(&'static str, String)>,
    pub(super) stall: Duration,
    /// Where the CLI keeps its state; left out, the CLI looks for a home itself.
    pub(super) state: Option<PathBuf>,
    /// Where the skills are that the CLI does not find by itself.
    pub(super) skills: Option<PathBuf>,
    /// Where the CLI puts what it needs for a while.
    pub(super) temporary: PathBuf,
    args: Vec<String>,
}

impl Setup {
    /// Returns the set-up for a launch. `inherited` are the runner's own variables, `is_root` whether it is uid 0.
    pub(super) fn new(
        claude: &Claude,
        launch: &Launch,
        group: &Path,
        inherited: &BTreeMap<String, String>,
        user: User,
    ) -> Self {
        let stall =
            if claude.stall_timeout_ms == 0 { STALL } else { Duration::from_millis(claude.stall_timeout_ms) };
        let env = environment(claude, launch, inherited, user);
        let state = env.get("CLAUDE_CONFIG_DIR").map(PathBuf::from);
        let finds_skills = claude.setting_sources.iter().any(|source| source == "user");
        Self {
            program: if claude.path.is_empty() { "claude".to_owned() } else { claude.path.clone() },
            version: claude.version.clone(),
            append_system_prompt: claude.append_system_prompt.clone(),
            piped: PIPED
                .iter()
                .filter_map(|(name, of)| Some((*of, launch.secrets.0.get(*name)?.clone())))
                .collect(),
            stall,
            skills: state.as_ref().filter(|_| !finds_skills).map(|state| state.join("skills")),
            temporary: env.get("TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from),
            state,
            env,
            args: arguments(claude, launch, group),
        }
    }

    /// Adds a plugin.
    pub(super) fn with_plugin(&mut self, folder: &Path) {
        self.args.extend(["--plugin-dir".to_owned(), folder.to_string_lossy().into_owned()]);
    }

    /// Adds the group's own tool servers, as a file says. Their secrets stand in no argument, which others see.
    pub(super) fn with_servers(&mut self, file: &Path) {
        self.args.extend(["--mcp-config".to_owned(), file.to_string_lossy().into_owned()]);
        for (name, value) in OF_SERVERS {
            self.env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// Returns the arguments for a session.
    pub(super) fn args(&self, session: &Session) -> Vec<String> {
        let (flag, id) = match session {
            Session::Fresh(id) => ("--session-id", id),
            Session::Resumed(id) => ("--resume", id),
        };
        self.args.iter().cloned().chain([flag.to_owned(), id.clone()]).collect()
    }
}

/// Who runs the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Root,
    Other,
}

fn arguments(claude: &Claude, launch: &Launch, group: &Path) -> Vec<String> {
    let mut args: Vec<String> = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
        "--replay-user-messages",
        "--include-partial-messages",
        "--strict-mcp-config",
        // Nothing that the agent writes into a settings file may take our hooks away. The CLI itself would remove transcripts
        // after 30 days, those of conversations that can go on too; the host removes those that nothing needs.
        "--settings",
        r#"{"disableAllHooks":false,"cleanupPeriodDays":36500}"#,
    ]
    .map(str::to_owned)
    .into();
    let mut pair = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    pair("--setting-sources", claude.setting_sources.join(","));
    let offered =
        if claude.tools.is_empty() { TOOLS.map(str::to_owned).into() } else { claude.tools.clone() };
    // A hook asks in the chat in its place; the tool itself never runs.
    let asks = launch.blocked_tools.iter().any(|name| name == hooks::ASKS);
    if asks {
        // The CLI offers the tool only where somebody can be asked for permissions.
        pair("--permission-prompt-tool", "stdio".to_owned());
    }
    let blocked: Vec<&str> =
        launch.blocked_tools.iter().map(String::as_str).filter(|name| *name != hooks::ASKS).collect();
    let offered = offered.into_iter().chain(asks.then(|| hooks::ASKS.to_owned()));
    pair("--tools", offered.filter(|name| !blocked.contains(&name.as_str())).collect::<Vec<_>>().join(","));
    if !blocked.is_empty() {
        pair("--disallowedTools", blocked.join(","));
    }
    if let Some(model) = &claude.model {
        pair("--model", model.clone());
    }
    // The working folder too: without settings files its CLAUDE.md is read only where the folder is named.
    pair("--add-dir", group.to_string_lossy().into_owned());
    for folder in &claude.directories {
        pair("--add-dir", folder.clone());
    }
    args
}

fn environment(
    claude: &Claude,
    launch: &Launch,
    inherited: &BTreeMap<String, String>,
    user: User,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    env.extend(inherited.clone());
    if let Some(home) = inherited.get("HOME") {
        env.insert("CLAUDE_CONFIG_DIR".to_owned(), format!("{home}/.claude"));
    }
    if user == User::Root {
        env.insert("IS_SANDBOX".to_owned(), "1".to_owned());
    }
    if let Some(url) = &claude.base_url {
        env.insert("ANTHROPIC_BASE_URL".to_owned(), url.clone());
    }
    let is_piped = |name: &str| PIPED.iter().any(|(piped, _)| *piped == name);
    let secrets: Vec<_> =
        launch.secrets.0.iter().filter(|(name, _)| is_variable(name) && !is_piped(name)).collect();
    if let Some(prefix) = without(secrets.iter().map(|(name, _)| name.as_str())) {
        env.insert("CLAUDE_CODE_SHELL_PREFIX".to_owned(), prefix);
    }
    env.extend(secrets.into_iter().map(|(name, value)| (name.clone(), value.clone())));
    env.extend(claude.env.clone());
    if !KEYS.iter().any(|key| env.contains_key(*key) || launch.secrets.0.contains_key(*key)) {
        env.insert(KEYS[0].to_owned(), "placeholder".to_owned());
    }
    env
}

/// Returns what the CLI is to put before every command that it runs for the agent (Bash, in the background too, hooks,
/// what skills run), so that it runs without these variables.
///
/// No boundary: a command that wants them can read them from the CLI's own environment.
fn without<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| format!("bash -c 'unset {}; eval \"$0\"'", names.join(" ")))
}

/// A text that is no variable's name can't be unset either.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setup(change: impl FnOnce(&mut Launch, &mut Claude)) -> Setup {
        let mut launch: Launch = serde_json::from_value(
            json!({"prompt": "p", "groupFolder": "g", "chatJid": "c", "isMain": false, "blockedTools": ["AskUserQuestion", "Grep"]}),
        )
        .unwrap();
        let mut claude = Claude::default();
        change(&mut launch, &mut claude);
        let inherited = [("HOME", "/home/node"), ("PATH", "/bin")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        Setup::new(&claude, &launch, Path::new("/workspace/group"), &inherited.into(), User::Other)
    }

    fn value(args: &[String], flag: &str) -> String {
        let at = args.iter().position(|arg| arg == flag).unwrap_or_else(|| panic!("{flag} in {args:?}"));
        args[at + 1].clone()
    }

    #[test]
    fn tools_are_listed_one_by_one_and_blocked_ones_never() {
        let args = setup(|_, _| {}).args(&Session::Fresh("u".to_owned()));
        let tools = value(&args, "--tools");
        assert!(
            tools.starts_with("Bash,Read") && !tools.contains("Grep") && !tools.contains("Cron"),
            "{tools}"
        );
        // A hook asks in the chat in its place.
        assert!(tools.ends_with(",AskUserQuestion"), "{tools}");
        assert_eq!(value(&args, "--disallowedTools"), "Grep");
        let none = setup(|launch, _| launch.blocked_tools.clear()).args(&Session::Fresh("u".to_owned()));
        assert!(!value(&none, "--tools").contains("AskUserQuestion"), "nobody would answer it");
        let args = setup(|_, claude| claude.tools = vec!["Read".to_owned(), "Grep".to_owned()])
            .args(&Session::Resumed("u".to_owned()));
        assert_eq!(value(&args, "--tools"), "Read,AskUserQuestion");
        assert_eq!(value(&args, "--resume"), "u");
    }

    #[test]
    fn nobody_s_settings_count_unless_the_launch_says_so() {
        let args = setup(|_, _| {}).args(&Session::Fresh("u".to_owned()));
        assert_eq!(value(&args, "--setting-sources"), "");
        assert_eq!(value(&args, "--session-id"), "u");
        let args = setup(|_, claude| claude.setting_sources = vec!["user".to_owned()])
            .args(&Session::Fresh("u".to_owned()));
        assert_eq!(value(&args, "--setting-sources"), "user");
    }

    #[test]
    fn the_key_is_a_placeholder_unless_a_secret_is_one() {
        let plain = setup(|_, _| {});
        assert_eq!(plain.env["ANTHROPIC_API_KEY"], "placeholder");
        assert_eq!(plain.env["CLAUDE_CONFIG_DIR"], "/home/node/.claude");
        assert!(plain.piped.is_empty() && !plain.env.contains_key("CLAUDE_CODE_SHELL_PREFIX"));
        let token = setup(|launch, claude| {
            for name in ["CLAUDE_CODE_OAUTH_TOKEN", "AWS_A", "AWS_B", "x; rm"] {
                launch.secrets.0.insert(name.to_owned(), "t".to_owned());
            }
            claude.env.insert("API_TIMEOUT_MS".to_owned(), "1".to_owned());
        });
        assert!(!token.env.contains_key("ANTHROPIC_API_KEY"));
        assert_eq!(token.piped, [("CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", "t".to_owned())]);
        assert!(!token.env.contains_key("CLAUDE_CODE_OAUTH_TOKEN"));
        assert_eq!(token.env["AWS_A"], "t");
        assert_eq!(token.env["CLAUDE_CODE_SHELL_PREFIX"], r#"bash -c 'unset AWS_A AWS_B; eval "$0"'"#);
        assert_eq!(token.env["API_TIMEOUT_MS"], "1");
    }
}
