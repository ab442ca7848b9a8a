//! `[agent]`: which provider drives the agent, and how Claude Code is run.

use std::path::PathBuf;

use serde::Deserialize;

use super::ConfigError;
use crate::domain::run_settings::{NoSuchValue, Provider};

/// The version of the Claude Code CLI that the runner was tried with.
const CLAUDE_VERSION: &str = "2.1.197";

/// How the Claude Code CLI is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeSettings {
    /// The program inside; empty: `claude`, looked up in `PATH`.
    pub path: String,
    /// The only version that may run; `None`: any.
    pub version: Option<String>,
    pub model: Option<String>,
    pub append_system_prompt: Option<String>,
    /// The CLI's own tools that are offered; empty: the runner's list.
    pub tools: Vec<String>,
    /// Whose settings files count: `user`, `project`, `local`; empty: nobody's, as an agent can write them all.
    pub setting_sources: Vec<String>,
    /// For how long the CLI may say nothing while it waits for the model, ms; 0: the runner's default.
    pub stall_timeout_ms: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAgent {
    pub(super) provider: Option<String>,
    pub(super) command: Vec<String>,
    pub(super) script: Option<PathBuf>,
    pub(super) claude: RawClaude,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawClaude {
    path: String,
    version: Option<String>,
    model: String,
    append_system_prompt: String,
    tools: Vec<String>,
    setting_sources: Option<Vec<String>>,
    stall_timeout_ms: u64,
}

impl RawAgent {
    pub(super) fn provider(&self) -> Result<Provider, ConfigError> {
        word("agent.provider", self.provider.as_deref(), Provider::Scripted, Provider::parse)
    }
}

impl RawClaude {
    pub(super) fn check(self) -> Result<ClaudeSettings, ConfigError> {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let setting_sources = self.setting_sources.unwrap_or_default();
        if let Some(odd) =
            setting_sources.iter().find(|s| !["user", "project", "local"].contains(&s.as_str()))
        {
            return Err(ConfigError::Value {
                name: "agent.claude.setting_sources",
                value: odd.clone(),
                why: "use \"user\", \"project\" and \"local\"",
            });
        }
        Ok(ClaudeSettings {
            path: self.path,
            version: some(self.version.unwrap_or_else(|| CLAUDE_VERSION.into())),
            model: some(self.model),
            append_system_prompt: some(self.append_system_prompt),
            tools: self.tools,
            setting_sources,
            stall_timeout_ms: self.stall_timeout_ms,
        })
    }
}

/// Reads a setting that is one of a few words.
pub(super) fn word<T>(
    name: &'static str,
    text: Option<&str>,
    default: T,
    parse: impl FnOnce(&str) -> Result<T, NoSuchValue>,
) -> Result<T, ConfigError> {
    match text {
        None => Ok(default),
        Some(text) => {
            parse(text).map_err(|why| ConfigError::Value { name, value: text.to_owned(), why: why.0 })
        }
    }
}
