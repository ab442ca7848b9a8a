//! Removes files of messages that no row names any more: at the start, what a daemon that died had copied; each hour, those of
//! history that was pruned.

use std::{io, ops::ControlFlow, sync::Arc, time::Duration};

use ipc_handlers::Folder;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{host::errors::chain, platforms::attachments::shown_of},
    store::Store,
    system::media::Media,
};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(3600);

/// Runs until the daemon stops.
pub async fn run(store: Store, media: Arc<Media>, stop: CancellationToken) {
    loop {
        let (at, of, stopping) = (store.clone(), Arc::clone(&media), stop.clone());
        let swept = spawn_blocking(move || sweep(&at, &of, &stopping));
        match swept.await.map_err(io::Error::other).and_then(|swept| swept) {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "files that no message has any more are removed"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "looking for files that no message has failed")
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Removes what no row names, and returns how many of the kept files that were. Blocks.
fn sweep(store: &Store, media: &Media, stop: &CancellationToken) -> io::Result<u64> {
    let runtime = tokio::runtime::Handle::current();
    let (mut gone, mut failed) = (0, None);
    // First what groups are shown, as a name of its own keeps a file on the disk.
    media.sweep_shown(|group, name| {
        let is_group = || Folder::parse(group).map_or(Ok(false), |group| store.has_group(&group));
        match shown_of(name) {
            _ if stop.is_cancelled() => true,
            _ if matches!(is_group(), Ok(false)) => false,
            None => name.is_empty(),
            // Of a store that can't be read, nothing is removed.
            Some((seq, n)) => runtime.block_on(store.has_file(seq, n)).unwrap_or(true),
        }
    })?;
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
