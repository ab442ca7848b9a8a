//! Stores what runs have used of the model. Nobody waits for it: what comes while a commit is under way goes into the
//! next one. A daemon that is killed loses what the store has not taken yet.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{domain::host::errors::chain, gateway::Gateway, store::Store, system::clock};

/// How long a store that can't take it is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Stores the gateway's books whenever they have changed. At `stop` no run is watched any more: what the gateway still
/// has under way ends then, and is stored.
pub async fn run(store: Store, gateway: Arc<Gateway>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = gateway.books().changed() => {}
            () = stop.cancelled() => {
                gateway.stop().await;
                put(&store, &gateway).await;
                return;
            }
        }
        if !put(&store, &gateway).await {
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// Stores what there is; whether it could be.
async fn put(store: &Store, gateway: &Gateway) -> bool {
    let pages = gateway.books().take();
    match store.add_usage(pages.clone(), clock::now()).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "what runs have used can't be stored now; it is tried again");
            gateway.books().put_back(pages);
            false
        }
    }
}
