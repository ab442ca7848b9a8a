//! Providers: what drives the agent. One folder or file each; `scripted` is the built-in agent, `claude` the
//! Claude Code CLI, `acp` any agent that speaks the Agent Client Protocol. `process` and `lines` are what the last two share.
//!
//! A provider's life: `start` brings the agent up (the host is told `ready` when that has returned) → [`Provider::run`]
//! takes turns until there are none. A provider never writes to stdout and never touches the mailbox's folders: it
//! reports to the [`Host`] and asks through its [`Mailbox`](crate::Mailbox).

mod acp;
mod claude;
mod scripted;

mod argument;
mod lines;
mod process;
mod servers;

use ipc_handlers::wire::{self, Launch};

use crate::{files::FileError, host::Host, records::OutputGone, turns::Turns};

pub use acp::AcpError;
pub use claude::ClaudeError;
pub use scripted::{ScriptError, check_script};

/// What drives an agent for the whole of a run.
pub trait Provider: Send {
    /// Takes turns from `turns` and reports to `host` until [`Turns::next`] returns `None` and the last turn is over.
    ///
    /// Each batch is named once in [`Event::TurnDone`](crate::Event::TurnDone), when the agent has finished with it; one
    /// that failed is not named. Several may be under way at once, if the agent takes messages in the middle of a turn.
    ///
    /// # Errors
    /// [`ProviderError`] when the agent can't go on; the runner says so and leaves.
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError>;
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// As the host asked: exit code 0.
    Closed,
    /// With this exit code, in the middle of things.
    Exit(u8),
}

/// The agent can't go on.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Claude(#[from] ClaudeError),
    #[error(transparent)]
    Acp(#[from] AcpError),
    #[error(transparent)]
    Output(#[from] OutputGone),
    #[error("the input folder can't be read any more")]
    Input(#[from] FileError),
}

/// Brings up the agent that the launch names.
///
/// # Errors
/// [`ProviderError`] when it does not come up.
pub(crate) fn start(launch: &Launch, host: &Host) -> Result<Box<dyn Provider>, ProviderError> {
    match &launch.provider {
        wire::Provider::Scripted { script } => {
            Ok(Box::new(scripted::Scripted::start(script.as_deref(), launch, host)?))
        }
        wire::Provider::Acp(acp) => Ok(Box::new(acp::Acp::start(acp, launch, host)?)),
        wire::Provider::Claude(claude) => Ok(Box::new(claude::Claude::start(claude, launch, host)?)),
    }
}
