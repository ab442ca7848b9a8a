//! What crosses the border between host and runner: the document on stdin, the records on stdout, the files in
//! `input/` and `state/`. Field names are v1's; our own are marked.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::token::RunToken;

/// The line before a record.
pub const OUTPUT_START: &str = "---G2_OUTPUT_START---";
/// The line after a record.
pub const OUTPUT_END: &str = "---G2_OUTPUT_END---";
/// v1's marker, taken from runners that never announce protocol 2.
pub const V1_OUTPUT_START: &str = "---NANOCLAW_OUTPUT_START---";
/// v1's marker, taken from runners that never announce protocol 2.
pub const V1_OUTPUT_END: &str = "---NANOCLAW_OUTPUT_END---";
/// The file in `input/` that asks a runner to finish and leave.
pub const CLOSE_FILE: &str = "_close";
/// A text that grows beyond this is not shown before it is whole, bytes.
pub const LONGEST_SO_FAR: usize = 64 << 10;
/// Where programs in a container without a network find the way to hosts outside, if the host gives one.
pub const PROXY: &str = "127.0.0.1:3128";
/// The protocol that this host speaks.
pub const PROTOCOL: u32 = 2;

/// The one document a runner reads from stdin, up to end of file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Ours: what was said last in the lane. It stands before the first prompt where the agent does not know `sessionId`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    pub group_folder: String,
    pub chat_jid: String,
    pub is_main: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scheduled_task: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
    /// Ours: what the runner seals its commands with.
    #[serde(default, skip_serializing_if = "RunToken::is_none")]
    #[schemars(with = "String")]
    pub token: RunToken,
    /// Ours: [`PROTOCOL`].
    #[serde(default)]
    pub protocol: u32,
    /// Ours: the run's id.
    #[serde(default)]
    pub run_id: String,
    /// Ours: the lane, as `group chat thread`.
    #[serde(default)]
    pub lane: String,
    /// Ours: the session generation that this run may write back to.
    #[serde(default)]
    pub generation: i64,
    /// Ours: the batch that `prompt` is; empty for a task.
    #[serde(default)]
    pub batch_id: String,
    /// Ours: tools that must be refused.
    #[serde(default)]
    pub blocked_tools: Vec<String>,
    /// Ours: which provider drives the agent.
    #[serde(default)]
    pub provider: Provider,
    /// Ours: bounds on the run.
    #[serde(default)]
    pub limits: Limits,
    /// Ours: what of an answer is said before it is whole.
    #[serde(default, skip_serializing_if = "Say::is_final")]
    pub say: Say,
    /// Ours: the tool servers of the group (MCP), by name; the agent has them beside our own tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Ours: what `${NAME}` stands for in their `env` and `headers`. A server that names another one is left out.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub mcp_secrets: Secrets,
}

/// A tool server, in the form of Claude Code's `.mcp.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum McpServer {
    /// A program that the agent starts beside itself.
    Stdio {
        command: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// `${NAME}` stands for a secret.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// An address, over HTTP.
    Http {
        url: String,
        /// `${NAME}` stands for a secret.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// An address, in the older way.
    Sse {
        url: String,
        /// `${NAME}` stands for a secret.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
}

impl McpServer {
    /// Returns its variables, or its headers: where `${NAME}` stands for a secret.
    #[must_use]
    pub fn texts(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Stdio { env: texts, .. }
            | Self::Http { headers: texts, .. }
            | Self::Sse { headers: texts, .. } => texts,
        }
    }

    /// The same, to be changed.
    pub fn texts_mut(&mut self) -> &mut BTreeMap<String, String> {
        match self {
            Self::Stdio { env: texts, .. }
            | Self::Http { headers: texts, .. }
            | Self::Sse { headers: texts, .. } => texts,
        }
    }
}

/// A piece of a text in which `${NAME}` stands for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    /// The name of a secret, or whatever else stands between the brackets.
    Secret(&'a str),
}

/// Returns the pieces of a text in which `${NAME}` stands for a secret. A `${` that is not closed is text.
#[must_use]
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("${")
        && let Some((name, behind)) = after.split_once('}')
    {
        pieces.extend((!before.is_empty()).then_some(Piece::Text(before)));
        pieces.push(Piece::Secret(name));
        rest = behind;
    }
    pieces.extend((!rest.is_empty()).then_some(Piece::Text(rest)));
    pieces
}

/// What of an answer is said before it is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// Nothing.
    #[default]
    Final,
    /// Each text between tools.
    Texts,
    /// The same, and a text while it grows: records of [`Kind::SoFar`].
    Growing,
}

impl Say {
    fn is_final(&self) -> bool {
        *self == Self::Final
    }
}

/// Names and values of which only the names are ever shown. Written as JSON they are whole: that is for stdin alone.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl Secrets {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns a text with its secrets in place, see [`pieces`].
    ///
    /// # Errors
    /// The name of one that is not here.
    pub fn fill<'t>(&self, text: &'t str) -> Result<String, NoSecret<'t>> {
        let piece = |piece: Piece<'t>| match piece {
            Piece::Text(text) => Ok(text),
            Piece::Secret(name) => self.0.get(name).map(String::as_str).ok_or(NoSecret(name)),
        };
        pieces(text).into_iter().map(piece).collect()
    }
}

