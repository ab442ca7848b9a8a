//! Commands of agents, done for somebody else: the same decisions and the same effects.

use ipc_handlers::{Command, Folder, Outcome, Time};

use super::{By, OpCode, OpError, Site};
use crate::store::Transcripts;

/// Does a command as if `group` asked, and has everybody look who should. Returns what came of it, and when it was done.
pub(super) async fn act(
    site: &Site<'_>,
    by: &By,
    group: &Folder,
    command: Command,
    said: Transcripts,
) -> Result<(Outcome, Time), OpError> {
    let config = site.config()?;
    let caller = by.caller(group)?;
    let now = site.world.now();
    let outcomes = site.store.act(caller, command, said, config.zones.clone(), now).await??;
    site.store.put_out_archives(group.clone(), config.limits.archives, config.limits.archives_bytes).await?;
    // Loops that follow the feed do the rest: a live run with another session now is asked to leave.
    site.keeper.changed(Some(group)).await?;
    let outcome = outcomes.into_iter().next();
    Ok((outcome.ok_or_else(|| OpError::new(OpCode::Failed, "the command had no outcome"))?, now))
}
