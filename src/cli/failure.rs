//! How a command fails: its exit code, and what programs are told.

use std::path::{Path, PathBuf};

use ipc_handlers::InvalidFolder;

use crate::{
    ops::{OpCode, OpError, args::BadArgument},
    store::StoreError,
};

pub(crate) type CliResult = Result<(), Failure>;

/// What helps where no daemon runs.
const START: &str = "start it with `g2 start` (or `g2 up`)";

/// What helps where something else answers.
const MORE: &str = "`g2 doctor` says more";

fn mute(root: &Path, why: &str) -> String {
    format!(
        "the process that listens at {}/data/g2.sock does not answer as the daemon does ({why})",
        root.display()
    )
}

/// How a command failed, for the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// 1: failed, refused or timed out.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
    /// 1: an operation was refused, or failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// 2: a required argument is missing.
    #[error(transparent)]
    Usage(OpError),
    /// 3: the daemon is needed and does not run.
    #[error("no daemon runs at {0}; {hint}", hint = START)]
    NotRunning(PathBuf),
    /// 3: the daemon is to be stopped and does not run.
    #[error("no daemon runs at {0}, so there is nothing to stop")]
    NothingToStop(PathBuf),
    /// 3: a process listens on the daemon's socket and does not answer as the daemon does.
    #[error("{}; {hint}", mute(root, why), hint = MORE)]
    Mute { root: PathBuf, why: String },
    /// The answer is on stdout already; only the exit code is left.
    #[error("")]
    Quiet(u8),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Failure {
    /// Returns the exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Op(_) => 1,
            Self::Usage(_) => 2,
            Self::NotRunning(_) | Self::NothingToStop(_) | Self::Mute { .. } => 3,
            Self::Quiet(code) => *code,
        }
    }

    /// Returns the failure for programs; none where the answer is on stdout already.
    pub(super) fn error(&self) -> Option<OpError> {
        Some(match self {
            Self::Op(error) | Self::Usage(error) => error.clone(),
            Self::Failed(error) => error
                .downcast_ref::<OpError>()
                .cloned()
                .or_else(|| Some(error.downcast_ref::<InvalidFolder>()?.clone().into()))
                .unwrap_or_else(|| {
                    let code = if error.is::<BadArgument>() { OpCode::Invalid } else { OpCode::Failed };
                    OpError::new(code, self.to_string())
                }),
            Self::NotRunning(root) => {
                OpError::new(OpCode::NotRunning, format!("no daemon runs at {}", root.display())).hint(START)
            }
            Self::NothingToStop(_) => OpError::new(OpCode::NotRunning, self.to_string()),
            Self::Mute { root, why } => OpError::new(OpCode::NotAnswering, mute(root, why)).hint(MORE),
            Self::Quiet(_) => return None,
        })
    }
}