/// A secret is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(".env has no {0}")]
pub struct NoSecret<'t>(pub &'t str);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Which provider drives the agent, with what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Provider {
    /// The built-in agent that follows a script; without one it answers `echo: TEXT`.
    Scripted {
        /// The script's text (a JSON list), read by the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script: Option<String>,
    },
    /// The native Claude Code CLI.
    Claude(Box<Claude>),
    /// An agent that speaks the Agent Client Protocol.
    Acp(Box<Acp>),
}

/// How an agent that speaks the Agent Client Protocol is to be run. Keys come in [`Launch::secrets`], never here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Acp {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// More of the agent's environment; it wins over what the runner sets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How the agent is to log in, by one of the names that it offers; left out: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// Tools, by their name or kind, that are refused where the agent asks; besides the blocked ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refuse: Vec<String>,
    /// Folders besides the working folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
    /// The user's time zone, as tools name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// For how long the agent may say nothing in a turn while no tool runs, ms; 0: the runner's default.
    #[serde(skip_serializing_if = "is_zero")]
    pub stall_timeout_ms: u64,
}

/// How the Claude Code CLI is to be run. Keys come in [`Launch::secrets`], never here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Claude {
    /// The program; empty: `claude`, looked up in `PATH`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The only version that may run; left out, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model; left out, the CLI's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where the Messages API is, as `http://model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// More of the CLI's environment, as `ANTHROPIC_UNIX_SOCKET`; it wins over what the runner sets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Folders besides the working folder; the `CLAUDE.md` of each is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
    /// What follows the CLI's own system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// The CLI's own tools that are offered; empty: the runner's list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Whose settings files count (`user`, `project`, `local`); empty: nobody's. The skills in `~/.claude/skills` are
    /// offered all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setting_sources: Vec<String>,
    /// The user's time zone, as tools name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// For how long the CLI may say nothing while it waits for the model, ms; 0: the runner's default.
    #[serde(skip_serializing_if = "is_zero")]
    pub stall_timeout_ms: u64,
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

impl Default for Provider {
    fn default() -> Self {
        Self::Scripted { script: None }
    }
}

/// Bounds that the host puts on a run; 0 means the runner's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// How long a command's reply is waited for, ms.
    #[serde(default)]
    pub reply_timeout_ms: u64,
}

/// What a record is; absent on the wire for [`Kind::Result`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something to say, or the end of a turn with nothing to say.
    #[default]
    Result,
    /// The runner has read its document and its agent is up. Announces protocol 2.
    Ready,
    /// The agent is at work.
    Progress,
    /// The turn is over but background work keeps the run active.
    Deferred,
    /// A tool of the blocked list ran all the same.
    BlockedTool,
    /// What there is so far of the text that comes next: of at most [`LONGEST_SO_FAR`] bytes. The next text takes its place.
    SoFar,
}

/// `success` or `error`, as v1 has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Success,
    Error,
}

/// One record on stdout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub status: Status,
    /// The text to say; `null` when there is none.
    #[serde(default)]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Ours: 1, 2, 3 … in the run; absent from v1 runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Ours: what the record is.
    #[serde(default, rename = "type", skip_serializing_if = "is_result")]
    pub kind: Kind,
    /// Ours: the batches that the agent has finished with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<String>,
    /// Ours, on `ready`: the protocol that the runner speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// Ours, on `progress`: the tool that the agent begins to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Ours, beside `tool`: what tells this use from others of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// Ours, beside `tool`: its first argument, on one line and without secrets ([`crate::used::about`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_about: Option<String>,
    /// Ours, on `progress`: a tool that the agent has used. Hosts that do not know it pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_end: Option<Box<ToolEnd>>,
}

/// The end of a tool's use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolEnd {
    /// The `toolCall` of its beginning.
    pub call: String,
    /// The same as `tool` and `toolAbout` were.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default)]
    pub failed: bool,
    /// How long it took, ms.
    #[serde(default)]
    pub ms: u64,
}

impl Record {
    /// Returns what the agent answered in full.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        let is_answer = self.kind == Kind::Result && self.status != Status::Error;
        self.result.as_deref().filter(|_| is_answer)
    }
}

fn is_result(kind: &Kind) -> bool {
    *kind == Kind::Result
}

/// `input/<batch id>.json`: a follow-up for a live run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Always `message`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The batch's id; absent from v1 hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The formatted prompt.
    pub text: String,
}

/// `state/container_state.json`: what the agent is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerState {
    #[serde(default)]
    pub current_tool: Option<String>,
    /// Milliseconds; capped by the host.
    #[serde(default)]
    pub tool_declared_timeout_ms: Option<u64>,
    /// Milliseconds since the epoch by the container's clock; never compared with ours.
    #[serde(default)]
    pub tool_started_at: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_found_in_a_text() {
        use Piece::{Secret, Text};
        for (text, expected) in [
            ("", &[][..]),
            ("plain $X {Y}", &[Text("plain $X {Y}")]),
            ("${A}", &[Secret("A")]),
            ("Bearer ${A}${B}!", &[Text("Bearer "), Secret("A"), Secret("B"), Text("!")]),
            ("${A:-x} ${", &[Secret("A:-x"), Text(" ${")]),
            ("${}", &[Secret("")]),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn of_secrets_only_the_names_are_shown() {
        let secrets = Secrets([("ANTHROPIC_API_KEY".to_owned(), "sk-real".to_owned())].into());
        assert_eq!(format!("{secrets:?}"), r#"{"ANTHROPIC_API_KEY"}"#);
        assert_eq!(serde_json::to_string(&secrets).unwrap(), r#"{"ANTHROPIC_API_KEY":"sk-real"}"#);
    }
}
