//! At start: what an earlier daemon had claimed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tracing::Instrument as _;

use super::{
    super::starts::What,
    Mailboxes,
    fault::{Panicked, blocking, one_by_one, stranded},
    flow::{Handled, Slow, handle},
    read::{Patience, Taken},
    span,
};
use crate::ipc::{Claimed, WorldFault};

/// Claims of an earlier daemon that are not settled yet.
pub struct Left {
    /// Files whose writer may not be done, and slow ones: [`super::Mailbox`] goes on with them.
    pub(super) growing: Vec<Claimed>,
    /// Claims of groups that are set aside. They wait for the release.
    pub(super) aside: BTreeMap<Folder, Vec<Claimed>>,
}

/// At start, before anything is launched and a box is looked at: goes on with what an earlier daemon had claimed, in the
/// order of the claims; of groups that are set aside with nothing. Returns what could not be settled yet.
///
/// # Errors
/// [`WorldFault`] when `data/claimed` can't be read: a claim goes before the files in the boxes.
pub async fn recover(mail: &Arc<Mailboxes>) -> Result<Left, WorldFault> {
    let found = mail.claims.left_over()?;
    for name in found.strange {
        tracing::warn!(name, "something in data/claimed is no claim of ours; it is left alone");
    }
    let mut by_group: BTreeMap<Folder, Vec<Claimed>> = BTreeMap::new();
    for claimed in found.claims {
        by_group.entry(claimed.folder.clone()).or_default().push(claimed);
    }
    let (aside, by_group): (BTreeMap<_, _>, BTreeMap<_, _>) =
        by_group.into_iter().partition(|(folder, _)| mail.held.is_aside(folder));
    let groups = by_group.into_iter().map(|(folder, claims)| {
        let of = span(&folder);
        recover_group(mail, folder, claims).instrument(of)
    });
    let growing: Vec<Vec<Claimed>> = futures_util::future::join_all(groups).await;
    Ok(Left { growing: growing.into_iter().flatten().collect(), aside })
}

async fn recover_group(mail: &Arc<Mailboxes>, folder: Folder, claims: Vec<Claimed>) -> Vec<Claimed> {
    let turn = mail.starts.turn().await;
    mail.starts.taking(&folder, What::Claims);
    // Nobody looks again on behalf of a group that is gone.
    if matches!(mail.store.group(&folder).await, Ok(None)) {
        refuse(mail, folder, claims).await;
        drop(turn);
        return Vec::new();
    }
    // Slow commands are the worker's business: a start waits for no transcript.
    let handled = take_in(mail, &folder, claims, Patience::Some, Slow::Later).await;
    // Nobody waits for claims that the store can't take now: their worker takes them up again, before later ones.
    let mut left: Vec<Claimed> = handled.waiting.into_iter().map(|pending| pending.claimed).collect();
    left.extend(handled.growing);
    if left.is_empty() && !mail.searches.has(&folder) {
        mail.starts.taken(&folder, What::Claims);
    } else {
        mail.starts.rests(&folder, What::Claims);
    }
    drop(turn);
    left
}

/// Refuses a group's claims of an earlier daemon. The group is gone.
pub(super) async fn refuse(mail: &Arc<Mailboxes>, folder: Folder, claims: Vec<Claimed>) {
    let handled = take_in(mail, &folder, claims, Patience::None, Slow::Now).await;
    if !handled.waiting.is_empty() {
        tracing::warn!(
            commands = handled.waiting.len(),
            "commands of a group that is gone can't be settled now; the next start does it"
        );
    }
    mail.starts.taken(&folder, What::Claims);
}

async fn take_in(
    mail: &Arc<Mailboxes>,
    folder: &Folder,
    claims: Vec<Claimed>,
    patience: Patience,
    slow: Slow,
) -> Handled {
    let taken = claims.into_iter().map(|claimed| Taken::before(claimed, Duration::ZERO)).collect();
    let (handling, of) = (Arc::clone(mail), folder.clone());
    match blocking(mail, folder, "taking in", move || handle(&handling, &of, taken, patience, slow)).await {
        Ok(handled) => handled,
        Err(Panicked) => {
            let claims = stranded(mail, folder, &[]).await;
            one_by_one(mail, folder, claims, patience).await
        }
    }
}
