//! Commands of agents, done by a person: the same decisions and the same effects, with main's rights.

use anyhow::anyhow;
use ipc_handlers::{Command, Folder, Outcome};

use super::{
    Context, Failure,
    client::{tell_changed, tell_to_relaunch},
};
use crate::{
    clock,
    store::{Store, Transcripts},
};

/// Does it as if `group` asked, tells a daemon that is up, and returns what came of it.
pub(super) async fn act(
    context: &Context,
    store: &Store,
    group: &Folder,
    command: Command,
    said: Transcripts,
) -> Result<Outcome, Failure> {
    let zones = context.config()?.zones;
    let acted = store.act(group.clone(), command, said, zones, clock::now()).await?;
    let (outcomes, changes) =
        acted.map_err(|refusal| anyhow!("{}; {} ({})", refusal.message, refusal.hint, refusal.code))?;
    for changed in changes.tasks.iter().chain(&changes.groups) {
        tell_changed(context, Some(changed)).await;
    }
    for changed in &changes.sessions {
        let config = context.config()?;
        store.put_out_archives(changed.clone(), config.archives, config.archives_bytes).await?;
        // A live run goes on with the session that it has: it leaves, and the next one has the new one.
        if changes.lanes.iter().any(|(group, ..)| group == changed) {
            tell_to_relaunch(context, changed).await;
        } else {
            tell_changed(context, Some(changed)).await;
        }
    }
    outcomes.into_iter().next().ok_or_else(|| anyhow!("nothing came of it").into())
}
