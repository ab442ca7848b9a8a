//! Commands of agents, done for somebody else: the same decisions and the same effects.

use ipc_handlers::{Command, Folder, Outcome, Time};

use super::{By, OpCode, OpError, World};
use crate::{store::Transcripts, system::clock};

/// Does a command as if `group` asked, and has everybody look who should. Returns what came of it, and when it was done.
pub(super) async fn act(
    world: &World<'_>,
    by: &By,
    group: &Folder,
    command: Command,
    said: Transcripts,
) -> Result<(Outcome, Time), OpError> {
    let config = world.config()?;
    let caller = by.caller(group)?;
    let now = clock::now();
    let outcomes = world.store.act(caller, command, said, config.zones.clone(), now).await??;
    world.store.put_out_archives(group.clone(), config.limits.archives, config.limits.archives_bytes).await?;
    // Loops that follow the feed do the rest: a live run with another session now is asked to leave.
    world.keeper.changed(Some(group)).await?;
    let outcome = outcomes.into_iter().next();
    Ok((outcome.ok_or_else(|| OpError::new(OpCode::Failed, "the command had no outcome"))?, now))
}
