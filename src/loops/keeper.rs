//! What operations have the daemon's loops do: look again, have a run leave, settle what lies in a group's boxes.

use std::{sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{Host, snapshots};
use crate::{
    domain::{
        host::errors::chain,
        runs::lanes::{Event, Holding},
    },
    ipc::{Claimed, GroupBoxes},
    loops::Ask,
    ops::{self, Answer, By, Keeper, Later, Op, OpCode, OpError, World, ipc::Hand},
};

/// How many operations run at a time. They may look at many files, and others need threads for that too.
const AT_A_TIME: usize = 8;
/// How long a run may take to be stopped, once its grace for leaving is over.
const STOPPING: Duration = Duration::from_secs(20);

/// A place for each operation that may run now.
pub struct Operations(Semaphore);

impl Default for Operations {
    fn default() -> Self {
        Self(Semaphore::new(AT_A_TIME))
    }
}

/// Does an operation.
///
/// # Errors
/// [`OpError`].
pub(super) async fn perform(host: &Arc<Host>, by: By, op: Op) -> Result<Answer, OpError> {
    let _place = host.operations.0.acquire().await;
    let host = Arc::clone(host);
    // It looks at files, and may wait for a disk.
    let work = move || {
        let serving = Serving(host);
        let host = &serving.0;
        let world = World {
            root: &host.root,
            settings: Ok(&host.config),
            store: &host.store,
            box_owner: host.box_owner,
            keeper: &serving,
        };
        Handle::current().block_on(ops::perform(&world, &by, op))
    };
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "an operation failed; that is our fault");
            Err(OpError::new(OpCode::Unknown, "the daemon failed while it did this")
                .hint("look whether it is done; the daemon's log has more"))
        }
    }
}

/// The daemon, as operations see it.
struct Serving(Arc<Host>);

impl Serving {
    async fn empty(&self, group: &Folder) -> Result<(), OpError> {
        let _ = self.0.lanes.send(Event::GroupRemoved { group: group.clone() });
        self.wait_for_end(group).await?;
        let (done, drained) = oneshot::channel();
        if self.0.mailboxes.send(Ask::Drain(group.clone(), done)).is_ok() {
            let _ = drained.await;
        }
        Ok(())
    }

    async fn wait_for_end(&self, group: &Folder) -> Result<(), OpError> {
        let deadline = Instant::now() + Duration::from_millis(self.0.config.health.close_grace_ms) + STOPPING;
        let mut feed = self.0.store.follow().await?;
        while let Some(run) = self.0.store.active_run_of(group)? {
            if timeout_at(deadline, feed.next()).await.is_err() {
                let still = format!("group {group} is still there: its run {run} does not end");
                return Err(OpError::refused(still).hint(format!("see `g2 runs show {run}`")));
            }
        }
        Ok(())
    }
}

impl Keeper for Serving {
    fn changed<'a>(&'a self, group: Option<&'a Folder>) -> Later<'a, Result<(), OpError>> {
        Box::pin(async move {
            changed(&self.0, group.cloned()).await;
            Ok(())
        })
    }

    fn relaunch(&self, group: &Folder) {
        let _ = self.0.lanes.send(Event::CloseAsked { group: group.clone() });
    }

    fn keep_out(&self, group: &Folder) {
        let _ = self.0.lanes.send(Event::Hold { group: group.clone(), reason: Holding::Removal });
    }

    fn let_in(&self, group: &Folder) {
        let _ = self.0.lanes.send(Event::Release { group: group.clone(), reason: Holding::Removal });
    }

    fn empty<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>> {
        Box::pin(self.empty(group))
    }

    fn boxes(&self, group: &Folder) -> Result<Arc<GroupBoxes>, OpError> {
        Ok(self.0.boxes(group)?)
    }

    fn hand(&self) -> Result<Hand<'_>, OpError> {
        Ok(self.0.hand())
    }

    fn settle(&self, claimed: Claimed) -> Later<'_, Option<Claimed>> {
        Box::pin(async move {
            let (done, settled) = oneshot::channel();
            if self.0.mailboxes.send(Ask::Settle(claimed, done)).is_ok() {
                let _ = settled.await;
            }
            None
        })
    }

    fn is_serving(&self) -> bool {
        true
    }
}

/// Takes in what was changed in the store, about a group or about who knows what. When it returns, boxes and snapshots are as
/// the store is.
pub(super) async fn changed(host: &Arc<Host>, group: Option<Folder>) {
    if let Err(error) = host.store.look_at_feed().await {
        tracing::error!(error = %chain(&error), "reading the feed of changes failed; it is read again in a second");
    }
    let (done, opened) = oneshot::channel();
    if host.mailboxes.send(Ask::Groups(done)).is_ok() {
        let _ = opened.await;
    }
    let at_work = Arc::clone(host);
    let written = spawn_blocking(move || snapshots::write_awaited(&at_work, group.as_ref().as_slice()));
    if let Err(fault) = written.await {
        tracing::error!(%fault, "our own fault: following the feed of changes failed");
    }
}
