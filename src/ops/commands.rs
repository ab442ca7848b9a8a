//! Commands of agents, done for somebody else: the same decisions and the same effects.

use ipc_handlers::{Command, Folder, Outcome, Time};

use super::{By, OpCode, OpError, World};
use crate::{clock, store::Transcripts};

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
    let acted = world.store.act(caller, command, said, config.zones.clone(), now).await?;
    let (outcomes, changes) = acted?;
    for changed in changes.tasks.iter().chain(&changes.groups) {
        world.keeper.changed(Some(changed)).await?;
    }
    for changed in &changes.sessions {
        world.store.put_out_archives(changed.clone(), config.archives, config.archives_bytes).await?;
        // A live run goes on with the session that it has: it leaves, and the next one has the new one.
        if changes.lanes.iter().any(|(group, ..)| group == changed) {
            world.keeper.relaunch(changed);
        }
        world.keeper.changed(Some(changed)).await?;
    }
    let outcome = outcomes.into_iter().next();
    Ok((outcome.ok_or_else(|| OpError::new(OpCode::Failed, "nothing came of it"))?, now))
}
