//! Answers to questions: a pressed button, and what any answer brings about.

use std::sync::Arc;

use ipc_handlers::Folder;

use super::Response;
use crate::{
    clock,
    domain::people::user_id,
    failpoint,
    loops::{Host, ipc::chain, keeper::changed},
    store::{Decided, How},
};

/// Takes in that somebody pressed a button.
pub(super) async fn click(host: &Arc<Host>, press: &str, sender: &str) -> Response {
    let by = user_id("local:", sender);
    match host.store.click(press, &by, clock::now()).await {
        Ok(Decided { how, says, made }) => {
            follow(host, made).await;
            Response::Answered { done: how == How::Done, says }
        }
        Err(error) => Response::Error { message: error.to_string() },
    }
}

/// Sees to what an answer brought about: a group that has no folder yet.
pub(super) async fn follow(host: &Arc<Host>, made: Option<Folder>) {
    if let Some(made) = made {
        failpoint::reach("approval.made");
        lay_out(host, &made);
        changed(host, Some(made)).await;
    }
}

/// Makes the folder of a group that has none.
pub fn lay_out(host: &Host, group: &Folder) {
    if let Err(error) = crate::ipc::lay_out_group(&host.root, group, host.box_owner) {
        tracing::error!(group = %group, error = %chain(&error), "laying out a group's folder failed; it is done when the group is launched");
    }
}
