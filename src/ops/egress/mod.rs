//! Hosts outside that a group may reach, or may not.

use ipc_handlers::Folder;

use super::{By, Done, OpError, Operation, Site};
use crate::domain::runs::{
    outside::{EgressRow, Pattern, Verdict},
    run_settings::Network,
};

pub mod allow;
pub mod deny;
pub mod remove;

/// Makes a rule, or removes it, and has what holds now hold for the group's live run and its open connections.
async fn change(
    site: &Site<'_>,
    folder: &Folder,
    host: &Pattern,
    verdict: Option<Verdict>,
) -> Result<EgressRow, OpError> {
    site.group(folder).await?;
    let row = site.store.set_rule_outside(folder.clone(), host.clone(), verdict, site.world.now()).await?;
    site.keeper.rules_changed(folder)?;
    Ok(row)
}

/// Notes that a rule has no effect under another network than this.
async fn notes(site: &Site<'_>, folder: &Folder) -> Result<Option<String>, OpError> {
    let group = site.group(folder).await?;
    let own = group.config().ok().and_then(|config| config.network);
    let network = own.or_else(|| site.settings.ok().map(|config| config.sandbox.network));
    Ok(network.filter(|network| *network != Network::Allowlist).map(|_| {
        format!("this has no effect before the group has the network for it: g2 groups set {folder} network=allowlist")
    }))
}
