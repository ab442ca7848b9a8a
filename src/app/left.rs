//! What the last daemon left to be taken in, and whom it died over.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use ipc_handlers::{Folder, Time};

use crate::{
    domain::{
        machine::deaths,
        mailbox::holds::{Hold, Holds},
    },
    ipc::Claims,
    loops::starts::{Found, What},
    sandbox::Sandbox,
    store::Store,
};

/// Returns what the last daemon left to be taken in, but for groups that are set aside already.
pub(super) fn left_behind(claims: &Claims, store: &Store, sandbox: &dyn Sandbox) -> Result<Found> {
    let aside = Holds::new(store.holds()?);
    let claimed = claims.left_over().context("reading data/claimed")?.claims.into_iter();
    let mut found: Found = claimed.map(|claimed| (claimed.folder, What::Claims)).collect();
    if sandbox.survives_us() {
        let runs = store.active_runs()?.into_iter().filter(|run| run.sandbox == sandbox.kind());
        found.extend(runs.map(|run| (run.group, What::Output)));
    }
    found.retain(|(group, _)| !aside.aside(group));
    Ok(found)
}

/// Holds groups that the daemon died over again and again.
pub(super) async fn set_aside(store: &Store, groups: BTreeSet<Folder>, now: Time) -> Result<()> {
    for group in groups {
        if store.group(&group).await?.is_none() {
            tracing::error!(group = %group, "the daemon died again and again over commands of a group that is gone; `g2 ipc list` names them");
            continue;
        }
        let reason = format!(
            "the daemon died {} times in a row while it took in what this group had asked for or said",
            deaths::DEATHS
        );
        let hold = Hold { group, file: None, reason: Some(reason.clone()), at: now, aside: true };
        tracing::error!(group = %hold.group, reason, "a group is set aside");
        store.hold(hold).await?;
    }
    Ok(())
}
