//! Stores what runs have used of the model. Nobody waits for it: what comes while a commit is under way goes into the
//! next one. A daemon that is killed loses what the store has not taken yet.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::Host;
use crate::{clock, domain::host::errors::chain};

/// How long a store that can't take it is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Stores the gateway's books whenever they have changed. At `stop` no run is watched any more: what the gateway still
/// has under way ends then, and is stored.
pub async fn run(host: Arc<Host>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = host.gateway.books().changed() => {}
            () = stop.cancelled() => {
                host.gateway.stop().await;
                store(&host).await;
                return;
            }
        }
        if !store(&host).await {
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// Stores what there is; whether it could be.
async fn store(host: &Host) -> bool {
    let pages = host.gateway.books().take();
    match host.store.add_usage(pages.clone(), clock::now()).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "what runs have used can't be stored now; it is tried again");
            host.gateway.books().put_back(pages);
            false
        }
    }
}
