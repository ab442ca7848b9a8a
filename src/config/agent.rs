//! `[agent]`: which provider drives the agent, and how Claude Code is run.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

use super::units::{path_or_none, text_or_none, word};
use crate::domain::runs::run_settings::Provider;

/// Which program is the agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    #[serde(deserialize_with = "provider")]
    pub provider: Provider,
    /// The program that runs in the container instead of the image's own; empty: the image's.
    pub command: Vec<String>,
    #[serde(deserialize_with = "path_or_none")]
    pub script: Option<PathBuf>,
    pub claude: ClaudeSettings,
    pub acp: AcpSettings,
}

/// How an agent that speaks the Agent Client Protocol is run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcpSettings {
    /// The program inside and its arguments.
    pub command: Vec<String>,
    /// More of its environment. No place for keys: it is written to the run's folder.
    pub env: BTreeMap<String, String>,
    /// How it is to log in; `None`: not at all.
    #[serde(deserialize_with = "text_or_none")]
    pub auth_method: Option<String>,
    /// Tools, by name or kind, that it is refused.
    pub refuse: Vec<String>,
    /// For how long it may say nothing in a turn, ms; 0: the runner's default.
    pub stall_timeout_ms: u64,
}

/// How the Claude Code CLI is run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaudeSettings {
    /// The program inside; empty: `claude`, looked up in `PATH`.
    pub path: String,
    /// The only version that may run; `None`: any.
    #[serde(deserialize_with = "text_or_none")]
    pub version: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    pub model: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    pub append_system_prompt: Option<String>,
    /// The CLI's own tools that are offered; empty: the runner's list.
    pub tools: Vec<String>,
    /// Whose settings files count: `user`, `project`, `local`; empty: nobody's, as an agent can write them all.
    #[serde(deserialize_with = "setting_sources")]
    pub setting_sources: Vec<String>,
    /// For how long the CLI may say nothing while it waits for the model, ms; 0: the runner's default.
    pub stall_timeout_ms: u64,
}

fn provider<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Provider, D::Error> {
    word(from, "agent.provider", Provider::parse)
}

fn setting_sources<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let sources = Vec::<String>::deserialize(from)?;
    match sources.iter().find(|source| !["user", "project", "local"].contains(&source.as_str())) {
        None => Ok(sources),
        Some(odd) => Err(serde::de::Error::custom(format!(
            "agent.claude.setting_sources can't be {odd:?}: use \"user\", \"project\" and \"local\""
        ))),
    }
}
