//! Where the runner sits: the folders it works in and the pipe it lives by, as the environment names them.
#![expect(clippy::disallowed_methods, reason = "this file is the runner's door to the environment")]

use std::{collections::BTreeMap, env, path::PathBuf};

use crate::tools::{Place, Reach};

/// The runner's places. In a container nothing needs to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The mailbox: `$G2_IPC_DIR`, else `/workspace/ipc`.
    pub(crate) ipc: PathBuf,
    /// The agent's working folder: `$G2_GROUP_DIR`, else `/workspace/group`.
    pub(crate) group: PathBuf,
    /// The number of the life pipe's read end: `$G2_LIFE_FD`.
    pub(crate) life: Option<u32>,
    /// The socket that leads to hosts outside: `$G2_OUTSIDE_SOCKET`.
    pub(crate) outside: Option<PathBuf>,
    /// The program and the arguments that serve our tools to another agent.
    pub(crate) tools: (PathBuf, Vec<String>),
    /// What an agent's program may know of our environment, see [`INHERITED`].
    pub(crate) inherited: BTreeMap<String, String>,
}

/// The variables that are handed on; no other is, so that nothing of the host's reaches an agent by chance.
const INHERITED: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "NODE_USE_ENV_PROXY",
];

/// A variable of the environment can't be what it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadSeat {
    #[error("G2_LIFE_FD is {0:?}: set it to the number of an open pipe's read end, or leave it unset")]
    LifeFd(String),
    #[error("G2_CHAT_JID is not set: set it to the address of the chat that the agent is in")]
    NoChat,
    #[error("G2_REPLY_TIMEOUT_MS is {0:?}: set it to a number of milliseconds, or leave it unset")]
    ReplyTimeout(String),
}

impl Seat {
    /// Returns a seat with these folders, and nothing of the environment's.
    pub(crate) fn at(ipc: PathBuf, group: PathBuf) -> Self {
        let tools = ("g2-agent".into(), vec!["mcp".to_owned()]);
        Self { ipc, group, life: None, outside: None, tools, inherited: BTreeMap::new() }
    }

    /// Returns the places that the environment names.
    ///
    /// # Errors
    /// [`BadSeat`]: a runner that was meant to die with its daemon must not run without knowing how.
    pub(crate) fn from_env() -> Result<Self, BadSeat> {
        Ok(Self {
            ipc: folder("G2_IPC_DIR", IPC),
            group: folder("G2_GROUP_DIR", "/workspace/group"),
            life: number("G2_LIFE_FD").map_err(BadSeat::LifeFd)?,
            outside: env::var_os("G2_OUTSIDE_SOCKET").map(PathBuf::from),
            tools: (
                env::current_exe().unwrap_or_else(|_| "g2-agent".into()),
                env::args().skip(1).chain(["mcp".to_owned()]).collect(),
            ),
            inherited: INHERITED
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
                .collect(),
        })
    }
}

/// The places of a tool server, which has no launch document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpSeat {
    /// The mailbox, as a [`Seat`]'s.
    pub(crate) ipc: PathBuf,
    /// `$G2_CHAT_JID`; `$G2_IS_MAIN` (`1`: it is); `$TZ`, else UTC.
    pub(crate) place: Place,
    /// How long a reply is waited for, ms: `$G2_REPLY_TIMEOUT_MS`; 0: the mailbox's own default.
    pub(crate) reply_timeout_ms: u64,
}

impl McpSeat {
    /// Returns the places that the environment names.
    ///
    /// # Errors
    /// [`BadSeat`] when the chat is not named, or the time-out is no number.
    pub(crate) fn from_env() -> Result<Self, BadSeat> {
        let text = |name: &str| env::var(name).ok().filter(|v| !v.is_empty());
        Ok(Self {
            ipc: folder("G2_IPC_DIR", IPC),
            place: Place {
                chat_jid: text("G2_CHAT_JID").ok_or(BadSeat::NoChat)?,
                reach: if text("G2_IS_MAIN").as_deref() == Some("1") { Reach::All } else { Reach::Own },
                zone: text("TZ").unwrap_or_else(|| "UTC".to_owned()),
            },
            reply_timeout_ms: number("G2_REPLY_TIMEOUT_MS").map_err(BadSeat::ReplyTimeout)?.unwrap_or(0),
        })
    }
}

const IPC: &str = "/workspace/ipc";

fn folder(name: &str, default: &str) -> PathBuf {
    env::var_os(name).filter(|v| !v.is_empty()).map_or_else(|| PathBuf::from(default), PathBuf::from)
}

/// Returns the number that a variable holds, or what it holds instead.
fn number<N: std::str::FromStr>(name: &str) -> Result<Option<N>, String> {
    match env::var_os(name).filter(|v| !v.is_empty()) {
        None => Ok(None),
        Some(v) => match v.to_str().and_then(|v| v.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(v.to_string_lossy().into_owned()),
        },
    }
}
