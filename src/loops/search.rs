//! Keeps the index of archived sessions, on a thread of its own.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::Machine;
use crate::{
    domain::host::{
        disk::{self, Space},
        errors::chain,
    },
    store::{Indexer, Store, StoreError},
};

/// How long it rests where the world is in the way.
const REST: Duration = Duration::from_secs(1);
/// How long it rests before it is begun anew: if the store can't be read, and after a fault of our own.
const AGAIN: Duration = Duration::from_secs(5);
const ANEW: Duration = Duration::from_secs(60);
/// How much less of a processor it gets than others, where they want all of it.
const NICE: i32 = 5;

/// Follows the feed, and indexes what was archived, until `stop`.
pub async fn run(store: Store, machine: Arc<Machine>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let (store, machine, stopping) = (store.clone(), Arc::clone(&machine), stop.clone());
        let indexing = spawn_blocking(move || {
            let indexer = store.indexer()?;
            // Of this thread, which ends with the daemon.
            let _ = rustix::process::setpriority_process(None, NICE);
            index(indexer, &machine, &stopping);
            Ok::<(), StoreError>(())
        });
        let rest = match indexing.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::error!(error = %chain(&error), "what is archived is not indexed; it is tried again");
                AGAIN
            }
            Err(fault) => {
                tracing::error!(fault = %chain(&fault), "our own fault: indexing what is archived failed; it is begun anew");
                ANEW
            }
        };
        let _stopped = tokio::time::timeout(rest, stop.cancelled()).await;
    }
}

fn index(mut indexer: Indexer, machine: &Machine, stop: &CancellationToken) {
    let runtime = Handle::current();
    let mut has_failed = false;
    while !stop.is_cancelled() {
        // The index is large and can be made later. The last space on the disk is for work that people wait for.
        if disk::space(&machine.whole_disk()) != Space::Enough {
            let _stopped = runtime.block_on(tokio::time::timeout(REST, stop.cancelled()));
            continue;
        }
        match indexer.work() {
            Ok(true) => has_failed = false,
            Ok(false) => runtime.block_on(async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = indexer.wait() => {}
                }
            }),
            Err(error) => {
                // Said once, however long the world is in the way.
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(error = %chain(&error), "indexing what is archived failed; it is tried again");
                }
                let _stopped = runtime.block_on(tokio::time::timeout(REST, stop.cancelled()));
            }
        }
    }
}
