//! At start: what an earlier daemon had claimed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::task::spawn_blocking;

use super::{
    super::Host,
    answer::settle_again,
    chain,
    flow::{Slow, handle},
    read::{Patience, Taken},
};
use crate::ipc::Claimed;

/// At start, before anything is launched and a box is looked at: goes on with what an earlier daemon had claimed, in the
/// order of the claims. Returns what could not be settled yet, as its writer may still be at it: [`super::run`] goes on with it.
pub async fn recover(host: &Arc<Host>) -> Vec<Claimed> {
    let left = match host.claims.left_over() {
        Ok(left) => left,
        Err(error) => {
            tracing::error!(error = %chain(&error), "reading data/claimed failed");
            return Vec::new();
        }
    };
    for name in left.strange {
        tracing::warn!(name, "something in data/claimed is no claim of ours; it is left alone");
    }
    let mut by_group: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
    for claimed in left.claims {
        by_group.entry(claimed.folder.clone()).or_default().push(claimed);
    }
    let groups = by_group.into_iter().map(|(folder, claims)| recover_group(host, folder, claims));
    futures_util::future::join_all(groups).await.into_iter().flatten().collect()
}

async fn recover_group(host: &Arc<Host>, folder: Folder, claims: Vec<Claimed>) -> Vec<Claimed> {
    // Nobody looks again on behalf of a group that is gone.
    let gone = matches!(host.store.group(&folder), Ok(None));
    let patience = if gone { Patience::None } else { Patience::Some };
    let taken = claims.into_iter().map(|claimed| Taken::before(claimed, Duration::ZERO)).collect();
    // What is slow is the worker's business: a start waits for no search and no transcript. Of a group that is gone it is refused.
    let slow = if gone { Slow::Now } else { Slow::Later };
    let (handling, of) = (Arc::clone(host), folder.clone());
    let handled =
        spawn_blocking(move || handle(&handling, &of, taken, patience, slow)).await.unwrap_or_default();
    settle_again(host, &folder, handled.waiting).await;
    handled.growing
}
