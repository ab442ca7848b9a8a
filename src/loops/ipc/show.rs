//! What commands changed, brought to whoever looks at it: before the reply, where somebody waits for it.

use std::collections::BTreeSet;

use ipc_handlers::Folder;
use tokio::sync::oneshot;

use super::{
    super::{
        Host,
        snapshots::{self, Shown},
    },
    Ask, chain,
    read::Pending,
};
use crate::{
    domain::lanes::{Event, LaneId},
    store::{Changes, Settled},
};

/// Brings forward what the commands of a group changed.
pub(super) fn changes(host: &Host, folder: &Folder, answers: &[(Pending, Settled)]) {
    let asked = answers.iter().any(|(_, settled)| settled.receipt.request_id.is_some());
    let all = || answers.iter().map(|(_, settled)| &settled.changes);
    groups(host, all());
    for (group, lane, generation) in all().flat_map(|changes| changes.lanes.iter()) {
        let (group, lane) = (group.clone(), LaneId(*lane));
        let _ = host.lanes.send(Event::SessionCleared { group, lane, generation: *generation });
    }
    for group in all().flat_map(|changes| changes.sessions.iter()).collect::<BTreeSet<_>>() {
        put_out_archives(host, group);
    }
    // One snapshot a group, however many commands changed what it shows.
    let mut whole: BTreeSet<&Folder> = all().flat_map(|changes| changes.sessions.iter()).collect();
    whole.extend(all().flat_map(|changes| changes.groups.iter()));
    if all().any(|changes| changes.chats || !changes.groups.is_empty()) {
        whole.insert(folder);
    }
    let mut tasks: BTreeSet<&Folder> = all().flat_map(|changes| changes.tasks.iter()).collect();
    // Main sees every group's.
    let main = host.store.main_group().unwrap_or_else(|error| {
        tracing::error!(error = %chain(&error), "finding main for a snapshot failed");
        None
    });
    if !tasks.is_empty() {
        tasks.extend(&main);
        host.nudges.schedule.notify_one();
    }
    for group in &whole {
        snapshots::write_now(host, group, Shown::All);
    }
    for group in tasks.difference(&whole) {
        // Shown to the group before it is answered. Where nobody waits for an answer, once for many commands.
        if asked && *group == folder {
            snapshots::write_now(host, group, Shown::Tasks);
        } else {
            host.snapshots.soon(group, Shown::Tasks);
        }
    }
    if all().any(|changes| changes.said) {
        host.nudges.deliver.notify_one();
    }
}

/// Keeps the archive of a group within its bounds. What a crash leaves undone is done after the next change.
fn put_out_archives(host: &Host, group: &Folder) {
    let (most, bytes) = (host.config.limits.archives, host.config.limits.archives_bytes);
    let put_out =
        tokio::runtime::Handle::current().block_on(host.store.put_out_archives(group.clone(), most, bytes));
    match put_out {
        Ok(0) => {}
        Ok(count) => tracing::info!(group = %group, count, "the oldest archived sessions were put out"),
        Err(error) => {
            tracing::warn!(group = %group, error = %chain(&error), "putting archived sessions out failed; it is tried again after the next change")
        }
    }
}

/// Groups that were registered have their folder and their boxes before anybody is told of them.
fn groups<'a>(host: &Host, changes: impl Iterator<Item = &'a Changes>) {
    let made: BTreeSet<&Folder> = changes.flat_map(|changes| changes.groups.iter()).collect();
    if made.is_empty() {
        return;
    }
    for group in made {
        if let Err(error) = crate::ipc::lay_out_group(&host.root, group, host.box_owner) {
            tracing::error!(group = %group, error = %chain(&error), "laying out a group's folder failed; it is done when the group is launched");
        }
        if let Err(error) = host.boxes(group) {
            tracing::error!(group = %group, error = %chain(&error), "opening the boxes failed");
        }
    }
    // Its worker looks at what is there by then. Nobody waits for that: at the start the loop does not run yet.
    let (done, _) = oneshot::channel();
    let _ = host.mailboxes.send(Ask::Groups(done));
    host.nudges.dispatch.notify_one();
}
