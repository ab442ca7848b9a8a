//! Removes files of messages that no row names any more: at the start, what a daemon that died had copied; each hour, those of
//! history that was pruned.

use std::{io, ops::ControlFlow, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{machine::loops::LoopName, platforms::attachments::shown_of},
    engine::{Error, Loop, Plan, Sole, Then, Why},
    store::{Store, StoreError},
    system::{media::Media, world::World},
};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(3600);

/// Removes files that no message has any more.
pub struct Sweep(Arc<Shelves>);

/// What the loop works with.
pub struct Shelves {
    world: World,
    store: Store,
    media: Arc<Media>,
}

impl Sweep {
    #[must_use]
    pub fn new(world: World, store: Store, media: Arc<Media>) -> Self {
        Self(Arc::new(Shelves { world, store, media }))
    }
}

impl Loop for Sweep {
    const NAME: LoopName = LoopName::Media;
    /// It reads all names.
    const RESTS_AT_MOST: Duration = EVERY;
    type Key = Sole;
    type Job = ();
    type Hands = Shelves;

    fn hands(&self) -> Arc<Shelves> {
        Arc::clone(&self.0)
    }

    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        Ok(Plan { begin: vec![(Sole, ())], again: Some(EVERY), ..Plan::default() })
    }

    async fn perform(shelves: Arc<Shelves>, _: Sole, (): (), stop: CancellationToken) -> Result<Then, Error> {
        let world = shelves.world.clone();
        let gone = world.tried(move || sweep(&shelves.store, &shelves.media, &stop)).await?;
        if gone > 0 {
            tracing::info!(gone, "files that no message has any more are removed");
        }
        Ok(Then::Done)
    }
}

/// Removes what no row names, and returns how many of the kept files that were. Blocks.
fn sweep(store: &Store, media: &Media, stop: &CancellationToken) -> io::Result<u64> {
    let (mut gone, mut unread, mut failed) = (0, None, None);
    // Of a store that can't be read, nothing is removed.
    let mut stays = |read: Result<bool, StoreError>| {
        read.unwrap_or_else(|error| {
            unread = Some(error);
            true
        })
    };
    // First what groups are shown, as a name of its own keeps a file on the disk.
    media.sweep_shown(|group, name| {
        let is_group = || Folder::parse(group).map_or(Ok(false), |group| store.has_group(&group));
        match shown_of(name) {
            _ if stop.is_cancelled() => true,
            _ if !stays(is_group()) => false,
            None => name.is_empty(),
            Some((seq, n)) => stays(store.world().wait(store.has_file(seq, n))),
        }
    })?;
    if let Some(error) = unread {
        return Err(io::Error::other(error));
    }
    media.each_kept(|digest| {
        if stop.is_cancelled() {
            return ControlFlow::Break(());
        }
        match media.forget(&digest, || store.names_file(&digest).map_err(io::Error::other)) {
            Ok(is_gone) => gone += u64::from(is_gone),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(gone), Err)
}
