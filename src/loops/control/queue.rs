//! What a person asks the daemon to do with a command.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    sync::Arc,
};

use ipc_handlers::Folder;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::oneshot, task::spawn_blocking};

use super::super::{
    Host,
    ipc::{
        Ask, chain,
        hand::{self, HandError},
    },
};
use crate::{
    clock,
    domain::{holds::Hold, states::CommandOutcome},
    ipc::{Claimed, CommandBox, display_name},
};

/// A command that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// By its claim's id.
    Claim(i64),
    /// One that waits: its box, and its name's bytes.
    File { group: Folder, in_box: String, name: Vec<u8> },
}

/// Returns what is held, as people name it.
#[must_use]
pub fn shown(hold: &Hold) -> String {
    match &hold.file {
        None => hold.group.to_string(),
        Some((in_box, name)) => {
            format!("{}/{in_box}/{}", hold.group, display_name(std::ffi::OsStr::from_bytes(name)))
        }
    }
}

/// Drops a command; returns its id.
pub(super) async fn drop(host: Arc<Host>, which: Which, reason: String) -> Result<i64, String> {
    match which {
        Which::File { group, in_box, name } => {
            let in_box = CommandBox::ALL.into_iter().find(|b| b.as_str() == in_box);
            let in_box = in_box.ok_or("there is no such box")?;
            let work = move || {
                let boxes = host.boxes(&group)?;
                let name = OsString::from_vec(name);
                let done = hand::drop_waiting(host.hand(), &boxes, in_box, &name, reason, clock::now());
                let id = Handle::current().block_on(done)?;
                host.look_at_holds()?;
                Ok(id)
            };
            blocking(work).await
        }
        Which::Claim(id) => {
            let (at_work, now) = (Arc::clone(&host), clock::now());
            let claimed = blocking(move || match at_work.store.settled_file(id)? {
                Some(file) if file.outcome == CommandOutcome::Malformed => {
                    hand::drop_dead(at_work.hand(), &file.group, id).map(|()| None)
                }
                Some(_) | None => {
                    Handle::current().block_on(hand::note_drop(at_work.hand(), id, reason, now)).map(Some)
                }
            })
            .await?;
            if let Some(claimed) = claimed {
                settle(&host, claimed).await;
            }
            Ok(id)
        }
    }
}

/// Has a command decided anew; returns the new claim's id.
pub(super) async fn retry(host: Arc<Host>, of: i64) -> Result<i64, String> {
    let at_work = Arc::clone(&host);
    let claimed =
        blocking(move || Handle::current().block_on(hand::retry(at_work.hand(), of, clock::now()))).await?;
    let id = claimed.id;
    settle(&host, claimed).await;
    Ok(id)
}

async fn settle(host: &Host, claimed: Claimed) {
    let (done, settled) = oneshot::channel();
    if host.mailboxes.send(Ask::Settle(claimed, done)).is_ok() {
        let _ = settled.await;
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HandError> + Send + 'static,
) -> Result<T, String> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| chain(&error)),
        Err(error) => Err(error.to_string()),
    }
}
