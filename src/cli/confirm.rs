//! What can't be brought back is asked about on a terminal, and needs `--yes` anywhere else.

use std::io::{IsTerminal as _, stderr, stdin};

use clap::Args;

use super::{CliResult, Context, Failure, out};
use crate::{
    ops::{Op, OpError},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct Yes {
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
}

impl Yes {
    /// It was said before.
    pub(super) const GIVEN: Self = Self { yes: true };

    /// Asks about what an operation takes away. Returns it, to be done with the store closed.
    ///
    /// # Errors
    /// As [`Self::to`]; those of the store.
    pub(super) async fn to_do(
        &self,
        context: &Context,
        store: Store,
        op: impl Into<Op>,
    ) -> Result<Op, Failure> {
        let op = op.into();
        match op.loss(&context.root, &store, context.world.now()).await? {
            Some(loss) => self.to(&loss.says).map(|()| op),
            None => Ok(op),
        }
    }

    /// Goes on where this was said before, or is said now.
    ///
    /// # Errors
    /// [`Failure::Usage`] where nobody can be asked; [`Failure::Failed`] after a no.
    pub(super) fn to(&self, loss: &str) -> CliResult {
        if self.yes {
            return Ok(());
        }
        if !stdin().is_terminal() || !stderr().is_terminal() {
            return Err(Failure::Usage(OpError::invalid(format!("nothing was done. With --yes {loss}"))));
        }
        out::ask(&format!("{loss}. Go on? [y/N] "));
        let mut line = String::new();
        stdin().read_line(&mut line).map_err(|e| anyhow::Error::new(e).context("reading the answer"))?;
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Failed(anyhow::anyhow!("nothing was changed"))),
        }
    }
}
